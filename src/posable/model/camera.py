"""A calibrated camera: a pinhole with OpenCV's distortion model and its pose in the world."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from posable._files import read_regular
from posable.errors import FormatError, PosableError
from posable.model.joint_values import Floats

COEFFICIENTS = (0, 4, 5, 8, 12)  # how many OpenCV's model may have: k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4
STEPS = 30  # of Newton's method that inverts the distortion
ON_THE_PIXEL = 1e-9  # miss, relative to the focal length, at which it has converged
MOST_BYTES = 1_000_000  # of a calibration file


class Camera:
    """A calibrated camera, with x to the right, y down and z forward in its own frame, as in OpenCV.

    Args:
        matrix: (3, 3) [px] Intrinsics: focal lengths on the diagonal, skew, and the principal point.
        rotation: From the world to the camera: a SciPy Rotation, a 3x3 matrix, or a rotation vector (3,) [rad].
        translation: (3,) [m] From the world to the camera: p_camera = R p_world + t.
        distortion: 0, 4, 5, 8 or 12 coefficients in OpenCV's order: k1 k2 p1 p2 k3 k4 k5 k6 s1 s2 s3 s4.
        size: (width, height) [px] of the image, where known.
        name: Name in messages and results.

    Raises:
        PosableError: An argument is invalid.

    Attributes:
        center: (3,) [m] The camera's position in the world.
        focal: [px] Geometric mean of the focal lengths.
    """

    def __init__(
        self,
        matrix: Any,
        rotation: Any = None,
        translation: Any = (0.0, 0.0, 0.0),
        *,
        distortion: Any = (),
        size: Any = None,
        name: str = "",
    ):
        what = f"Camera({name!r})" if name else "Camera"
        self.matrix = _numbers(matrix, (3, 3), f"{what}: matrix")
        k = self.matrix
        if not (k[0, 0] > 0.0 and k[1, 1] > 0.0 and np.allclose(k[[1, 2, 2], [0, 0, 1]], 0.0) and k[2, 2] > 0.0):
            shape = "[[fx, skew, cx], [0, fy, cy], [0, 0, 1]] with positive focal lengths"
            raise PosableError(f"{what}: matrix: expected {shape}, got {k.tolist()}")
        self.matrix = k / k[2, 2]
        self.rotation, self.turn = _rotation(rotation, what)
        self.translation = _numbers(np.reshape(translation, -1), (3,), f"{what}: translation")
        self.distortion = np.atleast_1d(np.array(() if distortion is None else distortion, dtype=float)).ravel()
        if self.distortion.size not in COEFFICIENTS or not np.isfinite(self.distortion).all():
            raise PosableError(f"{what}: distortion: expected 4, 5, 8 or 12 numbers, got {self.distortion.tolist()}")
        self.size = None if size is None else tuple(_numbers(size, (2,), f"{what}: size").tolist())
        self.name = str(name)
        self.center = -self.turn.T @ self.translation
        self.focal = float(np.sqrt(self.matrix[0, 0] * self.matrix[1, 1]))

    @classmethod
    def from_projection(cls, projection: Any, *, distortion: Any = (), size: Any = None, name: str = "") -> Camera:
        """Return the camera of a projection matrix P = K [R | t], of any scale.

        Args:
            projection: (3, 4) Projection matrix.
            distortion: Coefficients, as for `Camera`.
            size: (width, height) [px] of the image, if known.
            name: Name in messages and results.

        Raises:
            PosableError: The matrix is not that of a camera at a finite position.
        """
        from scipy.linalg import rq

        matrix = _numbers(projection, (3, 4), "Camera.from_projection: projection")
        left = matrix[:, :3]
        if np.linalg.matrix_rank(left) < 3:
            raise PosableError("Camera.from_projection: expected an invertible left 3x3 part, got one that is singular")
        matrix = matrix * np.sign(np.linalg.det(left))
        k, turn = rq(matrix[:, :3])
        signs = np.diag(np.sign(np.diag(k)))
        k, turn = k @ signs, signs @ turn
        return cls(
            np.triu(k / k[2, 2]), turn, np.linalg.solve(k, matrix[:, 3]), distortion=distortion, size=size, name=name
        )

    @classmethod
    def look_at(
        cls, position: Any, target: Any, focal: float, size: Any, *, up: Any = (0.0, 0.0, 1.0), name: str = ""
    ) -> Camera:
        """Return a camera that looks at a target, with its principal point in the middle of the image.

        Args:
            position: (3,) [m] Position of the camera in the world.
            target: (3,) [m] Point to look at, in the world.
            focal: [px] Focal length.
            size: (width, height) [px] of the image.
            up: (3,) World direction that points up in the image.
            name: Name in messages and results.

        Raises:
            PosableError: The viewing direction is parallel to `up`, or an argument has the wrong shape.
        """
        position = _numbers(position, (3,), "Camera.look_at: position")
        forward = _numbers(target, (3,), "Camera.look_at: target") - position
        right = np.cross(forward, _numbers(up, (3,), "Camera.look_at: up"))
        if np.linalg.norm(right) < 1e-9 * max(np.linalg.norm(forward), 1e-300):
            raise PosableError(
                "Camera.look_at: expected a viewing direction that is not parallel to `up`, got one that is"
            )
        rows = np.array([right, np.cross(forward, right), forward])
        turn = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        width, height = _numbers(size, (2,), "Camera.look_at: size")
        matrix = [[focal, 0.0, 0.5 * width], [0.0, focal, 0.5 * height], [0.0, 0.0, 1.0]]
        return cls(matrix, turn, -turn @ position, size=size, name=name)

    def __repr__(self) -> str:
        x, y, z = self.center
        return f"<Camera {self.name!r}: focal length {self.focal:.0f} px, at ({x:.2f}, {y:.2f}, {z:.2f}) m>"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make this camera, as plain numbers and strings."""
        out: dict[str, Any] = {
            "matrix": self.matrix.tolist(), "rotation": self.turn.tolist(), "translation": self.translation.tolist(),
        }  # fmt: skip
        more = {"distortion": self.distortion.tolist(), "size": self.size and list(self.size), "name": self.name}
        return out | {key: value for key, value in more.items() if value}

    def project(self, points: Any) -> Floats:
        """Project points of the world into the image.

        Args:
            points: (..., 3) [m] in the world.

        Returns:
            (..., 2) [px] pixels; NaN for points that are not in front of the camera.
        """
        p_camera = np.asarray(points, dtype=float) @ self.turn.T + self.translation
        depth = np.where(p_camera[..., 2:] > 0.0, p_camera[..., 2:], np.nan)
        return self.distort(p_camera[..., :2] / depth) @ self.matrix[:2, :2].T + self.matrix[:2, 2]

    def depth(self, points: Any) -> Floats:
        """Return how far points are in front of the camera.

        Args:
            points: (..., 3) [m] in the world.

        Returns:
            (...) [m] depths, negative behind the camera.
        """
        return (np.asarray(points, dtype=float) @ self.turn.T + self.translation)[..., 2]

    def distort(self, flat: Floats) -> Floats:
        """Apply lens distortion.

        Args:
            flat: (..., 2) Points on the plane at distance 1 in front of the camera.

        Returns:
            (..., 2) Where the lens images them on that plane.
        """
        return self._distorted(flat)[0] if self.distortion.size else flat

    def undistort(self, pixels: Any) -> Floats:
        """Convert pixels to undistorted points on the plane at distance 1 in front of the camera.

        Args:
            pixels: (..., 2) [px].

        Returns:
            (..., 2) points; NaN where the distortion model cannot be inverted.
        """
        wanted = (np.asarray(pixels, dtype=float) - self.matrix[:2, 2]) @ np.linalg.inv(self.matrix[:2, :2]).T
        if not self.distortion.size:
            return wanted
        found = wanted.copy()
        miss = np.zeros_like(found)
        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                there, slope = self._distorted(found)
                miss = wanted - there
                a, b, c, d = slope[..., 0, 0], slope[..., 0, 1], slope[..., 1, 0], slope[..., 1, 1]
                step = np.stack([d * miss[..., 0] - b * miss[..., 1], a * miss[..., 1] - c * miss[..., 0]], axis=-1)
                step /= (a * d - b * c)[..., None]
                length = np.linalg.norm(step, axis=-1, keepdims=True)
                found = found + step * np.minimum(1.0, 0.5 / np.maximum(length, 1e-300))
            # beyond where the model turns back on itself, two places have the same pixel: neither is to be trusted
            unfolded = np.linalg.det(np.nan_to_num(self._distorted(found)[1])) > 0.0
            good = (np.abs(miss).max(axis=-1) < ON_THE_PIXEL) & unfolded
        return np.where(good[..., None], found, np.nan)

    def rays(self, pixels: Any) -> Floats:
        """Return the directions of pixels.

        Args:
            pixels: (..., 2) [px].

        Returns:
            (..., 3) unit vectors in the world, from the camera through the pixels.
        """
        flat = self.undistort(pixels)
        ray = np.concatenate([flat, np.ones((*flat.shape[:-1], 1))], axis=-1) @ self.turn
        return ray / np.linalg.norm(ray, axis=-1, keepdims=True)

    def sight(self, pixels: Any) -> Floats:
        """Return matrices that map directions near a pixel's ray to their offsets from the pixel.

        To first order, M w = (du, dv, 0) / focal + (0, 0, 1), where w is the unit vector in the world from the camera
        to a point that projects to the pixel plus (du, dv). Opposite the ray, M w is (0, 0, -1).

        Args:
            pixels: (..., 2) [px].

        Returns:
            (..., 3, 3) matrices M.
        """
        flat = self.undistort(pixels)
        slope = self.matrix[:2, :2] / self.focal @ self._distorted(flat)[1]
        ray = np.concatenate([flat, np.ones((*flat.shape[:-1], 1))], axis=-1)
        long = np.linalg.norm(ray, axis=-1)[..., None, None]
        out = np.zeros((*flat.shape[:-1], 3, 3))
        out[..., :2, :2] = slope * long
        out[..., :2, 2] = -(slope @ flat[..., None])[..., 0] * long[..., 0]
        out[..., 2, :] = ray / long[..., 0]
        return out @ self.turn

    def _distorted(self, flat: Floats) -> tuple[Floats, Floats]:
        """Return distorted places (..., 2) and their derivatives (..., 2, 2)."""
        k1, k2, p1, p2, k3, k4, k5, k6, s1, s2, s3, s4 = np.pad(self.distortion, (0, 12 - self.distortion.size))
        x, y = flat[..., 0], flat[..., 1]
        q = x * x + y * y
        above, below = 1.0 + q * (k1 + q * (k2 + q * k3)), 1.0 + q * (k4 + q * (k5 + q * k6))
        radial = above / below
        bend = (k1 + q * (2.0 * k2 + 3.0 * q * k3) - radial * (k4 + q * (2.0 * k5 + 3.0 * q * k6))) / below
        place = np.stack([
            x * radial + 2.0 * p1 * x * y + p2 * (q + 2.0 * x * x) + q * (s1 + q * s2),
            y * radial + 2.0 * p2 * x * y + p1 * (q + 2.0 * y * y) + q * (s3 + q * s4),
        ], axis=-1)  # fmt: skip
        prism_x, prism_y = 2.0 * (s1 + 2.0 * q * s2), 2.0 * (s3 + 2.0 * q * s4)
        cross = 2.0 * (x * y * bend + p1 * x + p2 * y)
        slope = np.stack([
            radial + 2.0 * x * x * bend + 2.0 * p1 * y + 6.0 * p2 * x + x * prism_x, cross + y * prism_x,
            cross + x * prism_y, radial + 2.0 * y * y * bend + 2.0 * p2 * x + 6.0 * p1 * y + y * prism_y,
        ], axis=-1)  # fmt: skip
        return place, slope.reshape(*flat.shape[:-1], 2, 2)


