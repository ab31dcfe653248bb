"""URDF, read: a robot's links and joints, limits, masses, mimic joints, and capsules for what can be one.

Metres, radians, z up, as the format says. A joint here is the URDF's joint, with the frame of its child link, and
every link is a site of its own name; the root link is a fixed joint. Our own reader, because `yourdfpy` can be led to
read local files through entities and drags trimesh along; meshes are not opened at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from posable.formats.base import Format, Options, build_skeleton
from posable.formats.safe_xml import Element, number, numbers, parse, text
from posable.formats.scene import Capsule, Scene
from posable.formats.source import Source, refuse_wide_text, shown
from posable.model.joints import Fixed, Free, Joint, Planar, Prismatic, Revolute, Site

_TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar")
_MOVING = ("revolute", "continuous", "prismatic")  # joints of one degree of freedom


@dataclass
class _Joint:
    """A <joint>, its name made unique."""

    element: Element
    name: str
    kind: str
    parent: str
    child: str


def sniff(head: bytes) -> bool:
    """Say whether a file that starts with `head` is URDF."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"<") and b"<robot" in head


def read(source: Source, options: Options) -> Scene:
    """Return the robot of a URDF file."""
    if source.data[:2] not in (b"\xff\xfe", b"\xfe\xff"):
        refuse_wide_text(source)
    robot = parse(source)
    if robot.tag != "robot":
        raise source.error(offset=robot.place, expected="<robot>", found=f"<{shown(robot.tag)[1:-1]}>")
    for element in robot.children:
        if element.tag.startswith("xacro:"):
            raise source.error(
                "expand it with xacro first", offset=element.place, expected="URDF", found=f"<{element.tag}>"
            )
    links = _links(source, robot)
    joints = _joints(source, robot, links)
    root, ordered = _parents_first(source, robot, links, joints)
    taken = {joint.name for joint in joints}
    root_name = root
    while root_name in taken:
        root_name += "_link"
    home = {root: root_name, **{joint.child: joint.name for joint in ordered}}
    figure = [Joint(root_name, Fixed(), **_inertia(source, links[root]))]
    for joint in ordered:
        figure.append(_build_joint(source, joint, home[joint.parent], links[joint.child]))
    _note_zero_bounds(source, joints)
    names = {joint.name for joint in figure}
    sites = []
    for link, joint in home.items():
        if link != joint:
            sites.append(Site(link if link not in names else f"{link}.link", joint))
    couplings = _couplings(source, joints)
    skeleton = build_skeleton(
        source,
        figure,
        sites,
        name=robot.attributes.get("name", ""),
        up="z",
        couplings=couplings,
        info={"format": "urdf"},
    )
    capsules = tuple(c for link, element in links.items() for c in _capsules(source, element, home[link]))
    return Scene(skeleton=skeleton, capsules=capsules, name=skeleton.name)


def _links(source: Source, robot: Element) -> dict[str, Element]:
    links: dict[str, Element] = {}
    for element in robot.all("link"):
        name = text(source, element, "name")
        if name in links:
            raise source.error(offset=element.place, expected="a link of a new name", found=shown(name))
        links[name] = element
    if not links:
        raise source.error(offset=robot.place, expected="at least one <link>", found="none")
    return links


def _joints(source: Source, robot: Element, links: dict[str, Element]) -> list[_Joint]:
    elements = robot.all("joint")
    names = source.unique([text(source, element, "name") for element in elements], "joint")
    joints: list[_Joint] = []
    parents: dict[str, str] = {}
    for element, name in zip(elements, names, strict=True):
        kind = text(source, element, "type").lower()
        if kind not in _TYPES:
            raise source.error(offset=element.place, expected=f"type {', '.join(_TYPES)}", found=shown(kind))
        ends = []
        for tag in ("parent", "child"):
            end = element.first(tag)
            if end is None:
                raise source.error(offset=element.place, expected=f"<{tag}> of joint {name!r}", found="none")
            link = text(source, end, "link")
            if link not in links:
                raise source.error(offset=end.place, expected="the name of a link", found=shown(link))
            ends.append(link)
        parent, child = ends
        if child in parents:
            raise source.error(
                offset=element.place,
                expected=f"one parent of link {child!r}",
                found=f"{parents[child]!r} and {parent!r}",
            )
        parents[child] = parent
        joints.append(_Joint(element, name, kind, parent, child))
    return joints


