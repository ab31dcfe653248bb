"""BVH: every layout of channels, every line ending, what is repaired and what is refused."""

import itertools
import tracemalloc

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import posable as ps
from posable.errors import FormatError, PosableWarning
from posable.figures import human
from posable.formats import load, save
from posable.model.joints import Ball, Fixed, Free, Joint, Prismatic, Revolute, Universal
from posable.model.kinematics import forward
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

from .conftest import difference, positions

HEAD = "HIERARCHY\nROOT a\n{\n OFFSET 1 2 3\n CHANNELS "
TAIL = " End Site\n {\n  OFFSET 0 1 0\n }\n}\nMOTION\nFrames: 2\nFrame Time: 0.04\n"


@pytest.fixture
def bvh(tmp_path):
    def write(text, name="a.bvh"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def plain_positions(path):
    """Positions of all joints by name in file units: a second, slow reader that takes a file at its word."""
    words = path.read_text().replace("{", " { ").replace("}", " } ").split()
    joints, stack, at, channel = [], [], 1, 0
    while words[at] != "MOTION":
        if words[at] in ("ROOT", "JOINT"):
            joints.append({"name": words[at + 1], "parent": stack[-1] if stack else None, "channels": []})
            stack.append(len(joints) - 1)
            at += 3
        elif words[at] == "End":
            at += 8
        elif words[at] == "OFFSET":
            joints[stack[-1]]["offset"] = np.array(words[at + 1 : at + 4], dtype=float)
            at += 4
        elif words[at] == "CHANNELS":
            count = int(words[at + 1])
            joints[stack[-1]]["channels"] = [(channel + i, words[at + 2 + i]) for i in range(count)]
            channel += count
            at += 2 + count
        else:
            stack.pop()
            at += 1
    values = np.array(words[at + 6 :], dtype=float).reshape(-1, channel)
    out = {}
    for frame in range(len(values)):
        world = []
        for joint in joints:
            local = np.eye(4)
            local[:3, 3] = joint["offset"]
            turn = np.eye(3)
            for column, name in joint["channels"]:
                if name.endswith("position"):
                    local["XYZ".index(name[0]), 3] = values[frame, column]
                else:
                    angle, axis = np.radians(values[frame, column]), np.eye(3)["XYZ".index(name[0])]
                    turn = turn @ Rotation.from_rotvec(angle * axis).as_matrix()
            local[:3, :3] = turn
            world.append((world[joint["parent"]] if joint["parent"] is not None else np.eye(4)) @ local)
            out.setdefault(joint["name"], []).append(world[-1][:3, 3])
    return {name: np.array(track) for name, track in out.items()}


@pytest.mark.parametrize("order", ["".join(p) for p in itertools.permutations("XYZ")] + ["XYX", "ZXZ", "YZY"])
@pytest.mark.parametrize("layout", ["positions first", "rotations first", "no positions"])
def test_every_channel_order(bvh, order, layout):
    turns = [f"{axis}rotation" for axis in order]
    slides = ["Zposition", "Xposition", "Yposition"] if layout != "no positions" else []
    channels = turns + slides if layout == "rotations first" else slides + turns
    child = " JOINT b\n {\n OFFSET 0 5 1\n CHANNELS 3 Yrotation Xrotation Zrotation\n }\n"
    rows = "\n".join(" ".join(str(7 * (i + 1) + 11 * k) for i in range(len(channels) + 3)) for k in range(2))
    path = bvh(f"{HEAD}{len(channels)} {' '.join(channels)}\n{child}{TAIL}{rows}\n")
    scene = load(path, unit=1.0)
    assert isinstance(scene.skeleton.joint("a").motion, Free if slides else Ball)
    frames = forward(scene.skeleton, scene.motion.poses)
    for name, track in plain_positions(path).items():
        np.testing.assert_allclose(frames.position(name), track, atol=1e-9)


def test_six_channels_below_the_root_replace_the_offset(bvh):
    text = (
        "HIERARCHY\nROOT a\n{\nOFFSET 0 0 0\nCHANNELS 3 Zrotation Xrotation Yrotation\nJOINT b\n{\nOFFSET 1 2 3\n"
        "CHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation\nJOINT c\n{\nOFFSET 0 4 0\n}\n}\n}\n"
        "MOTION\nFrames: 1\nFrame Time: 0.1\n10 20 30 5 6 7 40 50 60\n"
    )
    path = bvh(text)
    scene = load(path, unit=1.0)
    frames = forward(scene.skeleton, scene.motion.poses)
    for name, track in plain_positions(path).items():
        np.testing.assert_allclose(frames.position(name), track, atol=1e-9)
    np.testing.assert_allclose(positions(scene.skeleton, scene.skeleton.rest[None])["b"][0], (1, 2, 3))


@pytest.mark.parametrize(
    ("channels", "kinds"),
    [
        ("0", [Fixed]),
        ("1 Xrotation", [Revolute]),
        ("2 Zrotation Xrotation", [Universal]),
        ("1 Yposition", [Prismatic, Fixed]),
        ("3 Xposition Yposition Zposition", [Prismatic, Prismatic, Prismatic, Fixed]),
        ("4 Xposition Yposition Zposition Yrotation", [Prismatic, Prismatic, Prismatic, Revolute]),
        ("5 Xposition Yposition Zrotation Xrotation Yrotation", [Prismatic, Prismatic, Ball]),
    ],
)
def test_fewer_channels(bvh, channels, kinds):
    count = int(channels[0])
    rows = "\n".join(" ".join(str(3 + i + k) for i in range(count)) for k in range(2)) if count else ""
    text = f"{HEAD}{channels}\n{TAIL}{rows}\n"
    path = bvh(text if count else text.replace("Frames: 2", "Frames: 0"))
    scene = load(path, unit=1.0)
    assert [type(joint.motion) for joint in scene.skeleton.joints] == kinds
    assert scene.skeleton.names[-1] == "a"
    if count:
        np.testing.assert_allclose(
            positions(scene.skeleton, scene.motion.poses)["a"], plain_positions(path)["a"], atol=1e-12
        )


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r", "\n\r\n"])
@pytest.mark.parametrize("blank", [" ", "\t", "  \t "])
def test_line_endings_and_blanks(bvh, ending, blank):
    text = f"{HEAD}3 Zrotation Xrotation Yrotation\n{TAIL}1 2 3\n4 5 6"
    scene = load(bvh(text.replace("\n", ending).replace(" ", blank)))
    np.testing.assert_allclose(np.degrees(scene.motion.poses), [[1, 2, 3], [4, 5, 6]])
    assert scene.motion.fps == 25


def test_centimetres_by_default(bvh):
    path = bvh(f"{HEAD}3 Zrotation Xrotation Yrotation\n{TAIL}1 2 3\n4 5 6")
    assert load(path).skeleton.unit == 0.01
    np.testing.assert_allclose(load(path).skeleton.joint("a").offset, (0.01, 0.02, 0.03))
    np.testing.assert_allclose(load(path, unit="m").skeleton.joint("a").offset, (1, 2, 3))
    np.testing.assert_allclose(load(path, unit=0.5).skeleton.sites[0].offset, (0, 0.5, 0))


def test_several_end_sites_and_none(bvh):
    end = "End Site\n{\nOFFSET 0 1 0\n}\n"
    text = f"HIERARCHY\nROOT a\n{{\nOFFSET 0 0 0\n{end}{end}JOINT b\n{{\nOFFSET 0 1 0\n}}\n{end}}}\n"
    with pytest.warns(PosableWarning, match="no MOTION"):
        scene = load(bvh(text))
    assert scene.motion is None
    assert scene.skeleton.site_names == ("a.end", "a.end2", "a.end3", "b.end")


def test_zero_frames(bvh):
    text = f"{HEAD}3 Zrotation Xrotation Yrotation\n{TAIL}".replace("Frames: 2", "Frames: 0")
    scene = load(bvh(text))
    assert scene.motion.poses.shape == (0, 3)
    assert scene.motion.fps == 25
    save(scene_path := bvh("", "out.bvh"), scene)
    assert len(load(scene_path).motion) == 0


@pytest.mark.parametrize(("rows", "kept"), [("1 2 3", 1), ("1 2 3\n4 5 6\n7 8 9", 3)])
def test_a_wrong_frame_count_is_a_warning(bvh, rows, kept):
    with pytest.warns(PosableWarning, match=f"states 2 frames, the file has {kept}; {kept} were read"):
        scene = load(bvh(f"{HEAD}3 Zrotation Xrotation Yrotation\n{TAIL}{rows}"))
    assert len(scene.motion) == kept
    assert "the header states" in scene.notes[0]


def test_names_with_blanks_duplicates_and_umlauts(bvh):
    text = (
        b"HIERARCHY\nROOT Bip01 L Thigh\n{\nOFFSET 0 0 0\nJOINT Fu\xdf {\nOFFSET 0 1 0\n"
        b"JOINT Fu\xdf\n{\nOFFSET 0 1 0\n}\n}\n}\n"
        b"MOTION\nFrames: 0\nFrame Time: 0.1\n"
    )
    with pytest.warns(PosableWarning, match="made unique"):
        scene = load(bvh(text))
    assert scene.skeleton.names == ("Bip01 L Thigh", "Fuß", "Fuß_2")


def test_several_roots_get_a_common_one(bvh):
    root = "ROOT {}\n{{\nOFFSET {} 0 0\nCHANNELS 1 Xrotation\n}}\n"
    with pytest.warns(PosableWarning, match="several ROOTs"):
        scene = load(
            bvh("HIERARCHY\n" + root.format("a", 1) + root.format("b", 2) + "MOTION\nFrames: 1\nFrame Time: 1\n5 6\n")
        )
    assert scene.skeleton.names == ("scene", "a", "b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("HIERARCHY", "HIERARCHIE"), "expected HIERARCHY"),
        (("ROOT", "BOOT"), "expected ROOT"),
        (("ROOT a", "ROOT "), "the name of a joint"),
        (("OFFSET 1 2 3", ""), "OFFSET of 'a'"),
        (("OFFSET 1 2 3", "OFFSET 1 2"), "a number of OFFSET"),
        (("OFFSET 1 2 3", "OFFSET 1 2 inf"), "a number of OFFSET"),
        (("CHANNELS 3", "CHANNELS 4"), "expected a channel"),
        (("CHANNELS 3", "CHANNELS 99999999"), "the number of channels"),
        (("Xrotation", "Zrotation"), "none twice"),
        (("Frames: 2", "Frames: many"), "the number of frames"),
        (("Frames: 2", "Frames: -2"), "the number of frames"),
        (("Frame Time: 0.04", "Frame Time: 0"), "seconds between two frames"),
        (("Frame Time: 0.04", "Frame Time: nan"), "seconds between two frames"),
        (("Frame Time: 0.04", "Pause: 1"), "expected Frame Time:"),
        (("4 5 6", "4 5 x"), "expected a number, found 'x'"),
        (("4 5 6", "4 5 1e999"), "expected a number, found '1e999'"),
        (("4 5 6", "4 5 nan"), "expected a number, found 'nan'"),
        (("4 5 6", "4 5"), "frame 2 is cut short"),
    ],
)
def test_what_is_refused(bvh, change, message):
    text = f"{HEAD}3 Zrotation Xrotation Yrotation\n{TAIL}1 2 3\n4 5 6\n"
    with pytest.raises(FormatError, match=message) as caught:
        load(bvh(text.replace(*change)))
    assert caught.value.line is not None


