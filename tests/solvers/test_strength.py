"""Joint strength (Rabbani 2017, 3.3): a stronger joint moves more readily, in every solver that has a metric."""

import numpy as np
import pytest

import posable as ps

TAKES = (
    "newton", "levenberg-marquardt", "bfgs", "lbfgs", "projected-gradient", "projected-cg", "transpose",
    "pseudoinverse", "dls", "sdls", "svd", "qr", "rate", "sqp",
)  # fmt: skip
REFUSES = ("ccd", "fabrik", "trust-region")


def arm(first=1.0, last=1.0):
    """Four links in a plane; the first joint's strength and the last one's."""
    strengths = (first, 1.0, 1.0, last)
    joints = [
        ps.Joint(f"j{k}", ps.Revolute("z"), f"j{k - 1}" if k else None, offset=(0.7 if k else 0.0, 0, 0), gain=s,
                 rest=0.2)
        for k, s in enumerate(strengths)
    ]  # fmt: skip
    return ps.Skeleton(joints, [ps.Site("tip", "j3", offset=(0.7, 0, 0))])


def near_goal():
    figure = arm()
    return ps.goals.Position(
        "tip", ps.forward(figure, figure.rest).position("tip") + np.array([-0.06, 0.05, 0.0]), tolerance=2e-5
    )


def moved(figure, solver, **options):
    result = ps.solve(figure, near_goal(), solver=solver, **options)
    assert result.ok, (solver, result.message)
    return np.abs(result.pose - figure.rest)


@pytest.mark.parametrize("solver", TAKES)
def test_a_stronger_joint_moves_more_and_a_weaker_one_less(solver):
    plain = moved(arm(), solver)
    assert moved(arm(first=3.0), solver)[0] > 1.05 * plain[0]
    assert moved(arm(first=0.1), solver)[0] < 0.7 * plain[0]


@pytest.mark.parametrize("solver", ["newton", "dls", "bfgs"])
def test_strength_zero_never_moves(solver):
    assert moved(arm(first=0.0), solver)[0] == 0.0


@pytest.mark.parametrize("solver", REFUSES)
def test_a_solver_without_a_metric_says_so(solver):
    with pytest.raises(ps.PosableError, match="strength"):
        ps.solve(arm(first=3.0), near_goal(), solver=solver)
    assert ps.solve(arm(), near_goal(), solver=solver).ok


def test_a_newton_step_is_the_least_in_the_metric():
    """One damped Newton step of a short way, against the weighted pseudo-inverse computed by NumPy."""
    figure = arm(first=4.0, last=0.5)
    jacobian = ps.jacobian(figure, figure.rest, "tip")
    tip = ps.forward(figure, figure.rest).position("tip")
    target = tip + np.array([0.002, 0.001, 0.0])
    gain = np.diag(figure.gain)
    step = gain @ np.linalg.pinv((jacobian @ gain)[:2]) @ (target - tip)[:2]
    solver = ps.solvers.get("newton")(damping=1e-6)
    result = ps.solve(figure, ps.goals.Position("tip", target, tolerance=1e-9), solver=solver, max_iterations=1)
    assert np.allclose(result.pose - figure.rest, step, rtol=2e-2, atol=1e-6)


def test_a_posture_is_softer_at_a_stronger_joint():
    goals = [near_goal(), ps.goals.Posture()]
    plain, strong = (np.abs(ps.solve(f, goals).pose - f.rest) for f in (arm(), arm(first=3.0)))
    assert strong[0] > 1.05 * plain[0]
    stiff = [near_goal(), ps.goals.Posture(stiffness={"j0": 100.0, "j1": 1.0, "j2": 1.0, "j3": 1.0})]
    assert np.abs(ps.solve(arm(), stiff).pose - arm().rest)[0] < 0.2 * plain[0]
    with pytest.raises(ps.PosableError, match="older name"):
        ps.goals.Posture(gains=1.0, stiffness=1.0)
