"""Trust-region Newton with the exact Hessian inside the box, and Levenberg-Marquardt.

The method of Erleben & Andrews 2018, section 6 (the interior reflective method of Coleman and Li, as in the toolbox
that the authors use), with the options of section 6.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from posable.engine.assemble import energy_at
from posable.engine.bounds import armijo, copy_into, write_trace
from posable.engine.jit import kernel
from posable.engine.layout import DAMPING, DEPTH, ENERGY, EVALUATIONS, UP, Shapes, carver, clear, size_of
from posable.engine.linalg import cholesky, cholesky_solve, dot, eigen_symmetric, matvec
from posable.engine.ltl import multiply, newton_step
from posable.problem import Problem
from posable.solvers.base import CompiledSolver, SolveOptions, refuse_strength, register
from posable.solvers.linear import step_factor
from posable.solvers.loop import (
    ALPHA,
    MAX_STEP,
    METHOD_OPTIONS,
    METHOD_STATE,
    OPTIONS,
    OWN,
    STATIONARY_GAIN,
    DescentSolver,
    accept,
    batch_of,
    common_params,
    differentiate,
    four_vectors,
    restarted,
    strength,
    trial_step,
)

# --- The trust region's quadratic model in scaled variables ---

INTERIOR = 1e-10  # relative to the range: distance that a pose keeps from the bounds
STEP_BACK = 0.995  # of the way to a bound: iterates stay strictly inside


class QuadraticModel(NamedTuple):
    """The quadratic model in the scaled variables, in scratch memory."""

    matrix: np.ndarray  # (n, n): D H D + diag(g) Jv
    factor: np.ndarray  # (n, n): of the banded preconditioner; eigenvectors
    fixed: np.ndarray  # (n,)
    scale: np.ndarray  # (n,): D, the root of the distance to the bound that the gradient points to
    slope: np.ndarray  # (n,): D g
    step: np.ndarray  # (n,): scaled
    residual: np.ndarray  # (n,) of the conjugate gradients
    aided: np.ndarray  # (n,): preconditioned residual
    direction: np.ndarray  # (n,)
    product: np.ndarray  # (n,)
    chosen: np.ndarray  # (n,): the step taken, scaled


MODEL_SHAPES: Shapes = {name: ("n", "n") if k < 2 else ("n",) for k, name in enumerate(QuadraticModel._fields)}
carve_model = carver(QuadraticModel, MODEL_SHAPES, "n")


@kernel
def carve(own, lower, upper, params, b, g):
    """Return a `QuadraticModel` in the scratch memory, and the box."""
    return carve_model(own, 0, lower.shape[0])[0], lower, upper


@kernel
def move_inside(lower, upper, theta):
    """Move a pose strictly inside the box, if the box has an interior."""
    for i in range(theta.shape[0]):
        if lower[i] < upper[i]:
            gap = INTERIOR * min(1.0, upper[i] - lower[i])
            theta[i] = min(max(theta[i], lower[i] + gap), upper[i] - gap)


@kernel
def build_model(order, lower, upper, theta, ws, model):
    """Write the scaling and the model of Coleman and Li from ws.gradient and ws.hessian; return the largest |D g|."""
    n = theta.shape[0]
    largest = 0.0
    for i in range(n):
        g = ws.gradient[i]
        distance, bent = 1.0, 0.0
        if g < 0.0 and upper[i] < math.inf:
            distance, bent = upper[i] - theta[i], -g
        elif g >= 0.0 and lower[i] > -math.inf:
            distance, bent = theta[i] - lower[i], g
        held = not lower[i] < upper[i]
        model.fixed[i] = 1.0 if held else 0.0
        model.scale[i] = 0.0 if held else math.sqrt(max(distance, 0.0))
        model.slope[i] = model.scale[i] * g
        largest = max(largest, abs(model.slope[i]))
        clear(model.matrix[i])
        model.residual[i] = 1.0 if held else bent
    for i in range(n):
        j = i
        while j >= 0:
            value = model.scale[i] * model.scale[j] * ws.hessian[i, order.rows[j, DEPTH]]
            model.matrix[i, j] = value
            model.matrix[j, i] = value
            j = order.rows[j, UP]
    for i in range(n):
        model.matrix[i, i] += model.residual[i]
    return largest


@kernel
def nearest_definite(model, stop):
    """Replace the model's matrix, where it is indefinite, by the nearest positive semidefinite one (Higham 1988)."""
    n = model.slope.shape[0]
    for i in range(n):
        copy_into(model.matrix[i], model.factor[i])
    if cholesky(model.factor, n, 0.0):
        return
    eigen_symmetric(model.matrix, n, model.factor, stop)
    if stop[0] != 0.0:
        return
    top = 0.0
    for i in range(n):
        model.residual[i] = model.matrix[i, i]
        top = max(top, abs(model.matrix[i, i]))
    for i in range(n):
        for j in range(i + 1):
            total = 0.0
            for k in range(n):
                total += model.factor[i, k] * max(model.residual[k], 1e-10 * top) * model.factor[j, k]
            model.matrix[i, j] = total
            model.matrix[j, i] = total


