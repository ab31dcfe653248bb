"""Takes that converge and are no person's: said in one line, with what to do."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import PosableWarning
from posable.mocap.calibrate import _judged
from posable.mocap.verdict import _sways as sways
from posable.mocap.verdict import _tilt as tilt
from posable.mocap.verdict import findings, wrong_rate
from posable.model.body_plan import body_plan

pytestmark = pytest.mark.filterwarnings("ignore::posable.PosableWarning")


def tracked(human, markers):
    return ps.track(ps.calibrate(human, markers), markers).report


def test_a_clean_take_is_plausible(human, markers):
    report = tracked(human, markers)
    assert report.ok
    assert report.verdict == "plausible"
    assert str(report).startswith("plausible")


@pytest.mark.parametrize(("stated", "true"), [(0.01, "in"), (0.01, "mm")])
def test_a_wrong_unit_is_proposed(human, markers, stated, true):
    factor = stated / {"in": 0.0254, "mm": 0.001, "cm": 0.01}[true]
    wrong = replace(markers, positions=factor * markers.positions, unit=stated)
    with pytest.warns(ps.PosableWarning, match=f"unit='{true}'"):
        actor = ps.calibrate(human, wrong)
    report = ps.track(actor, wrong).report
    assert not report.ok
    assert f"--unit {true}" in report.verdict


def test_markers_far_from_metres_are_refused_with_the_unit(human, markers):
    with pytest.raises(ps.PosableError, match="--unit cm"):
        ps.calibrate(human, replace(markers, positions=100.0 * markers.positions, unit=1.0))


def test_a_wrong_up_axis_is_proposed(human, markers):
    turned = replace(markers, up="z")
    with pytest.warns(ps.PosableWarning, match="up='y'"):
        actor = ps.calibrate(human, turned)
    assert "--up y" in ps.track(actor, turned).report.verdict


def test_a_wrong_unit_and_up_axis_are_both_proposed(human, markers):
    wrong = replace(markers, positions=markers.positions / 2.54, unit=0.01, up="z")
    verdict = tracked(human, wrong).verdict
    assert "--unit in" in verdict
    assert "--up y" in verdict


def test_two_markers_of_the_pelvis_that_slide_together_are_named(human, markers):
    places = markers.positions.copy()
    for name in ("LFWT", "LBWT"):
        places[80:160, markers.index(name), 0] += np.linspace(0.0, 0.1, 80)
    verdict = tracked(human, replace(markers, positions=places)).verdict
    assert "markers move apart on one bone" in verdict
    assert "FWT" in verdict


def test_bones_whose_markers_are_far_off_for_long_are_named(human, markers):
    take = ps.track(ps.calibrate(human, markers), markers)
    errors = take.errors.copy()
    errors[60:130, [take.names.index("LSHN"), take.names.index("LANK")]] = 0.05
    errors[60:90, [take.names.index("RSHN"), take.names.index("RANK")]] = 0.05
    found = findings(replace(take, errors=errors), take.report.statuses, 2, 3)
    assert [finding.frames for finding in found] == [((60, 130),)]
    assert found[0].text.startswith("markers at knee.L are missed by 50 mm for up to 0.58 s")


def test_parts_without_markers_are_reported_as_not_tracked(human, markers):
    legs = ("FWT", "BWT", "THI", "KNE", "SHN", "ANK", "HEE", "TOE", "MT5")
    columns = [k for k, name in enumerate(markers.names) if name[1:] in legs]
    part = replace(markers, names=tuple(markers.names[k] for k in columns), positions=markers.positions[:, columns])
    report = tracked(human, part)
    assert report.ok
    assert report.verdict == "plausible; no markers on head, left arm, right arm: not tracked"


def test_labels_that_were_not_read_are_named_beside_the_parts_without_markers(human, markers):
    """Arms under labels that mean nothing, hopping so that no bone fits: their names lead to what is missing."""
    arms = [k for k, name in enumerate(markers.names) if name[1:] in ("SHO", "UPA", "ELB", "FRM", "WRA", "WRB", "FIN")]
    places, names = markers.positions.copy(), list(markers.names)
    places[:, arms] += np.cumsum(np.random.default_rng(0).normal(0.0, 0.01, (len(markers), len(arms), 3)), axis=0)
    for i, k in enumerate(arms):
        names[k] = f"Q{i}"
    verdict = tracked(human, replace(markers, names=tuple(names), positions=places)).verdict
    assert "no markers on left arm, right arm: not tracked (no bone found for Q0, Q1, Q2, Q3 and 10 more" in verdict


@pytest.mark.parametrize("name", ["LFWT", "RBWT", "LKNE"])
def test_a_label_without_any_sample_is_named(human, markers, name):
    places = markers.positions.copy()
    places[:, markers.index(name)] = np.nan
    report = tracked(human, replace(markers, positions=places))
    assert f"no sample of {name} in the file" in report.verdict
    assert report.mean < 0.005


def test_a_long_gap_is_flagged(human, markers):
    places = markers.positions.copy()
    places[100:160] = np.nan
    report = tracked(human, replace(markers, positions=places))
    assert "gap" in report.verdict
    assert report.frames_to_check == ((100, 160),)


def test_a_root_that_leaps_is_flagged(human, markers):
    places = markers.positions.copy()
    places[120:] += [0.5, 0.0, 0.0]
    report = tracked(human, replace(markers, positions=places))
    assert "faster than a person" in report.verdict
    assert any(a <= 120 <= b for a, b in report.frames_to_check)


def test_the_report_plays_and_marks_the_frames_to_look_at(human, markers, tmp_path):
    places = markers.positions.copy()
    places[100:160] = np.nan
    report = tracked(human, replace(markers, positions=places))
    report.save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'data-frame="100"' in page
    data = json.loads(page.split("const data = ")[1].split(", canvas =")[0])
    assert len(data["joints"]) == len(data["markers"]) == 60
    true = ps.forward(report.take.motion.skeleton, report.take.motion.poses[0]).position("wrist.L") * 1000.0
    shown = data["joints"][0][list(human.names).index("wrist.L")]
    np.testing.assert_allclose(shown, [true[0], -true[2], true[1]], atol=0.51)
    assert data["markers"][30] == [None] * 41


def test_a_limb_that_is_lost_for_long_is_named(human, markers):
    places = markers.positions.copy()
    arm = [markers.index(name) for name in ("RUPA", "RELB", "RFRM", "RWRA", "RWRB", "RFIN")]
    places[60:160, arm] = np.nan
    report = ps.track(human, ps.Markers(markers.names, places, markers.fps, markers.up)).report
    assert not report.ok
    assert "shoulder.R" in report.verdict
    assert "0.83 s" in report.verdict
    assert (60, 160) in report.frames_to_check


def test_markers_without_labels_that_were_not_recognised_are_named_with_what_to_do(human, markers):
    actor = ps.calibrate(human, markers)
    lost = replace(actor.info["calibration"], recognised=0.4)
    with pytest.warns(PosableWarning, match=r"only 40% of the markers.*label them, or give attachments="):
        judged = _judged(actor.replace(info={**actor.info, "calibration": lost}), human, markers)
    assert "only 40%" in judged.info["calibration"].notes[0]
    assert "only 40%" in ps.track(judged, markers).report.verdict


@pytest.mark.parametrize(("degrees", "end"), [(4.0, "-z"), (-4.0, "+z")])
def test_a_floor_that_is_not_level_is_named(human, fixtures, degrees, end):
    walk = ps.load(fixtures / "walk.c3d").markers
    assert tracked(human, walk).verdict == "plausible"
    tilt = Rotation.from_rotvec([np.radians(degrees), 0.0, 0.0]).as_matrix()
    verdict = tracked(human, replace(walk, positions=walk.positions @ tilt.T)).verdict
    assert f"higher at the {end} end" in verdict
    angle = float(verdict.split("rotate the markers by ")[1].split("°")[0])
    assert abs(angle - abs(degrees)) < 0.3


@pytest.mark.parametrize("slope", [0.0, 0.02])
def test_a_floor_that_slopes_along_a_straight_walk_is_named(slope):
    """How it slopes across is unknown there, which says nothing against the slope along."""
    rng = np.random.default_rng(0)
    flat = np.column_stack([np.linspace(-1.5, 1.5, 12), rng.normal(0.0, 0.05, 12)])
    heights = slope * flat[:, 0] + rng.normal(0.0, 0.005, 12)
    said = tilt(np.arange(12) % 4, flat, heights, np.zeros(2), np.eye(3)[[0, 2]])
    assert ("higher at the +x end" in said) == (slope > 0.0)


def test_a_slope_that_an_upright_actor_climbs_is_no_tilt(human, fixtures):
    walk = ps.load(fixtures / "walk.c3d").markers
    up = "xyz".index(walk.up)
    steps = walk.positions.copy()
    steps[..., up] += 0.6 * steps[..., 2 if up == 1 else 1]
    tilt = Rotation.from_rotvec([np.arctan(0.6), 0.0, 0.0]).as_matrix()
    assert "higher at" not in tracked(human, replace(walk, positions=steps)).verdict
    assert "higher at" in tracked(human, replace(walk, positions=walk.positions @ tilt.T)).verdict


def test_a_floor_that_rises_is_named(human, fixtures):
    walk = ps.load(fixtures / "walk.c3d").markers
    there_and_back = np.concatenate([walk.positions, walk.positions[::-1]] * 2)
    assert tracked(human, replace(walk, positions=there_and_back)).verdict == "plausible"
    there_and_back[..., "xyz".index(walk.up)] += np.linspace(0.0, 0.08, len(there_and_back))[:, None]
    verdict = tracked(human, replace(walk, positions=there_and_back)).verdict
    assert "standing feet rise by 79 mm over 9 s" in verdict


def test_a_body_that_swings_in_the_air_shows_no_drift(human):
    names = [name for name in human.site_names if name.isupper()]
    swings = 0.05 * np.sin(1.1 * np.pi * np.arange(60)[:, None] / 60.0 + np.arange(human.size))
    frames = ps.forward(human, np.clip(human.rest + swings, human.lower, human.upper))
    take = ps.track(human, ps.Markers(names, frames.many(names)[0], 60.0, "y"))
    assert "drift" not in str(take.report)


@pytest.mark.parametrize("times", [2.0, 4.0])
def test_a_body_that_falls_faster_than_gravity_doubts_the_frame_rate(human, fixtures, times):
    walk = ps.load(fixtures / "walk.c3d").markers
    verdict = tracked(human, replace(walk, fps=times * walk.fps)).verdict
    assert "the body falls with" in verdict
    assert "--fps" in verdict


@pytest.mark.parametrize("times", [0.25, 1.0, 4.0])
def test_sways_are_those_of_an_inverted_pendulum(times):
    """The center of mass moves away from the foot on which the body stands by cosh: time is told by gravity."""
    fps, height, step = 100.0, 0.9, 0.5
    t = np.arange(round(step * fps)) / fps
    sway = np.cosh(np.sqrt(9.81 / height) * (t - 0.5 * step))
    feet, center = np.zeros((len(t), 2, 3)), np.zeros((len(t), 3))
    feet[:, 1] = np.stack([np.linspace(-0.5, 0.5, len(t)), np.full(len(t), 0.2), np.full(len(t), 0.02)], axis=-1)
    center[:, 0], center[:, 1], center[:, 2] = np.sinh(3.3 * (t - 0.5 * step)) / 10.0, 0.05 * sway, height
    measured, expected = np.array(sways(center, feet, feet, 2)).T
    factor = times * fps * np.sqrt(measured @ expected / (expected @ expected))
    assert abs(factor / times - 1.0) < 0.03


@pytest.mark.parametrize("times", [0.25, 0.5, 1.0, 2.0])
def test_a_jump_tells_the_frame_rate(human, times):
    """A figure that stands, is thrown up at 2 m/s, and stands again."""
    fps, start = 120.0, 60
    flight = np.clip((np.arange(180) - start) / fps, 0.0, 2.0 * 2.0 / 9.81)
    poses = np.tile(human.rest, (180, 1))
    poses[:, human.dof_names.index(f"root.t{human.up}")] += 2.0 * flight - 0.5 * 9.81 * flight**2
    take = ps.Motion(human, poses, times * fps)
    said = wrong_rate(take, body_plan(human))
    if times == 1.0:
        assert said == ""
    else:
        way = "fast" if times > 1.0 else "slow"
        assert f"in a jump, the body falls {max(times, 1.0 / times):.1f} times too {way}; about 120 Hz" in said
        assert "--fps" in said


@pytest.mark.parametrize("name", ["hdm05/HDM_dg_03-05_02_120.c3d", "hdm05/HDM_dg_06-03_03_120.c3d", "cmu/85_12.c3d"])
def test_recorded_jumps_tell_the_frame_rate(human, data_dir, name):
    markers = ps.load(data_dir / name).markers
    actor = ps.calibrate(human, markers)
    assert "--fps" not in ps.track(actor, markers).report.verdict
    slow = ps.track(actor, replace(markers, fps=0.25 * markers.fps)).report.verdict
    found = re.search(r"jumps, the body falls [\d.]+ times too slow; about (\d+) Hz would fit gravity", slow)
    assert found, slow
    assert abs(int(found[1]) - markers.fps) < 6.0


def test_a_frame_rate_that_contradicts_a_walk_is_doubted(human, data_dir):
    walk = ps.load(data_dir / "cmu" / "02_01.c3d").markers
    assert "the body sways" not in tracked(human, walk).verdict
    for times, said in ((0.25, "too slow"), (4.0, "too fast")):
        verdict = tracked(human, replace(walk, fps=times * walk.fps)).verdict
        assert "the body sways" in verdict, times
        assert said in verdict


def test_joints_with_nothing_but_clusters_beside_them_are_named(human, dance):
    bones = {"TH": "hip", "SK": "knee", "FT": "ankle", "UA": "shoulder", "FA": "elbow"}
    on = {f"{side}{label}": f"{bone}.{side}" for label, bone in bones.items() for side in "LR"}
    on |= {"PELV": "root", "TRUNK": "spine3", "HEAD": "skull"}
    below = {joint.parent: np.asarray(joint.offset) for joint in human.joints if joint.parent}
    rng, sites = np.random.default_rng(0), []
    for label, joint in on.items():
        middle = 0.5 * below.get(joint, np.zeros(3))
        sites += [ps.Site(f"{label}{k}", joint, tuple(middle + rng.normal(0.0, 0.04, 3))) for k in range(1, 5)]
    frames = ps.forward(human.replace(sites=sites), dance.poses)
    places = np.stack([frames.position(site.name) for site in sites], axis=1)
    verdict = tracked(human, ps.Markers(tuple(site.name for site in sites), places, 120.0, "y")).verdict
    assert "only clusters or distant markers at hip.L, hip.R, knee.L" in verdict


def test_markers_that_are_hidden_most_of_the_time_are_named(human, markers):
    places = markers.positions.copy()
    rng = np.random.default_rng(1)
    for name in ("LKNE", "RWRA"):
        places[rng.random(len(places)) < 0.7, markers.index(name)] = np.nan
    places[:200, markers.index("LTHI")] = np.nan  # comes late, and stays
    verdict = tracked(human, replace(markers, positions=places)).verdict
    said = next(part for part in verdict.split("; ") if "hidden most of the time" in part)
    assert "LKNE" in said
    assert "RWRA" in said
    assert "LTHI" not in said
