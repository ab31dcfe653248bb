"""Which bone a marker sits on, from rigidity alone, against the answer by name."""

import warnings

import numpy as np
import pytest

import posable as ps
from posable.mocap.autolabel import MarkerTree, rigidity
from posable.mocap.marker_sets import base_name

from .conftest import NAMES


def nameless(markers, seed=0):
    """Return the markers in another order under names that say nothing, and {new name: old name}."""
    order = np.random.default_rng(seed).permutation(len(markers.names))
    names = [f"m{k:02d}" for k in range(len(order))]
    hidden = ps.Markers(names, markers.positions[:, order], markers.fps, markers.up)
    return hidden, {name: base_name(markers.names[k]) for name, k in zip(names, order, strict=True)}


def agreement(actor, by_name, old):
    """Return the parts of the markers on the same bone as by name, and on the same or a neighbouring one."""
    parent = {joint.name: joint.parent for joint in actor.joints}
    mine, theirs = actor.info["calibration"].markers, by_name.info["calibration"].markers
    same = near = count = 0
    for new, name in old.items():
        if name not in theirs:
            continue
        a, b = mine[new][0] if new in mine else None, theirs[name][0]
        count += 1
        same += a == b
        near += a == b or parent.get(a) == b or parent.get(b) == a
    return same / count, near / count


@pytest.fixture(scope="module")
def lively(human):
    """A motion of 300 frames in which every joint goes to where it has most room."""
    rng = np.random.default_rng(11)
    seconds = np.arange(300) / 120.0
    poses = np.tile(human.rest, (len(seconds), 1))
    above, below = human.upper - human.rest, human.rest - human.lower
    for i in range(6, human.size):
        room = above[i] if above[i] >= below[i] else -below[i]
        phase, speed = rng.uniform(0.0, 2.0 * np.pi), rng.uniform(0.4, 1.2)
        swing = 0.5 * (1.0 - np.cos(2.0 * np.pi * speed * seconds + phase))
        poses[:, i] += np.clip(room, -0.8, 0.8) * swing
    poses[:, :6] += 0.4 * np.sin(np.outer(seconds, rng.uniform(1.0, 3.0, 6)))
    return ps.Motion(human, np.clip(poses, human.lower, human.upper), 120.0)


@pytest.fixture(scope="module")
def markers(human, lively):
    frames = ps.forward(human, lively.poses)
    return ps.Markers(NAMES, np.stack([frames.position(name) for name in NAMES], axis=1), 120.0, "y")


def generic(figure):
    return figure.replace(sites=[site for site in figure.sites if site.name not in NAMES])


@pytest.mark.parametrize("seed", [0, 1])
def test_a_made_up_take_without_names(human, markers, seed):
    hidden, old = nameless(markers, seed)
    actor, by_name = ps.calibrate(generic(human), hidden), ps.calibrate(generic(human), markers)
    same, near = agreement(actor, by_name, old)
    assert same >= 0.7
    assert near >= 0.95
    take = ps.track(actor, hidden)
    assert take.report.mean < 0.008
    sides = {"L": 0, "R": 0}
    for new, name in old.items():
        bone = actor.info["calibration"].markers[new][0]
        if bone.endswith((".L", ".R")) and name[0] in "LR" and name not in ("LBHD", "LFHD", "RBHD", "RFHD"):
            sides[bone[-1]] += 1 if bone[-1] == name[0] else -1000
    assert min(sides.values()) > 5


def test_a_figure_of_another_size_and_axes(human, lively):
    small = ps.figures.human(height=1.35)
    frames = ps.forward(small, lively.poses)
    places = np.stack([frames.position(name) for name in NAMES], axis=1)
    turned = np.stack([places[..., 0], -places[..., 2], places[..., 1]], axis=-1)
    hidden, _ = nameless(ps.Markers(NAMES, turned, 120.0, "z"), 3)
    actor = ps.calibrate(generic(human), hidden)
    assert actor.info["calibration"].scale == pytest.approx(1.35 / 1.8, rel=0.1)
    assert ps.track(actor, hidden).report.mean < 0.008


def test_gaps_and_strays_do_not_matter(human, markers):
    rng = np.random.default_rng(5)
    places = markers.positions.copy()
    places[rng.random(places.shape[:2]) < 0.2] = np.nan
    stray = np.cumsum(rng.normal(0.0, 0.05, (len(markers), 1, 3)), axis=0)
    unseen = np.full((len(markers), 1, 3), np.nan)
    holed = ps.Markers((*NAMES, "stray", "unseen"), np.concatenate([places, stray, unseen], axis=1), 120.0, "y")
    hidden, old = nameless(holed, 2)
    actor = ps.calibrate(generic(human), hidden)
    _, near = agreement(actor, ps.calibrate(generic(human), markers), old)
    assert near >= 0.95
    assert {old[name] for name in actor.info["calibration"].left_out} >= {"stray", "unseen"}


def test_the_tree_has_the_shape_of_the_body(markers):
    tree = MarkerTree(rigidity(markers.positions))
    assert len(tree.edges) == 40
    ends = {NAMES[tip][1:] for tip in tree.tips()}
    assert ends <= {"TOE", "MT5", "HEE", "FIN", "WRA", "WRB", "FHD", "BHD"}


def test_no_body_is_a_wrong_call(human):
    cloud = np.cumsum(np.random.default_rng(0).normal(0.0, 0.3, (50, 20, 3)), axis=0)
    with pytest.raises(ps.PosableError, match="attachments"):
        ps.calibrate(human, ps.Markers([f"m{k}" for k in range(20)], cloud, 120.0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.files({"walk.c3d": "walk.asf", "hdm05/HDM_dg_06-03_03_120.c3d": "HDM_dg.asf", "cmu/02_01.c3d": "02.asf"})
def test_takes_without_names(path, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skeleton, markers = ps.load(path.with_name(expected)).skeleton, ps.load(path).markers
    hidden, old = nameless(markers)
    actor = ps.calibrate(skeleton, hidden)
    same, near = agreement(actor, ps.calibrate(skeleton, markers), old)
    assert same >= 0.7
    assert near >= 0.95
    assert ps.track(actor, hidden).report.mean < 0.006
