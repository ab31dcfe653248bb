"""The goals, one file per family; each is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from posable.goals.base import Goal as Goal
    from posable.goals.base import Spring as Spring
    from posable.goals.collision import Avoid as Avoid
    from posable.goals.collision import Box as Box
    from posable.goals.collision import Capsule as Capsule
    from posable.goals.collision import Hull as Hull
    from posable.goals.collision import Mesh as Mesh
    from posable.goals.collision import NoCollision as NoCollision
    from posable.goals.collision import PointCloud as PointCloud
    from posable.goals.collision import Sphere as Sphere
    from posable.goals.collision import Wall as Wall
    from posable.goals.compose import AnyOf as AnyOf
    from posable.goals.compose import Weighted as Weighted
    from posable.goals.energy import Custom as Custom
    from posable.goals.joint import Coupling as Coupling
    from posable.goals.joint import Posture as Posture
    from posable.goals.mass import Balance as Balance
    from posable.goals.mass import CenterOfMass as CenterOfMass
    from posable.goals.natural import Natural as Natural
    from posable.goals.orientation import Aim as Aim
    from posable.goals.orientation import Direction as Direction
    from posable.goals.orientation import Orientation as Orientation
    from posable.goals.orientation import Pose as Pose
    from posable.goals.pixel import Pixel as Pixel
    from posable.goals.point import HalfSpace as HalfSpace
    from posable.goals.point import Line as Line
    from posable.goals.point import Plane as Plane
    from posable.goals.point import Position as Position
    from posable.goals.relative import Distance as Distance
    from posable.goals.relative import Relative as Relative
    from posable.goals.toml import from_table as from_table
    from posable.goals.toml import from_tables as from_tables
    from posable.goals.toml import load as load
    from posable.goals.toml import save as save
    from posable.goals.toml import to_table as to_table

_NAMES = {
    "base": ("Goal", "Spring"),
    "collision": ("Avoid", "Box", "Capsule", "Hull", "Mesh", "NoCollision", "PointCloud", "Sphere", "Wall"),
    "compose": ("AnyOf", "Weighted"),
    "energy": ("Custom",),
    "joint": ("Coupling", "Posture"),
    "mass": ("Balance", "CenterOfMass"),
    "natural": ("Natural",),
    "orientation": ("Aim", "Direction", "Orientation", "Pose"),
    "pixel": ("Pixel",),
    "point": ("HalfSpace", "Line", "Plane", "Position"),
    "relative": ("Distance", "Relative"),
    "toml": ("from_table", "from_tables", "load", "save", "to_table"),
}
_HOME = {name: home for home, names in _NAMES.items() for name in names}

if not TYPE_CHECKING:
    __all__ = list(_HOME)

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            from posable.errors import did_you_mean
            from posable.goals.base import GOALS

            if not name.startswith("_") and name in GOALS:  # of another package
                return GOALS.get(name)
            raise AttributeError(f"module 'posable.goals' has no attribute {name!r}{did_you_mean(name, __all__)}")
        value = globals()[name] = getattr(import_module(f"posable.goals.{_HOME[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
