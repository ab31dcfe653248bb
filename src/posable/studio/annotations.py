"""Lines drawn into the scene: the ranges of joints at their limits, the elbow's circle, how far a handle misses.

Each function returns segments (S, 2, 3) [m] and their colours (S, 2, 3).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import posable as ps

from .words import slides

AMBER, RED, GREEN, GREY = (255, 159, 28), (239, 71, 111), (46, 160, 112), (190, 198, 210)
Lines = tuple[np.ndarray, np.ndarray]
NONE: Lines = (np.zeros((0, 2, 3)), np.zeros((0, 2, 3)))
MOST = 8  # joints whose ranges are drawn at once


def arcs_of(view: Any, size: float) -> Lines:
    """Draw the range of every degree of freedom that stands at its limit, as an arc with a red end where it stands."""
    points: list[np.ndarray] = []
    colors: list[np.ndarray] = []
    for met in view.limits:
        if slides(view.skeleton, met.dof) or len(points) >= MOST:
            continue
        low, high = view.skeleton.lower[met.dof], view.skeleton.upper[met.dof]
        if not (np.isfinite(low) and np.isfinite(high) and high - low < 2.0 * np.pi):
            continue
        segments = _arc(view, met, low, high, size)
        points.append(segments)
        shade = np.tile(np.array(AMBER, dtype=float), (len(segments), 2, 1))
        shade[-3 if met.side == "upper" else 0 :][:3] = RED
        colors.append(shade)
    return (np.concatenate(points), np.concatenate(colors)) if points else NONE


def _arc(view: Any, met: Any, low: float, high: float, size: float) -> np.ndarray:
    """Return an arc (S, 2, 3) about the joint's axis from the lower to the upper limit, with spokes at both ends."""
    skeleton, frames = view.skeleton, view.frames
    centre = frames.position(met.joint)
    axis = ps.jacobian(skeleton, view.pose, met.joint, rows="rotation")[:, met.dof]
    axis = axis / max(float(np.linalg.norm(axis)), 1e-12)
    along = _bone_direction(skeleton, frames, met.joint)
    across = along - (along @ axis) * axis
    if np.linalg.norm(across) < 0.2:  # a twist about the bone: any direction across it will do
        across = np.cross(axis, np.eye(3)[int(np.argmin(np.abs(axis)))])
    u = across / np.linalg.norm(across)
    v = np.cross(axis, u)
    angles = np.linspace(low, high, 25) - met.value
    radius = 0.17 * size
    rim = centre + radius * (np.cos(angles)[:, None] * u + np.sin(angles)[:, None] * v)
    ends = np.stack([np.stack([centre, rim[0]]), np.stack([rim[-1], centre])])
    return np.concatenate([ends[:1], np.stack([rim[:-1], rim[1:]], axis=1), ends[1:]])


def _bone_direction(skeleton: ps.Skeleton, frames: Any, joint: str) -> np.ndarray:
    """Return the direction (3,) of a joint's bone: to its first child, or to its first site."""
    places = [frames.position(j.name) for j in skeleton.joints if j.parent == joint]
    places += [frames.position(s.name) for s in skeleton.sites if s.joint == joint]
    for place in places:
        offset = place - frames.position(joint)
        if np.linalg.norm(offset) > 1e-6:
            return offset / np.linalg.norm(offset)
    return frames.rotation_matrix(joint)[:, 0]


def circle_of(view: Any) -> Lines:
    """Draw the circle of the chosen elbow or knee: green where every limit is held, grey elsewhere."""
    limb = view.limb
    if limb is None or not np.isfinite(limb.circle.radius):
        return NONE
    angles = np.linspace(-np.pi, np.pi, 97)
    rim = limb.circle.point(angles)
    middle = 0.5 * (angles[:-1] + angles[1:])
    good = np.zeros(len(middle), dtype=bool)
    for low, high in limb.ranges:
        good |= (middle - low) % (2.0 * np.pi) <= high - low
    color = np.where(good[:, None], np.array(GREEN), np.array(GREY)).astype(float)
    return np.stack([rim[:-1], rim[1:]], axis=1), np.repeat(color[:, None], 2, axis=1)


def misses_of(view: Any) -> Lines:
    """Draw a red line from every handle that is not where it should be to its target."""
    lines = []
    for handle in view.handles:
        if handle.mode != "orientation" and (handle.hold == "pinned" or view.active == handle.body):
            place = view.frames.position(handle.body)
            if np.linalg.norm(place - handle.position) > 2e-3:
                lines.append((place, handle.position))
    if not lines:
        return NONE
    points = np.array(lines)
    return points, np.tile(np.array(RED, dtype=float), (len(points), 2, 1))
