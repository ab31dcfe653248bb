"""The prior of poses: its energy and derivatives against NumPy, what it prefers, and whom it fits."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import posable as ps
from posable.engine.jit import entry
from posable.engine.joints import forward
from posable.engine.layout import work_size, workspace
from posable.engine.natural import add_prior, prior_energy, relieve_idle, scratch_size
from posable.errors import GoalError
from posable.goals.natural import LIMBS, STRENGTH, TEMPERATURE, USUAL, features_of, limbs_of, model, prior_of
from posable.model.body_plan import person_plan
from posable.model.joints import Fixed


@pytest.fixture(scope="module")
def human():
    return ps.figures.human()


@entry
def evaluate_prior(figure, order, prior, theta, reference, work, room, d, gradient, hessian):
    """Return the prior's energy, and write its gradient (n,) and Hessian (n, d) by depth."""
    ws, _ = workspace(figure, 0, work, d)
    forward(figure, reference, ws)
    relieve_idle(prior, ws, room)
    forward(figure, theta, ws)
    for i in range(theta.shape[0]):
        ws.gradient[i] = 0.0
        for k in range(d):
            ws.hessian[i, k] = 0.0
    energy = prior_energy(prior, ws, room)
    add_prior(figure, order, prior, ws, room, 1.0)
    for i in range(theta.shape[0]):
        gradient[i] = ws.gradient[i]
        for k in range(d):
            hessian[i, k] = ws.hessian[i, k]
    return energy


def evaluated(skeleton, pose, temperature=1.0, idle=0.0, reference=None):
    prior = prior_of(skeleton, 1.0 / STRENGTH, temperature)
    prior = prior._replace(idle=np.full(len(prior.limb), idle))
    d = int(skeleton.order.rows[:, 1].max()) + 1
    n, b = skeleton.size, skeleton.figure.body.shape[0]
    gradient, hessian = np.empty(n), np.empty((n, d))
    near = skeleton.rest if reference is None else reference
    room = np.empty(scratch_size(prior, d))
    value = evaluate_prior(
        skeleton.figure, skeleton.order, prior, pose, near, np.empty(work_size(n, b, 0, d)), room, d, gradient,
        hessian,
    )  # fmt: skip
    return value, gradient, hessian


def by_hand(skeleton, pose):
    """Return the energy as the sum over limbs of the mixture's negative log density, with dense covariances."""
    total = 0.0
    for limb in limbs_of(person_plan(skeleton)):
        f = features_of(skeleton, limb, pose[None])[0]
        parts = [model()[f"{limb.model}.{part}"].astype(float) for part in ("weight", "mean", "noise", "factor")]
        rows = np.concatenate([np.arange(3 * k, 3 * k + 3) for k in limb.has])
        logs = []
        for weight, mean, noise, factor in zip(*parts, strict=True):
            covariance = (factor @ factor.T + noise * np.eye(len(mean)))[np.ix_(rows, rows)]
            gap = f - mean[rows]
            logs.append(
                np.log(weight) - 0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * gap @ np.linalg.solve(covariance, gap)
            )
        total -= np.logaddexp.reduce(logs)
    return total


def some_poses(skeleton, count):
    rng = np.random.default_rng(4)
    wide = np.minimum(0.6, 0.4 * np.minimum(skeleton.upper - skeleton.lower, 2.0))
    return np.clip(skeleton.rest + rng.uniform(-1, 1, (count, skeleton.size)) * wide, skeleton.lower, skeleton.upper)


def test_its_energy_is_that_of_the_mixture(human):
    poses = some_poses(human, 5)
    energies = ps.goals.Natural().energy(human, poses)
    assert energies == pytest.approx([by_hand(human, pose) for pose in poses], rel=1e-9)


@pytest.mark.parametrize(("temperature", "idle"), [(1.0, 0.0), (30.0, 0.0), (30.0, 1.0)])
def test_its_gradient_is_the_slope_of_its_energy(human, temperature, idle):
    for pose in some_poses(human, 3):
        _, gradient, _ = evaluated(human, pose, temperature, idle)
        for i in range(human.size):
            step = np.zeros(human.size)
            step[i] = 1e-6
            slope = (
                evaluated(human, pose + step, temperature, idle)[0]
                - evaluated(human, pose - step, temperature, idle)[0]
            ) / 2e-6
            assert gradient[i] == pytest.approx(slope, abs=2e-4 * max(1.0, np.abs(gradient).max()))


