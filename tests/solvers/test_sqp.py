"""Sequential quadratic programming: a constrained minimum against SciPy's L-BFGS-B, and its options."""

import pytest
from scipy.optimize import minimize

from posable.errors import SolverError
from posable.goals import Position
from posable.problem import Problem


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


def test_it_refuses_wrong_options(lab):
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
