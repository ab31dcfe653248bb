"""The session without a page: dragging, holding, undoing, solving, playing, and what nonsense does to it."""

import io
import json
import threading
import time
import zipfile
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.studio.messages import blocking_sentences, goal_summary, limits_met
from posable.studio.session import Session


@pytest.fixture
def session():
    made = Session()
    yield made
    made.close()


def drag(session, name, *targets):
    for target in targets:
        assert session.drag(name, target)
        session.step()
    session.release()
    session.step()


def come_to_rest(session):
    """Do what the worker does while no new target comes, until the slow results are there."""
    for _ in range(100):
        session._last_target = 0.0
        session.step()
        if not session.stale:
            return
    raise AssertionError("the session does not come to rest")


def within_limits(session):
    skeleton = session.skeleton
    return np.all(session.pose >= skeleton.lower - 1e-9) and np.all(session.pose <= skeleton.upper + 1e-9)


def test_a_dragged_hand_arrives_and_the_feet_stay(session):
    before = {h.body: h.position for h in session.handles}
    target = before["hand.R"] + [-0.1, 0.5, 0.3]
    drag(session, "hand.R", target)
    assert np.linalg.norm(session.frames.position("hand.R") - target) < 1e-3
    assert session.result.ok
    assert within_limits(session)
    for foot in ("foot.L", "foot.R"):
        assert np.linalg.norm(session.frames.position(foot) - before[foot]) < 1e-3
    assert np.linalg.norm(session.frames.position("hand.L") - before["hand.L"]) < 0.05


def test_out_of_reach_says_by_how_much_and_what_is_in_the_way(session):
    session.set_handle("pelvis", "pinned")
    target = session.frames.position("hand.R") + np.array([-1.2, 0.5, 0.3])
    session.drag("hand.R", target)
    session.step()
    assert not session.result.ok
    missing = np.linalg.norm(session.frames.position("hand.R") - target)
    assert f"**hand.R** misses by {missing * 100:.1f} cm" in goal_summary(session.result, {})
    come_to_rest(session)  # now it has the time to say why
    sentences = blocking_sentences(session.skeleton, session.blocking)
    assert sentences
    assert all("limit" in sentence for sentence in sentences)
    assert any("hand.R" in sentence and "closer" in sentence for sentence in sentences)


def test_the_newest_target_wins(session):
    target = session.frames.position("hand.L")
    for k in range(50):
        session.drag("hand.L", target + np.array([0.0, 0.01 * k, 0.0]))
    session.step()
    assert not session.step() or session.result.ok
    assert np.linalg.norm(session.frames.position("hand.L") - (target + np.array([0.0, 0.49, 0.0]))) < 1e-3


def test_stronger_joints_stay_longer(session):
    target = session.frames.position("hand.R") + np.array([-0.5, 0.6, 0.3])
    spine = [session.skeleton.dof(f"spine{k}.{axis}") for k in (1, 2, 3) for axis in "xyz"]
    drag(session, "hand.R", target)
    bent = np.abs(session.pose - session.rest)[spine].sum()
    assert session.undo()
    for joint in ("spine1", "spine2", "spine3"):
        assert session.set_strength(joint, 30.0)
    drag(session, "hand.R", target)
    assert np.abs(session.pose - session.rest)[spine].sum() < 0.6 * bent
    assert np.linalg.norm(session.frames.position("hand.R") - target) < 2e-3
    stiff = session.pose
    session.clear_strength()  # the drag is solved again at once
    assert np.abs(session.pose - stiff)[spine].max() > 0.01
    assert np.linalg.norm(session.frames.position("hand.R") - target) < 2e-3
    assert session.undo()
    assert session.strength == {"spine1": 30.0, "spine2": 30.0, "spine3": 30.0}
    assert session.set_strength("clavicle.L", 2.0, below=True)
    assert {"clavicle.L", "shoulder.L", "elbow.L", "wrist.L", "thumb3.L"} <= set(session.strength)
    assert "clavicle.R" not in session.strength


def test_a_rest_pose_of_ones_own(session):
    own = session.rest
    raised = session.skeleton.pose({"shoulder.R": np.radians([-60.0, 0.0, 0.0])})
    session.set_pose(raised)
    session.set_rest()
    session.set_pose(own)
    session.set_handle("hand.L", "pinned")
    session.remove_handle("head")
    session.reset()
    assert np.array_equal(session.pose, raised)
    assert {h.body: h.hold for h in session.handles}["hand.L"] == "pinned"
    assert any(h.body == "head" for h in session.handles)
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.05, 0.05]))
    assert session.frames.position("hand.R")[1] > ps.forward(session.skeleton, own).position("hand.R")[1] + 0.2
    session.set_rest(own=True)
    session.reset()
    assert np.array_equal(session.pose, own)
    assert session.undo()
    assert session.undo()
    assert np.array_equal(session.rest, raised)


def test_weights_and_priorities_decide_who_gives_way(session):
    session.set_handle("pelvis", "free")
    session.set_handle("hand.L", "pinned")
    session.drag("hand.R", session.frames.position("hand.R") + np.array([-0.9, 0.6, 0.2]))
    session.step()
    left = next(h for h in session.handles if h.body == "hand.L").position

    def missed():
        return np.linalg.norm(session.frames.position("hand.L") - left)

    session.release()
    session.step()
    as_it_was = missed()
    session.drag("hand.R", session.frames.position("hand.R") + np.array([-1.5, 0.6, 0.2]))
    session.step()
    assert not session.result.ok
    assert session.set_handle("hand.R", weight=10.0)
    assert session.set_handle("hand.L", weight=0.1)
    assert missed() > as_it_was + 1e-3  # the heavier hand pulls the lighter one away
    assert session.set_handle("hand.L", priority=0)
    assert session.set_handle("hand.R", priority=1)
    assert missed() < 2e-3  # a level never pays for a later one
    assert not session.set_handle("hand.R", priority=-1)


def test_any_joint_or_site_is_picked_by_a_ray(session):
    for body in ("elbow.L", "skull", "fingertip.R", "toe.L"):
        eye = session.frames.position(body) + np.array([0.0, 0.0, 3.0])
        picked = session.pick(eye, (0.0, 0.0, -1.0))
        near = session.frames.position(picked) - session.frames.position(body)
        assert np.linalg.norm(near[:2]) < 0.05
        assert session.selected == picked
    assert session.pick((5.0, 5.0, 5.0), (0.0, 1.0, 0.0)) is None
    assert session.pick((np.nan, 0.0, 0.0), (0.0, 0.0, -1.0)) is None
    assert session.pick("here", "there") is None


def test_a_slider_moved_in_many_steps_is_undone_at_once(session):
    rest = session.pose
    for value in np.linspace(0.1, 1.0, 10):
        session.set_dof("elbow.R", value)
    session.set_dof("elbow.L", 0.7)
    assert session.undo()
    assert session.pose[session.skeleton.dof("elbow.R")] == pytest.approx(1.0)
    assert session.undo()
    assert np.array_equal(session.pose, rest)


