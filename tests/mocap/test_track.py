"""Markers to motion on a take that is known exactly."""

import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.mocap import frame_solver
from posable.mocap.root_align import best_turn
from posable.mocap.take import BLIND, FAILED

from .conftest import NAMES, holed


def off(take, truth, human):
    frames, names = ps.forward(human, take.motion.poses), take.names
    model = np.stack([frames.position(name) for name in names], axis=1)
    return np.linalg.norm(model - truth.select(names).positions, axis=-1)


def test_clean_markers_are_met(human, markers):
    take = ps.track(human, markers)
    assert take.errors.shape == (240, 41)
    assert take.errors.mean() < 5e-4
    assert take.report.count(FAILED) == 0
    assert not take.report.outliers
    assert ((take.motion.poses >= human.lower) & (take.motion.poses <= human.upper)).all()
    assert "240 frames" in str(take.report)


def test_no_joint_jumps(human, dance, markers):
    take = ps.track(human, markers)
    theirs = np.abs(np.diff(dance.poses, axis=0)).max()
    assert np.abs(np.diff(take.motion.poses, axis=0)).max() < theirs + 0.1


def test_frozen_joints_stay_at_rest(human, markers):
    held = human.freeze("knee.L")
    take = ps.track(held, markers)
    assert (take.motion.poses[:, held.index("knee.L")] == held.rest[held.index("knee.L")]).all()


def test_a_dancer_who_spins_past_the_limits_of_the_root(human, dance, monkeypatch):
    """Seven turns, in a figure whose root is limited to two either way, in many pieces, and with a long gap."""
    monkeypatch.setattr("posable.mocap.track.CHUNK", 60)
    monkeypatch.setattr("posable.mocap.track.LEAD", 20)
    poses = dance.poses.copy()
    poses[:, human.index("root").start + 3] += np.linspace(-7.0 * np.pi, 7.0 * np.pi, len(poses))
    frames = ps.forward(human, poses)
    places = np.stack([frames.position(name) for name in NAMES], axis=1)
    places[100:130, NAMES.index("LFWT")] = np.nan
    take = ps.track(human, ps.Markers(NAMES, places, 120.0, "y"))
    assert np.nanmax(take.errors.mean(axis=1)) < 0.01
    assert ((take.motion.poses >= human.lower) & (take.motion.poses <= human.upper)).all()
    assert take.report.count(FAILED) == 0


def test_a_ball_joint_that_passes_half_a_turn_goes_on_as_it_was():
    """Its rotation vector comes back the other way round there; the joint does not."""
    joints = [
        ps.Joint("body", ps.Free("rotvec")),
        ps.Joint("arm", ps.Ball("rotvec"), parent="body", offset=(0.0, 0.3, 0.0)),
    ]
    body = [ps.Site(f"b{k}", "body", 0.2 * axis) for k, axis in enumerate(np.eye(3))]
    arm = [ps.Site(f"a{k}", "arm", 0.1 * axis) for k, axis in enumerate(np.eye(3))]
    figure = ps.Skeleton(joints, [*body, *arm[:2]], up="y")  # of the arm's turn about its length little is seen
    angle = np.linspace(0.0, 4.0 * np.pi, 400)
    poses = np.zeros((len(angle), figure.size))
    poses[:, 3:6] = np.outer(angle - 2.0 * np.pi * np.round(angle / (2.0 * np.pi)), [0.48, 0.36, 0.8])
    frames = ps.forward(figure, poses)
    names = [site.name for site in figure.sites]
    places = np.stack([frames.position(name) for name in names], axis=1)
    places[:, names.index("b0")] = np.nan
    motion = ps.track(figure, ps.Markers(names, places, 120.0, "y")).motion
    ours = ps.forward(figure, motion.poses)
    for joint in ("body", "arm"):
        turns = ours.rotation(joint)
        assert (turns[:-1].inv() * turns[1:]).magnitude().max() < 2.0 * (angle[1] - angle[0])


def test_few_frames_a_second_are_followed_too(human, markers):
    slow = ps.Markers(markers.names, markers.positions[::24], 5.0, "y")
    assert ps.track(human, slow).report.mean < 0.005


