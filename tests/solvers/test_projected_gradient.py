"""The projected gradient: its step by hand, the choices of the first step, and what it refuses."""

import numpy as np
import pytest

from posable.errors import SolverError
from posable.problem import Problem


def test_one_step_is_the_seeds(lab):
    skeleton, goals = lab.reachable("limb", 1, seed=1)
    goals = [goal.moved(goal.target[0]) for goal in goals]
    start = np.clip(np.full(7, 0.2), skeleton.lower, skeleton.upper)
    problem = Problem(skeleton, goals)
    energy, gradient = problem.energy(start), problem.gradient(start)
    tau, alpha, beta = 1.0, 1e-4, 0.5
    while True:  # (34), (39), (40)
        trial = np.clip(start - tau * gradient, skeleton.lower, skeleton.upper)
        if problem.energy(trial) <= energy + alpha * gradient @ (trial - start):
            break
        tau *= beta
    pose = lab.solve(skeleton, goals, start=start, solver="projected-gradient", max_iterations=1).pose
    np.testing.assert_allclose(pose, trial, atol=1e-12)


def test_the_spectral_step_is_faster(lab):
    skeleton, goals = lab.reachable("limb", 20, seed=2)
    counts = {}
    for first in ("one", "previous", "spectral"):
        method = lab.get("projected-gradient")(first_step=first)
        result = lab.solve(skeleton, goals, solver=method)
        lab.judge(skeleton, goals, result)
        counts[first] = float(np.median(result.iterations))
    assert counts["spectral"] < 0.5 * counts["one"]


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"beta": 1.0}, {"alpha": 0.6}, {"first_step": "two"}])
def test_it_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=r"alpha|beta|first_step"):
        lab.get("projected-gradient")(**options)
