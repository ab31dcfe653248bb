"""Out of reach: the limits are held, the place comes first, the message says why."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import posable as ps


def test_too_far_points_the_limb_at_the_target(make_arm):
    skeleton = make_arm(wrist=(-3, 3))
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    target = np.eye(4)
    target[:3, :3] = Rotation.from_euler("zyx", (0.3, 0.2, 0.1)).as_matrix()
    target[:3, 3] = (0.5, 0.9, 0.2)
    solution = limb.solve(target)
    assert (solution.ok, solution.status) == (False, "TOO_FAR")
    assert "too far" in solution.message
    at = ps.forward(skeleton, solution.pose)
    assert np.abs(at.matrix("hand")[:3, :3] - target[:3, :3]).max() < 1e-9  # the orientation is still met
    goal = target[:3, 3] - 0.1 * target[:3, 0]
    assert np.abs(at.position("wrist") - 0.55 * goal / np.linalg.norm(goal)).max() < 1e-9
    assert solution.position_error == pytest.approx(np.linalg.norm(goal) - 0.55)


def test_too_near_by_the_limits_of_the_bend(make_arm):
    skeleton = make_arm(bend=(0.0, 1.5))
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    target = np.eye(4)
    target[:3, 3] = (0.2, 0.05, 0.0)
    solution = limb.solve(target)
    assert (solution.ok, solution.status) == (False, "TOO_NEAR")
    assert "too near" in solution.message
    assert solution.pose[3] == 1.5
    assert limb.solve(target, limits=False).ok


def test_without_limits_out_of_reach_still_answers(make_arm):
    limb = ps.Limb(make_arm(), "shoulder", "elbow", "wrist", site="hand")
    for goal in ((3.0, 0.0, 0.0), (0.0, 5.0, 1.0)):
        solution = limb.solve(goal, limits=False)
        assert not solution.ok
        assert "too far" in solution.message
        assert solution.position_error == pytest.approx(np.linalg.norm(goal) - 0.65, abs=1e-9)


def test_no_swivel_names_the_joints_in_the_way(make_arm):
    skeleton = make_arm(wrist=[(-0.1, 0.1)] * 3)
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    target = np.eye(4)
    target[:3, :3] = Rotation.from_euler("y", 3.0).as_matrix()
    target[:3, 3] = (0.3, 0.1, 0.1)
    solution = limb.solve(target)
    assert (solution.ok, solution.status) == (False, "NO_SWIVEL")
    assert "no swivel" in solution.message
    assert (
        np.abs(ps.forward(skeleton, solution.pose).position("wrist") - (target[:3, 3] - 0.1 * target[:3, 0])).max()
        < 1e-9
    )
    assert np.all(solution.pose >= skeleton.lower)
    assert np.all(solution.pose <= skeleton.upper)


@pytest.mark.parametrize("seed", range(5))
def test_the_orientation_left_is_least(seed, make_case):
    """Against a general optimiser over all seven numbers with the wrist's place as a constraint, from many starts."""
    case = make_case(seed)
    limb, rng = case.limb, np.random.default_rng(seed)
    pose = case.pose()
    target = case.hand(pose)
    target[:3, :3] = Rotation.random(random_state=rng).as_matrix()
    wrist = ps.forward(case.skeleton, pose).position("wrist")
    target[:3, 3] = wrist + target[:3, :3] @ limb.tool_in_site()  # the wrist can be where it is
    solution = limb.solve(target, base=pose)
    if solution.ok:
        return
    assert np.abs(ps.forward(case.skeleton, solution.pose).position("wrist") - wrist).max() < 1e-8
    assert case.holds(solution.pose)
    columns = limb.columns
    bounds = list(zip(case.skeleton.lower[columns], case.skeleton.upper[columns], strict=True))

    def at(x):
        full = pose.copy()
        full[columns] = x
        return ps.forward(case.skeleton, full)

    def cost(x):
        return Rotation.from_matrix(at(x).rotation_matrix("hand").T @ target[:3, :3]).magnitude() ** 2

    def off(x):
        return 10.0 * (at(x).position("wrist") - wrist)

    tries = [
        minimize(cost, case.pose()[columns], bounds=bounds, method="SLSQP", constraints=[{"type": "eq", "fun": off}])
        for _ in range(8)
    ]
    best = min((found.fun for found in tries if np.abs(off(found.x)).max() < 1e-6), default=np.inf)
    assert solution.rotation_error**2 <= best + 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_where_the_first_joint_shuts_the_place_out_the_wrist_comes_nearest(seed, make_case):
    case = make_case(40 + seed, widest=1.0)
    limb, rng = case.limb, np.random.default_rng(seed)
    pose = case.pose()
    target = case.hand(pose)
    target[:3, 3] += 0.3 * rng.normal(size=3)
    solution = limb.solve(target, base=pose)
    assert case.holds(solution.pose)
    if solution.ok:
        return
    goal = target[:3, 3] - target[:3, :3] @ limb.tool_in_site()
    columns = limb.columns[:4]
    bounds = list(zip(case.skeleton.lower[columns], case.skeleton.upper[columns], strict=True))

    def gap(x):
        full = pose.copy()
        full[columns] = x
        return np.sum((ps.forward(case.skeleton, full).position("wrist") - goal) ** 2)

    best = min(minimize(gap, case.pose()[columns], bounds=bounds, method="L-BFGS-B").fun for _ in range(12))
    assert solution.position_error <= np.sqrt(best) + 1e-5


