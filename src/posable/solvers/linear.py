"""Common parts of the linear family: stacked residuals and Jacobian, control term, bounds, step.

Each of these methods seeks a small step that changes the residuals r by V = -K r (Tolani et al. 2000, section 2.2,
item 5) and takes step = J# (V + J z) - z, where J# is its own generalised inverse and z the control term of Parent
(5.28)-(5.31): z_i = gain_i (theta_i - toward_i), linear, because the square printed in (5.27) would lose the sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from posable.engine.assemble import energy_at
from posable.engine.bounds import copy_into, recentre_all, write_trace
from posable.engine.jit import kernel, with_names
from posable.engine.layout import (
    AT,
    AXES,
    BODY_A,
    BODY_B,
    DAMPING,
    ENERGY,
    EVALUATIONS,
    ROBUST,
    SPRING_KIND,
    carver,
    shapes_of,
    size_of,
)
from posable.engine.reference import vector_columns
from posable.engine.residuals import combine, residual_rows, rows_of, stack_residuals
from posable.engine.springs import ANGLE_SPRINGS, POINT_SPRING
from posable.errors import SolverError
from posable.problem import Problem
from posable.solvers.base import CompiledSolver, SolveOptions
from posable.solvers.loop import OPTIONS, STATIONARY_GAIN, batch_of, common_params

# Columns of the params, after those of loop.py; then OWN_OPTIONS numbers of the method, then vectors (see `linear`)
(
    ROWS, BOUNDS, MAX_STEP, CLAMP, K_LENGTH, K_ANGLE, PULL_GOAL, CONTROL,
    FIRST_OPTION, SECOND_OPTION, THIRD_OPTION, VECTORS,
) = range(OPTIONS, OPTIONS + 12)  # fmt: skip
INSIDE, OUTSIDE, AT_END = 0.0, 1.0, 2.0
BOUNDS_NAMES = {"inside": INSIDE, "clamp": OUTSIDE, "final": AT_END}
PASSES = 4  # repeated solves of a step because a dof reached its bound


class Linear(NamedTuple):
    """The linear problem at one pose, in scratch memory; k = max(m, n)."""

    residual: Annotated[np.ndarray, "m"]
    jacobian: Annotated[np.ndarray, "m", "n"]  # of the residuals
    active: Annotated[
        np.ndarray, "m", "n"
    ]  # columns times the joints' strength, 0 where stopped; methods may overwrite it
    right: Annotated[np.ndarray, "m"]  # wanted change of the residuals; methods may overwrite it
    wanted: Annotated[np.ndarray, "m"]  # V + J z
    step: Annotated[np.ndarray, "n"]
    control: Annotated[np.ndarray, "n"]  # z
    stopped: Annotated[np.ndarray, "n"]  # 1 where a dof is fixed at its bound
    moved: Annotated[np.ndarray, "n"]  # the step of a stopped dof
    low: Annotated[np.ndarray, "n"]  # the box during the solve
    high: Annotated[np.ndarray, "n"]
    first: Annotated[np.ndarray, "k", "k"]  # the method's own
    vectors: Annotated[np.ndarray, 4, "k"]
    gains: Annotated[np.ndarray, "n"]  # of the control term
    toward: Annotated[np.ndarray, "n"]  # [rad, m]
    strength: Annotated[np.ndarray, "n"]  # of the joints
    roots: Annotated[np.ndarray, "g", 9]  # of the springs' weights


LINEAR_SHAPES = shapes_of(Linear)
carve_linear = carver(Linear, LINEAR_SHAPES, "m, n, k, g")


@kernel
def linear(own, lower, upper, params, b, g):
    """Return a `Linear` in the scratch memory, with its numbers of the params, and the box of the solve."""
    m, n, v = int(params[ROWS]), lower.shape[0], VECTORS
    lin, _ = carve_linear(own, 0, m, n, max(m, n), g)
    for i in range(n):
        lin.gains[i], lin.toward[i], lin.strength[i] = params[v + i], params[v + n + i], params[v + 2 * n + i]
    for k in range(g):
        copy_into(params[v + 3 * n + 9 * k : v + 3 * n + 9 * k + 9], lin.roots[k])
    working_box(lower, upper, params, lin)
    return lin, lin.low, lin.high


@kernel
def working_box(lower, upper, params, lin):
    """Set the box of the solve: the limits, or only the frozen dofs if limits are applied at the end."""
    at_end = params[BOUNDS] == AT_END
    for i in range(lower.shape[0]):
        free = at_end and lower[i] < upper[i]
        lin.low[i] = -math.inf if free else lower[i]
        lin.high[i] = math.inf if free else upper[i]


@kernel
def linearise(figure, springs, theta, ws, params, lin):
    """Write residuals, Jacobian and the wanted change at a pose whose bodies are placed."""
    m, n = lin.jacobian.shape
    stack_residuals(figure, springs, lin.roots, theta, ws, 1, lin.residual, lin.jacobian)
    if params[PULL_GOAL] != 0.0:
        pull_goals(figure, springs, ws, lin)
    write_wanted_change(springs, params, lin)
    for i in range(n):
        lin.control[i] = lin.gains[i] * (theta[i] - lin.toward[i]) if lin.low[i] < lin.high[i] else 0.0
        lin.stopped[i] = 0.0 if lin.low[i] < lin.high[i] else 1.0
        lin.moved[i] = 0.0
    if params[CONTROL] != 0.0:
        for k in range(m):
            for i in range(n):
                lin.wanted[k] += lin.jacobian[k, i] * lin.control[i]


@kernel
def write_wanted_change(springs, params, lin):
    """Write V = -K r, clamped to a distance of `clamp` per goal (clamped targets, Buss)."""
    row = 0
    for k in range(springs.kind.shape[0]):
        kind = springs.kind[k, SPRING_KIND]
        rows = rows_of(kind, 1)
        square = 0.0
        for j in range(row, row + rows):
            square += lin.residual[j] * lin.residual[j]
        length = math.sqrt(square)
        gain = params[K_ANGLE] if kind in ANGLE_SPRINGS else params[K_LENGTH]
        if length > params[CLAMP]:
            gain *= params[CLAMP] / length
        for j in range(row, row + rows):
            lin.wanted[j] = -gain * lin.residual[j]
        row += rows
    for j in range(row, lin.wanted.shape[0]):
        lin.wanted[j] = -params[K_LENGTH] * lin.residual[j]


@kernel
def pull_goals(figure, springs, ws, lin):
    """Use the goal instead of the effector in the columns of plain position goals: Parent's alternative Jacobian."""
    row = 0
    for k in range(springs.kind.shape[0]):
        kind, body = springs.kind[k, SPRING_KIND], springs.kind[k, BODY_A]
        spring, at = springs.constants[k], springs.targets[k]
        plain = body >= 0 and spring[ROBUST] == 0.0 and springs.kind[k, BODY_B] < 0 and spring[AXES] == 0.0
        if kind == POINT_SPRING and plain:
            vector_columns(
                figure, ws, body, at[AT] - ws.origin[0], at[AT + 1] - ws.origin[1], at[AT + 2] - ws.origin[2],
                1.0, lin.jacobian, row,
            )  # fmt: skip
            combine(lin.roots[k], row, lin.jacobian)
        row += rows_of(kind, 1)


