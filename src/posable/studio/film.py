"""Pictures and films of a figure: PNG, GIF and MP4 by a small software renderer, and an HTML page that plays a take."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

import posable as ps
from posable.studio.appearance import Appearance, appearance_of, extent, front_of, root_joint, skinned
from posable.studio.meshes import unit, vertex_normals

FILMS = ("mp4", "gif")
SMOOTHEST = 60.0  # highest frame rate of a film
GIF_FPS = 25.0  # highest frame rate of a GIF
LONGEST = 20_000  # largest number of frames of a film

Progress = Callable[[float], None]


def camera_for(skeleton: ps.Skeleton, poses: np.ndarray, look: Appearance, *, aspect: float = 16 / 9) -> Camera:
    """Return a camera that shows a figure in all its poses (T, n)."""
    some = poses[np.unique(np.linspace(0, len(poses) - 1, 12).astype(int))]
    surfaces = [part.vertices for pose in some for part in surfaces_of(look, ps.forward(skeleton, pose))]
    places = np.concatenate([part for part in surfaces if len(part)])
    low, high = places.min(axis=0), places.max(axis=0)
    middle = 0.5 * (low + high)
    size = max(float(np.linalg.norm(high - low)), 0.5 * extent(skeleton)) * (1.0 if aspect >= 1.0 else 1.0 / aspect)
    up = skeleton.up_vector
    front = front_of(skeleton, ps.forward(skeleton, poses[0]))
    across = front + 0.45 * np.cross(up, front)
    away = across / np.linalg.norm(across) + 0.22 * up
    return Camera(middle + 1.5 * size * away, middle, up, float(np.radians(38.0)))


def camera_of(camera: Any, skeleton: ps.Skeleton) -> Camera:
    """Return the camera of a page."""
    return Camera(np.array(camera.position), np.array(camera.look_at), skeleton.up_vector, float(camera.fov))


def surfaces_of(look: Appearance, frames: Any) -> list[Surface]:
    """Return the surfaces of a figure at its frames."""
    out = [Surface(skinned(skin, frames), skin.faces, np.array(skin.color) / 255.0) for skin in look.skins]
    for part in look.rigid:
        turn, place = frames.rotation_matrix(part.body), frames.position(part.body)
        vertices, faces = part.vertices @ turn.T + place, part.faces
        if part.flat:  # duplicate the corners of every face for flat shading
            vertices, faces = vertices[faces.ravel()], np.arange(3 * len(faces)).reshape(-1, 3)
        out.append(Surface(vertices, faces, np.array(part.color) / 255.0))
    return out


def picture(
    skeleton: ps.Skeleton, pose: np.ndarray, look: Appearance, camera: Camera, size: tuple[int, int], *,
    transparent: bool = False,
) -> np.ndarray:  # fmt: skip
    """Return a picture (height, width, 3 or 4) of a figure at a pose (n,)."""
    return render(surfaces_of(look, ps.forward(skeleton, pose)), camera, size, transparent=transparent)


def png(image: np.ndarray) -> bytes:
    """Return a picture as the bytes of a PNG."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return out.getvalue()


def frames_of(
    motion: ps.Motion, look: Appearance, camera: Camera, size: tuple[int, int], progress: Progress
) -> Iterator[Any]:
    """Yield the pictures of a motion; the camera follows the figure."""
    root = root_joint(motion.skeleton).name
    first = ps.forward(motion.skeleton, motion.poses[0]).position(root)
    for k, pose in enumerate(motion.poses):
        frames = ps.forward(motion.skeleton, pose)
        step = (frames.position(root) - first) * (1.0 - camera.up)
        view = camera._replace(position=camera.position + step, look_at=camera.look_at + step)
        yield render(surfaces_of(look, frames), view, size)
        progress((k + 1) / len(motion))


