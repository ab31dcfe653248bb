"""Why markers and feet are off: a limit that truly holds is named, and one that does not is not."""

import numpy as np

import posable as ps
from posable.mocap.verdict import limits_met, why_contacts_slip

HALF = 0.5 * np.sin(np.linspace(0.0, 6.0, 60))


def arm(upper):
    joints = [
        ps.Joint("shoulder", ps.Revolute("z"), limits=(-2.0, 2.0)),
        ps.Joint("elbow", ps.Revolute("z"), "shoulder", offset=(0.5, 0, 0), limits=(0.0, upper)),
    ]
    sites = [ps.Site(f"M{k}", "elbow", (0.2 + 0.1 * k, 0.05 * (-1) ** k, 0.02 * k)) for k in range(3)]
    return ps.Skeleton(joints, [*sites, ps.Site("S", "shoulder", (0.25, 0.05, 0.0))])


def test_a_marker_that_a_limit_holds_back_names_the_limit():
    loose, tight = arm(2.5), arm(0.6)
    poses = np.stack([HALF, np.full_like(HALF, 1.4)], axis=-1)
    at = ps.forward(loose, poses)
    names = ("M0", "M1", "M2", "S")
    markers = ps.Markers(names, np.stack([at.position(name) for name in names], axis=1), 60.0)
    text = str(ps.track(tight, markers, robust=None).report)
    assert "mm off; where the error is largest, elbow (upper) is at its limit" in text
    assert "mm off" not in str(ps.track(loose, markers).report)


def test_limits_are_those_of_the_limb():
    human = ps.figures.human()
    poses = np.tile(human.rest, (4, 1))
    knee = human.dof("knee.L")
    poses[:, knee] = human.upper[knee]
    assert "knee.L (upper)" in limits_met(human, poses, "foot.L")
    assert "knee.L (upper)" not in limits_met(human, poses, "foot.R")


def test_the_worst_slip_of_each_point_is_reported():
    human = ps.figures.human()
    motion = ps.Motion(human, np.tile(human.rest, (30, 1)), 30.0)
    steps = [("foot.L", 0, 10), ("foot.L", 12, 20), ("foot.R", 3, 9), ("foot.R", 20, 25)]
    lines = why_contacts_slip(motion, steps, np.array([0.011, 0.03, 0.002, 0.015]))
    assert [line.partition(",")[0] for line in lines] == [
        "foot.L slips 30 mm in frames 12 to 19",
        "foot.R slips 15 mm in frames 20 to 24",
    ]
