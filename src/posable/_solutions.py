"""All solutions: every pose that reaches the goals, up to whole turns of a joint, nearest to the start first.

A six-axis arm with one pose to reach has a closed form where its axes allow one (limb/six_axis.py), and the roots of a
polynomial where they do not (limb/general_arm.py). Everything else is solved from many random starts: for a finite set
of solutions until new starts stop finding new ones, for a redundant figure until a spread sample is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from posable.engine.joints import TURN
from posable.engine.layout import (
    AT,
    BODY_A,
    BODY_B,
    CENTER,
    FIRST,
    FOLLOWER,
    KIND,
    LAST,
    LEADER,
    RATIO,
    SPRING_KIND,
)
from posable.engine.springs import COUPLING_SPRING
from posable.errors import SolverError
from posable.goals.base import Goal
from posable.goals.orientation import Pose
from posable.model.kinematics import carriers, one_pose
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SolveOptions, deadline_after, limits_of
from posable.solvers.newton import Newton

STARTS = 48  # random starts per round
ROUNDS = 12
SURE = 0.999  # fraction of successful starts that must find known solutions before the list counts as complete
SAMPLE = 16  # sample size for a redundant figure
SAME = 1e-4  # [rad, m]: poses that differ by less are the same
NEARLY = 1e-2  # [rad]: candidates this far beyond a limit may be refined into it
SHARP = 1e-6  # [m, rad]: error of a refined pose that meets its goals, and not only within their tolerances
REFINED = 1e-9  # [m, rad]: accuracy to which solutions are refined


class Solutions(np.ndarray):
    """Poses (k, n) [rad, m] that reach the goals, nearest to the start first.

    Attributes:
        completeness: Share of starts that find nothing new, 0 to 1; 1 for the exact solutions of a six-axis arm.
        exact: Whether they come from a closed form or the roots of a polynomial, not from a search.
        redundant: Whether they are a sample of infinitely many.
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
    time_limit: float | None = None,
) -> Solutions:
    """Return the distinct poses that reach the goals within the limits, nearest to the start first.

    Poses that differ by whole turns of a joint are one solution, given by the turn nearest to the start. A redundant
    figure has infinitely many; then `n` samples are returned, spread over the self-motion. Joints that no goal depends
    on, such as the gripper of an arm whose hand has a target, keep their values of the start.

    Args:
        skeleton: The figure.
        goals: One goal or several, for one pose.
        start: The pose (n,) from which distances are measured; the rest pose by default.
        n: Maximum number; None: all of a finite set, or 16 of a redundant figure.
        limits: Whether joint limits apply.
        seed: Of the random starts.
        time_limit: [s], of the search from random starts; the solutions found by then are returned.

    Returns:
        An array (k, n) [rad, m], empty if none was found. `completeness` is the share of starts that
        find nothing new; 0 if the time limit ended the search before any was found.

    Raises:
        SolverError: The targets are a batch.
    """
    deadline = deadline_after(time_limit)
    pose = _pose_of_an_arm(skeleton, goals, n)
    exact = None if pose is None else _in_closed_form(skeleton, pose, start, n, limits)
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
    held = _unmoved(problem, begin)
    if frozen is not None:
        held |= frozen
    if held.any():
        lower, upper = (np.where(held, begin, side) for side in (lower, upper))
    search = _Search(problem, SolveOptions(begin[None], lower, upper, seed=seed, threads=1, deadline=deadline))
    found = None if pose is None else _by_elimination(pose, search)
    if found is not None:
        return Solutions(search.sorted(found)[:n], 1.0, True, False)
    poses, completeness, redundant = search.run(n)
    return Solutions(poses[:n], completeness, False, redundant)


class _Search:
    """Solutions from random starts: which are new, and when to stop."""

    def __init__(self, problem: Problem, options: SolveOptions):
        self.problem, self.options = problem, options
        self.start, self.lower, self.upper = options.starts[0], options.lower, options.upper
        self.turns = problem.skeleton.figure.dof[:, KIND] == TURN
        self.whole = np.where(self.turns, 2.0 * np.pi, 0.0)
        self.rng = np.random.default_rng(options.seed % 2**64)
        self.newton = Newton()
        self.tight = problem.copy()
        self.tight.tolerances = np.where(np.isfinite(problem.tolerances), REFINED, problem.tolerances)

    def near_start(self, poses: np.ndarray) -> np.ndarray:
        """Return poses (k, n) with every angle turned to the value nearest to the start that the limits allow."""
        out = poses + self.whole * np.round((self.start - poses) / (2.0 * np.pi))
        for _ in range(2):
            out -= self.whole * (out > self.upper + SAME)
            out += self.whole * (out < self.lower - SAME)
        return out

    def refined(self, poses: np.ndarray, iterations: int = 100) -> np.ndarray:
        """Return the poses of (k, n) that reach the goals inside the limits, refined."""
        if not len(poses):
            return poses
        starts = np.clip(poses, self.lower, self.upper)
        outcome = self.newton.run(self.tight, self.options._replace(starts=starts, max_iterations=iterations))
        reached = (outcome.errors <= self.problem.tolerances).all(axis=1)
        met = reached & (outcome.errors <= SHARP).all(axis=1)
        if met.any():  # a pose that is merely within the tolerance then lies near a double solution
            reached = met
        return self.near_start(outcome.poses[reached])

    def distinct(self, poses: np.ndarray) -> list[np.ndarray]:
        """Return the poses of (k, n) that differ from those before them by more than full turns."""
        differences = poses[:, None] - poses
        differences -= self.whole * np.round(differences / (2.0 * np.pi))
        same = np.abs(differences).max(axis=-1, initial=0.0) <= SAME
        return [pose for k, pose in enumerate(poses) if not same[k, :k].any()]

    def gap(self, pose: np.ndarray, other: np.ndarray) -> float:
        """Return the largest difference [rad, m] of two poses, modulo full turns."""
        difference = pose - other
        difference -= self.whole * np.round(difference / (2.0 * np.pi))
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
            if self.options.late:
                break
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
        complete = 0.0 if self.options.late and not known else self.completeness(hits)
        return self.sorted(known), complete, False

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


