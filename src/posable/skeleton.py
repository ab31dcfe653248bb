"""The figure: joints, sites, and the frozen skeleton that they make, compiled to flat arrays when it is made.

A joint's frame sits in its parent's at a constant place (the arc of seed 002), then moves by its motion:
T_world_joint = T_world_parent (offset, rotation) motion(theta). A site is a frame fixed in a joint's (the node of
seed 002): an end effector, a tool, a marker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from posable.errors import SkeletonError, did_you_mean, unknown
from posable.kernels.fields import ABOVE, DEPTH, UP, Figure, Order
from posable.kernels.joints import (
    Ball,
    Fixed,
    Free,
    JointMotion,
    Planar,
    Prismatic,
    Revolute,
    Universal,
)

__all__ = [
    "Ball", "Fixed", "Free", "Joint", "Planar", "Prismatic", "Revolute", "Site", "Skeleton", "Universal",
]  # fmt: skip


def rotation_matrix(rotation: Any) -> np.ndarray | None:
    """Return a rotation given as None, a SciPy Rotation, or a 3x3 matrix, as (3, 3); None where it is neither."""
    if rotation is None:
        return np.eye(3)
    try:
        value = rotation.as_matrix() if hasattr(rotation, "as_matrix") else np.asarray(rotation, dtype=float)
    except (TypeError, ValueError):
        return None
    if value.shape != (3, 3) or not np.all(np.isfinite(value)):
        return None
    if np.abs(value @ value.T - np.eye(3)).max() > 1e-6 or np.linalg.det(value) < 0.0:
        return None
    return np.array(value, dtype=float)


def _vector(value: Any) -> np.ndarray | None:
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return None
    return out.copy() if out.shape == (3,) and np.all(np.isfinite(out)) else None


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint, and the bone that moves with it.

    name: unique among the joints. motion: `Revolute("z")`, `Ball("zyx")`, ... parent: another joint's name.
    offset (3,) [m], rotation (SciPy Rotation or 3x3): the constant place in the parent's frame.
    limits: None, one (lower, upper) for all, or (k, 2) [rad, m]; infinities allowed. rest: a number or (k,), the
    relaxed value. gain: a number or (k,), the joint's strength. frozen: the joint keeps the value that it has.
    mass [kg] sits at center (3,) [m] in the joint's frame.
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
    frozen: bool = False
    center: Any = (0.0, 0.0, 0.0)


@dataclass(frozen=True, eq=False)
class Site:
    """A frame fixed on a joint's bone: offset (3,) [m] and rotation in the joint's frame."""

    name: str
    joint: str
    offset: Any = (0.0, 0.0, 0.0)
    rotation: Any = None


class Skeleton:
    """A frozen, validated tree of joints with sites, and its flat arrays for the kernels.

    joints: one root, any order; parents come first in `skeleton.joints`. sites: frames to hold goals. name: for people.
    up: "y" or "z", the axis that points up, where it is known. unit: metres per unit of the file it came from.
    couplings: (follower dof, leader dof, ratio, offset) of mimic joints. info: anything a reader wants to keep.
    Raises SkeletonError with every finding at once.
    """

    __slots__ = (
        "_frames", "_frozen", "_joint_index", "_limits", "couplings", "dof_names", "figure", "frame_bodies",
        "frame_positions", "frame_rotations", "gain", "info", "joints", "lower", "name", "names", "order", "rest",
        "site_names", "sites", "size", "slices", "total_mass", "unit", "up", "upper",
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
        info: Mapping[str, Any] | None = None,
    ):
        put = object.__setattr__
        joints, sites = tuple(joints), tuple(sites)
        findings = check(joints, sites, up)
        if findings:
            raise SkeletonError(findings, name=name)
        joints = parents_first(joints)
        put(self, "joints", joints)
        put(self, "sites", sites)
        put(self, "name", name)
        put(self, "up", up)
        put(self, "unit", float(unit))
        put(self, "couplings", tuple(couplings))
        put(self, "info", MappingProxyType(dict(info or {})))
        put(self, "names", tuple(joint.name for joint in joints))
        put(self, "site_names", tuple(site.name for site in sites))
        for field, value in flatten(joints, sites).items():
            put(self, field, value)
        put(self, "_joint_index", {joint.name: i for i, joint in enumerate(joints)})
        frames = {joint.name: i for i, joint in enumerate(joints)}
        frames.update({site.name: len(joints) + i for i, site in enumerate(sites)})
        put(self, "_frames", frames)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Skeleton is frozen; skeleton.replace({name}=...) makes a new one")

    def __reduce__(self):
        return _rebuild, (self.joints, self.sites, self.name, self.up, self.unit, self.couplings, dict(self.info))

    def __repr__(self) -> str:
        label = f"{self.name!r}: " if self.name else ""
        return f"<Skeleton {label}{len(self.joints)} joints, {self.size} degrees of freedom, {len(self.sites)} sites>"

    @property
    def frozen(self) -> np.ndarray:
        """(n,) bool: the degrees of freedom that keep the value they have."""
        return self._frozen

    def index(self, joint: str) -> slice:
        """Return where a joint's numbers are in a pose."""
        if joint not in self._joint_index:
            raise unknown("joint", joint, self.names)
        return self.slices[self._joint_index[joint]]

    def joint(self, name: str) -> Joint:
        """Return a joint by its name."""
        if name not in self._joint_index:
            raise unknown("joint", name, self.names)
        return self.joints[self._joint_index[name]]

    def frame(self, name: str) -> int:
        """Return the row of a site, or else of a joint, in the frame arrays; raises with the nearest name."""
        try:
            return self._frames[name]
        except (KeyError, TypeError):
            raise unknown("joint or site", name, (*self.site_names, *self.names)) from None

    def dof(self, name: str) -> int:
        """Return the place in a pose of a degree of freedom, named as in `dof_names`."""
        try:
            return self.dof_names.index(name)
        except ValueError:
            raise unknown("degree of freedom", name, self.dof_names) from None

    def pose(self, values: Mapping[str, Any] | None = None) -> np.ndarray:
        """Return a pose (n,) with the named joints or degrees of freedom at the given values, the rest at rest."""
        out = self.rest.copy()
        for name, value in (values or {}).items():
            where: Any = self.slices[self._joint_index[name]] if name in self._joint_index else None
            if where is None and name in self.dof_names:
                where = slice(self.dof_names.index(name), self.dof_names.index(name) + 1)
            if where is None:
                raise unknown("joint or degree of freedom", name, (*self.names, *self.dof_names))
            numbers = np.asarray(value, dtype=float)
            if numbers.shape not in ((), (where.stop - where.start,)):
                raise SkeletonError(
                    f"pose of {name!r}: expected {where.stop - where.start} numbers, got shape {numbers.shape}"
                )
            out[where] = numbers
        return out

    def replace(self, **changes: Any) -> Skeleton:
        """Return a new skeleton with some of joints, sites, name, up, unit, couplings, info changed."""
        fields = {
            "joints": self.joints, "sites": self.sites, "name": self.name, "up": self.up, "unit": self.unit,
            "couplings": self.couplings, "info": self.info,
        }  # fmt: skip
        for key in changes:
            if key not in fields:
                raise unknown("field of a skeleton", key, fields)
        return Skeleton(**{**fields, **changes})

    def freeze(self, names: Iterable[str] | str) -> Skeleton:
        """Return a new skeleton in which the named joints keep the value that they have."""
        wanted = {names} if isinstance(names, str) else set(names)
        for name in sorted(wanted):
            self.index(name)
        return self.replace(joints=[replace(j, frozen=j.frozen or j.name in wanted) for j in self.joints])

    def with_limits(self, limits: Mapping[str, Any]) -> Skeleton:
        """Return a new skeleton with the limits of the named joints changed; None takes them away."""
        for name in limits:
            self.index(name)
        return self.replace(
            joints=[replace(j, limits=limits[j.name]) if j.name in limits else j for j in self.joints]
        )


