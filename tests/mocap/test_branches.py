"""Branches of a limb: an elbow that is stuck at a limit goes the other way round where that fits better."""

import numpy as np

import posable as ps
from posable.mocap.branches import _cheapest, choose_branches
from posable.mocap.frame_solver import FrameOptions, FrameSolver
from posable.problem import Problem

FPS = 30.0
WALK = FrameOptions(max_iterations=20, min_gain=1e-5, damping=1e-2, pull=1e-4)


def arm():
    """Return a forearm as Romeo's: it rolls by 120 degrees either way and bends one way only."""
    return ps.Skeleton(
        [
            ps.Joint("roll", ps.Revolute("x"), limits=(-2.09, 2.09)),
            ps.Joint("bend", ps.Revolute("z"), "roll", limits=(-1.57, 0.0)),
        ],
        [ps.Site("hand", "bend", (0.2, 0.0, 0.0))],
        "arm",
    )


def test_a_forearm_stuck_at_a_limit_takes_the_other_branch():
    angles = np.r_[np.linspace(1.5, 4.2, 60), np.full(120, 4.2)]  # 2.09 to 4.19 cannot be reached
    wanted = np.stack([np.full(180, 0.5), -np.cos(angles), -np.sin(angles)], axis=-1)
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    figure = arm()
    problem = Problem(figure, [ps.goals.Direction("bend", (1, 0, 0), wanted)])
    poses = np.empty((180, 2))
    FrameSolver(problem)(WALK, poses, last=np.array([1.5, -1.0]))

    def error(poses, rows):
        along = ps.forward(figure, poses).rotation_matrix("bend")[:, :, 0]
        return np.arccos(np.clip((along * wanted[rows]).sum(axis=1), -1.0, 1.0)) ** 2

    every = slice(None)
    assert error(poses, every)[100:].min() > 1.0  # the walk is stuck
    better = choose_branches(problem, poses, [(np.arange(2), error)], FPS, WALK)
    assert error(better, every)[100:].max() < 0.01
    np.testing.assert_allclose(better[:20], poses[:20], atol=1e-4)
    assert np.abs(np.diff(better, axis=0)).max() < 0.3
    assert ((better >= figure.lower) & (better <= figure.upper)).all()


def test_a_limb_that_fits_stays_as_it_is():
    figure = arm()
    wanted = np.tile([0.5, -0.8, 0.3], (60, 1))
    problem = Problem(figure, [ps.goals.Direction("bend", (1, 0, 0), wanted)])
    poses = np.zeros((60, 2))
    assert choose_branches(problem, poses, [(np.arange(2), lambda p, rows: np.zeros(60))], FPS, WALK) is poses


def test_a_short_gain_is_not_worth_the_change():
    values = np.zeros((2, 90, 1))
    values[1] = 3.0
    errors = np.zeros((2, 90))
    errors[0, 40:44], errors[1, :40], errors[1, 44:] = 0.5, 0.5, 0.5
    assert _cheapest(errors / FPS, values).tolist() == [0] * 90
    errors[0, 40:], errors[1, 40:] = 1.0, 0.0
    assert _cheapest(errors / FPS, values).tolist() == [0] * 40 + [1] * 50
