"""Limbs however a file spells them: seven hinges of a robot's arm, two joints for a wrist, any order of axes."""

import numpy as np
import pytest

import posable as ps
from posable.studio.limbs import at_swivel, find_limbs, with_ball
from posable.studio.session import Session


def arm(axes="zyzyzyz", lengths=(0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.1), shift=0.0):
    """Return an arm of hinges along z, as robots with seven axes have them; `shift` moves one axis off the others."""
    joints = [ps.Joint("base", ps.Fixed())]
    for k, (axis, length) in enumerate(zip(axes, lengths, strict=True)):
        offset = (shift if k == 2 else 0.0, 0.0, length)
        joints.append(ps.Joint(f"j{k + 1}", ps.Revolute(axis), joints[-1].name, offset=offset, limits=(-2.8, 2.8)))
    return ps.Skeleton(joints, [ps.Site("tool", "j7", (0, 0, 0.1))], "arm", up="z")


@pytest.mark.parametrize("axes", ["zyzyzyz", "xyzyzyx", "zxyyxyz", "xzyyzxz"])
def test_hinges_that_meet_are_a_limb_whose_swivel_keeps_the_tool(axes):
    lengths = (0.1, 0.0, 0.0, 0.4, 0.4, 0.0, 0.0)
    skeleton = arm(axes, lengths)
    (limb,) = find_limbs(skeleton).values()
    assert limb.middle == "j4"
    rng = np.random.default_rng(3)
    for _ in range(10):
        pose = rng.uniform(-1.5, 1.5, skeleton.size)
        before = ps.forward(skeleton, pose)
        turned = at_swivel(limb, pose, float(limb.swivel(pose)) + 0.4, limits=False).pose
        after = ps.forward(skeleton, turned)
        assert after.matrix("j7") == pytest.approx(before.matrix("j7"), abs=1e-9)
        assert np.linalg.norm(after.position("j4") - before.position("j4")) > 1e-3


def test_axes_that_meet_in_a_point_need_not_be_at_one_place():
    """The first and the third axis of such an arm are on one line, their joints apart along it."""
    skeleton = arm()
    (limb,) = find_limbs(skeleton).values()
    pose = np.random.default_rng(1).uniform(-1.0, 1.0, skeleton.size)
    before = ps.forward(skeleton, pose)
    after = ps.forward(skeleton, at_swivel(limb, pose, float(limb.swivel(pose)) - 0.5, limits=False).pose)
    assert after.matrix("tool") == pytest.approx(before.matrix("tool"), abs=1e-9)


def test_axes_that_do_not_meet_are_no_limb():
    assert find_limbs(arm(shift=0.02)) == {}
    assert with_ball(arm("zzyyzyz"), ["j1", "j2", "j3"]) is None


def test_the_figure_with_balls_is_the_same_figure():
    skeleton = arm("zyxyzyx", (0.1, 0.2, 0.0, 0.4, 0.4, 0.1, 0.0))
    whole = with_ball(with_ball(skeleton, ["j1", "j2", "j3"]), ["j5", "j6", "j7"])
    poses = np.random.default_rng(0).uniform(-2, 2, (20, skeleton.size))
    for body in ("j4", "j7", "tool"):
        assert ps.forward(whole, poses).matrix(body) == pytest.approx(ps.forward(skeleton, poses).matrix(body))


@pytest.mark.files(
    {
        "arm7/arm7.xml": {"joint4"},
        "walk.asf": {"elbow.L", "elbow.R", "knee.L", "knee.R"},
        "humanoid/humanoid.xml": set(),  # the axes of its shoulders pass each other
        "mjcf/kuka_iiwa_14/iiwa14.xml": {"joint4"},
        "urdf/erd_human_36dof_ISB.urdf": {"left_elbow_Z", "right_elbow_Z"},
        "cmu/02.asf": {"lradius", "rradius"},
        "mjcf/unitree_g1/g1.xml": set(),
    }
)
def test_limbs_of_files(path, expected):
    assert set(find_limbs(ps.load(path).skeleton)) == expected


def test_fk_keeps_the_joints_ik_the_hand_and_half_is_between():
    moved, turned = [], []
    for share in (0.0, 0.5, 1.0):
        session = Session()
        session.set_handle("hand.L", "pinned")
        assert session.limb_tools.blend("elbow.L", share)
        hand, elbow = session.frames.position("hand.L"), session.pose[session.skeleton.dof("elbow.L")]
        start = session.frames.position("pelvis")
        for place in np.linspace(start, start + np.array([0.06, -0.05, 0.0]), 12):
            session.drag("pelvis", place)
            session.step()
        assert session.result.ok
        session.release()
        session.step()
        moved.append(np.linalg.norm(session.frames.position("hand.L") - hand))
        turned.append(abs(session.pose[session.skeleton.dof("elbow.L")] - elbow))
        _, data = session.save_project()
        session.close()
        again = Session()
        again.open_project("x.posable", data)
        assert again.blend == session.blend
        again.close()
    assert turned[0] == 0.0
    assert 0.0 < turned[1] < turned[2]
    assert moved[0] > moved[1] > moved[2]
    assert moved[2] < 1e-3


def test_a_pinned_foot_of_an_fk_leg_goes_along_and_counts_as_no_miss():
    session = Session()
    session.limb_tools.blend("knee.L", 0.0)
    start = session.frames.position("pelvis")
    leg = session.pose[session.skeleton.index("knee.L")].copy()
    session.set_handle("foot.R", "free")
    for place in np.linspace(start, start + np.array([0.0, 0.1, 0.0]), 8):
        session.drag("pelvis", place)
        session.step()
    assert session.result.ok
    assert session.pose[session.skeleton.index("knee.L")] == pytest.approx(leg)
    assert session.frames.position("foot.L")[1] > 0.05
    session.close()
