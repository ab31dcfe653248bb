"""Goals that move, and keyframes."""

import numpy as np
import pytest

import posable as ps


def test_a_straight_line_as_in_parent_linkages_figure_5_20():
    arm = ps.figures.planar_arm([15, 10, 5])
    start = np.array([np.pi / 8, np.pi / 4, np.pi / 4])
    path = np.linspace(ps.forward(arm, start).position("tip"), (-20, 5, 0), 21)
    motion = ps.follow(arm, ps.goals.Position("tip", path), fps=30, start=start)
    assert motion.ok.all()
    assert np.abs(ps.forward(arm, motion.poses).position("tip") - path).max() < 1e-3
    assert np.abs(np.diff(motion.poses, axis=0)).max() < 0.4


def test_a_path_out_of_reach_reports_every_frame():
    arm = ps.figures.planar_arm([15, 10, 5])
    start = np.array([np.pi / 8, np.pi / 4, np.pi / 4])
    path = np.linspace(ps.forward(arm, start).position("tip"), (-35, 5, 0), 21)
    motion = ps.follow(arm, ps.goals.Position("tip", path), fps=30, start=start)
    assert motion.ok[0]
    assert not motion.ok[-1]
    assert motion.errors["tip"].shape == (21,)
    assert motion.errors["tip"][-1] == pytest.approx(np.hypot(35, 5) - 30, abs=1e-3)
    assert "of 21 frames" in str(motion)


def test_moving_and_standing_goals_together(human):
    rest = ps.forward(human, human.rest)
    angle = np.linspace(0, 2 * np.pi, 40)[:, None]
    hand = rest.position("hand.R") + 0.1 * np.hstack([np.cos(angle) - 1, 1 + np.sin(angle), 2 + 0 * angle])
    hand += np.random.default_rng(0).normal(0.0, 0.005, hand.shape)
    goals = [ps.goals.Position("hand.R", hand), ps.goals.Position("foot.L", rest.position("foot.L"))]
    motion = ps.follow(human, goals, fps=30)
    assert motion.ok.all()
    smooth = ps.follow(human, goals, fps=30, smooth=0.3)
    bend = [np.abs(np.diff(m.poses, n=2, axis=0)).mean() for m in (motion, smooth)]
    assert bend[1] < 0.7 * bend[0]
    assert np.max(smooth.errors["hand.R"]) < 0.02


def test_orientations_and_choices_follow_too(human):
    from scipy.spatial.transform import Rotation

    turns = Rotation.from_euler("y", np.linspace(0.0, 0.4, 10)[:, None]).as_matrix()
    motion = ps.follow(human, ps.goals.Orientation("head", turns), fps=30)
    assert motion.ok.all()
    rest = ps.forward(human, human.rest)
    both = [ps.goals.Position(f"hand.{side}", rest.position(f"hand.{side}") + np.array((0, 0.1, 0.1))) for side in "LR"]
    path = rest.position("foot.R") + np.linspace((0, 0, 0), (0, 0.1, 0), 5)
    motion = ps.follow(human, [ps.goals.Position("foot.R", path), ps.goals.AnyOf(both)], fps=30)
    assert len(motion) == 5


def test_goals_without_time_are_a_wrong_call(human):
    with pytest.raises(ps.PosableError, match="T frames"):
        ps.follow(human, ps.goals.Position("hand.R", (0, 1, 0)), fps=30)


def test_keys_are_poses_or_goals(human):
    place = ps.forward(human, human.rest).position("hand.R") + np.array((0, 0.2, 0.2))
    motion = ps.keyframes(human, {0.0: human.rest, 1.0: ps.goals.Position("hand.R", place), 2.0: human.rest}, fps=30)
    assert len(motion) == 61
    assert np.allclose(motion.poses[0], human.rest)
    assert np.allclose(ps.forward(human, motion.poses[30]).position("hand.R"), place, atol=1e-3)
    with pytest.raises(ps.PosableError, match="not reached"):
        ps.keyframes(
            human,
            {0.0: human.rest, 1.0: [ps.goals.Position("hand.R", (9, 9, 9)), ps.goals.Position("foot.L", (0, 0, 0))]},
        )


