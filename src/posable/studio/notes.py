"""What stands in the way, in the scene: ranges and circles, lines and labels of what misses, markers."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

from . import annotations
from .annotations import AMBER, MOST, Lines, Range
from .ranges import POINTS
from .session import View

BELOW = 1e3  # [m] where markers that are not seen are put


class Notes:
    """The lines, surfaces and labels beside one figure; each is sent only when it differs from what was sent."""

    def __init__(self, scene: viser.SceneApi, size: float):
        self.scene, self.size = scene, size
        self.lines = scene.add_line_segments(
            "/notes/lines", np.zeros((1, 2, 3)), np.zeros((1, 2, 3)), thickness=0.004 * size, visible=False
        )
        self.markers = scene.add_point_cloud(
            "/notes/markers", np.zeros((1, 3), dtype=np.float32), colors=(230, 57, 70), point_size=0.012 * size,
            point_shape="circle", visible=False,
        )  # fmt: skip
        self.fans: list[Any] = []
        self.labels: dict[str, Any] = {}

    def show(self, view: View) -> None:
        """Bring everything to a view."""
        ranges, misses = annotations.ranges_of(view, self.size), annotations.misses_of(view)
        self._show_lines(
            [
                annotations.range_lines(ranges),
                annotations.circle_of(view),
                annotations.miss_lines(misses),
                annotations.markers_of(view),
            ]
        )
        self._show_fans(ranges)
        self._show_labels(misses)
        places = annotations.marker_places(view)
        if len(places):
            self.markers.points = np.nan_to_num(places, nan=-BELOW).astype(np.float32)
        self.markers.visible = len(places) > 0

    def _show_lines(self, sets: list[Lines]) -> None:
        sets = [pair for pair in sets if len(pair[0])]
        if sets:
            self.lines.points = np.concatenate([points for points, _ in sets]).astype(np.float32)
            self.lines.colors = np.concatenate([colors for _, colors in sets]).astype(np.uint8)
        self.lines.visible = bool(sets)

    def _show_fans(self, ranges: list[Range]) -> None:
        """Fill the ranges with a surface that can be seen through."""
        k = np.arange(1, POINTS)
        faces = np.stack([np.zeros_like(k), k, k + 1], axis=1)
        while len(self.fans) < min(len(ranges), MOST):
            self.fans.append(
                self.scene.add_mesh_simple(
                    f"/notes/fan{len(self.fans)}", np.zeros((POINTS + 1, 3)), np.vstack([faces, [[0, POINTS, 1]]]),
                    color=AMBER, opacity=0.16, side="double", cast_shadow=False, receive_shadow=False,
                )
            )  # fmt: skip
        for fan, one in zip(self.fans, ranges, strict=False):
            rim = one.rim if one.kind == "cone" else np.vstack([one.rim[:-2], one.rim[-1:], one.centre])
            fan.vertices = np.vstack([one.centre, rim]).astype(np.float32)
        for number, fan in enumerate(self.fans):
            fan.visible = number < len(ranges)

    def _show_labels(self, misses: list[Any]) -> None:
        """Write beside every handle that misses how far."""
        told = {miss.body: miss for miss in misses}
        for body, miss in told.items():
            place = 0.5 * (miss.place + miss.target)
            if body not in self.labels:
                self.labels[body] = self.scene.add_label(
                    f"/notes/miss/{body}", miss.text, position=place, font_screen_scale=1.1, depth_test=False,
                    anchor="bottom-left",
                )  # fmt: skip
            self.labels[body].text, self.labels[body].position = miss.text, place
        for body, label in self.labels.items():
            label.visible = body in told
