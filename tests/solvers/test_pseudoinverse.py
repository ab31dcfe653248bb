"""The pseudo-inverse: its step against NumPy's, the control term, clamps, bounds inside and outside, gains K."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Orientation, Pose, Position

TARGET = np.array([-3.0, 12.0, 0.0])


@pytest.fixture
def linear(lab):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    return jacobian, np.linalg.pinv(jacobian), TARGET - ps.forward(lab.arm, lab.start).position("tip")


def test_one_step(lab, linear):
    _, inverse, error = linear
    pose = lab.one_step("pseudoinverse", TARGET, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, inverse @ error, atol=1e-10)


def test_feedback_scales_and_clamp_cuts_what_is_asked(lab, linear):
    _, inverse, error = linear
    pose = lab.one_step("pseudoinverse", TARGET, feedback=0.25, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, 0.25 * inverse @ error, atol=1e-10)
    pose = lab.one_step("pseudoinverse", TARGET, clamp=2.0, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, inverse @ error * 2.0 / np.linalg.norm(error), atol=1e-10)


def test_the_largest_step_is_kept(lab, linear):
    _, inverse, error = linear
    pose = lab.one_step("pseudoinverse", TARGET, best=False, max_step=0.1)
    step = inverse @ error
    np.testing.assert_allclose(pose - lab.start, step * 0.1 / np.abs(step).max(), atol=1e-10)


def test_the_control_term_is_parent_linkagess(lab, linear):
    jacobian, inverse, error = linear
    gains, toward = np.array([0.1, 0.5, 0.2]), np.array([0.3, -0.2, 0.1])
    z = gains * (lab.start - toward)
    pose = lab.one_step("pseudoinverse", TARGET, gains=tuple(gains), toward=tuple(toward), **lab.raw)
    np.testing.assert_allclose(pose - lab.start, inverse @ error + (inverse @ jacobian - np.eye(3)) @ z, atol=1e-10)


def test_the_alternative_jacobian_uses_the_goal(lab, linear):
    _, _, error = linear
    frames = ps.forward(lab.arm, lab.start)
    arms = [TARGET - frames.position(f"joint{k + 1}") for k in range(3)]
    jacobian = np.cross([0.0, 0.0, 1.0], arms).T
    pose = lab.one_step("pseudoinverse", TARGET, pull_goal=True, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, np.linalg.pinv(jacobian) @ error, atol=1e-10)


def test_joints_are_as_strong_as_their_gains(lab):
    joints = [
        ps.Joint(j.name, j.motion, j.parent, offset=j.offset, gain=g)
        for j, g in zip(lab.arm.joints, (1.0, 0.0, 2.0), strict=True)
    ]
    arm = lab.arm.replace(joints=joints)
    pose = lab.one_step("pseudoinverse", TARGET, skeleton=arm, **lab.raw)
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position") * [1.0, 0.0, 2.0]
    error = TARGET - ps.forward(lab.arm, lab.start).position("tip")
    np.testing.assert_allclose(
        pose - lab.start, np.array([1.0, 0.0, 2.0]) * (np.linalg.pinv(jacobian) @ error), atol=1e-9
    )


def test_limits_inside_the_solve_lose_less_than_clamping_outside_it(lab):
    arm = ps.figures.planar_arm([15, 10, 5], limits=[(-3.0, 3.0), (-3.0, 0.8), (-3.0, 3.0)])
    goal = ps.forward(arm, lab.start).position("tip") + np.array([-1.5, -0.75, 0.0])
    gaps = {}
    for bounds in ("inside", "clamp"):
        pose = lab.one_step("pseudoinverse", goal, skeleton=arm, bounds=bounds, **lab.raw)
        assert (pose >= arm.lower).all()
        assert (pose <= arm.upper).all()
        gaps[bounds] = np.linalg.norm(ps.forward(arm, pose).position("tip") - goal)
    assert gaps["inside"] < 0.5 * gaps["clamp"]


def test_it_takes_positions_and_rotations_of_several_effectors_at_once(lab):
    skeleton, goals = lab.reachable("tree", 8, seed=2, kind=Pose)
    goals = [Position("end1", goals[0].position), Orientation("end2", goals[1].rotation), goals[2]]
    result = lab.solve(skeleton, goals, solver="pseudoinverse")
    lab.judge(skeleton, goals, result)
    assert result.ok.mean() >= 0.6


@pytest.mark.parametrize(
    "options", [{"bounds": "soft"}, {"clamp": 0.0}, {"max_step": -1.0}, {"relative": 2.0}], ids=lambda o: next(iter(o))
)
def test_it_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("pseudoinverse")(**options)


@pytest.mark.parametrize("options", [{"gains": (1.0, 2.0)}, {"toward": "there"}, {"toward": (1.0,) * 5}])
def test_it_refuses_options_that_do_not_fit_the_figure(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.solve(lab.arm, Position("tip", TARGET), solver=lab.get("pseudoinverse")(**options))
