"""A skeleton as plain JSON and back, for the formats of our own: nothing in it can run."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from posable.formats.format import build_skeleton
from posable.formats.source import Source, shown
from posable.skeleton import (
    Ball,
    Fixed,
    Free,
    Joint,
    Planar,
    Prismatic,
    Revolute,
    Site,
    Skeleton,
    Universal,
    rotation_matrix,
)

_MOTIONS = {kind.__name__: kind for kind in (Fixed, Revolute, Prismatic, Universal, Planar, Ball, Free)}


def dump(skeleton: Skeleton) -> str:
    """Return a skeleton as JSON text; infinite limits are written as Infinity."""
    joints = [
        {
            "name": joint.name,
            "motion": {"type": type(joint.motion).__name__, **asdict(joint.motion)}, "parent": joint.parent,
            "offset": _plain(joint.offset), "rotation": _plain(rotation_matrix(joint.rotation)),
            "limits": _plain(joint.limits), "rest": _plain(joint.rest), "gain": _plain(joint.gain),
            "mass": float(joint.mass), "frozen": _held(joint.frozen), "center": _plain(joint.center),
        }
        for joint in skeleton.joints
    ]  # fmt: skip
    sites = [
        {
            "name": site.name,
            "joint": site.joint,
            "offset": _plain(site.offset),
            "rotation": _plain(rotation_matrix(site.rotation)),
        }
        for site in skeleton.sites
    ]
    return json.dumps(
        {
            "name": skeleton.name, "up": skeleton.up, "unit": skeleton.unit, "couplings": skeleton.couplings,
            "from": str(skeleton.info.get("format", "")), "joints": joints, "sites": sites,
        }
    )  # fmt: skip


def _held(frozen: Any) -> Any:
    return bool(frozen) if np.ndim(frozen) == 0 else [bool(one) for one in frozen]


def _plain(value: Any) -> Any:
    return None if value is None else np.asarray(value, dtype=float).tolist()


def load(source: Source, text: bytes) -> Skeleton:
    """Return the skeleton of a JSON text; whatever is not as `dump` writes it is an error."""
    try:
        tree = json.loads(text.decode("utf-8"))
        joints = [_joint(entry) for entry in tree["joints"]]
        sites = [Site(str(s["name"]), str(s["joint"]), s["offset"], _rotation(s["rotation"])) for s in tree["sites"]]
        couplings = [(str(a), str(b), float(r), float(o)) for a, b, r, o in tree.get("couplings", [])]
        name, up, unit = str(tree.get("name", "")), tree.get("up"), float(tree.get("unit", 1.0))
        came_from = str(tree.get("from", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise source.error(
            expected="a skeleton as JSON", found=shown(f"{type(problem).__name__}: {problem}", 80)
        ) from None
    if not np.isfinite(unit) or unit <= 0 or up not in (None, "y", "z"):
        raise source.error(expected="a unit above 0 and up y or z", found=shown(f"{unit}, {up}"))
    return build_skeleton(
        source, joints, sites, name=name, up=up, unit=unit, couplings=couplings, info={"format": came_from}
    )


def _joint(entry: dict[str, Any]) -> Joint:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry["motion"].items()}
    motion = _MOTIONS[fields.pop("type")](**fields)
    parent = entry["parent"]
    return Joint(
        str(entry["name"]), motion, None if parent is None else str(parent), offset=entry["offset"],
        rotation=_rotation(entry["rotation"]), limits=entry["limits"], rest=entry["rest"], gain=entry["gain"],
        mass=float(entry["mass"]), frozen=entry["frozen"], center=entry["center"],
    )  # fmt: skip


def _rotation(value: Any) -> Any:
    return None if value is None else np.array(value, dtype=float)
