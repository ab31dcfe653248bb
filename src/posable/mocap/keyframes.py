"""Keyframes: poses at times, or goals at times, and the motion through them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from posable._solve import Session, solve
from posable.errors import PosableError, PosableWarning
from posable.goals.base import Goal
from posable.goals.joint import Posture
from posable.goals.natural import Natural
from posable.goals.orientation import Orientation
from posable.model.body_plan import person_plan
from posable.model.joint_values import turns_freely
from posable.model.joints import Joint
from posable.model.kinematics import as_poses, forward
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton
from posable.problem import Problem

RESTARTS = 8
OUTSIDE = 1e-9  # [rad, m]: a number farther outside its limits than this has left them
CURVE = "keyframes: curve"  # the label of the posture that draws a frame to the curve through the keys


def keyframes(
    skeleton: Skeleton,
    keys: Mapping[float, Any],
    *,
    fps: float = 30.0,
    start: Any = None,
    limits: bool = True,
    eased: bool = True,
    natural: bool | None = None,
    seed: int = 0,
    name: str = "",
) -> Motion:
    """Return the motion through keys, poses or goals at given times.

    The motion follows cubics through its keys, at rest at both ends and with continuous velocity, as far as limits and
    goals allow: a frame that would leave the limits gets the nearest rotation within them (limits hold in every frame,
    as in Engell-Nørregård & Erleben 2011), and goals that both neighbouring keys share, such as a planted foot, hold in
    the frames between them, solved nearest to the curve. `motion.notes` lists these changes.

    Args:
        skeleton: The figure.
        keys: {seconds: pose (n,) [rad, m]} or {seconds: goals}. Goals are solved from the pose of the previous key.
        fps: Frames per second.
        start: (n,) [rad, m] Pose from which the first key's goals are solved; the rest pose by default.
        limits: Whether joint limits hold, at the keys and between them.
        eased: False: interpolate linearly, ball joints by slerp.
        natural: Whether keys given by goals use the pose prior (`goals.Natural`). None: for figures with a human body
            plan, unless a key has its own posture or prior.
        seed: Seed of the restarts for goals that are hard to reach.
        name: Name of the motion.

    Returns:
        The motion from the first key to the last.

    Raises:
        PosableError: The goals of a key are not reached; the message says why.
    """
    if not keys:
        raise PosableError("keyframes: expected at least one key, got none")
    last = skeleton.rest if start is None else as_poses(skeleton, start, "keyframes: start")
    poses, times, goals = [], [], []
    for when, key in sorted(keys.items()):
        wanted = _goals_of(key)
        if wanted:
            asked = [*wanted, Natural()] if _wants_prior(skeleton, wanted, natural) else wanted
            result = solve(skeleton, asked, start=last, limits=limits, restarts=RESTARTS, seed=seed)
            if not result.ok:
                raise PosableError(f"keyframes: the key at {when:g} s is not reached: {result.message}")
            last = result.pose
        else:
            last = as_poses(skeleton, key, f"keyframes: the key at {when:g} s")
        times.append(float(when))
        poses.append(last)
        goals.append(wanted)
    motion = Motion.from_keyframes(skeleton, np.array(times), np.array(poses), fps=fps, name=name, eased=eased)
    frames, notes = np.array(motion.poses), []
    if limits:
        notes += _hold_limits(skeleton, frames, np.array(poses))
    for k in range(len(times) - 1):
        shared = _shared(skeleton, goals[k : k + 2], poses[k : k + 2])
        inside = np.flatnonzero((motion.times > times[k] - times[0] + 1e-9) & (motion.times < times[k + 1] - times[0]))
        if shared and len(inside):
            notes += _hold_goals(skeleton, shared, frames, inside, limits, f"{times[k]:g} and {times[k + 1]:g} s")
    return replace(motion, poses=frames, notes=tuple(notes))


def _wants_prior(skeleton: Skeleton, goals: list[Goal], natural: bool | None) -> bool:
    """Return whether the pose of a key is to be near the prior."""
    own = any(isinstance(goal, (Posture, Natural)) for goal in goals)
    return not own and person_plan(skeleton) is not None if natural is None else bool(natural)


def _goals_of(key: Any) -> list[Goal]:
    """Return the goals of a key, or none where it is a pose."""
    if isinstance(key, Goal):
        return [key]
    if isinstance(key, np.ndarray) or not isinstance(key, Iterable):
        return []
    items = list(key)
    return items if items and all(isinstance(item, Goal) for item in items) else []


def _hold_limits(skeleton: Skeleton, frames: np.ndarray, keys: np.ndarray) -> list[str]:
    """Bring frames (T, n) inside the limits, in place, each joint by the nearest rotation; return what was changed.

    A degree of freedom that a key itself has outside its limits is left as it was given.
    """
    lower, upper = np.minimum(skeleton.lower, keys.min(axis=0)), np.maximum(skeleton.upper, keys.max(axis=0))
    over = np.maximum(lower - frames, frames - upper)
    if not (over > OUTSIDE).any():
        return []
    count, worst = int((over > OUTSIDE).any(axis=1).sum()), int(np.argmax(over.max(axis=0)))
    most = over[:, worst].max()
    for joint, where in zip(skeleton.joints, skeleton.slices, strict=True):
        rows = np.flatnonzero((over[:, where] > OUTSIDE).any(axis=1))
        if rows.size and turns_freely(joint.motion):
            turns = slice(where.stop - 3, where.stop)
            box = np.stack([lower[where], upper[where]], axis=1)
            frames[rows, turns] = _nearest_rotations(joint, frames[rows][:, where], box)
    np.clip(frames, lower, upper, out=frames)
    return [
        f"{count} of {len(frames)} frames left the limits between keys ({skeleton.dof_names[worst]} by up to "
        f"{most:.3g} rad): replaced by the nearest rotations inside them"
    ]


def _nearest_rotations(joint: Joint, values: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Return (t, 3) the numbers inside a box (k, 2) whose rotations are nearest to those of a joint's values (t, k)."""
    alone = Skeleton([Joint("it", joint.motion, limits=np.where(np.isfinite(box), box, [-np.inf, np.inf]))])
    wanted = forward(alone, values).rotation("it")
    goal = Orientation("it", wanted, label="it")
    best, least = None, None
    for first in (np.clip(values, box[:, 0], box[:, 1]), np.broadcast_to(box.mean(axis=1), values.shape)):
        if not np.isfinite(first).all():
            continue
        found = solve(alone, goal, start=first)
        error = np.asarray(found.errors["it"])
        if best is None or least is None:
            best, least = np.array(found.pose), error
        else:
            better = error < least - 1e-6
            best[better], least = found.pose[better], np.minimum(least, error)
    return values[:, -3:] if best is None else best[:, -3:]


