"""One weight matrix over residuals of any kinds: E = 1/2 r'W r of the stacked rows of several springs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posable.goals.energy import STEP, VectorEnergy, soften
from posable.goals.goal import Goal, Spring, is_number
from posable.goals.rows import Vectors, full, is_linear, residual, vectors_of
from posable.kernels.fields import ROBUST, WEIGHT
from posable.skeleton import Skeleton

TINY_STEP = 1e-30  # of a complex step: so small that nothing of second order is left


class StackedEnergy(VectorEnergy):
    """1/2 r'W r, r the stacked rows (rows.py) of springs, softened beyond a robust scale.

    The springs themselves stay on without weight: they measure the errors and hold the targets. Derivatives of r come
    from complex steps; the second ones from differences of the gradient.
    """

    def __init__(
        self, goal: Goal, skeleton: Skeleton, springs: Sequence[Spring], matrix: np.ndarray, robust: float | None
    ):
        self.tolerance, self.priority = 0.0, goal.priority  # models have no error of their own: 0 is reached
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
        self.measured = [only_measuring(spring)._replace(measures=not self.idle) for spring in springs]

    def residual(self, vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the stacked rows (..., m) at vectors (..., k, 3)."""
        pieces = [
            residual(spring, row, vectors[..., part, :], self.shares)
            for spring, row, part in zip(self.measured, rows, self.parts, strict=True)
        ]
        return np.concatenate(pieces, axis=-1)

    def value(self, vectors: np.ndarray, rows: np.ndarray) -> float:
        """Return the energy of vectors (k, 3) in the world."""
        r = self.residual(vectors, rows)
        nothing = np.zeros(1)
        return float(soften(0.5 * float(r @ self.matrix @ r), nothing, np.zeros((1, 1)), self.scale)[0])

    def model(self, vectors: np.ndarray, rows: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
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
        return soften(0.5 * float(r @ force), jacobian.T @ force, hessian, self.scale)

    def _slopes(self, spring: int, row: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the derivative (..., 3k, 3) of one spring's rows by its vectors (..., k, 3), by complex steps."""
        m = vectors.shape[-2] * 3
        steps = np.eye(m).reshape(m, -1, 3) * TINY_STEP * 1j
        rows = residual(self.measured[spring], row, vectors[..., None, :, :] + steps, self.shares)
        return np.imag(rows) / TINY_STEP

    def _bend(self, spring: int, row: np.ndarray, vectors: np.ndarray, force: np.ndarray) -> np.ndarray:
        """Return the second derivative (3k, 3k) of force . r of one spring, by differences of the first."""
        m = vectors.size
        steps = np.eye(m).reshape(m, *vectors.shape) * STEP
        around = np.stack([vectors + steps, vectors - steps, vectors + 2.0 * steps, vectors - 2.0 * steps])
        ahead, behind, far, farther = self._slopes(spring, row, around) @ force
        return (8.0 * (ahead - behind) - (far - farther)) / (12.0 * STEP)


def only_measuring(spring: Spring) -> Spring:
    """Return a spring that measures its error and has no energy."""
    data = spring.data.copy()
    data[..., WEIGHT : WEIGHT + 6], data[..., ROBUST] = 0.0, 0.0
    return spring._replace(data=data, measures=True)


def directed(goal: Goal, skeleton: Skeleton, weight: np.ndarray) -> StackedEnergy | None:
    """Return the energy of a goal whose weight (six numbers) differs between directions; None where it does not."""
    if is_number(weight):
        return None
    return StackedEnergy(goal, skeleton, goal.springs(skeleton), full(weight), goal.robust)
