"""Cameras against an independent projection, written out number by number as in OpenCV's documentation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import posable as ps

K = np.array([[900.0, 0.7, 640.0], [0.0, 950.0, 360.0], [0.0, 0.0, 1.0]])
TURN = Rotation.from_rotvec([0.3, -0.8, 0.4])
SHIFT = np.array([0.1, -0.2, 3.0])
LENS = (-0.28, 0.09, 0.002, -0.001, -0.012, 0.03, -0.01, 0.004, 0.001, -0.002, 0.0015, 0.0007)


def projected(point, coefficients=()):
    """One point through the equations of OpenCV's camera model."""
    k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = (*coefficients, *[0.0] * (12 - len(coefficients)))
    X, Y, Z = TURN.as_matrix() @ point + SHIFT
    x, y = X / Z, Y / Z
    r2 = x**2 + y**2
    radial = (1 + k1 * r2 + k2 * r2**2 + k3 * r2**3) / (1 + k4 * r2 + k5 * r2**2 + k6 * r2**3)
    x2 = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x**2) + s1 * r2 + s2 * r2**2
    y2 = y * radial + p1 * (r2 + 2 * y**2) + 2 * p2 * x * y + s3 * r2 + s4 * r2**2
    return K[0, 0] * x2 + K[0, 1] * y2 + K[0, 2], K[1, 1] * y2 + K[1, 2]


@pytest.mark.parametrize("count", [0, 4, 5, 8, 12])
def test_projection_is_that_of_the_equations(count):
    camera = ps.Camera(K, TURN, SHIFT, distortion=LENS[:count])
    points = np.random.default_rng(0).uniform(-0.8, 0.8, (5, 4, 3))
    expected = np.array([[projected(p, LENS[:count]) for p in row] for row in points])
    np.testing.assert_allclose(camera.project(points), expected, rtol=1e-12)
    # a ray through the pixel passes through the point
    away = points - camera.center
    away /= np.linalg.norm(away, axis=-1, keepdims=True)
    np.testing.assert_allclose(camera.rays(camera.project(points)), away, atol=1e-9)


@given(st.floats(-0.6, 0.6), st.floats(-0.6, 0.6), st.floats(0.5, 4.0))
def test_sight_is_the_derivative_of_the_projection(x, y, z):
    camera = ps.Camera(K, TURN, SHIFT, distortion=LENS)
    point = TURN.inv().apply(np.array([x, y, 1.0]) * z - SHIFT)
    ray = point - camera.center
    long = np.linalg.norm(ray)
    sight = camera.sight(camera.project(point))
    np.testing.assert_allclose(sight @ (ray / long), (0.0, 0.0, 1.0), atol=1e-9)
    np.testing.assert_allclose(sight @ (-ray / long), (0.0, 0.0, -1.0), atol=1e-9)
    for step in 1e-6 * long * np.eye(3):
        moved = camera.project(point + step) - camera.project(point - step)
        turned = [(point + s - camera.center) / np.linalg.norm(point + s - camera.center) for s in (step, -step)]
        np.testing.assert_allclose(camera.focal * (sight @ (turned[0] - turned[1]))[:2], moved, atol=2e-7)


def test_a_camera_from_what_others_write():
    camera = ps.Camera(K, TURN, SHIFT)
    points = np.random.default_rng(1).uniform(-0.5, 0.5, (20, 3))
    again = [
        ps.Camera(K, TURN.as_matrix(), SHIFT[:, None]),  # cv2 has columns
        ps.Camera(2.0 * K, TURN.as_rotvec()[:, None], SHIFT),
        ps.Camera.from_projection(-3.0 * K @ np.column_stack([TURN.as_matrix(), SHIFT])),
    ]
    for other in again:
        np.testing.assert_allclose(other.project(points), camera.project(points), atol=1e-7)
        np.testing.assert_allclose(other.center, camera.center, atol=1e-9)
    look = ps.Camera.look_at((3.0, 0.0, 1.0), (0.0, 0.0, 1.0), 800.0, (640, 480))
    np.testing.assert_allclose(look.project([(0.0, 0.0, 1.0), (0.0, 0.3, 1.3)]), [(320, 240), (400, 160)], atol=1e-9)
    np.testing.assert_allclose(look.depth((1.0, 0.0, 5.0)), 2.0)
    assert np.isnan(look.project((4.0, 0.0, 1.0))).all()


def test_a_pixel_beyond_the_fold_of_the_lens_is_not_trusted():
    camera = ps.Camera(K, distortion=(-0.4, 0.0, 0.0, 0.0))  # x (1 - 0.4 x^2) never exceeds 0.61
    assert np.isfinite(camera.undistort((640.0 + 500.0, 360.0))).all()
    assert np.isnan(camera.undistort((640.0 + 700.0, 360.0))).all()


def test_wrong_cameras_say_what_is_wrong():
    for arguments, word in (
        ((np.eye(2),), "matrix"),
        ((-K,), "focal lengths"),
        ((K, 2.0 * np.eye(3)), "rotation"),
        ((K, TURN, (1.0, 2.0)), "translation"),
        ((K, TURN, (1.0, 2.0, np.nan)), "translation"),
    ):
        with pytest.raises(ps.PosableError, match=word):
            ps.Camera(*arguments)
    with pytest.raises(ps.PosableError, match="4, 5, 8 or 12"):
        ps.Camera(K, distortion=(0.1, 0.2))
    with pytest.raises(ps.PosableError, match="singular"):
        ps.Camera.from_projection(np.zeros((3, 4)))
    with pytest.raises(ps.PosableError, match="parallel to `up`"):
        ps.Camera.look_at((0.0, 0.0, 3.0), (0.0, 0.0, 0.0), 800.0, (640, 480))


CALIBRATION = """
[cam_01]
name = "left"
size = [1280.0, 720.0]
matrix = [[900.0, 0.0, 640.0], [0.0, 950.0, 360.0], [0.0, 0.0, 1.0]]
distortions = [-0.05, 0.01, 0.0, 0.0]
rotation = [0.3, -0.8, 0.4]
translation = [0.1, -0.2, 3.0]
fisheye = false

[metadata]
adjusted = false
error = 0.0
"""


def test_a_calibration_file(tmp_path):
    path = tmp_path / "Calib.toml"
    path.write_text(CALIBRATION)
    (camera,) = ps.load_cameras(path)
    assert (camera.name, camera.size) == ("left", (1280.0, 720.0))
    np.testing.assert_allclose(camera.center, -TURN.as_matrix().T @ SHIFT)
    for old, new, word in (
        ("matrix", "matrox", "per camera"),
        ("fisheye = false", "fisheye = true", "pinhole"),
        ("-0.2, 3.0]", "-0.2]", "translation"),
        ("[cam_01]", "[cam_01", "not TOML"),
    ):
        path.write_text(CALIBRATION.replace(old, new))
        with pytest.raises(ps.errors.FormatError, match=word):
            ps.load_cameras(path)


def test_a_calibration_with_an_endless_integer_is_refused(tmp_path):
    path = tmp_path / "calibration.toml"
    path.write_text(
        "[cam_0]\nname = 'left'\nsize = [640, " + "9" * 400 + "]\nmatrix = [[600, 0, 320], [0, 600, 240], [0, 0, 1]]\n"
        "distortions = [0, 0, 0, 0]\nrotation = [0, 0, 0]\ntranslation = [0, 0, 3]\n"
    )
    with pytest.raises(ps.PosableError, match="size: expected"):
        ps.load_cameras(path)
