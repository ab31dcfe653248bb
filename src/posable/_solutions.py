"""All solutions: every pose that reaches the goals, up to whole turns of a joint, nearest to the start first.

A six-axis arm with one pose to reach has a closed form where its axes allow one (limb/six_axis.py). EAIK (extra `eaik`)
knows a few more families; its answers are checked and refined here. Everything else is solved from many random starts:
for a finite set of solutions until new starts stop finding new ones, for a redundant figure until a spread sample is
full.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from posable.engine.joints import TURN
from posable.engine.layout import KIND
from posable.errors import SolverError
from posable.goals.base import Goal
from posable.goals.orientation import Pose
from posable.model.kinematics import forward, one_pose
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SolveOptions, limits_of
from posable.solvers.newton import Newton

STARTS = 48  # random starts per round
ROUNDS = 12
SURE = 0.999  # fraction of successful starts that must find known solutions before the list counts as complete
SAMPLE = 16  # sample size for a redundant figure
SAME = 1e-4  # [rad, m]: poses that differ by less are the same
REFINED = 1e-9  # [m, rad]: accuracy to which solutions are refined


class Solutions(np.ndarray):
    """Poses (k, n) [rad, m] that reach the goals, nearest to the start first.

    Attributes:
        completeness: the share of starts that find nothing new, 0 to 1; 1 for a closed form.
        exact: whether they come from a closed form.
        redundant: whether they are a sample of infinitely many.
    """

    completeness: float = 0.0
    exact: bool = False
    redundant: bool = False

    def __new__(cls, poses: np.ndarray, completeness: float, exact: bool, redundant: bool) -> Solutions:
        """Return poses (k, n) with what is known about them."""
        out = np.ascontiguousarray(poses, dtype=float).view(cls)
        out.completeness, out.exact, out.redundant = completeness, exact, redundant
        return out

    def __array_finalize__(self, obj: Any) -> None:
        if type(obj) is Solutions:
            self.completeness, self.exact, self.redundant = obj.completeness, obj.exact, obj.redundant


def solutions(
    skeleton: Skeleton,
    goals: Goal | Iterable[Goal],
    *,
    start: Any = None,
    n: int | None = None,
    limits: bool = True,
    seed: int = 0,
) -> Solutions:
    """Return the distinct poses that reach the goals inside the limits, nearest to the start first.

    Poses that differ by whole turns of a joint are one solution, given by the turn nearest to the start. A redundant
    figure has infinitely many: then they are a sample of `n`, spread over the self-motion.

    Args:
        skeleton: the figure.
        goals: one goal or several, for one pose.
        start: the pose (n,) to which they are sorted; the figure's rest by default.
        n: at most how many; None: all of a finite set, or 16 of a redundant figure.
        limits: whether joint limits hold.
        seed: of the random starts.

    Returns:
        Solutions: an array (k, n) [rad, m], empty where nothing reaches. `completeness` says how sure it is that the
        list has all of them.

    Raises:
        SolverError: for targets of a batch.
    """
    exact = _in_closed_form(skeleton, goals, start, n, limits)
    if exact is not None:
        return exact
    problem = Problem(skeleton, goals)
    if problem.batch_shape:
        raise SolverError("solutions", expected="goals for one pose", got=f"targets of shape {problem.batch_shape}")
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise SolverError("solutions: n", expected="None or a positive integer", got=repr(n))
    begin = skeleton.rest if start is None else one_pose(skeleton, start, "start")
    lower, upper, frozen = limits_of(skeleton, bool(limits))
    begin = np.clip(begin, lower, upper)
    if frozen is not None:
        lower, upper = (np.where(frozen, begin, side) for side in (lower, upper))
    search = _Search(problem, begin, lower, upper, seed)
    found = _by_eaik(problem, search)
    if found is not None:
        return Solutions(search.sorted(found)[:n], 1.0, True, False)
    poses, completeness, redundant = search.run(n)
    return Solutions(poses[:n], completeness, False, redundant)


class _Search:
    """Solutions from random starts: which are new, and when to stop."""

    def __init__(self, problem: Problem, start: np.ndarray, lower: np.ndarray, upper: np.ndarray, seed: int):
        self.problem, self.start, self.lower, self.upper = problem, start, lower, upper
        self.turns = problem.skeleton.figure.dof[:, KIND] == TURN
        self.rng = np.random.default_rng(seed % 2**64)
        self.newton = Newton()
        self.tight = problem.copy()
        self.tight.tolerances = np.where(np.isfinite(problem.tolerances), REFINED, problem.tolerances)

    def near_start(self, poses: np.ndarray) -> np.ndarray:
        """Return poses (k, n) with every angle turned to the value nearest to the start that the limits allow."""
        whole = 2.0 * np.pi
        out = poses.copy()
        out[:, self.turns] += whole * np.round((self.start - poses)[:, self.turns] / whole)
        for _ in range(2):
            out[:, self.turns] -= whole * (out > self.upper + SAME)[:, self.turns]
            out[:, self.turns] += whole * (out < self.lower - SAME)[:, self.turns]
        return out

    def refined(self, poses: np.ndarray, iterations: int = 100) -> np.ndarray:
        """Return the poses of (k, n) that reach the goals inside the limits, refined."""
        if not len(poses):
            return poses
        starts = np.clip(poses, self.lower, self.upper)
        outcome = self.newton.run(self.tight, SolveOptions(starts, self.lower, self.upper, iterations, 0, 0, threads=1))
        reached = (outcome.errors <= self.problem.tolerances).all(axis=1)
        return self.near_start(outcome.poses[reached])

    def is_new(self, pose: np.ndarray, known: list[np.ndarray]) -> bool:
        """Return whether a pose differs from all known ones by more than full turns."""
        return all(self.gap(pose, other) > SAME for other in known)

    def gap(self, pose: np.ndarray, other: np.ndarray) -> float:
        """Return the largest difference [rad, m] of two poses, modulo full turns."""
        difference = pose - other
        difference[self.turns] -= 2.0 * np.pi * np.round(difference[self.turns] / (2.0 * np.pi))
        return float(np.abs(difference).max(initial=0.0))

    def sorted(self, poses: list[np.ndarray]) -> np.ndarray:
        """Return poses (k, n), nearest to the start first."""
        if not poses:
            return np.zeros((0, len(self.start)))
        every = np.array(poses)
        return every[np.argsort(np.linalg.norm(every - self.start, axis=1), kind="stable")]

    def random_starts(self, count: int) -> np.ndarray:
        """Return poses (count, n) spread over the limits; half a turn around the start where there are none."""
        low = np.where(np.isfinite(self.lower), self.lower, self.start - np.pi)
        high = np.where(np.isfinite(self.upper), self.upper, self.start + np.pi)
        narrow = self.turns & (high - low > 2.0 * np.pi)  # more than a full turn repeats the same poses
        low, high = np.where(narrow, self.start - np.pi, low), np.where(narrow, self.start + np.pi, high)
        return np.clip(self.rng.uniform(low, high, (count, len(low))), self.lower, self.upper)

    def is_redundant(self, pose: np.ndarray) -> bool:
        """Return whether the figure can move at a solution while its goals stay met."""
        free = self.lower < self.upper
        hessian = self.problem.evaluate(pose, exact=False)[2][np.ix_(free, free)]
        if not free.any():
            return False
        values = np.linalg.eigvalsh(hessian)
        return bool(values[0] < 1e-9 * max(values[-1], 1e-300))

    def run(self, n: int | None) -> tuple[np.ndarray, float, bool]:
        """Return poses (k, n), their completeness, and whether they are a sample of infinitely many."""
        known: list[np.ndarray] = []
        hits: list[int] = []
        redundant = False
        tried = 0
        for number in range(ROUNDS):
            starts = self.random_starts(STARTS)
            if number == 0:
                starts[0] = self.start
            tried += STARTS
            for pose in self.refined(starts):
                gaps = [self.gap(pose, other) for other in known]
                if gaps and min(gaps) <= SAME:
                    hits[int(np.argmin(gaps))] += 1
                else:
                    known.append(pose)
                    hits.append(1)
            if not known:
                if number >= 2:
                    break
                continue
            redundant = redundant or (number == 0 and self.is_redundant(known[0]))
            if redundant:
                if len(known) >= 4 * (n or SAMPLE):
                    break
            elif self.completeness(hits) >= SURE and min(hits) >= 3:
                break
        if redundant:
            return self.spread(known, n or SAMPLE), 0.0, True
        return self.sorted(known), self.completeness(hits), False

    @staticmethod
    def completeness(hits: list[int]) -> float:
        """Return the estimated share of starts that find known solutions: one minus the share of those found only once.

        The estimate of Good (1953) for the probability mass of unseen species.
        """
        total = sum(hits)
        return 1.0 - (sum(hit == 1 for hit in hits) + (total < 40 * len(hits)) / max(total, 1)) / max(total, 1)

    def spread(self, poses: list[np.ndarray], count: int) -> np.ndarray:
        """Return `count` of the poses that lie far from one another, the nearest to the start first."""
        every = self.sorted(poses)
        if len(every) <= count:
            return every
        chosen = [0]
        distance = np.array([self.gap(pose, every[0]) for pose in every])
        while len(chosen) < count:
            chosen.append(int(np.argmax(distance)))
            distance = np.minimum(distance, [self.gap(pose, every[chosen[-1]]) for pose in every])
        return every[sorted(chosen)]


# --- Closed forms ---


def _in_closed_form(skeleton: Skeleton, goals: Any, start: Any, n: Any, limits: bool) -> Solutions | None:
    """Return the solutions for one Pose of a six-axis arm; None for any other problem."""
    goal = goals if isinstance(goals, Goal) else None
    if goal is None and isinstance(goals, (tuple, list)) and len(goals) == 1:
        goal = goals[0]
    if type(goal) is not Pose or goal.point is not None or goal.device_array is not None or goal.target.ndim != 2:
        return None
    if skeleton.couplings or skeleton.loops or not (n is None or (isinstance(n, int) and n > 0)):
        return None
    if not all(0.0 < t < np.inf for t in goal.tolerance):
        return None
    from posable.limb.six_axis_arm import six_axis_arm

    arm = six_axis_arm(skeleton, goal.body)
    if arm is None:
        return None
    begin = skeleton.rest if start is None else one_pose(skeleton, start, "start")
    lower, upper = limits_of(skeleton, bool(limits))[:2]
    return Solutions(arm.poses(goal.target, lower, upper, begin)[:n], 1.0, True, False)


@lru_cache(maxsize=32)
def _eaik_robot(skeleton: Skeleton, body: int) -> tuple[Any, list[int]] | None:
    """Return EAIK's robot of the six hinges that carry a body, and their places in a pose; None where there is none."""
    try:
        from eaik.IK_HP import HPRobot
    except ImportError:
        return None
    figure = skeleton.figure
    dofs: list[int] = []
    while body >= 0:
        parent, first, last, _ = (int(x) for x in figure.body[body])
        dofs = [*range(first, last), *dofs]
        body = parent
    if len(dofs) != 6 or skeleton.size != 6 or (figure.dof[dofs, KIND] != TURN).any():
        return None
    zero = forward(skeleton, np.zeros(6))
    axes, points = np.empty((6, 3)), np.zeros((7, 3))
    at = np.zeros(3)
    for k, i in enumerate(dofs):
        spans = zip(skeleton.joints, skeleton.slices, strict=True)
        joint = next(j for j, where in spans if where.start <= i < where.stop)
        if joint.motion.size != 1:
            return None
        element = joint.motion.dofs[0]
        axes[k] = zero.rotation_matrix(joint.name) @ joint.motion.basis[:, element.axis] * element.sign
        place = zero.position(joint.name)
        points[k], at = place - at, place
    robot = HPRobot(axes, points)
    if not robot.hasKnownDecomposition():
        return None
    return robot, dofs


