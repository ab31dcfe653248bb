"""The solver "limb": hands and feet land exactly, their limbs solved in closed form once their base is placed.

Goals on the last body of a limb (a place, with or without an orientation) belong to that limb. Whatever else is wanted,
and whatever moves above a limb, another solver places first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posable.engine.assemble import energy_at, springs_of
from posable.engine.bounds import CONVERGED, TRACE_WIDTH
from posable.engine.forward import workspace
from posable.engine.jit import entry
from posable.engine.layout import ALONG, AT, AXES, MEASURE, ON, OTHER, PARENT, POINT, ROBUST, SPRING
from posable.engine.springs import ORIENTATION_SPRING, POINT_SPRING
from posable.errors import SkeletonError, SolverError
from posable.limb.base import LimbCore
from posable.limb.solution import LimbSolution
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SOLVERS, Outcome, Request, Solver, named_trace, register

# --- What the goals of a problem say of many poses ---


@entry
def judge_batch(figure, kind, constants, targets, pull, home, poses, work, d, errors):
    """Write the errors (t, g) of every spring at poses (t, n); constants and targets (t or 1, g, ...)."""
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t % max(constants.shape[0], targets.shape[0]), pull, home)
        energy_at(figure, springs, poses[t], ws)
        for k in range(g):
            errors[t, k] = ws.error[k]


def errors_batch(problem: Problem, poses: np.ndarray) -> np.ndarray:
    """Return the errors (t, g) [m, rad] of every spring at poses (t, n)."""
    errors = np.empty((poses.shape[0], len(problem.springs)))
    judge_batch(
        problem.figure, problem.kind, problem.constants, problem.targets, problem.pull, problem.home,
        np.ascontiguousarray(poses), np.empty(problem.work_size), problem.depth, errors,
    )  # fmt: skip
    return errors


# --- The solver "limb" ---

WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
Task = tuple[LimbCore, int, int | None]  # a limb, the spring of its place, and that of its orientation


def limb_or_reason(skeleton: Skeleton, body: int) -> LimbCore | str:
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
        return LimbCore(skeleton, first, middle, last)
    except SkeletonError as error:
        return "; ".join(error.findings)


def limb_of_body(skeleton: Skeleton, body: int) -> LimbCore | None:
    """Return the limb whose last joint moves a body of the figure, or None."""
    found = limb_or_reason(skeleton, body)
    return None if isinstance(found, str) else found


def limbs_of(skeleton: Skeleton) -> list[LimbCore]:
    """Return every limb of a figure."""
    found = (limb_of_body(skeleton, body) for body in range(skeleton.figure.body.shape[0]))
    return [limb for limb in found if limb is not None]


def tasks_of(problem: Problem) -> list[Task]:
    """Return the task of each limb whose last body goals hold by a place, or a place and an orientation, alone."""
    return [found for found in tasks_or_reasons(problem) if not isinstance(found, str)]


def tasks_or_reasons(problem: Problem) -> list[Task | str]:
    """Return, for each body that goals hold, its limb's task or why it has none; a limb before those it carries."""
    kind, found = problem.kind, []
    on = problem.constants[0, :, ROBUST] >= 0.0  # goals may be switched off
    for body in sorted({int(body) for body in kind[on, ON] if body >= 0}):
        springs = np.flatnonzero((kind[:, ON] == body) & on)
        label = problem.labels[problem.owners[springs[0]]]
        points = [k for k in springs if kind[k, SPRING] == POINT_SPRING and kind[k, OTHER] < 0]
        turns = [k for k in springs if kind[k, SPRING] == ORIENTATION_SPRING and kind[k, OTHER] < 0]
        whole = [k for k in points if np.array_equal(problem.constants[0, k, MEASURE : MEASURE + 6], WHOLE)]
        if len(whole) != 1 or len(turns) > 1 or len(springs) != 1 + len(turns):
            found.append(f"{label!r} asks for something else than one place, with or without an orientation")
            continue
        limb = limb_or_reason(problem.skeleton, body)
        if isinstance(limb, str):
            found.append(f"{label!r} is on no limb: {limb}")
            continue
        turn = int(turns[0]) if turns else None
        axes = problem.constants[0, turn, AXES : AXES + 9].reshape(3, 3) if turn is not None else np.eye(3)
        found.append((limb.with_tool(problem.constants[0, whole[0], POINT : POINT + 3], axes), int(whole[0]), turn))
    return found


def target_of(problem: Problem, point: int, turn: int | None, count: int) -> np.ndarray:
    """Return the targets of a limb's springs: places (t, 3) or frames (t, 4, 4) in the world."""
    targets = np.broadcast_to(problem.targets, (count, *problem.targets.shape[1:]))
    places = targets[:, point, AT : AT + 3]
    if turn is None:
        return places
    frames = np.zeros((count, 4, 4))
    frames[:, :3, :3] = targets[:, turn, ALONG : ALONG + 9].reshape(-1, 3, 3)
    frames[:, :3, 3], frames[:, 3, 3] = places, 1.0
    return frames


