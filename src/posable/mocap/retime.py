"""Time scaling of a path of poses, and paths brought within velocity limits."""

from __future__ import annotations

import math

import numpy as np
from scipy.ndimage import gaussian_filter1d, maximum_filter1d

from posable.model.joint_values import Floats

BISECTIONS = 40
ROUNDS = 8  # of slowing down until the sampled frames respect the limits


def fastest_rates(poses: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray) -> np.ndarray:
    """Return the rates (T,) [poses/s] at which the poses of a path are passed, as fast as possible from rest to rest.

    The path is q(s) through the poses, s = 0 ... T-1. With x = (ds/dt)^2 and u = d2s/dt2 the limits on velocity and
    acceleration are linear in x and u: a backward pass finds the largest rate at each pose from which the path can
    still be completed, and a forward pass goes as fast as that allows (Pham & Pham 2018).

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
    reach = np.zeros(total)  # the largest x from which the path can be completed
    for i in range(total - 2, -1, -1):
        reach[i] = _largest(slope[i], bend[i], acceleration, most[i], reach[i + 1])
    x = np.zeros(total)
    for i in range(total - 1):
        _, high = _accelerations(slope[i], bend[i], acceleration, x[i])
        x[i + 1] = min(max(x[i] + 2.0 * high, 0.0), reach[i + 1])
    return np.sqrt(x)


def durations(rates: np.ndarray) -> np.ndarray:
    """Return the time (T-1,) [s] from each pose of a path to the next one at rates (T,) [poses/s]."""
    return 2.0 / np.maximum(rates[1:] + rates[:-1], 1e-9)


def travel(poses: np.ndarray, rates: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the (fractional) pose indices (K,) of the frames of a path, and the frames (K, n), K = count + 1.

    The path is passed at rates (T,) [poses/s], all scaled so that the last of the frames is at the last pose.
    """
    took = durations(rates)
    when = np.concatenate([[0.0], np.cumsum(took)])
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
    """Retime a path (T, n) from rest to rest: return the pose index (K,) of each frame, and the frames (K, n).

    duration [s]: None: as fast as the limits allow, which are then checked by finite differences of the frames.
    """
    if duration is not None:
        rates = fastest_rates(poses, np.full(poses.shape[1], np.inf), np.ones(poses.shape[1]))
        return travel(poses, rates, _whole_frames(duration * fps))
    rates = fastest_rates(poses, velocity, acceleration)
    count = _whole_frames(float(durations(rates).sum()) * fps)
    place, out = travel(poses, rates, count)
    for _ in range(ROUNDS):
        over = max(
            float((np.abs(np.diff(out, axis=0)) * fps / velocity).max(initial=0.0)),
            float((np.abs(np.diff(out, n=2, axis=0)) * fps * fps / acceleration).max(initial=0.0)) ** 0.5,
        )
        if over <= 1.0 + 1e-9:
            break
        count = max(_whole_frames(count * over), count + 1)
        place, out = travel(poses, rates, count)
    return place, out


def _whole_frames(frames: float) -> int:
    return max(int(np.ceil(frames - 1e-9)), 1)


def path_derivatives(poses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and second derivative (T, n) of a path through poses (T, n) with respect to their index."""
    if len(poses) < 3:
        slope = np.repeat(np.diff(poses, axis=0), 2, axis=0) if len(poses) == 2 else np.zeros_like(poses)
        return slope, np.zeros_like(poses)
    bend = np.zeros_like(poses)
    bend[1:-1] = poses[2:] - 2.0 * poses[1:-1] + poses[:-2]
    bend[0], bend[-1] = bend[1], bend[-2]
    return np.gradient(poses, axis=0), bend


def _accelerations(slope: np.ndarray, bend: np.ndarray, limit: np.ndarray, x: float) -> tuple[float, float]:
    """Return the interval of u with |slope u + bend x| <= limit; low > high if it is empty."""
    moving = np.abs(slope) > 1e-12
    if (np.abs(bend[~moving]) * x > limit[~moving]).any():
        return 1.0, -1.0
    s, b, a = slope[moving], bend[moving] * x, limit[moving]
    if not s.size:
        return -np.inf, np.inf
    one, other = (-a - b) / s, (a - b) / s
    return float(np.minimum(one, other).max()), float(np.maximum(one, other).min())


def _largest(slope: np.ndarray, bend: np.ndarray, limit: np.ndarray, most: float, after: float) -> float:
    """Return the largest x <= most from which some u leads to at most `after` at the next pose."""

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


# --- Paths that keep to velocity limits: the nearest ones to paths that do not ---


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
    """Return such paths without corners: a Gaussian of some frames' width rounds them where they differ."""
    limited = within_steps(paths, most)
    rounded = gaussian_filter1d(limited, frames, axis=0, mode="nearest")
    about = maximum_filter1d((limited != paths).astype(float), 2 * math.ceil(3.0 * frames) + 1, axis=0)
    share = gaussian_filter1d(about, frames, axis=0, mode="nearest")
    return within_steps(limited + share * (rounded - limited), most)