# ------------------------------------------------------------------------------------------------------------- robots


def hinge(limits=None):
    return ps.Skeleton([ps.Joint("hinge", ps.Revolute("z"), limits=limits)], [ps.Site("tip", "hinge", (1.0, 0.0, 0.0))])


def arc(begin, end, frames=41):
    angles = np.linspace(begin, end, frames)
    return angles, np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=-1)


def test_a_limited_hinge_stops_at_its_limit_instead_of_turning_around():
    _, path = arc(3.0, 3.4)
    motion = ps.follow(hinge((-3.2, 3.2)), ps.goals.Position("tip", path), fps=30, start=[3.0])
    assert np.abs(np.diff(motion.poses, axis=0)).max() < 0.02
    assert motion.largest_step < 0.02
    assert motion.ok[:20].all()
    assert not motion.ok[-1]
    assert motion.poses[-1, 0] == pytest.approx(3.2)


def test_a_start_is_not_left_for_another_turn():
    _, path = arc(6.1, 5.0)
    motion = ps.follow(hinge((-6.3, 6.3)), ps.goals.Position("tip", path), fps=30, start=[6.1])
    assert motion.ok.all()
    assert motion.poses[:, 0] == pytest.approx(np.linspace(6.1, 5.0, 41), abs=1e-9)


def test_a_hinge_without_limits_turns_on_and_on():
    angles, path = arc(0.0, 14.0, 200)
    motion = ps.follow(hinge(), ps.goals.Position("tip", path), fps=30, start=[0.0])
    assert motion.ok.all()
    assert motion.poses[:, 0] == pytest.approx(angles, abs=1e-8)


def test_any_start_finds_the_turn_from_which_the_whole_path_fits():
    angles, path = arc(2.5, 6.0, 80)
    skeleton = hinge((-3.9, 3.9))
    from_rest = ps.follow(skeleton, ps.goals.Position("tip", path), fps=30, start=[2.5])
    assert not from_rest.ok.all()
    anywhere = ps.follow(skeleton, ps.goals.Position("tip", path), fps=30, start="any")
    assert anywhere.ok.all()
    assert anywhere.poses[:, 0] == pytest.approx(angles - 2.0 * np.pi, abs=1e-6)


def elbow_arm():
    joints = [
        ps.Joint("shoulder", ps.Revolute("z"), limits=(-3.0, 3.0)),
        ps.Joint("elbow", ps.Revolute("z"), "shoulder", offset=(0.5, 0.0, 0.0), limits=(-2.9, 0.6)),
    ]
    return ps.Skeleton(joints, [ps.Site("tip", "elbow", (0.4, 0.0, 0.0))])


def test_any_start_takes_the_branch_that_can_be_followed_whole():
    skeleton = elbow_arm()
    path = np.linspace((0.85, 0.0, 0.0), (0.3, 0.0, 0.0), 60)
    bent_up = ps.follow(skeleton, ps.goals.Position("tip", path), fps=30, start=[-0.2, 0.5])
    assert not bent_up.ok.all()  # the elbow's upper limit is in the way
    assert bent_up.largest_step < np.radians(20.0)
    anywhere = ps.follow(skeleton, ps.goals.Position("tip", path), fps=30, start="any")
    assert anywhere.ok.all()
    assert (anywhere.poses[:, 1] < 0.0).all()


def test_a_step_beyond_max_step_is_not_ok_and_the_text_names_it():
    _, path = arc(0.0, 1.0, 5)
    motion = ps.follow(hinge(), ps.goals.Position("tip", path), fps=30, start=[0.0], max_step=0.2)
    assert motion.largest_step == pytest.approx(0.25)
    assert motion.ok.tolist() == [True, False, False, False, False]
    assert "largest step 14.3 degrees (hinge, to frame" in str(motion)
    assert ps.follow(hinge(), ps.goals.Position("tip", path), fps=30, start=[0.0]).ok.all()


def test_limits_of_velocity_and_acceleration_are_judged():
    _, path = arc(0.0, 1.0, 31)
    goal = ps.goals.Position("tip", path)
    assert ps.follow(hinge(), goal, fps=30, start=[0.0], velocity=1.1).ok.all()
    assert not ps.follow(hinge(), goal, fps=30, start=[0.0], velocity=0.9).ok[1:].any()


