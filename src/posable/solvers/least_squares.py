"""Jacobian methods: transpose, pseudo-inverse, QR, SVD, damped and selectively damped least squares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from posable.engine.jit import kernel
from posable.engine.layout import DAMPING, SPRING_KIND
from posable.engine.linalg import (
    cholesky,
    cholesky_solve,
    dot,
    lu_factor,
    lu_solve,
    matvec_transposed,
    qr_factor,
    qr_least_norm,
    qr_least_squares,
    svd_rows,
)
from posable.engine.residuals import rows_of
from posable.solvers.base import register
from posable.solvers.linear import FIRST_OPTION, ROWS, SECOND_OPTION, LinearSolver, linear_batch_of, per_dof

# --- The transpose of the Jacobian ---


@kernel
def deviation(lin):
    """Return |(I - JJ+) e|: how far a displacement is from what the linear model can produce; lin.step is lost."""
    m, n = lin.active.shape
    solve_rows(lin, 0.0, 1e-12)
    square = 0.0
    for k in range(m):
        left = lin.right[k]
        for i in range(n):
            left -= lin.active[k, i] * lin.step[i]
        square += left * left
    return math.sqrt(square)


@kernel
def solve_transpose(springs, lin, state, params):
    """Write lin.step = tau J' V; tau is `length` or, if that is zero, Buss's optimum for the linear model (28).

    If `length` is negative, Buss's tau is shortened until the deviation from the linear model is at most epsilon (29).
    """
    length = params[FIRST_OPTION]
    m, n = lin.active.shape
    most = math.inf
    if length < 0.0:
        off = deviation(lin)
        most = params[SECOND_OPTION] / off if off > 0.0 else math.inf
    matvec_transposed(lin.active, lin.right, lin.step)
    if length <= 0.0:
        top, bottom = 0.0, 0.0
        for k in range(m):
            z = dot(lin.active[k], lin.step)
            top += lin.right[k] * z
            bottom += z * z
        length = min(top / bottom if bottom > 0.0 else 0.0, most)
    for i in range(n):
        lin.step[i] *= length


@register("transpose")
@dataclass(frozen=True, kw_only=True)
class Transpose(LinearSolver):
    """The Jacobian's transpose: step = tau J' K e.

    (Engell-Nørregård & Erleben 2011, eq. 27; Parent, Kinematic Linkages.) There is no null space to control: `gains`
    is refused.

    Args:
        step: tau. A number is fixed, in radians per square length, as in the papers' comparisons; "buss" is
            tau = e.z / z.z with z = JJ'e (eq. 28); "deviation" is the largest tau up to that one with
            |(I - JJ+) tau e| <= epsilon (eq. 29, whose printed bracket is misplaced).
        epsilon: [m, rad] Of "deviation".
    """

    step: float | str = "buss"
    epsilon: float = 1e-2

    name: ClassVar[str] = "transpose"
    summary: ClassVar[str] = "Jacobian transpose, with a fixed step or Buss's"
    iterations: ClassVar[int] = 2000
    loop: ClassVar = staticmethod(linear_batch_of("transpose", solve_transpose))

    def __post_init__(self):
        super().__post_init__()
        good = self.step in STEP_LENGTHS or (isinstance(self.step, (int, float)) and self.step > 0.0)
        self.require("step", good, "a positive number, 'buss' or 'deviation'")
        self.require("epsilon", self.epsilon > 0.0, "a positive number")

    def check(self, problem) -> None:
        """Raise SolverError for gains as well: J' has no null-space projector."""
        super().check(problem)
        none = not per_dof(self.gains, problem, "transpose: gains").any()
        self.require("gains", none, "none: it has no null space")

    def own_params(self) -> tuple[float, ...]:
        """Return the step length, zero or less if a formula gives it, and epsilon."""
        return (STEP_LENGTHS[self.step] if isinstance(self.step, str) else float(self.step), self.epsilon)


STEP_LENGTHS = {"buss": 0.0, "deviation": -1.0}


# --- The pseudo-inverse of the Jacobian ---


@kernel
def solve_rows(lin, square, relative):
    """Write lin.step = J' (JJ' + square)^-1 right, by LU (Parent, eq. 5.24; Rabbani 2017, eq. 35).

    If rows are dependent, JJ' is singular; the dependent ones are dropped pivot by pivot, below the fraction `relative`
    of the largest.
    """
    m, n = lin.active.shape
    a, beta = lin.first, lin.vectors[2]
    for k in range(m):
        for j in range(m):
            total = square if k == j else 0.0
            for i in range(n):
                total += lin.active[k, i] * lin.active[j, i]
            a[k, j] = total
    rank = lu_factor(a, m, lin.vectors[0], lin.vectors[1], relative)
    lu_solve(a, m, rank, lin.vectors[0], lin.vectors[1], lin.right, beta, lin.vectors[3])
    matvec_transposed(lin.active, beta[:m], lin.step)


