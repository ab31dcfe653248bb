"""ASF and AMC: local axes, units, limits; the same take as AMC, BVH and C3D."""

import numpy as np
import pytest

from posable.errors import FormatError, PosableWarning
from posable.formats import load, save
from posable.model.joints import Ball, Fixed, Free, Revolute, Universal
from posable.model.kinematics import forward

from .conftest import difference, positions

ASF = """# comment
:version 1.10
:name toy
:units
  mass 2.0
  length 0.45
  angle deg
:documentation
   anything : at all
:root
   order TX TY TZ RX RY RZ
   axis XYZ
   position 0 0 0
   orientation 0 0 0
:bonedata
  begin
     id 1
     name hip
     direction 0 -2 0
     length 3
     axis 0 0 20 XYZ
     bodymass 5
     cofmass 1.5
     dof rx ry rz
     limits (-160.0 20.0)
            (-70 70)
            (-inf inf)
  end
  begin
     id 2
     name knee
     direction 0 0 1
     length 2
     axis 30 40 50 ZXY
     dof rz rx
     limits (-10 170) (-5 5)
  end
  begin
     id 3
     name plate
     direction 1 0 0
     length 1
     axis 0 0 0 XYZ
  end
:hierarchy
  begin
    root hip plate
    hip knee
  end
"""
AMC = (
    "#!OML:ASF\n:FULLY-SPECIFIED\n:DEGREES\n1\nroot 1 2 3 10 20 30\nhip 5 6 7\nknee 8 9\n"
    "2\nroot 1 2 4 1.0e-014 20 30\nhip 5 6 8\nknee 8 -9\n"
)
METRES = 0.0254 / 0.45


@pytest.fixture
def pair(tmp_path):
    def write(asf=ASF, amc=AMC):
        (tmp_path / "toy.asf").write_bytes(asf.encode("latin-1"))
        (tmp_path / "toy_01.amc").write_bytes(amc.encode("latin-1"))
        return tmp_path / "toy_01.amc"

    return write


def turn(axis, degrees):
    a, (c, s) = "xyz".index(axis), (np.cos(np.radians(degrees)), np.sin(np.radians(degrees)))
    out = np.eye(3)
    i, j = (a + 1) % 3, (a + 2) % 3
    out[i, i], out[i, j], out[j, i], out[j, j] = c, -s, s, c
    return out


def plain_amc(asf_path, amc_path):
    """Start of every bone over time [m]: a second implementation, by the recursion W = W_parent C M C'."""
    lines = [
        line.split() for line in asf_path.read_text("latin-1").splitlines() if line.strip() and not line.startswith("#")
    ]
    bones, parents, bone, section, length, order = {}, {}, None, "", 1.0, ""
    for words in lines:
        if words[0].startswith(":"):
            section = words[0]
        elif section == ":units" and words[0] == "length":
            length = float(words[1])
        elif section == ":root" and words[0] == "order":
            order = [word[1].lower() for word in words[4:]]
        elif section == ":bonedata":
            if words[0] == "begin":
                bone = {"dof": []}
            elif words[0] == "end":
                bones[bone["name"]] = bone
            elif words[0] == "name":
                bone["name"] = words[1]
            elif words[0] == "direction":
                bone["direction"] = np.array(words[1:4], dtype=float)
            elif words[0] == "length":
                bone["length"] = float(words[1])
            elif words[0] == "axis":
                bone["C"] = np.eye(3)
                for angle, axis in zip(words[1:4], words[4].lower(), strict=True):
                    bone["C"] = turn(axis, float(angle)) @ bone["C"]
            elif words[0] == "dof":
                bone["dof"] = words[1:]
        elif section == ":hierarchy" and words[0] not in ("begin", "end"):
            parents |= dict.fromkeys(words[1:], words[0])
    out = {name: [] for name in ("root", *bones)}
    frame = {}
    frames = []
    for line in amc_path.read_text("latin-1").splitlines():
        words = line.split()
        if len(words) == 1 and words[0].isdigit():
            frame = {}
            frames.append(frame)
        elif frames and words:
            frame[words[0]] = [float(word) for word in words[1:]]
    for frame in frames:
        x, y, z, a, b, c = frame["root"]
        world = {"root": turn(order[2], c) @ turn(order[1], b) @ turn(order[0], a)}
        start, end = {"root": np.array([x, y, z])}, {"root": np.array([x, y, z])}
        for name in bones:  # parents come first in these files
            bone, motion = bones[name], np.eye(3)
            for axis, value in zip(bone["dof"], frame.get(name, []), strict=True):
                motion = turn(axis[1], value) @ motion
            start[name] = end[parents[name]]
            world[name] = world[parents[name]] @ bone["C"] @ motion @ bone["C"].T
            along = bone["direction"] / np.linalg.norm(bone["direction"])
            end[name] = start[name] + world[name] @ along * bone["length"]
        for name, track in out.items():
            track.append(start[name] * 0.0254 / length)
    return {name: np.array(track) for name, track in out.items()}


