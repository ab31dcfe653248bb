"""What the studio says: one line on how the goals stand, and one for each limit in the way."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

import posable as ps

AT_LIMIT = 1e-4  # [rad, m] within which a joint counts as standing at its limit
_SLIDES = ("tx", "ty", "tz", "t1", "t2")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-!|~>:])")


def plain(text: str) -> str:
    """Return a text without control and formatting characters, which could hide or forge parts of it."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") else c for c in str(text))


def marked(name: str) -> str:
    """Return a name that came from a file, to be put into Markdown: nothing in it is markup."""
    return _MARKDOWN.sub(r"\\\1", html.escape(plain(name)))


@dataclass(frozen=True)
class AtLimit:
    """A degree of freedom that stands at a limit."""

    dof: int
    name: str
    joint: str
    side: str
    value: float


def joint_of(skeleton: ps.Skeleton, dof_name: str) -> str:
    """Return the joint that a degree of freedom belongs to."""
    return dof_name if dof_name in skeleton.names else dof_name.rpartition(".")[0]


def slides(skeleton: ps.Skeleton, dof: int) -> bool:
    """Say whether a degree of freedom is a length, not an angle."""
    name = skeleton.dof_names[dof]
    part = name.rpartition(".")[2]
    return part in _SLIDES or type(skeleton.joint(joint_of(skeleton, name)).motion).__name__ == "Prismatic"


def limits_met(skeleton: ps.Skeleton, pose: np.ndarray) -> tuple[AtLimit, ...]:
    """Return the degrees of freedom that stand at a limit at a pose (n,)."""
    span = skeleton.upper - skeleton.lower
    low = (pose <= skeleton.lower + AT_LIMIT) & (span > 0)
    high = (pose >= skeleton.upper - AT_LIMIT) & (span > 0)
    out = []
    for dof in np.flatnonzero(low | high):
        name = skeleton.dof_names[dof]
        out.append(
            AtLimit(int(dof), name, joint_of(skeleton, name), "lower" if low[dof] else "upper", float(pose[dof]))
        )
    return tuple(out)


def amount(value: float, *, angle: bool = False) -> str:
    """Return a length or an angle as people say it."""
    if angle:
        return f"{np.degrees(value):.1f}°"
    return (
        f"{value * 1e3:.1f} mm"
        if abs(value) < 0.1
        else f"{value * 1e2:.1f} cm"
        if abs(value) < 1.0
        else f"{value:.2f} m"
    )


def standing(answer: Any, modes: dict[str, str]) -> str:
    """Return how the goals stand: reached, or which handle misses its target by how much."""
    missed = {}
    for name, error in answer.errors.items():
        body = name if name in answer.tolerances else name.rpartition(".")[0]
        turn = name != body or modes.get(body) == "orientation"
        allowed = answer.tolerances.get(body, np.inf) * (5.0 if turn else 1.0)
        if error > allowed:
            missed[name] = amount(error, angle=turn)
    if not missed:
        reached = [name for name, allowed in answer.tolerances.items() if np.isfinite(allowed)]
        names = ", ".join(f"**{marked(name)}**" for name in reached[:6])
        return f"Reached: {names}." if names else "Every handle is where it should be."
    return "; ".join(f"**{marked(name)}** misses by {text}" for name, text in missed.items()) + "."


def in_the_way(skeleton: ps.Skeleton, blocks: tuple[Any, ...], most: int = 4) -> list[str]:
    """Return a sentence for each limit in the way: which, where it stands, and what it costs which goal."""
    out = []
    for block in blocks[:most]:
        straight = slides(skeleton, skeleton.dof(block.dof))
        least = {name: np.radians(0.1) if name in block.angles else 1e-4 for name in block.gain}
        best = sorted(((name, gain) for name, gain in block.gain.items() if gain > least[name]), key=lambda g: -g[1])[
            :2
        ]
        told = " and ".join(f"{marked(name)} {amount(gain, angle=name in block.angles)} closer" for name, gain in best)
        more = "5 mm" if straight else "5°"
        out.append(
            f"**{marked(block.dof)}** is at its {block.side} limit ({amount(block.limit, angle=not straight)})"
            + (f"; {more} more would bring {told}" if told else "")
        )
    return out


def inside_each_other(touches: tuple[Any, ...], floor: float, most: int = 2) -> list[str]:
    """Return a sentence for each limb inside another one, and for what is deeper below the floor than `floor` [m]."""
    limbs = [
        f"**{marked(touch.joint)}** passes through **{marked(touch.other)}** ({amount(touch.depth)} deep)."
        for touch in touches if touch.other
    ]  # fmt: skip
    below = [
        f"**{marked(touch.joint)}** is {amount(touch.depth)} below the floor."
        for touch in touches if not touch.other and touch.depth > floor
    ]  # fmt: skip
    return [*limbs[:most], *below[:most]]


def why_missed(reasons: tuple[Any, ...], most: int = 3) -> list[str]:
    """Return a sentence for each reason that goals are missed, but those about limits, which `in_the_way` tells."""
    told = [reason for reason in reasons if reason.kind in ("reach", "goals")]
    return [f"**{marked(reason.goal)}**: {marked(reason.text)}" for reason in told[:most]]
