"""Markers whose labels are wrong or say nothing, against the labels that they were given."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.mocap.recognise import Labels, Places, mislabelled, strays

ARM = ["RSHO", "RUPA", "RELB", "RFRM", "RWRA", "RWRB", "RFIN"]


def relabelled(markers, names, order):
    """Return markers in which the labels of names are on the markers of names[order]."""
    places = markers.positions.copy()
    columns = np.array([markers.index(name) for name in names])
    places[:, columns] = places[:, columns[order]]
    return replace(markers, positions=places)


def joints(take):
    frames = ps.forward(take.motion.skeleton, take.motion.poses)
    return np.stack([frames.position(name) for name in take.motion.skeleton.names], axis=1)


@pytest.fixture(scope="module")
def clean(human, markers):
    return joints(ps.track(ps.calibrate(human, markers), markers))


def test_right_labels_are_left_alone(human, markers):
    assert mislabelled(human, markers.names, markers.positions) == []


def test_labels_of_a_figure_that_is_not_a_body_are_left_alone(markers):
    assert mislabelled(ps.figures.panda(), markers.names, markers.positions) == []


def test_a_limb_costs_least_with_its_own_labels(human, markers):
    places = Places(human)
    labels = Labels(places, markers.positions, {markers.index(name): i for i, name in enumerate(places.names)})
    assert labels.scale == pytest.approx(1.0, abs=0.02)
    assert labels.improve(0.0) == []


@pytest.mark.parametrize("order", [[0, 1, 3, 2, 4, 5, 6], [6, 0, 1, 2, 3, 4, 5]])
def test_labels_of_an_arm_on_other_markers_in_the_whole_take(human, markers, clean, order):
    wrong = relabelled(markers, ARM, np.array(order))
    actor = ps.calibrate(human, wrong)
    take = ps.track(actor, wrong)
    assert np.linalg.norm(joints(take) - clean, axis=-1).mean() < 1e-9
    assert "throughout the take" in str(actor.info["calibration"])
    assert take.report.verdict == "plausible after repairs"
    assert "RELB is" in take.report.repairs[0]


def test_labels_are_not_touched_where_attachments_are_given(human, markers):
    wrong = relabelled(markers, ["RELB", "RFRM"], np.array([1, 0]))
    given = {"RELB": "elbow.R", "RFRM": "shoulder.R"}
    actor = ps.calibrate(human, wrong, given)
    assert "whole take" not in str(actor.info["calibration"])
    assert actor.info["calibration"].markers["RELB"][0] == "elbow.R"


def test_markers_without_labels_give_the_joints_of_those_with_labels(human, markers, clean):
    order = np.random.default_rng(3).permutation(len(markers.names))
    names = [f"M{i:02d}" for i in range(len(order))]
    unnamed = ps.Markers(names, markers.positions[:, order], markers.fps, markers.up)
    actor = ps.calibrate(human, unnamed)
    take = ps.track(actor, unnamed)
    assert np.linalg.norm(joints(take) - clean, axis=-1).mean() < 0.005
    found = actor.info["calibration"]
    assert set(found.markers) == set(names)
    assert found.recognised > 0.8
    assert "confidence" in found.notes[0]


def test_an_actor_recognised_with_doubt_is_a_reason_to_check(human, markers):
    actor = ps.calibrate(human, markers)
    found = replace(actor.info["calibration"], recognised=0.5)
    take = ps.track(actor.replace(info={**actor.info, "calibration": found}), markers)
    assert not take.report.ok
    assert "only 50% of the markers" in take.report.verdict


def test_a_set_that_is_not_recognised_keeps_its_bones_and_is_doubted(human, markers, monkeypatch):
    monkeypatch.setattr("posable.mocap.calibrate.WORSE", 0.0)
    names = [f"M{i:02d}" for i in range(len(markers.names))]
    unnamed = ps.Markers(names, markers.positions, markers.fps, markers.up)
    found = ps.calibrate(human, unnamed).info["calibration"]
    assert found.recognised == 0.0
    assert "0 of 41 markers" in found.notes[0]
    assert set(found.markers) <= set(names)


@pytest.mark.parametrize("factor", [0.1, 1.0, 10.0, 100.0])
def test_a_wrong_unit_makes_no_marker_a_stray(human, markers, factor):
    assert strays(human, markers.names, factor * markers.positions, 0.0) == []


def test_a_marker_that_moves_by_itself_is_a_stray(human, markers):
    places = markers.positions.copy()
    places[:, markers.index("RELB")] = places[:, markers.index("LTOE")] + [0.0, 0.0, 0.1]
    assert strays(human, markers.names, places, 0.0) == [markers.index("RELB")]
