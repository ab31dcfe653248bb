"""Collision tables for the kernels, the choice of pairs that are checked, and distances between shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from posable.engine.collision import measure_pairs, retreat
from posable.engine.layout import (
    CAPSULE,
    CAPSULE_AXIS,
    CAPSULE_RADIUS,
    CORNERS,
    COVERING_RADIUS,
    FIELD,
    FIRST,
    FIRST_CORNER,
    FIRST_SEED,
    LAST,
    NORMAL,
    ON_BODY,
    PARENT,
    RADIUS,
    REACH,
    SEEDS,
    SOLID_KIND,
    SOLID_WIDTH,
    Figure,
    work_size,
)
from posable.engine.narrow_phase import CELLS, FAR, GRID, HALF_SPACE, HULL
from posable.model.joints import Joint, frozen_array
from posable.model.shapes import WORLD, Shape

MOST_CORNERS = 256  # of a hull; larger ones are replaced by fewer corners and a covering radius
FEW_CORNERS = 8  # of hulls whose corners are all compared, without a table
CLOSE_FIT = 5e-4  # [m] accuracy of that replacement
MOST_SEEDS, SEED_SPACING = 48, 0.015  # starting points of the search for the distance to a grid; [m]
SURFACE_POINTS = 3000  # of which the seeds are chosen
SAMPLES = 1000  # random poses at which pairs are examined
ALWAYS = 0.95  # fraction of poses in contact above which a pair counts as always touching
NEVER = 0.05  # [m] smallest distance over all poses above which a pair may count as never touching
FEW_SAMPLES = 200  # of the poses, at which the distances of such pairs are measured
RARELY = 1.0  # how much closer they may still come, relative to the way from their median to their smallest distance


class SkeletonLike(Protocol):
    """The part of `posable.Skeleton` used here. Skeleton imports this module, which therefore cannot import it."""

    joints: tuple[Joint, ...]
    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    couplings: tuple[tuple[str, str, float, float], ...]
    disabled_pairs: tuple[tuple[str, str], ...]
    named_poses: Mapping[str, np.ndarray]
    slices: tuple[slice, ...]
    size: int
    lower: np.ndarray
    upper: np.ndarray
    rest: np.ndarray
    figure: Figure
    frame_bodies: np.ndarray
    frame_positions: np.ndarray
    frame_rotations: np.ndarray

    @property
    def collision_pairs(self) -> tuple[tuple[str, str], ...]: ...  # noqa: D102
    def dof(self, name: str) -> int: ...  # noqa: D102


# --- Simplified hulls ---


@lru_cache(maxsize=4096)
def fitted(shape: Shape) -> tuple[np.ndarray, float]:
    """Return the corners (V, 3) and the radius [m] of a solid of at most MOST_CORNERS corners that covers a shape.

    Extreme corners in many directions are chosen first, then those farthest outside the hull of the chosen ones; the
    remaining distance is added to the radius.
    """
    points = shape.points
    if len(points) <= MOST_CORNERS:
        return points, shape.radius
    chosen = list(dict.fromkeys(np.argmax(points @ _directions(MOST_CORNERS * 2 // 3).T, axis=0).tolist()))
    missed = hull_distances(points[chosen], points)
    while len(chosen) < MOST_CORNERS and missed.max() > CLOSE_FIT:
        candidates = np.argsort(-missed)[:64]
        candidates = candidates[missed[candidates] > CLOSE_FIT]
        room = MOST_CORNERS - len(chosen)
        while len(candidates) and room:  # spread out, or one face takes them all
            chosen.append(int(candidates[0]))
            room -= 1
            candidates = candidates[np.linalg.norm(points[candidates] - points[candidates[0]], axis=1) > 0.02]
        missed = hull_distances(points[chosen], points)
    return points[chosen], shape.radius + float(missed.max())


def _directions(count: int) -> np.ndarray:
    """Return evenly spread unit vectors (count, 3), a Fibonacci lattice."""
    k = np.arange(count) + 0.5
    height, angle = 1.0 - 2.0 * k / count, np.pi * (1.0 + 5.0**0.5) * k
    across = np.sqrt(1.0 - height * height)
    return np.stack([across * np.cos(angle), across * np.sin(angle), height], axis=-1)


def hull_distances(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the distances (P,) [m] of points (P, 3) from the convex hull of corners (V, 3); zero inside."""
    count = len(points)
    solid = np.zeros((count + 1, SOLID_WIDTH))
    solid[:, ON_BODY], solid[:, CORNERS], solid[:, CAPSULE_RADIUS], solid[:, FIELD] = -1.0, 1.0, FAR, -1.0
    solid[:, REACH] = FAR
    solid[:, FIRST_CORNER] = len(corners) + np.arange(count + 1)
    solid[:count, CAPSULE : CAPSULE + 3] = points
    solid[count, FIRST_CORNER], solid[count, CORNERS] = 0.0, len(corners)
    solid[count, CAPSULE : CAPSULE + 3] = corners.mean(axis=0)
    pair = np.stack([np.arange(count), np.full(count, count)], axis=-1).astype(np.int64)
    tables = (solid, np.concatenate([corners, points]), np.zeros((1, 4)), np.zeros((0, 4), np.int64), pair)
    body, rest = np.array([[-1, 0, 0, 0]]), np.concatenate([np.zeros(3), np.eye(3).ravel()])[None]
    none = np.zeros(0)
    *solids, touch, pair = tables
    figure = Figure(
        *map(frozen_array, (body, rest, np.zeros((0, 5), np.int64), none, np.zeros((1, 4)), *solids, none, touch, pair))
    )
    out = np.empty((1, count))
    measure_pairs(figure, np.zeros((1, 0)), np.zeros(work_size(0, 1, 0, 1)), 0, count, FAR, out)
    return np.maximum(out[0], 0.0)


