"""Whole takes, recorded and made: what the benchmark measures, held to its figures with some room."""

import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest

import posable as ps
from posable.mocap.foot_contacts import find_contacts

pytestmark = pytest.mark.filterwarnings("ignore::posable.PosableWarning")


def load(path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ps.load(path, **options)


# markers: file of the skeleton and noise to add [m]; recordings have their own
WALKS = {"walk.c3d": ("walk.asf", 0.001), "cmu/02_01.c3d": ("02.asf", 0.0)}


def track_walk(path, skeleton, noise):
    """Return the actor, the markers and the take of a walk, from its C3D and ASF alone."""
    markers = load(path).markers
    noisy = markers.positions + np.random.default_rng(2).normal(0.0, noise, markers.positions.shape)
    markers = ps.Markers(markers.names, noisy, markers.fps, up=markers.up)
    actor = ps.calibrate(load(path.with_name(skeleton)).skeleton, markers)
    return actor, markers, ps.track(actor, markers)


@pytest.fixture(scope="module")
def walk(path, expected):
    return track_walk(path, *expected)


@pytest.fixture(scope="module")
def own_walk(fixtures):
    return track_walk(fixtures / "walk.c3d", *WALKS["walk.c3d"])[2].motion


@pytest.fixture(scope="module")
def recorded_walk(data_dir):
    return track_walk(data_dir / "cmu" / "02_01.c3d", *WALKS["cmu/02_01.c3d"])[2].motion


@pytest.mark.files(WALKS)
def test_a_walk_is_tracked_within_millimetres(walk):
    actor, _, take = walk
    assert take.report.mean < 0.006
    assert take.report.count(2) == 0
    assert ((take.motion.poses >= actor.lower) & (take.motion.poses <= actor.upper)).all()
    assert np.abs(np.diff(take.motion.poses, axis=0)).max() * take.motion.fps < 24.0


def check_feet_do_not_slip(walk, figure):
    result = ps.retarget(walk, figure)
    toes = sum(point not in result.mapping["ankle.L"] + result.mapping["ankle.R"] for point in result.contacts.points)
    assert len(result.contacts.steps()) >= (8 if toes else 5)  # five stands; with toes, those of the toes too
    assert result.contacts.slips(result).max() < 0.005
    box = result.skeleton
    assert ((result.poses >= box.lower - 1e-9) & (result.poses <= box.upper + 1e-9)).all()


@pytest.mark.files("humanoid/humanoid.urdf", "gltf/khronos_CesiumMan.glb", "urdf/erd_talos_reduced.urdf")
def test_a_walk_goes_to_other_figures_and_feet_do_not_slip(own_walk, path):
    check_feet_do_not_slip(own_walk, load(path).skeleton)


@pytest.mark.parametrize("file", ["gltf/khronos_CesiumMan.glb", "urdf/erd_talos_reduced.urdf", ""])
def test_a_recorded_walk_goes_to_other_figures_and_feet_do_not_slip(recorded_walk, data_dir, file):
    check_feet_do_not_slip(recorded_walk, load(data_dir / file).skeleton if file else ps.figures.human())


@pytest.mark.files("walk.amc", "cmu/16_15.amc")
@pytest.mark.parametrize("noise", [0.002, 0.01])
def test_feet_stand_in_a_noisy_walk_that_is_smoothed(path, noise):
    walk = load(path).motion
    figure = walk.skeleton
    clean = find_contacts(walk)
    poses = walk.poses.copy()
    poses[:, 6:] += np.random.default_rng(1).normal(0.0, noise, (len(poses), figure.size - 6))
    noisy = ps.Motion(figure, poses, walk.fps)
    found = find_contacts(noisy)
    assert (found.standing & clean.standing).sum() > 0.9 * clean.standing.sum()
    assert found.slips(ps.smooth(noisy)).max() < 0.005


def test_erleben_andrews_2018s_protocol(data_dir, monkeypatch):
    """f < 1e-2 cm^2 in 99% of the frames and half a centimetre of summed error, ten iterations a frame."""
    from posable.mocap.frame_solver import FrameOptions, FrameSolver

    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[2])
    take = importlib.import_module("benchmarks.real_frames").load_takes(data_dir, only=("none",))["workout"]
    targets, points = take.targets, take.points
    assert take.size == 58
    poses = np.empty((len(targets), 58))
    options = FrameOptions(max_iterations=10, energy_tolerance=0.5e-6, min_gain=1e-9, damping=1e-2, half_turn_ratio=4.0)
    errors, notes = FrameSolver(take.problem, limits=False)(
        options, poses, targets=targets, points=points, last=np.zeros(58)
    )
    assert 100 * errors.sum(axis=1).mean() < 0.5
    assert np.mean(np.square(100 * errors).sum(axis=1) < 1e-2) > 0.99
    assert notes[:, 1].max() <= 10


def test_a_take_as_a_user_tracks_it(data_dir):
    figure = load(data_dir / "hdm05" / "HDM_dg.asf").skeleton
    markers = load(data_dir / "hdm05" / "HDM_dg_06-03_03_120.c3d").markers
    actor = ps.calibrate(figure, markers)
    take = ps.track(actor, markers)
    assert take.report.mean < 0.010
    assert take.report.count(2) == 0
    amc = load(data_dir / "hdm05" / "HDM_dg_06-03_03_120.amc", skeleton=figure).motion
    bends = [np.abs(np.diff(np.unwrap(poses, axis=0), n=2, axis=0)).mean() for poses in (amc.poses, take.motion.poses)]
    assert bends[1] < bends[0]


@pytest.mark.files(WALKS)
def test_a_smoothed_take_is_calmer_and_its_feet_stand(walk, path):
    actor, markers, take = walk
    rough, smooth = take.motion, ps.track(actor, markers, smooth=0.05).motion
    bends = [np.abs(np.diff(motion.poses, n=2, axis=0)).mean() for motion in (rough, smooth)]
    assert bends[1] < (1.0 if path.name == "walk.c3d" else 0.7) * bends[0]  # at 30 Hz most of it is the walk itself
    contacts = find_contacts(rough)
    assert len(contacts.steps()) >= 8
    assert contacts.slips(smooth).max() < 0.005
