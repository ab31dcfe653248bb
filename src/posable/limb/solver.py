"""The solver "limb": limbs are solved in closed form once another solver has placed their base.

Goals on the last body of a limb belong to that limb: a position, with or without an orientation or the direction of one
axis, or an aim. So does a position on the second of two parallel hinges. All other goals, and all joints above the
limbs, are solved first by the solver `base`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from posable.engine.bounds import CONVERGED, TRACE_WIDTH
from posable.engine.joints import TURN
from posable.engine.layout import (
    AT,
    AXES,
    AXIS,
    BODY_A,
    BODY_B,
    FIRST,
    FRAME,
    KIND,
    LAST,
    MEASURE,
    PARENT,
    POINT,
    ROBUST,
    SPRING_KIND,
)  # fmt: skip
from posable.engine.springs import AIM_SPRING, DIRECTION_SPRING, ORIENTATION_SPRING, POINT_SPRING
from posable.errors import SkeletonError, SolverError
from posable.limb.limb import Limb
from posable.limb.redundancy import MIDDLE
from posable.limb.solution import LimbSolution
from posable.limb.two_link import TwoLink
from posable.model.kinematics import place_bodies
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SOLVERS, RawResult, SolveOptions, Solver, named_trace, refuse_strength, register
from posable.solvers.result import evaluate

WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
GOALS_HELP = (
    "a Position, Pose, Position and Direction, or Aim goal on the last bone of a limb (ball joint, hinge, ball joint), "
    "or a Position on the second of two parallel hinges"
)


class LimbTask(NamedTuple):
    """The goals of one limb: springs by their rows, -1 for none."""

    limb: Limb | TwoLink
    point: int  # of a position
    turn: int = -1  # of a full orientation
    along: int = -1  # of a direction of one axis
    aim: int = -1  # of a line that must meet a point

    @property
    def springs(self) -> list[int]:
        """The rows of its springs."""
        return [row for row in self[1:] if row >= 0]


def limb_or_reason(skeleton: Skeleton, body: int) -> Limb | str:
    """Return the limb whose last joint moves a body of the figure, or why there is none."""
    owner: dict[int, str] = {}
    for name, at, part in zip(skeleton.names, skeleton.frame_bodies, skeleton.slices, strict=False):
        if part.stop > part.start:
            owner[int(at)] = name
    parents = skeleton.figure.body[:, PARENT]
    chain = [body]
    while len(chain) < 3 and chain[-1] >= 0:
        chain.append(int(parents[chain[-1]]))
    names = [owner.get(at) for at in chain]
    last, middle, first = [*names, None, None][:3]
    if last is None or middle is None or first is None:
        moving = [repr(name) for name in reversed(names) if name is not None]
        return f"only {' and '.join(moving) or 'nothing'} moves it"
    try:
        return Limb(skeleton, first, middle, last)
    except SkeletonError as error:
        return "; ".join(error.findings)


def limb_of_body(skeleton: Skeleton, body: int) -> Limb | None:
    """Return the limb whose last joint moves a body of the figure, or None."""
    found = limb_or_reason(skeleton, body)
    return None if isinstance(found, str) else found


def two_link_or_reason(skeleton: Skeleton, body: int, point: np.ndarray) -> TwoLink | str:
    """Return the two hinges that move a point (3,) [m] of a body in a plane, or why there are none."""
    figure = skeleton.figure
    chain = [int(figure.body[body, PARENT]), body]
    joints = [_hinge(skeleton, at) for at in chain]
    if None in joints:
        return "two hinges in a row do not move it"
    zero = np.zeros((1, skeleton.size))
    turns = place_bodies(skeleton, zero)[1][0]
    axes = [turns[at][:, figure.dof[figure.body[at, FIRST], AXIS]] for at in chain]
    if not np.linalg.norm(np.cross(*axes)) < 1e-9:
        return "the axes of its two hinges are not parallel"
    return TwoLink(skeleton, str(joints[0]), str(joints[1]), point)


def _hinge(skeleton: Skeleton, body: int) -> str | None:
    """Return the name of the joint that moves a body, if it is one hinge."""
    figure = skeleton.figure
    if body < 0 or figure.body[body, LAST] - figure.body[body, FIRST] != 1:
        return None
    dof = int(figure.body[body, FIRST])
    if figure.dof[dof, KIND] != TURN:
        return None
    owners = [name for name, part in zip(skeleton.names, skeleton.slices, strict=True) if part == slice(dof, dof + 1)]
    return owners[0] if owners else None


def tasks_of(problem: Problem) -> list[LimbTask]:
    """Return the task of each limb whose last body has only goals that the closed form can meet."""
    return [found for found in tasks_or_reasons(problem) if not isinstance(found, str)]


def tasks_or_reasons(problem: Problem) -> list[LimbTask | str]:
    """Return for each body with goals the task of its limb, or why it has none; parents before children."""
    kind, found = problem.kind, []
    on = problem.constants[0, :, ROBUST] >= 0.0  # goals may be switched off
    for body in sorted({int(body) for body in kind[on, BODY_A] if body >= 0}):
        springs = np.flatnonzero((kind[:, BODY_A] == body) & on)
        found.append(_task_or_reason(problem, body, springs))
    return found


def _task_or_reason(problem: Problem, body: int, springs: np.ndarray) -> LimbTask | str:
    """Return the task of one body with springs (k,), or why it has none."""
    kind, constants = problem.kind, problem.constants[0]
    label = problem.labels[problem.owners[springs[0]]]
    rows = {
        spring: [int(k) for k in springs if kind[k, SPRING_KIND] == spring and kind[k, BODY_B] < 0] for spring in HELD
    }
    points = [k for k in rows[POINT_SPRING] if np.array_equal(constants[k, MEASURE : MEASURE + 6], WHOLE)]
    turns, alongs, aims = rows[ORIENTATION_SPRING], rows[DIRECTION_SPRING], rows[AIM_SPRING]
    counts = (len(points), len(turns), len(alongs), len(aims))
    if counts not in SHAPES or len(springs) != sum(counts):
        asked = "a position, with or without an orientation or a direction, or an aim"
        return f"goals on {label!r} other than {asked}"
    at = points[0] if points else aims[0]
    place = constants[at, POINT : POINT + 3]
    limb = limb_or_reason(problem.skeleton, body)
    if isinstance(limb, str):
        pair = two_link_or_reason(problem.skeleton, body, place) if counts == (1, 0, 0, 0) else "it needs more"
        if isinstance(pair, TwoLink):
            return LimbTask(pair, points[0])
        return f"a goal on {label!r}, which is on no limb: {limb}"
    axes = constants[turns[0], AXES : AXES + 9].reshape(3, 3) if turns else np.eye(3)
    first = [group[0] if group else -1 for group in (points, turns, alongs, aims)]
    return LimbTask(limb.with_tool(place, axes), *first)


HELD = (POINT_SPRING, ORIENTATION_SPRING, DIRECTION_SPRING, AIM_SPRING)
SHAPES = ((1, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (0, 0, 0, 1))  # places, orientations, directions, aims


def solution_of(task: LimbTask, problem: Problem, targets: np.ndarray, **options: Any) -> LimbSolution:
    """Solve the goal of a limb for the springs' targets (g, TARGETS), or many of them (t, g, TARGETS)."""
    limb = task.limb
    assert isinstance(limb, Limb)
    if task.aim >= 0:
        axis = problem.constants[0, task.aim, AXES : AXES + 3]
        return limb.aim(targets[..., task.aim, AT : AT + 3], axis, **options)
    if task.along >= 0:
        axis, along = problem.constants[0, task.along, AXES : AXES + 3], targets[..., task.along, FRAME : FRAME + 3]
        return limb.solve_partial(targets[..., task.point, AT : AT + 3], axis, along, **options)
    return limb.solve(target_of(task, targets), **options)