def test_the_same_bits_on_any_number_of_threads(human, markers, monkeypatch):
    monkeypatch.setattr("posable.mocap.track.CHUNK", 60)
    monkeypatch.setattr("posable.mocap.track.LEAD", 20)
    takes = [ps.track(human, markers, threads=threads) for threads in (1, 2, 5)]
    assert np.array_equal(takes[0].motion.poses, takes[1].motion.poses)
    assert np.array_equal(takes[0].motion.poses, takes[2].motion.poses)
    assert takes[0].errors.mean() < 1e-3


def test_threads_that_take_turns_all_the_time_change_nothing(human, markers, monkeypatch):
    """The pieces share one walker: what one piece tells it is not heard by another."""
    monkeypatch.setattr("posable.mocap.track.CHUNK", 12)
    monkeypatch.setattr("posable.mocap.track.LEAD", 4)
    monkeypatch.setattr("posable.mocap.track.FEW", 1)
    seen = np.arange(len(markers.names)) % 6 == 0  # few: what is not seen stays where a piece was caught
    few = holed(markers, np.tile(~seen, (len(markers), 1)))
    alone = ps.track(human, few, threads=1).motion.poses
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(8):
            assert np.array_equal(ps.track(human, few, threads=8).motion.poses, alone)
    finally:
        sys.setswitchinterval(interval)


def test_a_marker_hidden_for_half_a_second_comes_back_without_a_jump(human, markers):
    gone = np.zeros((240, 41), dtype=bool)
    k = markers.index("LELB")
    gone[90:150, k] = True
    take = ps.track(human, holed(markers, gone))
    assert off(take, markers, human)[gone].max() < 0.02
    assert np.isnan(take.errors[gone]).sum() == 60
    assert ("LELB", 90, 150) in take.report.gaps
    assert np.abs(np.diff(take.motion.poses, axis=0)).max() < 0.2


def test_a_third_of_the_markers_removed_at_random(human, markers):
    gone = np.random.default_rng(0).random((240, 41)) < 0.3
    take = ps.track(human, holed(markers, gone))
    assert np.median(off(take, markers, human)[gone]) < 0.01
    assert take.report.count(FAILED) == 0


def test_outliers_are_found_and_left_out(human, markers):
    places = markers.positions.copy()
    k = markers.index("RKNE")
    places[100:110, k] += (0.3, 0.0, 0.0)
    take = ps.track(human, ps.Markers(markers.names, places, 120.0, "y"))
    assert [outlier for outlier in take.report.outliers if outlier[0] == "RKNE"] == [("RKNE", 100, 110)]
    assert off(take, markers, human)[100:110].mean() < 5e-3


def test_a_short_gap_in_an_outlier_is_not_filled_with_it(human, markers):
    """What is interpolated between two outliers is one, too."""
    places = markers.positions.copy()
    knee = markers.index("LKNE")
    places[100:140, knee] += np.sin(np.linspace(0.0, np.pi, 40))[:, None] * [0.0, 0.0, 0.25]  # no jump: slides away
    whole = ps.track(human, replace(markers, positions=places))
    gone = places.copy()
    gone[118:122, knee] = np.nan
    take = ps.track(human, replace(markers, positions=gone))
    assert np.isnan(whole.errors[118:122, whole.names.index("LKNE")]).all()
    assert np.abs(take.motion.poses - whole.motion.poses)[110:130].max() < 1e-3


def test_solving_again_where_outliers_were_is_as_good_as_solving_the_whole_piece(human, markers, monkeypatch):
    """Only the frames from an outlier on are solved again, until the poses are what they were."""
    positions = markers.positions.copy()
    for k, frame in ((3, 20), (7, 21), (3, 90), (11, 200)):
        positions[frame : frame + 4, k] += (0.0, 0.4, 0.0)
    hurt = replace(markers, positions=positions)
    solved = []
    call = frame_solver.FrameSolver.__call__

    def counted(self, options, poses, **named):
        solved.append(len(poses))
        return call(self, options, poses, **named)

    monkeypatch.setattr(frame_solver.FrameSolver, "__call__", counted)
    take = ps.track(human, hurt, threads=1)
    assert sum(solved) < 1.9 * len(markers)  # twice before
    monkeypatch.setattr("posable.mocap.track.SAME", -1.0)  # never the same: on to the end
    whole = ps.track(human, hurt, threads=1)
    np.testing.assert_array_equal(np.isnan(take.errors), np.isnan(whole.errors))
    assert np.isnan(take.errors).sum() == 16
    assert np.abs(take.motion.poses - whole.motion.poses).max() < 5e-3


