"""C3D: three processors, two number formats, long takes; written and read back."""

import importlib
import itertools
import struct

import numpy as np
import pytest

from posable.errors import FormatError, PosableWarning
from posable.formats import load, save
from posable.formats.c3d import decode_dec
from posable.model.motion import Markers

EZC3D = {
    "codamotion": (720.7000122070312, -121.9000015258789, 820.2999877929688),
    "hdm": (400.5406188964844, 395.7737731933594, 1405.73046875),
    "dec": (368.9106159210205, 679.3354024887085, 196.8273103237152),
}


@pytest.mark.files(
    {
        "c3d/intel_int.c3d": ("{}_{}.c3d", ("intel", "dec", "sgi"), ("int", "real")),
        "c3d/sample01_Eb015pi.c3d": ("sample01_Eb015{}{}.c3d", "psv", "ir"),
    }
)
def test_six_layouts_of_one_take_are_the_same(path, expected):
    pattern, processors, kinds = expected
    takes = [load(path.with_name(pattern.format(*one))).markers for one in itertools.product(processors, kinds)]
    for take in takes[1:]:
        assert take.names == takes[0].names
        np.testing.assert_array_equal(take.seen, takes[0].seen)
        np.testing.assert_allclose(take.positions, takes[0].positions, atol=1e-6)


def test_a_take_has_the_positions_it_was_written_from(fixtures, monkeypatch):
    monkeypatch.syspath_prepend(fixtures)
    written = importlib.import_module("c3d_layouts")
    markers = load(fixtures / "c3d" / "dec_int.c3d").markers
    expected = written.millimetres() / 1e3
    expected[written.UNSEEN] = np.nan
    assert markers.names == written.LABELS
    np.testing.assert_allclose(markers.positions, expected, atol=1e-12)


def test_integers_are_within_a_step_of_reals(data_dir):
    kinds = ("DEC_INT.C3D", "Dec_real.c3d", "pc_int.c3d", "pc_real.c3d", "sgi_int.c3d", "sgi_real.c3d")
    takes = [load(data_dir / "c3d" / f"sample02_{kind}").markers.positions for kind in kinds]
    for integers, reals in (takes[0:2], takes[2:4], takes[4:6]):
        np.testing.assert_allclose(integers, reals, atol=0.2812e-3)
        np.testing.assert_array_equal(reals, takes[1])


def test_dec_floats():
    values = np.array([0.0, 1.0, -2.5, 100.0, 1e-3, -65504.0], np.float32)
    words = (values * 4).view(np.uint32)
    halves = np.stack([words >> 16, words & 0xFFFF], axis=-1).astype(np.uint16)
    np.testing.assert_array_equal(decode_dec(halves), values)


def test_stored_numbers_of_ezc3d(data_dir):
    """Positions [mm] that ezc3d 1.7.2 reads (benchmarks/formats.py compares whole files)."""
    stored = {
        "c3d/codamotion.c3d": (100, 3, EZC3D["codamotion"]),
        "hdm05/HDM_dg_06-03_03_120.c3d": (50, 10, EZC3D["hdm"]),
        "c3d/sample02_DEC_INT.C3D": (20, 5, EZC3D["dec"]),
    }
    for file, (frame, marker, millimetres) in stored.items():
        np.testing.assert_allclose(load(data_dir / file).markers.positions[frame, marker] * 1e3, millimetres, atol=1e-9)


@pytest.fixture
def markers():
    positions = np.random.default_rng(0).normal(size=(30, 3, 3))
    positions[4:9, 1] = np.nan
    return Markers(("LFHD", "Daniel:RFHD", "ü*"), positions, 119.88, up="z")


def test_round_trip(tmp_path, markers):
    path = tmp_path / "a.c3d"
    save(path, markers)
    back = load(path).markers
    assert back.names == markers.names
    assert back.fps == pytest.approx(markers.fps, rel=1e-6)
    np.testing.assert_allclose(back.positions, markers.positions, atol=1e-6)
    np.testing.assert_array_equal(back.seen, markers.seen)
    save(path, back)
    np.testing.assert_array_equal(load(path).markers.positions, back.positions)
    assert path.stat().st_size % 512 == 0


@pytest.mark.parametrize("up", ["y", "z"])
def test_the_up_axis_is_written(tmp_path, markers, up):
    save(tmp_path / "a.c3d", Markers(markers.names, markers.positions, 50, up=up))
    assert load(tmp_path / "a.c3d").markers.up == up
    turned = load(tmp_path / "a.c3d", up="y").markers
    assert turned.up == "y"
    x, y, z = markers.positions[0, 0]
    np.testing.assert_allclose(turned.positions[0, 0], (x, y, z) if up == "y" else (x, z, -y), atol=1e-6)