def test_undo_and_redo(session):
    rest = session.pose
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.3, 0.2]))
    raised = session.pose
    session.set_dof("skull.y", 0.3)
    assert session.undo()
    assert np.array_equal(session.pose, raised)
    assert session.undo()
    assert np.array_equal(session.pose, rest)
    assert not session.undo()
    assert session.redo()
    assert np.array_equal(session.pose, raised)


def test_one_drag_is_one_step_of_undo(session):
    start = session.frames.position("hand.R")
    drag(session, "hand.R", *(start + np.array([0.0, 0.02 * k, 0.0]) for k in range(10)))
    assert len(session.history) == 1


def test_pinned_handles_give_way_to_nothing(session):
    session.set_handle("hand.L", "pinned")
    session.set_handle("pelvis", "pinned")
    before = session.frames.position("hand.L"), session.frames.position("pelvis")
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.2, 2.0]))
    assert np.linalg.norm(session.frames.position("hand.L") - before[0]) < 0.02
    assert np.linalg.norm(session.frames.position("pelvis") - before[1]) < 0.02


def test_any_joint_can_be_pinned_turned_and_freed(session):
    assert session.set_handle("elbow.L", "pinned", "both")
    assert session.set_handle("elbow.L", weight=3.0, priority=0)
    handle = next(h for h in session.handles if h.body == "elbow.L")
    assert (handle.hold, handle.mode, handle.weight) == ("pinned", "both", 3.0)
    assert session.remove_handle("elbow.L")
    assert not session.remove_handle("elbow.L")


def test_orientation_handles_turn(session):
    session.set_handle("head", "held", "orientation")
    turn = session.frames.rotation_matrix("head") @ np.array([[0.8, 0, 0.6], [0, 1, 0], [-0.6, 0, 0.8]])
    session.drag("head", rotation=turn)
    session.step()
    assert np.abs(session.frames.rotation_matrix("head") - turn).max() < 1e-2


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.drag("nobody", (0, 0, 0)),
        lambda s: s.drag("hand.R", (np.nan, 0, 0)),
        lambda s: s.drag("hand.R", (1e9, 0, 0)),
        lambda s: s.drag("hand.R", "up there"),
        lambda s: s.drag("hand.R", None, np.zeros((3, 3))),
        lambda s: s.set_handle("hand.R", "glued"),
        lambda s: s.set_handle("nobody", "pinned"),
        lambda s: s.set_handle("hand.R", weight=-1.0),
        lambda s: s.set_handle("hand.R", weight=np.nan),
        lambda s: s.set_handle("hand.R", priority=77),
        lambda s: s.set_strength("nobody", 2.0),
        lambda s: s.set_strength("elbow.R", 0.0),
        lambda s: s.set_strength("elbow.R", np.nan),
        lambda s: s.limb_tools.aim("nobody", (0, 0, 0)),
        lambda s: s.limb_tools.blend("elbow.R", 1.5),
        lambda s: s.configure(natural="yes"),
        lambda s: s.configure(stretch=1),
        lambda s: s.limb_tools.point_along("elbow.R", "up"),
        lambda s: s.select("nobody"),
        lambda s: s.set_dof("nobody", 0.0),
        lambda s: s.set_dof("skull.y", np.inf),
        lambda s: s.set_pose([0.0]),
        lambda s: s.configure(solver="nwton"),
        lambda s: s.configure(stay=-1.0),
        lambda s: s.configure(home="moon"),
        lambda s: s.configure(iterations="many"),
        lambda s: s.configure(solver=None),
        lambda s: s.configure(colour="red"),
        lambda s: s.player.set_time(colour="red"),
        lambda s: s.player.set_key(-5),
        lambda s: s.set_handle("hand.R", weight="much"),
        lambda s: s.set_dof("root.tx", 1e300),
        lambda s: s.limb_tools.swivel("nobody", 0.0),
        lambda s: s.limb_tools.swivel("elbow.R", np.nan),
        lambda s: s.limb_tools.aim("elbow.R", (np.inf, 0, 0)),
        lambda s: s.player.seek(np.nan),
        lambda s: s.player.set_time(fps=-1.0),
        lambda s: s.player.move_key(3, 4),
        lambda s: s.player.drop_key(3),
        lambda s: s.pose_tools.paste({}),
        lambda s: s.player.lock_contact("nobody", 0, 5),
        lambda s: s.player.set_time(easing="bouncy"),
        lambda s: s.open_figure("nobody"),
        lambda s: s.pose_tools.keep(" "),
        lambda s: s.upload("x.bvh", b"nonsense"),
    ],
)
def test_nonsense_changes_nothing(session, call):
    before = session.view()
    assert not call(session)
    session.step()
    after = session.view()
    assert np.array_equal(before.pose, after.pose)
    assert (before.handles, before.settings, before.figure) == (after.handles, after.settings, after.figure)


def test_limits_off_and_on(session):
    session.configure(limits=False)
    session.set_handle("pelvis", "pinned")
    behind = session.frames.position("hand.R") + np.array([0.35, 0.5, -0.35])
    drag(session, "hand.R", behind)
    assert limits_met(session.skeleton, session.pose) or not within_limits(session) or session.result.ok
    assert session.configure(limits=True)
    assert within_limits(session)


def test_another_solver_and_a_ghost(session):
    assert session.configure(solver="dls", ghost="newton")
    target = session.frames.position("hand.R") + np.array([0.0, 0.3, 0.3])
    drag(session, "hand.R", target)
    assert session.result.solver == "dls"
    assert session.ghost is not None
    assert np.linalg.norm(ps.forward(session.skeleton, session.ghost.pose).position("hand.R") - target) < 1e-2
    come_to_rest(session)
    assert set(session.curves) == {"dls", "newton"}


def test_sliders_turn_joints_within_limits_and_handles_follow(session):
    assert session.set_dof("elbow.R", 9.0)
    assert session.pose[session.skeleton.dof("elbow.R")] == session.skeleton.upper[session.skeleton.dof("elbow.R")]
    handle = next(h for h in session.handles if h.body == "hand.R")
    assert np.allclose(handle.position, session.frames.position("hand.R"))
    assert any(met.name == "elbow.R" for met in session.view().limits)


def test_the_swivel_turns_the_elbow_and_leaves_the_hand(session):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.4, 0.3]))
    hand, elbow = session.frames.position("hand.R"), session.frames.position("elbow.R")
    look = session.limb_view("elbow.R")
    low, high = look.ranges[0]
    assert session.limb_tools.swivel("elbow.R", low + 0.25 * (high - low))
    assert np.linalg.norm(session.frames.position("hand.R") - hand) < 1e-6
    assert np.linalg.norm(session.frames.position("elbow.R") - elbow) > 1e-3
    assert within_limits(session)


def test_an_elbow_is_dragged_about_its_circle(session):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.1, 0.35, 0.3]))
    hand = session.frames.position("hand.R")
    drag(session, "elbow.R", session.frames.position("elbow.R") + np.array([-0.3, 0.1, 0.0]))
    assert np.linalg.norm(session.frames.position("hand.R") - hand) < 1e-6
    assert within_limits(session)