def test_what_the_skeleton_is(pair):
    skeleton = load(pair().with_name("toy.asf")).skeleton
    assert skeleton.names == ("root", "hip", "knee", "plate")
    kinds = [type(joint.motion) for joint in skeleton.joints]
    assert kinds == [Free, Ball, Universal, Fixed]
    assert skeleton.joint("hip").motion.order == "zyx"  # x first about fixed axes: the last of the intrinsic ones
    assert skeleton.joint("knee").motion.axes == "xz"
    assert (skeleton.name, skeleton.up) == ("toy", "y")
    assert skeleton.unit == pytest.approx(METRES)
    np.testing.assert_allclose(np.degrees(skeleton.lower[skeleton.index("hip")]), [-np.inf, -70, -160])
    np.testing.assert_allclose(np.degrees(skeleton.upper[skeleton.index("knee")]), [5, 170])
    assert skeleton.joint("hip").mass == 10
    assert skeleton.site_names == ("knee.end", "plate.end")


def test_a_toy_agrees_with_the_second_implementation(pair):
    path = pair()
    scene = load(path)
    frames = forward(scene.skeleton, scene.motion.poses)
    for name, track in plain_amc(path.with_name("toy.asf"), path).items():
        np.testing.assert_allclose(frames.position(name), track, atol=1e-12)
    assert scene.motion.fps == 120
    assert load(path, fps=60).motion.fps == 60


@pytest.mark.files(
    {
        "walk.amc": "walk.asf",
        "small/leg_01.amc": "leg.asf",
        "cmu/02_01.amc": "02.asf",
        "cmu/05_01.amc": "05.asf",
        "hdm05/HDM_dg_06-03_03_120.amc": "HDM_dg.asf",
        "hdm05/HDM_tr_elbowToKnee1RepsLelbowStart_021_120.amc": "HDM_tr.asf",
    }
)
def test_takes_agree_with_the_second_implementation(path, expected):
    scene = load(path)
    frames = forward(scene.skeleton, scene.motion.poses)
    for name, track in plain_amc(path.with_name(expected), path).items():
        np.testing.assert_allclose(frames.position(name), track, atol=1e-9)


def test_the_published_code_agrees(data_dir):
    oracle = np.load(data_dir / "oracle" / "HDM_dg_06-03_03_120_frame100.npz")
    scene = load(data_dir / "hdm05" / "HDM_dg_06-03_03_120.amc")
    frames = forward(scene.skeleton, scene.motion.poses)
    for i, name in enumerate(oracle["bone_names"]):
        np.testing.assert_allclose(frames.position(str(name)), oracle["fk_start_pos_inch"][i].T * 0.0254, atol=1e-12)


def test_the_same_walk_as_bvh_glb_and_c3d(fixtures):
    """All were written from the same poses."""
    places = {
        suffix: positions((scene := load(fixtures / f"walk.{suffix}")).skeleton, scene.motion.poses)
        for suffix in ("amc", "bvh", "glb")
    }
    for name in ("elbow.L", "wrist.R", "knee.L", "ankle.R"):
        np.testing.assert_allclose(places["amc"][name], places["bvh"][name], atol=1e-6)
        np.testing.assert_allclose(places["glb"][name], places["bvh"][name], atol=1e-5)
    markers = load(fixtures / "walk.c3d").markers
    for marker, joint in {"RKNE": "knee.R", "LKNE": "knee.L", "RELB": "elbow.R", "RANK": "ankle.R"}.items():
        gap = np.linalg.norm(markers.positions[:, markers.index(marker)] - places["bvh"][joint], axis=1)
        assert gap.max() < 0.12
        assert np.ptp(gap) < 0.05


