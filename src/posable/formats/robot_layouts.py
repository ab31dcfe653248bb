"""Robot motion as training code reads it: MuJoCo's qpos, GMR's and BeyondMimic's arrays, Unitree's table.

| layout | file | content |
| --- | --- | --- |
| mujoco | .npz | `qpos` (T, nq): root position, quaternion wxyz, joints; `joints`; `fps` |
| gmr | .npz | `root_pos` (T, 3), `root_rot` (T, 4) xyzw, `dof_pos` (T, n), `joints`, `fps` |
| beyondmimic | .npz | `joint_pos`, `joint_vel`; `body_pos_w`, `body_quat_w` (wxyz), `body_*_vel_w`; `fps` |
| unitree | .csv | a row a frame, no header: root position, quaternion xyzw, joints |

None of them holds the robot itself: reading one back takes `skeleton=`. Nothing is ever pickled.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from posable.errors import FormatError, unknown
from posable.formats.source import Source
from posable.model.kinematics import forward
from posable.model.motion import Motion
from posable.model.skeleton import Skeleton

LAYOUTS = {"mujoco": ".npz", "gmr": ".npz", "beyondmimic": ".npz", "unitree": ".csv"}


def write(motion: Motion | None, layout: str, suffix: str) -> bytes:
    """Return the bytes of a motion in a layout."""
    if layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS)
    if motion is None:
        raise FormatError(f"layout={layout!r}", expected="a Motion", found="none")
    if suffix != LAYOUTS[layout]:
        raise FormatError(f"layout={layout!r}", expected=f"a file named *{LAYOUTS[layout]}", found=f"*{suffix}")
    qpos = motion.skeleton.to_qpos(motion.poses)
    names = _hinges(motion.skeleton)
    if qpos.shape[1] != 7 + len(names):
        raise FormatError(
            f"layout={layout!r}", expected="a floating base and joints of one number each",
            found=f"{qpos.shape[1]} numbers for {len(names)} such joints; load a robot with floating=True",
        )  # fmt: skip
    file = io.BytesIO()
    if layout == "unitree":
        rows = np.concatenate([qpos[:, :3], np.roll(qpos[:, 3:7], -1, axis=1), qpos[:, 7:]], axis=1)
        np.savetxt(file, rows, fmt="%.9g", delimiter=",")
        return file.getvalue()
    labels = np.array(names, dtype=np.str_)
    if layout == "mujoco":
        arrays: dict[str, Any] = {"qpos": qpos, "joints": labels, "fps": np.array(motion.fps)}
    elif layout == "gmr":
        arrays = {
            "root_pos": qpos[:, :3], "root_rot": np.roll(qpos[:, 3:7], -1, axis=1), "dof_pos": qpos[:, 7:],
            "joints": labels, "fps": np.array(motion.fps),
        }  # fmt: skip
    else:
        arrays = _bodies(motion) | {"joint_pos": qpos[:, 7:], "joints": labels, "fps": np.array([motion.fps])}
        arrays["joint_vel"] = np.gradient(qpos[:, 7:], axis=0) * motion.fps if len(qpos) > 1 else 0.0 * qpos[:, 7:]
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def holds(arrays: Any) -> bool:
    """Return whether the arrays of an NPZ file are one of the layouts that can be read back."""
    return "qpos" in arrays or {"root_pos", "root_rot", "dof_pos"} <= set(arrays)


def read(source: Source, arrays: Any, skeleton: Skeleton | None) -> Motion:
    """Return the motion of a `mujoco` or `gmr` file on its robot."""
    if skeleton is None:
        raise source.error(expected="skeleton= (--skeleton), the robot that moves", found="joint values alone")
    if "qpos" in arrays:
        qpos = arrays.numbers("qpos")
    else:
        parts = [arrays.numbers(key) for key in ("root_pos", "root_rot", "dof_pos")]
        qpos = np.concatenate([parts[0], np.roll(parts[1], 1, axis=1), parts[2]], axis=1)
    names = _hinges(skeleton)
    if qpos.ndim != 2 or qpos.shape[1] != 7 + len(names) or not np.isfinite(qpos).all():
        raise source.error(expected=f"finite values (T, {7 + len(names)})", found=f"shape {qpos.shape}")
    if "joints" in arrays:
        labels = arrays.names("joints")
        if sorted(labels) != sorted(names):
            raise source.error(expected=f"the joints of {skeleton.name}", found=", ".join(labels[:5]))
        qpos = np.concatenate([qpos[:, :7], qpos[:, 7:][:, [labels.index(name) for name in names]]], axis=1)
    fps = float(np.ravel(arrays.numbers("fps"))[0]) if "fps" in arrays else 30.0
    return Motion(skeleton, skeleton.from_qpos(qpos), fps, source.path.stem)


def _hinges(skeleton: Skeleton) -> list[str]:
    return [joint.name for joint in skeleton.joints if joint.motion.size == 1]


def _bodies(motion: Motion) -> dict[str, np.ndarray]:
    """Return world positions, rotations and velocities of all moving bodies."""
    names = [joint.name for joint in motion.skeleton.joints if joint.motion.dofs]
    frames = forward(motion.skeleton, motion.poses)
    places = np.stack([frames.position(name) for name in names], axis=1)
    turns = np.stack([frames.rotation_matrix(name) for name in names], axis=1)
    quaternions = Rotation.from_matrix(turns.reshape(-1, 3, 3)).as_quat(scalar_first=True).reshape(*turns.shape[:2], 4)
    speed = np.gradient(places, axis=0) * motion.fps if len(places) > 1 else np.zeros_like(places)
    spin = np.zeros_like(places)
    if len(places) > 1:
        step = turns[1:] @ np.swapaxes(turns[:-1], -1, -2)
        between = Rotation.from_matrix(step.reshape(-1, 3, 3)).as_rotvec().reshape(len(step), -1, 3) * motion.fps
        spin[0], spin[-1] = between[0], between[-1]
        spin[1:-1] = 0.5 * (between[1:] + between[:-1])
    return {
        "body_pos_w": places, "body_quat_w": quaternions, "body_lin_vel_w": speed, "body_ang_vel_w": spin,
        "body_names": np.array(names, dtype=np.str_),
    }  # fmt: skip
