"""Any arm of six hinges: all of its poses for a target, by elimination (Raghavan & Roth 1993).

With the hinges e0 to e5 and the target's motion E, the loop e0 e1 e2 e3 e4 e5 = E is cut open as

    e1 e2 e3 (axis 4) = e0^-1 E e5^-1 (axis 4),

where the line of axis 4 is not moved by e4. Fourteen numbers of a line, its direction l and a point p on it,

    l, p, p.p, p.l, p x l, (p.p) l - 2 (p.l) p

and a one transform linearly under rigid motions, so that both sides are products of matrices (15, 15) that are linear
in the cosine and sine of one hinge each. The right side has eight products of cosines and sines; eliminating them
leaves six equations in hinges 1 to 3. In half-angle tangents, and times one of the tangents again, they are twelve
equations in twelve monomials whose coefficients are quadratic in the third tangent: an eigenvalue problem (24, 24)
(Manocha & Canny 1994). Hinges 0 and 5 share the right side because the target lies between them: special relations
of their axes, which would make the equations dependent, do not occur there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.spatial.transform import Rotation

from posable.limb.six_axis_arm import Hinges, six_hinges
from posable.model.skeleton import Skeleton

LINE = 15  # numbers of a line, the one included
OFFSETS = (0.7, 1.1, -0.4)  # [rad] zeros of hinges 1 to 3, so that no common pose has an infinite half-angle tangent
REAL = 1e-3  # imaginary parts below it, seen as angles, are rounding: roots may be double
SAMPLES = 6  # targets on which the best way to cut the loop is found
ACCURATE, SPURIOUS = (
    1e-8,
    1e-1,
)  # deviations of cos^2 + sin^2 from 1: up to that of a solution, and from those of others
POLISHING, LONGEST, POLISHED = 40, 0.3, 1e-10  # Newton steps; the longest [rad]; error of what has converged
GOOD = 1e-5  # [rad, arm's size]: errors of poses that count as found there
HALF_ANGLE = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, -1.0], [0.0, 2.0, 0.0]])  # (1, cos, sin) as (1, x, x^2) / (1 + x^2)


@lru_cache(maxsize=64)
def general_arms(skeleton: Skeleton, body: str) -> tuple[GeneralArm, ...]:
    """Return the ways to solve the six hinges that move a joint or site, best first; none for other chains."""
    hinges = six_hinges(skeleton, body)
    if hinges is None:
        return ()
    poses = np.random.default_rng(0).uniform(-np.pi, np.pi, (SAMPLES, 6))
    ways = []
    for arm in _arms(hinges):
        found = [arm.count_found(pose) for pose in poses]
        if min(found) > 0:
            ways.append((sum(found), arm))
    return tuple(arm for _, arm in sorted(ways, key=lambda way: -way[0]))


def _arms(hinges: Hinges) -> Iterator[GeneralArm]:
    """Yield the ways to cut the loop: seen from the base or from the tool, and solved for hinge 1, 2 or 3 first."""
    size = float(np.linalg.norm(hinges.places - hinges.places.mean(axis=0), axis=1).max()) or 1.0
    for reverse in (False, True):
        axes, places = hinges.axes, hinges.places / size
        columns = hinges.columns
        if reverse:
            axes, places, columns = -axes[::-1], places[::-1], columns[::-1]
        for first in range(3):
            yield GeneralArm(axes, places, columns, np.linalg.inv(hinges.tool), size, reverse, first)


class GeneralArm:
    """The equations of an arm, as far as they do not depend on the target."""

    def __init__(
        self,
        axes: np.ndarray,
        places: np.ndarray,
        columns: np.ndarray,
        home: np.ndarray,
        size: float,
        reverse: bool,
        first: int,
    ):
        """Multiply out the side of the equations that the target does not change.

        Args:
            axes: (6, 3).
            places: (6, 3) in units of the arm's size.
            columns: (6,) where the hinges are in a pose.
            home: (4, 4) [m], the inverse of the tool at the zero pose.
            size: [m] of the arm.
            reverse: whether the hinges are counted from the tool.
            first: which of hinges 1 to 3 is solved for first, 0 to 2.
        """
        self.axes, self.places, self.columns, self.home = axes, places, columns, home
        self.size, self.reverse = size, reverse
        self.order = [1 + first, *(1 + k for k in range(3) if k != first)]
        self.offsets = np.array([OFFSETS[k - 1] for k in self.order])
        line = _line(axes[4], places[4])
        turns = [_shifted(_hinge(axes[k], places[k]), OFFSETS[k - 1]) for k in (1, 2, 3)]
        left = np.einsum("aij,bjk,ckl,l->iabc", *turns, line, optimize=True)[: LINE - 1]
        self.left = np.ascontiguousarray(np.moveaxis(left, 1 + first, 1)).reshape(LINE - 1, 27)
        self.before = _hinge(-axes[0], places[0])[:, : LINE - 1].reshape(-1, LINE)
        self.after = np.ascontiguousarray((_hinge(-axes[5], places[5]) @ line).T)

    def poses(self, target: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return candidates (k, 6) [rad] for a target (4, 4) [m], and whether they are surely all that reach it.

        A pose that reaches it meets cos^2 + sin^2 = 1 at hinges 0 and 5 to many digits, and other roots of the
        equations do not at all. Anything between is an inaccurate root: two poses that nearly coincide, or a target at
        which the equations are nearly dependent.
        """
        motion = target @ self.home
        if self.reverse:
            motion = np.linalg.inv(motion)
        rotation, shift = motion[:3, :3], motion[:3, 3] / self.size
        right = (self.before @ (_translation(shift) @ _rotation(rotation, 1.0) @ self.after)).reshape(3, LINE - 1, 3)
        right = right.transpose(1, 0, 2).reshape(LINE - 1, 9)
        left = self.left.copy()
        left[:, 0] -= right[:, 0]
        scale = np.sqrt((left * left).sum(axis=1) + (right[:, 1:] ** 2).sum(axis=1))[:, None]
        scale = 1.0 / np.maximum(scale, 1e-300)  # an equation may be empty for special axes
        left *= scale
        q, r = np.linalg.qr(right[:, 1:] * scale, mode="complete")
        if np.abs(np.diag(r)).min() < 1e-12:
            return np.zeros((0, 6)), False
        tangents = _tangents(q[:, 8:].T @ left)
        if tangents is None:
            return np.zeros((0, 6)), False
        angles = 2.0 * np.arctan(tangents)
        one, two, three = np.stack([np.ones_like(angles), np.cos(angles), np.sin(angles)], axis=-1).swapaxes(0, 1)
        products = (one[:, :, None, None] * two[:, None, :, None] * three[:, None, None, :]).reshape(-1, 27)
        ends = np.linalg.solve(r[:8], q[:, :8].T @ (left @ products.T))
        out = np.empty((len(angles), 6))
        out[:, self.order] = angles + self.offsets
        out[:, 0], out[:, 5] = np.arctan2(ends[5], ends[2]), np.arctan2(ends[1], ends[0])
        out[:, 4] = self._hinge_four(out, rotation)
        off = np.maximum(np.abs(ends[5] ** 2 + ends[2] ** 2 - 1.0), np.abs(ends[1] ** 2 + ends[0] ** 2 - 1.0))
        return out, bool((off < ACCURATE).any() and not ((off >= ACCURATE) & (off < SPURIOUS)).any())

    def _hinge_four(self, poses: np.ndarray, rotation: np.ndarray) -> np.ndarray:
        """Return the angles (k,) [rad] of hinge 4, which the line does not feel, from the rotation that is left."""
        turn = _rotations(self.axes, -poses)
        rest = turn[3] @ turn[2] @ turn[1] @ turn[0] @ rotation @ turn[5]
        x, y, z = self.axes[4]
        sine = x * (rest[:, 2, 1] - rest[:, 1, 2]) + y * (rest[:, 0, 2] - rest[:, 2, 0])
        sine += z * (rest[:, 1, 0] - rest[:, 0, 1])
        return np.arctan2(sine, np.trace(rest, axis1=1, axis2=2) - 1.0)

    def polished(self, poses: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Return those of poses (k, 6) [rad] that Newton's method brings to a target (4, 4) [m], where it brings them.

        On the six equations of the loop it also converges between two poses that nearly coincide, where an energy is
        so flat that minimising it ends too early.
        """
        motion = target @ self.home
        motion[:3, 3] /= self.size
        if self.reverse:
            motion = np.linalg.inv(motion)
        out = poses.copy()
        for _ in range(POLISHING):
            twists, errors = self._twists(out), self._gaps(out, motion)
            damping = 1e-14 + 1e-4 * (errors * errors).sum(axis=1)
            normal = twists.swapaxes(1, 2) @ twists + damping[:, None, None] * np.eye(6)
            step = np.linalg.solve(normal, twists.swapaxes(1, 2) @ errors[..., None])[..., 0]
            largest = np.abs(step).max(axis=1, keepdims=True)
            out += step * np.minimum(1.0, LONGEST / np.maximum(largest, LONGEST))
        return out[np.abs(self._gaps(out, motion)).max(axis=1) < POLISHED]

    def _gaps(self, poses: np.ndarray, motion: np.ndarray) -> np.ndarray:
        """Return the small motions (k, 6), rotation before translation, from where poses (k, 6) are to a motion."""
        found = self._motions(poses)
        turn = motion[:3, :3] @ found[:, :3, :3].swapaxes(1, 2)
        shift = motion[:3, 3] - (turn @ found[:, :3, 3:])[..., 0]
        return np.concatenate([Rotation.from_matrix(turn).as_rotvec(), shift], axis=1)

    def _twists(self, poses: np.ndarray) -> np.ndarray:
        """Return the motion (k, 6, 6) of the tool's body by each hinge, at the origin: one column per hinge."""
        turn, out = np.broadcast_to(np.eye(4), (len(poses), 4, 4)), np.empty((len(poses), 6, 6))
        for k, (rotation, place) in enumerate(zip(_rotations(self.axes, poses), self.places, strict=True)):
            axis = turn[:, :3, :3] @ self.axes[k]
            out[:, :3, k] = axis
            out[:, 3:, k] = np.cross(turn[:, :3, :3] @ place + turn[:, :3, 3], axis)
            step = np.broadcast_to(np.eye(4), (len(poses), 4, 4)).copy()
            step[:, :3, :3], step[:, :3, 3] = rotation, place - rotation @ place
            turn = turn @ step
        return out

    def full(self, poses: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return poses (k, n) of the figure: its hinges as in poses (k, 6), everything else as at a start (n,)."""
        out = np.tile(start, (len(poses), 1))
        out[:, self.columns] = poses
        return out

    def count_found(self, pose: np.ndarray) -> int:
        """Return how many poses are found for where a pose (6,) brings the tool; 0 if it is not one of them."""
        motion = self._motions(pose[None])[0]
        target = motion.copy()
        target[:3, 3] *= self.size
        target = (np.linalg.inv(target) if self.reverse else target) @ np.linalg.inv(self.home)
        found = self.poses(target)[0]
        gaps = found - pose
        gaps -= 2.0 * np.pi * np.round(gaps / (2.0 * np.pi))
        if np.abs(gaps).max(axis=1).min(initial=np.inf) > 1e-3:
            return 0
        return int((np.abs(self._motions(found) - motion).max(axis=(1, 2)) < GOOD).sum())

    def _motions(self, poses: np.ndarray) -> np.ndarray:
        """Return where poses (k, 6) move the tool from its zero pose, (k, 4, 4) in units of the arm's size."""
        out = np.broadcast_to(np.eye(4), (len(poses), 4, 4))
        for rotation, place in zip(_rotations(self.axes, poses), self.places, strict=True):
            step = np.broadcast_to(np.eye(4), (len(poses), 4, 4)).copy()
            step[:, :3, :3], step[:, :3, 3] = rotation, place - rotation @ place
            out = out @ step
        return out


# --- Lines ---


def _line(direction: np.ndarray, point: np.ndarray) -> np.ndarray:
    """Return the numbers (15,) of a line."""
    l, p = direction, point
    return np.concatenate([l, p, [p @ p, p @ l], np.cross(p, l), (p @ p) * l - 2.0 * (p @ l) * p, [1.0]])


def _rotation(matrix: np.ndarray, one: float) -> np.ndarray:
    """Return what a rotation (3, 3) about the origin does to lines (15, 15); `one` is on the numbers that stay."""
    out = np.zeros((LINE, LINE))
    for at in (0, 3, 8, 11):
        out[at : at + 3, at : at + 3] = matrix
    out[6, 6] = out[7, 7] = out[14, 14] = one
    return out


def _translation(d: np.ndarray) -> np.ndarray:
    """Return what a translation (3,) does to lines (15, 15)."""
    out = np.eye(LINE)
    across, square = _cross(d), float(d @ d)
    out[3:6, 14] = out[7, 0:3] = d
    out[6, 3:6], out[6, 14] = 2.0 * d, square
    out[8:11, 0:3], out[11:14, 8:11] = across, -2.0 * across
    out[11:14, 0:3] = square * np.eye(3) - 2.0 * d[:, None] * d
    out[11:14, 7] = -2.0 * d
    return out


def _hinge(axis: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return what a hinge does to lines (3, 15, 15): the factors of one, of its cosine and of its sine."""
    along = axis[:, None] * axis
    there, back = _translation(place), _translation(-place)
    parts = ((along, 1.0), (np.eye(3) - along, 0.0), (_cross(axis), 0.0))
    return np.stack([there @ _rotation(matrix, one) @ back for matrix, one in parts])


def _shifted(hinge: np.ndarray, offset: float) -> np.ndarray:
    """Return the factors of a hinge whose angle is counted from an offset [rad]."""
    c, s = np.cos(offset), np.sin(offset)
    return np.stack([hinge[0], c * hinge[1] + s * hinge[2], c * hinge[2] - s * hinge[1]])


def _cross(v: np.ndarray) -> np.ndarray:
    return np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]])


def _rotations(axes: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Return rotations (6, k, 3, 3) about axes (6, 3) by angles (k, 6) [rad]."""
    c, s = np.cos(angles.T)[:, :, None, None], np.sin(angles.T)[:, :, None, None]
    along = axes[:, None, :, None] * axes[:, None, None, :]
    across = np.stack([_cross(axis) for axis in axes])[:, None]
    return along + c * (np.eye(3) - along) + s * across


# --- Roots ---


def _tangents(equations: np.ndarray) -> np.ndarray | None:
    """Return the half-angle tangents (k, 3) of hinges 1 to 3 that meet six equations (6, 27); None if dependent."""
    cubes = equations.reshape(6, 3, 3, 3)
    for _ in range(3):  # each hinge in turn: its axis goes to the end, in powers of the tangent
        cubes = np.tensordot(cubes, HALF_ANGLE, axes=(1, 0))
    system = np.zeros((3, 12, 4, 3))
    system[:, :6, 0:3] = system[:, 6:, 1:4] = cubes.transpose(1, 0, 2, 3)
    constant, linear, square = system.reshape(3, 12, 12)
    companion = np.zeros((24, 24))
    companion[:12, 12:] = np.eye(12)
    try:
        companion[12:] = -np.linalg.solve(square, np.hstack([constant, linear]))
        values, vectors = np.linalg.eig(companion)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(values).all():
        return None
    real = np.abs(np.imag(values)) < REAL * (1.0 + np.abs(values) ** 2)
    x, vectors = np.real(values[real]), np.real(vectors[:, real])
    monomials = np.where(np.abs(x) > 1.0, vectors[12:], vectors[:12]).T.reshape(-1, 4, 3)
    low, high = monomials[:, :-1], monomials[:, 1:]
    y = (low * high).sum(axis=(1, 2)) / np.maximum((low * low).sum(axis=(1, 2)), 1e-300)
    low, high = monomials[:, :, :-1], monomials[:, :, 1:]
    z = (low * high).sum(axis=(1, 2)) / np.maximum((low * low).sum(axis=(1, 2)), 1e-300)
    return np.stack([x, y, z], axis=-1)
