"""Projected gradient and conjugate gradient: one step against the paper, minima on the limits, what is refused."""

import numpy as np
import pytest
from scipy.optimize import minimize

import posable as ps
from posable.errors import SolverError
from posable.goals import Position
from posable.problem import Problem

# --- projected-gradient ---


def test_projected_gradient_one_step_is_the_seeds(lab):
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


def test_projected_gradient_one_step_with_every_kind_of_force(lab):
    """The gradient that it takes without a Hessian is the problem's: on bodies, between them, on the centre of mass."""
    human = ps.figures.human()
    goals = [
        ps.goals.Position("hand.L", (0.4, 0.3, 1.5)),
        ps.goals.CenterOfMass((0.05, 0.0, 0.9)),
        ps.goals.Distance("hand.L", "hand.R", 0.2),
        ps.goals.Posture(human.rest, weight=0.1),
    ]
    for kept in (goals[:1], goals[:1] + goals[3:], goals):
        problem = Problem(human, kept)
        start = np.clip(human.rest + 0.1, human.lower, human.upper)
        pose = lab.solve(human, kept, start=start, solver="projected-gradient", max_iterations=1).pose
        moved = (pose != start) & (pose != human.lower) & (pose != human.upper)
        tau = (start - pose)[moved] / problem.gradient(start)[moved]
        assert moved.sum() > 10
        np.testing.assert_allclose(tau, tau[0], rtol=1e-9)


def test_projected_gradient_the_spectral_step_is_faster(lab):
    skeleton, goals = lab.reachable("limb", 20, seed=2)
    counts = {}
    for first in ("one", "previous", "spectral"):
        method = lab.get("projected-gradient")(first_step=first)
        result = lab.solve(skeleton, goals, solver=method)
        lab.judge(skeleton, goals, result)
        counts[first] = float(np.median(result.iterations))
    assert counts["spectral"] < 0.5 * counts["one"]


def test_projected_gradient_a_kick_frees_a_straight_arm_from_its_limit(lab):
    arm = ps.figures.planar_arm((0.3, 0.3, 0.3), limits=[(-3.0, 3.0), (0.0, 2.5), (0.0, 2.5)])
    goal = ps.goals.Position("tip", (0.5, 0.0, 0.0))
    caught, freed = (
        ps.solve(arm, goal, start=np.zeros(3), solver=lab.get("projected-gradient")(kicks=kicks)) for kicks in (0, 1)
    )
    assert caught.errors["tip"] > 0.3
    assert np.linalg.norm(ps.forward(arm, freed.pose).position("tip") - goal.target) < 1e-4


@pytest.mark.parametrize(
    "options", [{"alpha": 0.0}, {"beta": 1.0}, {"alpha": 0.6}, {"first_step": "two"}, {"kicks": -1}]
)
def test_projected_gradient_refuses_wrong_options(lab, options):
    with pytest.raises(SolverError, match=r"alpha|beta|first_step|kicks"):
        lab.get("projected-gradient")(**options)


# --- projected-cg ---


def test_projected_cg_finds_a_minimum_on_the_limits(lab):
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


def test_projected_cg_the_curvature_saves_evaluations(lab):
    skeleton, goals = lab.reachable("tree", 20, seed=3)
    guided, plain = (lab.solve(skeleton, goals, solver=lab.get("projected-cg")(curvature=c)) for c in (True, False))
    assert guided.ok.mean() >= 0.9
    assert np.median(guided.evaluations) < np.median(plain.evaluations)
