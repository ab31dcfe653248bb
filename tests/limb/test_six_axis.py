"""Six-axis arms in closed form: every pose, against forward kinematics, EAIK and reversed arms; and `solve` by it."""

import pickle

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.limb.six_axis import PARALLEL, WRIST
from posable.limb.six_axis_arm import six_axis_arm, six_hinges

g = ps.goals
HALF = np.pi / 2
UR = [(0, HALF, 0.0892, 0), (-0.425, 0, 0, 0), (-0.3922, 0, 0, 0), (0, HALF, 0.1092, 0), (0, -HALF, 0.0947, 0),
      (0, 0, 0.0823, 0)]  # fmt: skip
KR16 = [(0.26, -HALF, 0.675, 0), (0.68, 0, 0, 0), (-0.035, HALF, 0, 0), (0, -HALF, 0.67, 0), (0, HALF, 0, 0),
        (0, 0, 0.115, 0)]  # fmt: skip
PUMA = [(0, HALF, 0, 0), (0.4318, 0, 0, 0), (0.0203, -HALF, 0.15, 0), (0, HALF, 0.4318, 0), (0, -HALF, 0, 0),
        (0, 0, 0, 0)]  # fmt: skip
SKEW = [(0.1, 1.1, 0.3, 0.2), (0.4, 0.7, 0.1, 0), (0.2, -1.3, -0.05, 0.4), (0, HALF, 0.3, 0), (0, -1.2, 0, 0.3),
        (0, 0, 0.1, 0)]  # fmt: skip
SCARA = [(0.4, 0, 0.3, 0), (0.35, 0.9, 0, 0), (0.1, HALF, 0, 0), (0, -HALF, 0.3, 0), (0, HALF, 0, 0), (0, 0, 0.1, 0)]
ARMS = {"ur": (UR, PARALLEL), "kr16": (KR16, WRIST), "puma": (PUMA, WRIST), "skew": (SKEW, WRIST),
        "scara": (SCARA, WRIST)}  # fmt: skip
NONE = [(0.1, HALF, 0.3, 0), (0.4, 0.2, 0, 0), (0.1, HALF, 0.1, 0), (0.05, -HALF, 0.3, 0), (0.04, HALF, 0.05, 0),
        (0, 0, 0.1, 0)]  # fmt: skip


def arm(rows, most=np.pi):
    return ps.from_dh(rows, limits=np.tile([-most, most], (6, 1)))


def reversed_arm(skeleton):
    """The same arm, mounted by its tool: the base is then what moves."""
    zero = ps.forward(skeleton, np.zeros(6))
    out = [ps.Joint("root", ps.Fixed())]
    place = np.linalg.inv(zero.matrix("tool"))
    before = np.eye(4)
    for k in range(5, -1, -1):
        here = place @ zero.matrix(skeleton.names[k]) @ np.diag([1.0, -1.0, -1.0, 1.0])  # about the other way of z
        step = np.linalg.inv(before) @ here
        out.append(
            ps.Joint(f"r{k}", ps.Revolute("z"), out[-1].name, offset=step[:3, 3], rotation=step[:3, :3],
                     limits=(-np.pi, np.pi))
        )  # fmt: skip
        before = here
    end = np.linalg.inv(before) @ place
    return ps.Skeleton(out, [ps.Site("tool", "r0", end[:3, 3], end[:3, :3])])


def gap(poses, pose):
    difference = np.asarray(poses) - pose
    return np.abs(difference - 2 * np.pi * np.round(difference / (2 * np.pi))).max(axis=-1)


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("back", [False, True])
def test_every_pose_places_the_tool_and_the_one_it_came_from_is_there(name, back):
    rows, family = ARMS[name]
    skeleton = reversed_arm(arm(rows)) if back else arm(rows)
    closed = six_axis_arm(skeleton, "tool")
    assert closed is not None
    assert closed.packed[0] == family
    rng = np.random.default_rng(len(name))
    for _ in range(60):
        pose = rng.uniform(skeleton.lower, skeleton.upper)
        target = ps.forward(skeleton, pose).matrix("tool")
        found = closed.poses(target, skeleton.lower, skeleton.upper, np.zeros(6))
        assert gap(found, pose).min() < 1e-6
        np.testing.assert_allclose(
            ps.forward(skeleton, found).matrix("tool"), np.tile(target, (len(found), 1, 1)), atol=1e-9
        )
        assert ((found >= skeleton.lower) & (found <= skeleton.upper)).all()
        assert (np.diff(np.linalg.norm(found, axis=1)) >= -1e-9).all()
        assert all(gap(a, b) > 1e-6 for i, a in enumerate(found) for b in found[:i])


