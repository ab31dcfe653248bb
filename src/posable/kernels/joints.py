"""Everything about the ways a joint can move: what a user writes, and what the kernels do with it.

A motion is what a `Joint` is made with: `Revolute("z")`, `Ball("zyx")`, `Free("rotvec")`. It spells itself as a run of
elementary degrees of freedom along or about the axes of the joint's own frame (`JointMotion.dofs`), after one constant
rotation that lays a skew axis onto z (`JointMotion.basis`). Only this file knows the four elementary kinds:

SLIDE   a translation along an axis                                      S = [0; a]
TURN    a rotation about an axis                                         S = [a; o x a]
ROTVEC  three together: a rotation vector (exponential map)              S = columns of the left Jacobian, at o
SWING   two together: a rotation vector across an axis (seed 004, 4.2)   S = two of those columns

An Euler ball joint is three TURNs at one origin (seed 004 (41), seed 000 (A.19)); a swing-twist joint is a SWING and
then a TURN about the limb's own axis. Within a motion the slides come first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .compiler import kernel, small
from .rotations import exponential_coefficients, left_jacobian_column, left_jacobian_rate

SLIDE, TURN, ROTVEC, SWING, TAIL = 0, 1, 2, 3, 4  # TAIL: a later parameter of a ROTVEC or a SWING

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
EULER_ORDERS = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx", "xyx", "xzx", "yxy", "yzy", "zxz", "zyz")


# ---------------------------------------------------------------------------------------------- what a user writes


@dataclass(frozen=True)
class Dof:
    """One elementary degree of freedom: its kind, the axis index 0..2 in the joint's frame, its sense, its name."""

    kind: int
    axis: int
    sign: float = 1.0
    name: str = ""


@dataclass(frozen=True)
class JointMotion:
    """How a joint moves. Its children are the ones to use."""

    turns: ClassVar[bool] = False

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """The elementary degrees of freedom, in the order of the pose vector."""
        return ()

    @property
    def basis(self) -> np.ndarray:
        """(3, 3): the frame, in the joint's own, whose axes the degrees of freedom use; the motion is B m B'."""
        return np.eye(3)

    @property
    def size(self) -> int:
        """How many numbers of the pose it takes."""
        return len(self.dofs)

    def problems(self) -> list[str]:
        """Say what is wrong with it, if anything."""
        return []


def unit_axis(axis: str | object) -> np.ndarray:
    """Return an axis given as "x", "-y" or three numbers, as a unit vector (3,); zeros where it is none."""
    if isinstance(axis, str):
        name = axis.lower().lstrip("+-")
        value = np.array(AXES.get(name, (0.0, 0.0, 0.0)))
        return -value if axis.startswith("-") else value
    try:
        value = np.asarray(axis, dtype=float)
    except (TypeError, ValueError):
        return np.zeros(3)
    if value.shape != (3,) or not np.all(np.isfinite(value)):
        return np.zeros(3)
    length = float(np.linalg.norm(value))
    return value / length if length > 1e-12 else np.zeros(3)


def _freeze(axis: object) -> object:
    return axis if isinstance(axis, str) or not hasattr(axis, "__iter__") else tuple(axis)  # type: ignore[arg-type]


def _aligned(axis: object) -> tuple[int, float] | None:
    """Return (index, sense) where the axis is one of the frame's own."""
    value = unit_axis(axis)
    k = int(np.argmax(np.abs(value)))
    return (k, float(np.sign(value[k]))) if np.count_nonzero(value) == 1 else None


def _frame_with(axis: np.ndarray, k: int) -> np.ndarray:
    """Return a rotation whose column k is the axis; deterministic, and the identity where it can be."""
    helper = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(axis, helper)
    first /= np.linalg.norm(first)
    columns = np.empty((3, 3))
    columns[:, k] = axis
    columns[:, (k + 1) % 3] = first
    columns[:, (k + 2) % 3] = np.cross(axis, first)
    return columns