def test_round_trips_do_not_drift(tmp_path, motion):
    path = tmp_path / "a.bvh"
    save(path, motion)
    first = load(path).motion
    assert difference(motion, first) < 1e-10
    for _ in range(3):
        save(path, first)
        second = load(path).motion
        np.testing.assert_array_equal(second.poses, first.poses)
        np.testing.assert_array_equal(second.skeleton.rest, first.skeleton.rest)
        assert second.skeleton.names == first.skeleton.names
        assert second.fps == first.fps
        first = second


@pytest.mark.files(
    "walk.bvh",
    "small/leg.bvh",
    "small/no_end_site.bvh",
    "small/one_frame.bvh",
    "bvh/bvhio_example.bvh",
    "bvh/pybvh_bvh_test1.bvh",
    "bvh/makehuman_dance1.bvh",
    "bvh/fairmotion_sinusoidal.bvh",
    "bvh/mixamo_test_freebvh.bvh",
)
def test_files_round_trip_exactly(path, tmp_path):
    first = load(path)
    save(tmp_path / "a.bvh", first)
    second = load(tmp_path / "a.bvh")
    np.testing.assert_allclose(second.motion.poses, first.motion.poses, atol=1e-12)
    assert second.skeleton.names == first.skeleton.names
    assert second.skeleton.site_names == first.skeleton.site_names