def _by_eaik(problem: Problem, search: _Search) -> list[np.ndarray] | None:
    """Return the solutions of one Pose of a six-axis arm that EAIK has a closed form for; None where it has none."""
    if len(problem.goals) != 1 or not isinstance(problem.goals[0], Pose) or problem.skeleton.size != 6:
        return None
    goal = problem.goals[0]
    if goal.point is not None or any(not np.isfinite(t) for t in goal.tolerance):
        return None
    skeleton = problem.skeleton
    frame = skeleton.frame(goal.body)
    made = _eaik_robot(skeleton, int(skeleton.frame_bodies[frame]))
    if made is None:
        return None
    robot, _ = made
    tool = np.linalg.inv(robot.fwdKin(np.zeros(6))) @ forward(skeleton, np.zeros(6)).matrix(goal.body)
    target = np.eye(4)
    target[:3, :3], target[:3, 3] = goal.rotation, goal.position
    answer = robot.IK(target @ np.linalg.inv(tool))
    poses = np.atleast_2d(answer.Q) if np.size(answer.Q) else np.zeros((0, 6))
    exact = ~np.atleast_1d(answer.is_LS)[: len(poses)] if len(poses) else np.zeros(0, bool)
    near = search.near_start(poses[exact])
    inside = ((near >= search.lower - SAME) & (near <= search.upper + SAME)).all(axis=1)
    known: list[np.ndarray] = []
    for pose in search.refined(near[inside], 5):
        if search.is_new(pose, known):
            known.append(pose)
    return known