@kernel
def band_preconditioner(model, bandwidth, stop):
    """Factor the part of the matrix within `bandwidth` of the diagonal; damp it until that is positive definite."""
    n = model.slope.shape[0]
    top = 0.0
    for i in range(n):
        top = max(top, abs(model.matrix[i, i]))
    top = max(top, 1e-300)
    shift = 0.0
    for _ in range(40):
        for i in range(n):
            for j in range(i + 1):
                model.factor[i, j] = model.matrix[i, j] if i - j <= bandwidth else 0.0
            model.factor[i, i] += shift
        if cholesky(model.factor, n, 1e-14 * top) or stop[0] != 0.0:
            return
        shift = max(2.0 * shift, 1e-3 * top)


@kernel
def to_boundary(step, direction, radius):
    """Return the positive length along the direction at which the step leaves the trust region."""
    a, b, c = 0.0, 0.0, -radius * radius
    for i in range(step.shape[0]):
        a += direction[i] * direction[i]
        b += step[i] * direction[i]
        c += step[i] * step[i]
    if not a > 0.0:
        return 0.0
    return (-b + math.sqrt(max(0.0, b * b - a * c))) / a


@kernel
def conjugate_gradients(model, radius, tolerance, most, stop):
    """Minimise the model within the radius by preconditioned conjugate gradients, stopped at negative curvature."""
    n = model.slope.shape[0]
    for i in range(n):
        model.step[i] = 0.0
        model.residual[i] = -model.slope[i]
        model.aided[i] = model.residual[i]
    first = dot(model.slope, model.slope)
    cholesky_solve(model.factor, n, model.aided)
    copy_into(model.aided, model.direction)
    rz = dot(model.residual, model.aided)
    for _ in range(int(most)):
        matvec(model.matrix, model.direction, model.product)
        bend = dot(model.direction, model.product)
        reach = to_boundary(model.step, model.direction, radius)
        if not bend > 0.0 or rz / bend >= reach:
            for i in range(n):
                model.step[i] += reach * model.direction[i]
            return
        length = rz / bend
        square = 0.0
        for i in range(n):
            model.step[i] += length * model.direction[i]
            model.residual[i] -= length * model.product[i]
            model.aided[i] = model.residual[i]
            square += model.residual[i] * model.residual[i]
        if not square > tolerance * tolerance * first or stop[0] != 0.0:
            return
        cholesky_solve(model.factor, n, model.aided)
        following = dot(model.residual, model.aided)
        for i in range(n):
            model.direction[i] = model.aided[i] + following / rz * model.direction[i]
        rz = following


@kernel
def to_bound(lower, upper, theta, scale, origin, direction):
    """Return how far along a scaled direction, from the scaled offset `origin`, the first bound is, and whose it is."""
    best, who = math.inf, -1
    for i in range(theta.shape[0]):
        d = scale[i] * direction[i]
        x = theta[i] + scale[i] * origin[i]
        if d > 0.0 and upper[i] < math.inf:
            length = (upper[i] - x) / d
        elif d < 0.0 and lower[i] > -math.inf:
            length = (lower[i] - x) / d
        else:
            continue
        if length < best:
            best, who = max(length, 0.0), i
    return best, who


@kernel
def line_minimum(model, origin, direction, most):
    """Return (t, model value) of the best point origin + t direction with 0 <= t <= most; model.product is lost."""
    n = model.slope.shape[0]
    matvec(model.matrix, direction, model.product)
    a, b = 0.0, 0.0
    for i in range(n):
        a += direction[i] * model.product[i]
        b += direction[i] * model.slope[i] + origin[i] * model.product[i]
    matvec(model.matrix, origin, model.product)
    c = 0.0
    for i in range(n):
        c += origin[i] * (model.slope[i] + 0.5 * model.product[i])
    t = -b / a if a > 0.0 else most
    if a <= 0.0 and b >= 0.0 and 0.5 * a * most + b >= 0.0:
        t = 0.0
    t = min(max(t, 0.0), most)
    return t, c + t * (b + 0.5 * a * t)


