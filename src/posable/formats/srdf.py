"""SRDF, MoveIt's description beside a URDF: pairs of links that never collide, groups of joints and named states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from posable.formats.safe_xml import numbers, parse, text
from posable.formats.source import Source, refuse_wide_text, shown
from posable.model.skeleton import Skeleton


def with_semantics(skeleton: Skeleton, srdf: Semantics, home: dict[str, str], source: Source) -> Skeleton:
    """Return the skeleton with the disabled pairs and named states of an SRDF; `home` names the joint of each link."""
    unknown_links = {link for pair in srdf.disabled for link in pair if link not in home}
    pairs = [(home[a], home[b]) for a, b in srdf.disabled if a in home and b in home]
    poses = {}
    lost = set()
    for name, values in srdf.states.items():
        known = {joint: value for joint, value in values.items() if joint in skeleton.names}
        lost |= values.keys() - known.keys()
        poses[name] = skeleton.pose({joint: v[0] if len(v) == 1 else v for joint, v in known.items()})
    if unknown_links or lost:
        listed = ", ".join(map(repr, sorted(unknown_links | lost)[:3]))
        source.warn(
            f"the SRDF names links or joints that the robot does not have ({len(unknown_links | lost)}): {listed}"
        )
    info = {**skeleton.info, "groups": dict(srdf.groups)}
    return skeleton.replace(disabled_pairs=pairs, named_poses=poses, info=info)


@dataclass(frozen=True)
class Semantics:
    """The contents of an SRDF file.

    Attributes:
        disabled: pairs of links that are never checked for collision.
        states: for each named state, the values of its joints [rad, m].
        groups: for each group, its joints, links and chains as they are written: ("joint", name), ...
    """

    disabled: tuple[tuple[str, str], ...]
    states: Mapping[str, Mapping[str, tuple[float, ...]]]
    groups: Mapping[str, tuple[tuple[str, ...], ...]]


def read_srdf(source: Source) -> Semantics:
    """Read an SRDF file."""
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
