"""SRDF, MoveIt's description beside a URDF: pairs of links that never collide, groups of joints and named states."""

from __future__ import annotations

import numpy as np

from posable.formats.safe_xml import Element, numbers, parse, text
from posable.formats.source import Source, refuse_wide_text, shown
from posable.model.joint_values import from_qpos, turns_freely
from posable.model.joints import Free, Joint
from posable.model.skeleton import Skeleton

ROOT_JOINT = "root_joint"  # Pinocchio's name of a free root, which no URDF declares


def with_srdf(skeleton: Skeleton, srdf: Source, home: dict[str, str], source: Source) -> Skeleton:
    """Return a robot with what its SRDF adds: `disabled_pairs`, `named_poses` and, in `info`, "groups".

    Where states place a root that is fixed in this robot, `info` has these places as "root_states": x y z [m] and a
    quaternion wxyz, by state.

    Args:
        skeleton: The robot.
        srdf: The SRDF, a file or a text.
        home: The joint of each link.
        source: The URDF, whose notes and warnings these are.

    Raises:
        FormatError: The SRDF cannot be read. Names that the robot does not have are a warning.
    """
    refuse_wide_text(srdf)
    robot = parse(srdf)
    if robot.tag != "robot":
        raise srdf.error(offset=robot.place, expected="<robot> of an SRDF file", found=f"<{shown(robot.tag)[1:-1]}>")
    name = robot.attributes.get("name", "")
    if name and skeleton.name and name.lower() != skeleton.name.lower():  # variants often share an SRDF
        source.note(f"the SRDF is of a robot named {shown(name)}, this one is {shown(skeleton.name)}")
    roots = {ROOT_JOINT}
    for joint in robot.all("virtual_joint"):
        roots.add(text(srdf, joint, "name"))
        kind = joint.attributes.get("type", "fixed")
        if kind != "fixed":
            source.note(f"the SRDF's {kind} virtual joint was not added; floating=True gives a robot a free root")
    lost: set[str] = set()
    groups = _groups(srdf, robot, {*skeleton.names, *home, *roots}, lost)
    pairs = _disabled_pairs(srdf, robot, home, lost)
    places: dict[str, np.ndarray] = {}
    poses = _states(srdf, robot, skeleton, source, roots, places, lost)
    if lost:
        listed = ", ".join(map(repr, sorted(lost)[:3]))
        source.warn(
            f"the SRDF names links, joints or groups that the robot does not have ({len(lost)}): {listed}; "
            "their pairs and states were left out"
        )
    info = {**skeleton.info, "groups": groups}
    if places:
        source.note(f"the SRDF's state {next(iter(places))!r} also places the root; floating=True uses that")
        info["root_states"] = places
    return skeleton.replace(disabled_pairs=pairs, named_poses=poses, info=info)


