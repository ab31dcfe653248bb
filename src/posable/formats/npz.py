"""NPZ, read and written: poses, their skeleton, and markers, as NumPy arrays in a zip file. SI units.

The arrays: `poses` (T, n), `fps`, `dof_names`; `skeleton`, the figure as JSON in bytes; `marker_names`,
`marker_positions` (T, M, 3), `marker_fps`, `marker_up`. Any NPZ with `poses` of a given `skeleton=` can be read. No
pickles.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posable.errors import FormatError, did_you_mean
from posable.formats import keypoints, robot_layouts, smpl
from posable.formats.base import Format, Options, build_skeleton
from posable.formats.scene import Scene
from posable.formats.source import Source, shown
from posable.model import joints
from posable.model.joints import Joint, Site, rotation_matrix
from posable.model.motion import Markers, Motion
from posable.model.shapes import Shape
from posable.model.skeleton import Skeleton

# --- A skeleton as plain JSON and back ---

_MOTIONS = {
    name: kind
    for name, kind in vars(joints).items()
    if isinstance(kind, type) and issubclass(kind, joints.JointMotion) and kind is not joints.JointMotion
}


def dump_figure(skeleton: Skeleton) -> str:
    """Return a skeleton as JSON text; infinite limits are written as Infinity."""
    joints = [
        {
            "name": joint.name,
            "motion": {"type": type(joint.motion).__name__, **asdict(joint.motion)}, "parent": joint.parent,
            "offset": _plain(joint.offset), "rotation": _plain(rotation_matrix(joint.rotation)),
            "limits": _plain(joint.limits), "rest": _plain(joint.rest), "gain": _plain(joint.gain),
            "mass": float(joint.mass), "frozen": _held(joint.frozen), "center": _plain(joint.center),
            "inertia": _plain(joint.inertia), "velocity": _plain(joint.velocity), "effort": _plain(joint.effort),
        }
        for joint in skeleton.joints
    ]  # fmt: skip
    sites = [
        {
            "name": site.name, "joint": site.joint, "offset": _plain(site.offset),
            "rotation": _plain(rotation_matrix(site.rotation)),
        }
        for site in skeleton.sites
    ]  # fmt: skip
    return json.dumps(
        {
            "name": skeleton.name, "up": skeleton.up, "unit": skeleton.unit, "couplings": skeleton.couplings,
            "from": str(skeleton.info.get("format", "")), "joints": joints, "sites": sites, "loops": skeleton.loops,
            "shapes": [_plain_shape(shape) for shape in skeleton.shapes], "disabled_pairs": skeleton.disabled_pairs,
            "collision_pairs": skeleton._collision_pairs,
            "named_poses": {name: pose.tolist() for name, pose in skeleton.named_poses.items()},
        }
    )  # fmt: skip


def _held(frozen: Any) -> Any:
    return bool(frozen) if np.ndim(frozen) == 0 else [bool(one) for one in frozen]


def _plain(value: Any) -> Any:
    return None if value is None else np.asarray(value, dtype=float).tolist()


def _plain_shape(shape: Shape) -> dict[str, Any]:
    return {**asdict(shape), "points": shape.points.tolist(), "normal": _plain(shape.normal)}


def load_figure(source: Source, text: bytes) -> Skeleton:
    """Return the skeleton of a JSON text; anything that `dump_figure` would not write is an error."""
    try:
        tree = json.loads(text.decode("utf-8"), parse_int=_integer)
        joints = [_joint(entry) for entry in tree["joints"]]
        sites = [Site(str(s["name"]), str(s["joint"]), s["offset"], _rotation(s["rotation"])) for s in tree["sites"]]
        couplings = [(str(a), str(b), float(r), float(o)) for a, b, r, o in tree.get("couplings", [])]
        name, up, unit = str(tree.get("name", "")), tree.get("up"), float(tree.get("unit", 1.0))
        came_from = str(tree.get("from", ""))
        extras = {
            "loops": [(str(a), str(b), bool(welded)) for a, b, welded in tree.get("loops", [])],
            "shapes": [Shape(**entry) for entry in tree.get("shapes", [])],
            "disabled_pairs": [(str(a), str(b)) for a, b in tree.get("disabled_pairs", [])],
            "named_poses": {str(k): [float(x) for x in v] for k, v in tree.get("named_poses", {}).items()},
        }
        if tree.get("collision_pairs") is not None:
            extras["collision_pairs"] = [(str(a), str(b)) for a, b in tree["collision_pairs"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as problem:
        raise source.error(
            expected="a skeleton as JSON", found=shown(f"{type(problem).__name__}: {problem}", 80)
        ) from None
    if not np.isfinite(unit) or unit <= 0 or up not in (None, "y", "z"):
        raise source.error(expected="a unit above 0 and up y or z", found=shown(f"{unit}, {up}"))
    return build_skeleton(
        source, joints, sites, name=name, up=up, unit=unit, couplings=couplings, info={"format": came_from}, **extras
    )


def _integer(digits: str) -> float:
    """Return an integer of JSON; infinity if it exceeds float64, which no field accepts."""
    return int(digits) if len(digits) < 300 else float(digits)


def _joint(entry: dict[str, Any]) -> Joint:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry["motion"].items()}
    motion = _MOTIONS[fields.pop("type")](**fields)
    parent = entry["parent"]
    return Joint(
        str(entry["name"]), motion, None if parent is None else str(parent), offset=entry["offset"],
        rotation=_rotation(entry["rotation"]), limits=entry["limits"], rest=entry["rest"], gain=entry["gain"],
        mass=float(entry["mass"]), frozen=entry["frozen"], center=entry["center"],
        inertia=entry.get("inertia"), velocity=entry.get("velocity", np.inf), effort=entry.get("effort", np.inf),
    )  # fmt: skip


def _rotation(value: Any) -> Any:
    return None if value is None else np.array(value, dtype=float)


# --- NPZ ---

_GROWTH = 16  # arrays that are read may unpack to this many times the size of the file,
_FLOOR = 64_000_000  # plus this many bytes
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
)  # what zips raise
_MOST_JSON = 16_000_000  # bytes of a skeleton; as Python objects it takes twenty times as much


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` may be NPZ."""
    return head[:4] == b"PK\x03\x04"