def test_the_same_take_as_bvh_and_c3d(data_dir):
    """The BVH has a T-pose in front, and its chest has no length: neck and shoulders start where the thorax does."""
    amc, bvh = load(data_dir / "cmu/02_01.amc"), load(data_dir / "cmu/02_01.bvh", unit="asf")
    a, b = positions(amc.skeleton, amc.motion.poses), positions(bvh.skeleton, bvh.motion.poses[1:])
    same = {
        "root": "Hips", "lfemur": "LeftUpLeg", "ltibia": "LeftLeg", "lfoot": "LeftFoot", "ltoes": "LeftToeBase",
        "rtibia": "RightLeg", "rfoot": "RightFoot", "upperback": "Spine", "thorax": "Spine1",
        "rtoes.end": "RightToeBase.end",
    }  # fmt: skip
    for ours, theirs in same.items():
        np.testing.assert_allclose(a[ours], b[theirs], atol=1e-5)
    for ours, theirs in {
        "upperneck": "Neck1",
        "lhumerus": "LeftArm",
        "lradius": "LeftForeArm",
        "rwrist": "RightHand",
    }.items():
        np.testing.assert_allclose(a[ours] - a["lowerneck"], b[theirs] - b["Neck"], atol=1e-5)
    markers = load(data_dir / "cmu/02_01.c3d").markers
    assert len(markers) == len(amc.motion)
    shuffled = markers.positions[..., [1, 2, 0]]  # Vicon's axes: x ahead, y to the left, z up
    for marker, joint in {"RKNE": "rtibia", "LKNE": "ltibia", "RELB": "rradius", "RANK": "rfoot"}.items():
        gap = np.linalg.norm(shuffled[:, markers.index(f"TakeoMonday:{marker}")] - a[joint], axis=1)
        assert gap.max() < 0.12
        assert np.ptp(gap) < 0.05


def test_radians_and_other_units(pair):
    asf = (
        ASF.replace("angle deg", "angle rad").replace("0 0 20 XYZ", "0 0 0.3 XYZ").replace("length 0.45", "length 1.0")
    )
    path = pair(asf, AMC.replace(":DEGREES", ":RADIANS"))
    scene = load(path)
    assert scene.skeleton.unit == pytest.approx(0.0254)
    assert scene.motion.poses[0][scene.skeleton.dof("root.x")] == 10
    np.testing.assert_allclose(scene.skeleton.upper[scene.skeleton.index("knee")], [5, 170])
    path = pair(asf, AMC.replace(":DEGREES\n", ""))
    assert load(path).motion.poses[0][scene.skeleton.dof("root.x")] == 10  # the ASF says what the AMC does not


def test_an_oriented_root_moves_along_the_worlds_axes(pair):
    path = pair(ASF.replace("orientation 0 0 0", "orientation 30 40 50").replace("position 0 0 0", "position 1 1 1"))
    scene = load(path)
    np.testing.assert_allclose(
        positions(scene.skeleton, scene.motion.poses)["root"], np.array([[2, 3, 4], [2, 3, 5]]) * METRES
    )
    save(path, scene)
    assert difference(scene.motion, load(path).motion) < 1e-12


def test_latin1_and_mixed_line_endings(pair):
    path = pair(amc=AMC.replace("#!OML:ASF", "#!OML:ASF X:\\für Bonn").replace("\nroot", "\r\nroot"))
    assert len(load(path).motion) == 2


def test_bones_in_another_order_per_frame(pair):
    first = load(pair()).motion.poses
    swapped = AMC.replace("hip 5 6 8\nknee 8 -9", "knee 8 -9\nhip 5 6 8")
    np.testing.assert_array_equal(load(pair(amc=swapped)).motion.poses, first)


def test_a_bone_without_freedom_may_be_listed(pair):
    first = load(pair()).motion.poses
    np.testing.assert_array_equal(load(pair(amc=AMC.replace("knee 8", "plate\nknee 8"))).motion.poses, first)


def test_a_given_skeleton_and_none_at_all(pair, tmp_path):
    path = pair()
    skeleton = load(tmp_path / "toy.asf").skeleton
    (tmp_path / "toy.asf").rename(tmp_path / "other.asf")
    with pytest.raises(FormatError, match="needs its skeleton"):
        load(path)
    assert load(path, skeleton=skeleton).skeleton is skeleton
    assert len(load(path, skeleton=tmp_path / "other.asf").motion) == 2
    with pytest.raises(FormatError, match="came from elsewhere"):
        load(path, skeleton=skeleton.replace(info={}))


