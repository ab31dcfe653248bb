"""Partial orientation, aiming, objectives along the swivel, and the planar arm."""

import math

import numpy as np
import pytest

import posable as ps
from posable.limb import two_link
from posable.limb.redundancy import reachable_spins, swivel_rates


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_partial_orientation(seed, limits, make_case, balls):
    case = make_case(seed, balls[(3 * seed) % 14], balls[(5 * seed + 1) % 14])
    for _ in range(3):
        pose = case.pose()
        target = case.hand(pose)
        axis = case.rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        along = target[:3, :3] @ axis
        solution = case.limb.solve_partial(target[:3, 3], axis, along, limits=limits, base=pose)
        got = case.hand(solution.pose)
        assert solution.ok, solution.message
        assert np.abs(got[:3, 3] - target[:3, 3]).max() < 1e-9
        assert np.abs(got[:3, :3] @ axis - along).max() < 1e-8
        assert case.holds(solution.pose) or not limits


def test_the_spin_moves_the_wrist_as_asked(make_arm):
    skeleton = make_arm(bend=(-3.1, 3.1))
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    place, along = (0.35, 0.1, 0.1), np.array([1.0, 0.5, 0.2]) / np.linalg.norm([1.0, 0.5, 0.2])
    heights, wrists = [], []
    spins = np.linspace(-np.pi, np.pi, 181)
    for spin in spins:
        solution = limb.solve_partial(place, "y", along, spin=spin, limits=False)
        assert solution.spin == pytest.approx((spin + np.pi) % (2 * np.pi) - np.pi)
        wrists.append(ps.forward(skeleton, solution.pose).position("wrist"))
    heights = np.array(wrists)[:, 1]
    for word, best in (("highest", heights.max()), ("lowest", heights.min())):
        solution = limb.solve_partial(place, "y", along, wrist=word, limits=False)
        assert ps.forward(skeleton, solution.pose).position("wrist")[1] == pytest.approx(best, abs=1e-3)
    point = np.array([0.2, -0.1, 0.4])
    solution = limb.solve_partial(place, "y", along, wrist=point, limits=False)
    gap = np.linalg.norm(ps.forward(skeleton, solution.pose).position("wrist") - point)
    assert gap <= np.linalg.norm(np.array(wrists) - point, axis=1).min() + 1e-9


def test_reachable_spins_agree_with_the_distance(make_case):
    case = make_case(3)
    limb = case.limb
    pose = case.pose()
    target = case.hand(pose)
    axis = np.array([1.0, 0, 0])
    ranges = reachable_spins(limb, target[:3, 3], axis, target[:3, 0], base=pose)
    shoulder = ps.forward(case.skeleton, pose).position("shoulder")
    near, far = limb.reach_of()
    for spin in np.linspace(-3.1, 3.1, 200):
        solution = limb.solve_partial(target[:3, 3], axis, target[:3, 0], spin=spin, limits=False, base=pose)
        wrist = ps.forward(case.skeleton, solution.pose).position("wrist")
        inside = bool(solution.ok) and near <= np.linalg.norm(wrist - shoulder) <= far
        assert inside == any((spin - lo) % (2 * np.pi) <= hi - lo for lo, hi in ranges)


def test_partial_out_of_reach_holds_the_limits(make_arm):
    skeleton = make_arm(wrist=(-0.4, 0.4), shoulder=(-1.0, 1.0))
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    for place, along in (((2.0, 0, 0), (0, 1, 0)), ((0.3, 0.2, 0.0), (-1, 0, 0))):
        solution = limb.solve_partial(place, "x", along)
        assert not solution.ok
        assert solution.message
        assert np.all(solution.pose >= skeleton.lower)
        assert np.all(solution.pose <= skeleton.upper)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_aiming(seed, limits, given, make_case, balls):
    case = make_case(50 + seed, balls[(3 * seed) % 14], balls[(5 * seed + 1) % 14])
    for _ in range(3):
        pose = case.pose()
        hand = case.hand(pose)
        axis = case.rng.normal(size=3)
        axis /= np.linalg.norm(axis)
        point = hand[:3, 3] + case.rng.uniform(0.1, 3.0) * hand[:3, :3] @ axis
        bend = pose[case.limb.columns[3]] if given else None
        solution = case.limb.aim(point, axis, bend=bend, limits=limits, base=pose)
        assert solution.ok, solution.message
        at = ps.forward(case.skeleton, solution.pose)
        towards = point - at.position("hand")
        assert np.abs(at.rotation_matrix("hand") @ axis - towards / np.linalg.norm(towards)).max() < 1e-9
        assert case.holds(solution.pose) or not limits
        assert np.array_equal(solution.pose[case.limb.columns[4:]], pose[case.limb.columns[4:]])
        if given:
            assert solution.pose[case.limb.columns[3]] == bend


