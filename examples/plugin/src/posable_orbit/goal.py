"""A goal made of an existing spring: a body on a circle."""

from __future__ import annotations

from typing import Any

import numpy as np

import posable as ps


class Orbit(ps.goals.Position):
    """Hold a body on a circle about a point, at an angle: a hand on a steering wheel.

    Args:
        body: Name of a joint or site.
        center: (3,) [m] Center of the circle, in the world.
        radius: [m] Of the circle.
        angle: [rad] Where on the circle, from the x axis towards the y axis.
        options: As for `Position`.
    """

    def __init__(self, body: str, center: Any, radius: float, *, angle: float = 0.0, **options: Any):
        self.center, self.radius, self.angle = np.asarray(center, dtype=float), float(radius), float(angle)
        spoke = self.radius * np.array([np.cos(self.angle), np.sin(self.angle), 0.0])
        super().__init__(body, self.center + spoke, **options)

    def arguments(self) -> dict[str, Any]:
        """Return the contents of a goal file."""
        return {"body": self.body, "center": self.center, "radius": self.radius, "angle": self.angle}
