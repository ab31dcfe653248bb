"""A root that turns relative to a reference: no whole turn is singular."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.mocap.root_align import place_root
from posable.mocap.root_chart import RootChart
from posable.model.joints import Free


def spinning(motion, turns, lean):
    """Return a motion that also turns about the vertical, leaning: its rotations pass whole turns far off the axis."""
    frames, name = ps.forward(motion.skeleton, motion.poses), motion.skeleton.free_root
    angles = np.linspace(0.0, 2.0 * np.pi * turns, len(motion))
    extra = Rotation.from_rotvec(np.outer(angles, [0.0, 1.0, 0.0])) * Rotation.from_euler("x", lean)
    poses = [
        place_root(motion.skeleton, pose, turn @ frames.rotation_matrix(name)[t], turn @ frames.position(name)[t])
        for t, (pose, turn) in enumerate(zip(motion.poses, extra.as_matrix(), strict=True))
    ]
    return ps.Motion(motion.skeleton, np.array(poses), motion.fps)


def with_root(human, order):
    """Return the human with another parametrisation of its root, without limits."""
    root = human.free_root
    joints = [joint if joint.name != root else ps.Joint(root, Free(order)) for joint in human.joints]
    return human.replace(joints=joints, named_poses={})


@pytest.mark.parametrize("order", ["zyx", "rotvec", "xyz"])
def test_poses_come_back(human, dance, order):
    root, figure = human.free_root, with_root(human, order)
    chart = RootChart(figure)
    seen = ps.forward(human, spinning(dance, 3.0, 0.4).poses)
    poses = dance.poses.copy()
    for t in range(len(poses)):
        poses[t] = place_root(figure, poses[max(t - 1, 0)], seen.rotation_matrix(root)[t], seen.position(root)[t])
    inner = chart.enter(poses, 3.0)
    for name in ("skull", "foot.L", root):
        one, other = ps.forward(figure, poses), ps.forward(chart.inner, inner)
        np.testing.assert_allclose(other.position(name), one.position(name), atol=1e-12)
        np.testing.assert_allclose(other.rotation_matrix(name), one.rotation_matrix(name), atol=1e-12)
    assert np.linalg.norm(inner[:, chart.inner.index(root)], axis=1).max() < 0.2  # whatever the turns
    back = chart.leave(inner, poses)
    np.testing.assert_allclose(ps.forward(figure, back).rotation_matrix(root), seen.rotation_matrix(root), atol=1e-12)
    np.testing.assert_array_equal(back[:, figure.index("skull")], poses[:, figure.index("skull")])


@pytest.mark.parametrize("order", ["zyx", "rotvec"])
def test_a_pirouette_keeps_its_turns(human, dance, order):
    """Rotation vectors are singular at a whole turn, Euler angles at a quarter."""
    name, figure = human.free_root, with_root(human, order)
    motion = spinning(ps.Motion(human, dance.poses[::4], dance.fps / 4), 3.0, 0.5)
    result = ps.retarget(motion, figure, contacts=False, threads=1)
    turned = [ps.forward(m.skeleton, m.poses).rotation_matrix(name) for m in (result, motion)]
    apart = Rotation.from_matrix(np.swapaxes(turned[0], 1, 2) @ turned[1]).magnitude()
    assert np.degrees(apart).max() < 6.0
