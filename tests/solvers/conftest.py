"""What the solvers' tests share: Parent's arm, one raw step of a method, reachable problems, an independent judge."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable._solve import solve
from posable.goals import Orientation, Pose, Position
from posable.solvers import get

ARM = ps.figures.planar_arm([15, 10, 5])
START = np.array([np.pi / 8, np.pi / 4, np.pi / 4])
RAW = {"best": False, "max_step": np.inf}  # a linear method as its text has it: no clamp, the last pose is the answer
SITES = {
    "human": ("hand.L", "hand.R", "foot.L", "foot.R", "head"),
    "limb": ("hand",),
    "planar_arm": ("tip",),
    "panda": ("hand",),
    "spider": ("foot.1", "foot.4", "body"),
    "tree": ("end1", "end2", "end5"),
}


def one_step(name, target, start=START, skeleton=ARM, **options):
    """Return the pose after one iteration of a method towards a target of the tip."""
    goal = Position("tip", target, tolerance=1e-12)
    return solve(skeleton, goal, start=start, solver=get(name)(**options), max_iterations=1).pose


def reachable(name, count, seed=0, spread=0.4, kind=Position):
    """Return a figure and goals for several of its sites (count of each) that a pose within the limits reaches."""
    skeleton = ps.figures.get(name)
    skeleton = skeleton() if callable(skeleton) else skeleton
    rng = np.random.default_rng(seed)
    poses = np.clip(skeleton.rest + spread * rng.normal(size=(count, skeleton.size)), skeleton.lower, skeleton.upper)
    frames = ps.forward(skeleton, poses)
    if kind is Pose:
        return skeleton, [Pose(site, frames.matrix(site)) for site in SITES[name]]
    return skeleton, [Position(site, frames.position(site)) for site in SITES[name]]


def misses(skeleton, goals, pose):
    """Return the error of every goal over its tolerance (t, k), worked out from forward kinematics alone."""
    frames = ps.forward(skeleton, np.atleast_2d(pose))
    out = []
    for goal in goals:
        if isinstance(goal, (Position, Pose)):
            target, tolerance = (
                (goal.target, goal.tolerance) if isinstance(goal, Position) else (goal.position, goal.tolerance[0])
            )
            out.append(np.linalg.norm(frames.position(goal.body) - target, axis=-1) / tolerance)
        if isinstance(goal, (Orientation, Pose)):
            target, tolerance = (
                (goal.target, goal.tolerance) if isinstance(goal, Orientation) else (goal.rotation, goal.tolerance[1])
            )
            turn = np.swapaxes(frames.rotation_matrix(goal.body), -1, -2) @ target
            out.append(Rotation.from_matrix(turn.reshape(-1, 3, 3)).magnitude() / tolerance)
    return np.array(out).T


def judge(skeleton, goals, result):
    """Assert what every answer must be: numbers, within the limits, and never called good where it is not."""
    poses = np.atleast_2d(result.pose)
    assert np.isfinite(poses).all()
    assert (poses >= skeleton.lower - 1e-9).all()
    assert (poses <= skeleton.upper + 1e-9).all()
    good = (misses(skeleton, goals, poses) <= 1.0 + 1e-6).all(axis=1)
    assert not (np.atleast_1d(result.ok) & ~good).any()
    return good


@pytest.fixture(scope="session")
def lab():
    """Everything above, under one name."""
    return SimpleNamespace(
        arm=ARM, start=START, raw=RAW, one_step=one_step, reachable=reachable, misses=misses, judge=judge, solve=solve,
        get=get, sites=SITES,
    )  # fmt: skip