def test_the_fastest_way_is_a_trapezoid_of_speed():
    speed, accel, fps = 1.0, 4.0, 200
    _, path = arc(0.0, 1.5, 301)
    motion = ps.follow(
        hinge(), ps.goals.Position("tip", path), fps=fps, start=[0.0], velocity=speed, acceleration=accel,
        duration="fastest",
    )  # fmt: skip
    assert motion.duration == pytest.approx(1.5 / speed + speed / accel, rel=0.02)
    rate = np.diff(motion.poses[:, 0]) * fps
    assert rate.max() <= speed + 1e-6
    assert np.abs(np.diff(rate)).max() * fps <= accel + 1e-6
    assert motion.ok.all()
    assert max(motion.errors["tip"]) < 1e-4
    slow = ps.follow(hinge(), ps.goals.Position("tip", path), fps=30, start=[0.0], duration=6.0)
    assert slow.duration == pytest.approx(6.0, abs=0.04)
    assert slow.poses[-1, 0] == pytest.approx(1.5, abs=1e-6)


def test_waypoints_straight_in_space_or_shortest_in_joints():
    skeleton = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    begin = ps.forward(skeleton, start).matrix("tcp")
    places = np.repeat(begin[None], 3, axis=0)
    places[1, :3, 3] += (0.0, 0.2, 0.0)
    places[2, :3, 3] += (0.0, 0.2, -0.1)
    goal = ps.goals.Pose("tcp", places)
    straight = ps.follow(skeleton, goal, fps=50, start=start, times=[0.0, 1.0, 3.0])
    assert len(straight) == 151
    assert straight.ok.all()
    drawn = ps.forward(skeleton, straight.poses).position("tcp")
    assert drawn[25] == pytest.approx(begin[:3, 3] + (0.0, 0.1, 0.0), abs=1e-6)
    assert drawn[100] == pytest.approx(begin[:3, 3] + (0.0, 0.2, -0.05), abs=1e-6)
    joints = ps.follow(skeleton, goal, fps=50, start=start, times=[0.0, 1.0, 3.0], straight=False)
    ends = ps.forward(skeleton, joints.poses[[0, 50, 150]]).position("tcp")
    assert ends == pytest.approx(places[:, :3, 3], abs=1e-6)
    assert np.abs(np.diff(joints.poses[:51], n=2, axis=0)).max() < 1e-9
    quick = ps.follow(skeleton, goal, fps=100, start=start, times="fastest", velocity=1.0, acceleration=5.0)
    assert np.abs(np.diff(quick.poses, axis=0)).max() * 100 <= 1.0 + 1e-6
    assert ps.forward(skeleton, quick.poses[-1]).position("tcp") == pytest.approx(places[2, :3, 3], abs=1e-4)


def test_a_posture_counts_in_every_frame():
    arm = ps.figures.planar_arm([1.0, 1.0, 1.0])
    path = np.linspace((1.5, 0.5, 0.0), (1.5, 1.0, 0.0), 20)
    free = ps.follow(arm, ps.goals.Position("tip", path), fps=30, start=[0.5, 0.5, 0.5])
    bent = ps.follow(
        arm,
        [ps.goals.Position("tip", path), ps.goals.Posture((0.0, 0.0, 2.0), weight=1e-3)],
        fps=30,
        start=[0.5, 0.5, 0.5],
    )
    assert abs(bent.poses[-1, 2] - 2.0) < abs(free.poses[-1, 2] - 2.0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"start": "somewhere"}, "any"),
        ({"duration": "soon"}, "fastest"),
        ({"duration": "fastest"}, "velocity"),
        ({"times": [0.0, 1.0]}, "increasing"),
        ({"velocity": -1.0}, "positive"),
    ],
)
def test_wrong_options_are_refused(options, text):
    with pytest.raises(ps.PosableError, match=text):
        ps.follow(hinge(), ps.goals.Position("tip", arc(0.0, 1.0)[1]), fps=30, **options)


