"""Projects: everything on screen in one `.posable` file, a ZIP with `project.json` and the figure's own file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable.studio.dragging import Settings, are_settings
from posable.studio.files import Folder, Origin, load_quietly, with_take
from posable.studio.handles import HOLDS, MODES, Handle, checked_target
from posable.studio.state import State
from posable.studio.timeline import EASINGS, FASTEST, LONGEST, Timeline

SUFFIX = ".posable"
VERSION = 1
LARGEST = 512 * 2**20  # [bytes] largest unpacked size of a project
RECENT = 10  # number of projects kept for recovery
_TIME = ("fps", "frame", "length", "loop", "onion", "autokey", "fade", "easing")


def dump(state: State, folder: Folder, *, saved: bool, camera: Any = None) -> bytes:
    """Return a state as the bytes of a project.

    Args:
        state: What to save.
        folder: Where to write the files inside the project.
        saved: Whether the user saved it; otherwise it is offered for recovery at the next start.
        camera: The view: position and look_at (3,) [m].
    """
    line, origin = state.timeline, state.origin
    data: dict[str, Any] = {
        "posable": VERSION, "saved": saved, "time": time.time(), "name": origin.name or state.scene.name,
        "figure": {"name": origin.name, "figure": origin.figure, "path": origin.path},
        "dof_names": list(state.timeline.skeleton.dof_names),
        "pose": state.pose.tolist(), "rest": state.rest.tolist(), "strength": state.strength,
        "library": state.library, "blend": state.blend, "settings": asdict(state.settings), "camera": camera,
        "take": line.take is not None,
        "take_name": next((name for name, motion in state.scene.motions.items() if motion is line.take), None),
        "handles": [
            {**asdict(h), "position": h.position.tolist(), "rotation": h.rotation.tolist()} for h in state.handles
        ],
        "timeline": {
            **{name: getattr(line, name) for name in _TIME},
            "keys": {str(frame): pose.tolist() for frame, pose in line.keys.items()},
            "drafts": {str(frame): pose.tolist() for frame, pose in line.drafts.items()},
        },
    }  # fmt: skip
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive:
        archive.writestr("project.json", json.dumps(data))
        if origin.data is not None:
            archive.writestr(f"figure/{folder.place(origin.name).name}", origin.data)
        elif origin.figure is None:  # the file may have changed, or there never was one
            skeleton = line.skeleton
            take = line.take if line.take is not None else ps.Motion(skeleton, state.pose[None], line.fps)
            archive.writestr("figure.npz", folder.export(take, "npz", "figure")[1])
    return out.getvalue()


def load(name: str, data: bytes, folder: Folder) -> tuple[ps.Scene, Origin, dict[str, Any]]:
    """Return the figure of a project, its origin, and everything else as `restore` expects it.

    Raises:
        PosableError: If the bytes are not a project.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > LARGEST:
                raise ps.PosableError(f"{name}: expected at most {LARGEST >> 20} MB unpacked")
            kept = json.loads(archive.read("project.json"))
            inside = {info.filename: archive.read(info) for info in archive.infolist() if "figure" in info.filename}
        if kept["posable"] != VERSION:
            raise ps.PosableError(f"{name}: expected a project of version {VERSION}, got version {kept['posable']}")
        figure = {key: kept["figure"][key] for key in ("name", "figure", "path")}
        if not all(value is None or isinstance(value, str) for value in figure.values()):
            raise ValueError
    except (zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError) as error:
        raise ps.PosableError(f"{name}: expected a .posable project, got another kind of file") from error
    if figure["figure"] is not None:
        scene = ps.Scene(skeleton=ps.figures.get(figure["figure"]), name=figure["figure"])
        return scene, Origin(figure["figure"], figure=figure["figure"]), kept
    own = next((item for item in inside.items() if item[0].startswith("figure/")), None)
    if own is not None:
        scene = with_take(folder.load(own[0], own[1]), kept.get("take_name"))
        return scene, Origin(figure["name"], data=own[1], path=figure["path"]), kept
    path = figure["path"]
    if path is not None and Path(path).exists():
        scene = with_take(load_quietly(path), kept.get("take_name"))
        if scene.has_skeleton and list(scene.skeleton.dof_names) == kept["dof_names"]:
            return scene, Origin(figure["name"], path=path), kept
    scene = folder.load("figure.npz", inside.get("figure.npz", b""))
    if not kept.get("take"):
        scene = scene.replace(motion=None)
    return scene, Origin(figure["name"], path=path), kept


