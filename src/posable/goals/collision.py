"""Goals that avoid collisions: of a bone with an obstacle or a bone, of a whole figure with itself and obstacles."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from posable.engine.layout import AXES, CONSTANTS, MEASURE, POINT, ROBUST, SIZE, WEIGHT
from posable.engine.springs import CLEAR_SPRING, COLLISION_SPRING, SIDE_SPRING
from posable.errors import GoalError, PosableWarning, unknown
from posable.goals.base import (
    POSITION_TOLERANCE,
    Goal,
    Spring,
    batch_of,
    nonneg,
    numbers,
    target_row,
    unit_vectors,
    weight_along,
    weight_matrix,
)
from posable.goals.energy import anisotropic_energy
from posable.goals.relative import check_two_bodies
from posable.model import shapes
from posable.model.collision import SolidTables, fitted, pair_tables
from posable.model.distance_grid import MOST_NODES, default_spacing, mesh_grid, node_count, point_grid
from posable.model.joints import rotation_matrix
from posable.model.shapes import WORLD, Shape
from posable.model.skeleton import Skeleton

# --- Obstacles ---

RADIUS = 0.15  # default radius of a bone's capsule, relative to its length
THINNEST, THICKEST = 0.01, 0.08  # [m] bounds of that default


@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball: center (..., 3) [m] in the world, radius [m]."""

    center: Any
    radius: float

    def __post_init__(self):
        object.__setattr__(self, "center", numbers(self.center, (3,), "Sphere: center"))
        object.__setattr__(self, "radius", nonneg(self.radius, "Sphere: radius"))

    @property
    def start(self) -> np.ndarray:
        """Where its axis begins (..., 3)."""
        return self.center

    @property
    def axis(self) -> np.ndarray:
        """Its axis (..., 3), of zero length."""
        return np.zeros(3)


