"""Energies evaluated in Python, and the quadratic models through which kernels minimise them.

A goal is of this kind if no spring of the engine expresses it: a function that the user writes (`Custom`), or one
weight matrix over the residuals of several springs (`StackedEnergy`), which are the engine's own (`vector_residuals` in
engine/residuals.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from posable.engine.layout import (
    AT,
    AXES,
    AXES2,
    CENTER,
    CONSTANTS,
    FRAME,
    LOCAL,
    MAX_MAGNITUDE,
    MEASURE,
    POINT,
    POINT2,
    ROBUST,
    SIZE,
    WEIGHT,
    Springs,
)
from posable.engine.springs import (
    CROSS_SPRING,
    DIRECTION_SPRING,
    MODEL_SPRING,
    ORIENTATION_SPRING,
    POINT_SPRING,
    READS,
    robust_factors,
)
from posable.errors import GoalError
from posable.goals.base import (
    Goal,
    Spring,
    is_isotropic,
    named_axis,
    nonneg,
    numbers,
    pack_sym,
    square_weight,
    target_row,
    unpack_sym,
)
from posable.model.kinematics import place_bodies
from posable.model.skeleton import Skeleton

# --- Energies in Python ---

STEP = 1e-4  # [m, 1] of differences: its square times a curvature of 1 is far above the rounding of energies near 1


Row = tuple[np.ndarray, np.ndarray]  # of one spring: constants (CONSTANTS,) and target (TARGETS,)
Rows = list[Row]


class VectorEnergy(ABC):
    """An energy of k vectors of a figure.

    Attributes:
        vectors: k times (body, vector in the body's axes [m, 1], 1 for a point or 0 for a direction).
        measured: The springs that measure its error and hold its targets, if it has any; methods get their numbers as
            `rows`.
        idle: Whether its weight is zero: its error is only reported.
    """

    vectors: list[tuple[int, np.ndarray, float]]
    tolerance: float
    priority: int
    measured: list[Spring]
    idle: bool

    def springs(self) -> list[Spring]:
        """Return the measuring springs, a MODEL spring per vector and a CROSS spring per pair of vectors.

        The last two kinds are the model, filled in at a pose. They have no error and the name of the first spring.
        """
        name = self.measured[0].name if self.measured else ""
        out = []
        for body, local, moves in self.vectors:
            data = np.zeros(CONSTANTS)
            data[POINT : POINT + 3], data[MEASURE] = local, moves
            out.append(Spring(MODEL_SPRING, body, data, target_row(), self.tolerance, name))
        none = np.zeros((3, 3))
        pairs = [cross_spring(a, b, none, none, 0, name) for a, b in combinations(out, 2)]
        return [*self.measured, *out, *(pair._replace(tolerance=self.tolerance) for pair in pairs)]

    @abstractmethod
    def value(self, vectors: np.ndarray, rows: Rows) -> float:
        """Return the energy of vectors (k, 3) in the world."""

    @abstractmethod
    def model(self, vectors: np.ndarray, rows: Rows) -> tuple[float, np.ndarray, np.ndarray]:
        """Return energy, gradient (3k,) and Hessian (3k, 3k) at vectors (k, 3)."""

    def error(self, vectors: np.ndarray) -> float | None:
        """Return its error; None if springs measure it."""
        return None


def pseudo_huber(
    energy: float, slope: np.ndarray, hessian: np.ndarray, scale: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return s (sqrt(1 + 2E/s) - 1) with its gradient and Hessian, given those of E >= 0; E itself if s is zero."""
    value, factor, bend = robust_factors.py_func(energy, scale)
    return value, factor * slope, factor * hessian + bend * np.outer(slope, slope)


def measured_rows(springs: Springs, energy: VectorEnergy, part: slice) -> Rows:
    """Return the numbers of the springs that hold the targets of an energy in Python: those before its model's."""
    before = range(part.start - len(energy.measured), part.start)
    return [(springs.constants[k], springs.targets[k]) for k in before]


def first_differences(function: Callable[[np.ndarray], Any], x: np.ndarray, step: float = STEP) -> np.ndarray:
    """Return the derivative by each element of x: central differences, extrapolated once to an error of order h^4."""
    out = []
    for k in range(x.size):
        move = (np.eye(1, x.size, k) * step).reshape(x.shape)
        near, wide = (
            (np.asarray(function(x + h * move)) - np.asarray(function(x - h * move))) / (2.0 * h * step)
            for h in (1.0, 2.0)
        )
        out.append((4.0 * near - wide) / 3.0)
    return np.array(out).reshape(*x.shape, *np.shape(out[0]))


def second_differences(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    """Return the second derivatives (m, m) of a scalar function by each pair of elements of x, by differences."""
    m, h = x.size, 10.0 * STEP
    steps = [np.eye(m)[k].reshape(x.shape) * h for k in range(m)]
    here = function(x)
    out = np.empty((m, m))
    for i in range(m):
        out[i, i] = (function(x + steps[i]) - 2.0 * here + function(x - steps[i])) / (h * h)
        for j in range(i):
            total = function(x + steps[i] + steps[j]) - function(x + steps[i] - steps[j])
            total += function(x - steps[i] - steps[j]) - function(x - steps[i] + steps[j])
            out[i, j] = out[j, i] = total / (4.0 * h * h)
    return out


def cross_spring(a: Spring, b: Spring, block: np.ndarray, root: np.ndarray, back: int, name: str) -> Spring:
    """Return the CROSS spring r_a' block r_b of two POINT or MODEL springs.

    Args:
        a: The first spring.
        b: The second spring, of the same kind.
        block: (3, 3) of the weight matrix.
        root: (3, 3) What the residual of b adds to the stacked residual of a.
        back: How many rows above its own that residual is (engine/residuals.py).
        name: Name of the spring.
    """
    data = np.zeros(CONSTANTS)
    data[POINT : POINT + 3] = a.constants[POINT : POINT + 3]
    data[POINT2 : POINT2 + 3] = b.constants[POINT : POINT + 3]
    targets = target_row(a.targets[..., AT : AT + 3], b.targets[..., AT : AT + 3])
    data[AXES : AXES + 9] = block.ravel()
    data[AXES2 : AXES2 + 9] = root.ravel()
    data[SIZE] = back
    data[MEASURE : MEASURE + 2] = [1.0 if s.kind == POINT_SPRING else s.constants[MEASURE] for s in (a, b)]
    data[WEIGHT] = 1.0
    return Spring(CROSS_SPRING, a.body, data, targets, 0.0, name, b.body)


# --- The residual of each spring as a vector ---

AT_REST = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])  # a body at the origin
Vectors = list[tuple[int, np.ndarray, float]]