def test_branches_are_stepped_through(session):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.1, 0.35, 0.3]))
    hand = session.frames.position("hand.R")
    for number in range(4):
        assert session.limb_tools.branch("elbow.R", number)
        assert np.linalg.norm(session.frames.position("hand.R") - hand) < 1e-6
        assert within_limits(session)


def test_a_hand_is_aimed_at_a_point(session):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.3, 0.3]))
    point = np.array([-0.4, 1.3, 1.2])
    limb = session.limbs["elbow.R"]
    assert session.limb_tools.aim("elbow.R", point, "-y")
    along = -session.frames.rotation_matrix(limb.site)[:, 1]
    to = point - session.frames.position(limb.site)
    assert np.degrees(np.arccos(np.clip(along @ to / np.linalg.norm(to), -1, 1))) < 0.5
    assert within_limits(session)


def test_a_hand_points_along_a_direction_in_its_place(session):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.3, 0.3]))
    limb = session.limbs["elbow.R"]
    place = session.frames.position(limb.site)
    along = -session.frames.rotation_matrix(limb.site)[:, 1] + np.array([0.0, 0.3, 0.0])
    along /= np.linalg.norm(along)
    assert session.limb_tools.point_along("elbow.R", along, "-y")
    assert np.linalg.norm(session.frames.position(limb.site) - place) < 1e-6
    assert -session.frames.rotation_matrix(limb.site)[:, 1] == pytest.approx(along, abs=1e-6)
    assert within_limits(session)


def test_keys_play_scrub_and_export(session, tmp_path):
    session.player.set_key(0)
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.5, 0.2]))
    raised = session.pose
    session.player.set_key(30)
    assert session.player.move_key(30, 20)
    session.player.seek(10)
    middle = session.frames.position("hand.R")
    assert middle[1] > ps.forward(session.skeleton, session.skeleton.rest).position("hand.R")[1] + 0.1
    session.player.seek(20)
    assert np.allclose(session.pose, raised)
    name, data = session.export("bvh")
    (tmp_path / name).write_bytes(data)
    motion = ps.load(tmp_path / name).motion
    assert len(motion) == 21
    session.player.play()
    session.player._played -= 0.2
    session.step()
    assert 5 <= session.timeline.frame <= 7
    session.player.play(False)
    assert session.player.drop_key(20)
    assert list(session.timeline.keys) == [0]


def test_an_edit_of_a_take_is_a_key_that_fades_into_it():
    skeleton = ps.figures.human()
    take = ps.Motion(skeleton, np.tile(skeleton.rest, (61, 1)), 30.0)
    session = Session(ps.Scene(skeleton=skeleton, motion=take))
    session.player.set_time(fade=10)
    session.player.seek(30)
    session.set_dof("elbow.R", 1.0)
    assert list(session.timeline.keys) == [30]
    session.player.seek(0)
    session.player.seek(30)
    assert session.pose[skeleton.dof("elbow.R")] == pytest.approx(1.0)  # it is still there
    name, data = session.export("npz")
    assert session.upload(name, data)
    bend = session.timeline.take.poses[:, skeleton.dof("elbow.R")]  # what was written is what was shown
    assert bend[30] == pytest.approx(1.0)
    assert np.all(np.diff(bend[20:31]) >= 0.0)
    assert bend[25] > bend[20] + 0.1
    assert bend[:19] == pytest.approx(take.poses[:19, skeleton.dof("elbow.R")])
    assert session.undo()  # of the upload
    assert session.timeline.take is take
    assert session.undo()
    assert not session.timeline.keys
    session.close()


def test_an_edit_of_a_ball_joint_is_blended_by_rotation():
    skeleton = ps.figures.human()
    take = ps.Motion(skeleton, np.tile(skeleton.rest, (31, 1)), 30.0)
    session = Session(ps.Scene(skeleton=skeleton, motion=take))
    session.player.set_time(fade=9)
    session.player.seek(15)
    edit = session.pose.copy()
    edit[skeleton.index("shoulder.R")] = np.radians([-100.0, 40.0, 30.0])
    assert session.set_pose(edit)

    def shoulder(frame):
        frames = ps.forward(skeleton, session.timeline.at(frame))
        return (frames.rotation("clavicle.R").inv() * frames.rotation("shoulder.R")).as_matrix()

    whole = Rotation.from_matrix(shoulder(0).T @ shoulder(15)).as_rotvec()
    for frame in (7, 10, 20):  # the same axis all the way, a share of the angle: no Euler angle does that
        part = Rotation.from_matrix(shoulder(0).T @ shoulder(frame)).as_rotvec()
        assert part == pytest.approx(whole * np.cos(np.pi * abs(frame - 15) / 20) ** 2, abs=1e-6)
    session.close()


def test_a_pose_without_a_key_survives_scrubbing_and_undo(session):
    session.player.set_time(autokey=False)
    session.player.set_key(0)
    session.player.seek(10)
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.4, 0.2]))
    loose = session.pose
    assert list(session.timeline.keys) == [0]
    session.player.seek(40)
    assert not np.allclose(session.pose, loose)
    session.player.seek(10)
    assert np.array_equal(session.pose, loose)
    session.player.seek(40)
    assert session.undo()
    assert session.redo()
    session.player.seek(10)
    assert np.array_equal(session.pose, loose)


def test_a_click_on_the_frame_that_is_shown_leaves_the_handles(session):
    session.player.seek(10)
    foot = session.frames.position("foot.R")
    drag(
        session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 3.0, 0.0])
    )  # out of reach: feet give way
    handles = session.handles
    pinned = next(h for h in handles if h.body == "foot.R")
    np.testing.assert_allclose(pinned.position, foot)
    assert np.linalg.norm(session.frames.position("foot.R") - foot) > 1e-6
    session.player.seek(10)
    assert session.handles is handles
    session.player.seek(20)
    session.player.seek(10)
    assert session.handles is not handles


def test_opening_another_figure_can_be_undone(session):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.4, 0.2]))
    raised, keys = session.pose, dict(session.timeline.keys)
    assert session.dirty
    assert session.open_figure("panda")
    assert not session.dirty
    assert session.undo()
    assert session.skeleton.name == "human"
    assert np.array_equal(session.pose, raised)
    assert session.timeline.keys.keys() == keys.keys()
    assert session.dirty


def test_two_people_who_drag_fill_no_history(session):
    left, right = (session.frames.position(name) for name in ("hand.L", "hand.R"))
    for k in range(20):
        up = np.array([0.0, 0.01 * k, 0.0])
        session.drag("hand.L", left + up)
        session.step()
        session.drag("hand.R", right + up)
        session.step()
    session.release("hand.L")
    session.step()
    assert session.active == "hand.R"  # the other goes on
    session.release("hand.R")
    session.step()
    assert len(session.history) == 2
    assert np.linalg.norm(session.frames.position("hand.L") - left - [0, 0.19, 0]) < 2e-3
    assert np.linalg.norm(session.frames.position("hand.R") - right - [0, 0.19, 0]) < 2e-3


UP = np.array([0.0, 0.3, 0.2])


def pull(session, name, *, steps=3):
    """Drag a handle as a page does, while the worker has no time: nothing is solved yet."""
    place = session.frames.position(name)
    for k in range(1, steps + 1):
        assert session.drag(name, place + UP * k / steps)
    session.release(name)


