"""Time in a session: playing, scrubbing, keys and contacts."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from posable.studio.contacts import lock_body
from posable.studio.document import Document
from posable.studio.handles import is_number
from posable.studio.timeline import EASINGS, FASTEST, LONGEST

LOCKED = 2000  # frames over which a contact can be locked


class Player:
    """Moves a session through time and edits its keys. Invalid arguments change nothing and return False."""

    def __init__(self, session: Document):
        self.session = session
        self._played = 0.0  # [s] when the frame shown was reached

    def seek(self, frame: float) -> bool:
        """Go to a frame; the one that is shown already stays as it is, with its handles."""
        session = self.session
        if not is_number(frame, -1e9, 1e9):
            return False
        with session.lock:
            session.flush()
            line, frame = session.timeline, float(np.clip(frame, 0, session.timeline.count - 1))
            there = line.at(frame)
            shown = there is not None and np.allclose(there, session.pose, rtol=0.0, atol=1e-9)
            if (shown or session.dragging) and frame == line.frame and not line.playing:
                return True
            session.end_drags()
            session.timeline = replace(session.timeline, frame=frame)
            session.show_frame()
        session.publish()
        return True

    def play(self, playing: bool = True) -> None:
        """Play or stop."""
        session = self.session
        with session.at_rest():
            at_end = session.timeline.frame >= session.timeline.last
            frame = 0.0 if playing and at_end else session.timeline.frame
            session.timeline = replace(
                session.timeline, playing=playing, frame=frame if playing else float(round(frame))
            )
            self._played = time.perf_counter()
            if not playing:
                session.show_frame()
        session.wake.set()
        session.publish()

    def set_time(self, **changes: Any) -> bool:
        """Change fps, length, loop, onion, autokey, fade or easing."""
        session = self.session
        bounds = {
            "fps": (1e-3, FASTEST), "length": (1, LONGEST), "loop": (0, 1), "onion": (0, 1), "autokey": (0, 1),
            "fade": (0, 100_000),
        }  # fmt: skip
        numbers = {key: value for key, value in changes.items() if key != "easing"}
        if not all(key in bounds and is_number(value, *bounds[key]) for key, value in numbers.items()):
            return False
        if changes.get("easing", EASINGS[0]) not in EASINGS:
            return False
        with session.lock:
            session.timeline = replace(session.timeline, **changes)
        session.publish()
        return True

    def advance(self) -> None:
        """Go on playing by the time that has passed."""
        session = self.session
        now = time.perf_counter()
        elapsed, self._played = now - self._played, now
        session.timeline = session.timeline.advanced(elapsed)
        session.show_frame()

    def set_key(self, frame: int | None = None) -> bool:
        """Set a key with the current pose, by default at the current frame."""
        session = self.session
        if frame is not None and not is_number(frame, 0, LONGEST):
            return False
        at = session.timeline.shown if frame is None else int(frame)
        if session.timeline.take is not None and at >= session.timeline.count:
            return False
        with session.change(rest=False):
            session.timeline = session.timeline.with_key(at, session.pose)
        return True

    def drop_key(self, frame: int | None = None) -> bool:
        """Delete a key."""
        session = self.session
        at = session.timeline.shown if frame is None else int(frame)
        if at not in session.timeline.keys and at not in session.timeline.drafts:
            return False
        with session.change():
            session.timeline = session.timeline.without_key(at)
            session.show_frame()
        return True

    def move_key(self, frame: int, to: int) -> bool:
        """Move a key to another frame."""
        session = self.session
        if frame not in session.timeline.keys or not is_number(to, 0, LONGEST):
            return False
        with session.change():
            session.timeline = session.timeline.with_key_moved(frame, to)
            session.show_frame()
        return True

    def lock_contact(self, body: str, first: int, last: int) -> bool:
        """Hold a body at its current place over the frames from `first` to `last`."""
        session = self.session
        bodies = (*session.skeleton.names, *session.skeleton.site_names)
        if body not in bodies or not (is_number(first, 0, LONGEST) and is_number(last, 0, LONGEST)):
            return False
        if not 0 <= last - first <= LOCKED:
            session.notify(f"Choose a contact of at most {LOCKED} frames; got {first:.0f} to {last:.0f}.", "bad")
            return False
        with session.at_rest():
            frames = range(int(first), min(int(last), session.timeline.count - 1) + 1)
            poses = {frame: pose for frame in frames if (pose := session.timeline.at(frame)) is not None}
            if not poses or len(poses) < len(frames):
                session.notify("There is no motion to lock a contact in.", "bad")
                return False
            held = lock_body(session.drag_solver.moving, poses, body, session.frames.matrix(body))
            with session.change():
                session.timeline = replace(session.timeline, keys={**session.timeline.keys, **held})
                session.show_frame()
        return True