@kernel
def prepare(lin):
    """Write the equations of the free dofs into lin.active and lin.right.

    A dof stopped at its bound is a constraint row (Rabbani 2017, section 3.3) of a weight beyond all others: its step,
    to the bound, is known, and its column goes to the right-hand side.
    """
    m, n = lin.jacobian.shape
    for k in range(m):
        total = lin.wanted[k]
        for i in range(n):
            if lin.stopped[i] != 0.0:
                total -= lin.jacobian[k, i] * (lin.moved[i] + lin.control[i])
                lin.active[k, i] = 0.0
            else:
                lin.active[k, i] = lin.jacobian[k, i] * lin.strength[i]
        lin.right[k] = total


@kernel
def complete(theta, params, lin):
    """Complete the step; return whether a dof reached its bound and the others must be solved again."""
    again = False
    for i in range(theta.shape[0]):
        if lin.stopped[i] != 0.0:
            lin.step[i] = lin.moved[i]
        else:
            lin.step[i] = lin.step[i] * lin.strength[i] - lin.control[i]
    if params[BOUNDS] != INSIDE:
        return False
    shrink = step_factor(lin.step, params[MAX_STEP])
    for i in range(theta.shape[0]):
        if lin.stopped[i] == 0.0:
            target = theta[i] + shrink * lin.step[i]
            if target < lin.low[i] or target > lin.high[i]:
                lin.moved[i] = (lin.low[i] if target < lin.low[i] else lin.high[i]) - theta[i]
                lin.stopped[i] = 1.0
                again = True
    return again


