"""Keyframes: limits and shared goals hold between the keys, and what was changed is said."""

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import posable as ps

HUMAN = ps.figures.human()


def random_keys(seed, count=6):
    rng = np.random.default_rng(seed)
    low, high = np.maximum(HUMAN.lower, -3.0), np.minimum(HUMAN.upper, 3.0)
    return {0.5 * k: rng.uniform(low, high) for k in range(count)}


def outside(motion):
    return np.maximum(HUMAN.lower - motion.poses, motion.poses - HUMAN.upper).max()


@pytest.mark.parametrize("seed", range(3))
def test_frames_between_poses_inside_the_limits_stay_inside(seed):
    keys = random_keys(seed)
    motion = ps.keyframes(HUMAN, keys, fps=30)
    assert outside(ps.keyframes(HUMAN, keys, fps=30, limits=False)) > 0.02  # the slerp alone leaves them
    assert outside(motion) <= 1e-12
    assert "left the limits" in motion.notes[0]
    for seconds, pose in keys.items():
        assert np.allclose(motion.poses[round(30 * seconds)], pose, atol=1e-12)


def test_a_frame_outside_takes_the_nearest_rotation():
    """Against SciPy over the joint's three numbers, from many starts."""
    keys = random_keys(0)
    slerp = ps.keyframes(HUMAN, keys, fps=30, limits=False)
    motion = ps.keyframes(HUMAN, keys, fps=30)
    rng, checked = np.random.default_rng(0), 0
    alone = {
        joint.name: ps.Skeleton([ps.Joint("it", joint.motion)]) for joint in HUMAN.joints if joint.motion.size == 3
    }
    for name, figure in alone.items():
        where = HUMAN.index(name)
        low, high = HUMAN.lower[where], HUMAN.upper[where]
        over = np.maximum(low - slerp.poses[:, where], slerp.poses[:, where] - high).max(axis=1)
        if over.max() < 0.05:
            continue
        row = int(np.argmax(over))
        wanted = ps.forward(figure, slerp.poses[row, where]).rotation("it")

        def angle(x, figure=figure, wanted=wanted):
            return (ps.forward(figure, x).rotation("it").inv() * wanted).magnitude()

        bounds = list(zip(low, high, strict=True))
        best = min(minimize(angle, rng.uniform(low, high), bounds=bounds, method="L-BFGS-B").fun for _ in range(6))
        assert angle(motion.poses[row, where]) <= best + 2e-3
        checked += 1
        if checked == 4:
            break
    assert checked


def test_goals_that_both_keys_share_hold_between_them():
    rest = ps.forward(HUMAN, HUMAN.rest)
    feet = [ps.goals.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]
    places = {0.0: (-0.55, 1.4, 0.2), 0.6: (0.2, 0.3, 0.5), 1.2: (-0.4, 1.1, 0.4)}
    keys = {t: [*feet, ps.goals.Position("hand.R", place)] for t, place in places.items()}
    motion = ps.keyframes(HUMAN, keys, fps=25)
    slerp = ps.Motion.from_keyframes(HUMAN, [0.0, 0.6, 1.2], motion.poses[[0, 15, 30]], fps=25)
    for foot in ("foot.L", "foot.R"):
        planted = rest.position(foot)
        assert np.linalg.norm(ps.forward(HUMAN, slerp.poses).position(foot) - planted, axis=1).max() > 5e-3
        assert np.linalg.norm(ps.forward(HUMAN, motion.poses).position(foot) - planted, axis=1).max() < 1e-4
    assert outside(motion) <= 1e-12
    assert any("hold foot.L, foot.R" in note for note in motion.notes)
    assert np.abs(motion.poses - slerp.poses).max() < 0.6  # near the slerp
    assert np.abs(np.diff(motion.poses, axis=0)).max() < 3.0 * np.abs(np.diff(slerp.poses, axis=0)).max()


def test_a_pose_shares_the_goals_that_it_meets():
    rest = ps.forward(HUMAN, HUMAN.rest)
    foot = ps.goals.Pose("foot.L", rest.matrix("foot.L"))
    keys = {0.0: HUMAN.rest, 1.0: [foot, ps.goals.Position("pelvis", rest.position("pelvis") - (0.0, 0.1, 0.0))]}
    motion = ps.keyframes(HUMAN, keys, fps=20)
    assert np.abs(ps.forward(HUMAN, motion.poses).position("foot.L") - rest.position("foot.L")).max() < 1e-4