def _rebuild(joints, sites, name, up, unit, couplings, info) -> Skeleton:
    return Skeleton(joints, sites, name, up=up, unit=unit, couplings=couplings, info=info)


# -------------------------------------------------------------------------------------------------- what is wrong


def check(joints: Sequence[Joint], sites: Sequence[Site], up: str | None) -> list[str]:
    """Return everything that is wrong with a figure, in words."""
    findings: list[str] = []
    if not joints:
        findings.append("a skeleton needs at least one joint")
    names = [joint.name for joint in joints]
    findings += [f"joint name must be a non-empty string, got {n!r}" for n in names if not (isinstance(n, str) and n)]
    findings += [f"joint {n!r} appears {names.count(n)} times" for n in dict.fromkeys(names) if names.count(n) > 1]
    known = {name for name in names if isinstance(name, str)}
    roots = [joint.name for joint in joints if joint.parent is None]
    if joints and len(roots) != 1:
        findings.append(f"expected one root (a joint without a parent), got {len(roots)}: {', '.join(map(repr, roots))}")
    for joint in joints:
        if joint.parent is not None and joint.parent not in known:
            findings.append(
                f"joint {joint.name!r} has the unknown parent {joint.parent!r}{did_you_mean(joint.parent, known)}"
            )
        findings += [f"joint {joint.name!r}: {problem}" for problem in check_joint(joint)]
    findings += [f"joints form a cycle: {' -> '.join(map(repr, cycle))}" for cycle in cycles(joints)]
    site_names = [site.name for site in sites]
    findings += [f"site {n!r} appears {site_names.count(n)} times" for n in dict.fromkeys(site_names) if site_names.count(n) > 1]
    for site in sites:
        if not (isinstance(site.name, str) and site.name):
            findings.append(f"site name must be a non-empty string, got {site.name!r}")
        if site.joint not in known:
            findings.append(f"site {site.name!r} is on the unknown joint {site.joint!r}{did_you_mean(site.joint, known)}")
        findings += [f"site {site.name!r}: {problem}" for problem in check_place(site.offset, site.rotation)]
    if up not in (None, "y", "z"):
        findings.append(f"up: expected 'y', 'z' or None, got {up!r}")
    return findings


