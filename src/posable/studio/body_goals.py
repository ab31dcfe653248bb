"""Soft goals that make a dragged body behave naturally.

Pinned feet carry the centre of mass, arms stay out of the trunk, and poses tend towards those that people adopt. The
weights are so small that these goals never decide whether a drag is reached and a dragged handle stays within its
tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

import posable as ps
from posable.studio.handles import Handle

BALANCE, APART = 0.2, 0.5  # weights; a dragged handle has 50
MARGIN = 0.02  # [m] distance kept from the edges of the support polygon
THICK = 0.62  # radius of the trunk, relative to half the shoulder width
FOREARM, HAND = 0.045, 0.035  # [m], radii for the shoulder width below
SHOULDERS = 0.36  # [m]


def balance(
    skeleton: ps.Skeleton, handles: Iterable[Handle], dragged: Iterable[str], pose: np.ndarray
) -> list[ps.goals.Goal]:
    """Return the goal that keeps the centre of mass above the pinned feet; empty if no foot is pinned."""
    feet = feet_of(skeleton) if plan_of(skeleton) is not None else {}
    held = {feet[h.body] for h in handles if h.body in feet and h.hold == "pinned" and h.body not in set(dragged)}
    if not held or not sum(joint.mass for joint in skeleton.joints) > 0.0:
        return []
    frames = ps.forward(skeleton, pose)
    soles = np.array([frames.position(name) for ankle in sorted(held) for name in soles_of(skeleton, ankle)])
    goal = ps.goals.Balance(soles, margin=MARGIN, weight=BALANCE, tolerance=np.inf, label="balance")
    try:
        ps.Problem(skeleton, goal)
    except ps.PosableError:  # collinear points do not form a support polygon
        return []
    return [goal]


def arms_off_trunk(skeleton: ps.Skeleton) -> list[ps.goals.Goal]:
    """Return the goals that keep forearms and hands out of the trunk; empty for figures that are not human."""
    plan = plan_of(skeleton)
    needed = ("pelvis", "chest", "shoulder.L", "shoulder.R")
    if plan is None or any(role not in plan for role in needed):
        return []
    rest = ps.forward(skeleton, skeleton.rest)
    shoulders = [plan.place("shoulder.L"), plan.place("shoulder.R")]
    width = float(np.linalg.norm(shoulders[0] - shoulders[1]))
    radius, size = 0.5 * THICK * width, width / SHOULDERS
    top, bottom = 0.5 * (shoulders[0] + shoulders[1]) - 0.6 * radius * plan.up, plan.place("pelvis")
    middle = 0.5 * (top + bottom)
    trunk = {plan["chest"]: (middle, top), plan["pelvis"]: (bottom, middle)}
    out: list[ps.goals.Goal] = []
    for side in "LR":
        for role, thick in (("elbow", FOREARM), ("wrist", HAND)):
            if f"{role}.{side}" not in plan:
                continue
            bone = plan[f"{role}.{side}"]
            for part, ends in trunk.items():
                local = np.array([rest.convert(point, to=part) for point in ends])
                goal = ps.goals.Avoid(
                    bone, part, radius=thick * size, other_ends=local, other_radius=radius, weight=APART,
                    tolerance=np.inf, label=f"{bone} off {part}",
                )  # fmt: skip
                out += [goal] if _is_sound(skeleton, goal) else []
    return out


@lru_cache(maxsize=8)
def hips_in(skeleton: ps.Skeleton, body: str) -> np.ndarray | None:
    """Return the point (3,) [m] between the hips in the frame of the pelvis; None for other bodies."""
    plan = _legs_of(skeleton)
    if plan is None or not {"pelvis", "hip.L", "hip.R"} <= set(plan.roles):
        return None
    if body not in (plan["pelvis"], *(site.name for site in skeleton.sites if site.joint == plan["pelvis"])):
        return None
    middle = 0.5 * (plan.place("hip.L") + plan.place("hip.R"))
    return ps.forward(skeleton, skeleton.rest).convert(middle, to=body)


class LikelyPose:
    """The most likely human pose given where the hands, the feet and firmly held bodies are.

    Pelvis and head, which are held gently, follow the prior.

    Args:
        skeleton: A figure with a human body plan.
        handles: Its handles.
        dragged: The bodies of the handles being dragged.
        pose: (n,) start.
    """

    def __init__(self, skeleton: ps.Skeleton, handles: Iterable[Handle], dragged: Iterable[str], pose: np.ndarray):
        frames, ends, firm = ps.forward(skeleton, pose), hands_and_feet(skeleton), set(dragged)
        firm |= {h.body for h in handles if h.hold == "pinned" or (h.hold == "held" and h.body in ends)}
        self.bodies = {h.body: h.mode for h in handles if h.body in firm and h.mode != "orientation"}
        goals: list[ps.goals.Goal] = [ps.goals.Natural()]
        for body, mode in self.bodies.items():
            if mode == "both":
                goals.append(ps.goals.Pose(body, frames.matrix(body), label=body))
            else:
                goals.append(ps.goals.Position(body, frames.position(body), label=body))
        self.session = ps.Session(skeleton, goals, start=pose)

    def near(self, pose: np.ndarray, frames: Any) -> np.ndarray:
        """Return the likely pose (n,) with every handle where it is at `pose` (n,), which has `frames`."""
        for body, mode in self.bodies.items():
            self.session.move(body, frames.matrix(body) if mode == "both" else frames.position(body))
        result = self.session.solve(start=pose)
        return result.pose if result.ok else pose


@lru_cache(maxsize=8)
def is_person(skeleton: ps.Skeleton) -> bool:
    """Return whether the pose prior covers a figure."""
    try:
        ps.Problem(skeleton, ps.goals.Natural())
    except ps.PosableError:
        return False
    return True


def _is_sound(skeleton: ps.Skeleton, goal: ps.goals.Goal) -> bool:
    try:
        ps.Problem(skeleton, goal)
    except ps.PosableError:  # a hand of zero length
        return False
    return True


@lru_cache(maxsize=8)
def plan_of(skeleton: ps.Skeleton) -> ps.BodyPlan | None:
    """Return the body plan of a figure with two arms and two legs, None for others."""
    plan = _legs_of(skeleton)
    return plan if plan is not None and {"wrist.L", "wrist.R"} <= set(plan.roles) else None


@lru_cache(maxsize=8)
def _legs_of(skeleton: ps.Skeleton) -> ps.BodyPlan | None:
    """Return the body plan of a figure with two legs, None for others."""
    try:
        plan = ps.body_plan(skeleton)
    except ps.PosableError:
        return None
    return plan if {"ankle.L", "ankle.R"} <= set(plan.roles) else None


@lru_cache(maxsize=8)
def feet_of(skeleton: ps.Skeleton) -> dict[str, str]:
    """Return the bodies on each foot of a figure with two legs, mapped to their ankle."""
    return _on(skeleton, _legs_of(skeleton), ("ankle",))


@lru_cache(maxsize=8)
def hands_and_feet(skeleton: ps.Skeleton) -> dict[str, str]:
    """Return the bodies of hands and feet, mapped to their wrist or ankle."""
    return _on(skeleton, plan_of(skeleton), ("wrist", "ankle"))


def _on(skeleton: ps.Skeleton, plan: ps.BodyPlan | None, roles: tuple[str, ...]) -> dict[str, str]:
    joints = [plan[f"{role}.{side}"] for role in roles for side in "LR"] if plan is not None else []
    return {
        body: joint for joint in joints for body in (joint, *skeleton.below(joint), *_sites(skeleton, joint))
    }  # fmt: skip


def soles_of(skeleton: ps.Skeleton, ankle: str) -> tuple[str, ...]:
    """Return the bodies of a foot that can touch the floor: its sites, or its joints if there are fewer than three."""
    sites = _sites(skeleton, ankle)
    return sites if len(sites) >= 3 else (ankle, *skeleton.below(ankle), *sites)


def _sites(skeleton: ps.Skeleton, ankle: str) -> tuple[str, ...]:
    joints = {ankle, *skeleton.below(ankle)}
    return tuple(site.name for site in skeleton.sites if site.joint in joints)
