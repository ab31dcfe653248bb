"""CSV, read and written: a row per frame, a column of time, a column per degree of freedom or marker coordinate.

Motion has the columns of `skeleton.dof_names` and is read with `skeleton=`; markers have `name.x`, `name.y`,
`name.z`, empty where unseen. Metres, radians, seconds. A table of numbers without a header is Unitree's layout of robot
motion (`robot_layouts.py`).
"""

from __future__ import annotations

import csv
import io
import math
import re

import numpy as np
from numpy.typing import NDArray

from posable.errors import FormatError, did_you_mean
from posable.formats import robot_layouts
from posable.formats.base import Format, Options
from posable.formats.scene import Scene
from posable.formats.source import Source, refuse_wide_text, shown
from posable.model.motion import Markers, Motion

DEFAULT_FPS = 30.0
_TIME = ("time", "t", "seconds", "time [s]", "time (s)", "time_s")
_FRAME = ("frame", "frame#", "index", "")
_COORDINATE = re.compile(r"(.+?)[._: ]?\[?([xyzXYZ])\]?$")


def read(source: Source, options: Options) -> Scene:
    """Return the motion or the markers of a CSV file."""
    refuse_wide_text(source)
    header, rows, lines = _read_table(source)
    labels = [label.strip() for label in header]
    if options.skeleton is not None and all(map(_is_number, labels)):  # no header: Unitree's table
        first = np.array([[float(label) for label in labels]])
        motion = robot_layouts.from_rows(
            source, np.concatenate([first, rows]), options.skeleton, _rate(source, np.zeros(0), lines, options.fps)
        )
        return Scene(skeleton=options.skeleton, motion=motion, motions={motion.name: motion})
    timing = next((i for i, label in enumerate(labels) if label.lower() in _TIME), None)
    data = [i for i, label in enumerate(labels) if i != timing and label.lower() not in _FRAME]
    fps = _rate(source, rows[:, timing] if timing is not None else np.zeros(0), lines, options.fps)
    if options.skeleton is not None:
        motion = _motion(source, options.skeleton, labels, data, rows, fps, lines)
        return Scene(skeleton=options.skeleton, motion=motion, motions={motion.name: motion})
    return Scene(markers=_markers(source, labels, data, rows, fps))


