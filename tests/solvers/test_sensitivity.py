"""What relaxing a limit gives and how the pose follows a target, against minimisers and differences."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import posable as ps
from posable.solvers.sensitivity import ConstrainedMinimum

g = ps.goals


def arm():
    return ps.figures.planar_arm([0.5, 0.4, 0.3]).with_limits({f"joint{k}": (-0.9, 1.1) for k in (1, 2, 3)})


def reference(skeleton, goals, start, lower, upper):
    """Return the errors at SciPy's minimum of the energy, whose gradient is a difference."""
    problem = ps.Problem(skeleton, goals)
    box = list(zip(lower, upper, strict=True))
    found = minimize(problem.energy, start, bounds=box, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-11})
    return problem.errors(found.x)


@pytest.mark.parametrize("angle", np.linspace(-3.0, 3.0, 7))
def test_cost_and_gain_are_those_of_an_independent_minimiser(angle):
    skeleton = arm()
    goal = g.Position("tip", (np.cos(angle), np.sin(angle), 0.0), weight=(1, 1, 0))
    result = ps.solve(skeleton, goal)
    for block in result.blocking:
        i = skeleton.dof(block.dof)
        for degrees, predicted in ((1.0, np.radians(1.0) * block.cost["tip"]), (5.0, block.gain["tip"])):
            lower, upper = skeleton.lower.copy(), skeleton.upper.copy()
            (lower if block.side == "lower" else upper)[i] += np.radians(degrees) * (-1 if block.side == "lower" else 1)
            gained = result.errors["tip"] - reference(skeleton, goal, result.pose, lower, upper)["tip"]
            assert predicted == pytest.approx(gained, rel=0.1, abs=2e-5)


def test_a_limit_that_takes_hold_on_the_way_is_met():
    """Beyond a kink of the path the derivative at its beginning is wrong, and the path is right."""
    skeleton = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.5), "joint2": (-0.02, 1.0)})
    goal = g.Position("tip", (-0.2, 1.6, 0.0), weight=(1, 1, 0))
    result = ps.solve(skeleton, goal)
    before = ConstrainedMinimum(result.problem, result.pose, skeleton.lower, skeleton.upper)
    after, ended = before.relaxed(0, np.radians(60.0), 60)
    assert not ended
    upper = skeleton.upper + np.radians((60.0, 0.0))
    expected = reference(skeleton, goal, result.pose, skeleton.lower, upper)["tip"]
    assert after.errors[0] == pytest.approx(expected, abs=1e-6)
    block = next(block for block in result.blocking if block.dof == "joint1")
    straight_on = result.errors["tip"] - np.radians(60.0) * block.cost["tip"]
    assert abs(straight_on - expected) > 0.05


def test_a_pose_that_is_not_a_minimum_is_described_as_it_is():
    skeleton = arm()
    goal = g.Position("tip", (-1.0, 0.2, 0.0), weight=(1, 1, 0))
    pose = np.array([1.1, 0.0, 0.0])
    told = ps.explain(skeleton, goal, pose)
    assert [block.dof for block in told.blocking] == ["joint1"]
    assert told.blocking[0].ends


def solved(skeleton, goals, start):
    """Return the pose of a full solve on the branch of `start`, until a step moves nothing."""
    session = ps.Session(skeleton, goals, start=start, continuous=True)
    session.solve()
    return session.solve().pose


def difference(at, h=1e-3):
    """Return the derivative of at(h) at 0 by central differences, extrapolated once."""
    wide, near = (at(h) - at(-h)) / (2 * h), (at(h / 2) - at(-h / 2)) / h
    return (4 * near - wide) / 3


def gap(a, b):
    return np.abs(a - b).max() / max(np.abs(b).max(), 1e-9)


@pytest.mark.filterwarnings("ignore::posable.errors.PosableWarning")
def test_targets_of_a_limb_inside_and_on_its_limits():
    limb = ps.figures.limb()
    rng = np.random.default_rng(0)
    active, free = 0, 0
    for _ in range(40):
        goals = [g.Position("hand", 0.3 * rng.normal(size=3), tolerance=1e-12), g.Posture(weight=0.05)]
        result = ps.solve(limb, goals)
        jacobian = result.jacobian("hand")
        if jacobian is None:
            continue
        assert jacobian.shape == (limb.size, 3)
        for i in range(3):

            def moved(h, goals=goals, i=i, start=result.pose):
                return solved(limb, [goals[0].moved(goals[0].target + h * np.eye(3)[i]), goals[1]], start)

            assert gap(jacobian[:, i], difference(moved)) < 1e-5
        held = (result.pose <= limb.lower + 1e-9) | (result.pose >= limb.upper - 1e-9)
        active, free = active + bool(held.any()), free + (not held.any())
    assert active >= 5
    assert free >= 5


