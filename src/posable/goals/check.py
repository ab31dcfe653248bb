"""Derivatives against differences: the one-line test of a goal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class DerivativeCheck:
    """How far gradient and Hessian are from differences, as a part of their largest entry; `ok`: both below 1e-6."""

    gradient: float
    hessian: float

    @property
    def ok(self) -> bool:
        """Whether both agree."""
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