@kernel
def solve_pseudoinverse(springs, lin, state, params):
    """Write lin.step = J' (JJ')^-1 right (Parent, Kinematic Linkages, eqs. 5.21 to 5.23)."""
    solve_rows(lin, 0.0, params[FIRST_OPTION])


@dataclass(frozen=True, kw_only=True)
class _RankSolver(LinearSolver):
    """A method that treats what is below a fraction of the largest as zero: its own option."""

    numbers: ClassVar[tuple[str, ...]] = ("relative",)

    def __post_init__(self):
        super().__post_init__()
        self.require(self.numbers[0], 0.0 <= self.own_params()[0] < 1.0, "a number in [0, 1)")


@register("pseudoinverse")
@dataclass(frozen=True, kw_only=True)
class Pseudoinverse(_RankSolver):
    """The pseudo-inverse: step = J' (JJ')^-1 V, solved by LU without forming an inverse.

    (Parent, Kinematic Linkages, eqs. 5.21 to 5.23.) Near a singular pose its steps grow without bound; `max_step` is
    the clamp that Parent recommends.

    Args:
        relative: Pivots of JJ' below this fraction of the largest count as zero.
    """

    relative: float = 1e-12

    name: ClassVar[str] = "pseudoinverse"
    summary: ClassVar[str] = "pseudo-inverse of the Jacobian by LU"
    loop: ClassVar = staticmethod(linear_batch_of("pseudoinverse", solve_pseudoinverse))


# --- The pseudo-inverse by QR factorisation ---


@kernel
def solve_qr(springs, lin, state, params):
    """Write lin.step by QR: of J' if rows do not outnumber dofs (the shortest step), else of J (least squares)."""
    relative = params[FIRST_OPTION]
    m, n = lin.active.shape
    if m > n:
        rank = qr_factor(lin.active, m, n, lin.vectors[0], lin.vectors[1], relative)
        qr_least_squares(lin.active, m, n, rank, lin.vectors[0], lin.vectors[1], lin.right, lin.step)
        return
    a = lin.first
    for k in range(m):
        for i in range(n):
            a[i, k] = lin.active[k, i]
    rank = qr_factor(a, n, m, lin.vectors[0], lin.vectors[1], relative)
    qr_least_norm(a, n, rank, lin.vectors[0], lin.vectors[1], lin.right, lin.step)


@register("qr")
@dataclass(frozen=True, kw_only=True)
class Qr(_RankSolver):
    """QR factorisation: J = QR, y = Q'V, R step = y (Rabbani 2017, figure 8).

    With fewer rows than degrees of freedom J' is factored and the step is the shortest one.

    Args:
        relative: Columns are pivoted; those shorter than this fraction of the first are dropped.
    """

    relative: float = 1e-6

    name: ClassVar[str] = "qr"
    summary: ClassVar[str] = "pseudo-inverse by Householder QR"
    loop: ClassVar = staticmethod(linear_batch_of("qr", solve_qr))


# --- The pseudo-inverse through singular values ---


@kernel
def singular_values(lin, u, squares):
    """Decompose lin.active as `svd_rows` does; write the squares of its singular values (m,), return the largest."""
    m, n = lin.active.shape
    svd_rows(lin.active, m, n, u)
    largest = 0.0
    for k in range(m):
        squares[k] = dot(lin.active[k], lin.active[k])
        largest = max(largest, squares[k])
    return largest


@kernel
def solve_svd(springs, lin, state, params):
    """Write lin.step = sum of v_i (u_i . right) / sigma_i over the larger singular values (Rabbani 2017, fig. 8)."""
    threshold = params[FIRST_OPTION]
    m, n = lin.active.shape
    u, squares = lin.first, lin.vectors[0]
    largest = singular_values(lin, u, squares)
    for i in range(n):
        lin.step[i] = 0.0
    for k in range(m):
        if squares[k] > threshold * threshold * largest:
            dot = 0.0
            for j in range(m):
                dot += u[j, k] * lin.right[j]
            for i in range(n):
                lin.step[i] += lin.active[k, i] * dot / squares[k]


@register("svd")
@dataclass(frozen=True, kw_only=True)
class Svd(_RankSolver):
    """The pseudo-inverse by singular values: J = U S V', step = V S+ U' V.

    (Rabbani 2017, figure 8; Engell-Nørregård & Erleben 2011, section 2.)

    Args:
        threshold: Singular values below this fraction of the largest count as zero.
        bounds: "final": the limits count only at the end, by projection of the final pose, as Engell-Nørregård &
            Erleben (2011) describe Blender's solver. "inside" and "clamp" do better.
    """

    threshold: float = 1e-3
    bounds: str = "final"

    name: ClassVar[str] = "svd"
    summary: ClassVar[str] = "pseudo-inverse by singular values, projecting the final pose"
    numbers: ClassVar[tuple[str, ...]] = ("threshold",)
    loop: ClassVar = staticmethod(linear_batch_of("svd", solve_svd))


# --- Damped least squares ---


