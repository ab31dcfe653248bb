"""C3D markers, written: Intel byte order, real numbers, millimetres, the up axis as the markers state it."""

from __future__ import annotations

import struct

import numpy as np

from posable.errors import FormatError
from posable.formats.format import Options
from posable.formats.scene import Scene
from posable.motion import Markers

BLOCK = 512
MAGIC = 0x50
INTEL = 84  # the processor whose byte order is written
_MILLIMETRES = 1e3
_LABELS_PER_PARAMETER = 255  # a dimension is one byte
_HEADER_LIMIT = 65535  # what 16 bits can count; TRIAL counts further


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the file; a position that is NaN becomes a point with residual -1, which readers take as unseen."""
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
    """Return the parameter blocks. POINT:DATA_START depends on how many they are, so they are laid out twice."""
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