def _axis_problem(axis: object, what: str) -> list[str]:
    if np.any(unit_axis(axis)):
        return []
    return [f"{what} must be 'x', 'y', 'z', '-x', ... or three finite numbers that are not all zero, got {axis!r}"]


@dataclass(frozen=True)
class Fixed(JointMotion):
    """No motion: a rigid connection."""


@dataclass(frozen=True)
class Revolute(JointMotion):
    """A hinge about an axis of the joint's frame: one angle [rad]."""

    axis: object = "z"
    turns: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "axis", _freeze(self.axis))

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """One TURN."""
        index, sign = _aligned(self.axis) or (2, 1.0)
        return (Dof(TURN, index, sign),)

    @property
    def basis(self) -> np.ndarray:
        """The frame whose z is a skew axis."""
        return np.eye(3) if _aligned(self.axis) else _frame_with(unit_axis(self.axis), 2)

    def problems(self) -> list[str]:
        """Say whether the axis is one."""
        return _axis_problem(self.axis, "axis")


@dataclass(frozen=True)
class Prismatic(JointMotion):
    """A slider along an axis of the joint's frame: one length [m]."""

    axis: object = "z"

    def __post_init__(self):
        object.__setattr__(self, "axis", _freeze(self.axis))

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """One SLIDE."""
        index, sign = _aligned(self.axis) or (2, 1.0)
        return (Dof(SLIDE, index, sign),)

    @property
    def basis(self) -> np.ndarray:
        """The frame whose z is a skew axis."""
        return np.eye(3) if _aligned(self.axis) else _frame_with(unit_axis(self.axis), 2)

    def problems(self) -> list[str]:
        """Say whether the axis is one."""
        return _axis_problem(self.axis, "axis")


@dataclass(frozen=True)
class Universal(JointMotion):
    """Two hinges at one origin, about two different axes, leftmost first: two angles [rad]."""

    axes: str = "xy"
    turns: ClassVar[bool] = True

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """Two TURNs."""
        return tuple(Dof(TURN, "xyz".index(a), 1.0, a) for a in self.axes)

    def problems(self) -> list[str]:
        """Say whether the axes are two."""
        good = (
            isinstance(self.axes, str)
            and len(self.axes) == 2
            and set(self.axes) < set("xyz")
            and len(set(self.axes)) == 2
        )
        return [] if good else [f"Universal expects two different axes such as 'xy', got {self.axes!r}"]


@dataclass(frozen=True)
class Planar(JointMotion):
    """Two translations in the plane across a normal [m], then the rotation about it [rad]."""

    normal: object = "z"
    turns: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "normal", _freeze(self.normal))

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """Two SLIDEs and a TURN."""
        index, sign = _aligned(self.normal) or (2, 1.0)
        first, second = (index + 1) % 3, (index + 2) % 3
        return (Dof(SLIDE, first, 1.0, "t1"), Dof(SLIDE, second, 1.0, "t2"), Dof(TURN, index, sign, "turn"))

    @property
    def basis(self) -> np.ndarray:
        """The frame whose z is a skew normal."""
        return np.eye(3) if _aligned(self.normal) else _frame_with(unit_axis(self.normal), 2)

    def problems(self) -> list[str]:
        """Say whether the normal is one."""
        return _axis_problem(self.normal, "normal")


