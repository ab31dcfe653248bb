"""`solver="limb"`: alone, and on whole bodies."""

import numpy as np
import pytest

import posable as ps

g = ps.goals


def test_a_limb_by_itself_is_solved_in_closed_form():
    skeleton = ps.figures.limb()
    poses = np.random.default_rng(0).uniform(skeleton.lower, skeleton.upper, (40, 7))
    frames = ps.forward(skeleton, poses)
    for goal in (g.Pose("hand", frames.matrix("hand")), g.Position("hand", frames.position("hand"))):
        result = ps.solve(skeleton, goal, solver="limb")
        assert result.ok.all()
        assert max(float(np.max(error)) for error in result.errors.values()) < 1e-9
        assert np.all(result.pose >= skeleton.lower)
        assert np.all(result.pose <= skeleton.upper)
        assert not result.iterations.any()


def test_a_point_of_the_hand_and_no_limits():
    skeleton = ps.figures.limb()
    goal = g.Position("hand", (0.3, 0.2, 0.1), point=(0.05, 0.02, 0.0))
    result = ps.solve(skeleton, goal, solver="limb", limits=False)
    assert result.ok
    at = ps.forward(skeleton, result.pose)
    assert np.abs(at.convert((0.05, 0.02, 0.0), from_="hand") - (0.3, 0.2, 0.1)).max() < 1e-9


def test_hands_and_feet_of_a_body_land_exactly():
    skeleton = ps.figures.human()
    at = ps.forward(skeleton, skeleton.rest)
    goals = [
        g.Position("hand.R", at.position("hand.R") + np.array([0.05, 0.1, 0.15])),
        g.Position("hand.L", at.position("hand.L") + np.array([0.0, 0.1, 0.1])),
        g.Pose("foot.L", at.matrix("foot.L")),
        g.Pose("foot.R", at.matrix("foot.R")),
        g.Position("head", at.position("head")),
    ]
    result = ps.solve(skeleton, goals, solver="limb")
    assert result.ok, result.message
    assert all(result.errors[name] < 1e-9 for name in ("hand.R", "hand.L", "foot.L", "foot.R"))
    assert np.all(result.pose >= skeleton.lower - 1e-12)
    assert np.all(result.pose <= skeleton.upper + 1e-12)


def test_out_of_reach_is_a_result():
    result = ps.solve(ps.figures.limb(), g.Position("hand", (3.0, 0.0, 0.0)), solver="limb")
    assert not result.ok
    assert result.status == "OUT_OF_REACH"


def test_a_figure_without_limbs_is_refused():
    with pytest.raises(ps.PosableError, match="last bone of a limb"):
        ps.solve(ps.figures.planar_arm(), g.Position("tip", (10.0, 5.0, 0.0)), solver="limb")
