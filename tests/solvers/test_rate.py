"""Resolved motion rate: the tip goes along a straight line, with any of SciPy's integrators."""

import numpy as np
import pytest

import posable as ps
from posable.errors import SolverError
from posable.goals import Position
from posable.solvers.rate import METHODS


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
def test_it_refuses_wrong_options(lab, options):
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
