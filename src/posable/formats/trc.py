"""TRC markers (Motion Analysis, OpenSim), read: a table with tabs, a cell left empty where a marker was not seen."""

from __future__ import annotations

import re

import numpy as np

from posable.formats.base import Format, Options
from posable.formats.conventions import length_unit
from posable.formats.scene import Scene
from posable.formats.source import Source, decode_name, refuse_wide_text, shown
from posable.model.motion import Markers

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_UNSEEN = {b"", b"nan", b"-nan", b"+nan", b"null", b"none"}


def sniff(head: bytes) -> bool:
    """Say whether a file that starts with `head` is TRC."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:12].lower() == b"pathfiletype"


def read(source: Source, options: Options) -> Scene:
    """Return the markers of a TRC file, in metres. TRC does not state an up axis; y is what its programs use."""
    refuse_wide_text(source)
    lines = [(match.start(), match.group().rstrip(b"\r\n")) for match in _LINE.finditer(source.data)]
    lines = [(start, line) for start, line in lines if line.strip()]
    if len(lines) < 4:
        raise source.error(offset=len(source.data), expected="five lines of header", found="the end of the file")
    if not sniff(lines[0][1]):
        raise source.error(offset=lines[0][0], expected="PathFileType", found=shown(lines[0][1]))
    header = _header(source, lines[1], lines[2])
    names, count = _marker_names(source, lines[3])
    stated = header.get("nummarkers")
    if stated is not None and stated.isdigit() and int(stated) != len(names):
        source.warn(f"NumMarkers is {int(stated)}, {len(names)} names follow: the names were taken")
    first = 5 if len(lines) > 4 and not _is_number(_cells(lines[4][1])[0]) else 4
    positions = _rows(source, lines[first:], count)
    stated = header.get("numframes")
    if stated is not None and stated.isdigit() and int(stated) != len(positions):
        source.warn(f"NumFrames is {int(stated)}, {len(positions)} rows follow: the rows were taken")
    metres = length_unit(source, header.get("units", b"mm").decode("latin-1"))
    markers = Markers(tuple(names), positions * metres, _rate(source, header, lines[2][0]), up="y", unit=metres)
    return Scene(markers=markers, notes=tuple(source.notes))


def _cells(line: bytes) -> list[bytes]:
    """Split at tabs, so that empty cells count; a line without tabs is split at blanks."""
    return [cell.strip() for cell in line.split(b"\t")] if b"\t" in line else line.split() or [b""]


def _is_number(cell: bytes) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _header(source: Source, names: tuple[int, bytes], values: tuple[int, bytes]) -> dict[str, bytes]:
    keys = [key.decode("latin-1").lower() for key in names[1].split()]
    cells = values[1].split()
    if "datarate" not in keys and "camerarate" not in keys:
        raise source.error(offset=names[0], expected="DataRate, CameraRate, NumFrames, ...", found=shown(names[1]))
    return dict(zip(keys, cells, strict=False))


def _rate(source: Source, header: dict[str, bytes], offset: int) -> float:
    for key in ("datarate", "camerarate"):
        cell = header.get(key, b"")
        if _is_number(cell) and 0 < float(cell) < 1e7:
            return float(cell)
    raise source.error(offset=offset, expected="a DataRate above 0", found=shown(header.get("datarate", b"")))


def _marker_names(source: Source, line: tuple[int, bytes]) -> tuple[list[str], int]:
    cells = _cells(line[1])
    if not cells[0].lower().startswith(b"frame"):
        raise source.error(offset=line[0], expected="Frame#, Time and the marker names", found=shown(line[1]))
    names = [decode_name(cell) for cell in cells[2:] if cell]
    return source.unique(names, "marker"), len(names)


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
        if len(values) < 3 * count and b"\t" not in line:
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


FORMAT = Format("TRC", (".trc",), "markers", "the file's Units; y up, which it does not state", sniff, read)
