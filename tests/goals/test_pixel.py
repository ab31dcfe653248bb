"""Pixel goals against an independent projection, in front of the camera, beside it and behind it."""

import numpy as np
import pytest

import posable as ps

g = ps.goals
ARM = ps.Skeleton(
    [
        ps.Joint("base", ps.Free("rotvec")),
        ps.Joint("elbow", ps.Ball("xyz"), "base", offset=(0.0, 0.0, 0.4)),
    ],
    [ps.Site("hand", "elbow", (0.0, 0.0, 0.3)), ps.Site("thumb", "elbow", (0.05, 0.0, 0.2))],
)
POINTS = ("base", "elbow", "hand", "thumb")


def cameras(count=3, distance=3.0):
    out = []
    for k in range(count):
        angle = 2.0 * np.pi * k / count
        place = (distance * np.cos(angle), distance * np.sin(angle), 1.0)
        out.append(ps.Camera.look_at(place, (0.0, 0.0, 0.3), 900.0, (1280, 720), name=f"c{k}"))
    return out


def seen(camera, point):
    """Project one point by the pinhole equations alone."""
    x, y, z = camera.rotation.as_matrix() @ point + camera.translation
    k = camera.matrix
    return k[0, 0] * x / z + k[0, 2], k[1, 1] * y / z + k[1, 2]


def test_three_cameras_give_the_pose():
    rng = np.random.default_rng(0)
    pose = rng.uniform(-0.5, 0.5, ARM.size)
    frames = ps.forward(ARM, pose)
    goals = [g.Pixel(name, one, seen(one, frames.position(name))) for name in POINTS for one in cameras()]
    result = ps.solve(ARM, goals, start=pose + rng.uniform(-0.3, 0.3, ARM.size))
    assert result.ok
    assert "px" in str(result)
    found = ps.forward(ARM, result.pose)
    for name in POINTS:
        np.testing.assert_allclose(found.position(name), frames.position(name), atol=3e-3)  # a pixel is 3 mm
    tight = ps.solve(ARM, [goal.changed(tolerance=1e-4) for goal in goals], start=result.pose)
    np.testing.assert_allclose(ps.forward(ARM, tight.pose).position("hand"), frames.position("hand"), atol=1e-6)


def test_the_error_is_the_reprojection_error():
    camera = ps.Camera(cameras()[0].matrix, cameras()[0].rotation, cameras()[0].translation, distortion=(-0.1, 0, 0, 0))
    place = ps.forward(ARM, ARM.rest).position("hand")
    there = camera.project(place)
    for step in ((0.3, 0.0), (0.0, -0.4), (3.0, 4.0), (-12.0, 5.0)):
        error = ps.Problem(ARM, g.Pixel("hand", camera, there + step)).errors(ARM.rest)["hand"]
        assert error == pytest.approx(np.hypot(*step), rel=2e-2)


@pytest.mark.parametrize("depth", [-3.0, -1e-3, 0.0, 1e-9, 1e-3, 2.0])
def test_derivatives_anywhere_about_the_image_plane(depth):
    """A point before, in and behind the plane through the camera's center, and far to the side of its axis."""
    camera = cameras()[0]
    forward, right = camera.turn[2], camera.turn[0]
    pose = np.zeros(ARM.size)
    hand = ps.forward(ARM, pose).position("hand")
    pose[:3] = camera.center + depth * forward + 0.2 * right - hand
    problem = ps.Problem(ARM, g.Pixel("hand", camera, (500.0, 300.0), robust=50.0))
    check = problem.check_derivatives(pose)
    assert check.gradient < 1e-7
    assert check.hessian < 1e-6
    assert problem.errors(pose)["hand in c0"] > 1.0


