"""What two bodies of different build share: places of roles and frames of body parts, from any motion.

Frames come from places (hips, shoulders, toes), so that it does not matter in which pose a file calls its numbers zero.
Where the motion has rotations, a part turns as its joint does, and the constant turn between the two is the one that
fits best over the clip: a joint's own rotation is steadier than a frame of three points.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from posable.model.body_plan import SIDES, BodyPlan
from posable.model.joint_values import Floats
from posable.model.kinematics import Frames, forward
from posable.model.motion import Motion

BONES = (("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee"), ("knee", "ankle"))
PLAINLY = 0.7  # of the way from feet to head that lies along an axis in most frames: the figure stands along it
PART = 4096  # frames whose bodies are placed at a time


def unit(vectors: Floats) -> Floats:
    """Return vectors (..., 3) at length one; zero stays zero."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def frame_of(left: Floats, up: Floats) -> Floats:
    """Return frames (..., 3, 3), columns forward, left, up: left is kept, up made perpendicular to it."""
    y = unit(left)
    z = unit(up - np.sum(up * y, axis=-1, keepdims=True) * y)
    return np.stack([np.cross(y, z), y, z], axis=-1)


def best_constant(rotations: Floats, frames: Floats) -> Floats:
    """Return the rotation C (3, 3) for which rotations (T, 3, 3) times C are nearest to frames (T, 3, 3)."""
    u, _, vt = np.linalg.svd(np.einsum("tji,tjk->ik", rotations, frames))
    return u @ np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt)) or 1.0]) @ vt


