"""What the goals of a problem say of many poses."""

from __future__ import annotations

import numpy as np

from posable.kernels.compiler import entry
from posable.kernels.fields import Springs
from posable.kernels.gather import energy_at
from posable.kernels.kinematics import workspace
from posable.problem import Problem


@entry
def judge_batch(figure, kind, data, pull, home, poses, work, d, errors):
    """Write the errors (t, g) of every spring at poses (t, n); data (t, g, WIDTH), or (1, g, WIDTH) for all."""
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    for t in range(poses.shape[0]):
        springs = Springs(kind, data[t % data.shape[0]], pull, home)
        energy_at(figure, springs, poses[t], ws)
        for k in range(g):
            errors[t, k] = ws.error[k]


def errors_batch(problem: Problem, poses: np.ndarray) -> np.ndarray:
    """Return the errors (t, g) [m, rad] of every spring at poses (t, n)."""
    errors = np.empty((poses.shape[0], len(problem.springs)))
    judge_batch(
        problem.skeleton.figure, problem.kind, problem.data, problem.pull, problem.home,
        np.ascontiguousarray(poses), np.empty(problem.work_size), problem.depth, errors,
    )  # fmt: skip
    return errors
