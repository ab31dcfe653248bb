"""Wrong calls say what was expected and what was got."""

import numpy as np
import pytest

import posable as ps
from posable.errors import GoalError

g = ps.goals
HAND = "hand.R"
MOVED = np.eye(4)
MOVED[:3, 3] = 1, 2, 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: g.Position(HAND, (1, 2)), ["target", "shape (..., 3)", "shape (2,)"]),
        (lambda: g.Position(HAND, (1, np.nan, 2)), ["target", "finite", "nan"]),
        (lambda: g.Position(HAND, "there"), ["target", "numbers", "there"]),
        (lambda: g.Position(HAND, (1, 2, 3), weight=-1), ["weight", "non-negative", "-1"]),
        (lambda: g.Position(HAND, (1, 2, 3), weight=np.diag([1, 1, -1])), ["weight"]),
        (lambda: g.Position(HAND, (1, 2, 3), tolerance=-1), ["tolerance"]),
        (lambda: g.Position(HAND, (1, 2, 3), robust=0.0), ["robust", "positive"]),
        (lambda: g.Position(HAND, (1, 2, 3), priority=0.5), ["priority", "an integer"]),
        (lambda: g.Orientation(HAND, np.eye(3) * 2), ["rotation"]),
        (lambda: g.Orientation(HAND, np.diag([1.0, 1.0, -1.0])), ["rotation", "right-handed", "mirrored"]),
        (lambda: g.Pose(HAND, MOVED.T), ["target", "last row", "transpose", "[1.0, 2.0, 3.0, 1.0]"]),
        (lambda: g.Pose(HAND, np.stack([np.eye(4), MOVED.T])), ["last row", "[1.0, 2.0, 3.0, 1.0]"]),
        (lambda: g.Aim(HAND, axis=(0, 0, 2), at=(1, 2, 3)), ["axis", "length 1", "2"]),
        (lambda: g.Aim(HAND, axis=(0, 0, 0), at=(1, 2, 3)), ["axis", "length 1", "0"]),
        (lambda: g.Aim(HAND, axis="w", at=(1, 2, 3)), ["axis", "'w'"]),
        (lambda: g.Aim(HAND, axis="z"), ["at", "shape (..., 3)"]),
        (lambda: g.Direction(HAND, "x", (0, 0, 0)), ["along", "a zero vector"]),
        (lambda: g.Plane(HAND, (0, 0, 0), (0, 0, 0)), ["normal", "a zero vector"]),
        (lambda: g.Plane(HAND, np.zeros((2, 3)), np.ones((3, 3))), ["leading axes"]),
        (lambda: g.Distance("hand.L", HAND, -0.1), ["length", "non-negative"]),
        (lambda: g.Balance([(0, 0, 0), (1, 0, 0)]), ["polygon", "3 points"]),
        (lambda: g.Balance(up="q"), ["up", "'q'"]),
        (lambda: g.Avoid(HAND, (1, 2, 3)), ["obstacle", "Sphere"]),
        (lambda: g.Sphere((0, 0, 0), -1.0), ["radius"]),
        (lambda: g.NoCollision(g.Sphere((0, 0, 0), 1.0)), ["pairs", "obstacles="]),
        (lambda: g.NoCollision(["ab", "cd"]), ["pairs of names", "'ab'"]),
        (lambda: g.NoCollision([("a", 3)]), ["pairs of names", "3"]),
        (lambda: g.NoCollision(obstacles=5), ["obstacles", "Sphere", "5"]),
        (lambda: g.Posture("slouch"), ["pose", "slouch"]),
        (lambda: g.Coupling("a", "b", ratio=np.inf), ["ratio", "finite"]),
        (lambda: g.AnyOf([]), ["AnyOf", "none"]),
        (lambda: g.AnyOf([g.Posture()]), ["AnyOf", "Posture"]),
        (lambda: g.Weighted([g.Position(HAND, (1, 2, 3))], np.eye(2)), ["matrix", "shape"]),
        (lambda: g.Weighted([g.Position(HAND, (1, 2, 3))], -np.eye(3)), ["positive definite"]),
        (lambda: g.Weighted([g.Posture()], np.eye(3)), ["points and directions of bodies", "Posture"]),
        (lambda: g.Weighted([g.Pose(HAND, np.eye(4))], np.eye(3)), ["matrix", "(..., 6, 6)", "(3, 3)"]),
        (lambda: g.Custom(3.0, points=[HAND]), ["energy", "function"]),
        (lambda: g.Custom(lambda p, d: 0.0), ["points"]),
        (lambda: g.Position(HAND, (1, 2, 3)).moved((1, 2)), ["target", "shape"]),
    ],
)
def test_a_wrong_goal_says_expected_and_got(make, words):
    with pytest.raises(GoalError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


def test_a_session_refuses_a_transposed_target():
    session = ps.Session(ps.figures.human(), g.Pose(HAND, MOVED))
    with pytest.raises(GoalError, match="last row"):
        session.move(HAND, MOVED.T)


@pytest.mark.parametrize(
    "goal",
    [
        g.Position("hnd.R", (1, 2, 3)),
        g.Relative("hand.L", "hnd.R"),
        g.Avoid("elbow.R", "hnd.R"),
        g.Coupling("hnd.R", "elbow.R"),
        g.Balance(["hnd.R", "hand.L", "foot.L"]),
        g.AnyOf([g.Position("hnd.R", (1, 2, 3))]),
        g.Custom(lambda p, d: 0.0, points=["hnd.R"]),
    ],
    ids=lambda goal: type(goal).__name__,
)
def test_an_unknown_name_suggests(human, goal):
    with pytest.raises(GoalError, match=r"unknown .* 'hnd\.R'"):
        ps.solve(human, goal)
    if not isinstance(goal, g.Coupling):
        with pytest.raises(GoalError, match=r"did you mean 'hand\.[RL]'"):
            ps.solve(human, goal)


def test_goals_that_do_not_fit_the_figure(human):
    with pytest.raises(GoalError, match="mass"):
        ps.solve(ps.figures.limb(), g.CenterOfMass((0, 0, 0)))
    with pytest.raises(GoalError, match="two bodies"):
        ps.solve(human, g.Distance("pelvis", "root", 0.1))
    with pytest.raises(GoalError, match="degrees of freedom"):
        ps.solve(human, g.Coupling("elbow.R", "shoulder.R"))
    with pytest.raises(GoalError, match="leading axes"):
        ps.solve(human, [g.Position("hand.L", np.zeros((2, 3))), g.Position(HAND, np.zeros((3, 3)))])
    with pytest.raises(GoalError, match="goals such as"):
        ps.solve(human, ["hand.R"])


def test_an_unreachable_target_is_a_result(human):
    result = ps.solve(human.freeze("root"), g.Position(HAND, (50.0, 0.0, 0.0)))
    assert not result.ok
    assert result.status == "OUT_OF_REACH"


def test_a_transform_with_large_finite_numbers_is_valid():
    target = np.eye(4)
    target[:3, 3] = 9e29  # below the bound, unlike their sum
    assert g.Pose(HAND, target).position.tolist() == [9e29] * 3
