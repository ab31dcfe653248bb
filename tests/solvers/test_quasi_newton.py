"""BFGS and L-BFGS: minima on the limits, and what is refused."""

import pytest
from scipy.optimize import minimize

from posable.errors import SolverError
from posable.goals import Position
from posable.problem import Problem

# --- bfgs ---


def test_bfgs_finds_a_minimum_on_the_limits(lab):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (-0.2, 0.3, 0.35))]  # behind the shoulder: several limits stand in the way
    problem = Problem(skeleton, goals)
    result = lab.solve(skeleton, goals, solver="bfgs", max_iterations=500)
    bounds = list(zip(skeleton.lower, skeleton.upper, strict=True))
    peer = minimize(
        problem.energy, result.pose, jac=problem.gradient, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}
    )
    lab.judge(skeleton, goals, result)
    assert problem.energy(result.pose) <= peer.fun + 1e-5


def test_bfgs_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="alpha"):
        lab.get("bfgs")(alpha=2.0)


# --- lbfgs ---


def test_lbfgs_finds_a_minimum_on_the_limits(lab):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (-0.2, 0.3, 0.35))]  # behind the shoulder: several limits stand in the way
    problem = Problem(skeleton, goals)
    result = lab.solve(skeleton, goals, solver="lbfgs", max_iterations=500)
    bounds = list(zip(skeleton.lower, skeleton.upper, strict=True))
    peer = minimize(
        problem.energy, result.pose, jac=problem.gradient, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}
    )
    lab.judge(skeleton, goals, result)
    assert problem.energy(result.pose) <= peer.fun + 1e-5


@pytest.mark.parametrize("memory", [1, 3, 30])
def test_lbfgs_any_memory_works(lab, memory):
    skeleton, goals = lab.reachable("limb", 20, seed=3)
    assert lab.solve(skeleton, goals, solver=lab.get("lbfgs")(memory_size=memory)).ok.mean() > 0.9


def test_lbfgs_refuses_wrong_options(lab):
    with pytest.raises(SolverError, match="memory_size"):
        lab.get("lbfgs")(memory_size=0)