@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within `radius` [m] of the segment from start (..., 3) to end (..., 3) [m] in the world."""

    start: Any
    end: Any
    radius: float

    def __post_init__(self):
        object.__setattr__(self, "start", numbers(self.start, (3,), "Capsule: start"))
        object.__setattr__(self, "end", numbers(self.end, (3,), "Capsule: end"))
        object.__setattr__(self, "radius", nonneg(self.radius, "Capsule: radius"))

    @property
    def axis(self) -> np.ndarray:
        """From start to end (..., 3) [m]."""
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Box:
    """A block: center (3,) [m] in the world, full sizes (3,) [m] along its own axes, rotation of those axes."""

    center: Any
    size: Any
    rotation: Any = None

    def __post_init__(self):
        object.__setattr__(self, "center", numbers(self.center, (3,), "Box: center"))
        object.__setattr__(self, "size", numbers(self.size, (3,), "Box: size"))
        if (self.size < 0.0).any():
            raise GoalError("Box: size", expected="three non-negative numbers", got=repr(self.size))
        if rotation_matrix(self.rotation) is None:
            raise GoalError("Box: rotation", expected="a SciPy Rotation or a 3x3 matrix", got=repr(self.rotation))


@dataclass(frozen=True, eq=False)
class Hull:
    """The convex hull of points (V, 3) [m] in the world."""

    points: Any

    def __post_init__(self):
        object.__setattr__(self, "points", numbers(self.points, (3,), "Hull: points").reshape(-1, 3))


@dataclass(frozen=True, eq=False)
class Wall:
    """A half-space behind a plane: a point (..., 3) [m] of the plane and its normal (..., 3), towards the free side."""

    point: Any
    normal: Any

    def __post_init__(self):
        object.__setattr__(self, "point", numbers(self.point, (3,), "Wall: point"))
        object.__setattr__(self, "normal", unit_vectors(self.normal, "Wall: normal"))


@dataclass(frozen=True, eq=False)
class Mesh:
    """An obstacle of any shape: vertices (V, 3) [m] in the world and faces (F, 3), or an object that has both.

    Its signed distances are sampled on a grid once. A closed surface has an inside; an open one counts as a sheet that
    is a spacing thick on each side, and a warning says so.

    Args:
        vertices: (V, 3) [m], or an object with `vertices` and `faces`, such as one of trimesh's meshes.
        faces: (F, 3) indices of vertices.
        spacing: [m] between the nodes of the grid; details below it are lost. None: a hundredth of the longest side,
            at least 5 mm.
    """

    vertices: Any
    faces: Any = None
    spacing: float | None = None

    def __post_init__(self):
        given = self.vertices
        if self.faces is None and hasattr(given, "vertices") and hasattr(given, "faces"):
            object.__setattr__(self, "faces", given.faces)
            object.__setattr__(self, "vertices", given.vertices)
        object.__setattr__(self, "vertices", numbers(self.vertices, (3,), "Mesh: vertices").reshape(-1, 3))
        try:
            faces = np.asarray(self.faces)
        except ValueError:  # ragged
            faces = np.zeros((0, 0))
        fits = faces.ndim == 2 and faces.shape[1] == 3 and len(faces) and faces.dtype.kind in "iu"
        if not fits or faces.min() < 0 or faces.max() >= len(self.vertices):
            wanted = f"indices (F, 3) of {len(self.vertices)} vertices, at least one face"
            raise GoalError("Mesh: faces", expected=wanted, got=f"{type(self.faces).__name__} {np.shape(faces)}")
        object.__setattr__(self, "faces", faces)
        object.__setattr__(self, "spacing", grid_spacing(self.spacing, self.vertices, "Mesh: spacing"))

    @lru_cache(maxsize=16)  # noqa: B019 - a few grids, each as large as the obstacle is
    def shape(self, reach: float) -> Shape:
        """Return the obstacle with its distances up to `reach` [m]."""
        assert self.spacing is not None
        check_nodes(self.vertices, self.spacing, reach, "Mesh: spacing")
        made = mesh_grid(self.vertices, self.faces, self.spacing, reach)
        if not made.closed:
            thick = f"{1e3 * made.spacing:.3g} mm"
            warnings.warn(
                f"Mesh: the surface is not closed, so it counts as a sheet, {thick} thick on each side; close it or "
                "set a finer spacing", PosableWarning, stacklevel=2,
            )  # fmt: skip
        return shapes.grid(made, name="mesh")


@dataclass(frozen=True, eq=False)
class PointCloud:
    """An obstacle seen by a sensor: balls of `radius` [m] around points (P, 3) [m] in the world.

    Args:
        points: (P, 3) [m].
        radius: [m] Of each ball; less than half the distance between neighbouring points leaves holes.
        spacing: [m] Between the nodes of the grid of distances; see `Mesh`.
    """

    points: Any
    radius: float
    spacing: float | None = None

    def __post_init__(self):
        object.__setattr__(self, "points", numbers(self.points, (3,), "PointCloud: points").reshape(-1, 3))
        object.__setattr__(self, "radius", nonneg(self.radius, "PointCloud: radius"))
        if not len(self.points):
            raise GoalError("PointCloud: points", expected="at least one point", got="none")
        object.__setattr__(self, "spacing", grid_spacing(self.spacing, self.points, "PointCloud: spacing"))

    @lru_cache(maxsize=16)  # noqa: B019 - a few grids, each as large as the obstacle is
    def shape(self, reach: float) -> Shape:
        """Return the obstacle with its distances up to `reach` [m]."""
        assert self.spacing is not None
        check_nodes(self.points, self.spacing, reach + self.radius, "PointCloud: spacing")
        return shapes.grid(point_grid(self.points, self.radius, self.spacing, reach), name="point cloud")


def grid_spacing(given: float | None, points: np.ndarray, what: str) -> float:
    """Return the spacing [m] of a grid."""
    if given is None:
        return default_spacing(points)
    spacing = nonneg(given, what)
    if spacing == 0.0:
        raise GoalError(what, expected="a positive number [m]", got="0")
    return spacing


def check_nodes(points: np.ndarray, spacing: float, reach: float, what: str) -> None:
    """Raise if a grid would need too much memory."""
    if (count := node_count(points, spacing, reach)) > MOST_NODES:
        raise GoalError(what, expected=f"a grid of at most {MOST_NODES:,} nodes", got=f"{spacing:g} m: {count:,.0f}")


def bone_capsule(
    skeleton: Skeleton, body: str, ends: Any, radius: Any, what: str
) -> tuple[int, np.ndarray, np.ndarray, float]:
    """Return (body index, start (3,), axis (3,), radius) [m] of a bone's capsule, in the body's axes.

    Args:
        skeleton: The figure.
        body: A joint, or a site on it.
        ends: (2, 3) [m] in the named frame; None: from the joint to its first child, or else to its farthest site.
        radius: [m]; None: 15 % of the length, between 1 cm and 8 cm.
        what: Name of the goal in error messages.

    Raises:
        GoalError: The bone has neither child nor site, and no ends are given.
    """
    frame = skeleton.frame(body)
    index = int(skeleton.frame_bodies[frame])
    if ends is not None:
        points = numbers(ends, (2, 3), what + ": ends")
        rotation, position = skeleton.frame_rotations[frame], skeleton.frame_positions[frame]
        start, stop = position + rotation @ points[0], position + rotation @ points[1]
    else:
        joint = body if body in skeleton.names else skeleton.sites[frame - len(skeleton.names)].joint
        start, stop = _bone(skeleton, joint)
    axis = stop - start
    if radius is None:
        radius = min(max(RADIUS * float(np.linalg.norm(axis)), THINNEST), THICKEST)
    return index, start, axis, nonneg(radius, what + ": radius")


def _bone(skeleton: Skeleton, joint: str) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends (3,) [m] of a joint's bone, in the axes of its body."""
    frame = skeleton.frame(joint) if joint not in skeleton.site_names else skeleton.names.index(joint)
    position, rotation = skeleton.frame_positions[frame], skeleton.frame_rotations[frame]
    places = [np.asarray(child.offset, dtype=float) for child in skeleton.joints if child.parent == joint]
    places = [place for place in places if np.linalg.norm(place) > 1e-6][:1]
    if not places:
        sites = [np.asarray(site.offset, dtype=float) for site in skeleton.sites if site.joint == joint]
        places = sorted(sites, key=lambda place: -float(np.linalg.norm(place)))[:1]
    if not places:
        raise GoalError(f"Avoid({joint!r})", expected="ends=(start, end): the bone has no child and no site", got=None)
    return position, position + rotation @ places[0]


