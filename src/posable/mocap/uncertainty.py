"""How well markers determine a pose: its covariance from their noise, joint by joint and frame by frame.

Independent noise of standard deviation s in each marker coordinate gives a pose the covariance s^2 (J'J)^-1, where J is
the Jacobian of the visible markers; a weak prior covers what they do not determine. Limits, smoothness and typical
poses of people are not used: this is the information in the markers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import KIND, OFF, ROBUST
from posable.goals.point import Position
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton
from posable.problem import Problem

PRIOR = 1.0  # [rad, m]: deviation of an unknown pose; weak, so that J'J need not have full rank
UNKNOWN = 0.25  # [rad, m]: dofs with a larger deviation count as not determined
OFTEN = 0.05  # fraction of the frames above which a dof is listed


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The standard deviation of the poses of a take, from the noise of its markers.

    Attributes:
        noise: [m] Deviation of a marker's coordinate; estimated from the take's own residuals.
        deviation: (T, n) [rad, m] Standard deviation of each degree of freedom; infinite where the markers do not
            determine it; NaN in frames without markers.
        frames: (T,) The frames of the take that they belong to.
    """

    skeleton: Skeleton = field(repr=False)
    noise: float
    deviation: np.ndarray = field(repr=False)
    frames: np.ndarray = field(repr=False)
    _normal: np.ndarray = field(repr=False)  # (T, n, n), J'J of each frame

    def covariance(self, frame: int) -> np.ndarray:
        """Return the covariance (n, n) of the pose in row `frame`; that of the prior where no marker determines it."""
        return covariances(self._normal[frame], self.noise)

    @property
    def undetermined(self) -> dict[str, float]:
        """The degrees of freedom that the markers do not determine, and in what fraction of the frames."""
        share = np.isinf(self.deviation).mean(axis=0) if len(self.deviation) else np.zeros(self.skeleton.size)
        return {name: float(x) for name, x in zip(self.skeleton.dof_names, share, strict=True) if x > OFTEN}

    def __str__(self) -> str:
        lines = [f"marker noise {1e3 * self.noise:.1f} mm"]
        if self.undetermined:
            told = sorted(self.undetermined.items(), key=lambda item: -item[1])
            names = ", ".join(name if part > 0.995 else f"{name} ({part:.0%})" for name, part in told[:8])
            more = f" and {len(told) - 8} more" if len(told) > 8 else ""
            lines.append(f"not determined by the markers: {names}{more}")
        known = np.where(np.isfinite(self.deviation), self.deviation, np.nan)
        seen = np.isfinite(known).any(axis=0)
        slides = self.skeleton.figure.dof[:, KIND] == SLIDE
        means = {i: float(np.nanmedian(known[:, i])) for i in np.flatnonzero(seen & ~slides).tolist()}
        worst = sorted(means.items(), key=lambda item: -item[1])[:3]
        if worst:
            told = ", ".join(f"{self.skeleton.dof_names[i]} ±{np.degrees(x):.1f}°" for i, x in worst)
            lines.append(f"least certain: {told}")
        return "; ".join(lines)


def covariances(normals: np.ndarray, noise: float) -> np.ndarray:
    """Return the covariances (..., n, n) of poses from J'J (..., n, n) and the markers' noise [m]."""
    return np.linalg.inv(normals / max(noise, 1e-9) ** 2 + np.eye(normals.shape[-1]) / PRIOR**2)


def uncertainty_of(
    motion: Motion, sites: Sequence[str], errors: np.ndarray, *, noise: float | None = None, most: int | None = None
) -> Uncertainty:
    """Return the uncertainty of the poses of a take.

    Args:
        motion: The take's motion.
        sites: The sites (M,) that its markers are on.
        errors: (T, M) [m], NaN where a marker was not seen or not believed.
        noise: [m] Of a marker's coordinate; by default estimated from the errors.
        most: Use at most this many frames, evenly spread.

    Returns:
        The uncertainty.
    """
    skeleton, seen = motion.skeleton, np.isfinite(errors)
    total, n = len(motion.poses), skeleton.size
    if noise is None:
        spare = max(3 * int(seen.sum()) - total * n, int(seen.sum()), 1)
        noise = float(np.sqrt((np.where(seen, errors, 0.0) ** 2).sum() / spare))
    chosen = np.arange(total)
    if most is not None and total > most:
        chosen = np.unique(np.linspace(0, total - 1, most).round().astype(int))
    problem = Problem(skeleton, [Position(site, (0.0, 0.0, 0.0), label=str(k)) for k, site in enumerate(sites)])
    problem.constants = problem.constants.copy()
    normals = np.zeros((len(chosen), n, n))
    for row, frame in enumerate(chosen):
        problem.constants[0, :, ROBUST] = np.where(seen[frame], 0.0, OFF)
        normals[row] = problem.evaluate(motion.poses[frame], exact=False)[2]
    still = skeleton.frozen | (skeleton.lower >= skeleton.upper)
    normals[:, still, :] = normals[:, :, still] = 0.0
    spread = np.sqrt(np.diagonal(covariances(normals, noise), axis1=1, axis2=2))
    deviation = np.where(spread > UNKNOWN, np.inf, spread)
    deviation[:, still] = 0.0
    deviation[~seen[chosen].any(axis=1)] = np.nan
    return Uncertainty(skeleton, float(noise), deviation, chosen, normals)
