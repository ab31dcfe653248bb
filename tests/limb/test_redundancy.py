"""Objectives over the free angles of partial orientations and aims, against a general optimiser and brute force."""

import numpy as np
import pytest
from scipy.optimize import minimize

import posable as ps
from posable.errors import GoalError, SolverError


@pytest.fixture(scope="module")
def arm():
    return ps.Limb(ps.figures.human(), "shoulder.R", "elbow.R", "wrist.R", site="hand.R")


def middle_of(limb):
    columns = np.delete(limb.columns, 3)
    return columns, 0.5 * (limb.skeleton.lower + limb.skeleton.upper)[columns]


def best_by_slsqp(limb, columns, gaps, cost, base, rng, starts=30):
    """Return the least cost of poses that close the gaps inside the limits, from many random starts."""
    low, high = limb.skeleton.lower[columns], limb.skeleton.upper[columns]

    def pose_of(numbers):
        pose = base.copy()
        pose[columns] = numbers
        return pose

    best = np.inf
    for _ in range(starts):
        found = minimize(
            lambda x: cost(pose_of(x)), rng.uniform(low, high), method="SLSQP",
            bounds=list(zip(low, high, strict=True)),
            constraints={"type": "eq", "fun": lambda x: gaps(pose_of(x))}, options={"maxiter": 200, "ftol": 1e-12},
        )  # fmt: skip
        if np.abs(gaps(pose_of(found.x))).max() < 1e-7:
            best = min(best, found.fun)
    return best


def reachable_goal(limb, rng, axis):
    low, high = limb.skeleton.lower[limb.columns], limb.skeleton.upper[limb.columns]
    pose = limb.skeleton.rest.copy()
    pose[limb.columns] = low + rng.uniform(0.25, 0.75, 7) * (high - low)
    at = ps.forward(limb.skeleton, pose)
    return pose, at.position("hand.R"), at.rotation_matrix("hand.R") @ axis


def paper(limb):
    columns, middle = middle_of(limb)
    return lambda pose: float(np.sum((pose[columns] - middle) ** 2))


def elbow_height(limb):
    return lambda pose: float(ps.forward(limb.skeleton, pose).position("elbow.R")[1])


@pytest.mark.parametrize(("seed", "objective"), [(1, paper), (2, elbow_height), (3, paper)])
def test_a_partial_orientation_has_the_least_objective(seed, objective, arm):
    rng, axis = np.random.default_rng(seed), np.eye(3)[seed % 3]
    _, place, along = reachable_goal(arm, rng, axis)
    cost = objective(arm)
    solution = arm.solve_partial(place, axis, along, objective="middle" if objective is paper else cost)
    assert solution.ok
    at = ps.forward(arm.skeleton, solution.pose)
    assert at.position("hand.R") == pytest.approx(place, abs=1e-9)
    assert at.rotation_matrix("hand.R") @ axis == pytest.approx(along, abs=1e-8)
    assert np.all(solution.pose >= arm.skeleton.lower)
    assert np.all(solution.pose <= arm.skeleton.upper)

    def gaps(pose):
        at = ps.forward(arm.skeleton, pose)
        turned = at.rotation_matrix("hand.R") @ axis
        return np.concatenate([at.position("hand.R") - place, turned - along])[: 3 + 3]

    def independent(pose):  # two rows of the direction: the third would make the constraints dependent
        across = np.linalg.svd(along[None])[2][1:]
        return np.concatenate([gaps(pose)[:3], across @ gaps(pose)[3:]])

    best = best_by_slsqp(arm, arm.columns, independent, cost, arm.skeleton.rest.copy(), rng)
    assert best < np.inf
    assert cost(solution.pose) <= best + 1e-5


@pytest.mark.parametrize(("seed", "objective"), [(4, paper), (5, elbow_height)])
def test_an_aim_has_the_least_objective(seed, objective, arm):
    rng, axis = np.random.default_rng(seed), np.eye(3)[seed % 3]
    base, place, along = reachable_goal(arm, rng, axis)
    point, cost = place + 0.8 * along, objective(arm)
    solution = arm.aim(point, axis, objective=cost, base=base)
    assert solution.ok
    assert solution.rotation_error < 1e-9

    def gaps(pose):
        at = ps.forward(arm.skeleton, pose)
        towards = point - at.position("hand.R")
        turned = at.rotation_matrix("hand.R") @ axis
        across = np.linalg.svd(turned[None])[2][1:]
        return across @ towards

    def ahead(pose):
        at = ps.forward(arm.skeleton, pose)
        return (point - at.position("hand.R")) @ (at.rotation_matrix("hand.R") @ axis) > 0.0

    columns = arm.columns[:4]
    best = best_by_slsqp(
        arm, columns, gaps, lambda pose: cost(pose) if ahead(pose) else cost(pose) + 10.0, base, rng, starts=20
    )
    assert best < np.inf
    assert cost(solution.pose) <= best + 1e-5


