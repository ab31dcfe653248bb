"""Joints, sites and joint types, and the flat arrays that the engine reads.

A joint has a constant pose in its parent (the arc of Parent, Kinematic Linkages), followed by its motion:
T_world_joint = T_world_parent (offset, rotation) motion(theta). A site is a frame fixed to a joint (the node of
Parent, Kinematic Linkages): an end effector, a tool, a marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from posable.engine.joints import ROTVEC, SLIDE, SWING, TAIL, TURN
from posable.engine.layout import ABOVE, DEPTH, LEVEL, SOLID_WIDTH, UP, VISIT, Figure, Order

# --- Joint motions ---

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
EULER_ORDERS = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx", "xyx", "xzx", "yxy", "yzy", "zxz", "zyz")


@dataclass(frozen=True)
class Dof:
    """One elementary degree of freedom: kind, axis index 0..2 in the joint's frame, sign and name."""

    kind: int
    axis: int
    sign: float = 1.0
    name: str = ""


@dataclass(frozen=True)
class JointMotion:
    """How a joint moves. Use one of the subclasses, or write one."""

    turns: ClassVar[bool] = False

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """The elementary degrees of freedom, in the order of the pose vector."""
        return ()

    @property
    def basis(self) -> np.ndarray:
        """(3, 3) The frame B whose axes the degrees of freedom use, in the joint's frame; the motion is B m B'."""
        return np.eye(3)

    @property
    def size(self) -> int:
        """Number of degrees of freedom."""
        return len(self.dofs)

    def problems(self) -> list[str]:
        """Return what is wrong with the motion; empty if it is valid."""
        return []