def test_errors_are_distances_of_the_sites_from_their_markers(human, dance, markers):
    solver = frame_solver.marker_frame_solver(human, NAMES)
    places = markers.select(NAMES).positions[:9].copy()
    places[4, 2] = np.nan
    frames = ps.forward(human, dance.poses[:9])
    model = np.stack([frames.position(name) for name in NAMES], axis=1)
    found = solver.measure(dance.poses[:9], places)
    np.testing.assert_allclose(found, np.linalg.norm(model - places, axis=-1), atol=1e-12)
    assert np.isnan(found).sum() == 1


def test_figures_are_laid_on_markers_as_scipy_does_it():
    rng = np.random.default_rng(3)
    source, target = rng.normal(size=(5, 12, 3)), rng.normal(size=(12, 3))
    turns, moves = best_turn(source, target)
    for points, turn, move in zip(source, turns, moves, strict=True):
        a, b = points.mean(axis=0), target.mean(axis=0)
        wanted = Rotation.align_vectors(target - b, points - a)[0].as_matrix()
        np.testing.assert_allclose(turn, wanted, atol=1e-9)
        np.testing.assert_allclose(move, b - wanted @ a, atol=1e-9)


def test_frames_that_show_nothing_are_marked_and_the_take_goes_on(human, markers):
    gone = np.zeros((240, 41), dtype=bool)
    gone[60:70] = True
    take = ps.track(human, holed(markers, gone))
    assert (take.report.statuses[60:70] == BLIND).all()
    assert np.nanmean(take.errors[80:]) < 2e-3
    assert np.isfinite(take.motion.poses).all()


def test_no_seen_marker_is_rejected_after_a_long_gap(human, markers):
    gone = np.zeros((240, 41), dtype=bool)
    gone[60:140] = True
    take = ps.track(human, holed(markers, gone))
    assert (take.report.statuses == BLIND).sum() == 80
    assert not take.report.outliers
    assert np.nanmean(take.errors[145:]) < 2e-3


def test_up_axis_and_subject_prefix_are_what_the_file_states(human, markers):
    turned = markers.positions @ np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], dtype=float).T
    turned = np.stack([markers.positions[..., 0], -markers.positions[..., 2], markers.positions[..., 1]], axis=-1)
    names = [f"Anna:{name}" for name in markers.names]
    take = ps.track(human, ps.Markers(names, turned, 120.0, "z"))
    assert take.errors.mean() < 1e-3


def test_another_solver_tracks_too(human, markers):
    short = ps.Markers(markers.names, markers.positions[:5], 120.0, "y")
    take = ps.track(human, short, solver="levenberg-marquardt")
    assert take.errors.mean() < 2e-3


def test_it_can_be_stopped_and_keeps_what_was_done(human, markers, monkeypatch):
    monkeypatch.setattr("posable.mocap.track.CHUNK", 60)
    monkeypatch.setattr("posable.mocap.track.LEAD", 20)
    seen = []
    take = ps.track(
        human, markers, threads=1, stop=lambda: len(seen) >= 2, progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(60, 240), (120, 240)]
    assert len(take.motion) == 120
    assert take.report.stopped


@pytest.mark.parametrize("threads", [1, 2])
def test_control_c_says_how_much_was_done_and_kept(threads):
    from posable.mocap.parallel import run_pieces

    def work(i):
        if i == 2:
            raise KeyboardInterrupt
        return i

    with pytest.warns(ps.PosableWarning, match=r"smoothing was interrupted after 20 of 40 frames, which are kept"):
        done = run_pieces(work, [10, 10, 10, 10], threads=threads, progress=None, stop=None, what="smoothing")
    assert done == [0, 1]


def test_markers_without_sites_are_a_wrong_call(human):
    with pytest.raises(ps.PosableError, match="calibrate"):
        ps.track(human, ps.Markers(("A", "B"), np.zeros((3, 2, 3)), 120.0))


def test_the_report_is_one_page(human, markers, tmp_path):
    take = ps.track(human, markers)
    take.report.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for word in ("Error over time", "Error of each marker", "Worst frames", "<svg", "Limits touched"):
        assert word in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")