def test_undo_right_after_a_drag_undoes_it_and_redo_brings_it_back(session):
    before = session.pose
    pull(session, "hand.R")
    assert session.undo()  # before the worker has seen the drag
    assert np.array_equal(session.pose, before)
    session.step()
    assert np.array_equal(session.pose, before)
    assert session.redo()
    assert list(session.timeline.keys) == [0]
    expected = Session()
    pull(expected, "hand.R")
    expected.step()
    assert np.array_equal(session.pose, expected.pose)
    expected.close()


def test_undo_in_the_middle_of_a_drag_ends_it(session):
    before, place = session.pose, session.frames.position("hand.R")
    session.drag("hand.R", place + UP / 2)
    session.step()
    assert session.undo()
    assert not session.drag("hand.R", place + UP)  # the page still holds it
    session.step()
    assert np.array_equal(session.pose, before)
    assert not session.dragging
    session.release("hand.R")
    session.step()
    drag(session, "hand.R", place + UP)  # it takes hold again
    assert np.linalg.norm(session.frames.position("hand.R") - place - UP) < 1e-3
    assert len(session.history) == 1


def test_two_drags_of_one_handle_in_a_row_are_two_steps_of_undo(session):
    before = session.pose
    pull(session, "hand.R")
    pull(session, "hand.R")
    session.step()
    assert not session.dragging
    assert len(session.history) == 2
    assert session.undo()
    assert not np.array_equal(session.pose, before)
    assert session.undo()
    assert np.array_equal(session.pose, before)


def test_what_is_saved_right_after_a_drag_has_the_drag(session):
    pull(session, "hand.R")
    _, data = session.save_project()
    session.step()
    other = Session()
    other.open_project("saved.posable", data)
    assert np.array_equal(other.pose, session.pose)
    assert other.timeline.keys.keys() == session.timeline.keys.keys() == {0}
    other.close()


def test_what_is_saved_during_a_drag_is_not_all_of_it(session):
    session.drag("hand.R", session.frames.position("hand.R") + UP / 2)
    session.step()
    session.save_project()
    assert not session.dirty
    session.drag("hand.R", session.frames.position("hand.R") + UP)
    session.release()
    session.step()
    assert session.dirty


def test_scrubbing_during_a_drag_of_somebody_else_keeps_the_pose(session):
    session.drag("hand.R", session.frames.position("hand.R") + UP)
    session.step()
    posed = session.pose
    assert session.player.seek(40)
    assert session.player.seek(0)
    assert np.array_equal(session.pose, posed)
    assert not session.dragging


def test_a_figure_opened_during_a_drag_is_not_dragged(session):
    session.drag("pelvis", session.frames.position("pelvis") - UP / 4)
    session.open_figure("human")
    opened = session.pose
    session.drag("pelvis", session.frames.position("pelvis") - UP / 2)  # the page has not seen it yet
    session.step()
    session.release("pelvis")
    session.step()
    assert np.array_equal(session.pose, opened)
    assert not session.dragging
    assert session.undo()
    assert not np.array_equal(session.pose, opened)  # what was dragged before is not lost


def test_a_drag_that_fails_ends_all_the_same(session, monkeypatch):
    said = []
    session.on_notification(lambda text, kind: said.append(text))
    monkeypatch.setattr(session, "_new_drag_solver", lambda: 1 / 0)
    pull(session, "head")
    session.step()
    assert "ZeroDivisionError" in said[0]
    assert not session.dragging
    assert session.active is None


def test_a_selection_that_changes_during_a_drag_does_not_keep_it_alive(session):
    session.select("hand.L")
    session.select("hand.R", add=True)
    session.drag("hand.L", session.frames.position("hand.L") + UP)
    session.step()
    session.select(None)
    session.release("hand.L")
    session.step()
    assert not session.dragging
    assert session.active is None


def test_the_end_of_one_drag_does_not_end_that_of_a_selected_handle(session):
    session.select("hand.L")
    for name in ("hand.L", "hand.R"):
        session.drag(name, session.frames.position(name) + UP / 2)
    session.step()
    session.release("hand.R")
    session.step()
    assert list(session.dragging) == ["hand.L"]
    session.release("hand.L")
    session.step()
    assert len(session.history) == 1


def test_undo_of_the_second_of_two_drags_leaves_a_pose_that_survives_scrubbing(session):
    session.drag("hand.L", session.frames.position("hand.L") + UP)
    session.step()
    session.drag("hand.R", session.frames.position("hand.R") + UP)
    session.step()
    session.release()
    session.step()
    session.undo()
    first = session.pose
    assert list(session.timeline.keys) == [0]
    session.player.seek(50)
    session.player.seek(0)
    assert np.array_equal(session.pose, first)


def test_a_selection_is_dragged_together(session):
    session.select("hand.L")
    assert session.select("hand.R", add=True)
    left, right = (session.frames.position(name) for name in ("hand.L", "hand.R"))
    drag(session, "hand.L", left + np.array([0.0, 0.2, 0.1]))
    assert session.frames.position("hand.R") == pytest.approx(right + np.array([0.0, 0.2, 0.1]), abs=2e-3)
    assert len(session.history) == 1


def test_a_project_holds_everything_and_opens_to_the_same(session):
    session.select("elbow.L")
    session.set_handle("elbow.L", "pinned", "both")
    session.set_strength("spine1", 3.0)
    session.pose_tools.keep("standing <b>")
    session.player.set_key(0)
    session.player.seek(24)
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.5, 0.2]))
    session.player.set_time(fps=24.0, easing="linear")
    session.configure(stay=1e-3)
    before = session.view()
    assert before.dirty
    name, data = session.save_project()
    assert name == "human.posable"
    assert not session.dirty
    other = Session(ps.figures.planar_arm([1.0, 1.0]))
    assert other.upload(name, data)
    after = other.view()
    assert after.skeleton.dof_names == before.skeleton.dof_names
    assert np.array_equal(after.pose, before.pose)
    assert [(h.body, h.hold, h.mode) for h in after.handles] == [(h.body, h.hold, h.mode) for h in before.handles]
    assert after.timeline.keys.keys() == before.timeline.keys.keys()
    for frame in (0, 7, 24):
        assert np.array_equal(after.timeline.at(frame), before.timeline.at(frame))
    assert (after.timeline.fps, after.timeline.easing, after.settings) == (24.0, "linear", before.settings)
    assert (after.strength, after.library) == (before.strength, before.library)
    assert not after.dirty
    other.close()


def test_a_project_of_a_file_has_the_file_inside(session, fixtures, tmp_path):
    (tmp_path / "walk.bvh").write_bytes((fixtures / "walk.bvh").read_bytes())
    session.open_path(tmp_path / "walk.bvh")
    session.player.seek(5)
    hand = session.handles[0].body
    drag(session, hand, session.frames.position(hand) + np.array([0.0, 0.05, 0.0]))
    _, data = session.save_project()
    (tmp_path / "walk.bvh").unlink()
    other = Session()
    assert other.upload("walk.posable", data)
    assert len(other.timeline.take) == len(session.timeline.take)
    assert np.array_equal(other.pose, session.pose)
    assert list(other.timeline.keys) == [5]
    other.close()