def _numbers(value: Any, shape: tuple[int, ...], what: str) -> Floats:
    try:
        out = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise PosableError(f"{what}: expected numbers of shape {shape}, got {value!r}") from None
    if out.shape != shape or not np.isfinite(out).all():
        got = f"shape {out.shape}" if out.shape != shape else "a number that is not finite"
        raise PosableError(f"{what}: expected numbers of shape {shape}, got {got}")
    return out


def _rotation(value: Any, what: str) -> tuple[Rotation, Floats]:
    """Return a rotation and its matrix; a matrix that is a rotation to rounding is kept bit by bit."""
    if value is None:
        value = np.eye(3)
    if not isinstance(value, Rotation):
        array = np.squeeze(np.array(value, dtype=float))
        if array.shape == (3,) and np.isfinite(array).all():
            value = Rotation.from_rotvec(array)
        else:
            gap = np.abs(array @ array.T - np.eye(3)).max() if array.shape == (3, 3) else np.inf
            if not gap < 1e-4 or np.linalg.det(array) < 0.0:
                got = f"shape {array.shape}" if array.shape != (3, 3) else "a matrix that is not a rotation"
                expected = "a Rotation, a rotation matrix or a rotation vector"
                raise PosableError(f"{what}: rotation: expected {expected}, got {got}")
            value = Rotation.from_matrix(array)
            if gap < 1e-12:
                return value, array
    return value, value.as_matrix()


