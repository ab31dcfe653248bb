"""Arrays of joint positions: `.npy` (T, J, 3), and `.npz` with positions, names, rate and confidences.

The output of pose estimators and position-only data sets. The names of the joints are given as `names=`, stored in the
file, or follow from the number of joints (`SETS`). Positions become a skeleton and its motion.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from posable.errors import PosableError, unknown
from posable.formats.base import Format, Options
from posable.formats.scene import Scene
from posable.formats.source import Source, shown
from posable.model.joint_positions import motion_from_positions

# --- Common sets of 3D keypoints: names in order, and their trees ---
#
# `SETS` maps a set's name to its joints; `PARENTS` gives each joint its parent. A joint whose parent is not in the set
# is attached to the nearest ancestor that is.


def _sided(*names: str) -> tuple[str, ...]:
    return tuple(f"{side}_{name}" for name in names for side in ("left", "right"))


SMPL_24 = (
    "pelvis", "left_hip", "right_hip", "spine1", "left_knee", "right_knee", "spine2", "left_ankle", "right_ankle",
    "spine3", "left_foot", "right_foot", "neck", "left_collar", "right_collar", "head", "left_shoulder",
    "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hand", "right_hand",
)  # fmt: skip
COCO_17 = ("nose", *_sided("eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle"))
HALPE_26 = (
    *COCO_17, "head", "neck", "pelvis", *_sided("big_toe", "small_toe", "heel"),
)  # fmt: skip
OPENPOSE_25 = (
    "nose", "neck", "right_shoulder", "right_elbow", "right_wrist", "left_shoulder", "left_elbow", "left_wrist",
    "pelvis", "right_hip", "right_knee", "right_ankle", "left_hip", "left_knee", "left_ankle", "right_eye", "left_eye",
    "right_ear", "left_ear", "left_big_toe", "left_small_toe", "left_heel", "right_big_toe", "right_small_toe",
    "right_heel",
)  # fmt: skip
HUMAN36M_17 = (
    "pelvis", "right_hip", "right_knee", "right_ankle", "left_hip", "left_knee", "left_ankle", "spine", "neck", "nose",
    "head", "left_shoulder", "left_elbow", "left_wrist", "right_shoulder", "right_elbow", "right_wrist",
)  # fmt: skip
MEDIAPIPE_33 = (
    "nose", "left_eye_inner", "left_eye", "left_eye_outer", "right_eye_inner", "right_eye", "right_eye_outer",
    "left_ear", "right_ear", "mouth_left", "mouth_right", *_sided("shoulder", "elbow", "wrist", "pinky", "index",
    "thumb", "hip", "knee", "ankle", "heel", "foot_index"),
)  # fmt: skip
COCO_133 = (
    *COCO_17, "left_big_toe", "left_small_toe", "left_heel", "right_big_toe", "right_small_toe", "right_heel",
    *(f"face_{k}" for k in range(68)), *(f"left_hand_{k}" for k in range(21)), *(f"right_hand_{k}" for k in range(21)),
)  # fmt: skip

SETS: dict[str, tuple[str, ...]] = {
    "smpl24": SMPL_24,
    "coco17": COCO_17,
    "coco133": COCO_133,
    "halpe26": HALPE_26,
    "openpose25": OPENPOSE_25,
    "human36m17": HUMAN36M_17,
    "mediapipe33": MEDIAPIPE_33,
}

_TRUNK: dict[str, str | None] = {
    "pelvis": None, "spine": "pelvis", "spine1": "pelvis", "spine2": "spine1", "spine3": "spine2", "neck": "spine3",
    "head": "neck", "nose": "head", "mouth_left": "head", "mouth_right": "head",
}  # fmt: skip
_SIDE = {
    "hip": "pelvis", "knee": "hip", "ankle": "knee", "foot": "ankle", "heel": "ankle", "big_toe": "ankle",
    "small_toe": "ankle", "foot_index": "ankle", "collar": "spine3", "shoulder": "collar", "elbow": "shoulder",
    "wrist": "elbow", "hand": "wrist", "pinky": "wrist", "index": "wrist", "thumb": "wrist", "eye": "head",
    "ear": "head", "eye_inner": "head", "eye_outer": "head",
}  # fmt: skip
_MIDDLE = ("pelvis", "spine3", "head")
PARENTS: dict[str, str | None] = _TRUNK | {
    f"{side}_{name}": parent if parent in _MIDDLE else f"{side}_{parent}"
    for name, parent in _SIDE.items()
    for side in ("left", "right")
}

# Joints that a tree needs and some sets lack: the middle of two others.
MIDDLES = {"pelvis": ("left_hip", "right_hip"), "neck": ("left_shoulder", "right_shoulder")}
FACE = ("face_", "left_hand_", "right_hand_")  # of COCO 133: not part of the tree


# --- Arrays as saved by NumPy ---

NPY_MAGIC = b"\x93NUMPY"
MAX_TEXTS = 100_000  # per array: each becomes a Python object, however few bytes it takes in the file


def decode_npy(source: Source, name: str, raw: bytes) -> NDArray:
    """Return the array of a .npy file without NumPy's loader: no pickle, and no more bytes than the file has."""
    if raw[:6] != NPY_MAGIC or len(raw) < 12 or raw[6] not in (1, 2, 3):
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
            expected=f"array {name!r} of {shown(str(count))[1:-1]} numbers or strings",
            found=f"{kind} {shown(str(shape))[1:-1]} in {room} bytes",
        )
    if kind.kind == "U" and count > MAX_TEXTS:
        raise source.error(expected=f"at most {MAX_TEXTS} strings in {name!r}", found=shown(str(count))[1:-1])
    if not kind.itemsize:
        return np.zeros(shape, "U1")
    values = np.frombuffer(raw, kind, count, 8 + width + size).reshape(shape, order=order)
    if kind.kind == "U" and values.size and values.view(np.uint32 if kind.byteorder != ">" else ">u4").max() > 0x10FFFF:
        raise source.error(expected=f"strings in {name!r}", found="invalid code points")
    return values


