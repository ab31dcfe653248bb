"""CSV and NPZ: exact round trips, and files that other programs wrote."""

import io
import zipfile

import numpy as np
import pytest

from posable.errors import FormatError, PosableWarning
from posable.formats import load, save
from posable.model.motion import Markers
from posable.model.skeleton import Skeleton

UNKNOWN_ORDER = b"""{"sites": [], "joints": [{"name": "hip", "parent": null, "motion": {"type": "Ball", "order": "zxw"},
    "offset": null, "rotation": null, "limits": null, "rest": 0, "gain": 1, "mass": 0, "frozen": false,
    "center": null}]}"""


def same_skeleton(a: Skeleton, b: Skeleton) -> bool:
    arrays = all(np.array_equal(x, y) for x, y in zip(a.figure, b.figure, strict=True))
    limits = np.array_equal(a.lower, b.lower) and np.array_equal(a.upper, b.upper) and np.array_equal(a.rest, b.rest)
    return arrays and limits and a.dof_names == b.dof_names and a.site_names == b.site_names and a.up == b.up


@pytest.fixture
def markers():
    positions = np.random.default_rng(0).normal(size=(9, 2, 3))
    positions[2, 1] = np.nan
    return Markers(("a", 'odd, "name'), positions, 60.0, up="y")


def test_motion_as_npz(tmp_path, motion):
    save(tmp_path / "a.npz", motion)
    back = load(tmp_path / "a.npz")
    np.testing.assert_array_equal(back.motion.poses, motion.poses)
    assert back.motion.fps == motion.fps
    assert same_skeleton(back.skeleton, motion.skeleton)


def test_a_robot_as_npz(tmp_path, fixtures):
    robot = load(fixtures / "arm" / "arm.urdf").skeleton
    assert robot.couplings
    save(tmp_path / "a.npz", robot)
    back = load(tmp_path / "a.npz").skeleton
    assert same_skeleton(back, robot)
    assert back.couplings == robot.couplings


def test_markers_as_npz(tmp_path, markers):
    save(tmp_path / "a.npz", markers)
    back = load(tmp_path / "a.npz").markers
    np.testing.assert_array_equal(back.positions, markers.positions)
    assert (back.names, back.fps, back.up) == (markers.names, 60.0, "y")


def test_poses_of_another_program(tmp_path, figure):
    np.savez_compressed(tmp_path / "a.npz", poses=np.zeros((5, figure.size), np.float32), fps=24)
    assert load(tmp_path / "a.npz", skeleton=figure).motion.fps == 24
    with pytest.raises(FormatError, match="poses alone"):
        load(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"poses": np.zeros((5, 3)), "fps": 24}, "finite poses of shape"),
        ({"poses": np.array(["a"]), "fps": 24}, "numbers in 'poses'"),
        ({"other": np.zeros(3)}, "poses, a skeleton or marker_positions"),
        ({"skeleton": np.zeros(3)}, "JSON in bytes"),
        ({"skeleton": np.frombuffer(b"{}", np.uint8)}, "a skeleton as JSON"),
        ({"skeleton": np.frombuffer(b'{"joints": [{}], "sites": []}', np.uint8)}, "a skeleton as JSON"),
        ({"marker_positions": np.zeros((2, 3))}, "marker_positions of shape"),
        ({"skeleton": np.frombuffer(UNKNOWN_ORDER, np.uint8)}, "joint 'hip': expected a rotation order among"),
    ],
)
def test_wrong_arrays(tmp_path, figure, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    skeleton = figure if "poses" in arrays else None
    with pytest.raises(FormatError, match=message):
        load(tmp_path / "a.npz", skeleton=skeleton)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def test_no_pickles(tmp_path, figure):
    np.savez(tmp_path / "a.npz", poses=np.array([Trap()], dtype=object), fps=np.array(1.0))
    with pytest.raises(FormatError):
        load(tmp_path / "a.npz", skeleton=figure)


def test_a_zip_bomb_is_not_unpacked(tmp_path, figure):
    header = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (8, 16777216), }".ljust(117)
        + b"\n"
    )
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("poses.npy", "w") as file,
    ):
        file.write(header)
        for _ in range(1024):
            file.write(bytes(1 << 20))
    assert (tmp_path / "a.npz").stat().st_size < 2e6
    with pytest.raises(FormatError, match="unpack to"):
        load(tmp_path / "a.npz", skeleton=figure)


@pytest.mark.parametrize("shape", ["(-1, 3)", "(99999999999, 3)", "(1, 2, 'x')", "3", "()", "(" * 500])
def test_a_wrong_array_shape_is_rejected(tmp_path, shape, figure):
    text = ("{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }").encode()
    raw = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(16)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("poses.npy", raw)
    (tmp_path / "a.npz").write_bytes(file.getvalue())
    with pytest.raises(FormatError):
        load(tmp_path / "a.npz", skeleton=figure)


