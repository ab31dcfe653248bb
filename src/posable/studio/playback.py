"""A take as one HTML file: viser's own recording of a scene, with its player inside."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import viser

import posable as ps
from posable.studio.appearance import Appearance, extent
from posable.studio.figure_nodes import draw
from posable.studio.raster import Camera

GROUND, LINES = (222, 227, 234), (196, 204, 216)


def recorded(motion: ps.Motion, look: Appearance, camera: Camera) -> bytes:
    """Return a page that plays a motion from `camera`, as the bytes of an HTML file."""
    with contextlib.redirect_stdout(io.StringIO()):
        server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        scene, size = server.scene, extent(motion.skeleton)
        up = motion.skeleton.up or "y"
        scene.set_up_direction(f"+{up}")  # type: ignore[arg-type]
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
