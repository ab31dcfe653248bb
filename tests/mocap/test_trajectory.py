"""One optimisation over many frames: its matrix against a dense one, frames that stay, contacts that close."""

import numpy as np
import pytest

import posable as ps
from posable.mocap.trajectory import Effort, TrajectoryProblem, damped_system
from posable.problem import Problem

NONE = np.zeros((0, 0, 3))


@pytest.mark.parametrize("frames", [1, 2, 3, 7])
def test_the_banded_system_is_the_dense_one(frames):
    rng = np.random.default_rng(frames)
    n = 3
    half = rng.normal(size=(frames, n, n))
    dense_blocks = half @ half.transpose(0, 2, 1)
    blocks = np.zeros((frames, n, n))
    for j in range(n):
        for k in range(n - j):
            blocks[:, j, k] = dense_blocks[:, j + k, j]
    stiffness, damping = rng.uniform(1.0, 2.0, n), rng.uniform(0.1, 0.2, (frames, n))
    free = rng.random((frames, n)) > 0.3
    moved, gradient = np.where(free, 0.0, rng.normal(size=(frames, n))), rng.normal(size=(frames, n))
    matrix, right = np.empty((frames * n, 2 * n + 1)), np.empty(frames * n)
    damped_system(blocks, stiffness, damping, free, moved, gradient, matrix, right)
    bends = np.diff(np.eye(frames), n=2, axis=0) if frames > 2 else np.zeros((0, frames))
    full = np.kron(bends.T @ bends, np.diag(stiffness)) + np.diag(damping.ravel())
    for t in range(frames):
        full[t * n : (t + 1) * n, t * n : (t + 1) * n] += dense_blocks[t]
    may, step = free.ravel(), moved.ravel().copy()
    step[may] = np.linalg.solve(full[np.ix_(may, may)], (-gradient.ravel() - full @ moved.ravel())[may])
    got = np.zeros_like(full)
    for i in range(frames * n):
        for k in range(min(2 * n + 1, frames * n - i)):
            got[i + k, i] = got[i, i + k] = matrix[i, k]
    np.testing.assert_allclose(np.linalg.solve(got, right), step, atol=1e-9)


def slider():
    return ps.Skeleton([ps.Joint("cart", ps.Prismatic("x"))])


def test_frames_that_are_not_asked_for_stay():
    cart = slider()
    problem = Problem(cart, [ps.goals.Position("cart", (1.0, 0.0, 0.0))])
    home, free = np.zeros((20, 1)), np.zeros(20, dtype=bool)
    free[8:12] = True
    box = np.full(1, 5.0)
    trajectory = TrajectoryProblem(problem, np.zeros(1), NONE, NONE, np.zeros(1), home, np.full(1, 1e-3), -box, box)
    poses = trajectory.solve(home, Effort(), free)
    assert np.array_equal(poses[~free], home[~free])
    assert (np.abs(poses[free] - 1.0) < 0.1).all()


def test_a_wall_in_one_frame_does_not_hold_the_others_back():
    """A step that is bad for one frame, whose contact closes on the way, is taken by all others."""
    cart, frames = slider(), 40
    walls = np.full((frames, 3), (9.0, 0.0, 0.0))
    walls[20] = 0.2, 0.0, 0.0
    goals = [
        ps.goals.Position("cart", (1.0, 0.0, 0.0)),
        ps.goals.HalfSpace("cart", walls, (-1.0, 0.0, 0.0), weight=1e4),
    ]
    problem = Problem(cart, goals)
    problem.broadcast((frames,))
    problem.spread(frames)
    home, box = np.zeros((frames, 1)), np.full(1, 5.0)
    trajectory = TrajectoryProblem(problem, np.zeros(2), NONE, NONE, np.zeros(1), home, np.full(1, 1e-2), -box, box)
    poses = trajectory.solve(home, Effort(steps=6))[:, 0]
    assert 0.05 < poses[20] < 0.205
    assert np.abs(np.delete(poses, range(14, 27)) - 1.0).max() < 0.05


def test_accelerations_of_a_given_path_cost_nothing():
    cart, frames = slider(), 60
    swing = np.sin(0.8 * np.arange(frames))[:, None]
    goal = ps.goals.Position("cart", swing * np.array([1.0, 0.0, 0.0]))
    problem = Problem(cart, [goal])
    problem.broadcast((frames,))
    still, box = np.zeros((frames, 1)), np.full(1, 5.0)
    rest = (problem, np.zeros(1), NONE, NONE, np.zeros(1), still, np.full(1, 10.0), -box, box)
    calm, follows = (TrajectoryProblem(*rest, path).solve(still, Effort()) for path in (None, swing))
    assert np.abs(calm[10:-10]).max() < 0.5
    assert np.abs(follows - swing).max() < 1e-3


def test_a_step_leaves_out_dofs_that_nothing_pulls(monkeypatch):
    """Fingers of a character would make each step many times slower."""
    from posable.mocap import trajectory as module

    joints = [
        ps.Joint("cart", ps.Prismatic("x")),
        *(ps.Joint(f"finger{k}", ps.Revolute("y"), "cart") for k in range(9)),
    ]
    hand, frames, sizes = ps.Skeleton(joints), 20, []
    problem = Problem(hand, [ps.goals.Position("cart", np.arange(frames)[:, None] * (0.1, 0.0, 0.0))])
    problem.broadcast((frames,))
    home, box = np.zeros((frames, 10)), np.full(10, 5.0)
    solve = module.solve_banded
    monkeypatch.setattr(module, "solve_banded", lambda band, right: sizes.append(band.shape) or solve(band, right))
    stiffness = np.full(10, 1e-3)
    poses = TrajectoryProblem(problem, np.zeros(1), NONE, NONE, np.zeros(10), home, stiffness, -box, box).solve(
        home, Effort()
    )
    np.testing.assert_allclose(poses[:, 0], 0.1 * np.arange(frames), atol=1e-3)
    assert not poses[:, 1:].any()
    assert set(sizes) == {(frames, 3)}
