"""Markers that fell off and were put back elsewhere, and those that only vanished for a while."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.mocap.gaps import stretches
from posable.mocap.recognise import Displaced, fallen_off


def joints(motion):
    frames = ps.forward(motion.skeleton, motion.poses)
    return np.stack([frames.position(name) for name in motion.skeleton.names], axis=1)


@pytest.fixture(scope="module")
def clean(human, markers):
    return joints(ps.track(ps.calibrate(human, markers), markers).motion)


def put_back(human, dance, markers, name, shift, start, end):
    """Return a take in which a marker is missing in some frames, and elsewhere on its bone after them."""
    places = markers.positions.copy()
    k, site = markers.index(name), next(site for site in human.sites if site.name == name)
    there = ps.forward(human, dance.poses).convert(np.asarray(site.offset) + shift, from_=site.joint)
    places[start:end, k] = np.nan
    places[end:, k] = there[end:]
    return replace(markers, positions=places)


def test_stretches_end_at_long_gaps_and_at_jumps():
    seen = np.ones(400, dtype=bool)
    seen[[50, 51]] = False  # short
    seen[100:140] = False
    seen[390:] = False
    assert stretches(seen, [], 120.0) == [(0, 100), (140, 390)]
    assert stretches(seen, [(200, 300)], 120.0) == [(0, 100), (140, 200), (200, 300), (300, 390)]
    assert stretches(seen, [(385, 400)], 120.0) == [(0, 100), (140, 385)]  # too short to say anything


@pytest.mark.parametrize("name", ["LKNE", "RELB", "LFWT", "LANK", "RSHO", "LWRA"])
def test_a_marker_that_was_put_back_elsewhere_is_left_out_from_then_on(human, dance, markers, clean, name):
    spoilt = put_back(human, dance, markers, name, [0.03, 0.04, 0.03], 140, 170)
    actor = ps.calibrate(human, spoilt)
    take = ps.track(actor, spoilt)
    for said in (actor.info["calibration"].notes, take.report.repairs):
        assert any(f"{name} is" in line and "from its position on its bone in frames 170-239" in line for line in said)
    assert np.linalg.norm(joints(take.motion) - clean, axis=-1).mean() < 0.003
    assert np.isnan(take.errors[170:, take.names.index(name)]).all()


def test_the_place_that_the_actor_has_counts(human, dance, markers, clean):
    spoilt = put_back(human, dance, markers, "LKNE", [0.03, 0.04, 0.03], 40, 60)  # elsewhere for most of the take
    take = ps.track(ps.calibrate(human, markers), spoilt)
    assert any("LKNE is" in line and "in frames 60-239" in line for line in take.report.repairs)
    assert np.linalg.norm(joints(take.motion) - clean, axis=-1).mean() < 0.003


def test_markers_that_only_vanish_for_a_while_are_where_they_were(human, markers):
    places = markers.positions.copy()
    for k in range(places.shape[1]):
        places[100 + k : 130 + k, k] = np.nan
    holed = replace(markers, positions=places)
    actor = ps.calibrate(human, holed)
    said = f"{actor.info['calibration']}\n{ps.track(actor, holed).report}"
    assert "elsewhere" not in said


def test_a_limb_does_not_lose_all_of_its_markers_at_once(human):
    names = ("LTHI", "LKNE", "LSHN", "LANK", "LHEE", "LTOE", "RTHI", "RKNE", "LELB")
    one = [Displaced("RKNE", 100, 240, 0.05), Displaced("LELB", 100, 240, 0.05)]
    limb = [Displaced(name, 0, 30, 0.05) for name in ("LTHI", "LKNE", "LSHN", "LANK")]
    assert fallen_off([*limb, *one], human, names) == one
    later = [replaced._replace(start=30 * k, end=30 * k + 30) for k, replaced in enumerate(limb)]
    assert fallen_off(later, human, names) == later