def test_translating_and_stretching_bones(pair):
    asf = ASF.replace("dof rz rx\n     limits (-10 170) (-5 5)", "dof tx ty tz rx ry rz").replace(
        "dof rx ry rz", "dof tx rx l"
    )
    asf = asf.replace("limits (-160.0 20.0)\n            (-70 70)\n            (-inf inf)", "")
    amc = AMC.replace("knee 8 9", "knee 1 2 3 4 5 6").replace("knee 8 -9", "knee 1 2 3 4 5 6")
    with pytest.warns(PosableWarning, match="changes its length"):
        scene = load(pair(asf, amc))
    assert isinstance(scene.skeleton.joint("knee").motion, Free)
    assert isinstance(scene.skeleton.joint("hip").motion, Revolute)
    assert "hip.tx" in scene.skeleton.names
    assert scene.motion.poses[0][scene.skeleton.dof("hip.tx")] == pytest.approx(5 * METRES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("dof rx ry rz", "dof rx ry rq"), "degrees of freedom among"),
        (("axis 0 0 20 XYZ", "axis 0 0 20 XXZ"), "an order such as XYZ"),
        (("(-160.0 20.0)", "(20 -160)"), "a lower limit below the upper"),
        (("(-160.0 20.0)", "(20 x)"), "a pair of limits"),
        (("    hip knee", "    hip knees"), "the name of a bone"),
        (("    hip knee", "    knee hip\n    hip knee"), "one parent"),
        (("root hip plate", "root plate\n    knee hip"), "a cycle"),
        (("name knee", "name hip"), "a unique bone name"),
        ((":hierarchy", ":nothing"), ":hierarchy"),
        (("  end\n:hierarchy", ":hierarchy"), "end of bone"),
        (("length 0.45", "length 0"), "a length unit above 0"),
        (("direction 0 0 1", "direction 0 0 1e999"), "3 values for direction"),
        (("order TX TY TZ RX RY RZ", "order TX TX TZ RX RY RZ"), "an order such as"),
    ],
)
def test_a_wrong_asf(pair, change, message):
    assert change[0] in ASF
    with pytest.raises(FormatError, match=message) as caught:
        load(pair(ASF.replace(*change)).with_name("toy.asf"))
    assert caught.value.line is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("knee 8 9", "knee 8"), "2 values for knee, found 1"),
        (("knee 8 9", "knee 8 x"), "a number for knee"),
        (("knee 8 9", "knee 8 nan"), "a number for knee"),
        (("knee 8 9", "elbow 8 9"), "a bone of the skeleton"),
        (("knee 8 -9", "hip 1 2 3"), "a bone of the skeleton, once a frame"),
        (("hip 5 6 8\n", ""), "bone 'hip' in frame 2"),
        (("\n2\n", "\n3\n"), "expected frame 2, found '3'"),
        (("\n1\n", "\n"), "a frame number"),
    ],
)
def test_a_wrong_amc(pair, change, message):
    with pytest.raises(FormatError, match=message) as caught:
        load(pair(amc=AMC.replace(*change)))
    assert caught.value.line is not None


def test_round_trips_do_not_drift(tmp_path, motion, fixtures):
    path = tmp_path / "out.amc"
    save(path, motion)
    first = load(path).motion
    assert difference(motion, first, lambda name: "root" if name == "hips" else name) < 1e-10
    assert first.fps == 25
    for start in (first, load(fixtures / "walk.amc").motion):
        save(path, start)
        second = load(path).motion
        assert second.skeleton.names == start.skeleton.names
        np.testing.assert_allclose(second.poses, start.poses, atol=1e-12)
        np.testing.assert_allclose(second.skeleton.lower, start.skeleton.lower)
        np.testing.assert_allclose(second.skeleton.upper, start.skeleton.upper)


def test_a_skeleton_alone(tmp_path, figure):
    save(tmp_path / "figure.asf", figure)
    assert not (tmp_path / "figure.amc").exists()
    assert load(tmp_path / "figure.asf").skeleton.name == "toy"
