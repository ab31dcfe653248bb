"""Hostile problems: the bounded part of benchmarks/hostile.py, and the defined answer to each kind of trouble."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Position
from posable.solvers import names

SOLVERS = [name for name in names() if name != "limb"]


@pytest.fixture(scope="module")
def hostile(benchmark_module):
    return benchmark_module("hostile")


@pytest.mark.parametrize("solver", SOLVERS)
def test_hostile_problems(hostile, solver):
    problems = 320 if solver in ("rate", "sqp") else 1280
    _, found = hostile.run(problems, seed=7, solvers=[solver])
    assert found == []


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_goals_are_reached_at_once(lab, solver):
    result = lab.solve(ps.figures.limb(), [], solver=solver)
    assert result.ok
    np.testing.assert_array_equal(result.pose, ps.figures.limb().rest)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_start_that_is_not_a_number_is_refused(lab, solver):
    start = np.zeros(7)
    start[3] = np.nan
    with pytest.raises(SolverError, match="elbow"):
        lab.solve(ps.figures.limb(), [Position("hand", (0.3, 0.2, 0.1))], solver=solver, start=start)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_figure_that_cannot_move_stays(lab, solver):
    skeleton = ps.figures.limb()
    frozen = skeleton.freeze(skeleton.names)
    goals = [Position("hand", (0.3, 0.2, 0.1))]
    result = lab.solve(frozen, goals, solver=solver, max_iterations=20)
    np.testing.assert_array_equal(result.pose, frozen.rest)
    assert not result.ok


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_target_at_1e12_ends_with_numbers(lab, solver):
    goals = [Position("hand", (1e12, -1e12, 1e12))]
    result = lab.solve(ps.figures.limb(), goals, solver=solver, max_iterations=50)
    assert result.status == "OUT_OF_REACH"
    lab.judge(ps.figures.limb(), goals, result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_iterations_leave_the_projected_start(lab, solver):
    goals = [Position("hand", (0.3, 0.2, 0.1))]
    result = lab.solve(ps.figures.limb(), goals, solver=solver, start=np.full(7, 9.0), max_iterations=0)
    np.testing.assert_array_equal(
        result.pose, np.clip(np.full(7, 9.0), ps.figures.limb().lower, ps.figures.limb().upper)
    )
    assert result.iterations == 0


@pytest.mark.parametrize("solver", [name for name in ps.solvers.names() if name != "limb"])
def test_an_empty_batch_then_one_problem(solver):
    """No problem gives no pose, with couplings and without, and leaves nothing behind for the next problem."""
    arm = ps.figures.planar_arm([1.0, 1.0])
    coupling = [] if solver in ("fabrik", "ccd") else [ps.goals.Coupling(*arm.dof_names[:2])]
    for more in ([], coupling):
        none = ps.solve(arm, [ps.goals.Position("tip", np.zeros((0, 3))), *more], solver=solver)
        assert none.pose.shape == (0, arm.size)
        assert none.ok.shape == (0,)
        one = ps.solve(arm, [ps.goals.Position("tip", np.array([[1.2, 0.4, 0.0]])), *more], solver=solver)
        assert one.pose.shape == (1, arm.size)
        assert np.isfinite(one.pose).all()
