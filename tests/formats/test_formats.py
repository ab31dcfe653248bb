"""load and save: what a file is, which way is up, what is missing, and every format with every kind of figure."""

import pickle
import re

import numpy as np
import pytest

from posable.errors import FormatError, PosableError, PosableWarning, UnknownName
from posable.formats import SUFFIXES, Scene, load, names, save, table
from posable.formats.base import FORMATS
from posable.model.kinematics import forward
from posable.model.motion import Markers, Motion

from .conftest import difference, positions

WRITERS = [suffix for known in table() if known.write for suffix in known.suffixes]


def test_the_table_of_formats():
    assert names() == (
        "bvh", "asf", "amc", "gltf", "fbx", "usd", "urdf", "mjcf", "c3d", "trc", "mot", "csv", "npz", "keypoints",
    )  # fmt: skip
    assert set(WRITERS) == {
        ".bvh", ".asf", ".amc", ".glb", ".gltf", ".vrm", ".usd", ".usda", ".usdc", ".urdf", ".c3d", ".trc", ".mot",
        ".sto", ".csv", ".npz",
    }  # fmt: skip
    assert all(known.conventions and known.holds for known in table())
    assert {name: FORMATS.get(name).suffixes for name in names()} == SUFFIXES


@pytest.mark.files(
    "walk.bvh",
    "walk.asf",
    "walk.glb",
    "walk.c3d",
    "arm/arm.urdf",
    "small/leg.gltf",
    "c3d/sgi_int.c3d",
    "gltf/khronos_SimpleSkin_embedded.gltf",
    "c3d/MyCube.c3d",
    "c3d/sample01_Eb015si.c3d",
)
@pytest.mark.parametrize("suffix", ["", ".dat"])
def test_content_decides(path, tmp_path, suffix):
    copy = tmp_path / f"thing{suffix}"
    copy.write_bytes(path.read_bytes())
    scene = load(copy)
    assert scene.has_skeleton or scene.markers is not None


def test_content_beats_the_suffix(fixtures, tmp_path):
    path = tmp_path / "thing.urdf"
    path.write_bytes((fixtures / "walk.bvh").read_bytes())
    with pytest.warns(PosableWarning, match="has the suffix of URDF, but its content is BVH"):
        assert load(path).motion is not None


def test_what_is_not_a_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.bvh")
    with pytest.raises(FormatError, match="no such file"):
        load(tmp_path / "missing.bvh")
    with pytest.raises(FormatError, match="found a folder"):
        load(tmp_path)
    with pytest.raises(FormatError, match="a device or pipe"):
        load("/dev/zero")
    (tmp_path / "a.xyz").write_text("hello")
    with pytest.raises(FormatError, match=r"not recognised: expected a file of BVH, ASF, .* suffix '\.xyz'"):
        load(tmp_path / "a.xyz")
    (tmp_path / "empty.bvh").write_bytes(b"")
    with pytest.raises(FormatError):
        load(tmp_path / "empty.bvh")


def test_wrong_calls(tmp_path, motion):
    with pytest.raises(FormatError, match="a suffix among"):
        save(tmp_path / "a.xyz", motion)
    with pytest.raises(FormatError, match="TRC holds markers alone"):
        save(tmp_path / "a.trc", motion)
    with pytest.raises(FormatError, match="VRM: expected motion of a character"):
        save(tmp_path / "a.vrm", motion)
    with pytest.raises(FormatError, match="URDF holds a robot and no motion"):
        save(tmp_path / "a.urdf", motion)
    with pytest.raises(PosableError, match="expected a Motion, Skeleton, Markers or Scene"):
        save(tmp_path / "a.bvh", 3)
    with pytest.raises(PosableError, match=r"expected the path first, save\('a.bvh', ...\), got a Motion first"):
        save(motion, "a.bvh")
    with pytest.raises(PosableError, match="up='y'"):
        load(tmp_path / "a.bvh", up="x")
    with pytest.raises(UnknownName, match="unknown unit 'yard'"):
        load(tmp_path / "a.bvh", unit="yard")
    with pytest.raises(PosableError, match="above 0"):
        load(tmp_path / "a.bvh", unit=-1)
    with pytest.raises(FormatError, match="cannot be written"):
        save(tmp_path / "no" / "folder" / "a.bvh", motion)


@pytest.mark.parametrize("suffix", [".bvh", ".amc", ".asf", ".glb"])
def test_empty_scenes_are_refused(tmp_path, suffix):
    markers = Scene(markers=Markers(("a",), np.zeros((1, 1, 3)), 30))
    with pytest.raises(FormatError, match="expected a Motion or a Skeleton") as caught:
        save(tmp_path / f"a{suffix}", markers)
    assert caught.value.path
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".bvh", ".amc", ".glb", ".gltf", ".npz"])
@pytest.mark.parametrize("up", ["y", "z"])
def test_a_motion_through_every_format(tmp_path, motion, suffix, up):
    turned = Motion(motion.skeleton.replace(up=up), motion.poses, motion.fps, "wave")
    save(tmp_path / f"a{suffix}", turned)
    back = load(tmp_path / f"a{suffix}", up=up)
    assert back.skeleton.up == up
    assert back.motion.fps == motion.fps
    rename = (lambda name: "root" if name == "hips" else name) if suffix == ".amc" else (lambda name: name)
    assert difference(turned, back.motion, rename) < 1e-6