@pytest.mark.parametrize("frames", [0, 1, 65535, 65536, 70_000])
def test_long_takes(tmp_path, frames):
    take = Markers(("a",), np.arange(3 * frames).reshape(frames, 1, 3) * 1e-6, 1000.0)
    save(tmp_path / "a.c3d", take)
    back = load(tmp_path / "a.c3d").markers
    assert len(back) == frames
    np.testing.assert_allclose(back.positions, take.positions, atol=1e-6)


def test_a_long_take_that_no_parameter_counts(tmp_path):
    """As ezc3d 1.7 writes them: 65535 in the header and in POINT:FRAMES, no TRIAL."""
    take = Markers(("a",), 1.0 + np.arange(3 * 65_600).reshape(65_600, 1, 3) * 1e-6, 1000.0)
    save(tmp_path / "a.c3d", take)
    data = (
        (tmp_path / "a.c3d").read_bytes().replace(b"ACTUAL_END_FIELD", b"ACTUAL_END_FXXXX").replace(b"LONG_", b"XXXX_")
    )
    (tmp_path / "a.c3d").write_bytes(data)
    with pytest.warns(PosableWarning, match="65600 frames were read, by the file's size"):
        np.testing.assert_allclose(load(tmp_path / "a.c3d").markers.positions, take.positions, atol=1e-6)


def test_a_long_take_that_is_cut_short(tmp_path):
    """A last frame of which only a part is there is not read."""
    take = Markers(("a",), 1.0 + np.arange(3 * 65_600).reshape(65_600, 1, 3) * 1e-6, 1000.0)
    save(tmp_path / "a.c3d", take)
    data = (
        (tmp_path / "a.c3d").read_bytes().replace(b"ACTUAL_END_FIELD", b"ACTUAL_END_FXXXX").replace(b"LONG_", b"XXXX_")
    )
    data = data.rstrip(b"\0")
    (tmp_path / "a.c3d").write_bytes(data[: len(data) - 5])
    with pytest.warns(PosableWarning, match="by the file's size"):
        back = load(tmp_path / "a.c3d").markers
    assert 65_590 < len(back) < 65_600
    np.testing.assert_allclose(back.positions, take.positions[: len(back)], atol=1e-6)


def test_many_labels(tmp_path):
    names = tuple(f"marker number {i}" for i in range(600))
    save(tmp_path / "a.c3d", Markers(names, np.zeros((1, 600, 3)), 10))
    assert load(tmp_path / "a.c3d").markers.names == names


def patched(tmp_path, markers, *changes):
    path = tmp_path / "a.c3d"
    save(path, markers)
    data = bytearray(path.read_bytes())
    for offset, raw in changes:
        data[offset : offset + len(raw)] = raw
    path.write_bytes(bytes(data))
    return path


@pytest.mark.parametrize(
    ("offset", "raw", "message"),
    [
        (1, b"\x51", "0x50"),
        (0, b"\x00", "the block of the parameters"),
        (0, b"\xff", "parameters inside the file"),
        (515, b"\x00", "processor 84"),
        (2, b"\xff\xff", "cut short"),
        (4, b"\xff\x7f", "cut short"),
        (16, b"\xff\xff", "the block where the data start"),
        (16, b"\x01\x00", "the block where the data start"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*the header's count is used")
def test_what_is_refused(tmp_path, markers, offset, raw, message):
    with pytest.raises(FormatError, match=message) as caught:
        load(patched(tmp_path, markers, (offset, raw)))
    assert caught.value.offset is not None


def test_a_stale_trial_is_not_believed(tmp_path, markers):
    path = patched(tmp_path, markers)
    data = bytearray(path.read_bytes())
    field = data.index(b"ACTUAL_END_FIELD") + len("ACTUAL_END_FIELD") + 5
    data[field : field + 4] = struct.pack("<HH", 0, 2)  # 131072 frames, in a file that has room for 30
    path.write_bytes(bytes(data))
    with pytest.warns(PosableWarning, match="frame counts disagree"):
        assert len(load(path).markers) == 30


def test_every_truncation_is_refused(tmp_path, markers):
    save(tmp_path / "a.c3d", markers)
    whole = (tmp_path / "a.c3d").read_bytes()
    needed = len(whole) - 512  # the last block is not full
    for size in range(0, needed, 97):
        (tmp_path / "b.c3d").write_bytes(whole[:size])
        with pytest.raises(FormatError):
            load(tmp_path / "b.c3d")


def test_only_markers_can_be_written(tmp_path, figure):
    with pytest.raises(FormatError, match="C3D holds markers"):
        save(tmp_path / "a.c3d", figure)
