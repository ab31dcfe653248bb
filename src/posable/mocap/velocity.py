"""Paths that keep to velocity limits: the nearest ones to paths that do not."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter1d

from posable.model.joint_values import Floats


def within_steps(paths: Floats, most: Floats) -> Floats:
    """Return paths (T, n) that move by no more than most (n,) from one frame to the next.

    Each is half way between the highest path of that kind below the given one and the lowest above it: of all such
    paths its largest distance from the given one is the least. Where a path keeps to its limits for long enough it
    stays as it is.
    """
    above, below = np.array(paths), np.array(paths)
    for t in range(1, len(paths)):
        np.minimum(above[t], above[t - 1] + most, out=above[t])
        np.maximum(below[t], below[t - 1] - most, out=below[t])
    for t in range(len(paths) - 2, -1, -1):
        np.minimum(above[t], above[t + 1] + most, out=above[t])
        np.maximum(below[t], below[t + 1] - most, out=below[t])
    return 0.5 * (above + below)


def slowed(paths: Floats, most: Floats, frames: float) -> Floats:
    """Return such paths without corners: a Gaussian of some frames' width rounds them and makes no step longer."""
    return gaussian_filter1d(within_steps(paths, most), frames, axis=0, mode="nearest")