def restore(state: State, kept: dict[str, Any], limbs: Collection[str] = ()) -> State:
    """Return a state with the contents of a project; raises PosableError if it does not fit the figure."""
    skeleton = state.timeline.skeleton
    try:
        line = kept["timeline"]
        timeline = Timeline(
            skeleton, state.timeline.take, state.timeline.markers, _poses(skeleton, line["keys"]),
            _poses(skeleton, line["drafts"]),
            **{name: type(getattr(state.timeline, name))(line[name]) for name in _TIME},
        )  # fmt: skip
        handles = tuple(
            Handle(**{**h, "position": np.array(h["position"], float), "rotation": np.array(h["rotation"], float)})
            for h in kept["handles"]
        )
        bodies = {*skeleton.names, *skeleton.site_names}
        sound = (
            all(h.body in bodies and h.hold in HOLDS and h.mode in MODES for h in handles)
            and all(h.position.shape == (3,) and h.rotation.shape == (3, 3) for h in handles)
            and timeline.easing in EASINGS and are_settings(kept["settings"])
            and 0.0 < timeline.fps <= FASTEST and 1 <= timeline.length <= LONGEST
            and 0.0 <= timeline.frame < timeline.count and 0 <= timeline.fade <= LONGEST
            and all(0 <= frame < LONGEST for frame in (*timeline.keys, *timeline.drafts))
            and all(0.0 < float(value) < np.inf for value in kept["strength"].values())
        )  # fmt: skip
        if not sound:
            raise ValueError
        return State(
            state.scene, state.origin, state.figure, _pose(skeleton, kept["pose"]), handles, timeline,
            _pose(skeleton, kept["rest"]), {str(k): float(v) for k, v in kept["strength"].items()},
            {str(k): {str(d): float(x) for d, x in v.items()} for k, v in kept["library"].items()},
            Settings(**kept["settings"]), state.revision,
            {str(k): float(v) for k, v in kept.get("blend", {}).items() if k in limbs and 0.0 <= float(v) < 1.0},
        )  # fmt: skip
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ps.PosableError("the project was made with another figure") from error


def _pose(skeleton: ps.Skeleton, values: Any) -> np.ndarray:
    pose = np.array(values, dtype=float)
    if pose.shape != (skeleton.size,) or not np.isfinite(pose).all():
        raise ValueError
    return pose


def _poses(skeleton: ps.Skeleton, kept: dict[str, Any]) -> dict[int, np.ndarray]:
    return {int(frame): _pose(skeleton, values) for frame, values in kept.items()}


def camera_of(kept: dict[str, Any] | None) -> Any:
    """Return the view stored in a project, or None."""
    camera = (kept or {}).get("camera")
    try:  # a malformed camera raises, and is caught below
        places = {key: checked_target(camera[key], None)[0].tolist() for key in ("position", "look_at")}  # type: ignore[index]  # it may be None
    except (TypeError, KeyError, AttributeError):  # the file may contain anything
        return None
    return places


class RecoveryStore:
    """Automatically kept projects, one per figure or file, for recovery and the `Recent` list."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def place(self, origin: Origin) -> Path:
        """Return the path at which the work on a figure is kept."""
        key = origin.path or origin.figure or hashlib.sha256(origin.data or origin.name.encode()).hexdigest()
        stem = "".join(c if c.isalnum() else "_" for c in origin.name)[:40] or "figure"
        return self.folder / f"{stem}-{hashlib.sha256(key.encode()).hexdigest()[:10]}{SUFFIX}"

    def keep(self, origin: Origin, data: bytes) -> None:
        """Write a project atomically and delete the oldest ones."""
        place = self.place(origin)
        fresh = place.with_suffix(".part")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        fresh.replace(place)
        for old in self.recent()[RECENT:]:
            old.unlink(missing_ok=True)

    def unsaved(self, origin: Origin) -> bytes | None:
        """Return the unsaved work on a figure, or None."""
        place = self.place(origin)
        try:
            data = place.read_bytes()
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return None if json.loads(archive.read("project.json"))["saved"] else data
        except (OSError, zipfile.BadZipFile, KeyError, ValueError):
            return None

    def recent(self) -> list[Path]:
        """Return the kept projects, newest first."""
        found = [(path.stat().st_mtime, path) for path in self.folder.glob(f"*{SUFFIX}")]
        return [path for _, path in sorted(found, reverse=True)]
