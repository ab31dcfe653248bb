"""Edits of a whole pose (mirror, copy, paste, library) or of one limb in closed form (swivel, branch, aim)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import posable as ps
from posable.studio.appearance import root_joint
from posable.studio.body_goals import plan_of
from posable.studio.document import Document
from posable.studio.dragging import with_lengths
from posable.studio.handles import checked_target, is_number
from posable.studio.limbs import at_swivel, branch_poses
from posable.studio.messages import strip_control

_SWAPS = (("left", "right"), ("Left", "Right"), ("LEFT", "RIGHT"))
_SIDE = re.compile(r"(?:(?<=^)|(?<=[._\-:0-9]))([lrLR])(?=$|[._\-0-9])")
_FRONT = re.compile(r"^([lrLR])(?=[A-Za-z])")
_OTHER = {"l": "r", "r": "l", "L": "R", "R": "L"}


@lru_cache(maxsize=32)
def partners(skeleton: ps.Skeleton) -> dict[str, str]:
    """Return the joint on the other side of each joint, by role, else by name; one in the middle is its own partner."""
    names = set(skeleton.names)
    found = {name: next((other for other in _others(name) if other in names), name) for name in skeleton.names}
    plan = plan_of(skeleton)
    if plan is not None:  # exporters number the joints of both sides as they like
        sided = {role: joint for role, joint in plan.roles.items() if role.endswith((".L", ".R"))}
        found |= {
            joint: sided[other]
            for role, joint in sided.items() if (other := role[:-1] + _OTHER[role[-1]]) in sided
        }  # fmt: skip
    return {name: other if found[other] == name else name for name, other in found.items()}


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
    plan = plan_of(skeleton)
    root = root_joint(skeleton).name if plan is None else plan.roles.get("pelvis", root_joint(skeleton).name)
    up = skeleton.up_vector
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
        if skeleton.joint(name).motion.size == 6 and name != root:  # what a rig moves or stretches goes along
            place = now.position(root) + reflect @ (now.position(other) - now.position(root))
            goals.append(ps.goals.Position(name, place, label=f"place of {name}"))
    goals.append(ps.goals.Position(root, now.position(root), label="root place"))
    start = pose.copy()
    for name, other in sides:
        where, there = skeleton.index(name), skeleton.index(other)
        if where.stop - where.start == there.stop - there.start:
            start[where] = pose[there]
    inside = np.clip(start, skeleton.lower, skeleton.upper)
    return np.asarray(ps.solve(with_lengths(skeleton, True), goals, start=inside, natural=False).pose)


def _across(rest: Any, name: str, other: str) -> np.ndarray:
    """Return the vector (3,) from one joint of a pair to the other; the order only decides the sign."""
    way = rest.position(name) - rest.position(other)
    return way if name < other else -way


def _reflection(normal: np.ndarray) -> np.ndarray:
    return np.eye(3) - 2.0 * np.outer(normal, normal)


class PoseTools:
    """Changes the pose of a session as a whole. Invalid arguments change nothing and return False."""

    def __init__(self, session: Document):
        self.session = session
        self.clipboard: dict[str, float] = {}

    def mirror(self) -> bool:
        """Swap left and right."""
        session = self.session
        with session.at_rest():
            pose = mirrored(session.skeleton, session.pose)
            if pose is None:
                session.notify("This figure has no left and right to swap.", "bad")
                return False
            return session.apply_pose(None, pose)

    def copy(self) -> dict[str, float]:
        """Copy the pose as values [rad, m] by name of the degree of freedom."""
        session = self.session
        session.flush()
        self.clipboard = self._values()
        session.notify("Pose copied")
        return self.clipboard

    def paste(self, values: dict[str, float] | None = None, *, root: bool = False) -> bool:
        """Paste a pose by name: the copied one, or `values`. The position on the floor stays, unless `root`."""
        session = self.session
        values = self.clipboard if values is None else values
        with session.at_rest():
            pose, known = session.pose.copy(), 0
            stays = set() if root else _standing(session.skeleton)
            for dof, name in enumerate(session.skeleton.dof_names):
                if name in values and is_number(values[name], -1e6, 1e6):
                    known += 1
                    if dof not in stays:
                        pose[dof] = values[name]
            if not known:
                session.notify(
                    "The copied pose does not fit this figure." if values else "No pose has been copied yet.", "bad"
                )
                return False
            if session.settings.limits:
                pose = np.clip(pose, session.skeleton.lower, session.skeleton.upper)
            return session.apply_pose(None, pose)

    def keep(self, name: str) -> bool:
        """Save the pose to the library."""
        session = self.session
        if not isinstance(name, str) or not name.strip():
            return False
        with session.change(rest=False):
            session.library = {**session.library, strip_control(name.strip())[:60]: self._values()}
        return True

    def _values(self) -> dict[str, float]:
        """Return the pose as values [rad, m] by name of the degree of freedom."""
        return dict(zip(self.session.skeleton.dof_names, self.session.pose.tolist(), strict=True))

    def drop(self, name: str) -> bool:
        """Delete a pose from the library."""
        session = self.session
        if name not in session.library:
            return False
        with session.change(rest=False):
            session.library = {key: value for key, value in session.library.items() if key != name}
        return True


def _standing(skeleton: ps.Skeleton) -> set[int]:
    """Return the degrees of freedom of the position of a figure on the floor."""
    root = root_joint(skeleton)
    if root.motion.size != 6:
        return set()
    steps = skeleton.index(root.name).start + np.arange(3)
    poses = skeleton.rest + np.eye(skeleton.size)[steps]
    heights = ps.forward(skeleton, poses).position(root.name) - ps.forward(skeleton, skeleton.rest).position(root.name)
    return {int(dof) for dof, rise in zip(steps, heights @ skeleton.up_vector, strict=True) if abs(rise) < 0.5}


class LimbTools:
    """Poses one limb of a session. Invalid arguments change nothing and return False."""

    def __init__(self, session: Document):
        self.session = session

    def blend(self, name: str, share: float) -> bool:
        """Set how far a limb is IK (1: its end stays in place) or FK (0: its joints keep their angles)."""
        session = self.session
        if name not in session.limbs or not is_number(share, 0.0, 1.0):
            return False
        with session.change(f"blend {name}", rest=False):
            others = {limb: value for limb, value in session.blend.items() if limb != name}
            session.blend = others if share == 1.0 else {**others, name: float(share)}
        return True

    def swivel(self, name: str, angle: float) -> bool:
        """Set the swivel angle [rad] of an elbow or a knee, keeping the limb's end in place."""
        session = self.session
        if name not in session.limbs or not is_number(angle, -100.0, 100.0):
            return False
        with session.at_rest():
            solution = at_swivel(session.limbs[name], session.pose, angle, limits=session.settings.limits)
            return session.apply_pose(f"swivel {name}", solution.pose)

    def branch(self, name: str, number: int) -> bool:
        """Switch a limb to a branch inside all limits; if there is none, report the limits that it violates."""
        session = self.session
        with session.at_rest():
            poses = branch_poses(session.limbs[name], session.pose) if name in session.limbs else []
            low, high = session.skeleton.lower - 1e-9, session.skeleton.upper + 1e-9
            inside = [pose for pose in poses if np.all((pose >= low) & (pose <= high))]
            if not poses or not session.apply_pose(f"branch {name}", (inside or poses)[number % len(inside or poses)]):
                return False
            if not inside:
                broken = np.flatnonzero((session.pose < low) | (session.pose > high))
                session.notify(
                    f"Every branch violates a limit: {', '.join(session.skeleton.dof_names[k] for k in broken)}", "bad"
                )
            return True

    def aim(self, name: str, point: Any, axis: str = "z") -> bool:
        """Aim an axis of a limb's end at a point (3,) [m]."""
        return self._solve(name, "aim", point, lambda limb, target, given: limb.aim(target, axis, **given))

    def point_along(self, name: str, along: Any, axis: str = "z") -> bool:
        """Turn one axis of a limb's end along a direction (3,), keeping its position, free about that axis."""

        def solve(limb: ps.Limb, target: np.ndarray, given: dict[str, Any]) -> Any:
            return limb.solve_partial(self.session.frames.position(limb.site), axis, target, **given)

        return self._solve(name, "along", along, solve)

    def _solve(self, name: str, what: str, vector: Any, solve: Callable[[ps.Limb, Any, dict[str, Any]], Any]) -> bool:
        """Pose a limb for a point or a direction (3,); an error is shown as a message."""
        session, target = self.session, checked_target(vector, None)
        if name not in session.limbs or target is None:
            return False
        with session.at_rest():
            try:
                given = {"limits": session.settings.limits, "base": session.pose}
                solution = solve(session.limbs[name], target[0], given)
            except ps.PosableError as error:
                session.notify(str(error), "bad")
                return False
            return session.apply_pose(f"{what} {name}", solution.pose)