def load_cameras(path: str | PathLike[str]) -> list[Camera]:
    """Read the cameras of a calibration file (TOML), as written by anipose and Pose2Sim.

    Each camera is a table with `matrix`, `distortions`, `rotation` (a rotation vector), `translation` [m] and,
    optionally, `size` and `name`.

    Args:
        path: The file.

    Raises:
        FormatError: The file has no camera, or one that cannot be read.
    """
    try:
        table = tomllib.loads(read_regular(path, MOST_BYTES).decode("utf-8-sig"))
    except (ValueError, RecursionError, OverflowError) as error:
        raise FormatError(f"not TOML: {error}", path=path) from None
    cameras = [_from_table(path, name, part) for name, part in table.items() if _is_camera(part)]
    if not cameras:
        raise FormatError("calibration file", path=path, expected="a table with `matrix` per camera", found="none")
    return cameras


def _is_camera(part: Any) -> bool:
    return isinstance(part, Mapping) and "matrix" in part


def _from_table(path: str | PathLike[str], name: str, part: Mapping[str, Any]) -> Camera:
    if part.get("fisheye"):
        raise FormatError(f"camera {name!r}", path=path, expected="a pinhole camera", found="fisheye = true")
    values = {key: part.get(key) for key in ("matrix", "rotation", "translation", "size")}
    distortion: Sequence[float] = part.get("distortions", part.get("distortion", ()))
    try:
        return Camera(**values, distortion=distortion, name=str(part.get("name", name)))
    except (PosableError, ValueError, TypeError) as error:
        raise FormatError(f"camera {name!r}: {error}", path=path) from None
