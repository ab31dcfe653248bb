"""Paths of joints across gaps, weighted by how well they would cross gaps elsewhere in the same take.

A joint that is lost may follow a straight line, a path in the world that gradually forgets its speed, or interpolated
poses: a foot that stands stays in the world, a hand on a hip goes with the body. All three are tried on stretches of
the same length in which the joint is seen. Their errors there give the weights with the least expected squared error
(Bates & Granger 1969), where stretches count by how much their ends resemble those of the gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from posable.mocap.gaps import MOSTLY, SLOPE, SPINS, TURNED, UnobservedJoints, across, nearer_way, short_gap
from posable.model.kinematics import forward

LIKELY = np.array([(0.93, 0.57, 0.39), (0.57, 0.62, 0.45), (0.39, 0.45, 3.6)])  # products of errors in other takes
PRIOR = 0.3  # stretches that other takes count for
DOUBT = 0.1  # part of a line's squared error by which the other paths must be better
ALIKE = 0.7  # difference of the logarithms of speeds and distances at the ends of stretches that are alike
RESTS = 0.02  # [m, m/s]: smaller distances and speeds are alike
TINY = 1e-6  # [m^2] squared errors of lines below which they are equal
TRIALS = 48  # stretches on which paths are tried
INSIDE = 12  # frames of a stretch on which they are compared
ENOUGH = 3.0  # stretches alike that a body that turns far needs, for lines to be considered
STEP = 1.2  # ratio of lengths of gaps that are tried apart


class Path(NamedTuple):
    """Where the joints of a limb are in a gap.

    Attributes:
        frames: The gap.
        dofs: (d,) The degrees of freedom of the limb.
        points: Names of joints and sites of the limb.
        places: (t, P, 3) [m] where they are.
    """

    frames: slice
    dofs: np.ndarray
    points: tuple[str, ...]
    places: np.ndarray


class Limb:
    """A lost joint, what it carries, and the joint by which it hangs on the body."""

    def __init__(self, unobserved: UnobservedJoints, poses: np.ndarray, name: str, fps: float):
        skeleton = unobserved.skeleton
        self.skeleton, self.poses, self.name, self.fps = skeleton, poses, name, fps
        above = [joint for joint in reversed(skeleton.path_to(name)) if skeleton.joint(joint).motion.dofs][1:]
        self.above, self.base = above, above[0] if above else None
        carried = (name, *skeleton.below(name))
        ends = {joint for joint in carried if not skeleton.below(joint)}
        self.points = (*carried[1:], *(site.name for site in skeleton.sites if site.joint in ends))
        self.dofs = np.concatenate([np.arange(skeleton.size)[skeleton.index(joint)] for joint in carried])
        self.lost = np.zeros(len(poses), dtype=bool)
        for joint in {*carried, *above}:
            for a, b in unobserved.joints.get(joint, ()):
                self.lost[a:b] = True
        self.tried: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def places(self, a: int, b: int) -> np.ndarray:
        """Return the places (b - a, P, 3) [m] of the points in a gap, which the poses have crossed."""
        at = np.arange(1, b - a + 1)
        rows = self._rows(np.array([a]), b - a, at)
        points, turn, origin = self._look(self.poses[rows])
        paths, ends = self._paths(points, turn, origin, points[:, 2:-2], at)
        products, others = self._trials(b - a)
        alike = np.exp(-np.square(others - ends).sum(axis=1) / (2.0 * ALIKE**2))
        expected, doubt = np.einsum("n,nij->ij", alike, products), DOUBT
        if self.base is None and ends[0, -1] > TURNED:  # a line would pass through the body
            if alike.sum() < ENOUGH:
                return points[0, 2:-2]
            doubt, expected = 0.0, expected / alike.sum()
        else:
            expected = (PRIOR * LIKELY + expected) / (PRIOR + alike.sum())
        weights = least_error(expected + np.diag([0.0, doubt, doubt]))
        return np.einsum("i,itkj->tkj", weights, paths[:, 0])

    def _trials(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Return products of errors (N, 3, 3), relative to those of lines, and ends (N, 5), of seen stretches."""
        key = round(np.log(length) / np.log(STEP))
        if key not in self.tried:
            length = max(2, round(STEP**key))
            lost = np.concatenate([[0], np.cumsum(self.lost)])
            starts = np.arange(1 + SLOPE, len(self.poses) - length - SLOPE)
            starts = starts[lost[starts + length + SLOPE + 1] == lost[starts - 1 - SLOPE]]
            if len(starts) > TRIALS:
                starts = starts[np.linspace(0, len(starts) - 1, TRIALS).astype(int)]
            at = np.unique(np.linspace(1, length, INSIDE).astype(int))
            if len(starts):
                poses = self.poses[self._rows(starts, length, at)]
                points, turn, origin = self._look(poses)
                paths, ends = self._paths(points, turn, origin, self._crossed(poses, turn, origin, length, at), at)
                off = paths - points[:, 2:-2]
                products = np.einsum("intkd,jntkd->nij", off, off) / off[0, 0].size
                self.tried[key] = products / (products[:, :1, :1] + TINY), ends
            else:
                self.tried[key] = np.zeros((0, 3, 3)), np.zeros((0, 5))
        return self.tried[key]

    def _rows(self, starts: np.ndarray, length: int, at: np.ndarray) -> np.ndarray:
        """Return frames (N, 4 + S): two before each stretch, those at (S,) in it, counted from 1, and two after it."""
        return starts[:, None] - 1 + np.concatenate([[-SLOPE, 0], at, [length + 1, length + 1 + SLOPE]])

    def _look(self, poses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return points (N, F, P, 3) [m] of poses (N, F, n), and rotations (N, F, 3, 3) and places of the base."""
        frames = forward(self.skeleton, poses.reshape(-1, poses.shape[-1]))
        points = np.stack([frames.position(name) for name in self.points], axis=1)
        base = self.base or self.name
        turn, origin, many = frames.rotation_matrix(base), frames.position(base), poses.shape[:2]
        return points.reshape(*many, -1, 3), turn.reshape(*many, 3, 3), origin.reshape(*many, 3)

    def _paths(
        self, points: np.ndarray, turn: np.ndarray, origin: np.ndarray, crossed: np.ndarray, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return paths (3, N, S, P, 3) [m] across stretches, and what they are like at their ends (N, 5)."""
        length = int(at[-1])
        line = points[:, 1:2] + (at / (length + 1.0))[:, None, None] * (points[:, -2:-1] - points[:, 1:2])
        edges = points[:, [0, 1, -2, -1]]
        world = across(edges.reshape(*edges.shape[:2], -1), length, self.fps)[:, at - 1].reshape(line.shape)
        own = np.einsum("ntji,ntkj->ntki", turn, points - origin[:, :, None])[:, [0, 1, -2, -1]]
        ends = []
        for each in (edges, own):
            step = (each[:, 2] - each[:, 1]) / (length + 1.0)
            speeds = [(each[:, k + 1] - each[:, k]) / SLOPE - step for k in (0, 2)]
            ends.append(self.fps * np.sqrt(np.square(speeds).sum(axis=(0, -1))).mean(axis=-1))
            ends.append(np.linalg.norm(each[:, 2] - each[:, 1], axis=-1).mean(axis=-1))
        turned = (Rotation.from_matrix(turn[:, 1]).inv() * Rotation.from_matrix(turn[:, -2])).magnitude()
        return np.stack([line, world, crossed]), np.column_stack([np.log(np.stack(ends, axis=-1) + RESTS), turned])

    def _crossed(
        self, poses: np.ndarray, turn: np.ndarray, origin: np.ndarray, length: int, at: np.ndarray
    ) -> np.ndarray:
        """Return the places (N, S, P, 3) [m] of the points if poses (N, 4 + S, n) were interpolated."""
        inside = poses[:, 2:-2].copy()
        inside[..., self.dofs] = across(poses[:, [0, 1, -2, -1]][..., self.dofs], length, self.fps)[:, at - 1]
        points, other_turn, other_origin = self._look(inside)
        if self.base is None:  # the body is lost, too
            turn, origin = self._body(turn, origin, length, at)
        own = np.einsum("ntji,ntkj->ntki", other_turn, points - other_origin[:, :, None])
        return np.einsum("ntij,ntkj->ntki", turn[:, 2:-2], own) + origin[:, 2:-2, None]

    def _body(self, turn: np.ndarray, origin: np.ndarray, length: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rotations and places of the base, as from `_look`, as if they were known beside stretches alone."""
        turn, origin = turn.copy(), origin.copy()
        origin[:, 2:-2] = across(origin[:, [0, 1, -2, -1]], length, self.fps)[:, at - 1]
        first = Rotation.from_matrix(turn[:, 1])
        arrives, way, leaves = (
            (Rotation.from_matrix(turn[:, a]).inv() * Rotation.from_matrix(turn[:, b])).as_rotvec()
            for a, b in ((0, 1), (1, -2), (-2, -1))
        )
        spin = 0.5 * (arrives + leaves) / SLOPE * min(length + 1, SPINS * self.fps)
        way = nearer_way(way, spin)
        for k, t in enumerate(at, start=2):
            turn[:, k] = (first * Rotation.from_rotvec(way * t / (length + 1.0))).as_matrix()
        return turn, origin


def limb_paths(unobserved: UnobservedJoints, poses: np.ndarray, fps: float) -> Iterator[Path]:
    """Yield the path of every limb that is lost for some time, the body first.

    Args:
        unobserved: The joints that are lost.
        poses: (T, n) As interpolated across gaps.
        fps: Frames per second.
    """
    for name, spans in unobserved.joints.items():
        limb = None
        for a, b in spans:
            if a <= SLOPE or b >= len(poses) - SLOPE or b - a <= short_gap(fps):
                continue
            limb = limb or Limb(unobserved, poses, name, fps)
            lost = (sum(max(0, min(b, d) - max(a, c)) for c, d in unobserved.joints.get(j, ())) for j in limb.above)
            if not limb.points or any(frames > MOSTLY * (b - a) for frames in lost):
                continue  # the joint above is lost as well, and carries this one
            yield Path(slice(a, b), limb.dofs, limb.points, limb.places(a, b))


def least_error(products: np.ndarray) -> np.ndarray:
    """Return the non-negative weights w (n,) of sum 1 with the least w' products w; products (n, n) of errors."""
    best, out = np.inf, np.zeros(len(products))
    for some in _subsets(len(products)):
        part = products[np.ix_(some, some)]
        weights = np.linalg.solve(part, np.ones(len(some)))
        weights /= weights.sum()
        error = float(weights @ part @ weights)
        if (weights >= 0.0).all() and error < best:
            best, out = error, np.zeros(len(products))
            out[list(some)] = weights
    return out


@lru_cache(maxsize=8)
def _subsets(count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(some for k in range(1, count + 1) for some in combinations(range(count), k))
