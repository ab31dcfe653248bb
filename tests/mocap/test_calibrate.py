"""An actor from a generic figure, on takes whose actor is known."""

import numpy as np
import pytest

import posable as ps
from posable.model.body_plan import body_plan, words_of

from .conftest import NAMES


def stripped(figure):
    """Return the figure without the markers' sites."""
    return figure.replace(sites=[site for site in figure.sites if site.name not in NAMES])


def test_a_taller_actor_is_found(human, dance):
    tall = ps.figures.human(height=1.95)
    poses = dance.poses.copy()
    frames = ps.forward(tall, poses)
    markers = ps.Markers(NAMES, np.stack([frames.position(name) for name in NAMES], axis=1), 120.0, "y")
    actor = ps.calibrate(human, markers)
    found = actor.info["calibration"]
    assert found.after < 0.2 * found.before
    assert found.after < 0.004
    assert abs(found.scale - 1.95 / 1.80) < 0.03
    take = ps.track(actor, markers)
    assert np.nanmean(take.errors) < 0.005
    assert "mm before" in str(found)


def test_frames_that_were_not_fitted_judge_the_fit(human, markers):
    found = ps.calibrate(human, markers).info["calibration"]
    assert found.after < found.held_out < 3.0 * found.after
    assert "on held-out frames" in str(found)
    given = ps.calibrate(human, markers, frames=range(0, 240, 8)).info["calibration"]
    assert np.isnan(given.held_out)


def test_bones_of_joints_that_do_not_move_are_less_certain(human, dance, markers):
    """The legs kept as they rest: what the markers say of their lengths is gone, and the calibration says so."""
    poses = dance.poses.copy()
    for name in (f"{joint}.{side}" for joint in ("hip", "knee", "ankle") for side in "LR"):
        poses[:, human.index(name)] = human.rest[human.index(name)]
    frames = ps.forward(human, poses)
    still = ps.Markers(NAMES, np.stack([frames.position(name) for name in NAMES], axis=1), 120.0, "y")
    moving, resting = (ps.calibrate(human, take).info["calibration"].certainty for take in (markers, still))
    assert resting["ankle.L"] > 1.02 * moving["ankle.L"]
    assert resting["knee.L"] > 1.02 * moving["knee.L"]
    assert all(0.0 < spread < 0.05 for spread in moving.values())


def test_markers_are_attached_by_name(human, markers):
    actor = ps.calibrate(stripped(human), markers)
    found = actor.info["calibration"]
    assert found.markers["LKNE"][0] == "hip.L"
    assert found.markers["RWRA"][0] == "wrist.R"
    assert found.after < 0.01
    assert set(NAMES) <= set(actor.site_names)


def test_a_marker_of_unknown_name_goes_to_the_bone_on_which_it_rests(human, dance, markers):
    frames = ps.forward(human, dance.poses)
    extra = frames.position("forearm.R")
    stray = np.cumsum(np.random.default_rng(0).normal(0.0, 0.05, (len(dance), 3)), axis=0)
    places = np.concatenate([markers.positions, extra[:, None], stray[:, None]], axis=1)
    actor = ps.calibrate(human, ps.Markers((*markers.names, "X1", "X2"), places, 120.0, "y"))
    assert actor.info["calibration"].markers["X1"][0] == "elbow.R"
    assert actor.info["calibration"].left_out == ("X2",)


def test_labels_of_clusters_name_their_bones(human, dance, markers):
    """Plates on arms and legs, no marker at a knee, ankle, elbow or wrist: the limbs follow all the same."""
    rest, frames = ps.forward(human, human.rest), ps.forward(human, dance.poses)
    plan, corners = body_plan(human), np.array([(0.05, 0.03), (0.04, -0.04), (-0.05, 0.02)])
    names = [
        "C7",
        "CLAV",
        "STRN",
        "T10",
        *(side + name for side in "LR" for name in ("SHO", "FWT", "BWT", "HEE", "TOE")),
    ]
    places = [frames.position(name) for name in names]
    bones = (("TH", "hip", "knee"), ("SK", "knee", "ankle"), ("UA", "shoulder", "elbow"), ("FA", "elbow", "wrist"))
    for side in "LR":
        for label, role, end in bones:
            joint, tip = plan.place(f"{role}.{side}"), plan.place(f"{end}.{side}")
            along = (tip - joint) / np.linalg.norm(tip - joint)
            out = plan.up if label in ("UA", "FA") else plan.left * (1.0 if side == "L" else -1.0)
            out = out - (out @ along) * along
            for k, (u, v) in enumerate(corners):
                place = 0.5 * (joint + tip) + 0.06 * out + u * along + v * np.cross(along, out)
                names.append(f"{side}{label}{k + 1}")
                places.append(
                    frames.convert(rest.convert(place, to=plan[f"{role}.{side}"]), from_=plan[f"{role}.{side}"])
                )
    take = ps.Markers(names, np.stack(places, axis=1), 120.0, "y")
    actor = ps.calibrate(human, take)
    on = {name: joint for name, (joint, _) in actor.info["calibration"].markers.items()}
    assert (on["LTH2"], on["RSK1"], on["LUA3"], on["RFA1"]) == ("hip.L", "knee.R", "shoulder.L", "elbow.R")
    tracked = ps.track(actor, take)
    assert not {"left arm", "right arm", "left leg", "right leg"} & set(tracked.report.unmarked)
    found = ps.forward(tracked.motion.skeleton, tracked.motion.poses)
    for role in ("knee.L", "ankle.R", "elbow.L", "wrist.R"):
        assert np.linalg.norm(found.position(plan[role]) - frames.position(plan[role]), axis=-1).mean() < 0.04, role