@pytest.mark.parametrize("name", ["ur", "kr16", "puma"])
def test_it_finds_all_that_eaik_finds(name):
    pytest.importorskip("eaik")
    from benchmarks.solutions import eaik_robot

    skeleton = arm(ARMS[name][0])
    robot = eaik_robot(skeleton)
    tool = np.linalg.inv(np.linalg.inv(robot.fwdKin(np.zeros(6))) @ ps.forward(skeleton, np.zeros(6)).matrix("tool"))
    rng = np.random.default_rng(5)
    total = 0
    for _ in range(60):
        target = ps.forward(skeleton, rng.uniform(skeleton.lower, skeleton.upper)).matrix("tool")
        answer = robot.IK(target @ tool)
        theirs = np.atleast_2d(answer.Q)[~np.atleast_1d(answer.is_LS)]
        mine = ps.solutions(skeleton, g.Pose("tool", target))
        assert mine.exact
        assert mine.completeness == 1.0
        assert all(gap(mine, pose).min() < 1e-4 for pose in theirs)
        total += len(theirs)
    assert total > 200


def test_a_stretched_wrist_takes_the_angle_of_the_start():
    skeleton = arm(KR16)
    pose = np.array([0.3, -0.8, 0.9, 0.7, 0.0, -0.2])  # axes 4 and 6 are one line
    target = ps.forward(skeleton, pose).matrix("tool")
    found = ps.solutions(skeleton, g.Pose("tool", target), start=pose)
    assert gap(found[0], pose) < 1e-6


def test_limits_and_whole_turns():
    wide = arm(UR, 2 * np.pi)
    pose = np.array([0.5, -1.0, 1.2, -0.7, 0.8, 6.0])
    goal = g.Pose("tool", ps.forward(wide, pose).matrix("tool"))
    assert gap(ps.solutions(wide, goal, start=pose)[0], pose) < 1e-9
    np.testing.assert_allclose(ps.solutions(wide, goal, start=pose)[0], pose, atol=1e-6)
    narrow = ps.from_dh(UR, limits=[(p - 0.1, p + 0.1) for p in pose])
    assert len(ps.solutions(narrow, goal)) == 1
    assert len(ps.solutions(narrow, goal, limits=False)) > 4
    away = ps.from_dh(UR, limits=[(p + 0.2, p + 0.3) for p in pose])
    assert len(ps.solutions(away, goal)) == 0
    assert len(ps.solutions(wide, g.Pose("tool", np.eye(4) + np.pad([[5.0]], ((0, 3), (3, 0)))))) == 0


def test_what_does_not_move_the_tool_stays():
    skeleton = arm(PUMA)
    finger = ps.Joint("finger", ps.Prismatic("x"), skeleton.names[-1], limits=(0.0, 0.04))
    with_finger = skeleton.replace(joints=[*skeleton.joints, finger])
    pose = np.array([0.3, -0.4, 0.5, 0.6, 0.7, -0.8, 0.02])
    goal = g.Pose("tool", ps.forward(with_finger, pose).matrix("tool"))
    found = ps.solutions(with_finger, goal, start=pose)
    assert found.exact
    assert (found[:, 6] == 0.02).all()
    np.testing.assert_allclose(found[0], pose, atol=1e-9)


