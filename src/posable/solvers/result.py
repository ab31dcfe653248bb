"""The answer: a pose, whether it does what was asked, and what stands in the way where it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posable.engine.batches import LIMIT_TOLERANCE, judge_batch
from posable.engine.bounds import EXHAUSTED
from posable.engine.joints import SLIDE
from posable.engine.layout import AT, FIRST, KIND, LAST, MEASURE, ON, OTHER, PARENT, POINT, ROBUST, SPRING
from posable.engine.parallel import in_pieces
from posable.engine.springs import POINT_SPRING
from posable.problem import Problem
from posable.solvers.base import OUT_OF_TIME, SMALL, RawResult, SolveOptions

# --- Proof that a point is out of reach ---

WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


def reach_bound(
    problem: Problem, spring: int, lower: np.ndarray, upper: np.ndarray, member: int
) -> tuple[np.ndarray, float]:
    """Return a centre (3,) [m] and a radius [m]: the spring's point can be nowhere outside that ball."""
    figure = problem.skeleton.figure
    body = int(problem.kind[spring, ON])
    local = problem.packed(member).constants[spring, POINT : POINT + 3]
    radius = float(np.linalg.norm(local))
    centre = np.zeros(3)
    while body >= 0:
        parent = int(figure.body[body, PARENT])
        dofs = range(int(figure.body[body, FIRST]), int(figure.body[body, LAST]))
        slides = [max(abs(float(lower[i])), abs(float(upper[i]))) for i in dofs if figure.dof[i, KIND] == SLIDE]
        radius += math.hypot(*slides)  # infinite where limits are too large to be squared
        if parent < 0:
            centre = figure.rest[body, :3]
        else:
            radius += float(np.linalg.norm(figure.rest[body, :3]))
        body = parent
    return centre, radius


def proof_of_distance(problem: Problem, options: SolveOptions, member: int) -> str | None:
    """Return a sentence that proves a goal out of reach, or None where there is no such proof.

    Of an AnyOf every member must be out of reach: the one that was taken proves nothing about the others.
    """
    packed = problem.packed(member)
    on = packed.constants[:, ROBUST] >= 0.0
    chosen: set[int] = set()
    for _, parts in problem.choices:
        every = [range(part.start, part.stop) for part in parts]
        chosen.update(*every)
        if not any(on[k] for part in every for k in part):
            continue  # the whole goal is switched off
        proofs = [next(filter(None, (too_far(problem, options, member, k) for k in part)), None) for part in every]
        if all(proofs):
            return "; ".join(dict.fromkeys(proof for proof in proofs if proof))
    for k in range(len(problem.springs)):
        if k not in chosen and on[k]:
            proof = too_far(problem, options, member, k)
            if proof is not None:
                return proof
    return None


def too_far(problem: Problem, options: SolveOptions, member: int, k: int) -> str | None:
    """Return a sentence that proves the target of spring k out of reach, or None where there is no such proof."""
    if problem.kind[k, SPRING] != POINT_SPRING or not np.isfinite(problem.tolerances[k]):
        return None
    if problem.kind[k, ON] < 0:
        return None  # on the center of mass
    packed = problem.packed(member)
    if problem.kind[k, OTHER] >= 0 or not np.array_equal(packed.constants[k, MEASURE : MEASURE + 6], WHOLE):
        return None  # a target that moves, or one of which only a part counts
    centre, radius = reach_bound(problem, k, options.lower, options.upper, member)
    distance = float(np.linalg.norm(packed.targets[k, AT : AT + 3] - centre))
    if not distance > radius * (1.0 + 1e-9) + problem.tolerances[k]:
        return None
    return (
        f"{problem.error_names[k]}: the target is {distance:.4g} m from where the chain begins, "
        f"the chain is {radius:.4g} m long"
    )


# --- Which limits stand in the way of which goals ---

AT_BOUND = 1e-7  # [rad, m]
STEP = 1e-5  # of a limit relaxed to see what it costs [rad, m]
TURN_MORE, SLIDE_MORE = np.radians(5.0), 0.01  # [rad], [m]: what a sentence relaxes a limit by
TELLING = 1e-4  # [m, rad] of change that is worth telling