def test_a_label_without_meaning_may_be_that_of_a_site(human, markers):
    """ "C7" alone says too little, so all markers are recognised by motion; the figure's own site C7 makes room."""
    order = np.random.default_rng(1).permutation(41)
    names = ["C7", *(f"m{k}" for k in range(1, 41))]
    actor = ps.calibrate(human, ps.Markers(names, markers.positions[:, order], 120.0, "y"))
    assert actor.site_names.count("C7") == 1
    assert actor.info["calibration"].markers.keys() >= {"C7"}


def test_points_that_a_model_computed_are_refused_without_markers(human):
    places = np.random.default_rng(0).normal(size=(30, 2, 3))
    with pytest.raises(ps.PosableError, match="a model computed"):
        ps.calibrate(human, ps.Markers(("LKneeAngles", "RKneeAngles"), places, 120.0, "y"))


def test_symmetric_bones_keep_one_length(human, markers):
    actor = ps.calibrate(human, markers, symmetric=True)
    for name in ("knee", "elbow", "wrist", "ankle"):
        left, right = (np.linalg.norm(actor.joint(f"{name}.{side}").offset) for side in "LR")
        assert left == pytest.approx(right)


def test_attachments_can_be_given(human, markers):
    renamed = ps.Markers([f"m{k}" for k in range(41)], markers.positions, 120.0, "y")
    sites = {site.name: site for site in human.sites}
    given = {f"m{k}": (sites[name].joint, sites[name].offset) for k, name in enumerate(NAMES)}
    actor = ps.calibrate(human, renamed, given)
    assert actor.info["calibration"].after < 0.002


def test_wrong_calls_say_what_is_missing(human, markers):
    with pytest.raises(ps.PosableError, match="attachments"):
        ps.calibrate(human, ps.Markers(("A", "B", "C"), np.zeros((5, 3, 3)), 120.0))
    with pytest.raises(ps.PosableError, match="LKNE"):
        ps.calibrate(human, markers, {"LKNEE": "hip.L"})
    with pytest.raises(ps.PosableError, match="millimetres"):
        ps.calibrate(human, ps.Markers(markers.names, 1000.0 * markers.positions, 120.0, "y"))
    with pytest.raises(ps.PosableError, match="frames"):
        ps.calibrate(human, ps.Markers(markers.names, markers.positions[:0], 120.0, "y"))
    with pytest.raises(ps.PosableError, match="frames from 0"):
        ps.calibrate(human, markers, frames=[1000])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("lfemur", ("L", "femur")),
        ("LeftUpLeg", ("L", "upleg")),
        ("mixamorig:RightForeArm", ("R", "forearm")),
        ("leg_joint_L_1", ("L", "leg")),
        ("hip.R", ("R", "hip")),
        ("RAnkleRoll", ("R", "ankleroll")),
        ("arm_left_4_joint", ("L", "arm")),
        ("lowerback", ("", "lowerback")),
    ],
)
def test_words_of_names(name, words):
    assert words_of(name) == words


def test_the_plan_of_the_human(human):
    plan = body_plan(human)
    assert plan["knee.L"] == "knee.L"
    assert plan["chest"] == "spine3"
    assert plan["head"] == "skull"
    assert np.allclose(plan.forward, (0, 0, 1))


def test_a_figure_without_legs_is_refused():
    with pytest.raises(ps.PosableError, match="hip"):
        body_plan(ps.figures.panda())


def test_noise_of_the_markers_hardly_moves_the_actor(human, markers):
    clean = ps.calibrate(human, markers)
    noisy = markers.positions + np.random.default_rng(2).normal(0.0, 0.01, markers.positions.shape)
    actor = ps.calibrate(human, ps.Markers(markers.names, noisy, markers.fps, markers.up))
    frames = [ps.forward(figure, ps.track(figure, markers).motion.poses) for figure in (clean, actor)]
    off = [np.linalg.norm(frames[0].position(name) - frames[1].position(name), axis=-1) for name in human.names]
    assert np.mean(off) < 0.004


