"""C3D markers, read and written: Intel, DEC and SGI numbers, integer and real, any number of frames.

Our own reader, because `ezc3d` aborts the process on some broken files and cannot read SGI, and `c3d` reads frame by
frame. The data section is one strided array, so NumPy reads it at once; every stated size is checked against the size
of the file before anything is allocated.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from posable.errors import FormatError
from posable.formats.base import Format, Options
from posable.formats.conventions import length_unit, markers_of_file
from posable.formats.scene import Scene
from posable.formats.source import Source, decode_name
from posable.model.motion import Markers

# --- C3D markers ---

BLOCK = 512
MAGIC = 0x50
INTEL = 84  # the processor whose byte order is written
_MILLIMETRES = 1e3
_LABELS_PER_PARAMETER = 255  # a dimension is one byte
_HEADER_LIMIT = 65535  # the largest 16-bit count; TRIAL has larger ones


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the file; a NaN position becomes a point with residual -1, which marks it as unseen."""
    markers = scene.markers
    if markers is None:
        raise FormatError("C3D holds markers", expected="Markers, or a Scene that has some", found="none")
    frames, points = markers.positions.shape[:2]
    if points > _HEADER_LIMIT:
        raise FormatError(expected=f"at most {_HEADER_LIMIT} markers", found=points)
    parameters = _parameter_section(markers)
    data_block = 2 + len(parameters) // BLOCK
    header = struct.pack(
        "<BBHHHHHfHHf", 2, MAGIC, points, 0, 1, min(frames, _HEADER_LIMIT), 0, -1.0, data_block, 1, markers.fps
    ).ljust(BLOCK, b"\0")
    samples = np.zeros((frames, points, 4), "<f4")
    samples[..., :3] = markers.positions * _MILLIMETRES
    samples[~np.isfinite(samples[..., :3]).all(axis=-1)] = (0.0, 0.0, 0.0, -1.0)
    body = samples.tobytes()
    return {suffix: header + parameters + body + b"\0" * (-len(body) % BLOCK)}


