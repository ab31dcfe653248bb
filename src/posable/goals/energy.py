"""Energies evaluated in Python, and the quadratic models through which kernels minimise them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from posable.engine.layout import (
    ALONG,
    AT,
    AXES,
    CENTER,
    CONSTANTS,
    MEASURE,
    POINT,
    POINT2,
    ROBUST,
    SIZE,
    WEIGHT,
    Springs,
)
from posable.engine.springs import (
    AIM_SPRING,
    CLEAR_SPRING,
    CROSS_SPRING,
    DIRECTION_SPRING,
    DISTANCE_SPRING,
    MODEL_SPRING,
    ORIENTATION_SPRING,
    POINT_SPRING,
    SIDE_SPRING,
)
from posable.errors import GoalError
from posable.goals.base import Goal, Spring, is_isotropic, pack_sym, target_row, unpack_sym
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
        k = len(out)
        for i in range(k):
            for j in range(i + 1, k):
                data = np.zeros(CONSTANTS)
                data[POINT : POINT + 3], data[POINT2 : POINT2 + 3] = out[i].constants[:3], out[j].constants[:3]
                data[MEASURE], data[MEASURE + 1] = out[i].constants[MEASURE], out[j].constants[MEASURE]
                out.append(Spring(CROSS_SPRING, out[i].body, data, target_row(), self.tolerance, name, out[j].body))
        return [*self.measured, *out]

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
    if scale <= 0.0:
        return energy, slope, hessian
    root = np.sqrt(1.0 + 2.0 * energy / scale)
    bend = -1.0 / (scale * root**3)
    return 2.0 * energy / (root + 1.0), slope / root, hessian / root + bend * np.outer(slope, slope)


def measured_rows(springs: Springs, energy: VectorEnergy, part: slice) -> Rows:
    """Return the numbers of the springs that hold the targets of an energy in Python: those before its model's."""
    before = range(part.start - len(energy.measured), part.start)
    return [(springs.constants[k], springs.targets[k]) for k in before]


