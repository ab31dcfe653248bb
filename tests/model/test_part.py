"""The part of a figure that goals move: the same numbers as the whole, and the rest stays where it starts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps
from posable import goals as g
from posable.engine.assemble import evaluate
from posable.engine.layout import Springs, work_size
from posable.model.kinematics import part_of
from posable.problem import Problem


@pytest.fixture(scope="module")
def human():
    return ps.figures.human()


def idle_dofs(skeleton, bodies):
    """Return the dofs that move none of some joints or sites, by moving each of them."""
    rest = ps.forward(skeleton, skeleton.rest)
    out = []
    for i in range(skeleton.size):
        moved = ps.forward(skeleton, skeleton.rest + 0.1 * np.eye(skeleton.size)[i])
        if all(np.allclose(moved.matrix(body), rest.matrix(body), atol=1e-12) for body in bodies):
            out.append(i)
    return np.array(out)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["hand.L", "head", "foot.R", "pelvis", "elbow.R"]), min_size=1, unique=True), st.data())
def test_energy_and_derivatives_of_a_part_are_those_of_the_whole(bodies, data):
    human = ps.figures.human()
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    pose = rng.uniform(np.maximum(human.lower, -1.0), np.minimum(human.upper, 1.0))
    problem = Problem(human, [g.Pose(body, np.eye(4)) for body in bodies])
    total, gradient, hessian, errors = problem.evaluate(pose)
    part = problem.moving
    n, k = len(part.dofs), len(problem.springs)
    own = [np.empty(n), np.empty((n, n)), np.empty(k)]
    springs = Springs(part.kind, problem.constants[0], problem.targets[0], part.pull, part.home)
    work = np.zeros(work_size(n, len(part.bodies), k, part.depth))
    found = evaluate(part.figure, part.order, springs, pose[part.dofs], work, part.depth, 1.0, *own)
    assert found == pytest.approx(total, rel=1e-13)
    np.testing.assert_allclose(own[0], gradient[part.dofs], atol=1e-12)
    np.testing.assert_allclose(own[1], hessian[np.ix_(part.dofs, part.dofs)], atol=1e-12)
    np.testing.assert_allclose(own[2], errors, atol=1e-13)
    idle = np.setdiff1d(np.arange(human.size), part.dofs)
    assert not gradient[idle].any()
    assert not hessian[idle].any()


def test_a_part_holds_what_moves_its_goals_and_nothing_else(human):
    for bodies in (["hand.R"], ["head", "foot.L"], ["pelvis"], ["thumb3.L", "toes.R"]):
        part = Problem(human, [g.Position(body, (0, 1, 0)) for body in bodies]).moving
        assert sorted([*part.dofs, *idle_dofs(human, bodies)]) == list(range(human.size))


def test_what_is_coupled_or_pulled_is_solved_as_a_whole(human):
    everything = np.arange(human.size)
    for goals in (
        [g.Position("hand.R", (0, 1, 0)), g.Posture()],
        [g.Position("hand.R", (0, 1, 0)), g.Balance([(-0.2, 0, -0.2), (0.2, 0, -0.2), (0, 0, 0.3)])],
    ):
        np.testing.assert_array_equal(Problem(human, goals).moving.dofs, everything)
    whole = Problem(human, g.Position("hand.R", (0, 1, 0))).whole
    assert part_of(whole, range(len(human.figure.body))) is whole


@pytest.mark.parametrize("natural", [False, True])
def test_dofs_without_a_goal_below_them_stay_exactly_where_they_are(human, natural):
    idle = idle_dofs(human, ["hand.L", "hand.R", "head"])
    start = human.rest.copy()
    on_bounds = idle[np.isfinite(human.lower[idle])]
    start[on_bounds] = human.lower[on_bounds]  # where an iteration would begin off the bounds
    goals = [g.Position("hand.L", (0.3, 1.3, 0.4)), g.Position("hand.R", (-5, 1, 0)), g.Position("head", (0, 1.5, 0.1))]
    for restarts in (0, 5):
        result = ps.solve(human, goals, start=start, restarts=restarts, natural=natural)
        np.testing.assert_array_equal(result.pose[idle], start[idle])
        np.testing.assert_array_equal(ps.solve(human, goals[0], start=start, natural=natural).pose[idle], start[idle])


def test_least_change_brings_back_what_no_goal_moves(human):
    """A session's reference is its own start: a pose given to `solve` later is not what it stays near."""
    session = ps.Session(human, g.Position("hand.R", (-0.4, 1.2, 0.3)), natural=True)
    other = np.clip(human.rest + 0.2, human.lower, human.upper)
    idle = idle_dofs(human, ["hand.R"])
    np.testing.assert_array_equal(session.solve(start=other).pose[idle], human.rest[idle])


def test_neighbours_that_share_a_bend_move_with_a_part(human):
    """A goal on the second vertebra bends the third as well, though nothing else moves that."""
    frames = ps.forward(human, human.rest)
    tilted = Rotation.from_euler("x", 0.3) * frames.rotation("spine2")
    result = ps.solve(human, [g.Orientation("spine2", tilted), g.Pose("root", frames.matrix("root"))], natural=True)
    assert result.ok
    assert np.abs(result.pose[human.index("spine3")] - human.rest[human.index("spine3")]).max() > 0.02