def read(source: Source, options: Options) -> Scene:
    """Return the skeleton, the motion and the markers of an NPZ file."""
    arrays = Arrays(source)
    if smpl.holds(arrays):
        return smpl.read(source, arrays, options)
    if robot_layouts.holds(arrays):
        motion = robot_layouts.read(source, arrays, options.skeleton)
        return Scene(skeleton=motion.skeleton, motion=motion, motions={motion.name: motion})
    if "positions" in arrays and "skeleton" not in arrays:
        names = next((arrays.names(key) for key in ("names", "joints", "roles", "joint_names") if key in arrays), None)
        rate = arrays.scalar("fps", 30.0) if "fps" in arrays else options.fps
        return keypoints.scene_of(source, arrays.numbers("positions"), options.names or names, rate, options)
    skeleton = options.skeleton
    if "skeleton" in arrays and skeleton is None:
        raw = arrays["skeleton"]
        if raw.dtype != np.uint8 or raw.ndim != 1 or raw.size > _MOST_JSON:
            raise source.error(
                expected=f"skeleton as JSON in bytes (uint8), {_MOST_JSON} at most", found=f"{raw.dtype} {raw.shape}"
            )
        skeleton = load_figure(source, raw.tobytes())
    motion = markers = None
    if "poses" in arrays:
        poses = arrays.numbers("poses")
        if skeleton is None:
            raise source.error(expected="a skeleton in the file, or skeleton=", found="poses alone")
        if poses.ndim != 2 or poses.shape[1] != skeleton.size or not np.isfinite(poses).all():
            raise source.error(expected=f"finite poses of shape (T, {skeleton.size})", found=f"shape {poses.shape}")
        if "dof_names" in arrays:
            poses = _in_order(source, poses, arrays.names("dof_names"), skeleton)
        motion = Motion(skeleton, poses, arrays.scalar("fps", options.fps or 30.0), source.path.stem)
    if "marker_positions" in arrays:
        positions, names = arrays.numbers("marker_positions"), arrays.names("marker_names")
        if positions.ndim != 3 or positions.shape[1:] != (len(names), 3):
            raise source.error(
                expected=f"marker_positions of shape (T, {len(names)}, 3)", found=f"shape {positions.shape}"
            )
        infinite = np.isinf(positions).any(axis=-1)
        if infinite.any():
            source.warn(f"{int(infinite.sum())} infinite marker positions were treated as unseen")
        positions[~np.isfinite(positions).all(axis=-1)] = np.nan
        up = (arrays.names("marker_up") or [""])[0]
        rate = arrays.scalar("marker_fps", options.fps or 30.0)
        markers = Markers(tuple(source.unique(names, "marker")), positions, rate, up=up if up in ("y", "z") else None)
    if skeleton is None and markers is None:
        raise source.error(
            expected="poses, a skeleton or marker_positions",
            found=", ".join(map(shown, list(arrays)[:8])) or "no arrays",
        )
    motions = {motion.name: motion} if motion else {}
    return Scene(skeleton=skeleton, motion=motion, motions=motions, markers=markers)


