"""What can be done to one limb, in closed form: its swivel angle, its branches, aiming and pointing."""

from __future__ import annotations

from typing import Any

import numpy as np

import posable as ps
from posable.studio.handles import checked_target, is_number
from posable.studio.limbs import at_swivel, branch_poses
from posable.studio.workbench import Workbench


class LimbTools:
    """Poses one limb of a session. Invalid arguments change nothing and return False."""

    def __init__(self, session: Workbench):
        self.session = session

    def blend(self, name: str, share: float) -> bool:
        """Say how far a limb is IK (1: its end stays in its place) or FK (0: its joints keep their angles)."""
        session = self.session
        if name not in session.limbs or not is_number(share, 0.0, 1.0):
            return False
        with session.lock:
            session.remember(f"blend {name}")
            others = {limb: value for limb, value in session.blend.items() if limb != name}
            session.blend = others if share == 1.0 else {**others, name: float(share)}
        session.changed()
        return True

    def swivel(self, name: str, angle: float) -> bool:
        """Set the swivel angle [rad] of an elbow or a knee, keeping the limb's end in place."""
        session = self.session
        if name not in session.limbs or not is_number(angle, -100.0, 100.0):
            return False
        with session.lock:
            solution = at_swivel(session.limbs[name], session.pose, angle, limits=session.settings.limits)
            return session.take(f"swivel {name}", solution.pose)

    def branch(self, name: str, number: int) -> bool:
        """Switch a limb to a branch inside all limits; if there is none, report the limits that it violates."""
        session = self.session
        with session.lock:
            poses = branch_poses(session.limbs[name], session.pose) if name in session.limbs else []
            low, high = session.skeleton.lower - 1e-9, session.skeleton.upper + 1e-9
            inside = [pose for pose in poses if np.all((pose >= low) & (pose <= high))]
            if not poses or not session.take(f"branch {name}", (inside or poses)[number % len(inside or poses)]):
                return False
            if not inside:
                broken = np.flatnonzero((session.pose < low) | (session.pose > high))
                session.say(
                    f"Every branch violates a limit: {', '.join(session.skeleton.dof_names[k] for k in broken)}", "bad"
                )
            return True

    def aim(self, name: str, point: Any, axis: str = "z") -> bool:
        """Aim an axis of a limb's end at a point (3,) [m]."""
        session = self.session
        target = checked_target(point, None)
        if name not in session.limbs or target is None:
            return False
        with session.lock:
            try:
                solution = session.limbs[name].aim(target[0], axis, limits=session.settings.limits, base=session.pose)
            except ps.PosableError as error:
                session.say(str(error), "bad")
                return False
            return session.take(f"aim {name}", solution.pose)

    def point_along(self, name: str, along: Any, axis: str = "z") -> bool:
        """Turn one axis of a limb's end along a direction (3,), keeping its position, free about that axis."""
        session = self.session
        target = checked_target(along, None)
        if name not in session.limbs or target is None:
            return False
        with session.lock:
            limb = session.limbs[name]
            place = session.frames.position(limb.site)
            try:
                solution = limb.solve_partial(place, axis, target[0], limits=session.settings.limits, base=session.pose)
            except ps.PosableError as error:
                session.say(str(error), "bad")
                return False
            return session.take(f"along {name}", solution.pose)