# --- Keep a bone out of a shape ---


class Avoid(Goal):
    """Keep the capsule of a bone out of an obstacle: energy w/2 max(0, radii + margin - distance)^2.

    The error is the depth of penetration [m]. The energy is smooth except where the two axes intersect and where they
    are exactly parallel: many pairs of points are then nearest, and the force jumps between the ends of the overlap.

    Args:
        body: A joint, or a site on it.
        obstacle: Sphere, Capsule, Wall, or the name of another body, whose capsule is avoided.
        ends: (2, 3) [m] The axis of the bone's capsule, in the body's frame; from the joint to the next by default.
        radius: [m] Of the bone's capsule; by default 15 % of its length, between 1 cm and 8 cm.
        other_ends: The same of the other body.
        other_radius: The same of the other body.
        margin: [m] Distance at which the push begins.
        weight: A number, three numbers or a symmetric 3x3 matrix W, in world axes or those of the other body: energy
            1/2 r'W r of the depth r along the line between the nearest points. With the default, a pull of one metre
            presses the bone in by 1 mm.
        tolerance: [m] Depth below which the goal counts as reached.
        label: Name in results; "forearm.R off sphere" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m] Error beyond which the goal pulls no harder; None: no such bound.
    """

    rows: int = 3

    def __init__(
        self,
        body: str,
        obstacle: Any,
        *,
        ends: Any = None,
        radius: float | None = None,
        other_ends: Any = None,
        other_radius: float | None = None,
        margin: float = 0.002,
        weight: Any = 1000.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        what = f"Avoid({body!r})"
        self.set_target(obstacle)
        super().__init__(label, nonneg(tolerance, what + ": tolerance"), priority, robust)
        self.weight = weight_matrix(weight, what + ": weight")
        self.margin = nonneg(margin, what + ": margin")
        self.shape = (ends, radius)
        self.other_shape = (other_ends, other_radius)

    def default_label(self) -> str:
        """Return "forearm.R off sphere"."""
        name = self.obstacle if isinstance(self.obstacle, str) else type(self.obstacle).__name__.lower()
        return f"{self.body} off {name}"

    def set_target(self, target: Any) -> None:
        """Set the obstacle or, for a Sphere, only its center (..., 3) [m]."""
        old = getattr(self, "obstacle", None)
        if isinstance(old, Sphere) and not isinstance(target, (Sphere, Capsule, Wall, str)):
            target = Sphere(numbers(target, (3,), f"Avoid({self.body!r}): center"), old.radius)
        if not isinstance(target, (Sphere, Capsule, Wall, str)):
            raise GoalError(
                f"Avoid({self.body!r}): obstacle", expected="Sphere, Capsule, Wall or a body's name", got=repr(target)
            )
        self.obstacle = target
        self.rows = 6 if isinstance(target, Wall) else 3  # a wall meets both ends of the bone

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One CLEAR spring; against a wall two SIDE springs, one for each end of the bone, with one error."""
        what = f"Avoid({self.body!r})"
        body, start, axis, radius = bone_capsule(skeleton, self.body, *self.shape, what)
        if isinstance(self.obstacle, Wall):
            wall = self.obstacle
            push = weight_along(self.weight, wall.normal)
            batch_of(wall.point, wall.normal, what=what)  # checks that they agree
            data, target = self._row(push.shape, radius, push), target_row(wall.point, wall.normal)
            both = []
            for end in (start, start + axis):
                data = data.copy()
                data[..., POINT : POINT + 3] = end
                both.append(Spring(SIDE_SPRING, body, data, target, self.tolerance))
            return both
        if isinstance(self.obstacle, str):
            other, p, along, thick = bone_capsule(skeleton, self.obstacle, *self.other_shape, what)
            check_two_bodies(body, other, self)
            data, target = self._row((), radius + thick, self.weight[0]), target_row(p, along)
        else:
            other, solid = -1, self.obstacle
            batch_of(solid.start, solid.axis, what=what)
            data = self._row((), radius + solid.radius, self.weight[0])
            target = target_row(solid.start, solid.axis)
        data[..., POINT : POINT + 3], data[..., AXES : AXES + 3] = start, axis
        return [Spring(CLEAR_SPRING, body, data, target, self.tolerance, "", other)]

    def python_energy(self, skeleton: Skeleton) -> Any:
        """Return the energy of an anisotropic weight; a wall pushes in one direction only."""
        return None if isinstance(self.obstacle, Wall) else anisotropic_energy(self, skeleton, self.weight)

    def _row(self, batch: tuple[int, ...], size: float, weight: Any) -> np.ndarray:
        data = np.zeros((*batch, CONSTANTS))
        data[..., SIZE], data[..., MEASURE] = size + self.margin, self.margin
        data[..., WEIGHT] = weight
        data[..., ROBUST] = 0.0 if self.robust is None else weight * self.robust**2
        return data


# --- Collisions of a whole figure ---

BUFFER = 2e-4  # [m] beyond the margin, where shapes begin to repel each other; closer places are not reached exactly


def obstacle_shape(obstacle: Any) -> Shape | Mesh | PointCloud:
    """Return an obstacle as a shape that is fixed to the world; one that takes a grid, as it is."""
    what = "NoCollision: obstacles"
    if isinstance(obstacle, Shape) and obstacle.joint == WORLD:
        return obstacle
    if isinstance(obstacle, Sphere) and obstacle.center.ndim == 1:
        return shapes.sphere(WORLD, obstacle.radius, obstacle.center, name="sphere")
    if isinstance(obstacle, Capsule) and obstacle.start.ndim == obstacle.end.ndim == 1:
        return shapes.capsule(WORLD, obstacle.start, obstacle.end, obstacle.radius, name="capsule")
    if isinstance(obstacle, Wall) and obstacle.point.ndim == obstacle.normal.ndim == 1:
        return shapes.plane(WORLD, obstacle.point, obstacle.normal, name="wall")
    if isinstance(obstacle, Box):
        return shapes.box(WORLD, 0.5 * obstacle.size, name="box").moved(WORLD, obstacle.center, obstacle.rotation)
    if isinstance(obstacle, Hull):
        return shapes.hull(WORLD, obstacle.points, name="hull")
    if isinstance(obstacle, (Mesh, PointCloud)):
        return obstacle
    raise GoalError(
        what, expected="Sphere, Capsule, Box, Hull, Wall, Mesh or PointCloud, not batched", got=repr(obstacle)
    )


def pairs_of_names(pairs: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of joints, links or bodies as they are given to NoCollision."""
    listed = list(pairs) if isinstance(pairs, Iterable) and not isinstance(pairs, str) else [pairs]
    for pair in listed:
        two = isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(name, str) for name in pair)
        if not two:
            raise GoalError(
                "NoCollision: pairs", expected="pairs of names, such as [('hand', 'head')]; obstacles go to obstacles=",
                got=repr(pair)[:60],
            )  # fmt: skip
    return tuple((str(a), str(b)) for a, b in listed)


