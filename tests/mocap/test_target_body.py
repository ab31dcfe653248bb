"""The body that a motion is put on: where its feet point, and whether they can stay flat."""

import numpy as np
import pytest

import posable as ps
from posable.mocap.target_body import TargetBody
from posable.model.body_plan import body_plan


def biped(rolls, sites=()):
    """Return a biped that faces x, its feet with or without a roll."""
    joints = [ps.Joint("pelvis", ps.Free("rotvec"), offset=(0, 0, 0.9))]
    for side, out in (("left", 1.0), ("right", -1.0)):
        rows = [
            ("hip", ps.Ball("zyx"), (0, 0.1 * out, 0)), ("knee", ps.Revolute("y"), (0, 0, -0.4)),
            ("ankle_pitch", ps.Revolute("y"), (0, 0, -0.4)),
        ]  # fmt: skip
        rows += [("ankle_roll", ps.Revolute("x"), (0, 0, 0))] if rolls else []
        parent = "pelvis"
        for name, motion, offset in rows:
            joints.append(ps.Joint(f"{side}_{name}", motion, parent, offset=offset))
            parent = joints[-1].name
    return TargetBody(body_plan(ps.Skeleton(joints, sites, "biped", up="z")))


@pytest.mark.parametrize("way", [(0.0, 0.13, -0.08), (-0.1, 0.1, -0.08), (0.02, 0.0, -0.1)])
def test_a_corner_or_a_sensor_of_a_foot_is_no_toe(way):
    """Talos has a frame beside each foot: taken for a toe, it would turn the feet by 90 degrees."""
    sites = [ps.Site(f"{side}_corner", f"{side}_ankle_roll", way) for side in ("left", "right")]
    body = biped(True, sites)
    for side in "LR":
        frame = body.rest.frame(f"ankle.{side}")
        assert frame is not None
        np.testing.assert_allclose(frame[0][:, 0], (1, 0, 0), atol=1e-9)


def test_a_site_in_front_of_an_ankle_is_a_toe():
    sites = [ps.Site(f"{side}_tip", f"{side}_ankle_roll", (0.17, 0.03, -0.08)) for side in ("left", "right")]
    frame = biped(True, sites).rest.frame("ankle.L")
    assert frame is not None
    np.testing.assert_allclose(frame[0][:, 0], np.array([0.17, 0.03, 0.0]) / np.hypot(0.17, 0.03), atol=1e-9)


def test_a_foot_that_only_pitches_cannot_stay_flat():
    assert biped(True).rolls("L")
    assert not biped(False).rolls("R")
