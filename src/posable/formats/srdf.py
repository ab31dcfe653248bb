"""SRDF, read beside a URDF: the pairs of links that never collide, groups of joints and named states (MoveIt)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from posable.formats.safe_xml import numbers, parse, text
from posable.formats.source import Source, refuse_wide_text, shown


@dataclass(frozen=True)
class Semantics:
    """What an SRDF file says about a robot.

    Attributes:
        disabled: pairs of links that are never checked for collision.
        states: for each named state, the values of its joints [rad, m].
        groups: for each group, its joints, links and chains as they are written: ("joint", name), ...
    """

    disabled: tuple[tuple[str, str], ...]
    states: Mapping[str, Mapping[str, tuple[float, ...]]]
    groups: Mapping[str, tuple[tuple[str, ...], ...]]


def read(source: Source) -> Semantics:
    """Return what an SRDF file says."""
    refuse_wide_text(source)
    robot = parse(source)
    if robot.tag != "robot":
        raise source.error(offset=robot.place, expected="<robot> of an SRDF file", found=f"<{shown(robot.tag)[1:-1]}>")
    disabled = [(text(source, pair, "link1"), text(source, pair, "link2")) for pair in robot.all("disable_collisions")]
    states: dict[str, dict[str, tuple[float, ...]]] = {}
    for state in robot.all("group_state"):
        values = states.setdefault(text(source, state, "name"), {})
        for joint in state.all("joint"):
            count = max(len(joint.attributes.get("value", "").split()), 1)
            values[text(source, joint, "name")] = tuple(numbers(source, joint, "value", [0.0] * count).tolist())
    groups = {}
    for group in robot.all("group"):
        parts = []
        for part in group.children:
            keys = ("base_link", "tip_link") if part.tag == "chain" else ("name",)
            if part.tag in ("joint", "link", "group", "chain"):
                parts.append((part.tag, *(text(source, part, key) for key in keys)))
        groups[text(source, group, "name")] = tuple(parts)
    return Semantics(tuple(disabled), states, groups)