def test_every_take_of_a_file_can_be_opened_saved_and_undone(session, fixtures):
    said = []
    session.on_notification(lambda text, kind: said.append(text))
    assert session.upload("character.glb", (fixtures / "character.glb").read_bytes())
    assert said == ["Opened character.glb. It has 2 takes; choose one in the Time tab."]
    assert session.take_name == "Wave"
    assert not session.open_take("Swim")
    assert session.open_take("Nod")
    assert session.timeline.count == len(session.scene.motions["Nod"]) != len(session.scene.motions["Wave"])
    session.player.seek(3)
    assert session.player.set_key()
    pose, project = session.pose, session.save_project()[1]
    assert session.undo()
    assert session.undo()
    assert session.take_name == "Wave"
    session.open_project("character.posable", project)
    assert (session.take_name, list(session.timeline.keys)) == ("Nod", [3])
    assert np.array_equal(session.pose, pose)


@pytest.mark.parametrize("data", [b"", b"PK", b"not a zip at all"])
def test_what_is_not_a_project_is_refused(session, data):
    assert not session.upload("x.posable", data)
    assert session.skeleton.name == "human"


def test_unsaved_work_is_recovered_after_a_crash(tmp_path):
    from posable.studio.project import RecoveryStore

    first = Session(recovery=RecoveryStore(tmp_path))
    drag(first, "hand.R", first.frames.position("hand.R") + np.array([0.0, 0.4, 0.2]))
    assert first.autosave()
    assert not first.autosave()  # nothing new
    raised = first.pose
    del first  # without a close
    second = Session(recovery=RecoveryStore(tmp_path))
    assert second.recover()
    assert np.array_equal(second.pose, raised)
    assert second.dirty
    assert second.undo()  # to the figure as it was opened
    assert np.array_equal(second.pose, second.skeleton.rest)
    assert second.redo()
    second.save_project()
    second.close()
    third = Session(recovery=RecoveryStore(tmp_path))
    assert not third.recover()  # a person has saved it
    third.close()


def test_mirror_swaps_left_and_right(session):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([-0.15, 0.5, 0.25]))
    before = {name: session.frames.position(name) for name in ("hand.L", "hand.R", "foot.L", "head")}
    assert session.pose_tools.mirror()
    after = session.frames
    root = session.frames.position("root")[0]
    for name, other in (("hand.L", "hand.R"), ("hand.R", "hand.L"), ("foot.R", "foot.L"), ("head", "head")):
        reflected = before[other] * [-1, 1, 1] + [2 * root, 0, 0]
        assert after.position(name) == pytest.approx(reflected, abs=5e-3)
    assert within_limits(session)


def test_mirror_of_an_imported_figure(fixtures):
    session = Session(ps.load(fixtures / "walk.bvh"))
    session.player.seek(7)
    names = session.skeleton.names
    heights = {name: session.frames.position(name)[1] for name in names}
    assert session.pose_tools.mirror()
    from posable.studio.pose_tools import partners

    pairs = partners(session.skeleton)
    assert any(name != other for name, other in pairs.items())
    for name, other in pairs.items():
        assert session.frames.position(name)[1] == pytest.approx(heights[other], abs=0.01)
    session.close()


@pytest.mark.files("walk.bvh", "gltf/khronos_CesiumMan.glb", "gltf/khronos_Fox.glb", "gltf/momentum_test_24fps.glb")
def test_mirror_of_a_character_that_has_turned(path):
    """In the recordings the root is below fixed nodes, and joints of the two sides are numbered differently."""
    from posable.studio.appearance import root_joint

    source = ps.load(path)
    skeleton, root, plan = source.skeleton, root_joint(source.skeleton).name, ps.body_plan(source.skeleton)
    session = Session(source)
    session.player.seek(10)
    turn = Rotation.from_euler("y", 70, degrees=True).as_matrix() @ session.frames.rotation_matrix(root)
    goals = [ps.goals.Orientation(root, turn), ps.goals.Position(root, session.frames.position(root))]
    pose = np.array(session.pose)
    turned = ps.solve(skeleton, goals, start=pose, natural=False).pose[skeleton.index(root)]
    pose[skeleton.index(root)] = turned
    session.set_pose(pose)
    before, pelvis = session.frames, plan["pelvis"]
    middle = before.position(pelvis)
    left = before.rotation_matrix(pelvis) @ plan.rest.rotation_matrix(pelvis).T @ plan.left
    left = (left - left[1] * np.eye(3)[1]) / np.linalg.norm(left[[0, 2]])
    assert session.pose_tools.mirror()
    for role in ("wrist", "ankle"):
        for one, other in ((f"{role}.L", f"{role}.R"), (f"{role}.R", f"{role}.L")):
            away = before.position(plan[other]) - middle
            expected = middle + away - 2.0 * (away @ left) * left
            near = pytest.approx(expected, abs=0.01 * plan.leg)
            assert session.frames.position(plan[one]) == near, one
    session.close()


def test_copy_and_paste_between_frames(session):
    said = []
    session.on_notification(lambda text, kind: said.append(text))
    assert not session.pose_tools.paste()
    assert said == ["No pose has been copied yet."]
    session.player.set_key(0)
    session.player.seek(20)
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.4, 0.2]))
    raised = session.pose
    session.pose_tools.copy()
    session.player.seek(0)
    here = session.pose
    assert session.pose_tools.paste()
    floor = [session.skeleton.dof("root.tx"), session.skeleton.dof("root.tz")]
    assert np.delete(session.pose, floor) == pytest.approx(np.delete(raised, floor), abs=1e-12)
    assert session.pose[floor] == pytest.approx(here[floor])  # where it stands stays
    assert session.pose_tools.keep("up")
    session.reset()
    assert session.pose_tools.paste(session.library["up"], root=True)
    assert np.delete(session.pose, floor) == pytest.approx(np.delete(raised, floor), abs=1e-12)


def test_a_contact_is_locked_over_frames(fixtures):
    session = Session(ps.load(fixtures / "walk.bvh"))
    session.player.seek(6)
    feet = [h.body for h in session.handles if h.hold == "pinned"]

    def away(body, frame):
        return np.linalg.norm(ps.forward(session.skeleton, session.timeline.at(frame)).position(body) - place[body])

    place = {body: session.frames.position(body) for body in feet}
    foot = max(feet, key=lambda body: away(body, 9))
    assert away(foot, 9) > 5e-3
    assert session.player.lock_contact(foot, 4, 9)
    for frame in range(4, 10):
        assert away(foot, frame) < 2e-3
    assert session.undo()
    assert not session.timeline.keys
    said = []
    session.on_notification(lambda text, kind: said.append(text))
    assert not session.player.lock_contact(foot, 9, 4)
    assert said == ["Choose a contact of at most 2000 frames; got 9 to 4."]
    session.close()


def test_messages_carry_no_path_and_no_control_characters(session):
    heard = []
    session.on_notification(lambda text, kind: heard.append(text))
    assert not session.upload("a\x1b[31m.bvh", b"HIERARCHY\nROOT")
    session.notify("OSError: /home/somebody/secret/robot.urdf is gone")
    assert all(str(session.folder.path) not in text and "/home" not in text for text in heard)
    assert all("\x1b" not in text for text in heard)
    assert "robot.urdf" in heard[-1]


