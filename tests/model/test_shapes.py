"""Solids on bodies: what is drawn beyond the collision shapes, and which pairs are left out."""

import numpy as np

import posable as ps
from posable.model.shapes import box, capsule, protruding


def test_what_sticks_out_of_the_collision_shapes_is_a_shape_that_nothing_hits():
    """A hand that a file draws and gives no collision shape is kept apart from what collides."""
    solid = box("wrist", (0.02, 0.02, 0.02))
    hand = box("wrist", (0.02, 0.02, 0.10)).points
    glove = box("wrist", (0.025, 0.025, 0.025)).points
    (found,) = protruding([solid], [("wrist", "hand", hand), ("wrist", "glove", glove), ("elbow", "pad", hand)])
    assert (found.joint, found.name, found.collides) == ("wrist", "hand", False)
    assert not found.may_touch(solid)
    np.testing.assert_allclose(np.sort(found.points, axis=0), np.sort(hand, axis=0))


def test_rounded_shapes_cover_what_is_drawn_around_them():
    bone = capsule("elbow", (0, 0, 0), (0, 0, 0.2), 0.05)
    sleeve = box("elbow", (0.05, 0.05, 0.1)).points + np.array([0.0, 0.0, 0.1])
    assert not protruding([bone], [("elbow", "sleeve", sleeve)])


def test_obstacles_do_not_push_what_is_only_drawn():
    """An arm whose drawn tip is in a ball, and whose collision shape is not, has nothing to avoid."""
    arm = ps.figures.planar_arm([0.5])
    end = arm.names[-1]
    solid, drawn = box(end, (0.01, 0.01, 0.01)), box(end, (0.01, 0.01, 0.5), contype=0, conaffinity=0)
    figure = arm.replace(shapes=[solid, drawn])
    place = ps.forward(figure, figure.rest).position(end)
    ball = ps.goals.Sphere(place + np.array([0.0, 0.0, 0.4]), 0.2)
    result = ps.solve(figure, [ps.goals.NoCollision((), ball)])
    assert result.ok
    np.testing.assert_allclose(result.pose, figure.rest)