def standing_axis(motion: Motion, plan: BodyPlan) -> str | None:
    """Return "y" or "z" where a figure plainly stands along it for most of a motion, else None.

    BVH states no axis; it is y by custom, and z in files of programs whose own is z.
    """
    top = plan.first("head", "neck", "chest")
    if top is None:
        return None
    at = forward(motion.skeleton, motion.poses[:: max(1, len(motion) // 200)])
    feet = 0.5 * (at.position(plan["ankle.L"]) + at.position(plan["ankle.R"]))
    along = unit(at.position(plan[top]) - feet)
    shares = np.median(along, axis=0)
    return next((axis for axis, k in (("y", 1), ("z", 2)) if shares[k] > PLAINLY), None)


class RoleFrames:
    """Places and turns of a body's roles over time, in the axes of `turn`.

    Args:
        motion: The motion.
        plan: The roles of its figure.
        turn: (3, 3), from the motion's axes to those wanted.
    """

    def __init__(self, motion: Motion, plan: BodyPlan, turn: Floats):
        self.plan, self.turn, self.fps, self.up = plan, turn, motion.fps, turn @ plan.up
        self.places: dict[str, Floats] = {}
        self.turns: dict[str, Floats] = {}
        turned = ("pelvis", "chest", "head", *(f"ankle.{side}" for side in SIDES))
        parts = [forward(motion.skeleton, motion.poses[start : start + PART]) for start in range(0, len(motion), PART)]
        for role in plan.roles:
            self.places[role] = np.concatenate([plan.position(part, role) for part in parts]) @ turn.T
        for role in turned:
            if role in plan:
                joint = plan[role]
                self.turns[role] = np.concatenate([turn @ part.rotation_matrix(joint) for part in parts])
        self._tips(parts)

    def _tips(self, parts: list[Frames]) -> None:
        """Add the tips of hands, of the head and of toes where the figure's leaves show them."""
        plan, skeleton = self.plan, self.plan.skeleton
        below = descendants(plan)
        for role, tip in (("wrist", "tip"), ("ankle", "toe")):
            for side in SIDES:
                name = f"{role}.{side}"
                if name not in plan or f"{tip}.{side}" in self.places:
                    continue
                if plan[name] == plan.roles.get(f"elbow.{side}"):
                    continue  # an arm that ends with its forearm has no hand
                leaf = farthest(plan, below[plan[name]], plan.place(name))
                if leaf is not None:
                    self.places[f"{tip}.{side}"] = np.concatenate([p.position(leaf) for p in parts]) @ self.turn.T
        if "head" in plan:
            leaf = farthest(plan, below[plan["head"]], plan.place("head"), along=plan.up)
            name = leaf if leaf is not None else plan["head"]
            self.places["crown"] = np.concatenate([p.position(name) for p in parts]) @ self.turn.T
        self.sites = skeleton.site_names

    def middle(self, role: str) -> Floats:
        """Return the middle (T, 3) [m] of a role's two sides."""
        return 0.5 * (self.places[f"{role}.L"] + self.places[f"{role}.R"])

    @property
    def size(self) -> float:
        """How large the body is [m]: leg, trunk and arm in a line."""
        bones = [("hip", "knee"), ("knee", "ankle"), ("shoulder", "elbow"), ("elbow", "wrist")]
        lengths = [
            np.median(np.linalg.norm(self.places[f"{a}.{side}"] - self.places[f"{b}.{side}"], axis=-1))
            for a, b in bones
            for side in SIDES
            if {f"{a}.{side}", f"{b}.{side}"} <= set(self.places)
        ]
        trunk = np.median(np.linalg.norm(self.trunk - self.middle("hip"), axis=-1))
        return float(0.5 * sum(lengths) + trunk)

    @property
    def trunk(self) -> Floats:
        """(T, 3) [m]: the upper end of the trunk: between the shoulders, or the highest role there is."""
        if "shoulder.L" in self.places and "shoulder.R" in self.places:
            return self.middle("shoulder")
        top = self.plan.first("neck", "head", "chest") or "pelvis"
        return self.places[top]

    def frame(self, role: str, stands: Callable[[str], np.ndarray] | None = None) -> Floats | None:
        """Return frames (T, 3, 3) of a part: columns forward, left, up; None where the body does not show it.

        stands: (T,) bool of a foot by side; a foot is flat where it stands.
        """
        up = np.broadcast_to(self.up, self.places["hip.L"].shape)
        hips = self.places["hip.L"] - self.places["hip.R"]
        rows = slice(None)
        if role == "pelvis":
            shown = frame_of(hips, self.trunk - self.middle("hip"))
        elif role == "chest" and "shoulder.L" in self.places:
            shown = frame_of(self.places["shoulder.L"] - self.places["shoulder.R"], self.trunk - self.middle("hip"))
        elif role == "head" and "chest" in self.turns and "head" in self.turns:
            shown = self.frame("chest")
            if shown is None:
                return None
        elif role.startswith("ankle") and f"toe.{role[-1]}" in self.places:
            along = self.places[f"toe.{role[-1]}"] - self.places[role]
            shown = frame_of(np.cross(up, along), up)
            flat = stands(role[-1]) if stands is not None else np.ones(len(up), bool)
            if flat.sum() >= 3:
                rows = np.flatnonzero(flat)
        else:
            return None
        if role not in self.turns:
            return shown
        return self.turns[role] @ best_constant(self.turns[role][rows], shown[rows])


def descendants(plan: BodyPlan) -> dict[str, list[str]]:
    """Return, for every joint, the joints and sites below it and itself."""
    skeleton = plan.skeleton
    out: dict[str, list[str]] = {name: [name] for name in skeleton.names}
    parent = {joint.name: joint.parent for joint in skeleton.joints}

    def add(name: str, joint: str | None) -> None:
        while joint is not None:
            out[joint].append(name)
            joint = parent[joint]

    for joint in skeleton.joints:
        add(joint.name, joint.parent)
    for site in skeleton.sites:
        add(site.name, site.joint)
    return out


def farthest(plan: BodyPlan, names: list[str], start: Floats, along: Floats | None = None) -> str | None:
    """Return the joint or site farthest from a point (3,), or farthest along a direction; None if none is away."""
    away = {name: plan.rest.position(name) - start for name in names}
    size = {name: float(v @ along) if along is not None else float(np.linalg.norm(v)) for name, v in away.items()}
    best = max(size, key=lambda name: size[name], default=None)
    return best if best is not None and size[best] > 0.03 * plan.leg else None


def bone_angles(ours: RoleFrames, theirs: RoleFrames, count: int) -> dict[str, tuple[float, float]]:
    """Return {bone: (mean, worst)} [deg] between the directions of bones."""
    return {bone: (float(a.mean()), float(a.max())) for bone, a in bone_errors(ours, theirs, count).items()}


def bone_errors(ours: RoleFrames, theirs: RoleFrames, count: int) -> dict[str, Floats]:
    """Return {bone: (count,)} [deg] between the directions of bones over time."""
    out = {}
    for upper, lower in BONES:
        for side in SIDES:
            a, b = f"{upper}.{side}", f"{lower}.{side}"
            if all(role in frames.places for role in (a, b) for frames in (ours, theirs)):
                one, other = (unit((f.places[b] - f.places[a])[:count]) for f in (ours, theirs))
                out[a] = np.degrees(np.arccos(np.clip(np.sum(one * other, axis=1), -1.0, 1.0)))
    return out
