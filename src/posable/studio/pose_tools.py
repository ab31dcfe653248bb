"""Edits of a whole pose (mirror, copy, paste, library) or of one limb in closed form (swivel, branch, aim)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

import posable as ps
from posable.studio.handles import checked_target, is_number
from posable.studio.limbs import at_swivel, branch_poses
from posable.studio.messages import strip_control
from posable.studio.workbench import Workbench

_SWAPS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"))
_SIDE = re.compile(r"(?:(?<=^)|(?<=[._\-:0-9]))([lrLR])(?=$|[._\-0-9])")
_FRONT = re.compile(r"^([lrLR])(?=[A-Za-z])")
_OTHER = {"l": "r", "r": "l", "L": "R", "R": "L"}


@lru_cache(maxsize=32)
def partners(skeleton: ps.Skeleton) -> dict[str, str]:
    """Return the joint on the other side of each joint; a joint in the middle is its own partner."""
    names = set(skeleton.names)
    return {name: next((other for other in _others(name) if other in names), name) for name in skeleton.names}


def _others(name: str) -> list[str]:
    found = []
    for left, right in _SWAPS:
        if left in name or right in name:
            found.append(re.sub(f"{left}|{right}", lambda m: right if m[0] == left else left, name))  # noqa: B023
    found.append(_SIDE.sub(lambda m: _OTHER[m[1]], name))
    found.append(_FRONT.sub(lambda m: _OTHER[m[1]], name))
    return [other for other in found if other != name]


def mirrored(skeleton: ps.Skeleton, pose: np.ndarray) -> np.ndarray | None:
    """Return a pose (n,) with left and right swapped in place, or None if the figure has no two sides.

    Every joint rotates as its partner did, reflected in the sagittal plane: the world rotation of a joint becomes
    M R R0^T M S0, with M the reflection, R and R0 its partner's rotation now and at rest, S0 its own at rest.
    """
    pairs = partners(skeleton)
    sides = [(name, other) for name, other in pairs.items() if name != other]
    if not sides:
        return None
    rest, now = ps.forward(skeleton, skeleton.rest), ps.forward(skeleton, pose)
    root = skeleton.names[0]
    up = np.array([0.0, 1.0, 0.0]) if skeleton.up == "y" else np.array([0.0, 0.0, 1.0])
    across = sum((_across(rest, name, other) for name, other in sides), np.zeros(3))
    if np.linalg.norm(across) < 1e-6:
        return None
    turned = now.rotation_matrix(root) @ rest.rotation_matrix(root).T @ across
    normal = turned - (turned @ up) * up
    normal = normal if np.linalg.norm(normal) > 0.1 * np.linalg.norm(turned) else turned
    normal = normal / np.linalg.norm(normal)
    reflect, at_rest = _reflection(normal), rest.rotation_matrix
    goals: list[ps.goals.Goal] = []
    for name, other in pairs.items():
        # the plane rotates with the figure, so its overall rotation is reflected, too
        turn = reflect @ now.rotation_matrix(other) @ at_rest(other).T @ _reflection(across / np.linalg.norm(across))
        goals.append(ps.goals.Orientation(name, turn @ at_rest(name), label=name))
    goals.append(ps.goals.Position(root, now.position(root), label="root place"))
    start = pose.copy()
    for name, other in sides:
        where, there = skeleton.index(name), skeleton.index(other)
        if where.stop - where.start == there.stop - there.start:
            start[where] = pose[there]
    inside = np.clip(start, skeleton.lower, skeleton.upper)
    return np.asarray(ps.solve(skeleton, goals, start=inside, natural=False).pose)


def _across(rest: Any, name: str, other: str) -> np.ndarray:
    """Return the vector (3,) from one joint of a pair to the other; the order only decides the sign."""
    way = rest.position(name) - rest.position(other)
    return way if name < other else -way


def _reflection(normal: np.ndarray) -> np.ndarray:
    return np.eye(3) - 2.0 * np.outer(normal, normal)


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
            session.library = {**session.library, strip_control(name.strip())[:60]: values}
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
    """Return the degrees of freedom of the position of a figure on the floor."""
    root = skeleton.joints[0]
    first = skeleton.index(root.name).start
    return {first + k for k in range(3) if k != (2 if skeleton.up == "z" else 1)} if root.motion.size == 6 else set()


class LimbTools:
    """Poses one limb of a session. Invalid arguments change nothing and return False."""

    def __init__(self, session: Workbench):
        self.session = session

    def blend(self, name: str, share: float) -> bool:
        """Set how far a limb is IK (1: its end stays in place) or FK (0: its joints keep their angles)."""
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
