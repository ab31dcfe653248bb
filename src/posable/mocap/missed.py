"""Why a marker or a foot is off: which limits its limb stands at where it is off most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posable.model.motion import Motion
from posable.model.skeleton import Skeleton
from posable.problem import path_of

AT_LIMIT = 1e-4  # [rad, m]
OFTEN = 0.5  # part of the frames that a limit must be met in to be named
OFF = 0.015  # [m]: mean error from which on a marker is told
SLIP = 0.01  # [m]: from which on a contact is told
MOST = 3  # lines, and limits in a line


def limits_met(skeleton: Skeleton, poses: np.ndarray, name: str) -> list[str]:
    """Return the limits, such as "knee.L (upper)", that the limb of a joint or site is at in most of poses (t, n)."""
    above = sorted(path_of(skeleton, int(skeleton.frame_bodies[skeleton.frame(name)])), reverse=True)
    out = []
    for i in above:
        if not skeleton.lower[i] < skeleton.upper[i] or not len(poses):
            continue
        for side, at in (
            ("lower", poses[:, i] <= skeleton.lower[i] + AT_LIMIT),
            ("upper", poses[:, i] >= skeleton.upper[i] - AT_LIMIT),
        ):
            if at.mean() >= OFTEN:
                out.append(f"{skeleton.dof_names[i]} ({side})")
    return out[:MOST]


def why_markers_are_off(motion: Motion, sites: Sequence[str], errors: np.ndarray) -> list[str]:
    """Return a line for each marker that is far off on average: by how much, and what its limb stands at where it is.

    errors: (T, M) [m], NaN where a marker was not seen.
    """
    seen = np.isfinite(errors)
    means = np.where(seen, errors, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    out = []
    order: list[int] = np.argsort(-means).tolist()
    for k in [k for k in order if means[k] > OFF][:MOST]:
        worst = np.flatnonzero(seen[:, k] & (np.nan_to_num(errors[:, k]) >= np.nanquantile(errors[:, k], 0.75)))
        met = limits_met(motion.skeleton, motion.poses[worst], sites[k])
        why = (
            f"where it is worst {', '.join(met)} is at its limit" if met else "no limit is in the way: check its place"
        )
        out.append(f"{sites[k]} is {1e3 * means[k]:.0f} mm off; {why}")
    return out


def why_contacts_slip(motion: Motion, steps: Sequence[tuple[str, int, int]], slips: np.ndarray) -> list[str]:
    """Return a line for each point whose contacts (point, first frame, end) slip [m]: the worst of each point."""
    worst: dict[str, int] = {}
    for k, (point, _, _) in enumerate(steps):
        if slips[k] > SLIP and slips[k] > slips[worst.get(point, k)] - 1e-12:
            worst[point] = k
    out = []
    for point, k in sorted(worst.items(), key=lambda item: -slips[item[1]])[:MOST]:
        _, first, end = steps[k]
        met = limits_met(motion.skeleton, motion.poses[first:end], point)
        why = f"with {', '.join(met)} at its limit" if met else "with no limit of its leg in the way"
        out.append(f"{point} slips {1e3 * slips[k]:.0f} mm in frames {first} to {end - 1}, {why}")
    return out
