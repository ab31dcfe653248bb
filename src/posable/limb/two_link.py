"""The planar two-link arm in closed form (Parent, Kinematic Linkages, 5.3.1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.engine.layout import AXIS, PARENT
from posable.errors import GoalError
from posable.model.kinematics import path_of, place_bodies
from posable.model.skeleton import Skeleton


def two_link(first: float, second: float, target: Any) -> tuple[np.ndarray, Any]:
    """Return both solutions of a planar arm of two links.

    Angles are relative: (theta1, theta2) puts the end at first (cos, sin)(theta1) + second (cos, sin)(theta1 + theta2).
    Out of reach, both solutions stretch towards the target, or fold. At the origin, where theta1 is arbitrary, they are
    those of a target on the x axis.

    Args:
        first: The first link's length [m].
        second: The second link's length [m].
        target: (..., 2) [m], the position of the end, with the first joint at the origin.

    Returns:
        The solutions (..., 2, 2) [rad], of which 0 bends left and 1 right (they meet at full stretch), and whether the
        arm reaches (...).

    Raises:
        GoalError: A length is not positive or the target is not finite.
    """
    p = np.asarray(target, dtype=float)
    if p.shape[-1:] != (2,) or not np.all(np.isfinite(p)):
        raise GoalError("target", expected="finite numbers of shape (..., 2)", got=repr(target))
    if not (first > 0.0 and second > 0.0):
        raise GoalError("links", expected="two positive lengths", got=(first, second))
    distance = np.hypot(p[..., 0], p[..., 1])
    near, far = abs(first - second), first + second
    # The half-angle form of the cosine rule keeps the digits that an inverse cosine loses at full stretch and folded.
    short = np.sqrt(np.maximum(0.0, (far - distance) * (far + distance)))
    wide = np.sqrt(np.maximum(0.0, (distance - near) * (distance + near)))
    bend = 2.0 * np.arctan2(short, wide)
    towards = np.arctan2(p[..., 1], p[..., 0])
    lead = np.arctan2(second * np.sin(bend), first + second * np.cos(bend))
    left = np.stack([towards - lead, bend], axis=-1)
    right = np.stack([towards + lead, -bend], axis=-1)
    slack = 1e-12 * far
    reached = (distance <= far + slack) & (distance >= near - slack)
    return np.stack([left, right], axis=-2), reached if p.ndim > 1 else bool(reached)


# --- Two hinges of a figure ---


class TwoLink:
    """Two hinges with parallel axes and a point on the second bone, placed in closed form (Parent, 5.3.1).

    The point moves in a plane orthogonal to the axes; the distance of a target from that plane remains as an error.
    """

    def __init__(self, skeleton: Skeleton, first: str, last: str, point: Any):
        self.skeleton, self.first, self.last = skeleton, first, last
        rows = [skeleton.names.index(name) for name in (first, last)]
        self.bodies = [int(skeleton.frame_bodies[row]) for row in rows]
        self.columns = np.array([skeleton.index(name).start for name in (first, last)])
        self.point = np.asarray(point, dtype=float)  # (3,) [m], in the last body

    def dofs_above(self) -> list[int]:
        """Return the degrees of freedom of the figure that move the first joint."""
        return sorted(path_of(self.skeleton, int(self.skeleton.figure.body[self.bodies[0], PARENT])))

    def solve(self, targets: np.ndarray, poses: np.ndarray, *, limits: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the poses (t, n) that bring the point to targets (t, 3) [m], nearest to poses, and if they reach (t,).

        If the target is out of reach or outside the limits, the point comes as close as possible.
        """
        figure = self.skeleton.figure
        positions, turns, _ = place_bodies(self.skeleton, poses)
        first, last = self.bodies
        axis = figure.sign[self.columns[0]] * turns[:, first, :, figure.dof[self.columns[0], AXIS]]
        other = figure.sign[self.columns[1]] * turns[:, last, :, figure.dof[self.columns[1], AXIS]]
        sense = np.sign(np.sum(axis * other, axis=1))
        tip = positions[:, last] + (turns[:, last] @ self.point[:, None])[..., 0]
        x, y = across(axis)

        def flat(vectors: np.ndarray) -> np.ndarray:
            return np.stack([np.sum(vectors * x, axis=1), np.sum(vectors * y, axis=1)], axis=1)

        upper, lower = flat(positions[:, last] - positions[:, first]), flat(tip - positions[:, last])
        goal = flat(targets - positions[:, first])
        here = poses[:, self.columns]
        low, high = self.skeleton.lower[self.columns], self.skeleton.upper[self.columns]
        if not limits:
            low, high = np.full(2, -np.inf), np.full(2, np.inf)
        out, best = here.copy(), np.full(len(poses), np.inf)
        for bends in candidates(upper, lower, goal, here, sense, low, high):
            numbers = into_box(bends, here, low, high)
            miss = np.linalg.norm(tip_at(upper, lower, numbers - here, sense) - goal, axis=1)
            moved = np.abs(numbers - here).max(axis=1)
            score = np.round(miss, 12) + 1e-13 * moved  # of two that reach, the one closer to the start
            better = score < best
            out[better], best[better] = numbers[better], score[better]
        answer = poses.copy()
        answer[:, self.columns] = out
        size = np.linalg.norm(upper, axis=1) + np.linalg.norm(lower, axis=1)
        return answer, best <= 1e-9 * size