def unit_axis(axis: str | object) -> np.ndarray:
    """Return an axis given as "x", "-y" or three numbers as a unit vector (3,); zeros if it is not an axis."""
    if isinstance(axis, str):
        name = axis.lower().lstrip("+-")
        value = np.array(AXES.get(name, (0.0, 0.0, 0.0)))
        return -value if axis.startswith("-") else value
    try:
        value = np.asarray(axis, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return np.zeros(3)
    if value.shape != (3,) or not np.all(np.isfinite(value)):
        return np.zeros(3)
    length = float(np.linalg.norm(value))
    return value / length if length > 1e-12 else np.zeros(3)


def rotation_about(axis: int, angle: float) -> np.ndarray:
    """Return the rotation (3, 3) by an angle [rad] about axis 0, 1 or 2.

    The same bits as SciPy's `from_euler`, without the quarter of a second that importing SciPy takes.
    """
    s, c = np.sin(0.5 * angle), np.cos(0.5 * angle)
    out = np.diag([c * c - s * s] * 3)
    out[axis, axis] = s * s + c * c
    i, j = (axis + 1) % 3, (axis + 2) % 3
    out[j, i] = 2.0 * (s * c)
    out[i, j] = -out[j, i]
    return out


def _freeze(axis: object) -> object:
    return tuple(axis) if isinstance(axis, Iterable) and not isinstance(axis, str) else axis


def _aligned(axis: object) -> tuple[int, float] | None:
    """Return (index, sign) if the axis is one of the frame's own, else None."""
    value = unit_axis(axis)
    k = int(np.argmax(np.abs(value)))
    return (k, float(np.sign(value[k]))) if np.count_nonzero(value) == 1 else None


def _frame_with(axis: np.ndarray, k: int) -> np.ndarray:
    """Return a rotation whose column k is the axis; deterministic, and the identity if possible."""
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
class _OneAxis(JointMotion):
    """A joint with one degree of freedom on an axis of its frame."""

    axis: object = "z"
    kind: ClassVar[int]

    def __post_init__(self):
        object.__setattr__(self, "axis", _freeze(self.axis))

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """One TURN or one SLIDE."""
        index, sign = _aligned(self.axis) or (2, 1.0)
        return (Dof(self.kind, index, sign),)

    @property
    def basis(self) -> np.ndarray:
        """A frame whose z is the axis, unless the axis is one of the joint's own."""
        return np.eye(3) if _aligned(self.axis) else _frame_with(unit_axis(self.axis), 2)

    def problems(self) -> list[str]:
        """Return what is wrong with the axis."""
        return _axis_problem(self.axis, "axis")


@dataclass(frozen=True)
class Revolute(_OneAxis):
    """A hinge about an axis of the joint's frame: one angle [rad].

    Args:
        axis: "x", "y", "z", "-x", "-y", "-z", or a vector (3,), not necessarily of unit length.
    """

    turns: ClassVar[bool] = True
    kind: ClassVar[int] = TURN


@dataclass(frozen=True)
class Prismatic(_OneAxis):
    """A slider along an axis of the joint's frame: one length [m].

    Args:
        axis: "x", "y", "z", "-x", "-y", "-z", or a vector (3,), not necessarily of unit length.
    """

    kind: ClassVar[int] = SLIDE


@dataclass(frozen=True)
class Universal(JointMotion):
    """Two hinges that share an origin: two angles [rad].

    Args:
        axes: Two different axes, leftmost first ("xy": R = Rx Ry).
    """

    axes: str = "xy"
    turns: ClassVar[bool] = True

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """Two TURNs."""
        return tuple(Dof(TURN, "xyz".index(a), 1.0, a) for a in self.axes)

    def problems(self) -> list[str]:
        """Return what is wrong with the axes."""
        good = (
            isinstance(self.axes, str)
            and len(self.axes) == 2
            and set(self.axes) < set("xyz")
            and len(set(self.axes)) == 2
        )
        return [] if good else [f"Universal expects two different axes such as 'xy', got {self.axes!r}"]


@dataclass(frozen=True)
class Planar(JointMotion):
    """Two translations [m] in a plane, then a rotation [rad] about its normal.

    Args:
        normal: "x", "y", "z", "-x", "-y", "-z", or a vector (3,), not necessarily of unit length.
    """

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
        """A frame whose z is the normal, unless that is an axis of the joint's own frame."""
        return np.eye(3) if _aligned(self.normal) else _frame_with(unit_axis(self.normal), 2)

    def problems(self) -> list[str]:
        """Return what is wrong with the normal."""
        return _axis_problem(self.normal, "normal")


@dataclass(frozen=True)
class Ball(JointMotion):
    """A ball joint: three numbers, interpreted as Euler angles, a rotation vector, or swing and twist.

    Args:
        order: One of the 12 intrinsic Euler orders, leftmost first ("zyx": R = Rz Ry Rx); "rotvec"; or "swing-twist":
            a rotation vector perpendicular to `axis` (2 numbers), then the twist about it, R = swing twist.
        axis: The twist axis of "swing-twist".
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
        """A frame whose x is the twist axis, unless that is one of the joint's own."""
        if self.order != "swing-twist" or _aligned(self.axis):
            return np.eye(3)
        return _frame_with(unit_axis(self.axis), 0)

    def problems(self) -> list[str]:
        """Return what is wrong with the order or the axis."""
        choices = (*EULER_ORDERS, "rotvec", "swing-twist")
        if self.order not in choices:
            return [f"expected a rotation order among {', '.join(choices)}, got {self.order!r}"]
        return _axis_problem(self.axis, "axis") if self.order == "swing-twist" else []


@dataclass(frozen=True)
class Free(JointMotion):
    """A floating base: three translations [m], then a ball joint.

    Args:
        order: Parametrisation of the rotation, as for `Ball`.
    """

    order: str = "zyx"
    turns: ClassVar[bool] = True

    @property
    def dofs(self) -> tuple[Dof, ...]:
        """Three SLIDEs and a ball."""
        slides = tuple(Dof(SLIDE, k, 1.0, "t" + "xyz"[k]) for k in range(3))
        return slides + Ball(self.order).dofs

    def problems(self) -> list[str]:
        """Return what is wrong with the order."""
        return Ball(self.order).problems()


# --- Joints and sites ---


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint with k degrees of freedom, and the bone that moves with it.

    Args:
        name: Unique among the joints.
        motion: `Revolute("z")`, `Ball("zyx")`, ...
        parent: Name of the parent joint; None for the root.
        offset: (3,) [m] Constant position in the parent's frame.
        rotation: Constant rotation in the parent's frame: SciPy Rotation or (3, 3).
        limits: [rad, m] None, one (lower, upper) for all, or (k, 2); infinities are allowed.
        rest: [rad, m] Relaxed value, a number or (k,).
        gain: Strength of the joint, a number or (k,). In solvers with a metric (`dls`, `newton`, ...) a stronger joint
            moves more readily, by the square of its gain; 0 never moves.
        mass: [kg] At `center`.
        frozen: True, or (k,) of them: which degrees of freedom keep their value.
        center: (3,) [m] Centre of mass in the joint's frame.
        inertia: (3, 3) [kg m^2] About the centre of mass, in the joint's axes, if known.
        velocity: [rad/s, m/s] Largest speed, a number or (k,).
        effort: [N m, N] Largest torque or force, a number or (k,).
    """

    name: str
    motion: JointMotion
    parent: str | None = None
    _: KW_ONLY
    offset: Any = (0.0, 0.0, 0.0)
    rotation: Any = None
    limits: Any = None
    rest: Any = 0.0
    gain: Any = 1.0
    mass: float = 0.0
    frozen: Any = False
    center: Any = (0.0, 0.0, 0.0)
    inertia: Any = None
    velocity: Any = np.inf
    effort: Any = np.inf


@dataclass(frozen=True, eq=False)
class Site:
    """A frame fixed to a joint: an end effector, a tool, a marker.

    Args:
        name: Unique among the sites.
        joint: The joint that carries it.
        offset: (3,) [m] Position in the joint's frame.
        rotation: Orientation in the joint's frame: SciPy Rotation or (3, 3).
    """

    name: str
    joint: str
    offset: Any = (0.0, 0.0, 0.0)
    rotation: Any = None


def rotation_matrix(rotation: Any) -> np.ndarray | None:
    """Return a rotation given as None, a SciPy Rotation or (3, 3) as (3, 3); None if it is not a rotation."""
    if rotation is None:
        return np.eye(3)
    try:
        value = rotation.as_matrix() if hasattr(rotation, "as_matrix") else np.asarray(rotation, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None
    if value.shape != (3, 3) or not np.all(np.isfinite(value)):
        return None
    if np.abs(value @ value.T - np.eye(3)).max() > 1e-6 or np.linalg.det(value) < 0.0:
        return None
    return np.array(value, dtype=float)


def vector_of(value: Any) -> np.ndarray | None:
    """Return three finite numbers as (3,), or None."""
    out = floats_of(value)
    return out if out is not None and out.shape == (3,) and np.all(np.isfinite(out)) else None


def floats_of(value: Any) -> np.ndarray | None:
    """Return a copy of numbers as an array, or None if they are not numbers."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return None


def limits_of(joint: Joint) -> np.ndarray | None:
    """Return a joint's limits as (k, 2), or None if they are invalid."""
    k = joint.motion.size
    if joint.limits is None:
        return np.tile([-np.inf, np.inf], (k, 1))
    box = floats_of(joint.limits)
    if box is not None and box.shape == (2,):
        box = np.tile(box, (k, 1))
    return box if box is not None and box.shape == (k, 2) and not np.any(np.isnan(box)) else None


def numbers_of(value: Any, k: int) -> np.ndarray | None:
    """Return a number or k numbers as (k,), or None if they are invalid or not finite."""
    out = floats_of(value)
    if out is None or out.shape not in ((), (k,)) or not np.all(np.isfinite(out)):
        return None
    return np.broadcast_to(out, (k,)).copy()


def bounds_of(value: Any, k: int) -> np.ndarray | None:
    """Return positive bounds, given as a number or k numbers, as (k,); infinity is allowed. None if invalid."""
    out = floats_of(value)
    if out is None or out.shape not in ((), (k,)) or not np.all(out > 0.0):
        return None
    return np.broadcast_to(out, (k,)).copy()


def frozen_of(joint: Joint) -> np.ndarray | None:
    """Return which of a joint's k degrees of freedom keep their value, as (k,) bool, or None if invalid."""
    k = joint.motion.size
    try:
        out = np.asarray(joint.frozen)
    except ValueError:
        return None
    if out.shape not in ((), (k,)) or (out.dtype != bool and not np.isin(out, (0, 1)).all()):
        return None
    return np.broadcast_to(out.astype(bool), (k,)).copy()


# --- The flat arrays of joints and sites that the kernels read ---


def cycles(joints: Sequence[Joint]) -> list[list[str]]:
    """Return every cycle among the parents, once."""
    parent = {joint.name: joint.parent for joint in joints}
    done: set[Any] = set()
    found = []
    for start in parent:
        path: list[Any] = []
        name: Any = start
        while name in parent and name not in done and name not in path:
            path.append(name)
            name = parent[name]
        if name in path:
            found.append([*path[path.index(name) :], name])
        done.update(path)
    return found


def parents_first(joints: Sequence[Joint]) -> tuple[Joint, ...]:
    """Return the joints in the given order, except that parents come first."""
    by_name = {joint.name: joint for joint in joints}
    placed: dict[str, Joint] = {}
    for joint in joints:
        chain = []
        current: Joint | None = joint
        while current is not None and current.name not in placed:
            chain.append(current)
            current = by_name[current.parent] if current.parent is not None else None
        for member in reversed(chain):
            placed[member.name] = member
    return tuple(placed.values())


def flatten(joints: Sequence[Joint], sites: Sequence[Site]) -> dict[str, Any]:
    """Return the arrays of a Skeleton by name.

    Args:
        joints: Valid joints, parents first.
        sites: Valid sites.
    """
    rows = _FigureRows()
    for joint in joints:
        rows.add(joint)
    frames = [rows.place[joint.name] for joint in joints]
    for site in sites:
        body, p, r = rows.place[site.joint]
        frames.append((body, p + r @ np.asarray(site.offset, dtype=float), r @ rotation_matrix(site.rotation)))
    return {
        **rows.arrays(),
        "frame_bodies": frozen_array(np.array([f[0] for f in frames], dtype=np.int64)),
        "frame_positions": frozen_array(np.array([f[1] for f in frames]).reshape(-1, 3)),
        "frame_rotations": frozen_array(np.array([f[2] for f in frames]).reshape(-1, 3, 3)),
    }


class _FigureRows:
    """The rows of a figure's arrays while its joints are added."""

    def __init__(self):
        self.bodies: list[tuple[int, int, int, int]] = []
        self.rests: list[np.ndarray] = []  # of each body: position and rotation in its parent
        self.masses: list[np.ndarray] = []
        self.dofs: list[tuple[int, int, int, int, int]] = []
        self.signs: list[float] = []
        self.dof_names: list[str] = []
        self.slices: list[slice] = []
        self.values: dict[str, list[Any]] = {
            name: [] for name in ("limits", "rest", "gain", "frozen", "velocity", "effort")
        }
        self.place: dict[str, tuple[int, np.ndarray, np.ndarray]] = {}  # joint -> body, position and rotation in it
        self.last_dof: list[int] = []  # of each body

    def add(self, joint: Joint) -> None:
        """Add a joint: a body if it moves, else a frame on the body of its parent."""
        body, p, r = self.place[joint.parent] if joint.parent is not None else (-1, np.zeros(3), np.eye(3))
        p, r = p + r @ np.asarray(joint.offset, dtype=float), r @ rotation_matrix(joint.rotation)  # type: ignore[operator]  # a valid joint
        self.slices.append(slice(len(self.dofs), len(self.dofs) + joint.motion.size))
        if joint.motion.size or body < 0:
            body = self._add_body(joint, body, p, r @ joint.motion.basis)
            p, r = np.zeros(3), joint.motion.basis.T
        self.place[joint.name] = (body, p, r)
        if joint.mass:
            _add_mass(self.masses[body], joint.mass, p + r @ np.asarray(joint.center, dtype=float))

    def _add_body(self, joint: Joint, parent: int, p: np.ndarray, r: np.ndarray) -> int:
        """Add the body of a joint at position p (3,) and rotation r (3, 3) in its parent; return its index."""
        first, count = len(self.dofs), joint.motion.size
        turned = 0 if parent >= 0 and np.array_equal(r, np.eye(3)) else 1
        above = self.last_dof[parent] if parent >= 0 else -1
        body = len(self.bodies)
        self.bodies.append((parent, first, first + count, turned))
        self.rests.append(np.concatenate([p, r.ravel()]))
        self.masses.append(np.zeros(4))
        for element in joint.motion.dofs:
            level = self.dofs[above][LEVEL] + 1 if above >= 0 else 0
            self.dofs.append((element.kind, element.axis, above, body, level))
            above = len(self.dofs) - 1
            self.signs.append(element.sign)
            self.dof_names.append(joint.name + ("." + element.name if element.name else ""))
        self.last_dof.append(above)
        given = {
            "limits": limits_of(joint), "frozen": frozen_of(joint), "rest": numbers_of(joint.rest, count),
            "gain": numbers_of(joint.gain, count), "velocity": bounds_of(joint.velocity, count),
            "effort": bounds_of(joint.effort, count),
        }  # fmt: skip
        for name, value in given.items():
            self.values[name] += list(value)  # type: ignore[arg-type]  # valid joints: never None
        return body

    def arrays(self) -> dict[str, Any]:
        """Return the arrays of the joints added."""
        n = len(self.dofs)
        mass = np.array(self.masses).reshape(-1, 4)
        total_mass = float(mass[:, 0].sum())
        if total_mass > 0.0:
            mass[:, 0] /= total_mass
        dofs = np.array(self.dofs, dtype=np.int64).reshape(n, 5)
        figure = Figure(
            frozen_array(np.array(self.bodies, dtype=np.int64).reshape(-1, 4)),
            frozen_array(np.array(self.rests)),
            frozen_array(dofs),
            frozen_array(np.array(self.signs, dtype=float)),
            frozen_array(mass),
            solid=frozen_array(np.zeros((0, SOLID_WIDTH))),
            corner=frozen_array(np.zeros((0, 3))),
            ball=frozen_array(np.zeros((0, 4))),
            field=frozen_array(np.zeros(0)),
            touch=frozen_array(np.zeros((0, 4), dtype=np.int64)),
            pair=frozen_array(np.zeros((0, 2), dtype=np.int64)),
        )
        limits = np.array(self.values["limits"], dtype=float).reshape(n, 2)
        lower, upper = frozen_array(limits[:, 0].copy()), frozen_array(limits[:, 1].copy())
        rest, gain, velocity, effort = (
            np.array(self.values[name], dtype=float).reshape(n) for name in ("rest", "gain", "velocity", "effort")
        )
        return {
            "size": n,
            "dof_names": tuple(self.dof_names),
            "slices": tuple(self.slices),
            "lower": lower,
            "upper": upper,
            "rest": frozen_array(np.clip(rest, lower, upper)),
            "gain": frozen_array(gain),
            "velocity": frozen_array(velocity),
            "effort": frozen_array(effort),
            "_frozen": frozen_array(np.array(self.values["frozen"], dtype=bool).reshape(n) | (gain == 0.0)),
            "figure": figure,
            "order": elimination_order(dofs, ()),
            "total_mass": total_mass,
        }


def moved_arrays(
    joints: Sequence[Joint], sites: Sequence[Site], figure: Figure, bodies: np.ndarray, rotations: np.ndarray
) -> dict[str, Any]:
    """Return the arrays of a Skeleton that depend on offsets, by name.

    Args:
        joints: Parents first, with other offsets and centres than those of the figure.
        sites: With other offsets.
        figure: As it was.
        bodies: (f,) The body of each frame, of joints and then sites.
        rotations: (f, 3, 3) In it.
    """
    row = {joint.name: i for i, joint in enumerate(joints)}
    positions = np.zeros((len(rotations), 3))
    rest, mass = figure.rest.copy(), np.zeros_like(figure.mass)
    for i, joint in enumerate(joints):
        above = row[joint.parent] if joint.parent is not None else -1
        p = np.asarray(joint.offset, dtype=float)
        if above >= 0:
            p = positions[above] + rotations[above] @ p
        if above < 0 or bodies[above] != bodies[i]:
            rest[bodies[i], :3] = p
        else:
            positions[i] = p
        if joint.mass:
            _add_mass(mass[bodies[i]], joint.mass, positions[i] + rotations[i] @ np.asarray(joint.center, dtype=float))
    for i, site in enumerate(sites, start=len(joints)):
        on = row[site.joint]
        positions[i] = positions[on] + rotations[on] @ np.asarray(site.offset, dtype=float)
    total = float(mass[:, 0].sum())
    if total > 0.0:
        mass[:, 0] /= total
    figure = figure._replace(rest=frozen_array(rest), mass=frozen_array(mass))
    return {"figure": figure, "frame_positions": frozen_array(positions)}


def _add_mass(row: np.ndarray, mass: float, centre: np.ndarray) -> None:
    """Add a mass [kg] at centre (3,) to a body's row (4,): its mass and centre of mass."""
    total = row[0] + mass
    row[1:] = (row[0] * row[1:] + mass * centre) / total
    row[0] = total


def frozen_array(array: np.ndarray) -> np.ndarray:
    """Return a contiguous read-only array: one type for all figures, so that kernels are compiled once."""
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def elimination_order(dof: np.ndarray, groups: Iterable[Iterable[int]]) -> Order:
    """Return the elimination tree of the Hessian: the skeleton's own, merged where goals couple its branches.

    Args:
        dof: (n, 5) Figure.dof.
        groups: Degrees of freedom that some goal couples with one another, including all above them.
    """
    groups = tuple(groups)
    tree = elimination_rows(dof, ())
    return Order(elimination_rows(dof, groups) if groups else tree, tree)


def elimination_rows(dof: np.ndarray, groups: tuple[Iterable[int], ...]) -> np.ndarray:
    """Return one table (n, 3) of `elimination_order`."""
    n = dof.shape[0]
    patterns = [set() for _ in range(n)]  # columns below i with an entry in row i
    for i in range(n):
        above = int(dof[i, ABOVE])
        if above >= 0:
            patterns[i] = patterns[above] | {above}
    for group in groups:
        members = sorted(set(group))
        for k, i in enumerate(members):
            patterns[i] |= set(members[:k])
    rows = np.zeros((n, 3), dtype=np.int64)
    for i in range(n - 1, -1, -1):
        up = max(patterns[i], default=-1)
        rows[i, UP] = up
        if up >= 0:
            patterns[up] |= patterns[i] - {up}  # fill-in
    for i in range(n):
        up = rows[i, UP]
        rows[i, DEPTH] = rows[up, DEPTH] + 1 if up >= 0 else 0
    below = [[] for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        below[rows[i, UP]].append(i)  # the last list holds the roots
    stack, visit = list(below[-1]), 0
    while stack:
        i = stack.pop()
        rows[visit, VISIT] = i
        visit += 1
        stack.extend(below[i])
    return frozen_array(rows)
