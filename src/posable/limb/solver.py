"""The solver "limb": hands and feet land exactly, their limbs solved in closed form once their base is placed.

Goals on the last body of a limb (a place, with or without an orientation) belong to that limb. Whatever else is wanted,
and whatever moves above a limb, another solver places first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from posable.errors import SkeletonError, SolverError
from posable.kernels.fields import ALONG, AT, AXES, MEASURE, ON, OTHER, PARENT, POINT, SPRING
from posable.kernels.springs import ORIENTATION_SPRING, POINT_SPRING
from posable.kernels.stepping import CONVERGED, TRACE_WIDTH
from posable.problem import Problem
from posable.skeleton import Skeleton
from posable.solvers.solver import SOLVERS, Outcome, Request, Solver, named_trace, register

from .core import LimbCore
from .solution import LimbSolution

WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


def limb_of_body(skeleton: Skeleton, body: int) -> LimbCore | None:
    """Return the limb whose last joint moves a body of the figure, or None."""
    parents = skeleton.figure.body[:, PARENT]
    middle = int(parents[body])
    first = int(parents[middle]) if middle >= 0 else -1
    if first < 0:
        return None
    owner: dict[int, str] = {}
    for name, at, part in zip(skeleton.names, skeleton.frame_bodies, skeleton.slices, strict=False):
        if part.stop > part.start:
            owner[int(at)] = name
    try:
        return LimbCore(skeleton, owner[first], owner[middle], owner[body])
    except (SkeletonError, KeyError):
        return None


def limbs_of(skeleton: Skeleton) -> list[LimbCore]:
    """Return every limb of a figure."""
    found = (limb_of_body(skeleton, body) for body in range(skeleton.figure.body.shape[0]))
    return [limb for limb in found if limb is not None]


def tasks_of(problem: Problem) -> list[tuple[LimbCore, int, int | None]]:
    """Return (limb, point spring, orientation spring or None) for each limb whose last body alone is held by goals."""
    kind, tasks = problem.kind, []
    for body in dict.fromkeys(kind[:, ON].tolist()):
        springs = np.flatnonzero(kind[:, ON] == body)
        points = [k for k in springs if kind[k, SPRING] == POINT_SPRING and kind[k, OTHER] < 0]
        turns = [k for k in springs if kind[k, SPRING] == ORIENTATION_SPRING and kind[k, OTHER] < 0]
        whole = [k for k in points if np.array_equal(problem.data[0, k, MEASURE : MEASURE + 6], WHOLE)]
        if len(whole) != 1 or len(turns) > 1 or len(springs) != 1 + len(turns):
            continue
        limb = limb_of_body(problem.skeleton, int(body))
        if limb is None:
            continue
        turn = int(turns[0]) if turns else None
        axes = problem.data[0, turn, AXES : AXES + 9].reshape(3, 3) if turn is not None else np.eye(3)
        tasks.append((limb.with_tool(problem.data[0, whole[0], POINT : POINT + 3], axes), int(whole[0]), turn))
    return tasks


def target_of(problem: Problem, point: int, turn: int | None, count: int) -> np.ndarray:
    """Return the targets of a limb's springs: places (t, 3) or frames (t, 4, 4) in the world."""
    data = np.broadcast_to(problem.data, (count, *problem.data.shape[1:]))
    places = data[:, point, AT : AT + 3]
    if turn is None:
        return places
    frames = np.zeros((count, 4, 4))
    frames[:, :3, :3] = data[:, turn, ALONG : ALONG + 9].reshape(-1, 3, 3)
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
        lines.append(
            f"{name}: swivel {limb.swivel(pose, about=about):.4f} rad, {len(ranges) or 'no'} range(s) in the limits"
        )
        lines += [f"  {swivel_range}" for swivel_range in ranges]
    return lines


@register("limb")
@dataclass(frozen=True)
class LimbSolver(Solver):
    """Limbs in closed form; `base` names the solver that places everything else.

    swivel [rad]: the swivel angle wanted of every limb. Without it, a limb alone takes the middle of its widest range,
    and a limb of a body the angle nearest to the one at which the base's solver left it.
    """

    base: str = "newton"
    swivel: float | None = None

    name: ClassVar[str] = "limb"
    summary: ClassVar[str] = "the limb in closed form, once its base is placed"

    def check(self, problem: Problem) -> None:
        """Raise SolverError where no goal is on a limb, or where the base's solver cannot serve."""
        if not tasks_of(problem):
            raise SolverError(
                "limb", expected="a Position or Pose goal on the last bone of a limb (ball joint, hinge, ball joint)",
                got=f"goals on {', '.join(map(repr, dict.fromkeys(problem.labels))) or 'nothing'}",
            )  # fmt: skip
        if self._needs_base(problem, tasks_of(problem)):
            SOLVERS.get(self.base)().check(problem)

    def _needs_base(self, problem: Problem, tasks: list[tuple[LimbCore, int, int | None]]) -> bool:
        """Say whether anything but the limbs is to be solved: other goals, a posture, or joints above a limb."""
        held = {k for _, point, turn in tasks for k in (point, turn) if k is not None}
        if len(held) < len(problem.springs) or problem.pull.any():
            return True
        moving = {int(i) for limb, _, _ in tasks for i in limb.dofs_above()}
        return bool(moving - set(np.flatnonzero(problem.skeleton.frozen).tolist()))

    def run(self, problem: Problem, request: Request) -> Outcome:
        """Place the base, then every limb; a limb's answer is taken where it brings its own goals nearer."""
        tasks = tasks_of(problem)
        limits = bool(np.any(np.isfinite(request.lower)) or np.any(np.isfinite(request.upper)))
        count = request.starts.shape[0]
        if self._needs_base(problem, tasks):
            outcome, near = SOLVERS.get(self.base)().run(problem, request), True
        else:
            zeros = np.zeros(count)
            codes = np.full(count, CONVERGED, dtype=np.int64)
            errors = np.empty((count, len(problem.springs)))
            outcome, near = Outcome(request.starts.copy(), codes, errors, zeros, zeros.copy()), False
            if request.record:  # a closed form has no iterations: traces without rows
                nothing = np.zeros((0, TRACE_WIDTH))
                outcome.traces = [named_trace(nothing, np.zeros(0)) for _ in range(count)]
            self._judge(problem, outcome)
        for limb, point, turn in tasks:
            solution = land(
                limb, problem, point, turn, outcome.poses, limits, near if self.swivel is None else self.swivel
            )
            trial = Outcome(
                solution.pose, outcome.codes, outcome.errors.copy(), outcome.iterations, outcome.evaluations
            )
            self._judge(problem, trial)
            mine = [k for k in (point, turn) if k is not None]
            before = np.max(outcome.errors[:, mine] / problem.tolerances[mine], axis=1)
            after = np.max(trial.errors[:, mine] / problem.tolerances[mine], axis=1)
            better = (after <= before) | solution.ok | (not near)
            outcome.poses[better] = solution.pose[better]
            outcome.errors[better] = trial.errors[better]
        return outcome

    @staticmethod
    def _judge(problem: Problem, outcome: Outcome) -> None:
        for row, pose in enumerate(outcome.poses):
            member = row if problem.data.shape[0] > 1 else 0
            outcome.errors[row] = problem.evaluate(pose, exact=False, member=member)[3]
