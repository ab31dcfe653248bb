"""Uploads and downloads of a page: stored in the session's own folder, read and written by Posable's formats."""

from __future__ import annotations

import io
import re
import tempfile
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import posable as ps

LARGEST = 64 * 2**20  # [bytes] largest upload
EXPORTS = ("bvh", "glb", "amc", "csv", "npz")
ALONE = (".bvh", ".glb", ".npz", ".c3d", ".trc", ".asf", ".npy")  # formats with everything in one file
_PATH = re.compile(r"(?<![\w.:/])(?:[A-Za-z]:)?[/\\](?:[^\s/\\:'\"<>|]+[/\\])+")


@dataclass(frozen=True)
class Origin:
    """Where a figure came from: a built-in one by `figure`, the bytes `data` of a file `name`, or a `path`."""

    name: str = ""
    figure: str | None = None
    data: bytes | None = None
    path: str | None = None


class Folder:
    """The temporary folder of a session; nothing is written anywhere else."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="posable-studio-")
        self.path = Path(self._temporary.name)

    def close(self) -> None:
        """Remove the folder and its contents."""
        self._temporary.cleanup()

    def place(self, name: str) -> Path:
        """Return the path of a file in the folder: the last part of its name, in safe characters."""
        last = re.split(r"[/\\]", name)[-1]
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", last).lstrip(".")[-100:] or "file"
        return self.path / plain

    def load(self, name: str, data: bytes, skeleton: ps.Skeleton | None = None) -> ps.Scene:
        """Return the contents of uploaded bytes; an AMC or a CSV without a figure is read for `skeleton`."""
        if len(data) > LARGEST:
            raise ps.PosableError(f"{name}: expected at most {LARGEST >> 20} MB, got {len(data) / 2**20:.0f} MB")
        place = self.place(name)
        place.write_bytes(data)
        return load_quietly(place, skeleton)

    def export(self, motion: ps.Motion | ps.Scene, suffix: str, name: str = "posable") -> tuple[str, bytes]:
        """Return the name and bytes of a motion in a format; formats of two files (AMC with its ASF) are zipped."""
        if suffix not in EXPORTS:
            raise ps.errors.unknown("export", suffix, EXPORTS)
        with tempfile.TemporaryDirectory(dir=self.path) as fresh:
            place = Path(fresh) / self.place(f"{name}.{suffix}").name
            ps.save(place, motion)
            made = sorted(Path(fresh).iterdir())
            if len(made) == 1:
                return place.name, place.read_bytes()
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
                for file in made:
                    archive.write(file, file.name)
            return f"{place.stem}.zip", out.getvalue()


def origin_of(path: Path) -> Origin:
    """Return the origin of a local file: its bytes if the format is self-contained, and its path."""
    alone = path.suffix.lower() in ALONE and path.stat().st_size <= LARGEST
    return Origin(path.name, data=path.read_bytes() if alone else None, path=str(path.resolve()))


def load_quietly(path: str | Path, skeleton: ps.Skeleton | None = None) -> ps.Scene:
    """Return the contents of a file without warnings; notes on repairs are in the scene."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ps.PosableWarning)
        needs = Path(path).suffix.lower() in (".amc", ".csv")
        return ps.load(path, skeleton=skeleton if needs else None)


def without_paths(text: str) -> str:
    """Return a message without the folders of this machine."""
    return _PATH.sub("", text)


def first_seen(markers: ps.Markers | None) -> float:
    """Return the first frame in which any marker is visible."""
    if markers is None or not len(markers):
        return 0.0
    seen = np.isfinite(markers.positions).all(axis=-1)  # (T, M)
    return float(np.argmax(seen.sum(axis=-1) > 0))


def upright(markers: ps.Markers | None, skeleton: ps.Skeleton) -> ps.Markers | None:
    """Return markers rotated to the up axis of the figure."""
    if markers is None or skeleton.up is None or not np.isfinite(markers.positions).any():
        return markers
    tall = np.nan_to_num(np.nanmax(markers.positions, axis=(0, 1)) - np.nanmin(markers.positions, axis=(0, 1)))
    if (markers.up or ("y" if tall[1] > tall[2] else "z")) == skeleton.up:
        return markers
    x, y, z = np.moveaxis(markers.positions, -1, 0)
    turned = (x, z, -y) if skeleton.up == "y" else (x, -z, y)
    return replace(markers, positions=np.stack(turned, axis=-1), up=skeleton.up)
