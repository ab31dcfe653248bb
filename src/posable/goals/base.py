"""The base class of goals, the springs that they are made of, and the checks that they share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from posable.engine.jit import run_chunks
from posable.engine.layout import AT, CONSTANTS, FRAME, MAX_MAGNITUDE, MEASURE, POINT, ROBUST, TARGETS, WEIGHT
from posable.engine.springs import CROSS_SPRING, MODEL_SPRING
from posable.errors import GoalError, UnknownName, short
from posable.model.joints import unit_axis
from posable.model.skeleton import Skeleton
from posable.registry import Registry

GOALS = Registry("goal", "posable.goals", taken="posable.goals")  # of other packages; ours are in the module
POSITION_TOLERANCE = 1e-4  # [m]
ANGLE_TOLERANCE = 1e-3  # [rad]


class UnknownInGoal(GoalError, UnknownName):
    """A goal refers to a body, a joint or a degree of freedom that the figure does not have."""

    def __init__(self, goal: object, error: UnknownName):
        UnknownName.__init__(self, error.kind, error.name, error.choices)
        self.message = f"{goal}: {UnknownName.__str__(self)}"
        self.expected, self.got = f"a {error.kind} of the figure", error.name

    def __str__(self) -> str:
        return self.message


class Spring(NamedTuple):
    """A goal primitive on one body: its kind (engine/springs.py), its numbers and its tolerance."""

    kind: int
    body: int
    constants: np.ndarray  # (..., CONSTANTS): what stays when the goal moves
    targets: np.ndarray  # (..., TARGETS): what moves
    tolerance: float  # [m, rad]; infinity: its error never decides whether the goals are reached
    name: str = ""  # appended to the goal's label if a goal has several; springs of one name share one error
    other: int = -1  # the body that its target is fixed on; -1: the world
    measures: bool = False  # no weight of its own because other springs carry its energy, yet its error counts

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes of its numbers."""
        return np.broadcast_shapes(self.constants.shape[:-1], self.targets.shape[:-1])

    @property
    def idle(self) -> bool:
        """Whether its weight is zero: its error is reported only."""
        if self.measures or self.kind in (MODEL_SPRING, CROSS_SPRING):
            return False
        return not self.constants[..., WEIGHT : WEIGHT + 6].any()


_BODIES = frozenset(("body", "other", "follower", "leader"))  # attributes of goals that name a body


