"""Jacobians of a frame by the methods of the papers, and their time derivative.

The default is compiled (engine/reference.py); Rabbani's (2017) procedures and differences are written out in NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from posable.engine.jit import plain
from posable.engine.joints import ROTVEC, SLIDE, SWING, column_of, parameters_of
from posable.engine.layout import AXIS, FIRST, KIND, LAST, PARENT, work_size
from posable.engine.reference import frame_jacobian_rates, frame_jacobians
from posable.errors import SkeletonError, unknown
from posable.model.kinematics import as_poses, in_rows, place_bodies, scratch
from posable.model.se3 import adjoint, exp, left_jacobian, twist_of
from posable.model.skeleton import Skeleton

ROWS = ("position", "rotation", "pose", "axes")
FRAMES = ("world", "body")
STEP = 2.0e-3  # of "finite" [rad, m]: the error of the extrapolation, h^4, and rounding, 1/h, are both near 1e-12


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
    out, rotations = METHODS[method](skeleton, flat, on, place)
    if _in_body(frame):
        out, rotations = _turned(out, np.swapaxes(rotations, 1, 2)), np.eye(3)[None]
    if rows == "axes":
        out = _axis_rows(out[:, 3:], rotations)
    return _chosen_rows(skeleton, out, rows, gains, poses.shape[:-1])


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
    flat, flat_speeds = in_rows(poses), in_rows(speeds)
    on, place = body_and_place(skeleton, body, point)
    (now, out), rotations = np.empty((2, len(flat), 6, skeleton.size)), np.empty((len(flat), 3, 3))
    frame_jacobian_rates(
        skeleton.figure, flat, flat_speeds, _work(skeleton), on, place, rotations.reshape(-1, 9), now, out
    )
    turning = np.einsum("tkn,tn->tk", now[:, 3:], flat_speeds)
    if _in_body(frame):
        out -= np.cross(turning[:, None, :, None], now.reshape(-1, 2, 3, skeleton.size), axis=2).reshape(out.shape)
        out, rotations = _turned(out, np.swapaxes(rotations, 1, 2)), np.eye(3)[None]
        if rows == "axes":  # its own axes do not move relative to it
            out = _axis_rows(out[:, 3:], rotations)
    elif rows == "axes":
        moving = np.cross(turning[:, None], np.swapaxes(rotations, 1, 2))  # rows: how i, j, k move
        out = _axis_rows(out[:, 3:], rotations) + _axis_rows(now[:, 3:], np.swapaxes(moving, 1, 2))
    return _chosen_rows(skeleton, out, rows, gains, poses.shape[:-1])


def _chosen_rows(skeleton: Skeleton, out: np.ndarray, rows: str, gains: bool, shape: tuple[int, ...]) -> np.ndarray:
    """Return the chosen of six rows (t, 6, n), zero for frozen joints, with the leading axes of the poses."""
    part = {"position": slice(0, 3), "rotation": slice(3, 6)}.get(rows, slice(0, 6))
    out = out[:, part] * np.where(skeleton.frozen, 0.0, skeleton.gain if gains else 1.0)
    return out.reshape(*shape, *out.shape[1:])


def _in_body(frame: str) -> bool:
    if frame not in FRAMES:
        raise unknown("frame", frame, FRAMES)
    return frame == "body"


def _turned(rows: np.ndarray, rotations: np.ndarray) -> np.ndarray:
    """Return Jacobians (t, 6, n) with both halves rotated by (t, 3, 3)."""
    return (rotations[:, None] @ rows.reshape(len(rows), 2, 3, rows.shape[2])).reshape(rows.shape)


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


# --- The methods: Jacobians (t, 6, n) in world axes of a frame on a body, and the frame's rotations (t, 3, 3) ---
#
# poses (t, n); place (12,): the frame's position [m] and its rotation by rows, in the body.

Found = tuple[np.ndarray, np.ndarray]


def _work(skeleton: Skeleton) -> np.ndarray:
    return scratch(work_size(skeleton.size, skeleton.figure.body.shape[0], 0, 1))


def _transforms(rotations: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return rigid motions (..., 4, 4) from rotations (..., 3, 3) and translations (..., 3)."""
    out = np.zeros((*positions.shape[:-1], 4, 4))
    out[..., :3, :3], out[..., :3, 3], out[..., 3, 3] = rotations, positions, 1.0
    return out


def _frames(skeleton: Skeleton, poses: np.ndarray, body: int, place: np.ndarray) -> np.ndarray:
    """Return the frames (t, 4, 4) in the world."""
    positions, rotations, _ = place_bodies(skeleton, poses)
    return _transforms(rotations[:, body], positions[:, body]) @ _transforms(place[3:].reshape(3, 3), place[:3])


