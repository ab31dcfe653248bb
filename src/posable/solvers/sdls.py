"""Selectively damped least squares: each singular vector damped by how far it would throw the effectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from posable.errors import SolverError
from posable.kernels.compiler import kernel
from posable.kernels.dense import svd_rows
from posable.kernels.fields import SPRING
from posable.kernels.residuals import rows_of
from posable.solvers.linear import (
    FIRST_OPTION,
    LinearSolver,
    linear_batch_of,
)
from posable.solvers.solver import register


@kernel
def effector_speeds(springs, lin, speeds):
    """Write for each dof the sum over the effectors of |d s / d theta_j| into speeds (n,)."""
    m, n = lin.active.shape
    for i in range(n):
        speeds[i] = 0.0
        row = 0
        for k in range(springs.kind.shape[0]):
            rows = rows_of(springs.kind[k, SPRING], 1)
            square = 0.0
            for j in range(row, row + rows):
                square += lin.active[j, i] * lin.active[j, i]
            speeds[i] += math.sqrt(square)
            row += rows
        for j in range(row, m):
            speeds[i] += abs(lin.active[j, i])


@kernel
def effector_share(springs, u, column, m):
    """Return N: the sum over the effectors of the lengths of a left singular vector's blocks."""
    total = 0.0
    row = 0
    for k in range(springs.kind.shape[0]):
        rows = rows_of(springs.kind[k, SPRING], 1)
        square = 0.0
        for j in range(row, row + rows):
            square += u[j, column] * u[j, column]
        total += math.sqrt(square)
        row += rows
    for j in range(row, m):
        total += abs(u[j, column])
    return total


@kernel
def solve_sdls(springs, lin, state, limits):
    """Write lin.step: the sum over the singular vectors, each clamped to its own largest angle, then clamped whole."""
    most = limits[FIRST_OPTION]
    m, n = lin.active.shape
    u, speeds = lin.first, lin.vectors[0]
    effector_speeds(springs, lin, speeds)
    svd_rows(lin.active, m, n, u)
    largest = 0.0
    for k in range(m):
        lin.vectors[1, k] = 0.0
        for i in range(n):
            lin.vectors[1, k] += lin.active[k, i] * lin.active[k, i]
        largest = max(largest, lin.vectors[1, k])
    for i in range(n):
        lin.step[i] = 0.0
    for k in range(m):
        square = lin.vectors[1, k]
        if not square > 1e-20 * largest:
            continue
        sigma = math.sqrt(square)
        reach = 0.0
        for i in range(n):
            reach += abs(lin.active[k, i]) / sigma * speeds[i]
        reach /= sigma
        share = effector_share(springs, u, k, m)
        gamma = most * min(1.0, share / reach) if reach > 0.0 else most
        dot = 0.0
        for j in range(m):
            dot += u[j, k] * lin.right[j]
        peak = 0.0
        for i in range(n):
            peak = max(peak, abs(lin.active[k, i] * dot / square))
        factor = dot / square * (gamma / peak if peak > gamma else 1.0)
        for i in range(n):
            lin.step[i] += lin.active[k, i] * factor
    peak = 0.0
    for i in range(n):
        peak = max(peak, abs(lin.step[i]))
    if peak > most:
        for i in range(n):
            lin.step[i] *= most / peak


@register("sdls")
@dataclass(frozen=True, kw_only=True)
class Sdls(LinearSolver):
    """Selectively damped least squares: Buss and Kim, Journal of Graphics Tools 10(3), 2005; reference [2] of seed 002.

    With J = sum of sigma_i u_i v_i', alpha_i = u_i.V, N_i the lengths of u_i's blocks and M_i = sum_j |v_ji| sum_l
    |ds_l/dtheta_j| / sigma_i, the step is the sum of alpha_i v_i / sigma_i, each clamped to max_angle min(1, N_i/M_i).
    max_angle [rad]: gamma_max, of each singular vector and of the whole step.
    """

    max_angle: float = math.pi / 4.0
    clamp: float = 0.5

    name: ClassVar[str] = "sdls"
    summary: ClassVar[str] = "selectively damped least squares (Buss and Kim)"
    loop: ClassVar = staticmethod(linear_batch_of("sdls", solve_sdls))

    def __post_init__(self):
        super().__post_init__()
        if not self.max_angle > 0.0:
            raise SolverError("sdls: max_angle", expected="a positive number", got=repr(self.max_angle))

    def options(self) -> tuple[float, ...]:
        """Return gamma_max."""
        return (self.max_angle,)
