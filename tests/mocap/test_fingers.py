"""Fingers that follow: those of a person on a person of another size, and nothing where there are none."""

import numpy as np
import pytest

import posable as ps
from posable.mocap.fingers import follow_fingers, hands_of
from posable.model.body_plan import body_plan


@pytest.fixture(scope="module")
def grasp(human):
    """A person whose right hand closes: every joint of its fingers turns towards the middle of its limits."""
    plan = body_plan(human)
    poses = np.tile(human.rest, (12, 1))
    share = np.linspace(0.0, 0.8, 12)[:, None]
    for chain in hands_of(plan)["R"].values():
        for name in chain:
            if name in human.names:
                where = human.index(name)
                middle = 0.5 * (human.lower[where] + human.upper[where])
                poses[:, where] += share * (middle - human.rest[where])
    return ps.Motion(human, poses, 30.0)


def phalanges(skeleton, poses):
    frames, hand = ps.forward(skeleton, poses), hands_of(body_plan(skeleton))["R"]
    out = [np.diff(np.stack([frames.position(name) for name in chain]), axis=0) for chain in hand.values()]
    return np.concatenate([bones / np.linalg.norm(bones, axis=-1, keepdims=True) for bones in out])


def test_the_human_has_three_fingers(human):
    hands = hands_of(body_plan(human))
    assert set(hands) == {"L", "R"}
    assert list(hands["L"]) == ["thumb", "index", "middle"]


def test_fingers_close_on_a_person_of_another_size(grasp):
    tall = ps.figures.human(height=2.0)
    poses, note = follow_fingers(grasp, body_plan(grasp.skeleton), body_plan(tall), np.tile(tall.rest, (12, 1)))
    assert note == ""
    closed, wanted = phalanges(tall, poses), phalanges(grasp.skeleton, grasp.poses)
    assert (wanted[:, 0] * wanted[:, -1]).sum(axis=-1).min() < 0.9  # the hand does close
    assert (closed * wanted).sum(axis=-1).min() > np.cos(np.radians(3.0))
    fingers = {name for chain in hands_of(body_plan(tall))["R"].values() for name in chain}
    for joint in tall.joints:
        if joint.motion.dofs and joint.name not in fingers and not joint.name.endswith(".L"):
            np.testing.assert_array_equal(
                poses[:, tall.index(joint.name)], np.tile(tall.rest, (12, 1))[:, tall.index(joint.name)]
            )


def test_retarget_moves_fingers(grasp, human):
    result = ps.retarget(grasp, human, threads=1)
    assert not result.notes
    index = human.index("index1.R")
    assert np.abs(result.poses[-1, index] - grasp.poses[-1, index]).max() < 0.1


def test_a_figure_without_fingers_is_reported(grasp, human):
    plan = body_plan(human)
    names = [j.name for j in human.joints if not any(w in j.name for w in ("index", "thumb", "fingers"))]
    mitten = human.replace(
        joints=[j for j in human.joints if j.name in names], sites=[s for s in human.sites if s.joint in names]
    )
    poses = np.tile(mitten.rest, (12, 1))
    same, note = follow_fingers(grasp, plan, body_plan(mitten), poses)
    assert same is poses
    assert "left out" in note
    bare = ps.Motion(mitten, poses, 30.0)
    assert follow_fingers(bare, body_plan(mitten), plan, np.tile(human.rest, (12, 1)))[1] == ""
