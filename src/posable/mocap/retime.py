"""Time scaling: how fast a path of poses can be travelled inside velocity and acceleration limits."""

from __future__ import annotations

import numpy as np

BISECTIONS = 40
ROUNDS = 8  # of slowing down where frames, at their distance, break a limit


def fastest_rates(poses: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
    """Return how many poses a second (T,) each pose of a path is passed with, on the fastest way from rest to rest.

    The path is q(s) through the poses, s = 0 ... T-1. With x = (ds/dt)^2 and u = d2s/dt2 the limits on velocity and
    acceleration are linear in x and u: a pass backwards finds how fast each pose may be passed so that the path can
    still be finished, and a pass forwards goes as fast as that allows (Pham & Pham 2018).

    Args:
        poses: (T, n) [rad, m], T > 1.
        velocity: (n,) [rad/s, m/s] limits, infinity allowed.
        acceleration: (n,) [rad/s^2, m/s^2] limits, infinity allowed.
    """
    total = len(poses)
    slope, bend = path_derivatives(poses)
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(np.abs(slope) > 1e-12, velocity / np.abs(slope), np.inf).min(axis=1)
    most = np.minimum(bound, 1e6) ** 2
    reach = np.zeros(total)  # the largest x from which the rest can be travelled
    for i in range(total - 2, -1, -1):
        reach[i] = _largest(slope[i], bend[i], acceleration, most[i], reach[i + 1])
    x = np.zeros(total)
    for i in range(total - 1):
        _, high = _accelerations(slope[i], bend[i], acceleration, x[i])
        x[i + 1] = min(max(x[i] + 2.0 * high, 0.0), reach[i + 1])
    return np.sqrt(x)


def travel(poses: np.ndarray, rates: np.ndarray, fps: float, stretch: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers (K,) of the poses that a travel at these rates (T,) is at, fps times a second, and the poses.

    stretch: how many times slower. The travel takes a whole number of frames, so that it ends at the last pose.
    """
    took = 2.0 / np.maximum(rates[1:] + rates[:-1], 1e-9)
    when = np.concatenate([[0.0], np.cumsum(took)])
    count = max(int(np.ceil(when[-1] * stretch * fps - 1e-9)), 1)
    asked = np.linspace(0.0, when[-1], count + 1)
    i = np.clip(np.searchsorted(when, asked, side="right") - 1, 0, len(took) - 1)
    since = asked - when[i]
    gain = (rates[i + 1] - rates[i]) / took[i]
    place = np.clip(i + rates[i] * since + 0.5 * gain * since * since, 0.0, len(poses) - 1.0)
    from scipy.interpolate import CubicSpline

    return place, CubicSpline(np.arange(len(poses)), poses)(place)


def timed(
    poses: np.ndarray, fps: float, duration: float | None, velocity: np.ndarray, acceleration: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a path (T, n) travelled from rest to rest: which pose each frame (K,) is at, and the frames (K, n).

    duration [s]: None: as fast as the limits allow; they then hold between frames as well as differences can tell.
    """
    if duration is not None:
        rates = fastest_rates(poses, np.full(poses.shape[1], np.inf), np.ones(poses.shape[1]))
        return travel(poses, rates, fps, duration / np.sum(2.0 / np.maximum(rates[1:] + rates[:-1], 1e-9)))
    rates, stretch = fastest_rates(poses, velocity, acceleration), 1.0
    place, out = travel(poses, rates, fps, stretch)
    for _ in range(ROUNDS):
        over = max(
            float((np.abs(np.diff(out, axis=0)) * fps / velocity).max(initial=0.0)),
            float((np.abs(np.diff(out, n=2, axis=0)) * fps * fps / acceleration).max(initial=0.0)) ** 0.5,
        )
        if over <= 1.0 + 1e-9:
            break
        stretch *= over * (1.0 + 1e-6)
        place, out = travel(poses, rates, fps, stretch)
    return place, out


def path_derivatives(poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and second derivative (T, n) of a path through poses (T, n), by their number."""
    if len(poses) < 3:
        slope = np.repeat(np.diff(poses, axis=0), 2, axis=0) if len(poses) == 2 else np.zeros_like(poses)
        return slope, np.zeros_like(poses)
    bend = np.zeros_like(poses)
    bend[1:-1] = poses[2:] - 2.0 * poses[1:-1] + poses[:-2]
    bend[0], bend[-1] = bend[1], bend[-2]
    return np.gradient(poses, axis=0), bend


def _accelerations(slope: np.ndarray, bend: np.ndarray, limit: np.ndarray, x: float) -> tuple[float, float]:
    """Return the interval of u with |slope u + bend x| <= limit; empty (low > high) where there is none."""
    moving = np.abs(slope) > 1e-12
    if (np.abs(bend[~moving]) * x > limit[~moving]).any():
        return 1.0, -1.0
    s, b, a = slope[moving], bend[moving] * x, limit[moving]
    if not s.size:
        return -np.inf, np.inf
    one, other = (-a - b) / s, (a - b) / s
    return float(np.minimum(one, other).max()), float(np.maximum(one, other).min())


def _largest(slope: np.ndarray, bend: np.ndarray, limit: np.ndarray, most: float, after: float) -> float:
    """Return the largest x <= most from which some u leads to at most `after`, one pose on."""

    def allowed(x: float) -> bool:
        low, high = _accelerations(slope, bend, limit, x)
        return low <= high and x + 2.0 * low <= after

    if allowed(most):
        return most
    low, high = 0.0, most
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low