def test_amc_comes_with_its_asf_and_can_be_read_back(session, tmp_path):
    session.player.set_key(0)
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.5, 0.2]))
    session.player.set_key(10)
    wrist = session.frames.position("wrist.R")
    name, data = session.export("amc")
    assert name.endswith(".zip")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(tmp_path)
    (amc,), (asf,) = tmp_path.glob("*.amc"), tmp_path.glob("*.asf")
    motion = ps.load(amc, skeleton=asf).motion
    assert len(motion) == 11
    frames = ps.forward(motion.skeleton, motion.poses[-1])
    away = [np.linalg.norm(frames.position(body) - wrist) for body in motion.skeleton.names]
    assert min(away) < 1e-3  # [m] one of its bones begins where the wrist was


@pytest.mark.files("character.glb", "gltf/khronos_CesiumMan.glb")
def test_a_character_is_exported_with_its_skin_and_textures(session, path, tmp_path):
    session.open_path(path)
    came = ps.load(path)
    session.player.seek(10)
    hand = session.handles[0].body
    drag(session, hand, session.frames.position(hand) + np.array([0.0, 0.08, 0.0]))
    name, data = session.export("glb")
    (tmp_path / name).write_bytes(data)
    back = ps.load(tmp_path / name)
    assert [len(mesh.vertices) for mesh in back.meshes] == [len(mesh.vertices) for mesh in came.meshes]
    assert b"baseColorTexture" in data
    assert b"image/jpeg" in data or b"image/png" in data
    there = ps.forward(back.skeleton, back.motion.at(10 / back.motion.fps)).position(hand)
    assert there == pytest.approx(session.frames.position(hand), abs=2e-3)


def test_the_human_is_exported_with_its_body(session, tmp_path):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.4, 0.2]))
    name, data = session.export("glb")
    (tmp_path / name).write_bytes(data)
    back = ps.load(tmp_path / name)
    assert {mesh.name for mesh in back.meshes} >= {"shirt", "trousers", "hand.L", "head"}
    assert sum(len(mesh.vertices) for mesh in back.meshes) > 10_000


@pytest.mark.parametrize("suffix", ["bvh", "glb", "csv", "npz"])
def test_what_is_exported_can_be_opened(session, suffix):
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.5, 0.2]))
    hand = session.frames.position("hand.R")
    name, data = session.export(suffix)
    assert session.upload(name, data)
    if "wrist.R" in session.skeleton.names:
        assert np.linalg.norm(session.frames.position("wrist.R") - hand) < 0.2


def test_a_bad_upload_is_reported_and_the_session_lives(session):
    heard = []
    session.on_notification(lambda text, kind: heard.append((text, kind)))
    assert not session.upload("../../etc/passwd.bvh", b"HIERARCHY\nROOT")
    assert heard
    assert heard[0][1] == "bad"
    assert all(path.parent == session.folder.path for path in session.folder.path.iterdir())
    drag(session, "hand.R", session.frames.position("hand.R") + np.array([0.0, 0.2, 0.0]))
    assert session.result.ok


def test_every_figure_can_be_opened_and_dragged(session):
    for name in ps.figures.names():
        session.open(ps.figures.get(name))
        assert session.handles
        handle = session.handles[0]
        start = session.frames.position(handle.body)
        inward = start + 0.05 * (session.frames.position(session.skeleton.names[0]) - start)
        drag(session, handle.body, inward)
        assert session.result is not None


def test_a_figure_can_be_dragged_before_everything_is_compiled(monkeypatch):
    """What the first drag does not need is compiled after it, and nobody waits for that."""
    go_on, made = threading.Event(), Session(ps.figures.planar_arm([1.0, 0.5]))
    monkeypatch.setattr(made, "_compile_rest", lambda: go_on.wait(60.0))
    made.start_worker()
    try:
        wait_until(lambda: made.can_drag)
        made.drag("tip", (0.4, 0.8, 0.0))
        made.release()
        wait_until(lambda: made.result is not None and made.active is None)
        assert not made.ready
        assert not made.curves
        go_on.set()
        wait_until(lambda: made.ready and made.curves)
    finally:
        go_on.set()
        made.close()


def wait_until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_worker_solves_the_last_target(session):
    views = []
    session.on_view(views.append)
    session.start_worker()
    start = session.frames.position("hand.R")
    deadline = time.monotonic() + 120.0
    for k in range(100):
        session.drag("hand.R", start + np.array([0.0, 0.004 * k, 0.0]))
    last = start + np.array([0.0, 0.4, 0.0])
    session.drag("hand.R", last)
    session.release()
    while time.monotonic() < deadline and np.linalg.norm(session.view().frames.position("hand.R") - last) > 1e-3:
        time.sleep(0.01)
    assert np.linalg.norm(session.view().frames.position("hand.R") - last) < 1e-3
    while time.monotonic() < deadline and not views:  # they are told just after
        time.sleep(0.01)
    assert views
    assert threading.current_thread() is threading.main_thread()


def test_a_take_is_not_relaxed_into_its_rest_and_the_next_figure_is(session):
    human = session.skeleton
    session.open(ps.Scene(skeleton=human, motion=ps.Motion(human, human.rest[None], 30.0)))
    assert session.settings.home == "drag"
    session.open(human)
    assert session.settings.home == "relaxed"


def test_a_watched_file_is_read_again(session, tmp_path):
    path = tmp_path / "take.bvh"
    ps.save(path, ps.Motion(session.skeleton, np.tile(session.skeleton.rest, (5, 1)), 30.0))
    session.open_path(path, watch=True)
    assert len(session.timeline.take) == 5
    ps.save(path, ps.Motion(ps.figures.human(), np.tile(ps.figures.human().rest, (9, 1)), 30.0))
    session.watched.path, session.watched.seen = path, 0.0
    session.watched.check()
    assert len(session.timeline.take) == 9


def changed_take(session, path, frames=9):
    """Write another take of the human to a watched file, and let the session see it."""
    human = ps.figures.human()
    ps.save(path, ps.Motion(human, np.tile(human.rest, (frames, 1)), 30.0))
    session.watched.seen = 0.0
    session.watched.check()


def test_a_watched_file_replaces_no_other_figure(session, tmp_path):
    path = tmp_path / "take.bvh"
    changed_take(session, path, 5)
    session.open_path(path, watch=True)
    session.open_figure("panda")
    changed_take(session, path)
    assert session.origin.figure == "panda"
    session.undo()
    session.watched.check()
    assert len(session.timeline.take) == 9


def test_a_watched_file_leaves_saved_keys_and_asks_about_unsaved_ones_until_it_is_settled(session, tmp_path):
    path = tmp_path / "take.bvh"
    changed_take(session, path, 5)
    session.open_path(path, watch=True)
    session.watched.asks = True
    session.player.set_key()
    assert session.dirty
    changed_take(session, path)
    assert session.watched.changed
    assert len(session.timeline.take) == 5
    session.save_project()
    assert not session.watched.changed
    session.watched.check()
    assert len(session.timeline.take) == 9
    assert list(session.timeline.keys) == [0]
    changed_take(session, path, 7)
    session.watched.leave()
    session.watched.check()
    assert not session.watched.changed
    assert len(session.timeline.take) == 9


