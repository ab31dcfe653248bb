"""Remedies: applied by hand they reach, and they are not much larger than the best that a search by force finds."""

import time

import numpy as np
import pytest

import posable as ps

g = ps.goals
LENGTHS = (0.5, 0.4, 0.3)


def arm():
    return ps.figures.planar_arm(LENGTHS).with_limits({f"joint{k}": (-0.9, 1.1) for k in (1, 2, 3)})


def tip(a):
    """Return where the tip is for angles (..., 3), by hand."""
    sums = np.cumsum(a, axis=-1)
    return np.stack([np.cos(sums) @ LENGTHS, np.sin(sums) @ LENGTHS], axis=-1)


def least_excess_by_force(x, y):
    """Return the least sum of excess of poses that reach (x, y): every first angle, both elbows."""
    first = np.linspace(-np.pi, np.pi, 20001)
    px, py = x - LENGTHS[0] * np.cos(first), y - LENGTHS[0] * np.sin(first)
    cosine = (px**2 + py**2 - LENGTHS[1] ** 2 - LENGTHS[2] ** 2) / (2 * LENGTHS[1] * LENGTHS[2])
    ok = np.abs(cosine) <= 1.0
    best = np.inf
    for side in (1.0, -1.0):
        third = side * np.arccos(cosine[ok])
        bend = np.arctan2(LENGTHS[2] * np.sin(third), LENGTHS[1] + LENGTHS[2] * np.cos(third))
        second = np.arctan2(py[ok], px[ok]) - bend - first[ok]
        poses = np.stack([first[ok], (second + np.pi) % (2 * np.pi) - np.pi, third], axis=-1)
        past = np.maximum(np.maximum(-0.9 - poses, poses - 1.1), 0.0).sum(axis=-1)
        best = min(best, past.min(initial=np.inf))
    return best


@pytest.mark.parametrize("seed", range(8))
def test_limits_that_give_are_few_small_and_enough(seed):
    rng = np.random.default_rng(seed)
    skeleton = arm()
    angle, radius = rng.uniform(-np.pi, np.pi), rng.uniform(0.3, 1.15)
    goal = g.Position("tip", (radius * np.cos(angle), radius * np.sin(angle), 0.0), weight=(1, 1, 0))
    result = ps.solve(skeleton, goal)
    remedies = result.remedy()
    if result.ok:
        assert remedies == []
        return
    limits = next(remedy for remedy in remedies if remedy.limits)
    wider = skeleton.with_limits(limits.limits)
    assert ps.solve(wider, goal, start=limits.start).ok
    given = (skeleton.lower - wider.lower).sum() + (wider.upper - skeleton.upper).sum()
    assert given == pytest.approx(limits.size)
    assert given <= 1.25 * least_excess_by_force(*goal.target[:2]) + np.radians(0.1)
    assert f"Widen {len(limits.limits)} limit" in limits.text


def test_remedies_end_with_their_time_limit():
    human = ps.figures.human()
    result = ps.solve(human, [g.Position("hand.R", (3.0, 1.0, 0.0)), g.Position("hand.L", (-3.0, 1.0, 0.0))])
    assert result.remedy()
    assert result.remedy(time_limit=0.0) == []
    begin = time.process_time()
    result.remedy(time_limit=0.05)
    assert time.process_time() - begin < 0.5
    with pytest.raises(ps.PosableError, match="time_limit"):
        result.remedy(time_limit="soon")


@pytest.mark.parametrize("seed", range(8))
def test_the_nearest_target_is_the_nearest(seed):
    rng = np.random.default_rng(100 + seed)
    skeleton = arm()
    angle = rng.uniform(-np.pi, np.pi)
    goal = g.Position("tip", (np.cos(angle), np.sin(angle), 0.0), weight=(1, 1, 0))
    result = ps.solve(skeleton, goal)
    if result.ok:
        return
    moved = next(remedy for remedy in result.remedy() if remedy.targets)
    assert ps.solve(skeleton, moved.goals, start=moved.start).ok
    assert ps.solve(skeleton, goal.moved(moved.targets["tip"]), start=moved.start).ok
    grid = np.stack(np.meshgrid(*[np.linspace(-0.9, 1.1, 81)] * 3), axis=-1).reshape(-1, 3)
    nearest = np.linalg.norm(tip(grid) - goal.target[:2], axis=-1).min()
    assert moved.size <= 1.25 * nearest
    assert moved.size == pytest.approx(np.linalg.norm(moved.targets["tip"] - goal.target), abs=1e-4)


