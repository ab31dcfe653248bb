"""Where a page looks from: sides of the figure, and what is selected."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

View = Literal["front", "right", "back", "top", "frame"]


def box_of(frames: Any, names: tuple[str, ...]) -> tuple[np.ndarray, float]:
    """Return the middle (3,) and the size [m] of the box around bodies."""
    places = frames.many(names)[0]
    low, high = places.min(axis=0), places.max(axis=0)
    return 0.5 * (low + high), float(np.linalg.norm(high - low))


def aim(view: Any, side: View, camera: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the position and the point to look at (3,), (3,) [m] for a side of the figure, or to frame a selection."""
    middle, size = box_of(view.frames, view.skeleton.names)
    size = max(size, 1e-3)
    up = np.array([0.0, 1.0, 0.0]) if view.skeleton.up == "y" else np.array([0.0, 0.0, 1.0])
    front = np.array([0.0, 0.0, 1.0]) if view.skeleton.up == "y" else np.array([1.0, 0.0, 0.0])
    if side == "frame":
        away = np.asarray(camera.position) - np.asarray(camera.look_at)
        away = away / max(float(np.linalg.norm(away)), 1e-9)
        if view.selected is not None:
            return view.frames.position(view.selected) + 0.8 * size * away, view.frames.position(view.selected)
        return middle + 1.7 * size * away, middle
    ways = {"front": front, "right": np.cross(front, up), "back": -front, "top": up + 1e-3 * front}
    return middle + 1.7 * size * ways[side], middle
