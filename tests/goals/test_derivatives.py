"""Every goal's gradient and Hessian against differences, and its residuals against its energy."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import posable as ps

_spec = importlib.util.spec_from_file_location("goal_family", Path(__file__).with_name("conftest.py"))
_family = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_family)
NAMES = sorted(_family.FAMILY)
POSES = ("random-0", "random-1", "random-2", "limit", "singular")
# An energy in Python without derivatives is differenced twice.
HESSIAN = {"custom": 1e-5}


@pytest.mark.parametrize("where", POSES)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_agree_with_differences(name, where, lab, human):
    check = ps.Problem(human, lab.goals[name]).check_derivatives(lab.poses[where])
    assert check.gradient < 1e-8
    assert check.hessian < HESSIAN.get(name, 1e-7)


def test_all_goals_together(lab, human):
    goals = [goal for name, goal in lab.goals.items() if not name.startswith(("custom", "any"))]
    assert ps.Problem(human, goals).check_derivatives(lab.poses["random-0"]).ok


RESIDUALS = [name for name in NAMES if not name.startswith(("custom", "any"))]
ROTATIONS = ("orientation", "pose", "relative")  # with rotation vectors as residuals, their energy is another one


@pytest.mark.parametrize(
    ("name", "vectors"),
    [(name, False) for name in RESIDUALS] + [(name, True) for name in RESIDUALS if not name.startswith(ROTATIONS)],
)
def test_residuals_are_the_energy(name, vectors, lab, human):
    problem = ps.Problem(human, lab.goals[name])
    pose = lab.poses["random-1"]
    residuals, jacobian = problem.residuals(pose, jacobian=True, vectors=vectors)
    energy, gradient, hessian, _ = problem.evaluate(pose, exact=False)
    scale = max(1.0, np.abs(hessian).max())
    assert np.allclose(jacobian.T @ residuals, gradient, atol=1e-12 * scale * max(1.0, np.abs(residuals).max()))
    assert np.allclose(jacobian.T @ jacobian, hessian, atol=1e-12 * scale)
    robust = any(goal.robust is not None for goal in problem.goals)
    if not robust:
        assert 0.5 * residuals @ residuals == pytest.approx(energy, rel=1e-12)


@pytest.mark.parametrize("name", ROTATIONS)
def test_rotation_vectors_as_residuals_lead_downhill(name, lab, human):
    # the rows of the Jacobian are those of the angular velocity, yet J'r is the gradient of their own energy exactly
    problem, pose = ps.Problem(human, lab.goals[name]), lab.poses["random-1"]
    residuals, jacobian = problem.residuals(pose, jacobian=True, vectors=True)
    step = 1e-5 * np.cos(np.arange(human.size))
    ahead, back = (0.5 * np.sum(problem.residuals(pose + sign * step, vectors=True) ** 2) for sign in (1.0, -1.0))
    assert (ahead - back) / 2.0 == pytest.approx(residuals @ jacobian @ step, rel=1e-6)


@pytest.mark.parametrize("name", ["relative", "distance", "center-of-mass", "weighted", "coupling-across"])
def test_coupled_factorisation_solves_the_dense_system(name, lab, human):
    # one damped Newton step through the sparse order equals numpy's
    problem = ps.Problem(human, [lab.goals[name], ps.goals.Posture(weight=1.0)])
    pose = lab.poses["random-0"]
    result = ps.solve(human, problem.goals, start=pose, limits=False, solver="newton", max_iterations=60)
    assert np.abs(problem.gradient(result.pose)).max() < 1e-5


def test_batches_of_poses(human, lab):
    problem = ps.Problem(human, [lab.goals["position"], lab.goals["center-of-mass"]])
    poses = np.array([[lab.poses["random-0"], lab.poses["limit"]], [lab.poses["singular"], lab.poses["random-1"]]])
    assert problem.energy(poses).shape == (2, 2)
    assert problem.gradient(poses).shape == (2, 2, human.size)
    assert problem.hessian(poses).shape == (2, 2, human.size, human.size)
    assert problem.energy(poses[0, 1]) == problem.energy(poses)[0, 1]
    assert problem.errors(poses)["center of mass"].shape == (2, 2)


def test_direct_and_gathered_hessians_agree(human, lab):
    goals = [lab.goals[name] for name in ("position-matrix", "direction", "orientation", "posture")]
    problem = ps.Problem(human, goals)
    for kind in ("exact", "gauss-newton"):
        gathered = problem.hessian(lab.poses["random-2"], kind=kind)
        assert np.allclose(problem.hessian(lab.poses["random-2"], kind=kind, method="direct"), gathered, atol=1e-10)
    with pytest.raises(ps.errors.GoalError, match="direct"):
        ps.Problem(human, lab.goals["relative"]).hessian(human.rest, method="direct")
