"""The default solver: it reaches, holds limits, leaves saddles, is deterministic, and says the truth."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps
from posable.problem import Problem
from posable.solvers.newton import Newton

g = ps.goals
FIGURES = ("human", "limb", "panda", "spider", "tree", "planar_arm")


def random_pose(skeleton, rng, spread=1.0):
    """A pose inside the limits, away from the rest."""
    lower, upper = np.maximum(skeleton.lower, skeleton.rest - 1.5), np.minimum(skeleton.upper, skeleton.rest + 1.5)
    return skeleton.rest + spread * (rng.uniform(lower, upper) - skeleton.rest)


def inside(skeleton, pose):
    return bool(np.all(pose >= skeleton.lower - 1e-9) and np.all(pose <= skeleton.upper + 1e-9))


@pytest.mark.parametrize("name", FIGURES)
def test_reaches_what_a_real_pose_reaches(name):
    skeleton = ps.figures.get(name)
    rng = np.random.default_rng(7)
    solved = 0
    for _ in range(20):
        frames = ps.forward(skeleton, random_pose(skeleton, rng))
        bodies = list(skeleton.site_names[:4])
        result = ps.solve(skeleton, [g.Position(b, frames.position(b)) for b in bodies], restarts=20)
        after = ps.forward(skeleton, result.pose)
        near = all(np.linalg.norm(after.position(b) - frames.position(b)) <= 1e-4 for b in bodies)
        assert result.ok == (near and inside(skeleton, result.pose))
        solved += result.ok
    assert solved == 20


def test_pose_goals_of_a_panda_are_all_reached():
    panda = ps.figures.panda()
    rng = np.random.default_rng(1)
    targets = ps.forward(panda, rng.uniform(panda.lower, panda.upper, size=(100, 7))).matrix("hand")
    result = ps.solve(panda, g.Pose("hand", targets), restarts=100)
    reached = ps.forward(panda, result.pose)
    assert np.linalg.norm(reached.position("hand") - targets[:, :3, 3], axis=1).max() < 1e-3
    turn = Rotation.from_matrix(np.swapaxes(reached.rotation_matrix("hand"), 1, 2) @ targets[:, :3, :3])
    assert turn.magnitude().max() < 1e-2
    assert np.all(result.pose >= panda.lower)
    assert np.all(result.pose <= panda.upper)
    assert result.ok.all()


def test_leaves_the_saddle_of_a_straight_limb():
    arm = ps.figures.planar_arm([1.0, 1.0])
    results = [ps.solve(arm, g.Position("tip", (1.0, 0.0, 0.0)), start=[0.0, 0.0]) for _ in range(2)]
    assert results[0].ok
    assert np.array_equal(results[0].pose, results[1].pose)


def test_turns_from_exactly_the_opposite_way():
    ball = ps.Skeleton([ps.Joint("ball", ps.Ball("rotvec"))], [ps.Site("end", "ball", (1, 0, 0))])
    for axis in np.eye(3):
        result = ps.solve(ball, g.Orientation("end", Rotation.from_rotvec(np.pi * axis)))
        assert result.ok, str(result)


def test_an_elbow_caught_straight_on_its_limit_bends():
    arm = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint2": (0.0, 2.5)})
    result = ps.solve(arm, g.Position("tip", (0.6, 0.9, 0.0)), start=[1.4, 0.0])
    assert result.ok, str(result)


def test_same_bits_alone_in_a_batch_and_on_threads():
    panda = ps.figures.panda()
    rng = np.random.default_rng(2)
    targets = ps.forward(panda, rng.uniform(panda.lower, panda.upper, size=(40, 7))).matrix("hand")
    one = ps.solve(panda, g.Pose("hand", targets), restarts=5, seed=3, threads=1)
    two = ps.solve(panda, g.Pose("hand", targets), restarts=5, seed=3, threads=2)
    assert np.array_equal(one.pose, two.pose)
    for k in (0, 17, 39):
        alone = ps.solve(panda, g.Pose("hand", targets[k]), restarts=5, seed=3)
        assert np.array_equal(alone.pose, one.pose[k])


def test_the_targets_of_a_batch_are_packed_once(monkeypatch):
    packed, pack = [], Problem._packed_targets
    monkeypatch.setattr(Problem, "_packed_targets", lambda problem: packed.append(time.sleep(0.05)) or pack(problem))
    panda = ps.figures.panda()
    ps.solve(panda, g.Position("hand", np.full((400, 3), 0.4)), threads=4)
    assert len(packed) == 1


def test_every_step_of_a_trace_is_a_projected_armijo_step():
    human = ps.figures.human()
    rng = np.random.default_rng(3)
    for _ in range(20):
        frames = ps.forward(human, random_pose(human, rng))
        goals = [g.Position(b, frames.position(b)) for b in ("hand.L", "hand.R", "foot.L", "foot.R")]
        trace = ps.solve(human, goals, record=True).trace
        moved = trace["slope"] != 0.0
        assert moved.any()
        assert np.all(trace["slope"][moved] < 0.0)
        assert np.all(trace["energy"][moved] <= trace["before"][moved] + 1e-4 * trace["slope"][moved])


def test_exact_always_and_never_reach_the_same_goal():
    human = ps.figures.human()
    goal = g.Position("hand.R", (-0.4, 1.2, 0.3))
    for exact in ("auto", "always", "never"):
        assert ps.solve(human, goal, solver=Newton(exact=exact)).ok
    with pytest.raises(ps.PosableError, match="exact"):
        Newton(exact="sometimes")


@given(st.integers(0, 2**32 - 1))
def test_never_worse_than_its_start_and_never_outside(seed):
    rng = np.random.default_rng(seed)
    skeleton = ps.figures.get(FIGURES[seed % len(FIGURES)])
    target = rng.normal(size=3) * 10.0 ** rng.uniform(-3, 3)
    goal = g.Position(skeleton.site_names[0], target)
    start = skeleton.rest + rng.normal(size=skeleton.size)
    result = ps.solve(skeleton, goal, start=start, restarts=seed % 3)
    assert np.isfinite(result.pose).all()
    assert inside(skeleton, result.pose)
    problem = ps.Problem(skeleton, goal)
    projected = np.clip(start, skeleton.lower, skeleton.upper)
    assert problem.energy(result.pose) <= problem.energy(projected) * (1 + 1e-12)
    distance = np.linalg.norm(ps.forward(skeleton, result.pose).position(skeleton.site_names[0]) - target)
    assert result.ok == (distance <= 1e-4)


@pytest.mark.parametrize("weight", [1e-4, 1e-2])
def test_a_soft_problem_stops_where_nothing_is_left_to_gain(weight):
    """Not at the cap of iterations, and not before: a Newton step would gain next to nothing."""
    human = ps.figures.human()
    goals = [
        ps.goals.Position("hand.R", (-0.35, 1.3, 0.35)),
        ps.goals.Position("hand.L", (0.2, 0.6, 0.4)),
        ps.goals.Posture(weight=weight),
    ]
    result = ps.solve(human, goals)
    assert result.iterations < 100
    energy, gradient, hessian, _ = result.problem.evaluate(result.pose)
    held = ((result.pose <= human.lower + 1e-9) & (gradient > 0.0)) | (
        (result.pose >= human.upper - 1e-9) & (gradient < 0.0)
    )
    free = np.flatnonzero(~held)
    step = np.linalg.lstsq(hessian[np.ix_(free, free)], -gradient[free], rcond=1e-12)[0]
    assert -0.5 * gradient[free] @ step <= 1e-6 * energy