@kernel
def choose_step(lower, upper, theta, model, radius):
    """Write into model.chosen the best of three: the step cut at the first bound, reflected there, or the gradient's.

    Returns the model's value there, negative where it goes down.
    """
    n = theta.shape[0]
    zero, ray = model.residual, model.direction
    clear(zero)
    reach, who = to_bound(lower, upper, theta, model.scale, zero, model.step)
    if reach >= 1.0:
        length, value = line_minimum(model, zero, model.step, 1.0 if reach > 1.0 / STEP_BACK else STEP_BACK * reach)
        for i in range(n):
            model.chosen[i] = length * model.step[i]
        return value
    length, value = line_minimum(model, zero, model.step, STEP_BACK * reach)
    for i in range(n):
        model.chosen[i] = length * model.step[i]
    for i in range(n):  # reflect at the bound that was met
        zero[i] = reach * model.step[i]
        ray[i] = -model.step[i] if i == who else model.step[i]
    most = min(STEP_BACK * to_bound(lower, upper, theta, model.scale, zero, ray)[0], to_boundary(zero, ray, radius))
    if most > 0.0:
        length, other = line_minimum(model, zero, ray, most)
        inside = length > (1.0 - STEP_BACK) * reach  # off the bound that it was reflected at
        if inside and other < value:
            value = other
            for i in range(n):
                model.chosen[i] = zero[i] + length * ray[i]
    clear(zero)
    for i in range(n):
        ray[i] = -model.slope[i]
    reach, size = to_bound(lower, upper, theta, model.scale, zero, ray)[0], math.sqrt(max(dot(ray, ray), 1e-300))
    most = min(STEP_BACK * reach, radius / size)
    length, other = line_minimum(model, zero, ray, most)
    if other < value:
        value = other
        for i in range(n):
            model.chosen[i] = length * ray[i]
    return value


@kernel
def bounded(lower, upper, gradient, i):
    """Return 1 where the gradient of dof i points to a bound that exists."""
    held = not lower[i] < upper[i]
    points = (gradient < 0.0 and upper[i] < math.inf) or (gradient >= 0.0 and lower[i] > -math.inf)
    return 1.0 if points and not held else 0.0


# --- Trust-region Newton with the exact Hessian inside the box ---

RADIUS = OWN  # column of the state: the trust region's, in the scaled variables
# Columns of the params. STOP: set from another thread when the time is up, because one step on n dofs takes O(n^3)
FIRST_RADIUS, PCG_TOLERANCE, PCG_MOST, BANDWIDTH, NEAREST, STOP = range(OPTIONS, OPTIONS + 6)

TRIES = 30
LARGEST_RADIUS = 100.0


