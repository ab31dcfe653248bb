"""The skeleton: a frozen, validated tree of joints, compiled to flat arrays when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from posable.errors import SkeletonError, unknown
from posable.kernels.fields import Figure, Order
from posable.skeleton.checks import check
from posable.skeleton.flatten import flatten, parents_first
from posable.skeleton.joint import Joint, Site, frozen_of, limits_of, numbers_of, rotation_matrix


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

    def index(self, name: str) -> slice:
        """Return where the numbers of a joint, or of one degree of freedom ("shoulder.z"), are in a pose."""
        if name in self._joint_index:
            return self.slices[self._joint_index[name]]
        if name in self.dof_names:
            where = self.dof_names.index(name)
            return slice(where, where + 1)
        raise unknown("joint or degree of freedom", name, tuple(dict.fromkeys((*self.names, *self.dof_names))))

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
            where = self.index(name)
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
        """Return a new skeleton in which the named joints or degrees of freedom keep the value that they have."""
        held = self.frozen.copy()
        whole = {names} if isinstance(names, str) else set(names)
        for name in sorted(whole):
            held[self.index(name)] = True
        joints = []
        for joint, where in zip(self.joints, self.slices, strict=True):
            mine = held[where]
            given = joint.frozen if joint.name not in whole else True  # a Fixed joint has no numbers to hold
            joints.append(replace(joint, frozen=_one_or_all(mine.tolist()) if mine.size else given))
        return self.replace(joints=joints)

    def with_limits(self, limits: Mapping[str, Any]) -> Skeleton:
        """Return a new skeleton with the limits of the named joints or degrees of freedom changed.

        Of a joint: (lower, upper) or (k, 2); of a degree of freedom: (lower, upper). None takes them away.
        """
        changed = {joint.name: joint.limits for joint in self.joints}
        for name, value in sorted(limits.items(), key=lambda item: item[0] not in changed):  # joints before their dofs
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

    # ------------------------------------------------------------------------------------------------------- equality

    def __eq__(self, other: object) -> bool:
        """Two skeletons are equal where everything but `info` is: joints in their order, sites, name, up, unit."""
        if not isinstance(other, Skeleton):
            return NotImplemented
        return self is other or (hash(self) == hash(other) and self._content() == other._content())

    def __hash__(self) -> int:
        return hash((self.name, self.names, self.dof_names, self.site_names))  # quick: it is a key for every problem

    def _content(self) -> tuple[Any, ...]:
        """Return what the skeleton is, as plain values that compare and hash."""
        joints = tuple(
            (j.name, j.parent, type(j.motion), j.motion.dofs, _values(j.motion.basis, j.offset, j.center, j.mass),
             _values(rotation_matrix(j.rotation), limits_of(j), numbers_of(j.rest, j.motion.size)),
             _values(numbers_of(j.gain, j.motion.size), frozen_of(j)))
            for j in self.joints
        )  # fmt: skip
        sites = tuple((s.name, s.joint, _values(s.offset, rotation_matrix(s.rotation))) for s in self.sites)
        return self.name, self.up, self.unit, tuple(map(tuple, self.couplings)), joints, sites


def _one_or_all(values: list[bool]) -> Any:
    """Return what all values are, or a tuple of them where they differ."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def _values(*arrays: Any) -> tuple[tuple[float, ...], ...]:
    """Return the numbers of arrays; they compare as numbers do, so that -0 is 0."""
    return tuple(tuple(np.asarray(array, dtype=float).ravel().tolist()) for array in arrays)


def _rebuild(joints, sites, name, up, unit, couplings, info) -> Skeleton:
    return Skeleton(joints, sites, name, up=up, unit=unit, couplings=couplings, info=info)
