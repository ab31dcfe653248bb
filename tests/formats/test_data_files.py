"""Every file of the data folder and what is expected of it."""

import warnings

import numpy as np
import pytest

from posable.errors import FormatError, PosableWarning
from posable.formats import load

# file: joints, degrees of freedom, sites, frames, fps, text of the warning
SKELETONS = {
    "bvh/animdraw_cmu1_jumping_jacks.bvh": (31, 96, 7, 125, 30, ""),
    "bvh/animdraw_fair1_dab.bvh": (27, 84, 7, 339, 30, ""),
    "bvh/animdraw_fair1_zombie.bvh": (27, 84, 7, 779, 30, ""),
    "bvh/animdraw_rokoko_jesse_dance.bvh": (60, 183, 13, 1007, 100, ""),
    "bvh/assimp_Boxing_Toes.bvh": (21, 66, 5, 3070, 100, "states 3069 frames, the file has 3070"),
    "bvh/bvh_anim_test_simple.bvh": (2, 9, 1, 2, 30, ""),
    "bvh/bvhio_example.bvh": (18, 57, 5, 2, 30, ""),
    "bvh/dme_blender_example.bvh": (31, 96, 7, 278, 120, ""),
    "bvh/fairmotion_sinusoidal.bvh": (4, 15, 1, 120, 60, ""),
    "bvh/makehuman_dance1.bvh": (75, 228, 16, 1, 24, ""),
    "bvh/mixamo_test_freebvh.bvh": (55, 168, 15, 69, 30, ""),
    "bvh/momentum_simple.bvh": (4, 15, 2, 3, 30, ""),
    "bvh/pybvh_bvh_test1.bvh": (24, 75, 5, 75, 30, ""),
    "bvh/pybvh_rotation_first_root.bvh": (4, 15, 2, 4, 25, ""),
    "bvh/threejs_pirouette.bvh": (43, 132, 14, 592, 120, ""),
    "cmu/02.asf": (31, 62, 7, None, None, ""),
    "cmu/05.asf": (31, 62, 7, None, None, ""),
    "cmu/16.asf": (31, 62, 7, None, None, ""),
    "cmu/49.asf": (31, 62, 7, None, None, ""),
    "cmu/02_01.amc": (31, 62, 7, 343, 120, ""),
    "cmu/02_04.amc": (31, 62, 7, 483, 120, ""),
    "cmu/05_01.amc": (31, 62, 7, 598, 120, ""),
    "cmu/16_15.amc": (31, 62, 7, 471, 120, ""),
    "cmu/49_18.amc": (31, 62, 7, 1102, 120, ""),
    "cmu/49_20.amc": (31, 62, 7, 898, 120, ""),
    "cmu/02_01.bvh": (31, 96, 7, 344, 120, ""),
    "cmu/02_04.bvh": (31, 96, 7, 484, 120, ""),
    "cmu/05_01.bvh": (31, 96, 7, 599, 120, ""),
    "cmu/16_15.bvh": (31, 96, 7, 472, 120, ""),
    "cmu/49_20.bvh": (31, 96, 7, 899, 120, ""),
    "cmu/87_05.bvh": (31, 96, 7, 512, 120, ""),
    "hdm05/HDM_bk.asf": (31, 62, 7, None, None, ""),
    "hdm05/HDM_dg.asf": (31, 62, 7, None, None, ""),
    "hdm05/HDM_tr.asf": (31, 62, 7, None, None, ""),
    "hdm05/HDM_bk_kickLFront1Reps_007_120.amc": (31, 62, 7, 293, 120, ""),
    "hdm05/HDM_bk_lieDownFloor_005_120.amc": (31, 62, 7, 801, 120, ""),
    "hdm05/HDM_bk_sneak2StepsLStart_006_120.AMC": (31, 62, 7, 290, 120, ""),
    "hdm05/HDM_dg_03-05_02_120.amc": (31, 62, 7, 3866, 120, ""),
    "hdm05/HDM_dg_06-03_03_120.amc": (31, 62, 7, 202, 120, ""),
    "hdm05/HDM_tr_depositFloorR_027_120.amc": (31, 62, 7, 321, 120, ""),
    "hdm05/HDM_tr_elbowToKnee1RepsLelbowStart_021_120.amc": (31, 62, 7, 99, 120, ""),
    "hdm05/HDM_tr_jogLeftCircle4StepsRstart_014_120.amc": (31, 62, 7, 250, 120, ""),
    "gltf/khronos_CesiumMan.glb": (21, 78, 1, 48, 24, ""),
    "gltf/khronos_Fox.glb": (25, 78, 0, 83, 24, ""),
    "gltf/khronos_RiggedFigure.glb": (21, 66, 1, 31, 24, ""),
    "gltf/khronos_SimpleSkin_embedded.gltf": (2, 9, 0, 133, 24, ""),
    "gltf/momentum_blender_simple_armature.glb": (5, 15, 1, None, None, ""),
    "gltf/momentum_test_24fps.glb": (161, 957, 0, 100, 24, "animated scale moves the joints below it"),
    "urdf/erd_baxter.urdf": (57, 19, 56, None, None, ""),
    "urdf/erd_double_pendulum_continuous.urdf": (3, 2, 2, None, None, ""),
    "urdf/erd_human_36dof_ISB.urdf": (37, 36, 36, None, None, ""),
    "urdf/erd_panda.urdf": (13, 9, 12, None, None, ""),
    "urdf/erd_romeo.urdf": (82, 55, 81, None, None, ""),
    "urdf/erd_talos_reduced.urdf": (60, 32, 59, None, None, ""),
    "bad/urdf_limit_inverted.urdf": (13, 9, 12, None, None, "limits swapped"),
    "urdf/erd_ur5_robot.urdf": (11, 6, 10, None, None, ""),
    "urdf/g1_29dof.urdf": (39, 29, 38, None, None, ""),
    "urdf/ikpy_prismatic_robot.URDF": (2, 1, 1, None, None, ""),
    "urdf/pin_3DOF_planar.urdf": (4, 3, 3, None, None, ""),
}

