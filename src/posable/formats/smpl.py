"""AMASS and SMPL-H/X motion in NPZ files: axis-angle rotations of a body of the SMPL family, read.

`poses` (T, 3 J) holds a rotation vector for the pelvis and each joint after it, `trans` (T, 3) the path of the pelvis,
`betas` the shape. Other programs store the pelvis and the body apart, as `root_orient` and `pose_body` or as
`global_orient` and `body_pose`, and call the path `transl`. Proportions follow from a body model, which is licensed and
not part of Posable; without one the average proportions below are used, and a note says so. They are those of the
built-in human.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.formats.base import Options, build_skeleton
from posable.formats.keypoints import SMPL_24
from posable.formats.scene import Scene
from posable.formats.source import Source
from posable.model.joints import Ball, Fixed, Free, Joint
from posable.model.motion import Motion

_PARENTS = (-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19, 20, 21)
# Offsets [m] from the parent in SMPL's rest pose: T pose, y up, z ahead, the left side at +x. A person of 1.70 m.
_OFFSETS = {
    "left_hip": (0.075, -0.085, -0.01), "spine1": (0.0, 0.115, -0.03), "left_knee": (0.035, -0.385, 0.0),
    "spine2": (0.0, 0.135, 0.01), "left_ankle": (-0.012, -0.405, -0.035), "spine3": (0.0, 0.055, 0.005),
    "left_foot": (0.03, -0.06, 0.12), "neck": (0.0, 0.215, -0.03), "left_collar": (0.075, 0.12, -0.02),
    "head": (0.0, 0.09, 0.045), "left_shoulder": (0.095, 0.045, -0.01), "left_elbow": (0.255, -0.01, -0.02),
    "left_wrist": (0.255, 0.005, -0.005), "left_hand": (0.085, -0.01, -0.01),
}  # fmt: skip
WIDTHS = {24: "SMPL", 52: "SMPL-H", 55: "SMPL-X"}
BODY = 22  # joints common to the family, without hands and face


ROTATIONS = (("poses",), ("root_orient", "pose_body"), ("global_orient", "body_pose"))
PATHS = ("trans", "transl")


def _keys(arrays: Any) -> tuple[tuple[str, ...], str] | None:
    """Return the names of the arrays of rotations and of the one of the path; None if there are none."""
    rotations = next((keys for keys in ROTATIONS if set(keys) <= set(arrays)), None)
    path = next((key for key in PATHS if key in arrays), None)
    return None if rotations is None or path is None else (rotations, path)


def holds(arrays: Any) -> bool:
    """Return whether the arrays of an NPZ file are a motion of the SMPL family."""
    return _keys(arrays) is not None and "skeleton" not in arrays


def read(source: Source, arrays: Any, options: Options) -> Scene:
    """Return the skeleton and the motion; `arrays`: those of the NPZ reader."""
    keys = _keys(arrays)
    assert keys is not None  # see `holds`
    trans, parts = arrays.numbers(keys[1]), [arrays.numbers(key) for key in keys[0]]
    if len({len(part) if part.ndim > 1 else 0 for part in parts}) > 1:
        raise source.error(
            expected=f"as many frames in {' and '.join(keys[0])}", found=", ".join(str(part.shape) for part in parts)
        )
    poses = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1) if len(parts) > 1 else parts[0]
    if poses.ndim != 2 or poses.shape[1] % 3 or poses.shape[1] < 3 * BODY:
        raise source.error(expected=f"poses (T, {3 * BODY}) or wider", found=f"shape {poses.shape}")
    if trans.shape != (len(poses), 3) or not (np.isfinite(trans).all() and np.isfinite(poses).all()):
        raise source.error(expected=f"finite trans ({len(poses)}, 3)", found=f"shape {trans.shape}")
    fps = next(
        (arrays.scalar(key, 0.0) for key in ("mocap_framerate", "mocap_frame_rate", "fps") if key in arrays),
        options.fps or 0.0,
    )
    if not fps > 0.0:
        source.warn("no frame rate is stated: 120 frames per second are assumed; set fps= to change it")
        fps = 120.0
    family = WIDTHS.get(poses.shape[1] // 3, "SMPL")
    source.note(
        f"{family}: average proportions, since the body model is not part of the file; scale and contacts follow them"
    )
    count = min(poses.shape[1] // 3, 24) if family == "SMPL" else BODY
    skeleton = _skeleton(source, count)
    shape = (len(poses), -1)
    # AMASS is z up: the rotation of the pelvis includes that from SMPL's y-up rest pose
    values = np.concatenate([trans, poses[:, : 3 * count].reshape(shape)], axis=1)
    motion = Motion(skeleton, values, fps, source.path.stem)
    return Scene(skeleton=skeleton, motion=motion, motions={motion.name: motion})


def _skeleton(source: Source, count: int) -> Any:
    joints = [Joint("pelvis", Free("rotvec"))]
    for k, name in enumerate(SMPL_24[1:], 1):
        mirrored = name.startswith("right_")
        offset = np.array(_OFFSETS[name.replace("right_", "left_")], dtype=float)
        if mirrored:
            offset[0] = -offset[0]
        motion = Ball("rotvec") if k < count else Fixed()
        joints.append(Joint(name, motion, SMPL_24[_PARENTS[k]], offset=offset))
    return build_skeleton(source, joints, (), name="smpl", up="z")
