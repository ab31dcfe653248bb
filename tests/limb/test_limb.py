"""Every solution meets its goal and its limits, and the limb finds one wherever there is one."""

import numpy as np
import pytest
from scipy.spatial.transform import RigidTransform

import posable as ps


def distance(a, b):
    """Of angles, by whole turns."""
    return np.abs(np.sin(0.5 * (np.asarray(a) - np.asarray(b))))


@pytest.mark.parametrize("first", range(14))
def test_a_pose_is_found_wherever_there_is_one(first, make_case, balls):
    for last in range(0, 14, 3):
        case = make_case(100 * first + last, balls[first], balls[(first + last) % 14])
        for _ in range(4):
            pose = case.pose()
            target = case.hand(pose)
            solution = case.limb.solve(target, base=pose)
            assert solution.ok, solution.message
            assert np.abs(case.hand(solution.pose) - target).max() < 1e-9
            assert case.holds(solution.pose)
            assert solution.clearance >= 0.0
            rest = np.delete(np.arange(case.skeleton.size), case.limb.columns)
            assert np.array_equal(solution.pose[rest], pose[rest])


@pytest.mark.parametrize("first", range(14))
def test_a_place_is_found_wherever_there_is_one(first, make_case, balls):
    case = make_case(7000 + first, balls[first], balls[(first + 5) % 14])
    for _ in range(6):
        pose = case.pose()
        target = case.hand(pose)[:3, 3]
        for base in (
            pose,
            np.where(np.isin(np.arange(case.skeleton.size), case.limb.columns), case.skeleton.rest, pose),
        ):
            solution = case.limb.solve(target, base=base)
            assert solution.ok, solution.message
            assert np.abs(case.hand(solution.pose)[:3, 3] - target).max() < 1e-9
            assert case.holds(solution.pose)


@pytest.mark.parametrize("kind", range(14))
def test_solutions_hold_every_branch_and_the_pose_itself(kind, make_case, balls):
    case = make_case(300 + kind, balls[kind], balls[13 - kind], limits=False)
    pose = case.pose()
    target = case.hand(pose)
    found = case.limb.solutions(target, case.limb.swivel(pose), base=pose)
    euler = (kind < 12) + (13 - kind < 12)
    assert len(found) == 2 * 2**euler
    assert len({solution.branch for solution in found}) == len(found)
    for solution in found:
        assert np.abs(case.hand(solution.pose) - target).max() < 1e-9
        assert distance(case.limb.swivel(solution.pose), case.limb.swivel(pose)) < 1e-7
    frames = [ps.forward(case.skeleton, solution.pose).matrix("elbow") for solution in found]
    own = ps.forward(case.skeleton, pose).matrix("elbow")
    assert min(np.abs(frame - own).max() for frame in frames) < 1e-7


def test_the_swivel_wanted_is_the_swivel_got(make_case):
    case = make_case(1, limits=False)
    pose = case.pose()
    for target in (case.hand(pose), case.hand(pose)[:3, 3]):
        circle = case.limb.elbow_circle(target, base=pose)
        for swivel in np.linspace(-3, 3, 7):
            solution = case.limb.solve(target, swivel=swivel, limits=False, base=pose)
            elbow = ps.forward(case.skeleton, solution.pose).position("elbow")
            assert np.abs(elbow - circle.point(swivel)).max() < 1e-9
            about = "wrist" if target.ndim == 2 else "hand"
            assert case.limb.swivel(solution.pose, about=about) == pytest.approx(swivel, abs=1e-7)


def test_the_swivel_is_zero_at_the_reference_direction(make_case):
    case = make_case(2, limits=False)
    limb = ps.Limb(case.skeleton, "shoulder", "elbow", "wrist", site="hand", reference=(1, 2, 3))
    pose = case.pose()
    circle = limb.elbow_circle(case.hand(pose), base=pose)
    reference = np.array([1, 2, 3]) / np.sqrt(14)
    across = reference - (reference @ circle.normal) * circle.normal
    assert np.abs(circle.u - across / np.linalg.norm(across)).max() < 1e-12
    assert np.abs(circle.v - np.cross(circle.normal, circle.u)).max() < 1e-12
    at = ps.forward(case.skeleton, pose)
    towards = at.position("wrist") - at.position("shoulder")
    assert np.abs(circle.normal - towards / np.linalg.norm(towards)).max() < 1e-12


