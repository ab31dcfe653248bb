"""A goal in an image: a camera sees a point of a body in a given pixel."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.engine.layout import AXES, ROBUST, SIZE, WEIGHT
from posable.engine.springs import PIXEL_SPRING
from posable.errors import GoalError
from posable.goals.base import (
    Goal,
    Spring,
    nonneg,
    numbers,
    point_constants,
    range_projector,
    set_weight,
    square_weight,
    target_row,
)
from posable.model.camera import Camera
from posable.model.skeleton import Skeleton

PIXEL_TOLERANCE = 1.0  # [px]


class Pixel(Goal):
    """Bring a point of a body onto the ray of a pixel: energy w/2 |(du, dv) / focal|^2 of its reprojection error.

    The reprojection error is taken to first order about the pixel's ray, of the direction u from the camera to the
    point: r = M u - (0, 0, 1), M from `Camera.sight`. Its last row, 1 - cos of the angle to the ray, vanishes to first
    order. So the residual is in pixels near the goal, as detectors err in pixels; unlike u/z it stays bounded and
    smooth at and behind the image plane, where it pulls the point around to the front; and lens distortion is inverted
    once per pixel instead of differentiated at every pose. Only at the camera's own center is it undefined.

    Divided by the focal length it is an angle, so that weight 1 pulls as hard as in the other goals on angles.

    Args:
        body: A site or a joint.
        camera: A `Camera`.
        uv: (..., 2) [px] in the image, or (..., 3) with a confidence from 0 to 1, which multiplies the weight. NaN: not
            seen. Leading axes make a batch.
        point: (3,) [m] in the body's frame; its origin by default.
        weight: A number, two numbers (image axes; 0 leaves an axis free) or a symmetric 2x2 matrix.
        tolerance: [px] Error below which the goal counts as reached.
        label: Name in results; the body's name and the camera's by default.
        priority: Level of the goal. Lower levels are solved first and never give way to higher ones.
        robust: [px] Error beyond which the force no longer grows; None: it always grows.
    """

    def __init__(
        self,
        body: str,
        camera: Camera,
        uv: Any,
        *,
        point: Any = None,
        weight: Any = 1.0,
        tolerance: float = PIXEL_TOLERANCE,
        label: str | None = None,
        priority: int = 0,
        robust: float | None = None,
    ):
        self.body = body
        what = f"Pixel({body!r})"
        if not isinstance(camera, Camera):
            raise GoalError(f"{what}: camera", expected="a Camera", got=repr(camera)[:60])
        self.camera = camera
        super().__init__(label, nonneg(tolerance, f"{what}: tolerance"), priority, robust)
        self.weight = square_weight(weight, 2, f"{what}: weight")
        self.point = None if point is None else numbers(point, (3,), f"{what}: point")
        self.set_target(uv)

    def default_label(self) -> str:
        """Return the name of the body, with the camera's."""
        return f"{self.body} in {self.camera.name}" if self.camera.name else self.body

    def set_target(self, target: Any) -> None:
        """Set the pixel (..., 2) [px], or (..., 3) with a confidence."""
        what = f"Pixel({self.body!r}): uv"
        try:
            values = np.array(target, dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise GoalError(what, expected="numbers of shape (..., 2) or (..., 3)", got=repr(target)[:60]) from None
        if values.ndim == 0 or values.shape[-1] not in (2, 3):
            raise GoalError(what, expected="shape (..., 2) or (..., 3)", got=f"shape {values.shape}")
        confidence = values[..., 2] if values.shape[-1] == 3 else np.ones(values.shape[:-1])
        unseen = np.asarray(np.isnan(values).any(axis=-1))
        confidence = np.where(unseen, 0.0, confidence)
        if not ((confidence >= 0.0) & (confidence <= 1.0)).all():
            raise GoalError(
                f"{what}: confidence", expected="0 to 1", got=f"{confidence.min():g} to {confidence.max():g}"
            )
        pixels = np.where(unseen[..., None], self.camera.matrix[:2, 2], values[..., :2])
        self.sight = self.camera.sight(numbers(pixels, (2,), what))
        sharp = np.isfinite(self.sight).reshape(-1, 9).all(axis=1)
        if not sharp.all():
            lost = pixels.reshape(-1, 2)[~sharp][0]
            raise GoalError(what, expected="pixels that the camera's distortion can reach", got=str(lost.tolist()))
        self.target, self.confidence = values, confidence

    @property
    def target_batch(self) -> tuple[int, ...]:
        """The leading axes of the pixels."""
        return self.target.shape[:-1]

    def springs(self, skeleton: Skeleton) -> list[Spring]:
        """One PIXEL spring."""
        sure = bool((self.confidence == 1.0).all())
        body, data, _ = point_constants(skeleton, self.body, self.point, () if sure else self.confidence.shape)
        (xx, xy), (_, yy) = self.weight
        across = max(float(np.linalg.eigvalsh(self.weight)[0]), 0.0)  # the last row frees what the first two free
        weight = np.array([xx, yy, across, xy, 0.0, 0.0])
        focal = self.camera.focal
        set_weight(data, weight, None if self.robust is None else self.robust / focal, range_projector(weight))
        if not sure:
            data[..., WEIGHT : WEIGHT + 6] *= self.confidence[..., None]
            data[..., ROBUST] *= self.confidence
        data[..., AXES + 2], data[..., SIZE] = 1.0, focal
        sight = self.sight.reshape(*self.sight.shape[:-2], 9)
        return [Spring(PIXEL_SPRING, body, data, target_row(self.camera.center, sight), self.tolerance)]
