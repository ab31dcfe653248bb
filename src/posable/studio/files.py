"""Files of a session: uploads and downloads in a folder of its own, and the local file that it was opened from."""

from __future__ import annotations

import io
import re
import tempfile
import warnings
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable.studio.messages import strip_control

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


def notes_on(scene: ps.Scene, most: int = 2) -> str:
    """Return what to know about a file: notes on reading it, such as missing meshes, and how many takes it has."""
    notes = [f"Note: {strip_control(without_paths(note))}." for note in scene.notes[:most]]
    if len(scene.motions) > 1:
        notes.append(f"It has {len(scene.motions)} takes; choose one in the Time tab.")
    return " ".join(notes)


def with_take(scene: ps.Scene, name: Any) -> ps.Scene:
    """Return a scene that shows the named take; unchanged if it has none of that name."""
    known = isinstance(name, str) and name in scene.motions
    return scene.replace(motion=scene.motions[name]) if known else scene


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


class WatchedFile:
    """The file of a session, or none."""

    def __init__(self, session: Any):
        self.session = session
        self.path: Path | None = None
        self.seen = 0.0  # [s] last known modification time
        self.asks = False  # whether there is somebody to ask what to do if there is unsaved work
        self._changed = False

    @property
    def name(self) -> str:
        """Its name without folders."""
        return self.path.name if self.path is not None else ""

    @property
    def changed(self) -> bool:
        """Whether it has changed, and a user has to say what to do."""
        return self._changed and self._is_open and self.session.dirty

    @property
    def _is_open(self) -> bool:
        """Whether the figure of this file is the one that is posed."""
        return self.path is not None and self.session.origin.path == str(self.path.resolve())

    def watch(self, path: Path | None) -> None:
        """Watch a file, or none."""
        self.path, self.seen, self._changed = path, path.stat().st_mtime if path is not None else 0.0, False

    def check(self) -> None:
        """Reload the file if it has changed, or ask if there is unsaved work."""
        if self.path is None or not self._is_open or not self.path.exists():
            return
        now = self.path.stat().st_mtime
        self.seen, changed = now, now != self.seen or self._changed
        if not changed:
            return
        if not (self.session.dirty and self.asks):
            self.reload()
        elif not self._changed:
            self._changed = True
            self.session.publish()

    def leave(self) -> None:
        """Leave everything as it is, until the file changes again."""
        self._changed = False
        self.session.publish()

    def reload(self) -> bool:
        """Reload the file; keys, handles and pose are kept if the figure is the same. Can be undone."""
        session, path = self.session, self.path
        if path is None:
            return False
        self._changed = False
        try:
            scene = with_take(load_quietly(path, session.skeleton), session.take_name)
            same = scene.has_skeleton and scene.skeleton.dof_names == session.skeleton.dof_names
            if same and (session.dirty or session.timeline.keys):
                self._reload_below(scene, origin_of(path))
            else:
                session.open(scene, origin=origin_of(path))
            session.notify(f"Reloaded {path.name}")
            return True
        except (ps.PosableError, OSError) as error:
            session.notify(str(error), "bad")
            return False

    def _reload_below(self, scene: ps.Scene, origin: Origin) -> None:
        """Replace the take below the keys by another one of the same figure."""
        session = self.session
        with session.change():
            take = scene.motion if scene.motion is not None and len(scene.motion) else None
            skeleton = scene.skeleton if scene.has_skeleton else session.skeleton
            count = len(take) if take is not None else np.inf
            keys = {frame: pose for frame, pose in session.timeline.keys.items() if frame < count}
            line = replace(session.timeline, skeleton=skeleton, take=take, keys=keys)
            line = replace(line, frame=min(line.frame, line.count - 1))
            state = replace(session.state(), scene=scene, origin=origin, timeline=line, figure=session.figure + 1)
            session.restore(state)
            session.show_frame()
