"""Contacts: limbs that interpenetrate, bodies on or below the floor, balance, and bodies locked over frames."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import posable as ps
from posable.studio.appearance import Look, extent, has_body, look_of

OWN = 0.5  # of a vertex's weight: what a bone needs to count it as its own
SMALL = 0.06  # of the figure's size: bones that are smaller (fingers) are left out
DEEP = 0.008  # of the figure's size: how deep solids must be in each other to be shown
ON_FLOOR = 0.006  # of the figure's size: how near to the floor a solid touches it
CHEAP = 1.5e-3  # [s] that a drag may wait for it
SAMPLES, OFTEN = 40, 0.5  # random poses; pairs that overlap in more of them than this are left out
COARSE = 0.3  # detail of the human's body from which its hulls are made


class Touch(NamedTuple):
    """A limb inside another, or in or on the floor: joints, and how deep [m]; `other` is "" for the floor."""

    joint: str
    other: str
    depth: float
    place: np.ndarray | None = None  # (3,) [m] on the floor


class Touching:
    """Finds what touches what in a figure. It is made in a thread of its own: a large figure takes a moment.

    Args:
        skeleton: The figure.
        scene: What its file has.
        then: Called with it when it is made.
    """

    def __init__(self, skeleton: ps.Skeleton, scene: ps.Scene | None, then: Callable[[Touching], Any] = id):
        self.skeleton, self.size = skeleton, extent(skeleton)
        self.meshes = () if scene is None or has_body(skeleton) else tuple(scene.meshes)
        self.cheap = False  # whether it may be asked during a drag
        self._then, self._ready = then, threading.Event()

    def start(self) -> Touching:
        """Begin to make it; return it."""
        threading.Thread(target=self._make, name="posable solids", daemon=True).start()
        return self

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait until it is made; return whether it is."""
        return self._ready.wait(seconds)

    @property
    def ready(self) -> bool:
        """Whether it can be asked."""
        return self._ready.is_set()

    def at(self, pose: np.ndarray, frames: Any) -> tuple[Touch, ...]:
        """Return what touches at a pose (n,), the deepest first; nothing while it is being made."""
        if not self.ready:
            return ()
        found = [*self._limbs(pose), *self._floor(frames)]
        return tuple(sorted(found, key=lambda touch: -touch.depth))

    def _limbs(self, pose: np.ndarray) -> list[Touch]:
        deepest: dict[tuple[str, str], float] = {}
        for a, b, distance in ps.distances(self._solids.skeleton, pose, within=-DEEP * self.size):
            pair = (a, b) if self._solids.depth[a] >= self._solids.depth[b] else (b, a)
            deepest[pair] = max(deepest.get(pair, 0.0), -distance)
        return [Touch(a, b, depth) for (a, b), depth in deepest.items()]

    def _floor(self, frames: Any) -> list[Touch]:
        """Return the solids on the floor or below it, of a figure that can leave it."""
        solids = self._solids
        if not solids.standing:
            return []
        up = 1 if self.skeleton.up == "y" else 2
        positions, turns = frames.many(solids.standing)
        near, out = positions[:, up] - solids.bounds < ON_FLOOR * self.size, []
        for k in np.flatnonzero(near):
            corners, radii = solids.corners[k]
            heights = corners @ turns[k, up] + positions[k, up] - radii
            lowest = int(np.argmin(heights))
            if heights[lowest] < ON_FLOOR * self.size:
                place = turns[k] @ corners[lowest] + positions[k]
                place[up] = 0.0
                out.append(Touch(solids.standing[k], "", -float(heights[lowest]), place))
        return out

    def _make(self) -> None:
        with _making:
            self._solids = prepared(self.skeleton, self.meshes)
        self.cheap = self._seconds() < CHEAP
        self._ready.set()
        self._then(self)

    def _seconds(self) -> float:
        """Return how much work it is to ask [s], whatever else this machine does: the least of a few tries."""
        pose = np.array(self.skeleton.rest)
        frames, best = ps.forward(self.skeleton, pose), np.inf
        for _ in range(6):  # the first one compiles
            begin = time.thread_time()
            self._limbs(pose)
            self._floor(frames)
            best = min(best, time.thread_time() - begin)
        return best


