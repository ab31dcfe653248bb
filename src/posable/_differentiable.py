"""Solving as a differentiable layer: poses from targets, and gradients of a loss from the poses back to the targets.

Shared by `posable.torch` and `posable.jax`; arrays in and out. The backward pass is the adjoint of the implicit
derivative: one factorisation of the exact Hessian per pose, for any number of targets (engine/sensitivity.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from posable._solve import solve
from posable.engine.jit import run_chunks
from posable.engine.layout import AT, FRAME, POINT, TARGETS
from posable.engine.sensitivity import DEGENERATE, NO_MINIMUM, adjoint_batch, refine_batch
from posable.errors import GoalError, SolverError, unknown
from posable.goals.base import Goal
from posable.model.skeleton import Skeleton
from posable.problem import Problem
from posable.solvers.base import SolveOptions

if TYPE_CHECKING:
    from posable.gpu.differentiable import DeviceForwardState

CHUNK = 256  # problems per thread and chunk
REFINED = 40  # Newton steps that refine a pose to its minimum


@dataclass(frozen=True)
class ForwardState:
    """What a forward pass stores for the backward pass.

    Attributes:
        problem: The problem, on the figure that was solved for.
        options: The limits and starts.
        poses: (t, n) [rad, m], minima.
        shape: The leading axes of the batch.
        ok: (t,) whether the goals were reached.
    """

    problem: Problem
    options: SolveOptions
    poses: np.ndarray
    shape: tuple[int, ...]
    ok: np.ndarray


class Layer:
    """A figure and goals, some of whose targets and offsets are arguments of each call.

    Args:
        skeleton: The figure.
        goals: One goal or several, without priorities, choices or energies in Python. Where they leave the pose some
            freedom add a `Posture`, or gradients are those of the least motion.
        targets: The labels of the goals whose targets are given: Position (..., 3), Orientation (..., 3, 3) or Pose
            (..., 4, 4).
        offsets: Names of joints and sites whose offsets (3,) [m] are given.
        options: Of `posable.solve`.
    """

    def __init__(
        self,
        skeleton: Skeleton,
        goals: Goal | Iterable[Goal],
        targets: Iterable[str],
        offsets: Iterable[str] = (),
        options: Mapping[str, Any] | None = None,
    ):
        self.skeleton = skeleton
        self.goals = [goals] if isinstance(goals, Goal) else list(goals)
        self.labels, self.offsets, self.options = tuple(targets), tuple(offsets), dict(options or {})
        problem = Problem(skeleton, self.goals)
        if not problem.plain:
            expected = "goals without priorities, choices or energies in Python"
            raise SolverError("a layer", expected=expected, got="others")
        for label in self.labels:
            if label not in problem.label_index:
                raise unknown("goal", label, problem.labels)
            goal = problem.goals[problem.label_index[label]]
            if not goal.target_shape:
                raise GoalError(f"{goal}", expected="a Position, an Orientation or a Pose", got=type(goal).__name__)
        parts = {part.name: part for part in (*skeleton.joints, *skeleton.sites)}
        for name in self.offsets:
            if name not in parts:
                raise unknown("joint or site", name, tuple(parts))
        self.index = problem.label_index

    def target_shape(self, label: str) -> tuple[int, ...]:
        """Return the shape of one target of a goal."""
        return self.goals[self.index[label]].target_shape

    def moved_goals(self, targets: list[Any]) -> list[Goal]:
        """Return the goals with other targets, one per label."""
        goals = list(self.goals)
        for label, target in zip(self.labels, targets, strict=True):
            goals[self.index[label]] = goals[self.index[label]].moved(target)
        return goals

    def forward(self, targets: list[np.ndarray], offsets: list[np.ndarray]) -> ForwardState:
        """Solve for targets, one array per label, on the figure with the given offsets, one (3,) per name."""
        skeleton = self.with_offsets(offsets)
        goals = self.moved_goals([np.asarray(target, dtype=float) for target in targets])
        result = solve(skeleton, goals, **{"natural": False, **self.options})
        problem, options = result.problem, result.options
        poses = np.ascontiguousarray(result.pose.reshape(-1, skeleton.size)).copy()
        lower, upper = options.lower.copy(), options.upper.copy()

        def work(piece: slice) -> None:
            constants, rows = piece_of(problem.constants, piece), piece_of(problem.targets, piece)
            refine_batch(
                problem.figure, problem.order, problem.kind, constants, rows, problem.pull, problem.home, lower, upper,
                poses[piece], np.empty(problem.work_size), problem.depth, REFINED,
            )  # fmt: skip

        run_chunks(work, len(poses), CHUNK, options.threads)
        return ForwardState(problem, options, poses, result.shape, np.atleast_1d(result.ok).ravel())

    def forward_on_gpu(self, targets: list[Any]) -> DeviceForwardState:
        """Solve for targets that are on a GPU, one array per label; the poses stay there.

        Raises:
            SolverError: The GPU does not support these goals or options, or offsets, which are summed on the CPU.
        """
        from posable.gpu.differentiable import polished

        if self.offsets:
            raise SolverError("device 'cuda'", expected="targets alone", got="offsets: they run on the CPU")
        goals = self.moved_goals(targets)
        options = {"natural": False, **self.options, "device": "cuda"}
        return polished(solve(self.skeleton, goals, **options), goals)

    def backward(self, solved: ForwardState, slopes: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return how a loss changes with the targets and the offsets, given how it changes with the poses (t, n).

        Where a pose has no derivative (a limit that is touched but not pushed, no minimum) its part is NaN.
        """
        problem, poses = solved.problem, solved.poses
        t, n = poses.shape
        g, b = len(problem.springs), len(problem.figure.body)
        moving = np.zeros((g, TARGETS), dtype=np.int64)
        for label in self.labels:
            row, shape = problem.first_rows[self.index[label]], self.target_shape(label)
            if shape != (3, 3):
                moving[row, AT : AT + 3] = 1
            if shape != (3,):
                moving[row + (shape == (4, 4)), FRAME : FRAME + 9] = 1
        shaped = np.full(b, int(bool(self.offsets)), dtype=np.int64)
        pinned = np.full(g, int(bool(self.offsets)), dtype=np.int64)
        adjoints = np.ascontiguousarray(slopes, dtype=float).reshape(t, n).copy()
        by_target, by_rest, by_point = np.zeros((t, g, TARGETS)), np.zeros((t, b, 3)), np.zeros((t, g, 3))
        codes = np.zeros(t, dtype=np.int64)
        lower, upper = solved.options.lower.copy(), solved.options.upper.copy()

        def work(piece: slice) -> None:
            figure = problem.figure._replace(rest=problem.figure.rest.copy())  # modified during the call
            constants, rows = piece_of(problem.constants, piece).copy(), piece_of(problem.targets, piece).copy()
            adjoint_batch(
                figure, problem.order, problem.kind, constants, rows, problem.pull, problem.home, lower, upper,
                poses[piece], np.empty(problem.work_size), problem.depth, adjoints[piece], moving,
                shaped, pinned, by_target[piece], by_rest[piece], by_point[piece], codes[piece],
            )  # fmt: skip

        run_chunks(work, t, CHUNK, solved.options.threads)
        none = (codes == DEGENERATE) | (codes == NO_MINIMUM)
        by_target[none], by_rest[none], by_point[none] = np.nan, np.nan, np.nan
        return [self._of_target(label, solved, by_target) for label in self.labels], self._of_offsets(by_rest, by_point)

    def _of_target(self, label: str, solved: ForwardState, slopes: np.ndarray) -> np.ndarray:
        """Return the gradient of the loss with respect to a target (..., *shape), from its springs (t, g, TARGETS)."""
        row, shape = solved.problem.first_rows[self.index[label]], self.target_shape(label)
        out = np.zeros((len(slopes), *shape))
        if shape == (3,):
            out[:] = slopes[:, row, AT : AT + 3]
        elif shape == (3, 3):
            out[:] = slopes[:, row, FRAME : FRAME + 9].reshape(-1, 3, 3)
        else:
            out[:, :3, 3] = slopes[:, row, AT : AT + 3]
            out[:, :3, :3] = slopes[:, row + 1, FRAME : FRAME + 9].reshape(-1, 3, 3)
        return out.reshape(*solved.shape, *shape)

    def with_offsets(self, offsets: list[np.ndarray]) -> Skeleton:
        """Return the figure with other offsets (3,) [m] of the named joints and sites."""
        given = dict(zip(self.offsets, offsets, strict=True))
        if not given:
            return self.skeleton

        def changed(part: Any) -> Any:
            return replace(part, offset=tuple(np.asarray(given[part.name]).tolist())) if part.name in given else part

        return self.skeleton.replace(
            joints=[changed(joint) for joint in self.skeleton.joints], sites=[changed(s) for s in self.skeleton.sites]
        )

    def _of_offsets(self, by_rest: np.ndarray, by_point: np.ndarray) -> list[np.ndarray]:
        """Return the gradient of the loss with respect to each offset (3,), summed over the batch.

        Positions of bodies on their parents and of points on bodies are linear in each single offset.
        """
        zero = [np.zeros(3) for _ in self.offsets]
        base = self._places(zero)
        out = []
        for k in range(len(self.offsets)):
            slope = np.zeros(3)
            for i in range(3):
                moved = [one.copy() for one in zero]
                moved[k][i] = 1.0
                rest, point = self._places(moved)
                slope[i] = (by_rest * (rest - base[0])).sum() + (by_point * (point - base[1])).sum()
            out.append(slope)
        return out

    def _places(self, offsets: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of bodies on their parents (b, 3) and of springs' points on bodies (g, 3)."""
        problem = Problem(self.with_offsets(offsets), self.goals)
        return problem.figure.rest[:, :3].copy(), problem.constants[0, :, POINT : POINT + 3].copy()


def piece_of(rows: np.ndarray, piece: slice) -> np.ndarray:
    """Return the rows of some problems of a batch, or the one row that all share."""
    return rows if len(rows) == 1 else rows[piece]


def summed_to(value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return gradients summed over the axes along which a target of that shape was broadcast."""
    extra = value.ndim - len(shape)
    value = value.sum(axis=tuple(range(extra))) if extra else value
    axes = tuple(i for i, size in enumerate(shape) if size == 1 and value.shape[i] != 1)
    return np.ascontiguousarray(value.sum(axis=axes, keepdims=True) if axes else value)
