"""The hinges of an arm, against forward kinematics by products of exponentials."""

import numpy as np
from scipy.spatial.transform import Rotation

import posable as ps
from posable.limb.hinges import six_hinges


def test_turning_about_the_axes_brings_the_tool_where_forward_kinematics_does():
    rows = [(0.1, 1.1, 0.3, 0.2), (0.4, 0.7, 0.1, 0), (0.2, -1.3, -0.05, 0.4), (0, 1.5, 0.3, 0), (0, -1.2, 0, 0.3),
            (0.1, 0.2, 0.1, 0)]  # fmt: skip
    arm = ps.from_dh(rows)
    hinges = six_hinges(arm, "tool")
    for pose in np.random.default_rng(0).uniform(-3.0, 3.0, (5, 6)):
        motion = np.eye(4)
        for axis, place, angle in zip(hinges.axes, hinges.places, pose[hinges.columns], strict=True):
            step = np.eye(4)
            step[:3, :3] = Rotation.from_rotvec(angle * axis).as_matrix()
            step[:3, 3] = place - step[:3, :3] @ place
            motion = motion @ step
        np.testing.assert_allclose(motion @ hinges.tool, ps.forward(arm, pose).matrix("tool"), atol=1e-12)


def test_other_chains_have_none():
    assert six_hinges(ps.figures.panda(), ps.figures.panda().site_names[-1]) is None
    assert six_hinges(ps.figures.human(), "hand.R") is None
    three = ps.figures.planar_arm([1.0, 1.0, 1.0])
    assert six_hinges(three, three.site_names[-1]) is None
