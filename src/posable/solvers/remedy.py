"""Changes that would make the goals reachable; each is reported only if a solve with the change reaches them.

Limits: among the poses that reach the goals, the one whose excess over the limits is smallest in sum. That sum is
piecewise linear, so a sequence of linear programs finds it, and leaves most joints without any excess. Targets: where
the bodies come nearest. Goals: one that is left out, or tolerances that are wide enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np

from posable.engine.joints import ROTVEC, SLIDE, SWING
from posable.engine.layout import KIND
from posable.errors import GoalError, SolverError
from posable.goals.base import Goal, range_projector, unpack_sym
from posable.goals.orientation import Aim, Direction, Orientation, Pose
from posable.goals.point import HalfSpace, Line, Plane, Position
from posable.goals.relative import Distance, Relative
from posable.model.kinematics import Frames, forward
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SOLVERS, amount, time_until
from posable.solvers.restarts import random_pose
from posable.solvers.sensitivity import listed

STARTS = 12  # random starts of the search for poses that reach without limits
KEPT = 4  # of those poses, the ones with the least excess, which is then minimised
ROUNDS = 25  # largest number of linear programs
TRUST = 0.3  # [rad, m]: first trust region
ON_GOAL = 1e-6  # [m, rad, weighted]: residual at which a pose reaches its goals
MARGINS = (0.01, 0.08, 0.18)  # relative margins added to an excess until a solve succeeds
DUST = 2e-3  # [rad, m]: an excess that the goals' tolerances may absorb
MOST_CHOICES = 16  # largest number of combinations of AnyOf members
SAME_SIZE = 1.25  # allowed relative size of a remedy that needs no start of its own


@dataclass(frozen=True, eq=False)
class Remedy:
    """A change after which the goals are reached, verified by solving.

    Attributes:
        text: In words.
        limits: {degree of freedom: (lower, upper)} [rad, m] of the limits to widen, for `Skeleton.with_limits`.
        targets: {label: target} of the goals that move, for `Goal.moved`.
        goals: The goals to solve for, with targets moved, tolerances widened or goals left out.
        verified: Whether a solve with the change reaches the goals; always true of reported remedies.
        size: How much changes: the sum by which limits widen [rad, m], targets move or tolerances grow
            [m, rad], or the number of goals left out.
        skeleton: The figure to solve with, its limits widened.
        start: (n,) [rad, m], the start from which it reaches; None: the one that the result had.
        pose: (n,) [rad, m], the pose that reaches.
    """

    text: str
    limits: dict[str, tuple[float, float]] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    verified: bool = False
    size: float = 0.0
    skeleton: Any = field(default=None, repr=False)
    start: np.ndarray | None = field(default=None, repr=False)
    pose: np.ndarray | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text


class Remedies:
    """The possible remedies for one result that misses its goals."""

    def __init__(self, result: Any, again: Callable[..., Any], deadline: float | None = None):
        self.deadline = deadline
        self.result, self.problem, self.skeleton = result, result.problem, result.problem.skeleton
        self.options, self._again = result.options, again
        self.goals = list(self.problem.given_goals)
        errors = result.outcome.errors[0]
        missed = np.flatnonzero(~(errors <= self.problem.tolerances))
        self.missed = sorted({self.problem.owners[k] for k in missed})
        self.own_start = self.options.starts[0]
        self.method = result.solver if result.solver in SOLVERS.names() else "newton"

    def again(self, *arguments: Any, **options: Any) -> Any:
        """Solve within the time that is left."""
        return self._again(*arguments, **options, time_limit=time_until(self.deadline))

    @property
    def late(self) -> bool:
        """Whether the time limit has ended."""
        return time_until(self.deadline) == 0.0

    def solve(self, skeleton: Skeleton, goals: list[Goal], start: np.ndarray, restarts: Any = None) -> Any:
        """Solve as the result was solved, except for the changes of a remedy."""
        limits = bool(np.isfinite(self.options.lower).any() or np.isfinite(self.options.upper).any())
        return self.again(
            skeleton, goals, start=start, solver=self.method, seed=self.options.seed, limits=limits,
            max_iterations=self.options.max_iterations,
            restarts=self.options.restarts if restarts is None else restarts,
        )  # fmt: skip

    def verified(self, remedy: dict[str, Any], poses: list[np.ndarray]) -> Remedy | None:
        """Return a remedy if a solve with it succeeds, from the result's own start or from one of some poses."""
        skeleton, goals = remedy.get("skeleton", self.skeleton), remedy.get("goals", self.goals)
        for k, start in enumerate([self.own_start, *poses]):
            if self.late:
                return None
            answer = self.solve(skeleton, goals, start)
            if answer.ok:
                own = None if k == 0 else start
                told = k == 0 or "remedy.start" in remedy["text"]
                text = remedy["text"] + ("" if told else " Solve from remedy.start.")
                fields = {"skeleton": skeleton, "goals": goals, **remedy, "text": text, "start": own}
                return Remedy(**fields, verified=True, pose=answer.pose)
        return None

    def all(self) -> list[Remedy]:
        """Return every remedy found: widened limits, moved targets, goals to loosen or leave out."""
        elsewhere = self.another_start()
        if elsewhere is not None:
            return [elsewhere]
        ways = (self.limits, self.targets, self.loosened, self.left_out)
        found = [way() for way in ways if not self.late]
        return [remedy for remedy in found if remedy is not None]

    def another_start(self) -> Remedy | None:
        """Return the remedy of another start, if one reaches the goals."""
        searched = 0 in self.result.searches
        answer = self.result if searched else self.solve(self.skeleton, self.goals, self.own_start, restarts="auto")
        if not answer.ok:
            return None
        text = 'No change needed: another start reaches the goals. Solve from remedy.start, or with restarts="auto".'
        return self.verified({"text": text}, [answer.pose])

    # ----------------------------------------------------------------------------------------------------------- limits

    def limits(self) -> Remedy | None:
        """Return the limits to widen: smallest in sum, of few joints."""
        if self.problem.customs or self.problem.choices or not np.isfinite(self.options.lower).any():
            return None
        try:
            found = sorted(self.least_excesses(), key=lambda pair: pair[0])
        except GoalError:  # a goal without residuals, such as NoCollision
            return None
        remedies = []
        for total, pose in found:
            if remedies and total > SAME_SIZE * remedies[0].size:
                break
            remedy = self.with_margin(pose)
            if remedy is not None:
                remedies.append(remedy)
                if remedy.start is None:
                    break
        good = [remedy for remedy in remedies if remedy.start is None and remedy.size <= SAME_SIZE * remedies[0].size]
        return (good or remedies or [None])[0]

    def with_margin(self, pose: np.ndarray) -> Remedy | None:
        """Return the remedy whose limits admit a pose (n,), with the smallest margin with which a solve succeeds."""
        for margin in MARGINS:
            for least in (DUST, 0.0):  # ignore tiny excesses unless they prove necessary
                change = self.widened(pose, margin, least)
                if change is not None and (remedy := self.verified(change, [])) is not None:
                    return remedy
        for least in (DUST, 0.0):
            change = self.widened(pose, MARGINS[0], least)
            if change is not None and (remedy := self.verified(change, [self.result.pose, pose])) is not None:
                return remedy
        return None

    def widened(self, pose: np.ndarray, margin: float, least: float) -> dict[str, Any] | None:
        """Return the remedy whose limits admit a pose (n,) that exceeds them by more than `least`."""
        skeleton, limits, told, total = self.skeleton, {}, [], 0.0
        for i in np.flatnonzero(excess(pose, skeleton.lower, skeleton.upper) > least + 1e-9).tolist():
            name, slides = skeleton.dof_names[i], skeleton.figure.dof[i, KIND] == SLIDE
            low, high = float(skeleton.lower[i]), float(skeleton.upper[i])
            by = max(low - pose[i], pose[i] - high)
            below = low - pose[i] > pose[i] - high
            bound = rounded_out(low if below else high, -by if below else by, margin, bool(slides))
            limits[name] = (bound, high) if below else (low, bound)
            total += abs(bound - (low if below else high))
            told.append(f"{name} to {place(bound, slides)} (now {place(low if below else high, slides)})")
        if not limits:
            return None
        text = f"Widen {len(limits)} limit{'s' * (len(limits) > 1)}: {', '.join(told)}."
        return {"text": text, "limits": limits, "size": total, "skeleton": skeleton.with_limits(limits)}

    def least_excesses(self) -> Iterator[tuple[float, np.ndarray]]:
        """Yield (sum of excess, pose (n,)) of poses that reach the goals beyond their limits."""
        skeleton = self.skeleton
        rng = np.random.default_rng(self.options.seed)
        starts = [self.result.pose, self.own_start]
        starts += [random_pose(self.problem, self.options, self.own_start, rng) for _ in range(STARTS)]
        free = self.again(skeleton, self.goals, start=np.array(starts), limits=False, natural=False)
        poses = [pose for pose, ok in zip(free.pose, np.atleast_1d(free.ok), strict=True) if ok]
        turns = [near_limits(skeleton, pose) for pose in poses]
        turns.sort(key=lambda pose: float(excess(pose, skeleton.lower, skeleton.upper).sum()))
        for pose in turns[:KEPT]:
            if self.late:
                return
            yield least_excess(self.problem, skeleton, pose)

    # --------------------------------------------------------------------------------------- targets, tolerances, goals

    def targets(self) -> Remedy | None:
        """Return the nearest reachable targets: of one missed goal, or of all."""
        choices = []
        for movers in [*([k] for k in self.missed if len(self.missed) > 1), self.missed]:
            change = self.moved_targets(movers)
            if change is not None:
                choices.append(change)
        choices.sort(key=lambda change: change[0]["size"])
        for change, pose in choices:
            remedy = self.verified(change, [pose])
            if remedy is not None:
                return remedy
        return None

    def moved_targets(self, movers: list[int]) -> tuple[dict[str, Any], np.ndarray] | None:
        """Return a remedy that moves some goals to where their bodies come closest while the others are reached."""
        if any(k >= len(self.goals) for k in movers):
            return None
        pose = self.nearest_pose(movers)
        if pose is None:
            return None
        frames, targets, told, size, goals = forward(self.skeleton, pose), {}, [], 0.0, list(self.goals)
        errors = self.problem.evaluate(pose)[3]
        for k in movers:
            target = achieved_target(self.goals[k], frames)
            if target is None:
                return None
            label = self.problem.labels[k]
            rows = [row for row, owner in enumerate(self.problem.owners) if owner == k]
            targets[label], goals[k] = target, self.goals[k].moved(target)
            size += float(sum(errors[row] for row in rows))
            by = " and ".join(
                amount(errors[row], self.problem, row)
                for row in rows
                if errors[row] > 1e-2 * self.problem.tolerances[row]
            )
            told.append(f"{label} by {by}{point_text(target)}")
        text = f"Move the target of {'; of '.join(told)}."
        return {"text": text, "targets": targets, "size": size, "goals": goals}, pose

    def nearest_pose(self, movers: list[int]) -> np.ndarray | None:
        """Return the pose (n,) at which some goals are missed by least while all others are reached."""
        if set(movers) == set(self.missed) and len(self.missed) > 1:
            return self.result.pose
        others = [goal for k, goal in enumerate(self.goals) if k not in movers and not goal.is_posture]
        if not others:
            nearest = self.solve(self.skeleton, self.goals, self.own_start)
            rng = np.random.default_rng(self.options.seed)
            starts = np.array([random_pose(self.problem, self.options, self.own_start, rng) for _ in range(STARTS)])
            many = self.again(self.skeleton, self.goals, start=starts, natural=False)
            poses = [self.result.pose, nearest.pose, *many.pose]
            return min(poses, key=self.problem.energy)
        last = max(goal.priority for goal in self.goals) + 1
        later = [changed_priority(goal, last) if k in movers else goal for k, goal in enumerate(self.goals)]
        later = [changed_priority(goal, last + 1) if goal.is_posture else goal for goal in later]
        answer = self.solve(self.skeleton, later, self.result.pose)
        kept = Problem(self.skeleton, others)
        reached = (kept.evaluate(answer.pose)[3] <= kept.tolerances).all()
        return answer.pose if reached else None

    def loosened(self) -> Remedy | None:
        """Return tolerances of the missed goals with which the current pose succeeds."""
        goals, told, size = list(self.goals), [], 0.0
        errors = self.result.outcome.errors[0]
        for k in self.missed:
            if k >= len(goals):
                return None
            rows = [row for row, owner in enumerate(self.problem.owners) if owner == k]
            wide = [np.ceil(1e4 * 1.02 * errors[row] + 1.0) / 1e4 for row in rows]
            size += float(sum(wide))
            goal = goals[k].changed()
            goal.tolerance = tuple(wide) if isinstance(goal.tolerance, tuple) else max(wide)
            if isinstance(goal.tolerance, tuple) and len(goal.tolerance) != len(goals[k].tolerance):
                return None
            goals[k] = goal
            within = " and ".join(amount(value, self.problem, row) for value, row in zip(wide, rows, strict=True))
            told.append(f"{self.problem.labels[k]} within {within}")
        change = {"text": f"Accept {', '.join(told)}.", "size": size, "goals": goals}
        return self.verified(change, [self.result.pose])

    def left_out(self) -> Remedy | None:
        """Return the goal without which the others are reached; if there is none, the missed goals."""
        order = [other for reason in self.result.reasons if reason.kind == "goals" for other in reason.others]
        first = [self.problem.label_index[label] for label in dict.fromkeys(order)]
        singles = [[k] for k in dict.fromkeys([*self.missed, *first, *range(len(self.goals))])]
        for gone in [*singles, self.missed]:
            goals = [goal for k, goal in enumerate(self.goals) if k not in gone]
            if not goals or any(k >= len(self.goals) for k in gone):
                continue
            if all(goal.is_posture for goal in goals):
                continue
            text = f"Leave out {listed([self.problem.labels[k] for k in gone])}."
            remedy = self.verified({"text": text, "size": float(len(gone)), "goals": goals}, [self.result.pose])
            if remedy is not None:
                return remedy
        return None