def cross_jacobian(skeleton: Skeleton, poses: np.ndarray, body: int, place: np.ndarray) -> Found:
    """Cross products, a x (p - o) for a rotation about a through o (Parent, Kinematic Linkages; Rabbani 2017)."""
    out, rotations = np.empty((len(poses), 6, skeleton.size)), np.empty((len(poses), 3, 3))
    frame_jacobians(skeleton.figure, poses, _work(skeleton), body, place, rotations.reshape(-1, 9), out)
    return out, rotations


def _joints_above(skeleton: Skeleton, poses: np.ndarray, body: int) -> Iterator[tuple[list[Any], np.ndarray]]:
    """Yield, for each joint from a body to the root, its elementary motions and its constant transform (4, 4).

    A motion is (dofs, axes (t, 6, k), transforms (t, 4, 4)), with the twists of its dofs in the frame before it; those
    of an exponential map are columns of its left Jacobian.
    """
    figure = skeleton.figure
    while body >= 0:
        motions, i = [], figure.body[body, FIRST]
        while i < figure.body[body, LAST]:
            kind, axis = figure.dof[i, KIND], figure.dof[i, AXIS]
            dofs = slice(i, i + plain(parameters_of)(kind))
            mapped = kind in (ROTVEC, SWING)
            rows = np.array([plain(column_of)(kind, axis, k) if mapped else axis for k in range(dofs.stop - i)])
            own = figure.sign[dofs, None] * np.eye(6)[rows + (0 if kind == SLIDE else 3)]
            twist = poses[:, dofs] @ own
            axes = np.repeat(own.T[None], len(poses), axis=0)
            axes[:, 3:] = left_jacobian(twist[:, 3:]) @ axes[:, 3:]
            motions.append((dofs, axes, exp(twist)))
            i = dofs.stop
        yield motions, _transforms(figure.rest[body, 3:].reshape(3, 3), figure.rest[body, :3])
        body = figure.body[body, PARENT]


def adjoint_jacobian(skeleton: Skeleton, poses: np.ndarray, body: int, place: np.ndarray) -> Found:
    """One adjoint for each elementary motion, from before it (Rabbani 2017, procedure 2)."""
    out = np.zeros((len(poses), 6, skeleton.size))
    reach = _transforms(place[3:].reshape(3, 3), place[:3])  # the frame, from before the motions so far
    for motions, rest in _joints_above(skeleton, poses, body):
        for dofs, axes, motion in reversed(motions):
            reach = motion @ reach
            out[:, :, dofs] = adjoint(np.linalg.inv(reach)) @ axes
        reach = rest @ reach
    rotations = _frames(skeleton, poses, body, place)[:, :3, :3]
    return _turned(out, rotations), rotations


def adjusted_jacobian(skeleton: Skeleton, poses: np.ndarray, body: int, place: np.ndarray) -> Found:
    """One adjoint for each joint, from after its whole motion (Rabbani 2017, procedure 3).

    The columns of the contribution R' (30) are the axes of its dofs before the joint's motion, and R* = R^T R' (31)
    adjusts the adjoint for their order.
    """
    out = np.zeros((len(poses), 6, skeleton.size))
    reach = _transforms(place[3:].reshape(3, 3), place[:3])
    for motions, rest in _joints_above(skeleton, poses, body):
        whole = np.eye(4)
        for _, _, motion in motions:
            whole = whole @ motion
        block, part = adjoint(np.linalg.inv(reach)), np.eye(3)
        for dofs, axes, motion in motions:
            out[:, :, dofs] = block @ _turned(axes, np.swapaxes(whole[..., :3, :3], -1, -2) @ part)
            part = part @ motion[:, :3, :3]
        reach = rest @ whole @ reach
    rotations = _frames(skeleton, poses, body, place)[:, :3, :3]
    return _turned(out, rotations), rotations


def finite_jacobian(skeleton: Skeleton, poses: np.ndarray, body: int, place: np.ndarray) -> Found:
    """Differences of forward kinematics, extrapolated once: (4 D(h/2) - D(h)) / 3."""
    t, n = poses.shape

    def frames(step: float) -> np.ndarray:
        return _frames(skeleton, (poses[:, None] + step * np.eye(n)).reshape(-1, n), body, place).reshape(t, n, 4, 4)

    wide, near = ((frames(h) - frames(-h)) / (2.0 * h) for h in (STEP, 0.5 * STEP))
    slopes = (4.0 * near - wide) / 3.0
    rotations = _frames(skeleton, poses, body, place)[:, :3, :3]
    slopes[..., :3, :3] @= np.swapaxes(rotations[:, None], -1, -2)  # hat(w) = dR R'
    return np.swapaxes(twist_of(slopes), 1, 2), rotations


METHODS = {
    "cross": cross_jacobian, "adjoint": adjoint_jacobian, "adjusted": adjusted_jacobian, "finite": finite_jacobian,
}  # fmt: skip
