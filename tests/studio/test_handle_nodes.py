"""Handles in the scene: what their events do to the session, in the order in which a page may send them."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

viser = pytest.importorskip("viser", reason="no viser: pip install 'posable[studio]'")

from posable.studio.handle_nodes import CHOSEN, HandleNodes  # noqa: E402
from posable.studio.session import Session  # noqa: E402


@pytest.fixture(scope="module")
def scene():
    server = viser.ViserServer(host="127.0.0.1", port=8391, verbose=False)
    yield server.scene
    server.stop()


@pytest.fixture
def session():
    made = Session()
    yield made
    made.close()


def gizmo_of(scene, session, body):
    """Return the handles with a gizmo on one of them, and a function that sends an event of it."""
    session.select(body)
    nodes = HandleNodes(scene, session, size=1.5, up=np.array([0.0, 1.0, 0.0]), dressed=True)
    nodes.show(session.view())
    follow = nodes._gizmo_callback(body)
    place = session.frames.position(body)

    def send(phase, raised):
        target = SimpleNamespace(position=place + np.array([0.0, raised, 0.0]), wxyz=np.array([1.0, 0.0, 0.0, 0.0]))
        asyncio.run(follow(SimpleNamespace(phase=phase, client_id=0, target=target)))
        while session.step():
            pass

    return nodes, send


def test_a_move_that_comes_after_the_end_begins_no_drag(scene, session):
    nodes, send = gizmo_of(scene, session, "hand.R")
    send("start", 0.0)
    send("update", 0.05)
    assert list(session.dragging) == ["hand.R"]
    send("end", 0.05)
    send("update", 0.06)
    assert not session.dragging
    assert session.active is None
    nodes.remove()


def test_a_gizmo_that_is_taken_away_ends_its_drag(scene, session):
    nodes, send = gizmo_of(scene, session, "hand.R")
    send("start", 0.0)
    send("update", 0.05)
    nodes.show(replace(session.view(), selected=None, selection=()))  # somebody else chose nothing
    while session.step():
        pass
    assert not session.dragging
    nodes.remove()


def ball_of(scene, session, body):
    """Return the handles, and a function that sends an event of the drag of one of them from a page."""
    nodes = HandleNodes(scene, session, size=1.5, up=np.array([0.0, 1.0, 0.0]), dressed=True)
    nodes.show(session.view())
    follow, start = nodes._drag_callback(body), session.frames.position(body)

    def send(phase, raised, client=0):
        end = start + np.array([0.0, raised, 0.0])
        asyncio.run(follow(SimpleNamespace(phase=phase, client_id=client, start_position=start, end_position=end)))
        while session.step():
            pass

    return nodes, send


def test_a_handle_follows_the_page_that_took_hold_of_it_first(scene, session):
    nodes, send = ball_of(scene, session, "hand.R")
    height, told = session.frames.position("hand.R")[1], []
    session.on_notification(lambda text, _: told.append(text))
    send("start", 0.0, client=1)
    send("update", 0.05, client=1)
    send("start", 0.0, client=2)
    send("update", -0.2, client=2)
    send("end", -0.2, client=2)
    assert told == ["hand.R is being dragged on another page."]
    assert list(session.dragging) == ["hand.R"]
    send("end", 0.1, client=1)
    assert not session.dragging
    assert session.frames.position("hand.R")[1] == pytest.approx(height + 0.1, abs=1e-3)
    assert len(session.history) == 1
    nodes.remove()


def test_a_handle_that_is_selected_by_somebody_stays_in_the_hand_of_the_page_that_presses_on_it(scene, session):
    nodes, _ = ball_of(scene, session, "hand.R")
    pressed = nodes.nodes["hand.R"]
    session.select("hand.R")
    nodes.show(session.view())
    assert nodes.nodes["hand.R"] is pressed
    assert tuple(pressed.color) == CHOSEN
    nodes.remove()


def test_handles_that_go_end_their_drags(scene, session):
    nodes, send = ball_of(scene, session, "hand.R")
    send("start", 0.0)
    send("update", 0.05)
    nodes.remove()
    while session.step():
        pass
    assert not session.dragging
    send("update", 0.1)
    assert not session.dragging


def test_a_press_inside_a_ring_takes_hold_but_not_over_the_arrows_of_a_gizmo(scene, session):
    nodes = HandleNodes(scene, session, size=1.5, up=np.array([0.0, 1.0, 0.0]), dressed=True)
    nodes.show(session.view())
    rings = {"pelvis", "head", "foot.L", "foot.R", *session.limbs}
    assert nodes.grip_nodes.keys() == rings
    for name in rings:  # the ball is around the handle's own place
        low, high = nodes.grips[name][0].min(axis=0), nodes.grips[name][0].max(axis=0)
        assert np.all(low < 0.0)
        assert np.all(high > 0.0)
    session.select("pelvis")
    nodes.show(session.view())
    assert nodes.grip_nodes.keys() == rings - {"pelvis"}
    session.select(None)
    nodes.show(session.view())
    assert nodes.grip_nodes.keys() == rings
    nodes.remove()
