"""The result of a solve: the pose, whether it meets the goals, and what blocks those that it misses."""

from __future__ import annotations

import warnings
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from posable.engine.assemble import judge_batch
from posable.engine.bounds import EXHAUSTED, LIMIT_TOLERANCE, TRACE_WIDTH
from posable.engine.jit import run_chunks
from posable.errors import PosableWarning
from posable.problem import Problem
from posable.solvers.base import (
    OUT_OF_TIME,
    SMALL,
    RawResult,
    SolveOptions,
    amount,
    deadline_after,
    elapsed,
    named_trace,
)

if TYPE_CHECKING:
    from posable.solvers.reasons import Reason
    from posable.solvers.remedy import Remedy
    from posable.solvers.restarts import SearchReport
    from posable.solvers.sensitivity import Block, Sensitivity


class Status(StrEnum):
    """Outcome of a solve."""

    REACHED = "REACHED"
    STUCK = "STUCK"
    OUT_OF_REACH = "OUT_OF_REACH"
    OUT_OF_ITERATIONS = "OUT_OF_ITERATIONS"
    OUT_OF_TIME = "OUT_OF_TIME"


MEANINGS = {
    Status.REACHED: "every goal is within its tolerance and every joint within its limits",
    Status.STUCK: "no small change of the pose brings the goals closer",
    Status.OUT_OF_REACH: "a goal is farther away than the chain is long",
    Status.OUT_OF_ITERATIONS: "the iterations ran out before the goals were reached",
    Status.OUT_OF_TIME: "the time ran out before the goals were reached",
}