def check_place(offset: Any, rotation: Any) -> list[str]:
    """Return what is wrong with a constant transform."""
    out = []
    if _vector(offset) is None:
        out.append(f"offset: expected three finite numbers [m], got {offset!r}")
    if rotation_matrix(rotation) is None:
        out.append(f"rotation: expected a SciPy Rotation or an orthonormal 3x3 matrix, got {rotation!r}")
    return out


def check_joint(joint: Joint) -> list[str]:
    """Return what is wrong with one joint by itself."""
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
            out.append(f"gain: expected numbers that are not negative, got {joint.gain!r}")
    mass = numbers_of(joint.mass, 1)
    if mass is None or mass[0] < 0.0:
        out.append(f"mass: expected a number [kg] that is not negative, got {joint.mass!r}")
    if _vector(joint.center) is None:
        out.append(f"center: expected three finite numbers [m], got {joint.center!r}")
    return out


def limits_of(joint: Joint) -> np.ndarray | None:
    """Return a joint's limits as (k, 2), or None where they cannot be read."""
    k = joint.motion.size
    if joint.limits is None:
        return np.tile([-np.inf, np.inf], (k, 1))
    try:
        box = np.asarray(joint.limits, dtype=float)
    except (TypeError, ValueError):
        return None
    if box.shape == (2,):
        box = np.tile(box, (k, 1))
    return box.copy() if box.shape == (k, 2) and not np.any(np.isnan(box)) else None


def numbers_of(value: Any, k: int) -> np.ndarray | None:
    """Return a number or k numbers as (k,), or None where they cannot be read or are not finite."""
    try:
        out = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return None
    if out.shape not in ((), (k,)) or not np.all(np.isfinite(out)):
        return None
    return np.broadcast_to(out, (k,)).copy()


def cycles(joints: Sequence[Joint]) -> list[list[str]]:
    """Return every cycle of parents, once."""
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
    """Return the joints in the order given, but no joint before its parent."""
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


# --------------------------------------------------------------------------------------------- to flat arrays