@pytest.mark.parametrize("as_motion", [False, True])
def test_it_stays_near_a_motion(as_motion):
    """Each frame is the pose nearest to the motion's that reaches, as single solves with a posture find it."""
    human, rng = ps.figures.human(), np.random.default_rng(0)
    end = np.clip(human.rest + 0.3 * rng.normal(size=human.size), human.lower, human.upper)
    end[:6] = human.rest[:6]
    poses = human.rest + np.linspace(0.0, 1.0, 12)[:, None] * (end - human.rest)
    path = ps.forward(human, poses).position("hand.R") + np.array([0.0, 0.03, 0.0])
    near = ps.Motion(human, poses, 30.0) if as_motion else poses
    motion = ps.follow(human, [ps.goals.Position("hand.R", path)], fps=30.0, start=poses[0], near=near)
    assert motion.ok.all()
    for t in (0, 5, 11):
        alone = ps.solve(
            human, [ps.goals.Position("hand.R", path[t]), ps.goals.Posture(poses[t], weight=1e-5)], start=poses[t]
        )
        assert motion.poses[t] == pytest.approx(alone.pose, abs=1e-3)
    away = ps.follow(human, [ps.goals.Position("hand.R", path)], fps=30.0, start=poses[0])
    assert np.abs(motion.poses - poses).mean() < 0.1 * np.abs(away.poses - poses).mean()


def test_a_motion_of_another_length_is_refused():
    human = ps.figures.human()
    goal = ps.goals.Position("hand.R", np.tile((-0.3, 1.0, 0.3), (5, 1)))
    with pytest.raises(ps.errors.GoalError, match=r"near: expected one pose, or poses for \(5,\)"):
        ps.follow(human, goal, fps=30.0, near=np.tile(human.rest, (4, 1)))


def test_waypoints_far_apart_are_reached_through_the_joints():
    skeleton = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    keys = start + np.array([[0.0] * 7, [1.2, 0.6, -0.3, 0.7, 0.5, 0.4, -1.5], [-1.2, 0.9, 0.3, -0.5, -0.5, 0.9, 1.0]])
    places = np.array([ps.forward(skeleton, key).matrix("tcp") for key in keys])
    for begin in (start, "any"):
        motion = ps.follow(
            skeleton, ps.goals.Pose("tcp", places), fps=50, start=begin, times=[0.0, 2.0, 4.0], straight=False
        )
        assert motion.ok.all(), motion
        reached = ps.forward(skeleton, motion.poses[[0, 100, 200]])
        assert reached.matrix("tcp") == pytest.approx(places, abs=1e-5)
        assert np.abs(np.diff(motion.poses[:101], n=2, axis=0)).max() < 1e-9
    far = places.copy()
    far[1, :3, 3] += (0.0, 0.0, 2.0)
    motion = ps.follow(skeleton, ps.goals.Pose("tcp", far), fps=50, start=start, times=[0.0, 2.0, 4.0], straight=False)
    assert np.flatnonzero(~motion.ok).tolist() == [100]
    assert "tcp by up to" in str(motion)
    with pytest.raises(ps.PosableError, match="any"):
        ps.follow(
            skeleton, ps.goals.Pose("tcp", places), fps=50, start="somewhere", times=[0.0, 2.0, 4.0], straight=False
        )


@pytest.mark.parametrize("acceleration", [5.0, 10.0, 13.0, 20.0, 35.0])
def test_the_fastest_motion_is_within_its_limits_in_every_frame(acceleration):
    skeleton = ps.figures.panda()
    start = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.6, 0.8])
    line = np.repeat(ps.forward(skeleton, start).matrix("tcp")[None], 100, axis=0)
    line[:, :3, 3] += np.linspace((0.0, 0.0, 0.0), (0.0, 0.4, -0.1), 100)
    goal = ps.goals.Pose("tcp", line)
    motion = ps.follow(
        skeleton, goal, fps=100, start=start, velocity=2.0, acceleration=acceleration, duration="fastest"
    )
    assert motion.ok.all(), motion
    hasty = ps.follow(skeleton, goal, fps=100, start=start, velocity=2.0, acceleration=acceleration, duration=0.1)
    assert not hasty.ok.all()
    assert "of its velocity limit" in str(hasty)
    assert "fastest" in str(hasty)
