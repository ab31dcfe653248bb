"""Blender's inverse kinematics in the protocol of Engell-Nørregård & Erleben (2011), run in Blender's Python.

    python blender_ik.py problem.npz answer.npz         (a Python with the package bpy)

Every joint is a bone whose frame is the joint's, axes without a degree of freedom are locked, limits are Blender's own
per-axis limits (for a joint of three axes it takes x and z as a swing and y as a twist), and each goal is an inverse
kinematics constraint down to the root. Blender's root does not move by itself: it is put where the pelvis has to be.
Each frame starts from the last answer. The number of iterations is set so that a frame takes the time it is given, by
the processor's own time, so that other work on the machine does not count.
"""

import sys
import time

import numpy as np

AXES = "xyz"


def build(bpy, mathutils, given):
    """Return the armature object with limits and constraints, and its targets."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    data = bpy.data.armatures.new("figure")
    body = bpy.data.objects.new("figure", data)
    bpy.context.scene.collection.objects.link(body)
    bpy.context.view_layer.objects.active = body
    bpy.ops.object.mode_set(mode="EDIT")
    for name, parent, place, turn in zip(
        given["names"], given["parents"], given["places"], given["turns"], strict=True
    ):
        bone = data.edit_bones.new(str(name))
        bone.length = 0.05
        frame = np.eye(4)
        frame[:3, :3], frame[:3, 3] = turn, place
        bone.head, bone.tail = place, place + 0.05 * turn[:, 1]
        bone.matrix = mathutils.Matrix(frame.tolist())
        if str(parent):
            bone.parent = data.edit_bones[str(parent)]
    for site, joint, place in zip(given["sites"], given["site_joints"], given["site_places"], strict=True):
        bone = data.edit_bones.new(f"to {site}")
        bone.head, bone.tail = data.edit_bones[str(joint)].head, place
        bone.parent = data.edit_bones[str(joint)]
    bpy.ops.object.mode_set(mode="POSE")
    for name, limits in zip(given["names"], given["limits"], strict=True):
        bone = body.pose.bones[str(name)]
        bone.rotation_mode = "QUATERNION"
        for axis, (low, high) in zip(AXES, limits, strict=True):
            setattr(bone, f"lock_ik_{axis}", bool(low == high))
            if low != high and high - low < 2.0 * np.pi:
                setattr(bone, f"use_ik_limit_{axis}", True)
                setattr(bone, f"ik_min_{axis}", max(float(low), -np.pi))
                setattr(bone, f"ik_max_{axis}", min(float(high), np.pi))
    targets = []
    for site in given["sites"]:
        bone = body.pose.bones[f"to {site}"]
        bone.lock_ik_x = bone.lock_ik_y = bone.lock_ik_z = True
        target = bpy.data.objects.new(f"goal {site}", None)
        bpy.context.scene.collection.objects.link(target)
        targets.append(target)
        if str(site) != "pelvis":
            hold = bone.constraints.new("IK")
            hold.target, hold.chain_count, hold.use_tail = target, 0, True
    return body, targets


def keep(bpy, body) -> None:
    """Make the solved pose the start of the next frame."""
    solved = {bone.name: bone.matrix.copy() for bone in body.pose.bones}
    for bone in body.pose.bones:
        rest = bone.bone.matrix_local
        if bone.parent:
            rest = bone.parent.bone.matrix_local.inverted() @ rest
            local = solved[bone.parent.name].inverted() @ solved[bone.name]
        else:
            local = solved[bone.name]
        bone.matrix_basis = rest.inverted() @ local


def run(bpy, mathutils, given, rows: np.ndarray, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return squared errors (K, 6) [m^2] and seconds (K,) of goals rows (K, 6, 3) [m]."""
    body, targets = build(bpy, mathutils, given)
    for name, turn in zip(given["names"], given["start"], strict=True):
        body.pose.bones[str(name)].rotation_quaternion = mathutils.Matrix(turn.tolist()).to_quaternion()
    for bone in body.pose.bones:
        for constraint in bone.constraints:
            constraint.iterations = iterations
    sites = [str(site) for site in given["sites"]]
    root = body.pose.bones[str(given["names"][0])]
    rest = np.array(root.bone.matrix_local.translation)
    squares, seconds = np.empty(rows.shape[:2]), np.empty(len(rows))
    for k, row in enumerate(rows):
        for target, place in zip(targets, row, strict=True):
            target.location = place
        away = np.array(body.pose.bones["to pelvis"].tail) - np.array(root.head) if k else given["pelvis"]
        turn = np.array(root.bone.matrix_local.to_3x3())
        root.location = turn.T @ (row[sites.index("pelvis")] - away - rest)
        begin = time.process_time()
        bpy.context.view_layer.update()
        seconds[k] = time.process_time() - begin
        tips = np.array([body.pose.bones[f"to {site}"].tail for site in sites])
        squares[k] = np.square(tips - row).sum(axis=1)
        keep(bpy, body)
    return squares, seconds


def fitting_iterations(bpy, mathutils, given, rows: np.ndarray, budget: float) -> int:
    """Return the most iterations with which a frame takes no longer than its budget [s], in the middle."""
    best = 1
    for iterations in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 500, 1000, 2000, 4000, 10000):
        _, seconds = run(bpy, mathutils, given, rows, iterations)
        if np.median(seconds) > budget:
            break
        best = iterations
    return best


def main() -> None:
    """Read the problem, solve it at every interval, write squared errors, seconds and iterations."""
    import bpy
    import mathutils

    given = dict(np.load(sys.argv[1]))
    budget = float(given["budget"])
    keys = [key for key in given if key.startswith("goals ")]
    iterations = fitting_iterations(bpy, mathutils, given, max((given[key] for key in keys), key=len), budget)
    answer = {"version": np.array(bpy.app.version_string), "iterations": np.array(iterations)}
    for key in keys:
        squares, seconds = run(bpy, mathutils, given, given[key], iterations)
        name = key.removeprefix("goals ")
        answer |= {f"squares {name}": squares, f"seconds {name}": seconds}
    np.savez(sys.argv[2], **answer)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    main()
