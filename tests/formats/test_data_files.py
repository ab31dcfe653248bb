"""Every file of tests/fixtures and of the data folder, and what is expected of it."""

import warnings

import numpy as np
import pytest

from posable.errors import FormatError, PosableWarning
from posable.formats import load

# file: joints, degrees of freedom, sites, frames, fps, text of the warning
SKELETONS = {
    "walk.bvh": (36, 111, 9, 64, 30, ""),
    "walk.asf": (48, 71, 9, None, None, ""),
    "walk.amc": (48, 71, 9, 64, 30, ""),
    "walk.glb": (36, 111, 58, 64, 30, ""),
    "character.glb": (13, 39, 1, 25, 24, ""),
    "arm/arm.urdf": (9, 7, 8, None, None, ""),
    "arm7/arm7.xml": (8, 7, 8, None, None, ""),
    "humanoid/humanoid.urdf": (28, 27, 27, None, None, ""),
    "humanoid/humanoid.xml": (28, 33, 28, None, None, ""),
    "small/leg.bvh": (3, 12, 1, 3, 20, ""),
    "small/rotation_first.bvh": (3, 12, 1, 3, 20, ""),
    "small/no_end_site.bvh": (3, 12, 1, 3, 20, ""),
    "small/one_frame.bvh": (3, 12, 1, 1, 20, ""),
    "small/tabs_and_crlf.bvh": (3, 12, 1, 3, 20, ""),
    "small/leg.asf": (3, 10, 1, None, None, ""),
    "small/leg_01.amc": (3, 10, 1, 2, 120, ""),
    "small/leg.gltf": (2, 9, 0, None, None, ""),
    "small/hinges.urdf": (3, 2, 2, None, None, ""),
    "broken/limits_inverted.urdf": (3, 2, 2, None, None, "limits swapped"),
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
    "walk.c3d": (41, 64, 30, 5, ""),
    "c3d/intel_int.c3d": (5, 12, 50, 3, ""),
    "c3d/intel_real.c3d": (5, 12, 50, 3, ""),
    "c3d/dec_int.c3d": (5, 12, 50, 3, ""),
    "c3d/dec_real.c3d": (5, 12, 50, 3, ""),
    "c3d/sgi_int.c3d": (5, 12, 50, 3, ""),
    "c3d/sgi_real.c3d": (5, 12, 50, 3, ""),
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
    "broken/empty.c3d": "at byte 0: expected a header of 512 bytes",
    "broken/header_only.c3d": "at byte 0: expected parameters inside the file",
    "broken/bad_processor.c3d": "at byte 515: expected processor 84 (Intel), 85 (DEC) or 86 (SGI), found 127",
    "broken/parameters_at_block_0.c3d": "at byte 0: expected the block of the parameters",
    "broken/cut_in_the_data.c3d": "at byte 1124: the data are cut short",
    "broken/frame_gap.amc": ":8:1: expected frame 2, found '7'",
    "broken/no_header.amc": ":1:1: expected :FULLY-SPECIFIED or :DEGREES",
    "broken/cut_in_a_frame.amc": ":10:1: expected 3 values for thigh, found 2",
    "broken/cycle.asf": ":37:5: expected one parent of 'thigh'",
    "broken/nan_length.asf": ":18:5: expected 1 values for length, found 'nan'",
    "broken/cut_in_a_bone.asf": ":28:5: expected 3 values for direction",
    "broken/byte_order_mark.bvh": "warns: byte-order mark",
    "broken/unknown_channel.bvh": ":5:54: expected a channel",
    "broken/decimal_comma.bvh": ":23:13: expected the seconds between two frames, with a decimal point",
    "broken/empty.bvh": ":1:1: expected HIERARCHY, found the end of the file",
    "broken/frames_too_many.bvh": "warns: the header states 999999999 frames, the file has 3; 3 were read",
    "broken/missing_brace.bvh": ":20:1: expected OFFSET, CHANNELS, JOINT, End Site or '}' in 'hips', found 'MOTION'",
    "broken/negative_frame_time.bvh": ":23:13: expected the seconds between two frames, above 0, found '-0.05'",
    "broken/nul_byte.bvh": ":8:8: expected text, found a NUL byte",
    "broken/text_value.bvh": ":25:27: expected a number, found 'abc'",
    "broken/cut_in_a_frame.bvh": ":25:24: frame 2 is cut short: expected 12 numbers, found 9",
    "broken/utf16.bvh": ":1:1: expected ASCII, Latin-1 or UTF-8 text",
    "broken/not_xml.urdf": ":1:1: expected well-formed XML",
    "broken/parent_cycle.urdf": ":6:3: expected joints that form a tree",
    "broken/zero_axis.urdf": ":8:5: expected an axis of joint 'first' that is not zero",
    "broken/cut.glb": "at byte 13522: the file is cut short: expected 27044 bytes",
    "broken/missing_bin.gltf": ":132:11: buffers[0].uri: expected a file in the same folder",
    "broken/scene_wrong_type.gltf": ":5:11: scene: expected an index or a count",
    "broken/bad_array.gltf": ":38:18: meshes[0].primitives: expected an array",
    "broken/bad_number.gltf": ":69:19: materials[0].alphaCutoff: expected a number",
    "broken/bad_object.gltf": ":61:28: materials[0].pbrMetallicRoughness: expected an object",
    "broken/bad_string.gltf": ":8:12: scenes[0].name: expected a text",
    "broken/bad_index.gltf": ":53:5: skins[0].joints[0]: expected an index or a count",
    "bad/Empty.c3d": "at byte 0: expected a header of 512 bytes",
    "bad/amc_frame_gap.amc": ":64:1: expected frame 3, found '7'",
    "bad/amc_no_header.amc": ":1:1: expected :FULLY-SPECIFIED or :DEGREES",
    "bad/amc_truncated_mid_frame.amc": ":196:1: expected 2 values for rhand, found 1",
    "bad/asf_cycle.asf": ":319:5: expected one parent of 'lfemur'",
    "bad/asf_nan_length.asf": ":22:6: expected 1 values for length, found 'nan'",
    "bad/asf_truncated_bonedata.asf": ":124:6: expected 3 values for direction",
    "bad/badParameterOffset.c3d": "at byte 1288: expected the distance from UNITS to the next parameter",
    "bad/bvh_bom.bvh": "warns: byte-order mark",
    "bad/bvh_channel_name_unknown.bvh": ":6:43: expected a channel",
    "bad/bvh_decimal_comma.bvh": ":122:13: expected the seconds between two frames, with a decimal point",
    "bad/bvh_empty.bvh": ":1:1: expected HIERARCHY, found the end of the file",
    "bad/bvh_frames_too_many.bvh": "warns: the header states 999999999 frames, the file has 2; 2 were read",
    "bad/bvh_missing_brace.bvh": ":119:1: expected OFFSET, CHANNELS, JOINT, End Site or '}' in 'Hips', found 'MOTION'",
    "bad/bvh_negative_frame_time.bvh": ":122:13: expected the seconds between two frames, above 0, found '-0.033333'",
    "bad/bvh_nul_bytes.bvh": ":5:5: expected text, found a NUL byte",
    "bad/bvh_text_value.bvh": ":124:372: expected a number, found 'abc'",
    "bad/bvh_truncated_mid_frame.bvh": ":124:227: frame 2 is cut short: expected 57 numbers, found 34",
    "bad/bvh_utf16.bvh": ":1:1: expected ASCII, Latin-1 or UTF-8 text",
    "bad/c3d_bad_processor.c3d": "at byte 515: expected processor 84 (Intel), 85 (DEC) or 86 (SGI), found 127",
    "bad/c3d_header_only.c3d": "at byte 0: expected parameters inside the file",
    "bad/c3d_param_ptr_zero.c3d": "at byte 0: expected the block of the parameters",
    "bad/c3d_truncated_data.c3d": "at byte 1660: the data are cut short",
    "bad/drake_bad.urdf": ":1:1: expected well-formed XML",
    "bad/glb_truncated.glb": "at byte 20000: the file is cut short: expected 50116 bytes",
    "bad/rtb_test_notxml.urdf": ":1:1: expected well-formed XML",
    "bad/urdf_parent_cycle.urdf": ":41:5: expected joints that form a tree",
    "bad/urdf_zero_axis.urdf": ":45:9: expected an axis of joint 'panda_joint1' that is not zero",
    "bad/gltf_assimp/IncorrectVertexArrays_Cube.gltf": ":151:18: buffers[0].uri: expected a file in the same folder",
    "bad/gltf_assimp/MissingBin_BoxTextured.gltf": ":178:20: buffers[0].uri: expected a file in the same folder",
    "bad/gltf_assimp/SchemaFailures_sceneWrongType.gltf": ":6:14: scene: expected an index or a count",
    "bad/gltf_assimp/wrongTypes_badArray.gltf": ":44:27: meshes[0].primitives: expected an array",
    "bad/gltf_assimp/wrongTypes_badNumber.gltf": ":132:14: materials[0].normalTexture.scale: expected a number",
    "bad/gltf_assimp/wrongTypes_badObject.gltf": ":125:37: materials[0].pbrMetallicRoughness: expected an object",
    "bad/gltf_assimp/wrongTypes_badString.gltf": ":12:13: scenes[0].name: expected a text",
    "bad/gltf_assimp/wrongTypes_badUint.gltf": ":128:30: materials[0].pbrMetallicRoughness.baseColorTexture.index",
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


@pytest.mark.files(SKELETONS)
def test_a_skeleton_file_loads(path, expected):
    joints, size, sites, frames, fps, warning = expected
    scene = checked_load(path, warning)
    skeleton = scene.skeleton
    assert (len(skeleton.joints), skeleton.size, len(skeleton.sites)) == (joints, size, sites)
    assert skeleton.up == ("z" if path.suffix in (".urdf", ".URDF", ".xml") else "y")
    if frames is None:
        assert scene.motion is None
    else:
        assert scene.motion.poses.shape == (frames, size)
        assert scene.motion.fps == fps
        assert np.isfinite(scene.motion.poses).all()


@pytest.mark.files(MARKERS)
def test_a_marker_file_loads(path, expected):
    markers, frames, fps, unseen, warning = expected
    scene = checked_load(path, warning)
    assert not scene.has_skeleton
    assert scene.markers.positions.shape == (frames, markers, 3)
    assert scene.markers.fps == fps
    assert np.count_nonzero(~scene.markers.seen) == unseen
    assert scene.markers.up == ("y" if path.name == "walk.c3d" else "z")
    assert len(set(scene.markers.names)) == markers
    assert np.nanmax(np.abs(scene.markers.positions)) < 4.0  # metres


@pytest.mark.files(BAD)
def test_a_bad_file_fails_as_asked(path, expected):
    folder, message = path.parent.parent, expected
    asf = folder / ("small/leg.asf" if path.parent.name == "broken" else "cmu/02.asf")
    options = {"skeleton": asf} if path.suffix == ".amc" else {}
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


def files_below(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.suffix.lower() not in NOT_OURS}


def test_the_table_has_every_fixture(fixtures):
    strange = files_below(fixtures) - {*SKELETONS, *MARKERS, *BAD}
    assert not {file for file in strange if not file.endswith((".py", ".pyc", ".stl"))}


def test_the_table_has_every_recording(data_dir, fixtures):
    files = files_below(data_dir)
    known = {file for file in (*SKELETONS, *MARKERS, *BAD) if not (fixtures / file).exists()}
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