@kernel
def trust_region_step(figure, order, springs, lower, upper, theta, ws, model, state, params, trace):
    """Make one accepted step, in place; return whether there was one. The radius follows the gain ratio.

    Without time left it does nothing and returns True, which means that more steps may follow.
    """
    n, stop = theta.shape[0], params[STOP : STOP + 1]
    before = state[ENERGY]
    if restarted(state):
        state[RADIUS] = params[FIRST_RADIUS]
        move_inside(lower, upper, theta)
        before = state[ENERGY] = energy_at(figure, springs, theta, ws)
    differentiate(figure, order, springs, lower, upper, theta, ws, model.fixed, params, 1.0)
    largest = build_model(order, lower, upper, theta, ws, model)
    moved = False
    slope, length = 0.0, 0.0
    if params[NEAREST] != 0.0:
        nearest_definite(model, stop)
    band_preconditioner(model, int(params[BANDWIDTH]), stop)
    for _ in range(TRIES):
        conjugate_gradients(model, state[RADIUS], params[PCG_TOLERANCE], params[PCG_MOST], stop)
        if stop[0] != 0.0:
            return True
        value = choose_step(lower, upper, theta, model, state[RADIUS])
        size = 0.0
        slope, length = 0.0, 0.0
        for i in range(n):
            ws.trial[i] = theta[i] + model.scale[i] * model.chosen[i]
            size += model.chosen[i] * model.chosen[i]
        move_inside(lower, upper, ws.trial)
        for i in range(n):
            slope += ws.gradient[i] * (ws.trial[i] - theta[i])
            length = max(length, abs(ws.trial[i] - theta[i]))
        size = math.sqrt(size)
        if not -value > STATIONARY_GAIN * before or not length > 0.0:
            break
        after = energy_at(figure, springs, ws.trial, ws)
        state[EVALUATIONS] += 1.0
        bend = 0.0  # without the part of the model that the box adds
        for i in range(n):
            bend += (
                0.5 * model.chosen[i] * model.chosen[i] * abs(ws.gradient[i]) * bounded(lower, upper, ws.gradient[i], i)
            )
        ratio = (before - after - bend) / -value
        if ratio > 0.75 and size > 0.8 * state[RADIUS]:
            state[RADIUS] = min(2.0 * state[RADIUS], LARGEST_RADIUS)
        elif not ratio > 0.25:
            state[RADIUS] = 0.25 * min(state[RADIUS], size)
        if after < before and ratio > 1e-4:
            accept(figure, lower, upper, theta, ws, state, after)
            moved = True
            break
    if not moved:
        slope, length = 0.0, 0.0
    write_trace(trace, state, largest, length, state[RADIUS], model.fixed, slope, before)
    return moved


