"""The skeleton: an immutable, validated tree of joints, flattened into arrays when it is created."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import KIND, Figure, Order
from posable.errors import SkeletonError, did_you_mean, unknown
from posable.model.joints import (
    Fixed,
    Joint,
    JointMotion,
    Site,
    bounds_of,
    cycles,
    flatten,
    floats_of,
    frozen_of,
    limits_of,
    moved_arrays,
    numbers_of,
    parents_first,
    rotation_matrix,
    vector_of,
)

if TYPE_CHECKING:
    from posable.model.shapes import Shape

# --- Validation ---

WORLD = "world"  # name of the world frame


def check(joints: Sequence[Joint], sites: Sequence[Site], up: str | None) -> list[str]:
    """Return every fault of a figure, as one sentence each."""
    strangers = [thing for thing in joints if not isinstance(thing, Joint)]
    strangers += [thing for thing in sites if not isinstance(thing, Site)]
    if strangers:
        return [f"expected joints and sites, Joint(...) and Site(...), got {thing!r}" for thing in strangers]
    findings: list[str] = []
    if not joints:
        findings.append("a skeleton needs at least one joint")
    names = [joint.name for joint in joints]
    findings += [f"joint name must be a non-empty string, got {n!r}" for n in names if not (isinstance(n, str) and n)]
    findings += [f"joint {name!r} appears {count} times" for name, count in Counter(names).items() if count > 1]
    known = {name for name in names if isinstance(name, str)}
    roots = [joint.name for joint in joints if joint.parent is None]
    if joints and len(roots) != 1:
        listed = ", ".join(map(repr, roots))
        findings.append(f"expected one root (a joint without a parent), got {len(roots)}: {listed}")
    for joint in joints:
        if joint.parent is not None and joint.parent not in known:
            findings.append(
                f"joint {joint.name!r} has the unknown parent {joint.parent!r}{did_you_mean(joint.parent, known)}"
            )
        findings += [f"joint {joint.name!r}: {problem}" for problem in check_joint(joint)]
    findings += [f"joints form a cycle: {' -> '.join(map(repr, cycle))}" for cycle in cycles(joints)]
    findings += check_dof_names(joints)
    site_names = [site.name for site in sites]
    findings += [f"site {name!r} appears {count} times" for name, count in Counter(site_names).items() if count > 1]
    for site in sites:
        if not (isinstance(site.name, str) and site.name):
            findings.append(f"site name must be a non-empty string, got {site.name!r}")
        if site.joint not in known:
            hint = did_you_mean(site.joint, known)
            findings.append(f"site {site.name!r} is on the unknown joint {site.joint!r}{hint}")
        findings += [f"site {site.name!r}: {problem}" for problem in check_place(site.offset, site.rotation)]
    if any(joint.name == WORLD and not is_world(joint) for joint in joints):
        findings.append(f"joint {WORLD!r}: that name is reserved for the world frame")
    if WORLD in site_names:
        findings.append(f"site {WORLD!r}: that name is reserved for the world frame")
    if up not in (None, "y", "z"):
        findings.append(f"up: expected 'y', 'z' or None, got {up!r}")
    return findings


def check_extras(
    names: Iterable[str],
    site_names: Iterable[str],
    shapes: Sequence[Shape],
    loops: Sequence[tuple[str, str, bool]],
    pairs: Iterable[tuple[str, str]],
) -> list[str]:
    """Return every fault of shapes, loops and pairs of bodies, as one sentence each."""
    bodies = {*names, WORLD}
    frames = {*bodies, *site_names}
    findings = []
    if shapes:
        from posable.model.shapes import check_shapes  # most figures have none

        findings += check_shapes(shapes, bodies)
    for first, second, _ in loops:
        findings += [f"loop: unknown frame {f!r}{did_you_mean(f, frames)}" for f in (first, second) if f not in frames]
    for pair in pairs:
        findings += [f"pair of bodies: unknown joint {j!r}{did_you_mean(j, bodies)}" for j in pair if j not in bodies]
    return findings


def is_world(joint: Joint) -> bool:
    """Return whether a joint is the world frame: a fixed root at the origin, as many robots have it."""
    place = vector_of(joint.offset)
    turn = rotation_matrix(joint.rotation)
    at_origin = place is not None and turn is not None and not place.any() and np.array_equal(turn, np.eye(3))
    return joint.parent is None and isinstance(joint.motion, Fixed) and at_origin


def check_dof_names(joints: Sequence[Joint]) -> list[str]:
    """Return the faults of ambiguous names of degrees of freedom, such as a Ball "a" beside a joint "a.z"."""
    owners: dict[str, list[str]] = {}
    for joint in {joint.name: joint for joint in joints}.values():  # duplicate joints are reported elsewhere
        motion = joint.motion
        if isinstance(motion, JointMotion) and not motion.problems():
            for dof in motion.dofs:
                owners.setdefault(joint.name + ("." + dof.name if dof.name else ""), []).append(joint.name)
    return [
        f"degree of freedom {name!r} belongs to several joints: {' and '.join(map(repr, those))}"
        for name, those in owners.items()
        if len(those) > 1
    ]


def check_place(offset: Any, rotation: Any) -> list[str]:
    """Return the faults of a constant transform."""
    out = []
    if vector_of(offset) is None:
        out.append(f"offset: expected three finite numbers [m], got {offset!r}")
    if rotation_matrix(rotation) is None:
        out.append(f"rotation: expected a SciPy Rotation or an orthonormal 3x3 matrix, got {rotation!r}")
    return out


def check_joint(joint: Joint) -> list[str]:
    """Return the faults of one joint by itself."""
    if not isinstance(joint.motion, JointMotion):
        return [f"motion: expected Revolute(...), Ball(...), ..., got {joint.motion!r}"]
    problems = joint.motion.problems()
    if problems:
        return problems
    out = check_place(joint.offset, joint.rotation)
    k = joint.motion.size
    box = limits_of(joint)
    if box is None:
        out.append(f"limits: expected (lower, upper) or ({k}, 2) numbers without NaN, got {joint.limits!r}")
    else:
        for dof, (low, high) in zip(joint.motion.dofs, box, strict=True):
            if low > high or (np.isinf(low) and low == high):
                out.append(f"limits{' of ' + dof.name if dof.name else ''}: lower {low:g} is above upper {high:g}")
    for what in ("rest", "gain"):
        value = numbers_of(getattr(joint, what), k)
        if value is None:
            out.append(f"{what}: expected a number or {k} numbers, all finite, got {getattr(joint, what)!r}")
        elif what == "gain" and np.any(value < 0.0):
            out.append(f"gain: expected non-negative numbers, got {joint.gain!r}")
    if frozen_of(joint) is None:
        out.append(f"frozen: expected True, False or {k} of them, got {joint.frozen!r}")
    mass = numbers_of(joint.mass, 1)
    if mass is None or mass[0] < 0.0 or isinstance(joint.mass, str):
        out.append(f"mass: expected a non-negative number [kg], got {joint.mass!r}")
    for what, unit in (("velocity", "rad/s, m/s"), ("effort", "N m, N")):
        if bounds_of(getattr(joint, what), k) is None:
            out.append(f"{what}: expected a positive number or {k} of them [{unit}], got {getattr(joint, what)!r}")
    if joint.inertia is not None and not _is_inertia(joint.inertia):
        out.append(f"inertia: expected a symmetric (3, 3) matrix [kg m^2], got {joint.inertia!r}")
    if vector_of(joint.center) is None:
        out.append(f"center: expected three finite numbers [m], got {joint.center!r}")
    return out


def _is_inertia(value: Any) -> bool:
    try:
        matrix = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        return False
    return matrix.shape == (3, 3) and bool(np.isfinite(matrix).all()) and np.allclose(matrix, matrix.T)


# --- The skeleton ---

CACHED_FIGURES = 64  # see `per_figure`


class Skeleton:
    """An immutable, validated tree of joints with sites, and its flat arrays for the kernels.

    Args:
        joints: In any order, with one root; in `skeleton.joints` parents come first.
        sites: Frames to place goals on. If a site has the name of a joint, that name means the site.
        name: Name of the figure.
        up: "y" or "z", the axis that points up; None: unknown, and z where one is needed (`up_vector`).
        unit: Metres per unit of the file it came from.
        couplings: (follower dof, leader dof, ratio, offset) of mimic joints.
        loops: (frame, other frame, welded) of closed loops: the two origins coincide, and if welded the axes too.
        shapes: Solids on the joints, for collision (`posable.model.shapes`).
        disabled_pairs: Pairs of joints, or "world", whose shapes are never checked against each other.
        collision_pairs: Pairs of joints whose shapes are checked; None: chosen automatically on first use.
        named_poses: Poses (n,) [rad, m] by name.
        info: Further data of the reader.

    Raises:
        SkeletonError: With every fault at once.
    """

    __slots__ = (
        "_chosen_pairs", "_collision_pairs", "_frames", "_frozen", "_hash", "_joint_index", "_limits", "couplings",
        "disabled_pairs", "dof_names", "effort", "figure", "frame_bodies", "frame_positions", "frame_rotations",
        "gain", "info", "joints", "loops", "lower", "name", "named_poses", "names", "order", "rest", "shapes",
        "site_names", "sites", "size", "slices", "total_mass", "unit", "up", "upper", "velocity",
    )  # fmt: skip

    names: tuple[str, ...]
    joints: tuple[Joint, ...]
    sites: tuple[Site, ...]
    site_names: tuple[str, ...]
    dof_names: tuple[str, ...]
    size: int
    lower: np.ndarray
    upper: np.ndarray
    rest: np.ndarray
    gain: np.ndarray
    velocity: np.ndarray  # (n,) [rad/s, m/s] largest speed of each dof; infinite if not stated
    effort: np.ndarray  # (n,) [N m, N] largest torque or force of each dof; infinite if not stated
    slices: tuple[slice, ...]
    figure: Figure
    order: Order
    frame_bodies: np.ndarray
    frame_positions: np.ndarray
    frame_rotations: np.ndarray
    total_mass: float
    up: str | None
    unit: float
    name: str
    couplings: tuple[tuple[str, str, float, float], ...]
    loops: tuple[tuple[str, str, bool], ...]
    shapes: tuple[Shape, ...]
    disabled_pairs: tuple[tuple[str, str], ...]
    _collision_pairs: tuple[tuple[str, str], ...] | None
    _chosen_pairs: tuple[tuple[str, str], ...] | None
    _hash: int
    named_poses: Mapping[str, np.ndarray]
    info: Mapping[str, Any]

    def __init__(
        self,
        joints: Iterable[Joint],
        sites: Iterable[Site] = (),
        name: str = "",
        *,
        up: str | None = None,
        unit: float = 1.0,
        couplings: Iterable[tuple[str, str, float, float]] = (),
        loops: Iterable[tuple[str, str, bool]] = (),
        shapes: Iterable[Shape] = (),
        disabled_pairs: Iterable[tuple[str, str]] = (),
        collision_pairs: Iterable[tuple[str, str]] | None = None,
        named_poses: Mapping[str, Any] | None = None,
        info: Mapping[str, Any] | None = None,
    ):
        put = object.__setattr__
        joints, sites = tuple(joints), tuple(sites)
        loops = tuple((str(a), str(b), bool(welded)) for a, b, welded in loops)
        shapes = tuple(shapes)
        disabled = tuple((str(a), str(b)) for a, b in disabled_pairs)
        pairs = None if collision_pairs is None else tuple((str(a), str(b)) for a, b in collision_pairs)
        findings = check(joints, sites, up)
        if not findings:
            names, frames = [joint.name for joint in joints], [site.name for site in sites]
            findings = check_extras(names, frames, shapes, loops, (*disabled, *(pairs or ())))
        if findings:
            raise SkeletonError(findings, name=name)
        joints = parents_first(joints)
        put(self, "joints", joints)
        put(self, "sites", sites)
        put(self, "name", name)
        put(self, "up", up)
        put(self, "unit", float(unit))
        put(self, "couplings", tuple(couplings))
        put(self, "loops", loops)
        put(self, "shapes", shapes)
        put(self, "disabled_pairs", disabled)
        put(self, "_collision_pairs", pairs)
        put(self, "_chosen_pairs", None)
        put(self, "_hash", 0)
        put(self, "info", MappingProxyType(dict(info or {})))
        put(self, "names", tuple(joint.name for joint in joints))
        put(self, "site_names", tuple(site.name for site in sites))
        for field, value in flatten(joints, sites).items():
            put(self, field, value)
        put(self, "_joint_index", {joint.name: i for i, joint in enumerate(joints)})
        frames = {joint.name: i for i, joint in enumerate(joints)}
        frames.update({site.name: len(joints) + i for i, site in enumerate(sites)})
        put(self, "_frames", frames)
        put(self, "named_poses", MappingProxyType(self._checked_poses(named_poses or {})))

    def _checked_poses(self, poses: Mapping[str, Any]) -> dict[str, np.ndarray]:
        out = {}
        for name, pose in poses.items():
            out[name] = np.array(pose, dtype=float)
            if out[name].shape != (self.size,) or not np.isfinite(out[name]).all():
                raise SkeletonError(f"pose {name!r}: expected {self.size} finite numbers, got {pose!r}", name=self.name)
            out[name].flags.writeable = False
        return out

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Skeleton is immutable; skeleton.replace({name}=...) returns a new one")

    def __reduce__(self):
        fields = self._fields()
        fields["info"] = dict(self.info)
        fields["named_poses"] = dict(self.named_poses)
        return _rebuild, (fields,)

    def _fields(self) -> dict[str, Any]:
        """Return the arguments that make this skeleton."""
        return {
            "joints": self.joints, "sites": self.sites, "name": self.name, "up": self.up, "unit": self.unit,
            "couplings": self.couplings, "loops": self.loops, "shapes": self.shapes,
            "disabled_pairs": self.disabled_pairs, "collision_pairs": self._collision_pairs,
            "named_poses": self.named_poses, "info": self.info,
        }  # fmt: skip

    def __repr__(self) -> str:
        label = f"{self.name!r}: " if self.name else ""
        return f"<Skeleton {label}{len(self.joints)} joints, {self.size} degrees of freedom, {len(self.sites)} sites>"

    @property
    def frozen(self) -> np.ndarray:
        """(n,) bool: the degrees of freedom that keep their value."""
        return self._frozen

    @property
    def free_root(self) -> str | None:
        """Name of the joint that moves the whole figure freely, below joints that do not move; None without one."""
        for joint, where in zip(self.joints, self.slices, strict=True):
            slides = int((self.figure.dof[where, KIND] == SLIDE).sum())
            if slides == 3 and joint.motion.size == 6:
                return joint.name
            if joint.motion.size:
                return None
        return None

    @property
    def up_axis(self) -> int:
        """Index of the coordinate that points up: 1 for y, 2 for z and for figures that state none."""
        return 1 if self.up == "y" else 2

    @property
    def up_vector(self) -> np.ndarray:
        """(3,) Unit vector that points up: y, or z also for figures that state none."""
        return np.eye(3)[self.up_axis]

    @property
    def collision_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of joints whose shapes are checked against each other; "world" for fixed shapes."""
        if self._collision_pairs is not None:
            return self._collision_pairs
        if self._chosen_pairs is None:
            from posable.model.collision import choose_pairs

            object.__setattr__(self, "_chosen_pairs", choose_pairs(self))
        assert self._chosen_pairs is not None
        return self._chosen_pairs

    def index(self, name: str) -> slice:
        """Return the slice of a pose that belongs to a joint or a degree of freedom.

        Args:
            name: Name of a joint ("shoulder"), or of a degree of freedom as in `dof_names` ("shoulder.z").

        Raises:
            UnknownName: No joint or degree of freedom has that name; suggests the closest one.
        """
        if isinstance(name, str) and name in self._joint_index:
            return self.slices[self._joint_index[name]]
        if name in self.dof_names:
            where = self.dof_names.index(name)
            return slice(where, where + 1)
        raise unknown("joint or degree of freedom", name, tuple(dict.fromkeys((*self.names, *self.dof_names))))

    def joint(self, name: str) -> Joint:
        """Return a joint by name.

        Args:
            name: Name of the joint.

        Raises:
            UnknownName: No joint has that name; suggests the closest one.
        """
        if name not in self._joint_index:
            raise unknown("joint", name, self.names)
        return self.joints[self._joint_index[name]]

    def carrier(self, name: str) -> str:
        """Return the joint that carries a site or a joint: that of the site, or the joint itself.

        Args:
            name: Name of a site or a joint; a site takes precedence over a joint of the same name.

        Raises:
            UnknownName: No site or joint has that name; suggests the closest one.
        """
        row = self.frame(name) - len(self.joints)
        return name if row < 0 else self.sites[row].joint

    def path_to(self, name: str) -> tuple[str, ...]:
        """Return the joints from the root to a joint, which is the last one.

        Args:
            name: Name of the joint.
        """
        out = [self.joint(name).name]
        while (parent := self.joint(out[-1]).parent) is not None:
            out.append(parent)
        return tuple(reversed(out))

    def below(self, name: str) -> tuple[str, ...]:
        """Return the joints below a joint, parents first.

        Args:
            name: Name of the joint.
        """
        out = {self.joint(name).name: None}
        for joint in self.joints:
            if joint.parent in out:
                out[joint.name] = None
        return tuple(out)[1:]

    def frame(self, name: str) -> int:
        """Return the row of a site or joint in the frame arrays.

        Args:
            name: Name of a site or a joint; a site takes precedence over a joint of the same name.

        Raises:
            UnknownName: No site or joint has that name; suggests the closest one.
        """
        try:
            return self._frames[name]
        except (KeyError, TypeError):
            raise unknown("joint or site", name, (*self.site_names, *self.names)) from None

    def dof(self, name: str) -> int:
        """Return the index of a degree of freedom in a pose.

        Args:
            name: Name as in `dof_names`.

        Raises:
            UnknownName: No degree of freedom has that name; suggests the closest one.
        """
        try:
            return self.dof_names.index(name)
        except ValueError:
            raise unknown("degree of freedom", name, self.dof_names) from None

    def pose(self, values: Mapping[str, Any] | None = None) -> np.ndarray:
        """Return a pose (n,) [rad, m] with the named joints at the given values and the others at rest.

        Args:
            values: Values by name of a joint (a number or (k,)) or of a degree of freedom.

        Raises:
            SkeletonError: A value has the wrong shape.
            UnknownName: No joint or degree of freedom has that name.
        """
        out = self.rest.copy()
        for name, value in ({} if values is None else _mapping(values, "pose")).items():
            where = self.index(name)
            numbers = floats_of(value)
            if numbers is None or numbers.shape not in ((), (where.stop - where.start,)):
                got = repr(value) if numbers is None else f"shape {numbers.shape}"
                raise SkeletonError(f"pose of {name!r}: expected {where.stop - where.start} numbers, got {got}")
            out[where] = numbers
        return out

    def to_qpos(self, pose: Any) -> np.ndarray:
        """Convert poses to MuJoCo's `qpos`, with the joints in the same order.

        A ball joint has 4 numbers in `qpos` (quaternion wxyz), a free joint 7; everything else is as in the pose.

        Args:
            pose: (..., n) [rad, m].

        Returns:
            (..., nq) array.

        Raises:
            SkeletonError: The pose has the wrong shape.
        """
        from posable.model.joint_values import (
            to_qpos,  # imports SciPy, a quarter of a second that a solve does not need
        )

        poses = floats_of(pose)
        if poses is None or poses.shape[-1:] != (self.size,):
            got = repr(pose) if poses is None else poses.shape
            raise SkeletonError(f"pose: expected shape (..., {self.size}), got {got}")
        return to_qpos(self.joints, self.slices, poses)

    def from_qpos(self, qpos: Any) -> np.ndarray:
        """Convert MuJoCo's `qpos` to poses.

        Args:
            qpos: (..., nq), or an object with an attribute `qpos`, such as `MjData`.

        Returns:
            (..., n) [rad, m] poses.
        """
        from posable.model.joint_values import from_qpos

        return from_qpos(self.joints, self.slices, self.rest, getattr(qpos, "qpos", qpos))

    def replace(self, **changes: Any) -> Skeleton:
        """Return a new skeleton with some arguments of `Skeleton` changed.

        Args:
            **changes: New values by argument name.

        Raises:
            UnknownName: `Skeleton` has no such argument.
        """
        fields = self._fields()
        for key in changes:
            if key not in fields:
                raise unknown("field of a skeleton", key, fields)
        return Skeleton(**{**fields, **changes})

    def moved(self, joints: Sequence[Joint], sites: Sequence[Site]) -> Skeleton:
        """Return a new skeleton that differs only in offsets of joints, sites and centres of mass.

        Unlike `replace` it checks nothing. For fits that create many such figures.

        Args:
            joints: As in `skeleton.joints`, but for their offsets and centres.
            sites: As in `skeleton.sites`, but for their offsets.
        """
        out = object.__new__(Skeleton)
        for slot in Skeleton.__slots__:
            if hasattr(self, slot):
                object.__setattr__(out, slot, getattr(self, slot))
        changed = {"joints": tuple(joints), "sites": tuple(sites), "_chosen_pairs": None, "_hash": 0}
        changed |= moved_arrays(joints, sites, self.figure, self.frame_bodies, self.frame_rotations)
        for slot, value in changed.items():
            object.__setattr__(out, slot, value)
        return out

    def freeze(self, names: Iterable[str] | str) -> Skeleton:
        """Return a new skeleton in which the named joints or degrees of freedom keep their values.

        Args:
            names: One name, or several.
        """
        return self._with_frozen(names, True)

    def unfreeze(self, names: Iterable[str] | str) -> Skeleton:
        """Return a new skeleton in which the named joints or degrees of freedom may move again.

        Args:
            names: One name, or several.
        """
        return self._with_frozen(names, False)

    def with_rigid_bones(self) -> Skeleton:
        """Return the skeleton with bones of constant length.

        Translations of multi-axis joints below the root, as in character files, are frozen. The joints that carry the
        whole figure and prismatic joints still move.
        """
        moved: dict[str | None, bool] = {None: False}  # whether a joint above a joint's children moves them
        inner = []
        for joint, where in zip(self.joints, self.slices, strict=True):
            above = moved[joint.parent]
            moved[joint.name] = above or joint.motion.size > 0
            if above and joint.motion.size > 1:
                inner += [i for i in range(where.start, where.stop) if self.figure.dof[i, KIND] == SLIDE]
        names = [self.dof_names[i] for i in inner if not self.frozen[i]]
        return self.freeze(names) if names else self

    def _with_frozen(self, names: Iterable[str] | str, value: bool) -> Skeleton:
        held = self.frozen.copy()
        if not isinstance(names, Iterable):
            raise SkeletonError(f"frozen: expected names of joints or degrees of freedom, got {names!r}")
        whole = {names} if isinstance(names, str) else set(names)
        for name in sorted(whole):
            held[self.index(name)] = value
        joints = []
        for joint, where in zip(self.joints, self.slices, strict=True):
            mine = held[where]
            given = joint.frozen if joint.name not in whole else value  # a Fixed joint has no numbers
            joints.append(replace(joint, frozen=_one_or_all(mine.tolist()) if mine.size else given))
        return self.replace(joints=joints)

    def with_limits(self, limits: Mapping[str, Any]) -> Skeleton:
        """Return a new skeleton with other limits on the named joints or degrees of freedom.

        Args:
            limits: [rad, m] (lower, upper) or (k, 2) by name of a joint, (lower, upper) by name of a degree of
                freedom; None removes the limits.
        """
        changed = {joint.name: joint.limits for joint in self.joints}
        given = _mapping(limits, "limits")
        for name, value in sorted(given.items(), key=lambda item: item[0] not in changed):  # joints before their dofs
            where = self.index(name)
            if name in changed:
                changed[name] = value
                continue
            joint = next(j for j, s in zip(self.joints, self.slices, strict=True) if s.start <= where.start < s.stop)
            box = limits_of(replace(joint, limits=changed[joint.name]))
            pair = limits_of(replace(joint, limits=value)) if value is None or np.shape(value) == (2,) else None
            if box is None or pair is None:
                raise SkeletonError(f"limits of {name!r}: expected (lower, upper) or None, got {value!r}")
            row = where.start - self.index(joint.name).start
            box[row] = pair[row]
            changed[joint.name] = box
        return self.replace(joints=[replace(joint, limits=changed[joint.name]) for joint in self.joints])

    # --- Equality ---

    def __eq__(self, other: object) -> bool:
        """Compare everything but `info`: joints in their order, sites, name, up, unit."""
        if not isinstance(other, Skeleton):
            return NotImplemented
        return self is other or (hash(self) == hash(other) and self._content() == other._content())

    def __hash__(self) -> int:
        return self._hash or self._computed_hash()

    def _computed_hash(self) -> int:
        """Compute the hash, once: it is a key of every problem."""
        bones = _values(*(joint.offset for joint in self.joints))
        bits = tuple((shape.contype, shape.conaffinity) for shape in self.shapes)  # or comparisons would be frequent
        value = hash((self.name, self.names, self.dof_names, self.site_names, bones, bits))
        object.__setattr__(self, "_hash", value)
        return value

    def _content(self) -> tuple[Any, ...]:
        """Return the skeleton as plain values, for comparison."""
        joints = tuple(
            (j.name, j.parent, type(j.motion), j.motion.dofs, _values(j.motion.basis, j.offset, j.center, j.mass),
             _values(rotation_matrix(j.rotation), limits_of(j), numbers_of(j.rest, j.motion.size)),
             _values(numbers_of(j.gain, j.motion.size), frozen_of(j)),
             _values(bounds_of(j.velocity, j.motion.size), bounds_of(j.effort, j.motion.size)),
             None if j.inertia is None else _values(j.inertia))
            for j in self.joints
        )  # fmt: skip
        sites = tuple((s.name, s.joint, _values(s.offset, rotation_matrix(s.rotation))) for s in self.sites)
        shapes = tuple(shape.content() for shape in self.shapes)
        poses = tuple((name, tuple(pose.tolist())) for name, pose in self.named_poses.items())
        pairs = (self.disabled_pairs, self._collision_pairs)
        rules = (tuple(map(tuple, self.couplings)), self.loops)
        return self.name, self.up, self.unit, rules, joints, sites, shapes, poses, pairs


