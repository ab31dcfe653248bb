"""Jacobians of a frame by the methods of the papers, and their time derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.engine import reference as kernels
from posable.engine.layout import work_size
from posable.errors import SkeletonError, unknown
from posable.model.kinematics import as_poses, forward, in_rows, scratch
from posable.model.skeleton import Skeleton

ROWS = ("position", "rotation", "pose", "axes")
METHODS = {"cross": kernels.CROSS, "adjoint": kernels.ADJOINT, "adjusted": kernels.ADJUSTED, "finite": kernels.FINITE}
FRAMES = {"world": kernels.WORLD_AXES, "body": kernels.OWN_AXES}


def jacobian(
    skeleton: Skeleton,
    pose: Any,
    body: str,
    *,
    rows: str = "position",
    method: str = "cross",
    frame: str = "world",
    point: Any = (0.0, 0.0, 0.0),
    gains: bool = False,
) -> np.ndarray:
    """Return the Jacobian of a site or a joint.

    Args:
        skeleton: The figure.
        pose: (..., n) [rad, m].
        body: A site or a joint.
        rows: "position" (3) [m], "rotation" (3, angular velocity) [rad], "pose" (6: position, then rotation, the twist
            [v; w] of Rabbani 2017), or "axes" (6: the frame's unit vectors i, then j; Engell-Nørregård & Erleben 2011,
            (A.11), (A.22)).
        method: Rabbani's procedures "cross" (1), "adjoint" (2) and "adjusted" (3), or "finite" differences.
        frame: The axes of the rows, "world" or the "body"'s own (Rabbani 2017, (13)).
        point: (3,) [m], in the body's frame, whose motion counts (Rabbani 2017, (12)).
        gains: Scale each column by its joint's strength (Rabbani 2017, 3.3).

    Returns:
        (..., k, n); frozen joints have zero columns.
    """
    if not isinstance(rows, str) or rows not in ROWS:
        raise unknown("rows", rows, ROWS)
    if not isinstance(method, str) or method not in METHODS:
        raise unknown("method", method, METHODS)
    poses = as_poses(skeleton, pose)
    flat = in_rows(poses)
    on, place = body_and_place(skeleton, body, point)
    t, n = flat.shape
    twists, rotations = np.empty((t, 6, n)), np.empty((t, 9))
    work = scratch(work_size(n, skeleton.figure.body.shape[0], 0, 1) + kernels.SCRATCH)
    kernels.frame_jacobians(
        skeleton.figure, flat, work[kernels.SCRATCH :], on, place, METHODS[method], _axes(frame),
        work[: kernels.SCRATCH], rotations, twists,
    )  # fmt: skip
    if rows == "axes":
        twists = _axis_rows(twists[:, 3:], rotations.reshape(t, 3, 3) if frame == "world" else np.eye(3)[None])
    return _chosen_rows(skeleton, twists, rows, gains, poses.shape[:-1])


def jacobian_rate(
    skeleton: Skeleton,
    pose: Any,
    velocity: Any,
    body: str,
    *,
    rows: str = "pose",
    frame: str = "world",
    point: Any = (0.0, 0.0, 0.0),
    gains: bool = False,
) -> np.ndarray:
    """Return the time derivative of the Jacobian of a site or a joint (Rabbani 2017, (14), (15)).

    Args:
        skeleton: The figure.
        pose: (..., n) [rad, m].
        velocity: (..., n) [rad/s, m/s].
        body: A site or a joint.
        rows: As for `jacobian`: "position", "rotation", "pose" or "axes".
        frame: The axes of the rows, "world" or the "body"'s own.
        point: (3,) [m], in the body's frame, whose motion counts.
        gains: Scale each column by its joint's strength.

    Returns:
        (..., k, n); frozen joints have zero columns.
    """
    if rows not in ROWS:
        raise unknown("rows", rows, ROWS)
    poses, speeds = np.broadcast_arrays(as_poses(skeleton, pose), as_poses(skeleton, velocity, "velocity"))
    n = skeleton.size
    flat, flat_speeds = in_rows(poses), in_rows(speeds)
    on, place = body_and_place(skeleton, body, point)
    out = np.empty((flat.shape[0], 6, n))
    work = scratch(kernels.SCRATCH + 6 * n)
    kernels.frame_jacobian_rates(
        skeleton.figure, flat, flat_speeds, on, place, _axes(frame), work[: kernels.SCRATCH],
        work[kernels.SCRATCH : kernels.SCRATCH + 6 * n].reshape(6, n), out,
    )  # fmt: skip
    if rows == "axes":
        out = _axis_row_rates(skeleton, flat, flat_speeds, body, frame, out[:, 3:])
    return _chosen_rows(skeleton, out, rows, gains, poses.shape[:-1])


def _chosen_rows(skeleton: Skeleton, out: np.ndarray, rows: str, gains: bool, shape: tuple[int, ...]) -> np.ndarray:
    """Return the chosen of six rows (t, 6, n), zero for frozen joints, with the leading axes of the poses."""
    part = {"position": slice(0, 3), "rotation": slice(3, 6)}.get(rows, slice(0, 6))
    out = out[:, part] * np.where(skeleton.frozen, 0.0, skeleton.gain if gains else 1.0)
    return out.reshape(*shape, *out.shape[1:])


def _axis_row_rates(
    skeleton: Skeleton, poses: np.ndarray, speeds: np.ndarray, body: str, frame: str, angular_rates: np.ndarray
) -> np.ndarray:
    """Return the time derivatives (t, 6, n) of the rows "axes"; angular_rates (t, 3, n): those of the rotation rows."""
    if frame == "body":  # its own axes do not move relative to it
        return _axis_rows(angular_rates, np.eye(3)[None])
    rotations = forward(skeleton, poses).matrix(body)[:, :3, :3]
    angular = jacobian(skeleton, poses, body, rows="rotation")
    turning = np.einsum("tkn,tn->tk", angular, speeds)
    moving = np.cross(turning[:, None], np.swapaxes(rotations, 1, 2))  # rows: how i, j, k move
    return _axis_rows(angular_rates, rotations) + _axis_rows(angular, np.swapaxes(moving, 1, 2))


def _axes(frame: str) -> int:
    if frame not in FRAMES:
        raise unknown("frame", frame, FRAMES)
    return FRAMES[frame]


def body_and_place(skeleton: Skeleton, body: str, point: Any) -> tuple[int, np.ndarray]:
    """Return the body that carries a frame, and (12,): the point and the frame's rotation in that body."""
    try:
        p = np.asarray(point, dtype=float)
    except (TypeError, ValueError, OverflowError):
        p = np.empty(0)
    if p.shape != (3,) or not np.all(np.isfinite(p)):
        raise SkeletonError(f"point: expected three finite numbers [m], got {point!r}")
    row = skeleton.frame(body)
    rotation = skeleton.frame_rotations[row]
    place = np.concatenate([skeleton.frame_positions[row] + rotation @ p, rotation.ravel()])
    return int(skeleton.frame_bodies[row]), place


def _axis_rows(angular: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Return (t, 6, n): w x i, then w x j, for angular velocities (t, 3, n) and frames whose columns are i, j, k."""
    sweeps = [np.cross(angular, rotations[:, :, k, None], axis=1) for k in (0, 1)]
    return np.concatenate(sweeps, axis=1)
