"""Arrays as NumPy saves them (.npy), decoded without NumPy's loader: no pickle, no size that is not there."""

from __future__ import annotations

import ast

import numpy as np
from numpy.typing import NDArray

from posable.formats.source import Source, shown

MAGIC = b"\x93NUMPY"
MAX_TEXTS = 100_000  # of one array: each becomes a Python object, however few bytes it has in the file


def decode(source: Source, name: str, raw: bytes) -> NDArray:
    """Return an array from the bytes of a .npy file: a header that is a literal, and as many bytes as it says."""
    if raw[:6] != MAGIC or len(raw) < 12 or raw[6] not in (1, 2, 3):
        raise source.error(expected=f"a NumPy array in {name!r}", found=shown(raw[:8]))
    width = 2 if raw[6] == 1 else 4
    size = int.from_bytes(raw[8 : 8 + width], "little")
    try:
        if size > 10_000:
            raise ValueError("a header that is too long")
        header = ast.literal_eval(raw[8 + width : 8 + width + size].decode("latin-1").strip())
        kind, shape = np.dtype(header["descr"]), tuple(int(n) for n in header["shape"])
        order = "F" if header["fortran_order"] else "C"
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError, OverflowError) as problem:
        raise source.error(expected=f"the header of array {name!r}", found=shown(str(problem), 80)) from None
    count = 1
    for n in shape:
        count *= n
    room = len(raw) - (8 + width + size)
    if kind.kind not in "fiuUb" or min(shape, default=1) < 0 or len(shape) > 8 or count * kind.itemsize != room:
        raise source.error(
            expected=f"array {name!r} of {shown(str(count))[1:-1]} numbers or texts",
            found=f"{kind} {shown(str(shape))[1:-1]} in {room} bytes",
        )
    if kind.kind == "U" and count > MAX_TEXTS:
        raise source.error(expected=f"at most {MAX_TEXTS} texts in {name!r}", found=shown(str(count))[1:-1])
    if not kind.itemsize:
        return np.zeros(shape, "U1")
    values = np.frombuffer(raw, kind, count, 8 + width + size).reshape(shape, order=order)
    if kind.kind == "U" and values.size and values.view(np.uint32 if kind.byteorder != ">" else ">u4").max() > 0x10FFFF:
        raise source.error(expected=f"texts in {name!r}", found="code points that are none")
    return values