class Goal:
    """Something wanted of a figure. Goals are immutable; `moved` returns the same goal with another target.

    Attributes:
        weight: How hard the goal pulls, relative to the others of its level: a number, one per axis, or a symmetric
            positive definite matrix. An axis of weight 0 is free; a goal of weight 0 only reports its error.
        tolerance: [m, rad] Error below which the goal counts as reached.
        label: Name in results; the body's name by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [m, rad] Error beyond which the goal pulls no harder; None: no such bound.
    """

    device_array: Any = None  # a target on a GPU (a DeviceArray); `target` is then a stand-in
    plain: ClassVar[bool] = True  # springs on bodies and nothing else: a solver answers it in one run
    is_choice: ClassVar[bool] = False  # AnyOf
    is_posture: ClassVar[bool] = False  # Posture
    is_prior: ClassVar[bool] = False  # Natural
    target_shape: ClassVar[tuple[int, ...]] = ()  # of one target, where it is nothing but numbers that springs hold
    target: Any
    body: str  # of a goal on one body
    rows: int = 0  # of its residual (energy.py); 0: it has none that could share a weight matrix with others
    weight: Any

    def __init__(self, label: str | None, tolerance: Any, priority: int, robust: float | None):
        for what, value in self.__dict__.items():
            if what in _BODIES and not isinstance(value, str):
                raise GoalError(f"{type(self).__name__}: {what}", expected="the name of a body", got=repr(value)[:60])
        if label is not None and not isinstance(label, str):
            raise GoalError(f"{type(self).__name__}: label", expected="a string", got=repr(label)[:60])
        self.label = label or self.default_label()
        self.tolerance = tolerance
        if type(priority) is not int and not isinstance(priority, (int, np.integer)):
            raise GoalError(f"{self}: priority", expected="an integer", got=repr(priority))
        self.priority = int(priority)
        if robust is not None:
            if not (isinstance(robust, (int, float, np.number)) and 0.0 < robust < np.inf):
                raise GoalError(f"{self}: robust", expected="None or a positive number", got=repr(robust))
            if not 1.0 / MAX_MAGNITUDE <= robust <= MAX_MAGNITUDE:
                raise GoalError(
                    f"{self}: robust", expected=f"{1 / MAX_MAGNITUDE:g} to {MAX_MAGNITUDE:g}", got=repr(robust)
                )
        self.robust = None if robust is None else float(robust)

    def default_label(self) -> str:
        """Return the goal's name in results if the user gave none."""
        body = self.__dict__.get("body")
        return type(self).__name__.lower() if body is None else body

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """Return the springs that the goal is made of, on this skeleton."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make this goal, by name: what a goal file (TOML) holds of a package's own goal."""
        raise GoalError(f"{self}", expected="arguments(), which names its arguments", got="a goal without a file form")

    def on_a_gpu(self) -> GoalError:
        """Return the error for a target on a GPU where the solve is not."""
        return GoalError(f"{self}: target", expected="numbers here, or solve(device='cuda')", got="a GPU's memory")

    def constants_key(self) -> Any:
        """Return a hashable key of everything but the figure that the goal's constants depend on; None if unknown.

        Problems whose goals have equal keys share their constants; only the targets are packed again.
        """
        return None

    def _key(self, *more: Any) -> Any:
        """Return the key of a goal with a body and a weight; `more` are further arrays that it depends on."""
        key = self.__dict__.get("_constants_key")
        if key is None:
            weights = self.weight if isinstance(self.weight, tuple) else (self.weight,)
            numbers = tuple([None if one is None else one.tobytes() for one in (*weights, *more)])
            key = (type(self), self.body, self.label, self.priority, self.robust, self.tolerance, numbers)
            self.__dict__["_constants_key"] = key
        return key

    @property
    def pins_frame(self) -> bool:
        """Whether it is one target for the body's own frame, with a weight and a tolerance on each of its six axes."""
        return False

    @property
    def target_batch(self) -> tuple[int, ...]:
        """The leading axes of the target, for goals whose target is an array."""
        return self.target.shape[: self.target.ndim - len(self.target_shape)]

    def python_energy(self, skeleton: Skeleton) -> Any:
        """Return a VectorEnergy (energy.py) for what springs cannot express; None if they express all of the goal."""
        return None

    def changed(self, factor: float = 1.0, tolerance: float | None = None, robust: float | None = None) -> Self:
        """Return the same goal with its weight scaled and, if given, another tolerance and robust scale."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.__dict__.pop("_constants_key", None)
        out.weight = tuple(factor * w for w in self.weight) if isinstance(self.weight, tuple) else factor * self.weight
        if tolerance is not None:
            out.tolerance = (tolerance,) * len(self.tolerance) if isinstance(self.tolerance, tuple) else tolerance
        if robust is not None:
            out.robust = robust
        return out

    def set_target(self, target: Any) -> None:
        """Check and store a target. Called by the constructor, and by `moved` on a copy."""
        raise GoalError(f"{type(self).__name__} has no target to move")

    def moved(self, target: Any) -> Self:
        """Return the same goal with another target."""
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out.set_target(target)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({getattr(self, 'label', '')!r})"


def are_points(value: Any) -> bool:
    """Return whether a target is numbers (..., 3), and not a transform in any of its forms."""
    try:
        return not hasattr(value, "as_matrix") and np.shape(value)[-1:] == (3,)
    except ValueError:  # ragged: a position with a rotation or a quaternion
        return False


def numbers(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return `value` as a finite array (..., *shape).

    Raises:
        GoalError: It is not such an array; `what` names it in the message.
    """
    try:
        out = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise GoalError(
            what, expected=f"numbers of shape (..., {', '.join(map(str, shape))})", got=short(value)
        ) from None
    if out.shape[out.ndim - len(shape) :] != shape or out.ndim < len(shape):
        raise GoalError(what, expected=f"shape (..., {', '.join(map(str, shape))})", got=f"shape {out.shape}")
    check_finite(out, what)
    return out