@dataclass(frozen=True)
class Block:
    """A limit that holds the figure back.

    Attributes:
        dof: Name of the degree of freedom.
        side: "lower" or "upper".
        multiplier: How fast the energy of all goals would fall if the limit moved outward.
        cost: {goal: how fast its error would fall} [m or rad per rad or m]; negative where the goal would lose.
        limit: Where the limit is [rad, m].
        slides: Whether the degree of freedom is a slide [m] and not an angle [rad].
        angles: The goals whose errors are angles [rad].
    """

    dof: str
    side: str
    multiplier: float
    cost: dict[str, float] = field(default_factory=dict)
    limit: float = np.nan
    slides: bool = False
    angles: frozenset[str] = frozenset()

    def __str__(self) -> str:
        more, unit = (SLIDE_MORE, "10 mm") if self.slides else (TURN_MORE, "5°")
        changes = {name: more * value for name, value in self.cost.items() if abs(more * value) > TELLING}
        told = sorted(changes.items(), key=lambda item: -abs(item[1]))[:3]
        closer = [f"{name} {self._amount(name, value)}" for name, value in told if value > 0.0]
        away = [f"{name} {self._amount(name, -value)}" for name, value in told if value < 0.0]
        parts = [f"bring {' and '.join(closer)} closer"] if closer else []
        parts += [f"move {' and '.join(away)} away"] if away else []
        where = "" if np.isnan(self.limit) else f" ({self._place()})"
        text = f"{self.dof} is at its {self.side} limit{where}"
        return f"{text}; {unit} more would {' and '.join(parts)}" if parts else text

    def _place(self) -> str:
        return f"{1e3 * self.limit:.0f} mm" if self.slides else f"{np.degrees(self.limit):.0f}°"

    def _amount(self, goal: str, change: float) -> str:
        return f"{np.degrees(change):.2g}°" if goal in self.angles else f"{1e3 * change:.2g} mm"


def blocking_limits(
    problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int = 0
) -> list[Block]:
    """Return the limits that hold back the goals at a pose (n,), worst first.

    The gradient on an active bound is its multiplier (Karush-Kuhn-Tucker; Engell-Nørregård & Erleben 2011, 3). If the
    bound moves by d, the free dofs answer with -H_ff^-1 H_fi d; the goals' errors are compared along that move.
    """
    _, gradient, hessian, errors = problem.evaluate(pose, member=member)
    at_lower = (pose <= lower + AT_BOUND) & (gradient > 0.0) & (lower < upper)
    at_upper = (pose >= upper - AT_BOUND) & (gradient < 0.0) & (lower < upper)
    active = np.flatnonzero(at_lower | at_upper)
    scale = np.abs(gradient).max(initial=0.0)
    significant = 1e-9 * max(1.0, np.abs(np.diag(hessian)).max(initial=0.0))
    active = active[np.abs(gradient[active]) > max(1e-6 * scale, significant)]
    if active.size == 0:
        return []
    held = at_lower | at_upper | (lower >= upper)
    free = np.flatnonzero(~held)
    blocks = []
    angles = frozenset(name for k, name in enumerate(problem.error_names) if problem.measures_angle(k))
    for i in active:
        sense = -1.0 if at_lower[i] else 1.0
        answer = np.zeros_like(pose)
        answer[i] = sense
        if free.size:
            matrix = hessian[np.ix_(free, free)]
            small = 1e-9 * max(np.trace(np.abs(matrix)) / free.size, 1e-300)
            move = np.linalg.lstsq(matrix + small * np.eye(free.size), -hessian[free, i] * sense, rcond=1e-12)[0]
            answer[free] = move / max(1.0, np.abs(move).max() * STEP / 0.05)
        after = problem.evaluate(pose + STEP * answer, member=member)[3]
        cost = {
            name: float((errors[k] - after[k]) / STEP)
            for k, name in enumerate(problem.error_names)
            if np.isfinite(problem.tolerances[k])
        }
        limit, side = (lower[i], "lower") if at_lower[i] else (upper[i], "upper")
        slides = bool(problem.skeleton.figure.dof[i, KIND] == SLIDE)
        name = problem.skeleton.dof_names[i]
        blocks.append(Block(name, side, float(abs(gradient[i])), cost, float(limit), slides, angles))
    return sorted(blocks, key=lambda block: (-block.multiplier, block.dof))


# --- The answer ---


class Status(StrEnum):
    """What became of a solve."""

    REACHED = "REACHED"
    STUCK = "STUCK"
    OUT_OF_REACH = "OUT_OF_REACH"
    OUT_OF_ITERATIONS = "OUT_OF_ITERATIONS"
    OUT_OF_TIME = "OUT_OF_TIME"


MEANINGS = {
    Status.REACHED: "every goal is within its tolerance and every limit is held",
    Status.STUCK: "no small change of the pose brings the goals closer",
    Status.OUT_OF_REACH: "a goal is farther away than the chain is long",
    Status.OUT_OF_ITERATIONS: "the method ended before the goals were reached",
    Status.OUT_OF_TIME: "the time ran out before the goals were reached",
}


