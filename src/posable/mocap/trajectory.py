"""One optimisation over many frames: the goals of every frame plus the accelerations between them, with hard limits.

E = sum_t E_t(theta_t) + 1/2 sum_t a_t' diag(stiffness) a_t,  a_t = d_(t-1) - 2 d_t + d_(t+1),  d = theta - path

The path is zero, or one whose accelerations cost nothing.

The Gauss-Newton matrix is block-banded: each frame is coupled to two frames on either side, so the cost of a step is
linear in the number of frames. Bounds at which the gradient pushes outward are active, and steps are projected onto the
box.

Contacts make the energy of single frames far from quadratic. A step is therefore judged section by section: frames
about which it raises the energy stay where they are and are damped more, all others take it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.ndimage import distance_transform_edt, uniform_filter1d

from posable.engine.assemble import clear_hessian, derivatives, energy_at, springs_of
from posable.engine.jit import entry
from posable.engine.layout import DEPTH, UP, workspace
from posable.engine.linalg import solve_banded
from posable.mocap.frame_solver import set_targets
from posable.problem import Problem

DAMPING, LEAST = 3e-2, 1e-3  # relative to the usual stiffness of a dof: initially, and at least
HARDER, EASIER = 10.0, 0.3  # factors of the damping: of frames that a step makes worse, of the others
FAILURES = 3  # consecutive steps that may fail
SECTION = 4  # frames on either side over which a step is judged
BLEND = 6  # frames between one that stays and one that takes the full step
WORSE = 0.1  # fraction of its energy and of the mean by which a section may worsen, as where a contact opens or closes
USUALLY = 0.25  # quantile over the frames of a dof's stiffness: mostly there is no contact


class Effort(NamedTuple):
    """When to stop: after `steps`, or after a step that gains less than the fraction `gain` of the energy.

    passes: how often a step is solved when new bounds become active; expensive, rarely needed.
    """

    steps: int = 12
    gain: float = 1e-5
    passes: int = 1


USUAL = Effort()


def solve_on_gpu(
    problem: Problem, poses: np.ndarray, spans: list[tuple[int, int]], pull: np.ndarray, stiffness: np.ndarray,
    lower: np.ndarray, upper: np.ndarray, effort: Effort, free: np.ndarray | None = None,
    path: np.ndarray | None = None,
) -> list[np.ndarray]:  # fmt: skip
    """Do as `TrajectoryProblem.solve` on a GPU, for several windows of a clip, given by first frame and end."""
    from posable.gpu.trajectory import StepRules, solve_windows

    rules = StepRules(DAMPING, LEAST, HARDER, EASIER, FAILURES, SECTION, BLEND, WORSE, USUALLY, *effort)
    return solve_windows(
        problem, poses, spans, pull=pull, stiffness=stiffness, lower=lower, upper=upper, rules=rules, free=free,
        path=path,
    )  # fmt: skip


@entry
def frame_terms(
    figure, order, kind, constants, targets, robust, pull, home, markers, points, poses, rows, work, d, slopes, blocks,
    energies,
):  # fmt: skip
    """Write energies (T,), slopes (T, n) and Gauss-Newton blocks (T, n, n) of the frames in rows (k,).

    home (T, n): what the dofs are pulled to. Entry (i, j), i >= j, of a frame's matrix is blocks[t, j, i - j].
    """
    n = figure.dof.shape[0]
    ws, _ = workspace(figure, kind.shape[0], work, d)
    for row in range(rows.shape[0]):
        t = rows[row]
        springs = springs_of(kind, constants, targets, t, pull, home[t])
        if markers.shape[0] > 0:
            set_targets(springs.constants, springs.targets, markers, points, robust, t)
        energies[t] = energy_at(figure, springs, poses[t], ws)
        clear_hessian(ws)
        derivatives(figure, order, springs, poses[t], ws, 0.0)
        for i in range(n):
            slopes[t, i] = ws.gradient[i]
            for j in range(n - i):
                blocks[t, i, j] = 0.0
        for i in range(n):
            j = i
            while j >= 0:
                blocks[t, j, i - j] = ws.hessian[i, order.rows[j, DEPTH]]
                j = order.rows[j, UP]


@entry
def damped_system(blocks, stiffness, damping, free, moved, gradient, matrix, right):
    """Write the banded matrix (T n, 2 n + 1) and the right side (T n,) of a step, as `solve_banded` reads them.

    damping (T, n) is added to the diagonal. A dof that is not free (T, n) moves by moved (T, n).
    """
    frames, n = gradient.shape
    for t in range(frames):
        left, middle, last = t + 2 < frames, t > 0 and t + 1 < frames, t > 1
        own = (1.0 if left else 0.0) + (4.0 if middle else 0.0) + (1.0 if last else 0.0)
        one = -2.0 * ((1.0 if middle else 0.0) + (1.0 if left else 0.0))
        for i in range(n):
            row = t * n + i
            right[row] = -gradient[t, i] if free[t, i] else moved[t, i]
            for k in range(2 * n + 1):
                matrix[row, k] = 0.0
            if free[t, i]:
                matrix[row, 0] = blocks[t, i, 0] + own * stiffness[i] + damping[t, i]
                if t + 1 < frames and free[t + 1, i]:
                    matrix[row, n] = one * stiffness[i]
                if left and free[t + 2, i]:
                    matrix[row, 2 * n] = stiffness[i]
                for k in range(1, n - i):
                    if free[t, i + k]:
                        matrix[row, k] = blocks[t, i, k]
            else:
                matrix[row, 0] = 1.0
    for t in range(frames):  # fixed dofs go to the right side
        left, middle = t + 2 < frames, t > 0 and t + 1 < frames
        one = -2.0 * ((1.0 if middle else 0.0) + (1.0 if left else 0.0))
        for i in range(n):
            row = t * n + i
            for k in range(1, n - i):
                if free[t, i] != free[t, i + k]:
                    if free[t, i]:
                        right[row] -= blocks[t, i, k] * moved[t, i + k]
                    else:
                        right[row + k] -= blocks[t, i, k] * moved[t, i]
            for far, share in ((1, one), (2, 1.0 if left else 0.0)):
                if t + far < frames and free[t, i] != free[t + far, i]:
                    if free[t, i]:
                        right[row] -= share * stiffness[i] * moved[t + far, i]
                    else:
                        right[row + far * n] -= share * stiffness[i] * moved[t, i]


class _Terms(NamedTuple):
    """Energies (T,), slopes (T, n) and blocks (T, n, n) of a window of frames at some poses."""

    energies: np.ndarray
    slopes: np.ndarray
    blocks: np.ndarray

    @classmethod
    def empty(cls, t: int, n: int) -> _Terms:
        return cls(np.empty(t), np.empty((t, n)), np.empty((t, n, n)))


def _about(values: np.ndarray) -> np.ndarray:
    """Return the mean (T,) of values (T,) over the section around each frame."""
    return uniform_filter1d(values, 2 * SECTION + 1, mode="constant")


class TrajectoryProblem:
    """The frames of a window as one problem.

    problem: with the targets of T frames, or of one; markers and points (T or 0, g, 3) as in `solve_frames`; pull (n,)
    and home (T, n): springs on the degrees of freedom; stiffness (n,): of the accelerations; lower, upper (n,) or
    (T, n): the box; path (T, n): one whose accelerations cost nothing, none by default.
    """

    def __init__(self, problem: Problem, robust, markers, points, pull, home, stiffness, lower, upper, path=None):
        self.problem, self.robust = problem.part(0, None) if len(markers) else problem, robust
        self.markers, self.points = np.ascontiguousarray(markers), np.ascontiguousarray(points)
        self.pull, self.home, self.stiffness = pull, np.ascontiguousarray(home), stiffness
        self.lower, self.upper = lower, upper
        self.bends = 0.0 if path is None else np.diff(path, n=2, axis=0)
        self.work = np.empty(problem.work_size)

    def terms(self, poses: np.ndarray, rows: np.ndarray, out: _Terms) -> None:
        """Compute the terms of some frames, rows (k,), at poses (T, n)."""
        problem = self.problem
        frame_terms(
            problem.figure, problem.order, problem.kind, problem.constants, problem.targets, self.robust,
            self.pull, self.home, self.markers, self.points, poses, rows, self.work, problem.depth,
            out.slopes, out.blocks, out.energies,
        )  # fmt: skip

    def solve(self, poses: np.ndarray, effort: Effort, free: np.ndarray | None = None) -> np.ndarray:
        """Return poses (T, n) of least energy, starting from `poses`; free (T,) bool: frames that may change."""
        t, n = poses.shape
        poses = np.clip(poses, self.lower, self.upper)
        rows, damping = np.arange(t), np.full(t, DAMPING)
        here, ahead = _Terms.empty(t, n), _Terms.empty(t, n)
        matrix = np.empty(t * n * (2 * n + 1))
        self.terms(poses, rows, here)
        energies = here.energies + self._bend_energies(poses)
        best, least, failures = poses, energies.sum(), 0
        for _ in range(effort.steps):
            trial, worse = self._try(poses, energies, here, damping, effort.passes, ahead, matrix, free)
            if worse.any():
                share = np.clip((np.asarray(distance_transform_edt(~worse)) - 1.0) / BLEND, 0.0, 1.0)[:, None]
                trial = poses + share * share * (3.0 - 2.0 * share) * (trial - poses)
                self.terms(trial, np.flatnonzero(share < 1.0), ahead)
            damping = np.where(worse, HARDER, EASIER) * damping
            after = ahead.energies + self._bend_energies(trial)
            before, total = energies.sum(), after.sum()
            if not total < (1.0 + WORSE) * before:
                failures, damping = failures + 1, damping * HARDER / EASIER
                if failures == FAILURES:
                    break
                continue
            np.maximum(damping, LEAST, out=damping)
            failures, energies, poses = 0, after, trial
            here, ahead = ahead, here
            if total < least:
                best, least = poses, total
            if abs(before - total) < effort.gain * before:
                break
        return best

    def _bend_energies(self, poses: np.ndarray) -> np.ndarray:
        """Return the energy (T,) of the accelerations."""
        out = np.zeros(len(poses))
        out[1:-1] = 0.5 * ((np.diff(poses, n=2, axis=0) - self.bends) ** 2 @ self.stiffness)
        return out

    def _bend_slopes(self, poses: np.ndarray) -> np.ndarray:
        out = np.zeros_like(poses)
        bends = (np.diff(poses, n=2, axis=0) - self.bends) * self.stiffness
        out[:-2] += bends
        out[1:-1] -= 2.0 * bends
        out[2:] += bends
        return out

    def _try(
        self, poses, energies, here: _Terms, damping, passes: int, ahead: _Terms, matrix, movable
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return poses (T, n) after a damped step into the box, and which frames (T,) it makes worse.

        A step that is clipped to the box is no longer consistent. Where that makes a frame worse, dofs that would pass
        a bound are fixed at it and the others are solved again.
        """
        gradient = here.slopes + self._bend_slopes(poses)
        free = ~(
            ((poses <= self.lower + 1e-10) & (gradient > 0.0))
            | ((poses >= self.upper - 1e-10) & (gradient < 0.0))
            | (self.lower >= self.upper)
        )
        if movable is not None:
            free &= movable[:, None]
        below, above = self.lower - poses, self.upper - poses
        moved, kept = np.zeros_like(poses), np.flatnonzero((free & (gradient != 0.0)).any(axis=0))
        usual = np.quantile(here.blocks[:, :, 0], USUALLY, axis=0)
        each = damping[:, None] * (usual + 1e-3 * usual.mean())
        trial, worse = poses, np.ones(len(poses), dtype=bool)
        for k in range(passes):
            step = self._step(here.blocks, each, free, moved, gradient, kept, matrix)
            if step is None:
                return poses, np.ones(len(poses), dtype=bool)
            inside = np.clip(step, below, above)
            trial = np.clip(poses + inside, self.lower, self.upper)
            self.terms(trial, np.arange(len(poses)), ahead)
            change = ahead.energies + self._bend_energies(trial) - energies
            worse = _about(change) > WORSE * (_about(energies) + energies.mean())
            beyond = free & (inside != step)
            if k + 1 == passes or not (worse & beyond.any(axis=1)).any():
                break
            moved[beyond] = inside[beyond]
            free &= ~beyond
        return trial, worse

    def _step(self, blocks, damping, free, moved, gradient, kept, work) -> np.ndarray | None:
        """Return a damped step (T, n) of the dofs in kept (k,), or None if it cannot be solved for.

        The others stay, such as fingers that nothing pulls: the cost is that of a matrix of bandwidth 2 k.
        """
        t, n = len(gradient), len(kept)
        column = np.minimum(np.add.outer(np.arange(n), np.arange(n)), n - 1)  # entry (i, j) is in column j - i
        part = blocks[:, kept[:, None], kept[column] - kept[:, None]]
        right, matrix = np.empty(t * n), work[: t * n * (2 * n + 1)].reshape(t * n, 2 * n + 1)
        rows = [np.ascontiguousarray(values[:, kept]) for values in (damping, free, moved, gradient)]
        damped_system(part, self.stiffness[kept], *rows, matrix, right)
        if not solve_banded(matrix, right):
            return None
        step = np.zeros_like(gradient)
        step[:, kept] = right.reshape(t, n)
        return step
