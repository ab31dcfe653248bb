"""The markers of a take as an actor sees them: its own axes, its own sites, read piece by piece."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.errors import PosableError
from posable.formats.conventions import turn_up
from posable.model.body_plan import BodyPlan
from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton

# --- The usual marker sets ---

STATURE = 1.80  # [m] of the person whose offsets the table gives
LEG_OF_STATURE = 0.491  # length of the leg, hip to ankle, as a part of stature (Drillis and Contini)


class Spot(NamedTuple):
    """Where a marker sits: on the bones of `on` (the first that a figure has), near a point between two roles.

    share: how far from the role `at` to the role `to`. out, up, ahead [m]: from there, away from the middle (without
    a side: to the left), up and forward, as the figure stands at rest.
    """

    on: tuple[str, ...]
    at: str
    to: str = ""
    share: float = 0.0
    out: float = 0.0
    up: float = 0.0
    ahead: float = 0.0


MIDDLE = {
    "C7": Spot(("chest",), "neck", ahead=-0.05),
    "T10": Spot(("chest", "pelvis"), "chest", "neck", 0.0, ahead=-0.10),
    "CLAV": Spot(("chest",), "neck", up=-0.06, ahead=0.08),
    "STRN": Spot(("chest",), "chest", "neck", 0.1, ahead=0.14),
    "RBAC": Spot(("chest",), "chest", "neck", 0.5, out=-0.09, ahead=-0.09),
    "RBAK": Spot(("chest",), "chest", "neck", 0.5, out=-0.09, ahead=-0.09),
    "LBAC": Spot(("chest",), "chest", "neck", 0.5, out=0.09, ahead=-0.09),
    "SACR": Spot(("pelvis",), "pelvis", ahead=-0.12),
    "ARIEL": Spot(("head", "neck"), "head", up=0.18),
}
SIDED = {
    "FHD": Spot(("head", "neck"), "head", out=0.07, up=0.10, ahead=0.09),
    "BHD": Spot(("head", "neck"), "head", out=0.07, up=0.08, ahead=-0.08),
    "SHO": Spot(("clavicle", "chest"), "shoulder", up=0.05),
    "UPA": Spot(("shoulder",), "shoulder", "elbow", 0.5),
    "ELB": Spot(("shoulder",), "shoulder", "elbow", 1.0),
    "FRM": Spot(("elbow",), "elbow", "wrist", 0.5),
    "WRA": Spot(("wrist",), "elbow", "wrist", 1.0, ahead=0.03),
    "WRB": Spot(("wrist",), "elbow", "wrist", 1.0, ahead=-0.03),
    "FIN": Spot(("hand", "wrist"), "elbow", "wrist", 1.35),
    "FWT": Spot(("pelvis",), "hip", out=0.03, up=0.09, ahead=0.09),
    "ASI": Spot(("pelvis",), "hip", out=0.03, up=0.09, ahead=0.09),
    "BWT": Spot(("pelvis",), "hip", out=-0.03, up=0.09, ahead=-0.12),
    "PSI": Spot(("pelvis",), "hip", out=-0.04, up=0.09, ahead=-0.12),
    "THI": Spot(("hip",), "hip", "knee", 0.5, out=0.07),
    "KNE": Spot(("hip",), "hip", "knee", 1.0, out=0.05),
    "SHN": Spot(("knee",), "knee", "ankle", 0.5, out=0.05),
    "TIB": Spot(("knee",), "knee", "ankle", 0.5, out=0.05),
    "ANK": Spot(("knee",), "knee", "ankle", 1.0, out=0.04),
    "HEE": Spot(("ankle",), "ankle", up=-0.03, ahead=-0.06),
    "TOE": Spot(("ankle",), "ankle", up=-0.04, ahead=0.13),
    "MT5": Spot(("ankle",), "ankle", out=0.05, up=-0.05, ahead=0.10),
}


def base_name(marker: str) -> str:
    """Return a marker's name without its subject: "Daniel:LFHD" is LFHD."""
    return marker.rsplit(":", 1)[-1].strip()


def spot_of(marker: str) -> tuple[Spot, str] | None:
    """Return (spot, side) of a marker of the usual sets, or None; side is "L", "R" or "" for the middle."""
    name = base_name(marker).upper()
    if name in MIDDLE:
        return MIDDLE[name], ""
    if name[:1] in ("L", "R") and name[1:] in SIDED:
        return SIDED[name[1:]], name[0]
    return None


def guess(plan: BodyPlan, marker: str) -> tuple[str, np.ndarray] | None:
    """Return (joint, place (3,) [m] in the world, at rest) of a marker by its name, or None where it says nothing."""
    known = spot_of(marker)
    if known is None:
        return None
    spot, side = known
    role = plan.first(*(_sided(role, side) for role in spot.on))
    at = plan.first(_sided(spot.at, side), _sided(spot.on[0], side), *(_sided(on, side) for on in spot.on))
    if role is None or at is None:
        return None
    place = plan.place(at)
    to = _sided(spot.to, side)
    if spot.to and to in plan:
        place = place + spot.share * (plan.place(to) - place)
    size = plan.leg / LEG_OF_STATURE / STATURE
    outward = -plan.left if side == "R" else plan.left
    return plan[role], place + size * (spot.out * outward + spot.up * plan.up + spot.ahead * plan.forward)


def _sided(role: str, side: str) -> str:
    return f"{role}.{side}" if side and role not in ("pelvis", "chest", "neck", "head") else role


# --- The markers of a take as an actor sees them ---


def markers_for(verb: str, markers: object) -> Markers:
    """Return the markers, if they are any: `load` gives None for those of a file without."""
    if not isinstance(markers, Markers):
        raise PosableError(f"{verb}: expected Markers, such as load('walk.c3d').markers, got {type(markers).__name__}")
    return markers


def motion_for(verb: str, motion: object) -> Motion:
    """Return the motion, if it is one: `load` gives None for that of a file without."""
    if not isinstance(motion, Motion):
        raise PosableError(f"{verb}: expected a Motion, such as load('walk.bvh').motion, got {type(motion).__name__}")
    return motion


class Source:
    """The markers of a take in the actor's axes, read piece by piece: the whole is never copied."""

    def __init__(self, actor: Skeleton, markers: Markers):
        self.markers = markers_for("track", markers)
        self.total = len(markers)
        wanted = {base_name(name): i for i, name in reversed(list(enumerate(markers.names)))}
        known = set(actor.site_names)
        self.sites = [name for name in sorted(wanted, key=wanted.__getitem__) if name in known]  # in the file's order
        self.columns = [wanted[site] for site in self.sites]
        self.unmatched = tuple(name for i, name in enumerate(markers.names) if i not in set(self.columns))
        if not self.sites:
            raise PosableError(
                f"track: expected sites named like the markers ({', '.join(markers.names[:6])}, ...); "
                f"got {', '.join(actor.site_names[:6]) or 'none'}; calibrate(skeleton, markers) makes them"
            )
        self.turn = turn_up(markers.up, actor.up)

    def read(self, start: int, end: int) -> np.ndarray:
        """Return the places (end - start, M, 3) [m] of frames in the actor's axes; NaN where unseen."""
        out = self.markers.positions[start:end, self.columns]
        return out if self.turn is None else out @ self.turn.T