def test_a_pose_has_six_numbers_and_a_weight_and_a_length_one():
    panda = ps.figures.panda()
    pose = panda.rest + 0.1
    matrix = ps.forward(panda, pose).matrix("hand")
    goals = [g.Pose("hand", matrix, tolerance=(1e-12, 1e-12)), g.Posture(pose=panda.rest, weight=0.02)]
    result = ps.solve(panda, goals)
    jacobian = result.jacobian("hand")
    assert jacobian.shape == (panda.size, 6)
    for i in range(6):

        def moved(h, i=i):
            out = matrix.copy()
            if i < 3:
                out[i, 3] += h
            else:
                out[:3, :3] = Rotation.from_rotvec(h * np.eye(3)[i - 3]).as_matrix() @ out[:3, :3]
            return solved(panda, [goals[0].moved(out), goals[1]], result.pose)

        assert gap(jacobian[:, i], difference(moved)) < 1e-5
    heavier = difference(lambda h: solved(panda, [goals[0].changed(factor=1 + h), goals[1]], result.pose))
    assert gap(result.jacobian("hand", wrt="weight")[:, 0], heavier) < 1e-5


def test_bone_lengths_and_site_positions():
    limb = ps.figures.limb()
    goals = [g.Position("hand", (0.35, 0.15, 0.1), weight=2.0, tolerance=1e-12), g.Posture(weight=0.05)]
    result = ps.solve(limb, goals)
    elbow, hand = limb.joint("elbow"), limb.sites[-1]
    unit = np.asarray(elbow.offset) / np.linalg.norm(elbow.offset)

    def longer(h):
        joints = [
            ps.Joint(j.name, j.motion, j.parent, offset=np.asarray(j.offset) + h * unit, limits=j.limits, rest=j.rest)
            if j.name == "elbow" else j for j in limb.joints
        ]  # fmt: skip
        return solved(limb.replace(joints=joints), goals, result.pose)

    assert gap(result.jacobian("elbow", wrt="length")[:, 0], difference(longer)) < 1e-5
    offset = result.jacobian(hand.name, wrt="offset")
    for i in range(3):

        def moved(h, i=i):
            sites = [*limb.sites[:-1], ps.Site(hand.name, hand.joint, np.asarray(hand.offset) + h * np.eye(3)[i])]
            return solved(limb.replace(sites=sites), goals, result.pose)

        assert gap(offset[:, i], difference(moved)) < 1e-5
    weight = difference(lambda h: solved(limb, [goals[0].changed(factor=1 + h / 2), goals[1]], result.pose))
    assert gap(result.jacobian("hand", wrt="weight")[:, 0], weight) < 1e-5


def test_least_motion_where_the_goals_leave_freedom():
    panda = ps.figures.panda()
    goal = g.Position("hand", ps.forward(panda, panda.rest + 0.1).position("hand"), tolerance=1e-10)
    result = ps.solve(panda, goal)
    jacobian = ps.jacobian(panda, result.pose, "hand", rows="position")
    assert result.sensitivity("hand").least_motion
    assert np.allclose(result.jacobian("hand"), np.linalg.pinv(jacobian), atol=1e-6)


def test_none_has_a_reason():
    arm = ps.figures.planar_arm([1.0, 1.0])
    straight = ps.solve(arm, g.Position("tip", (2.0, 0.0, 0.0), weight=(1, 1, 0)), start=[0.0, 0.0])
    with pytest.warns(ps.PosableWarning, match="fold"):
        assert straight.jacobian("tip") is None
    assert "fold" in straight.sensitivity("tip").reason
    levels = [g.Position("joint2", (1.0, 0.0, 0.0), label="elbow"), g.Position("tip", (0.0, 1.9, 0.0), priority=1)]
    assert "priorities" in ps.solve(arm, levels).sensitivity("tip").reason
    touching = ps.figures.planar_arm([1.0, 1.0]).with_limits({"joint1": (-0.5, 0.3), "joint2": (-2.0, 2.0)})
    goal = g.Position("tip", ps.forward(touching, [0.3, 0.8]).position("tip"), weight=(1, 1, 0), tolerance=1e-12)
    assert "without being pushed" in ps.solve(touching, goal, start=[0.3, 0.8]).sensitivity("tip").reason


def test_wrong_calls_and_batches():
    limb = ps.figures.limb()
    targets = np.array([(0.3, 0.1, 0.0), (0.2, 0.2, 0.1)])
    batch = ps.solve(limb, g.Position("hand", targets, tolerance=1e-10))
    alone = [ps.solve(limb, g.Position("hand", target, tolerance=1e-10)) for target in targets]
    assert batch.jacobian("hand").shape == (2, limb.size, 3)
    assert np.allclose(batch.jacobian("hand")[1], alone[1].jacobian("hand"))
    with pytest.raises(ps.PosableError, match="did you mean 'hand'"):
        alone[0].jacobian("hnd")
    with pytest.raises(ps.PosableError, match="wrt"):
        alone[0].jacobian("hand", wrt="colour")
    with pytest.raises(ps.PosableError, match="joint or site"):
        alone[0].jacobian("elbw", wrt="length")
    with pytest.raises(ps.PosableError, match="target"):
        ps.solve(limb, g.Posture()).jacobian("posture")
