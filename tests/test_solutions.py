"""All solutions: known counts, limits, whole turns, redundancy, and three ways to find those of a six-axis arm."""

import time

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError

g = ps.goals


def six_axis_arm():
    """A UR-like arm: three parallel axes."""
    rows = [(0, np.pi / 2, 0.089, 0), (-0.425, 0, 0, 0), (-0.392, 0, 0, 0), (0, np.pi / 2, 0.109, 0),
            (0, -np.pi / 2, 0.095, 0), (0, 0, 0.082, 0)]  # fmt: skip
    return ps.from_dh(rows, limits=np.tile([-2 * np.pi, 2 * np.pi], (6, 1)))


def gap(pose, other):
    difference = np.asarray(pose) - other
    return np.abs(difference - 2 * np.pi * np.round(difference / (2 * np.pi))).max(axis=-1)


def test_an_elbow_bends_both_ways():
    arm = ps.figures.planar_arm([1.0, 1.0])
    free = arm.with_limits(dict.fromkeys(arm.names, None))
    angle = 2.0 * np.arccos(0.5)  # of the elbow, for a tip at distance 1
    found = ps.solutions(
        free, g.Position(free.site_names[-1], ps.forward(free, [0.3, angle]).position(free.site_names[-1]))
    )
    assert found.shape == (2, 2)
    assert not found.redundant
    assert found.completeness > 0.99
    np.testing.assert_allclose(np.sort(np.abs(found[:, 1])), [angle, angle], atol=1e-6)
    narrow = arm.with_limits({arm.names[-1]: (0.0, 3.0)})
    one = ps.solutions(
        narrow, g.Position(arm.site_names[-1], ps.forward(arm, [0.3, angle]).position(arm.site_names[-1]))
    )
    assert (one[:, 1] > 0).all()


def test_nothing_reaches():
    arm = ps.figures.planar_arm([1.0, 1.0])
    found = ps.solutions(arm, g.Position(arm.site_names[-1], (9.0, 0.0, 0.0)))
    assert found.shape == (0, 2)


def test_nearest_to_the_start_comes_first():
    arm = six_axis_arm()
    rng = np.random.default_rng(1)
    pose = rng.uniform(-2.0, 2.0, 6)
    goal = g.Pose("tool", ps.forward(arm, pose).matrix("tool"))
    for start in (pose, -pose, np.zeros(6)):
        found = ps.solutions(arm, goal, start=start)
        away = np.linalg.norm(found - start, axis=1)
        assert (np.diff(away) >= 0.0).all()
        assert ((found >= arm.lower) & (found <= arm.upper)).all()
    assert gap(ps.solutions(arm, goal, start=pose)[0], pose) < 1e-6
    result = ps.solve(arm, goal, start=pose + 0.3, nearest=True)
    assert result.ok
    assert gap(result.pose, pose) < 1e-4


@pytest.mark.parametrize("way", ["closed form", "elimination", "search"])
def test_all_solutions_of_a_six_axis_arm(way, monkeypatch):
    if way != "closed form":
        monkeypatch.setattr("posable._solutions._in_closed_form", lambda *arguments: None)
    if way == "search":
        monkeypatch.setattr("posable._solutions._by_elimination", lambda *arguments: None)
    arm = six_axis_arm()
    rng = np.random.default_rng(7)
    for _ in range(3):
        pose = rng.uniform(-2.0, 2.0, 6)
        goal = g.Pose("tool", ps.forward(arm, pose).matrix("tool"))
        found = ps.solutions(arm, goal)
        assert found.exact == (way != "search")
        assert len(found) in (2, 4, 6, 8)
        assert gap(found, pose).min() < 1e-6
        errors = ps.Problem(arm, goal).errors(np.asarray(found))
        assert all(error.max() < 1e-7 for error in errors.values())
        assert min(gap(a, b) for i, a in enumerate(found) for b in found[:i]) > 1e-3


def test_a_redundant_arm_is_sampled():
    panda = ps.figures.panda()
    site = panda.site_names[-1]
    found = ps.solutions(panda, g.Pose(site, ps.forward(panda, panda.rest).matrix(site)), n=8)
    assert found.shape == (8, panda.size)
    assert found.redundant
    assert min(gap(a, b) for i, a in enumerate(found) for b in found[:i]) > 0.05