@register("trust-region")
@dataclass(frozen=True, kw_only=True)
class TrustRegion(CompiledSolver):
    """Trust-region Newton with the exact Hessian and interior reflection (Erleben & Andrews 2018, 6.2 to 6.7).

    The variables are scaled by the root of the distance to the bound that the gradient points to; the quadratic model
    is minimised within the radius by conjugate gradients; a step that meets a bound is cut there or reflected, and
    iterates stay strictly inside (Coleman & Li 1996).

    Args:
        radius: The first one.
        tolerance: Of the conjugate gradients, relative.
        most: Iterations of the conjugate gradients; n^2 by default.
        bandwidth: Of the preconditioner, 0 for the diagonal; the paper's choice is 24.
        indefinite: "nearest" replaces an indefinite Hessian by the nearest positive semidefinite matrix (Higham 1988);
            "curvature" follows its negative curvature to the edge of the region.
    """

    radius: float = 1.0
    tolerance: float = 0.1
    most: int | None = None
    bandwidth: int = 24
    indefinite: str = "nearest"

    name: ClassVar[str] = "trust-region"
    summary: ClassVar[str] = "trust-region Newton with the exact Hessian and interior reflection"
    iterations: ClassVar[int] = 200
    stop_column: ClassVar[int | None] = STOP
    loop: ClassVar = staticmethod(batch_of("trust_region", trust_region_step, carve))

    def __post_init__(self):
        self.require("radius", self.radius > 0.0, "a positive number")
        self.require("tolerance", 0.0 < self.tolerance < 1.0, "a number between 0 and 1")
        self.require("most", self.most is None or self.most >= 1, "None or a positive integer")
        self.require("bandwidth", self.bandwidth >= 0, "a non-negative integer")
        self.require("indefinite", self.indefinite in ("nearest", "curvature"), "'nearest' or 'curvature'")

    def check(self, problem: Problem) -> None:
        """Raise SolverError where joints differ in strength: the exact model decides, and not the region's metric."""
        refuse_strength(problem, "trust-region")

    def memory(self, problem: Problem) -> int:
        """Return the scratch memory of the engine and of the dense model."""
        n = problem.skeleton.size
        return problem.work_size + problem.once("trust region", lambda: size_of(MODEL_SHAPES, n=n))

    def params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the params of the loop."""
        n = problem.skeleton.size
        most = max(n * n, 1) if self.most is None else self.most
        own = (self.radius, self.tolerance, most, self.bandwidth, float(self.indefinite == "nearest"), 0.0)
        return common_params(problem, options, self.iterations, own)


# --- Levenberg-Marquardt: damped Gauss-Newton, with the damping set by the quality of the quadratic model ---

GROWTH = METHOD_STATE  # growth of the damping at the next rejection


@kernel
def damping_metric(order, hessian, scale, marquardt, params):
    """Write the metric of the damping (n,): the diagonal of the Hessian (Marquardt), or its mean (Levenberg).

    A joint of strength s is damped by 1 / s^2 of it.
    """
    n = scale.shape[0]
    mean = 0.0
    for i in range(n):
        scale[i] = hessian[i, order.rows[i, DEPTH]]
        mean += scale[i] / n
    for i in range(n):
        scale[i] = max(scale[i], 1e-6 * mean, 1e-300) if marquardt else max(mean, 1e-300)
        s = strength(params, n, i)
        scale[i] /= s * s


@kernel
def levenberg_marquardt_step(figure, order, springs, lower, upper, theta, ws, vectors, state, params, trace):
    """Make one accepted step, in place; return whether there was one.

    The damping follows Nielsen: after a gain ratio r it is multiplied by max(1/3, 1 - (2r - 1)^3), after rejections by
    2, 4, 8, ...
    """
    n = theta.shape[0]
    fixed, scale, step, product = vectors[0], vectors[1], vectors[2], vectors[3]
    direction, still = ws.step, ws.spare
    clear(still)
    before = state[ENERGY]
    if restarted(state):
        state[DAMPING], state[GROWTH] = params[METHOD_OPTIONS], 2.0
    largest = differentiate(figure, order, springs, lower, upper, theta, ws, fixed, params, 0.0)
    damping_metric(order, ws.hessian, scale, params[METHOD_OPTIONS + 1] != 0.0, params)
    slope, length = 0.0, 0.0
    moved = False
    for _ in range(40):
        if newton_step(
            order, ws.hessian, ws.gradient, fixed, scale, state[DAMPING], still, ws.factor, direction, ws.path
        ):
            slope, length = trial_step(lower, upper, theta, direction, step_factor(direction, params[MAX_STEP]), ws)
            for i in range(n):
                step[i] = ws.trial[i] - theta[i]
            multiply(order, ws.hessian, step, product, ws.path)
            predicted = -slope
            for i in range(n):
                predicted -= 0.5 * step[i] * product[i]
            if not length > 0.0 or not -slope > STATIONARY_GAIN * before:
                break
            after = energy_at(figure, springs, ws.trial, ws)
            state[EVALUATIONS] += 1.0
            if after < before and armijo(before, after, slope, params[ALPHA]):
                if not predicted > -0.1 * slope:  # a projected step may climb the model
                    predicted = -0.5 * slope
                ratio = (before - after) / predicted
                state[DAMPING] = max(state[DAMPING] * max(1.0 / 3.0, 1.0 - (2.0 * ratio - 1.0) ** 3), 1e-12)
                state[GROWTH] = 2.0
                moved = True
                accept(figure, lower, upper, theta, ws, state, after)
                break
        state[DAMPING] = max(state[DAMPING], 1e-9) * state[GROWTH]
        state[GROWTH] *= 2.0
        if not state[DAMPING] < 1e12:
            break
    if not moved:
        state[DAMPING], state[GROWTH] = params[METHOD_OPTIONS], 2.0
        slope, length = 0.0, 0.0
    write_trace(trace, state, largest, length, state[DAMPING], fixed, slope, before)
    return moved


@register("levenberg-marquardt")
@dataclass(frozen=True, kw_only=True)
class LevenbergMarquardt(DescentSolver):
    """Levenberg-Marquardt: (J'WJ + damping D) step = -grad E, with the Gauss-Newton stiffness.

    (Engell-Nørregård & Erleben 2011, eq. 15.) The matrix is that of Erleben & Andrews (2018, eq. 14) without its second
    term. Bounds at which the gradient pushes outward are held, the step is projected, and the projected Armijo test
    (eq. 39) accepts it.

    Args:
        damping: Of the first step, relative to D.
        scale: "marquardt": D is the diagonal of the stiffness; "levenberg": its mean.
    """

    damping: float = 1e-3
    scale: str = "levenberg"

    name: ClassVar[str] = "levenberg-marquardt"
    summary: ClassVar[str] = "damped Gauss-Newton with the gain ratio"
    iterations: ClassVar[int] = 300
    loop: ClassVar = staticmethod(batch_of("levenberg_marquardt", levenberg_marquardt_step, four_vectors))

    def __post_init__(self):
        super().__post_init__()
        self.require("damping", self.damping > 0.0, "a positive number")
        self.require("scale", self.scale in ("levenberg", "marquardt"), "'levenberg' or 'marquardt'")

    def own_params(self) -> tuple[float, ...]:
        """Return the first damping and its metric."""
        return (self.damping, float(self.scale == "marquardt"))
