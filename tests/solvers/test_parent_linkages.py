"""Parent, figures 5.20 to 5.25: links 15, 10, 5, start (pi/8, pi/4, pi/4), 21 frames, one step a frame.

The goal of each frame lies on the straight line from where the arm starts to the goal of the figure. The numbers below
are ours: the seed prints pictures.
"""

import numpy as np
import pytest

import posable as ps
from posable.goals import Position

NEAR, FAR = (-20.0, 5.0, 0.0), (-35.0, 5.0, 0.0)
FRAMES = 21


@pytest.fixture
def frames(lab):
    """Return a function: a solver and a goal to poses (21, 3), tips (21, 3) and the frames' goals (21, 3)."""

    def play(solver, goal):
        pose = lab.start
        first = ps.forward(lab.arm, pose).position("tip")
        line = first + (np.array(goal) - first) * np.linspace(0.0, 1.0, FRAMES)[:, None]
        poses = [pose]
        for target in line[1:]:
            wanted = Position("tip", target, tolerance=1e-12)
            pose = lab.solve(lab.arm, wanted, start=pose, solver=solver, max_iterations=1).pose
            poses.append(pose)
        poses = np.array(poses)
        return poses, ps.forward(lab.arm, poses).position("tip"), line

    return play


def largest(values):
    return float(np.abs(values).max())


def gap(tips, line):
    return np.linalg.norm(tips - line, axis=1)


def test_figure_5_20_the_pseudoinverse_follows_the_line(lab, frames):
    poses, tips, line = frames(lab.get("pseudoinverse")(**lab.raw), NEAR)
    assert gap(tips, line).max() < 0.2  # of a path of 32: "approximately a straight line"
    np.testing.assert_allclose(tips[-1], NEAR, atol=0.1)
    np.testing.assert_allclose(poses[-1], [2.131, 1.371, 0.659], atol=1e-3)
    damped, damped_tips, _ = frames(lab.get("dls")(damping=1.0, **lab.raw), NEAR)
    assert gap(damped_tips, line).max() < 0.2  # within reach, damping changes next to nothing
    np.testing.assert_allclose(damped, poses, atol=0.03)


def test_figure_5_21_damping_tames_a_goal_out_of_reach(lab, frames):
    wild, _, _ = frames(lab.get("pseudoinverse")(**lab.raw), FAR)
    tame, tips, _ = frames(lab.get("dls")(damping=5.0, **lab.raw), FAR)
    turns = [np.abs(np.diff(poses, axis=0)).max(axis=1) for poses in (wild, tame)]
    assert turns[0][:15].max() < 0.4  # while the arm still bends, both are calm
    assert turns[0][15:].max() > 1.0  # at the limit of its reach the undamped one jumps by more than 60 degrees
    assert turns[1].max() < 0.35
    assert np.linalg.norm(tips[-1]) > 29.5  # stretched out, towards the goal
    assert np.dot(tips[-1], FAR) / np.linalg.norm(tips[-1]) / np.linalg.norm(FAR) > 0.99


def test_figure_5_22_the_control_term_keeps_the_joint_with_the_larger_gain_straighter(lab, frames):
    method = lab.get("pseudoinverse")
    second, tips, line = frames(method(gains=(0.1, 0.5, 0.1), toward=(0, 0, 0), **lab.raw), NEAR)
    third, others, _ = frames(method(gains=(0.1, 0.1, 0.5), toward=(0, 0, 0), **lab.raw), NEAR)
    assert gap(tips, line).max() < 0.35  # what it adds is in the null space, to first order
    assert gap(others, line).max() < 0.35
    assert (second[5:, 1] < third[5:, 1] - 0.4).all()
    assert (third[5:, 2] < second[5:, 2] - 1.0).all()
    assert largest(third[10:, 2]) < 0.2
    plain, _, _ = frames(method(**lab.raw), NEAR)
    zero, _, _ = frames(method(gains=0.0, toward=(0, 0, 0), **lab.raw), NEAR)
    np.testing.assert_array_equal(zero, plain)  # no gains, no control term


def test_figure_5_23_pulling_the_goal_to_the_effector_is_similar(lab, frames):
    pulled, tips, line = frames(lab.get("pseudoinverse")(pull_goal=True, **lab.raw), NEAR)
    pushed, _, _ = frames(lab.get("pseudoinverse")(**lab.raw), NEAR)
    assert gap(tips, line).max() < 0.3
    np.testing.assert_allclose(pulled, pushed, atol=0.05)
    assert largest(pulled - pushed) > 1e-3  # similar, not the same


def test_figure_5_24_the_transpose_follows_behind(lab, frames):
    # The seed's scale 0.1 makes sense for angles in degrees: in radians it overshoots fiftyfold and flies apart.
    poses, tips, _line = frames(lab.get("transpose")(step=0.1 * np.pi / 180.0, **lab.raw), NEAR)
    assert largest(np.diff(poses, axis=0)) < 0.15
    distances = np.linalg.norm(tips - np.array(NEAR), axis=1)
    assert (np.diff(distances) < 0.0).all()  # ever nearer
    assert distances[-1] < 6.0
    flown, _, _ = frames(lab.get("transpose")(step=0.1, **lab.raw), NEAR)
    assert largest(np.diff(flown, axis=0)) > 10.0


@pytest.mark.parametrize(("order", "near"), [("tip", 2.2), ("ranked", 1.0)])
def test_figure_5_25_cyclic_coordinate_descent(lab, frames, order, near):
    poses, tips, line = frames(lab.get("ccd")(order=order), NEAR)
    assert gap(tips, line).max() < near  # one sweep a frame
    assert largest(np.diff(poses, axis=0)) < 0.4
    other, _, _ = frames(lab.get("pseudoinverse")(**lab.raw), NEAR)
    assert largest(poses[-1] - other[-1]) > 0.2  # "the interior joint angles are different"
