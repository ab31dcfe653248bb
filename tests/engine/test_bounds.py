"""The box, the stop rules and the random numbers that every solver loop shares."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import posable as ps
from posable.engine import bounds as stepping

LOWER, UPPER = np.array([-1.0, -1.0, 0.0, -math.inf]), np.array([1.0, 1.0, 0.0, math.inf])


def test_projection_is_the_nearest_pose_in_the_box():
    theta = np.array([-3.0, 0.5, 2.0, 1e9])
    stepping.project(theta, LOWER, UPPER)
    assert theta.tolist() == [-1.0, 0.5, 0.0, 1e9]


@pytest.mark.parametrize(
    ("theta", "gradient", "held"),
    [
        ([-1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 5.0, 1.0], [1, 1, 1, 0]),  # both push outward; equal limits are held
        ([-1.0, 1.0, 0.0, 0.0], [-1.0, 1.0, 0.0, 2.0], [0, 0, 1, 0]),  # both come back inside
        ([0.0, 0.0, 0.0, 7.0], [1.0, -3.0, 0.0, 2.0], [0, 0, 1, 0]),  # inside
    ],
)
def test_a_bound_is_active_where_the_gradient_pushes_outward(theta, gradient, held):
    fixed = np.zeros(4)
    largest = stepping.active_bounds(np.array(theta), np.array(gradient), LOWER, UPPER, fixed)
    assert fixed.tolist() == held
    assert largest == max(abs(g) for g, h in zip(gradient, held, strict=True) if not h)


def test_a_step_into_the_box_goes_a_part_of_the_way_and_stops_at_bounds():
    theta, step = np.array([0.0, 0.9, -0.9, 0.2]), np.array([1.0, 1.0, -1.0, 0.0])
    low, high, out = np.full(4, -1.0), np.full(4, 1.0), np.empty(4)
    stepping.step_into(theta, 0.5, step, low, high, out)
    assert out.tolist() == [0.5, 1.0, -1.0, 0.2]
    stepping.step_into(theta, -0.5, step, low, high, theta)
    assert theta.tolist() == pytest.approx([-0.5, 0.4, -0.4, 0.2])


def test_a_bound_is_active_up_to_its_margin_and_only_where_the_gradient_is_not_zero():
    lower, upper, margin = np.zeros(1), np.zeros(1) + 5.0, stepping.MARGIN
    cases = [
        (0.0, 0.25, 1.0), (margin, 0.25, 1.0), (2.0 * margin, 0.25, 0.0),
        (0.0, 0.0, 0.0), (5.0, 0.0, 0.0), (5.0, -0.25, 1.0),
    ]  # fmt: skip
    for theta, gradient, held in cases:
        fixed = np.full(1, 7.0)
        largest = stepping.active_bounds(np.array([theta]), np.array([gradient]), lower, upper, fixed)
        assert (fixed[0], largest) == (held, 0.0 if held else abs(gradient))
    below, fixed = -stepping.MARGIN, np.zeros(1)  # an upper bound of 0: its margin is exact
    stepping.active_bounds(np.array([below]), np.array([-1.0]), lower - 5.0, lower, fixed)
    assert fixed[0] == 1.0


def test_armijo_asks_for_a_part_of_what_the_slope_promises():
    assert stepping.armijo(1.0, 0.5, -0.5, 1.0)  # exactly what it promises
    assert stepping.armijo(1.0, 0.9, -0.5, 0.1)
    assert not stepping.armijo(1.0, 0.96, -0.5, 0.1)
    assert not stepping.armijo(1.0, math.nan, -0.5, 0.1)


def test_reached_means_every_tolerance_and_a_number():
    assert stepping.all_reached(np.array([1e-5, 9.0]), np.array([1e-4, math.inf]))
    assert stepping.all_reached(np.array([0.0, 0.5]), np.array([0.0, 0.5]))  # the tolerance itself is within it
    assert not stepping.all_reached(np.array([1e-3, 0.0]), np.array([1e-4, 1.0]))
    assert not stepping.all_reached(np.array([math.nan]), np.array([1.0]))


def test_leaving_the_bounds_moves_what_stands_on_them_and_nothing_else():
    out = np.empty(4)
    assert stepping.leave_bounds(np.array([-1.0, 0.3, 0.0, 5.0]), LOWER, UPPER, out)
    assert out.tolist() == [-1.0 + stepping.BEND, 0.3, 0.0, 5.0]
    assert stepping.leave_bounds(np.array([0.0, 1.0, 0.0, 5.0]), LOWER, UPPER, out)
    assert out.tolist() == [0.0, 1.0 - stepping.BEND, 0.0, 5.0]
    assert not stepping.leave_bounds(np.array([0.0, 0.3, 0.0, 5.0]), LOWER, UPPER, out)
    narrow = np.array([0.2])
    assert stepping.leave_bounds(np.array([0.0]), np.array([0.0]), narrow, out[:1])
    assert out[0] == 0.1  # no farther than the middle


def test_a_perturbation_moves_only_what_its_limit_holds():
    theta, fixed = np.array([-1.0, 1.0, 0.0, 5.0]), np.zeros(4)
    assert stepping.perturb_active_limits(theta, LOWER, UPPER, np.array([1.0, 1.0, 1.0, 1.0]), fixed, 0.0)
    assert theta.tolist() == [-1.0 + stepping.BEND, 1.0, 0.0, 5.0]
    assert not stepping.perturb_active_limits(theta, LOWER, UPPER, np.zeros(4), fixed, 1.0)


def test_random_numbers_are_even_and_repeat_with_their_seed():
    state = np.array([12345.0])
    drawn = np.array([stepping.random_number(state) for _ in range(4000)])
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert np.abs(np.histogram(drawn, bins=10, range=(0, 1))[0] - 400).max() < 100  # 5 standard deviations
    assert np.abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.08
    again = np.array([12345.0])
    assert [stepping.random_number(again) for _ in range(5)] == drawn[:5].tolist()


def test_random_poses_hold_the_limits_and_keep_a_moving_root_in_its_place():
    human = ps.figures.human()
    start, theta, state = human.rest + 0.01, np.empty(human.size), np.array([7.0])
    for _ in range(20):
        stepping.random_pose(human.figure, human.lower, human.upper, start, state, theta)
        assert np.all((theta >= human.lower) & (theta <= human.upper))
        np.testing.assert_array_equal(theta[:3], start[:3])
    assert np.abs(theta[6:] - start[6:]).max() > 0.1


NEAR = (1e-4, 1e-3)  # tolerances of the two springs of a Pose


def redrawn(errors, *bodies):
    """Return the dofs of the human that a restart redraws, where Pose goals on these bodies have these errors."""
    human = ps.figures.human()
    problem = ps.Problem(human, [ps.goals.Pose(body, np.eye(4)) for body in bodies])
    mark = np.full(human.size, 7.0)
    stepping.mark_failed_chains.py_func(
        human.figure, problem.packed(0), np.array(NEAR * len(bodies)), SimpleNamespace(error=np.array(errors)), mark
    )
    assert set(mark) <= {0.0, 1.0}
    return {name for name, one in zip(human.dof_names, mark, strict=True) if one}


def test_a_restart_redraws_the_limb_that_missed_and_no_dof_that_moves_a_met_goal():
    arm = redrawn([0.1, 0.0, 0.0, 0.0, 0.0, 0.0], "hand.R", "foot.L", "head")  # its position alone is missed
    assert "elbow.R" in arm
    assert all(".R" in name for name in arm)  # neither the spine, which moves the head, nor the root
    assert redrawn([0.1, 0.5, 0.0, 0.0, 1e-3, 0.0], "hand.R", "foot.L", "head") == arm  # the head is pulled along
    both = redrawn([0.1, 0.0, 0.0, 0.4, 0.0, 0.0], "hand.R", "foot.L", "head")
    assert arm < both
    assert {name for name in both - arm if ".L" not in name} == set()


def test_a_restart_redraws_everything_where_every_dof_moves_a_met_goal():
    assert len(redrawn([0.1, 0.0, 0.0, 0.0], "pelvis", "head")) == ps.figures.human().size