# --- Least excess ---


def excess(pose: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the excess (n,) [rad, m] of each dof over its limits."""
    return np.maximum(np.maximum(lower - pose, pose - upper), 0.0)


def least_excess(problem: Problem, skeleton: Skeleton, pose: np.ndarray) -> tuple[float, np.ndarray]:
    """Return (sum of excess, pose (n,)), the minimum reached from a pose (n,) that meets the goals."""
    total, trust = float(excess(pose, skeleton.lower, skeleton.upper).sum()), TRUST
    for _ in range(ROUNDS):
        step = excess_step(problem, skeleton, pose, trust)
        after = None if step is None else onto_goals(problem, skeleton, pose + step)
        size = np.inf if after is None else float(excess(after, skeleton.lower, skeleton.upper).sum())
        if after is None or not size < total:
            trust *= 0.25
            if trust < 1e-4:
                break
            continue
        gained, pose, total = total - size, after, size
        if gained < 1e-4 * total and trust <= 0.05:
            break
        trust = min(2.0 * trust, 1.0)
    return total, pose


def excess_step(problem: Problem, skeleton: Skeleton, pose: np.ndarray, trust: float) -> np.ndarray | None:
    """Return the step (n,) that minimises the sum of excess, to first order, while the goals stay met."""
    from scipy.optimize import linprog

    residual, jacobian = problem.residuals(pose, jacobian=True, vectors=True)
    n = skeleton.size
    free = ~skeleton.frozen & (skeleton.lower < skeleton.upper)
    reach = np.where(free, trust, 0.0)
    limited_up, limited_down = np.flatnonzero(np.isfinite(skeleton.upper)), np.flatnonzero(np.isfinite(skeleton.lower))
    eye = np.eye(n)
    rows = np.vstack([np.hstack([eye, -eye])[limited_up], np.hstack([-eye, -eye])[limited_down]])
    room = np.concatenate([(skeleton.upper - pose)[limited_up], (pose - skeleton.lower)[limited_down]])
    used = np.abs(jacobian).max(axis=1) > 1e-12
    answer = linprog(
        np.concatenate([np.zeros(n), np.ones(n)]), A_ub=rows, b_ub=room,
        A_eq=np.hstack([jacobian, np.zeros_like(jacobian)])[used] if used.any() else None,
        b_eq=-residual[used] if used.any() else None,
        bounds=[*zip(-reach, reach, strict=True), *[(0.0, None)] * n], method="highs",
    )  # fmt: skip
    return answer.x[:n] if answer.status == 0 else None


def onto_goals(problem: Problem, skeleton: Skeleton, pose: np.ndarray) -> np.ndarray | None:
    """Return the pose (n,) near a given one that reaches the goals, ignoring limits; None if there is none."""
    free = ~skeleton.frozen & (skeleton.lower < skeleton.upper)
    for _ in range(8):
        residual, jacobian = problem.residuals(pose, jacobian=True, vectors=True)
        if np.abs(residual).max(initial=0.0) < ON_GOAL:
            return pose
        pose = pose.copy()
        pose[free] -= np.linalg.lstsq(jacobian[:, free], residual, rcond=1e-8)[0]
        if not np.isfinite(pose).all():
            return None
    return None


def near_limits(skeleton: Skeleton, pose: np.ndarray) -> np.ndarray:
    """Return an equivalent pose (n,) with angles shifted by full turns so that they exceed their limits least."""
    middle = 0.5 * (skeleton.lower + skeleton.upper)
    turning = np.isfinite(middle) & ~np.isin(skeleton.figure.dof[:, KIND], (SLIDE, ROTVEC, SWING))
    turns = np.round((np.where(turning, middle, 0.0) - pose) / (2.0 * np.pi))
    return pose + 2.0 * np.pi * np.where(turning, turns, 0.0)


def rounded_out(bound: float, outward: float, margin: float, slides: bool) -> float:
    """Return a bound moved outward [rad, m], signed, slightly further than needed and rounded for the text."""
    by = abs(outward) * (1.0 + margin) + 1e-5
    unit = (1e-4 if by < 1e-2 else 1e-3) if slides else np.radians(0.01 if by < np.radians(1.0) else 0.1)
    sign = np.sign(outward)
    return float(sign * np.ceil(sign * (bound + sign * by) / unit - 1e-9) * unit)


def place(bound: float, slides: Any) -> str:
    """Return a limit as text."""
    return f"{1e3 * bound:.1f} mm" if slides else f"{np.degrees(bound):.4g}°"


def point_text(target: Any) -> str:
    """Return a target as text, if it is a point."""
    value = np.asarray(target)
    return f" to ({', '.join(f'{x:.4f}' for x in value)})" if value.shape == (3,) else ""


def achieved_target(goal: Any, frames: Frames) -> Any:
    """Return the target nearest to a goal's own that is met where its body is; None if unknown.

    Parts of the target that the goal ignores (an axis of weight zero, the distance of an aim) stay unchanged.
    """
    if type(goal) in (Orientation, Pose):
        turn = frames.rotation_matrix(goal.body)
        if isinstance(goal, Orientation):
            return turn
        out = np.eye(4)
        out[:3, :3], out[:3, 3] = turn, point_at(goal.body, goal.point, frames)
        return out
    if type(goal) is Position:
        miss = point_at(goal.body, goal.point, frames) - goal.target
        return np.round(goal.target + unpack_sym(range_projector(goal.weight)) @ miss, 5)
    if type(goal) is Direction:
        return frames.rotation_matrix(goal.body) @ goal.axis
    if type(goal) is Aim:
        eye = point_at(goal.body, goal.point, frames)
        return eye + np.linalg.norm(goal.target - eye) * frames.rotation_matrix(goal.body) @ goal.axis
    if type(goal) in (Plane, HalfSpace, Line):
        miss, along = point_at(goal.body, goal.at, frames) - goal.target, goal.direction
        part = (miss @ along) * along
        return goal.target + (miss - part if isinstance(goal, Line) else part)
    if type(goal) is Distance:
        ends = point_at(goal.body, goal.point, frames), point_at(goal.other, goal.second, frames)
        return float(np.linalg.norm(ends[0] - ends[1]))
    if type(goal) is Relative:
        place = frames.convert(point_at(goal.body, goal.point, frames), to=goal.other)
        if not goal.turned:
            return place
        out = np.eye(4)
        out[:3, 3] = place
        out[:3, :3] = frames.rotation_matrix(goal.other).T @ frames.rotation_matrix(goal.body)
        return out
    return None


def point_at(body: str, point: np.ndarray | None, frames: Frames) -> np.ndarray:
    """Return the position (3,) [m] of a point of a body."""
    at = frames.position(body)
    return at if point is None else at + frames.rotation_matrix(body) @ point


def changed_priority(goal: Goal, priority: int) -> Goal:
    """Return the same goal with another priority."""
    out = goal.changed()
    out.priority = priority
    return out


def remedies_for(result: Any, again: Callable[..., Any] | None, deadline: float | None = None) -> list[Remedy]:
    """Return the remedies for a result that are found until a deadline, empty if its goals are reached."""
    if result.shape:
        raise SolverError("remedy", expected="a result of one pose", got=f"a batch of shape {result.shape}")
    if result.ok or again is None:
        return []
    remedies = Remedies(result, again, deadline)
    return remedies_of_choices(remedies) if result.problem.choices else remedies.all()


def remedies_of_choices(remedies: Remedies) -> list[Remedy]:
    """Return the smallest remedy of each kind over the members of AnyOf goals, each solved as the goal."""
    result, best = remedies.result, {}
    for members in islice(product(*(goal.members for goal, _ in result.problem.choices)), MOST_CHOICES):
        taken = {id(goal): member for (goal, _), member in zip(result.problem.choices, members, strict=True)}
        if remedies.late:
            break
        goals = [taken.get(id(goal), goal) for goal in remedies.goals]
        answer = remedies.solve(remedies.skeleton, goals, remedies.own_start)
        if answer.ok:  # this member alone was solved better than the choice
            text = f"No change needed: {answer.problem.labels[0]} alone is reached. Solve for remedy.goals."
            return [Remedy(text, goals=goals, verified=True, skeleton=remedies.skeleton, pose=answer.pose)]
        for remedy in remedies_for(answer, remedies._again, remedies.deadline):
            kind = (bool(remedy.limits), bool(remedy.targets), len(remedy.goals))  # the kind of remedy
            if kind not in best or remedy.size < best[kind].size:
                best[kind] = remedy
    return list(best.values())