# file: markers, frames, fps, points unseen, text of the warning
MARKERS = {
    "c3d/Gait.c3d": (33, 487, 100, 9682, "names made unique"),
    "c3d/MyCube.c3d": (14, 1, 50, 0, ""),
    "c3d/PiG_Motion-FlatFoot-Hole.c3d": (193, 320, 100, 6489, ""),
    "c3d/codamotion.c3d": (24, 512, 200, 85, ""),
    "c3d/sample01_Eb015pi.c3d": (26, 450, 50, 226, ""),
    "c3d/sample01_Eb015pr.c3d": (26, 450, 50, 226, ""),
    "c3d/sample01_Eb015si.c3d": (26, 450, 50, 226, ""),
    "c3d/sample01_Eb015sr.c3d": (26, 450, 50, 226, ""),
    "c3d/sample01_Eb015vi.c3d": (26, 450, 50, 226, ""),
    "c3d/sample01_Eb015vr.c3d": (26, 450, 50, 226, ""),
    "c3d/sample02_DEC_INT.C3D": (36, 89, 50, 228, ""),
    "c3d/sample02_Dec_real.c3d": (36, 89, 50, 228, ""),
    "c3d/sample02_pc_int.c3d": (36, 89, 50, 228, ""),
    "c3d/sample02_pc_real.c3d": (36, 89, 50, 228, ""),
    "c3d/sample02_sgi_int.c3d": (36, 89, 50, 228, ""),
    "c3d/sample02_sgi_real.c3d": (36, 89, 50, 228, ""),
    "c3d/sample13_Dance.c3d": (40, 499, 65.0533447265625, 0, ""),
    "cmu/02_01.c3d": (41, 343, 120, 0, ""),
    "cmu/85_12.c3d": (41, 4499, 120, 0, ""),
    "hdm05/HDM_dg_03-05_02_120.c3d": (44, 3866, 120, 0, ""),
    "hdm05/HDM_dg_06-03_03_120.c3d": (44, 202, 120, 0, ""),
}

# file: what the error says; where a file is repaired instead, what the warning says after "warns:"
BAD = {
    "Empty.c3d": "at byte 0: expected a header of 512 bytes",
    "amc_frame_gap.amc": ":64:1: expected frame 3, found '7'",
    "amc_no_header.amc": ":1:1: expected :FULLY-SPECIFIED or :DEGREES",
    "amc_truncated_mid_frame.amc": ":196:1: expected 2 numbers of rhand, found 1",
    "asf_cycle.asf": ":319:5: expected one parent of 'lfemur'",
    "asf_nan_length.asf": ":22:6: expected 1 numbers of length, found 'nan'",
    "asf_truncated_bonedata.asf": ":124:6: expected 3 numbers of direction",
    "badParameterOffset.c3d": "at byte 1288: expected the distance from UNITS to the next parameter",
    "bvh_bom.bvh": "warns: byte-order mark",
    "bvh_channel_name_unknown.bvh": ":6:43: expected a channel",
    "bvh_decimal_comma.bvh": ":122:13: expected the seconds between two frames, with a decimal point",
    "bvh_empty.bvh": ":1:1: expected HIERARCHY, found the end of the file",
    "bvh_frames_too_many.bvh": "warns: the header states 999999999 frames, the file has 2; 2 were read",
    "bvh_missing_brace.bvh": ":119:1: expected OFFSET, CHANNELS, JOINT, End Site or '}' in 'Hips', found 'MOTION'",
    "bvh_negative_frame_time.bvh": ":122:13: expected the seconds between two frames, above 0, found '-0.033333'",
    "bvh_nul_bytes.bvh": ":5:5: expected text, found a NUL byte",
    "bvh_text_value.bvh": ":124:372: expected a number, found 'abc'",
    "bvh_truncated_mid_frame.bvh": ":124:227: frame 2 is cut short: expected 57 numbers, found 34",
    "bvh_utf16.bvh": ":1:1: expected ASCII, Latin-1 or UTF-8 text",
    "c3d_bad_processor.c3d": "at byte 515: expected processor 84 (Intel), 85 (DEC) or 86 (SGI), found 127",
    "c3d_header_only.c3d": "at byte 0: expected parameters inside the file",
    "c3d_param_ptr_zero.c3d": "at byte 0: expected the block of the parameters",
    "c3d_truncated_data.c3d": "at byte 1660: the data are cut short",
    "drake_bad.urdf": ":1:1: expected well-formed XML",
    "glb_truncated.glb": "at byte 20000: the file is cut short: expected 50116 bytes",
    "rtb_test_notxml.urdf": ":1:1: expected well-formed XML",
    "urdf_parent_cycle.urdf": ":41:5: expected joints that form a tree",
    "urdf_zero_axis.urdf": ":45:9: expected an axis of joint 'panda_joint1' that is not zero",
    "gltf_assimp/IncorrectVertexArrays_Cube.gltf": ":151:18: buffers[0].uri: expected a file in the same folder",
    "gltf_assimp/MissingBin_BoxTextured.gltf": ":178:20: buffers[0].uri: expected a file in the same folder",
    "gltf_assimp/SchemaFailures_sceneWrongType.gltf": ":6:14: scene: expected an index or a count",
    "gltf_assimp/wrongTypes_badArray.gltf": ":44:27: meshes[0].primitives: expected an array",
    "gltf_assimp/wrongTypes_badNumber.gltf": ":132:14: materials[0].normalTexture.scale: expected a number",
    "gltf_assimp/wrongTypes_badObject.gltf": ":125:37: materials[0].pbrMetallicRoughness: expected an object",
    "gltf_assimp/wrongTypes_badString.gltf": ":12:13: scenes[0].name: expected a text",
    "gltf_assimp/wrongTypes_badUint.gltf": ":128:30: materials[0].pbrMetallicRoughness.baseColorTexture.index",
}
FAMILIES = ("cmu_poses/", "humanoid/", "mjcf/")  # folders of many files of one kind, with tests of their own
NOT_OURS = {".md", ".txt", ".npz", ".bin", ".license", ""}