class Solids(NamedTuple):
    """The solids of a figure, ready to be looked at."""

    skeleton: ps.Skeleton  # with the solids as its shapes, each with the name of its joint, and the pairs that tell
    depth: dict[str, int]  # how many joints carry each: a hand passes through the trunk, not the trunk through a hand
    standing: tuple[str, ...]  # joints with corners, of a figure that can leave the floor
    corners: list[tuple[np.ndarray, np.ndarray]]  # of each: points (P, 3) in its frame and radii (P,) [m]
    bounds: np.ndarray  # of each: how far from its joint they reach [m]


_making = threading.Lock()


@lru_cache(maxsize=4)
def prepared(skeleton: ps.Skeleton, meshes: tuple[Any, ...]) -> Solids:
    """Return the solids of a figure: its shapes, or hulls of what is drawn."""
    size = extent(skeleton)
    solids = [replace(shape, name=shape.joint) for shape in skeleton.shapes]
    large = solids
    if not solids:
        solids = solids_of(skeleton, look_of(skeleton, ps.Scene(skeleton=skeleton, meshes=meshes), detail=COARSE))
        large = [solid for solid in solids if np.ptp(solid.points, axis=0).max() > SMALL * size]
    corners: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for solid in solids if skeleton.joints[0].motion.size == 6 else []:
        if solid.normal is None and solid.joint in skeleton.names:
            points = np.asarray(solid.points, dtype=float)
            corners.setdefault(solid.joint, []).append((points, np.full(len(points), float(solid.radius))))
    merged = [
        (np.concatenate([points for points, _ in own]), np.concatenate([radii for _, radii in own]))
        for own in corners.values()
    ]
    bounds = np.array([float((np.linalg.norm(points, axis=1) + radii).max()) for points, radii in merged])
    whole = skeleton.replace(shapes=large, collision_pairs=None)
    pairs = tuple(telling_pairs(whole)) if len(large) > 1 and skeleton.size else ()
    if pairs != whole.collision_pairs:
        whole = whole.replace(collision_pairs=pairs)
    depth = {name: len(_above(skeleton, name)) for name in skeleton.names}
    return Solids(whole, depth, tuple(corners), merged, bounds)


def solids_of(skeleton: ps.Skeleton, look: Look) -> list[Any]:
    """Return the convex hull of what is drawn on each bone."""
    points: dict[str, list[np.ndarray]] = {}
    for skin in look.skins:
        for k, bone in enumerate(skin.bones):
            own = skin.weights[:, k] >= OWN
            if own.sum() >= 4:
                points.setdefault(bone, []).append((skin.vertices[own] - skin.positions[k]) @ skin.turns[k])
    for part in look.rigid:
        if part.body in skeleton.names:
            points.setdefault(part.body, []).append(np.asarray(part.vertices, dtype=float))
    whole = {bone: np.concatenate(parts) for bone, parts in points.items()}
    return [
        ps.shapes.hull(bone, own, name=bone)
        for bone, own in whole.items()
        if np.linalg.matrix_rank(own - own.mean(axis=0), tol=1e-6) == 3
    ]


def _above(skeleton: ps.Skeleton, joint: str | None) -> list[str]:
    """Return a joint and those that carry it."""
    out = []
    while joint is not None:
        out.append(joint)
        joint = skeleton.joint(joint).parent
    return out


