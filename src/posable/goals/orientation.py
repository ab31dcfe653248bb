"""Goals on the orientation of a body: on one axis, on all of them, and on its whole frame."""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import Any

import numpy as np

from posable.engine.layout import AXES, CONSTANTS
from posable.engine.springs import AIM_SPRING, DIRECTION_SPRING, ORIENTATION_SPRING, POINT_SPRING
from posable.errors import GoalError, short
from posable.goals.base import (
    ANGLE_TOLERANCE,
    POSITION_TOLERANCE,
    Goal,
    Spring,
    are_points,
    checked_targets,
    device_target,
    is_definite,
    named_axis,
    nonneg,
    numbers,
    point_constants,
    range_projector,
    set_weight,
    target_row,
    unit_vectors,
    weight_matrix,
)
from posable.model.skeleton import Skeleton

# --- One axis ---


class _AxisGoal(Goal):
    """The common part of Aim and Direction: the residual is an axis of a body minus a unit vector."""

    rows = 3

    def __init__(
        self, body: str, axis: Any, target: Any, weight: Any, tolerance: float, label: str | None, priority: int,
        robust: float | None,
    ):  # fmt: skip
        self.body = body
        what = f"{type(self).__name__}({body!r})"
        super().__init__(label, nonneg(tolerance, f"{what}: tolerance"), priority, robust)
        self.axis = named_axis(axis, f"{what}: axis")
        self.weight = weight_matrix(weight, f"{what}: weight")
        self.set_target(target)


