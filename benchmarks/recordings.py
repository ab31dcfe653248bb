"""What a recording must hold, or a `FormatError` that says which file has none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import posable as ps
from posable.errors import FormatError


def read_skeleton(path: Path, **options: Any) -> ps.Skeleton:
    """Return the figure of a file."""
    return _held(path, "skeleton", options)


def read_motion(path: Path, **options: Any) -> ps.Motion:
    """Return the motion of a file; `skeleton=` where the file has no figure of its own."""
    return _held(path, "motion", options)


def read_markers(path: Path, **options: Any) -> ps.Markers:
    """Return the markers of a file."""
    return _held(path, "markers", options)


def _held(path: Path, what: str, options: dict[str, Any]) -> Any:
    found = getattr(ps.load(path, **options), what)
    if found is None:
        raise FormatError(path=path, expected=f"a file with {what}", found="none in it")
    return found
