"""Solvers that SciPy drives: the straight path of the rate method, and minima against SciPy itself."""

import numpy as np
import pytest
from scipy.optimize import minimize

import posable as ps
from posable.errors import SolverError
from posable.goals import Position
from posable.problem import Problem
from posable.solvers.scipy_methods import METHODS


@pytest.mark.parametrize("method", METHODS)
def test_every_integrator_reaches(lab, method):
    goal = Position("tip", (-20.0, 5.0, 0.0), tolerance=1e-2)
    result = lab.solve(lab.arm, goal, start=lab.start, solver=lab.get("rate")(method=method, rtol=1e-3))
    assert result.ok


def test_the_path_is_straight(lab):
    goal = np.array([-20.0, 5.0, 0.0])
    first = ps.forward(lab.arm, lab.start).position("tip")
    along = (goal - first) / np.linalg.norm(goal - first)
    for most in (3, 6, 9):
        pose = lab.solve(lab.arm, Position("tip", goal), start=lab.start, solver="rate", max_iterations=most).pose
        gone = ps.forward(lab.arm, pose).position("tip") - first
        assert np.linalg.norm(gone - (gone @ along) * along) < 0.05
        assert gone @ along > 0.0


@pytest.mark.parametrize("options", [{"method": "euler"}, {"gain": 0.0}, {"settle": -1.0}, {"rtol": 0.0}])
def test_rate_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("rate")(**options)


@pytest.mark.parametrize("weight", [1e15, 1e30])
def test_weights_that_swallow_the_damping(weight):
    """Two goals on one body: JJ' is singular, and the damping is lost in rounding beside such weights."""
    limb = ps.figures.limb()
    place = ps.forward(limb, limb.rest + 0.1).position("hand")
    goals = [Position("hand", place, weight=weight), Position("hand", place, weight=weight, label="again")]
    result = ps.solve(limb, goals, solver="rate")
    assert np.isfinite(result.pose).all()
    reached = np.linalg.norm(ps.forward(limb, result.pose).position("hand") - place) <= 1e-4
    assert result.ok == reached


def test_it_finds_a_minimum_on_the_limits(lab):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (-0.2, 0.3, 0.35))]  # behind the shoulder: several limits stand in the way
    problem = Problem(skeleton, goals)
    result = lab.solve(skeleton, goals, solver="sqp", max_iterations=500)
    bounds = list(zip(skeleton.lower, skeleton.upper, strict=True))
    peer = minimize(
        problem.energy, result.pose, jac=problem.gradient, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}
    )
    lab.judge(skeleton, goals, result)
    assert problem.energy(result.pose) <= peer.fun + 1e-5


def test_sqp_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="tolerance"):
        lab.get("sqp")(tolerance=0.0)


@pytest.mark.parametrize("seed", [-1, -(2**70), 2**70])
@pytest.mark.parametrize("solver", ["sqp", "rate"])
def test_any_integer_is_a_seed(lab, solver, seed):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (-0.2, 0.3, 0.35))]
    first, second = (
        lab.solve(skeleton, goals, solver=solver, restarts=2, seed=seed, max_iterations=60) for _ in range(2)
    )
    assert (first.pose == second.pose).all()
