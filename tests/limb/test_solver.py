"""`solver="limb"`: alone, and on whole bodies."""

import numpy as np
import pytest

import posable as ps
from posable.cli.main import main

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
        ps.solve(ps.figures.panda(), g.Position("hand", (0.4, 0.1, 0.5)), solver="limb")


def test_newton_lands_limbs_exactly_if_asked_to():
    skeleton = ps.figures.human()
    at = ps.forward(skeleton, skeleton.rest)
    goals = [
        g.Position("hand.R", at.position("hand.R") + np.array([0.05, 0.1, 0.15])),
        g.Pose("foot.L", at.matrix("foot.L")),
        g.Position("head", at.position("head") + np.array([0.0, 0.0, 0.05])),
    ]
    plain = ps.solve(skeleton, goals, natural=False)
    exact = ps.solve(skeleton, goals, solver=ps.solvers.get("newton")(limbs=True))
    assert (exact.ok, exact.solver) == (True, "newton")
    assert plain.errors["hand.R"] > 1e-12
    placed = ps.forward(skeleton, exact.pose)
    assert np.abs(placed.position("hand.R") - goals[0].target).max() < 1e-12
    assert np.abs(placed.matrix("foot.L") - at.matrix("foot.L")).max() < 1e-12
    assert np.abs(exact.pose - plain.pose).max() < 0.01  # the same pose, but for what was left to gain
    assert np.all(exact.pose >= skeleton.lower)
    assert np.all(exact.pose <= skeleton.upper)


def test_newton_with_limbs_serves_every_figure_and_a_session():
    newton = ps.solvers.get("newton")(limbs=True)
    arm = ps.figures.planar_arm()
    assert ps.solve(arm, g.Position("tip", (10.0, 5.0, 0.0)), solver=newton).ok
    skeleton = ps.figures.human()
    place = ps.forward(skeleton, skeleton.rest).position("hand.R")
    session = ps.Session(skeleton, g.Position("hand.R", place), solver=newton)
    for step in (0.05, 0.1):
        session.move("hand.R", place + step)
        assert session.solve().errors["hand.R"] < 1e-12
    session.enable("hand.R", False)
    assert session.solve().ok


def test_solving_a_hand_in_closed_form_does_not_worsen_another_goal():
    skeleton = ps.figures.human()
    pose = skeleton.pose({"elbow.R": 1.0, "shoulder.R": 0.5 * skeleton.upper[skeleton.index("shoulder.R")]})
    at = ps.forward(skeleton, pose)
    goals = [g.Position("hand.R", at.position("hand.R")), g.Position("elbow.R", at.position("elbow.R"), tolerance=1e-5)]
    for solver in ("limb", ps.solvers.get("limb")(swivel=2.0), ps.solvers.get("newton")(limbs=True)):
        result = ps.solve(skeleton, goals, solver=solver)
        assert result.ok, result.message


def test_a_chain_that_is_not_a_limb_is_reported():
    goal = g.Position("hand", (0.3, 0.1, 0.0))
    with pytest.raises(ps.PosableError, match=r"'hand', which is on no limb.*joint 'elbow' is frozen"):
        ps.solve(ps.figures.limb().freeze("elbow"), goal, solver="limb")
    with pytest.raises(ps.PosableError, match="limb: swivel: expected a finite angle"):
        ps.solvers.get("limb")(swivel=float("nan"))


def test_the_command_line_says_what_became_of_the_swivel(capsys):
    assert main(["solve", "limb", "--reach", "hand=0.3,0.1,0.1", "--swivel", "0.4"]) == 0
    told = capsys.readouterr().out
    limb = ps.Limb(ps.figures.limb(), "shoulder", "elbow", "wrist", site="hand")
    ranges = limb.swivel_ranges((0.3, 0.1, 0.1))
    assert ranges
    assert not any(0.4 in r for r in ranges)
    nearest = min((end for r in ranges for end in r), key=lambda end: abs(np.sin(0.5 * (end - 0.4))))
    assert f"swivel {nearest:.4f} rad" in told
    assert all(f"{r}\n" in told for r in ranges)
    assert "from shoulder.x lower to shoulder.y lower" in told
    assert main(["explain", "limb", "--reach", "hand=0.3,0.1,0.1"]) == 0
    told = capsys.readouterr().out
    assert "rad, from shoulder.x lower to shoulder.x upper" in told
    assert main(["solve", "limb", "--reach", "hand=0.3,0.1,0.1", "--swivel", "nan"]) == 2


def test_a_place_and_a_direction(make_arm):
    skeleton = make_arm(wrist=(-1.5, 1.5), shoulder=(-2.5, 2.5))
    goals = [ps.goals.Position("hand", (0.35, 0.2, 0.15)), ps.goals.Direction("hand", "x", along=(1.0, 0.4, 0.2))]
    result = ps.solve(skeleton, goals, solver="limb")
    assert result.ok, result.message
    assert max(result.errors.values()) < 1e-8  # exact, not to a tolerance
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    assert np.allclose(result.pose, limb.solve_partial((0.35, 0.2, 0.15), "x", (1.0, 0.4, 0.2)).pose)


def test_an_aim(make_arm):
    skeleton = make_arm()
    result = ps.solve(skeleton, ps.goals.Aim("hand", "x", at=(2.0, 1.0, -0.5)), solver="limb")
    assert result.ok, result.message
    at = ps.forward(skeleton, result.pose)
    towards = np.array([2.0, 1.0, -0.5]) - at.position("hand")
    assert np.linalg.norm(np.cross(at.rotation_matrix("hand")[:, 0], towards)) < 1e-8


def test_a_hand_of_the_human_points(make_arm):
    human = ps.figures.human()
    goals = [
        ps.goals.Position("hand.R", (-0.35, 1.3, 0.35)), ps.goals.Direction("hand.R", "z", along=(0.0, 0.2, 1.0)),
        ps.goals.Pose("foot.L", ps.forward(human, human.rest).matrix("foot.L")),
    ]  # fmt: skip
    result = ps.solve(human, goals, solver="limb")
    assert result.ok, result.message
    assert result.errors["hand.R"] < 1e-9
    with pytest.raises(ps.PosableError, match="other than a position"):
        ps.solve(human, [ps.goals.Direction("hand.R", "z", along=(0.0, 0.0, 1.0))], solver="limb")