def land(
    limb: LimbCore,
    problem: Problem,
    point: int,
    turn: int | None,
    poses: np.ndarray,
    limits: bool,
    swivel: float | bool,
) -> LimbSolution:
    """Solve one limb in closed form at poses (t, n), near a swivel angle; True: the one that they have, False: any."""
    target = target_of(problem, point, turn, poses.shape[0])
    wish: Any = None if swivel is False else swivel
    if swivel is True:
        wish = limb.swivel(poses, about=None if turn is not None else limb.site)
    return limb.reach_for(target, swivel=wish, elbow=None, limits=limits, base=poses)


def explain_limbs(problem: Problem, pose: np.ndarray) -> list[str]:
    """Return a line for each limb that a goal holds, and one for each of its swivel ranges with its end limits."""
    lines = []
    for limb, point, turn in tasks_of(problem):
        target = target_of(problem, point, turn, 1)[0]
        name = f"limb {limb.first}, {limb.middle}, {limb.last}"
        ranges = limb.swivel_ranges(target, base=pose)
        about = None if turn is not None else limb.site
        count = f"{len(ranges) or 'no'} {'range' if len(ranges) == 1 else 'ranges'}"
        lines.append(f"{name}: swivel {limb.swivel(pose, about=about):.4f} rad, {count} inside the limits")
        lines += [f"  {swivel_range}" for swivel_range in ranges]
    return lines


@register("limb")
@dataclass(frozen=True)
class LimbSolver(Solver):
    """Limbs in closed form; `base` is the solver, by name or as an object, that places everything else.

    swivel [rad]: the swivel angle wanted of every limb. Without it, a limb alone takes the middle of its widest range,
    and a limb of a body the angle nearest to the one at which the base's solver left it.
    """

    base: str | Solver = "newton"
    swivel: float | None = None

    name: ClassVar[str] = "limb"
    summary: ClassVar[str] = "the limb in closed form, once its base is placed"

    def __post_init__(self):
        if self.swivel is not None and not (isinstance(self.swivel, (int, float)) and math.isfinite(self.swivel)):
            raise SolverError("limb: swivel", expected="a finite angle [rad] or None", got=repr(self.swivel))

    def check(self, problem: Problem) -> None:
        """Raise SolverError where no goal is on a limb, or where the base's solver cannot serve."""
        found = tasks_or_reasons(problem)
        tasks = [task for task in found if not isinstance(task, str)]
        if not tasks:
            raise SolverError(
                "limb", expected="a Position or Pose goal on the last bone of a limb (ball joint, hinge, ball joint)",
                got="; ".join(map(str, found)) or "no goal on a body",
            )  # fmt: skip
        if self._needs_base(problem, tasks):
            self._base().check(problem)

    def _base(self) -> Solver:
        return self.base if isinstance(self.base, Solver) else SOLVERS.get(self.base)()

    def _needs_base(self, problem: Problem, tasks: list[Task]) -> bool:
        """Say whether anything but the limbs is to be solved: other goals, a posture, or joints above a limb."""
        held = {k for _, point, turn in tasks for k in (point, turn) if k is not None}
        if len(held) < int(np.sum(problem.constants[0, :, ROBUST] >= 0.0)) or problem.pull.any():
            return True
        moving = {int(i) for limb, _, _ in tasks for i in limb.dofs_above()}
        return bool(moving - set(np.flatnonzero(problem.skeleton.frozen).tolist()))

    def run(self, problem: Problem, request: Request) -> Outcome:
        """Place the base, then every limb; a limb's answer is taken where it brings its own goals nearer.

        It is not taken where another goal, on the elbow say, would be lost by it.
        """
        tasks = tasks_of(problem)
        count = request.starts.shape[0]
        near = not tasks or self._needs_base(problem, tasks)
        if near:
            outcome = self._base().run(problem, request)
        else:
            zeros = np.zeros(count)
            codes = np.full(count, CONVERGED, dtype=np.int64)
            errors = errors_batch(problem, request.starts)
            outcome = Outcome(request.starts.copy(), codes, errors, zeros, zeros.copy())
            if request.record:  # a closed form has no iterations: traces without rows
                nothing = np.zeros((0, TRACE_WIDTH))
                outcome.traces = [named_trace(nothing, np.zeros(0)) for _ in range(count)]
        scale = np.maximum(problem.tolerances, 1e-12)
        for limb, point, turn in tasks:
            box = (request.lower[limb.columns], request.upper[limb.columns])
            limits = bool(np.isfinite(box).any())
            wish = near if self.swivel is None else self.swivel
            solution = land(limb, problem, point, turn, outcome.poses, limits, wish)
            errors = errors_batch(problem, solution.pose)
            mine = [k for k in (point, turn) if k is not None]
            before, after = outcome.errors / scale, errors / scale
            lost = np.delete(after > np.maximum(before, 1.0) + 1e-9, mine, axis=1).any(axis=1)
            better = (after[:, mine].max(axis=1) <= before[:, mine].max(axis=1)) | solution.ok | (not near)
            better &= ~lost | (not near)
            outcome.poses[better] = solution.pose[better]
            outcome.errors[better] = errors[better]
        return outcome


@dataclass(frozen=True)
class LandingNewton(LimbSolver):
    """`newton` with its option limbs: the figure by Newton, then its limbs in closed form where goals hold them."""

    name: ClassVar[str] = "newton"

    def check(self, problem: Problem) -> None:
        """Raise SolverError where Newton cannot serve; a figure without limbs is solved as ever."""
        self._base().check(problem)

    def _needs_base(self, problem: Problem, tasks: list[Task]) -> bool:
        return True
