"""Uncertainty of a pose against the spread of poses solved for markers with random noise."""

from dataclasses import replace

import numpy as np
import pytest

import posable as ps
from posable.mocap.take import uncertainty_of


def figure():
    """An arm with two markers on each bone, away from its axis, and one on the hand."""
    places = [("shoulder", 0.1, 0.05), ("shoulder", 0.25, -0.04), ("elbow", 0.1, 0.04), ("elbow", 0.2, -0.05)]
    limb = ps.figures.limb()
    sites = [ps.Site(f"M{k}", joint, (x, y, 0.03 * (-1) ** k)) for k, (joint, x, y) in enumerate(places)]
    return limb.replace(sites=[*limb.sites, *sites]), [site.name for site in sites]


def test_deviation_is_the_spread_of_noisy_solves():
    skeleton, names = figure()
    pose = np.clip(skeleton.rest + 0.4, skeleton.lower + 0.2, skeleton.upper - 0.2)
    at = ps.forward(skeleton, pose)
    noise, rng = 1e-3, np.random.default_rng(0)
    goals = [ps.goals.Position(n, at.position(n) + noise * rng.normal(size=(800, 3)), tolerance=1e-9) for n in names]
    goals.append(ps.goals.Posture(pose=pose, weight=1e-9))
    spread = ps.solve(skeleton, goals, start=pose, limits=False).pose.std(axis=0)
    motion = ps.Motion(skeleton, pose[None], 60.0)
    told = uncertainty_of(motion, names, np.full((1, len(names)), noise), noise=noise)
    known = np.isfinite(told.deviation[0])
    assert known.sum() >= 4
    assert np.allclose(told.deviation[0, known], spread[known], rtol=0.15)
    assert np.allclose(np.sqrt(np.diag(told.covariance(0)))[known], told.deviation[0, known])
    assert {name for name in told.undetermined if name.startswith("wrist")} == {"wrist.x", "wrist.y", "wrist.z"} & set(
        skeleton.dof_names
    )


def test_a_take_says_what_its_markers_do_not_determine():
    skeleton, names = figure()
    rng = np.random.default_rng(1)
    wave = 0.3 * np.sin(np.linspace(0.0, 6.0, 50))[:, None]
    poses = np.clip(skeleton.rest + 0.5 + wave, skeleton.lower, skeleton.upper)
    at = ps.forward(skeleton, poses)
    positions = np.stack([at.position(name) for name in names], axis=1)
    markers = ps.Markers(tuple(names), positions + 5e-4 * rng.normal(size=positions.shape), 60.0)
    take = ps.track(skeleton, markers)
    assert take.uncertainty.deviation.shape == (50, skeleton.size)
    assert 2e-4 < take.uncertainty.noise < 2e-3
    assert "not determined by the markers: wrist" in str(take.report)
    assert not any(name.startswith(("shoulder", "elbow")) for name in take.uncertainty.undetermined)


def test_frames_without_markers_are_not_known():
    skeleton, names = figure()
    motion = ps.Motion(skeleton, np.tile(skeleton.rest, (3, 1)), 60.0)
    errors = np.full((3, len(names)), 1e-3)
    errors[1] = np.nan
    told = uncertainty_of(motion, names, errors)
    assert np.isnan(told.deviation[1]).all()
    assert told.noise == pytest.approx(1e-3, rel=1.0)
    assert len(uncertainty_of(motion, names, errors, most=2).frames) == 2


def test_markers_named_like_sites_with_a_prefix_are_found(human, markers):
    """Mixamo's bones have a colon in their names, and so may sites on them."""
    sites = [replace(site, name=f"mixamorig:{site.name}") for site in human.sites]
    named = replace(markers, names=tuple(f"mixamorig:{name}" for name in markers.names))
    take = ps.track(human.replace(sites=sites), named)
    assert take.report.unmatched == ()
    assert take.report.mean < 1e-3