@pytest.mark.files(
    "walk.bvh",
    "small/leg.bvh",
    "small/rotation_first.bvh",
    "small/no_end_site.bvh",
    "small/tabs_and_crlf.bvh",
    "bvh/bvhio_example.bvh",
    "bvh/pybvh_rotation_first_root.bvh",
    "bvh/pybvh_bvh_test1.bvh",
    "bvh/momentum_simple.bvh",
    "bvh/fairmotion_sinusoidal.bvh",
)
def test_files_agree_with_the_slow_reader(path):
    scene = load(path, unit=1.0)
    frames = forward(scene.skeleton, scene.motion.poses)
    for joint, track in plain_positions(path).items():
        np.testing.assert_allclose(frames.position(joint), track, atol=1e-9)


def test_a_long_motion_is_written_part_by_part(tmp_path, monkeypatch):
    figure = human()
    poses = figure.rest + 0.01 * np.arange(20)[:, None]
    files = tmp_path / "whole.bvh", tmp_path / "parts.bvh"
    save(files[0], Motion(figure, poses, 60.0))
    monkeypatch.setattr("posable.formats.bvh._PART", 7)
    save(files[1], Motion(figure, poses, 60.0))
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_text(encoding="utf-8").count("\n") == len(files[0].read_text(encoding="utf-8").splitlines())
    assert len(load(files[1]).motion) == 20


