"""URDF, written: any skeleton as links and joints of one degree of freedom each, with limits, inertias and shapes.

A joint of several degrees of freedom becomes a chain of hinges and sliders whose links have no mass; a ball joint of
rotation vectors becomes three hinges about x, y and z, which reach the same rotations by other numbers. A free joint
is URDF's floating joint. Sites become links on fixed joints. Convex hulls are written as STL files beside the URDF;
shapes that are only displayed are `visual`, the others `collision`. Warnings name what URDF cannot hold.
"""

from __future__ import annotations

import struct
import warnings
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from posable.engine.joints import SLIDE, SWING, TURN
from posable.errors import FormatError, PosableWarning
from posable.formats.base import Options
from posable.formats.scene import Scene
from posable.model.joints import Fixed, Free, Joint, rotation_matrix
from posable.model.shapes import WORLD, Shape, corners_around
from posable.model.skeleton import Skeleton

_UNKNOWN_BOUND = 1e3  # URDF requires an effort and a velocity for every limit


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the URDF file, and an STL file for each convex hull."""
    if not scene.has_skeleton:
        raise FormatError("there is nothing to write", expected="a skeleton", found="none")
    if scene.motion is not None:
        raise FormatError("URDF holds a robot and no motion", expected="motion.skeleton", found="a Motion")
    writer = _Writer(scene.skeleton, options.stem)
    ElementTree.indent(writer.robot)
    text = ElementTree.tostring(writer.robot, encoding="utf-8", xml_declaration=True)
    return {suffix: text, **writer.files}


class _Writer:
    """The XML tree of one skeleton, and the mesh files that it refers to."""

    def __init__(self, skeleton: Skeleton, stem: str):
        self.skeleton, self.stem = skeleton, stem
        self.robot = ElementTree.Element("robot", {"name": skeleton.name or "robot"})
        self.files: dict[str, bytes] = {}
        self.links: dict[str, ElementTree.Element] = {}
        self.body: dict[str, str] = {}  # the link that moves with each joint
        self.couplings = {rule[0]: rule[1:] for rule in skeleton.couplings}
        self.alias = self._link_names()
        for joint in skeleton.joints:
            self._add(joint)
        for site in skeleton.sites:
            if self.alias.get(site.joint) != site.name:
                link = self._link(self._free_name(site.name))
                self._joint(f"{link}_fixed", "fixed", self.body[site.joint], link, site.offset, site.rotation)
        if WORLD in self.links and WORLD not in skeleton.names:
            self.body[WORLD] = WORLD
        lost: list[str] = []
        for number, shape in enumerate(skeleton.shapes):
            if shape.kind == "plane" or shape.joint not in self.body:
                lost.append(shape.name or f"a {shape.kind} on {shape.joint}")
            else:
                self._shape(shape, number)
        if lost:
            names = ", ".join(lost[:4]) + (f" and {len(lost) - 4} more" if len(lost) > 4 else "")
            warnings.warn(
                f"{len(lost)} of {len(skeleton.shapes)} shapes cannot be written to URDF, which has no planes, and no "
                f"world beside a fixed root: {names}; they can be obstacles of NoCollision",
                PosableWarning, stacklevel=2,
            )  # fmt: skip
        if skeleton.loops:
            first, second, _ = skeleton.loops[0]
            warnings.warn(
                f"{len(skeleton.loops)} closed loops cannot be written to URDF, which is a tree: {first} to {second}",
                PosableWarning, stacklevel=2,
            )  # fmt: skip
        balls = [joint.name for joint in skeleton.joints if not isinstance(joint.motion, Free) and _is_ball(joint)]
        if balls:
            warnings.warn(
                f"{len(balls)} ball joints were written as hinges: other angles for the same rotation, and "
                f"limits on each of them: {', '.join(balls[:3])}", PosableWarning, stacklevel=2,
            )  # fmt: skip

    def _link_names(self) -> dict[str, str]:
        """Return by joint the site at its origin: the link of a robot that was read from URDF."""
        names: dict[str, str] = {}
        for site in self.skeleton.sites:
            turn = rotation_matrix(site.rotation)
            if not np.any(site.offset) and turn is not None and np.array_equal(turn, np.eye(3)):
                names.setdefault(site.joint, site.name)
        return names

    def _free_name(self, name: str) -> str:
        while name in self.links:
            name += "_"
        return name

    def _link(self, name: str) -> str:
        self.links[name] = ElementTree.SubElement(self.robot, "link", {"name": name})
        return name

    def _add(self, joint: Joint) -> None:
        """Add the link of a joint and the chain of URDF joints above it."""
        link = self._free_name(self.alias.get(joint.name, joint.name))
        dofs = _elements(joint)
        if joint.parent is None and isinstance(joint.motion, Fixed) and _at_origin(joint):
            self.body[joint.name] = self._link(link)
            self._inertia(joint, link)
            return
        if joint.parent is None:
            parent = WORLD if WORLD not in self.links else self._free_name(WORLD)
            self._link(parent)
        else:
            parent = self.body[joint.parent]
        offset, rotation = joint.offset, joint.rotation
        names = self._dof_names(joint)
        if isinstance(joint.motion, (Fixed, Free)):
            self.body[joint.name] = self._link(link)
            kind = "fixed" if isinstance(joint.motion, Fixed) else "floating"
            self._joint(joint.name, kind, parent, link, offset, rotation)
        else:
            where = self.skeleton.index(joint.name)
            for k, (axis, kind) in enumerate(dofs):
                last = k == len(dofs) - 1
                child = self._link(link if last else self._free_name(f"{names[k]}_link"))
                element = self._joint(names[k], kind, parent, child, offset, rotation)
                ElementTree.SubElement(element, "axis", {"xyz": _text(axis)})
                self._limit(element, kind, where.start + k)
                self._mimic(element, self.skeleton.dof_names[where.start + k])
                parent, offset, rotation = child, (0.0, 0.0, 0.0), None
            self.body[joint.name] = parent
        self._inertia(joint, self.body[joint.name])

    def _dof_names(self, joint: Joint) -> list[str]:
        return list(self.skeleton.dof_names[self.skeleton.index(joint.name)])

    def _joint(self, name, kind, parent, child, offset, rotation) -> ElementTree.Element:
        element = ElementTree.SubElement(self.robot, "joint", {"name": name, "type": kind})
        _origin(element, offset, rotation)
        ElementTree.SubElement(element, "parent", {"link": parent})
        ElementTree.SubElement(element, "child", {"link": child})
        return element

    def _limit(self, element: ElementTree.Element, kind: str, dof: int) -> None:
        figure = self.skeleton
        low, high = float(figure.lower[dof]), float(figure.upper[dof])
        bounded = np.isfinite(low) and np.isfinite(high)
        speed, effort = (min(float(b[dof]), _UNKNOWN_BOUND) for b in (figure.velocity, figure.effort))
        bounds = {"effort": repr(effort), "velocity": repr(speed)}
        if kind == "revolute" and not bounded:
            element.set("type", "continuous")
        else:
            low, high = max(low, -_UNKNOWN_BOUND), min(high, _UNKNOWN_BOUND)
            bounds = {"lower": repr(low), "upper": repr(high), **bounds}
        ElementTree.SubElement(element, "limit", bounds)

    def _mimic(self, element: ElementTree.Element, dof: str) -> None:
        if dof in self.couplings:
            leader, ratio, offset = self.couplings[dof]
            ElementTree.SubElement(
                element, "mimic", {"joint": leader, "multiplier": repr(float(ratio)), "offset": repr(float(offset))}
            )

    def _inertia(self, joint: Joint, link: str) -> None:
        if not joint.mass:
            return
        inertial = ElementTree.SubElement(self.links[link], "inertial")
        _origin(inertial, joint.center, None)
        ElementTree.SubElement(inertial, "mass", {"value": repr(float(joint.mass))})
        m = np.zeros((3, 3)) if joint.inertia is None else np.asarray(joint.inertia, dtype=float)
        entries = {"ixx": (0, 0), "ixy": (0, 1), "ixz": (0, 2), "iyy": (1, 1), "iyz": (1, 2), "izz": (2, 2)}
        ElementTree.SubElement(inertial, "inertia", {key: repr(float(m[ij])) for key, ij in entries.items()})

    def _shape(self, shape: Shape, number: int) -> None:
        """Add a shape to its link: `collision`, or `visual` if nothing collides with it."""
        points, center = shape.points, shape.points.mean(axis=0)
        rotation = None
        if len(points) == 1:
            kind, fields = "sphere", {"radius": repr(shape.radius)}
        elif len(points) == 2:
            axis = points[1] - points[0]
            kind, fields = "cylinder", {"radius": repr(shape.radius), "length": repr(float(np.linalg.norm(axis)))}
            rotation = _z_to(axis)
        elif shape.kind == "box" and (size := np.linalg.norm(points[[4, 2, 1]] - points[0], axis=1)).all():
            sides = (points[[4, 2, 1]] - points[0]).T  # as shapes.box orders the corners
            kind, fields, rotation = "box", {"size": _text(size)}, sides / size
        else:
            ending = f".{number}.stl"
            self.files[ending] = _stl(corners_around(shape) - center)
            kind, fields = "mesh", {"filename": f"{self.stem}{ending}"}
        self._part(shape, shape.name, center, rotation, kind, fields)
        if kind == "cylinder":  # a capsule, which only URDF 1.1 knows: what reads 1.0 leaves it out, or the whole file
            for end, place in zip(("start", "end"), points, strict=True):
                name = f"{shape.name}_{end}" if shape.name else ""
                self._part(shape, name, place, None, "sphere", {"radius": fields["radius"]})

    def _part(self, shape: Shape, name: str, center: np.ndarray, rotation: Any, kind: str, fields: dict) -> None:
        """Add a geometry of a shape to its link."""
        tag = "collision" if shape.collides else "visual"
        element = ElementTree.SubElement(self.links[self.body[shape.joint]], tag)
        if name:
            element.set("name", name)
        _origin(element, center, rotation)
        ElementTree.SubElement(ElementTree.SubElement(element, "geometry"), kind, fields)


def _elements(joint: Joint) -> list[tuple[np.ndarray, str]]:
    """Return the axis (3,), in the joint's frame, and URDF's type of each degree of freedom."""
    basis, dofs = joint.motion.basis, joint.motion.dofs
    swings = any(dof.kind == SWING for dof in dofs)
    out = []
    for k, dof in enumerate(dofs):
        axis = (dof.axis + 1 + k) % 3 if swings and k < 2 else dof.axis  # a swing turns about the other two axes
        out.append((basis[:, axis] * dof.sign, "prismatic" if dof.kind == SLIDE else "revolute"))
    return out


def _is_ball(joint: Joint) -> bool:
    """Return whether a joint has a rotation vector or a swing, whose numbers are no angles of hinges."""
    return any(dof.kind not in (SLIDE, TURN) for dof in joint.motion.dofs)


def _at_origin(joint: Joint) -> bool:
    turn = rotation_matrix(joint.rotation)
    return not np.any(joint.offset) and turn is not None and np.array_equal(turn, np.eye(3))


def _text(values: np.ndarray) -> str:
    return " ".join(repr(float(value)) for value in values)


def _origin(element: ElementTree.Element, offset, rotation) -> None:
    turn = rotation_matrix(rotation)
    angles = np.zeros(3) if turn is None else _roll_pitch_yaw(turn)
    ElementTree.SubElement(element, "origin", {"xyz": _text(np.asarray(offset, float)), "rpy": _text(angles)})


def _roll_pitch_yaw(turn: np.ndarray) -> np.ndarray:
    """Return angles (3,) of a rotation (3, 3), exact also close to a pitch of 90 degrees: roll is what yaw leaves."""
    yaw = np.arctan2(turn[1, 0], turn[0, 0])
    c, s = np.cos(yaw), np.sin(yaw)
    pitch = np.arctan2(-turn[2, 0], c * turn[0, 0] + s * turn[1, 0])
    roll = np.arctan2(s * turn[0, 2] - c * turn[1, 2], c * turn[1, 1] - s * turn[0, 1])
    return np.array([roll, pitch, yaw])


def _z_to(axis: np.ndarray) -> np.ndarray:
    """Return a rotation (3, 3) whose z axis points along `axis` (3,)."""
    z = axis / np.linalg.norm(axis)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=-1)


def _stl(points: np.ndarray) -> bytes:
    """Return the convex hull of points (V, 3) as a binary STL file."""
    try:
        triangles = points[ConvexHull(points).simplices]
    except (QhullError, ValueError):  # flat: triangles that contain all points
        triangles = points[[[i, (i + 1) % len(points), (i + 2) % len(points)] for i in range(len(points))]]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    inward = np.einsum("ij,ij->i", normals, triangles[:, 0] - points.mean(axis=0)) < 0.0
    triangles[inward] = triangles[inward][:, ::-1]
    normals[inward] *= -1.0
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    rows = np.zeros(len(triangles), dtype=[("v", "<f4", (4, 3)), ("a", "<u2")])
    rows["v"][:, 0], rows["v"][:, 1:] = normals, triangles
    return b"\0" * 80 + struct.pack("<I", len(rows)) + rows.tobytes()