def vectors_of(spring: Spring, skeleton: Skeleton, goal: Goal) -> Vectors:
    """Return the points and directions of bodies that a spring's residual depends on.

    Those of its own body come first, then the origin and the three axes of the other body.

    Raises:
        GoalError: The spring is on no body.
    """
    row = spring.constants.reshape(-1, CONSTANTS)[0]
    if spring.body == CENTER:
        mass = skeleton.figure.mass
        return [(int(b), mass[b, 1:], 1.0) for b in np.flatnonzero(mass[:, 0])]
    reads = READS[spring.kind] if spring.kind >= 0 else ""
    out: Vectors = []
    if spring.kind == ORIENTATION_SPRING:
        out = [(spring.body, column, 0.0) for column in row[AXES : AXES + 9].reshape(3, 3).T]
    elif reads:
        both = {"e": (spring.body, row[POINT : POINT + 3], 1.0), "d": (spring.body, row[AXES : AXES + 3], 0.0)}
        out = [both[letter] for letter in reads]
    else:
        raise GoalError(
            f"{goal}", expected="a goal on points and directions of bodies", got="a goal on angles or in Python"
        )
    if spring.other >= 0:
        out += [(spring.other, np.zeros(3), 1.0), *((spring.other, one, 0.0) for one in np.eye(3))]
    return out


def is_linear(spring: Spring) -> bool:
    """Return whether a spring's residual is linear in its vectors."""
    return spring.other < 0 and spring.kind in (POINT_SPRING, DIRECTION_SPRING)


