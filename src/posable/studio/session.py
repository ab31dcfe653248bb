"""What is on screen, as plain data, and everything that can be done with it: a studio without a page.

A worker thread solves; the newest target wins, so that a slow solver drops frames and never falls behind. Whoever shows
the session registers a listener and gets a `View`, which is never changed afterwards.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

import posable as ps

from .core import State, View
from .handles import checked_target, is_number
from .limbs import at_swivel, branch_poses
from .posing import Posing

__all__ = ["Session", "State", "View"]

LONGEST = 1_000_000  # frames


class Session(Posing):
    """A figure being posed. Every method may be called from any thread; nonsense changes nothing and returns False."""

    # ----------------------------------------------------------------------------------------------------- limbs

    def swivel(self, name: str, angle: float) -> bool:
        """Turn an elbow or a knee to a swivel angle [rad] with the limb's end where it is."""
        if name not in self.limbs or not is_number(angle, -100.0, 100.0):
            return False
        with self._lock:
            solution = at_swivel(self.limbs[name], self.pose, angle, limits=self.settings.limits)
            return self._take(f"swivel {name}", solution.pose)

    def branch(self, name: str, number: int) -> bool:
        """Take one of the branches of a limb: the other bend of the elbow, the other numbers of the same rotations."""
        with self._lock:
            poses = branch_poses(self.limbs[name], self.pose) if name in self.limbs else []
            return bool(poses) and self._take(f"branch {name}", poses[number % len(poses)])

    def aim(self, name: str, point: Any, axis: str = "z") -> bool:
        """Aim an axis of a limb's end at a point (3,) [m]."""
        target = checked_target(point, None)
        if name not in self.limbs or target is None:
            return False
        with self._lock:
            try:
                solution = self.limbs[name].aim(target[0], axis, limits=self.settings.limits, base=self.pose)
            except ps.PosableError as error:
                self.say(str(error), "bad")
                return False
            return self._take(f"aim {name}", solution.pose)

    def point_along(self, name: str, along: Any, axis: str = "z") -> bool:
        """Keep a limb's end in its place with one of its axes along a direction (3,), free to spin about it."""
        target = checked_target(along, None)
        if name not in self.limbs or target is None:
            return False
        with self._lock:
            limb = self.limbs[name]
            place = self.frames.position(limb.site)
            try:
                solution = limb.solve_partial(place, axis, target[0], limits=self.settings.limits, base=self.pose)
            except ps.PosableError as error:
                self.say(str(error), "bad")
                return False
            return self._take(f"along {name}", solution.pose)

    def _take(self, what: str, pose: np.ndarray) -> bool:
        if not np.isfinite(pose).all():
            return False
        self._remember(what)
        self._set(np.asarray(pose))
        self._busy = True
        self._changed()
        return True

    # ------------------------------------------------------------------------------------------------------ time

    def seek(self, frame: float) -> bool:
        """Go to a frame."""
        if not is_number(frame, -1e9, 1e9):
            return False
        with self._lock:
            self.timeline = replace(self.timeline, frame=float(np.clip(frame, 0, self.timeline.count - 1)))
            self._show_frame()
        self._changed()
        return True

    def play(self, playing: bool = True) -> None:
        """Play or stop."""
        with self._lock:
            at_end = self.timeline.frame >= self.timeline.last
            frame = 0.0 if playing and at_end else self.timeline.frame
            self.timeline = replace(self.timeline, playing=playing, frame=frame)
            self._played = time.perf_counter()
        self._wake.set()
        self._changed()

    def set_time(self, **changes: Any) -> bool:
        """Change fps, length, loop or onion."""
        bounds = {"fps": (1e-3, 1000.0), "length": (1, LONGEST), "loop": (0, 1), "onion": (0, 1)}
        if not all(key in bounds and is_number(value, *bounds[key]) for key, value in changes.items()):
            return False
        with self._lock:
            self.timeline = replace(self.timeline, **changes)
        self._changed()
        return True

    def _play(self) -> bool:
        now = time.perf_counter()
        elapsed, self._played = now - self._played, now
        self.timeline = self.timeline.advanced(elapsed)
        self._show_frame()
        return True

    def _show_frame(self) -> None:
        pose = self.timeline.at(self.timeline.frame)
        if pose is not None:
            self._place(pose)
            self._snap_handles()
            self.answer, self.ghost, self.start = None, None, self.pose

    def set_key(self, frame: int | None = None) -> bool:
        """Keep the pose on screen as a key, by default at the frame shown."""
        if frame is not None and not is_number(frame, 0, LONGEST):
            return False
        with self._lock:
            self._remember()
            at = round(self.timeline.frame) if frame is None else int(frame)
            self.timeline = self.timeline.with_key(at, self.pose)
        self._changed()
        return True

    def drop_key(self, frame: int | None = None) -> bool:
        """Take a key away."""
        at = round(self.timeline.frame) if frame is None else int(frame)
        if at not in self.timeline.keys:
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.without_key(at)
        self._changed()
        return True

    def move_key(self, frame: int, to: int) -> bool:
        """Move a key to another frame."""
        if frame not in self.timeline.keys or not is_number(to, 0, LONGEST):
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.with_key_moved(frame, to)
        self._changed()
        return True

    def blend(self, reach: int = 12) -> bool:
        """Write the pose on screen into the take at this frame and blend it into `reach` frames on both sides."""
        if self.timeline.take is None or not is_number(reach, 0, 100_000):
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.edited(round(self.timeline.frame), self.pose, reach)
        self._changed()
        return True
