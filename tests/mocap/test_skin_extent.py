"""Skin of characters: how far it reaches around bones, and that retargeting keeps it above the ground."""

import numpy as np

import posable as ps
from posable.formats.scene import Mesh
from posable.mocap.skin_extent import skin_extent, without_loose
from posable.model.body_plan import body_plan

THICK = 0.11  # [m] half the width of every bone's box of skin


def boxes(figure, joints, low=-THICK, high=THICK):
    """Return a skinned mesh: around every joint a box of 8 vertices, in a mesh frame 100 times smaller."""
    corners = np.array([(x, y, z) for x in (low, high) for y in (low, high) for z in (low, high)])
    frames = ps.forward(figure, figure.rest)
    vertices, inverse = [], []
    for joint in joints:
        bind = np.eye(4)
        bind[:3, :3], bind[:3, 3] = frames.rotation_matrix(joint), frames.position(joint)
        vertices.append(100.0 * (corners @ bind[:3, :3].T + bind[:3, 3]))
        inverse.append(np.linalg.inv(bind) @ np.diag([0.01, 0.01, 0.01, 1.0]))
    owners = np.repeat(np.arange(len(joints)), 8)
    return Mesh(
        "skin", np.concatenate(vertices), np.zeros((0, 3), np.int32), None, tuple(joints), np.array(inverse),
        np.c_[owners, np.zeros_like(owners)].astype(np.int32), np.tile([1.0, 0.0], (len(owners), 1)),
    )  # fmt: skip


def with_skin(figure, mesh):
    return figure.replace(shapes=(), info={**figure.info, "skin": (mesh,)})


def lowest_skin(mesh, motion):
    """Return the height (T,) [m] of the lowest vertex by linear blend skinning."""
    frames, low = ps.forward(motion.skeleton, motion.poses), np.full(len(motion), np.inf)
    for k, joint in enumerate(mesh.joints):
        mine = mesh.vertices[mesh.bones[:, 0] == k] @ mesh.inverse_bind[k, :3, :3].T + mesh.inverse_bind[k, :3, 3]
        path = frames.position(joint)[:, None] + mine @ np.swapaxes(frames.rotation_matrix(joint), 1, 2)
        low = np.minimum(low, (path @ motion.skeleton.up_vector).min(axis=1))
    return low


def kneeling(human):
    """Return a motion of a person on the knees who moves a little to the side; its knees are 2 cm above the ground."""
    poses = np.tile(human.rest, (40, 1))
    for side in "LR":
        poses[:, human.index(f"knee.{side}")] = np.radians(90.0)
        poses[:, human.index(f"ankle.{side}")][:, 0] = np.radians(50.0)
    poses[:, human.index("root")][:, 2] = np.linspace(0.0, 0.1, 40)
    poses[:, human.index("root")][:, 1] -= ps.forward(human, poses).position("knee.L")[0, 1] - 0.02
    return ps.Motion(human, poses, 30.0)


def test_the_extent_of_a_box_is_the_box():
    human = ps.figures.human()
    mesh = boxes(human, ["elbow.L", "knee.R"])
    shapes = {shape.joint: shape for shape in skin_extent(with_skin(human, mesh))}
    assert set(shapes) == {"elbow.L", "knee.R"}
    for shape in shapes.values():
        assert len(shape.points) == 8
        np.testing.assert_allclose(np.abs(shape.points), THICK, atol=1e-12)
    assert skin_extent(human.replace(info={})) == ()


def test_loose_clothes_do_not_count():
    human = ps.figures.human()
    plan = body_plan(human)
    coat = skin_extent(with_skin(human, boxes(human, ["knee.L"], high=0.5)))
    kept = without_loose(plan, coat)[0].points
    assert 0 < len(kept) < len(coat[0].points)
    assert (np.linalg.norm(kept[:, [0, 2]], axis=1) < 0.2 * plan.leg).all()


def test_the_knees_of_a_kneeling_character_are_not_in_the_ground():
    human = ps.figures.human()
    motion = kneeling(human)
    mesh = boxes(human, ["knee.L", "knee.R"])
    bare = ps.retarget(motion, human.replace(shapes=(), info={}), threads=1)
    worn = ps.retarget(motion, with_skin(human, mesh), threads=1)
    assert lowest_skin(mesh, bare).max() < -0.015
    assert np.abs(lowest_skin(mesh, worn)).max() < 0.015
    quality = ps.motion_quality(worn, motion)
    assert quality["ground penetration over 1 cm [% of frames]"] == 0.0
    assert quality["arm bones off [deg]"] < 6.0
    assert not any("no collision shapes" in note for note in worn.notes)