def dense_stiffness(skeleton, pose):
    _, _, hessian = evaluated(skeleton, pose)
    dense = np.zeros((skeleton.size, skeleton.size))
    for i in range(skeleton.size):
        j = i
        while j >= 0:
            dense[i, j] = dense[j, i] = hessian[i, skeleton.order.rows[j, 1]]
            j = skeleton.order.rows[j, 0]
    return dense


def stiffness_by_hand(skeleton, pose):
    """Return J' P J summed over limbs: J by differences of the features, P the mean precision of the components."""
    steps = 1e-6 * np.eye(skeleton.size)
    total = np.zeros((skeleton.size, skeleton.size))
    for limb in limbs_of(person_plan(skeleton)):
        f = features_of(skeleton, limb, pose[None])[0]
        slopes = features_of(skeleton, limb, pose + steps) - features_of(skeleton, limb, pose - steps)
        parts = [model()[f"{limb.model}.{part}"].astype(float) for part in ("weight", "mean", "noise", "factor")]
        rows = np.concatenate([np.arange(3 * k, 3 * k + 3) for k in limb.has])
        logs, precisions = [], []
        for weight, mean, noise, factor in zip(*parts, strict=True):
            covariance = noise * np.eye(len(rows)) + factor[rows] @ factor[rows].T
            gap = f - mean[rows]
            precisions.append(np.linalg.inv(covariance))
            logs.append(np.log(weight) - 0.5 * np.linalg.slogdet(covariance)[1] - 0.5 * gap @ precisions[-1] @ gap)
        shares = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
        total += slopes @ np.einsum("c,cij->ij", shares, np.array(precisions)) @ slopes.T / 4e-12
    return total


def test_its_stiffness_is_that_of_gauss_and_newton(human):
    for pose in some_poses(human, 2):
        expected = stiffness_by_hand(human, pose)
        assert dense_stiffness(human, pose) == pytest.approx(expected, abs=1e-6 * np.abs(expected).max())


def test_its_stiffness_is_positive(human):
    dense = dense_stiffness(human, some_poses(human, 1)[0])
    assert np.linalg.eigvalsh(dense)[0] > -1e-9 * np.abs(dense).max()
    assert np.abs(dense).max() > 1.0


def test_a_mirrored_pose_is_as_likely(human):
    pose = some_poses(human, 1)[0]
    mirrored = pose.copy()
    for joint in human.joints:
        other = joint.name[:-2] + {".L": ".R", ".R": ".L"}.get(joint.name[-2:], joint.name[-2:])
        signs = np.array(
            [1.0 if len(joint.motion.dofs) == 1 else (1.0 if dof.axis == 0 else -1.0) for dof in joint.motion.dofs]
        )
        if joint.parent is None:
            signs[:3] = (-1.0, 1.0, 1.0)
        mirrored[human.index(joint.name)] = signs * pose[human.index(other)]
    natural = ps.goals.Natural()
    assert natural.energy(human, mirrored) == pytest.approx(natural.energy(human, pose), abs=1e-3)


def test_the_prior_never_worsens_a_goal(human):
    frames = ps.forward(human, human.rest)
    goals = [ps.goals.Pose(body, frames.matrix(body)) for body in ("foot.L", "foot.R")]
    goals.append(ps.goals.Position("hand.R", (-0.25, 0.1, 0.4)))
    result = ps.solve(human, [*goals, ps.goals.Natural(100.0)])
    assert result.ok
    assert max(result.errors.values()) < 1e-5
    natural = ps.goals.Natural()
    assert natural.energy(human, result.pose) < natural.energy(human, ps.solve(human, goals, natural=False).pose)


def test_it_bends_the_knees_to_reach_the_floor(human):
    frames = ps.forward(human, human.rest)
    goals = [ps.goals.Pose(body, frames.matrix(body)) for body in ("foot.L", "foot.R")]
    goals.append(ps.goals.Position("hand.R", (-0.25, 0.1, 0.4)))
    pose = ps.solve(human, [*goals, ps.goals.Natural()]).pose
    assert np.degrees(pose[human.dof("knee.L")]) > 45.0


