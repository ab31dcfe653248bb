"""Whole poses: mirrored, copied, pasted, and kept in a library."""

from __future__ import annotations

import numpy as np

import posable as ps
from posable.studio.handles import is_number
from posable.studio.messages import plain
from posable.studio.mirror import mirrored
from posable.studio.workbench import Workbench


class PoseTools:
    """Changes the pose of a session as a whole. Invalid arguments change nothing and return False."""

    def __init__(self, session: Workbench):
        self.session = session
        self.clipboard: dict[str, float] = {}

    def mirror(self) -> bool:
        """Swap left and right."""
        session = self.session
        with session.lock:
            pose = mirrored(session.skeleton, session.pose)
            if pose is None:
                session.say("This figure has no left and right to swap.", "bad")
                return False
            return session.take(None, pose)

    def copy(self) -> dict[str, float]:
        """Copy the pose as values [rad, m] by name of the degree of freedom."""
        session = self.session
        self.clipboard = dict(zip(session.skeleton.dof_names, session.pose.tolist(), strict=True))
        return self.clipboard

    def paste(self, values: dict[str, float] | None = None, *, root: bool = False) -> bool:
        """Paste a pose by name: the copied one, or `values`. The position on the floor stays, unless `root`."""
        session = self.session
        values = self.clipboard if values is None else values
        with session.lock:
            pose, known = session.pose.copy(), 0
            stays = set() if root else _standing(session.skeleton)
            for dof, name in enumerate(session.skeleton.dof_names):
                if name in values and is_number(values[name], -1e6, 1e6):
                    known += 1
                    if dof not in stays:
                        pose[dof] = values[name]
            if not known:
                session.say("The copied pose does not fit this figure.", "bad")
                return False
            if session.settings.limits:
                pose = np.clip(pose, session.skeleton.lower, session.skeleton.upper)
            return session.take(None, pose)

    def keep(self, name: str) -> bool:
        """Save the pose to the library."""
        session = self.session
        if not isinstance(name, str) or not name.strip():
            return False
        with session.lock:
            session.remember()
            values = dict(zip(session.skeleton.dof_names, session.pose.tolist(), strict=True))
            session.library = {**session.library, plain(name.strip())[:60]: values}
        session.changed()
        return True

    def drop(self, name: str) -> bool:
        """Delete a pose from the library."""
        session = self.session
        if name not in session.library:
            return False
        with session.lock:
            session.remember()
            session.library = {key: value for key, value in session.library.items() if key != name}
        session.changed()
        return True


def _standing(skeleton: ps.Skeleton) -> set[int]:
    """Return the degrees of freedom of a figure's position on the floor."""
    root = skeleton.joints[0]
    first = skeleton.index(root.name).start
    return {first + k for k in range(3) if k != (2 if skeleton.up == "z" else 1)} if root.motion.size == 6 else set()