def test_a_walk_can_be_opened_played_and_edited(session, fixtures):
    session.open_path(fixtures / "walk.bvh")
    assert len(session.timeline.take) == 64
    assert {"pinned", "held"} <= {h.hold for h in session.handles}
    session.player.seek(30)
    hand = next(h.body for h in session.handles if "wrist" in h.body or "finger" in h.body)
    target = session.frames.position(hand) + np.array([0.0, 0.05, 0.05])
    drag(session, hand, target)
    assert np.linalg.norm(session.frames.position(hand) - target) < 2e-3
    assert list(session.timeline.keys) == [session.timeline.shown]


def test_options_of_the_solver_reach_it(session):
    assert session.configure(solver="dls", options={"damping": 0.5, "bounds": "final"})
    assert session.settings.method() == ps.solvers.get("dls")(damping=0.5, bounds="final")
    target = session.frames.position("hand.R") + np.array([-0.1, 0.3, 0.2])
    answers = []
    for damping in (0.01, 3.0):
        session.reset()
        assert session.configure(options={"damping": damping})
        drag(session, "hand.R", target)
        answers.append(session.result.iterations)
    assert answers[1] > answers[0]  # heavier damping, smaller steps
    assert not session.configure(options={"damping": -1.0})
    assert not session.configure(options={"order": "ranked"})
    assert session.settings.options == {"damping": 3.0}
    assert session.configure(solver="ccd")
    assert session.settings.options == {}


def test_options_are_kept_by_a_project(session):
    session.configure(solver="ccd", options={"order": "ranked"})
    name, data = session.save_project()
    other = Session()
    other.open_project(name, data)
    assert (other.settings.solver, other.settings.options) == ("ccd", {"order": "ranked"})
    other.close()


def outside_feet(skeleton, pose):
    """The distance [m] of the centre of mass outside the hull of the soles, by forward kinematics and SciPy's hull."""
    from scipy.spatial import ConvexHull

    frames = ps.forward(skeleton, pose)
    mass = np.array([joint.mass for joint in skeleton.joints])
    centers = np.array([frames.convert(joint.center, from_=joint.name, to="world") for joint in skeleton.joints])
    at = (mass @ centers / mass.sum())[[0, 2]]
    feet = {"ankle.L", "ankle.R", "toes.L", "toes.R"}
    soles = np.array([frames.position(site.name)[[0, 2]] for site in skeleton.sites if site.joint in feet])
    return float((ConvexHull(soles).equations @ [*at, 1.0]).max())


def test_pinned_feet_carry_the_body(session):
    target, outside = np.array([-1.05, 0.9, 0.2]), []
    start = session.frames.position("hand.R")
    for on in (False, True):
        session.reset()
        session.configure(balance=on)
        drag(session, "hand.R", *np.linspace(start, target, 30))
        assert session.result.ok
        assert np.linalg.norm(session.frames.position("hand.R") - target) < 1e-3
        outside.append(outside_feet(session.skeleton, session.pose))
    assert outside[0] > 0.02
    assert outside[1] < 0.3 * outside[0]


def test_an_arm_does_not_pass_through_the_trunk(session):
    """The hand goes to the other side at hip height; the forearm's axis stays away from the trunk's."""
    target, start, depths = np.array([0.2, 1.1, 0.05]), session.frames.position("hand.R"), []
    for on in (False, True):
        session.reset()
        session.configure(apart=on)
        drag(session, "hand.R", *np.linspace(start, target, 30))
        assert session.result.ok
        frames = session.frames
        forearm = np.linspace(frames.position("elbow.R"), frames.position("wrist.R"), 40)
        pelvis, chest = frames.position("pelvis"), 0.5 * (frames.position("shoulder.L") + frames.position("shoulder.R"))
        trunk = np.linspace(pelvis, chest - [0.0, 0.07, 0.0], 40)
        depths.append(np.linalg.norm(forearm[:, None] - trunk[None], axis=-1).min())
    assert depths[0] < 0.1
    assert depths[1] > 0.13


def largest_turn(skeleton, poses):
    """Return how far a joint turns from one pose (n,) to the next, at most [deg]."""
    frames = ps.forward(skeleton, np.array(poses))
    turns = [
        frames.rotation(joint.parent).inv() * frames.rotation(joint.name)
        for joint in skeleton.joints if joint.parent is not None
    ]  # fmt: skip
    return max(float(np.degrees((turn[:-1].inv() * turn[1:]).magnitude()).max()) for turn in turns)


def test_people_take_poses_of_people_and_drags_do_not_hop(session):
    """The same drags end nearer to the prior; a millimetre turns no joint by a degree; the handle stays where it is."""
    prior, energies, hops = ps.goals.Natural(), [], []
    for on in (False, True):
        session.reset()
        session.configure(natural=on)
        energies.append([])
        hops.append([])
        for name, to in (("hand.L", (0.4, 1.6, 0.3)), ("hand.R", (-0.4, 1.2, 0.6)), ("hand.R", (0.1, 0.9, 0.4))):
            start, poses = session.frames.position(name), [session.pose]
            for place in np.linspace(start, to, int(1e3 * np.linalg.norm(np.array(to) - start)))[1:]:
                session.drag(name, place)
                session.step()
                poses.append(session.pose)
            session.release()
            session.step()
            assert session.result.ok
            assert np.linalg.norm(session.frames.position(name) - to) < 1e-3
            energies[-1].append(float(prior.energy(session.skeleton, session.pose)))
            hops[-1].append(largest_turn(session.skeleton, poses))
    assert max(hops[1]) < 1.0
    assert all(with_prior < without - 5.0 for without, with_prior in zip(*energies, strict=True))


def test_a_drag_out_of_reach_does_not_throw_the_head_about(session):
    start, poses = session.frames.position("pelvis"), [session.pose]
    for place in np.linspace(start, (0.1, 0.72, 0.05), 250):  # lower than feet that stay flat allow
        session.drag("pelvis", place)
        session.step()
        poses.append(session.pose)
    assert not session.result.ok
    assert largest_turn(session.skeleton, poses) < 15.0


def test_bones_keep_their_lengths_unless_they_may_stretch():
    """A chain whose joints turn and slide, as rigs from games have them."""
    names = ("root", "b0", "b1", "b2", "b3")
    joints = [ps.Joint("root", ps.Free())]
    joints += [ps.Joint(b, ps.Free(), a, offset=(0, 0.3, 0)) for a, b in pairwise(names)]
    chain = ps.Skeleton(joints, [ps.Site("tip", "b3", (0, 0.3, 0))], "chain", up="y")
    for stretch in (False, True):
        session = Session(chain)
        assert session.configure(stretch=stretch)
        session.set_handle("root", "pinned")
        drag(session, "tip", *np.linspace(session.frames.position("tip"), (0.5, 0.9, 0.3), 20))
        assert session.result.ok
        places = session.frames.many(session.skeleton.names)[0]
        lengths = np.linalg.norm(np.diff(places, axis=0), axis=1)
        assert (np.abs(lengths - 0.3).max() > 1e-3) == stretch
        session.close()


