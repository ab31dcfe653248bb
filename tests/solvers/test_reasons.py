"""Reasons for a miss: lengths against forward kinematics, conflicts and limits against solving again."""

import numpy as np
import pytest

import posable as ps

g = ps.goals


@pytest.fixture(scope="module")
def human():
    return ps.figures.human()


def test_a_limb_that_is_too_short_says_both_lengths(human):
    frames = ps.forward(human, human.rest)
    goals = [g.Pose("pelvis", frames.matrix("pelvis"), weight=100), g.Position("hand.R", (-1.4, 1.2, 0.0))]
    result = ps.solve(human, goals)
    reason = next(r for r in result.reasons if r.goal == "hand.R" and r.kind == "reach")
    at = ps.forward(human, result.pose)
    joint = reason.others[0]
    chain = chain_length(human, joint, "hand.R")
    distance = np.linalg.norm(np.array([-1.4, 1.2, 0.0]) - at.position(joint))
    assert f"{joint} to hand.R is {chain:.2f} m at full stretch" in reason.text
    assert f"{distance:.2f} m from {joint}" in reason.text
    assert reason.amount == pytest.approx(distance - chain, abs=1e-9)
    assert reason.text in str(result)


def chain_length(skeleton, joint, site):
    site = next(one for one in skeleton.sites if one.name == site)
    total, name = np.linalg.norm(site.offset), site.joint
    while name != joint:
        one = skeleton.joint(name)
        total, name = total + np.linalg.norm(one.offset), one.parent
    return float(total)


def test_conflicting_goals_are_reported_with_the_error_without_each(human):
    frames = ps.forward(human, human.rest)
    feet = [g.Position(s, frames.position(s)) for s in ("foot.L", "foot.R", "pelvis")]
    hand = g.Position("hand.R", frames.position("hand.R") + np.array([0.0, 0.0, 1.5]))
    result = ps.solve(human, [*feet, hand])
    reason = next(r for r in result.reasons if r.goal == "hand.R" and r.kind == "goals")
    assert reason.others == ("pelvis",)
    together = result.errors["hand.R"] + result.errors["pelvis"]
    assert f"their errors add up to at least {1e3 * together:.3g} mm" in reason.text
    assert "without pelvis, hand.R would be reached" in reason.text
    assert ps.solve(human, [feet[0], feet[1], hand]).ok


def test_limits_are_named_where_relaxing_them_helps():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (0.0, 1.0)})
    goal = g.Position("tip", (0.5, 1.2, 0.0))
    result = ps.solve(arm, goal)
    [reason] = result.reasons
    assert reason.kind == "limits"
    assert set(reason.others) == {"joint1", "joint2"}
    for dof in reason.others:
        upper = arm.joint(dof).limits[1] + np.radians(5.0)
        wider = ps.solve(arm.with_limits({dof: (arm.joint(dof).limits[0], upper)}), goal)
        assert result.errors["tip"] - wider.errors["tip"] > 0.05 * result.errors["tip"]


def test_a_stricter_goal_is_the_reason_for_a_later_one():
    arm = ps.figures.planar_arm([1.0, 1.0])
    first = g.Position("joint2", (1.0, 0.0, 0.0), label="elbow")
    later = g.Position("tip", (0.0, 1.9, 0.0), priority=1)
    result = ps.solve(arm, [first, later])
    assert not result.ok
    assert any(r.goal == "tip" and r.others == ("elbow",) for r in result.reasons)


def test_every_miss_has_a_reason_and_a_batch_keeps_its_shape():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (0.0, 1.0)})
    targets = np.array([[0.5, 1.2, 0.0], [-1.0, -1.0, 0.0], [1.9, 0.1, 0.0]])
    result = ps.solve(arm, g.Position("tip", targets))
    assert [bool(reasons) for reasons in result.reasons] == [True, True, False]
    assert result.reasons[0] == ps.solve(arm, g.Position("tip", targets[0])).reasons
    told = ps.explain(arm, g.Position("tip", targets[1]), result.pose[1])
    assert [reason.text for reason in told.reasons] == [reason.text for reason in result.reasons[1]]
    assert told.as_dict()["reasons"][0]["goal"] == "tip"