def residual(spring: Spring, row: Row, v: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the residual of a spring as a vector (s, 3), and its derivative (s, 3k, 3) by its vectors.

    The engine gives both in the vectors of the spring's own body (engine/residuals.py). A target on another body is in
    its axes, and so is the residual.

    Args:
        spring: The spring.
        row: Its constants and its target.
        v: (s, k, 3) Its vectors in the world.
        shares: Fractions of the mass of the bodies that have any.
    """
    if spring.body == CENTER:
        r, slopes = own_residual(spring.kind, row, (shares[:, None] * v).sum(axis=1, keepdims=True))
        return r, (shares[:, None, None] * slopes).reshape(len(v), -1, 3)
    if spring.other < 0:
        r, slopes = own_residual(spring.kind, row, v)
        return r, slopes.reshape(len(v), -1, 3)
    own, origin, axes = v[:, :-4], v[:, -4], v[:, -3:]
    moves = np.array([float(letter == "e") for letter in READS[spring.kind]])
    apart = own - moves[:, None] * origin[:, None]
    r, inner = own_residual(spring.kind, row, apart @ np.swapaxes(axes, 1, 2))
    by_own = np.swapaxes(axes, 1, 2)[:, None] @ inner
    by_origin = -(moves[:, None, None] * by_own).sum(axis=1, keepdims=True)
    by_axes = np.einsum("sijr,sic->sjcr", inner, apart)
    return r, np.concatenate([by_own, by_origin, by_axes], axis=1).reshape(len(v), -1, 3)


def own_residual(kind: int, row: Row, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the residual (s, 3) of a spring, and its derivative (s, k, 3, 3) by vectors (s, k, 3) of its body."""
    from posable.engine.residuals import vector_residuals

    constants, target = row
    if kind == ORIENTATION_SPRING:
        places, every = [0, 1, 2], np.ascontiguousarray(v)
    else:
        places, every = ["ed".index(letter) for letter in READS[kind]], np.empty((len(v), 2, 3))
        every[:, 0], every[:, 1] = constants[POINT : POINT + 3], constants[AXES : AXES + 3]
        every[:, places] = v
    out = np.empty((len(v), 3 + 9 * every.shape[1]))
    vector_residuals(kind, constants.copy(), target.copy(), every, AT_REST, np.empty(LOCAL), out)
    r, slopes = out[:, :3], np.swapaxes(out[:, 3:].reshape(len(v), -1, 3, 3), -1, -2)
    if kind == POINT_SPRING:
        kept = unpack_sym(constants[MEASURE : MEASURE + 6])
        r, slopes = r @ kept, slopes @ kept
    return r, slopes[:, places]


# --- One weight matrix over residuals of any kinds ---


class StackedEnergy(VectorEnergy):
    """1/2 r'W r with r the stacked residuals of springs, softened beyond a robust scale.

    The springs stay in the problem without weight, to measure the errors and to hold the targets. Second derivatives of
    r are differences of the first ones.
    """

    def __init__(
        self, goal: Goal, skeleton: Skeleton, springs: Sequence[Spring], matrix: np.ndarray, robust: float | None
    ):
        self.tolerance, self.priority = 0.0, goal.priority  # models have no error of their own
        self.matrix = matrix
        self.scale = 0.0 if robust is None else float(np.diag(matrix).max()) * robust * robust
        mass = skeleton.figure.mass[:, 0]
        self.shares = mass[mass > 0.0]
        self.vectors: Vectors = []
        self.parts: list[list[int]] = []  # the vectors of each spring
        known: dict[tuple[int, float, bytes], int] = {}
        for spring in springs:
            part = []
            for body, local, moves in vectors_of(spring, skeleton, goal):
                key = (body, moves, np.asarray(local, dtype=float).tobytes())
                if key not in known:
                    known[key] = len(self.vectors)
                    self.vectors.append((body, np.asarray(local, dtype=float), moves))
                part.append(known[key])
            self.parts.append(part)
        self.idle = not matrix.any()
        self.measured = [without_energy(spring)._replace(measures=not self.idle) for spring in springs]

    def _rows(self, vectors: np.ndarray, rows: Rows) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the stacked residual (m,) at vectors (k, 3), and each spring's derivative (3k, 3) by its own."""
        every = [
            residual(spring, row, vectors[None, part], self.shares)
            for spring, row, part in zip(self.measured, rows, self.parts, strict=True)
        ]
        return np.concatenate([r[0] for r, _ in every]), [slopes[0] for _, slopes in every]

    def value(self, vectors: np.ndarray, rows: Rows) -> float:
        """Return the energy of vectors (k, 3) in the world."""
        r, _ = self._rows(vectors, rows)
        return robust_factors.py_func(0.5 * float(r @ self.matrix @ r), self.scale)[0]

    def model(self, vectors: np.ndarray, rows: Rows) -> tuple[float, np.ndarray, np.ndarray]:
        """Return energy, gradient (3k,) and Hessian (3k, 3k) at vectors (k, 3): J'W r and J'W J + sum (W r)_i r_i''."""
        r, slopes = self._rows(vectors, rows)
        force = self.matrix @ r
        jacobian = np.zeros((r.size, vectors.size))
        bend = np.zeros((vectors.size, vectors.size))
        for k, (row, part) in enumerate(zip(rows, self.parts, strict=True)):
            columns = (3 * np.array(part)[:, None] + np.arange(3)).ravel()
            jacobian[3 * k : 3 * k + 3, columns] = slopes[k].T
            if not is_linear(self.measured[k]):
                bend[np.ix_(columns, columns)] += self._bend(k, row, vectors[part], force[3 * k : 3 * k + 3])
        hessian = jacobian.T @ self.matrix @ jacobian + 0.5 * (bend + bend.T)
        return pseudo_huber(0.5 * float(r @ force), jacobian.T @ force, hessian, self.scale)

    def _bend(self, spring: int, row: Row, vectors: np.ndarray, force: np.ndarray) -> np.ndarray:
        """Return the second derivative (3k, 3k) of force . r of one spring, by differences of the first one."""
        m = vectors.size
        steps = np.eye(m).reshape(m, *vectors.shape) * STEP
        around = np.concatenate([vectors + steps, vectors - steps, vectors + 2.0 * steps, vectors - 2.0 * steps])
        slopes = residual(self.measured[spring], row, around, self.shares)[1] @ force
        ahead, behind, far, farther = slopes.reshape(4, m, m)
        return (8.0 * (ahead - behind) - (far - farther)) / (12.0 * STEP)


def without_energy(spring: Spring) -> Spring:
    """Return the spring without its energy: it only measures its error."""
    data = spring.constants.copy()
    data[..., WEIGHT : WEIGHT + 6], data[..., ROBUST] = 0.0, 0.0
    return spring._replace(constants=data, measures=True)


def anisotropic_energy(goal: Goal, skeleton: Skeleton, weight: np.ndarray) -> StackedEnergy | None:
    """Return the energy of a goal with an anisotropic weight, packed as (6,); None if the weight is isotropic."""
    if is_isotropic(weight):
        return None
    return StackedEnergy(goal, skeleton, goal.springs(skeleton), unpack_sym(weight), goal.robust)


# --- The user's own energy ---


class Custom(Goal):
    """An energy of named points and directions, written in Python, usable with every solver.

        Custom(points=["hand.L", "hand.R"], energy=lambda p, d: 0.5 * (p["hand.L"][1] - p["hand.R"][1]) ** 2)

    Compiled loops do not call Python. The solver minimises quadratic models of the energy, with Armijo's test on the
    energy itself, until the model and the energy agree. The error is sqrt(2 E), as for E = 1/2 r^2, before weighting.

    Args:
        energy: energy(points, directions) -> float. It gets two dicts of (3,) arrays in the world and must be smooth.
        points: {"hand.R": (x, y, z)} [m] in the body's frame; or a list of bodies, for their origins. Several points of
            one body have names of their own: {"a": ("hand.R", (x, y, z))}.
        directions: {"head": "z"}, unit vectors in the body's frame.
        gradient: gradient(points, directions) returns two dicts of (3,) arrays; missing entries are zero. By default
            differences are taken.
        weight: Factor on the energy.
        tolerance: Error below which the goal counts as reached; infinite by default: the energy is only minimised.
        label: Name in results; "custom" by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: Error beyond which the force no longer grows; the energy must then be non-negative.
    """

    plain: ClassVar[bool] = False

    def __init__(
        self,
        energy: Callable[[dict, dict], float],
        *,
        points: Any = (),
        directions: Mapping[str, Any] | None = None,
        gradient: Callable[[dict, dict], tuple[dict, dict]] | None = None,
        weight: Any = 1.0,
        tolerance: float = np.inf,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        super().__init__(label, nonneg(tolerance, "Custom: tolerance"), priority, robust)
        if not callable(energy):
            raise GoalError("Custom: energy", expected="a function of points and directions", got=repr(energy))
        self.energy, self.gradient = energy, gradient
        self.weight = float(square_weight(weight, 1, "Custom: weight")[0, 0])
        entries = points.items() if isinstance(points, Mapping) else ((body, (0.0, 0.0, 0.0)) for body in points)
        # (name, body, vector in the body's frame, 1 for a point and 0 for a direction)
        self.vectors: list[tuple[str, str, np.ndarray, float]] = []
        for name, place in entries:
            body, local = place if len(place) == 2 else (name, place)
            self.vectors.append((name, body, numbers(local, (3,), f"Custom: point {name!r}"), 1.0))
        for name, axis in (directions or {}).items():
            body, local = axis if isinstance(axis, tuple) and len(axis) == 2 else (name, axis)
            self.vectors.append((name, body, named_axis(local, f"Custom: direction {name!r}"), 0.0))
        if not self.vectors:
            raise GoalError("Custom", expected="points or directions of bodies", got="none")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """None: see `python_energy`."""
        return []

    def python_energy(self, skeleton: Skeleton) -> CustomEnergy:
        """Return the energy on this skeleton."""
        return CustomEnergy(self, skeleton)

    def slopes(self, vectors: np.ndarray) -> np.ndarray:
        """Return the gradient (k, 3) of the energy at vectors (k, 3), from the user or by differences."""
        if self.gradient is None:
            return first_differences(self.value, vectors)
        found = self.gradient(*self._named(vectors))
        out = np.zeros_like(vectors)
        for k, (name, _, _, moves) in enumerate(self.vectors):
            part = found[0 if moves else 1].get(name)
            if part is not None:
                out[k] = numbers(part, (3,), f"{self}: gradient of {name!r}")
        return out

    def value(self, vectors: np.ndarray) -> float:
        """Return the energy of vectors (k, 3) in the world, before weight and robust scale."""
        value = float(self.energy(*self._named(vectors)))
        if not abs(value) <= MAX_MAGNITUDE**2:  # the square of a length; NaN is not
            raise GoalError(f"{self}: energy", expected=f"magnitudes up to {MAX_MAGNITUDE**2:g}", got=repr(value))
        if value < 0.0 and self.robust is not None:
            raise GoalError(f"{self}: energy", expected="a non-negative energy, as `robust` is given", got=repr(value))
        return value

    def _named(self, vectors: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        points = {name: vectors[k] for k, (name, _, _, moves) in enumerate(self.vectors) if moves}
        directions = {name: vectors[k] for k, (name, _, _, moves) in enumerate(self.vectors) if not moves}
        return points, directions


class CustomEnergy(VectorEnergy):
    """A user's energy on a skeleton."""

    def __init__(self, goal: Custom, skeleton: Skeleton):
        self.goal, self.tolerance, self.priority = goal, goal.tolerance, goal.priority
        self.measured, self.idle = [], goal.weight == 0.0
        self.scale = 0.0 if goal.robust is None else goal.weight * goal.robust**2
        self.vectors = []
        for _, body, local, moves in goal.vectors:
            frame = skeleton.frame(body)
            place = skeleton.frame_rotations[frame] @ local + moves * skeleton.frame_positions[frame]
            self.vectors.append((int(skeleton.frame_bodies[frame]), place, moves))

    def value(self, vectors: np.ndarray, rows: Rows) -> float:
        """Return the weighted energy of vectors (k, 3) in the world."""
        return robust_factors.py_func(self.goal.weight * self.goal.value(vectors), self.scale)[0]

    def model(self, vectors: np.ndarray, rows: Rows) -> tuple[float, np.ndarray, np.ndarray]:
        """Return energy, gradient (3k,) and Hessian (3k, 3k) at vectors (k, 3)."""
        goal, flat = self.goal, vectors.size
        if goal.gradient is None:
            hessian = second_differences(goal.value, vectors)
        else:
            hessian = first_differences(goal.slopes, vectors).reshape(flat, flat)
        w = goal.weight
        slope = w * goal.slopes(vectors).ravel()
        return pseudo_huber(w * goal.value(vectors), slope, 0.5 * w * (hessian + hessian.T), self.scale)

    def error(self, vectors: np.ndarray) -> float:
        """Return sqrt(2 E), as of E = 1/2 r^2."""
        return float(np.sqrt(max(0.0, 2.0 * self.goal.value(vectors))))


# --- Quadratic models for the kernels ---

FARTHEST = 1.0  # [m] the longest step of a point where the energy has too little curvature to limit it


def place_vectors(skeleton: Skeleton, pose: np.ndarray, energies: Sequence[VectorEnergy]) -> list[np.ndarray]:
    """Return, for each energy, its points and directions (k, 3) in the world at a pose (n,)."""
    positions, rotations, _ = place_bodies(skeleton, pose.reshape(1, -1))
    return [
        np.array([rotations[0, body] @ local + moves * positions[0, body] for body, local, moves in energy.vectors])
        for energy in energies
    ]


def fill_model(rows: np.ndarray, targets: np.ndarray, at: np.ndarray, slope: np.ndarray, *matrices: np.ndarray) -> None:
    """Write the model slope.x + 1/2 x' H x, x measured from the vectors at (k, 3), into its springs.

    matrices: H (3k, 3k), and the root C of H = C'C where a solver that uses residuals will read it.
    """
    k = len(at)
    blocks, root = (m.reshape(k, 3, k, 3).swapaxes(1, 2) for m in (*matrices, np.zeros((3 * k, 3 * k)))[:2])
    for i in range(k):
        targets[i, AT : AT + 3], targets[i, FRAME : FRAME + 3] = at[i], slope[3 * i : 3 * i + 3]
        rows[i, WEIGHT : WEIGHT + 6], rows[i, AXES : AXES + 9] = pack_sym(blocks[i, i]), root[i, i].ravel()
    for row, (i, j) in enumerate(combinations(range(k), 2), k):
        targets[row, AT : AT + 3], targets[row, FRAME : FRAME + 3] = at[i], at[j]
        rows[row, AXES : AXES + 9], rows[row, AXES2 : AXES2 + 9] = blocks[i, j].ravel(), root[i, j].ravel()
        rows[row, SIZE], rows[row, WEIGHT] = 3 * (k - i), 1.0


def convex_model(
    energy: VectorEnergy, at: np.ndarray, slope: np.ndarray, hessian: np.ndarray, damping: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return (step, matrix) of a convex model 1/2 (x - step)' matrix (x - step) with the given slope at 0.

    A direction d has length one, so c/2 |d|^2 is constant: adding it makes a force on a direction convex at no cost.
    Remaining negative curvature is reflected, no step is longer than FARTHEST, and `damping` shortens the step.
    """
    slope, hessian = slope.copy(), hessian.copy()
    for k, (_, _, moves) in enumerate(energy.vectors):
        if not moves:
            part = slice(3 * k, 3 * k + 3)
            stretch = float(np.linalg.norm(slope[part]))
            hessian[part, part] += stretch * np.eye(3)
            slope[part] += stretch * at[k]
    values, vectors = np.linalg.eigh(hessian)
    forces = vectors.T @ slope
    values = np.maximum(np.abs(values), np.maximum(np.abs(forces) / FARTHEST, 1e-9 * max(np.abs(values).max(), 1e-9)))
    values += damping
    return -vectors @ (forces / values), (vectors * values) @ vectors.T


def convex_part(hessian: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix with its negative eigenvalues set to zero."""
    values, vectors = np.linalg.eigh(hessian)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def upper_root(matrix: np.ndarray) -> np.ndarray:
    """Return the upper triangular C with C'C = matrix, for a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.linalg.qr(np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T).R


# --- Derivatives against differences ---


@dataclass(frozen=True)
class DerivativeCheck:
    """Relative errors of gradient and Hessian against finite differences.

    Attributes:
        gradient: Largest difference, relative to the largest entry.
        hessian: Likewise.
    """

    gradient: float
    hessian: float

    @property
    def ok(self) -> bool:
        """Whether both are below 1e-6."""
        return self.gradient < 1e-6 and self.hessian < 1e-6

    def __str__(self) -> str:
        word = "agree" if self.ok else "do not agree"
        return f"derivatives {word} with differences: gradient to {self.gradient:.1e}, Hessian to {self.hessian:.1e}"


def relative_gap(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference of two arrays against their largest entry, or against 1 where all are small."""
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))