def target_of(task: LimbTask, targets: np.ndarray) -> np.ndarray:
    """Return the position (..., 3) or the frame (..., 4, 4) in the world of the springs' targets (..., g, TARGETS)."""
    places = targets[..., task.point, AT : AT + 3]
    if task.turn < 0:
        return places
    frames = np.zeros((*targets.shape[:-2], 4, 4))
    frames[..., :3, :3] = targets[..., task.turn, FRAME : FRAME + 9].reshape(*targets.shape[:-2], 3, 3)
    frames[..., :3, 3], frames[..., 3, 3] = places, 1.0
    return frames


def solve_limb(
    task: LimbTask, problem: Problem, poses: np.ndarray, limits: bool, swivel: float | bool, objective: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Solve one limb in closed form at poses (t, n), near a swivel angle; return the poses and whether they reach (t,).

    swivel: True for that of the poses, False for any. objective: minimised over the free angles instead.
    """
    limb, count = task.limb, poses.shape[0]
    targets = np.broadcast_to(problem.targets, (count, *problem.targets.shape[1:]))
    if isinstance(limb, TwoLink):
        return limb.solve(targets[:, task.point, AT : AT + 3], poses, limits=limits)
    if objective is not None:
        found = [
            solution_of(task, problem, targets[k], objective=objective, limits=limits, base=pose)
            for k, pose in enumerate(poses)
        ]
        return np.array([one.pose for one in found]), np.array([one.ok for one in found])
    wish: Any = None if isinstance(swivel, bool) else swivel
    if swivel is True and task.aim < 0 and task.along < 0:
        wish = limb.swivel(poses, about=None if task.turn >= 0 else limb.site)
    solved = solution_of(task, problem, targets, swivel=wish, limits=limits, base=poses)
    return solved.pose, np.asarray(solved.ok)


def explain_limbs(problem: Problem, pose: np.ndarray) -> list[str]:
    """Return a line for each limb with a goal, and one for each of its swivel ranges with the limits at its ends."""
    lines = []
    for task in tasks_of(problem):
        limb = task.limb
        if isinstance(limb, TwoLink):
            lines.append(f"two links {limb.first}, {limb.last}: solved in closed form, by either bend")
            continue
        name = f"limb {limb.first}, {limb.middle}, {limb.last}"
        about = None if task.turn >= 0 else limb.site
        angle = f"{name}: swivel {limb.swivel(pose, about=about):.4f} rad"
        if task.along >= 0 or task.aim >= 0:
            lines.append(f"{angle}; the {'spin' if task.along >= 0 else 'bend'} is free as well")
            continue
        ranges = limb.swivel_ranges(target_of(task, problem.targets[0]), base=pose)
        count = f"{len(ranges) or 'no'} {'range' if len(ranges) == 1 else 'ranges'}"
        lines.append(f"{angle}, {count} inside the limits")
        lines += [f"  {swivel_range}" for swivel_range in ranges]
    return lines


@register("limb")
@dataclass(frozen=True)
class LimbSolver(Solver):
    """Limbs in closed form; everything else by the solver `base`.

    base: a solver, by name or as an object. swivel [rad]: the preferred swivel angle of every limb; by default the
    middle of the widest range for a limb alone, and the angle nearest to that of the base's solution for a limb of a
    body. objective: minimised over the free angles of every limb instead: a function of the pose (n,), or "middle"
    (Tolani et al. 2000, 3.3).
    """

    base: str | Solver = "newton"
    swivel: float | None = None
    objective: str | Callable[..., Any] | None = None

    name: ClassVar[str] = "limb"
    summary: ClassVar[str] = "the limb in closed form, once its base is placed"

    def __post_init__(self):
        if self.swivel is not None and not (isinstance(self.swivel, (int, float)) and math.isfinite(self.swivel)):
            raise SolverError("limb: swivel", expected="a finite angle [rad] or None", got=repr(self.swivel))
        if self.objective is not None and self.objective != MIDDLE and not callable(self.objective):
            raise SolverError(
                "limb: objective", expected=f"a function of the pose, {MIDDLE!r} or None", got=repr(self.objective)
            )
        if self.objective is not None and self.swivel is not None:
            raise SolverError("limb", expected="a swivel or an objective", got="both")

    def check(self, problem: Problem) -> None:
        """Raise SolverError if no goal is on a limb, or if the base's solver cannot solve the problem."""
        found = tasks_or_reasons(problem)
        tasks = [task for task in found if not isinstance(task, str)]
        if not tasks:
            raise SolverError(
                "limb", expected=GOALS_HELP, got="; ".join(map(str, found)) or "no goal on a body"
            )  # fmt: skip
        refuse_strength(problem, "limb")
        if self._needs_base(problem, tasks):
            self._base().check(problem)

    def _base(self) -> Solver:
        return self.base if isinstance(self.base, Solver) else SOLVERS.get(self.base)()

    def _needs_base(self, problem: Problem, tasks: list[LimbTask]) -> bool:
        """Return whether anything but the limbs has to be solved: other goals, a posture, or joints above a limb."""
        held = {k for task in tasks for k in task.springs}
        if len(held) < int(np.sum(problem.constants[0, :, ROBUST] >= 0.0)) or problem.pull.any():
            return True
        moving = {int(i) for task in tasks for i in task.limb.dofs_above()}
        return bool(moving - set(np.flatnonzero(problem.skeleton.frozen).tolist()))

    def run(self, problem: Problem, options: SolveOptions) -> RawResult:
        """Solve the base, then every limb.

        The closed form of a limb is used where it improves the limb's own goals without losing another one, such as a
        goal on the elbow.
        """
        tasks = tasks_of(problem)
        count = options.starts.shape[0]
        near = not tasks or self._needs_base(problem, tasks)
        if near:
            outcome = self._base().run(problem, options)
        else:
            zeros = np.zeros(count)
            codes = np.full(count, CONVERGED, dtype=np.int64)
            errors = evaluate(problem, options.starts, options)[1]
            outcome = RawResult(options.starts.copy(), codes, errors, zeros, zeros.copy())
            if options.record:  # a closed form has no iterations: traces without rows
                nothing = np.zeros((0, TRACE_WIDTH))
                outcome.traces = [named_trace(nothing, np.zeros(0)) for _ in range(count)]
        scale = np.maximum(problem.tolerances, 1e-12)
        for task in tasks:
            columns = task.limb.columns
            limits = bool(np.isfinite((options.lower[columns], options.upper[columns])).any())
            wish = near if self.swivel is None else self.swivel
            poses, reached = solve_limb(task, problem, outcome.poses, limits, wish, self.objective)
            errors = evaluate(problem, poses, options)[1]
            mine = task.springs
            before, after = outcome.errors / scale, errors / scale
            lost = np.delete(after > np.maximum(before, 1.0) + 1e-9, mine, axis=1).any(axis=1)
            better = (after[:, mine].max(axis=1) <= before[:, mine].max(axis=1)) | reached | (not near)
            better &= ~lost | (not near)
            outcome.good = None
            outcome.poses[better] = poses[better]
            outcome.errors[better] = errors[better]
        return outcome


@dataclass(frozen=True)
class NewtonWithLimbs(LimbSolver):
    """`newton` with its option limbs: the figure by Newton's method, then limbs with goals in closed form."""

    name: ClassVar[str] = "newton"

    def check(self, problem: Problem) -> None:
        """Raise SolverError if Newton cannot solve the problem; a figure without limbs is solved by it alone."""
        self._base().check(problem)

    def _needs_base(self, problem: Problem, tasks: list[LimbTask]) -> bool:
        return True
