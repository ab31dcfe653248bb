"""TRC markers (Motion Analysis, OpenSim): a table with tabs and empty cells where a marker was not seen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from posable.errors import FormatError
from posable.formats.base import Format, Options
from posable.formats.conventions import LENGTH_UNITS, length_unit, markers_of_file, markers_with_up
from posable.formats.scene import Scene
from posable.formats.source import Source, decode_name, refuse_wide_text, shown
from posable.model.motion import Markers

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_CONTROL = re.compile(r"[\t\r\n]+")
_UNSEEN = {b"", b"nan", b"-nan", b"+nan", b"null", b"none"}


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is TRC."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:12].lower() == b"pathfiletype"


def read(source: Source, options: Options) -> Scene:
    """Return the markers of a TRC file, in metres. TRC does not state an up axis; y is customary."""
    refuse_wide_text(source)
    lines = [(match.start(), match.group().rstrip(b"\r\n")) for match in _LINE.finditer(source.data)]
    lines = [(start, line) for start, line in lines if line.strip()]
    if len(lines) < 4:
        raise source.error(offset=len(source.data), expected="five lines of header", found="the end of the file")
    if not sniff(lines[0][1]):
        raise source.error(offset=lines[0][0], expected="PathFileType", found=shown(lines[0][1]))
    header = _header(source, lines[1], lines[2])
    names = _marker_names(source, lines[3])
    first = 5 if len(lines) > 4 and not _is_number(_cells(lines[4][1])[0]) else 4
    count = max(len(names), *(_markers_in(line) for _, line in lines[first:]), 0)
    stated = header.get("nummarkers")
    if count > len(names):
        source.warn(f"{len(names)} names, {count} markers in a row: those without a name are called *1, *2, ...")
    elif stated is not None and stated.isdigit() and stated.lstrip(b"0") != str(len(names)).encode().lstrip(b"0"):
        source.warn(f"NumMarkers is {shown(stated)[1:-1]}, {len(names)} names follow: the names were used")
    names += [f"*{k + 1}" for k in range(count - len(names))]
    positions = _rows(source, lines[first:], count)
    stated = header.get("numframes")
    if stated is not None and stated.isdigit() and stated.lstrip(b"0") != str(len(positions)).encode().lstrip(b"0"):
        source.warn(f"NumFrames is {shown(stated)[1:-1]}, {len(positions)} rows follow: the number of rows is used")
    metres = length_unit(source, header.get("units", b"mm").decode("latin-1"))
    rate = None if options.fps else _rate(source, header, lines[2][0])
    markers = markers_of_file(source, options, names, positions, stated=None, default="y", unit=metres, fps=rate)
    return Scene(markers=markers, notes=tuple(source.notes))


# --- Writing ---


def write(scene: Scene, suffix: str, options: Options) -> Mapping[str, Iterable[bytes]]:
    """Return the bytes of a TRC file as OpenSim reads it: y up, an empty cell where a marker was not seen."""
    if scene.markers is None:
        raise FormatError("TRC holds markers alone", expected="Markers", found="none")
    return {suffix: _written(markers_with_up(scene.markers, "y"), options.unit or 1e-3)}


def _written(markers: Markers, unit: float) -> Iterator[bytes]:
    name = next((name for name, metres in LENGTH_UNITS.items() if metres == unit), None)
    if name is None:
        raise FormatError(f"TRC names its unit: expected one of {', '.join(LENGTH_UNITS)}, got {unit:g} m")
    count, rate = len(markers.names), f"{markers.fps:.9g}"
    labels = [_CONTROL.sub(" ", label) for label in markers.names]
    yield b"PathFileType\t4\t(X/Y/Z)\tmarkers.trc\n"
    yield b"DataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames\n"
    yield f"{rate}\t{rate}\t{len(markers)}\t{count}\t{name}\t{rate}\t1\t{len(markers)}\n".encode()
    yield ("Frame#\tTime\t" + "\t\t\t".join(labels) + "\t\t\n").encode()
    yield ("\t\t" + "\t".join(f"{axis}{k + 1}" for k in range(count) for axis in "XYZ") + "\n\n").encode()
    for t, row in enumerate(markers.positions):
        cells = [f"{value / unit:.9g}" if math.isfinite(value) else "" for value in row.ravel().tolist()]
        yield ("\t".join([str(t + 1), f"{t / markers.fps:.9g}", *cells]) + "\n").encode()


def _cells(line: bytes) -> list[bytes]:
    """Split at tabs or else commas, which keeps empty cells; a line with neither is split at blanks."""
    for separator in (b"\t", b","):
        if separator in line:
            return [cell.strip() for cell in line.split(separator)]
    return line.split() or [b""]


def _markers_in(line: bytes) -> int:
    """Return how many markers a row has cells for; empty cells at its end do not count."""
    cells = line.rstrip(b"\t, ").count(b"\t" if b"\t" in line else b",") + 1
    return (cells - 2) // 3


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _header(source: Source, names: tuple[int, bytes], values: tuple[int, bytes]) -> dict[str, bytes]:
    keys = [key.decode("latin-1").lower() for key in _cells(names[1])]
    cells = _cells(values[1])
    if len(full := [cell for cell in cells if cell]) == len(keys) < len(cells):
        cells = full  # two tabs between values, as some programs write them
    if "datarate" not in keys and "camerarate" not in keys:
        raise source.error(offset=names[0], expected="DataRate, CameraRate, NumFrames, ...", found=shown(names[1]))
    return dict(zip(keys, cells, strict=False))


def _rate(source: Source, header: dict[str, bytes], offset: int) -> float:
    for key in ("datarate", "camerarate"):
        cell = header.get(key, b"")
        if _is_number(cell) and 0 < float(cell) < 1e7:
            return float(cell)
    raise source.error(offset=offset, expected="a DataRate above 0", found=shown(header.get("datarate", b"")))


def _marker_names(source: Source, line: tuple[int, bytes]) -> list[str]:
    cells = _cells(line[1])
    if not cells[0].lower().startswith(b"frame"):
        raise source.error(offset=line[0], expected="Frame#, Time and the marker names", found=shown(line[1]))
    names = [decode_name(cell) for cell in cells[2:] if cell]
    return source.unique(names, "marker")


def _rows(source: Source, lines: list[tuple[int, bytes]], count: int) -> np.ndarray:
    """Return the positions (rows, count, 3) [file units], NaN where a cell is empty."""
    if 3 * count * len(lines) > 4 * len(source.data) + 1000:
        raise source.error(
            expected=f"rows of {3 * count} cells", found=f"{len(lines)} rows in {len(source.data)} bytes"
        )
    positions = np.full((len(lines), 3 * count), np.nan)
    for row, (start, line) in enumerate(lines):
        cells = _cells(line)
        values = cells[2 : 2 + 3 * count]
        if len(cells) < 2 or any(cells[2 + 3 * count :]):
            raise source.error(offset=start, expected=f"{2 + 3 * count} cells", found=len(cells))
        if len(values) < 3 * count and b"\t" not in line and b"," not in line:
            raise source.error(offset=start, expected=f"{2 + 3 * count} numbers", found=len(cells))
        try:
            positions[row, : len(values)] = [np.nan if cell.lower() in _UNSEEN else float(cell) for cell in values]
        except ValueError:
            bad = next(cell for cell in values if cell.lower() not in _UNSEEN and not _is_number(cell))
            raise source.error(offset=start + line.find(bad), expected="a number", found=shown(bad)) from None
    positions[~np.isfinite(positions)] = np.nan
    points = positions.reshape(len(lines), count, 3)
    points[np.isnan(points).any(axis=-1)] = np.nan
    return points


FORMAT = Format(
    "TRC", (".trc",), "markers", "the file's Units; y up unless the take shows otherwise; written in mm, y up",
    sniff, read, write,
)  # fmt: skip
