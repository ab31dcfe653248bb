"""Drags: under velocity limits, against the differences of the poses that they make, and where goals are missed."""

import numpy as np
import pytest

import posable as ps
from posable.studio import session as module
from posable.studio.dragging import TICK
from posable.studio.session import Session


class Clock:
    """A clock that a test moves on."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def monotonic(self):
        return self.now


def test_a_drag_of_a_robot_keeps_to_its_limits_and_arrives(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    panda = ps.figures.panda()
    session = Session(panda)
    assert session.configure(motors=True)
    tool = session.handles[0].body
    target = session.frames.position(tool) + np.array([0.25, -0.3, -0.2])
    session.drag(tool, target)
    poses, ticks = [session.pose], 0
    for k in range(600):
        clock.now += TICK
        if k == 20:
            session.release(tool)  # it goes on to where it was sent
        session.step()
        poses.append(session.pose)
        ticks += 1
        if not session.dragging:
            break
    speed = np.abs(np.diff(np.array(poses), axis=0)) / TICK
    limit = np.where(np.isfinite(panda.velocity), panda.velocity, np.pi)
    assert (speed <= limit * (1.0 + 1e-6)).all()
    assert speed.max() > 0.5  # and it does move
    assert 15 < ticks < 590  # not at once
    assert np.linalg.norm(session.frames.position(tool) - target) < 2e-3
    shown = session.view().speeds
    assert shown.shares.shape == (len(shown.times), panda.size)
    assert shown.shares.max() <= 1.0 + 1e-6
    assert session.undo()  # one gesture
    assert np.allclose(session.pose, poses[0])
    session.close()


def test_without_motors_the_same_drag_is_there_at_once():
    session = Session(ps.figures.panda())
    tool = session.handles[0].body
    target = session.frames.position(tool) + np.array([0.25, -0.3, -0.2])
    session.drag(tool, target)
    session.step()
    assert np.linalg.norm(session.frames.position(tool) - target) < 2e-3
    assert session.view().speeds is None
    session.close()


def dragged(body, move, steps=12):
    """Return a session in which a handle of the human was dragged by a move (3,) [m]."""
    session = Session()
    start = session.frames.position(body)
    for share in np.linspace(0.0, 1.0, steps + 1)[1:]:
        session.drag(body, start + share * np.array(move))
        for _ in range(5):
            session.step()
    session.release()
    session.step()
    return session


def test_a_hand_that_reaches_down_does_not_throw_the_head_back():
    """The head is held gently: it follows the trunk, it does not stay where it was."""
    session = dragged("hand.L", (-0.42, -0.18, 0.21))
    assert session.result.ok
    gaze = session.frames.rotation_matrix("head")[:, 2]
    assert abs(np.degrees(np.arcsin(gaze[1]))) < 15.0


@pytest.mark.parametrize("move", [(0.0, -0.2, 0.0), (0.0, -0.1, 0.15), (0.0, -0.3, -0.1)])
def test_a_pelvis_dragged_lower_than_the_ankles_allow_does_not_fold_the_trunk(move):
    """Tilting the pelvis over its hips would bring it nearer to its target, by a centimetre or two."""
    session = dragged("pelvis", move)
    assert not session.result.ok
    for joint in ("root", "spine3"):
        assert np.degrees(np.arccos(session.frames.rotation_matrix(joint)[1, 1])) < 60.0, joint
