"""Samples that no camera saw, made from a take in which every sample was."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.mocap.gaps import find_unseen
from posable.mocap.screen import screen


def spoilt(markers, name, change):
    places = markers.positions.copy()
    change(places, markers.index(name))
    return replace(markers, positions=places)


def freeze(rows):
    def change(places, k):
        places[rows, k] = places[rows.start, k]

    return change


def line(rows):
    def change(places, k):
        places[rows, k] = np.linspace(places[rows.start, k], places[rows.stop - 1, k], rows.stop - rows.start)

    return change


def origin(rows):
    def change(places, k):
        places[rows, k] = 0.0

    return change


def left_out(markers):
    """Return the samples (T, M) that screening leaves out, and what it says."""
    found = screen(markers)
    return ~np.isfinite(found.read(markers.positions, 0, len(markers))[..., 0]), " ".join(found.notes)


def test_every_sample_of_a_clean_take_was_seen(markers):
    assert find_unseen(markers.positions, list(markers.names), markers.fps).mask is None


@pytest.mark.parametrize("make", [freeze, line, origin])
def test_a_marker_that_is_stuck_is_left_out_there_and_named(markers, make):
    rows = slice(60, 160)
    gone, said = left_out(spoilt(markers, "LANK", make(rows)))
    k = markers.index("LANK")
    assert gone[rows, k].mean() > 0.95
    assert gone.sum() <= rows.stop - rows.start
    assert "LANK in" in said


def test_a_take_in_which_nothing_moves_is_not_stuck(markers):
    still = replace(markers, positions=np.repeat(markers.positions[:1], 50, axis=0))
    assert find_unseen(still.positions, list(still.names), still.fps).mask is None


def test_a_label_in_the_place_of_another_is_left_out(markers):
    places = markers.positions.copy()
    here, there = markers.index("RFRM"), markers.index("RELB")
    places[80:140, here] = places[80:140, there]
    gone, said = left_out(replace(markers, positions=places))
    expected = np.zeros_like(gone)
    expected[80:140, here] = True
    assert np.array_equal(gone, expected)
    assert "RFRM is at the position of RELB in 60 frames" in said


def test_two_labels_on_one_marker_throughout_are_a_reason_to_check(human, markers):
    places = markers.positions.copy()
    places[:, markers.index("RWRA")] = places[:, markers.index("RWRB")]
    twice = replace(markers, positions=places)
    report = ps.track(ps.calibrate(human, twice), twice).report
    assert not report.ok
    assert "RWRA and RWRB are the same marker" in report.verdict


def test_the_actor_hardly_moves_where_a_marker_is_frozen_for_a_third_of_the_take(human, markers):
    clean = ps.calibrate(human, markers)
    frozen = spoilt(markers, "LKNE", freeze(slice(80, 160)))
    take = ps.track(ps.calibrate(human, frozen), frozen)
    reference = ps.track(clean, markers)
    places = [
        np.stack([ps.forward(t.motion.skeleton, t.motion.poses).position(name) for name in human.names], axis=1)
        for t in (take, reference)
    ]
    off = np.linalg.norm(places[0] - places[1], axis=-1).mean()
    assert off < 0.005
    assert take.report.verdict == "plausible after repairs"
    assert "LKNE in" in str(take.report).splitlines()[1]


def test_a_marker_that_is_not_a_marker_of_the_actor_is_not_used(human, markers):
    lying = spoilt(markers, "LANK", freeze(slice(0, len(markers))))
    actor = ps.calibrate(human, lying)
    assert actor.info["calibration"].left_out == ("LANK",)
    assert any("not used: LANK" in note for note in actor.info["calibration"].notes)
    report = ps.track(actor, lying).report
    assert report.mean < 0.005
    assert "not used: LANK" in report.verdict


@pytest.mark.parametrize("length", [4, 12])
def test_frames_that_repeat_the_one_before_are_gaps(human, markers, length):
    rows = slice(100, 100 + length)
    places = markers.positions.copy()
    places[rows] = places[rows.start - 1]
    held = replace(markers, positions=places)
    gone, said = left_out(held)
    assert gone[rows].all()
    assert gone.sum() == length * len(markers.names)
    assert f"frames repeat the previous one: 100-{99 + length}; treated as gaps" in said
    actor = ps.calibrate(human, markers)
    joints = [
        np.stack([ps.forward(actor, ps.track(actor, each).motion.poses).position(name) for name in human.names])
        for each in (markers, held)
    ]
    assert np.linalg.norm(joints[0] - joints[1], axis=-1).max() < 0.02


def test_a_simulation_that_holds_still_and_moves_on_has_no_gap(markers):
    rest = np.repeat(markers.positions[:1], 30, axis=0)
    held = replace(markers, positions=np.concatenate([rest, markers.positions[1:]]))
    assert not left_out(held)[0].any()


def test_a_sample_at_the_end_of_the_world_is_left_out(human, markers):
    k = markers.index("LFWT")
    places = markers.positions.copy()
    places[40:60, k] = 1e30
    gone, said = left_out(replace(markers, positions=places))
    assert gone[40:60, k].all()
    assert gone.sum() == 20
    assert "LFWT in 20 frames" in said


def test_a_marker_that_moves_with_nothing_beside_it_is_not_used(human, markers):
    """An ankle marker mirrored to the other side of the body in the whole take."""
    places = markers.positions.copy()
    k, left, right = (markers.index(name) for name in ("LANK", "LFWT", "RFWT"))
    across = places[:, left] - places[:, right]
    across /= np.linalg.norm(across, axis=-1, keepdims=True)
    arm = places[:, k] - 0.5 * (places[:, left] + places[:, right])
    places[:, k] -= 2.0 * (arm * across).sum(axis=-1, keepdims=True) * across
    wrong = replace(markers, positions=places)
    actor = ps.calibrate(human, wrong)
    assert "LANK" in actor.info["calibration"].left_out
    take = ps.track(actor, wrong)
    assert "not used: LANK" in take.report.verdict
    true = ps.track(ps.calibrate(human, markers), markers).motion
    ankles = [ps.forward(each.skeleton, each.poses).position("ankle.L") for each in (take.motion, true)]
    assert np.linalg.norm(ankles[0] - ankles[1], axis=-1).mean() < 0.02


def test_a_stray_at_the_position_of_a_marker_is_not_reported(markers):
    names = (*markers.names, "*0")
    places = np.concatenate([markers.positions, markers.positions[:, :1]], axis=1)
    found = screen(ps.Markers(names, places, markers.fps, markers.up))
    assert found.columns is None
    assert found.notes == ()