class Result:
    """The answer to one problem, or to a batch of them, whose axes lead in every array.

    `ok` is judged apart from the solver, at the pose: every goal within its tolerance, every limit held, no NaN.
    Everything but the pose is worked out when it is asked for.
    """

    def __init__(
        self,
        problem: Problem,
        outcome: RawResult,
        request: SolveOptions,
        solver: str,
        seconds: float,
        shape: tuple[int, ...] = (),
        chosen: dict[str, Any] | None = None,
    ):
        self.problem, self.outcome, self.request = problem, outcome, request
        self.solver, self.seconds, self.shape = solver, seconds, shape
        self.chosen: dict[str, Any] = chosen or {}  # the member taken, by the label of each AnyOf

    @cached_property
    def pose(self) -> np.ndarray:
        """The pose (..., n) [rad, m]."""
        poses = self.outcome.poses
        return poses.reshape(*self.shape, poses.shape[1])

    @property
    def on_gpu(self) -> Any:
        """Where targets or starts were on a GPU: pose, errors, code and iterations there, to be read without a copy."""
        return getattr(self.outcome, "answers", None)

    @cached_property
    def _good(self) -> np.ndarray:
        """(t,) bool, the independent verdict on each problem."""
        if self.problem.plain and type(self.outcome) is RawResult and len(self.outcome.poses):
            return judge_anew(self.problem, self.outcome.poses, self.request)
        return judge(self.problem, self.outcome, self.request)

    @cached_property
    def ok(self) -> bool | NDArray[np.bool_]:
        """Whether the goals are reached and the limits held: a bool, or an array of them for a batch."""
        return self._good.reshape(self.shape) if self.shape else bool(self._good[0])

    @cached_property
    def status(self) -> Any:
        """A Status, or an array of their names for a batch."""
        every = [self._status(k) for k in range(len(self.outcome.poses))]
        return np.array([str(s) for s in every]).reshape(self.shape) if self.shape else every[0]

    def _status(self, k: int) -> Status:
        if self._good[k]:
            return Status.REACHED
        if proof_of_distance(self.problem, self.request, k) is not None:
            return Status.OUT_OF_REACH
        code = self.outcome.codes[k]
        if code == OUT_OF_TIME:
            return Status.OUT_OF_TIME
        return Status.OUT_OF_ITERATIONS if code == EXHAUSTED else Status.STUCK

    @cached_property
    def errors(self) -> dict[str, Any]:
        """How far each goal is from its target [m, rad], by label; arrays for a batch."""
        values, groups = self.outcome.errors, self.problem.error_groups
        if not self.shape:
            return {name: float(values[0, springs].max()) for name, springs in groups.items()}
        return {name: values[:, springs].max(axis=1).reshape(self.shape) for name, springs in groups.items()}

    @property
    def iterations(self) -> Any:
        """How many iterations it took, restarts included: an int, or an array for a batch."""
        counts = self.outcome.iterations
        return counts.reshape(self.shape).astype(int) if self.shape else int(counts[0])

    @property
    def evaluations(self) -> Any:
        """How many times the energy was evaluated: an int, or an array for a batch."""
        counts = self.outcome.evaluations
        return counts.reshape(self.shape).astype(int) if self.shape else int(counts[0])

    @property
    def trace(self) -> Any:
        """With record=True: energy, gradient, step, damping, active bounds, evaluations, seconds of every iteration.

        A dict of arrays by name, or lists of them for a batch, shaped as it is; None where nothing was recorded. What
        the closed form of a limb did has no iterations, and so no rows.
        """
        if not self.outcome.traces:
            return None
        return nested(self.outcome.traces, self.shape)

    @cached_property
    def blocking(self) -> list[Any]:
        """The limits in the way of the goals, worst first. Empty where all is well.

        For a batch, lists of such lists, shaped as it is: blocking[i][j] for targets (2, 3, ...).
        """
        return nested([self._blocking(k) for k in range(len(self.outcome.poses))], self.shape)

    def _blocking(self, k: int) -> list[Block]:
        if self._good[k]:
            return []
        return blocking_limits(self.problem, self.outcome.poses[k], self.request.lower, self.request.upper, k)

    @cached_property
    def message(self) -> Any:
        """One sentence on what became of it; an array of them for a batch."""
        every = [self._message(k) for k in range(len(self.outcome.poses))]
        return np.array(every, dtype=object).reshape(self.shape) if self.shape else every[0]

    def _message(self, k: int) -> str:
        status = self._status(k)
        if status is Status.REACHED:
            return f"reached: {MEANINGS[status]}"
        errors, tolerances = self.outcome.errors[k], self.problem.tolerances
        names = self.problem.error_names
        missed = [
            f"{names[i]} by {amount(errors[i], self.problem, i)}"
            for i in np.flatnonzero(~(errors <= tolerances)).tolist()
        ]
        missed = list(dict.fromkeys(missed))
        proof = proof_of_distance(self.problem, self.request, k)
        detail = f"; {proof}" if proof else ""
        if status is Status.STUCK:
            detail += f"; {self._other_starts()}"
        return (
            f"{str(status).lower().replace('_', ' ')}: {MEANINGS[status]}; missed {', '.join(missed) or 'none'}{detail}"
        )

    def _other_starts(self) -> str:
        """Say what other starts may do for a pose that is stuck."""
        if self.request.restarts:
            return f"so were {self.request.restarts} random starts"
        return "another start may reach it: solve(..., restarts=30) tries random ones"

    def __str__(self) -> str:
        if self.shape:
            return self._batch_text()
        lines = [
            f"{self.status}: {MEANINGS[self.status]} "
            f"({self.solver}, {self.iterations} iterations, {self.seconds * 1e3:.3g} ms)."
        ]
        for name, error in self.errors.items():
            i = self.problem.error_groups[name][0]
            if self.problem.idle[i]:
                lines.append(f"  {name}: off by {amount(error, self.problem, i)}; weight 0: reported only")
                continue
            if np.isinf(self.problem.tolerances[i]):
                continue
            word = "reached" if error <= self.problem.tolerances[i] else "missed by"
            lines.append(f"  {name}: {word} {amount(error, self.problem, i)}")
        lines += [f"  {label}: took {member}" for label, member in self.chosen.items()]
        proof = proof_of_distance(self.problem, self.request, 0) if not self.ok else None
        if proof:
            lines.append(f"  {proof}")
        if self.status is Status.STUCK:
            lines.append(f"  {self._other_starts()}")
        if self.blocking:
            lines.append("In the way:")
            bounds = {name: self.problem.tolerances[rows[0]] for name, rows in self.problem.error_groups.items()}
            missed = [name for name, error in self.errors.items() if error > bounds[name]]
            told = sorted(self.blocking, key=lambda block: -sum(block.cost.get(name, 0.0) for name in missed))
            lines += [f"  {block}" for block in told[:6]]
            if len(self.blocking) > 6:
                lines.append(f"  and {len(self.blocking) - 6} more limits")
        return "\n".join(lines)

    def _batch_text(self) -> str:
        total, good = self._good.size, int(self._good.sum())
        each = self.seconds / max(total, 1)
        text = f"{good} of {total} reached ({self.solver}, {self.seconds * 1e3:.3g} ms, {each * 1e6:.3g} us each)."
        counts = {s: int((self.status == str(s)).sum()) for s in Status if s is not Status.REACHED}
        rest = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"{text} {rest}." if rest else text

    def __repr__(self) -> str:
        return f"<Result {self.status if not self.shape else self._batch_text()}>"


