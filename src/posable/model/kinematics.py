"""Forward kinematics: the frames of joints and sites at a pose, points converted between frames, parts of a figure."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from posable.engine.joints import forward_batch
from posable.engine.layout import ABOVE, BODY, BODY_A, BODY_B, DEPTH, FIRST, LAST, PARENT, Figure, Order, work_size
from posable.errors import SkeletonError, short
from posable.model.joints import elimination_order, frozen_array
from posable.model.skeleton import Skeleton

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation


WORLD = "world"
_NO_TWISTS = np.zeros((0, 0, 6))
_memory = threading.local()


def scratch(size: int) -> np.ndarray:
    """Return this thread's flat scratch memory of at least `size` numbers; the next call reuses it."""
    work = getattr(_memory, "work", None)
    if work is None or work.shape[0] < size:
        work = _memory.work = np.zeros(max(size, 4096))
    return work


def as_poses(skeleton: Skeleton, pose: Any, what: str = "pose") -> np.ndarray:
    """Return poses as a float array (..., n).

    Raises:
        SkeletonError: They are not numbers of that shape; `what` names them in the message.
    """
    try:
        poses = np.asarray(pose, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise SkeletonError(f"{what}: expected numbers (..., {skeleton.size}), got {no_pose(skeleton, pose)}") from None
    if poses.ndim < 1 or poses.shape[-1] != skeleton.size:
        got = no_pose(skeleton, poses)
        raise SkeletonError(f"{what}: expected shape (..., {skeleton.size}), got {got}")
    return poses


def no_pose(skeleton: Skeleton, given: Any) -> str:
    """Return in words what was given in place of a pose, and how to convert it if it is MuJoCo's `qpos` or data."""
    from posable.model.joint_values import qpos_size

    array = isinstance(given, np.ndarray)
    text = str(given.shape) if array else short(given)
    is_qpos = given.shape[-1:] == (qpos_size(skeleton.joints),) if array else hasattr(given, "qpos")
    return f"{text}; skeleton.from_qpos converts MuJoCo's qpos to a pose" if is_qpos else text


def in_rows(poses: np.ndarray) -> np.ndarray:
    """Return poses (..., n) as contiguous rows (t, n); n may be zero."""
    return np.ascontiguousarray(poses.reshape(math.prod(poses.shape[:-1]), poses.shape[-1]))


def one_pose(skeleton: Skeleton, pose: Any, what: str = "pose") -> np.ndarray:
    """Return one pose (n,) of finite numbers.

    Raises:
        SkeletonError: It is a batch, or contains NaN or infinity.
    """
    theta = as_poses(skeleton, pose, what)
    if theta.ndim != 1:
        raise SkeletonError(f"{what}: expected one pose ({skeleton.size},), got shape {theta.shape}")
    if not np.isfinite(theta).all():
        name = skeleton.dof_names[int(np.flatnonzero(~np.isfinite(theta))[0])]
        raise SkeletonError(f"{what}: expected finite numbers, got {theta[~np.isfinite(theta)][0]} at {name!r}")
    return theta


def place_bodies(skeleton: Skeleton, poses: np.ndarray, *, twists: bool = False) -> tuple[np.ndarray, ...]:
    """Return positions (t, b, 3) [m], rotations (t, b, 3, 3) and world twists (t, n, 6) at poses (t, n)."""
    t, n = poses.shape
    b = skeleton.figure.body.shape[0]
    positions, rotations = np.empty((t, b, 3)), np.empty((t, b, 9))
    rates = np.empty((t, n, 6)) if twists else _NO_TWISTS
    work = scratch(work_size(n, b, 0, 1))
    rows = np.ascontiguousarray(poses)
    if not rows.flags.writeable:  # Numba would compile the same code a second time for read-only arrays
        rows = rows.copy()
    forward_batch(skeleton.figure, rows, work, 1, positions, rotations, rates)
    return positions, rotations.reshape(t, b, 3, 3), rates


def path_of(skeleton: Skeleton, body: int) -> set[int]:
    """Return the degrees of freedom that move a body."""
    out: set[int] = set()
    while body >= 0:
        parent, first, last, _ = skeleton.figure.body[body]
        out.update(range(int(first), int(last)))
        body = int(parent)
    return out


def coupled_dofs(skeleton: Skeleton, body: int, other: int) -> tuple[int, ...]:
    """Return the degrees of freedom that a spring between two bodies couples: those that move one but not the other."""
    return tuple(sorted(path_of(skeleton, body) ^ path_of(skeleton, other)))


@lru_cache(maxsize=64)
def coupled_order(skeleton: Skeleton, groups: tuple[tuple[int, ...], ...]) -> Order:
    """Return the elimination order of a figure whose degrees of freedom are coupled in groups."""
    return elimination_order(skeleton.figure.dof, groups)


def forward(skeleton: Skeleton, pose: Any) -> Frames:
    """Compute forward kinematics: the frames of every joint and site.

    Args:
        skeleton: The figure.
        pose: (n,) [rad, m], or a batch (..., n).

    Returns:
        Frames; arrays have the axes of the batch first.

    Raises:
        SkeletonError: The pose has the wrong shape.
    """
    poses = as_poses(skeleton, pose)
    positions, rotations, _ = place_bodies(skeleton, in_rows(poses))
    shape = (*poses.shape[:-1], positions.shape[1])
    return Frames(skeleton, poses, positions.reshape(*shape, 3), rotations.reshape(*shape, 3, 3))


class Frames:
    """The frames of a figure at a pose, or at a batch of poses, whose axes come first in every array."""

    def __init__(self, skeleton: Skeleton, pose: np.ndarray, positions: np.ndarray, rotations: np.ndarray):
        self.skeleton = skeleton
        self.pose = pose
        self._positions = positions  # (..., b, 3) [m]
        self._rotations = rotations  # (..., b, 3, 3)

    def __repr__(self) -> str:
        return f"<Frames of {self.skeleton!r} at pose {self.pose.shape}>"

    def position(self, name: str) -> np.ndarray:
        """Return the world position of a frame's origin.

        Args:
            name: A site, a joint, or "world".

        Returns:
            (..., 3) [m] array.

        Raises:
            UnknownName: No site or joint has that name; suggests the closest one.
        """
        if name == WORLD and WORLD not in self.skeleton._frames:
            return np.zeros((*self.pose.shape[:-1], 3))
        row = self.skeleton.frame(name)
        body = self.skeleton.frame_bodies[row]
        local = self.skeleton.frame_positions[row]
        return self._positions[..., body, :] + self._rotations[..., body, :, :] @ local

    def rotation_matrix(self, name: str) -> np.ndarray:
        """Return the world orientation of a frame as a matrix.

        Args:
            name: A site, a joint, or "world".

        Returns:
            (..., 3, 3) array.
        """
        if name == WORLD and WORLD not in self.skeleton._frames:
            return np.broadcast_to(np.eye(3), (*self.pose.shape[:-1], 3, 3)).copy()
        row = self.skeleton.frame(name)
        return self._rotations[..., self.skeleton.frame_bodies[row], :, :] @ self.skeleton.frame_rotations[row]

    def many(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the world positions and orientations of several frames at once.

        Args:
            names: k sites or joints.

        Returns:
            Positions (..., k, 3) [m] and rotation matrices (..., k, 3, 3).
        """
        rows = [self.skeleton.frame(name) for name in names]
        bodies = self.skeleton.frame_bodies[rows]
        turns = self._rotations[..., bodies, :, :]
        offsets = (turns @ self.skeleton.frame_positions[rows][..., None])[..., 0]
        return self._positions[..., bodies, :] + offsets, turns @ self.skeleton.frame_rotations[rows]

    def rotation(self, name: str) -> Rotation:
        """Return the world orientation of a frame as a SciPy Rotation.

        With SciPy 1.17 or later it has the shape of the batch; older versions support only flat stacks.

        Args:
            name: A site, a joint, or "world".
        """
        from scipy.spatial.transform import Rotation  # a quarter of a second that a solve does not need

        matrices = self.rotation_matrix(name)
        flat = matrices.ndim > 3 and not hasattr(Rotation, "shape")
        return Rotation.from_matrix(matrices.reshape(-1, 3, 3) if flat else matrices)

    def quaternion_wxyz(self, name: str) -> np.ndarray:
        """Return the world orientation of a frame as a unit quaternion.

        Args:
            name: A site, a joint, or "world".

        Returns:
            (..., 4) array in the order wxyz, with w >= 0.
        """
        xyzw = self.rotation(name).as_quat(canonical=True)
        return np.roll(xyzw, 1, axis=-1).reshape(*self.pose.shape[:-1], 4)

    def matrix(self, name: str) -> np.ndarray:
        """Return the world transform of a frame.

        Args:
            name: A site, a joint, or "world".

        Returns:
            (..., 4, 4) array.
        """
        out = np.zeros((*self.pose.shape[:-1], 4, 4))
        out[..., :3, :3] = self.rotation_matrix(name)
        out[..., :3, 3] = self.position(name)
        out[..., 3, 3] = 1.0
        return out

    def convert(self, point: Any, *, from_: str = WORLD, to: str = WORLD) -> np.ndarray:
        """Convert the coordinates of a point from one frame to another.

        Args:
            point: (..., 3) [m] in the frame `from_`.
            from_: A site, a joint, or "world".
            to: A site, a joint, or "world".

        Returns:
            (..., 3) [m] in the frame `to`.
        """
        p = np.asarray(point, dtype=float)
        if p.shape[-1:] != (3,):
            raise SkeletonError(f"point: expected shape (..., 3), got {p.shape}")
        world = self.position(from_) + (self.rotation_matrix(from_) @ p[..., None])[..., 0]
        inverse = np.swapaxes(self.rotation_matrix(to), -1, -2)
        return (inverse @ (world - self.position(to))[..., None])[..., 0]

    def center_of_mass(self) -> np.ndarray:
        """Return the centre of mass (..., 3) [m] of the figure.

        Raises:
            SkeletonError: No joint has a mass.
        """
        if not self.skeleton.total_mass > 0.0:
            raise SkeletonError("centre of mass: no joint of this figure has a mass")
        share, centre = self.skeleton.figure.mass[:, 0], self.skeleton.figure.mass[:, 1:]
        p_world = self._positions + (self._rotations @ centre[..., None])[..., 0]
        return np.einsum("b,...bk->...k", share, p_world)


# --- The part of a figure that goals move ---


class Part(NamedTuple):
    """Some bodies of a figure with all their ancestors, and the springs on them."""

    figure: Figure
    order: Order
    depth: int  # the longest row of the Hessian
    kind: np.ndarray  # (g, 4) int64, pull and home (n,): as in `Springs`
    pull: np.ndarray
    home: np.ndarray
    dofs: np.ndarray  # (n,) int64: its degrees of freedom in the whole figure
    bodies: np.ndarray  # (b,) int64: its bodies there, parents first


def whole_figure(
    figure: Figure, order: Order, depth: int, kind: np.ndarray, pull: np.ndarray, home: np.ndarray
) -> Part:
    """Return a figure and its springs as a part that is the whole."""
    return Part(figure, order, depth, kind, pull, home, frozen_arange(len(figure.dof)), frozen_arange(len(figure.body)))


@lru_cache(maxsize=64)
def frozen_arange(count: int) -> np.ndarray:
    """Return 0, 1, ... (count,) int64, read-only."""
    return frozen_array(np.arange(count, dtype=np.int64))


def part_of(whole: Part, bodies: Iterable[int]) -> Part:
    """Return the part of a figure that carries some bodies; the whole if nothing else moves.

    Args:
        whole: Without couplings across its branches.
        bodies: Their indices; those below 0 are not in the figure.
    """
    figure = whole.figure
    wanted = sorted({b for body in bodies for b in carriers(figure, body)})
    dofs = np.array([i for b in wanted for i in range(*figure.body[b, [FIRST, LAST]])], dtype=np.int64)
    if len(dofs) in (0, len(figure.dof)):
        return whole
    new_body = {-1: -1, **{b: k for k, b in enumerate(wanted)}}
    new_dof = {-1: -1, **{int(i): k for k, i in enumerate(dofs)}}
    body, dof = figure.body[wanted].copy(), figure.dof[dofs].copy()
    body[:, PARENT] = [new_body[b] for b in body[:, PARENT].tolist()]
    counts = body[:, LAST] - body[:, FIRST]
    body[:, LAST] = np.cumsum(counts)
    body[:, FIRST] = body[:, LAST] - counts
    dof[:, ABOVE] = [new_dof[i] for i in dof[:, ABOVE].tolist()]
    dof[:, BODY] = [new_body[b] for b in dof[:, BODY].tolist()]
    kind = whole.kind.copy()
    for column in (BODY_A, BODY_B):
        kind[:, column] = [new_body[b] for b in kind[:, column].tolist()]
    order = elimination_order(dof, ())
    part = figure._replace(
        body=frozen_array(body), rest=frozen_array(figure.rest[wanted]), dof=frozen_array(dof),
        sign=frozen_array(figure.sign[dofs]), mass=frozen_array(figure.mass[wanted]),
    )  # fmt: skip
    return Part(
        part, order, int(order.rows[:, DEPTH].max()) + 1, kind, whole.pull[dofs], whole.home[dofs],
        frozen_array(dofs), frozen_array(np.array(wanted, dtype=np.int64)),
    )  # fmt: skip


def carriers(figure: Figure, body: int) -> list[int]:
    """Return a body and all its ancestors."""
    out = []
    while body >= 0:
        out.append(body)
        body = int(figure.body[body, PARENT])
    return out