def checked_load(path, expected_warning, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scene = load(path, **options)
    texts = [str(warning.message) for warning in caught]
    assert all(issubclass(warning.category, PosableWarning) for warning in caught)
    assert bool(texts) == bool(expected_warning), texts
    assert not texts or expected_warning in texts[0]
    return scene


@pytest.mark.parametrize("file", SKELETONS)
def test_a_skeleton_file_loads(file, data_dir):
    joints, size, sites, frames, fps, warning = SKELETONS[file]
    scene = checked_load(data_dir / file, warning)
    skeleton = scene.skeleton
    assert (len(skeleton.joints), skeleton.size, len(skeleton.sites)) == (joints, size, sites)
    assert skeleton.up == ("z" if file.endswith((".urdf", ".URDF")) else "y")
    if frames is None:
        assert scene.motion is None
    else:
        assert scene.motion.poses.shape == (frames, size)
        assert scene.motion.fps == fps
        assert np.isfinite(scene.motion.poses).all()


@pytest.mark.parametrize("file", MARKERS)
def test_a_marker_file_loads(file, data_dir):
    markers, frames, fps, unseen, warning = MARKERS[file]
    scene = checked_load(data_dir / file, warning)
    assert not scene.has_skeleton
    assert scene.markers.positions.shape == (frames, markers, 3)
    assert scene.markers.fps == fps
    assert np.count_nonzero(~scene.markers.seen) == unseen
    assert scene.markers.up == "z"
    assert len(set(scene.markers.names)) == markers
    assert np.nanmax(np.abs(scene.markers.positions)) < 4.0  # metres


@pytest.mark.parametrize("file", BAD)
def test_a_bad_file_fails_as_asked(file, data_dir):
    path, message = data_dir / "bad" / file, BAD[file]
    options = {"skeleton": data_dir / "cmu" / "02.asf"} if file.endswith(".amc") else {}
    if message.startswith("warns: "):
        checked_load(path, message.removeprefix("warns: "), **options)
        return
    with pytest.raises(FormatError) as caught:
        load(path, **options)
    assert message in str(caught.value)
    assert caught.value.path == str(path)
    assert caught.value.line is not None or caught.value.offset is not None
    assert caught.value.expected
    assert caught.value.found is not None


def test_the_table_is_complete(data_dir):
    files = {
        path.relative_to(data_dir).as_posix() for path in data_dir.rglob("*") if path.suffix.lower() not in NOT_OURS
    }
    known = {*SKELETONS, *MARKERS, *(f"bad/{file}" for file in BAD)}
    strange = {file for file in files - known if "LICENSE" not in file and not file.startswith(FAMILIES)}
    assert not strange, "say in the tables what is expected of them"
    assert known <= files


def test_every_clip_of_cmu_poses_loads(data_dir):
    clips = sorted((data_dir / "cmu_poses").glob("*.bvh"))
    assert len(clips) > 300
    for path in clips[::40]:
        scene = load(path)
        assert len(scene.skeleton.joints) == 31
        assert np.isfinite(scene.motion.poses).all()
        assert scene.motion.fps == pytest.approx(10.0)
