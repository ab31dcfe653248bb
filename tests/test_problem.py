"""A problem: what it packs, what it is worth at a pose, and what changes without packing anew."""

import numpy as np
import pytest

import posable as ps
from posable.engine.layout import ROBUST
from posable.errors import GoalError, PosableError, SkeletonError

g = ps.goals


@pytest.fixture(scope="module")
def arm():
    return ps.Skeleton(
        [
            ps.Joint("shoulder", ps.Ball("zyx"), offset=(0, 0, 1.0), mass=2.0),
            ps.Joint("elbow", ps.Revolute("y"), "shoulder", offset=(0.4, 0, 0), limits=(0.0, 2.5), mass=1.0),
            ps.Joint("wrist", ps.Universal("xy"), "elbow", offset=(0.3, 0, 0)),
        ],
        [ps.Site("hand", "wrist", (0.1, 0, 0)), ps.Site("eye", "shoulder", (0.0, 0.1, 0.0))],
    )


POSE = np.array([0.3, -0.2, 0.5, 0.7, 0.1, -0.4])
TARGET = np.array([0.3, 0.4, 1.1])


class TestWorth:
    def test_energy_is_the_sum_over_goals(self, arm):
        goals = [g.Position("hand", TARGET, weight=(1, 2, 3)), g.Aim("eye", "x", TARGET), g.Posture(weight=0.5)]
        miss = ps.forward(arm, POSE).position("hand") - TARGET
        assert ps.Problem(arm, goals[0]).energy(POSE) == pytest.approx(0.5 * miss @ np.diag([1, 2, 3]) @ miss)
        alone = [ps.Problem(arm, goal).energy(POSE) for goal in goals]
        assert ps.Problem(arm, goals).energy(POSE) == pytest.approx(sum(alone), rel=1e-14)

    def test_derivatives_and_residuals_agree(self, arm):
        problem = ps.Problem(
            arm, [g.Position("hand", TARGET), g.Direction("eye", "z", (1, 1, 0)), g.Posture(weight=0.1)]
        )
        assert problem.check_derivatives(POSE).ok
        r, jacobian = problem.residuals(POSE, jacobian=True)
        assert np.array_equal(r, problem.residuals(POSE))
        assert 0.5 * r @ r == pytest.approx(problem.energy(POSE))
        assert jacobian.T @ r == pytest.approx(problem.gradient(POSE))
        assert jacobian.T @ jacobian == pytest.approx(problem.hessian(POSE, kind="gauss-newton"), abs=1e-12)
        for kind in ("exact", "gauss-newton"):
            direct = problem.hessian(POSE, kind=kind, method="direct")
            assert direct == pytest.approx(problem.hessian(POSE, kind=kind), abs=1e-12)

    def test_errors_are_distances_and_angles_by_label(self, arm):
        problem = ps.Problem(arm, [g.Pose("hand", np.eye(4)), g.Position("hand", TARGET), g.Line("eye", TARGET, "z")])
        frames = ps.forward(arm, POSE)
        assert set(problem.errors(POSE)) == {"hand", "hand.rotation", "hand#2", "eye"}
        errors = problem.errors(POSE)
        assert errors["hand"] == pytest.approx(np.linalg.norm(frames.position("hand")))
        assert errors["hand.rotation"] == pytest.approx(frames.rotation("hand").magnitude())
        assert errors["hand#2"] == pytest.approx(np.linalg.norm(frames.position("hand") - TARGET))
        assert errors["eye"] == pytest.approx(np.linalg.norm((frames.position("eye") - TARGET)[:2]))
        assert [problem.measures_angle(k) for k in range(4)] == [False, True, False, False]

    def test_an_axis_of_weight_zero_is_free_and_none_reports_all(self, arm):
        miss = ps.forward(arm, POSE).position("hand") - TARGET
        for weight, counts in (((1, 0, 2), (0, 2)), ((0, 0, 0), (0, 1, 2)), (0.0, (0, 1, 2))):
            problem = ps.Problem(arm, g.Position("hand", TARGET, weight=weight))
            assert problem.errors(POSE)["hand"] == pytest.approx(np.linalg.norm(miss[list(counts)]))
            assert problem.idle.tolist() == [len(counts) == 3]
            assert not problem.soft

    def test_a_choice_is_worth_its_best_member(self, arm):
        members = [g.Position("hand", TARGET), g.Position("eye", (5.0, 0.0, 0.0))]
        energies = [ps.Problem(arm, member).energy(POSE) for member in members]
        problem = ps.Problem(arm, g.AnyOf(members))
        assert problem.combinations() == [(0,), (1,)]
        assert problem.energy(POSE) == min(energies)
        with pytest.raises(GoalError, match="combinations"):
            ps.Problem(arm, [g.AnyOf(members * 9, label=str(k)) for k in range(2)])


class TestBatches:
    def test_targets_and_poses_broadcast(self, arm):
        targets = TARGET + 0.1 * np.arange(6.0)[:, None].reshape(2, 3, 1)
        problem = ps.Problem(arm, [g.Position("hand", targets), g.Aim("eye", "x", targets[0])])
        assert problem.batch_shape == (2, 3)
        energies = problem.energy(POSE)
        assert energies.shape == (2, 3)
        for i in range(2):
            for j in range(3):
                alone = ps.Problem(arm, [g.Position("hand", targets[i, j]), g.Aim("eye", "x", targets[0, j])])
                assert energies[i, j] == alone.energy(POSE)
                assert np.array_equal(problem.gradient(POSE)[i, j], alone.gradient(POSE))
        assert problem.errors(np.tile(POSE, (3, 1)))["hand"].shape == (2, 3)
        with pytest.raises(GoalError, match="one pose"):
            problem.residuals(POSE)
        with pytest.raises(GoalError, match="leading axes"):
            ps.Problem(arm, [g.Position("hand", targets), g.Position("eye", np.zeros((4, 3)))])

    def test_spread_over_a_larger_batch(self, arm):
        problem = ps.Problem(arm, g.Position("hand", np.stack([TARGET, 2 * TARGET])))
        problem.broadcast((3, 2))
        assert problem.targets.shape[0] == 6
        assert np.array_equal(problem.targets[:2], problem.targets[4:])