def test_an_elbow_place_is_come_near_to(make_case):
    case = make_case(3, limits=False)
    pose = case.pose()
    target, wish = case.hand(pose), case.rng.normal(size=3)
    solution = case.limb.solve(target, elbow=wish, limits=False, base=pose)
    circle = case.limb.elbow_circle(target, base=pose)
    gaps = np.linalg.norm(circle.point(np.linspace(-np.pi, np.pi, 2000)) - wish, axis=-1)
    elbow = ps.forward(case.skeleton, solution.pose).position("elbow")
    assert np.linalg.norm(elbow - wish) <= gaps.min() + 1e-9


def test_a_batch_answers_as_one_by_one(make_case):
    case = make_case(4)
    poses = np.array([case.pose() for _ in range(20)])
    poses[:, :7] = poses[0, :7]
    targets = ps.forward(case.skeleton, poses).matrix("hand")
    batch = case.limb.solve(targets.reshape(4, 5, 4, 4), base=poses[0])
    assert batch.pose.shape == (4, 5, case.skeleton.size)
    assert batch.ok.shape == (4, 5)
    assert batch.ok.all()
    for i, target in enumerate(targets):
        one = case.limb.solve(target, base=poses[0])
        assert np.array_equal(one.pose, batch.pose.reshape(20, -1)[i])
        assert one.message == "reached"
        assert batch.status.reshape(-1)[i] == "REACHED"
    moving = case.limb.solve(targets, base=poses)
    assert moving.ok.all()
    large = case.limb.solve(np.tile(targets, (250, 1, 1)), base=poses[0])
    assert np.array_equal(large.pose[:20], batch.pose.reshape(20, -1))
    assert large.ok.all()


def test_a_rigid_transform_is_a_target(make_case):
    case = make_case(5)
    pose = case.pose()
    target = case.hand(pose)
    one = case.limb.solve(target, base=pose)
    other = case.limb.solve(RigidTransform.from_matrix(target), base=pose)
    assert np.abs(one.pose - other.pose).max() < 1e-9


def test_a_wish_outside_the_limits_is_moved_to_the_nearest_angle(make_case):
    moved = 0
    for seed in range(20):
        case = make_case(seed)
        pose = case.pose()
        target = case.hand(pose)
        ranges = case.limb.swivel_ranges(target, base=pose)
        for wish in np.linspace(-3, 3, 5):
            solution = case.limb.solve(target, swivel=wish, base=pose)
            assert solution.ok
            assert case.holds(solution.pose)
            gap = 0.0 if any(wish in r for r in ranges) else min(distance(wish, end) for r in ranges for end in r)
            assert distance(solution.swivel, wish) == pytest.approx(gap, abs=1e-7)
            moved += gap > 0
            assert ("moved" in solution.message) == (gap > 1e-9)
    assert moved


def test_wrong_calls_say_what_was_expected(make_case):
    limb = make_case(6).limb
    with pytest.raises(ps.PosableError, match=r"shape \(\.\.\., 4, 4\)"):
        limb.solve(np.eye(3)[:2, :2])
    with pytest.raises(ps.PosableError, match="orthonormal"):
        limb.solve(2.0 * np.eye(4))
    with pytest.raises(ps.PosableError, match="finite"):
        limb.solve([np.nan, 0, 0])
    with pytest.raises(ps.PosableError, match="at most one"):
        limb.solve([0, 0, 0], swivel=1.0, elbow=(0, 0, 0))
    with pytest.raises(ps.PosableError, match="base"):
        limb.solve([0, 0, 0], base=[1.0, 2.0])


def test_a_closed_path_ends_where_it_began(make_arm):
    skeleton = make_arm(shoulder=[(-2.5, 2.5), (-1.5, 1.5), (-2.5, 2.5)], wrist=(-1.4, 1.4))
    limb = ps.Limb(skeleton, "shoulder", "elbow", "wrist", site="hand")
    angle = np.linspace(0, 6 * np.pi, 301)
    circle = np.stack([0.35 + 0 * angle, 0.15 * np.cos(angle), 0.15 * np.sin(angle)], axis=1)
    solution = limb.solve(circle)
    assert solution.ok.all()
    assert np.abs(solution.pose[0] - solution.pose[100]).max() < 1e-12
    assert np.abs(solution.pose[0] - solution.pose[300]).max() < 1e-12
    assert np.abs(np.diff(solution.pose, axis=0)).max() < 0.3
