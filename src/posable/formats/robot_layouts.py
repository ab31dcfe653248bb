"""Robot motion as training code reads it: MuJoCo's qpos, GMR's and BeyondMimic's arrays, Unitree's table.

| layout | file | content |
| --- | --- | --- |
| mujoco | .npz | `qpos` (T, nq): root position, quaternion wxyz, joints; `joints`; `fps` |
| gmr | .npz | `root_pos` (T, 3), `root_rot` (T, 4) xyzw, `dof_pos` (T, n), `joints`, `fps` |
| beyondmimic | .npz | `joint_pos`, `joint_vel`; `body_pos_w`, `body_quat_w` (wxyz), `body_*_vel_w`; `fps` |
| unitree | .csv | one row per frame, no header: root position, quaternion xyzw, joints |

None of them contains the robot itself: reading one requires `skeleton=`. No pickles are written.
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


GMR = ("root_pos", "root_rot", "dof_pos")
BEYONDMIMIC = ("joint_pos", "body_pos_w", "body_quat_w")


def holds(arrays: Any) -> bool:
    """Return whether the arrays of an NPZ file are one of the layouts that can be read back."""
    return any(set(keys) <= set(arrays) for keys in (("qpos",), GMR, BEYONDMIMIC))


def read(source: Source, arrays: Any, skeleton: Skeleton | None) -> Motion:
    """Return the motion of a `mujoco`, `gmr` or `beyondmimic` file on its robot."""
    if skeleton is None:
        raise source.error(expected="skeleton= (--skeleton), the robot that moves", found="joint values alone")
    if "qpos" in arrays:
        qpos = arrays.numbers("qpos")
    elif set(GMR) <= set(arrays):
        place, turn, values = (arrays.numbers(key) for key in GMR)
        qpos = _joined(source, place, np.roll(turn, 1, axis=-1), values)
    else:
        values, places, turns = (arrays.numbers(key) for key in BEYONDMIMIC)
        if places.ndim != 3 or turns.ndim != 3 or not (places.shape[1] and turns.shape[1]):
            raise source.error(
                expected="body_pos_w (T, B, 3) and body_quat_w (T, B, 4)", found=f"{places.shape} and {turns.shape}"
            )
        qpos = _joined(source, places[:, 0], turns[:, 0], values)  # the first body is the root
    labels = arrays.names("joints") if "joints" in arrays else None
    fps = float(np.ravel(arrays.numbers("fps"))[0]) if "fps" in arrays else 30.0
    return _motion(source, qpos, labels, skeleton, fps)


def from_rows(source: Source, rows: np.ndarray, skeleton: Skeleton, fps: float) -> Motion:
    """Return the motion of a `unitree` table (T, 7 + n) on its robot."""
    return _motion(source, np.concatenate([rows[:, :3], np.roll(rows[:, 3:7], 1, axis=1), rows[:, 7:]], axis=1), None,
                   skeleton, fps)  # fmt: skip


def _motion(source: Source, qpos: np.ndarray, labels: list[str] | None, skeleton: Skeleton, fps: float) -> Motion:
    """Return the motion of qpos (T, 7 + n) whose joints have labels, or are in the order of the robot's."""
    names = _hinges(skeleton)
    if qpos.ndim != 2 or qpos.shape[1] != 7 + len(names) or not np.isfinite(qpos).all():
        raise source.error(expected=f"finite values (T, {7 + len(names)})", found=f"shape {qpos.shape}")
    if labels is not None:
        if sorted(labels) != sorted(names):
            raise source.error(expected=f"the joints of {skeleton.name}", found=", ".join(labels[:5]))
        qpos = np.concatenate([qpos[:, :7], qpos[:, 7:][:, [labels.index(name) for name in names]]], axis=1)
    return Motion(skeleton, skeleton.from_qpos(qpos), fps, source.path.stem)


def _joined(source: Source, place: np.ndarray, turn: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return qpos (T, 7 + n) of the root's position (T, 3) and quaternion (T, 4), wxyz, and the joints (T, n)."""
    if {part.ndim for part in (place, turn, values)} != {2} or not len(place) == len(turn) == len(values):
        shapes = ", ".join(str(part.shape) for part in (place, turn, values))
        raise source.error(expected="the root's positions (T, 3), quaternions (T, 4) and joints (T, n)", found=shapes)
    return np.concatenate([place, turn, values], axis=1)


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
