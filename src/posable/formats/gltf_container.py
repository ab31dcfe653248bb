"""The container of glTF and GLB: JSON, validated against a schema, and buffers, read with bounds checks."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in its stubs
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from posable.errors import FormatError
from posable.formats.source import Source, decode_name, shown

GLB_MAGIC = b"glTF"
COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
MOST_SECONDS = 1e9  # of an animation
_BUDGET = 16  # all accessors together may read this many times the size of the file

UINT, NUMBER, TEXT, FLAG = "an index or a count", "a number", "a text", "true or false"
_TEXTURE = {"index": UINT, "texCoord": UINT}
SCHEMA: dict[str, Any] = {
    "extensions": {},
    "asset": {"version": TEXT, "generator": TEXT, "copyright": TEXT, "minVersion": TEXT},
    "scene": UINT,
    "scenes": [{"nodes": [UINT], "name": TEXT}],
    "nodes": [
        {
            "children": [UINT], "matrix": [NUMBER], "rotation": [NUMBER], "translation": [NUMBER], "scale": [NUMBER],
            "mesh": UINT, "skin": UINT, "camera": UINT, "weights": [NUMBER], "name": TEXT,
        }
    ],
    "meshes": [
        {
            "primitives": [
                {
                    "attributes": {"*": UINT}, "indices": UINT, "material": UINT, "mode": UINT,
                    "targets": [{"*": UINT}], "extensions": {},
                }
            ],
            "weights": [NUMBER], "name": TEXT,
        }
    ],
    "accessors": [
        {
            "bufferView": UINT, "byteOffset": UINT, "componentType": UINT, "count": UINT, "type": TEXT,
            "normalized": FLAG,
            "max": [NUMBER], "min": [NUMBER], "name": TEXT,
            "sparse": {
                "count": UINT,
                "indices": {"bufferView": UINT, "byteOffset": UINT, "componentType": UINT},
                "values": {"bufferView": UINT, "byteOffset": UINT},
            },
        }
    ],
    "bufferViews": [
        {"buffer": UINT, "byteOffset": UINT, "byteLength": UINT, "byteStride": UINT, "target": UINT, "name": TEXT}
    ],
    "buffers": [{"uri": TEXT, "byteLength": UINT, "name": TEXT}],
    "skins": [{"inverseBindMatrices": UINT, "skeleton": UINT, "joints": [UINT], "name": TEXT}],
    "animations": [
        {
            "channels": [{"sampler": UINT, "target": {"node": UINT, "path": TEXT}}],
            "samplers": [{"input": UINT, "output": UINT, "interpolation": TEXT}],
            "name": TEXT,
        }
    ],
    "materials": [
        {
            "name": TEXT, "alphaMode": TEXT, "alphaCutoff": NUMBER, "doubleSided": FLAG, "emissiveFactor": [NUMBER],
            "pbrMetallicRoughness": {
                "baseColorFactor": [NUMBER], "baseColorTexture": _TEXTURE, "metallicFactor": NUMBER,
                "roughnessFactor": NUMBER, "metallicRoughnessTexture": _TEXTURE,
            },
            "normalTexture": {**_TEXTURE, "scale": NUMBER},
            "occlusionTexture": {**_TEXTURE, "strength": NUMBER},
            "emissiveTexture": _TEXTURE,
        }
    ],
    "textures": [{"sampler": UINT, "source": UINT, "name": TEXT}],
    "images": [{"uri": TEXT, "mimeType": TEXT, "bufferView": UINT, "name": TEXT}],
    "samplers": [{"magFilter": UINT, "minFilter": UINT, "wrapS": UINT, "wrapT": UINT, "name": TEXT}],
    "cameras": [{"type": TEXT, "name": TEXT}],
    "extensionsUsed": [TEXT],
    "extensionsRequired": [TEXT],
}  # fmt: skip
_REQUIRED = {
    "": ("asset",), "asset": ("version",), "accessors": ("componentType", "count", "type"),
    "bufferViews": ("buffer", "byteLength"),
    "buffers": ("byteLength",), "skins": ("joints",), "animations": ("channels", "samplers"), "meshes": ("primitives",),
    "primitives": ("attributes",), "channels": ("sampler", "target"), "samplers": ("input", "output"),
    "target": ("path",),
    "sparse": ("count", "indices", "values"), "indices": ("bufferView", "componentType"), "values": ("bufferView",),
}  # fmt: skip


class Container:
    """The JSON of a glTF file, checked, and its accessors as arrays."""

    def __init__(self, source: Source):
        self.source = source
        self.json_at = 0
        self.binary: memoryview | None = None
        raw = source.data
        self.is_glb = raw[:4] == GLB_MAGIC
        if self.is_glb:
            raw = self._open_glb()
        self.text = self._decode(raw)
        self.json: dict[str, Any] = self._parse()
        _check(self, self.json, SCHEMA, ())
        version = self.json["asset"]["version"]
        if not version.startswith("2"):
            raise self.error(("asset", "version"), "glTF 2", shown(version))
        self._buffers: dict[int, memoryview] = {}
        self._raw: dict[int, bytes | memoryview] = {}
        self._files: dict[Path, bytes] = {}  # files that contain buffers
        self._budget = _BUDGET * len(source.data) + 65536
        self._cache: dict[int, NDArray] = {}

    # ------------------------------------------------------------------------------------------------ the JSON

    def _open_glb(self) -> bytes:
        data = self.source.data
        if len(data) < 20:
            raise self.source.error(
                binary=True, offset=len(data), expected="a GLB header of 20 bytes", found=f"{len(data)} bytes"
            )
        version, length = struct.unpack_from("<II", data, 4)
        if version != 2:
            raise self.source.error(binary=True, offset=4, expected="GLB version 2", found=version)
        if length > len(data):
            raise self.source.error(
                "the file is cut short", binary=True, offset=len(data), expected=f"{length} bytes", found=len(data)
            )
        at, chunks = 12, []
        while at + 8 <= length:
            size, kind = struct.unpack_from("<I4s", data, at)
            if at + 8 + size > length:
                raise self.source.error(
                    binary=True, offset=at, expected="a chunk inside the file", found=f"{size} bytes"
                )
            chunks.append((kind, at + 8, size))
            at += 8 + size + (-size % 4)
        if not chunks or chunks[0][0] != b"JSON":
            raise self.source.error(binary=True, offset=16, expected="a JSON chunk first", found=shown(data[16:20]))
        if len(chunks) > 1 and chunks[1][0] == b"BIN\0":
            self.binary = memoryview(data)[chunks[1][1] : chunks[1][1] + chunks[1][2]]
        self.json_at = chunks[0][1]
        return data[chunks[0][1] : chunks[0][1] + chunks[0][2]]

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        except UnicodeDecodeError as problem:
            at = self.json_at + problem.start
            raise self.source.error(
                offset=at, binary=self.is_glb, expected="JSON in UTF-8", found=f"byte 0x{raw[problem.start]:02x}"
            ) from None

    def _parse(self) -> dict[str, Any]:
        def refuse(constant: str) -> None:
            raise ValueError(f"{constant} is not a JSON number")

        try:
            parsed = json.loads(self.text, parse_constant=refuse)
        except json.JSONDecodeError as problem:
            raise self._error_at(problem.pos, "JSON", problem.msg) from None
        except (ValueError, RecursionError) as problem:
            raise self._error_at(0, "JSON", str(problem)[:80]) from None
        if not isinstance(parsed, dict):
            raise self._error_at(0, "a JSON object", type(parsed).__name__)
        return parsed

    def _error_at(self, position: int, expected: str, found: object, message: str = "") -> FormatError:
        at = self.json_at + len(self.text[:position].encode("utf-8"))
        return self.source.error(message, offset=at, binary=self.is_glb, expected=expected, found=found)

    def error(self, path: tuple[str | int, ...], expected: str, found: object) -> FormatError:
        """Return the error for the value at a path such as ("nodes", 3, "mesh"), with its place in the file."""
        label = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
        return self._error_at(_find(self.text, path), expected, found, label)

    def list(self, name: str) -> list[dict[str, Any]]:
        """Return one of the top-level arrays; empty if it is missing."""
        return self.json.get(name, [])

    def item(self, name: str, index: int, path: tuple[str | int, ...]) -> dict[str, Any]:
        """Return an entry of a top-level array that `path` refers to."""
        entries = self.list(name)
        if index >= len(entries):
            raise self.error(path, f"an index into {len(entries)} {name}", index)
        return entries[index]

    # --------------------------------------------------------------------------------------------- the buffers

    def buffer(self, index: int, path: tuple[str | int, ...]) -> memoryview:
        """Return the bytes of a buffer: in the GLB, in the JSON, or in a file of the same folder."""
        if index not in self._buffers:
            entry = self.item("buffers", index, path)
            raw = self._raw[index] = self._fetch(index, entry)
            if len(raw) < entry["byteLength"]:
                raise self.error(("buffers", index, "byteLength"), f"at most {len(raw)} bytes", entry["byteLength"])
            self._buffers[index] = memoryview(raw)[: entry["byteLength"]]
        return self._buffers[index]

    def backing(self, index: int, path: tuple[str | int, ...]) -> bytes | memoryview:
        """Return the bytes that a buffer is a prefix of: the same object for all buffers in one file."""
        self.buffer(index, path)
        return self._raw[index]

    def _fetch(self, index: int, entry: dict[str, Any]) -> bytes | memoryview:
        uri, place = entry.get("uri"), ("buffers", index, "uri")
        if uri is None:
            if index or self.binary is None:
                raise self.error(("buffers", index), "a uri, or a BIN chunk", "neither")
            return self.binary
        if uri.startswith("data:"):
            header, comma, body = uri.partition(",")
            if not comma or not header.endswith(";base64"):
                raise self.error(place, "a data URI in base64", shown(header))
            try:
                return base64.b64decode(body, validate=True)
            except (binascii.Error, ValueError):
                raise self.error(place, "base64", "something else") from None
        found = self.beside(uri)
        if isinstance(found, str):
            raise self.error(place, "a file in the same folder", f"{shown(uri)}, which is {found}")
        return found

    def beside(self, uri: str) -> bytes | str:
        """Return the content of a file in the same folder, or what is wrong with its URI."""
        try:
            folder = self.source.path.parent.resolve()
            target = (folder / unquote(uri)).resolve()
            if not target.is_relative_to(folder) or ":" in uri:
                return "not inside it"
            if target not in self._files:
                if not target.is_file():
                    return "not there"
                self._files[target] = target.read_bytes()  # read once, even if several buffers and images refer to it
                self._budget += _BUDGET * len(self._files[target])
            return self._files[target]
        except (OSError, ValueError, RuntimeError):  # RuntimeError: circular links
            return "not inside it"

    def _view(
        self, index: int, offset: int, size: int, stride: int | None, count: int, path: tuple
    ) -> tuple[memoryview, int]:
        """Return the bytes of a buffer view from `offset` on, and its stride, if `count` elements of `size` fit."""
        view = self.item("bufferViews", index, (*path, "bufferView"))
        where = ("bufferViews", index)
        data = self.buffer(view["buffer"], (*where, "buffer"))
        begin, length = view.get("byteOffset", 0), view["byteLength"]
        if begin + length > len(data):
            raise self.error(
                (*where, "byteLength"), f"a view inside {len(data)} bytes", f"bytes {begin} to {begin + length}"
            )
        step = view.get("byteStride", size) if stride is None else stride
        if step < size:
            raise self.error((*where, "byteStride"), f"at least {size}", step)
        if offset + step * (count - 1) + size > length:
            raise self.error(
                (*path, "count"), f"elements inside a view of {length} bytes", f"{count} of {step} bytes at {offset}"
            )
        return data[begin + offset : begin + length], step

    def accessor(
        self, index: int, path: tuple[str | int, ...], *, kinds: tuple[str, ...], integer: bool = False
    ) -> NDArray:
        """Return an accessor as (count, width) floats or integers; `kinds`: the allowed types."""
        entry = self.item("accessors", index, path)
        where = ("accessors", index)
        if entry["type"] not in kinds:
            raise self.error((*where, "type"), " or ".join(kinds), shown(entry["type"]))
        if entry["componentType"] not in COMPONENTS:
            raise self.error(
                (*where, "componentType"), f"one of {', '.join(map(str, COMPONENTS))}", entry["componentType"]
            )
        self._budget -= 8 * entry["count"] * WIDTHS[entry["type"]]
        if self._budget < 0 or entry["count"] < 1:
            raise self.error((*where, "count"), "1 or more, and no more than the file can hold", entry["count"])
        if index not in self._cache:
            self._cache[index] = self._read(entry, where)
        values = self._cache[index]
        if integer:
            if values.dtype.kind not in "ui":
                raise self.error((*where, "componentType"), "integers", entry["componentType"])
            return values.astype(np.int64)
        numbers = _as_floats(values, entry.get("normalized", False))
        if not np.isfinite(numbers).all():
            raise self.error(where, "numbers that are finite", "NaN or infinity")
        return numbers

    def count(self, index: int, path: tuple[str | int, ...]) -> int:
        """Return how many elements an accessor has."""
        return self.item("accessors", index, path)["count"]

    def _read(self, entry: dict[str, Any], where: tuple) -> NDArray:
        count, width, kind = entry["count"], WIDTHS[entry["type"]], np.dtype(COMPONENTS[entry["componentType"]])
        size = width * kind.itemsize
        if "bufferView" in entry:
            raw, step = self._view(entry["bufferView"], entry.get("byteOffset", 0), size, None, count, where)
            values = np.ndarray((count, width), kind, raw, strides=(step, kind.itemsize)).copy()
        else:
            values = np.zeros((count, width), kind)
        if "sparse" in entry:
            self._patch(values, entry["sparse"], (*where, "sparse"))
        return values

    def _patch(self, values: NDArray, sparse: dict[str, Any], where: tuple) -> None:
        count, spots, news = sparse["count"], sparse["indices"], sparse["values"]
        if not 1 <= count <= len(values):
            raise self.error((*where, "count"), f"1 to {len(values)}", count)
        if spots["componentType"] not in (5121, 5123, 5125):
            raise self.error((*where, "indices", "componentType"), "an unsigned integer type", spots["componentType"])
        kind = np.dtype(COMPONENTS[spots["componentType"]])
        raw, _ = self._view(
            spots["bufferView"], spots.get("byteOffset", 0), kind.itemsize, kind.itemsize, count, (*where, "indices")
        )
        indices = np.frombuffer(raw, kind, count).astype(np.int64)
        size = values.shape[1] * values.itemsize
        raw, _ = self._view(news["bufferView"], news.get("byteOffset", 0), size, size, count, (*where, "values"))
        if indices.max() >= len(values):
            raise self.error((*where, "indices"), f"indices below {len(values)}", int(indices.max()))
        values[indices] = np.frombuffer(raw, values.dtype, count * values.shape[1]).reshape(count, -1)


def _as_floats(values: NDArray, normalized: bool) -> NDArray[np.float64]:
    floats = values.astype(np.float64)
    if normalized and values.dtype.kind in "ui":
        return np.maximum(floats / np.iinfo(values.dtype).max, -1.0)
    return floats


def _check(container: Container, value: Any, schema: Any, path: tuple[str | int, ...]) -> None:
    """Raise for the first value that does not match the schema; values outside the schema are ignored."""
    if isinstance(schema, list):
        if not isinstance(value, list):
            raise container.error(path, "an array", _kind(value))
        for i, entry in enumerate(value):
            _check(container, entry, schema[0], (*path, i))
    elif isinstance(schema, dict):
        if not isinstance(value, dict):
            raise container.error(path, "an object", _kind(value))
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        top_samplers = path[:1] == ("samplers",)
        for key in () if top_samplers else _REQUIRED.get(name, ()):
            if key not in value and not (name in ("indices", "values") and "sparse" not in path):
                raise container.error(path, f"{key!r} in it", "none")
        for key, entry in value.items():
            if key in schema or "*" in schema:
                _check(container, entry, schema.get(key, schema.get("*")), (*path, key))
    elif not _fits(value, schema):
        raise container.error(path, schema, _kind(value))


def _fits(value: Any, schema: str) -> bool:
    if schema is FLAG:
        return isinstance(value, bool)
    if schema is TEXT:
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if schema is UINT:
        return isinstance(value, int) and 0 <= value < 2**53
    return abs(value) < 1e100


def _kind(value: Any) -> str:
    return shown(json.dumps(value, ensure_ascii=True)[:60])[1:-1]


def _find(text: str, path: tuple[str | int, ...]) -> int:
    """Return the offset of the value at `path` in a JSON text, or of the innermost existing value on that path."""
    decoder = json.JSONDecoder()
    at = 0

    def blank(i: int) -> int:
        while i < len(text) and text[i] in " \t\r\n":
            i += 1
        return i

    at = blank(at)
    for step in path:
        i, number, key = blank(at + 1), 0, None
        while i < len(text) and text[i] not in "]}":
            if text[at] == "{":
                key, i = scanstring(text, i + 1, False)
                i = blank(blank(i) + 1)
            if step == (key if text[at] == "{" else number):
                at = i
                break
            _, i = decoder.raw_decode(text, i)
            i = blank(i)
            number += 1
            i = blank(i + 1) if i < len(text) and text[i] == "," else i
        else:
            return at
    return at


def as_single(values: NDArray) -> NDArray:
    """Return numbers (count, width) in single precision, as stored by glTF; raise if one is too large."""
    with np.errstate(over="ignore"):
        array = np.ascontiguousarray(values.reshape(len(values), -1), dtype="<f4")
    if not np.isfinite(array).all():
        raise FormatError(expected="numbers that fit in single precision", found="larger ones, or NaN")
    return array


def frame_seconds(times: NDArray[np.float64]) -> NDArray:
    """Return the times (T, 1) [s] of frames in single precision; raise if they do not increase."""
    array = as_single(times[:, None])
    if len(array) and (not (np.diff(array[:, 0]) > 0).all() or array[-1, 0] > MOST_SECONDS):
        raise FormatError(
            f"the times of {len(array)} frames over {times[-1]:g} s do not fit glTF's single precision",
            expected="a lower frame rate, or a shorter motion",
        )
    return array


def node_name(node: dict[str, Any], index: int) -> str:
    """Return the name of a node, or one derived from its index."""
    name = node.get("name", "")
    return decode_name(name.encode("utf-8", "replace")).strip() or f"node{index}"
