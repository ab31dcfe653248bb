"""TRC: tabs, empty cells, units, and what is refused."""

import numpy as np
import pytest

from posable.errors import FormatError, PosableWarning
from posable.formats import load

TRC = (
    "PathFileType\t4\t(X/Y/Z)\ta.trc\n"
    "DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames\n"
    "100.00\t100.00\t3\t2\tmm\t100.00\t1\t3\n"
    "Frame#\tTime\tR.ASIS\t\t\tL ASIS\t\t\t\n"
    "\t\tX1\tY1\tZ1\tX2\tY2\tZ2\t\n"
    "\n"
    "1\t0.00\t1\t2\t3\t4\t5\t6\t\n"
    "2\t0.01\t1\t2\t3\t\t\t\t\n"
    "3\t0.02\tnan\tnan\tnan\t4\t5\t1e3\n"
)


@pytest.fixture
def trc(tmp_path):
    def write(text=TRC, name="a.trc"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_reading(trc, ending):
    markers = load(trc(TRC.replace("\n", ending))).markers
    assert markers.names == ("R.ASIS", "L ASIS")
    assert (markers.fps, markers.up) == (100, "y")
    np.testing.assert_allclose(markers.positions[0], [[1e-3, 2e-3, 3e-3], [4e-3, 5e-3, 6e-3]])
    np.testing.assert_array_equal(markers.seen, [[True, True], [True, False], [False, True]])


def test_units(trc):
    assert load(trc(TRC.replace("\tmm\t", "\tm\t"))).markers.positions[0, 0, 0] == 1
    with pytest.warns(PosableWarning, match="is unknown"):
        load(trc(TRC.replace("\tmm\t", "\tparsec\t")))


def test_two_tabs_between_the_values_of_the_header(trc):
    header = "100.00\t100.00\t3\t2\tmm\t"
    assert header in TRC
    spaced = TRC.replace(header, " 100.0\t\t  60.0\t\t  3\t\t  2\t\t m\t")
    markers = load(trc(spaced)).markers  # without a warning
    assert (markers.fps, markers.unit, markers.positions[0, 0, 0]) == (100, 1, 1)


def test_known_by_content_and_turned(trc):
    with pytest.warns(PosableWarning, match="its content is TRC"):
        assert load(trc(name="a.bvh")).markers.fps == 100
    np.testing.assert_allclose(load(trc(), up="z").markers.positions[0, 0], (1e-3, -3e-3, 2e-3))


def test_wrong_counts_are_warnings(trc):
    with pytest.warns(PosableWarning, match="NumFrames is 7, 3 rows follow"):
        load(trc(TRC.replace("100.00\t3\t2", "100.00\t7\t2")))
    with pytest.warns(PosableWarning, match="NumMarkers is 9, 2 names follow"):
        load(trc(TRC.replace("100.00\t3\t2", "100.00\t3\t9")))


def test_markers_without_a_name_follow_those_with_one(trc):
    """As Motion Analysis writes them: rows are longer where more trajectories were seen."""
    with pytest.warns(PosableWarning, match="2 names, 3 markers in a row"):
        markers = load(trc(TRC.replace("4\t5\t1e3\n", "4\t5\t1e3\t7\t8\t9\t\n"))).markers
    assert markers.names == ("R.ASIS", "L ASIS", "*1")
    np.testing.assert_array_equal(markers.seen[:, 2], [False, False, True])
    np.testing.assert_allclose(markers.positions[2, 2], [7e-3, 8e-3, 9e-3])


def test_commas_for_tabs(trc):
    markers = load(trc(TRC.replace("\t", ","))).markers
    np.testing.assert_array_equal(markers.positions, load(trc()).markers.positions)
    assert markers.names == ("R.ASIS", "L ASIS")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("PathFileType", "Path"), "PathFileType"),
        (("DataRate\tCameraRate", "A\tB"), "DataRate"),
        (("100.00\t100.00\t3", "0\t0\t3"), "a DataRate above 0"),
        (("Frame#", "Row"), "Frame#, Time and the marker names"),
        (("1\t2\t3\t4\t5\t6\t", "1\t2\tx\t4\t5\t6"), "a number, found 'x'"),
        (("1\t2\t3\t4\t5\t6\t", "1\t2\t3\t4\t5\t6\t7"), "8 cells"),
    ],
)
def test_what_is_refused(trc, change, message):
    assert change[0] in TRC
    with pytest.raises(FormatError, match=message) as caught:
        load(trc(TRC.replace(*change)))
    assert caught.value.line is not None
