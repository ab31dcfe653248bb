"""Every solver on every figure: numbers, limits held, no false success, the same bits alone and in a batch."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Aim, Distance, HalfSpace, Plane, Pose, Position, Posture
from posable.problem import Problem
from posable.solvers import base as solver_module
from posable.solvers import names

SOLVERS = [name for name in names() if name != "limb"]
FIGURES = ("limb", "planar_arm", "panda", "spider", "tree", "human")
SLOW = {"rate", "sqp"}  # driven from Python
POSITIONS_ONLY = {"fabrik"}
# How many of the reachable problems each solves at least, all figures together; projection of the final pose,
# coordinate descent and first-order methods are what they are.
EXPECTED = {"svd": 0.3, "ccd": 0.3, "fabrik": 0.3, "transpose": 0.3, "projected-gradient": 0.3}


@pytest.mark.parametrize("solver", SOLVERS)
def test_positions_on_every_figure(lab, solver):
    solved, total = 0, 0
    for figure in FIGURES:
        count = 2 if solver in SLOW else 10
        skeleton, goals = lab.reachable(figure, count)
        result = lab.solve(skeleton, goals, solver=solver, max_iterations=300)
        lab.judge(skeleton, goals, result)
        assert (result.iterations <= 300).all()
        solved += int(result.ok.sum())
        total += count
    assert solved >= EXPECTED.get(solver, 0.85) * total


@pytest.mark.parametrize("solver", SOLVERS)
def test_poses_or_a_clear_refusal(lab, solver):
    skeleton, goals = lab.reachable("panda", 2 if solver in SLOW else 10, kind=Pose)
    if solver in POSITIONS_ONLY:
        with pytest.raises(SolverError, match="Position"):
            lab.solve(skeleton, goals, solver=solver)
        return
    result = lab.solve(skeleton, goals, solver=solver, max_iterations=300)
    lab.judge(skeleton, goals, result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_same_bits_alone_in_a_batch_and_on_threads(lab, solver):
    count = 3 if solver in SLOW else 40
    skeleton, goals = lab.reachable("limb", count, seed=3)
    one = lab.solve(skeleton, goals, solver=solver, threads=1, max_iterations=60)
    two = lab.solve(skeleton, goals, solver=solver, threads=2, max_iterations=60)
    np.testing.assert_array_equal(one.pose, two.pose)
    for k in (0, count // 2, count - 1):
        alone = lab.solve(skeleton, [goal.moved(goal.target[k]) for goal in goals], solver=solver, max_iterations=60)
        np.testing.assert_array_equal(alone.pose, one.pose[k])
        assert alone.iterations == one.iterations[k]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_trace_changes_nothing(lab, solver):
    skeleton, goals = lab.reachable("limb", 1, seed=5)
    goals = [goal.moved(goal.target[0]) for goal in goals]
    plain = lab.solve(skeleton, goals, solver=solver, max_iterations=50)
    traced = lab.solve(skeleton, goals, solver=solver, max_iterations=50, record=True)
    np.testing.assert_array_equal(plain.pose, traced.pose)
    assert len(traced.trace["energy"]) == traced.iterations
    assert (np.diff(traced.trace["seconds"]) >= 0.0).all()
    assert np.isfinite(np.array(list(traced.trace.values()))).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_trace_with_endless_iterations_takes_no_memory(lab, solver):
    skeleton, goals = lab.reachable("limb", 1, seed=5)
    goals = [goal.moved(goal.target[0]) for goal in goals]
    traced = lab.solve(skeleton, goals, solver=solver, max_iterations=10**12, time_limit=1.0, record=True)
    assert len(traced.trace["energy"]) == traced.iterations
    assert np.isfinite(np.array(list(traced.trace.values()))).all()


def test_a_long_trace_is_whole():
    arm = ps.figures.planar_arm([1.0, 1.0])
    options = {"solver": ps.solvers.get("transpose")(step=1e-6), "max_iterations": 3000, "record": True}
    trace = ps.solve(arm, ps.goals.Position("tip", (0.5, 1.0, 0.0)), **options).trace
    assert {len(column) for column in trace.values()} == {3000}
    assert (np.diff(trace["energy"]) < 0.0).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_out_of_reach_is_not_a_success_and_ends(lab, solver):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (3.0, 0.0, 0.5))]
    result = lab.solve(skeleton, goals, solver=solver, max_iterations=100)
    assert not result.ok
    assert result.status == "OUT_OF_REACH"
    assert result.iterations <= 100
    lab.judge(skeleton, goals, result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_time_is_kept(lab, solver):
    skeleton, goals = lab.reachable("human", 1, spread=1.0)
    goals = [goal.moved(goal.target[0] + 1.0) for goal in goals]
    lab.solve(skeleton, goals, solver=solver, max_iterations=1)
    result = lab.solve(skeleton, goals, solver=solver, time_limit=0.05, max_iterations=100_000, restarts=1000)
    assert result.seconds < 1.5
    lab.judge(skeleton, goals, result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_restarts_are_drawn_from_the_seed(lab, solver):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (3.0, 0.0, 0.5))]  # stuck for ever: every restart is used
    options = {"solver": solver, "restarts": 2, "max_iterations": 60}
    first = lab.solve(skeleton, goals, seed=1, **options)
    np.testing.assert_array_equal(first.pose, lab.solve(skeleton, goals, seed=1, **options).pose)
    assert first.iterations <= 60


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name not in POSITIONS_ONLY])
def test_every_kind_of_goal(lab, solver):
    skeleton, _ = lab.reachable("human", 1)
    goals = [
        Aim("head", axis="z", at=(0.5, 1.6, 3.0), tolerance=0.02),
        Distance("hand.L", "hand.R", 0.4, tolerance=0.01),
        Plane("foot.L", (0.0, 0.1, 0.0), (0.0, 1.0, 0.0), tolerance=0.01),
        HalfSpace("hand.R", (0.0, 1.0, 0.0), (0.0, 1.0, 0.0), tolerance=0.01),
        Posture(weight=1e-3),
    ]
    problem = Problem(skeleton, goals)
    result = lab.solve(skeleton, goals, solver=solver, max_iterations=30)
    assert np.isfinite(result.pose).all()
    assert (result.pose >= skeleton.lower - 1e-9).all()
    assert (result.pose <= skeleton.upper + 1e-9).all()
    assert problem.energy(result.pose) < problem.energy(skeleton.rest)


def test_fabrik_refuses_what_is_not_a_position_of_one_body(lab):
    skeleton, _ = lab.reachable("human", 1)
    for goal in (Distance("hand.L", "hand.R", 0.4), Plane("foot.L", (0, 0, 0), (0, 1, 0)), Posture()):
        with pytest.raises(SolverError, match="Position"):
            lab.solve(skeleton, [Position("head", (0.0, 1.6, 0.1)), goal], solver="fabrik")


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name not in SLOW])
def test_no_memory_is_read_before_it_is_written(lab, solver, monkeypatch):
    class Numpy:
        fill = 0.0

        def __getattr__(self, name):
            return getattr(np, name)

        def empty(self, *arguments, **options):
            return np.full(*arguments, self.fill, **options)

    scratch = Numpy()
    monkeypatch.setattr(solver_module, "np", scratch)
    for figure in ("limb", "tree"):
        skeleton, goals = lab.reachable(figure, 4, seed=6)
        poses = []
        for scratch.fill in (0.0, np.nan, 1e30):
            poses.append(lab.solve(skeleton, goals, solver=solver, max_iterations=25, threads=1).pose)
        np.testing.assert_array_equal(poses[1], poses[0])
        np.testing.assert_array_equal(poses[2], poses[0])
