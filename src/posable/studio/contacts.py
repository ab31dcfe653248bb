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
from posable.studio.appearance import Appearance, appearance_of, extent, has_body, root_joint

OWN = 0.5  # weight from which a vertex belongs to a bone
SMALL = 0.06  # relative to the figure: smaller bones (fingers) are ignored
DEEP = 0.008  # relative to the figure: penetration depth from which a contact is shown
ON_FLOOR = 0.006  # relative to the figure: height below which a solid touches the floor
CHEAP = 1.5e-3  # [s] a detector that takes longer is not used during drags
SAMPLES, OFTEN = 40, 0.5  # random poses, and the fraction of overlaps from which a pair is ignored
COARSE = 0.3  # level of detail of the human body for its hulls


class Contact(NamedTuple):
    """A limb inside another, or on or below the floor: joints and depth [m]; `other` is "" for the floor."""

    joint: str
    other: str
    depth: float
    place: np.ndarray | None = None  # (3,) [m] on the floor


class ContactDetector:
    """Finds contacts within a figure and with the floor. It is prepared in a thread of its own.

    Args:
        skeleton: The figure.
        scene: The contents of its file.
        then: Called with the detector when it is ready.
    """

    def __init__(self, skeleton: ps.Skeleton, scene: ps.Scene | None, then: Callable[[ContactDetector], Any] = id):
        self.skeleton, self.size = skeleton, extent(skeleton)
        self.meshes = () if scene is None or has_body(skeleton) else tuple(scene.meshes)
        self.cheap = False  # whether it is fast enough for drags
        self._then, self._ready = then, threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> ContactDetector:
        """Start preparing, unless it has been started; return the detector."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._make, name="posable solids", daemon=True)
            self._thread.start()
        return self

    def wait(self, seconds: float = 60.0) -> bool:
        """Wait until it is ready, starting it if need be; return whether it is."""
        self.start()
        return self._ready.wait(seconds)

    @property
    def ready(self) -> bool:
        """Whether it can be used."""
        return self._ready.is_set()

    def at(self, pose: np.ndarray, frames: Any) -> tuple[Contact, ...]:
        """Return the contacts at a pose (n,), deepest first; empty while it is being prepared."""
        if not self.ready:
            return ()
        found = [*self._limbs(pose), *self._floor(frames)]
        return tuple(sorted(found, key=lambda touch: -touch.depth))

    def _limbs(self, pose: np.ndarray) -> list[Contact]:
        deepest: dict[tuple[str, str], float] = {}
        for a, b, distance in ps.distances(self._solids.skeleton, pose, within=-DEEP * self.size):
            pair = (a, b) if self._solids.depth[a] >= self._solids.depth[b] else (b, a)
            deepest[pair] = max(deepest.get(pair, 0.0), -distance)
        return [Contact(a, b, depth) for (a, b), depth in deepest.items()]

    def _floor(self, frames: Any) -> list[Contact]:
        """Return the solids on or below the floor; empty for figures with a fixed base."""
        solids = self._solids
        if not solids.standing:
            return []
        up = self.skeleton.up_axis
        positions, turns = frames.many(solids.standing)
        near, out = positions[:, up] - solids.bounds < ON_FLOOR * self.size, []
        for k in np.flatnonzero(near):
            corners, radii = solids.corners[k]
            heights = corners @ turns[k, up] + positions[k, up] - radii
            lowest = int(np.argmin(heights))
            if heights[lowest] < ON_FLOOR * self.size:
                place = turns[k] @ corners[lowest] + positions[k]
                place[up] = 0.0
                out.append(Contact(solids.standing[k], "", -float(heights[lowest]), place))
        return out

    def support(self, frames: Any) -> np.ndarray:
        """Return the points (N, 3) [m] of the solids that stand on the floor; empty while it is being prepared."""
        if not self.ready or not self._solids.standing:
            return np.zeros((0, 3))
        solids, up = self._solids, self.skeleton.up_axis
        positions, turns = frames.many(solids.standing)
        out = [np.zeros((0, 3))]
        for k in np.flatnonzero(positions[:, up] - solids.bounds < TOUCHING * self.size):
            points = solids.corners[k][0] @ turns[k].T + positions[k]
            out.append(points[points[:, up] - solids.corners[k][1] < TOUCHING * self.size])
        return np.concatenate(out)

    def _make(self) -> None:
        with _prepare_lock:
            self._solids = prepare_solids(self.skeleton, self.meshes)
        self.cheap = self._seconds() < CHEAP
        self._ready.set()
        self._then(self)

    def _seconds(self) -> float:
        """Return the CPU time of one detection [s]: the least of several."""
        pose = np.array(self.skeleton.rest)
        frames, best = ps.forward(self.skeleton, pose), np.inf
        for _ in range(6):  # the first run compiles
            begin = time.thread_time()
            self._limbs(pose)
            self._floor(frames)
            best = min(best, time.thread_time() - begin)
        return best


class Solids(NamedTuple):
    """The collision shapes of a figure, prepared for contact detection."""

    skeleton: ps.Skeleton  # its shapes are named after their joints; with informative pairs only
    depth: dict[str, int]  # depth in the tree: a hand passes through the trunk, not the trunk through a hand
    standing: tuple[str, ...]  # joints with corners; empty for figures with a fixed base
    corners: list[tuple[np.ndarray, np.ndarray]]  # of each: points (P, 3) in its frame and radii (P,) [m]
    bounds: np.ndarray  # of each: bounding radius about its joint [m]


_prepare_lock = threading.Lock()


@lru_cache(maxsize=4)
def prepare_solids(skeleton: ps.Skeleton, meshes: tuple[Any, ...]) -> Solids:
    """Return the solids of a figure: its collision shapes, or convex hulls of its surfaces."""
    size = extent(skeleton)
    solids = [replace(shape, name=shape.joint) for shape in skeleton.shapes]
    large = solids
    if not solids:
        solids = solids_of(skeleton, appearance_of(skeleton, ps.Scene(skeleton=skeleton, meshes=meshes), detail=COARSE))
        large = [solid for solid in solids if np.ptp(solid.points, axis=0).max() > SMALL * size]
    corners: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for solid in solids if root_joint(skeleton).motion.size == 6 else []:
        if solid.normal is None and solid.joint in skeleton.names:
            points = np.asarray(solid.points, dtype=float)
            corners.setdefault(solid.joint, []).append((points, np.full(len(points), float(solid.radius))))
    merged = [
        (np.concatenate([points for points, _ in own]), np.concatenate([radii for _, radii in own]))
        for own in corners.values()
    ]
    bounds = np.array([float((np.linalg.norm(points, axis=1) + radii).max()) for points, radii in merged])
    whole = skeleton.replace(shapes=large, collision_pairs=None)
    pairs = tuple(informative_pairs(whole)) if len(large) > 1 and skeleton.size else ()
    if pairs != whole.collision_pairs:
        whole = whole.replace(collision_pairs=pairs)
    depth = {name: len(skeleton.path_to(name)) for name in skeleton.names}
    return Solids(whole, depth, tuple(corners), merged, bounds)


def solids_of(skeleton: ps.Skeleton, look: Appearance) -> list[Any]:
    """Return the convex hull of the surface of each bone."""
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


def informative_pairs(skeleton: ps.Skeleton) -> list[tuple[str, str]]:
    """Return the pairs of joints whose solids do not overlap at rest nor in most poses."""
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


FIRM, GENTLE = 1.0, 1e-4  # weights of the contact and of the original pose
TOUCHING = 0.025  # relative to the figure: height below which a point supports it


def lock_body(
    skeleton: ps.Skeleton, poses: Mapping[int, np.ndarray], body: str, place: np.ndarray
) -> dict[int, np.ndarray]:
    """Return poses (n,) by frame, each changed as little as possible to hold a body at a transform (4, 4)."""
    frames = sorted(poses)
    goal = ps.goals.Pose(body, place, weight=(FIRM, 0.2 * FIRM))
    out = {}
    for frame in frames:
        stay = ps.goals.Posture(poses[frame], weight=GENTLE)
        out[frame] = np.asarray(ps.solve(skeleton, [goal, stay], start=poses[frame], natural=False).pose)
    return out


class Balance(NamedTuple):
    """Support polygon (P, 3), centre of mass (3,) and its projection on the floor (3,), all [m]."""

    polygon: np.ndarray
    centre: np.ndarray
    below: np.ndarray
    steady: bool


def balance_of(skeleton: ps.Skeleton, frames: Any, size: float, support: np.ndarray | None = None) -> Balance | None:
    """Return the balance of a figure on the floor, or None if it has no mass or does not touch the floor.

    Args:
        skeleton: The figure.
        frames: Its frames.
        size: Its size [m].
        support: (N, 3) [m] points of its solids on the floor, for figures whose joints and sites do not outline feet.
    """
    mass, local, names = _masses(skeleton)
    if not mass.sum() > 0.0 or root_joint(skeleton).motion.size != 6:
        return None
    places, turns = frames.many(names)
    count = len(mass)
    centre = mass @ (places[:count] + (turns[:count] @ local[..., None])[..., 0]) / mass.sum()
    up = skeleton.up_axis
    flat = [axis for axis in range(3) if axis != up]
    on_floor = places[places[:, up] < TOUCHING * size][:, flat]
    if len(on_floor) < 3 and support is not None:
        on_floor = support[:, flat]
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


_TURN = np.linspace(0.0, 2.0 * np.pi, 48, endpoint=False)
_WAYS = np.stack([np.cos(_TURN), np.sin(_TURN)])  # (2, 48)


def _hull(points: np.ndarray) -> np.ndarray:
    """Return the convex hull (P, 2) of points (N, 2), anticlockwise: the farthest in each of 48 directions."""
    corners = np.argmax(points @ _WAYS, axis=0)
    return points[corners[corners != np.roll(corners, 1)]]


def _inside(hull: np.ndarray, point: np.ndarray) -> bool:
    following = np.roll(hull, -1, axis=0)
    edge, to = following - hull, point - hull
    return bool(np.all(edge[:, 0] * to[:, 1] - edge[:, 1] * to[:, 0] >= 0.0))
