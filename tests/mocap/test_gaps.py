"""Short gaps in markers, against paths that are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import posable as ps
from posable.mocap import gaps
from posable.mocap.gaps import SLOPE, column_medians, fill_short
from posable.mocap.take import MarkerSource

from .conftest import holed as with_holes

FRAMES = np.arange(60.0)


def lines(rng):
    """Return paths (60, 4, 3) that go straight at steady speeds."""
    return rng.normal(size=(4, 3)) + FRAMES[:, None, None] * 0.01 * rng.normal(size=(4, 3))


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(SLOPE + 1, 60 - SLOPE - 13))
def test_a_steady_path_is_continued(seed, length, start):
    paths = lines(np.random.default_rng(seed))
    holed = paths.copy()
    holed[start : start + length, 1] = np.nan
    filled = fill_short(holed, 12)
    assert np.allclose(holed, paths, atol=1e-12)
    assert filled.sum() == length
    assert filled[start : start + length, 1].all()


def test_a_bend_is_followed_better_than_by_a_line():
    path = np.stack([np.cos(0.1 * FRAMES), np.sin(0.1 * FRAMES), FRAMES], axis=-1)[:, None]
    holed = path.copy()
    holed[20:30] = np.nan
    fill_short(holed, 12)
    share = (np.arange(20, 30) - 19.0)[:, None] / 11.0
    line = (1.0 - share) * path[19, 0] + share * path[30, 0]
    assert np.abs(holed - path).max() < 0.3 * np.abs(line - path[20:30, 0]).max()


def test_long_gaps_and_ends_stay():
    paths = lines(np.random.default_rng(0))
    paths[20:35, 0] = np.nan  # too long
    paths[:4, 1] = np.nan
    paths[-4:, 2] = np.nan
    before = np.isnan(paths)
    assert not fill_short(paths, 12).any()
    assert np.array_equal(np.isnan(paths), before)


@given(st.integers(0, 1000), st.integers(1, 9))
def test_medians_leave_out_what_is_not_seen(seed, count):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, 6))
    values[1:][rng.random((count - 1, 6)) < 0.4] = np.nan
    np.testing.assert_array_equal(column_medians(values), np.nanmedian(values, axis=0))


def test_the_bend_of_a_gap_is_the_mean_of_a_motion_that_forgets_its_speed():
    """Against the regression of a Gaussian process of Matern's class 3/2 on place and speed at both ends."""
    length, memory = 12, 5.0

    def covariances(t, s):  # of the place at t with place and speed at s, and of the speed at t with both
        x = np.abs(t - s) / memory
        e, slope = np.exp(-x), (t - s) / memory**2
        return np.array([[(1.0 + x) * e, slope * e], [-slope * e, (1.0 - x) * e / memory**2]])

    ends = np.block([[covariances(t, s) for s in (0.0, length)] for t in (0.0, length)])
    rows = np.array([np.concatenate([covariances(t, s)[0] for s in (0.0, length)]) for t in range(1, length)])
    expected = rows @ np.linalg.inv(ends)
    left, right = gaps._speed_weights(length, memory)
    np.testing.assert_allclose(left, expected[:, 1], atol=1e-9)
    np.testing.assert_allclose(right, expected[:, 3], atol=1e-9)
    assert np.abs(gaps._speed_weights(200, memory)[0][100:]).max() < 1e-6  # forgotten in the middle of a long gap
    x = np.arange(1.0, length) / length
    left, right = gaps._speed_weights(length, 1e4)  # it never forgets: a cubic
    np.testing.assert_allclose(left, length * x * (1.0 - x) ** 2, atol=1e-3)
    np.testing.assert_allclose(right, -length * x * x * (1.0 - x), atol=1e-3)


LEG = ("THI", "KNE", "SHN", "ANK", "HEE", "TOE", "MT5")


@pytest.mark.parametrize("start", [60, 100, 150])
def test_an_arm_that_is_lost_does_not_drag_the_trunk_along(human, markers, start):
    """Lines of the lost markers are wrong, and the trunk has markers of its own."""
    lost = [markers.names.index("R" + name) for name in ("UPA", "ELB", "FRM", "WRA", "WRB", "FIN")]
    gone = np.zeros(markers.positions.shape[:2], dtype=bool)
    gone[start : start + 30, lost] = True
    poses = [ps.track(human, take, threads=1).motion.poses for take in (markers, with_holes(markers, gone))]
    whole, part = (ps.forward(human, each[start : start + 30]) for each in poses)
    for joint in ("spine3", "neck", "shoulder.L", "shoulder.R"):
        assert np.linalg.norm(whole.position(joint) - part.position(joint), axis=-1).max() < 0.008, joint