def test_the_swivel_ranges_of_an_aim_agree_with_brute_force(arm):
    rng = np.random.default_rng(8)
    checked = 0
    for _ in range(12):
        base, place, along = reachable_goal(arm, rng, np.array([0.0, 1.0, 0.0]))
        point, bend = place + 0.7 * along, float(base[arm.columns[3]])
        ranges = arm.aim_swivel_ranges(point, "y", bend=bend, base=base)
        assert ranges  # the pose itself is in one of them
        for phi in np.linspace(-np.pi, np.pi, 181)[:-1]:
            found = arm.aim_solutions(point, "y", bend=bend, swivel=phi, base=base)
            for solution in found:
                at = ps.forward(arm.skeleton, solution.pose)
                towards = point - at.position("hand.R")
                assert at.rotation_matrix("hand.R")[:, 1] == pytest.approx(towards / np.linalg.norm(towards), abs=1e-9)
                assert solution.pose[arm.columns[3]] == pytest.approx(bend)
            holds = any(
                np.all(s.pose >= arm.skeleton.lower - 1e-9) and np.all(s.pose <= arm.skeleton.upper + 1e-9)
                for s in found
            )
            if min(abs(np.sin(0.5 * (phi - end))) for one in ranges for end in one) > 1e-6:
                assert holds == any(phi in one for one in ranges)
                checked += holds
    assert checked > 20


def test_every_branch_of_a_partial_orientation_meets_the_goal(arm):
    _, place, along = reachable_goal(arm, np.random.default_rng(3), np.array([1.0, 0.0, 0.0]))
    solution = arm.solve_partial(place, "x", along)
    found = arm.partial_solutions(place, "x", along, swivel=solution.swivel, spin=solution.spin)
    assert len(found) == 8
    assert any(np.abs(one.pose - solution.pose).max() < 1e-9 for one in found)
    for one in found:
        at = ps.forward(arm.skeleton, one.pose)
        assert at.position("hand.R") == pytest.approx(place, abs=1e-9)
        assert at.rotation_matrix("hand.R")[:, 0] == pytest.approx(along, abs=1e-9)
    ranges = arm.partial_swivel_ranges(place, "x", along, spin=solution.spin)
    assert any(solution.swivel in one for one in ranges)
    assert any(lo <= solution.spin + turn <= hi for lo, hi in arm.reachable_spins(place, "x", along)
               for turn in (-2 * np.pi, 0.0, 2 * np.pi))  # fmt: skip


def test_the_solver_takes_an_objective():
    """On a limb alone `solve` gives what the limb itself gives, for a place, a place with a direction, and an aim."""
    figure = ps.figures.limb()
    limb = ps.Limb(figure, "shoulder", "elbow", "wrist", site="hand")
    rng = np.random.default_rng(2)
    pose = figure.lower + rng.uniform(0.3, 0.7, figure.size) * (figure.upper - figure.lower)
    at = ps.forward(figure, pose)
    place, along = at.position("hand"), at.rotation_matrix("hand")[:, 0]
    solver = ps.solvers.get("limb")(objective="middle")
    g = ps.goals
    for goals, expected in (
        ([g.Position("hand", place)], limb.solve(place, objective="middle")),
        (
            [g.Position("hand", place), g.Direction("hand", "x", along)],
            limb.solve_partial(place, "x", along, objective="middle"),
        ),
        ([g.Aim("hand", "x", at=place + 0.5 * along)], limb.aim(place + 0.5 * along, "x", objective="middle")),
    ):
        result = ps.solve(figure, goals, solver=solver)
        assert result.ok
        assert result.pose == pytest.approx(expected.pose, abs=1e-6)


def test_the_command_line_takes_it(capsys):
    from posable.cli.main import main

    words = "solve limb --reach hand=0.3,0.1,0.2 --along hand:x=0,0,1 --solver limb --option objective=middle --json"
    assert main(words.split()) in (0, 1)
    assert '"solver": "limb"' in capsys.readouterr().out


def test_wrong_objectives_are_refused(arm):
    with pytest.raises(GoalError, match="middle"):
        arm.solve_partial((0, 1, 0.3), "x", (0, 0, 1), objective="comfort")
    with pytest.raises(GoalError, match="at most one of"):
        arm.aim((0, 1, 2), "x", bend=0.3, objective="middle")
    with pytest.raises(GoalError, match="a batch"):
        arm.aim(np.ones((3, 3)), "x", objective="middle")
    with pytest.raises(SolverError, match="middle"):
        ps.solvers.get("limb")(objective="comfort")
    with pytest.raises(SolverError, match="both"):
        ps.solvers.get("limb")(objective="middle", swivel=0.1)