class TestChanges:
    def test_a_moved_goal_is_a_new_problem(self, arm):
        goals = [
            g.Position("hand", TARGET),
            g.Posture(weight=0.1),
            g.Direction("eye", "z", (1, 1, 0), weight=(1, 2, 3)),
        ]
        problem = ps.Problem(arm, goals)
        kept = problem.copy()
        before = problem.energy(POSE)
        moved = [goals[0].moved(2 * TARGET), goals[1].moved(POSE), goals[2].moved((0, 1, 2))]
        for k, goal in enumerate(moved):
            problem.move(k, goal)
        assert problem.energy(POSE) == pytest.approx(ps.Problem(arm, moved).energy(POSE), rel=1e-14)
        assert kept.energy(POSE) == before
        with pytest.raises(GoalError, match="for one pose"):
            problem.move(0, goals[0].moved(np.zeros((2, 3))))

    @pytest.mark.parametrize("posture", [{}, {"robust": 0.1}, {"tolerance": 0.1}])
    def test_switched_off_is_not_there(self, arm, posture):
        goals = [
            g.Position("hand", TARGET),
            g.Posture(weight=0.1, **posture),
            g.Aim("eye", "x", TARGET, weight=(1, 2, 3)),
        ]
        problem = ps.Problem(arm, goals)
        whole = problem.energy(POSE)
        for k in range(3):
            problem.enable(k, False)
            rest = ps.Problem(arm, [goal for i, goal in enumerate(goals) if i != k])
            assert problem.energy(POSE) == pytest.approx(rest.energy(POSE), rel=1e-14)
            assert problem.gradient(POSE) == pytest.approx(rest.gradient(POSE), abs=1e-14)
            problem.enable(k)
            assert problem.energy(POSE) == whole
        problem.enable(0, False)
        problem.move(0, goals[0].moved(2 * TARGET))  # stays off
        assert problem.constants[0, 0, ROBUST] < 0.0


class TestPacking:
    def test_plain_problems_are_the_ones_that_a_solver_answers_alone(self, arm):
        position = g.Position("hand", TARGET)
        for goals, plain in (
            ([position, g.Posture()], True),
            ([position, g.Posture(priority=1)], False),
            (g.AnyOf([position]), False),
            (g.Custom(lambda p, d: 0.0, points=["hand"]), False),
            (g.Aim("eye", "x", TARGET), True),
            (g.Aim("eye", "x", TARGET, weight=(1, 2, 3)), True),
        ):
            assert ps.Problem(arm, goals).plain is plain

    def test_what_is_minimised_is_soft(self, arm):
        position = g.Position("hand", TARGET)
        assert not ps.Problem(arm, position).soft
        assert ps.Problem(arm, [position, g.Posture()]).soft
        assert ps.Problem(arm, g.Position("hand", TARGET, tolerance=np.inf)).soft
        assert ps.Problem(arm, g.Custom(lambda p, d: 0.0, points=["hand"])).soft

    def test_couplings_of_a_figure_are_goals(self, arm):
        figure = arm.replace(couplings=[("wrist.x", "elbow", 0.5, 0.1)])
        problem = ps.Problem(figure, g.Position("hand", TARGET))
        assert problem.labels == ("hand", "wrist.x follows elbow")
        assert problem.errors(POSE)["wrist.x follows elbow"] == pytest.approx(abs(0.1 - 0.5 * 0.7 - 0.1))
        assert problem.coupled
        assert not ps.Problem(arm, g.Position("hand", TARGET)).coupled

    def test_wrong_calls(self, arm):
        with pytest.raises(SkeletonError, match="expected a Skeleton"):
            ps.Problem("arm", [])
        with pytest.raises(GoalError, match="a goal, or several, got 'hand'"):
            ps.Problem(arm, "hand")  # not its letters
        with pytest.raises(GoalError, match="a goal, or several"):
            ps.Problem(arm, 3)
        with pytest.raises(GoalError, match="goals such as"):
            ps.Problem(arm, ["hand"])
        with pytest.raises(GoalError, match="did you mean 'hand'"):
            ps.Problem(arm, g.Position("hnad", TARGET))
        problem = ps.Problem(arm, g.Position("hand", TARGET))
        with pytest.raises(GoalError, match="'exact' or 'gauss-newton'"):
            problem.hessian(POSE, kind="newton")
        with pytest.raises(GoalError, match="'gathered' or 'direct'"):
            problem.hessian(POSE, method="indirect")
        with pytest.raises(PosableError, match="expected shape"):
            problem.energy(np.zeros(3))
        with pytest.raises(GoalError, match="squared residuals"):
            ps.Problem(arm, g.AnyOf([g.Position("hand", TARGET)])).residuals(POSE)


def test_the_error_of_a_coupling_is_an_angle_or_a_length_as_its_follower_is():
    skeleton = ps.Skeleton(
        [
            ps.Joint("turn", motion=ps.Revolute("z")),
            ps.Joint("bend", parent="turn", motion=ps.Revolute("z")),
            ps.Joint("slide", parent="bend", motion=ps.Prismatic("x")),
        ]
    )
    problem = ps.Problem(skeleton, [ps.goals.Coupling("bend", "turn"), ps.goals.Coupling("slide", "turn")])
    assert [problem.measures_angle(k) for k in range(2)] == [True, False]