class Result:
    """The result of one problem or of a batch, whose axes lead in every array.

    `ok` is evaluated at the pose, independently of the solver: every goal within its tolerance, every joint within its
    limits, no NaN. Everything but the pose is computed on access. `seconds` is the time of the call [s], excluding
    loading and compiling the engine in the first solve of a process.
    """

    _solve: ClassVar[Any] = None  # `posable.solve`, set by its module, which is in a higher layer

    def __init__(
        self, problem: Problem, outcome: RawResult, options: SolveOptions, solver: str, seconds: float,
        shape: tuple[int, ...] = (), chosen: dict[str, Any] | None = None,
    ):  # fmt: skip
        self.problem, self.outcome, self.options = problem, outcome, options
        self.solver, self.seconds, self.shape = solver, seconds, shape
        self.chosen: dict[str, Any] = chosen or {}  # the chosen member, by the label of each AnyOf
        self.searches: dict[int, SearchReport] = {}  # with restarts="auto", by the index of the problem
        if not shape and type(outcome) is RawResult:
            self.__dict__["pose"] = outcome.poses[0]

    @cached_property
    def pose(self) -> np.ndarray:
        """The pose (..., n) [rad, m]."""
        poses = self.outcome.poses
        return poses.reshape(*self.shape, poses.shape[1])

    @property
    def on_gpu(self) -> Any:
        """If targets or starts were on a GPU: pose, errors, code and iterations in its memory; otherwise None."""
        return getattr(self.outcome, "answers", None)

    @cached_property
    def _good(self) -> np.ndarray:
        """(t,) bool, the independent verdict on each problem."""
        if self.problem.plain and type(self.outcome) is RawResult and len(self.outcome.poses):
            if self.outcome.good is not None:
                return self.outcome.good == 1.0
            return judge_again(self.problem, self.outcome.poses, self.options)
        return judge(self.problem, self.outcome, self.options)

    @cached_property
    def ok(self) -> bool | NDArray[np.bool_]:
        """Whether all goals are reached within the limits: a bool, or an array for a batch."""
        return self._good.reshape(self.shape) if self.shape else bool(self._good[0])

    @cached_property
    def status(self) -> Any:
        """The Status, or an array of names for a batch."""
        every = [self._status(k) for k in range(len(self.outcome.poses))]
        return np.array([str(s) for s in every]).reshape(self.shape) if self.shape else every[0]

    def _status(self, k: int) -> Status:
        if self._good[k]:
            return Status.REACHED
        if self._proof(k) is not None:
            return Status.OUT_OF_REACH
        code = self.outcome.codes[k]
        if code == OUT_OF_TIME:
            return Status.OUT_OF_TIME
        return Status.OUT_OF_ITERATIONS if code == EXHAUSTED else Status.STUCK

    @cached_property
    def _bounds(self) -> dict[int, Any]:
        """The `reach_bound` of bodies, for the proofs of a batch."""
        return {}

    def _proof(self, k: int) -> str | None:
        """Return a sentence that proves a goal of problem k out of reach, or None."""
        from posable.solvers.reasons import proof_of_distance

        return proof_of_distance(self.problem, self.options, k, self._bounds)

    @cached_property
    def errors(self) -> dict[str, Any]:
        """The error of each goal [m, rad], by label; arrays for a batch."""
        values, groups = self.outcome.errors, self.problem.error_groups
        if not self.shape:
            return {name: float(values[0, springs].max()) for name, springs in groups.items()}
        return {name: values[:, springs].max(axis=1).reshape(self.shape) for name, springs in groups.items()}

    @property
    def iterations(self) -> Any:
        """Number of iterations, including restarts: an int, or an array for a batch."""
        counts = self.outcome.iterations
        return counts.reshape(self.shape).astype(int) if self.shape else int(counts[0])

    @property
    def evaluations(self) -> Any:
        """Number of evaluations of the energy: an int, or an array for a batch."""
        counts = self.outcome.evaluations
        return counts.reshape(self.shape).astype(int) if self.shape else int(counts[0])

    @property
    def trace(self) -> Any:
        """With record=True: energy, gradient, step, damping, active bounds, evaluations, seconds of every iteration.

        A dict of arrays by name, or nested lists of them for a batch; None if nothing was recorded. Closed forms have
        no iterations and therefore no rows.
        """
        if not self.outcome.traces:
            return None
        return nested(self.outcome.traces, self.shape)

    @cached_property
    def blocking(self) -> list[Any]:
        """The limits that block the goals, worst first; empty if the goals are reached.

        For a batch, nested lists: blocking[i][j] for targets (2, 3, ...).
        """
        return nested([self._blocking(k) for k in range(len(self.outcome.poses))], self.shape)

    def _blocking(self, k: int) -> list[Block]:
        if self._good[k]:
            return []
        from posable.solvers.sensitivity import blocking_limits

        return blocking_limits(self.problem, self.outcome.poses[k], self.options.lower, self.options.upper, k)

    @cached_property
    def reasons(self) -> list[Any]:
        """Why each goal is missed, worst first: a list of `Reason`, or nested lists for a batch."""
        return nested([self._reasons(k) for k in range(len(self.outcome.poses))], self.shape)

    def _reasons(self, k: int) -> list[Reason]:
        if self._good[k]:
            return []
        from posable.solvers.reasons import reasons_for

        blocks = nested_at(self.blocking, self.shape, k)
        lower, upper = self.options.lower, self.options.upper
        return reasons_for(self.problem, self.outcome.poses[k], self.outcome.errors[k], lower, upper, blocks, k)

    def remedy(self, *, time_limit: float | None = None) -> list[Remedy]:
        """Return alternative changes that would make the goals reachable, each verified by solving again.

        Limits to widen (the smallest sum, of few joints), the nearest reachable targets, sufficient tolerances, and a
        goal to leave out. Empty if the goals are reached.

        Args:
            time_limit: [s]; the changes found by then are returned.

        Raises:
            SolverError: The result is a batch.
        """
        from posable.solvers.remedy import remedies_for

        return remedies_for(self, type(self)._solve, deadline_after(time_limit))

    def jacobian(self, name: str, wrt: str = "target") -> np.ndarray | None:
        """Return the derivative of the pose with respect to a goal's target: (n, 3), or (n, 6) for a Pose.

        Active limits stay active. If the goals leave some freedom, it is the derivative of the smallest motion. If it
        does not exist, the result is None; a warning and `sensitivity` say why.

        Args:
            name: The label of a goal; for "length" and "offset" a joint or a site.
            wrt: "target": points, directions and lengths by their numbers, rotations by a rotation vector in world
                axes; "weight" (n, 1); "length" (n, 1) of a bone [1/m]; "offset" (n, 3) of a joint on its parent, or of
                a site on its joint.

        Returns:
            (..., n, k) with the axes of the batch; NaN for problems of a batch without a derivative.

        Raises:
            PosableError: The name is unknown, or the goal has no target.
        """
        every = [self._sensitivity(k, name, wrt) for k in range(len(self.outcome.poses))]
        missing = [one.reason for one in every if one.matrix is None]
        if missing:
            warnings.warn(f"jacobian({name!r}): {missing[0]}", PosableWarning, stacklevel=2)
        if not self.shape:
            return every[0].matrix
        width = next((one.matrix.shape[1] for one in every if one.matrix is not None), 0)
        none = np.full((self.pose.shape[-1], width), np.nan)
        return np.array([none if one.matrix is None else one.matrix for one in every]).reshape(*self.shape, *none.shape)

    def sensitivity(self, name: str, wrt: str = "target") -> Any:
        """Return the derivative of `jacobian`, or why there is none.

        Args:
            name: As in `jacobian`.
            wrt: As in `jacobian`.

        Returns:
            `matrix`, `reason` and `least_motion`; a list of them for a batch.
        """
        return nested([self._sensitivity(k, name, wrt) for k in range(len(self.outcome.poses))], self.shape)

    def _sensitivity(self, k: int, name: str, wrt: str) -> Sensitivity:
        from posable.solvers.sensitivity import pose_derivative, single

        problem = single(self.problem, k) if self.shape else self.problem
        return pose_derivative(problem, self.outcome.poses[k], self.options.lower, self.options.upper, name, wrt)

    @cached_property
    def message(self) -> Any:
        """The outcome in one sentence; an array for a batch."""
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
        proof = self._proof(k)
        detail = f"; {proof}" if proof else ""
        if status is Status.STUCK:
            detail += f"; {self._other_starts(k)}"
        return (
            f"{str(status).lower().replace('_', ' ')}: {MEANINGS[status]}; missed {', '.join(missed) or 'none'}{detail}"
        )

    def _other_starts(self, k: int) -> str:
        """Return what other starts found for a pose that is stuck, or how to try some."""
        if k in self.searches:
            return str(self.searches[k])
        if self.options.restarts:
            return (
                f'{self.options.restarts} random starts were stuck as well; restarts="auto" tries as many as it takes'
            )
        return 'one start was tried; restarts=30 tries 30 more, restarts="auto" as many as it takes'

    def __str__(self) -> str:
        if self.shape:
            return self._batch_text()
        proof = self._proof(0) if not self.ok else None
        lines = [
            f"{self.status}: {MEANINGS[self.status]} "
            f"({self.solver}, {self.iterations} iterations, {elapsed(self.seconds)})."
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
            told = [reason for reason in self.reasons if reason.goal == name and (reason.kind != "reach" or not proof)]
            lines += [f"    {reason.text}" for reason in told]
        lines += [f"  {label}: chose {member}" for label, member in self.chosen.items()]
        if proof:
            lines.append(f"  {proof}")
        if self.status is Status.STUCK:
            lines.append(f"  {self._other_starts(0)}")
        if self.blocking:
            lines.append("Blocking limits:")
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
        text = f"{good} of {total} reached ({self.solver}, {elapsed(self.seconds)}, {each * 1e6:.3g} us each)."
        counts = {s: int((self.status == str(s)).sum()) for s in Status if s is not Status.REACHED}
        rest = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"{text} {rest}." if rest else text

    def __repr__(self) -> str:
        return f"<Result {self.status if not self.shape else self._batch_text()}>"

    def _repr_html_(self) -> str:
        """Return the text of the result and, with Matplotlib, a picture of the pose, for notebooks."""
        import html

        words = f"<pre style='white-space: pre-wrap'>{html.escape(str(self))}</pre>"
        picture = "" if self.shape else self._picture()
        shown = f"<img src='data:image/png;base64,{picture}' style='max-width: 22em'>" if picture else ""
        return f"<div style='display: flex; align-items: flex-start; gap: 1em'>{shown}{words}</div>"

    def _picture(self) -> str:
        """Return a PNG of the pose as base64; empty without Matplotlib."""
        import base64
        import io
        from importlib import import_module
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            return ""
        plots = import_module("posable.plots")  # a layer above this one, imported only for notebooks
        canvas, file = plots.draw(self.problem.skeleton, self.pose, list(self.problem.goals)), io.BytesIO()
        canvas.savefig(file, format="png", dpi=80)
        return base64.b64encode(file.getvalue()).decode("ascii")


def nested(every: list[Any], shape: tuple[int, ...]) -> Any:
    """Return a flat list as nested lists of a shape; its first element for an empty shape."""
    if not shape:
        return every[0]
    for length in reversed(shape[1:]):
        every = [every[i : i + length] for i in range(0, len(every), length)] if length else []
    return every


def nested_at(every: Any, shape: tuple[int, ...], k: int) -> Any:
    """Return element k, in row-major order, of nested lists of a shape."""
    for i in np.unravel_index(k, shape) if shape else ():
        every = every[i]
    return every


def judge(problem: Problem, outcome: RawResult, options: SolveOptions) -> np.ndarray:
    """Return (t,) bool: every joint within its limits and every error of the solver within its tolerance."""
    poses, errors = outcome.poses, outcome.errors
    past = np.maximum(options.lower - poses, poses - options.upper)
    # NaN compares false, so a pose or an error that is not a number is never good
    good = (past <= LIMIT_TOLERANCE).all(axis=1) & (errors <= problem.tolerances).all(axis=1)
    return np.asarray(good)


def judge_again(problem: Problem, poses: np.ndarray, options: SolveOptions) -> np.ndarray:
    """Return (t,) bool: every joint within its limits and every goal within its tolerance at poses (t, n)."""
    return evaluate(problem, poses, options)[0] == 1


def unsolved(problem: Problem, options: SolveOptions, first: int) -> RawResult:
    """Return the result of the problems of a batch from `first` on, which there was no time for: their starts."""
    starts = options.starts[first:]
    t = len(starts)
    errors = errors_at(problem.part(first, first + t), starts, options)
    traces = [named_trace(np.zeros((0, TRACE_WIDTH)), np.zeros(0)) for _ in range(t)] if options.record else None
    return RawResult(starts.copy(), np.full(t, OUT_OF_TIME), errors, np.zeros(t), np.zeros(t), traces)


def errors_at(problem: Problem, poses: np.ndarray, options: SolveOptions) -> np.ndarray:
    """Return the errors (t, g) [m, rad] of every spring at poses (t, n), also of energies in Python."""
    if problem.customs:
        return np.array([problem.evaluate(pose, member=k)[3] for k, pose in enumerate(poses)])
    return evaluate(problem, poses, options)[1]


def evaluate(problem: Problem, poses: np.ndarray, options: SolveOptions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (t,) 1 where poses (t, n) meet limits and goals, else 0, the errors (t, g) [m, rad] and energies (t,)."""
    t = len(poses)
    good, errors, energies = np.zeros(t, dtype=np.int64), np.empty((t, len(problem.springs))), np.empty(t)
    constants, targets, fitted = problem.constants, problem.targets, problem.fitted(judge_batch)

    def work(piece: slice) -> None:
        fitted(
            problem.figure, problem.kind, constants if len(constants) == 1 else constants[piece],
            targets if len(targets) == 1 else targets[piece], problem.pull, problem.home, problem.tolerances,
            options.lower, options.upper, poses[piece], np.empty(problem.work_size), problem.depth, errors[piece],
            good[piece], energies[piece],
        )  # fmt: skip

    if t <= SMALL:
        work(slice(0, t))
    else:
        run_chunks(work, t, CHUNK, options.threads)
    return good, errors, energies


CHUNK = 1024  # problems that a thread evaluates at a time
