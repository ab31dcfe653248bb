"""Contacts of the hands in a motion: with each other, with the body, or with a fixed object.

A contact with the body is described by the nearest point on a bone (as a fraction of its length) and the vector from
there to the hand. Bones of the target point in the same directions as those of the source, so that the same fraction
and the same vector, scaled, describe the same contact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from posable.mocap.gaps import blend_weight, runs
from posable.model.body_plan import SIDES, BodyPlan
from posable.model.kinematics import Frames, forward
from posable.model.motion import Motion

NEAR = {  # leg lengths within which a hand touches a bone
    ("hip.L", "hip.R"): 0.24, ("shoulder.L", "shoulder.R"): 0.17, ("pelvis", "chest"): 0.22, ("neck", "head"): 0.24,
}  # fmt: skip
LIMB_BONES = {("hip", "knee"): 0.14, ("knee", "ankle"): 0.14}
ARM_BONES = {("shoulder", "elbow"): 0.14, ("elbow", "wrist"): 0.14}
HANDS = 0.17  # leg lengths between hands that touch
SLIDING = 0.2  # leg lengths a second, seen from a bone, below which a hand rests on it
STILL = 0.08  # leg lengths a second below which a hand is still in the world
BODY_MOVES = 0.04  # leg lengths that a shoulder moves while its hand holds a fixed object
LOW = 0.2  # leg lengths above the lowest foot within which a still hand is on the ground
WINDOW, SHORTEST, LONG, BREAK, RAMP = 0.05, 0.30, 0.25, 0.06, 0.15  # [s]: of speeds, touches, rests, breaks, their ends


class Touch(NamedTuple):
    """A contact of a hand ("L" or "R") from frame `first` to `end` with a bone (role, role), "hands" or "world"."""

    side: str
    part: tuple[str, str] | str
    first: int
    end: int


def hand_role(plan: BodyPlan, side: str) -> str | None:
    """Return the role of a figure's hand: its hand or else its wrist."""
    return plan.first(f"hand.{side}", f"wrist.{side}")


def find_touches(motion: Motion, plan: BodyPlan) -> list[Touch]:
    """Return the contacts of both hands in a motion; of several bones at once, the nearest counts."""
    if len(motion) < 3 or any(hand_role(plan, side) is None for side in SIDES):
        return []
    frames = forward(motion.skeleton, motion.poses)
    paths = {side: plan.position(frames, hand_role(plan, side) or "") for side in SIDES}
    out: list[Touch] = []
    together = np.linalg.norm(paths["L"] - paths["R"], axis=-1) < HANDS * plan.leg
    out += [Touch("L", "hands", a, b) for a, b in _closed(together, motion.fps)]
    for side in SIDES:
        taken = together | _on_body(motion, plan, frames, side, paths[side], out)
        out += _on_things(motion, plan, frames, side, paths[side], taken)
    return sorted(out, key=lambda touch: (touch.first, touch.side))


def _on_body(motion, plan: BodyPlan, frames: Frames, side: str, path: np.ndarray, out: list[Touch]) -> np.ndarray:
    """Add the contacts of a hand with bones; return (T,) bool: when there is any."""
    other = "R" if side == "L" else "L"
    bones = dict(NEAR)
    bones |= {(f"{a}.{s}", f"{b}.{s}"): near for s in SIDES for (a, b), near in LIMB_BONES.items()}
    bones |= {(f"{a}.{other}", f"{b}.{other}"): near for (a, b), near in ARM_BONES.items()}
    bones = {bone: near for bone, near in bones.items() if bone[0] in plan and bone[1] in plan}
    gaps, rests = [], []
    for (a, b), near in bones.items():
        start, stop = plan.position(frames, a), plan.position(frames, b)
        _, away = nearest_on(start, stop, path)
        gap = np.linalg.norm(away, axis=-1)
        # in the frame of the bone: a hand that swings past a hip keeps its distance and does not rest
        on_bone = np.einsum("tji,tj->ti", frames.rotation_matrix(plan[a]), path - start)
        slow = _rate(on_bone, motion.fps) < SLIDING * plan.leg
        gaps.append(gap / near)
        rests.append(slow & (gap < near * plan.leg))
    which = np.argmin(np.where(rests, gaps, np.inf), axis=0)
    any_rest = np.any(rests, axis=0)
    touched = np.zeros(len(path), dtype=bool)
    for a, b in _closed(any_rest, motion.fps):
        if b - a >= SHORTEST * motion.fps:
            most = int(np.bincount(which[a:b][any_rest[a:b]]).argmax())
            out.append(Touch(side, list(bones)[most], a, b))
            touched[a:b] = True
    return touched


def _on_things(motion, plan: BodyPlan, frames: Frames, side: str, path: np.ndarray, taken: np.ndarray) -> list[Touch]:
    """Return the times at which a hand is still in the world while the body moves or the ground is near."""
    leg = plan.leg
    still = (_rate(path, motion.fps) < STILL * leg) & ~taken
    ground = min(float(np.quantile(plan.position(frames, f"ankle.{s}") @ plan.up, 0.02)) for s in SIDES)
    out: list[Touch] = []
    for a, b in _closed(still, motion.fps):
        if b - a < LONG * motion.fps:
            continue
        shoulder = plan.position(frames, f"shoulder.{side}")[a:b]
        moves = np.linalg.norm(shoulder - shoulder.mean(axis=0), axis=-1).max() > BODY_MOVES * leg
        if moves or float(np.median(path[a:b] @ plan.up)) < ground + LOW * leg:
            out.append(Touch(side, "world", a, b))
    return out


def nearest_on(start: np.ndarray, stop: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest points on segments (T, 3), (T, 3) as fractions (T,), and vectors (T, 3) from them."""
    along = stop - start
    share = np.sum((points - start) * along, axis=-1) / np.maximum(np.sum(along * along, axis=-1), 1e-12)
    share = np.clip(share, 0.0, 1.0)
    return share, points - (start + share[:, None] * along)


def touch_weights(touch: Touch, count: int, fps: float) -> np.ndarray:
    """Return weights (count,): 1 during a contact, rising before it and falling after it."""
    out = np.zeros(count)
    out[touch.first : touch.end] = 1.0
    ramp = max(1, round(RAMP * fps))
    rise = blend_weight(ramp)
    head, tail = min(ramp, touch.first), min(ramp, count - touch.end)
    if head:
        out[touch.first - head : touch.first] = rise[-head:]
    if tail:
        out[touch.end : touch.end + tail] = rise[::-1][:tail]
    return out


def _rate(values: np.ndarray, fps: float) -> np.ndarray:
    """Return the rate of change (T,) of values (T,) or (T, 3), over a short window."""
    count, reach = len(values), max(1, round(WINDOW * fps))
    ahead, behind = np.minimum(np.arange(count) + reach, count - 1), np.maximum(np.arange(count) - reach, 0)
    change = values[ahead] - values[behind]
    change = np.abs(change) if values.ndim == 1 else np.linalg.norm(change, axis=-1)
    return change * fps / np.maximum(ahead - behind, 1)


def _closed(mask: np.ndarray, fps: float) -> list[tuple[int, int]]:
    """Return the runs of mask (T,), with short breaks closed."""
    mask = mask.copy()
    for a, b in runs(~mask):
        if a > 0 and b < len(mask) and b - a < BREAK * fps:
            mask[a:b] = True
    return runs(mask)
