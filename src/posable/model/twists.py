"""Twists, screws and the Jacobians built from them (Rabbani 2017).

A twist is (..., 6): the linear part v [m] first, then the angular part w [rad], as the rows of
`posable.jacobian(rows="pose")`. A spatial twist refers to the world's origin, a body twist to the body's. A rigid
motion is a 4x4 matrix. Leading axes are a batch in every function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from posable.engine.joints import TAIL
from posable.engine.layout import KIND, work_size
from posable.errors import SkeletonError
from posable.model.jacobians import body_and_place, jacobian
from posable.model.kinematics import as_poses, forward, path_of, scratch
from posable.model.se3 import adjoint, bracket, exp, log, matrix_of, twist_of
from posable.model.skeleton import Skeleton

__all__ = [
    "Screws", "adjoint", "bracket", "chain", "curvature_tensor", "euler_jacobian", "exp", "log", "matrix_of",
    "product_of_exponentials", "screws", "spatial_jacobian", "twist_of",
]  # fmt: skip


class Screws(NamedTuple):
    """The product-of-exponentials form of one body of a figure.

    The body is at exp(S_1 x_1) exp(S_2 x_2) ... home. Each exponent is the sum over one group of degrees of freedom: a
    single one, or the three numbers of a rotation vector (two of a swing), which act together.

    Attributes:
        twists: (k, 6) [m, rad] Spatial twists at the zero pose of the dofs that move the body.
        dofs: (k,) Indices of these dofs in a pose, from the root on.
        groups: Rows of `twists` that share one exponent.
        home: (4, 4) Frame of the body at the zero pose.
    """

    twists: np.ndarray
    dofs: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    home: np.ndarray


def chain(skeleton: Skeleton, body: str) -> tuple[str, ...]:
    """Return the names of the dofs that move a body, root first (Erleben & Andrews 2018, algorithm 1).

    Args:
        skeleton: The figure.
        body: A site or a joint.
    """
    return tuple(skeleton.dof_names[i] for i in _dofs(skeleton, body))


def _dofs(skeleton: Skeleton, body: str) -> list[int]:
    return sorted(path_of(skeleton, int(skeleton.frame_bodies[skeleton.frame(body)])))


def screws(skeleton: Skeleton, body: str) -> Screws:
    """Return the screws of the dofs that move a site or a joint, at the zero pose.

    Args:
        skeleton: The figure.
        body: A site or a joint.

    Returns:
        The twists, the dofs that they belong to, their groups, and the body's frame at the zero pose.
    """
    zero = np.zeros(skeleton.size)
    dofs = _dofs(skeleton, body)
    columns = spatial_jacobian(skeleton, zero, body, frozen=True)[:, dofs].T
    groups: list[tuple[int, ...]] = []
    kinds = skeleton.figure.dof
    for row, dof in enumerate(dofs):
        if kinds[dof, KIND] == TAIL:
            groups[-1] = (*groups[-1], row)
        else:
            groups.append((row,))
    return Screws(np.ascontiguousarray(columns), tuple(dofs), tuple(groups), forward(skeleton, zero).matrix(body))


def product_of_exponentials(form: Screws, pose: Any) -> np.ndarray:
    """Return the frames of a body from its screws (Rabbani 2017, section 2).

    Args:
        form: From `screws`.
        pose: (..., n) [rad, m].

    Returns:
        (..., 4, 4) world transforms.
    """
    poses = np.asarray(pose, dtype=float)
    if poses.ndim < 1 or (form.dofs and poses.shape[-1] <= max(form.dofs)):
        raise SkeletonError(f"pose: expected shape (..., n), got {poses.shape}")
    out = np.broadcast_to(np.eye(4), (*poses.shape[:-1], 4, 4))
    for group in form.groups:
        numbers = poses[..., [form.dofs[row] for row in group]]
        out = out @ exp(numbers @ form.twists[list(group)])
    return out @ form.home


def spatial_jacobian(skeleton: Skeleton, pose: Any, body: str, *, frozen: bool = False) -> np.ndarray:
    """Return the spatial Jacobian of a body: twists at the world's origin (Rabbani 2017, (13)).

    Args:
        skeleton: The figure.
        pose: (..., n) [rad, m].
        body: A site or a joint.
        frozen: Include the columns of frozen joints.

    Returns:
        (..., 6, n) array, linear part first.
    """
    figure = skeleton
    if frozen and skeleton.frozen.any():
        figure = skeleton.replace(joints=[_thawed(joint) for joint in skeleton.joints])
    own = jacobian(figure, pose, body, rows="pose", frame="body")
    return adjoint(forward(skeleton, pose).matrix(body)) @ own


def _thawed(joint: Any) -> Any:
    from dataclasses import replace

    return replace(joint, frozen=False, gain=1.0)


def euler_jacobian(skeleton: Skeleton, pose: Any, body: str, *, order: str = "zyx") -> np.ndarray:
    """Return the analytic Jacobian of the position and the Euler angles of a frame in the world.

    Angular velocity is mapped to angle rates through the axes of the intrinsic rotations. Where the middle angle is
    singular the map has no inverse, and the rates of least norm are returned.

    Args:
        skeleton: The figure.
        pose: (..., n) [rad, m].
        body: A site or a joint.
        order: Intrinsic axes, leftmost first: "zyx", "xyz", "zyz", ...

    Returns:
        (..., 6, n) array: rows of the position, then of the angles.

    Raises:
        SkeletonError: The order is not three axes, each different from the one before.
    """
    if len(order) != 3 or set(order) - set("xyz") or order[0] == order[1] or order[1] == order[2]:
        raise SkeletonError(f"order: expected three of 'x', 'y', 'z', none twice in a row, got {order!r}")
    poses = as_poses(skeleton, pose)
    world = jacobian(skeleton, poses, body, rows="pose")
    turns = forward(skeleton, poses).matrix(body)[..., :3, :3]
    angles = Rotation.from_matrix(turns.reshape(-1, 3, 3)).as_euler(order.upper())
    first = np.eye(3)["xyz".index(order[0])]
    axes = np.empty((len(angles), 3, 3))
    axes[:, :, 0] = first
    by_first = Rotation.from_euler(order[0].upper(), angles[:, 0])
    axes[:, :, 1] = by_first.apply(np.eye(3)["xyz".index(order[1])])
    axes[:, :, 2] = (by_first * Rotation.from_euler(order[1].upper(), angles[:, 1])).apply(
        np.eye(3)["xyz".index(order[2])]
    )
    out = np.array(world)
    rates = np.linalg.pinv(axes.reshape(*poses.shape[:-1], 3, 3), rcond=1e-9)
    out[..., 3:, :] = rates @ world[..., 3:, :]
    return out


def curvature_tensor(skeleton: Skeleton, pose: Any, body: str, *, point: Any = (0.0, 0.0, 0.0)) -> np.ndarray:
    """Return the second derivatives of a point's position: the K tensor (Erleben & Andrews 2018).

    Args:
        skeleton: The figure.
        pose: (..., n) [rad, m].
        body: A site or a joint.
        point: (3,) [m] in the body's frame.

    Returns:
        (..., 3, n, n) [m] array.
    """
    from posable.engine.reference import point_tensor

    poses = as_poses(skeleton, pose)
    flat = np.ascontiguousarray(poses.reshape(-1, skeleton.size))
    on, place = body_and_place(skeleton, body, point)
    n = skeleton.size
    out, rows = np.empty((len(flat), 3, n, n)), np.empty((3, n))
    work = scratch(work_size(n, skeleton.figure.body.shape[0], 0, 1))
    for theta, tensor in zip(flat, out, strict=True):
        point_tensor(skeleton.figure, theta, work, on, place[:3], rows, tensor)
    out[..., skeleton.frozen, :] = 0.0
    out[..., :, skeleton.frozen] = 0.0
    return out.reshape(*poses.shape[:-1], 3, n, n)