def nested(every: list[Any], shape: tuple[int, ...]) -> Any:
    """Return the answers of a batch, in a row, as lists in lists of its shape; the first one where it has none."""
    if not shape:
        return every[0]
    for length in reversed(shape[1:]):
        every = [every[i : i + length] for i in range(0, len(every), length)] if length else []
    return every


def judge(problem: Problem, outcome: RawResult, request: SolveOptions) -> np.ndarray:
    """Return (t,) bool: every limit held and every error within its tolerance, by the errors that the solver left."""
    poses, errors = outcome.poses, outcome.errors
    past = np.maximum(request.lower - poses, poses - request.upper)
    # NaN compares false, so a pose or an error that is not a number is never good
    good = (past <= LIMIT_TOLERANCE).all(axis=1) & (errors <= problem.tolerances).all(axis=1)
    return np.asarray(good)


def judge_anew(problem: Problem, poses: np.ndarray, options: SolveOptions) -> np.ndarray:
    """Return (t,) bool: every limit held and every goal within its tolerance at poses (t, n), evaluated anew."""
    t = len(poses)
    good, errors = np.zeros(t, dtype=np.int64), np.empty((t, len(problem.springs)))
    constants, targets = problem.constants, problem.targets

    def work(piece: slice) -> None:
        judge_batch(
            problem.figure, problem.kind, constants if len(constants) == 1 else constants[piece],
            targets if len(targets) == 1 else targets[piece], problem.pull, problem.home, problem.tolerances,
            options.lower, options.upper, poses[piece], np.empty(problem.work_size), problem.depth, errors[piece],
            good[piece],
        )  # fmt: skip

    if t <= SMALL:
        work(slice(0, t))
    else:
        in_pieces(work, t, PIECE, options.threads)
    return good == 1


PIECE = 1024  # problems that a thread judges at a time


def amount(value: float, problem: Problem, spring: int) -> str:
    """Return an error in words: millimetres or degrees, as the spring measures."""
    if problem.measures_angle(spring):
        return f"{np.degrees(value):.3g} deg"
    return f"{value * 1e3:.3g} mm" if value < 1.0 else f"{value:.3g} m"