def first_differences(function: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    """Return the derivative by each element of x: central differences, extrapolated once to an error of order h^4."""
    out = []
    for k in range(x.size):
        step = np.zeros(x.size)
        step[k] = STEP
        step = step.reshape(x.shape)
        near = (np.asarray(function(x + step)) - np.asarray(function(x - step))) / (2.0 * STEP)
        wide = (np.asarray(function(x + 2.0 * step)) - np.asarray(function(x - 2.0 * step))) / (4.0 * STEP)
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


# --- The three rows of each spring's residual r ---

TINY = 1e-18  # [m^2] squared length of a segment that counts as a point
NEAR = 1e-9  # [m] a distance too small to have a direction
Vectors = list[tuple[int, np.ndarray, float]]


def vectors_of(spring: Spring, skeleton: Skeleton, goal: Goal) -> Vectors:
    """Return the points and directions of bodies that a spring's residual depends on.

    Those of its own body come first, then the origin and the three axes of the other body.

    Raises:
        GoalError: The spring is on no body.
    """
    row = spring.constants.reshape(-1, CONSTANTS)[0]
    point, axis = (spring.body, row[POINT : POINT + 3], 1.0), (spring.body, row[AXES : AXES + 3], 0.0)
    if spring.body == CENTER:
        mass = skeleton.figure.mass
        return [(int(b), mass[b, 1:], 1.0) for b in np.flatnonzero(mass[:, 0])]
    if spring.kind in (POINT_SPRING, SIDE_SPRING):
        out: Vectors = [point]
    elif spring.kind in (AIM_SPRING, DISTANCE_SPRING, CLEAR_SPRING):
        out = [point, axis]
    elif spring.kind == DIRECTION_SPRING:
        out = [axis]
    elif spring.kind == ORIENTATION_SPRING:
        out = [(spring.body, column, 0.0) for column in row[AXES : AXES + 9].reshape(3, 3).T]
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


def residual(spring: Spring, row: Row, v: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the residual (..., 3) of a spring.

    Args:
        spring: The spring.
        row: Its constants and its target.
        v: (..., k, 3) Its vectors in the world; complex, for complex-step derivatives.
        shares: Fractions of the mass of the bodies that have any.
    """
    kind, turn = spring.kind, None
    constants, target = row
    at, along, axes = target[AT : AT + 3], target[ALONG : ALONG + 3], target[ALONG : ALONG + 9].reshape(3, 3)
    if spring.other >= 0:
        turn = np.swapaxes(v[..., -3:, :], -1, -2)  # the other body's axes are its columns
        at = v[..., -4, :] + turn @ at
        along, axes = turn @ along, turn @ axes
        v = v[..., :-4, :]
    if kind == ORIENTATION_SPRING:
        return twice_half_sine(np.swapaxes(axes, -1, -2) @ np.swapaxes(v, -1, -2))
    if kind == DIRECTION_SPRING:
        return v[..., 0, :] - along
    if kind == AIM_SPRING:
        return v[..., 1, :] - _unit(at - v[..., 0, :])
    if kind in (DISTANCE_SPRING, CLEAR_SPRING):
        gap = _nearest(v[..., 0, :] - at, v[..., 1, :], along)
        length = np.sqrt((gap * gap).sum(axis=-1, keepdims=True))
        miss = length - constants[SIZE]
        idle = np.real(length) < NEAR
        if kind == CLEAR_SPRING:
            idle |= np.real(miss) >= 0.0
        out = np.where(idle, 0.0, miss * gap / np.where(idle, 1.0, length))
        return out if turn is None else _turned_back(turn, out)
    place = (shares[:, None] * v).sum(axis=-2) if spring.body == CENTER else v[..., 0, :]
    if kind == SIDE_SPRING:
        height = ((place - at) * along).sum(axis=-1, keepdims=True) - constants[SIZE]
        return np.where(np.real(height) < 0.0, height, 0.0) * along
    miss = place - at if turn is None else _turned_back(turn, place - at)
    return miss @ unpack_sym(constants[MEASURE : MEASURE + 6])


def twice_half_sine(q: np.ndarray) -> np.ndarray:
    """Return 2 sin(angle / 2) n (..., 3) of rotations q (..., 3, 3): twice the vector part of their quaternions.

    Computed from the largest of the quaternion's four numbers, so that no digits are lost at half a turn.
    """
    a, b, c = q[..., 0, 0], q[..., 1, 1], q[..., 2, 2]
    skew = [q[..., 2, 1] - q[..., 1, 2], q[..., 0, 2] - q[..., 2, 0], q[..., 1, 0] - q[..., 0, 1]]
    sums = {(i, j): q[..., i, j] + q[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2))}
    squares = np.stack([1.0 + a + b + c, 1.0 + a - b - c, 1.0 - a + b - c, 1.0 - a - b + c], axis=-1)
    largest = np.real(squares).argmax(axis=-1)
    roots = np.sqrt(np.where(np.arange(4) == largest[..., None], squares, 1.0))  # twice that number
    by_w = np.stack([s / roots[..., 0] for s in skew], axis=-1)
    out = np.where((largest == 0)[..., None], by_w, 0.0)
    for k in range(3):
        root = roots[..., k + 1]
        sense = np.where(np.real(skew[k]) < 0.0, -1.0, 1.0)  # the scalar part is not negative
        parts = [root if i == k else sums[min(i, k), max(i, k)] / root for i in range(3)]
        out = np.where((largest == k + 1)[..., None], sense[..., None] * np.stack(parts, axis=-1), out)
    return out


def _unit(v: np.ndarray) -> np.ndarray:
    length = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    return v / np.where(np.real(length) < NEAR, 1.0, length)


def _turned_back(turn: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (np.swapaxes(turn, -1, -2) @ v[..., None])[..., 0]


def _within(x: np.ndarray) -> np.ndarray:
    """Return x clipped to [0, 1]."""
    return np.where(np.real(x) < 0.0, 0.0, np.where(np.real(x) > 1.0, 1.0, x))


def _nearest(p: np.ndarray, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the shortest vector (..., 3) from the segment t c to the segment p + s a, with s and t in [0, 1]."""

    def dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (x * y).sum(axis=-1, keepdims=True)

    aa, cc, ac, ap, cp = dot(a, a), dot(c, c), dot(a, c), dot(a, p), dot(c, p)
    point_a, point_c = np.real(aa) <= TINY, np.real(cc) <= TINY
    aa, cc = np.where(point_a, 1.0, aa), np.where(point_c, 1.0, cc)
    room = aa * cc - ac * ac
    apart = np.real(room) > 1e-12 * np.real(aa * cc)
    s = np.where(apart, _within((ac * cp - ap * cc) / np.where(apart, room, 1.0)), 0.0)
    s = np.where(point_c, _within(-ap / aa), s)
    s = np.where(point_a, 0.0, s)
    t = np.where(point_c, 0.0, (ac * s + cp) / cc)
    s = np.where(point_a | point_c, s, np.where(np.real(t) < 0.0, _within(-ap / aa), s))
    s = np.where(point_a | point_c, s, np.where(np.real(t) > 1.0, _within((ac - ap) / aa), s))
    return p + s * a - _within(t) * c


# --- One weight matrix over residuals of any kinds ---

TINY_STEP = 1e-30  # of complex steps: small enough that second-order terms vanish


class StackedEnergy(VectorEnergy):
    """1/2 r'W r with r the stacked residuals of springs, softened beyond a robust scale.

    The springs stay in the problem without weight, to measure the errors and to hold the targets. First derivatives of
    r come from complex steps, second ones from differences of the gradient.
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

    def residual(self, vectors: np.ndarray, rows: Rows) -> np.ndarray:
        """Return the stacked rows (..., m) at vectors (..., k, 3)."""
        pieces = [
            residual(spring, row, vectors[..., part, :], self.shares)
            for spring, row, part in zip(self.measured, rows, self.parts, strict=True)
        ]
        return np.concatenate(pieces, axis=-1)

    def value(self, vectors: np.ndarray, rows: Rows) -> float:
        """Return the energy of vectors (k, 3) in the world."""
        r = self.residual(vectors, rows)
        nothing = np.zeros(1)
        return float(pseudo_huber(0.5 * float(r @ self.matrix @ r), nothing, np.zeros((1, 1)), self.scale)[0])

    def model(self, vectors: np.ndarray, rows: Rows) -> tuple[float, np.ndarray, np.ndarray]:
        """Return energy, gradient (3k,) and Hessian (3k, 3k) at vectors (k, 3): J'W r and J'W J + sum (W r)_i r_i''."""
        r = self.residual(vectors, rows)
        force = self.matrix @ r
        jacobian = np.zeros((r.size, vectors.size))
        bend = np.zeros((vectors.size, vectors.size))
        for k, (row, part) in enumerate(zip(rows, self.parts, strict=True)):
            columns = (3 * np.array(part)[:, None] + np.arange(3)).ravel()
            jacobian[3 * k : 3 * k + 3, columns] = self._slopes(k, row, vectors[part]).T
            if not is_linear(self.measured[k]):
                bend[np.ix_(columns, columns)] += self._bend(k, row, vectors[part], force[3 * k : 3 * k + 3])
        hessian = jacobian.T @ self.matrix @ jacobian + 0.5 * (bend + bend.T)
        return pseudo_huber(0.5 * float(r @ force), jacobian.T @ force, hessian, self.scale)

    def _slopes(self, spring: int, row: Row, vectors: np.ndarray) -> np.ndarray:
        """Return the derivative (..., 3k, 3) of one spring's rows by its vectors (..., k, 3), by complex steps."""
        m = vectors.shape[-2] * 3
        steps = np.eye(m).reshape(m, -1, 3) * TINY_STEP * 1j
        rows = residual(self.measured[spring], row, vectors[..., None, :, :] + steps, self.shares)
        return np.imag(rows) / TINY_STEP

    def _bend(self, spring: int, row: Row, vectors: np.ndarray, force: np.ndarray) -> np.ndarray:
        """Return the second derivative (3k, 3k) of force . r of one spring, by differences of the first one."""
        m = vectors.size
        steps = np.eye(m).reshape(m, *vectors.shape) * STEP
        around = np.stack([vectors + steps, vectors - steps, vectors + 2.0 * steps, vectors - 2.0 * steps])
        ahead, behind, far, farther = self._slopes(spring, row, around) @ force
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


# --- Quadratic models for the kernels ---

FARTHEST = 1.0  # [m] the longest step of a point where the energy has too little curvature to limit it


def place_vectors(skeleton: Skeleton, pose: np.ndarray, energies: Sequence[VectorEnergy]) -> list[np.ndarray]:
    """Return, for each energy, its points and directions (k, 3) in the world at a pose (n,)."""
    positions, rotations, _ = place_bodies(skeleton, pose.reshape(1, -1))
    return [
        np.array([rotations[0, body] @ local + moves * positions[0, body] for body, local, moves in energy.vectors])
        for energy in energies
    ]


def fill_model(rows: np.ndarray, targets: np.ndarray, at: np.ndarray, slope: np.ndarray, hessian: np.ndarray) -> None:
    """Write the model slope.x + 1/2 x' hessian x, x measured from the vectors at (k, 3), into its springs."""
    k = len(at)
    blocks = hessian.reshape(k, 3, k, 3).swapaxes(1, 2)
    for i in range(k):
        targets[i, AT : AT + 3] = at[i]
        targets[i, ALONG : ALONG + 3] = slope[3 * i : 3 * i + 3]
        rows[i, WEIGHT : WEIGHT + 6] = pack_sym(blocks[i, i])
    row = k
    for i in range(k):
        for j in range(i + 1, k):
            targets[row, AT : AT + 3], targets[row, ALONG : ALONG + 3] = at[i], at[j]
            rows[row, AXES : AXES + 9] = blocks[i, j].ravel()
            rows[row, WEIGHT] = 1.0
            row += 1


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


def differences(function: Any, x: np.ndarray, step: float) -> np.ndarray:
    """Return the derivative (..., n) of an array function at x (n,), by central differences extrapolated once."""
    columns = []
    for i in range(x.size):
        move = np.zeros(x.size)
        move[i] = step
        wide = (function(x + move) - function(x - move)) / (2.0 * step)
        near = (function(x + 0.5 * move) - function(x - 0.5 * move)) / step
        columns.append((4.0 * near - wide) / 3.0)
    return np.stack(columns, axis=-1)


def relative_gap(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference of two arrays against their largest entry, or against 1 where all are small."""
    return float(np.abs(a - b).max(initial=0.0) / max(1.0, np.abs(b).max(initial=0.0)))
