"""The linear family: one step of each against NumPy, limits, gains, and what is refused."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Orientation, Pose, Position

# --- transpose ---

TARGET = np.array([-3.0, 12.0, 0.0])


def transpose_wanted(lab):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    return jacobian, TARGET - ps.forward(lab.arm, lab.start).position("tip")


def test_transpose_a_fixed_step(lab):
    jacobian, error = transpose_wanted(lab)
    pose = lab.one_step("transpose", TARGET, step=0.001, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, 0.001 * jacobian.T @ error, atol=1e-12)


def test_transpose_the_step_of_buss(lab):
    jacobian, error = transpose_wanted(lab)
    z = jacobian @ jacobian.T @ error
    pose = lab.one_step("transpose", TARGET, step="buss", **lab.raw)
    np.testing.assert_allclose(pose - lab.start, (error @ z) / (z @ z) * jacobian.T @ error, atol=1e-12)


def test_transpose_a_stiffness_scales_the_error(lab):
    jacobian, error = transpose_wanted(lab)
    pose = lab.one_step("transpose", TARGET, step=0.001, feedback=0.5, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, 0.0005 * jacobian.T @ error, atol=1e-12)


@pytest.mark.parametrize("step", [0.0, -1.0, "best", float("nan")])
def test_transpose_refuses_other_steps(lab, step):
    with pytest.raises(SolverError, match="step"):
        lab.get("transpose")(step=step)


def test_transpose_refuses_gains(lab):
    with pytest.raises(SolverError, match="gains"):
        lab.solve(lab.arm, Position("tip", TARGET), solver=lab.get("transpose")(gains=0.1))


# --- pseudoinverse ---


@pytest.fixture
def linear(lab):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    return jacobian, np.linalg.pinv(jacobian), TARGET - ps.forward(lab.arm, lab.start).position("tip")


def test_pseudoinverse_one_step(lab, linear):
    _, inverse, error = linear
    pose = lab.one_step("pseudoinverse", TARGET, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, inverse @ error, atol=1e-10)


def test_pseudoinverse_feedback_scales_and_clamp_cuts_what_is_asked(lab, linear):
    _, inverse, error = linear
    pose = lab.one_step("pseudoinverse", TARGET, feedback=0.25, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, 0.25 * inverse @ error, atol=1e-10)
    pose = lab.one_step("pseudoinverse", TARGET, clamp=2.0, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, inverse @ error * 2.0 / np.linalg.norm(error), atol=1e-10)


def test_pseudoinverse_the_largest_step_is_kept(lab, linear):
    _, inverse, error = linear
    pose = lab.one_step("pseudoinverse", TARGET, best=False, max_step=0.1)
    step = inverse @ error
    np.testing.assert_allclose(pose - lab.start, step * 0.1 / np.abs(step).max(), atol=1e-10)


def test_pseudoinverse_the_control_term_is_parent_linkagess(lab, linear):
    jacobian, inverse, error = linear
    gains, toward = np.array([0.1, 0.5, 0.2]), np.array([0.3, -0.2, 0.1])
    z = gains * (lab.start - toward)
    pose = lab.one_step("pseudoinverse", TARGET, gains=tuple(gains), toward=tuple(toward), **lab.raw)
    np.testing.assert_allclose(pose - lab.start, inverse @ error + (inverse @ jacobian - np.eye(3)) @ z, atol=1e-10)


def test_pseudoinverse_the_alternative_jacobian_uses_the_goal(lab, linear):
    _, _, error = linear
    frames = ps.forward(lab.arm, lab.start)
    arms = [TARGET - frames.position(f"joint{k + 1}") for k in range(3)]
    jacobian = np.cross([0.0, 0.0, 1.0], arms).T
    pose = lab.one_step("pseudoinverse", TARGET, pull_goal=True, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, np.linalg.pinv(jacobian) @ error, atol=1e-10)


def test_pseudoinverse_joints_are_as_strong_as_their_gains(lab):
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


def test_pseudoinverse_limits_inside_the_solve_lose_less_than_clamping_outside_it(lab):
    arm = ps.figures.planar_arm([15, 10, 5], limits=[(-3.0, 3.0), (-3.0, 0.8), (-3.0, 3.0)])
    goal = ps.forward(arm, lab.start).position("tip") + np.array([-1.5, -0.75, 0.0])
    gaps = {}
    for bounds in ("inside", "clamp"):
        pose = lab.one_step("pseudoinverse", goal, skeleton=arm, bounds=bounds, **lab.raw)
        assert (pose >= arm.lower).all()
        assert (pose <= arm.upper).all()
        gaps[bounds] = np.linalg.norm(ps.forward(arm, pose).position("tip") - goal)
    assert gaps["inside"] < 0.5 * gaps["clamp"]


def test_pseudoinverse_takes_positions_and_rotations_of_several_effectors_at_once(lab):
    skeleton, goals = lab.reachable("tree", 8, seed=2, kind=Pose)
    goals = [Position("end1", goals[0].position), Orientation("end2", goals[1].rotation), goals[2]]
    result = lab.solve(skeleton, goals, solver="pseudoinverse")
    lab.judge(skeleton, goals, result)
    assert result.ok.mean() >= 0.6


@pytest.mark.parametrize(
    "options", [{"bounds": "soft"}, {"clamp": 0.0}, {"max_step": -1.0}, {"relative": 2.0}], ids=lambda o: next(iter(o))
)
def test_pseudoinverse_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("pseudoinverse")(**options)


@pytest.mark.parametrize("options", [{"gains": (1.0, 2.0)}, {"toward": "there"}, {"toward": (1.0,) * 5}])
def test_pseudoinverse_refuses_options_that_do_not_fit_the_figure(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.solve(lab.arm, Position("tip", TARGET), solver=lab.get("pseudoinverse")(**options))


# --- dls ---


@pytest.mark.parametrize("form", ["rows", "columns"])
@pytest.mark.parametrize("damping", [0.1, 3.0])
def test_dls_one_step(lab, form, damping):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    error = TARGET - ps.forward(lab.arm, lab.start).position("tip")
    by_rows = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping**2 * np.eye(3), error)
    pose = lab.one_step("dls", TARGET, damping=damping, form=form, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, by_rows, atol=1e-9)


def test_dls_moves_off_nothing_at_a_singular_pose_but_stays_finite(lab):
    pose = lab.one_step("dls", (10.0, 0.0, 0.0), start=np.zeros(3), **lab.raw)  # straight, the goal on its own line
    np.testing.assert_allclose(pose, np.zeros(3), atol=1e-12)


@pytest.mark.parametrize("options", [{"damping": 0.0}, {"form": "square"}], ids=lambda o: next(iter(o)))
def test_dls_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("dls")(**options)


# --- sdls ---


def by_the_text(jacobian, error, most):
    """Buss and Kim 2005 for one effector of three rows."""
    u, sigma, vt = np.linalg.svd(jacobian)
    total = np.zeros(jacobian.shape[1])
    for i in range(min(jacobian.shape)):
        if sigma[i] < 1e-9:
            continue
        share = np.linalg.norm(u[:, i])
        reach = np.abs(vt[i]) @ np.linalg.norm(jacobian, axis=0) / sigma[i]
        phi = u[:, i] @ error / sigma[i] * vt[i]
        gamma = most * min(1.0, share / reach)
        total += phi * min(1.0, gamma / np.abs(phi).max())
    return total * min(1.0, most / np.abs(total).max())


@pytest.mark.parametrize("target", [(-3.0, 12.0, 0.0), (6.0, 24.0, 0.0), (29.0, 1.0, 0.0)])
def test_sdls_one_step(lab, target):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    error = np.array(target) - ps.forward(lab.arm, lab.start).position("tip")
    pose = lab.one_step("sdls", target, clamp=np.inf, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, by_the_text(jacobian, error, np.pi / 4), atol=1e-9)
    assert np.abs(pose - lab.start).max() <= np.pi / 4 + 1e-12


def test_sdls_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="max_angle"):
        lab.get("sdls")(max_angle=0.0)


# --- svd ---


@pytest.mark.parametrize("threshold", [1e-6, 0.9])
def test_svd_one_step(lab, threshold):
    jacobian = ps.jacobian(lab.arm, lab.start, "tip", rows="position")
    error = TARGET - ps.forward(lab.arm, lab.start).position("tip")
    pose = lab.one_step("svd", TARGET, threshold=threshold, **lab.raw)
    np.testing.assert_allclose(pose - lab.start, np.linalg.pinv(jacobian, rcond=threshold) @ error, atol=1e-9)


def test_svd_limits_count_only_at_the_end(lab):
    arm = ps.figures.planar_arm([15, 10, 5], limits=(-0.9, 0.9))
    goal = Position("tip", (-10.0, 10.0, 0.0))
    final = lab.solve(arm, goal, start=lab.start, solver="svd")
    free = lab.solve(arm, goal, start=lab.start, solver="svd", limits=False)
    assert free.ok
    np.testing.assert_allclose(final.pose, np.clip(free.pose, -0.9, 0.9), atol=1e-12)
    assert not final.ok
    better = lab.solve(arm, goal, start=lab.start, solver=lab.get("svd")(bounds="inside"))
    assert better.errors["tip"] <= final.errors["tip"]


def test_svd_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="threshold"):
        lab.get("svd")(threshold=1.5)


def test_svd_a_pose_that_is_only_put_into_the_box_at_the_end_is_not_called_stationary():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint2": (-0.1, 0.1)})
    result = ps.solve(arm, Position("tip", (0.3, 1.0, 0.0)), solver="svd")
    assert not result.ok
    assert abs(result.problem.gradient(result.pose)[0]) > 1e-3  # joint1 could still bring it nearer
    assert result.status == "OUT_OF_ITERATIONS"


# --- qr ---


def test_qr_few_rows(lab):
    arm = ps.figures.planar_arm([5, 4, 3, 2, 2])
    start = np.array([0.3, 0.4, -0.2, 0.5, 0.1])
    jacobian = ps.jacobian(arm, start, "tip", rows="position")
    error = TARGET - ps.forward(arm, start).position("tip")
    pose = lab.one_step("qr", TARGET, start=start, skeleton=arm, **lab.raw)
    np.testing.assert_allclose(pose - start, np.linalg.pinv(jacobian) @ error, atol=1e-10)


def test_qr_many_rows(lab):
    goals = [Position("tip", TARGET, tolerance=1e-12), Position("joint3", (1.0, 2.0, 0.0), tolerance=1e-12)]
    frames = ps.forward(lab.arm, lab.start)
    jacobian = np.vstack([ps.jacobian(lab.arm, lab.start, name, rows="position") for name in ("tip", "joint3")])
    error = np.concatenate([TARGET - frames.position("tip"), [1.0, 2.0, 0.0] - frames.position("joint3")])
    method = lab.get("qr")(**lab.raw)
    pose = lab.solve(lab.arm, goals, start=lab.start, solver=method, max_iterations=1).pose
    np.testing.assert_allclose(pose - lab.start, np.linalg.lstsq(jacobian, error)[0], atol=1e-9)


def test_qr_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="relative"):
        lab.get("qr")(relative=-1.0)