def _unmoved(problem: Problem, start: np.ndarray) -> np.ndarray:
    """Return which degrees of freedom (n,) no goal depends on, nor anything that they are coupled with.

    Those of a coupling that the start violates are not among them, as their values must change.
    """
    kind, constants = problem.kind, problem.constants[0]
    couplings = kind[:, SPRING_KIND] == COUPLING_SPRING
    bodies = kind[~couplings][:, [BODY_A, BODY_B]]
    everything = (bodies[:, 0] == CENTER).any() or problem.customs or problem.choices or problem.has_solids
    if everything or np.count_nonzero(problem.pull):
        return np.zeros(problem.skeleton.size, dtype=bool)
    out = np.ones(problem.skeleton.size, dtype=bool)
    for body in np.unique(bodies).tolist():
        for b in carriers(problem.skeleton.figure, body):
            out[slice(*problem.skeleton.figure.body[b, [FIRST, LAST]])] = False
    pairs = constants[couplings][:, [FOLLOWER, LEADER]].astype(int)
    off = start[pairs[:, 0]] - constants[couplings, RATIO] * start[pairs[:, 1]] - problem.targets[0, couplings, AT]
    out[pairs[np.abs(off) > SHARP]] = False
    for _ in pairs:  # along chains of couplings
        out[pairs[~out[pairs].all(axis=1)]] = False
    return out


# --- Six-axis arms ---


def _pose_of_an_arm(skeleton: Skeleton, goals: Any, n: Any) -> Pose | None:
    """Return the goal if it is one whole Pose, which six hinges could meet in a finite number of ways."""
    goal = goals if isinstance(goals, Goal) else None
    if goal is None and isinstance(goals, (tuple, list)) and len(goals) == 1:
        goal = goals[0]
    if type(goal) is Pose and goal.point is not None and goal.target.ndim == 2 and goal.device_array is None:
        goal = _of_the_origin(goal)
    if type(goal) is not Pose or skeleton.couplings or skeleton.loops or not (n is None or (type(n) is int and n > 0)):
        return None
    return goal if goal.pins_frame else None


def _of_the_origin(goal: Pose) -> Pose:
    """Return a goal for a point of a body, such as the tip of a tool, as one for the origin of its frame."""
    target = goal.target.copy()
    target[:3, 3] -= target[:3, :3] @ goal.point
    out = goal.moved(target)
    out.point = None
    return out


def _in_closed_form(skeleton: Skeleton, goal: Pose, start: Any, n: int | None, limits: bool) -> Solutions | None:
    """Return the solutions of a six-axis arm in closed form; None if it has none."""
    from posable.limb.six_axis_arm import six_axis_arm

    arm = six_axis_arm(skeleton, goal.body)
    if arm is None:
        return None
    begin = skeleton.rest if start is None else one_pose(skeleton, start, "start")
    lower, upper = limits_of(skeleton, bool(limits))[:2]
    return Solutions(arm.poses(goal.target, lower, upper, begin)[:n], 1.0, True, False)


def _by_elimination(goal: Pose, search: _Search) -> list[np.ndarray] | None:
    """Return the solutions of any other arm of six hinges, refined; None if the figure is not one.

    Where the roots are inaccurate, other ways to eliminate and random starts complete the list.
    """
    from posable.limb.general_arm import general_arms

    arms = general_arms(search.problem.skeleton, goal.body)
    if not arms:
        return None
    first = arms[0]
    candidates, sure = first.poses(goal.target)
    if not sure:
        others = [arm.full(arm.poses(goal.target)[0], search.start)[:, first.columns] for arm in arms[1:]]
        starts = search.rng.uniform(-np.pi, np.pi, (STARTS, 6))
        candidates = first.polished(np.vstack([candidates, *others, starts]), goal.target)
    near = search.near_start(first.full(candidates, search.start))
    edge = NEARLY if sure else SAME
    near = near[((near >= search.lower - edge) & (near <= search.upper + edge)).all(axis=1)]
    return search.distinct(search.refined(near, 10) if sure else np.clip(near, search.lower, search.upper))