# --- Arrays of joint positions ---


LIMBS = (("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee"), ("knee", "ankle"))
UNLIKE = 0.15  # usual change of a bone's length beyond which the joints are probably others
UNSURE = 0.3  # confidence below which a joint counts as not seen


def sniff(head: bytes) -> bool:
    """Return whether a file that starts with `head` may be NPY."""
    return head[:6] == NPY_MAGIC


def read(source: Source, options: Options) -> Scene:
    """Return the skeleton and the motion of a file of joint positions."""
    array = decode_npy(source, "joint positions", source.data)
    return scene_of(source, array, options.names, options.fps, options)


def scene_of(source: Source, positions: np.ndarray, names: Any, fps: float | None, options: Options) -> Scene:
    """Return the scene of positions (T, J, 3), or (T, J, 4) with confidences."""
    if positions.ndim != 3 or positions.shape[2] not in (3, 4) or positions.dtype.kind not in "fiu":
        raise source.error(
            expected="joint positions (T, J, 3), or (T, J, 4)", found=f"{positions.dtype} {positions.shape}"
        )
    if names is None:
        names = _assumed_set(source, positions)
    joints = joint_names(names, positions.shape[1])
    choices = ", ".join(f"{name} ({len(members)})" for name, members in SETS.items())
    if joints is None:
        raise source.error(
            "names of the joints", expected=f"names=[...] or a set: {choices}", found=f"{positions.shape[1]} joints"
        )
    if fps is None:
        source.warn("no frame rate is stated: 30 frames per second are assumed; set fps= to change it")
        fps = 30.0
    unit, up = options.unit or 1.0, options.up or "z"
    places = unit * positions[..., :3].astype(float)
    if positions.shape[2] == 4:
        places[positions[..., 3] < UNSURE] = np.nan
    change = limb_change(joints, places)
    if change > UNLIKE:
        source.warn(
            f"upper arms, forearms, thighs and shins change their lengths by {100.0 * change:.0f}%: are the joints in "
            f"another order? names=[...] or a set: {choices}"
        )
    kept = [k for k, name in enumerate(joints) if not name.startswith(FACE)]
    joints, places = [joints[k] for k in kept], places[:, kept]
    known = set(joints) <= set(PARENTS)
    if known:
        joints, places = with_middles(joints, places)
    try:
        motion = motion_from_positions(
            joints, places, fps, up=up, parents=PARENTS if known else None, name=source.path.stem
        )
    except PosableError as problem:
        raise source.error(str(problem)) from None
    return Scene(skeleton=motion.skeleton, motion=motion, motions={motion.name: motion})


def joint_names(names: Any, count: int) -> list[str] | None:
    """Return the names of `count` joints: as given, of a named set, or of the first set with that many joints."""
    if isinstance(names, str):
        if names not in SETS:
            raise unknown("set of keypoints", names, SETS)
        names = SETS[names]
    if names is None:
        names = next((members for members in SETS.values() if len(members) == count), None)
    if names is None or len(names) != count:
        return None
    return [str(name) for name in names]


def _assumed_set(source: Source, positions: np.ndarray) -> str | None:
    """Return the set with as many joints whose limbs change their lengths least, and say so."""
    count = positions.shape[1]
    places = positions[..., :3].astype(float)
    changes = {name: limb_change(members, places) for name, members in SETS.items() if len(members) == count}
    if not changes:
        return None
    name = min(changes, key=lambda one: changes[one])
    others = " or ".join(f"names={other!r}" for other in changes if other != name)
    source.note(f"{count} joints without names: taken for {name}" + (f"; otherwise pass {others}" if others else ""))
    return name


def limb_change(joints: Sequence[str], places: np.ndarray) -> float:
    """Return the usual change of the lengths of arms' and legs' bones over time, as a fraction; 0 without such bones.

    places (T, J, 3): their positions. A pair of bones that differ in length counts as one that changes.
    """
    rows = {name: k for k, name in enumerate(joints)}
    changes = []
    for a, b in LIMBS:
        lengths = [
            np.linalg.norm(places[:, rows[f"{side}_{a}"]] - places[:, rows[f"{side}_{b}"]], axis=1)
            for side in ("left", "right")
            if {f"{side}_{a}", f"{side}_{b}"} <= rows.keys()
        ]
        if lengths and np.isfinite(both := np.concatenate(lengths)).any():
            usual = np.nanmedian(both)
            changes.append(float(np.nanmedian(np.abs(both - usual)) / max(usual, 1e-12)))
    return float(np.mean(changes)) if changes else 0.0


def with_middles(joints: list[str], places: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Add pelvis and neck to sets that have only their two sides."""
    for name, (left, right) in MIDDLES.items():
        if name not in joints and left in joints and right in joints:
            middle = 0.5 * (places[:, joints.index(left)] + places[:, joints.index(right)])
            joints, places = [*joints, name], np.concatenate([places, middle[:, None]], axis=1)
    return joints, places


FORMAT = Format(
    "keypoints", (".npy",), "joint positions over time", "metres, z up, 30 frames per second by default", sniff, read
)
