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