def test_smoothing_lowers_accelerations_and_stays_near(human, markers):
    noisy = markers.positions + np.random.default_rng(1).normal(0.0, 0.003, markers.positions.shape)
    noisy = ps.Markers(markers.names, noisy, 120.0, "y")
    plain, smooth = ps.track(human, noisy), ps.track(human, noisy, smooth=0.1)
    bend = [np.abs(np.diff(take.motion.poses, n=2, axis=0)).mean() for take in (plain, smooth)]
    assert bend[1] < 0.3 * bend[0]
    assert off(smooth, markers, human).mean() < 0.006


def test_a_fixed_root_is_freed_if_the_markers_require_it():
    arm = ps.Skeleton(
        [
            ps.Joint("base", ps.Revolute("z")),
            ps.Joint("upper", ps.Revolute("x"), parent="base", offset=(0.0, 0.0, 0.5)),
        ],
        [ps.Site(f"{joint}{k}", joint, 0.3 * np.eye(3)[k]) for joint in ("base", "upper") for k in range(3)],
        up="z",
    )
    poses = 0.5 * np.sin(np.arange(60)[:, None] / 20.0 * [1.0, 2.0])
    frames = ps.forward(arm, poses)
    places = np.stack([frames.position(site) for site in arm.site_names], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        still = ps.track(arm, ps.Markers(arm.site_names, places, 60.0, "z"))
    assert still.motion.skeleton is arm
    assert still.report.mean < 1e-3
    with pytest.warns(ps.PosableWarning, match="moves freely"):
        moved = ps.track(arm, ps.Markers(arm.site_names, places + np.array([1.0, 0.5, 0.0]), 60.0, "z"))
    assert moved.report.mean < 1e-3
    assert moved.motion.skeleton.size == arm.size + 6
    assert "moves freely" in str(moved.report)


def test_calibrating_a_figure_with_a_fixed_root(human, markers):
    root = human.joints[0]
    bolted = human.replace(joints=[replace(root, motion=ps.Fixed(), limits=None, rest=0.0), *human.joints[1:]])
    with pytest.warns(ps.PosableWarning, match="moves freely"):
        actor = ps.calibrate(bolted, markers)
    assert actor.size == human.size
    assert ps.track(actor, markers).report.mean < 0.005


def test_what_a_file_does_not_hold_is_named(human):
    with pytest.raises(ps.PosableError, match=r"calibrate: expected Markers, .* got NoneType"):
        ps.calibrate(human, None)
    with pytest.raises(ps.PosableError, match=r"track: expected Markers, .* got NoneType"):
        ps.track(human, None)
    with pytest.raises(ps.PosableError, match=r"smooth: expected a Motion, .* got NoneType"):
        ps.smooth(None)
    with pytest.raises(ps.PosableError, match=r"retarget: expected a Motion, .* got Skeleton"):
        ps.retarget(human, human)


def test_a_bolted_figure_that_is_stopped_keeps_what_was_done(human, markers, monkeypatch):
    monkeypatch.setattr("posable.mocap.track.CHUNK", 60)
    monkeypatch.setattr("posable.mocap.track.LEAD", 20)
    root = human.joints[0]
    bolted = human.replace(joints=[replace(root, motion=ps.Fixed(), limits=None, rest=0.0), *human.joints[1:]])
    away = ps.Markers(markers.names, markers.positions + 1.0, markers.fps, markers.up)
    for pieces, kept in ((1, 60), (5, 240)):  # while it is bolted, and while it is tried loose
        seen = []
        take = ps.track(bolted, away, threads=1, stop=lambda: len(seen) >= pieces, progress=lambda *_: seen.append(0))  # noqa: B023
        assert len(seen) == pieces
        assert len(take.motion) == kept


@pytest.mark.parametrize("length", [4, 12, 60, 120])
@pytest.mark.parametrize("gone", ["all", "arm"])
def test_a_gap_is_crossed_no_worse_than_by_a_straight_line(human, dance, markers, length, gone):
    """Joints in a gap, against those tracked without it and straight lines across it."""
    start = 60
    arm = [markers.index(name) for name in ("RUPA", "RELB", "RFRM", "RWRA", "RWRB", "RFIN")]
    hidden = np.zeros(markers.positions.shape[:2], dtype=bool)
    hidden[start : start + length, slice(None) if gone == "all" else arm] = True
    take = ps.track(human, holed(markers, hidden))
    names = human.names if gone == "all" else ("elbow.R", "wrist.R")
    true, found = (
        np.stack([ps.forward(human, poses).position(name) for name in names], axis=1)
        for poses in (ps.track(human, markers).motion.poses, take.motion.poses)
    )
    share = np.linspace(0.0, 1.0, length + 2)[1:-1, None, None]
    line = (1.0 - share) * true[start - 1] + share * true[start + length]
    rows = slice(start, start + length)
    assert np.linalg.norm(found[rows] - true[rows], axis=-1).mean() < np.linalg.norm(line - true[rows], axis=-1).mean()
    speed = np.linalg.norm(np.diff(take.motion.poses[:, :3], axis=0), axis=1).max() * 120.0
    assert speed < 1.5 * np.linalg.norm(np.diff(dance.poses[:, :3], axis=0), axis=1).max() * 120.0


def test_a_marker_is_not_filled_for_a_moment_in_which_its_joint_is_loose(human, dance, markers):
    """The elbow's marker is gone for long, the rest of the arm for one frame: only that frame is guessed."""
    hidden = np.zeros(markers.positions.shape[:2], dtype=bool)
    hidden[80:140, markers.index("RELB")] = True
    hidden[110, [markers.index(name) for name in ("RUPA", "RFRM", "RWRA", "RWRB", "RFIN")]] = True
    take = ps.track(human, holed(markers, hidden))
    found, true = (ps.forward(human, poses).position("RELB")[80:140] for poses in (take.motion.poses, dance.poses))
    assert np.linalg.norm(found - true, axis=-1).max() < 0.01


def test_a_piece_goes_on_with_the_bend_of_the_one_before_though_another_is_a_little_nearer(monkeypatch):
    """Two links reach a point with the elbow up or down; a marker near the base is nearer in one, then the other."""
    monkeypatch.setattr("posable.mocap.track.CHUNK", 60)
    monkeypatch.setattr("posable.mocap.track.LEAD", 20)
    upper = ps.Joint("upper", ps.Revolute("z"), limits=(-3, 3))
    lower = ps.Joint("lower", ps.Revolute("z"), "upper", offset=(1, 0, 0), limits=(-2.5, 2.5))
    tips = [ps.Site(f"tip{i}", "lower", offset=(1, 0, 0)) for i in range(3)]
    times = np.arange(120) / 60.0
    up = np.stack([0.3 * np.sin(times), 1.0 + 0.2 * np.cos(times)], axis=1)
    down = np.stack([up.sum(axis=1), -up[:, 1]], axis=1)  # links of one length
    known = {"calibration_poses": np.array([up[0], down[40]])}
    arm = ps.Skeleton([upper, lower], [*tips, ps.Site("base", "upper", offset=(0.05, 0, 0))], info=known)
    angle = up[:, 0] + np.where(np.arange(120) < 40, 0.3, 0.51) * up[:, 1]
    base = 0.05 * np.stack([np.cos(angle), np.sin(angle), np.zeros(120)], axis=1)
    tip = ps.forward(arm, up).position("tip0")
    markers = ps.Markers(("tip0", "tip1", "tip2", "base"), np.stack([tip, tip, tip, base], axis=1), 60.0, "y")
    misses = (np.linalg.norm(ps.forward(arm, poses).position("base") - base, axis=1) for poses in (up, down))
    worse, better = (np.sum(np.square(part[40:])) for part in misses)
    assert 1.03 < worse / better < 1.2
    alone = ps.track(arm, replace(markers, positions=markers.positions[40:]), threads=1).motion.poses
    assert (alone[:, 1] < 0.0).all()  # by itself the rest of the take bends down
    poses = ps.track(arm, markers, threads=1).motion.poses
    assert (poses[:, 1] > 0.0).all()
    assert np.abs(np.diff(poses, axis=0)).max() < 0.05


@pytest.mark.parametrize("place", [(0.0, 0.0, 14.0), (-60.0, 0.0, 25.0)])
def test_a_take_may_be_far_from_the_origin(human, markers, place):
    far = ps.Markers(markers.names, markers.positions[:90] + place, markers.fps, markers.up)
    take = ps.track(ps.calibrate(human, far), far, threads=1)
    assert np.nanmax(take.errors) < 0.01
    assert take.report.ok
    poses, skeleton = take.motion.poses, take.motion.skeleton
    assert ((poses >= skeleton.lower) & (poses <= skeleton.upper)).all()
    again = ps.track(ps.calibrate(human, markers), far, threads=1)  # of an actor calibrated near the origin
    assert np.nanmax(again.errors) < 0.01