class Aim(_AxisGoal):
    """Aim a line of a body at a point: energy w/2 |axis - u|^2, u the unit vector from the body's point to the target.

    Goal 4 of Tolani et al. (2000, 2.4), squared: w (1 - cos angle), smooth except where the target is at the point.
    Errors are angles.

    Args:
        body: A site or a joint.
        axis: "z", "-y" or a unit vector in the body's frame.
        at: (..., 3) [m] The point to aim at, in the world.
        point: (3,) [m] Start of the line, in the body's frame; its origin by default.
        weight: A number, three numbers or a symmetric 3x3 matrix W in world axes: energy 1/2 r'W r of r = axis - u.
        tolerance: [rad] Angle below which the goal counts as reached.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [rad] Error beyond which the force no longer grows; None: it always grows.
    """

    def __init__(
        self,
        body: str,
        axis: Any = "z",
        at: Any = None,
        *,
        point: Any = None,
        weight: Any = 1.0,
        tolerance: float = ANGLE_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        super().__init__(body, axis, at, weight, tolerance, label, priority, robust)
        self.point = None if point is None else numbers(point, (3,), f"Aim({body!r}): point")

    def set_target(self, target: Any) -> None:
        """Set the point (..., 3) [m] to aim at."""
        self.target = numbers(target, (3,), f"Aim({self.body!r}): at")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One AIM spring."""
        body, data, frame = point_constants(skeleton, self.body, self.point)
        data[AXES : AXES + 3] = skeleton.frame_rotations[frame] @ self.axis
        set_weight(data, self.weight, self.robust)
        return [Spring(AIM_SPRING, body, data, target_row(self.target), self.tolerance)]


class Direction(_AxisGoal):
    """Align an axis of a body with a direction, free about it: energy w/2 |axis - along|^2 = w (1 - cos angle).

    Partial orientation (Tolani et al. 2000, 3.3). Errors are angles.

    Args:
        body: A site or a joint.
        axis: "x", "-y" or a unit vector in the body's frame.
        along: (..., 3) A direction in the world, of any length, or "y".
        weight: A number, three numbers or a symmetric 3x3 matrix W in world axes: energy 1/2 r'W r of r = axis - along.
        tolerance: [rad] Angle below which the goal counts as reached.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [rad] Error beyond which the force no longer grows; None: it always grows.
    """

    def __init__(
        self,
        body: str,
        axis: Any = "x",
        along: Any = None,
        *,
        weight: Any = 1.0,
        tolerance: float = ANGLE_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        super().__init__(body, axis, along, weight, tolerance, label, priority, robust)

    def set_target(self, target: Any) -> None:
        """Set the direction (..., 3)."""
        self.target = unit_vectors(target, f"Direction({self.body!r}): along")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One DIRECTION spring."""
        frame = skeleton.frame(self.body)
        data = np.zeros(CONSTANTS)
        data[AXES : AXES + 3] = skeleton.frame_rotations[frame] @ self.axis
        set_weight(data, self.weight, self.robust)
        body = int(skeleton.frame_bodies[frame])
        return [Spring(DIRECTION_SPRING, body, data, target_row(along=self.target), self.tolerance)]


# --- Orientation ---


def rotations(value: Any, what: str) -> np.ndarray:
    """Return checked rotations (..., 3, 3), given as such, as a SciPy Rotation, or as those of a transform.

    Raises:
        GoalError: It is neither; quaternions are ambiguous without their order.
    """
    if type(value) is not np.ndarray:
        value = getattr(value, "rotation", value)  # of pinocchio.SE3 and RigidTransform
        if hasattr(value, "as_matrix"):
            value = value.as_matrix()
        elif hasattr(value, "xmat"):  # of MuJoCo's data
            value = np.reshape(value.xmat, (3, 3))
    if _shape(value) == (4,):
        expected = "(..., 3, 3) or a SciPy Rotation, such as Rotation.from_quat(wxyz, scalar_first=True)"
        raise GoalError(what, expected=expected, got="shape (4,)")
    return checked_targets(value, (3, 3), what)


def turning_matrix(weight: np.ndarray) -> np.ndarray:
    """Return A, packed as (6,), for which tr A - tr(R A T') has the stiffness tr(A) I - A = weight at the goal."""
    half = 0.5 * (weight[0] + weight[1] + weight[2])
    return np.array([half, half, half, 0.0, 0.0, 0.0]) - weight


class Orientation(Goal):
    """Turn a body to a rotation: energy w (1 - cos angle), smooth everywhere, with a single minimum.

    Errors are angles.

    Args:
        body: A site or a joint.
        rotation: SciPy Rotation or (..., 3, 3), the body's frame in the world; leading axes make a batch. Also that of
            a pinocchio.SE3, a RigidTransform or a body of MuJoCo's data.
        weight: A number, three numbers or a symmetric 3x3 matrix, about the axes of the body's frame.
        tolerance: [rad] Angle below which the goal counts as reached.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [rad] Error beyond which the force no longer grows; None: it always grows.
    """

    rows = 3
    target_shape = (3, 3)

    def __init__(
        self,
        body: str,
        rotation: Any,
        *,
        weight: Any = 1.0,
        tolerance: float = ANGLE_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        super().__init__(label, nonneg(tolerance, f"Orientation({body!r}): tolerance"), priority, robust)
        self.set_target(rotation)
        self.weight = weight_matrix(weight, f"Orientation({body!r}): weight")

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One ORIENTATION spring."""
        return [orientation_spring(skeleton, self.body, self.target, self.weight, self.robust, self.tolerance)]

    def constants_key(self) -> Any:
        """What its constants depend on."""
        return self._key()

    def set_target(self, target: Any) -> None:
        """Set the rotation: SciPy's, or (..., 3, 3)."""
        what = f"Orientation({self.body!r}): rotation"
        self.device_array, target = device_target(target, (3, 3), what)
        self.target = rotations(target, what)


def orientation_spring(
    skeleton: Skeleton, body: str, target: np.ndarray, weight: np.ndarray, robust: float | None, tolerance: float,
    name: str = "",
) -> Spring:  # fmt: skip
    """Return the ORIENTATION spring that turns a body's frame to target (..., 3, 3)."""
    frame = skeleton.frame(body)
    data = np.zeros(CONSTANTS)
    data[AXES : AXES + 9] = skeleton.frame_rotations[frame].ravel()
    targets = target_row(along=target.reshape(*target.shape[:-2], 9))
    set_weight(data, turning_matrix(weight), robust)
    return Spring(ORIENTATION_SPRING, int(skeleton.frame_bodies[frame]), data, targets, tolerance, name)


# --- Position and orientation ---

POSE_TOLERANCES = (POSITION_TOLERANCE, ANGLE_TOLERANCE)  # [m], [rad]
TURNING = 0.2  # [m^2/rad^2] default weight of the rotation, against 1 for the position: about an arm's length squared


def pose_tolerances(tolerance: Any, angle: float | None, what: str) -> tuple[float, float]:
    """Return the tolerances [m], [rad] of a Pose, given as a pair or as one number.

    Args:
        tolerance: A pair (position, rotation), or one number.
        angle: [rad] Tolerance of the rotation beside one number; None: that number.
        what: Name of the goal in error messages.

    Raises:
        GoalError: It is neither, or negative.
    """
    if tolerance is POSE_TOLERANCES:
        return POSE_TOLERANCES
    if np.isscalar(tolerance):
        tolerance = (tolerance, tolerance if angle is None else angle)
    if not (isinstance(tolerance, (tuple, list)) and len(tolerance) == 2):
        raise GoalError(f"{what}: tolerance", expected="a pair (position, rotation)", got=repr(tolerance))
    return nonneg(tolerance[0], f"{what}: tolerance"), nonneg(tolerance[1], f"{what}: tolerance")


def pose_weights(weight: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of position and rotation, packed as (6,), of the weight of a Pose."""
    if type(weight) is float:
        return _UNIT_WEIGHTS if weight == 1.0 else _isotropic_weights(weight, f"{what}: weight")
    what = f"{what}: weight"
    p_weight, r_weight = _weight_parts(weight, what)
    return weight_matrix(p_weight, what), weight_matrix(r_weight, what)


@lru_cache(maxsize=64)
def _isotropic_weights(weight: float, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of position and rotation of one number, read-only because goals share them."""
    out = weight_matrix(weight, what), weight_matrix(TURNING * weight, what)
    for one in out:
        one.flags.writeable = False
    return out


_UNIT_WEIGHTS = _isotropic_weights(1.0, "")


def _weight_parts(weight: Any, what: str) -> tuple[Any, Any]:
    if isinstance(weight, (int, float, np.number)):
        return float(weight), float(weight) * TURNING
    if isinstance(weight, (tuple, list)) and len(weight) == 2:
        return weight[0], weight[1]
    try:
        value = np.asarray(weight, dtype=float)
    except (TypeError, ValueError, OverflowError):
        value = np.zeros(0)
    if value.shape in ((1,), (1, 1), (3,), (3, 3)):
        return value, TURNING * value
    if value.shape == (6,):
        return value[:3], value[3:]
    if value.shape != (6, 6):
        expected = "a number, 3 or 6 numbers, a 3x3 or 6x6 matrix, or a pair (position, rotation)"
        raise GoalError(what, expected=expected, got=repr(weight))
    if value[:3, 3:].any() or value[3:, :3].any():
        raise GoalError(
            what, expected="no blocks between position and rotation; use Weighted([Position, Orientation], matrix)",
            got="a full 6x6 matrix",
        )  # fmt: skip
    return value[:3, :3], value[3:, 3:]


class Pose(Goal):
    """Bring the frame of a body to a position and orientation: a Position and an Orientation in one.

    Args:
        body: A site or a joint.
        target: (..., 4, 4) or a SciPy RigidTransform, the body's frame in the world; also a pinocchio.SE3, or a pair
            of a position (..., 3) and a quaternion wxyz (..., 4), a Rotation or (..., 3, 3).
        weight: One weight for both, a number, three numbers or a 3x3 matrix (times 0.2 m^2/rad^2 for the rotation); a
            pair (position, rotation); six numbers; or a 6x6 matrix without blocks between the two (see Weighted).
        tolerance: [m] One number, and 1e-3 rad for the rotation; or a pair (position [m], rotation [rad]).
        point: (3,) [m] in the body's frame; its origin by default.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m, rad] Error beyond which the force no longer grows; None: it always grows.
    """

    rows = 6
    target_shape = (4, 4)
    target: Any = None

    def __init__(
        self,
        body: str,
        target: Any,
        *,
        weight: Any = 1.0,
        tolerance: Any = POSE_TOLERANCES,
        point: Any = None,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        what = f"Pose({body!r})"
        super().__init__(label, pose_tolerances(tolerance, ANGLE_TOLERANCE, what), priority, robust)
        self.weight = pose_weights(weight, what)
        self.point = None if point is None else numbers(point, (3,), what + ": point")
        self.set_target(target)

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One POINT and one ORIENTATION spring."""
        body, data, _ = point_constants(skeleton, self.body, self.point)
        set_weight(data, self.weight[0], self.robust, range_projector(self.weight[0]))
        turn = orientation_spring(
            skeleton, self.body, self.rotation, self.weight[1], self.robust, self.tolerance[1], "rotation"
        )
        return [Spring(POINT_SPRING, body, data, target_row(self.position), self.tolerance[0]), turn]

    def constants_key(self) -> Any:
        """What its constants depend on."""
        return self._key(self.point)

    @property
    def pins_frame(self) -> bool:
        """Whether it is one target for the body's own frame, with a weight and a tolerance on each of its six axes."""
        if self.point is not None or self.device_array is not None or self.target.ndim != 2:
            return False
        bounded = self.tolerance is POSE_TOLERANCES or (min(self.tolerance) > 0.0 and max(self.tolerance) < inf)
        return bounded and (self.weight is _UNIT_WEIGHTS or all(map(is_definite, self.weight)))

    @property
    def position(self) -> np.ndarray:
        """The position (..., 3) [m]."""
        return self.target[..., :3, 3]

    @property
    def rotation(self) -> np.ndarray:
        """The rotation (..., 3, 3)."""
        return self.target[..., :3, :3]

    def set_target(self, target: Any) -> None:
        """Set the transform (..., 4, 4); three numbers change only the position of the present one."""
        what = f"Pose({self.body!r}): target"
        present = self.target if self.device_array is None else None
        if present is None and type(target) is np.ndarray and target.shape[-2:] == (4, 4):
            self.device_array, self.target = None, checked_targets(target, (4, 4), what)
        elif present is not None and isinstance(target, (tuple, list, np.ndarray)) and are_points(target):
            position = checked_targets(target, (3,), what)
            try:
                batch = np.broadcast_shapes(position.shape[:-1], self.target_batch)
            except ValueError:
                expected = f"leading axes that fit {self.target_batch}"
                raise GoalError(what, expected=expected, got=f"{position.shape}") from None
            self.target = np.broadcast_to(present, (*batch, 4, 4)).copy()
            self.target[..., :3, 3] = position
        else:
            self.device_array, target = device_target(target, (4, 4), what)
            self.target = as_transforms(target, what)


def as_transforms(target: Any, what: str) -> np.ndarray:
    """Return checked transforms (..., 4, 4).

    Args:
        target: (..., 4, 4), a SciPy RigidTransform, a pinocchio.SE3, a body, site or geom of MuJoCo's data, or a pair:
            a position (..., 3), and a SciPy Rotation, (..., 3, 3) or a quaternion wxyz (..., 4).
        what: Name of the value in error messages.

    Raises:
        GoalError: It is not a transform.
    """
    if type(target) is np.ndarray:
        pass
    elif hasattr(target, "as_matrix"):
        target = target.as_matrix()
    elif hasattr(target, "homogeneous"):
        target = target.homogeneous
    elif hasattr(target, "xpos") and hasattr(target, "xmat"):
        target = joined_transforms(target.xpos, np.reshape(target.xmat, (3, 3)), what)
    elif isinstance(target, (tuple, list)) and len(target) == 2:
        position, turn = target
        if hasattr(turn, "as_matrix"):
            target = joined_transforms(position, turn.as_matrix(), what)
        elif _shape(position)[-1:] == (3,) and _shape(turn)[-2:] == (3, 3):
            target = joined_transforms(position, numbers(turn, (3, 3), what), what)
        elif _shape(position)[-1:] == (3,) and _shape(turn)[-1:] == (4,):
            target = joined_transforms(position, from_wxyz(numbers(turn, (4,), what), what), what)
    shape = _shape(target)
    if shape[-2:] != (4, 4):
        got = f"shape {shape}" if shape else short(target)
        if shape == (7,):
            got += "; x y z and a quaternion wxyz are written (v[:3], v[3:]), and xyzw (v[:3], v[[6, 3, 4, 5]])"
        raise GoalError(what, expected=TRANSFORMS, got=got)
    return checked_targets(target, (4, 4), what)


TRANSFORMS = (
    "shape (..., 4, 4), a RigidTransform, a pinocchio.SE3, a body or site of MuJoCo's data, "
    "or a pair (position, quaternion wxyz or Rotation)"
)


def _shape(value: Any) -> tuple[int, ...]:
    """Return the shape of an array or of nested sequences of numbers; () for anything else."""
    try:
        return np.shape(value)
    except (TypeError, ValueError):  # ragged
        return ()


def joined_transforms(position: Any, rotation: np.ndarray, what: str) -> np.ndarray:
    """Return transforms (..., 4, 4) of positions (..., 3) and rotations (..., 3, 3)."""
    position = numbers(position, (3,), what)
    try:
        batch = np.broadcast_shapes(position.shape[:-1], rotation.shape[:-2])
    except ValueError:
        raise GoalError(what, expected="leading axes that agree", got=f"{position.shape[:-1]}") from None
    out = np.zeros((*batch, 4, 4))
    out[..., :3, :3], out[..., :3, 3], out[..., 3, 3] = rotation, position, 1.0
    return out


def split_transforms(target: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions (..., 3) and rotations (..., 3, 3) of checked transforms."""
    matrices = as_transforms(target, what)
    return matrices[..., :3, 3], matrices[..., :3, :3]


def from_wxyz(quaternions: np.ndarray, what: str) -> np.ndarray:
    """Return the rotations (..., 3, 3) of quaternions wxyz (..., 4) of any non-zero length."""
    length = np.linalg.norm(quaternions, axis=-1, keepdims=True)
    if not (length > 1e-12).all():
        raise GoalError(what, expected="a quaternion wxyz", got="a zero quaternion")
    w, x, y, z = np.moveaxis(quaternions / length, -1, 0)
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
        [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
        [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
