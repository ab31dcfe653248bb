"""A file being read: its bytes, and errors, warnings and notes that refer to a place in it."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from posable._files import read_regular
from posable.errors import FormatError, PosableWarning, printable

_LINE_BREAK = re.compile(rb"\r\n|\r|\n")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Source:
    """The bytes of one file, or of a text if not `on_disk`, with errors and warnings that name the place."""

    def __init__(self, path: str | PathLike[str], data: bytes, *, on_disk: bool = True):
        self.path = Path(path)
        self.data = data
        self.on_disk = on_disk
        self.notes: list[str] = []

    def error(
        self,
        message: str = "",
        *,
        offset: int | None = None,
        binary: bool = False,
        expected: str = "",
        found: object = None,
    ) -> FormatError:
        """Return the error for byte `offset`, as line and column, or as a byte offset if `binary`."""
        line = column = None
        if offset is not None and not binary:
            line, column = self.line_and_column(offset)
        place = offset if binary else None
        return FormatError(
            message, path=self.path, line=line, column=column, offset=place, expected=expected, found=found
        )

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Return line and column, from 1, of byte `offset`; CR, LF and CRLF end a line."""
        line, start = 1, 0
        for match in _LINE_BREAK.finditer(self.data, 0, max(offset, 0)):
            line, start = line + 1, match.end()
        return line, offset - start + 1

    def warn(self, message: str) -> None:
        """Issue a warning about a repair, and record it for `Scene.notes`."""
        message = printable(message)
        self.notes.append(message)
        level, frame = 1, sys._getframe(0)  # the warning should point at the caller of load
        while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("posable.formats"):
            level, frame = level + 1, frame.f_back
        warnings.warn(f"{printable(str(self.path))}: {message}", PosableWarning, stacklevel=level)

    def note(self, message: str) -> None:
        """Record for `Scene.notes` how the file was read, without a warning."""
        self.notes.append(printable(message))

    def unique(self, names: Iterable[str], kind: str) -> list[str]:
        """Return `names` without duplicates or blanks: the second `hand` becomes `hand_2`, with a warning."""
        taken: set[str] = {"world"} if kind == "joint" else set()  # reserved for the world frame
        result, changed = [], []
        names = list(names)
        wanted = set(names)
        next_number: dict[str, int] = {}
        for name in names:
            base = _CONTROL.sub(" ", name).strip() or kind
            new = base
            if new in taken:
                number = next_number.get(base, 2)
                while f"{base}_{number}" in taken or f"{base}_{number}" in wanted:
                    number += 1
                next_number[base] = number + 1
                new = f"{base}_{number}"
            if new != name:
                changed.append(f"{name!r} -> {new!r}")
            taken.add(new)
            result.append(new)
        if changed:
            shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
            self.warn(f"{kind} names made unique: {shown}")
        return result


def open_source(path: str | PathLike[str]) -> Source:
    """Read a regular file; folders, devices and pipes are refused."""
    return Source(path, read_regular(path))


def shown(token: bytes | str, limit: int = 40) -> str:
    """Return a token quoted for an error message: printable, and shortened to fit a line."""
    text = token.decode("latin-1") if isinstance(token, bytes) else token
    return repr(text if len(text) <= limit else text[:limit] + "...")


def decode_name(raw: bytes) -> str:
    """Return a name as text, from UTF-8 or else from Latin-1 (HDM05 and old Windows tools)."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def refuse_wide_text(source: Source) -> None:
    """Raise if a text is UTF-16 or UTF-32 or contains NUL bytes; skip a UTF-8 byte-order mark with a warning."""
    data = source.data
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:4] == b"\x00\x00\xfe\xff":
        raise source.error(
            offset=0, expected="ASCII, Latin-1 or UTF-8 text", found="a UTF-16 or UTF-32 byte-order mark"
        )
    if data.endswith(b"\x00") and b"\x00" not in (text := data.rstrip(b"\x00")):  # a C string written whole
        source.data = data = text
        source.warn("NUL bytes at the end were skipped")
    nul = data.find(b"\x00")
    if nul >= 0:
        raise source.error(offset=nul, expected="text", found="a NUL byte")
    if data.startswith(b"\xef\xbb\xbf"):
        source.data = b"   " + data[3:]  # blanks, so that byte offsets stay valid
        source.warn("UTF-8 byte-order mark at the start was skipped")
