"""Samples that no camera saw, made from a take in which every sample was."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.mocap.screen import find_unseen, screen


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
    assert "RFRM is in the place of RELB in 60 frames" in said


def test_two_labels_on_one_marker_throughout_are_a_reason_to_check(human, markers):
    places = markers.positions.copy()
    places[:, markers.index("RWRA")] = places[:, markers.index("RWRB")]
    twice = replace(markers, positions=places)
    report = ps.track(ps.calibrate(human, twice), twice).report
    assert not report.ok
    assert "RWRA and RWRB are one marker" in report.verdict


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


def test_a_marker_that_is_no_marker_of_the_actor_is_not_used(human, markers):
    lying = spoilt(markers, "LANK", freeze(slice(0, len(markers))))
    actor = ps.calibrate(human, lying)
    assert actor.info["calibration"].left_out == ("LANK",)
    assert any("not used at all: LANK" in note for note in actor.info["calibration"].notes)
    report = ps.track(actor, lying).report
    assert report.mean < 0.005
    assert "not used: LANK" in report.repairs[0]


def test_a_stray_in_the_place_of_a_marker_is_not_worth_a_word(markers):
    names = (*markers.names, "*0")
    places = np.concatenate([markers.positions, markers.positions[:, :1]], axis=1)
    found = screen(ps.Markers(names, places, markers.fps, markers.up))
    assert found.columns is None
    assert found.notes == ()