def test_an_aim_out_of_reach_comes_near(make_arm):
    skeleton = make_arm(shoulder=(-0.3, 0.3), bend=(0.0, 0.5))
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    solution = limb.aim((-5.0, 0.0, 0.0), "x")
    assert not solution.ok
    assert "misses" in solution.message
    assert np.all(solution.pose >= skeleton.lower)
    assert np.all(solution.pose <= skeleton.upper)
    assert limb.aim((5.0, 0.5, 0.3), "x").ok


@pytest.mark.parametrize("seed", range(5))
def test_an_objective_is_least_along_the_swivel(seed, make_case, balls):
    case = make_case(seed, balls[(4 * seed) % 14], balls[(5 * seed + 1) % 14])
    limb, columns = case.limb, case.limb.columns
    pose = case.pose()
    target = case.hand(pose)
    middle = 0.5 * (case.skeleton.lower[columns] + case.skeleton.upper[columns])

    def value(x):
        return float(np.sum((x[columns] - middle) ** 2))

    def value_and_gradient(x):
        gradient = np.zeros_like(x)
        gradient[columns] = 2.0 * (x[columns] - middle)
        return value(x), gradient

    best = min(
        value(s.pose) for a in np.linspace(-np.pi, np.pi, 361) for s in limb.solutions(target, a, base=pose) if s.ok
    )
    plain = limb.solve(target, objective=value, base=pose)
    sloped = limb.solve(target, objective=value_and_gradient, base=pose)
    assert plain.ok
    assert case.holds(plain.pose)
    assert value(plain.pose) <= best + 1e-6
    assert value(sloped.pose) == pytest.approx(value(plain.pose), abs=1e-7)


@pytest.mark.parametrize("kind", range(14))
def test_the_rates_of_the_joint_angles(kind, make_case, balls):
    case = make_case(kind, balls[kind], balls[13 - kind], limits=False)
    limb = case.limb
    pose = case.pose()
    for target, held in ((case.hand(pose), False), (case.hand(pose)[:3, 3], True)):
        step = 1e-6

        def at(angle, target=target):
            return limb.solutions(target, angle, base=pose)[0].pose

        numeric = (at(0.5 + step) - at(0.5 - step)) / (2.0 * step)
        exact = swivel_rates(limb, at(0.5), held=held)
        assert np.abs(numeric - exact).max() < 1e-6 * (1.0 + np.abs(exact).max())


def test_two_links():
    rng = np.random.default_rng(0)
    targets = rng.uniform(-30, 30, (200, 2))
    solutions, reached = two_link(15.0, 10.0, targets)
    distance = np.linalg.norm(targets, axis=1)
    assert np.array_equal(reached, (distance >= 5) & (distance <= 25))
    first, both = solutions[..., 0], solutions[..., 0] + solutions[..., 1]
    ends = 15 * np.stack([np.cos(first), np.sin(first)], -1) + 10 * np.stack([np.cos(both), np.sin(both)], -1)
    assert np.abs(ends - targets[:, None])[reached].max() < 1e-12
    assert np.all(solutions[:, 0, 1] >= 0)
    assert np.all(solutions[:, 1, 1] <= 0)
    one, ok = two_link(15.0, 10.0, (25.0, 0.0))
    assert ok
    assert np.abs(one).max() < 1e-12
    folded, ok = two_link(10.0, 10.0, (0.0, 0.0))
    assert ok
    assert abs(folded[0, 1]) == pytest.approx(math.pi)
    with pytest.raises(ps.PosableError, match="positive"):
        two_link(0.0, 1.0, (1.0, 0.0))
