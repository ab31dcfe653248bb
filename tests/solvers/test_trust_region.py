"""Trust region and Levenberg-Marquardt: constrained minima against SciPy's L-BFGS-B, and their options."""

import pytest
from scipy.optimize import minimize

from posable.errors import SolverError
from posable.goals import Position
from posable.problem import Problem


def test_it_finds_a_minimum_on_the_limits(lab):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (-0.2, 0.3, 0.35))]  # behind the shoulder: several limits stand in the way
    problem = Problem(skeleton, goals)
    result = lab.solve(skeleton, goals, solver="trust-region", max_iterations=500)
    bounds = list(zip(skeleton.lower, skeleton.upper, strict=True))
    peer = minimize(
        problem.energy, result.pose, jac=problem.gradient, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}
    )
    lab.judge(skeleton, goals, result)
    assert problem.energy(result.pose) <= peer.fun + 1e-5


@pytest.mark.parametrize(
    "options",
    [
        {"indefinite": "curvature"},
        {"bandwidth": 0},
        {"bandwidth": 2},
        {"tolerance": 0.01},
        {"radius": 0.1},
        {"most": 5},
    ],
    ids=str,
)
def test_every_option_works(lab, options):
    skeleton, goals = lab.reachable("limb", 20, seed=3)
    result = lab.solve(skeleton, goals, solver=lab.get("trust-region")(**options))
    lab.judge(skeleton, goals, result)
    assert result.ok.mean() >= 0.8


def test_iterates_stay_strictly_inside(lab):
    skeleton, goals = lab.reachable("limb", 10, seed=3, spread=2.0)
    for most in (1, 3, 10):
        pose = lab.solve(skeleton, goals, solver="trust-region", max_iterations=most).pose
        assert (pose > skeleton.lower).all()
        assert (pose < skeleton.upper).all()


@pytest.mark.parametrize("options", [{"radius": 0.0}, {"tolerance": 1.0}, {"bandwidth": -1}, {"indefinite": "no"}])
def test_it_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("trust-region")(**options)


def test_levenberg_marquardt_finds_a_minimum_on_the_limits(lab):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (-0.2, 0.3, 0.35))]  # behind the shoulder: several limits stand in the way
    problem = Problem(skeleton, goals)
    result = lab.solve(skeleton, goals, solver="levenberg-marquardt", max_iterations=500)
    bounds = list(zip(skeleton.lower, skeleton.upper, strict=True))
    peer = minimize(
        problem.energy, result.pose, jac=problem.gradient, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}
    )
    lab.judge(skeleton, goals, result)
    assert problem.energy(result.pose) <= peer.fun + 1e-5


@pytest.mark.parametrize("scale", ["levenberg", "marquardt"])
def test_both_metrics_work(lab, scale):
    skeleton, goals = lab.reachable("tree", 20, seed=3)
    assert lab.solve(skeleton, goals, solver=lab.get("levenberg-marquardt")(scale=scale)).ok.mean() > 0.8


@pytest.mark.parametrize("options", [{"damping": 0.0}, {"scale": "newton"}])
def test_levenberg_marquardt_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=next(iter(options))):
        lab.get("levenberg-marquardt")(**options)
