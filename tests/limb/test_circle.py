"""The ranges of the swivel angle, against brute force."""

import numpy as np
import pytest

import posable as ps

ANGLES = np.linspace(-np.pi, np.pi, 720, endpoint=False) + 1.234e-4


def brute(limb, target, base, angles=ANGLES):
    return np.array([any(s.ok for s in limb.solutions(target, a, base=base)) for a in angles])


def agree(limb, target, base, angles=ANGLES):
    ranges = limb.swivel_ranges(target, base=base)
    inside = np.array([any(a in r for r in ranges) for a in angles])
    wrong = angles[inside != brute(limb, target, base, angles)]
    ends = [end for r in ranges for end in r]
    return [a for a in wrong if not any(abs(np.sin(0.5 * (a - e))) < 1e-9 for e in ends)]


@pytest.mark.parametrize("seed", range(28))
def test_ranges_agree_with_brute_force(seed, make_case, balls):
    case = make_case(seed, balls[seed % 14], balls[(5 * seed + 3) % 14], widest=2.0 + seed % 5)
    pose = case.pose()
    target = case.hand(pose)
    assert not agree(case.limb, target, pose)
    assert any(case.limb.swivel(pose) in r for r in case.limb.swivel_ranges(target, base=pose))
    assert not agree(case.limb, target[:3, 3], pose, ANGLES[::4])


def test_limits_may_cross_whole_turns(make_arm):
    """[5, 7.5] is the same arc as [5 - 2 pi, 7.5 - 2 pi]; one of more than a turn is no limit."""
    limits = np.array([(-1.2, 1.3), (-1.0, 1.0), (-2.0, 2.0)])
    turned = limits + 2.0 * np.pi * np.array([[1], [-1], [2]])
    plain, far = make_arm(shoulder=limits, wrist=(-1.0, 0.8)), make_arm(shoulder=turned, wrist=(-1.0, 0.8))
    target = ps.forward(plain, plain.pose({"shoulder": (0.2, -0.3, 0.4), "elbow": 1.0})).matrix("hand")
    one = ps.Limb(plain, "shoulder", "elbow", "wrist", site="hand")
    other = ps.Limb(far, "shoulder", "elbow", "wrist", site="hand")
    assert np.abs(np.array(one.swivel_ranges(target)) - np.array(other.swivel_ranges(target))).max() < 1e-12
    solution = other.solve(target)
    assert solution.ok
    assert np.all(solution.pose >= far.lower)
    assert np.all(solution.pose <= far.upper)
    wide = ps.Limb(make_arm(shoulder=(-3.2, 3.2), wrist=(-10, 10)), "shoulder", "elbow", "wrist", site="hand")
    assert wide.swivel_ranges(target) == [(-np.pi, np.pi)]


def test_a_range_across_pi_is_one_range(make_case):
    found = 0
    for seed in range(40):
        case = make_case(seed)
        pose = case.pose()
        for lo, hi in case.limb.swivel_ranges(case.hand(pose), base=pose):
            assert -np.pi <= lo < np.pi
            assert lo <= hi <= lo + 2.0 * np.pi
            found += hi > np.pi
    assert found


def test_the_ends_name_the_limits_that_make_them(make_case):
    for seed in range(20):
        case = make_case(seed)
        pose = case.pose()
        target = case.hand(pose)
        for r in case.limb.swivel_ranges(target, base=pose):
            for end, name in zip(r, (r.lo_limit, r.hi_limit), strict=True):
                if not name:
                    continue
                dof, side = name.split()
                k = case.skeleton.dof(dof)
                bound = (case.skeleton.lower if side == "lower" else case.skeleton.upper)[k]
                at = [s.pose[k] for s in case.limb.solutions(target, end, base=pose) if s.clearance > -1e-6]
                assert min(abs(np.sin(0.5 * (x - bound))) for x in at) < 1e-7


def test_a_joint_without_play_leaves_single_angles(make_arm):
    skeleton = make_arm(wrist=[(-1.0, 1.0), (0.25, 0.25), (-1.0, 1.0)])
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    pose = skeleton.pose({"shoulder": (0.3, 0.2, -0.4), "elbow": 1.1, "wrist": (0.2, 0.25, -0.3)})
    target = ps.forward(skeleton, pose).matrix("hand")
    ranges = limb.swivel_ranges(target)
    assert any(abs(np.sin(0.5 * (r[0] - limb.swivel(pose)))) < 1e-9 and r.width < 1e-9 for r in ranges)
    solution = limb.solve(target)
    assert solution.ok
    assert solution.pose[5] == 0.25
    assert np.abs(ps.forward(skeleton, solution.pose).matrix("hand") - target).max() < 1e-9


def test_without_limits_the_whole_circle_is_free(make_case):
    case = make_case(9, limits=False)
    pose = case.pose()
    assert case.limb.swivel_ranges(case.hand(pose), base=pose) == [(-np.pi, np.pi)]


def test_out_of_reach_there_is_no_range(make_case):
    case = make_case(9)
    assert case.limb.swivel_ranges((100.0, 0.0, 0.0)) == []