def telling_pairs(skeleton: ps.Skeleton) -> list[tuple[str, str]]:
    """Return the pairs of joints whose solids are apart at rest and in most poses: their overlap says something."""
    solid = {shape.joint for shape in skeleton.shapes}
    above: dict[str, str | None] = {}  # the next joint above with a solid
    for joint in skeleton.joints:
        parent = joint.parent
        above[joint.name] = parent if parent is None or parent in solid else above[parent]
    near = {frozenset((name, over)) for name, over in above.items() if over is not None}
    near |= {frozenset((name, above[over])) for name, over in above.items() if over and above[over]}
    pairs = [pair for pair in skeleton.collision_pairs if frozenset(pair) not in near]
    low = np.maximum(np.where(np.isfinite(skeleton.lower), skeleton.lower, -np.inf), skeleton.rest - np.pi)
    high = np.minimum(np.where(np.isfinite(skeleton.upper), skeleton.upper, np.inf), skeleton.rest + np.pi)
    often: Counter[frozenset[str]] = Counter()
    for pose in np.random.default_rng(0).uniform(low, high, (SAMPLES, skeleton.size)):
        often.update({frozenset(pair[:2]) for pair in ps.distances(skeleton, pose, within=0.0)})
    return [pair for pair in pairs if often[frozenset(pair)] < OFTEN * SAMPLES]


FIRM, GENTLE = 1.0, 1e-4  # weights: the contact, and how the frame was
TOUCHING = 0.025  # of the figure's size: how near to the floor a point stands on it


def locked(
    skeleton: ps.Skeleton, poses: Mapping[int, np.ndarray], body: str, place: np.ndarray
) -> dict[int, np.ndarray]:
    """Return poses (n,) by frame, each changed as little as needed to hold a body at a place (4, 4)."""
    frames = sorted(poses)
    goal = ps.goals.Pose(body, place, weight=(FIRM, 0.2 * FIRM))
    out = {}
    for frame in frames:
        stay = ps.goals.Posture(poses[frame], weight=GENTLE)
        out[frame] = np.asarray(ps.solve(skeleton, [goal, stay], start=poses[frame], natural=False).pose)
    return out


class Balance(NamedTuple):
    """What a figure stands on: its support polygon (P, 3), its centre of mass and that on the floor (3,), all [m]."""

    polygon: np.ndarray
    centre: np.ndarray
    below: np.ndarray
    steady: bool


def balance_of(skeleton: ps.Skeleton, frames: Any, size: float) -> Balance | None:
    """Return how a figure stands on the floor, or None where it has no mass or nothing touches the floor."""
    mass, local, names = _masses(skeleton)
    if not mass.sum() > 0.0 or skeleton.joints[0].motion.size != 6:
        return None
    places, turns = frames.many(names)
    count = len(mass)
    centre = mass @ (places[:count] + (turns[:count] @ local[..., None])[..., 0]) / mass.sum()
    up = 1 if skeleton.up == "y" else 2
    flat = [axis for axis in range(3) if axis != up]
    on_floor = places[places[:, up] < TOUCHING * size][:, flat]
    if len(on_floor) < 3:
        return None
    hull = _hull(on_floor)
    if len(hull) < 3:
        return None
    polygon = np.zeros((len(hull), 3))
    polygon[:, flat] = hull
    below = centre.copy()
    below[up] = 0.0
    return Balance(polygon, centre, below, _inside(hull, centre[flat]))


@lru_cache(maxsize=8)
def _masses(skeleton: ps.Skeleton) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Return the masses (J,) [kg] of the joints, their centres (J, 3) [m], and the names of all joints and sites."""
    mass = np.array([max(float(joint.mass), 0.0) for joint in skeleton.joints])
    local = np.array([joint.center for joint in skeleton.joints], dtype=float)
    return mass, local, (*skeleton.names, *skeleton.site_names)


def _hull(points: np.ndarray) -> np.ndarray:
    """Return the convex hull (P, 2) of points (N, 2), anticlockwise."""
    ordered = sorted(set(map(tuple, np.round(points, 6).tolist())))

    def half(sequence: list) -> list:
        out: list = []
        for point in sequence:
            while len(out) > 1 and _turn(out[-2], out[-1], point) <= 0:
                out.pop()
            out.append(point)
        return out[:-1]

    return np.array(half(ordered) + half(ordered[::-1]))


def _turn(a: tuple, b: tuple, c: tuple) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _inside(hull: np.ndarray, point: np.ndarray) -> bool:
    following = np.roll(hull, -1, axis=0)
    edge, to = following - hull, point - hull
    return bool(np.all(edge[:, 0] * to[:, 1] - edge[:, 1] * to[:, 0] >= 0.0))
