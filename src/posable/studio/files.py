"""Files that come and go over the page: kept in the session's own folder, read and written by Posable's own formats."""

from __future__ import annotations

import io
import re
import tempfile
import warnings
import zipfile
from pathlib import Path

import posable as ps

LARGEST = 64 * 2**20  # [bytes] of an upload
EXPORTS = ("bvh", "glb", "amc", "csv", "npz")


class Folder:
    """A folder of a session's own, removed with it; nothing is written anywhere else."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="posable-studio-")
        self.path = Path(self._temporary.name)

    def close(self) -> None:
        """Remove the folder and what is in it."""
        self._temporary.cleanup()

    def place(self, name: str) -> Path:
        """Return where a file of that name goes: its last part, in plain letters, in the folder."""
        last = re.split(r"[/\\]", name)[-1]
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".")[-100:] or "file"
        return self.path / plain

    def load(self, name: str, data: bytes, skeleton: ps.Skeleton | None = None) -> ps.Scene:
        """Return what uploaded bytes hold; an AMC or a CSV without a figure of its own is read for `skeleton`."""
        if len(data) > LARGEST:
            raise ps.PosableError(f"{name}: expected at most {LARGEST >> 20} MB, got {len(data) / 2**20:.0f} MB")
        place = self.place(name)
        place.write_bytes(data)
        return load_quietly(place, skeleton)

    def export(self, motion: ps.Motion, suffix: str, name: str = "posable") -> tuple[str, bytes]:
        """Return the name and bytes of a motion in a format; what needs two files (AMC with its ASF) comes as a ZIP."""
        if suffix not in EXPORTS:
            raise ps.errors.unknown("export", suffix, EXPORTS)
        place = self.place(f"{name}.{suffix}")
        for old in self.path.glob(f"{place.stem}.*"):
            old.unlink()
        ps.save(place, motion)
        made = sorted(self.path.glob(f"{place.stem}.*"))
        if len(made) == 1:
            return place.name, place.read_bytes()
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in made:
                archive.write(file, file.name)
        return f"{place.stem}.zip", out.getvalue()


def load_quietly(path: str | Path, skeleton: ps.Skeleton | None = None) -> ps.Scene:
    """Return what a file holds; notes on what was repaired are in the scene and need no warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PosableWarning)
        needs = Path(path).suffix.lower() in (".amc", ".csv")
        return ps.load(path, skeleton=skeleton if needs else None)