def flatten(joints: Sequence[Joint], sites: Sequence[Site]) -> dict[str, Any]:
    """Compile joints, parents first, and sites to the arrays of a Figure and of the frames on its bodies."""
    bodies: list[tuple[int, int, int, int]] = []
    rests, masses = [], []
    dofs: list[tuple[int, int, int, int]] = []
    signs, dof_names, slices = [], [], []
    box, rest_pose, gain, frozen = [], [], [], []
    place: dict[str, tuple[int, np.ndarray, np.ndarray]] = {}  # joint -> body, position and rotation in the body
    last_dof: list[int] = []  # of each body
    for joint in joints:
        offset, rotation = np.asarray(joint.offset, dtype=float), rotation_matrix(joint.rotation)
        assert rotation is not None  # noqa: S101 - checked before
        body, p, r = place[joint.parent] if joint.parent is not None else (-1, np.zeros(3), np.eye(3))
        p, r = p + r @ offset, r @ rotation
        elements, basis = joint.motion.dofs, joint.motion.basis
        first = len(dofs)
        slices.append(slice(first, first + len(elements)))
        if elements or body < 0:
            r = r @ basis
            turned = 0 if body >= 0 and np.array_equal(r, np.eye(3)) else 1
            above = last_dof[body] if body >= 0 else -1
            bodies.append((body, first, first + len(elements), turned))
            rests.append(np.concatenate([p, r.ravel()]))
            masses.append(np.zeros(4))
            body = len(bodies) - 1
            for element in elements:
                dofs.append((element.kind, element.axis, above, body))
                above = len(dofs) - 1
                signs.append(element.sign)
                dof_names.append(joint.name + ("." + element.name if element.name else ""))
            last_dof.append(above)
            p, r = np.zeros(3), basis.T
            limits = limits_of(joint)
            assert limits is not None  # noqa: S101 - checked before
            box += [tuple(pair) for pair in limits]
            rest_pose += list(np.broadcast_to(np.asarray(joint.rest, dtype=float), len(elements)))
            gain += list(np.broadcast_to(np.asarray(joint.gain, dtype=float), len(elements)))
            frozen += [bool(joint.frozen)] * len(elements)
        place[joint.name] = (body, p, r)
        if joint.mass:
            centre = p + r @ np.asarray(joint.center, dtype=float)
            old = masses[body]
            total = old[0] + joint.mass
            old[1:] = (old[0] * old[1:] + joint.mass * centre) / total
            old[0] = total
    frames = [place[joint.name] for joint in joints]
    for site in sites:
        body, p, r = place[site.joint]
        rotation = rotation_matrix(site.rotation)
        frames.append((body, p + r @ np.asarray(site.offset, dtype=float), r @ rotation))
    n = len(dofs)
    mass = np.array(masses).reshape(-1, 4)
    total_mass = float(mass[:, 0].sum())
    if total_mass > 0.0:
        mass[:, 0] /= total_mass
    limits = np.array(box, dtype=float).reshape(n, 2)
    dof_array = np.array(dofs, dtype=np.int64).reshape(n, 4)
    figure = Figure(
        _frozen_array(np.array(bodies, dtype=np.int64).reshape(-1, 4)),
        _frozen_array(np.array(rests)),
        _frozen_array(dof_array),
        _frozen_array(np.array(signs, dtype=float)),
        _frozen_array(mass),
    )
    lower, upper = _frozen_array(limits[:, 0].copy()), _frozen_array(limits[:, 1].copy())
    return {
        "size": n,
        "dof_names": tuple(dof_names),
        "slices": tuple(slices),
        "lower": lower,
        "upper": upper,
        "rest": _frozen_array(np.clip(np.array(rest_pose, dtype=float).reshape(n), lower, upper)),
        "gain": _frozen_array(np.array(gain, dtype=float).reshape(n)),
        "_frozen": _frozen_array(np.array(frozen, dtype=bool).reshape(n)),
        "figure": figure,
        "order": elimination_order(dof_array, ()),
        "total_mass": total_mass,
        "frame_bodies": _frozen_array(np.array([f[0] for f in frames], dtype=np.int64)),
        "frame_positions": _frozen_array(np.array([f[1] for f in frames]).reshape(-1, 3)),
        "frame_rotations": _frozen_array(np.array([f[2] for f in frames]).reshape(-1, 3, 3)),
    }


def _frozen_array(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def elimination_order(dof: np.ndarray, groups: Iterable[Iterable[int]]) -> Order:
    """Return the elimination tree of the Hessian: the skeleton's own, joined where goals couple its branches.

    dof is Figure.dof; each group lists degrees of freedom that some goal couples with one another, with all above them.
    """
    n = dof.shape[0]
    patterns = [set() for _ in range(n)]  # the lower-numbered dofs with which i has an entry
    for i in range(n):
        above = int(dof[i, ABOVE])
        if above >= 0:
            patterns[i] = patterns[above] | {above}
    for group in groups:
        members = sorted(set(group))
        for k, i in enumerate(members):
            patterns[i] |= set(members[:k])
    rows = np.zeros((n, 2), dtype=np.int64)
    for i in range(n - 1, -1, -1):
        up = max(patterns[i], default=-1)
        rows[i, UP] = up
        if up >= 0:
            patterns[up] |= patterns[i] - {up}  # fill-in: what i touched, the dof above it touches too
    for i in range(n):
        up = rows[i, UP]
        rows[i, DEPTH] = rows[up, DEPTH] + 1 if up >= 0 else 0
    return Order(_frozen_array(rows))
