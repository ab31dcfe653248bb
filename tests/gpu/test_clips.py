"""`reach`, `track` and `retarget` on a GPU, by the source that a GPU gets, compiled for this machine (host.py)."""

import numpy as np
import pytest

import posable as ps
from posable.errors import PosableError, SolverError
from posable.model.shapes import box, capsule, sphere


def test_the_reach_of_an_arm_is_what_the_cpu_finds(on_host):
    panda = ps.figures.panda()
    rng = np.random.default_rng(3)
    poses = rng.uniform(panda.lower, panda.upper, (40, 7))
    points = np.vstack([ps.forward(panda, poses).position("hand"), [(3.0, 0.0, 0.0), (0.0, 0.0, -2.0)]])
    here, there = (ps.reach(panda, "hand", points, device=device) for device in ("cpu", "cuda"))
    assert np.array_equal(here.reachable, there.reachable)
    found = there.poses[there.reachable]
    assert (found >= panda.lower).all()
    assert (found <= panda.upper).all()
    assert np.abs(ps.forward(panda, found).position("hand") - points[there.reachable]).max() < 1e-4
    room = np.minimum(found - panda.lower, panda.upper - found).min(axis=1)
    assert np.array_equal(room, there.clearance[there.reachable])
    half = 0.5 * float(np.min(panda.upper - panda.lower))
    assert np.median(there.clearance[:40] - here.clearance[:40]) > -half / 16.0


def test_reach_says_what_a_device_is():
    with pytest.raises(SolverError, match="'cuda'"):
        ps.reach(ps.figures.panda(), "hand", [(0.4, 0.1, 0.5)], device="gpu")


def walking_take(frames):
    """Return a small figure with markers, its poses (t, n) and the take that shows them."""
    figure = ps.figures.limb()
    sites = [
        ps.Site(f"m{k}", joint, (0.05 * (k % 3), 0.04 * (k % 2), 0.03 * k))
        for k, joint in enumerate(
            ["shoulder", "shoulder", "shoulder", "elbow", "elbow", "elbow", "wrist", "wrist", "wrist"]
        )
    ]
    actor = figure.replace(sites=[*figure.sites, *sites])
    t = np.linspace(0.0, 4.0, frames)[:, None]
    poses = np.clip(actor.rest + 0.3 * np.sin(t * np.linspace(0.5, 2.0, actor.size)), actor.lower, actor.upper)
    frames_ = ps.forward(actor, poses)
    names = [site.name for site in sites]
    places = np.stack([frames_.position(name) for name in names], axis=1)
    return actor, poses, names, places


def test_a_take_is_tracked_as_on_the_cpu(on_host):
    actor, _, names, places = walking_take(150)
    noisy = places + np.random.default_rng(1).normal(0.0, 1e-3, places.shape)
    noisy[60:80, 6:] = np.nan
    markers = ps.Markers(names, noisy, 120.0, actor.up)
    here, there = (ps.track(actor, markers, device=device) for device in ("cpu", "cuda"))
    assert np.array_equal(np.isfinite(there.errors), np.isfinite(here.errors))
    off = []
    for take in (here, there):
        at = ps.forward(actor, take.motion.poses)
        found = np.stack([at.position(name) for name in names], axis=1)
        off.append(np.linalg.norm(found - places, axis=-1).mean())  # from where the markers were without noise
    assert off[1] < 1.02 * off[0]
    assert np.abs(np.diff(there.motion.poses, axis=0)).max() < 0.05  # no jump: 2 cm a frame at the hand
    assert (there.motion.poses >= actor.lower).all()
    assert (there.motion.poses <= actor.upper).all()
    assert np.abs(there.motion.poses - here.motion.poses).max() < 0.1


def test_track_on_a_gpu_needs_newton():
    actor, _, names, places = walking_take(4)
    with pytest.raises(PosableError, match="solver='newton'"):
        ps.track(actor, ps.Markers(names, places, 120.0, actor.up), device="cuda", solver="dls")


def windows_problem(frames):
    """Return a problem of a small figure over frames, with a floor and shapes that come near each other."""
    shapes = [
        capsule("shoulder", (0.0, 0.0, 0.0), (0.25, 0.0, 0.0), 0.05),
        box("wrist", (0.08, 0.06, 0.04)),
        sphere("elbow", 0.05),
    ]
    limb = ps.figures.limb().replace(shapes=shapes)
    rng = np.random.default_rng(4)
    t = np.linspace(0.0, 6.0, frames)[:, None]
    poses = np.clip(limb.rest + 1.2 * np.sin(t * rng.uniform(0.5, 2.0, limb.size)), limb.lower, limb.upper)
    hands = ps.forward(limb, poses).position("hand") + rng.normal(0.0, 0.03, (frames, 3))
    goals = [
        ps.goals.Position("hand", hands, tolerance=np.inf),
        ps.goals.HalfSpace("hand", (0.0, 0.0, -0.05), (0.0, 0.0, 1.0), weight=50.0, tolerance=np.inf),
        ps.goals.NoCollision(weight=20.0, tolerance=np.inf),
    ]
    problem = ps.Problem(limb, goals)
    problem.broadcast((frames,))
    return problem, poses


@pytest.mark.parametrize("passes", [1, 3])
def test_windows_of_a_clip_end_as_on_the_cpu(on_host, passes):
    from posable.mocap.smooth import _NONE
    from posable.mocap.trajectory import Effort, TrajectoryProblem, solve_on_gpu

    problem, poses = windows_problem(70)
    n = poses.shape[1]
    pull, stiffness = np.full(n, 1e-3), np.full(n, 0.5)
    lower, upper = (np.tile(bound, (len(poses), 1)) for bound in (problem.skeleton.lower, problem.skeleton.upper))
    lower[20:40, 2] = upper[20:40, 2] = 0.3
    free = np.ones(len(poses), dtype=bool)
    free[:3] = free[60:] = False
    spans, effort = [(0, 41), (30, 70)], Effort(6, 1e-4, passes)
    path = 0.2 * np.sin(0.3 * np.arange(len(poses)))[:, None] * np.ones(n)
    found = solve_on_gpu(problem, poses, spans, pull, stiffness, lower, upper, effort, free, path)
    for (first, last), got in zip(spans, found, strict=True):
        rows = slice(first, last)
        window = TrajectoryProblem(
            problem.part(first, last), np.zeros(len(problem.springs)), _NONE, _NONE, pull, poses[rows], stiffness,
            lower[rows], upper[rows], path[rows],
        )  # fmt: skip
        assert np.abs(got - window.solve(poses[rows], effort, free[rows])).max() < 1e-6
        assert (got >= lower[rows]).all()
        assert (got <= upper[rows]).all()