def test_a_motion_that_needs_no_change_is_the_slerp():
    arm = ps.figures.planar_arm([1.0, 1.0])
    motion = ps.keyframes(arm, {0.0: [0.0, 0.1], 1.0: [0.5, 0.2]}, fps=10, eased=False)
    assert motion.notes == ()
    assert np.allclose(motion.poses, np.linspace([0.0, 0.1], [0.5, 0.2], 11))


def test_numbers_ease_as_scipys_monotone_cubic():
    arm = ps.figures.planar_arm([1.0, 1.0])
    times, poses = np.array([0.0, 0.5, 1.5, 2.0]), np.array([[0.0, 0.1], [0.5, 0.2], [0.7, -0.3], [0.2, -0.1]])
    motion = ps.keyframes(arm, dict(zip(times, poses, strict=True)), fps=100)
    at = np.arange(len(motion)) / 100
    cubic = PchipInterpolator(times, poses)
    inner = (at >= 0.5) & (at <= 1.5)  # SciPy takes other slopes at the ends, where ours is at rest
    assert motion.poses[inner] == pytest.approx(cubic(at[inner]), abs=1e-9)
    steps = np.abs(np.diff(motion.poses, axis=0))
    assert steps[[0, -1]].max() < 0.1 * steps.max()  # at rest at both ends


@pytest.mark.parametrize("ball", ["zyx", "rotvec"])
def test_rotations_pass_keys_without_a_jump_in_speed(ball):
    figure = ps.Skeleton([ps.Joint("it", ps.Ball(ball))])
    turns = Rotation.random(5, random_state=4)
    values = [turn.as_euler("ZYX") if ball == "zyx" else turn.as_rotvec() for turn in turns]
    keys = {0.4 * k: value for k, value in enumerate(values)}
    fps = 1000
    for eased, bound in ((True, 0.1), (False, np.inf)):
        motion = ps.keyframes(figure, keys, fps=fps, eased=eased)
        frames = ps.forward(figure, motion.poses).rotation("it")
        speed = (frames[:-1].inv() * frames[1:]).as_rotvec() * fps
        jumps = np.linalg.norm(np.diff(speed, axis=0), axis=1)
        assert jumps.max() < bound * np.linalg.norm(speed, axis=1).max()
        if not eased:
            assert jumps.max() > 0.5 * np.linalg.norm(speed, axis=1).max()
        for k, turn in enumerate(turns):
            assert (frames[400 * k].inv() * turn).magnitude() < 1e-9


def test_a_body_does_not_jump_in_speed_at_its_keys():
    """The same hand, feet pinned: the jump in speed at the middle key is a small part of what it is without easing."""
    rest = ps.forward(HUMAN, HUMAN.rest)
    feet = [ps.goals.Pose(foot, rest.matrix(foot), label=foot) for foot in ("foot.L", "foot.R")]
    places = {0.0: (-0.55, 1.4, 0.2), 0.6: (-0.2, 0.9, 0.4), 1.2: (-0.4, 0.5, 0.4)}
    keys = {t: [*feet, ps.goals.Position("hand.R", place)] for t, place in places.items()}
    jumps = []
    for eased in (True, False):
        motion = ps.keyframes(HUMAN, keys, fps=100, eased=eased)
        places_ = ps.forward(HUMAN, motion.poses)
        assert np.abs(places_.position("foot.R") - rest.position("foot.R")).max() < 1e-4
        speed = np.diff(places_.position("hand.R"), axis=0)
        jumps.append(np.linalg.norm(np.diff(speed, axis=0), axis=1).max())
    assert jumps[0] < 0.35 * jumps[1]


def test_keys_of_people_are_near_the_prior():
    rest = ps.forward(HUMAN, HUMAN.rest)
    feet = [ps.goals.Pose(foot, rest.matrix(foot)) for foot in ("foot.L", "foot.R")]
    goals = [*feet, ps.goals.Position("hand.R", (-0.25, 0.1, 0.4))]
    prior = ps.goals.Natural()
    near, far = (
        ps.keyframes(HUMAN, {0.0: HUMAN.rest, 1.0: goals}, fps=10, natural=natural).poses[-1]
        for natural in (None, False)
    )
    assert prior.energy(HUMAN, near) < prior.energy(HUMAN, far) - 1.0