@pytest.mark.filterwarnings("ignore:.*do not tell a frame rate")
@pytest.mark.parametrize("suffix", [".bvh", ".amc", ".glb", ".npz", ".csv"])
def test_a_skeleton_alone_stands_at_rest(tmp_path, figure, suffix):
    save(tmp_path / f"a{suffix}", figure)
    back = load(tmp_path / f"a{suffix}", skeleton=figure if suffix == ".csv" else None)
    pose = back.motion.poses[:1] if back.motion is not None else back.skeleton.rest[None]
    ours, theirs = positions(figure, figure.rest[None]), positions(back.skeleton, pose)
    np.testing.assert_allclose(theirs["elbow"], ours["elbow"], atol=1e-6)


def test_turning_keeps_poses_and_heights(fixtures):
    plain, turned = load(fixtures / "arm/arm.urdf"), load(fixtures / "arm/arm.urdf", up="y")
    pose = np.linspace(0.1, 0.5, plain.skeleton.size)
    x, y, z = forward(plain.skeleton, pose).position("tool")
    np.testing.assert_allclose(forward(turned.skeleton, pose).position("tool"), (x, z, -y), atol=1e-12)
    walk, again = load(fixtures / "walk.amc"), load(fixtures / "walk.amc", up="z")
    np.testing.assert_array_equal(walk.motion.poses, again.motion.poses)
    assert again.motion.skeleton is again.skeleton
    assert again.skeleton.up == "z"
    heights = forward(again.skeleton, again.motion.poses).position("skull")[:, 2]
    np.testing.assert_allclose(heights, forward(walk.skeleton, walk.motion.poses).position("skull")[:, 1], atol=1e-12)


def test_saving_at_another_rate(tmp_path, motion):
    save(tmp_path / "a.bvh", motion, fps=50)
    assert len(load(tmp_path / "a.bvh").motion) == 39


@pytest.mark.files(
    "walk.amc",
    "walk.glb",
    "walk.bvh",
    "character.glb",
    "cmu/02_01.amc",
    "hdm05/HDM_dg_06-03_03_120.amc",
    "bvh/animdraw_rokoko_jesse_dance.bvh",
    "gltf/khronos_CesiumMan.glb",
)
def test_a_human_is_as_tall_as_a_human(path):
    scene = load(path)
    points = np.array(list(positions(scene.skeleton, scene.motion.poses[:1]).values()))
    assert 1.0 < np.ptp(points[:, 0, 1]) < 2.0


def test_errors_name_the_file_and_the_place(fixtures, tmp_path):
    lines = (fixtures / "walk.bvh").read_text().split("\n")
    first = next(k for k, line in enumerate(lines) if line.startswith("Frame Time")) + 1
    lines[first + 3] = lines[first + 3].replace(lines[first + 3].split()[4], "abc", 1)
    (tmp_path / "bad.bvh").write_text("\n".join(lines))
    with pytest.raises(FormatError) as caught:
        load(tmp_path / "bad.bvh")
    error = caught.value
    column = lines[first + 3].index("abc") + 1
    assert (error.line, error.column, error.found) == (first + 4, column, "'abc'")
    assert re.match(rf".*bad\.bvh:{first + 4}:{column}: expected a number, found 'abc'$", str(error))


@pytest.mark.filterwarnings("ignore::posable.PosableWarning")
@pytest.mark.files(
    {
        "broken/frames_too_many.bvh": "3 were read",
        "walk.amc": "the skeleton is walk.asf",
        "bvh/assimp_Boxing_Toes.bvh": "3070 were read",
        "cmu/02_01.amc": "the skeleton is 02.asf",
    }
)
def test_notes_say_what_was_repaired(path, expected):
    assert expected in load(path).notes[0]


def test_warnings_point_at_the_caller(fixtures):
    with pytest.warns(PosableWarning) as caught:
        load(fixtures / "broken" / "frames_too_many.bvh")
    assert caught[0].filename == __file__


def test_a_scene_can_be_pickled(fixtures):
    for file in ("walk.glb", "walk.bvh", "walk.c3d", "arm/arm.urdf"):
        path = fixtures / file
        if not path.is_file():
            continue
        scene = load(path)
        back = pickle.loads(pickle.dumps(scene))
        assert back.name == scene.name
        assert repr(back) == repr(scene)
        if scene.motion is not None:
            assert np.array_equal(back.motion.poses, scene.motion.poses)
    assert repr(pickle.loads(pickle.dumps(Scene()))) == "<Scene '': empty>"
