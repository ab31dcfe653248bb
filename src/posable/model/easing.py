"""Cubic easing: a motion through keys whose speed never jumps.

Numbers follow a monotone cubic between keys (Fritsch & Carlson 1980, as SciPy's PCHIP takes its slopes): the speed is
continuous, zero at both ends and where a number turns round, and no key is overshot. Rotations follow the same rule on
the sphere: a cubic Bezier curve by repeated slerps (Shoemake 1985), whose angular velocity at a key is taken from its
two neighbours.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from posable.model.joint_values import joint_transform, rotation_values, turns_freely
from posable.model.skeleton import Skeleton

Floats = NDArray[np.float64]


def ease(skeleton: Skeleton, when: Floats, keys: Floats, at: Floats) -> Floats:
    """Return poses (T, n) at times `at` (T,) [s] of a motion through keys (K, n) at times `when` (K,) [s]."""
    if len(when) == 1:
        return np.repeat(keys, len(at), axis=0)
    k = np.clip(np.searchsorted(when, at, side="right") - 1, 0, len(when) - 2)
    steps = np.diff(when)
    part = np.clip((at - when[k]) / steps[k], 0.0, 1.0)
    out = _curve(keys, slopes(np.diff(keys, axis=0) / steps[:, None], steps), k, steps, part)
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        if turns_freely(joint.motion):
            turned = joint_transform(joint.motion, keys[:, where])[1]
            ways = (turned[:-1].inv() * turned[1:]).as_rotvec()  # the same vector in the frames of both keys
            rates = slopes(ways / steps[:, None], steps)
            last = slice(where.stop - 3, where.stop)
            linear = keys[k][:, last] + part[:, None] * (keys[k + 1] - keys[k])[:, last]
            out[:, last] = rotation_values(joint.motion, _turned(turned, rates, k, steps, part), linear)
    out[part == 0.0], out[part == 1.0] = keys[k[part == 0.0]], keys[k[part == 1.0] + 1]
    return out


def slopes(speeds: Floats, steps: Floats) -> Floats:
    """Return the speeds (K, n) at keys of the speeds (K-1, n) between them: a weighted harmonic mean, zero at turns.

    Args:
        speeds: (K-1, n), mean speeds between neighbouring keys.
        steps: (K-1,) [s], the times between them.
    """
    out = np.zeros((len(speeds) + 1, speeds.shape[1]))
    if len(speeds) > 1:
        before, after = speeds[:-1], speeds[1:]
        first, last = (2.0 * steps[1:] + steps[:-1])[:, None], (steps[1:] + 2.0 * steps[:-1])[:, None]
        same = before * after > 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (first + last) / (first / before + last / after)
        out[1:-1] = np.where(same, mean, 0.0)
    return out


def _curve(keys: Floats, rates: Floats, k: NDArray[np.int_], steps: Floats, part: Floats) -> Floats:
    """Return the cubic Hermite curve (T, n) through keys (K, n) with speeds (K, n), at parts (T,) of intervals k."""
    s, h = part[:, None], steps[k][:, None]
    rise = s * s * (3.0 - 2.0 * s)
    bends = h * s * (1.0 - s) * ((1.0 - s) * rates[k] - s * rates[k + 1])
    return keys[k] + rise * (keys[k + 1] - keys[k]) + bends


def _turned(turned: Any, rates: Floats, k: NDArray[np.int_], steps: Floats, part: Floats) -> Rotation:
    """Return the rotations (T,) of a cubic Bezier curve through keys (K,) with angular velocities (K, 3) [rad/s].

    turned: A Rotation of K turns; SciPy's types leave out that it takes arrays of indices.
    """
    third = steps[k][:, None] / 3.0
    points = [turned[k], turned[k] * Rotation.from_rotvec(third * rates[k])]
    points += [turned[k + 1] * Rotation.from_rotvec(-third * rates[k + 1]), turned[k + 1]]
    while len(points) > 1:  # de Casteljau
        points = [a * Rotation.from_rotvec(part[:, None] * (a.inv() * b).as_rotvec()) for a, b in pairwise(points)]
    return points[0]