@pytest.mark.parametrize(("side", "gap"), [("R", slice(19, 33)), ("L", slice(34, 46))])
def test_a_foot_that_stands_before_and_after_a_gap_stands_in_it(human, fixtures, side, gap):
    """The body walks on over it: a leg that keeps its angles to the body takes the foot along by 9 to 14 cm."""
    walk = ps.load(fixtures / "walk.c3d").markers
    actor = ps.calibrate(human, walk)
    leg = [k for k, name in enumerate(walk.names) if name[0] == side and name[1:] in LEG]
    gone = np.zeros(walk.positions.shape[:2], dtype=bool)
    gone[gap, leg] = True
    poses = [ps.track(actor, take, threads=1).motion.poses for take in (walk, with_holes(walk, gone))]
    whole, part = (ps.forward(actor, each[gap]).position(f"ankle.{side}") for each in poses)
    assert np.linalg.norm(whole - part, axis=-1).max() < (0.07 if side == "R" else 0.11)


@pytest.mark.parametrize(("spins", "way"), [(0.75, 1.0), (0.75, -1.0), (0.4, 1.0)])
def test_a_body_that_spins_goes_on_in_a_gap_in_the_same_direction(human, markers, dance, spins, way):
    """Beyond half a turn the short way is the wrong one: a dancer would spin back in the gap."""
    poses = np.tile(dance.poses[:1], (len(dance), 1))
    gap, upright = slice(80, 152), human.index("root").start + 3
    poses[:, upright] += way * np.linspace(0.0, 2.0 * np.pi * spins * len(poses) / (72 + 1), len(poses))
    frames = ps.forward(human, poses)
    places = np.stack([frames.position(name) for name in markers.names], axis=1)
    places[gap] = np.nan
    motion = ps.track(human, ps.Markers(markers.names, places, 120.0, "y"), threads=1).motion
    found = ps.forward(human, motion.poses)
    turns = found.rotation("spine3")
    assert (turns[:-1].inv() * turns[1:]).magnitude().max() < 3.0 * 2.0 * np.pi * spins / 73
    for joint in ("wrist.L", "ankle.R", "skull"):
        assert np.linalg.norm(found.position(joint) - frames.position(joint), axis=-1).max() < 0.1, joint
    assert np.abs(np.diff(motion.poses, axis=0)).max() < 0.3  # and no angle jumps by a whole turn


def test_a_leg_that_is_lost_does_not_hold_back_a_body_that_spins(data_dir):
    """Lines of its markers lead through the body, which is seen and turns on; angles may differ by whole turns then."""
    motion = ps.load(data_dir / "bvh/threejs_pirouette.bvh").motion
    moving = [joint.name for joint in motion.skeleton.joints if joint.motion.dofs]
    sites = [ps.Site(f"{name}_{k}", name, 0.05 * np.eye(3)[k]) for name in moving for k in range(3)]
    figure = motion.skeleton.replace(sites=sites)
    frames = ps.forward(figure, motion.poses[1:320])  # a T pose precedes the motion
    markers = ps.Markers(
        tuple(s.name for s in sites), np.stack([frames.position(s.name) for s in sites], axis=1), 120.0
    )
    gone = np.zeros(markers.positions.shape[:2], dtype=bool)
    gone[30:270, [k for k, site in enumerate(sites) if site.joint in ("rThigh", "rShin", "rFoot")]] = True
    found = ps.forward(figure, ps.track(figure, with_holes(markers, gone), threads=1).motion.poses)
    for joint in ("hip", "head", "lFoot", "lHand"):
        assert np.linalg.norm(found.position(joint) - frames.position(joint), axis=-1).max() < 0.15, joint


