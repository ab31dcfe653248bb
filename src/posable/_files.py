"""File access: only regular files are read, and files are written atomically (temporary file, fsync, rename)."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

from posable.errors import FormatError, MissingFile


def read_regular(path: str | PathLike[str], most: int | None = None) -> bytes:
    """Return the content of a regular file; a folder, a device or a pipe, which may never end, is refused.

    Args:
        path: The file.
        most: How many bytes it may have.

    Raises:
        FormatError: It cannot be read, or is too large; `MissingFile` where there is none.
    """
    with open_regular(path, most) as file:
        return file.read()


@contextmanager
def open_regular(path: str | PathLike[str], most: int | None = None) -> Iterator[io.BufferedReader]:
    """Open a file as `read_regular` does, to read it in parts."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "a device or pipe"
            raise FormatError(path=path, expected="a regular file", found=kind)
        if most is not None and status.st_size > most:
            raise FormatError(path=path, expected=f"at most {most} bytes", found=status.st_size)
        with open(path, "rb") as file:
            yield file
    except FileNotFoundError:
        raise MissingFile("no such file", path=path) from None
    except (OSError, ValueError) as problem:
        raise FormatError(f"cannot be opened: {problem}", path=path) from problem


def write_files(files: Mapping[str | PathLike[str], bytes | Iterable[bytes]]) -> None:
    """Write files so that no failure leaves a partial one, and existing ones stay until all are written.

    Args:
        files: The content of each file by its path, as bytes or in parts. A link is followed; a device or a pipe is
            written directly.

    Raises:
        OSError: A file cannot be written: the disk is full, the folder is read-only, ... Old files are as they were.
    """
    parts: list[tuple[Path, Path]] = []
    place = Path()
    try:
        for path, content in files.items():
            place = Path(path)
            old = _status(place)
            chunks = [content] if isinstance(content, bytes) else content
            if old is not None and not stat.S_ISREG(old.st_mode):
                with place.open("wb") as file:
                    file.writelines(chunks)
                continue
            place = Path(os.path.realpath(place))
            if old is not None and not os.access(place, os.W_OK):
                raise PermissionError(13, "Permission denied", str(place))
            part = place.with_name(f".posable-{uuid4().hex[:12]}.part")
            parts.append((part, place))  # before it exists: Control-C may come between the two
            with part.open("xb") as file:
                file.writelines(chunks)
                file.flush()
                os.fsync(file.fileno())
            if old is not None:
                os.chmod(part, stat.S_IMODE(old.st_mode))
        for part, place in parts:
            os.replace(part, place)
        for folder in {place.parent for _, place in parts}:
            _sync_folder(folder)
    except OSError as problem:
        if problem.filename is None or str(problem.filename).endswith(".part"):  # a full disk; no such folder
            problem.filename = str(place)
        raise
    finally:
        for part, _ in parts:
            with suppress(OSError):
                part.unlink()


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text in UTF-8 as `write_files` does."""
    write_files({path: text.encode("utf-8")})


def save_picture(figure: Any, path: str | PathLike[str], *, dpi: int) -> None:
    """Write a matplotlib figure atomically, in the format of the path's suffix."""
    kind = Path(path).suffix.lower().lstrip(".") or "png"
    if kind not in figure.canvas.get_supported_filetypes():
        raise FormatError(path=path, expected="a suffix such as .png, .svg or .pdf", found=f".{kind}")
    content = io.BytesIO()
    figure.savefig(content, dpi=dpi, format=kind)
    write_files({path: content.getvalue()})


def _status(place: Path) -> os.stat_result | None:
    """Return the status of the file at a path, or None if there is none."""
    try:
        return os.stat(place)
    except FileNotFoundError:
        return None


def _sync_folder(folder: Path) -> None:
    """Make the new names survive a power failure where possible; Windows cannot open folders."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