@dataclass(frozen=True)
class Ball(JointMotion):
    """A ball joint: three numbers, read as Euler angles, as a rotation vector, or as swing and twist.

    order: one of the 12 Euler orders, intrinsic, leftmost first ("zyx": R = Rz Ry Rx); "rotvec"; or "swing-twist":
    a rotation vector (2 numbers) across `axis`, then the twist about it (1 number), R = swing twist.
    """

    order: str = "zyx"
    axis: object = "x"
    turns: ClassVar[bool] = True

    def __post_init__(self):
        object.__setattr__(self, "axis", _freeze(self.axis))

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """Three TURNs, a ROTVEC, or a SWING and a TURN."""
        if self.order == "rotvec":
            return (Dof(ROTVEC, 0, 1.0, "rx"), Dof(TAIL, 1, 1.0, "ry"), Dof(TAIL, 2, 1.0, "rz"))
        if self.order == "swing-twist":
            k, sign = _aligned(self.axis) or (0, 1.0)
            return (Dof(SWING, k, 1.0, "swing1"), Dof(TAIL, k, 1.0, "swing2"), Dof(TURN, k, sign, "twist"))
        repeated = len(set(self.order)) < 3
        names = [a + str(i + 1) for i, a in enumerate(self.order)] if repeated else list(self.order)
        return tuple(Dof(TURN, "xyz".index(a), 1.0, name) for a, name in zip(self.order, names, strict=True))

    @property
    def basis(self) -> np.ndarray:
        """The frame whose x is a skew twist axis."""
        if self.order != "swing-twist" or _aligned(self.axis):
            return np.eye(3)
        return _frame_with(unit_axis(self.axis), 0)

    def problems(self) -> list[str]:
        """Say whether the order is known and the axis is one."""
        choices = (*EULER_ORDERS, "rotvec", "swing-twist")
        if self.order not in choices:
            return [f"expected a rotation order among {', '.join(choices)}, got {self.order!r}"]
        return _axis_problem(self.axis, "axis") if self.order == "swing-twist" else []


@dataclass(frozen=True)
class Free(JointMotion):
    """A moving root: three translations [m], then a ball joint in any of its orders."""

    order: str = "zyx"
    turns: ClassVar[bool] = True

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """Three SLIDEs and a ball."""
        slides = tuple(Dof(SLIDE, k, 1.0, "t" + "xyz"[k]) for k in range(3))
        return slides + Ball(self.order).dofs

    def problems(self) -> list[str]:
        """Say whether the order is known."""
        return Ball(self.order).problems()


# ------------------------------------------------------------------------------------------- what the kernels do


@small
def turn(rotation, k, s, c):
    """Rotate a frame (9,) by rows about its own axis k: only its other two columns change."""
    u = (k + 1) % 3
    v = (k + 2) % 3
    for row in range(0, 9, 3):
        x = rotation[row + u]
        y = rotation[row + v]
        rotation[row + u] = c * x + s * y
        rotation[row + v] = c * y - s * x


@kernel
def rotate_by_vector(rotation, wx, wy, wz):
    """Rotate a frame (9,) by rows by the rotation vector w, given in the frame itself: R <- R Exp(w)."""
    square = wx * wx + wy * wy + wz * wz
    a, b, _, _, _ = exponential_coefficients(square)
    for row in range(0, 9, 3):
        x, y, z = rotation[row], rotation[row + 1], rotation[row + 2]
        # r hat(w), as a row: r x w
        px, py, pz = y * wz - z * wy, z * wx - x * wz, x * wy - y * wx
        qx, qy, qz = py * wz - pz * wy, pz * wx - px * wz, px * wy - py * wx
        rotation[row] = x + a * px + b * qx
        rotation[row + 1] = y + a * py + b * qy
        rotation[row + 2] = z + a * pz + b * qz


@small
def rotation_vector(kind, axis, i, theta):
    """Return the rotation vector of a ROTVEC or a SWING whose first dof is i."""
    if kind == ROTVEC:
        return theta[i], theta[i + 1], theta[i + 2]
    p, q = theta[i], theta[i + 1]
    if axis == 0:
        return 0.0, p, q
    if axis == 1:
        return q, 0.0, p
    return p, q, 0.0


@small
def column_of(kind, axis, k):
    """Return which component of the rotation vector parameter k (0, 1, 2) of a ROTVEC or a SWING is."""
    return k if kind == ROTVEC else (axis + 1 + k) % 3


@small
def parameters_of(kind):
    """Return how many degrees of freedom an elementary kind takes."""
    if kind == ROTVEC:
        return 3
    return 2 if kind == SWING else 1