def _read_table(source: Source) -> tuple[list[str], NDArray[np.float64], list[int]]:
    """Return the labels, the cells (rows, columns) with NaN where empty, and the line of each row."""
    text = source.data.decode("utf-8", "replace")
    first = text.lstrip().splitlines()[0] if text.strip() else ""
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    header: list[str] | None = None
    rows: list[list[float]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells) or cells[0].lstrip().startswith("#"):
                continue
            if header is None:
                header = cells
                continue
            if len(cells) != len(header):
                raise FormatError(
                    path=source.path, line=reader.line_num, expected=f"{len(header)} cells", found=len(cells)
                )
            rows.append([_number(source, reader.line_num, k, cell) for k, cell in enumerate(cells)])
            lines.append(reader.line_num)
    except csv.Error as problem:
        raise FormatError(path=source.path, line=reader.line_num, expected="a table", found=str(problem)) from None
    if header is None:
        raise source.error(
            offset=len(source.data), expected="a header with the names of the columns", found="the end of the file"
        )
    return header, np.array(rows, dtype=float).reshape(len(rows), len(header)), lines


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _number(source: Source, line: int, column: int, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        if not cell.strip():
            return np.nan
        raise FormatError(
            path=source.path, line=line, expected=f"a number in column {column + 1}", found=shown(cell)
        ) from None


def _rate(source: Source, times: NDArray[np.float64], lines: list[int], given: float | None) -> float:
    if len(times) < 2 and given is not None:
        return given
    if len(times) < 2:
        source.warn(f"the times give no frame rate: {DEFAULT_FPS:g} frames per second are assumed")
        return DEFAULT_FPS
    steps = np.diff(times)
    step = (times[-1] - times[0]) / len(steps)
    if not np.isfinite(times).all() or not step > 1e-9 or np.abs(steps - step).max() > 0.05 * step:
        wrong = int(np.argmax(~(np.abs(steps - step) <= 0.05 * abs(step)))) + 1
        raise FormatError(
            path=source.path, line=lines[wrong], expected=f"times {step:g} s apart", found=f"{steps[wrong - 1]:g} s"
        )
    fps = 1.0 / step
    return float(round(fps)) if round(fps) and abs(fps - round(fps)) < 1e-6 * fps else float(fps)


def _motion(
    source: Source, skeleton, labels: list[str], data: list[int], rows: NDArray, fps: float, lines: list[int]
) -> Motion:
    index = {name: i for i, name in enumerate(skeleton.dof_names)}
    poses = np.repeat(skeleton.rest[None], len(rows), axis=0)
    for column in data:
        if labels[column] not in index:
            hint = did_you_mean(labels[column], skeleton.dof_names)
            raise FormatError(
                path=source.path, line=1, expected=f"the name of a degree of freedom{hint}", found=shown(labels[column])
            )
        poses[:, index[labels[column]]] = rows[:, column]
    bad = ~np.isfinite(poses).all(axis=1)
    if bad.any():
        raise FormatError(
            path=source.path, line=lines[int(np.argmax(bad))], expected="a number in every cell", found="an empty one"
        )
    missing = sorted(set(index) - {labels[column] for column in data})
    if missing:
        source.warn(f"no column for {len(missing)} degrees of freedom, which stay at rest: {', '.join(missing[:5])}")
    return Motion(skeleton, poses, fps, source.path.stem)


def _markers(source: Source, labels: list[str], data: list[int], rows: NDArray, fps: float) -> Markers:
    names: dict[str, dict[str, int]] = {}
    for column in data:
        match = _COORDINATE.fullmatch(labels[column])
        if match is None or match[2].lower() in names.setdefault(match[1], {}):
            raise FormatError(
                "the columns are not the coordinates of markers", path=source.path, line=1,
                expected="name.x, name.y, name.z, or skeleton= for motion", found=shown(labels[column]),
            )  # fmt: skip
        names[match[1]][match[2].lower()] = column
    for name, columns in names.items():
        if len(columns) < 3:
            raise FormatError(
                path=source.path, line=1, expected=f"{name}.x, {name}.y and {name}.z", found=", ".join(columns)
            )
    if not names:
        raise FormatError(path=source.path, line=1, expected="columns name.x, name.y, name.z", found="none")
    order = [columns[axis] for columns in names.values() for axis in "xyz"]
    positions = rows[:, order].reshape(len(rows), len(names), 3)
    positions[~np.isfinite(positions).all(axis=-1)] = np.nan
    return Markers(tuple(names), positions, fps)


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the file: the motion if there is one, otherwise the markers."""
    if scene.motion is not None:
        times, labels, table = scene.motion.times, list(scene.motion.skeleton.dof_names), scene.motion.poses
    elif scene.markers is not None:
        markers = scene.markers
        labels = [f"{name}.{axis}" for name in markers.names for axis in "xyz"]
        times, table = markers.times, markers.positions.reshape(len(markers), -1)
    elif scene.has_skeleton:
        times, labels, table = np.zeros(1), list(scene.skeleton.dof_names), scene.skeleton.rest[None]
    else:
        raise FormatError(
            "CSV holds motion or markers", expected="a Motion, Markers or a Skeleton", found="none of them"
        )
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["time", *labels])
    for time, row in zip(times.tolist(), table.tolist(), strict=True):
        writer.writerow([time, *("" if math.isnan(value) else value for value in row)])
    return {suffix: file.getvalue().encode("utf-8")}


FORMAT = Format(
    "CSV", (".csv",), "motion of a given skeleton, or markers", "metres, radians, seconds", None, read, write
)