def _in_order(source: Source, poses: NDArray, stated: list[str], skeleton: Skeleton) -> NDArray:
    """Return the poses with their columns in the skeleton's order; the file names the columns in `dof_names`."""
    names = list(skeleton.dof_names)
    if stated == names:
        return poses
    if sorted(stated) != sorted(names):
        strange = next((name for name in stated if name not in names), None)
        if strange is None or len(stated) != len(names):
            found = f"{len(stated)} names in 'dof_names'"
        else:
            found = f"{shown(strange)}{did_you_mean(strange, names)}"
        raise source.error(expected=f"the degrees of freedom of {skeleton.name or 'the skeleton'}", found=found)
    source.note("columns were reordered to match the skeleton, by 'dof_names'")
    column = {name: k for k, name in enumerate(stated)}
    return np.ascontiguousarray(poses[:, [column[name] for name in names]])


class Arrays:
    """The arrays of a zip file by name, with a bound on their total size."""

    def __init__(self, source: Source):
        self.source = source
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(source.data))
            members = self._zip.infolist()
        except _DAMAGED as problem:
            raise source.error(expected="a zip file of arrays", found=str(problem)) from None
        self._members = {m.filename.removesuffix(".npy"): m for m in members if m.filename.endswith(".npy")}
        self._room = _GROWTH * len(source.data) + _FLOOR

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self):
        return iter(self._members)

    def __getitem__(self, name: str) -> NDArray:
        member = self._members[name]
        self._room -= member.file_size
        if self._room < 0:
            raise self.source.error(
                binary=True, offset=member.header_offset, expected="arrays that unpack to a few times the file",
                found=f"{member.file_size} bytes",
            )  # fmt: skip
        try:
            with self._zip.open(member) as file:
                raw = file.read(member.file_size + 1)
        except _DAMAGED as problem:
            raise self.source.error(
                binary=True, offset=member.header_offset, expected=f"array {name!r}", found=str(problem)
            ) from None
        return keypoints.decode_npy(self.source, name, raw)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return an array of numbers."""
        values = self[name]
        if values.dtype.kind not in "fiu":
            raise self.source.error(expected=f"numbers in {name!r}", found=str(values.dtype))
        with np.errstate(all="ignore"):
            return np.array(values, dtype=float)

    def scalar(self, name: str, default: float) -> float:
        """Return a number above 0; the default, with a warning, where the file has none."""
        if name not in self:
            self.source.warn(f"no {name!r} in the file: {default:g} was used")
            return default
        values = self.numbers(name)
        if values.size != 1 or not 0 < float(values.ravel()[0]) < 1e7:
            raise self.source.error(expected=f"one number above 0 in {name!r}", found=f"shape {values.shape}")
        return float(values.ravel()[0])

    def names(self, name: str) -> list[str]:
        """Return texts; none where the file has none."""
        if name not in self:
            return []
        values = self[name]
        if values.dtype.kind != "U":
            raise self.source.error(expected=f"strings in {name!r}", found=str(values.dtype))
        return [str(value) for value in values.ravel()]


def write(scene: Scene, suffix: str, options: Options) -> dict[str, bytes]:
    """Return the file."""
    arrays: dict[str, NDArray] = {}
    if scene.has_skeleton:
        arrays["skeleton"] = np.frombuffer(dump_figure(scene.skeleton).encode("utf-8"), np.uint8)
        arrays["dof_names"] = np.array(scene.skeleton.dof_names, dtype=np.str_)
    if scene.motion is not None:
        arrays |= {"poses": scene.motion.poses, "fps": np.array(scene.motion.fps)}
    if scene.markers is not None:
        arrays |= {
            "marker_names": np.array(scene.markers.names, dtype=np.str_), "marker_positions": scene.markers.positions,
            "marker_fps": np.array(scene.markers.fps), "marker_up": np.array(scene.markers.up or ""),
        }  # fmt: skip
    if not arrays:
        raise FormatError(
            "there is nothing to write", expected="a Motion, a Skeleton or Markers", found="an empty Scene"
        )
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return {suffix: file.getvalue()}


FORMAT = Format(
    "NPZ", (".npz",), "a skeleton, its motion, markers", "metres, radians; the up axis is stored", sniff, read, write
)