def test_motion_as_csv(tmp_path, motion):
    save(tmp_path / "a.csv", motion)
    back = load(tmp_path / "a.csv", skeleton=motion.skeleton).motion
    np.testing.assert_array_equal(back.poses, motion.poses)
    assert back.fps == motion.fps
    table = np.genfromtxt(tmp_path / "a.csv", delimiter=",", skip_header=1)
    np.testing.assert_array_equal(table[:, 1:], motion.poses)


def test_markers_as_csv(tmp_path, markers):
    save(tmp_path / "a.csv", markers)
    back = load(tmp_path / "a.csv").markers
    np.testing.assert_array_equal(back.positions, markers.positions)
    assert (back.names, back.fps) == (markers.names, 60.0)


def test_other_csv_dialects(tmp_path):
    (tmp_path / "a.csv").write_text("frame;time;LFHD X;LFHD Y;LFHD Z\r\n1;0.00;1;2;3\r\n2;0.01;;;\r\n")
    markers = load(tmp_path / "a.csv").markers
    assert (markers.names, markers.fps) == (("LFHD",), 100)
    np.testing.assert_array_equal(markers.seen[:, 0], [True, False])


def test_missing_columns_stay_at_rest(tmp_path, figure):
    (tmp_path / "a.csv").write_text("time,elbow\n0,0.5\n0.1,0.6\n")
    with pytest.warns(PosableWarning, match="stay at rest"):
        motion = load(tmp_path / "a.csv", skeleton=figure).motion
    assert motion.poses[1][figure.dof("elbow")] == 0.6
    assert motion.fps == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a header"),
        ("time,elbw\n0,1\n1,1\n", "did you mean 'elbow'"),
        ("time,elbow\n0,x\n1,1\n", "a number in column 2"),
        ("time,elbow\n0,1\n1\n", "2 cells"),
        ("time,elbow\n0,1\n1,\n", "a number in every cell"),
        ("time,elbow\n0,1\n1,1\n5,1\n", "times 2.5 s apart"),
        ("time,elbow\n3,1\n2,1\n1,1\n", "times"),
    ],
)
def test_a_wrong_csv(tmp_path, figure, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FormatError, match=message):
        load(tmp_path / "a.csv", skeleton=figure)


def test_a_csv_without_motion_or_markers(tmp_path):
    (tmp_path / "a.csv").write_text("time,elbow\n0,1\n1,2\n")
    with pytest.raises(FormatError, match="skeleton= for motion"):
        load(tmp_path / "a.csv")


def test_columns_are_taken_by_their_names(tmp_path, figure, motion):
    """A figure with its joints in another order: every value goes to the joint that it is of."""
    order = ["hips", "cart", *(name for name in figure.names if name not in ("hips", "cart"))]
    other = figure.replace(joints=[figure.joint(name) for name in order])
    path = tmp_path / "a.npz"
    save(path, motion)
    assert figure.dof_names != other.dof_names
    back = load(path, skeleton=other)
    for name in figure.dof_names:
        column = motion.poses[:, figure.dof_names.index(name)]
        assert np.array_equal(back.motion.poses[:, other.dof_names.index(name)], column)
    assert any("dof_names" in note for note in back.notes)


def test_columns_of_another_figure_are_refused(tmp_path, figure, motion):
    path = tmp_path / "a.npz"
    names = [name.replace("elbow", "elbo") for name in figure.dof_names]
    np.savez(path, poses=motion.poses, fps=25.0, dof_names=np.array(names))
    with pytest.raises(FormatError, match="'elbo', did you mean 'elbow'"):
        load(path, skeleton=figure)
    for count in (3, 0):
        np.savez(path, poses=motion.poses, fps=25.0, dof_names=np.array(names[:count], str))
        with pytest.raises(FormatError, match=f"{count} names"):
            load(path, skeleton=figure)
    np.savez(path, poses=motion.poses, fps=25.0)  # without names the order is the skeleton's
    assert np.array_equal(load(path, skeleton=figure).motion.poses, motion.poses)


def test_infinite_markers_are_unseen(tmp_path):
    positions = np.zeros((2, 3, 3))
    positions[0, 1, 2], positions[1, 0, 0], positions[1, 2, 1] = np.inf, -np.inf, np.nan
    np.savez(tmp_path / "a.npz", marker_names=np.array(list("abc")), marker_positions=positions, marker_fps=30.0)
    with pytest.warns(PosableWarning, match="2 infinite marker positions"):
        markers = load(tmp_path / "a.npz").markers
    assert np.array_equal(markers.seen, [[True, False, True], [False, True, False]])
    assert np.isnan(markers.positions[~markers.seen]).all()
