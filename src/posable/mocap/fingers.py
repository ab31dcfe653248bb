"""Retargeting of fingers: every phalanx has the direction of the source's phalanx relative to the hand.

A hand's frame comes from its wrist and the bases of its fingers, whatever the axes of its joints are in a file.
Fingers are solved after the body, with the hand where it is at rest: they do not move anything else.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from posable.goals import Direction
from posable.goals.base import Goal
from posable.mocap.frame_solver import FrameOptions, FrameSolver
from posable.mocap.role_frames import descendants, unit
from posable.model.body_plan import SIDES, BodyPlan, words_of
from posable.model.joint_values import Floats
from posable.model.kinematics import Frames, forward
from posable.model.motion import Motion
from posable.problem import Problem

WORDS = {
    "thumb": ("thumb",), "index": ("index",), "middle": ("middle", "fingers"), "ring": ("ring",),
    "pinky": ("pinky", "little"),
}  # fmt: skip
PHALANGES = 3  # largest number of joints of a finger; those before them belong to the palm
SHORT = 0.005  # leg lengths below which two joints of a finger are at the same place
WALK = FrameOptions(max_iterations=20, min_gain=1e-6, damping=1e-2, pull=1e-4)

Hand = dict[str, list[str]]  # finger -> joints from the knuckle on, then the tip where the figure shows it


def hands_of(plan: BodyPlan) -> dict[str, Hand]:
    """Return the fingers of every hand that has two or more fingers of two or more joints each, by their names."""
    below, out = descendants(plan), {}
    for side in SIDES:
        if f"wrist.{side}" not in plan:
            continue
        wrist = plan[f"wrist.{side}"]
        names = [name for name in below[wrist] if name in plan.skeleton.names and name != wrist]
        hand: Hand = {}
        for finger, words in WORDS.items():
            chain = [name for name in names if words_of(name)[1].endswith(words) and "inhand" not in words_of(name)[1]]
            chain = [name for name in chain if set(chain) <= {*below[name], *_above(plan, name)}]  # one path only
            chain = chain[-PHALANGES:]
            if len(chain) > 1:
                hand[finger] = [*chain, *_tip(plan, below[chain[-1]], chain[-1])]
        if len(hand) > 1:
            out[side] = hand
    return out


def _tip(plan: BodyPlan, names: list[str], last: str) -> list[str]:
    """Return the joint or site at the tip of a finger whose last joint is given, if the figure shows it."""
    away = {name: float(np.linalg.norm(plan.rest.position(name) - plan.rest.position(last))) for name in names}
    tip = max(away, key=lambda name: away[name])
    return [tip] if away[tip] > SHORT * plan.leg else []


def _above(plan: BodyPlan, joint: str) -> set[str]:
    """Return the joints above a joint."""
    parent = {one.name: one.parent for one in plan.skeleton.joints}
    out: set[str] = set()
    name = parent[joint]
    while name is not None:
        out.add(name)
        name = parent[name]
    return out


def _frame(plan: BodyPlan, frames: Frames, hand: Mapping[str, list[str]], shared: list[str], side: str) -> Floats:
    """Return the frame (..., 3, 3) of a hand: along the fingers, towards the first of them, out of the palm."""
    fingers = [finger for finger in shared if finger != "thumb"]
    bases = [frames.position(hand[finger][0]) for finger in fingers]
    wrist = plan.position(frames, f"wrist.{side}")
    along = unit(np.mean(bases, axis=0) - wrist)
    across = bases[0] - bases[-1] if len(bases) > 1 else frames.position(hand["thumb"][0]) - wrist
    across = unit(across - (across * along).sum(axis=-1, keepdims=True) * along)
    return np.stack([along, across, np.cross(along, across)], axis=-1)


def _phalanges(frames: Frames, chain: list[str]) -> Floats:
    """Return the directions (..., K, 3) of the phalanges of a finger."""
    places = np.stack([frames.position(name) for name in chain], axis=-2)
    return unit(np.diff(places, axis=-2))


def follow_fingers(motion: Motion, source: BodyPlan, target: BodyPlan, poses: Floats) -> tuple[Floats, str]:
    """Return poses (T, n) with fingers that point as those of a motion do, and a note where they cannot, else "".

    Args:
        motion: The source.
        source: The roles of its figure.
        target: The roles of the target figure.
        poses: (T, n) [rad, m] of that figure.
    """
    theirs, ours = hands_of(source), hands_of(target)
    if not theirs:
        return poses, ""
    frames, goals, moved = forward(motion.skeleton, motion.poses[: len(poses)]), [], []
    for side in SIDES:
        shared = [f for f in WORDS if f in theirs.get(side, {}) and f in ours.get(side, {})]
        if len(shared) < 2:
            continue
        own = _frame(target, target.rest, ours[side], shared, side)
        turn = own @ np.swapaxes(_frame(source, frames, theirs[side], shared, side), -1, -2)  # source to target at rest
        for finger in shared:
            chain = ours[side][finger]
            wanted = np.einsum("tij,tkj->tki", turn, _phalanges(frames, theirs[side][finger]))
            goals += _finger_goals(target, chain, wanted)
            moved += [name for name in chain if name in target.skeleton.names]
    if not goals:
        return poses, "the figure has no fingers like the motion's: those are left out"
    figure = target.skeleton
    dofs = np.concatenate([np.arange(figure.size)[figure.index(name)] for name in dict.fromkeys(moved)])
    problem = Problem(figure, goals)
    problem.broadcast((len(poses),))
    solver = FrameSolver(problem)
    held = np.ones(figure.size, dtype=bool)
    held[dofs] = False
    solver.lower, solver.upper = (np.where(held, figure.rest, b) for b in (solver.lower, solver.upper))
    answer = np.empty_like(poses)
    solver(WALK, answer, last=figure.rest)
    out = poses.copy()
    out[:, dofs] = answer[:, dofs]
    return out, ""


def _finger_goals(plan: BodyPlan, chain: list[str], wanted: Floats) -> list[Goal]:
    """Return goals for the phalanges of a finger, from directions (T, K, 3) of another that may have more or fewer."""
    out: list[Goal] = []
    count = len(chain) - 1
    which = np.round(np.linspace(0, wanted.shape[1] - 1, count)).astype(int) if count > 1 else [0]
    for k in range(count):
        axis = plan.rest.convert(plan.rest.position(chain[k + 1]), to=chain[k])
        if np.linalg.norm(axis) > SHORT * plan.leg:
            goal = Direction(chain[k], unit(axis), np.ascontiguousarray(wanted[:, which[k]]), tolerance=np.inf)
            out.append(goal)
    return out
