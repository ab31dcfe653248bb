"""The position of the hips relative to the markers of the pelvis, from its width and depth (Harrington et al. 2007)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from posable.mocap.marker_sets import placement_of
from posable.model.body_plan import SIDES, BodyPlan

FARTHEST = 0.09  # [m] of a functional hip from the regression; beyond, markers slid on thigh or pelvis
SURE = 0.008  # [m] spread of a functional centre after much motion
ENOUGH = 25.0  # [deg] of motion in either direction that a functional centre needs; with less its accuracy drops fast
SKIN = 0.005  # [m] by which skin moves on bone
ASTRAY = 0.05  # [m] from its usual place on its bone, or distance from a joint, at which a marker is not believed
STEPS = 30  # of the fit of a sphere, at most
LEAST = 20  # frames that it needs
FRONT, BACK = ("LFWT", "RFWT"), ("LBWT", "RBWT")
SACRUM = "SACR"


@dataclass(frozen=True, eq=False)
class Hips:
    """The hips of a figure and the markers from which their centres are expected.

    Attributes:
        joints: The joints of the left and the right hip.
        axes: (3, 3) Left, up and forward of the figure at rest, as columns, in the frame of the pelvis.
        base: (2, 3) [m] Centres of the hips in that frame, at rest.
        front: Markers on the left and right front of the pelvis.
        back: Markers on its back: left and right, or one on the sacrum.
        shape: (k, 3) [m] Where these markers are in the frame of their cluster, those in front first.
        centers: {joint: (centre (3,) [m] in that frame, spread [m])} of hips that moved enough to find them.
    """

    joints: tuple[str, str]
    axes: np.ndarray
    base: np.ndarray
    front: tuple[str, ...]
    back: tuple[str, ...]
    shape: np.ndarray
    centers: Mapping[str, tuple[np.ndarray, float]]

    def expected(self, width: float, depth: float) -> np.ndarray:
        """Return the centres (2, 3) [m] of left and right hip from the middle of the front markers, along the axes."""
        out = 0.33 * width + 0.0073
        down, behind = 0.30 * width + 0.0109, 0.24 * depth + 0.0099
        return np.array([[out, -down, -behind], [-out, -down, -behind]])

    @property
    def size(self) -> tuple[float, float]:
        """Width of the pelvis between its front markers, and its depth to those on the back [m]."""
        front, back = self.shape[:2], self.shape[2:]
        return (
            float(np.linalg.norm(front[0] - front[1])),
            float(np.linalg.norm(front.mean(axis=0) - back.mean(axis=0))),
        )

    def regressed(self) -> np.ndarray:
        """Return the centres (2, 3) [m] of left and right hip by the regression, in the frame of the cluster."""
        front, back = self.shape[:2], self.shape[2:].mean(axis=0)
        left = (front[0] - front[1]) / np.linalg.norm(front[0] - front[1])
        ahead = front.mean(axis=0) - back
        ahead -= (ahead @ left) * left
        ahead /= np.linalg.norm(ahead)
        return front.mean(axis=0) + self.expected(*self.size) @ np.stack([left, np.cross(ahead, left), ahead])


def find_hips(plan: BodyPlan, bones: Mapping[str, str], paths: Mapping[str, np.ndarray]) -> Hips | None:
    """Return the hips of a figure, or None where they are not single joints on a rigid pelvis with markers in front.

    Args:
        plan: The figure.
        bones: {marker: joint that carries it}.
        paths: {marker: (T, 3) [m]} Over frames of the take, NaN where unseen.
    """
    figure = plan.skeleton
    joints = (plan[f"hip.{SIDES[0]}"], plan[f"hip.{SIDES[1]}"])
    above = {joint.name: joint.parent for joint in figure.joints}
    moves = {joint.name: bool(joint.motion.dofs) for joint in figure.joints}
    if "pelvis" not in plan or any(f"hip.{side}" in plan.centers for side in SIDES):
        return None
    pelvis = plan["pelvis"]
    for joint in joints:
        parent = above[joint]
        while parent is not None and parent != pelvis and not moves[parent]:
            parent = above[parent]
        if parent != pelvis:
            return None
    at: dict[str, str] = {}
    for name, bone in bones.items():
        found = placement_of(name)
        if found is not None and bone == pelvis and np.isfinite(paths[name]).any():
            at.setdefault(found[2], name)
    back = tuple(at[place] for place in BACK if place in at)
    back = back if len(back) == len(BACK) else (at[SACRUM],) if SACRUM in at else ()
    if not back or not all(place in at for place in FRONT):
        return None
    turn = plan.rest.rotation_matrix(pelvis)
    base = np.array([plan.rest.convert(plan.rest.position(joint), to=pelvis) for joint in joints])
    axes = turn.T @ np.stack([plan.left, plan.up, plan.forward], axis=-1)
    front = tuple(at[place] for place in FRONT)
    cluster = np.stack([paths[name] for name in (*front, *back)], axis=1)
    if not np.isfinite(cluster).all(axis=(1, 2)).any():
        return None
    rotations, middles, shape = cluster_frames(cluster)
    if np.linalg.matrix_rank(shape, tol=1e-3) < 2:  # [m]: at one place, or on one line
        return None
    guess = Hips(joints, axes, base, front, back, shape, {})
    centers = {}
    for side, joint in enumerate(joints):
        thigh = [paths[name] for name, bone in bones.items() if bone == joint]
        if len(thigh) > 1:
            local = np.einsum("tji,tkj->tki", rotations, np.stack(thigh, axis=1) - middles[:, None])
            found = ball_center(local, guess.regressed()[side])
            if found is not None and np.linalg.norm(found[0] - guess.regressed()[side]) < FARTHEST:
                centers[joint] = found
    return replace(guess, centers=centers)


# --- Functional centres ---


def ball_center(paths: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, float] | None:
    """Return the point about which markers with paths (T, k, 3) [m] keep their distances, and its spread [m].

    A robust Gauss-Newton fit of spheres with one centre. Its spread grows fast where the markers sweep a narrow band:
    a walk does not show where hips are sideways, and skin that moves with each step would bias the result.

    Args:
        paths: In the frame of the bone above.
        start: (3,) [m] A first guess.

    Returns:
        The centre (3,) [m] and its spread; None where too few frames show the markers.
    """
    seen: np.ndarray = np.asarray(np.isfinite(paths).all(axis=-1))
    paths, seen = paths[seen.any(axis=1)], seen[seen.any(axis=1)]
    if not len(seen) or seen.sum(axis=0).min() < LEAST:
        return None
    center = np.asarray(start, dtype=float)
    lengths = np.linalg.norm(paths - center, axis=-1)
    radii = np.nanmedian(lengths, axis=0)
    seen &= np.abs(lengths - radii) < ASTRAY
    if seen.sum(axis=0).min() < LEAST:
        return None
    count = paths.shape[1]
    swept_by = [paths[seen[:, k], k] for k in range(count)]
    paths = np.where(seen[..., None], paths, 0.0)
    for _ in range(STEPS):
        arms = paths - center
        lengths = np.linalg.norm(arms, axis=-1)
        misses = lengths - radii
        weights = seen / np.sqrt(1.0 + np.square(misses / SKIN))
        rows = np.zeros((*misses.shape, 3 + count))
        rows[..., :3] = -arms / np.maximum(lengths, 1e-9)[..., None]
        rows[:, np.arange(count), 3 + np.arange(count)] = -1.0
        flat, scaled = rows.reshape(-1, 3 + count), (weights[..., None] * rows).reshape(-1, 3 + count)
        matrix = scaled.T @ flat + 1e-9 * len(flat) * np.eye(3 + count)
        change = -np.linalg.solve(matrix, scaled.T @ misses.ravel())
        center, radii = center + change[:3], radii + change[3:]
        if np.linalg.norm(change[:3]) < 1e-5:
            break
    swept = min(sweep(path, center) for path in swept_by)
    return center, SURE * max(1.0, (ENOUGH / max(swept, 1e-3)) ** 6)


def sweep(paths: np.ndarray, center: np.ndarray) -> float:
    """Return the angle [deg] that a path (T, 3) sweeps about a centre (3,), across the direction of most motion."""
    arms = paths - center
    arms = arms / np.maximum(np.linalg.norm(arms, axis=-1, keepdims=True), 1e-9)
    middle = arms.mean(axis=0)
    across = np.linalg.svd(arms - middle, full_matrices=False)[2][1]
    low, high = np.quantile((arms - middle) @ across, [0.02, 0.98])
    return float(np.degrees(2.0 * np.arcsin(min(0.5 * (high - low), 1.0))))


def cluster_frames(paths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rotations (T, 3, 3), middles (T, 3) and the shape (k, 3) [m] of a rigid cluster with paths (T, k, 3).

    Middles are NaN in frames that do not show the cluster, or in which one of its markers is astray.
    """
    seen: np.ndarray = np.asarray(np.isfinite(paths).all(axis=(1, 2)))
    middle = np.where(seen[:, None], paths.mean(axis=1), np.nan)
    flat = np.where(seen[:, None, None], paths - middle[:, None], 0.0)
    shape, turn = flat[int(np.argmax(seen))], np.zeros((len(paths), 3, 3))
    places = flat
    for _ in range(3):
        u, _, v = np.linalg.svd(np.einsum("tki,kj->tij", flat, shape))
        u[:, :, 2] *= np.sign(np.linalg.det(u @ v))[:, None]
        turn = u @ v
        places = np.einsum("tji,tkj->tki", turn, flat)
        shape = np.median(places[seen], axis=0)
    off = np.linalg.norm(places - shape, axis=-1).max(axis=1)
    middle[off > ASTRAY] = np.nan
    return turn, middle, shape
