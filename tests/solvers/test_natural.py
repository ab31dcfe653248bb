"""Least change below the goals: what it may not touch, and that it is the least."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import posable as ps
from posable.errors import SolverError
from posable.model.body_plan import person_plan
from posable.solvers.natural import comfort_of, uses_natural

BODIES = ("hand.L", "hand.R", "foot.L", "foot.R", "head", "pelvis")


@pytest.fixture(scope="module")
def human():
    return ps.figures.human()


def reachable(human, rng, size=0.5, bodies=BODIES):
    """Return position goals that a pose inside the limits meets."""
    low, high = np.maximum(human.lower, human.rest - size), np.minimum(human.upper, human.rest + size)
    frames = ps.forward(human, rng.uniform(low, high))
    return [ps.goals.Position(body, frames.position(body)) for body in bodies]


def cost(skeleton, pose, reference):
    """Return the comfort metric of a change, written out with NumPy."""
    comfort = comfort_of(skeleton)
    gap = pose - reference
    low, high = np.minimum(comfort.inner[:, 0], reference), np.maximum(comfort.inner[:, 1], reference)
    over = np.maximum(pose - high, 0.0) + np.maximum(low - pose, 0.0)
    total = 0.5 * comfort.stiffness @ gap**2 + 0.5 * comfort.end @ over**2
    for (a, b), (stiffness, ratio) in zip(comfort.pair, comfort.pair_data, strict=True):
        total += 0.5 * stiffness * (gap[a] - ratio * gap[b]) ** 2
    return float(total)


def best_of_scipy(skeleton, goals, start):
    """Return the least cost that SLSQP finds from a pose that meets position goals."""

    def gaps(pose):
        frames = ps.forward(skeleton, pose)
        return np.concatenate([frames.position(goal.body) - goal.target for goal in goals])

    def slopes(pose):
        return np.concatenate([ps.jacobian(skeleton, pose, goal.body, rows="position") for goal in goals])

    found = minimize(
        lambda pose: cost(skeleton, pose, skeleton.rest), start, method="SLSQP",
        bounds=list(zip(skeleton.lower, skeleton.upper, strict=True)),
        constraints={"type": "eq", "fun": gaps, "jac": slopes}, options={"maxiter": 150, "ftol": 1e-8},
    )  # fmt: skip
    return found.fun if np.abs(gaps(found.x)).max() < 1e-5 else np.inf


def test_goals_come_out_as_without_it_and_the_change_is_smaller(human):
    rng = np.random.default_rng(1)
    for _ in range(20):
        goals = reachable(human, rng)
        bare, natural = ps.solve(human, goals, natural=False), ps.solve(human, goals)
        assert bare.ok
        assert natural.ok
        assert max(natural.errors.values()) <= 1e-5
        assert cost(human, natural.pose, human.rest) < cost(human, bare.pose, human.rest)


def test_no_pose_that_scipy_finds_is_more_than_5_percent_better(human):
    rng = np.random.default_rng(2)
    for _ in range(3):
        goals = reachable(human, rng, 0.4, ("hand.R", "foot.L", "foot.R"))
        ours = ps.solve(human, goals)
        theirs = min(
            best_of_scipy(human, goals, start) for start in (ours.pose, ps.solve(human, goals, natural=False).pose)
        )
        assert cost(human, ours.pose, human.rest) <= 1.05 * theirs


@pytest.mark.parametrize(
    "places",
    [
        # elbows begin at their limits and must leave them
        {"hand.R": (-0.425, 0.93, 0.319), "foot.L": (-0.206, 0.073, 0.241), "foot.R": (-0.005, 0.041, 0.103),
         "hand.L": (0.29, 1.113, 0.463), "head": (-0.079, 1.686, -0.089)},
        # the neck meets its limit on the way and must leave it
        {"hand.R": (-0.209, 0.829, 0.278), "foot.R": (0.125, -0.118, 0.035), "pelvis": (-0.187, 0.757, 0.013),
         "foot.L": (0.397, -0.043, -0.045), "hand.L": (0.229, 0.69, -0.084), "head": (-0.138, 1.375, 0.015)},
        # slow steps near a saddle
        {"head": (-0.246, 1.478, -0.171), "hand.L": (0.236, 0.907, -0.126), "foot.R": (0.574, 0.188, -0.178),
         "pelvis": (0.046, 0.941, -0.179), "hand.R": (-0.173, 0.663, -0.279), "foot.L": (0.869, 0.371, -0.229)},
        # another valley than the one that the rest pose leads to
        {"head": (-0.353, 1.518, -0.186), "foot.R": (0.639, 0.346, 0.28), "hand.R": (-0.112, 0.855, -0.186),
         "hand.L": (0.361, 1.105, 0.09)},
        # the last step is damped, and gains little for that reason alone
        {"hand.L": (0.284, 0.685, 0.151), "hand.R": (0.238, 0.586, 0.044), "foot.L": (-0.229, -0.006, 0.19)},
        # what the goals cost hides what the step gains
        {"foot.L": (-0.543, 0.501, 0.412), "pelvis": (0.021, 1.242, 0.257), "head": (0.3, 1.791, 0.355),
         "foot.R": (-0.321, 0.41, 0.161)},
    ],
    ids=["elbows", "neck", "saddle", "valley", "damped", "hidden"],
)  # fmt: skip
def test_hard_problems_are_within_5_percent_too(human, places):
    goals = [ps.goals.Position(body, place) for body, place in places.items()]
    ours, bare = ps.solve(human, goals), ps.solve(human, goals, natural=False)
    assert ours.ok
    theirs = min(best_of_scipy(human, goals, start) for start in (ours.pose, bare.pose))
    assert cost(human, ours.pose, human.rest) <= 1.05 * theirs


def test_a_start_that_meets_the_goals_stays(human):
    start = human.rest.copy()
    start[human.dof("elbow.R")] = 1.2
    place = ps.forward(human, start).position("hand.R")
    result = ps.solve(human, ps.goals.Position("hand.R", place), start=start)
    assert np.abs(result.pose - start).max() < 1e-9


def test_limbs_without_goals_do_not_move(human):
    feet = [ps.goals.Pose(body, ps.forward(human, human.rest).matrix(body)) for body in ("foot.L", "foot.R")]
    pose = ps.solve(human, [*feet, ps.goals.Position("hand.R", (-0.4, 1.2, 0.3))]).pose
    for joint in ("shoulder.L", "elbow.L", "wrist.L"):
        assert np.abs(pose - human.rest)[human.index(joint)].max() < 1e-9


def test_the_spine_shares_its_bend(human):
    frames = ps.forward(human, human.rest)
    goals = [ps.goals.Pose(body, frames.matrix(body)) for body in ("foot.L", "foot.R", "pelvis")]
    pose = ps.solve(
        human, [*goals, ps.goals.Position("head", frames.position("head") + np.array([0.0, -0.1, 0.25]))]
    ).pose
    part = [pose[human.dof(f"spine{k}.x")] / human.upper[human.dof(f"spine{k}.x")] for k in (1, 2, 3)]
    assert min(part) > 0.1
    assert max(part) < 3.0 * min(part)


def test_missed_goals_are_missed_by_as_much(human):
    frames = ps.forward(human, human.rest)
    goals = [ps.goals.Pose(body, frames.matrix(body)) for body in ("foot.L", "foot.R")]
    goals.append(ps.goals.Position("hand.L", (0.3, 3.0, 0.3)))
    bare, natural = ps.solve(human, goals, natural=False), ps.solve(human, goals, natural=True)
    assert bare.status == natural.status
    for name, error in bare.errors.items():
        assert natural.errors[name] <= error + 1e-5


def test_no_priority_pays_for_it(human):
    frames = ps.forward(human, human.rest)
    goals = [ps.goals.Pose(body, frames.matrix(body)) for body in ("foot.L", "foot.R")]
    goals.append(ps.goals.Position("hand.L", (0.3, 2.6, 0.3), priority=1))
    bare, natural = ps.solve(human, goals, natural=False), ps.solve(human, goals)
    for name, error in bare.errors.items():
        assert natural.errors[name] <= error + 1e-5
    assert cost(human, natural.pose, human.rest) <= cost(human, bare.pose, human.rest) + 1e-9


def test_a_batch_has_the_answers_of_its_members(human):
    places = np.array([[-0.4, 1.2, 0.3], [-0.3, 1.5, 0.4], [-0.5, 1.0, 0.1]])
    together = ps.solve(human, ps.goals.Position("hand.R", places)).pose
    for place, pose in zip(places, together, strict=True):
        assert np.array_equal(ps.solve(human, ps.goals.Position("hand.R", place)).pose, pose)


def test_a_target_that_comes_back_brings_the_pose_back(human):
    frames = ps.forward(human, human.rest)
    goals = [ps.goals.Pose(body, frames.matrix(body)) for body in ("foot.L", "foot.R")]
    session = ps.Session(human, [*goals, ps.goals.Position("hand.R", (-0.4, 1.2, 0.3))])
    first = session.solve().pose
    for place in ((0.1, 1.4, 0.4), (-0.6, 1.5, 0.1), (-0.4, 1.2, 0.3)):
        session.move("hand.R", place)
        last = session.solve().pose
    assert np.abs(last - first).max() < 0.02


@pytest.mark.files(
    {
        "humanoid/humanoid.urdf": False,
        "walk.bvh": True,
        "urdf/erd_talos_reduced.urdf": False,
        "cmu/02_01.bvh": True,
        "walk.glb": True,
        "gltf/khronos_CesiumMan.glb": True,
        "gltf/khronos_Fox.glb": False,
    }
)
def test_people_are_distinguished_from_robots(path, expected):
    assert (person_plan(ps.load(path).skeleton) is not None) == expected


def test_knees_without_limits_bend_forward(human):
    """In character files no limit says which way a knee bends."""
    loose = human.with_limits(dict.fromkeys(human.names))
    frames = ps.forward(loose, loose.rest)
    feet = [ps.goals.Pose(foot, frames.matrix(foot)) for foot in ("foot.L", "foot.R")]
    for place in ((-0.25, 0.1, 0.4), (-0.1, 0.2, 0.5)):
        pose = ps.solve(loose, [*feet, ps.goals.Position("hand.R", place)]).pose
        after = ps.forward(loose, pose)
        for side in "LR":
            hip, knee, ankle = (after.position(f"{role}.{side}") for role in ("hip", "knee", "ankle"))
            assert (knee - 0.5 * (hip + ankle))[2] > -0.01  # the figure faces z


def test_it_is_on_for_people_and_off_for_others(human):
    newton = ps.solvers.get("newton")()
    goal = ps.goals.Position("hand.R", (-0.4, 1.2, 0.3))
    assert uses_natural(None, ps.Problem(human, goal), newton)
    assert not uses_natural(None, ps.Problem(human, [goal, ps.goals.Posture()]), newton)
    assert not uses_natural(None, ps.Problem(human, goal), ps.solvers.get("dls")())
    panda = ps.figures.panda()
    assert not uses_natural(None, ps.Problem(panda, ps.goals.Position(panda.names[-1], (0.4, 0.1, 0.4))), newton)


def test_any_solver_and_figure_takes_it_when_asked():
    arm = ps.figures.planar_arm([15, 10, 5, 5])
    goal = ps.goals.Position(arm.site_names[-1], (20.0, 10.0, 0.0))
    for solver in ("newton", "dls"):
        bare, natural = (ps.solve(arm, goal, solver=solver, natural=natural) for natural in (False, True))
        assert natural.ok
        assert cost(arm, natural.pose, arm.rest) <= cost(arm, bare.pose, arm.rest) + 1e-9


def test_a_wrong_value_is_refused(human):
    with pytest.raises(SolverError, match="natural: expected True, False or None, got 'yes'"):
        ps.solve(human, ps.goals.Position("hand.R", (-0.4, 1.2, 0.3)), natural="yes")


@pytest.mark.parametrize("person", [True, False])
def test_a_stronger_joint_changes_more(human, person):
    """As in every solver (Rabbani 2017, 3.3): the change of a joint grows with its gain."""
    figure = human if person else ps.figures.limb()
    joint, body = ("elbow.R", "hand.R") if person else ("elbow", "hand")
    place = ps.forward(figure, figure.rest).position(body) + np.array([0.03, 0.08, 0.05])
    changes = []
    for gain in (0.3, 1.0, 3.0):
        joints = [replace(j, gain=gain if j.name == joint else 1.0) for j in figure.joints]
        pose = ps.solve(figure.replace(joints=joints), ps.goals.Position(body, place), natural=True).pose
        changes.append(float(np.abs(pose - figure.rest)[figure.index(joint)][0]))
    assert changes[0] < changes[1] < changes[2]