def film(pictures: Iterable[np.ndarray], fps: float, kind: str) -> bytes:
    """Return pictures (height, width, 3) as the bytes of an MP4 or a GIF.

    Raises:
        PosableError: If imageio-ffmpeg, which MP4 needs, is not installed.
    """
    if kind == "gif":
        from PIL import Image

        images = [Image.fromarray(image).quantize(128) for image in pictures]
        out = io.BytesIO()
        images[0].save(
            out, "GIF", save_all=True, append_images=images[1:], duration=max(round(1000.0 / fps), 20), loop=0
        )
        return out.getvalue()
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ps.PosableError("MP4 needs imageio-ffmpeg: pip install 'posable[studio]'; GIF does not") from error
    with tempfile.TemporaryDirectory(prefix="posable-film-") as folder:
        place = Path(folder) / "film.mp4"
        writer = None
        for image in pictures:
            if writer is None:
                height, width = image.shape[:2]
                write: Any = imageio_ffmpeg.write_frames
                writer = write(
                    str(place), (width, height), fps=fps, quality=8, macro_block_size=2, ffmpeg_log_level="error"
                )
                writer.send(None)
            writer.send(np.ascontiguousarray(image[..., :3]))
        if writer is not None:
            writer.close()
        return place.read_bytes()


def resample_for(motion: ps.Motion, kind: str, fps: float | None = None) -> ps.Motion:
    """Return a motion at the frame rate of a film: its own, if players support it."""
    most = GIF_FPS if kind == "gif" else SMOOTHEST
    rate = min(fps or motion.fps, most)
    out = motion if rate == motion.fps else motion.resample(rate)
    if len(out) > LONGEST:
        raise ps.PosableError(f"film: expected at most {LONGEST} frames, got {len(out)}")
    return out


# ---------------------------------------------------------------------------------------------------- of a session


def _look(session: Any) -> Appearance:
    return appearance_of(session.skeleton, session.scene, detail=1.0)


def picture_of(session: Any, camera: Any, size: tuple[int, int], transparent: bool) -> bytes:
    """Return the pose on screen as a PNG, without handles and lines."""
    camera = camera_of(camera, session.skeleton)
    return png(picture(session.skeleton, session.pose, _look(session), camera, size, transparent=transparent))


def film_of(session: Any, camera: Any, size: tuple[int, int], kind: str, progress: Progress) -> bytes:
    """Return the motion on screen as an MP4 or a GIF."""
    motion = resample_for(session.timeline.motion(session.pose), kind)
    return film(
        frames_of(motion, _look(session), camera_of(camera, session.skeleton), size, progress), motion.fps, kind
    )


def page_of(session: Any, camera: Any) -> bytes:
    """Return the motion on screen as a self-contained page that plays it."""
    return page(session.timeline.motion(session.pose), _look(session), camera_of(camera, session.skeleton))


def page(motion: ps.Motion, look: Appearance, camera: Camera) -> bytes:
    """Return a self-contained HTML page that plays a motion."""
    return _recorded(resample_for(motion, "html"), look, camera)


def _recorded(motion: ps.Motion, look: Appearance, camera: Camera) -> bytes:
    """Return viser's own recording of a scene, with its player inside, as the bytes of an HTML file."""
    import viser  # pictures and films need none

    from posable.studio.figure_nodes import add_ground, draw

    with contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        scene, size = server.scene, extent(motion.skeleton)
        scene.configure_environment_map("warehouse", environment_intensity=0.9)
        add_ground(scene, motion.skeleton, size)
        server.initial_camera.position, server.initial_camera.look_at = tuple(camera.position), tuple(camera.look_at)
        server.initial_camera.fov = camera.fov
        drawn = draw(scene, "/figure", look)
        drawn.show(ps.forward(motion.skeleton, motion.poses[0]))
        recording = server.get_scene_serializer()
        for pose in motion.poses:
            with server.atomic():
                drawn.show(ps.forward(motion.skeleton, pose))
            recording.insert_sleep(1.0 / motion.fps)
        text = recording.as_html()
    finally:
        with contextlib.redirect_stdout(io.StringIO()):
            server.stop()
    return text.replace("<title>Viser</title>", "<title>Posable</title>", 1).encode()


