"""The markers of a take as an actor sees them: its own axes, its own sites, read piece by piece."""

from __future__ import annotations

import numpy as np

from posable.errors import PosableError
from posable.formats.axes import turn_up
from posable.motion import Markers, Motion
from posable.skeleton import Skeleton
from posable.tracking.markersets import base_name


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
