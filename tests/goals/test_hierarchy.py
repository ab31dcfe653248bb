"""Strict priorities, energies in Python, sessions."""

import numpy as np
import pytest

import posable as ps

g = ps.goals


@pytest.fixture(scope="module")
def seated(human):
    return human.freeze(["root", "hip.L", "hip.R"])


HAND = g.Position("hand.R", (-0.1, 0.35, 0.75))
GAZE = g.Aim("head", "z", at=(0.0, 3.0, -0.6))


class TestPriorities:
    def test_a_level_is_never_worse_because_of_a_later_one(self, seated):
        def both(hand, gaze):
            goals = [
                g.Position("hand.R", HAND.target, priority=hand),
                g.Aim("head", "z", at=GAZE.target, priority=gaze),
            ]
            return ps.solve(seated, goals)

        alone = {"hand.R": ps.solve(seated, HAND).errors["hand.R"], "head": ps.solve(seated, GAZE).errors["head"]}
        hand_first, gaze_first, together = both(0, 1), both(1, 0), both(0, 0)
        # the figure cannot have both
        assert not any(result.ok for result in (hand_first, gaze_first, together))
        assert hand_first.errors["hand.R"] <= alone["hand.R"] + 1e-6
        assert gaze_first.errors["head"] <= alone["head"] + 1e-6
        assert hand_first.errors["head"] > alone["head"] + 0.05
        assert gaze_first.errors["hand.R"] > alone["hand.R"] + 0.01
        # the later level is served as far as it goes
        unserved = ps.Problem(seated, GAZE).errors(ps.solve(seated, HAND).pose)
        assert hand_first.errors["head"] < 0.2 * unserved["head"]

    def test_what_can_be_had_is_had(self, human, stand):
        goals = [*stand, g.Position("hand.R", (-0.2, 1.2, 0.4), priority=1), g.Aim("head", "z", (0, 1, 2), priority=2)]
        assert ps.solve(human, goals).ok

    def test_a_missed_level_keeps_what_it_reached(self, seated):
        first = ps.solve(seated, g.Position("hand.R", (-2.0, 1.0, 0.5)))
        both = ps.solve(
            seated, [g.Position("hand.R", (-2.0, 1.0, 0.5)), g.Position("hand.L", (0.9, 1.2, 0.9), priority=1)]
        )
        assert both.errors["hand.R"] <= first.errors["hand.R"] + 1e-6

    def test_posture_last(self, seated):
        goals = [HAND, g.Posture(weight=1.0, priority=1)]
        first = ps.solve(seated, HAND)
        both = ps.solve(seated, goals)
        assert both.errors["hand.R"] <= max(first.errors["hand.R"], 1e-4) + 1e-6
        assert np.linalg.norm(both.pose - seated.rest) <= np.linalg.norm(first.pose - seated.rest) + 1e-6

    def test_batches(self, seated):
        targets = np.array([(-0.1, 0.35, 0.75), (-0.3, 1.2, 0.3)])
        goals = [g.Position("hand.R", targets), g.Aim("head", "z", at=(0, 1, 2), priority=1)]
        result = ps.solve(seated, goals)
        for k in range(2):
            alone = ps.solve(seated, [g.Position("hand.R", targets[k]), goals[1]])
            assert np.array_equal(alone.pose, result.pose[k])

    def test_a_batch_holds_each_at_its_own_posture(self, seated):
        arm = dict.fromkeys(("shoulder.R", "elbow.R", "wrist.R"), 1.0)
        first = [
            g.Position("hand.R", [(-1.2, 1.5, 0.6), (-1.0, 0.4, 0.8)]),
            g.Posture({"elbow.R": 0.5}, arm, weight=0.1),
        ]
        later = g.Position("elbow.R", (-0.3, 1.5, 0.3), priority=1)
        result = ps.solve(seated, [*first, later])
        before = ps.solve(seated, first)
        held = np.concatenate([np.arange(seated.size)[seated.index(name)] for name in arm])
        # the two come to different postures, and each keeps its own: the trunk alone serves the later level
        assert np.abs(before.pose[0, held] - before.pose[1, held]).max() > 0.01
        assert result.pose[:, held] == pytest.approx(before.pose[:, held], abs=1e-5)
        for k in range(2):
            alone = ps.solve(seated, [first[0].moved(first[0].target[k]), first[1], later])
            assert np.array_equal(alone.pose, result.pose[k])

    @pytest.mark.parametrize("custom", [False, True])
    def test_an_energy_in_python_is_held(self, seated, custom):
        target = np.array([-0.3, 1.1, 0.4])
        if custom:
            hand = g.Custom(lambda p, d: 0.5 * np.sum((p["hand.R"] - target) ** 2), points=["hand.R"], label="hand.R")
        else:
            hand = g.Weighted([g.Position("hand.R", target)], np.diag([1.0, 2.0, 3.0]), robust=1.0)
        result = ps.solve(seated, [hand, g.Position("head", (-0.5, 1.2, 0.5), priority=1)])
        frames = ps.forward(seated, result.pose)
        assert np.linalg.norm(frames.position("hand.R") - target) < 1e-3  # sqrt(2 E) of an energy that grew by 1e-6
        alone = ps.Problem(seated, g.Position("head", (-0.5, 1.2, 0.5))).errors(ps.solve(seated, hand).pose)["head"]
        assert np.linalg.norm(frames.position("head") - (-0.5, 1.2, 0.5)) < alone - 0.01

    def test_a_level_at_its_optimum_is_stuck_and_not_out_of_iterations(self, seated):
        both = [g.Position("hand.R", HAND.target, priority=1), GAZE]
        result = ps.solve(seated, both)
        more = ps.solve(seated, both, max_iterations=2000)  # which gains nothing
        assert not result.ok
        assert result.iterations < more.iterations
        assert result.errors["hand.R"] == pytest.approx(more.errors["hand.R"], rel=1e-5)
        assert result.status == more.status == "STUCK"
        assert ps.solve(seated, both, max_iterations=1).status == "OUT_OF_ITERATIONS"

    def test_weight_zero_in_an_earlier_level_holds_nothing(self, seated):
        goals = [g.Position("hand.L", (0.9, 1.9, 0.0), weight=0.0), g.Position("hand.R", (-0.3, 1.2, 0.3), priority=1)]
        result = ps.solve(seated, goals)
        assert result.ok
        assert result.errors["hand.R"] < 1e-4
        far = np.linalg.norm(ps.forward(seated, result.pose).position("hand.L") - (0.9, 1.9, 0.0))
        assert result.errors["hand.L"] == pytest.approx(far)