# --- The renderer: triangles to pixels on the CPU, with a floor, soft light and a shadow ---

SKY, HORIZON, FLOOR = np.array([0.80, 0.87, 0.95]), np.array([0.97, 0.98, 0.99]), np.array([0.93, 0.94, 0.96])
LINE = np.array([0.80, 0.83, 0.87])
SAMPLES = 2  # supersampling per side, for smooth edges
SHADOW = 384  # cells per side of the shadow map on the floor


class Surface(NamedTuple):
    """A surface to draw: vertices (V, 3) [m], faces (F, 3), colour (3,) from 0 to 1."""

    vertices: np.ndarray
    faces: np.ndarray
    color: np.ndarray


class Camera(NamedTuple):
    """Position and point to look at (3,), (3,) [m], up (3,), and the vertical field of view [rad]."""

    position: np.ndarray
    look_at: np.ndarray
    up: np.ndarray
    fov: float


@numba.njit(cache=True, nogil=True)
def _fill(screen, depth_of, normals, faces, color, depth, normal, paint):  # pragma: no cover - compiled
    """Rasterise triangles: screen (V, 2) [pixels], depth_of (V,), into depth (H, W), normal and paint (H, W, 3)."""
    height, width = depth.shape
    for f in range(faces.shape[0]):
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        za, zb, zc = depth_of[a], depth_of[b], depth_of[c]
        if za <= 0.0 or zb <= 0.0 or zc <= 0.0:
            continue
        ax, ay, bx, by, cx, cy = screen[a, 0], screen[a, 1], screen[b, 0], screen[b, 1], screen[c, 0], screen[c, 1]
        area = (bx - ax) * (cy - ay) - (by - ay) * (cx - ax)
        if area == 0.0:
            continue
        left, right = max(int(min(ax, bx, cx)), 0), min(int(max(ax, bx, cx)) + 1, width - 1)
        top, bottom = max(int(min(ay, by, cy)), 0), min(int(max(ay, by, cy)) + 1, height - 1)
        for y in range(top, bottom + 1):
            for x in range(left, right + 1):
                u = ((bx - x) * (cy - y) - (by - y) * (cx - x)) / area
                v = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) / area
                w = 1.0 - u - v
                if u < 0.0 or v < 0.0 or w < 0.0:
                    continue
                near = u / za + v / zb + w / zc  # 1 / depth is linear on the screen
                if near > depth[y, x]:
                    depth[y, x] = near
                    for k in range(3):
                        normal[y, x, k] = u * normals[a, k] + v * normals[b, k] + w * normals[c, k]
                        paint[y, x, k] = color[k]


@numba.njit(cache=True, nogil=True)
def _shade_floor(flat, faces, cells):  # pragma: no cover - compiled
    """Mark the cells (S, S) that triangles with corners flat (V, 2) [cells] cover."""
    size = cells.shape[0]
    for f in range(faces.shape[0]):
        a, b, c = flat[faces[f, 0]], flat[faces[f, 1]], flat[faces[f, 2]]
        area = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
        if area == 0.0:
            continue
        left, right = max(int(min(a[0], b[0], c[0])), 0), min(int(max(a[0], b[0], c[0])) + 1, size - 1)
        top, bottom = max(int(min(a[1], b[1], c[1])), 0), min(int(max(a[1], b[1], c[1])) + 1, size - 1)
        for y in range(top, bottom + 1):
            for x in range(left, right + 1):
                u = ((b[0] - x) * (c[1] - y) - (b[1] - y) * (c[0] - x)) / area
                v = ((c[0] - x) * (a[1] - y) - (c[1] - y) * (a[0] - x)) / area
                if u >= 0.0 and v >= 0.0 and u + v <= 1.0:
                    cells[y, x] = 1.0