@small
def move(kind, axis, sign, i, theta, sine, cosine, position, rotation, twist):
    """Move a body's frame by the elementary motion that starts at dof i, and write its world twists (n, 6).

    position (3,) [m] is relative to the figure's origin, rotation (9,) by rows; both are in the world's axes.
    """
    if kind == SLIDE:
        d = theta[i] * sign
        for row in range(3):
            a = rotation[3 * row + axis]
            position[row] += d * a
            twist[i, row] = 0.0
            twist[i, 3 + row] = sign * a
    elif kind == TURN:
        _twist_at(twist, i, position, sign * rotation[axis], sign * rotation[3 + axis], sign * rotation[6 + axis])
        turn(rotation, axis, sign * sine[i], cosine[i])
    else:
        wx, wy, wz = rotation_vector(kind, axis, i, theta)
        _, b, c, _, _ = exponential_coefficients(wx * wx + wy * wy + wz * wz)
        for k in range(parameters_of(kind)):
            x, y, z = left_jacobian_column(wx, wy, wz, b, c, column_of(kind, axis, k))
            _twist_at(
                twist,
                i + k,
                position,
                rotation[0] * x + rotation[1] * y + rotation[2] * z,
                rotation[3] * x + rotation[4] * y + rotation[5] * z,
                rotation[6] * x + rotation[7] * y + rotation[8] * z,
            )
        rotate_by_vector(rotation, wx, wy, wz)


@small
def _twist_at(twist, i, position, ax, ay, az):
    twist[i, 0] = ax
    twist[i, 1] = ay
    twist[i, 2] = az
    twist[i, 3] = position[1] * az - position[2] * ay
    twist[i, 4] = position[2] * ax - position[0] * az
    twist[i, 5] = position[0] * ay - position[1] * ax


@kernel
def joint_curvature(kind, axis, i, ka, kb, theta, frame, tx, ty, tz):
    """Return t . (dS_a/db + 1/2 S_a x S_b) for parameters ka, kb of the ROTVEC or SWING that starts at dof i.

    t is the torque about the joint's origin in the world; frame (9,) is the joint's frame before its motion.
    It takes the place of the half Lie bracket, which holds for joints that follow one another (mathematics.md).
    """
    wx, wy, wz = rotation_vector(kind, axis, i, theta)
    _, b, c, db, dc = exponential_coefficients(wx * wx + wy * wy + wz * wz)
    a_column, b_column = column_of(kind, axis, ka), column_of(kind, axis, kb)
    rx, ry, rz = left_jacobian_rate(wx, wy, wz, b, c, db, dc, a_column, b_column)
    ax, ay, az = left_jacobian_column(wx, wy, wz, b, c, a_column)
    bx, by, bz = left_jacobian_column(wx, wy, wz, b, c, b_column)
    rx += 0.5 * (ay * bz - az * by)
    ry += 0.5 * (az * bx - ax * bz)
    rz += 0.5 * (ax * by - ay * bx)
    lx = frame[0] * tx + frame[3] * ty + frame[6] * tz
    ly = frame[1] * tx + frame[4] * ty + frame[7] * tz
    lz = frame[2] * tx + frame[5] * ty + frame[8] * tz
    return lx * rx + ly * ry + lz * rz


@kernel
def recentre(kind, i, theta, lower, upper):
    """Bring a rotation vector that has passed pi back to the short way round, where its limits allow it.

    Returns whether it moved.
    """
    m = parameters_of(kind)
    square = 0.0
    for k in range(m):
        square += theta[i + k] * theta[i + k]
    if square <= math.pi * math.pi * 1.0000001:
        return False
    length = math.sqrt(square)
    factor = (length - 2.0 * math.pi * math.floor(length / (2.0 * math.pi) + 0.5)) / length
    for k in range(m):
        x = theta[i + k] * factor
        if x < lower[i + k] or x > upper[i + k]:
            return False
    for k in range(m):
        theta[i + k] *= factor
    return True