def offered(session):
    """Wait for the remedies of a drag that is missed."""
    come_to_rest(session)
    end = time.monotonic() + 60.0
    while not session.offers and time.monotonic() < end:
        time.sleep(0.05)
    return session.view().offers


def crouch(session):
    """Drag the pelvis lower than feet that stay flat allow."""
    target = np.array([0.1, 0.75, 0.0])
    for place in np.linspace(session.frames.position("pelvis"), target, 40):
        session.drag("pelvis", place)
        session.step()
    return target


@pytest.mark.parametrize("kind", ["limit", "Move the target", "Leave out"])
def test_a_remedy_is_offered_and_one_click_applies_it(session, kind):
    target = crouch(session)
    texts = offered(session)
    number = next(k for k, text in enumerate(texts) if kind in text)
    assert "remedy.start" not in " ".join(texts)
    lower, feet = session.skeleton.lower.copy(), session.frames.position("foot.L")
    assert session.remedies.apply(number)
    assert not session.offers
    frames = ps.forward(session.skeleton, session.pose)
    assert np.linalg.norm(frames.position("foot.L") - feet) < 5e-3
    if kind == "limit":
        assert np.linalg.norm(frames.position("pelvis") - target) < 1e-3
        assert (session.skeleton.lower < lower).any()
        assert within_limits(session)
    elif kind == "Leave out":
        assert next(h.hold for h in session.handles if h.body == "pelvis") == "free"
    assert np.array_equal(session.timeline.keys[0], session.pose)
    assert session.undo()
    assert np.array_equal(session.skeleton.lower, lower)
    assert not session.remedies.apply(99)


def test_remedies_of_a_figure_that_moved_on_are_not_offered(session):
    crouch(session)
    come_to_rest(session)
    session.reset()
    time.sleep(2.0)
    assert session.offers == ()


def test_markers_open_where_they_are_first_seen():
    pytest.importorskip("viser")
    from posable.studio.panels.status import lines_for

    human = ps.figures.human()
    places = np.full((20, 3, 3), np.nan)
    places[7:, 1] = (0.1, 1.0, 0.2)
    session = Session()
    session.open(ps.Scene(markers=ps.Markers(("a", "b", "c"), places, 50.0)))
    assert session.timeline.shown == 7
    assert any("1 of 3 markers" in line and "posable track" in line for line in lines_for(session.view()))
    assert session.skeleton.names == human.names
    empty = ps.Markers(("a",), np.full((4, 1, 3), np.nan), 50.0)
    session.open(ps.Scene(markers=empty))
    assert session.timeline.shown == 0


def test_views_are_numbered_in_the_order_in_which_they_are_made():
    session = Session()
    first = session.view()
    session.set_dof("elbow.R", 1.0)
    second = session.view()
    assert first.number < second.number
    assert not np.array_equal(first.pose, second.pose)


@pytest.mark.parametrize(
    "change",
    [
        {"figure": None}, {"figure": {}}, {"figure": {"name": "x", "figure": ["human"], "path": None}},
        {"timeline": {"fps": float("inf")}}, {"timeline": {"fps": 0}}, {"timeline": {"length": 10**12}},
        {"timeline": {"frame": float("nan")}}, {"timeline": {"frame": 1e300}}, {"timeline": {"fade": -1}},
        {"timeline": {"keys": {"99999999999": None}}}, {"timeline": {"keys": {"-5": None}}},
        {"strength": {"elbow.R": float("nan")}}, {"strength": {"elbow.R": -1.0}},
    ],
)  # fmt: skip
def test_a_forged_project_is_refused_and_nothing_changes(change):
    """Numbers without bounds would make an export of 1e11 frames; each is one sentence on the page."""
    import io
    import zipfile

    session, said = Session(), []
    session.on_notification(lambda text, kind: said.append(kind))
    _, data = session.save_project()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        kept = json.loads(archive.read("project.json"))
    assert session.upload("whole.posable", data)
    for key, value in change.items():
        if key == "timeline":
            value = {**kept[key], **value}
            value["keys"] = dict.fromkeys(value["keys"], kept["pose"])
        kept[key] = value
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("project.json", json.dumps(kept))
    figure, said[:] = session.figure, []
    assert not session.upload("forged.posable", out.getvalue())
    assert said == ["bad"]
    assert session.figure == figure
    session.close()


@pytest.mark.files("humanoid/humanoid.xml", "mjcf/pal_talos/talos.xml", "mjcf/agility_cassie/cassie.xml")
def test_the_welcome_speaks_of_feet_however_they_are_called(session, path):
    pytest.importorskip("mujoco")
    pytest.importorskip("viser")
    from posable.studio.panels.status import welcome

    session.open(ps.load(path))
    assert "feet are pinned" in welcome(session.view())
    feet = {h.body for h in session.handles if h.hold == "pinned"}
    session.set_handle(next(h.body for h in session.handles if h.body not in feet), hold="pinned")
    assert "feet" not in welcome(session.view())


def test_markers_of_another_unit_are_reported(session):
    pytest.importorskip("viser")
    from posable.studio.panels.status import lines_for

    places = np.random.default_rng(0).uniform((-0.3, 0.0, -0.2), (0.3, 1.8, 0.2), (3, 30, 3))
    names = tuple(f"m{k}" for k in range(30))
    for scale, reported in ((1.0, False), (10.0, True), (0.01, True)):
        session.open(ps.Scene(markers=ps.Markers(names, scale * places, 50.0)))
        assert any("another unit" in line for line in lines_for(session.view())) == reported


def test_a_figure_of_an_unlikely_size_or_that_lies_is_reported(session, fixtures):
    pytest.importorskip("viser")
    from posable.studio.panels.status import doubts, lines_for

    walk = ps.load(fixtures / "walk.bvh")
    assert not doubts(walk.skeleton)
    session.open(ps.load(fixtures / "walk.bvh", unit=0.001))
    assert any("m in size: if that is wrong" in line for line in lines_for(session.view()))
    session.open(walk.skeleton.replace(up="z"))
    assert any("up axis of its file may not be z" in line for line in lines_for(session.view()))
    for name in ps.figures.names():
        assert not doubts(ps.figures.get(name))


def test_the_finger_of_a_gripper_is_moved_by_millimetres():
    pytest.importorskip("viser")
    from posable.studio.panels.joints import slider_for

    class Gui:
        def add_slider(self, name, low, high, step, value):
            assert (low, high, step, value) == (0.0, pytest.approx(0.04), 0.001, 0.0123)
            return self

        def on_update(self, callback):
            callback(SimpleNamespace(client=0, target=SimpleNamespace(value=0.0207)))

    session = Session(ps.Skeleton([ps.Joint("finger", ps.Prismatic("y"), limits=(0.0, 0.04))]))
    session.set_dof("finger", 0.0123)
    slider_for(Gui(), session, session.view(), 0)
    assert session.pose[0] == 0.0207
    session.close()