class TestCustom:
    @pytest.mark.parametrize("solver", ps.solvers.names())
    def test_with_every_solver(self, human, stand, solver):
        # an energy in Python that is a position goal, so that the answer is known
        target = np.array([-0.3, 1.2, 0.4])
        goal = g.Custom(
            lambda p, d: 0.5 * np.sum((p["hand.R"] - target) ** 2), points=["hand.R"], tolerance=1e-3, label="mine"
        )
        if solver == "fabrik":
            with pytest.raises(ps.errors.SolverError, match="Position"):
                ps.solve(human, [*stand, goal], solver=solver)
            return
        result = ps.solve(human, [*stand, goal], solver=solver)
        frames = ps.forward(human, result.pose)
        missed = np.linalg.norm(frames.position("hand.R") - target)
        assert result.errors["mine"] == pytest.approx(missed, abs=1e-9)
        if solver in ("newton", "levenberg-marquardt", "trust-region", "bfgs", "lbfgs", "dls"):
            assert result.ok

    def test_a_nonlinear_energy_is_minimised(self, human, stand):
        def energy(p, d):
            return 0.5 * (np.linalg.norm(p["hand.L"] - p["hand.R"]) - 0.3) ** 2 + 1.0 - d["head"][2]

        goal = g.Custom(energy, points=["hand.L", "hand.R"], directions={"head": "z"}, label="mine")
        result = ps.solve(human, [*stand, goal], start=human.pose({"neck": (0.1, 0.1, 0.3)}))
        problem = ps.Problem(human, [*stand, goal])
        assert result.ok  # soft: it never decides
        assert problem.energy(result.pose) < 1e-8
        assert np.linalg.norm(ps.forward(human, result.pose).rotation_matrix("head")[:, 2] - (0, 0, 1)) < 1e-3

    def test_later_than_other_goals(self, human, stand):
        low = g.Custom(lambda p, d: 0.5 * p["head"][1] ** 2, points=["head"], priority=1)
        result = ps.solve(human, [*stand, g.Position("hand.R", (-0.3, 1.0, 0.3)), low])
        assert result.ok
        assert ps.forward(human, result.pose).position("head")[1] < 1.3


class TestSession:
    def test_goals_are_moved_and_switched(self, human, stand):
        session = ps.Session(human, [*stand, g.Position("hand.R", (-0.3, 1.2, 0.4)), g.Aim("head", "z", (0, 1, 2))])
        assert session.solve().ok
        session.move("hand.R", (-5.0, 1.2, 0.4))
        assert not session.solve().ok
        session.enable("hand.R", False)
        result = session.solve()
        assert result.ok
        assert result.errors["hand.R"] == 0.0
        session.move("hand.R", (-0.3, 1.1, 0.4))  # it stays off
        session.move("head", (1, 1, 2))
        session.solve()
        assert np.linalg.norm(ps.forward(human, session.pose).position("hand.R") - (-0.3, 1.1, 0.4)) > 0.1
        session.enable("hand.R")
        assert session.solve().errors["hand.R"] < 1e-4
        with pytest.raises(ps.PosableError, match="unknown goal 'hand'"):
            session.enable("hand")

    def test_choices_and_levels_are_made_anew_each_time(self, human):
        seated = human.freeze("root")
        goals = [g.AnyOf([g.Position("hand.L", (0.5, 1.2, 0.3)), g.Position("hand.R", (-0.5, 1.2, 0.3))], label="one")]
        session = ps.Session(seated, goals)
        first = session.solve().chosen
        assert session.solve().chosen == first
        session.enable("one", False)
        assert session.solve().ok