def test_bones_that_are_seen_stay_on_their_markers_while_every_second_one_is_hidden(data_dir):
    """With fewer markers, joints make up for each other: their angles differ, and halfway they would not."""
    motion = ps.load(data_dir / "bvh/mixamo_test_freebvh.bvh").motion
    moving = [joint.name for joint in motion.skeleton.joints if joint.motion.dofs]
    sites = [ps.Site(f"{name}_{k}", name, 0.05 * np.eye(3)[k]) for name in moving for k in range(3)]
    figure, names = motion.skeleton.replace(sites=sites), tuple(site.name for site in sites)
    frames = ps.forward(figure, motion.poses)
    places = np.stack([frames.position(name) for name in names], axis=1)
    markers = ps.Markers(names, places + np.random.default_rng(0).normal(0.0, 3e-4, places.shape), motion.fps)
    gone = np.zeros(places.shape[:2], dtype=bool)
    gone[43:58, 1::2] = True
    found = ps.forward(figure, ps.track(figure, with_holes(markers, gone), threads=1).motion.poses)
    for joint in ("mixamorig:Hips", "mixamorig:Head", "mixamorig:LeftFoot", "mixamorig:RightHand"):
        assert np.linalg.norm(found.position(joint) - frames.position(joint), axis=-1).max() < 0.05, joint


def test_a_path_that_gains_speed_is_continued_exactly():
    times = np.arange(40.0)[:, None, None]
    path = np.concatenate([0.002 * times**2 - 0.05 * times, 0.01 * times, -0.001 * times**2], axis=2)
    holed = path.copy()
    holed[15:25] = np.nan
    fill_short(holed, 12, np.full(1, 1e-5))
    np.testing.assert_allclose(holed, path, atol=1e-5)


def test_noise_is_not_taken_for_a_gain_in_speed():
    rng = np.random.default_rng(8)
    noise = 0.005
    path = np.zeros((40, 200, 3)) + np.linspace(0.0, 1.0, 40)[:, None, None]
    seen = path + rng.normal(0.0, noise, path.shape)
    off = []
    for level in (None, np.full(200, noise)):
        holed = seen.copy()
        holed[15:25] = np.nan
        fill_short(holed, 12, level)
        off.append(np.abs(holed - path)[15:25].mean())
    assert off[1] < 0.75 * off[0]


@pytest.mark.parametrize("length", [1, 4, 12])
def test_jerky_paths_are_crossed_on_lines_and_smooth_ones_on_bends(length):
    """Cubics continue the speed beside a gap, which says nothing where each frame jerks; a line is better there."""
    rng = np.random.default_rng(4)
    times = np.arange(100.0)[:, None, None]
    smooth = np.concatenate([np.sin(0.08 * times + phase) for phase in (0.0, 1.0, 2.0)], axis=2) * np.ones((1, 200, 1))
    for jerks, most in ((0.0, 0.5), (0.2, 1.05)):
        path = smooth * (jerks == 0.0) + jerks * rng.normal(size=smooth.shape)
        holed, gap = path.copy(), slice(50, 50 + length)
        holed[gap] = np.nan
        fill_short(holed, 12)
        share = (np.arange(1, length + 1) / (length + 1.0))[:, None, None]
        line = (1.0 - share) * path[49] + share * path[50 + length]
        off, straight = (np.linalg.norm(each - path[gap], axis=-1).mean() for each in (holed[gap], line))
        assert off < most * straight


def test_how_short_gaps_are_filled_does_not_depend_on_where_the_take_is_cut(human, markers):
    gone = np.random.default_rng(3).random(markers.positions.shape[:2]) < 0.02
    gone[100:112, :5] = True
    source = MarkerSource(human, with_holes(markers, gone))
    whole, where = source.bridged(0, source.total)
    for start, end in ((90, 105), (103, 140), (111, 113)):
        part, filled = source.bridged(start, end)
        np.testing.assert_array_equal(part, whole[start:end])
        np.testing.assert_array_equal(filled, where[start:end])


@pytest.mark.parametrize("gone", [("LKNE",), ("RUPA", "LTHI"), ("LFWT",)])
def test_a_marker_that_is_hidden_stays_as_far_from_its_site_as_beside_the_gap(human, markers, gone):
    places = markers.positions + np.random.default_rng(2).normal(0.0, 0.01, (1, 41, 3))  # no marker is where it should
    whole = ps.Markers(markers.names, places, markers.fps, markers.up)
    hidden = np.zeros(places.shape[:2], dtype=bool)
    hidden[90:140, [markers.names.index(name) for name in gone]] = True
    hidden[120:160, markers.names.index("CLAV")] = True  # another gap begins in the first and ends after it
    seen, unseen = (ps.track(human, each, threads=1).motion.poses for each in (whole, with_holes(whole, hidden)))
    joints = [np.stack([ps.forward(human, poses).position(name) for name in human.names]) for poses in (seen, unseen)]
    off = np.linalg.norm(joints[1] - joints[0], axis=-1)
    assert off[:, 80:180].mean() < 3e-4
    assert off.max() < 5e-3
