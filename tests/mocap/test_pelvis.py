"""Hips by regression and by motion, against figures whose hips are known."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps
from posable.mocap.pelvis import SURE, ball_center, cluster_frames, find_hips
from posable.model.body_plan import body_plan


def caps(rng, center, width, height, count=200):
    """Return paths (count, 2, 3) of two markers on spheres about a centre, in a patch of two half angles [rad]."""
    out = np.empty((count, 2, 3))
    for k, radius in enumerate((0.2, 0.4)):
        a, b = rng.uniform(-width, width, count), rng.uniform(-height, height, count)
        out[:, k] = center + radius * np.stack([np.sin(a), np.sin(b) * np.cos(a), -np.cos(a) * np.cos(b)], axis=-1)
    return out


@given(st.integers(0, 1000), st.floats(0.3, 0.8), st.floats(0.25, 0.8))
def test_the_centre_of_a_ball_is_found(seed, width, height):
    rng = np.random.default_rng(seed)
    center = rng.uniform(-0.2, 0.2, 3)
    paths = caps(rng, center, width, height)
    paths[rng.random(200) < 0.05] = np.nan
    found, spread = ball_center(paths, center + 0.05 * rng.normal(size=3))
    assert np.linalg.norm(found - center) < 1e-4
    assert spread == pytest.approx(SURE, rel=0.6)


def test_a_narrow_band_says_little():
    """A leg that swings in one plane leaves the centre open across it: its spread says so."""
    rng = np.random.default_rng(1)
    _, wide = ball_center(caps(rng, np.zeros(3), 0.6, 0.6), np.zeros(3))
    _, narrow = ball_center(caps(rng, np.zeros(3), 0.6, 0.06), np.zeros(3))
    assert wide == pytest.approx(SURE)
    assert narrow > 0.5


def test_too_few_frames_have_no_centre():
    assert ball_center(np.full((100, 2, 3), np.nan), np.zeros(3)) is None


def test_hips_lower_and_wider_than_the_figures_are_found(human, dance):
    """The markers of a person whose hips are 3 cm lower and 1 cm further apart than the figure's."""
    shift = {"hip.L": (0.01, -0.03, 0.0), "hip.R": (-0.01, -0.03, 0.0)}
    joints = [replace(j, offset=np.asarray(j.offset) + shift.get(j.name, 0.0)) for j in human.joints]
    person = human.replace(joints=joints)
    poses = dance.poses.copy()
    for name in ("hip.L", "hip.R"):  # a star: forward, back and aside
        where = person.index(name)
        phase = np.linspace(0.0, 4.0 * np.pi, len(poses))
        poses[:, where.start] = -0.4 + 0.5 * np.sin(phase)
        poses[:, where.start + 1] = 0.2 * np.cos(1.7 * phase)
    frames = ps.forward(person, poses)
    names = [site.name for site in human.sites if site.name.isupper()]
    markers = ps.Markers(names, np.stack([frames.position(name) for name in names], axis=1), 120.0, "y")
    actor = ps.calibrate(human, markers)
    found = ps.forward(actor, ps.track(actor, markers, threads=1).motion.poses)
    for name in ("hip.L", "hip.R", "knee.L", "knee.R"):
        assert np.linalg.norm(found.position(name) - frames.position(name), axis=-1).mean() < 0.010


def test_a_figure_without_markers_in_front_of_its_pelvis_has_no_hips_to_find(human):
    assert find_hips(body_plan(human), {"LKNE": "hip.L"}, {"LKNE": np.zeros((30, 3))}) is None


def test_thigh_markers_that_slide_do_not_move_the_hip(human, markers):
    """They keep their distances from a point, and it is not the hip: it is too far from where the pelvis has hips."""
    plan = body_plan(human)
    names = ["LFWT", "RFWT", "LBWT", "RBWT", "LTHI", "LKNE"]
    bones = {site.name: site.joint for site in human.sites if site.name in names}
    paths = {name: markers.positions[:, markers.index(name)].copy() for name in names}
    clean = find_hips(plan, bones, paths)
    assert "hip.L" in clean.centers
    swing = 0.15 * np.sin(np.linspace(0.0, 3.0, len(markers)))[:, None]
    for name in ("LTHI", "LKNE"):
        paths[name] += swing * [1.0, 0.3, 0.5]
    assert "hip.L" not in find_hips(plan, bones, paths).centers


def test_a_marker_that_is_never_seen_leaves_the_hips_to_the_figure(human, markers):
    names = ["LFWT", "RFWT", "LBWT", "RBWT"]
    bones = {site.name: site.joint for site in human.sites if site.name in names}
    paths = {name: markers.positions[:, markers.index(name)].copy() for name in names}
    paths["LFWT"][:] = np.nan
    assert find_hips(body_plan(human), bones, paths) is None
    paths["LFWT"][:100], paths["RFWT"][:100] = 0.0, np.nan  # never all at once
    assert find_hips(body_plan(human), bones, paths) is None
    for place in (paths["RFWT"][100:] * 0.0 + 1.0, paths["RFWT"][100:] * (0.0, 1.0, 0.0)):  # one place, one line
        assert find_hips(body_plan(human), bones, dict.fromkeys(names, place)) is None


def test_a_marker_that_is_elsewhere_for_a_while_does_not_move_the_centre():
    rng = np.random.default_rng(3)
    center = np.array([0.05, -0.1, 0.02])
    paths = caps(rng, center, 0.6, 0.6)
    paths[80:120, 1] = [1.0, 0.5, -0.3]  # a reflection in the room
    found, _ = ball_center(paths, center + 0.02)
    assert np.linalg.norm(found - center) < 1e-3


def test_frames_with_a_stray_marker_are_left_out_of_a_cluster():
    rng = np.random.default_rng(4)
    shape = np.array([[0.12, 0.0, 0.1], [-0.12, 0.0, 0.1], [0.05, 0.02, -0.1], [-0.05, 0.02, -0.1]])
    paths = np.array([shape @ turn.T for turn in Rotation.random(100, random_state=5).as_matrix()])
    paths += 1e-4 * rng.normal(size=paths.shape)
    paths[30:60, 2] += 0.4
    _, middles, found = cluster_frames(paths)
    assert np.array_equal(np.isnan(middles[:, 0]), (np.arange(100) >= 30) & (np.arange(100) < 60))
    gaps = np.linalg.norm(found[:, None] - found[None], axis=-1)
    assert np.allclose(gaps, np.linalg.norm(shape[:, None] - shape[None], axis=-1), atol=2e-3)