def test_arms_without_a_closed_form_are_left_to_the_elimination():
    skeleton = arm(NONE)
    assert six_axis_arm(skeleton, "tool") is None
    assert six_axis_arm(ps.figures.panda(), "hand") is None
    pose = np.array([0.3, -0.8, 0.9, 0.7, 0.4, -0.2])
    found = ps.solutions(skeleton, g.Pose("tool", ps.forward(skeleton, pose).matrix("tool")))
    assert found.exact
    assert gap(found, pose).min() < 1e-6


@pytest.mark.parametrize("rows", [UR, KR16])
def test_solve_returns_the_nearest_solution(rows):
    skeleton = arm(rows)
    rng = np.random.default_rng(3)
    poses = rng.uniform(skeleton.lower, skeleton.upper, (40, 6))
    targets = ps.forward(skeleton, poses).matrix("tool")
    start = rng.uniform(-1.0, 1.0, 6)
    batch = ps.solve(skeleton, g.Pose("tool", targets), start=start)
    assert batch.ok.all()
    assert (np.asarray(batch.iterations) == 0).all()
    session = ps.Session(skeleton, g.Pose("tool", targets[0]), start=start)
    for k in range(0, 40, 8):
        nearest = ps.solutions(skeleton, g.Pose("tool", targets[k]), start=start)[0]
        np.testing.assert_allclose(batch.pose[k], nearest, atol=1e-9)
        alone = ps.solve(skeleton, g.Pose("tool", targets[k]), start=start)
        np.testing.assert_array_equal(alone.pose, batch.pose[k])
        np.testing.assert_array_equal(session.solve({"tool": targets[k]}, start=start).pose, batch.pose[k])
        assert alone.errors["tool"] < 1e-9


