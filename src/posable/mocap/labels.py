"""The markers of a take as an actor sees them: its own axes, its own sites, read piece by piece."""

from __future__ import annotations

import numpy as np

from posable.errors import PosableError
from posable.formats.conventions import turn_up
from posable.mocap.gaps import CHUNK, Unheld
from posable.mocap.marker_sets import base_name, spot_of
from posable.mocap.screen import screen
from posable.model.body_plan import BodyPlan
from posable.model.motion import Markers, Motion
from posable.model.skeleton import Skeleton

# --- The usual marker sets ---

STATURE = 1.80  # [m] of the person whose offsets the table gives
LEG_OF_STATURE = 0.491  # length of the leg, hip to ankle, as a part of stature (Drillis and Contini)


def guess(plan: BodyPlan, marker: str) -> tuple[str, np.ndarray] | None:
    """Return (joint, place (3,) [m] in the world, at rest) of a marker by its name, or None where it says nothing."""
    known = spot_of(marker)
    if known is None:
        return None
    spot, side, _ = known
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
        self.screening = screen(markers)
        self.unheld = Unheld(actor, self.sites, self._seen())

    def _seen(self) -> np.ndarray:
        """Return (T, M) bool: where the actor's markers are seen."""
        out = np.empty((self.total, len(self.sites)), dtype=bool)
        for start in range(0, self.total, CHUNK):
            end = min(start + CHUNK, self.total)
            out[start:end] = np.isfinite(self.read(start, end)[..., 0])
        return out

    def filled(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return places (end - start, M, 3) [m] with lines across the times in which no marker holds a joint, and
        where these lines are (end - start, M).
        """
        places = np.array(self.read(start, end))
        filled = self.unheld.fill(places, start, lambda t, k: self.read(t, t + 1)[0, k])
        return places, filled

    def read(self, start: int, end: int) -> np.ndarray:
        """Return the places (end - start, M, 3) [m] of frames in the actor's axes; NaN where unseen."""
        out = self.screening.read(self.markers.positions, start, end)[:, self.columns]
        return out if self.turn is None else out @ self.turn.T
