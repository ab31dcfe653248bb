"""What two bodies of different build share: places of roles and frames of body parts, from any motion.

Frames come from positions (hips, shoulders, toes), so that they do not depend on the zero pose of a file.
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
NEAR_FLOOR, MOSTLY = 0.3, 0.9  # leg lengths over height 0 of a body on the floor; fraction of the frames
SUNK = 0.1  # leg lengths below 0 beyond which feet show that the ground is elsewhere
AS_FAR = 0.9  # of the greatest distance from a joint at which points are at the tip of its part
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

    BVH states no axis; it is y by custom, and z in files of programs whose own is z. A figure that stands along the
    stated axis at rest may also lie, crawl or swim along the other one.
    """
    top = plan.first("head", "neck", "chest")
    if top is None:
        return None
    stated = motion.skeleton.up_vector

    def along(frames: Frames) -> Floats:
        feet = 0.5 * (frames.position(plan["ankle.L"]) + frames.position(plan["ankle.R"]))
        return unit(frames.position(plan[top]) - feet)

    at = forward(motion.skeleton, motion.poses[:: max(1, len(motion) // 200)])
    shares = along(at)
    k = next((k for k in (1, 2) if np.median(shares[:, k]) > PLAINLY), None)
    if k is None:
        return None
    if along(plan.rest) @ stated > PLAINLY and abs(stated[k]) < 0.5:
        roles = np.stack([plan.position(at, role) for role in plan.roles], axis=1) / plan.leg
        low = (roles @ stated).min(axis=1)
        lies = np.mean((low > -SUNK) & (low < NEAR_FLOOR)) > MOSTLY
        travels = np.ptp(roles[:, 0, k]) > 1.0
        if lies or travels or np.mean(shares[:, k] > PLAINLY) < MOSTLY:
            return motion.skeleton.up
    return "xyz"[k]


class RoleFrames:
    """Places and turns of a body's roles over time, in the axes of `turn`.

    Args:
        motion: The motion.
        plan: The roles of its figure.
        turn: (3, 3), from the motion's axes to those wanted.
        grounded: Whether a body whose feet are plainly below height 0 is raised onto it: the origin of some files is
            the pelvis.

    Attributes:
        raised: [m] by which it was.
    """

    def __init__(self, motion: Motion, plan: BodyPlan, turn: Floats, *, grounded: bool = False):
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
        self.raised = self._depth_of_feet() if grounded else 0.0
        for role in self.places if self.raised else ():
            self.places[role] = self.places[role] + self.raised * self.up

    def _depth_of_feet(self) -> float:
        """Return how far the feet go below height 0 [m]; 0 if only slightly."""
        roles = [role for role in self.places if role.startswith(("ankle", "toe"))]
        low = min(float(np.quantile(self.places[role] @ self.up, 0.02)) for role in roles)
        return -low if low < -SUNK * self.plan.leg else 0.0

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
                here = plan.rest.position(plan[name])  # a hinge may lie beyond the middle of its joint
                beyond = [one for one in below[plan[name]] if not np.array_equal(plan.rest.position(one), here)]
                leaves = farthest(plan, beyond, plan.place(name))
                if leaves:
                    self.places[f"{tip}.{side}"] = self._middle(parts, leaves)
        if "head" in plan:
            leaves = farthest(plan, below[plan["head"]], plan.place("head"), along=plan.up)
            self.places["crown"] = self._middle(parts, leaves or [plan["head"]])
        self.sites = skeleton.site_names

    def _middle(self, parts: list[Frames], names: list[str]) -> Floats:
        """Return the middle (T, 3) [m] of joints and sites."""
        return (
            np.concatenate([np.mean([part.position(name) for name in names], axis=0) for part in parts]) @ self.turn.T
        )

    def middle(self, role: str) -> Floats:
        """Return the middle (T, 3) [m] of a role's two sides."""
        return 0.5 * (self.places[f"{role}.L"] + self.places[f"{role}.R"])

    @property
    def size(self) -> float:
        """The size of the body [m]: leg, trunk and arm in a line."""
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


def farthest(plan: BodyPlan, names: list[str], start: Floats, along: Floats | None = None) -> list[str]:
    """Return the joints and sites farthest from a point (3,), or farthest along a direction; none if none is away.

    They are all that are about as far: a foot may have a site at each corner of its sole, a hand has several fingers.
    """
    away = {name: plan.rest.position(name) - start for name in names}
    size = {name: float(v @ along) if along is not None else float(np.linalg.norm(v)) for name, v in away.items()}
    most = max(size.values(), default=0.0)
    return [name for name in names if size[name] >= AS_FAR * most] if most > 0.03 * plan.leg else []


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
