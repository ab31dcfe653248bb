"""The messages of the studio: how well the goals are met, and a sentence for each blocking limit."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

import posable as ps

AT_LIMIT = 1e-4  # [rad, m] within which a joint is at its limit
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-!|~>:])")


def strip_control(text: str) -> str:
    """Return a text without control and formatting characters, which could hide or forge parts of it."""
    return "".join(" " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") else c for c in str(text))


def escape_markdown(name: str) -> str:
    """Return a name from a file, escaped for Markdown."""
    return _MARKDOWN.sub(r"\\\1", html.escape(strip_control(name), quote=False))


@dataclass(frozen=True)
class AtLimit:
    """A degree of freedom at a limit."""

    dof: int
    name: str
    joint: str
    side: str
    value: float


def joint_of(skeleton: ps.Skeleton, dof_name: str) -> str:
    """Return the joint that a degree of freedom belongs to."""
    return dof_name if dof_name in skeleton.names else dof_name.rpartition(".")[0]


def is_length(skeleton: ps.Skeleton, dof: int) -> bool:
    """Return whether a degree of freedom is a length and not an angle."""
    joint = joint_of(skeleton, skeleton.dof_names[dof])
    return skeleton.joint(joint).motion.dofs[dof - skeleton.index(joint).start].kind == ps.Prismatic.kind


def limits_met(skeleton: ps.Skeleton, pose: np.ndarray) -> tuple[AtLimit, ...]:
    """Return the degrees of freedom that are at a limit at a pose (n,)."""
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
    """Return a length or an angle as text, with a suitable unit."""
    if angle:
        return f"{np.degrees(value):.1f}°"
    if abs(value) < 0.1:
        return f"{value * 1e3:.1f} mm"
    return f"{value * 1e2:.1f} cm" if abs(value) < 1.0 else f"{value:.2f} m"


def goal_summary(answer: Any, modes: dict[str, str]) -> str:
    """Return how well the goals are met: reached, or which handle misses its target by how much."""
    missed = {}
    for name, error in answer.errors.items():
        body = name if name in answer.tolerances else name.rpartition(".")[0]
        turn = name != body or modes.get(body) == "orientation"
        allowed = answer.tolerances.get(body, np.inf) * (5.0 if turn else 1.0)
        if error > allowed:
            missed[name] = amount(error, angle=turn)
    if not missed:
        reached = [name for name, allowed in answer.tolerances.items() if np.isfinite(allowed)]
        names = ", ".join(f"**{escape_markdown(name)}**" for name in reached[:6])
        return f"Reached: {names}." if names else "Every handle is where it should be."
    return "; ".join(f"**{escape_markdown(name)}** misses by {text}" for name, text in missed.items()) + "."


def blocking_sentences(skeleton: ps.Skeleton, blocks: tuple[Any, ...], most: int = 4) -> list[str]:
    """Return a sentence for each blocking limit: which, its value, and what relaxing it would gain."""
    out = []
    for block in blocks[:most]:
        straight = is_length(skeleton, skeleton.dof(block.dof))
        least = {name: np.radians(0.1) if name in block.angles else 1e-4 for name in block.gain}
        best = [(name, gain) for name, gain in block.gain.items() if gain > least[name]]
        best = sorted(best, key=lambda item: -item[1])[:2]
        gains = [f"{escape_markdown(name)} {amount(gain, angle=name in block.angles)} closer" for name, gain in best]
        more = "5 mm" if straight else "5°"
        out.append(
            f"**{escape_markdown(block.dof)}** is at its {block.side} limit ({amount(block.limit, angle=not straight)})"
            + (f"; {more} more would bring {' and '.join(gains)}" if gains else "")
        )
    return out


def penetration_sentences(touches: tuple[Any, ...], floor: float, most: int = 2) -> list[str]:
    """Return a sentence for each limb inside another, and for each deeper below the floor than `floor` [m]."""
    limbs = [
        f"**{escape_markdown(c.joint)}** passes through **{escape_markdown(c.other)}** ({amount(c.depth)} deep)."
        for c in touches if c.other
    ]  # fmt: skip
    below = [
        f"**{escape_markdown(touch.joint)}** is {amount(touch.depth)} below the floor."
        for touch in touches if not touch.other and touch.depth > floor
    ]  # fmt: skip
    return [*limbs[:most], *below[:most]]


def reason_sentences(reasons: tuple[Any, ...], most: int = 3) -> list[str]:
    """Return a sentence for each reason that goals are missed, except limits (see `blocking_sentences`)."""
    shown = [reason for reason in reasons if reason.kind in ("reach", "goals")]
    return [f"**{escape_markdown(reason.goal)}**: {escape_markdown(reason.text)}" for reason in shown[:most]]
