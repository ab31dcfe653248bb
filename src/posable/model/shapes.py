"""Solids on the bodies of a figure, for collision: each is the convex hull of a few points, rounded by a radius.

A sphere is one point, a capsule two, a box eight. Cylinders and ellipsoids are approximated by enclosing prisms and
polyhedra, meshes by their convex hull. A plane is a point and a normal; the half-space behind it is solid. A grid of
signed distances, in the world, may have any shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from posable.errors import did_you_mean
from posable.model.joints import rotation_matrix

if TYPE_CHECKING:
    from posable.model.distance_grid import DistanceGrid

WORLD = "world"
KINDS = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "hull", "plane", "grid")
_SIDES = 16  # of the prism around a cylinder, which exceeds its radius by 2 %
PROTRUDES = 0.02  # [m]: displayed surfaces that stick out of the collision shapes by more get shapes of their own
_GOLDEN = 0.5 * (1.0 + 5.0**0.5)


@dataclass(frozen=True, eq=False)
class Shape:
    """A convex solid that moves with a joint: everything within `radius` of the convex hull of `points`.

    Attributes:
        joint: The joint whose frame it is in; "world" for fixed shapes.
        points: (V, 3) [m] in the joint's frame.
        radius: [m] Of the rounding.
        kind: One of `KINDS`, as the file names it.
        name: Name in reports.
        normal: (3,) Of a plane, towards the free side; None for a solid.
        contype: Bits, as in MuJoCo: two shapes may collide if the contype of one and the conaffinity of the other
            have a bit in common.
        conaffinity: Bits, as in MuJoCo.
        partners: Names of shapes that it may collide with whatever the bits, and although their joints are neighbours
            or a disabled pair, as the explicit pairs of MuJoCo.
        overshoot: [m] By which it may exceed the solid that the file describes.
        grid: Distances from an obstacle of any form, in the world; None for a solid.
        color: (3,) sRGB from 0 to 1, for display; None if the file does not say.
    """

    joint: str
    points: np.ndarray
    radius: float = 0.0
    kind: str = "hull"
    name: str = ""
    normal: np.ndarray | None = None
    contype: int = 1
    conaffinity: int = 1
    overshoot: float = 0.0
    grid: DistanceGrid | None = None
    color: tuple[float, float, float] | None = None
    partners: tuple[str, ...] = ()

    def __post_init__(self):
        points = np.array(self.points, dtype=float).reshape(-1, 3)
        points.flags.writeable = False
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "radius", float(self.radius))
        object.__setattr__(self, "partners", tuple(self.partners))
        if self.normal is not None:
            normal = np.array(self.normal, dtype=float).reshape(3)
            normal.flags.writeable = False
            object.__setattr__(self, "normal", normal)

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name else ""
        return f"<Shape{label}: {self.kind} on {self.joint!r}>"

    def moved(self, joint: str, offset: Any = (0.0, 0.0, 0.0), rotation: Any = None) -> Shape:
        """Return the solid on another joint, in which its present frame has offset (3,) [m] and rotation."""
        turn = rotation_matrix(rotation)
        assert turn is not None
        normal = None if self.normal is None else turn @ self.normal
        return replace(self, joint=joint, points=np.asarray(offset, float) + self.points @ turn.T, normal=normal)

    @property
    def collides(self) -> bool:
        """Whether it may collide with anything; otherwise it is only displayed."""
        return bool(self.contype | self.conaffinity | len(self.partners))

    def may_touch(self, other: Shape) -> bool:
        """Return whether the two shapes are partners, or their collision bits allow a contact."""
        bits = (self.contype & other.conaffinity) | (other.contype & self.conaffinity)
        return bool(bits) or self.partner_of(other)

    def partner_of(self, other: Shape) -> bool:
        """Return whether one of the two shapes names the other as a partner."""
        return other.name in self.partners or self.name in other.partners

    def problems(self) -> list[str]:
        """Return every fault of the shape, one sentence each."""
        out = []
        if self.kind not in KINDS:
            out.append(f"kind: expected one of {', '.join(KINDS)}, got {self.kind!r}")
        if not len(self.points) or not np.isfinite(self.points).all():
            out.append(f"points: expected finite numbers (V, 3), at least one point, got shape {self.points.shape}")
        if not 0.0 <= self.radius < np.inf:
            out.append(f"radius: expected a non-negative number [m], got {self.radius!r}")
        if (self.kind == "plane") != (self.normal is not None):
            out.append("normal: expected for a plane and only for a plane")
        if (self.kind == "grid") != (self.grid is not None) or (self.kind == "grid" and self.joint != WORLD):
            out.append("grid: expected for a grid in the world, as an obstacle of NoCollision")
        return out

    def content(self) -> tuple[Any, ...]:
        """Return the shape as plain values, for comparison."""
        normal = None if self.normal is None else tuple(self.normal.tolist())
        points = tuple(self.points.ravel().tolist())
        bits = (self.contype, self.conaffinity, self.partners)
        return self.joint, points, self.radius, self.kind, self.name, normal, bits


def sphere(joint: str, radius: float, center: Any = (0.0, 0.0, 0.0), **fields: Any) -> Shape:
    """Return a sphere.

    Args:
        joint: The joint that carries it.
        radius: [m].
        center: (3,) [m] in the joint's frame.
        **fields: Other fields of `Shape`.
    """
    return Shape(joint, np.reshape(center, (1, 3)), radius, "sphere", **fields)


def capsule(joint: str, start: Any, end: Any, radius: float, **fields: Any) -> Shape:
    """Return a capsule: all points within a distance of a segment.

    Args:
        joint: The joint that carries it.
        start: (3,) [m] in the joint's frame.
        end: (3,) [m] in the joint's frame.
        radius: [m].
        **fields: Other fields of `Shape`.
    """
    return Shape(joint, np.array([start, end], dtype=float), radius, "capsule", **fields)


def box(joint: str, half: Any, **fields: Any) -> Shape:
    """Return a box about the joint's origin; `Shape.moved` places it elsewhere.

    Args:
        joint: The joint that carries it.
        half: (3,) [m] Half sizes along the joint's axes.
        **fields: Other fields of `Shape`.
    """
    corners = np.array(list(product((-1.0, 1.0), repeat=3))) * np.asarray(half, dtype=float)
    return Shape(joint, corners, 0.0, "box", **fields)


def cylinder(joint: str, radius: float, half_length: float, **fields: Any) -> Shape:
    """Return a prism that encloses a cylinder along the joint's z axis, about its origin.

    Args:
        joint: The joint that carries it.
        radius: [m].
        half_length: [m].
        **fields: Other fields of `Shape`.
    """
    outer = radius / np.cos(np.pi / _SIDES)
    angles = 2.0 * np.pi * np.arange(_SIDES) / _SIDES
    ring = np.stack([outer * np.cos(angles), outer * np.sin(angles), np.zeros(_SIDES)], axis=-1)
    top = np.array([0.0, 0.0, half_length])
    points = np.concatenate([ring - top, ring + top])
    return Shape(joint, points, 0.0, "cylinder", overshoot=outer - radius, **fields)


def ellipsoid(joint: str, half: Any, **fields: Any) -> Shape:
    """Return a polyhedron that encloses an ellipsoid about the joint's origin.

    Args:
        joint: The joint that carries it.
        half: (3,) [m] Half axes.
        **fields: Other fields of `Shape`.
    """
    directions, outer = _round_polyhedron()
    half = np.asarray(half, dtype=float)
    return Shape(
        joint, outer * directions * half, 0.0, "ellipsoid", overshoot=(outer - 1.0) * float(half.max()), **fields
    )


def plane(joint: str, point: Any, normal: Any, **fields: Any) -> Shape:
    """Return the half-space behind a plane.

    Args:
        joint: The joint that carries it.
        point: (3,) [m] A point of the plane, in the joint's frame.
        normal: (3,) Points to the free side.
        **fields: Other fields of `Shape`.
    """
    normal = np.asarray(normal, dtype=float)
    return Shape(joint, np.reshape(point, (1, 3)), 0.0, "plane", normal=normal / np.linalg.norm(normal), **fields)


def grid(distances: DistanceGrid, **fields: Any) -> Shape:
    """Return an obstacle in the world, of any shape, described by a grid of signed distances.

    Args:
        distances: The grid.
        **fields: Other fields of `Shape`.
    """
    low, high = distances.box()
    corners = np.array(list(product(*zip(low, high, strict=True))))
    return Shape(WORLD, corners, 0.0, "grid", grid=distances, **fields)


def hull(joint: str, vertices: Any, **fields: Any) -> Shape:
    """Return the convex hull of points; only its corners are kept.

    Args:
        joint: The joint that carries it.
        vertices: (V, 3) [m] in the joint's frame.
        **fields: Other fields of `Shape`.
    """
    return Shape(joint, hull_corners(vertices), 0.0, "hull", **fields)


def hull_corners(vertices: Any) -> np.ndarray:
    """Return the vertices (V, 3) that are corners of their convex hull; all distinct ones if they are coplanar."""
    from scipy.spatial import ConvexHull, QhullError

    points = np.asarray(vertices, dtype=float).reshape(-1, 3)
    try:
        if len(points) > 4:
            points = points[ConvexHull(points).vertices]
    except QhullError:  # flat, a line, or all the same
        pass
    return np.unique(points, axis=0)  # last, because sorting all vertices of a mesh would take longer than its hull


def protruding(shapes: Iterable[Shape], drawn: Iterable[tuple[str, str, np.ndarray]]) -> list[Shape]:
    """Return shapes for what a file displays but does not cover with collision shapes, such as rubber hands.

    Args:
        shapes: The collision shapes of the file.
        drawn: (joint, name, vertices (V, 3) [m] in the joint's frame) of its surfaces.

    Returns:
        Hulls of the surfaces that stick out of the shapes of their joint by more than `PROTRUDES`. Their bits are 0, so
        that nothing collides with them unless a program turns them on, as `retarget` does.
    """
    from scipy.spatial import ConvexHull, QhullError

    solid: dict[str, list[Shape]] = {}
    for shape in shapes:
        if shape.collides and shape.normal is None:
            solid.setdefault(shape.joint, []).append(shape)
    out = []
    for joint, name, vertices in drawn:
        if joint not in solid:
            continue
        corners = hull_corners(vertices)
        if any(np.array_equal(corners, shape.points) for shape in solid[joint]):
            continue  # the file uses one mesh for both
        around = np.concatenate([corners_around(shape) for shape in solid[joint]])
        rough = np.unique((around @ _round_polyhedron()[0].T).argmax(axis=0))  # few corners rule out most vertices
        outside = corners
        try:
            for part in (around[rough], around):
                faces = ConvexHull(part).equations
                outside = outside[(outside @ faces[:, :3].T + faces[:, 3]).max(axis=1) > PROTRUDES]
                if not len(outside):
                    break
        except (QhullError, ValueError):  # flat
            continue
        if len(outside):
            out.append(Shape(joint, corners, 0.0, "hull", name, contype=0, conaffinity=0))
    return out


def corners_around(shape: Shape) -> np.ndarray:
    """Return points (V, 3) whose hull covers a shape: the corners of a cube about each of its points."""
    if not shape.radius:
        return shape.points
    cube = np.array(list(product((-1.0, 1.0), repeat=3))) * shape.radius
    return (shape.points[:, None] + cube).reshape(-1, 3)


@cache
def _round_polyhedron() -> tuple[np.ndarray, float]:
    """Return 162 unit vectors (a twice divided icosahedron) and the factor by which their hull encloses the ball."""
    from scipy.spatial import ConvexHull

    signs = (-1.0, 1.0)
    corners = [(0.0, a, b * _GOLDEN) for a in signs for b in signs]
    points = np.array([np.roll(corner, k) for corner in corners for k in range(3)])
    for _ in range(2):
        triangles = ConvexHull(points).simplices
        edges = {tuple(sorted((t[i], t[(i + 1) % 3]))) for t in triangles.tolist() for i in range(3)}
        middles = np.array([points[a] + points[b] for a, b in sorted(edges)])
        points = np.concatenate([points, middles])
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points, float(1.0 / np.abs(ConvexHull(points).equations[:, 3]).min())


def check_shapes(shapes: Iterable[object], bodies: Collection[str]) -> list[str]:
    """Return every fault of the shapes of a figure; `bodies` are its joints and the world."""
    findings = []
    for shape in shapes:
        if not isinstance(shape, Shape):
            findings.append(f"shapes: expected Shape(...), got {shape!r}")
            continue
        if shape.joint not in bodies:
            hint = did_you_mean(shape.joint, bodies)
            findings.append(f"shape {shape.name!r} is on the unknown joint {shape.joint!r}{hint}")
        findings += [f"shape {shape.name!r}: {problem}" for problem in shape.problems()]
    return findings