def across(axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return two unit vectors (t, 3) orthogonal to axes (t, 3), right-handed with them."""
    helper = np.eye(3)[np.argmin(np.abs(axis), axis=1)]
    x = helper - np.sum(helper * axis, axis=1, keepdims=True) * axis
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, np.cross(axis, x)


def rotated(vectors: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Return plane vectors (t, 2) rotated by angles (t,)."""
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([c * vectors[:, 0] - s * vectors[:, 1], s * vectors[:, 0] + c * vectors[:, 1]], axis=1)


def tip_at(upper: np.ndarray, lower: np.ndarray, turned: np.ndarray, sense: np.ndarray) -> np.ndarray:
    """Return the position (t, 2) of the point after both joints have turned by (t, 2) [rad]."""
    return rotated(upper, turned[:, 0]) + rotated(lower, turned[:, 0] + sense * turned[:, 1])


def angle_of(vectors: np.ndarray) -> np.ndarray:
    """Return the direction (t,) [rad] of plane vectors (t, 2)."""
    return np.arctan2(vectors[:, 1], vectors[:, 0])


def candidates(upper, lower, goal, here, sense, low, high):
    """Yield joint values (t, 2) that may be nearest: both bends, and the best with one joint at a bound."""
    a, b = np.linalg.norm(upper, axis=1), np.linalg.norm(lower, axis=1)
    solutions = np.stack([two_link(p, q, g)[0] for p, q, g in zip(a, b, goal, strict=True)])  # (t, 2, 2)
    for side in range(2):
        first = solutions[:, side, 0] - angle_of(upper)
        second = solutions[:, side, 1] - angle_of(lower) + angle_of(upper)
        yield here + np.stack([first, sense * second], axis=1)
    for bound in (low[1], high[1]):  # the second joint at a bound: the first one turns the tip towards the goal
        if np.isfinite(bound):
            turned = np.stack([np.zeros(len(here)), bound - here[:, 1]], axis=1)
            lead = angle_of(goal) - angle_of(tip_at(upper, lower, turned, sense))
            yield np.stack([here[:, 0] + lead, np.full(len(here), bound)], axis=1)
    for bound in (low[0], high[0]):  # the first joint at a bound: the second one turns towards the goal
        if np.isfinite(bound):
            elbow = rotated(upper, bound - here[:, 0])
            lead = angle_of(goal - elbow) - angle_of(lower) - (bound - here[:, 0])
            yield np.stack([np.full(len(here), bound), here[:, 1] + sense * lead], axis=1)


def into_box(numbers: np.ndarray, here: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return angles (t, 2) shifted by whole turns nearest to `here`, then into the limits, or clipped to them."""
    turn = 2.0 * np.pi
    out = numbers + turn * np.round((here - numbers) / turn)
    with np.errstate(invalid="ignore"):
        out = np.where(out < low, out + turn * np.ceil((low - out) / turn), out)
        out = np.where(out > high, out - turn * np.ceil((out - high) / turn), out)
    nearest = np.where(np.abs(out + turn - low) < np.abs(out - low), out + turn, out)
    return np.clip(np.where(out < low, nearest, out), low, high)