@kernel
def step_factor(step, most):
    """Return the factor that limits the entries of a step to `most`; zero if an entry is NaN."""
    largest = 0.0
    for i in range(step.shape[0]):
        if not abs(step[i]) < math.inf:
            return 0.0
        largest = max(largest, abs(step[i]))
    return most / largest if largest > most else 1.0


@kernel
def take_step(figure, springs, theta, ws, lin, state, params, trace):
    """Take lin.step, limited by the largest step and projected into the box; return whether it moved."""
    n = theta.shape[0]
    before = state[ENERGY]
    factor = step_factor(lin.step, params[MAX_STEP])
    slope, length, largest = 0.0, 0.0, 0.0
    for i in range(n):
        x = min(max(theta[i] + factor * lin.step[i], lin.low[i]), lin.high[i])
        gradient = 0.0
        for k in range(lin.residual.shape[0]):
            gradient += lin.jacobian[k, i] * lin.residual[k]
        slope += gradient * (x - theta[i])
        length = max(length, abs(x - theta[i]))
        if lin.stopped[i] == 0.0:
            largest = max(largest, abs(gradient))
        theta[i] = x
    recentre_all(figure, theta, lin.low, lin.high)
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    state[EVALUATIONS] += 1.0
    write_trace(trace, state, largest, length, state[DAMPING], lin.stopped, slope, before)
    controlled = params[CONTROL] != 0.0
    return length > (1e-9 if controlled else 1e-13) and (controlled or abs(slope) > STATIONARY_GAIN * before)


solve: Any = None  # of a method: computes lin.step from lin.active and lin.right, which it may overwrite


def linear_step(figure, order, springs, lower, upper, theta, ws, lin, state, params, trace):
    """Make one step of a linear method, in place; return whether it moved."""
    linearise(figure, springs, theta, ws, params, lin)
    for _ in range(PASSES):
        prepare(lin)
        solve(springs, lin, state, params)
        if not complete(theta, params, lin):
            break
    return take_step(figure, springs, theta, ws, lin, state, params, trace)


def linear_batch_of(name: str, solve: Any) -> Any:
    """Return the entry that solves a batch by a linear method; solve(springs, lin, state, params) writes lin.step."""
    return batch_of(name, kernel(with_names(linear_step, f"{name}_step", solve=solve)), linear)


# --- Options ---


def check_rows(problem: Problem, name: str) -> None:
    """Raise SolverError for an energy in Python, which has no residuals."""
    if problem.customs:
        raise SolverError(f"{name}", expected="goals that are squared residuals", got="an energy in Python (Custom)")


def row_count(problem: Problem) -> int:
    """Return the number of stacked residuals."""
    return int(residual_rows(problem.packed(), 1))


