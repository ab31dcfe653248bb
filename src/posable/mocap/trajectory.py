"""One optimisation over many frames: the goals of every frame against the accelerations between them, limits hard.

E = sum_t E_t(theta_t) + 1/2 sum_t a_t' diag(stiffness) a_t,  a_t = theta_(t-1) - 2 theta_t + theta_(t+1)

Gauss-Newton's matrix is block-banded: a frame meets the two before it and the two after it, so one step costs as much
as its frames are many. Bounds at which the gradient pushes outward are held, and a step is projected on the box.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.engine.assemble import clear_hessian, derivatives, energy_at, springs_of
from posable.engine.jit import entry
from posable.engine.layout import DEPTH, UP, workspace
from posable.engine.linalg import multiply_banded, solve_banded
from posable.mocap.frame_solver import set_targets
from posable.problem import Problem

DAMPING, TRIES = 1e-4, 6  # of the mean stiffness to begin with; how often a step is asked again, more damped
ENOUGH = 0.5  # of what a step promises: it need not be asked again


class Effort(NamedTuple):
    """How long to go on: `steps` at most, the last where one gains less than `gain` of the energy.

    passes: how often a step that the limits cut off is asked again with what they hold; dear, and seldom needed.
    """

    steps: int = 12
    gain: float = 1e-5
    passes: int = 1


USUAL = Effort()


@entry
def frame_terms(
    figure, order, kind, constants, targets, robust, pull, home, markers, points, poses, work, d, slopes, band,
    energies,
):  # fmt: skip
    """Write energies (T,) and, where band (T n, 2 n + 1) has rows, slopes (T, n) and all Gauss-Newton blocks.

    home (T, n): what the dofs are pulled to. Column j of the band's matrix is row j here, from its diagonal down.
    """
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, pull, home[t])
        if markers.shape[0] > 0:
            set_targets(springs.constants, springs.targets, markers, points, robust, t)
        energies[t] = energy_at(figure, springs, poses[t], ws)
        if band.shape[0] == 0:
            continue
        clear_hessian(ws)
        derivatives(figure, order, springs, poses[t], ws, 0.0)
        for i in range(n):
            slopes[t, i] = ws.gradient[i]
            j = i
            while j >= 0:
                band[t * n + j, i - j] = ws.hessian[i, order.rows[j, DEPTH]]
                j = order.rows[j, UP]


_NO_TERMS = np.zeros((0, 1)), np.zeros((0, 1))


class Whole:
    """The frames of a window as one problem.

    problem: with the targets of T frames, or of one; markers and points (T or 0, g, 3) as `walk` reads them;
    pull (n,) and home (T, n): springs on the degrees of freedom; stiffness (n,): of the
    accelerations; lower, upper (n,): the box.
    """

    def __init__(self, problem: Problem, robust, markers, points, pull, home, stiffness, lower, upper):
        self.problem, self.robust = problem.part(0, None), robust
        self.markers, self.points = np.ascontiguousarray(markers), np.ascontiguousarray(points)
        self.pull, self.home, self.stiffness = pull, np.ascontiguousarray(home), stiffness
        self.lower, self.upper = lower, upper
        self.work = np.empty(problem.work_size)

    def terms(self, poses: np.ndarray, slopes: np.ndarray, band: np.ndarray) -> float:
        """Return the energy of poses (T, n); fill slopes and band where band has rows."""
        energies = np.empty(len(poses))
        problem = self.problem
        band.fill(0.0)
        frame_terms(
            problem.figure, problem.order, problem.kind, problem.constants, problem.targets, self.robust,
            self.pull, self.home, self.markers, self.points, poses, self.work, problem.depth, slopes, band, energies,
        )  # fmt: skip
        bends = np.diff(poses, n=2, axis=0)
        return float(energies.sum() + 0.5 * (bends**2 @ self.stiffness).sum())

    def solve(self, poses: np.ndarray, effort: Effort) -> np.ndarray:
        """Return the poses (T, n) of the least energy from `poses`."""
        t, n = poses.shape
        poses = np.clip(poses, self.lower, self.upper)
        slopes, band = np.empty((t, n)), np.zeros((t * n, 2 * n + 1))
        ahead = np.empty_like(slopes), np.zeros_like(band)  # the same where a step leads
        energy = self.terms(poses, slopes, band)
        damping = DAMPING
        for _ in range(effort.steps):
            gradient = slopes + self._bend_slopes(poses)
            self._add_bends(band, t, n)
            free = ~(
                ((poses <= self.lower + 1e-10) & (gradient > 0.0))
                | ((poses >= self.upper - 1e-10) & (gradient < 0.0))
                | (self.lower >= self.upper)
            ).ravel()
            after, trial, tries = np.inf, poses, 0
            while not after < energy and tries < TRIES:
                after, trial = self._try(poses, energy, band, gradient, free, damping, effort.passes, ahead)
                damping *= 10.0 if not after < energy else 1.0 if tries else 0.1
                tries += 1
            if not after < energy:
                break
            before, energy, poses = energy, after, trial
            (slopes, band), ahead = ahead, (slopes, band)
            if before - energy < effort.gain * before:
                break
        return poses

    def _bend_slopes(self, poses: np.ndarray) -> np.ndarray:
        out = np.zeros_like(poses)
        bends = np.diff(poses, n=2, axis=0) * self.stiffness
        out[:-2] += bends
        out[1:-1] -= 2.0 * bends
        out[2:] += bends
        return out

    def _add_bends(self, band: np.ndarray, t: int, n: int) -> None:
        """Add the second derivative of the accelerations' energy: per dof, pentadiagonal in time."""
        blocks = band.reshape(t, n, 2 * n + 1)
        if t < 3:
            return
        s = self.stiffness
        blocks[:-2, :, 0] += s
        blocks[1:-1, :, 0] += 4.0 * s
        blocks[2:, :, 0] += s
        blocks[:-2, :, n] -= 2.0 * s
        blocks[1:-1, :, n] -= 2.0 * s
        blocks[:-2, :, 2 * n] += s

    def _try(self, poses, energy, band, gradient, free, damping, passes, ahead) -> tuple[float, np.ndarray]:
        """Return the energy after a damped step into the box, and the poses there, whose terms `ahead` then holds.

        Cut off at the box, a step leaves the rest where it counted on what is cut: where that costs the gain, what
        would go past a bound goes to it, and the rest is asked again.
        """
        below, above = (self.lower - poses).ravel(), (self.upper - poses).ravel()
        moved, slope = np.zeros(len(free)), gradient.ravel()
        best, there = np.inf, poses
        for _ in range(passes):
            step = self._step(band, slope, free, moved, damping)
            if step is None:
                break
            inside = np.clip(step, below, above)
            trial = np.clip(poses + inside.reshape(poses.shape), self.lower, self.upper)
            after = self.terms(trial, *(ahead if passes == 1 else _NO_TERMS))
            if after < best:
                best, there = after, trial
            beyond = free & (inside != step)
            if not beyond.any() or energy - after > ENOUGH * -0.5 * (slope @ step):
                break
            moved[beyond] = inside[beyond]
            free = free & ~beyond
        if passes > 1 and best < energy:
            self.terms(there, *ahead)
        return best, there

    def _step(self, band, gradient, free, moved, damping) -> np.ndarray | None:
        """Return the damped step (T n,), as `moved` (T n,) where not free; None without a positive definite matrix."""
        matrix = band.copy()
        matrix[:, 0] += damping * np.mean(band[:, 0])
        held = np.flatnonzero(~free)
        right = -gradient
        if moved.any():
            right -= multiply_banded(matrix, moved)
        width = band.shape[1]
        matrix[held] = 0.0
        for k in range(1, width):  # the entries of the columns before, in the rows that are held
            before = held - k
            before = before[before >= 0]
            matrix[before, k] = 0.0
        matrix[held, 0] = 1.0
        right[held] = moved[held]
        return right if solve_banded(matrix, right) else None