def test_a_point_behind_the_camera_is_brought_to_the_front():
    camera = cameras()[0]
    for offset in (
        0.0,
        0.02,
    ):  # on the ray's own far side the first two rows vanish: the last one tells front from back
        pose = np.zeros(ARM.size)
        pose[:3] = camera.center - 2.0 * camera.rays((640.0, 360.0)) - (0.0, 0.0, 0.7) + (0.0, offset, 0.0)
        goal = g.Pixel("hand", camera, (640.0, 360.0))
        assert ps.Problem(ARM, goal).errors(pose)["hand in c0"] > 1000.0
        result = ps.solve(ARM, goal, start=pose, restarts=3)
        hand = ps.forward(ARM, result.pose).position("hand")
        assert result.ok
        assert camera.depth(hand) > 0.0
        assert np.hypot(*(camera.project(hand) - (640.0, 360.0))) < 1.0


def test_at_the_center_of_the_camera_it_is_not_reached_and_nothing_breaks():
    camera = cameras()[0]
    pose = np.zeros(ARM.size)
    pose[:3] = camera.center - (0.0, 0.0, 0.7)
    problem = ps.Problem(ARM, g.Pixel("hand", camera, (640.0, 360.0)))
    energy, gradient, hessian, errors = problem.evaluate(pose)
    assert np.isfinite([energy, *gradient, *hessian.ravel()]).all()
    assert errors[0] > 100.0


def test_confidences_and_pixels_that_were_not_seen():
    camera = cameras()[0]
    there = np.array([600.0, 300.0])
    plain = ps.Problem(ARM, g.Pixel("hand", camera, there)).energy(ARM.rest)
    batch = np.array([[*there, 1.0], [*there, 0.25], [*there, 0.0], [np.nan, 300.0, 1.0]])
    problem = ps.Problem(ARM, g.Pixel("hand", camera, batch))
    np.testing.assert_allclose(problem.energy(ARM.rest), [plain, 0.25 * plain, 0.0, 0.0], rtol=1e-12)
    soft = [ps.Problem(ARM, g.Pixel("hand", camera, uv, robust=5.0)) for uv in batch[:2]]
    assert soft[1].energy(ARM.rest) == pytest.approx(0.25 * soft[0].energy(ARM.rest))  # the bend is at the same pixel
    session = ps.Session(ARM, g.Pixel("hand", camera, there, label="hand"), natural=False)
    session.move("hand", (650.0, 380.0, 0.5))
    assert session.solve().ok
    found = ps.forward(ARM, session.pose).position("hand")
    np.testing.assert_allclose(seen(camera, found), (650.0, 380.0), atol=1.0)


def test_an_axis_of_weight_zero_is_free():
    camera = cameras()[0]
    goal = g.Pixel("hand", camera, (650.0, 40.0), weight=(1.0, 0.0))
    fixed = g.Position("base", (0.0, 0.0, 0.0))
    result = ps.solve(ARM, [goal, fixed], start=ARM.rest)
    u, v = seen(camera, ps.forward(ARM, result.pose).position("hand"))
    assert result.ok
    assert abs(u - 650.0) < 1.0
    assert abs(v - 40.0) > 50.0


def test_lower_levels_hold_a_pixel_goal():
    camera, place = cameras()[0], (0.0, 0.0, 0.9)
    goals = [g.Pixel("hand", camera, (700.0, 300.0), priority=0), g.Position("hand", place, priority=1)]
    result = ps.solve(ARM, goals, start=ARM.rest)
    assert result.errors["hand in c0"] < 1.0
    hand = ps.forward(ARM, result.pose).position("hand")
    ray = camera.rays((700.0, 300.0))
    nearest = camera.center + ray * (ray @ (np.array(place) - camera.center))
    np.testing.assert_allclose(hand, nearest, atol=5e-3)


def test_wrong_calls_say_what_is_wrong():
    camera = ps.Camera(cameras()[0].matrix, distortion=(-0.4, 0.0, 0.0, 0.0))
    for arguments, word in (
        (("hand", "front", (1.0, 2.0)), "a Camera"),
        (("hand", camera, (1.0, 2.0, 3.0)), "0 to 1"),
        (("hand", camera, 3.0), "shape"),
        (("hand", camera, "left"), "numbers"),
        (("hand", camera, (1e9, 2.0)), "distortion can reach"),
        (("hand", camera, (np.inf, 2.0)), "finite"),
    ):
        with pytest.raises(ps.errors.GoalError, match=word):
            g.Pixel(*arguments)
