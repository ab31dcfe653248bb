"""What touches what: against the distance of balls, and against the vertices of the body."""

import numpy as np
import pytest

import posable as ps
from posable.model import shapes
from posable.studio.appearance import appearance_of, skinned
from posable.studio.contacts import ContactDetector
from posable.studio.messages import penetration_sentences
from posable.studio.overlays import GREEN, RED, VIOLET, contact_rings, limb_colors
from posable.studio.session import Session


def arms(radius=0.1):
    """Return a trunk with two arms that turn about z, a ball at the end of each."""
    joints = [
        ps.Joint("trunk", ps.Fixed()),
        *(
            ps.Joint(f"arm.{side}", ps.Revolute("z"), "trunk", offset=(x, 0, 0), limits=(-3, 3))
            for side, x in (("L", 0.4), ("R", -0.4))
        ),
    ]
    solids = [shapes.sphere(f"arm.{side}", radius, (0, 0.5, 0)) for side in "LR"]
    return ps.Skeleton(joints, [ps.Site("tip.L", "arm.L", (0, 0.5, 0))], "arms", shapes=solids, up="y")


@pytest.mark.parametrize("turn", [0.1, 0.5, 0.75, 0.9, 1.2])
def test_balls_in_each_other_are_as_deep_as_their_distance_says(turn):
    skeleton = arms()
    pose = np.array([turn, -turn])
    frames = ps.forward(skeleton, pose)
    ends = [frames.position(arm) + frames.rotation_matrix(arm) @ [0, 0.5, 0] for arm in ("arm.L", "arm.R")]
    depth = 0.2 - np.linalg.norm(ends[0] - ends[1])
    finder = ContactDetector(skeleton, None).start()
    assert finder.wait()
    found = finder.at(pose, frames)
    if depth > 0.01:
        assert {found[0].joint, found[0].other} == {"arm.L", "arm.R"}
        assert found[0].depth == pytest.approx(depth, abs=1e-6)
    else:
        assert found == ()


@pytest.fixture
def session():
    made = Session()
    assert made.contact_detector.wait()
    yield made
    made.close()


def test_a_standing_person_touches_nothing_but_the_floor(session):
    touches = session.view().contacts
    assert {touch.joint for touch in touches} <= {"ankle.L", "ankle.R", "toes.L", "toes.R"}
    assert all(touch.other == "" for touch in touches)
    assert len(touches) == 4
    points, colors = contact_rings(session.view(), 1.5)
    assert len(points) == len(colors) == 4 * 12
    assert (colors == GREEN).all()
    assert penetration_sentences(touches, 0.012) == []


def test_the_floor_is_where_the_lowest_vertices_are(session):
    for lift in (-0.06, 0.08):
        pose = session.rest.copy()
        pose[session.skeleton.dof("root.ty")] += lift
        session.set_pose(pose)
        feet = [
            skinned(skin, session.frames)[:, 1].min()
            for skin in appearance_of(session.skeleton, None).skins if skin.name.startswith("shoe")
        ]  # fmt: skip
        touches = [touch for touch in session.view().contacts if touch.other == ""]
        if lift > 0:
            assert touches == []
            continue
        assert touches[0].depth == pytest.approx(-min(feet), abs=4e-3)
        assert (contact_rings(session.view(), 1.5)[1][0] == RED).all()  # of the deepest
        assert "below the floor" in penetration_sentences(session.view().contacts, 0.012)[0]


def test_a_hand_in_the_trunk_is_shown_and_reported_and_can_be_switched_off(session):
    session.configure(apart=False)
    start, end = session.frames.position("hand.R"), session.frames.position("spine2") + np.array([0.05, 0.0, -0.02])
    for place in np.linspace(start, end, 25):
        session.drag("hand.R", place)
        session.step()
    session.release()  # on a slow machine contacts are shown when the drag has ended
    session.step()
    view = session.view()
    assert any((touch.joint, touch.other) == ("wrist.R", "spine2") for touch in view.contacts)
    assert limb_colors(view, 1.5)["wrist.R"] == VIOLET
    assert "passes through" in " ".join(penetration_sentences(view.contacts, 0.012))
    session.contacts = False
    assert session.view().contacts == ()


def test_the_balance_of_a_robot_comes_from_its_solids():
    """Its only joint is far above the floor: the corners of its foot carry it."""
    from posable.studio.contacts import balance_of

    foot = np.array([[x, y, z] for x in (-0.1, 0.2) for y in (-0.05, 0.05) for z in (-0.5, -0.4)])
    robot = ps.Skeleton([ps.Joint("body", ps.Free(), mass=1.0, center=(0.0, 0.0, 0.0))], name="post", up="z")
    robot = robot.replace(shapes=[ps.shapes.hull("body", foot, name="foot")])
    detector = ContactDetector(robot, None)
    assert detector.wait()
    pose = np.zeros(6)
    pose[2] = 0.5
    frames = ps.forward(robot, pose)
    assert balance_of(robot, frames, 0.5) is None
    found = balance_of(robot, frames, 0.5, detector.support(frames))
    assert found.steady
    corners = {tuple(corner) for corner in found.polygon.round(6).tolist()}
    assert corners == {(x, y, 0.0) for x in (-0.1, 0.2) for y in (-0.05, 0.05)}
    heavy = robot.replace(joints=[ps.Joint("body", ps.Free(), mass=1.0, center=(0.3, 0.0, 0.0))])
    assert not balance_of(heavy, frames, 0.5, detector.support(frames)).steady