def test_batches_mix_what_is_reached_and_what_is_not(make_arm):
    limb = ps.Limb(make_arm(), "shoulder", "elbow", "wrist", site="hand")
    solution = limb.solve([(0.4, 0.1, 0.0), (4.0, 0.0, 0.0), (0.3, 0.3, 0.1)])
    assert solution.ok.tolist() == [True, False, True]
    assert solution.message.tolist() == ["reached", "too far", "reached"]
    assert solution.status.tolist() == ["REACHED", "TOO_FAR", "REACHED"]


@pytest.fixture(scope="module")
def right_arm():
    human = ps.figures.human()
    return ps.Limb(human, "shoulder.R", "elbow.R", "wrist.R", site="hand.R")


def pose_of(limb, numbers, base=None):
    pose = (limb.skeleton.rest if base is None else base).copy()
    pose[limb.columns[: len(numbers)]] = numbers
    return pose


def partial_errors(limb, numbers, place, axis, along):
    """The site's distance [m] and the axis' angle [rad], by forward kinematics alone."""
    at = ps.forward(limb.skeleton, pose_of(limb, numbers))
    turned = at.rotation_matrix(limb.site) @ axis
    return np.linalg.norm(at.position(limb.site) - place), np.arccos(np.clip(turned @ along, -1.0, 1.0))


def nearest_by_slsqp(limb, place, axis, along, rng):
    """(distance, angle) found by SciPy: the place first, then the angle with the place as a constraint."""
    low, high = limb.skeleton.lower[limb.columns], limb.skeleton.upper[limb.columns]
    bounds = list(zip(low, high, strict=True))

    def site(x):
        return ps.forward(limb.skeleton, pose_of(limb, x)).position(limb.site)

    near = minimize(
        lambda x: 100.0 * np.sum((site(x) - place) ** 2), rng.uniform(low, high), bounds=bounds, method="L-BFGS-B"
    )
    there = site(near.x)
    found = minimize(
        lambda x: 1.0 - np.cos(partial_errors(limb, x, place, axis, along)[1]), near.x, bounds=bounds, method="SLSQP",
        constraints=[{"type": "eq", "fun": lambda x: 10.0 * (site(x) - there)}], options={"maxiter": 60},
    )  # fmt: skip
    return partial_errors(limb, np.clip(found.x, low, high), place, axis, along)


@pytest.mark.parametrize("seed", range(6))
def test_a_partial_orientation_out_of_reach_is_nearest_in_place_then_in_direction(seed, right_arm):
    limb, rng = right_arm, np.random.default_rng(100 + seed)
    low, high = limb.skeleton.lower[limb.columns], limb.skeleton.upper[limb.columns]
    axis = np.eye(3)[seed % 3]
    while True:
        place = ps.forward(limb.skeleton, pose_of(limb, rng.uniform(low, high))).position("hand.R")
        place = place + (0.15 * rng.normal(size=3) if seed % 3 == 2 else 0.0)
        along = rng.normal(size=3)
        along /= np.linalg.norm(along)
        solution = limb.solve_partial(place, axis, along)
        if not solution.ok:
            break
    distance, angle = partial_errors(limb, solution.pose[limb.columns], place, axis, along)
    assert np.all(solution.pose >= limb.skeleton.lower)
    assert np.all(solution.pose <= limb.skeleton.upper)
    assert solution.position_error == pytest.approx(distance, abs=1e-9)
    assert solution.rotation_error == pytest.approx(angle, abs=1e-7)
    tries = [nearest_by_slsqp(limb, place, axis, along, rng) for _ in range(5)]
    assert distance <= min(other for other, _ in tries) + 1e-5
    assert angle <= min((left for other, left in tries if other <= distance + 1e-6), default=np.inf) + 1e-3


@pytest.mark.parametrize(
    ("wrist", "point", "axis"),
    [
        ((-0.789, 0.23, -0.776), (-0.035, 1.352, -0.151), (0.543, 0.488, 0.683)),
        ((1.309, -0.076, -0.523), (0.237, 1.329, -0.208), (-0.935, 0.27, -0.229)),
        ((-0.42, 0.455, -0.032), (-0.511, 1.219, -0.24), (0.28, -0.432, 0.857)),
    ],
)
def test_an_aim_out_of_reach_is_nearest(wrist, point, axis, right_arm):
    """Against 20,000 random poses and descents from the best of them."""
    limb, columns = right_arm, right_arm.columns[:4]
    low, high = limb.skeleton.lower, limb.skeleton.upper
    axis = np.array(axis) / np.linalg.norm(axis)
    base = limb.skeleton.rest.copy()
    base[limb.columns[4:]] = wrist
    solution = limb.aim(point, axis, base=base)

    def left(rows):
        poses = np.repeat(base[None], len(rows), axis=0)
        poses[:, columns] = rows
        at = ps.forward(limb.skeleton, poses)
        towards = point - at.position("hand.R")
        towards /= np.linalg.norm(towards, axis=1, keepdims=True)
        return np.arccos(np.clip(np.sum((at.rotation_matrix("hand.R") @ axis) * towards, axis=1), -1.0, 1.0))

    samples = np.random.default_rng(0).uniform(low[columns], high[columns], (20000, 4))
    angles = left(samples)
    bounds = list(zip(low[columns], high[columns], strict=True))
    best = min(
        minimize(lambda x: left(x[None])[0], samples[k], bounds=bounds, method="L-BFGS-B").fun
        for k in np.argsort(angles)[:4]
    )
    assert np.all(solution.pose >= low - 1e-12)
    assert np.all(solution.pose <= high + 1e-12)
    assert left(solution.pose[None, columns])[0] <= min(best, angles.min()) + 1e-6
