"""Hands that touch keep what they touch on a figure of another build."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.mocap.hand_contacts import find_touches
from posable.model.body_plan import body_plan

FRAMES, FPS = 90, 60.0


@pytest.fixture(scope="module")
def stranger():
    """A figure of 1.5 m with short arms and wide shoulders: bone directions alone do not bring its hands home."""
    figure = ps.figures.human(height=1.5)
    factors = {"elbow": 0.95, "wrist": 0.95, "shoulder": 1.35, "clavicle": 1.35}
    joints = [
        replace(joint, offset=np.asarray(joint.offset) * factors.get(joint.name.split(".")[0], 1.0))
        for joint in figure.joints
    ]
    return figure.replace(joints=joints)


def sway(human, amount=0.08):
    """Return goals of feet that stand and a pelvis that sways, over a second and a half."""
    rest = ps.forward(human, human.rest)
    when = np.linspace(0.0, 2.0 * np.pi, FRAMES)
    pelvis = rest.position("pelvis") + np.stack([amount * np.sin(when), -0.08 + 0 * when, amount * np.sin(2 * when)], 1)
    goals = [ps.goals.Position(f"foot.{side}", rest.position(f"foot.{side}")) for side in "LR"]
    goals += [ps.goals.Orientation(f"foot.{side}", rest.rotation_matrix(f"foot.{side}")) for side in "LR"]
    return [*goals, ps.goals.Position("pelvis", pelvis)]


def hand(figure, motion, side):
    plan = body_plan(figure)
    return ps.forward(figure, motion.poses).position(plan[plan.first(f"hand.{side}", f"wrist.{side}")])


def kept(source, result, figure, value):
    """Return how far a value of the source, scaled, is off in the result [m], at most."""
    return np.abs(value(figure, result) - result.scale * value(source.skeleton, source)).max()


@pytest.fixture(scope="module")
def on_hip(human):
    """The right hand rests on the right hip while the pelvis sways."""
    base = ps.follow(human, sway(human), fps=FPS)
    place = ps.forward(human, base.poses).position("hip.R")
    outward = body_plan(human).left * -0.17 + np.array([0.0, 0.05, 0.05])
    joint = body_plan(human)["wrist.R"] if "hand.R" not in body_plan(human).roles else body_plan(human)["hand.R"]
    return ps.follow(human, [*sway(human), ps.goals.Position(joint, place + outward)], fps=FPS, smooth=0.05)


def test_a_hand_on_the_hip_stays_there(human, on_hip, stranger):
    touches = [touch for touch in find_touches(on_hip, body_plan(human)) if touch.side == "R" and touch.part != "world"]
    touched = np.zeros(FRAMES, dtype=bool)
    for touch in touches:
        touched[touch.first : touch.end] = True
    assert touched.mean() > 0.8

    def way(figure, motion):
        return (hand(figure, motion, "R") - ps.forward(figure, motion.poses).position("hip.R"))[touched]

    result, loose = ps.retarget(on_hip, stranger), ps.retarget(on_hip, stranger, contacts=False)
    assert kept(on_hip, result, stranger, way) < 0.02
    assert kept(on_hip, result, stranger, way) < 0.5 * kept(on_hip, loose, stranger, way)
    assert result.contacts.slips(result).max() < 0.005
    assert "touches of hands" in str(result)


def test_a_clap_meets(human, stranger):
    when = np.linspace(0.0, 2.0 * np.pi, FRAMES)
    gap = 0.03 + 0.16 * (1.0 + np.cos(when))
    middle = np.array([0.0, 1.25, 0.38])
    plan = body_plan(human)
    goals = sway(human, 0.02)
    for side, sign in (("L", 1.0), ("R", -1.0)):
        joint = plan[plan.first(f"hand.{side}", f"wrist.{side}")]
        goals.append(ps.goals.Position(joint, middle + sign * gap[:, None] * plan.left))
    source = ps.follow(human, goals, fps=FPS, smooth=0.03)

    def apart(figure, motion):
        return np.linalg.norm(hand(figure, motion, "L") - hand(figure, motion, "R"), axis=-1)

    close = apart(human, source) < 0.12
    assert close.sum() > 5
    result, loose = ps.retarget(source, stranger), ps.retarget(source, stranger, contacts=False)
    off = np.abs(apart(stranger, result) - result.scale * apart(human, source))[close]
    assert off.max() < 0.02
    assert np.abs(apart(stranger, loose) - loose.scale * apart(human, source))[close].max() > 1.5 * off.max()


def test_a_hand_on_a_table_does_not_move_while_the_body_does(human, stranger):
    plan = body_plan(human)
    joint = plan[plan.first("hand.L", "wrist.L")]
    place = np.array([0.0, 0.95, 0.0]) + 0.30 * plan.left + 0.35 * plan.forward
    source = ps.follow(human, [*sway(human, 0.1), ps.goals.Position(joint, np.tile(place, (FRAMES, 1)))], fps=FPS)
    still = hand(human, source, "L")
    assert np.linalg.norm(still - still.mean(axis=0), axis=-1).max() < 0.01
    assert any(touch.part == "world" and touch.side == "L" for touch in find_touches(source, plan))
    result, loose = ps.retarget(source, stranger), ps.retarget(source, stranger, contacts=False)
    strays = []
    for motion in (result, loose):
        path = hand(stranger, motion, "L")
        strays.append(np.linalg.norm(path - path.mean(axis=0), axis=-1).max())
    assert strays[0] < 0.008
    assert strays[1] > 0.015
    assert np.linalg.norm(hand(stranger, result, "L").mean(axis=0) - result.scale * place) < 0.01
    assert result.contacts.slips(result).max() < 0.005


def test_limits_hold_while_hands_touch(on_hip, stranger):
    result = ps.retarget(on_hip, stranger)
    assert ((result.poses >= stranger.lower - 1e-9) & (result.poses <= stranger.upper + 1e-9)).all()
    assert np.abs(np.diff(result.poses, axis=0)).max() < 0.3


def test_arms_that_swing_free_touch_nothing(human):
    seconds = np.arange(120) / FPS
    poses = np.tile(human.rest, (120, 1))
    for side, sign in (("L", 1.0), ("R", -1.0)):
        where = human.index(f"shoulder.{side}")
        poses[:, where] += sign * 0.5 * np.sin(2.0 * np.pi * seconds)[:, None]
    motion = ps.Motion(human, np.clip(poses, human.lower, human.upper), FPS)
    assert not [touch for touch in find_touches(motion, body_plan(human)) if touch.part == "world"]


def test_hands_that_swing_past_the_hips_do_not_rest_there(human):
    """In a walk hands pass the hips at a constant distance, again and again."""
    seconds = np.arange(240) / FPS
    poses = np.tile(human.rest, (240, 1))
    for side, sign in (("L", 1.0), ("R", -1.0)):
        poses[:, human.index(f"shoulder.{side}")] += (sign * 0.45 * np.sin(2.0 * np.pi * seconds))[:, None] * (1, 0, 0)
    motion = ps.Motion(human, np.clip(poses, human.lower, human.upper), FPS)
    plan = body_plan(human)
    path = hand(human, motion, "L") - ps.forward(human, motion.poses).position(plan["hip.L"])
    assert np.ptp(path @ plan.forward) > 0.25 * plan.leg  # they do swing
    assert not [touch for touch in find_touches(motion, plan) if touch.part == ("hip.L", "hip.R")]