@kernel
def solve_columns(lin, square):
    """Write lin.step = (J'J + square)^-1 J' right, by Cholesky: the same step, for many goals.

    (Engell-Nørregård & Erleben 2011, eq. 15.)
    """
    m, n = lin.active.shape
    a = lin.first
    for i in range(n):
        for j in range(i + 1):
            total = square if i == j else 0.0
            for k in range(m):
                total += lin.active[k, i] * lin.active[k, j]
            a[i, j] = total
    matvec_transposed(lin.active, lin.right, lin.step)
    if cholesky(a, n, 0.0):
        cholesky_solve(a, n, lin.step)
    else:
        for i in range(n):
            lin.step[i] = 0.0


@kernel
def solve_dls(springs, lin, state, params):
    """Write lin.step in the smaller of the two forms."""
    state[DAMPING] = params[FIRST_OPTION]  # for the trace
    square = params[FIRST_OPTION] * params[FIRST_OPTION]
    if params[SECOND_OPTION] != 0.0:
        solve_columns(lin, square)
    else:
        solve_rows(lin, square, 1e-15)


@register("dls")
@dataclass(frozen=True, kw_only=True)
class Dls(LinearSolver):
    """Damped least squares: step = J' (JJ' + damping^2 1)^-1 V.

    (Parent, Kinematic Linkages, eq. 5.24; Engell-Nørregård & Erleben 2011, eq. 15; Rabbani 2017, eq. 35.)

    Args:
        damping: lambda, in the units of the weighted residuals per radian; large damping is safe and slow. (Rabbani
            writes lambda for its square.)
        form: "rows" solves Parent's form by LU, "columns" the other by Cholesky: the same step, cheaper where there
            are more goals than degrees of freedom. "auto" takes the smaller matrix.
    """

    damping: float = 0.05
    form: str = "auto"

    name: ClassVar[str] = "dls"
    summary: ClassVar[str] = "damped least squares"
    numbers: ClassVar[tuple[str, ...]] = ("damping",)
    loop: ClassVar = staticmethod(linear_batch_of("dls", solve_dls))

    def __post_init__(self):
        super().__post_init__()
        self.require("damping", self.damping > 0.0, "a positive number")
        self.require("form", self.form in ("auto", "rows", "columns"), "'auto', 'rows' or 'columns'")

    def params(self, problem, options):
        """Return the params of the loop, with the smaller form chosen."""
        out = super().params(problem, options)
        out[SECOND_OPTION] = self.form == "columns" or (self.form == "auto" and out[ROWS] > problem.skeleton.size)
        return out


# --- Selectively damped least squares ---


@kernel
def sum_over_effectors(springs, u, column, m):
    """Return the sum over the effectors of the lengths of their blocks in a column of u (m, ...)."""
    total = 0.0
    row = 0
    for k in range(springs.kind.shape[0]):
        rows = rows_of(springs.kind[k, SPRING_KIND], 1)
        square = 0.0
        for j in range(row, row + rows):
            square += u[j, column] * u[j, column]
        total += math.sqrt(square)
        row += rows
    for j in range(row, m):
        total += abs(u[j, column])
    return total


@kernel
def solve_sdls(springs, lin, state, params):
    """Write lin.step: the sum over the singular vectors, each clamped to its own largest angle, then in total."""
    most = params[FIRST_OPTION]
    m, n = lin.active.shape
    u, speeds = lin.first, lin.vectors[0]
    for i in range(n):
        speeds[i] = sum_over_effectors(springs, lin.active, i, m)  # of |d s / d theta_i|
    squares = lin.vectors[1]
    largest = singular_values(lin, u, squares)
    for i in range(n):
        lin.step[i] = 0.0
    for k in range(m):
        square = squares[k]
        if not square > 1e-20 * largest:
            continue
        sigma = math.sqrt(square)
        reach = 0.0
        for i in range(n):
            reach += abs(lin.active[k, i]) / sigma * speeds[i]
        reach /= sigma
        share = sum_over_effectors(springs, u, k, m)
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
    """Selectively damped least squares (Buss & Kim 2005).

    With J = sum of sigma_i u_i v_i', alpha_i = u_i.V, N_i the lengths of u_i's blocks and M_i = sum_j |v_ji| sum_l
    |ds_l/dtheta_j| / sigma_i, the step is the sum of alpha_i v_i / sigma_i, each clamped to max_angle min(1, N_i/M_i).

    Args:
        max_angle: [rad] gamma_max, of each singular vector and of the whole step.
        clamp: [m, rad] Largest error of a goal that one step tries to correct.
    """

    max_angle: float = math.pi / 4.0
    clamp: float = 0.5

    name: ClassVar[str] = "sdls"
    summary: ClassVar[str] = "selectively damped least squares (Buss and Kim)"
    numbers: ClassVar[tuple[str, ...]] = ("max_angle",)
    loop: ClassVar = staticmethod(linear_batch_of("sdls", solve_sdls))

    def __post_init__(self):
        super().__post_init__()
        self.require("max_angle", self.max_angle > 0.0, "a positive number")