def check_finite(values: np.ndarray, what: str) -> None:
    """Raise a GoalError if a number is not finite, or so large that products of such numbers would overflow."""
    if max_abs(values) <= MAX_MAGNITUDE:  # NaN is not
        return
    flat = values.reshape(-1)
    if not np.isfinite(flat).all():
        raise GoalError(what, expected="finite numbers", got=f"{flat[~np.isfinite(flat)][0]} among them")
    raise GoalError(what, expected=f"magnitudes up to {MAX_MAGNITUDE:g}", got=f"{flat[np.abs(flat).argmax()]:g}")


def max_abs(values: np.ndarray) -> float:
    """Return the largest absolute value in an array; NaN if it contains one."""
    return np.maximum.reduce(np.abs(values), axis=None, initial=0.0)


CHUNK = 1024  # targets that a thread checks or packs at a time


def checked_targets(value: Any, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return a checked copy of targets (..., *shape): points (3,), rotations (3, 3) or transforms (4, 4).

    Raises:
        GoalError: The shape is wrong, a number is not finite or too large, or a matrix is not a rotation.
    """
    try:
        given = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        given = numbers(value, shape, what)  # raises with the reason
    if given.shape == shape:  # one target: floats are quicker than arrays of 3 to 16 numbers
        out = given.copy()
        flat = out.ravel().tolist()
        if _is_small(*flat) if shape == (3,) else _is_frame(flat):
            return out
    elif given.ndim > len(shape) and given.shape[given.ndim - len(shape) :] == shape:
        out, size = np.empty(given.shape), math.prod(shape)
        if copy_checked(given.reshape(-1, size), out.reshape(-1, size)):
            return out
    out = numbers(given, shape, what)
    if shape != (3,):
        turn = out[..., :3, :3]
        gap = np.abs(np.swapaxes(turn, -1, -2) @ turn - np.eye(3)).max(initial=0.0)
        got = f"a matrix off by {gap:.2g}" if gap > ROUNDED else "a mirrored one"
        rows = out.reshape(-1, 4, 4)[:, 3] if shape == (4, 4) and gap <= ROUNDED else np.empty((0, 4))
        off = np.abs(rows - LAST_ROW).sum(axis=1)
        if off.max(initial=0.0) >= ROUNDED:
            row = rows[off.argmax()].tolist()
            raise GoalError(what, expected="(0, 0, 0, 1) as the last row; transpose it?", got=f"{row}")
        raise GoalError(what, expected="a rotation (orthonormal, right-handed)", got=got)
    return out


ROUNDED = 1e-6  # error of numbers of a rotation or transform, as in files and in single precision
LAST_ROW = (0.0, 0.0, 0.0, 1.0)


def copy_checked(values: np.ndarray, out: np.ndarray) -> bool:
    """Copy targets (t, k) on every core; return whether they are valid, see `take_targets`."""
    from posable.engine.assemble import take_targets

    invalid: list[bool] = []

    def work(piece: slice) -> None:
        out[piece] = values[piece]
        if not take_targets(out[piece], _NO_TARGETS, 0):
            invalid.append(True)

    run_chunks(work, len(values), CHUNK, None, invalid)
    return not invalid


_NO_TARGETS = np.zeros((0, 1, TARGETS))


def _is_small(x: float, y: float, z: float) -> bool:
    """Return whether three numbers are finite and of a magnitude that is allowed."""
    return abs(x) <= MAX_MAGNITUDE and abs(y) <= MAX_MAGNITUDE and abs(z) <= MAX_MAGNITUDE


def _is_frame(flat: list[float]) -> bool:
    """Return whether the numbers of a matrix, by rows, are a rotation (3x3) or a transform (4x4)."""
    if len(flat) == 16:
        a, b, c, x, d, e, f, y, g, h, i, z, p, q, r, s = flat
        if abs(p) + abs(q) + abs(r) + abs(s - 1.0) >= ROUNDED or not _is_small(x, y, z):
            return False
    else:
        a, b, c, d, e, f, g, h, i = flat
    return (
        abs(a * a + b * b + c * c - 1.0) < ROUNDED
        and abs(d * d + e * e + f * f - 1.0) < ROUNDED
        and abs(a * d + b * e + c * f) < ROUNDED
        and abs(b * f - c * e - g) < ROUNDED
        and abs(c * d - a * f - h) < ROUNDED
        and abs(a * e - b * d - i) < ROUNDED
    )


def nonneg(value: Any, what: str) -> float:
    """Return a non-negative number; only a tolerance may be infinite.

    Raises:
        GoalError: It is not a number, or it is negative, NaN or too large.
    """
    try:
        out = float(value)
    except (TypeError, ValueError, OverflowError):
        raise GoalError(what, expected="a non-negative number", got=repr(value)) from None
    if not out >= 0.0 or (out == np.inf and not what.endswith("tolerance")):
        raise GoalError(what, expected="a finite non-negative number", got=repr(value))
    if out > MAX_MAGNITUDE and not what.endswith("tolerance"):
        raise GoalError(what, expected=f"at most {MAX_MAGNITUDE:g}", got=repr(value))
    return out


def goals_in(goals: Any, what: str = "goals") -> tuple[Goal, ...]:
    """Return one goal or several as a tuple.

    Raises:
        GoalError: They are neither.
    """
    if isinstance(goals, Goal):
        return (goals,)
    if isinstance(goals, str) or not isinstance(goals, Iterable):
        raise GoalError(what, expected="a goal, or several", got=repr(goals))
    return tuple(goals)


def unit_vectors(value: Any, what: str) -> np.ndarray:
    """Return unit vectors (..., 3), given as "x", "-y" or as vectors of any non-zero length."""
    if isinstance(value, str):
        return named_axis(value, what)
    out = numbers(value, (3,), what)
    length = np.linalg.norm(out, axis=-1, keepdims=True)
    if not (length > 1e-12).all():
        raise GoalError(what, expected="a direction", got="a zero vector")
    return out / length


def named_axis(axis: Any, what: str) -> np.ndarray:
    """Return an axis (3,), given as "x", "-y" or as a unit vector."""
    if isinstance(axis, str):
        out = unit_axis(axis)
        if not out.any():
            raise GoalError(what, expected="'x', 'y' or 'z', with or without a sign, or a unit vector", got=repr(axis))
        return out
    out = numbers(axis, (3,), what)
    length = float(np.linalg.norm(out)) if out.ndim == 1 else np.nan
    if not abs(length - 1.0) < 1e-6:
        got = f"length {length:.6g}" if out.ndim == 1 else f"shape {out.shape}"
        raise GoalError(what, expected="a vector of length 1", got=got)
    return out / length


def batch_of(*arrays: np.ndarray, what: str) -> tuple[int, ...]:
    """Return the broadcast leading axes of arrays (..., 3)."""
    try:
        return np.broadcast_shapes(*(array.shape[:-1] for array in arrays))
    except ValueError:
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise GoalError(what, expected="leading axes that agree", got=f"shapes {shapes}") from None


def unique_names(names: list[str]) -> list[str]:
    """Return the names, with a number appended to repeated ones."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out


def outer_products(directions: np.ndarray) -> np.ndarray:
    """Return the outer products n n' of directions (..., 3), packed as (..., 6): xx yy zz xy xz yz."""
    x, y, z = directions[..., 0], directions[..., 1], directions[..., 2]
    return np.stack([x * x, y * y, z * z, x * y, x * z, y * z], axis=-1)


def weight_matrix(weight: Any, what: str) -> np.ndarray:
    """Return a weight packed as (6,), given as a number, three numbers or a symmetric positive semidefinite 3x3."""
    if isinstance(weight, (int, float)):
        w = nonneg(weight, what)
        return np.array([w, w, w, 0.0, 0.0, 0.0])
    return pack_sym(square_weight(weight, 3, what))


def square_weight(weight: Any, size: int, what: str) -> np.ndarray:
    """Return a weight as (size, size), given as a number, `size` numbers or a positive semidefinite matrix."""
    try:
        value = np.asarray(weight, dtype=float)
    except (TypeError, ValueError, OverflowError):
        value = np.full((), np.nan)
    if value.shape in ((), (1,), (1, 1)):
        return nonneg(value.reshape(()), what) * np.eye(size)
    if value.shape in ((size,), (size, size)):
        check_finite(value, what)
    if value.shape == (size,) and np.all(value >= 0.0):
        return np.diag(value)
    good = value.shape == (size, size) and np.abs(value - value.T).max() <= 1e-9 * np.abs(value).max()
    if good and np.linalg.eigvalsh(value)[0] >= -1e-12 * np.abs(value).max():
        return 0.5 * (value + value.T)
    raise GoalError(
        what,
        expected=f"a number, {size} numbers, or a symmetric {size}x{size} matrix, all non-negative",
        got=repr(weight),
    )


def is_isotropic(weight: np.ndarray) -> bool:
    """Return whether a packed weight (6,) is the same in every direction."""
    return bool(weight[0] == weight[1] == weight[2] and weight[3] == weight[4] == weight[5] == 0.0)


def is_definite(weight: np.ndarray) -> bool:
    """Return whether a packed weight (6,) leaves no direction free."""
    xx, yy, zz, xy, xz, yz = weight.tolist()
    if xy == xz == yz == 0.0:
        return xx > 0.0 and yy > 0.0 and zz > 0.0
    values = np.linalg.eigvalsh(unpack_sym(weight))
    return bool(values[0] > 1e-9 * values[-1])


def weight_along(weight: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Return n'W n (...,), the weight along directions n (..., 3) of a packed weight W (6,)."""
    x, y, z = direction[..., 0], direction[..., 1], direction[..., 2]
    square = weight[0] * x * x + weight[1] * y * y + weight[2] * z * z
    return square + 2.0 * (weight[3] * x * y + weight[4] * x * z + weight[5] * y * z)


def pack_sym(matrices: np.ndarray) -> np.ndarray:
    """Return symmetric matrices (..., 3, 3) as (..., 6): xx yy zz xy xz yz."""
    return matrices[..., (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)]


def unpack_sym(packed: np.ndarray) -> np.ndarray:
    """Return the symmetric matrices (..., 3, 3) of xx yy zz xy xz yz (..., 6)."""
    return packed[..., ((0, 3, 4), (3, 1, 5), (4, 5, 2))]


def range_projector(weight: np.ndarray) -> np.ndarray:
    """Return the projector on the range of a weight, both packed as (6,): the part of the residual that is an error.

    For a zero weight the whole residual is reported; the goal then does not affect `ok` (Problem).
    """
    if not weight.any():
        return np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    if weight[3] == weight[4] == weight[5] == 0.0:
        return np.array([1.0 if w > 0.0 else 0.0 for w in weight[:3]] + [0.0, 0.0, 0.0])
    values, vectors = np.linalg.eigh(unpack_sym(weight))
    kept = vectors[:, values > 1e-9 * values[-1]]
    return pack_sym(kept @ kept.T)


def point_constants(
    skeleton: Skeleton, body: str, point: Any, batch: tuple[int, ...] = ()
) -> tuple[int, np.ndarray, int]:
    """Return (body index, constants with the point set, row of the frame) of a point on a named body."""
    frame = skeleton.frame(body)
    data = np.zeros((*batch, CONSTANTS))
    local = skeleton.frame_positions[frame]
    if point is not None:
        local = local + skeleton.frame_rotations[frame] @ point
    data[..., POINT : POINT + 3] = local
    return int(skeleton.frame_bodies[frame]), data, frame


def target_row(at: Any = 0.0, along: Any = 0.0) -> np.ndarray:
    """Return targets (..., TARGETS) with a place (..., 3) and a direction (..., 3) or a rotation by rows (..., 9)."""
    at, along = np.asarray(at), np.asarray(along)
    out = np.zeros((*np.broadcast_shapes(at.shape[:-1], along.shape[:-1]), TARGETS))
    out[..., AT : AT + 3] = at
    out[..., FRAME : FRAME + (along.shape[-1] if along.ndim else 0)] = along
    return out


def set_weight(data: np.ndarray, weight: np.ndarray, robust: float | None, measure: np.ndarray | None = None) -> None:
    """Write a packed weight (6,), the projector of its error and the robust scale into a spring's constants."""
    data[..., WEIGHT : WEIGHT + 6] = weight
    if measure is not None:
        data[..., MEASURE : MEASURE + 6] = measure
    if robust is not None:
        data[..., ROBUST] = np.abs(weight[..., :3]).max() * robust * robust


def device_target(value: Any, shape: tuple[int, ...], what: str) -> tuple[Any, Any]:
    """Return (array on the GPU, stand-in on the host) for a target that is on a GPU, else (None, value)."""
    if isinstance(value, np.ndarray) or not (
        hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack_device__")
    ):
        return None, value
    found = checked_device_array(value, shape, what)
    if found is None:
        return None, value
    return found, np.eye(shape[0]) if len(shape) == 2 else np.zeros(shape)


# --- Targets on a GPU: arrays of CuPy, PyTorch, JAX or Numba, accessed through their protocols without a copy ---


CUDA = 2  # the device type of NVIDIA GPUs in DLPack
LEGACY_STREAM = 1  # the default stream, in DLPack's numbering


@dataclass(frozen=True)
class DeviceArray:
    """An array in the memory of a GPU.

    Attributes:
        pointer: Address of its first element.
        shape: Its shape.
        strides: [elements].
        dtype: Type of its elements.
        owner: The object that keeps the memory alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    owner: Any


def device_array(value: Any) -> DeviceArray | None:
    """Return an array on a GPU by its `__cuda_array_interface__` or DLPack; None for anything else."""
    if isinstance(value, (np.ndarray, str, int, float, list, tuple)):
        return None
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is not None:
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        steps = interface.get("strides")
        strides = contiguous(shape) if steps is None else tuple(s // dtype.itemsize for s in steps)
        return DeviceArray(int(interface["data"][0]), shape, strides, dtype, value)
    ask = getattr(value, "__dlpack_device__", None)
    return from_dlpack(value) if ask is not None and int(ask()[0]) == CUDA else None


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides [elements] of a C-contiguous array."""
    out = [1]
    for size in reversed(shape[1:]):
        out.insert(0, out[0] * size)
    return tuple(out[: len(shape)])


def from_dlpack(value: Any, stream: int = LEGACY_STREAM) -> DeviceArray:
    """Return the memory of an array that supports only DLPack, through cuda.core.

    Args:
        value: An array with `__dlpack__`.
        stream: The CUDA stream that its data must be ready on; -1: do not wait.

    Raises:
        GoalError: cuda.core is not installed.
    """
    try:
        from cuda.core.utils import StridedMemoryView
    except ImportError:
        raise GoalError(
            "an array on the GPU that supports only DLPack",
            expected="the package cuda-core: pip install 'posable[gpu]'",
        ) from None
    view = StridedMemoryView.from_dlpack(value, stream_ptr=stream)
    shape = tuple(view.shape)
    return DeviceArray(view.ptr, shape, tuple(view.strides or contiguous(shape)), np.dtype(view.dtype), view)


def checked_device_array(value: Any, shape: tuple[int, ...], what: str) -> DeviceArray | None:
    """Return an array on a GPU of shape (..., *shape) whose leading axes are contiguous; None for anything else.

    Raises:
        GoalError: Its shape, type or layout does not fit.
    """
    found = device_array(value)
    if found is None:
        return None
    lead = len(found.shape) - len(shape)
    wanted = f"float32 or float64 of shape (..., {', '.join(map(str, shape))})"
    if found.shape[lead:] != shape or found.dtype not in (np.float32, np.float64):
        raise GoalError(what, expected=wanted, got=f"{found.dtype} of shape {found.shape} on the GPU")
    for axis in range(lead - 1):
        if found.strides[axis] != found.strides[axis + 1] * found.shape[axis + 1]:
            raise GoalError(what, expected="contiguous leading axes", got=f"strides {found.strides}")
    return found