def standing(human, *place):
    """Return the frames of the human with both feet pinned, the right hand at a place, and the prior."""
    rest = ps.forward(human, human.rest)
    feet = [ps.goals.Pose(foot, rest.matrix(foot)) for foot in ("foot.L", "foot.R")]
    result = ps.solve(human, [*feet, ps.goals.Position("hand.R", place), ps.goals.Natural()])
    assert result.ok
    return rest, ps.forward(human, result.pose)


@pytest.mark.parametrize("place", [(-0.4, 1.2, 0.3), (-0.25, 1.95, 0.35), (-0.04, 1.56, 0.2)])
def test_an_arm_without_a_goal_hangs(human, place):
    drops = [(f.position("shoulder.L") - f.position("hand.L"))[1] for f in standing(human, *place)]
    assert drops[1] > 0.75 * drops[0]


def test_an_arm_without_a_goal_hangs_from_a_bent_trunk(human):
    _, found = standing(human, -0.25, 0.1, 0.4)
    assert (found.position("hand.L") - found.position("shoulder.L"))[1] < -0.45


def test_limbs_without_goals_have_no_force_at_a_pose_that_people_take(human):
    arms = np.r_[tuple(range(human.index(f"shoulder.{s}").start, human.index(f"wrist.{s}").stop) for s in "LR")]
    idle = 5 * USUAL / TEMPERATURE
    forced, free = (evaluated(human, human.rest, TEMPERATURE, k)[1][arms] for k in (0.0, idle))
    assert np.abs(forced).max() > 0.01
    assert np.abs(free).max() < 1e-12 + 1e-9 * np.abs(forced).max()


def test_arms_stretched_out_sideways_keep_their_force(human):
    pose = human.rest
    for side, sign in (("L", 1.0), ("R", -1.0)):
        for body in ("shoulder", "elbow"):
            tip = "elbow" if body == "shoulder" else "wrist"
            along = (
                ps.forward(human, pose)
                .rotation(f"{body}.{side}")
                .inv()
                .apply(
                    ps.forward(human, pose).position(f"{tip}.{side}")
                    - ps.forward(human, pose).position(f"{body}.{side}")
                )
            )
            goal = ps.goals.Direction(f"{body}.{side}", axis=along / np.linalg.norm(along), along=(sign, 0.0, 0.0))
            pose = ps.solve(human, goal, start=pose, natural=False).pose
    forced, idle = (evaluated(human, pose, TEMPERATURE, k, pose)[1] for k in (0.0, 5 * USUAL / TEMPERATURE))
    arms = np.r_[tuple(range(human.index(f"shoulder.{s}").start, human.index(f"wrist.{s}").stop) for s in "LR")]
    assert np.abs(idle[arms]).max() > 0.5 * np.abs(forced[arms]).max()


def test_bones_that_do_not_move_against_their_base_pull_nothing(human):
    """A fixed collarbone is a constant of the energy: the slope has no part of it."""
    fixed = {"clavicle.L", "clavicle.R"}
    joints = [
        replace(joint, motion=Fixed(), limits=None, rest=0.0) if joint.name in fixed else joint
        for joint in human.joints
    ]
    stiff = human.replace(joints=joints)
    for pose in some_poses(stiff, 2):
        _, gradient, _ = evaluated(stiff, pose)
        steps = 1e-6 * np.eye(stiff.size)
        slopes = [(evaluated(stiff, pose + step)[0] - evaluated(stiff, pose - step)[0]) / 2e-6 for step in steps]
        np.testing.assert_allclose(gradient, slopes, rtol=0, atol=2e-4 * max(1.0, np.abs(gradient).max()))


def test_only_people_take_it():
    panda = ps.figures.panda()
    with pytest.raises(GoalError, match="Natural: expected a figure with a person's body plan"):
        ps.solve(panda, ps.goals.Natural())


def test_the_model_is_small():
    assert set(model()) == {f"{limb}.{part}" for limb in LIMBS for part in ("weight", "mean", "noise", "factor")}
    assert sum(values.nbytes for values in model().values()) < 1e6


