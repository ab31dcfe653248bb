"""The synthetic walk of tests/fixtures through calibration, tracking, smoothing and retargeting."""

import numpy as np
import pytest

import posable as ps
from posable.mocap.foot_contacts import find_contacts


@pytest.fixture(scope="module")
def walk(fixtures):
    return ps.load(fixtures / "walk.amc").motion


@pytest.fixture(scope="module")
def take(fixtures):
    markers = ps.load(fixtures / "walk.c3d").markers
    actor = ps.calibrate(ps.figures.human(), markers)
    return actor, markers, ps.track(actor, markers)


def test_markers_are_met_and_the_gap_is_bridged(take):
    actor, markers, tracked = take
    assert tracked.report.mean < 0.005
    assert np.isnan(tracked.errors[20:25, 3]).all()
    path = ps.forward(actor, tracked.motion.poses).position(markers.names[3])
    beside = np.diff(markers.positions[:, 2], n=2, axis=0)  # on the same rigid head, and always seen
    assert np.abs(np.diff(path, n=2, axis=0)).max() < 1.5 * np.abs(beside).max()
    assert ((tracked.motion.poses >= actor.lower) & (tracked.motion.poses <= actor.upper)).all()


def test_the_actor_is_as_long_as_the_one_who_walked(take):
    actor, _, _ = take
    rest = ps.forward(actor, actor.rest)
    same = ps.forward(ps.figures.human(), ps.figures.human().rest)
    for upper, lower in (("hip.L", "knee.L"), ("knee.R", "ankle.R"), ("shoulder.L", "elbow.L")):
        lengths = [np.linalg.norm(f.position(upper) - f.position(lower)) for f in (rest, same)]
        assert lengths[0] == pytest.approx(lengths[1], abs=0.01)


def test_feet_stand_after_smoothing(walk):
    contacts = find_contacts(walk)
    assert len(contacts.steps()) >= 4
    assert contacts.slips(ps.smooth(walk)).max() < 0.01


def test_the_walk_on_another_figure_keeps_its_limits(walk):
    tall = ps.figures.human(height=2.0)
    result = ps.retarget(walk, tall)
    assert ((result.poses >= tall.lower - 1e-9) & (result.poses <= tall.upper + 1e-9)).all()
    travelled = np.ptp(ps.forward(tall, result.poses).position("pelvis")[:, 2])
    assert travelled == pytest.approx(
        np.ptp(ps.forward(walk.skeleton, walk.poses).position("root")[:, 2]) * 2.0 / 1.8, rel=0.1
    )
