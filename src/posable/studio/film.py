"""Pictures and films of a figure: PNG, GIF and MP4 (rendered by raster.py), and an HTML page that plays a take."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable.studio.appearance import Appearance, appearance_of, extent, front_of, root_joint, skinned
from posable.studio.raster import Camera, Surface, render

FILMS = ("mp4", "gif")
SMOOTHEST = 60.0  # highest frame rate of a film
GIF_FPS = 25.0  # highest frame rate of a GIF
GROUND, LINES = (222, 227, 234), (196, 204, 216)  # of the page
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
    skeleton: ps.Skeleton,
    pose: np.ndarray,
    look: Appearance,
    camera: Camera,
    size: tuple[int, int],
    *,
    transparent: bool = False,
) -> np.ndarray:
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
        yield render(
            surfaces_of(look, frames),
            camera._replace(position=camera.position + step, look_at=camera.look_at + step),
            size,
        )
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

    from posable.studio.figure_nodes import draw

    with contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        scene, size = server.scene, extent(motion.skeleton)
        up = "xyz"[motion.skeleton.up_axis]
        scene.set_up_direction(f"+{up}")  # type: ignore[arg-type]  # "+y" and such
        scene.configure_environment_map("warehouse", environment_intensity=0.9)
        cell = 10.0 ** np.round(np.log10(size)) / 4.0
        scene.add_grid(
            "/ground", plane="xz" if up == "y" else "xy", infinite_grid=True, cell_size=cell, section_size=4 * cell,
            cell_color=GROUND, section_color=LINES, fade_distance=9.0 * size,
        )  # fmt: skip
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