@pytest.mark.files({"walk.bvh": None, "cmu/02_01.bvh": 0.0254 / 0.45})
def test_people_are_found_again(path, expected):
    motion = ps.load(path, unit=expected).motion  # of nobody that it was learnt from
    skeleton, plan = motion.skeleton, person_plan(motion.skeleton)
    rest = ("chest", "shoulder.L", "shoulder.R", "elbow.L", "elbow.R", "knee.L", "knee.R")
    errors = {False: [], True: []}
    for pose in motion.poses[20::60]:
        truth = ps.forward(skeleton, pose)
        ends = ("wrist.L", "wrist.R", "ankle.L", "ankle.R", "head", "pelvis")
        goals = [ps.goals.Pose(plan[role], truth.matrix(plan[role])) for role in ends]
        start = skeleton.rest.copy()
        start[:6] = pose[:6]
        for natural in (False, True):
            extra = [ps.goals.Natural()] if natural else []
            found = ps.forward(skeleton, ps.solve(skeleton, [*goals, *extra], start=start, natural=False).pose)
            errors[natural].append([np.linalg.norm(found.position(plan[r]) - truth.position(plan[r])) for r in rest])
    assert np.mean(errors[True]) < 0.6 * np.mean(errors[False])
    assert np.mean(np.array(errors[True])[:, 3:]) < 0.06  # elbows and knees


def test_a_drag_does_not_hop(human):
    """A hand drawn along lines in steps of 1 mm turns no joint by more than 1.5 degrees a step."""
    rest = ps.forward(human, human.rest)
    feet = [ps.goals.Pose(foot, rest.matrix(foot)) for foot in ("foot.L", "foot.R")]
    corners = np.array([[0.1, 1.3, 0.4], [-0.2, 0.7, 0.45], [-0.4, 1.0, 0.35], [-0.15, 1.6, 0.2]])
    path = np.concatenate(
        [a + np.linspace(0, 1, int(1e3 * np.linalg.norm(b - a)))[:, None] * (b - a) for a, b in pairwise(corners)]
    )
    session = ps.Session(human, [*feet, ps.goals.Position("hand.R", path[0]), ps.goals.Natural()])
    session.solve()
    assert largest_turn(human, [session.solve({"hand.R": place}).pose for place in path]) < 1.5


def largest_turn(skeleton, poses):
    """Return the largest turn [degrees] of any joint between two poses of a series (T, n)."""
    frames = ps.forward(skeleton, np.array(poses))
    turns = [frames.rotation(joint.parent).inv() * frames.rotation(joint.name) for joint in skeleton.joints[1:]]
    return max(np.degrees((turn[:-1].inv() * turn[1:]).magnitude()).max() for turn in turns)


def test_where_a_branch_ends_a_drag_goes_over_to_the_next_one_by_steps(human):
    """On this line the likeliest pose jumps by 29 degrees for 1 mm; every pose on the way reaches the goals."""
    rest = ps.forward(human, human.rest)
    feet = [ps.goals.Pose(foot, rest.matrix(foot)) for foot in ("foot.L", "foot.R")]
    line = np.linspace((-0.02, 1.68, 0.12), (0.1, 1.68, 0.06), 138)
    session = ps.Session(human, [*feet, ps.goals.Position("hand.R", line[0]), ps.goals.Natural()])
    session.solve()
    results = [session.solve({"hand.R": place}) for place in line]
    assert all(result.ok for result in results)
    assert largest_turn(human, [result.pose for result in results]) < 2.0
    assert largest_turn(human, [results[-1].pose, session.solve().pose]) < 2.0  # it has arrived


def test_only_a_drag_is_held_back(human):
    """Without new targets, from a given start, or with other goals, a session goes all the way at once."""
    rest = ps.forward(human, human.rest)
    feet = [ps.goals.Pose(foot, rest.matrix(foot)) for foot in ("foot.L", "foot.R")]
    line = np.linspace((-0.02, 1.68, 0.12), (0.1, 1.68, 0.06), 138)
    goals = [*feet, ps.goals.Position("hand.R", line[0]), ps.goals.Natural()]
    session, free = ps.Session(human, goals), ps.Session(human, goals)
    session.solve()
    free.solve()
    for place in line:
        held = session.solve({"hand.R": place}).pose
        ahead = free.solve({"hand.R": place}, start=held).pose
        if largest_turn(human, [held, ahead]) > 10.0:
            break
    else:
        raise AssertionError("nothing was held back")
    np.testing.assert_allclose(session.solve().pose, ahead, rtol=0, atol=1e-3)
    session.enable("hand.R", False)
    assert largest_turn(human, [ahead, session.solve().pose]) > 30.0  # the arm comes down at once
