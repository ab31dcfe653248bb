"""Blender through bpy: its own inverse kinematics on an armature with a bone per hinge."""

import bpy
import numpy as np
from mathutils import Vector
from worker import Peer

SHORT = 0.03  # [m]: how long a bone is drawn; each bone's own place decides, not its tail


class Adapter(Peer):
    """The standard solver: one IK constraint per goal over the whole chain, each hinge's range as its IK limits.

    Blender's solver does not move a root, so the armature is put where the pelvis shall be, which meets that goal; the
    other goals are the solver's. Each bone turns about its own x; y and z are locked. A solve begins at the last
    answer, written to the bones as their pose.
    """

    packages = ("bpy",)
    settings = "standard IK solver, 500 iterations (its default), armature moved to the pelvis' goal"

    def __init__(self, task) -> None:
        super().__init__(task)
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self.hinges = [i for i in range(len(task.chain.links)) if task.chain.kinds[i] == 1]
        self.slides = [int(task.chain.columns[i]) for i in range(len(task.chain.links)) if task.chain.kinds[i] == 2]
        self.columns = [int(task.chain.columns[i]) for i in self.hinges]
        self.pelvis = task.frames.index("goal_pelvis")
        self.goals = [k for k in range(len(task.frames)) if k != self.pelvis]
        self.armature = self.build()
        self.targets = [self.hold(k) for k in self.goals]
        self.bones = [self.armature.pose.bones[task.chain.links[i]] for i in self.hinges]
        self.rest = [self.relative_rest(bone) for bone in self.bones]

    def build(self):
        """Return an armature at the origin with a bone per hinge, and one without freedom to each goal."""
        chain = self.task.chain
        zero = chain.frames(np.zeros(len(chain.names)))
        data = bpy.data.armatures.new("figure")
        armature = bpy.data.objects.new("figure", data)
        bpy.context.scene.collection.objects.link(armature)
        bpy.context.view_layer.objects.active = armature
        bpy.ops.object.mode_set(mode="EDIT")
        for i in self.hinges:
            place = zero[chain.links[i]][0]
            axis = place[:3, :3] @ chain.axes[i]
            along = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis))])
            along /= np.linalg.norm(along)
            bone = data.edit_bones.new(chain.links[i])
            bone.head, bone.tail = Vector(place[:3, 3]), Vector(place[:3, 3] + SHORT * along)
            bone.align_roll(Vector(np.cross(axis, along)))  # x of the bone lies on the hinge
            bone.parent = data.edit_bones.get(chain.links[chain.parents[i]])
        for k in self.goals:
            i = chain.links.index(self.task.frames[k])
            bone = data.edit_bones.new(self.task.frames[k])
            bone.parent = data.edit_bones[chain.links[chain.parents[i]]]
            bone.head, bone.tail = bone.parent.head, Vector(zero[chain.links[i]][0][:3, 3])
        bpy.ops.object.mode_set(mode="OBJECT")
        armature.pose.ik_solver = "LEGACY"
        for i in self.hinges:
            bone = armature.pose.bones[chain.links[i]]
            bone.rotation_mode = "XYZ"
            bone.lock_ik_y = bone.lock_ik_z = True
            low, high = chain.lower[chain.columns[i]], chain.upper[chain.columns[i]]
            if high - low < 2 * np.pi:
                bone.use_ik_limit_x, bone.ik_min_x, bone.ik_max_x = True, low, high
        return armature

    def hold(self, k: int):
        """Return the empty that a goal's bone is drawn to."""
        target = bpy.data.objects.new(f"target_{k}", None)
        bpy.context.scene.collection.objects.link(target)
        bone = self.armature.pose.bones[self.task.frames[k]]
        bone.lock_ik_x = bone.lock_ik_y = bone.lock_ik_z = True
        constraint = bone.constraints.new("IK")
        constraint.target, constraint.chain_count, constraint.use_tail = target, 0, True
        constraint.iterations, constraint.use_stretch = 500, False
        return target

    def relative_rest(self, bone):
        """Return a bone's rest rotation in its parent's, transposed (3, 3)."""
        here = np.array(bone.bone.matrix_local)[:3, :3]
        parent = np.eye(3) if bone.parent is None else np.array(bone.parent.bone.matrix_local)[:3, :3]
        return (parent.T @ here).T

    def begin(self, joints, root):
        return joints

    def solve(self, targets, start):
        for bone, column in zip(self.bones, self.columns, strict=True):
            bone.rotation_euler[0] = start[column]
        self.armature.location = targets[self.pelvis, :3, 3]
        for target, k in zip(self.targets, self.goals, strict=True):
            target.location = targets[k, :3, 3]
        bpy.context.view_layer.update()
        found = np.empty(len(self.task.chain.names))
        found[self.slides] = targets[self.pelvis, :3, 3]
        posed = self.armature.evaluated_get(bpy.context.evaluated_depsgraph_get()).pose.bones
        world = {bone.name: np.array(bone.matrix) for bone in posed}
        for bone, column, rest in zip(self.bones, self.columns, self.rest, strict=True):
            here = world[bone.name][:3, :3]
            if bone.parent is not None:
                here = world[bone.parent.name][:3, :3].T @ here
            turned = rest @ here
            found[column] = np.arctan2(turned[2, 1], turned[1, 1])
        return found, True

    def answer(self, pose):
        return pose, None
