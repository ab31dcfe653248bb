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
from posable.skeleton.joint import Joint, Site


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
        return self.replace(joints=[replace(j, limits=limits[j.name]) if j.name in limits else j for j in self.joints])


def _rebuild(joints, sites, name, up, unit, couplings, info) -> Skeleton:
    return Skeleton(joints, sites, name, up=up, unit=unit, couplings=couplings, info=info)
