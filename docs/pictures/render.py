"""A small renderer: figures and goals as lit surfaces on nothing, so that a picture sits on light and dark pages alike.

A z-buffer over triangles with smooth normals, drawn three times too large and averaged; surfaces that one can see
through are blended over it; a soft shadow lies on the ground.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numba import njit
from PIL import Image
from scipy.ndimage import gaussian_filter

import posable as ps
from posable.studio.appearance import TROUSERS, appearance_of, has_body
from posable.studio.meshes import capsule, moved, sphere, towards

TEAL, AMBER, RED, VIOLET, GREY, BLUE = (
    (32, 164, 150), (237, 174, 73), (209, 73, 91), (140, 100, 190), (150, 156, 166), (66, 122, 161),
)  # fmt: skip
FINE = 3  # how many times too large it is drawn
LIGHT = np.array([0.35, 0.85, 0.55]) / np.linalg.norm([0.35, 0.85, 0.55])


@njit(cache=False)
def rasterise(points, faces, normals, colors, depth, image, through):
    """Fill image (H, W, 4) and depth (H, W) with triangles; points (V, 3): pixel x, pixel y, distance."""
    height, width = depth.shape
    for f in range(faces.shape[0]):
        a, b, c = points[faces[f, 0]], points[faces[f, 1]], points[faces[f, 2]]
        area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        if area == 0.0:
            continue
        left, right = max(0, int(min(a[0], b[0], c[0]))), min(width - 1, int(max(a[0], b[0], c[0])) + 1)
        top, low = max(0, int(min(a[1], b[1], c[1]))), min(height - 1, int(max(a[1], b[1], c[1])) + 1)
        for y in range(top, low + 1):
            for x in range(left, right + 1):
                u = ((b[0] - x) * (c[1] - y) - (b[1] - y) * (c[0] - x)) / area
                v = ((c[0] - x) * (a[1] - y) - (c[1] - y) * (a[0] - x)) / area
                w = 1.0 - u - v
                if u < 0.0 or v < 0.0 or w < 0.0:
                    continue
                z = u * a[2] + v * b[2] + w * c[2]
                if z >= depth[y, x]:
                    continue
                n = u * normals[faces[f, 0]] + v * normals[faces[f, 1]] + w * normals[faces[f, 2]]
                alpha = colors[f, 3]
                if not through:
                    depth[y, x] = z
                    for k in range(3):
                        image[y, x, k] = colors[f, k] * n[0] + n[1]
                    image[y, x, 3] = 1.0
                else:
                    old = image[y, x, 3]
                    out = alpha + old * (1.0 - alpha)
                    for k in range(3):
                        shade = colors[f, k] * n[0] + n[1]
                        image[y, x, k] = (shade * alpha + image[y, x, k] * old * (1.0 - alpha)) / out
                    image[y, x, 3] = out


@dataclass
class Picture:
    """Surfaces in the world, y up, and a camera that looks at their middle.

    azimuth, elevation [deg]: where the camera stands; 0 looks at the figure's face. size: of the picture [pixels].
    """

    azimuth: float = -25.0
    elevation: float = 8.0
    size: tuple[int, int] = (420, 520)
    shapes: list = field(default_factory=list)
    shadow: bool = True

    def add(self, shape, color, *, alpha=1.0, smooth=True, counts=True) -> None:
        """Add a surface (vertices, faces). counts: whether the camera takes care that all of it is seen."""
        self.shapes.append((np.asarray(shape[0], float), np.asarray(shape[1], int), color, alpha, smooth, counts))

    def ball(self, place, radius=0.035, color=TEAL, **options) -> None:
        """Add a ball."""
        self.add(moved(sphere(radius, 28), np.asarray(place, float)), color, **options)

    def tube(self, start, end, radius=0.008, color=TEAL, **options) -> None:
        """Add a rounded line between two points."""
        start, end = np.asarray(start, float), np.asarray(end, float)
        vertices, faces = capsule(float(np.linalg.norm(end - start)), radius)
        self.add((vertices @ towards(end - start).T + start, faces), color, **options)

    def arrow(self, start, along, length=0.3, color=TEAL) -> None:
        """Add an arrow from a point."""
        start = np.asarray(start, float)
        along = np.asarray(along, float) / np.linalg.norm(along)
        self.tube(start, start + 0.8 * length * along, 0.009, color)
        head, faces = capsule(0.2 * length, 0.024, 0.001)
        self.add((head @ towards(along).T + start + 0.8 * length * along, faces), color)

    def axes(self, matrix, length=0.16) -> None:
        """Add the three axes of a frame (4, 4): x red, y teal, z violet."""
        for k, color in enumerate((RED, TEAL, VIOLET)):
            self.arrow(matrix[:3, 3], matrix[:3, k], length, color)

    def sheet(self, point, normal, width=0.7, height=0.7, color=TEAL, alpha=0.3) -> None:
        """Add a square one can see through, with its edges."""
        turn = towards(np.asarray(normal, float))
        if abs(turn[1, 0]) > abs(turn[1, 1]):  # let its second side be the upright one
            turn[:, [0, 1]] = turn[:, [1, 0]] * [1.0, -1.0]
        corners = np.array([[-width, -height], [width, -height], [width, height], [-width, height]]) / 2
        world = np.asarray(point, float) + corners @ turn[:, :2].T
        self.add((world, np.array([[0, 1, 2], [0, 2, 3]])), color, alpha=alpha, smooth=False)
        for k in range(4):
            self.tube(world[k], world[(k + 1) % 4], 0.004, color)

    def figure(self, skeleton, pose, *, color=None, alpha=1.0) -> None:
        """Add a figure: the human with its body, others as bones."""
        frames = ps.forward(skeleton, pose)
        if has_body(skeleton):
            for vertices, faces, tint in skinned(skeleton, frames):
                self.add((vertices, faces), color or tint, alpha=alpha)
            return
        extent = max(
            float(np.ptp([frames.position(n) for n in (*skeleton.names, *skeleton.site_names)], 0).max()), 1e-3
        )
        thick = 0.028 * extent
        for joint in skeleton.joints:
            here = frames.position(joint.name)
            self.ball(here, 1.15 * thick, color or (60, 72, 92), alpha=alpha)
            if joint.parent is not None and np.linalg.norm(frames.position(joint.parent) - here) > 1e-6:
                self.tube(frames.position(joint.parent), here, 0.8 * thick, color or BLUE, alpha=alpha)
        parents = {joint.parent for joint in skeleton.joints}
        for site in skeleton.sites:
            ends = frames.position(site.name), frames.position(site.joint)
            if site.joint not in parents and np.linalg.norm(ends[0] - ends[1]) > 1e-6:
                self.tube(ends[1], ends[0], 0.6 * thick, color or BLUE, alpha=alpha)

    def draw(self, path: Path) -> None:
        """Draw it and keep it as a small PNG."""
        width, height = (FINE * k for k in self.size)
        right, up, back = self._view()
        seen = np.concatenate([v for v, _, _, _, _, counts in self.shapes if counts])
        flat = np.stack([seen @ right, seen @ up], axis=-1)
        low, high = flat.min(axis=0), flat.max(axis=0)
        scale = min(0.94 * width / (high[0] - low[0]), 0.94 * height / (high[1] - low[1]))
        middle = 0.5 * (low + high)

        def pixels(v):
            x, y = v @ right - middle[0], v @ up - middle[1]
            return np.stack([0.5 * width + scale * x, 0.5 * height - scale * y, -(v @ back)], axis=-1)

        image, depth = np.zeros((height, width, 4)), np.full((height, width), np.inf)
        for through in (False, True):
            for vertices, faces, color, alpha, smooth, _ in self.shapes:
                if (alpha < 1.0) != through:
                    continue
                light = lit(vertices, faces, back, smooth)
                tint = np.tile([*(np.array(color) / 255.0), alpha], (len(faces), 1))
                rasterise(pixels(vertices), faces, light, tint, depth, image, through)
        if self.shadow:
            image = self._over_shadow(image, pixels, seen[:, 1].min())
        small = image.copy()
        small[..., :3] *= small[..., 3:]
        small = small.reshape(self.size[1], FINE, self.size[0], FINE, 4).mean(axis=(1, 3))
        small[..., :3] /= np.maximum(small[..., 3:], 1e-6)
        out = Image.fromarray((255 * np.clip(small, 0.0, 1.0)).astype(np.uint8), "RGBA")
        out.save(path, optimize=True)

    def _view(self):
        a, e = np.radians(self.azimuth), np.radians(self.elevation)
        back = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
        right = np.array([np.cos(a), 0.0, -np.sin(a)])
        return right, np.cross(back, right), back

    def _over_shadow(self, image, pixels, floor):
        """Lay a soft shadow on the floor under everything that is solid."""
        mask, depth = np.zeros_like(image), np.full(image.shape[:2], np.inf)
        for vertices, faces, _, alpha, _, _ in self.shapes:
            if alpha < 1.0:
                continue
            fallen = vertices - (vertices[:, 1:2] - floor) * (LIGHT / LIGHT[1]) * 0.35
            fallen[:, 1] = floor
            one = np.ones((len(faces), 4))
            rasterise(pixels(fallen), faces, np.zeros((len(vertices), 2)), one, depth, mask, False)
            depth[:] = np.inf
        dark = 0.28 * gaussian_filter(mask[..., 3], 2.5 * FINE)
        alpha = image[..., 3] + dark * (1.0 - image[..., 3])
        out = image.copy()
        out[..., :3] *= (image[..., 3] / np.maximum(alpha, 1e-6))[..., None]
        out[..., 3] = alpha
        return out


def lit(vertices, faces, back, smooth):
    """Return (V, 2): how much of its own colour, and how much white, a vertex shows."""
    n = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    if not smooth:
        return np.tile([1.0, 0.0], (len(vertices), 1))
    out = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(out, faces[:, k], n)
    out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
    out *= np.sign(out @ back + 1e-9)[:, None]  # seen from behind, a surface shows its other side
    half = (LIGHT + back) / np.linalg.norm(LIGHT + back)
    own = 0.46 + 0.16 * out[:, 1] + 0.50 * np.clip(out @ LIGHT, 0.0, 1.0) + 0.08 * np.clip(out @ back, 0.0, 1.0)
    return np.stack([own, 0.10 * np.clip(out @ half, 0.0, 1.0) ** 24], axis=-1)


@lru_cache(maxsize=2)
def _skins(name: str):
    return appearance_of(ps.figures.get(name), None).skins


def skinned(skeleton, frames):
    """Return the surfaces (vertices, faces, color) of a human's body at its frames."""
    for skin in _skins("human"):
        total = np.zeros_like(skin.vertices)
        for k, bone in enumerate(skin.bones):
            turn = frames.rotation_matrix(bone) @ skin.turns[k].T
            total += skin.weights[:, k : k + 1] * ((skin.vertices - skin.positions[k]) @ turn.T + frames.position(bone))
        yield total, skin.faces, (98, 112, 138) if skin.color == TROUSERS else skin.color