def _parents_first(
    source: Source, robot: Element, links: dict[str, Element], joints: list[_Joint]
) -> tuple[str, list[_Joint]]:
    below: dict[str, list[_Joint]] = {}
    for joint in joints:
        below.setdefault(joint.parent, []).append(joint)
    children = {joint.child for joint in joints}
    roots = [link for link in links if link not in children]
    if not roots:
        raise source.error(offset=robot.place, expected="a root link, which is no joint's child", found="a cycle")
    ordered: list[_Joint] = []
    stack = list(reversed(below.get(roots[0], [])))
    while stack:
        joint = stack.pop()
        ordered.append(joint)
        stack += reversed(below.get(joint.child, []))
    reached = {joint.name for joint in ordered}
    lost = [joint for joint in joints if joint.name not in reached]
    if lost and len(roots) == 1:
        raise source.error(
            offset=lost[0].element.place, expected="joints that form a tree", found=f"a cycle through {lost[0].name!r}"
        )
    if len(roots) > 1:
        raise source.error(
            offset=links[roots[1]].place, expected="one root link", found=", ".join(shown(link) for link in roots[:5])
        )
    return roots[0], ordered


def _origin(source: Source, element: Element | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the offset (3,) [m] and rotation (3, 3) of an <origin>; roll, pitch, yaw are about fixed axes."""
    origin = element.first("origin") if element is not None else None
    angles = numbers(source, origin, "rpy", [0.0, 0.0, 0.0])
    return numbers(source, origin, "xyz", [0.0, 0.0, 0.0]), Rotation.from_euler("xyz", angles).as_matrix()


def _inertia(source: Source, link: Element) -> dict:
    inertial = link.first("inertial")
    mass = number(source, inertial.first("mass") if inertial else None, "value", 0.0)
    if mass < 0:
        raise source.error(offset=link.place, expected="a mass that is not negative", found=mass)
    center, rotation = _origin(source, inertial)
    tensor = inertial.first("inertia") if inertial else None
    if tensor is None:
        return {"mass": mass, "center": center}
    xx, yy, zz, xy, xz, yz = (number(source, tensor, "i" + key, 0.0) for key in ("xx", "yy", "zz", "xy", "xz", "yz"))
    inertia = rotation @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ rotation.T
    return {"mass": mass, "center": center, "inertia": 0.5 * (inertia + inertia.T)}


def _build_joint(source: Source, joint: _Joint, parent: str, link: Element) -> Joint:
    offset, rotation = _origin(source, joint.element)
    axis_element = joint.element.first("axis")
    axis = numbers(source, axis_element, "xyz", [1.0, 0.0, 0.0])
    place = {"offset": offset, "rotation": rotation, **_inertia(source, link)}
    if joint.kind == "fixed":
        return Joint(joint.name, Fixed(), parent, **place)
    if joint.kind == "floating":
        return Joint(joint.name, Free("rotvec"), parent, **place)
    length = float(np.linalg.norm(axis))
    if length < 1e-9:
        where = (axis_element or joint.element).place
        raise source.error(
            offset=where, expected=f"an axis of joint {joint.name!r} that is not zero", found=shown(str(axis))
        )
    axis = tuple(float(value) for value in axis / length)
    if joint.kind == "planar":
        return Joint(joint.name, Planar(axis), parent, **place)
    low, high = _limits(source, joint)
    motion = Prismatic(axis) if joint.kind == "prismatic" else Revolute(axis)
    rest = min(max(0.0, low), high)
    return Joint(joint.name, motion, parent, limits=(low, high), rest=rest, **place, **_bounds(source, joint))


def _bounds(source: Source, joint: _Joint) -> dict:
    """Return the largest velocity and effort that a <limit> states; 0, which many exporters write, is none."""
    limit = joint.element.first("limit")
    out = {}
    for key in ("velocity", "effort"):
        value = number(source, limit, key, np.inf, infinite=True)
        if value > 0.0:
            out[key] = value
        elif value < 0.0:
            source.warn(f"joint {joint.name!r} has a negative {key} limit, {value:g}: it was ignored")
    return out


def _note_zero_bounds(source: Source, joints: list[_Joint]) -> None:
    """Say once which joints state a velocity or an effort of 0, with which they could not move."""
    zero: dict[str, list[str]] = {}
    for joint in joints:
        limit = joint.element.first("limit") if joint.kind in _MOVING else None
        for key in ("velocity", "effort"):
            if number(source, limit, key, 1.0, infinite=True) == 0.0:
                zero.setdefault(joint.name, []).append(key)
    if zero:
        keys = " and ".join(key for key in ("velocity", "effort") if any(key in found for found in zero.values()))
        more = f" and {len(zero) - 3} more" if len(zero) > 3 else ""
        source.note(f"{keys} limits of 0 taken as not stated: {', '.join(map(repr, list(zero)[:3]))}{more}")


def _limits(source: Source, joint: _Joint) -> tuple[float, float]:
    limit = joint.element.first("limit")
    if joint.kind == "continuous":
        return -np.inf, np.inf
    if limit is None:
        source.warn(f"joint {joint.name!r} is {joint.kind} and has no <limit>: it moves without limits")
        return -np.inf, np.inf
    low, high = (number(source, limit, side, 0.0, infinite=True) for side in ("lower", "upper"))
    if not low <= high or low == high == np.inf or low == high == -np.inf:
        raise source.error(
            offset=limit.place,
            expected=f"a lower limit of joint {joint.name!r} below the upper",
            found=f"{low:g} and {high:g}",
        )
    return low, high


def _couplings(source: Source, joints: list[_Joint]) -> list[tuple[str, str, float, float]]:
    """Return (follower, leader, ratio, offset) of the mimic joints, each with a leader that mimics no other."""
    single = {joint.name for joint in joints if joint.kind in _MOVING}
    rules: dict[str, tuple[str, float, float]] = {}
    for joint in joints:
        mimic = joint.element.first("mimic")
        if mimic is None or joint.name not in single:
            continue
        leader = text(source, mimic, "joint")
        if leader not in single or leader == joint.name:
            raise source.error(offset=mimic.place, expected="the name of another moving joint", found=shown(leader))
        rules[joint.name] = (leader, number(source, mimic, "multiplier", 1.0), number(source, mimic, "offset", 0.0))
    couplings = []
    done: dict[str, tuple[str, float, float]] = {}
    for joint in joints:
        if joint.name not in rules:
            continue
        leader, ratio, offset = rules[joint.name]
        passed = {joint.name}
        while leader in rules:
            if leader in done:
                last, more, shift = done[leader]
                leader, ratio, offset = last, ratio * more, offset + ratio * shift
                break
            if leader in passed:
                raise source.error(
                    offset=joint.element.place, expected="mimic joints without a cycle", found=shown(joint.name)
                )
            passed.add(leader)
            leader, more, shift = rules[leader]
            ratio, offset = ratio * more, offset + ratio * shift
        done[joint.name] = (leader, ratio, offset)
        couplings.append((joint.name, leader, ratio, offset))
    return couplings


def _capsules(source: Source, link: Element, joint: str) -> list[Capsule]:
    """Return the collision spheres, cylinders and capsules of a link; a cylinder's ends become round."""
    found = []
    for collision in link.all("collision"):
        offset, rotation = _origin(source, collision)
        geometry = collision.first("geometry")
        for shape in geometry.children if geometry else []:
            if shape.tag not in ("sphere", "cylinder", "capsule"):
                continue
            radius, length = (number(source, shape, key, 0.0) for key in ("radius", "length"))
            if radius < 0 or length < 0:
                raise source.error(
                    offset=shape.place, expected="sizes that are not negative", found=f"{radius:g}, {length:g}"
                )
            half = rotation @ np.array([0.0, 0.0, 0.5 * length if shape.tag != "sphere" else 0.0])
            name = collision.attributes.get("name", link.attributes.get("name", ""))
            found.append(Capsule(joint, offset - half, offset + half, radius, name))
    return found


FORMAT = Format("URDF", (".urdf",), "a robot with limits, masses and capsules", "metres, radians, z up", sniff, read)