def per_dof(value: Any, problem: Problem, what: str) -> np.ndarray:
    """Return a number or n numbers as (n,); raises SolverError."""
    try:
        out = np.broadcast_to(np.asarray(value, dtype=float), (problem.skeleton.size,)).copy()
    except (TypeError, ValueError, OverflowError):
        out = np.full(1, np.nan)
    if not np.isfinite(out).all():
        raise SolverError(what, expected=f"a number or {problem.skeleton.size} of them", got=repr(value))
    return out


@dataclass(frozen=True, kw_only=True)
class LinearSolver(CompiledSolver):
    """The options of the linear family.

    Args:
        gains: A number or n numbers, of the control term that draws the null space towards a pose (Parent, Kinematic
            Linkages, eq. 5.28).
        toward: That pose, "middle" of the limits (rest where there are none) or "rest".
        bounds: "inside" solves again with every dof that meets its limit stopped there (Rabbani 2017, section 3.3),
            "clamp" clamps each step, "final" clamps only the last pose.
        feedback: K (Tolani, Goswami & Badler 2000, section 2.2, item 5), a number or a pair (positions, rotations).
        clamp: [m, rad] Largest error of a goal that one step tries to correct.
        pull_goal: Parent's alternative Jacobian.
        max_step: [rad, m] The largest change of any one dof in a step.
        best: Return the best pose seen, not the last.
    """

    gains: Any = 0.0
    toward: Any = "middle"
    bounds: str = "inside"
    feedback: Any = 1.0
    clamp: float = math.inf
    pull_goal: bool = False
    max_step: float = 1.0
    best: bool = True

    iterations: ClassVar[int] = 500

    def __post_init__(self):
        self.require("bounds", self.bounds in BOUNDS_NAMES, "'inside', 'clamp' or 'final'")
        self.require("clamp", self.clamp > 0.0, "a positive number")
        self.require("max_step", self.max_step > 0.0, "a positive number")

    def check(self, problem: Problem) -> None:
        """Raise SolverError for goals without residual rows, and for options that do not fit the figure."""
        check_rows(problem, self.name)
        per_dof(self.gains, problem, f"{self.name}: gains")
        if not isinstance(self.toward, str):
            per_dof(self.toward, problem, f"{self.name}: toward")
        else:
            self.require("toward", self.toward in ("middle", "rest"), "'middle', 'rest' or a pose")

    def memory(self, problem: Problem) -> int:
        """Return the scratch memory of the engine and of the linear problem."""
        m, n, g = row_count(problem), problem.skeleton.size, len(problem.springs)
        sizes = {"m": m, "n": n, "k": max(m, n), "g": g}
        return problem.work_size + problem.once(("linear", m), lambda: size_of(LINEAR_SHAPES, **sizes))

    def params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the params of the loop."""
        gains = per_dof(self.gains, problem, f"{self.name}: gains")
        k_length, k_angle = (
            self.feedback if isinstance(self.feedback, (tuple, list)) else (self.feedback, self.feedback)
        )
        damping = (*self.own_params(), 0.0, 0.0, 0.0)[:3]
        own = (
            row_count(problem), BOUNDS_NAMES[self.bounds], self.max_step, self.clamp, float(k_length), float(k_angle),
            self.pull_goal, bool(gains.any()), *damping,
        )  # fmt: skip
        shared = common_params(problem, options, self.iterations, own, self.best)
        toward = self.control_pose(problem, options)
        return np.concatenate([shared, gains, toward, problem.skeleton.gain, problem.roots(True).ravel()])

    def control_pose(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the pose (n,) towards which the control term pulls."""
        rest = np.array(problem.skeleton.rest)
        if not isinstance(self.toward, str):
            return per_dof(self.toward, problem, f"{self.name}: toward")
        if self.toward == "rest":
            return rest
        limited = np.isfinite(options.lower) & np.isfinite(options.upper)
        with np.errstate(invalid="ignore"):
            return np.where(limited, 0.5 * (options.lower + options.upper), rest)