def test_a_take_without_markers_is_refused(human, markers):
    with pytest.raises(ps.PosableError, match="with markers, got none"):
        ps.calibrate(human, ps.Markers((), markers.positions[:, :0], markers.fps, markers.up))


@pytest.mark.parametrize("count", [1, 60])
def test_an_actor_who_stands_still_is_named(human, markers, count):
    still = np.repeat(markers.positions[:1], count, axis=0)
    still = still + np.random.default_rng(0).normal(0.0, 3e-4, still.shape)
    actor = ps.calibrate(human, ps.Markers(markers.names, still, markers.fps, markers.up))
    verdict = ps.track(actor, markers).report.verdict
    assert "the actor hardly moves" in verdict
    assert "the actor hardly moves" not in ps.track(ps.calibrate(human, markers), markers).report.verdict


def test_a_child_is_a_person(human, markers):
    child = ps.Markers(markers.names, markers.positions * 1.1 / 1.8, markers.fps, markers.up)
    report = ps.track(ps.calibrate(human, child), child).report
    assert "tall" not in report.verdict


def test_frames_with_missing_markers_are_not_preferred(human, markers):
    """A marker that is missing here and there must not make a pose look unusual."""
    places = markers.positions.copy()
    places[100:120, :8] = np.nan
    holed = ps.Markers(markers.names, places, markers.fps, markers.up)
    chosen = np.array(ps.calibrate(human, holed).info["calibration"].frames)
    assert ((chosen >= 100) & (chosen < 120)).sum() <= 8


def test_a_marker_out_of_place_throughout_leaves_no_trace(human, markers):
    """The actor is that of the take without the marker, except for the noise of convergence."""
    k = NAMES.index("LANK")
    places = markers.positions.copy()
    places[:, k] = 2.0 * places[:, NAMES.index("RKNE")] - places[:, NAMES.index("RANK")]
    wrong = ps.Markers(NAMES, places, markers.fps, markers.up)
    without = ps.Markers(NAMES[:k] + NAMES[k + 1 :], np.delete(places, k, axis=1), markers.fps, markers.up)
    given = {"RANK": "knee.R"}  # which turns the search for markers that move with none beside them off
    found, expected = (ps.calibrate(human, take, given).info["calibration"] for take in (wrong, without))
    assert found.left_out == ("LANK",)
    assert any("not used, out of place" in note and "LANK" in note for note in found.notes)
    assert found.frames == expected.frames
    assert all(abs(found.lengths[bone] - factor) < 1e-3 for bone, factor in expected.lengths.items())


def test_keypoints_are_in_the_middle_of_joints(human, dance):
    """Pose2Sim and other markerless systems name joints, not places on the skin. The actor is small."""
    joints = {
        "Hip": "hip",
        "Knee": "knee",
        "Ankle": "ankle",
        "Shoulder": "shoulder",
        "Elbow": "elbow",
        "Wrist": "wrist",
    }
    frames = ps.forward(human, dance.poses)
    places = {f"{s}{word}": frames.position(f"{joint}.{s}") for word, joint in joints.items() for s in "LR"}
    places |= {
        f"{s}{word}": frames.position(s + site) for word, site in (("BigToe", "TOE"), ("Heel", "HEE")) for s in "LR"
    }
    places |= {"Hip": 0.5 * (places["LHip"] + places["RHip"]), "Neck": frames.position("C7")}
    places |= {"Head": frames.position("LFHD"), "Nose": frames.position("RFHD")}
    markers = ps.Markers(tuple(places), 0.9 * np.stack(list(places.values()), axis=1), dance.fps, human.up)
    take = ps.track(ps.calibrate(human, markers), markers)
    found = ps.forward(take.motion.skeleton, take.motion.poses)
    for joint in joints.values():
        for side in "LR":
            name = f"{joint}.{side}"
            off = np.linalg.norm(found.position(name) - 0.9 * frames.position(name), axis=-1).mean()
            assert off < 0.012, (name, off)


def test_a_marker_of_unknown_name_is_not_put_on_a_limb_without_markers(human, dance, markers):
    """Such a limb moves with the body, and hangs beside the pelvis."""
    legs = [name for name in markers.names if name[1:] in ("FWT", "BWT", "THI", "KNE", "SHN", "ANK", "HEE", "TOE")]
    wand = ps.forward(human, dance.poses).convert([0.05, 0.05, -0.2], from_="root")[:, None]
    wand += np.random.default_rng(1).normal(0.0, 0.002, wand.shape)
    columns = [markers.index(name) for name in legs]
    places = np.concatenate([markers.positions[:, columns], wand], axis=1)
    actor = ps.calibrate(human, ps.Markers((*legs, "wand"), places, markers.fps, markers.up))
    assert next(site.joint for site in actor.sites if site.name == "wand") in ("root", "spine1")
