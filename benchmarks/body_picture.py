"""Pictures of the human as a shaded body: the studio's skin, posed by linear blending and splatted into an image."""

from functools import cache

import numpy as np

import posable as ps
from posable.studio.body import bind_pose, body_of

LIGHT = np.array([0.35, 0.8, 0.5]) / np.linalg.norm([0.35, 0.8, 0.5])
BACKGROUND, FLOOR, SHADOW, TARGET = (255, 255, 255), (238, 240, 243), (205, 209, 216), (214, 64, 80)


@cache
def _skins(skeleton: ps.Skeleton) -> tuple:
    """Return the surfaces of the body, and where each bone is when they are made."""
    frames = ps.forward(skeleton, bind_pose(skeleton))
    return body_of(skeleton, detail=0.8), {name: frames.matrix(name) for name in skeleton.names}


def posed(skeleton: ps.Skeleton, pose: np.ndarray) -> list[tuple[np.ndarray, np.ndarray, tuple[int, int, int]]]:
    """Return (corners (F, 3, 3) [m], normals (F, 3), colour) of each surface at a pose (n,)."""
    skins, bound = _skins(skeleton)
    frames = ps.forward(skeleton, pose)
    out = []
    for skin in skins:
        points = np.concatenate([skin.vertices, np.ones((len(skin.vertices), 1))], axis=1)
        moves = [frames.matrix(bone) @ np.linalg.inv(bound[bone]) for bone in skin.bones]
        placed = sum(skin.weights[:, [k]] * (points @ move.T)[:, :3] for k, move in enumerate(moves))
        corners = placed[skin.faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
        out.append((corners, normals, skin.color))
    return out


def render(
    skeleton, pose, targets=(), *, azimuth=35.0, elevation=8.0, size=(300, 380), scale=165.0, centre=(0, 0.92, 0)
):
    """Return a picture (height, width, 3) uint8 of a body at a pose (n,), with targets (3,) as dots.

    azimuth, elevation [deg]: where the camera stands; 0 is before the figure. scale [pixels/m].
    """
    a, e = np.radians(azimuth), np.radians(elevation)
    towards = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])  # to the camera
    right = np.array([np.cos(a), 0.0, -np.sin(a)])
    up = np.cross(towards, right)
    image = np.empty((size[1], size[0], 3), dtype=np.uint8)
    image[:] = BACKGROUND

    def pixels(points):
        local = points - np.asarray(centre)
        return size[0] / 2 + scale * (local @ right), size[1] / 2 - scale * (local @ up)

    def splat(x, y, colors, radius):
        for dx in range(-radius, radius + 1):
            for dy in range(-radius, radius + 1):
                if dx * dx + dy * dy <= radius * radius + 1:
                    i, j = np.round(y).astype(int) + dy, np.round(x).astype(int) + dx
                    seen = (i >= 0) & (i < size[1]) & (j >= 0) & (j < size[0])
                    image[i[seen], j[seen]] = colors[seen] if np.ndim(colors) == 2 else colors

    floor = np.stack(np.meshgrid(np.linspace(-1.2, 1.2, 400), [0.0], np.linspace(-1.2, 1.2, 400)), axis=-1)
    splat(*pixels(floor.reshape(-1, 3)), FLOOR, 1)
    surfaces = posed(skeleton, pose)
    middles = np.concatenate([corners.mean(axis=1) for corners, _, _ in surfaces])
    spans = np.concatenate([np.ptp(corners, axis=1).max(axis=1) for corners, _, _ in surfaces])
    splat(*pixels(middles * [1.0, 0.0, 1.0]), SHADOW, 2)
    shade = [
        np.outer(0.42 + 0.58 * np.clip(0.5 + 0.5 * (normals @ LIGHT), 0.0, 1.0), color)
        for _, normals, color in surfaces
    ]
    facing = np.concatenate([normals @ towards for _, normals, _ in surfaces]) > -0.2
    order = np.flatnonzero(facing)[np.argsort(middles[facing] @ towards)]
    colors = np.clip(np.concatenate(shade), 0, 255).astype(np.uint8)[order]
    x, y = pixels(middles[order])
    # Far to near, in slices: pixels of near faces are written last
    for part in np.array_split(np.arange(len(order)), 60):
        wide = scale * spans[order[part]] > 3.0  # stretched skin
        splat(x[part][wide], y[part][wide], colors[part][wide], 2)
        splat(x[part], y[part], colors[part], 1)
    for target in targets:
        splat(*(np.atleast_1d(v) for v in pixels(np.asarray(target, dtype=float))), TARGET, 3)
    return image