def test_one_pose_is_solved_without_packing_a_problem(monkeypatch):
    skeleton = arm(UR)
    target = ps.forward(skeleton, np.array([0.5, -1.0, 1.2, -0.7, 0.8, 0.3])).matrix("tool")
    start = np.full(6, 0.2)
    session = ps.Session(skeleton, g.Pose("tool", target, label="grip"), start=start).solve()
    with monkeypatch.context() as patch:
        patch.setattr("posable.limb.six_axis_arm.Problem", None)
        patch.setattr("posable._solve.Problem", None)
        result = ps.solve(skeleton, [g.Pose("tool", target, label="grip")], start=start, restarts=3, natural=False)
        assert result.ok
        np.testing.assert_array_equal(result.pose, session.pose)
    start[:] = 9.0  # the result keeps its own
    assert (result.status, result.iterations, result.errors) == (session.status, 0, session.errors)
    np.testing.assert_array_equal(result.options.starts, np.full((1, 6), 0.2))
    assert result.options.restarts == 3
    np.testing.assert_allclose(result.jacobian("grip"), session.jacobian("grip"))
    assert str(result).splitlines()[1:] == str(session).splitlines()[1:]
    assert pickle.loads(pickle.dumps(result)).errors == session.errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": np.full(6, np.nan)}, "finite numbers"), ({"start": np.zeros(5)}, "shape"),
        ({"natural": 0}, "natural"), ({"restarts": -1}, "restarts"), ({"seed": 0.5}, "seed"),
        ({"threads": 0}, "threads"),
        ({"max_iterations": True}, "max_iterations"), ({"time_limit": -1.0}, "time_limit"),
        ({"goals": g.Pose("tol", np.eye(4))}, "did you mean 'tool'"), ({"skeleton": None}, "expected a Skeleton"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_before_one_pose_is_solved(change, message):
    skeleton = arm(UR)
    call = {"skeleton": skeleton, "goals": g.Pose("tool", ps.forward(skeleton, np.ones(6)).matrix("tool"))}
    assert ps.solve(**call).ok
    with pytest.raises(ps.PosableError, match=message):
        ps.solve(**(call | change))


def test_what_is_out_of_reach_is_left_to_the_solver():
    skeleton = arm(UR)
    far = np.eye(4)
    far[:3, 3] = (0.2, 0.1, 5.0)
    near = ps.forward(skeleton, np.array([0.5, -1.0, 1.2, -0.7, 0.8, 0.3])).matrix("tool")
    result = ps.solve(skeleton, g.Pose("tool", np.stack([near, far])))
    assert result.ok.tolist() == [True, False]
    assert result.iterations[1] > 0
    alone = ps.solve(skeleton, g.Pose("tool", far))
    assert not alone.ok
    np.testing.assert_array_equal(alone.pose, result.pose[1])
    free = ps.solve(skeleton, [g.Pose("tool", near), g.Posture()])
    assert np.max(free.iterations) > 0  # more than one goal
    traced = ps.solve(skeleton, g.Pose("tool", near), record=True)
    assert traced.ok
    assert np.max(traced.iterations) > 0


def test_a_goal_that_is_switched_off_moves_nothing():
    skeleton = arm(UR)
    near = ps.forward(skeleton, np.array([0.5, -1.0, 1.2, -0.7, 0.8, 0.3])).matrix("tool")
    session = ps.Session(skeleton, g.Pose("tool", near), start=np.full(6, 0.2))
    session.enable("tool", False)
    np.testing.assert_allclose(session.solve().pose, np.full(6, 0.2))
    session.enable("tool")
    assert session.solve().ok


# --- Hinges ---


def test_turning_about_the_axes_brings_the_tool_where_forward_kinematics_does():
    figure = ps.from_dh([*SKEW[:5], (0.1, 0.2, 0.1, 0)])
    hinges = six_hinges(figure, "tool")
    for pose in np.random.default_rng(0).uniform(-3.0, 3.0, (5, 6)):
        motion = np.eye(4)
        for axis, place, angle in zip(hinges.axes, hinges.places, pose[hinges.columns], strict=True):
            step = np.eye(4)
            step[:3, :3] = Rotation.from_rotvec(angle * axis).as_matrix()
            step[:3, 3] = place - step[:3, :3] @ place
            motion = motion @ step
        np.testing.assert_allclose(motion @ hinges.tool, ps.forward(figure, pose).matrix("tool"), atol=1e-12)


def test_other_chains_are_not_six_hinges():
    assert six_hinges(ps.figures.panda(), ps.figures.panda().site_names[-1]) is None
    assert six_hinges(ps.figures.human(), "hand.R") is None
    three = ps.figures.planar_arm([1.0, 1.0, 1.0])
    assert six_hinges(three, three.site_names[-1]) is None


# --- Sessions ---


@pytest.mark.parametrize("name", ["ur", "kr16", "skew"])
def test_errors_of_a_session_agree_with_an_independent_evaluation(name):
    figure = arm(ARMS[name][0])
    rng = np.random.default_rng(3)
    session = ps.Session(figure, g.Pose("tool", np.eye(4)))
    for pose in rng.uniform(figure.lower, figure.upper, (20, 6)):
        target = ps.forward(figure, pose).matrix("tool")
        result = session.solve({"tool": target}, start=rng.uniform(-7.0, 7.0, 6))
        assert result.ok
        found = ps.forward(figure, result.pose).matrix("tool")
        turned = Rotation.from_matrix(found[:3, :3].T @ target[:3, :3]).magnitude()
        away = np.linalg.norm(found[:3, 3] - target[:3, 3])
        np.testing.assert_allclose(list(result.errors.values()), [away, turned], atol=1e-13)
        assert (abs(result.options.starts) <= np.pi).all()


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_session_refuses_a_start_that_is_not_finite(wrong):
    figure = arm(UR)
    session = ps.Session(figure, g.Pose("tool", ps.forward(figure, np.ones(6)).matrix("tool")))
    start = np.zeros(6)
    start[2] = wrong
    with pytest.raises(ps.PosableError, match="finite numbers"):
        session.solve(start=start)


def test_a_session_whose_goal_is_disabled_stays_where_it_starts():
    figure = arm(UR)
    session = ps.Session(figure, g.Pose("tool", ps.forward(figure, np.ones(6)).matrix("tool")))
    session.enable("tool", False)
    start = np.array([0.3, -0.2, 9.0, 0.1, 0.0, 0.0])
    np.testing.assert_allclose(session.solve(start=start).pose, np.clip(start, figure.lower, figure.upper))
    session.enable("tool")
    assert session.solve().ok
