"""What feet stand on, and when: heights against boxes known by hand, faces against distances computed otherwise."""

import numpy as np
import pytest

import posable as ps
from posable.errors import PosableError
from posable.mocap.gaps import runs
from posable.mocap.role_frames import RoleFrames
from posable.mocap.supports import FootSteps, drifting, nearest_face, read_solids, solid, support_height
from posable.model.body_plan import body_plan

UP = np.array([0.0, 0.0, 1.0])
BOX = np.array([(x, y, z) for x in (-1.0, 1.0) for y in (-0.5, 0.5) for z in (0.0, 0.4)])


def test_heights_over_a_box_and_beside_it():
    points = np.array([[0.0, 0.0, 0.5], [0.0, 0.0, 0.1], [1.5, 0.0, 0.5], [0.99, 0.49, 0.45]])
    heights = support_height([solid(BOX)], points, UP, within=0.08)
    np.testing.assert_allclose(heights, [0.4, 0.0, 0.0, 0.4], atol=1e-9)
    assert support_height([], points, UP, within=0.1).tolist() == [0.0] * 4


def test_a_ramp_is_as_high_as_it_is_there():
    ramp = np.array([(0, 0, 0), (0, 1, 0), (2, 0, 0), (2, 1, 0), (2, 0, 1), (2, 1, 1)], float)
    points = np.array([[0.5, 0.5, 0.5], [1.5, 0.5, 1.0]])
    np.testing.assert_allclose(support_height([solid(ramp)], points, UP, within=0.1), [0.25, 0.75], atol=1e-9)


def test_the_nearest_face_tells_the_depth_inside():
    rng = np.random.default_rng(0)
    inside = rng.uniform((-1.0, -0.5, 0.0), (1.0, 0.5, 0.4), (200, 3))
    _, normal, gap = nearest_face([solid(BOX)], inside)
    by_hand = -np.min(
        [1.0 - np.abs(inside[:, 0]), 0.5 - np.abs(inside[:, 1]), inside[:, 2], 0.4 - inside[:, 2]], axis=0
    )
    np.testing.assert_allclose(gap, by_hand, atol=1e-9)
    place, _, _ = nearest_face([solid(BOX)], inside)
    np.testing.assert_allclose(np.sum((inside - place) * normal, axis=1), gap, atol=1e-9)


def test_parts_of_a_mesh_are_solids_and_scale(tmp_path):
    lines = [f"v {x} {y} {z}" for x, y, z in np.concatenate([BOX, BOX + np.array([5.0, 0.0, 0.0])])]
    faces = [
        (1, 2, 4),
        (1, 4, 3),
        (5, 6, 8),
        (5, 8, 7),
        (1, 5, 6),
        (1, 6, 2),
        (3, 4, 8),
        (3, 8, 7),
        (1, 3, 7),
        (1, 7, 5),
    ]
    lines += [f"f {a + k} {b + k} {c + k}" for k in (0, 8) for a, b, c in faces]
    path = tmp_path / "boxes.obj"
    path.write_text("\n".join(lines))
    two = read_solids(path)
    assert len(two) == 2
    half = two[0].scaled(0.5)
    np.testing.assert_allclose(np.ptp(half.vertices, axis=0), [1.0, 0.5, 0.2])
    assert support_height([half], np.array([[0.0, 0.0, 0.3]]), UP, within=0.1)[0] == pytest.approx(0.2)


CORNERS = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
BAD = {
    "a word": "v 0 0 a\nf 1 2 3\n", "no faces": CORNERS, "two numbers": "v 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "before the first vertex": CORNERS + "v 0 0 1\nf -9 2 3\n", "flat": CORNERS + "f 1 2 3\n",
    "infinite": CORNERS + "v 0 0 inf\nf 1 2 3\nf 1 2 4\n", "huge": CORNERS + "v 0 0 1e300\nf 1 2 3\nf 1 2 4\n",
}  # fmt: skip


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_bad_mesh_is_named(tmp_path, text):
    path = tmp_path / "bad.obj"
    path.write_text(text)
    with pytest.raises(PosableError, match=r"bad\.obj"):
        read_solids(path)


def test_a_mesh_that_is_no_file(tmp_path):
    with pytest.raises(PosableError, match=r"none\.obj: no such file"):
        read_solids(tmp_path / "none.obj")
    (tmp_path / "folder.obj").mkdir()
    with pytest.raises(PosableError, match="a regular file"):
        read_solids(tmp_path / "folder.obj")


def test_what_is_not_an_object():
    with pytest.raises(PosableError, match="corners"):
        read_solids([np.zeros(4)])


def foot(angles):
    """Return paths (T, 2, 3) [m] of an ankle that stays and a toe 15 cm from it, turned by angles (T,) [rad]."""
    toe = 0.15 * np.stack([np.cos(angles), np.sin(angles), np.zeros(len(angles))], axis=-1)
    return np.stack([np.zeros_like(toe), toe], axis=1)


def test_a_foot_that_turns_on_the_spot_stands_before_and_after():
    angles = np.r_[np.zeros(30), np.linspace(0.0, 1.4, 20), np.full(50, 1.4)]
    moving = drifting(np.ones(100, dtype=bool), foot(angles), 0.05)
    assert [np.ptp(angles[a:b]) < 0.05 / 0.15 for a, b in runs(~moving)] == [True, True]
    assert moving[30:50].all()
    assert not moving[:28].any()
    assert not moving[52:].any()


def test_a_foot_that_stays_stands_once():
    angles = 0.1 * np.sin(np.linspace(0.0, 6.0, 80))
    assert not drifting(np.ones(80, dtype=bool), foot(angles), 0.05).any()


def test_what_does_not_stand_does_not_drift():
    standing = np.zeros(60, dtype=bool)
    standing[:20] = standing[40:] = True
    angles = np.r_[np.zeros(20), np.linspace(0.0, 2.0, 20), np.full(20, 2.0)]
    assert not drifting(standing, foot(angles), 0.05).any()


def test_leaps_do_not_raise_the_ground(human):
    """A clip that leaves the ground at once and never stands: an ankle is as high as in its lowest frames."""
    poses = np.tile(human.rest, (60, 1))
    poses[:, human.index("root").start + 1] += 0.8 * np.sin(np.linspace(0.0, 2.0 * np.pi, 60)) ** 2
    poses[:, human.index("root").start + 2] += np.linspace(0.0, 5.0, 60)
    plan = body_plan(human)
    seen = RoleFrames(ps.Motion(human, poses, 30.0), plan, np.eye(3))
    steps = FootSteps(seen, plan.leg, plan.up, ())
    lowest = float(seen.places["ankle.L"][:, 1].min())
    assert not steps.flat("L").any()
    assert abs(steps.ankle_height["L"] - lowest) < 0.01


def test_a_foot_at_the_end_of_a_lying_shin_lies_and_does_not_stand(human):
    """In a crawl feet are low and still, on their toes or their backs: nobody stands on them."""
    plan = body_plan(human)
    poses = np.tile(human.rest, (60, 1))
    seen = RoleFrames(ps.Motion(human, poses, 30.0), plan, np.eye(3))
    upright = FootSteps(seen, plan.leg, plan.up, ())
    assert upright.flat("R").all()
    assert not upright.lying["R"].any()
    ankle = seen.places["ankle.R"]
    seen.places["knee.R"] = ankle + 0.4 * plan.forward * plan.leg  # on the ground, in front of the foot
    steps = FootSteps(seen, plan.leg, plan.up, ())
    assert steps.lying["R"].all()
    assert not steps.heel["R"].any()
    assert not steps.toe["R"].any()
    assert steps.flat("L").all()