def render(surfaces: list[Surface], camera: Camera, size: tuple[int, int], *, transparent: bool = False) -> np.ndarray:
    """Return a picture (height, width, 3 or 4) of surfaces over the floor.

    Args:
        surfaces: What to draw.
        camera: The view.
        size: Width and height [pixels].
        transparent: Leave out floor and sky, and add an alpha channel.
    """
    width, height = size[0] * SAMPLES, size[1] * SAMPLES
    forward = unit(camera.look_at - camera.position)
    side = np.cross(forward, camera.up)
    side = unit(side if np.linalg.norm(side) > 1e-6 else np.cross(forward, np.roll(camera.up, 1)))
    axes = np.stack([side, np.cross(forward, side), forward])  # right, down, ahead
    focal = 0.5 * height / np.tan(0.5 * camera.fov)
    depth = np.zeros((height, width))
    normal, paint = np.zeros((height, width, 3)), np.zeros((height, width, 3))
    for surface in surfaces:
        local = (surface.vertices - camera.position) @ axes.T
        away = np.where(local[:, 2] > 1e-4, local[:, 2], -1.0)
        screen = 0.5 * np.array([width, height]) + focal * local[:, :2] / away[:, None]
        _fill(
            screen, away, vertex_normals(surface.vertices, surface.faces), surface.faces.astype(np.int64),
            np.asarray(surface.color, dtype=float), depth, normal, paint,
        )  # fmt: skip
    rows, columns = np.mgrid[0:height, 0:width]
    rays = np.stack([(columns - 0.5 * width) / focal, (rows - 0.5 * height) / focal, np.ones_like(depth)], -1) @ axes
    color = _lit(paint, normal, rays, camera.up, light_of(camera))
    drawn = depth > 0.0
    if not transparent:
        color = np.where(drawn[..., None], color, _surroundings(surfaces, camera, rays))
    color = np.clip(color, 0.0, 1.0).reshape(size[1], SAMPLES, size[0], SAMPLES, 3)
    cover = drawn.reshape(size[1], SAMPLES, size[0], SAMPLES)
    if not transparent:
        return (255.0 * color.mean(axis=(1, 3)) + 0.5).astype(np.uint8)
    count = cover.sum(axis=(1, 3))
    mean = (color * cover[..., None]).sum(axis=(1, 3)) / np.maximum(count, 1)[..., None]
    out = np.dstack([mean, count / SAMPLES**2])
    return (255.0 * out + 0.5).astype(np.uint8)


