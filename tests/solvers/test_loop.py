"""Every step that a projected solver accepts gives enough, inside the box (Engell-Nørregård & Erleben 2011, (39))."""

import numpy as np
import pytest

from posable.goals import Pose, Position

PROJECTED = ("newton", "projected-gradient", "projected-cg", "bfgs", "lbfgs", "levenberg-marquardt")
PROBLEMS = 1008  # over all of them


@pytest.mark.parametrize("solver", PROJECTED)
def test_every_accepted_step_passes_the_test(lab, solver):
    alpha = lab.get(solver)().alpha
    steps, problems = 0, 0
    share = PROBLEMS // len(PROJECTED)
    for figure, kind, count in (
        ("limb", Position, share // 2),
        ("panda", Pose, share // 4),
        ("tree", Position, share // 4),
    ):
        skeleton, goals = lab.reachable(figure, count, seed=11, spread=1.5, kind=kind)  # spread: many end on limits
        result = lab.solve(skeleton, goals, solver=solver, record=True, max_iterations=40)
        lab.judge(skeleton, goals, result)
        problems += count
        for trace in result.trace:
            taken = trace["step"] > 0.0
            before, after, slope = trace["before"][taken], trace["energy"][taken], trace["slope"][taken]
            assert (slope < 0.0).all()
            assert (after < before).all()
            assert (after <= before + alpha * slope + 1e-15 * before).all()
            steps += int(taken.sum())
    assert problems == share
    assert steps > 3 * problems


@pytest.mark.parametrize("solver", PROJECTED)
def test_every_iterate_is_in_the_box(lab, solver):
    skeleton, goals = lab.reachable("limb", 4, seed=12, spread=2.0)
    outside = np.full(skeleton.size, 9.0)
    for most in range(6):
        result = lab.solve(skeleton, goals, solver=solver, start=outside, max_iterations=most)
        assert (result.pose >= skeleton.lower).all()
        assert (result.pose <= skeleton.upper).all()