def enclosing_center(points: np.ndarray) -> np.ndarray:
    """Return nearly the centre (k,) of the smallest ball around points (V, k) (Badoiu & Clarkson 2003)."""
    center = 0.5 * (points.max(axis=0) + points.min(axis=0))
    for step in range(2, 34):
        away = points - center
        center = center + away[np.einsum("ij,ij->i", away, away).argmax()] / step
    return center


@lru_cache(maxsize=1024)
def _enclosing_center(points: bytes) -> np.ndarray:
    """Do as `enclosing_center` in three dimensions, once per body."""
    return enclosing_center(np.frombuffer(points).reshape(-1, 3))


def bounding_capsule(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the centre (3,), the half axis (3,) and the radius [m] of a capsule around points (V, 3).

    Of those along the three principal axes it is the one with the least volume.
    """
    return _bounding_capsule(np.ascontiguousarray(points, dtype=float).tobytes())


@lru_cache(maxsize=4096)
def _bounding_capsule(points: bytes) -> tuple[np.ndarray, np.ndarray, float]:
    """Do as `bounding_capsule`, once per solid."""
    corners = np.frombuffer(points).reshape(-1, 3)
    if len(corners) == 1:
        return corners[0], np.zeros(3), 0.0
    axes = np.linalg.svd(corners - corners.mean(axis=0), full_matrices=len(corners) < 3)[2]
    return min((_capsule_along(corners, axes, k) for k in range(3)), key=_capsule_volume)


def _capsule_along(points: np.ndarray, axes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return a capsule around points (V, 3), as `bounding_capsule`, along row k of orthonormal axes (3, 3)."""
    axis, others = axes[k], np.delete(axes, k, axis=0)
    middle = enclosing_center(points @ others.T) @ others
    along = points @ axis
    across = np.linalg.norm(points - middle - np.outer(along, axis), axis=1)
    radius = float(across.max()) * (1.0 + 1e-12)
    room = np.sqrt(np.maximum(radius * radius - across * across, 0.0))
    high, low = float((along - room).max()), float((along + room).min())
    if high < low:
        high = low = 0.5 * (high + low)
    centre = middle + 0.5 * (high + low) * axis
    half = 0.5 * (high - low)
    t = np.clip((points - centre) @ axis, -half, half)
    return centre, half * axis, float(np.linalg.norm(points - centre - np.outer(t, axis), axis=1).max())


def _capsule_volume(capsule: tuple[np.ndarray, np.ndarray, float]) -> float:
    """Return the volume [m^3] of a capsule, over pi."""
    _, half, radius = capsule
    return radius * radius * (2.0 * float(np.linalg.norm(half)) + 4.0 / 3.0 * radius)


# --- Tables ---


class SolidTables:
    """The solids and pairs of a figure as the kernels read them, gathered from one or more goals."""

    def __init__(self, skeleton: SkeletonLike):
        self.skeleton = skeleton
        self.solids: list[np.ndarray] = []
        self.corners: list[np.ndarray] = []
        self.touch: list[tuple[int, int, int, int]] = []
        self.pairs: list[tuple[int, int]] = []
        self.rows: dict[Shape, int] = {}
        self._count = 0
        self._figure: tuple[int, Figure] | None = None  # cached, with the number of pairs

    def body_of(self, joint: str) -> int:
        """Return the body that a joint belongs to; -1 for the world."""
        return body_of(self.skeleton, joint)

    def row_of(self, shape: Shape) -> int:
        """Return the row of a shape, adding it if it is new."""
        if shape not in self.rows:
            self.rows[shape] = len(self.solids)
            self.solids.append(self._solid(shape))
        return self.rows[shape]

    def _solid(self, shape: Shape) -> np.ndarray:
        points, radius = fitted(shape)
        row = np.zeros(SOLID_WIDTH)
        row[ON_BODY] = self.body_of(shape.joint)
        normal = shape.normal
        if row[ON_BODY] >= 0:
            names = self.skeleton.names
            frame = names.index(shape.joint)
            rotation = self.skeleton.frame_rotations[frame]
            points = self.skeleton.frame_positions[frame] + points @ rotation.T
            normal = None if normal is None else rotation @ normal
        row[FIRST_CORNER], row[CORNERS], row[RADIUS] = self._count, len(points), radius
        middle, half, bound = bounding_capsule(points)
        row[CAPSULE : CAPSULE + 3], row[CAPSULE_AXIS : CAPSULE_AXIS + 3], row[CAPSULE_RADIUS] = (
            middle,
            half,
            bound + radius,
        )
        row[REACH] = (np.linalg.norm(points - middle, axis=1).max() + radius) * (1.0 + 1e-12)
        row[SOLID_KIND] = GRID if shape.grid is not None else HULL if normal is None else HALF_SPACE
        row[FIELD] = -1.0
        if normal is not None:
            row[NORMAL : NORMAL + 3] = normal
        self.corners.append(points)
        self._count += len(points)
        return row

    def add(self, pairs: Iterable[tuple[Shape, Shape]]) -> tuple[int, int]:
        """Add pairs of shapes that must not touch; return their range (first, last) of rows in `touch`."""
        by_bodies: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for a, b in pairs:
            if a.kind == "plane" or (self.body_of(a.joint) < 0 <= self.body_of(b.joint) and b.kind != "plane"):
                a, b = b, a
            if a.kind == "plane":
                continue  # two half spaces
            bodies = (self.body_of(a.joint), self.body_of(b.joint))
            by_bodies.setdefault(bodies, []).append((self.row_of(a), self.row_of(b)))
        first = len(self.touch)
        for (one, two), rows in by_bodies.items():
            if one >= 0:
                self.touch.append((one, two, len(self.pairs), len(self.pairs) + len(rows)))
                self.pairs += rows
        return first, len(self.touch)

    def figure(self) -> Figure:
        """Return the skeleton's arrays with these tables."""
        if self._figure is None or self._figure[0] != len(self.pairs):
            self._figure = (len(self.pairs), self._made())
        return self._figure[1]

    def _made(self) -> Figure:
        figure = self.skeleton.figure
        solid = np.array(self.solids).reshape(-1, SOLID_WIDTH)
        seeds, fields = self._seeds(solid), self._fields(solid)
        return figure._replace(
            solid=frozen_array(solid),
            corner=frozen_array(np.concatenate([np.zeros((0, 3)), *self.corners, *seeds])),
            ball=frozen_array(_balls(figure.body.shape[0], solid, self.corners)),
            field=frozen_array(np.concatenate([np.zeros(0), *fields])),
            touch=frozen_array(np.array(self.touch, dtype=np.int64).reshape(-1, 4)),
            pair=frozen_array(np.array(self.pairs, dtype=np.int64).reshape(-1, 2)),
        )

    def _fields(self, solid: np.ndarray) -> list[np.ndarray]:
        """Return the grids and the tables of extreme corners of the solids, and write where each begins."""
        out: list[np.ndarray] = []
        for shape, row in self.rows.items():
            first = sum(map(len, out))
            if shape.grid is not None:
                out.append(shape.grid.field())
            elif len(self.corners[row]) > FEW_CORNERS:
                out.append(extreme_corners(self.corners[row], int(solid[row, FIRST_CORNER]), first))
            else:
                continue
            solid[row, FIELD] = first
        return out

    def _seeds(self, solid: np.ndarray) -> list[np.ndarray]:
        """Return the seeds of the solids that may meet a grid, and write where they are."""
        out: list[np.ndarray] = []
        meets = {a for a, b in self.pairs if solid[b, SOLID_KIND] == GRID}
        for row in sorted(meets):
            seeds, cover = spread_seeds(self.corners[row])
            solid[row, FIRST_SEED] = self._count + sum(map(len, out))
            solid[row, SEEDS], solid[row, COVERING_RADIUS] = len(seeds), cover
            out.append(seeds)
        return out


def extreme_corners(corners: np.ndarray, first: int, at: int) -> np.ndarray:
    """Return the table of the extreme corners of a hull of corners (V, 3) by cells of directions: narrow_phase.py.

    A corner is listed for a cell unless another one is further along all four directions at the corners of the cell,
    and so along every direction of it.

    Args:
        corners: (V, 3) [m].
        first: Row of the first corner in Figure.corner.
        at: Where the table begins in Figure.field.
    """
    ends, listed = _listed_corners(np.ascontiguousarray(corners, dtype=float).tobytes())
    return np.concatenate([at + len(ends) + ends, first + listed]).astype(float)


@lru_cache(maxsize=1024)
def _listed_corners(corners: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return where the list of each cell ends, from 0 on, and the corners in the lists; goals share hulls."""
    along = np.frombuffer(corners).reshape(-1, 3) @ _cell_directions().T
    along = along.reshape(len(along), -1, 4)  # (V, cells, 4)
    furthest = along.argmax(axis=0)  # (cells, 4): the corners that may rule out others
    rivals = np.take_along_axis(along, furthest.T[:, :, None], axis=0)  # (4, cells, 4)
    margin = 1e-12 * float(np.abs(along).max())
    beaten = np.zeros(along.shape[:2], dtype=bool)
    for rival in rivals:
        beaten |= (rival > along + margin).all(axis=-1)
    cells, listed = np.nonzero(~beaten.T)
    return np.searchsorted(cells, np.arange(along.shape[1] + 1)), listed


@lru_cache(maxsize=1)
def _cell_directions() -> np.ndarray:
    """Return the directions (4 cells, 3) at the corners of the cells of `direction_cell`."""
    edges = np.linspace(-1.0, 1.0, CELLS + 1)
    out = []
    for axis in range(3):
        for side in (1.0, -1.0):
            for i in range(CELLS):
                for j in range(CELLS):
                    square = [(edges[i + p], edges[j + q]) for p in (0, 1) for q in (0, 1)]
                    out += [np.insert(corner, axis, side) for corner in square]
    return np.array(out)


def spread_seeds(corners: np.ndarray) -> tuple[np.ndarray, float]:
    """Return points (k, 3) [m] spread over the hull of corners (V, 3), and their covering radius [m]."""
    if len(corners) == 1:
        return corners, 0.0
    dense, gap = _surface_points(corners)
    chosen = [int(np.argmax(np.linalg.norm(dense - dense.mean(axis=0), axis=1)))]
    apart = np.linalg.norm(dense - dense[chosen[0]], axis=1)
    while len(chosen) < MOST_SEEDS and apart.max() > SEED_SPACING:
        chosen.append(int(np.argmax(apart)))
        apart = np.minimum(apart, np.linalg.norm(dense - dense[chosen[-1]], axis=1))
    return dense[chosen], float(apart.max()) + gap


def _surface_points(corners: np.ndarray) -> tuple[np.ndarray, float]:
    """Return many points (k, 3) [m] on the surface of a hull of corners (V, 3), and their covering radius [m]."""
    from scipy.spatial import ConvexHull, QhullError

    if len(corners) == 2:
        axis = corners[1] - corners[0]
        return corners[0] + np.linspace(0.0, 1.0, 65)[:, None] * axis, float(np.linalg.norm(axis)) / 128.0
    try:
        faces = corners[ConvexHull(corners).simplices]
    except (QhullError, ValueError):  # flat
        faces = np.array([corners[[0, i, j]] for i in range(1, len(corners)) for j in range(i + 1, len(corners))])
    n = max(2, int(np.sqrt(2.0 * SURFACE_POINTS / len(faces))))
    weights = np.array([(i, j, n - i - j) for i in range(n + 1) for j in range(n + 1 - i)]) / n
    longest = float(np.linalg.norm(faces - np.roll(faces, 1, axis=1), axis=-1).max())
    return np.unique(np.round((weights @ faces).reshape(-1, 3), 12), axis=0), longest / (n * np.sqrt(3.0))


def _balls(bodies: int, solid: np.ndarray, corners: Sequence[np.ndarray]) -> np.ndarray:
    """Return centres and radii (b, 4) [m] of bounding spheres of the solids of each body."""
    out = np.zeros((bodies, 4))
    out[:, 3] = -1.0
    for body in range(bodies):
        mine = np.flatnonzero((solid[:, ON_BODY] == body) & (solid[:, SOLID_KIND] == HULL)).tolist()
        if mine:
            center = _enclosing_center(np.concatenate([corners[row] for row in mine]).tobytes())
            reach = [np.linalg.norm(corners[row] - center, axis=1).max() + solid[row, RADIUS] for row in mine]
            out[body] = *center, max(reach) * (1.0 + 1e-12)
    return out


def body_of(skeleton: SkeletonLike, joint: str) -> int:
    """Return the body that a joint belongs to; -1 for the world."""
    return -1 if joint == WORLD else int(skeleton.frame_bodies[skeleton.names.index(joint)])


def moving_dofs(skeleton: SkeletonLike, body: int) -> set[int]:
    """Return the degrees of freedom that move a body."""
    out: set[int] = set()
    while body >= 0:
        row = skeleton.figure.body[body]
        out.update(range(int(row[FIRST]), int(row[LAST])))
        body = int(row[PARENT])
    return out


# --- Which pairs are checked ---


def candidate_pairs(skeleton: SkeletonLike) -> list[tuple[str, str]]:
    """Return the pairs of joints with shapes that move relative to each other, except neighbours and disabled pairs."""
    joints = list(dict.fromkeys(shape.joint for shape in skeleton.shapes))
    bodies = {joint: body_of(skeleton, joint) for joint in joints}
    dofs = {joint: moving_dofs(skeleton, body) for joint, body in bodies.items()}
    disabled = {frozenset(pair) for pair in skeleton.disabled_pairs}
    parents = skeleton.figure.body[:, PARENT]
    still = {body for joint, body in bodies.items() if not dofs[joint]} | {-1}
    out = []
    for i, a in enumerate(joints):
        for b in joints[i + 1 :]:
            one, two = bodies[a], bodies[b]
            if dofs[a] == dofs[b] or frozenset((a, b)) in disabled:
                continue
            above = [int(parents[body]) if body >= 0 else -1 for body in (one, two)]
            both_on_robot = -1 not in (one, two)
            if both_on_robot and (above[0] == two or above[1] == one):
                continue  # parent and child
            if both_on_robot and ((one in still and above[1] in still) or (two in still and above[0] in still)):
                continue
            out.append((a, b))
    return out


def shape_pairs(skeleton: SkeletonLike, pairs: Iterable[tuple[str, str]]) -> list[tuple[Shape, Shape]]:
    """Return the pairs of shapes on pairs of joints whose collision bits allow a contact."""
    on: dict[str, list[Shape]] = {}
    for shape in skeleton.shapes:
        on.setdefault(shape.joint, []).append(shape)
    return [(s, t) for a, b in pairs for s in on.get(a, ()) for t in on.get(b, ()) if s.may_touch(t)]


def partner_pairs(skeleton: SkeletonLike) -> list[tuple[Shape, Shape]]:
    """Return the pairs of shapes of which one names the other as a partner."""
    if not any(shape.partners for shape in skeleton.shapes):
        return []
    return [(s, t) for i, s in enumerate(skeleton.shapes) for t in skeleton.shapes[i + 1 :] if s.partner_of(t)]


def choose_pairs(skeleton: SkeletonLike) -> tuple[tuple[str, str], ...]:
    """Return the pairs of joints whose shapes are to be checked against each other.

    Excluded are neighbours, disabled pairs, pairs in contact at rest or at nearly every pose (by design, or because of
    their hulls), and pairs that are far apart at all of many random poses and vary too little to touch at others.
    """
    candidates = candidate_pairs(skeleton)
    if not candidates or not skeleton.size:
        return ()
    rng = np.random.default_rng(0)
    lower = np.where(np.isfinite(skeleton.lower), skeleton.lower, skeleton.rest - np.pi)
    upper = np.where(np.isfinite(skeleton.upper), skeleton.upper, skeleton.rest + np.pi)
    poses = rng.uniform(lower, upper, (SAMPLES, skeleton.size))
    couple(skeleton, poses)
    homes = np.array([skeleton.rest, *skeleton.named_poses.values()])
    free = [i for joint, where in zip(skeleton.joints, skeleton.slices, strict=True)
            if joint.motion.size == 6 for i in range(where.start, where.stop)]  # fmt: skip
    poses[:, free] = homes[-1][free]  # as the figure stands on the floor
    at_home = _touching(skeleton, candidates, homes[:1], 0.0)
    nearest = _touching(skeleton, candidates, poses, NEVER)
    apart = _never_touching(skeleton, candidates, nearest, poses)
    chosen = []
    for pair, home, away in zip(candidates, at_home.T, nearest.T, strict=True):
        if (home < -CLOSE_FIT).any() or (away < 0.0).mean() > ALWAYS or pair in apart:
            continue
        chosen.append(pair)
    return tuple(chosen)


def _never_touching(
    skeleton: SkeletonLike, pairs: Sequence[tuple[str, str]], nearest: np.ndarray, poses: np.ndarray
) -> set[tuple[str, str]]:
    """Return the pairs that are apart at all poses (t, n), of distances nearest (t, p), and probably at every other.

    Hands of a humanoid rarely meet at random poses: where the distances vary much, smaller ones are to be expected.
    """
    far = [
        pair for pair, away in zip(pairs, nearest.T, strict=True)
        if away.min() >= NEVER and all(body_of(skeleton, joint) >= 0 for joint in pair)
    ]  # fmt: skip
    if not far:
        return set()
    some = _touching(skeleton, far, poses[:FEW_SAMPLES], FAR)
    least, middle = some.min(axis=0), np.median(some, axis=0)
    never = least - RARELY * (middle - least) >= NEVER
    return {pair for pair, so in zip(far, never, strict=True) if so}


def couple(skeleton: SkeletonLike, poses: np.ndarray) -> None:
    """Move the coupled degrees of freedom of poses (t, n) to where their leaders put them, in place."""
    for _ in skeleton.couplings:  # a leader may follow another one
        for follower, leader, ratio, offset in skeleton.couplings:
            poses[:, skeleton.dof(follower)] = ratio * poses[:, skeleton.dof(leader)] + offset


def _touching(skeleton: SkeletonLike, pairs: Sequence[tuple[str, str]], poses: np.ndarray, size: float) -> np.ndarray:
    """Return the distances (t, p) [m] of pairs of joints at poses (t, n); a large number beyond `size`."""
    out = np.full((len(poses), len(pairs)), FAR)
    groups = [shape_pairs(skeleton, [pair]) for pair in pairs]
    tables = SolidTables(skeleton)
    spans = []
    for group in groups:
        first = len(tables.pairs)
        tables.add(group)
        spans.append((first, len(tables.pairs)))
    distances = measure(tables, poses, size)
    for k, (first, last) in enumerate(spans):
        if last > first:
            out[:, k] = distances[:, first:last].min(axis=1)
    return out


def measure(tables: SolidTables, poses: np.ndarray, size: float) -> np.ndarray:
    """Return the distances (t, p) [m] of all pairs of the tables at poses (t, n); a large number beyond `size`."""
    figure = tables.figure()
    n, b = tables.skeleton.size, figure.body.shape[0]
    out = np.empty((len(poses), len(tables.pairs)))
    work = np.zeros(work_size(n, b, 0, 1))
    measure_pairs(figure, np.ascontiguousarray(poses, dtype=float), work, 0, len(tables.pairs), float(size), out)
    return out


def retreated(figure: Figure, poses: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return poses (t, n) with the dofs between bodies that overlap as in starts (t, n), the others as they are."""
    out = np.ascontiguousarray(poses, dtype=float).copy()
    n, b = out.shape[1], figure.body.shape[0]
    retreat(figure, out, np.ascontiguousarray(starts, dtype=float), np.zeros(work_size(n, b, 0, 1) + n))
    return out


@lru_cache(maxsize=64)
def pair_tables(
    skeleton: SkeletonLike, pairs: tuple[tuple[str, str], ...], obstacles: tuple[Shape, ...]
) -> SolidTables:
    """Return the tables of pairs of joints, and of every moving shape against the obstacles.

    Partners are among the skeleton's own `collision_pairs` even if their joints are not; of other pairs, only those
    whose joints are.
    """
    tables = SolidTables(skeleton)
    solid = [s for s in skeleton.shapes if s.kind != "plane" and s.collides]
    moving = [s for s in solid if moving_dofs(skeleton, body_of(skeleton, s.joint))]
    checked = shape_pairs(skeleton, pairs)
    if partners := partner_pairs(skeleton):
        known = {frozenset(pair) for pair in checked}
        more = partners if pairs == skeleton.collision_pairs else ()
        checked += [pair for pair in more if frozenset(pair) not in known]
    tables.add([*checked, *((shape, obstacle) for obstacle in obstacles for shape in moving)])
    return tables


@lru_cache(maxsize=64)
def coupled_by_contacts(skeleton: SkeletonLike, tables: tuple[SolidTables, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the groups of degrees of freedom that contacts couple: those that move one body of a pair only."""
    pairs = {(one, two) for table in tables for one, two, _, _ in table.touch if two >= 0}
    dofs = {body: moving_dofs(skeleton, body) for pair in pairs for body in pair}
    groups = sorted({frozenset(dofs[one] ^ dofs[two]) for one, two in pairs}, key=len, reverse=True)
    largest: list[frozenset[int]] = []
    for group in groups:
        if not any(group <= other for other in largest):
            largest.append(group)
    return tuple(tuple(sorted(group)) for group in largest)


@lru_cache(maxsize=64)
def joined_tables(
    skeleton: SkeletonLike, tables: tuple[SolidTables, ...]
) -> tuple[Figure, tuple[tuple[int, int], ...]]:
    """Return a figure with the solids of several goals, and the rows of `touch` of each."""
    if len(tables) == 1:
        return tables[0].figure(), ((0, len(tables[0].touch)),)
    whole = type(tables[0])(skeleton)
    shapes = [list(table.rows) for table in tables]
    spans = [whole.add([(own[a], own[b]) for a, b in table.pairs]) for own, table in zip(shapes, tables, strict=True)]
    return whole.figure(), tuple(spans)


def distances(skeleton: SkeletonLike, pose: Any, *, within: float = 0.1) -> list[tuple[str, str, float]]:
    """Return (shape, other shape, distance [m]) of the near pairs at a pose, nearest first.

    Args:
        skeleton: The figure; its `collision_pairs` are examined.
        pose: (n,) [rad, m].
        within: [m] Largest distance reported. A negative distance is the depth of penetration.
    """
    tables = pair_tables(skeleton, skeleton.collision_pairs, ())
    if not tables.pairs:
        return []
    found = measure(tables, np.asarray(pose, dtype=float).reshape(1, skeleton.size), within)[0]
    names = [shape.name or shape.joint for shape in tables.rows]
    near = [(names[a], names[b], float(d)) for (a, b), d in zip(tables.pairs, found, strict=True) if d < within]
    return sorted(near, key=lambda item: item[2])
