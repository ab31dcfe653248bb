"""The branches of limbs over a clip: solving frame by frame can get stuck at a limit where another branch fits better.

Where bones of a limb point far from their targets, the frame is solved again from random values of the limb. The best
result is followed through the clip in both directions as a further candidate. Dynamic programming (Viterbi 1967) then
finds the sequence of candidates with the least error; a change between candidates costs the time that it takes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.ndimage import gaussian_filter1d

from posable.mocap.frame_solver import ENERGY, FrameOptions, FrameSolver
from posable.model.joint_values import Floats
from posable.problem import Problem

WORTH = 0.1  # [rad^2 s] squared error of a limb, summed over time, below which other branches are not tried
STARTS = 24  # random values of a limb
CANDIDATES = 4  # branches of a limb besides the first
ABOUT = 0.15  # [s] standard deviation of the window in which a frame's error counts
RATE = 4.0  # [rad/s] at which a limb changes from one branch to another
COST = 0.5  # [rad^2] squared error meanwhile
BETTER = 0.5  # fraction of the squared error that may remain at the frame that a branch was found for
SETTLE = FrameOptions(max_iterations=60, min_gain=1e-5, damping=1e-1, independent=True, pull=1e-5)

LimbError = Callable[[Floats, slice], Floats]  # poses (t, n) of some frames -> squared errors (t,) [rad^2] of a limb
EVERY = slice(None)


def choose_branches(
    problem: Problem, poses: Floats, limbs: list[tuple[np.ndarray, LimbError]], fps: float, walk: FrameOptions
) -> Floats:
    """Return poses (T, n) whose limbs take the branches that fit best.

    Args:
        problem: The goals of every frame.
        poses: (T, n) A walk through the frames.
        limbs: For each limb its degrees of freedom (k,) and its squared error.
        fps: Frames a second.
        walk: Options of the walk.
    """
    for dofs, error_of in limbs:
        errors = error_of(poses, EVERY)
        if errors.sum() > WORTH * fps:
            poses = _best_sequence(problem, poses, dofs, error_of, errors, fps, walk)
    return poses


def _best_sequence(
    problem: Problem, poses: Floats, dofs: np.ndarray, error_of: LimbError, errors: Floats, fps: float,
    walk: FrameOptions,
) -> Floats:  # fmt: skip
    """Return poses (T, n) with one limb moved to the sequence of branches of least error."""
    candidates, costs, least = [poses], [errors], errors.copy()
    tried = np.zeros(len(poses), dtype=bool)
    for _ in range(2 * CANDIDATES):
        left = np.where(tried, 0.0, gaussian_filter1d(least, ABOUT * fps, mode="constant"))
        frame = int(left.argmax())
        if left[frame] <= 0.0 or len(candidates) > CANDIDATES:
            break
        near = max(1, round(2.0 * ABOUT * fps))
        tried[max(frame - near, 0) : frame + near + 1] = True
        found = _other_branch(problem, poses, frame, dofs, error_of, BETTER * least[frame])
        if found is not None:
            path, _ = followed(problem, found, frame, len(poses), walk)
            candidates.append(path)
            costs.append(error_of(path, EVERY))
            least = np.minimum(least, costs[-1])
    if len(candidates) == 1:
        return poses
    limb = np.stack([path[:, dofs] for path in candidates])
    chosen = _cheapest(np.stack(costs) / fps, limb)
    out = poses.copy()
    out[:, dofs] = _joined(limb, chosen, fps)
    return out


def _other_branch(
    problem: Problem, poses: Floats, frame: int, dofs: np.ndarray, error_of: LimbError, most: float
) -> Floats | None:
    """Return the pose (n,) of a frame with the least error of a limb over random starts; None if it is above `most`."""
    solver = FrameSolver(problem.part(frame, frame + 1))
    rng = np.random.default_rng(frame)
    starts = np.tile(poses[frame], (STARTS, 1))
    lower, upper = (np.clip(bound[dofs], -np.pi, np.pi) for bound in (solver.lower, solver.upper))
    starts[:, dofs] = rng.uniform(lower, upper, (STARTS, len(dofs)))
    solver(SETTLE, starts, home=poses[frame])
    errors = error_of(starts, slice(frame, frame + 1))
    best = int(np.argmin(errors))
    return starts[best] if errors[best] < most else None


def followed(problem: Problem, pose: Floats, frame: int, total: int, walk: FrameOptions) -> tuple[Floats, Floats]:
    """Return poses (T, n) that follow a frame's pose (n,) to the end of the clip and back to its beginning.

    Second, the energy (T,) of every frame.
    """
    out, energies = np.empty((total, len(pose))), np.empty(total)
    energies[frame:] = FrameSolver(problem.part(frame, total))(walk, out[frame:], last=pose)[1][:, ENERGY]
    if frame:
        back, path = problem.part(0, frame), np.empty((frame, len(pose)))
        for name in ("constants", "targets"):
            setattr(back, name, getattr(back, name)[::-1].copy())
        energies[:frame] = FrameSolver(back)(walk, path, last=out[frame])[1][::-1, ENERGY]
        out[:frame] = path[::-1]
    return out, energies


def _cheapest(costs: Floats, limb: Floats) -> np.ndarray:
    """Return the candidate (T,) for every frame, from costs (C, T) [rad^2 s] and values of the limb (C, T, k) [rad]."""
    count, total = costs.shape
    change = np.abs(limb[:, None] - limb[None]).max(axis=-1) * COST / RATE  # (C, C, T)
    best, came = costs[:, 0], np.zeros((count, total), dtype=int)
    for t in range(1, total):
        ways = best[:, None] + change[:, :, t]
        came[:, t] = ways.argmin(axis=0)
        best = ways.min(axis=0) + costs[:, t]
    chosen = np.empty(total, dtype=int)
    chosen[-1] = int(best.argmin())
    for t in range(total - 1, 0, -1):
        chosen[t - 1] = came[chosen[t], t]
    return chosen


def _joined(limb: Floats, chosen: np.ndarray, fps: float) -> Floats:
    """Return the limb's values (T, k) of the chosen candidates, with every change spread over the time it takes."""
    total = len(chosen)
    out = limb[chosen, np.arange(total)]
    for t in np.flatnonzero(np.diff(chosen)):
        before, after = limb[chosen[t]], limb[chosen[t + 1]]
        half = 0.5 * float(np.abs(after[t] - before[t]).max()) / RATE * fps
        a, b = max(int(t - half), 0), min(int(t + half) + 2, total)
        share = np.linspace(0.0, 1.0, b - a)[:, None]
        out[a:b] = (1.0 - share) * before[a:b] + share * after[a:b]
    return out