def _shared(skeleton: Skeleton, goals: list[list[Goal]], poses: list[np.ndarray]) -> list[Goal]:
    """Return the goals that two neighbouring keys share; a key that is a pose shares what it meets."""
    if not goals[0] and not goals[1]:
        return []
    first = goals[0] or goals[1]
    deciding = [goal for goal in first if not isinstance(goal, (Posture, Natural))]
    if goals[0] and goals[1]:
        others = [_content(skeleton, goal) for goal in goals[1]]
        return [goal for goal in deciding if _content(skeleton, goal) in others]
    pose = poses[1] if goals[0] else poses[0]
    return [goal for goal in deciding if _is_met(skeleton, goal, pose)]


def _content(skeleton: Skeleton, goal: Goal) -> tuple[Any, ...]:
    """Return a goal as plain data, for comparison: its springs as they are packed."""
    problem = Problem(skeleton, goal)
    return (type(goal), problem.kind.tobytes(), problem.constants.tobytes(), problem.targets.tobytes())


def _is_met(skeleton: Skeleton, goal: Goal, pose: np.ndarray) -> bool:
    problem = Problem(skeleton, goal)
    return problem.plain and _misses(problem, pose) <= 1.0


def _misses(problem: Problem, pose: np.ndarray) -> float:
    """Return the largest error of a problem's goals at a pose (n,), in tolerances."""
    return float((problem.evaluate(pose)[3] / problem.tolerances).max(initial=0.0))


def _hold_goals(
    skeleton: Skeleton, shared: list[Goal], frames: np.ndarray, inside: np.ndarray, limits: bool, between: str
) -> list[str]:
    """Solve frames between two keys for the goals that both share, nearest to where they are; return what was changed.

    All of them are solved, even those that miss by little; otherwise the motion would jump at the first solved frame.
    """
    problem = Problem(skeleton, shared)
    if not problem.plain:
        return []
    if max(_misses(problem, frames[i]) for i in inside) <= 1.0:
        return []
    session = Session(skeleton, [*shared, Posture(frames[inside[0]], gains=1.0, label=CURVE)], limits=limits)
    missed = []
    for i in inside:
        session.move(CURVE, frames[i])
        result = session.solve(start=frames[i])
        if not result.ok:
            result = session.solve()  # a second solve, for starts that were far off
        frames[i] = result.pose
        if not result.ok:
            missed.append(i)
    labels = ", ".join(dict.fromkeys(problem.labels))
    if missed:
        text = f"{len(missed)} frames between {between} do not hold {labels}, which both keys share"
        warnings.warn(f"keyframes: {text}", PosableWarning, stacklevel=3)
        return [text]
    return [f"{len(inside)} frames between {between} are solved to hold {labels}"]
