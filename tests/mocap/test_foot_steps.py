"""Stands of feet: one that turns on the spot stands twice."""

import numpy as np

import posable as ps
from posable.mocap.foot_steps import FootSteps, drifting
from posable.mocap.gaps import runs
from posable.mocap.role_frames import RoleFrames
from posable.model.body_plan import body_plan


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