class NoCollision(Goal):
    """Keep a figure's shapes off each other and off obstacles: energy w/2 max(0, margin + buffer - distance)^2.

    Every pair of `skeleton.shapes` that may collide is one term; distances between shapes are exact, those from a Mesh
    or a PointCloud are as fine as its grid. The error is how much closer than `margin` the nearest pair is [m]; with
    margin 0, the depth of penetration.

    Args:
        pairs: Pairs of joints, or of links and bodies, whose shapes are checked; None: `skeleton.collision_pairs`.
        obstacles: Sphere, Capsule, Box, Hull, Wall, Mesh and PointCloud, in the world.
        margin: [m] Clearance to keep.
        weight: How hard shapes repel each other, against 1 for a position: a position that is missed by 5 cm because of
            them presses them together by 1 mm, less the buffer of 0.2 mm.
        tolerance: [m] By which the margin may be missed.
        label: Name in results; "no collision" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
    """

    def __init__(
        self,
        pairs: Any = None,
        obstacles: Any = (),
        *,
        margin: float = 0.0,
        weight: float = 50.0,
        tolerance: float = POSITION_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
    ):
        super().__init__(label, nonneg(tolerance, "NoCollision: tolerance"), priority, None)
        self.pairs = None if pairs is None else pairs_of_names(pairs)
        self.margin = nonneg(margin, "NoCollision: margin")
        several = obstacles if isinstance(obstacles, Iterable) else (obstacles,)
        self.obstacles = tuple(obstacle_shape(obstacle) for obstacle in several)
        self.weight = nonneg(weight, "NoCollision: weight")

    def default_label(self) -> str:
        """Return "no collision"."""
        return "no collision"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the goal for a goal file; obstacles have no file form."""
        if self.obstacles:
            raise GoalError(f"{self}", expected="no obstacles in a goal file", got=f"{len(self.obstacles)} obstacles")
        pairs = None if self.pairs is None else [list(pair) for pair in self.pairs]
        return {"pairs": pairs, "margin": self.margin, "weight": self.weight}

    def tables(self, skeleton: Skeleton) -> SolidTables:
        """Return the tables of the solids and pairs that are checked."""
        missing = skeleton.info.get("missing_shapes")
        if not skeleton.shapes:
            raise GoalError(
                "NoCollision", got=missing or None,
                expected="a figure with shapes: a robot's file has them, skeleton.replace(shapes=...) adds them",
            )  # fmt: skip
        if missing:
            warnings.warn(f"NoCollision does not check all links: {missing}", PosableWarning, stacklevel=2)
        obstacles = self._shapes(skeleton)
        if self.pairs is None:
            return pair_tables(skeleton, skeleton.collision_pairs, obstacles)
        owner = {site.name: site.joint for site in skeleton.sites} | {name: name for name in (*skeleton.names, WORLD)}
        for name in (name for pair in self.pairs for name in pair if name not in owner):
            raise unknown("joint or site", name, (*skeleton.site_names, *skeleton.names))
        return pair_tables(skeleton, tuple((owner[a], owner[b]) for a, b in self.pairs), obstacles)

    def _shapes(self, skeleton: Skeleton) -> tuple[Shape, ...]:
        """Return the obstacles as shapes; grids reach as far as distances count."""
        shapes = tuple(obstacle for obstacle in self.obstacles if isinstance(obstacle, Shape))
        if len(shapes) == len(self.obstacles):
            return shapes
        thickest = max(fitted(shape)[1] for shape in skeleton.shapes)
        reach = 0.02 * math.ceil((self.margin + BUFFER + thickest) / 0.02)  # rounded: similar figures share a grid
        return tuple(one if isinstance(one, Shape) else one.shape(reach) for one in self.obstacles)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One COLLISION spring; a problem adds where its pairs are in the tables."""
        data = np.zeros(CONSTANTS)
        data[WEIGHT], data[SIZE], data[MEASURE] = self.weight, self.margin + BUFFER, self.margin
        return [Spring(COLLISION_SPRING, -1, data, target_row(), self.tolerance)]