def test_choices_for_goals_that_pull_against_each_other():
    human = ps.figures.human()
    frames = ps.forward(human, human.rest)
    goals = [g.Position(s, frames.position(s)) for s in ("foot.L", "foot.R", "pelvis")]
    goals.append(g.Position("hand.R", frames.position("hand.R") + np.array([0.0, 0.0, 1.5])))
    result = ps.solve(human, goals)
    remedies = result.remedy()
    assert remedies
    for remedy in remedies:
        assert remedy.verified
        figure = human.with_limits(remedy.limits) if remedy.limits else human
        again = ps.solve(figure, remedy.goals, start=remedy.start)
        assert again.ok
    gone = next(remedy for remedy in remedies if remedy.text.startswith("Leave out"))
    assert len(gone.goals) == 3
    assert {goal.label for goal in goals} - {goal.label for goal in gone.goals} <= {"pelvis", "hand.R"}
    loose = next(remedy for remedy in remedies if remedy.text.startswith("Accept"))
    assert all(new.tolerance >= old.tolerance for new, old in zip(loose.goals, goals, strict=True))


def test_another_start_is_the_remedy_where_it_reaches():
    panda = ps.figures.panda()
    rng = np.random.default_rng(3)
    told = 0
    for _ in range(60):
        pose = rng.uniform(panda.lower, panda.upper)
        goal = g.Pose("hand", ps.forward(panda, pose).matrix("hand"))
        result = ps.solve(panda, goal)
        if not result.ok:
            [remedy] = result.remedy()
            assert "another start" in remedy.text
            assert ps.solve(panda, goal, start=remedy.start).ok
            told += 1
    assert told


def test_poses_and_axes_move_too():
    limb = ps.figures.limb()
    goals = [g.Position("hand", (0.3, 0.2, 0.1)), g.Direction("hand", "x", along=(-1.0, -0.2, 0.1), weight=0.1)]
    result = ps.solve(limb, goals)
    assert not result.ok
    for remedy in result.remedy():
        figure = limb.with_limits(remedy.limits) if remedy.limits else limb
        assert ps.solve(figure, remedy.goals, start=remedy.start).ok


def test_a_batch_has_no_remedy_and_out_of_reach_has_no_limits():
    arm = ps.figures.planar_arm([1.0, 1.0])
    with pytest.raises(ps.PosableError, match="expected a result of one pose"):
        ps.solve(arm, g.Position("tip", np.zeros((2, 3)))).remedy()
    far = ps.solve(arm, g.Position("tip", (5.0, 0.0, 0.0)))
    assert far.status == ps.Status.OUT_OF_REACH
    assert all(not remedy.limits for remedy in far.remedy())
    assert any(np.allclose(remedy.targets.get("tip", 0.0), (2.0, 0.0, 0.0), atol=1e-3) for remedy in far.remedy())


def test_a_posture_does_not_keep_a_target_from_being_near():
    skeleton = arm()
    goal = g.Position("tip", (-1.0, 0.4, 0.0), weight=(1, 1, 0))
    alone = next(one for one in ps.solve(skeleton, goal).remedy() if one.targets)
    with_posture = ps.solve(skeleton, [goal, g.Posture(weight=1e-6)]).remedy()
    moved = next(one for one in with_posture if one.targets)
    assert moved.size == pytest.approx(alone.size, rel=0.02)


def test_of_a_choice_the_nearest_member_is_reported():
    limb = ps.figures.limb()
    choice = g.AnyOf([g.Position("hand", (2.0, 0.0, 0.0)), g.Position("hand", (0.0, 1.4, 0.0))])
    result = ps.solve(limb, choice)
    assert not result.ok
    remedies = result.remedy()
    moved = next(remedy for remedy in remedies if remedy.targets)
    assert moved.size == pytest.approx(1.4 - 0.65, abs=2e-3)  # the arm is 0.65 m long
    for remedy in remedies:
        assert ps.solve(remedy.skeleton, remedy.goals, start=remedy.start).ok


@pytest.mark.parametrize("turned", [False, True])
def test_a_relative_target_moves_to_where_the_body_comes(turned):
    limb = ps.figures.limb()
    target = np.eye(4)
    target[:3, 3] = (0.0, 0.9, 0.0)
    goal = g.Relative("hand", "shoulder", target if turned else target[:3, 3])
    result = ps.solve(limb, goal)
    assert not result.ok
    moved = next(remedy for remedy in result.remedy() if remedy.targets)
    again = ps.solve(limb, goal.moved(moved.targets[goal.label]), start=moved.start)
    assert again.ok