def _groups(srdf: Source, robot: Element, known: set[str], lost: set[str]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return for each group its joints, links, groups and chains as they are written: ("joint", name), ...

    known: the joints and links of the robot; other names are added to `lost`.
    """
    groups: dict[str, tuple[tuple[str, ...], ...]] = {}
    for group in robot.all("group"):
        parts = []
        for part in group.children:
            keys = ("base_link", "tip_link") if part.tag == "chain" else ("name",)
            if part.tag in ("joint", "link", "group", "chain"):
                parts.append((part.tag, *(text(srdf, part, key) for key in keys)))
        groups[text(srdf, group, "name")] = tuple(parts)
    for parts in groups.values():
        for kind, *names in parts:
            lost.update(set(names) - (groups.keys() if kind == "group" else known))
    return groups


def _disabled_pairs(srdf: Source, robot: Element, home: dict[str, str], lost: set[str]) -> list[tuple[str, str]]:
    """Return the pairs of joints whose links never collide; pairs that are enabled again are left out."""

    def links(element: Element) -> tuple[str, str]:
        return text(srdf, element, "link1"), text(srdf, element, "link2")

    disabled = [links(element) for element in robot.all("disable_collisions")]
    alone = {text(srdf, element, "link"): element for element in robot.all("disable_default_collisions")}
    for link, element in alone.items():
        if len(alone) * len(home) > MOST_PAIRS:
            found = f"{len(alone)} links times {len(home)}"
            raise srdf.error(offset=element.place, expected=f"at most {MOST_PAIRS} pairs", found=found)
        disabled += [(link, other) for other in home if other != link]
    enabled = {frozenset(links(element)) for element in robot.all("enable_collisions")}
    lost.update(link for pair in (*disabled, *enabled) for link in pair if link not in home)
    out = {}
    for a, b in disabled:
        if a in home and b in home and frozenset((a, b)) not in enabled:
            out[frozenset((a, b))] = home[a], home[b]
    return list(out.values())


def _states(
    srdf: Source,
    robot: Element,
    skeleton: Skeleton,
    source: Source,
    roots: set[str],
    places: dict[str, np.ndarray],
    lost: set[str],
) -> dict[str, np.ndarray]:
    """Return the named states as poses (n,): states of one name, of several groups, are one pose.

    Mimic joints follow. A value beyond its limits is kept, with a warning. roots: names of the robot's joint to the
    world, which is free if the robot has a free root; where it is fixed, `places` gets the place of each state.
    """
    poses: dict[str, np.ndarray] = {}
    free = next((joint for joint in skeleton.joints if isinstance(joint.motion, Free)), None)
    given: dict[tuple[str, str], np.ndarray] = {}
    for state in robot.all("group_state"):
        name = text(srdf, state, "name")
        pose = poses.setdefault(name, skeleton.rest.copy())
        for element in state.all("joint"):
            joint = text(srdf, element, "name")
            count = max(len(element.attributes.get("value", "").split()), 1)
            values = numbers(srdf, element, "value", [0.0] * count)
            if joint not in skeleton.names and joint in roots:
                place = _root_place(srdf, element, values)
                if free is None:
                    places[name] = place
                    continue
                joint, values = free.name, _joint_values(free, place)
            elif joint not in skeleton.names:
                lost.add(joint)
                continue
            where = skeleton.index(joint)
            motion = skeleton.joints[skeleton.names.index(joint)]
            if turns_freely(motion.motion) and len(values) == where.stop - where.start + 1:  # a quaternion xyzw
                values = _joint_values(motion, np.concatenate([values[:-4], np.roll(values[-4:], 1)]))
            count = len(values)
            if where.stop == where.start:
                continue  # a fixed joint
            if count != where.stop - where.start:
                expected = f"{where.stop - where.start} numbers for joint {joint!r}"
                raise srdf.error(offset=element.place, expected=expected, found=shown(element.attributes["value"]))
            if (given.setdefault((name, joint), values) != values).any():
                source.warn(f"the SRDF's state {name!r} gives joint {joint!r} two values; the last one was used")
            pose[where] = values
    for name, pose in poses.items():
        for follower, leader, ratio, offset in skeleton.couplings:
            pose[skeleton.index(follower)] = ratio * pose[skeleton.index(leader)] + offset
        beyond = (pose < skeleton.lower - SLACK) | (pose > skeleton.upper + SLACK)
        if beyond.any():
            i = int(np.argmax(beyond))
            more = f" and {beyond.sum() - 1} more" if beyond.sum() > 1 else ""
            limits = f"{pose[i]:.4g}, range {skeleton.lower[i]:.4g} to {skeleton.upper[i]:.4g}"
            beyond_it = f"beyond the limits of {skeleton.dof_names[i]!r} ({limits}){more}"
            source.warn(f"the SRDF's state {name!r} is {beyond_it}; solves begin at the limit")
    return poses


def _root_place(srdf: Source, element: Element, values: np.ndarray) -> np.ndarray:
    """Return the place (7,) of a root, x y z [m] and a quaternion wxyz, given as x y z and xyzw, or as x y and yaw."""
    if len(values) == 3:
        x, y, yaw = values
        return np.array([x, y, 0.0, np.cos(0.5 * yaw), 0.0, 0.0, np.sin(0.5 * yaw)])
    if len(values) != 7 or not np.linalg.norm(values[3:]) > 1e-12:
        expected = "x y z and a quaternion x y z w, or x y and an angle"
        raise srdf.error(offset=element.place, expected=expected, found=shown(element.attributes["value"]))
    return np.concatenate([values[:3], np.roll(values[3:], 1)])


def _joint_values(joint: Joint, place: np.ndarray) -> np.ndarray:
    """Return the values (k,) of a free or ball joint at a place as in `qpos`."""
    size = joint.motion.size
    return from_qpos([joint], [slice(0, size)], np.zeros(size), place)


MOST_PAIRS = 1_000_000  # that disable_default_collisions may stand for
SLACK = 1e-3  # [rad, m]: by how much rounded values of a state may exceed limits
