"""Projected conjugate gradients: a constrained minimum against SciPy's L-BFGS-B, and its options."""

import numpy as np
from scipy.optimize import minimize

from posable.goals import Position
from posable.problem import Problem


def test_it_finds_a_minimum_on_the_limits(lab):
    skeleton, _ = lab.reachable("limb", 1)
    goals = [Position("hand", (-0.2, 0.3, 0.35))]  # behind the shoulder: several limits stand in the way
    problem = Problem(skeleton, goals)
    result = lab.solve(skeleton, goals, solver="projected-cg", max_iterations=500)
    bounds = list(zip(skeleton.lower, skeleton.upper, strict=True))
    peer = minimize(
        problem.energy, result.pose, jac=problem.gradient, bounds=bounds, method="L-BFGS-B", options={"ftol": 1e-15}
    )
    lab.judge(skeleton, goals, result)
    assert problem.energy(result.pose) <= peer.fun + 1e-5


def test_the_curvature_saves_evaluations(lab):
    skeleton, goals = lab.reachable("tree", 20, seed=3)
    guided, plain = (lab.solve(skeleton, goals, solver=lab.get("projected-cg")(curvature=c)) for c in (True, False))
    assert guided.ok.mean() >= 0.9
    assert np.median(guided.evaluations) < np.median(plain.evaluations)