def test_angles_go_on_from_part_to_part(tmp_path, monkeypatch):
    figure = Skeleton(
        [Joint("top", Ball("rotvec")), Joint("tip", Ball("rotvec"), parent="top", offset=(0.0, 1.0, 0.0))], up="y"
    )
    turned = Rotation.from_euler("ZXY", np.stack([0.11 * np.arange(200), np.full(200, 0.3), np.zeros(200)], axis=1))
    poses = np.concatenate([turned.as_rotvec(), np.zeros((200, 3))], axis=1)  # three and a half turns
    monkeypatch.setattr("posable.formats.bvh._PART", 31)
    save(tmp_path / "turns.bvh", Motion(figure, poses, 60.0))
    rows = (tmp_path / "turns.bvh").read_text(encoding="utf-8").split("Frame Time")[1].splitlines()[1:]
    np.testing.assert_allclose([float(row.split()[0]) for row in rows], np.degrees(0.11 * np.arange(200)), atol=1e-6)


def test_a_long_motion_is_written_in_less_memory_than_it_has(tmp_path, monkeypatch):
    figure = human()
    monkeypatch.setattr("posable.formats.bvh._PART", 256)
    motion = Motion(figure, np.tile(figure.rest, (8_000, 1)), 120.0)
    tracemalloc.start()
    save(tmp_path / "long.bvh", motion)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * motion.poses.nbytes


def test_every_reader_takes_what_is_written(tmp_path):
    """No joint without channels, and one End Site on each leaf and on nothing else."""
    joints = [
        ps.Joint("root", ps.Free()),
        ps.Joint("plate", ps.Fixed(), "root", offset=(0, 0.1, 0)),
        ps.Joint("hand", ps.Revolute("x"), "plate", offset=(0, 0.2, 0)),
    ]
    sites = [ps.Site("a", "hand", (0, 0.05, 0)), ps.Site("b", "hand", (0, 0.08, 0)), ps.Site("c", "plate", (0.1, 0, 0))]
    ps.save(tmp_path / "a.bvh", ps.Skeleton(joints, sites))
    text = (tmp_path / "a.bvh").read_text()
    assert "CHANNELS 0" not in text
    assert text.count("End Site") == 1
    assert "OFFSET 0 8 0" in text
    back = ps.load(tmp_path / "a.bvh")
    assert ps.forward(back.skeleton, back.motion.poses[0]).position("hand") == pytest.approx((0, 0.3, 0))


def test_a_person_of_implausible_size_is_noted(tmp_path):
    path = tmp_path / "small.bvh"
    small = ps.figures.human(height=0.3)
    ps.save(path, ps.Motion(small, small.rest[None], 30.0))
    (note,) = ps.load(path).notes
    assert "0.3 m tall" in note
    assert "--unit asf" in note  # 2.54 / 0.45 times as large
    assert ps.load(path, unit="asf").notes == ()
    usual = ps.figures.human()
    ps.save(path, ps.Motion(usual, usual.rest[None], 30.0))
    assert ps.load(path).notes == ()
