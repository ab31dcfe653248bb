"""The file that a session was opened from: reloaded when it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import posable as ps
from posable.studio.files import Origin, load_quietly, origin_of
from posable.studio.player import LONGEST
from posable.studio.workbench import Workbench


class WatchedFile:
    """The file of a session, or none."""

    def __init__(self, session: Workbench):
        self.session = session
        self.path: Path | None = None
        self.seen = 0.0  # [s] last known modification time
        self.ask: Callable[[str], None] | None = None  # asks the user what to do if there is unsaved work

    def watch(self, path: Path | None) -> None:
        """Watch a file, or none."""
        self.path, self.seen = path, path.stat().st_mtime if path is not None else 0.0

    def look(self) -> None:
        """Reload the file if it has changed, or ask if there is unsaved work."""
        if self.path is None or not self.path.exists():
            return
        now = self.path.stat().st_mtime
        if now == self.seen:
            return
        self.seen = now
        if self.session.dirty and self.ask is not None:
            self.ask(self.path.name)
        else:
            self.reload()

    def reload(self) -> bool:
        """Reload the file; keys, handles and pose are kept if the figure is the same. Can be undone."""
        session = self.session
        path = self.path
        if path is None:
            return False
        try:
            scene = load_quietly(path, session.skeleton)
            same = scene.has_skeleton and scene.skeleton.dof_names == session.skeleton.dof_names
            if same and session.dirty:
                self._reload_below(scene, origin_of(path))
            else:
                session.open(scene, origin=origin_of(path))
            session.say(f"Reloaded {path.name}")
            return True
        except (ps.PosableError, OSError) as error:
            session.say(str(error), "bad")
            return False

    def _reload_below(self, scene: ps.Scene, origin: Origin) -> None:
        """Replace the take below the keys by another one of the same figure."""
        session = self.session
        with session.lock:
            session.remember()
            take = scene.motion if scene.motion is not None and len(scene.motion) else None
            skeleton = scene.skeleton if scene.has_skeleton else session.skeleton
            count = len(take) if take is not None else LONGEST
            keys = {frame: pose for frame, pose in session.timeline.keys.items() if frame < count}
            line = replace(session.timeline, skeleton=skeleton, take=take, keys=keys)
            line = replace(line, frame=min(line.frame, line.count - 1))
            state = replace(session.state(), scene=scene, origin=origin, timeline=line, figure=session.figure + 1)
            session.adopt(state)
            session.show_frame()
        session.changed()
