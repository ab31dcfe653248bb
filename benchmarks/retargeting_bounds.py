"""What no method can do better on a figure: least errors of bones and least tracking error, each frame on its own.

Contacts, collisions, velocities and smoothness are left out: a motion that stands and is calm may not reach a bound.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import posable as ps
from posable.mocap.frame_solver import FrameOptions, FrameSolver
from posable.mocap.motion_quality import tracking
from posable.mocap.retarget import Retargeted
from posable.mocap.retarget_goals import RetargetGoals
from posable.mocap.role_frames import RoleFrames, bone_errors

STARTS = 6  # of every frame, for the least error of its bones
FITS = 3  # times the scale and the shift of the source are fitted to the places of the figure, and these to them
LATER = 0.01  # weight of places where bones and turns come first
ALONE = FrameOptions(max_iterations=60, min_gain=1e-6, damping=1e-1, independent=True, pull=1e-7)


def any_speed(figure: ps.Skeleton) -> ps.Skeleton:
    """Return a figure without velocity limits."""
    return figure.replace(joints=[replace(joint, velocity=np.inf) for joint in figure.joints])


def least_bones(result: Retargeted) -> tuple[float, float]:
    """Return the mean error [deg] of arm and of leg bones that joint limits allow."""
    assert result.source is not None
    wanted = RetargetGoals(result.source, result.skeleton, result.mapping)
    goals = [goal for goal in wanted.goals(0, len(result)) if (goal.label or "").endswith(" bone")]
    goals = [goal for goal in goals if not (goal.label or "").startswith("wrist")]
    problem = ps.Problem(wanted.solvable, goals)
    problem.broadcast((len(result),))
    solver = FrameSolver(problem)
    root = result.skeleton.free_root
    assert root is not None
    low, high = (np.clip(bound, -np.pi, np.pi) for bound in (solver.lower, solver.upper))
    rng = np.random.default_rng(0)
    least: dict[str, np.ndarray] = {}

    for k in range(STARTS):
        poses = result.poses.copy() if k == 0 else rng.uniform(low, high, result.poses.shape)
        poses[:, result.skeleton.index(root)] = result.poses[:, result.skeleton.index(root)]
        solver(ALONE, poses, home=result.poses[0])
        motion = ps.Motion(result.skeleton, poses, result.fps)
        errors = bone_errors(RoleFrames(motion, wanted.target, np.eye(3)), wanted.seen, len(poses))
        better = sum(errors.values()) < sum(least.values()) if least else np.ones(len(poses), dtype=bool)
        least = {bone: np.where(better, error, least.get(bone, error)) for bone, error in errors.items()}
    arms, legs = (
        [error.mean() for bone, error in least.items() if bone.startswith(limb)]
        for limb in (("shoulder", "elbow"), ("hip", "knee"))
    )
    return float(np.mean(arms)) if arms else np.nan, float(np.mean(legs))


def least_tracking(result: Retargeted, *, posture: bool = False) -> float:
    """Return the tracking error [mm] of poses that only follow the places where it is measured, within joint limits.

    posture: the directions of bones and the turns of pelvis, chest, head and feet come first; what remains is due to
    the figure's proportions. The places follow the source's after one scale and one shift of the clip, which are
    fitted in turn with the poses.
    """
    assert result.source is not None
    wanted = RetargetGoals(result.source, result.skeleton, result.mapping)
    poses, count, least = result.poses.copy(), len(result), np.inf
    first = [goal for goal in wanted.goals(0, count) if posture and not isinstance(goal, ps.goals.Position)]
    firmness = LATER if posture else 1.0
    for k in range(FITS + 1):
        ours = RoleFrames(ps.Motion(result.skeleton, poses, result.fps), wanted.target, np.eye(3))
        found = tracking(ours, wanted.seen, count)
        least = min(least, found.error) if k or not posture else np.inf
        if k == FITS:
            break
        goals = list(first)
        for names in found.groups:
            for name in names:
                joint, point = _place(wanted, name, crown="crown" in ours.places and "crown" in wanted.seen.places)
                place = found.scale * found.theirs[name] + found.shift
                goals.append(
                    ps.goals.Position(joint, place, point=point, weight=firmness / len(names), tolerance=np.inf)
                )
        problem = ps.Problem(wanted.solvable, goals)
        problem.broadcast((count,))
        FrameSolver(problem)(replace(ALONE, keep=True), poses)
    return 1e3 * least


def _place(wanted: RetargetGoals, name: str, *, crown: bool) -> tuple[str, np.ndarray]:
    """Return (joint, point (3,) [m] in its frame) of a place where tracking is measured."""
    plan, rest = wanted.target, wanted.body.rest
    if name == "hip":
        joint, at = plan["pelvis"], rest.middle("hip")[0]
    elif name == "crown":
        joint = plan[(plan.first("head") if crown else plan.first("chest")) or "pelvis"]
        at = rest.places["crown"][0] if crown else rest.trunk[0]
    else:
        joint, at = plan[name.replace("toe", "ankle")] if name not in plan else plan[name], rest.places[name][0]
    return joint, plan.rest.convert(at, to=joint)
