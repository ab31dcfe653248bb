"""Straight limbs, targets at the first joint, targets at full reach: answered, continuous, never NaN."""

import numpy as np
import pytest

import posable as ps


def limb_of(skeleton):
    return ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")


def check(skeleton, solution, target, tolerance=1e-9):
    assert np.all(np.isfinite(solution.pose))
    assert np.isfinite(solution.swivel)
    assert solution.ok, solution.message
    at = ps.forward(skeleton, solution.pose).matrix("hand")
    got = at if np.ndim(target) == 2 else at[:3, 3]
    assert np.abs(got - target).max() < tolerance


@pytest.mark.parametrize("order", ["zyx", "zyz", "xyx", "rotvec", "swing-twist"])
@pytest.mark.parametrize("limits", [None, (-1.5, 1.5)])
def test_the_straight_rest_pose_is_found(order, limits, make_arm):
    skeleton = make_arm(order, order, shoulder=limits, wrist=limits)
    limb = limb_of(skeleton)
    target = ps.forward(skeleton, skeleton.rest).matrix("hand")
    for goal in (target, target[:3, 3]):
        check(skeleton, limb.solve(goal), goal)
        for swivel in (-2.0, 0.0, 0.7):
            check(skeleton, limb.solve(goal, swivel=swivel, limits=False), goal)
    assert limb.swivel_ranges(target)
    assert np.isfinite(limb.swivel(skeleton.rest))
    assert limb.elbow_circle(target).radius < 1e-9
    assert all(np.all(np.isfinite(s.pose)) for s in limb.solutions(target))


@pytest.mark.parametrize("order", ["zyx", "zyz", "rotvec", "swing-twist"])
def test_targets_at_the_shoulder(order, make_arm):
    skeleton = make_arm(order, order, upper=0.25, lower=0.25, bend=(-np.pi, np.pi))
    limb = limb_of(skeleton)
    target = np.eye(4)
    target[0, 3] = 0.1  # the wrist on the shoulder
    check(skeleton, limb.solve(target), target)
    check(skeleton, limb.solve(target, swivel=1.0), target)
    for small in (1e-3, 1e-6, 1e-8, 1e-9, 1e-12, 1e-15, 1e-300):
        near = target.copy()
        near[1, 3] = small
        check(skeleton, limb.solve(near), near)
    place = np.zeros(3)
    solution = limb.solve(place)  # the hand on the shoulder
    check(skeleton, solution, place)
    assert np.isfinite(limb.swivel(solution.pose))


def test_targets_at_full_reach_and_around_it(make_arm):
    skeleton = make_arm()
    limb = limb_of(skeleton)
    direction = np.array([1.0, 2.0, -0.5]) / np.linalg.norm([1.0, 2.0, -0.5])
    reach = 0.3 + 0.25 + 0.1
    for short in (1e-3, 1e-6, 1e-9, 1e-12, 1e-15, 0.0, -1e-15, -1e-12):
        goal = (reach - short) * direction
        check(skeleton, limb.solve(goal), goal)
    over = limb.solve((reach + 1e-6) * direction)
    assert not over.ok
    assert "too far" in over.message
    assert over.position_error == pytest.approx(1e-6, rel=1e-3)


def test_the_elbow_does_not_jump_as_the_limb_straightens(make_arm):
    for bend in ((0.0, 2.6), (-2.6, 0.0)):
        skeleton = make_arm(bend=bend)
        limb = limb_of(skeleton)
        reach = 0.65
        goals = np.stack([np.linspace(reach - 0.02, reach, 400), np.zeros(400), np.full(400, 0.0)], axis=1)
        solution = limb.solve(goals, swivel=0.4)
        assert solution.ok.all()
        steps = np.abs(np.diff(solution.pose, axis=0)).max(axis=1)
        assert steps.max() < 0.06  # the bend itself goes like a square root
        assert np.all(np.isfinite(limb.swivel(solution.pose)))


def test_a_target_along_the_reference_direction(make_arm):
    skeleton = make_arm()
    limb = limb_of(skeleton)
    for goal in ((0.0, -0.4, 0.0), (0.0, 0.4, 0.0), (1e-12, -0.4, 0.0)):
        check(skeleton, limb.solve(goal), np.array(goal))
        circle = limb.elbow_circle(goal)
        assert abs(circle.u @ circle.normal) < 1e-12
        assert np.linalg.norm(circle.u) == pytest.approx(1.0)


def test_gimbal_lock_holds_the_limits(make_arm):
    """At the middle angle's singular value only the sum of the outer angles counts: any split will do."""
    skeleton = make_arm(
        "zyz", "zyz", shoulder=[(-0.5, 0.5), (0.0, 2.0), (-0.9, 0.9)], wrist=[(0.2, 1.0), (-1, 1), (-0.3, 0.3)]
    )
    limb = limb_of(skeleton)
    pose = skeleton.pose({"shoulder": (0.4, 0.0, 0.8), "elbow": 1.0, "wrist": (0.9, 0.0, 0.2)})
    target = ps.forward(skeleton, pose).matrix("hand")
    solution = limb.solve(target, swivel=limb.swivel(pose))
    check(skeleton, solution, target)
    assert np.all(solution.pose >= skeleton.lower)
    assert np.all(solution.pose <= skeleton.upper)


def test_a_skew_hinge_never_straightens(make_case):
    case = make_case(11, limits=False)
    near, far = case.limb.reach_of(limits=False)
    assert 0.0 < near < far
    for distance in (near, far, 0.5 * (near + far)):
        shoulder = ps.forward(case.skeleton, case.skeleton.rest).position("shoulder")
        target = np.eye(4)
        target[:3, 3] = shoulder + distance * np.array([0.0, 0.6, 0.8]) + target[:3, :3] @ case.limb.tool_in_site()
        solution = case.limb.solve(target)
        assert solution.ok
        assert np.abs(case.hand(solution.pose) - target).max() < 1e-9
