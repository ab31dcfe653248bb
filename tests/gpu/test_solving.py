"""Batches on a GPU, by the source that a GPU gets, compiled for this machine (host.py)."""

import numpy as np
import pytest

import posable as ps

g = ps.goals


def reachable(skeleton, count, seed, share=1.0):
    rng = np.random.default_rng(seed)
    low, high = np.maximum(skeleton.lower, -3.0), np.minimum(skeleton.upper, 3.0)
    return skeleton.rest + share * (rng.uniform(low, high, (count, skeleton.size)) - skeleton.rest)


def misses(skeleton, poses, body, targets):
    """Return the distance and the angle between a body's frame and its targets, by forward kinematics alone."""
    frames = ps.forward(skeleton, poses).matrix(body)
    turn = np.swapaxes(frames[..., :3, :3], -1, -2) @ targets[..., :3, :3]
    angle = np.arccos(np.clip((np.trace(turn, axis1=-2, axis2=-1) - 1.0) / 2.0, -1.0, 1.0))
    return np.linalg.norm(frames[..., :3, 3] - targets[..., :3, 3], axis=-1), angle


@pytest.mark.parametrize("precision", ["single", "double"])
def test_a_batch_of_poses(on_host, precision):
    panda = ps.figures.panda()
    targets = ps.forward(panda, reachable(panda, 120, 1)).matrix("hand")
    result = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=30, precision=precision)
    assert result.pose.shape == (120, 7)
    assert (result.pose >= panda.lower).all()
    assert (result.pose <= panda.upper).all()
    far, turned = misses(panda, result.pose, "hand", targets)
    assert np.array_equal(result.ok, (far <= 1e-4) & (turned <= 1e-3))
    assert result.ok.mean() >= 0.98
    assert np.allclose(result.errors["hand"], far, atol=1e-12)
    again = ps.solve(panda, g.Pose("hand", targets), device="cuda", restarts=30, precision=precision)
    assert np.array_equal(result.pose, again.pose)


def test_a_large_figure_with_goals_on_some_limbs(on_host):
    human = ps.figures.human()
    bodies = ("hand.L", "hand.R", "foot.L", "pelvis")
    poses = reachable(human, 12, 2, 0.3)
    places = {b: ps.forward(human, poses).position(b) for b in bodies}
    start = np.clip(human.rest + 0.01, human.lower, human.upper)
    result = ps.solve(human, [g.Position(b, places[b]) for b in bodies], device="cuda", start=start, restarts=3)
    at = ps.forward(human, result.pose)
    far = np.max([np.linalg.norm(at.position(b) - places[b], axis=1) for b in bodies], axis=0)
    assert np.array_equal(result.ok, far <= 1e-4)
    assert result.ok.mean() > 0.8
    assert (result.pose >= human.lower).all()
    assert (result.pose <= human.upper).all()
    idle = [i for i, name in enumerate(human.dof_names) if ".R" in name and ("toe" in name or "foot" in name)]
    assert idle
    assert np.array_equal(result.pose[:, idle], np.broadcast_to(start[idle], (12, len(idle))))