@pytest.mark.parametrize("n", [None, 3])
def test_a_tool_in_the_hand_changes_neither_the_number_nor_the_way(n):
    arm = six_axis_arm()
    pose, tool = np.array([0.5, -1.0, 1.2, -0.7, 0.8, 0.3]), np.array([0.03, -0.05, 0.15])
    target = ps.forward(arm, pose).matrix("tool")
    bare = ps.solutions(arm, g.Pose("tool", target), start=pose, n=n)
    target[:3, 3] += target[:3, :3] @ tool
    found = ps.solutions(arm, g.Pose("tool", target, point=tool), start=pose, n=n)
    assert found.exact
    np.testing.assert_allclose(found, bare, atol=1e-9)


def with_gripper(arm):
    """The arm with two fingers, of which the second follows the first, and a free third."""
    fingers = [
        ps.Joint(name, ps.Prismatic(axis), arm.names[-1], limits=(0.0, 0.04))
        for name, axis in (("one", "y"), ("two", "-y"), ("three", "x"))
    ]
    joints = [*arm.joints, *fingers]
    return arm.replace(joints=joints, couplings=[("two", "one", 1.0, 0.0)])


def test_a_gripper_that_no_goal_moves_keeps_its_start():
    arm = ps.figures.planar_arm([1.0, 1.0])
    hand = with_gripper(arm)
    site = arm.site_names[-1]
    goal = g.Position(site, ps.forward(arm, [0.3, 1.0]).position(site))
    start = hand.rest.copy()
    start[2:] = 0.01, 0.01, 0.02
    found, bare = ps.solutions(hand, goal, start=start), ps.solutions(arm, goal)
    assert not found.redundant
    np.testing.assert_allclose(found[:, 2:], np.tile(start[2:], (len(found), 1)), atol=1e-12)
    assert len(found) == len(bare)
    start[3] = 0.03  # the follower is elsewhere: it has to move
    found = ps.solutions(hand, goal, start=start, n=4)
    assert len(found)
    np.testing.assert_allclose(found[:, 3], found[:, 2], atol=1e-6)
    np.testing.assert_array_equal(found[:, 4], start[4])


@pytest.mark.parametrize("weight", [(1.0, 0.0), (0.0, 1.0), [1, 1, 0, 1, 1, 1]])
def test_axes_of_weight_zero_are_free(weight):
    arm = six_axis_arm()
    target = ps.forward(arm, np.array([0.5, -1.0, 1.2, -0.7, 0.8, 0.3])).matrix("tool")
    found = ps.solutions(arm, g.Pose("tool", target, weight=weight), n=12)
    assert found.redundant
    assert len(found) == 12
    away = np.abs(ps.forward(arm, found).matrix("tool") - target).max(axis=(1, 2))
    assert away.max() > 0.1


def test_a_search_ends_with_its_time_limit():
    human = ps.figures.human()
    goals = [g.Position("hand.R", (0.3, 1.2, 0.3)), g.Position("foot.L", (0.1, 0.1, 0.1))]
    found = ps.solutions(human, goals, time_limit=100.0)
    assert len(found)
    none = ps.solutions(human, goals, time_limit=0.0)
    assert (len(none), none.completeness) == (0, 0.0)
    begin = time.process_time()
    ps.solutions(human, goals, n=10_000, time_limit=0.1)
    assert time.process_time() - begin < 0.5  # without a limit it takes seconds
    with pytest.raises(SolverError, match="time_limit"):
        ps.solutions(human, goals, time_limit=-1.0)


def test_what_is_refused():
    arm = ps.figures.planar_arm([1.0, 1.0])
    with pytest.raises(SolverError, match="goals for one pose"):
        ps.solutions(arm, g.Position(arm.site_names[-1], np.zeros((4, 3))))
    with pytest.raises(SolverError, match="a positive integer"):
        ps.solutions(arm, g.Position(arm.site_names[-1], (1, 0, 0)), n=0)