def _parameter_section(markers: Markers) -> bytes:
    """Return the parameter blocks, laid out twice because POINT:DATA_START depends on their number."""
    section = b""
    for _ in range(2):
        records = _records(markers, data_block=2 + max(1, len(section) // BLOCK))
        body = b"".join(records)
        blocks = -(-(4 + len(body) + 1) // BLOCK)
        if blocks > 255:
            raise FormatError(expected="labels that fit into 130 kB of parameters", found=f"{len(body)} bytes")
        section = (bytes([1, MAGIC, blocks, INTEL]) + body).ljust(blocks * BLOCK, b"\0")
    return section


def _records(markers: Markers, data_block: int) -> list[bytes]:
    frames, points = markers.positions.shape[:2]
    up = "+Y" if markers.up == "y" else "+Z"
    records = [_group(1, "POINT"), _group(2, "ANALOG"), _group(3, "TRIAL"), _group(4, "FORCE_PLATFORM")]
    records += [
        _integers(1, "USED", points),
        _integers(1, "FRAMES", min(frames, _HEADER_LIMIT)),
        _integers(1, "DATA_START", data_block),
        _reals(1, "SCALE", -1.0),
        _reals(1, "RATE", markers.fps),
        _texts(1, "UNITS", ["mm"], scalar=True),
        _texts(1, "X_SCREEN", ["+X"], scalar=True),
        _texts(1, "Y_SCREEN", [up], scalar=True),
        _integers(2, "USED", 0),
        _reals(2, "RATE", markers.fps),
        _integers(3, "ACTUAL_START_FIELD", 1, 0),
        _integers(3, "ACTUAL_END_FIELD", frames % 65536, frames // 65536),
        _integers(4, "USED", 0),
    ]
    if frames > _HEADER_LIMIT:
        records.append(_reals(1, "LONG_FRAMES", float(frames)))
    for kind in ("LABELS", "DESCRIPTIONS"):
        for part in range(0, max(points, 1), _LABELS_PER_PARAMETER):
            number = part // _LABELS_PER_PARAMETER + 1
            names = markers.names[part : part + _LABELS_PER_PARAMETER]
            texts = names if kind == "LABELS" else [""] * len(names)
            records.append(_texts(1, kind if number == 1 else f"{kind}{number}", list(texts)))
    return records


def _group(number: int, name: str) -> bytes:
    return struct.pack("<bb", len(name), -number) + name.encode("ascii") + struct.pack("<HB", 3, 0)


def _record(group: int, name: str, kind: int, dimensions: tuple[int, ...], raw: bytes) -> bytes:
    body = struct.pack("<bB", kind, len(dimensions)) + bytes(dimensions) + raw + b"\0"
    return struct.pack("<bb", len(name), group) + name.encode("ascii") + struct.pack("<H", 2 + len(body)) + body


def _integers(group: int, name: str, *values: int) -> bytes:
    dimensions = () if len(values) == 1 else (len(values),)
    return _record(group, name, 2, dimensions, struct.pack(f"<{len(values)}H", *values))


def _reals(group: int, name: str, *values: float) -> bytes:
    return _record(group, name, 4, () if len(values) == 1 else (len(values),), struct.pack(f"<{len(values)}f", *values))


def _texts(group: int, name: str, texts: list[str], *, scalar: bool = False) -> bytes:
    raw = [text.encode("utf-8")[:255] for text in texts]
    width = max([1, *map(len, raw)]) if name.startswith("LABELS") or scalar else 1
    body = b"".join(text.ljust(width) for text in raw)
    return _record(group, name, -1, (width,) if scalar else (width, len(raw)), body)


# --- C3D markers ---

DEC, SGI = 85, 86


@dataclass
class _Numbers:
    """The number format of the processor that wrote the file."""

    processor: int

    @property
    def order(self) -> str:
        return ">" if self.processor == SGI else "<"

    def integers(self, raw: bytes | memoryview, count: int = -1, offset: int = 0) -> NDArray[np.int16]:
        return np.frombuffer(raw, f"{self.order}i2", count, offset)

    def words(self, raw: bytes | memoryview, count: int = -1, offset: int = 0) -> NDArray[np.uint16]:
        return np.frombuffer(raw, f"{self.order}u2", count, offset)

    def reals(self, raw: bytes | memoryview, count: int = -1, offset: int = 0) -> NDArray[np.float32]:
        if self.processor != DEC:
            return np.frombuffer(raw, f"{self.order}f4", count, offset)
        halves = np.frombuffer(raw, "<u2", -1 if count < 0 else 2 * count, offset).reshape(-1, 2)
        return decode_dec(halves)


def decode_dec(halves: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the values of DEC F-floats given as (..., 2) little-endian words, high word first.

    An F-float has its exponent biased by 128 and its mantissa in [0.5, 1): an IEEE pattern four times too large.
    """
    bits = (halves[..., 0].astype(np.uint32) << 16) | halves[..., 1]
    with np.errstate(invalid="ignore", over="ignore"):
        return bits.view(np.float32) / np.float32(4)


@dataclass
class _Parameter:
    kind: int  # -1 text, 1 byte, 2 integer, 4 real
    dimensions: tuple[int, ...]
    raw: bytes
    offset: int


@dataclass
class _Parameters:
    numbers: _Numbers
    groups: dict[str, dict[str, _Parameter]] = field(default_factory=dict)

    def find(self, group: str, name: str) -> _Parameter | None:
        return self.groups.get(group, {}).get(name)

    def values(self, group: str, name: str) -> list[float]:
        """Return the numbers of a parameter; integers are unsigned, as all counters of C3D files today."""
        found = self.find(group, name)
        if found is None or found.kind == -1:
            return []
        if found.kind == 1:
            return [float(v) for v in found.raw]
        if found.kind == 2:
            return [float(v) for v in self.numbers.words(found.raw)]
        return [float(v) for v in self.numbers.reals(found.raw)]

    def number(self, group: str, name: str) -> float | None:
        values = self.values(group, name)
        return values[0] if values else None

    def texts(self, group: str, name: str) -> list[str]:
        found = self.find(group, name)
        if found is None or found.kind != -1 or not found.raw:
            return []
        width = found.dimensions[0] if found.dimensions else 1
        rows = [found.raw[i : i + width] for i in range(0, len(found.raw), width)] if width else []
        return [decode_name(row.split(b"\x00")[0]).strip() for row in rows]


@dataclass
class _Header:
    points: int
    analog_values: int  # per frame, over all channels
    first: int
    last: int
    scale: float
    data_block: int
    rate: float


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` is C3D."""
    return len(head) >= 2 and head[1] == MAGIC and 0 < head[0] < 32 and head[0:1] not in b"\t\n\r"


def read(source: Source, options: Options) -> Scene:
    """Return the markers of a C3D file, in metres."""
    data = source.data
    if len(data) < BLOCK:
        raise source.error(
            binary=True, offset=len(data), expected=f"a header of {BLOCK} bytes", found=f"{len(data)} bytes"
        )
    if data[1] != MAGIC:
        raise source.error(
            binary=True, offset=1, expected="0x50, the signature of a C3D file", found=f"0x{data[1]:02x}"
        )
    if data[0] < 2:
        raise source.error(binary=True, offset=0, expected="the block of the parameters, 2 or more", found=data[0])
    start = (data[0] - 1) * BLOCK
    if start + 4 > len(data):
        raise source.error(
            binary=True,
            offset=0,
            expected="parameters inside the file",
            found=f"parameters at byte {start} of {len(data)}",
        )
    processor = data[start + 3]
    if processor not in (INTEL, DEC, SGI):
        raise source.error(
            binary=True, offset=start + 3, expected="processor 84 (Intel), 85 (DEC) or 86 (SGI)", found=processor
        )
    numbers = _Numbers(processor)
    header = _read_header(numbers, data)
    parameters = _read_parameters(source, numbers, start, BLOCK * (header.data_block - 1))
    return Scene(markers=_read_markers(source, options, numbers, header, parameters), notes=tuple(source.notes))


def _read_header(numbers: _Numbers, data: bytes) -> _Header:
    words = numbers.words(data, 12)
    with np.errstate(all="ignore"):
        scale, rate = float(numbers.reals(data, 1, 12)[0]), float(numbers.reals(data, 1, 20)[0])
    return _Header(int(words[1]), int(words[2]), int(words[3]), int(words[4]), scale, int(words[8]), rate)


def _read_parameters(source: Source, numbers: _Numbers, start: int, data_start: int) -> _Parameters:
    """Read the chain of groups and parameters; each record states the offset of the next one."""
    data = source.data
    # The stated number of blocks is too small in some files (sample13): read up to the start of the data.
    end = min(len(data), max(start + BLOCK * data[start + 2], data_start))
    names: dict[int, str] = {}
    found: list[tuple[int, str, _Parameter]] = []
    at = start + 4
    while at + 2 <= end and data[at] != 0:
        length = abs(int.from_bytes(data[at : at + 1], "little", signed=True))
        group = int.from_bytes(data[at + 1 : at + 2], "little", signed=True)
        name_end = at + 2 + length
        if group == 0 or name_end + 4 > end:
            raise source.error(binary=True, offset=at, expected="a group or a parameter", found="a damaged record")
        name = decode_name(data[at + 2 : name_end]).strip().upper()
        body = name_end + 2
        if group < 0:
            names[-group] = name
        else:
            found.append((group, name, _read_parameter(source, body, name)))
            body = found[-1][2].offset + len(found[-1][2].raw)
        step = int(numbers.words(data, 1, name_end)[0])
        if step == 0:
            break
        if name_end + step > end:  # in some SGI files the last record has this number in Intel order
            step = int.from_bytes(data[name_end:body][:2], "little")
        if name_end + step > end or name_end + step < body:
            raise source.error(
                binary=True, offset=name_end, expected=f"the distance from {name} to the next parameter", found=step
            )
        at = name_end + step
    parameters = _Parameters(numbers)
    for group, name, parameter in found:
        parameters.groups.setdefault(names.get(group, f"#{group}"), {})[name] = parameter
    return parameters


def _read_parameter(source: Source, at: int, name: str) -> _Parameter:
    data = source.data
    if at + 2 > len(data):
        raise source.error(
            binary=True, offset=at, expected=f"the type of parameter {name}", found="the end of the file"
        )
    kind = int.from_bytes(data[at : at + 1], "little", signed=True)
    rank = data[at + 1]
    if kind not in (-1, 1, 2, 4):
        raise source.error(binary=True, offset=at, expected=f"type -1, 1, 2 or 4 of parameter {name}", found=kind)
    if rank > 7:
        raise source.error(binary=True, offset=at + 1, expected=f"at most 7 dimensions of parameter {name}", found=rank)
    dimensions = tuple(data[at + 2 : at + 2 + rank])
    begin = at + 2 + rank
    size = math.prod(dimensions) * abs(kind)
    if begin + size > len(data):
        raise source.error(
            binary=True, offset=at, expected=f"{size} bytes of parameter {name}", found="the end of the file"
        )
    return _Parameter(kind, dimensions, data[begin : begin + size], begin)


def _frame_count(source: Source, header: _Header, parameters: _Parameters, begin: int, frame_bytes: int) -> int:
    """Return the number of frames: the header's, unless TRIAL or POINT:LONG_FRAMES exceeds its 16 bits."""
    available = (len(source.data) - begin) // frame_bytes
    by_header = float(header.last - header.first + 1)
    first, last = (parameters.values("TRIAL", f"ACTUAL_{end}_FIELD") for end in ("START", "END"))
    trial = (
        (last[0] + 65536 * last[1]) - (first[0] + 65536 * first[1]) + 1 if len(first) > 1 and len(last) > 1 else None
    )
    stated = {
        "TRIAL": trial,
        "POINT:LONG_FRAMES": parameters.number("POINT", "LONG_FRAMES"),
        "header": by_header,
        "POINT:FRAMES": parameters.number("POINT", "FRAMES"),
    }
    counts = {label: n for label, n in stated.items() if n is not None and math.isfinite(n) and n == int(n)}
    beyond = [label for label in ("TRIAL", "POINT:LONG_FRAMES", "POINT:FRAMES") if counts.get(label, 0) > 65535]
    silent = not beyond and "TRIAL" not in counts and "POINT:LONG_FRAMES" not in counts
    if header.last >= 65535 and silent and 0 < by_header < available:
        by_size = _frames_by_size(source, begin, frame_bytes)
        source.warn(f"the header's frame count is at its limit, 65535: {by_size} frames were read, by the file's size")
        return by_size
    trusted = beyond if beyond and header.last >= 65535 else [*beyond, "header", "POINT:FRAMES", "TRIAL"]
    for label in trusted:
        if 0 < counts.get(label, 0) <= available:
            if label not in ("header", *beyond) or (label == "header" and beyond):
                source.warn(f"frame counts disagree ({_listed(counts)}, room for {available}): {label} was used")
            return int(counts[label])
    if by_header == 0 or counts.get("POINT:FRAMES") == 0:
        return 0
    raise source.error(
        "the data are cut short or the frame count is wrong",
        binary=True, offset=len(source.data), expected=f"frames ({_listed(counts)})", found=f"room for {available}",
    )  # fmt: skip


def _frames_by_size(source: Source, begin: int, frame_bytes: int) -> int:
    """Return how many whole frames the data hold; padding with zeros in the last block does not count."""
    size = len(source.data) - begin
    padding = len(source.data[-BLOCK:]) - len(source.data[-BLOCK:].rstrip(b"\0"))
    return min(-(-(size - padding) // frame_bytes), size // frame_bytes)


def _listed(counts: dict[str, float]) -> str:
    return ", ".join(f"{label} {int(n)}" for label, n in counts.items())


def _read_markers(
    source: Source, options: Options, numbers: _Numbers, header: _Header, parameters: _Parameters
) -> Markers:
    used = parameters.number("POINT", "USED")
    if used is not None and used != header.points:
        source.warn(f"the header counts {header.points} points, POINT:USED {used:.0f}: the header's count is used")
    scale = parameters.number("POINT", "SCALE")
    scale = header.scale if scale is None or scale == 0 or not math.isfinite(scale) else scale
    if not math.isfinite(scale) or scale == 0:
        raise source.error(binary=True, offset=12, expected="a scale that is a number and not 0", found=scale)
    real = scale < 0
    width = 4 if real else 2
    stated = parameters.number("POINT", "DATA_START") or 0.0
    block = header.data_block or (int(stated) if math.isfinite(stated) else 0)
    begin = (block - 1) * BLOCK
    if block < 2 or begin > len(source.data):
        raise source.error(binary=True, offset=16, expected="the block where the data start", found=block)
    frame_values = 4 * header.points + header.analog_values
    frames = _frame_count(source, header, parameters, begin, frame_values * width) if header.points else 0
    names = _labels(source, parameters, header.points)
    positions = _points(source, numbers, begin, (frames, header.points, header.analog_values), scale)
    unit = " ".join(parameters.texts("POINT", "UNITS")[:1]) or "mm"
    metres = length_unit(source, unit)
    rate = None if options.fps else _rate(source, header, parameters, frames)
    return markers_of_file(
        source, options, names, positions, stated=_up(parameters), default="z", unit=metres, fps=rate
    )  # fmt: skip


def _points(
    source: Source, numbers: _Numbers, begin: int, sizes: tuple[int, int, int], scale: float
) -> NDArray[np.float64]:
    """Return the positions (frames, points, 3) [file units]; NaN where a negative residual marks them as unseen."""
    frames, points, analog = sizes
    if not frames or not points:
        return np.zeros((frames, points, 3))
    decode = numbers.reals if scale < 0 else numbers.integers
    flat = decode(source.data, frames * (4 * points + analog), begin).reshape(frames, -1)
    samples = flat[:, : 4 * points].reshape(frames, points, 4)
    positions = samples[..., :3].astype(np.float64)
    if scale > 0:
        positions *= scale
    with np.errstate(invalid="ignore"):
        unseen = ~(samples[..., 3] >= 0) | ~np.isfinite(positions).all(axis=-1)
    positions[unseen] = np.nan
    return positions


def _labels(source: Source, parameters: _Parameters, count: int) -> list[str]:
    names: list[str] = []
    number = 1
    while len(names) < count:
        more = parameters.texts("POINT", "LABELS" if number == 1 else f"LABELS{number}")
        if not more:
            break
        names += more
        number += 1
    names = names[:count]
    blanks = count - len(names) + names.count("")
    if blanks:
        source.warn(f"{blanks} of {count} points have no label: they are named point1, point2, ...")
    names += [""] * (count - len(names))
    return source.unique([name or f"point{i + 1}" for i, name in enumerate(names)], "marker")


def _rate(source: Source, header: _Header, parameters: _Parameters, frames: int) -> float:
    stated = parameters.number("POINT", "RATE")
    for rate in (stated, header.rate):
        if rate is not None and math.isfinite(rate) and 0 < rate < 1e7:
            return rate
    if frames > 1:
        raise source.error(
            "state the rate: load(fps=...), on the command line --fps",
            binary=True,
            offset=20,
            expected="a frame rate above 0",
            found=header.rate,
        )
    source.warn("no frame rate is stated: 1 frame per second is assumed")
    return 1.0


def _up(parameters: _Parameters) -> str | None:
    """Return the axis that points up on the screen (POINT:Y_SCREEN), or None unless it is y or z."""
    screen = " ".join(parameters.texts("POINT", "Y_SCREEN")).strip().lower()
    return screen[-1] if screen.endswith(("y", "z")) else None


FORMAT = Format(
    "C3D", (".c3d",), "markers",
    "the file's units and up axis (POINT:UNITS, POINT:Y_SCREEN); written in mm, Intel, real",
    sniff, read, write,
)  # fmt: skip