def _mapping(values: Any, what: str) -> Mapping[str, Any]:
    """Return values by name, or raise an error that calls them `what`."""
    if not isinstance(values, Mapping):
        raise SkeletonError(f"{what}: expected values by name, such as {{'elbow': 0.3}}, got {values!r}")
    return values


def _one_or_all(values: list[bool]) -> Any:
    """Return the common value, or a tuple of the values if they differ."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def _values(*arrays: Any) -> tuple[tuple[float, ...], ...]:
    """Return the numbers of arrays as tuples, in which -0 equals 0."""
    return tuple(tuple(np.asarray(array, dtype=float).ravel().tolist()) for array in arrays)


def _rebuild(fields: dict[str, Any]) -> Skeleton:
    return Skeleton(**fields)


def per_figure(function: Callable[..., Any]) -> Callable[..., Any]:
    """Cache a function's values for the most recent figures, by identity: comparing figures is slow."""
    kept: OrderedDict[tuple[Any, ...], tuple[Skeleton, Any]] = OrderedDict()

    @wraps(function)
    def known(skeleton: Skeleton, *rest: Any) -> Any:
        key = (id(skeleton), *rest)
        found = kept.get(key)
        if found is not None:  # the figure is kept alive, so that no other has its id
            return found[1]
        value = function(skeleton, *rest)
        kept[key] = (skeleton, value)
        if len(kept) > CACHED_FIGURES:
            kept.popitem(last=False)
        return value

    return known