def _lit(paint: np.ndarray, normal: np.ndarray, rays: np.ndarray, up: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Return the colours (H, W, 3) in light from `key` (3,) and ambient light of sky and floor, with a little gloss."""
    n = normal / np.maximum(np.linalg.norm(normal, axis=-1, keepdims=True), 1e-9)
    view = -rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    n = np.where(np.einsum("...k,...k->...", n, view)[..., None] < 0.0, -n, n)
    lambert = np.maximum(n @ key, 0.0)
    sky = 0.5 + 0.5 * (n @ up)
    half = view + key
    half /= np.linalg.norm(half, axis=-1, keepdims=True)
    gloss = np.maximum(np.einsum("...k,...k->...", n, half), 0.0) ** 28
    return paint * (0.30 + 0.22 * sky + 0.58 * lambert)[..., None] + (0.10 * gloss)[..., None]


def light_of(camera: Camera) -> np.ndarray:
    """Return the direction (3,) to the key light: above the camera and a little to its right."""
    back = camera.position - camera.look_at
    back = back - (back @ camera.up) * camera.up
    back = unit(back if np.linalg.norm(back) > 1e-6 else np.roll(camera.up, 1))
    return unit(camera.up + 0.80 * back + 0.18 * np.cross(camera.up, back))


def _surroundings(surfaces: list[Surface], camera: Camera, rays: np.ndarray) -> np.ndarray:
    """Return the sky and the floor (H, W, 3) with its grid and the figure's shadow."""
    up = camera.up
    climb = (rays @ up) / np.linalg.norm(rays, axis=-1)
    share = np.clip(0.5 + 1.4 * climb, 0.0, 1.0)[..., None]
    sky = HORIZON + share * (SKY - HORIZON)
    height = float(camera.position @ up)
    if height <= 0.0:
        return sky
    reach = np.where(climb < -1e-4, -height / np.minimum(rays @ up, -1e-9), np.inf)
    place = camera.position + np.where(np.isfinite(reach), reach, 0.0)[..., None] * rays
    u_axis = np.array([1.0, 0.0, 0.0])
    v_axis = np.array([0.0, 0.0, 1.0]) if up[1] > 0.5 else np.array([0.0, 1.0, 0.0])
    u, v = place @ u_axis, place @ v_axis
    scale = float(np.linalg.norm(camera.look_at - camera.position))
    cell = 10.0 ** np.round(np.log10(scale)) / 4.0
    wide = 0.0012 * np.where(np.isfinite(reach), reach, 1.0) * 1.4
    near = np.minimum(_to_line(u, cell), _to_line(v, cell))
    grid = np.clip(1.0 - near / np.maximum(wide, 1e-9), 0.0, 1.0) * 0.8
    floor = FLOOR + grid[..., None] * (LINE - FLOOR)
    floor = floor * (1.0 - 0.42 * _shadow(surfaces, camera, u_axis, v_axis, u, v))[..., None]
    fade = np.clip(np.where(np.isfinite(reach), np.exp(-np.maximum(reach - scale, 0.0) / (1.6 * scale)), 0.0), 0.0, 1.0)
    return sky + np.where(np.isfinite(reach), fade, 0.0)[..., None] * (floor - sky)


def _to_line(value: np.ndarray, cell: float) -> np.ndarray:
    return np.abs(value - cell * np.round(value / cell))


def _shadow(
    surfaces: list[Surface], camera: Camera, u_axis: np.ndarray, v_axis: np.ndarray, u: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Return the darkness (H, W) of the figure's shadow where the floor is at (u, v) [m]."""
    key, up = light_of(camera), camera.up
    casts = [s.vertices - ((s.vertices @ up) / (key @ up))[:, None] * key for s in surfaces if len(s.vertices)]
    if not casts:
        return np.zeros_like(u)
    corners = np.concatenate(casts)
    low = np.array([(corners @ u_axis).min(), (corners @ v_axis).min()])
    span = max(float((corners @ u_axis).max() - low[0]), float((corners @ v_axis).max() - low[1]), 1e-6)
    low -= 0.12 * span
    cell = 1.24 * span / SHADOW
    cells = np.zeros((SHADOW, SHADOW))
    for surface, cast in zip([s for s in surfaces if len(s.vertices)], casts, strict=True):
        flat = (np.stack([cast @ u_axis, cast @ v_axis], axis=1) - low) / cell
        _shade_floor(flat, surface.faces.astype(np.int64), cells)
    for _ in range(3):
        cells = _blurred(cells, 5)
    column, row = ((u - low[0]) / cell).astype(int), ((v - low[1]) / cell).astype(int)
    inside = (column >= 0) & (column < SHADOW) & (row >= 0) & (row < SHADOW)
    return np.where(inside, cells[np.clip(row, 0, SHADOW - 1), np.clip(column, 0, SHADOW - 1)], 0.0)


def _blurred(cells: np.ndarray, reach: int) -> np.ndarray:
    for axis in (0, 1):
        total = np.cumsum(np.pad(cells, [(reach + 1, reach) if k == axis else (0, 0) for k in (0, 1)]), axis=axis)
        size = cells.shape[axis]
        step = 2 * reach + 1
        cells = (np.take(total, range(step, step + size), axis) - np.take(total, range(size), axis)) / step
    return cells
