"""The stage: ground, light, the figure, its handles, its ghosts, kept in step with the session."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

import posable as ps
from posable.studio.body import has_body
from posable.studio.figure_nodes import Drawn, draw, extent
from posable.studio.handle_nodes import Grips
from posable.studio.limit_highlight import Glow
from posable.studio.meshes import disc
from posable.studio.overlays import Notes, levels_of
from posable.studio.scene_sync import Mover
from posable.studio.session import Session, View

GHOST, PAST, FUTURE = (90, 140, 255), (244, 162, 97), (42, 157, 143)
GROUND, LINES = (222, 227, 234), (196, 204, 216)
SKY, HAZE = (214, 226, 240), (252, 252, 253)
UNSEEN = 0.6  # of the figure's detail: what its ghosts get by with


class Stage:
    """The scene of one server: built anew for every figure, moved with every view."""

    def __init__(self, server: viser.ViserServer, session: Session, *, detail: float = 1.0):
        self.server, self.session, self.detail = server, session, detail
        self.figure = -1
        self.drawn, self.ghosts = Drawn(), {}
        self.pool: dict[Any, Drawn] = {}
        self.parts: tuple[Any, ...] = ()
        self.under = Mover()
        server.scene.set_background_image(sky())

    def show(self, view: View) -> None:
        """Bring the scene to a view and send it at once."""
        with self.server.atomic():
            if view.figure != self.figure:
                self._build(view)
            self.drawn.show(view.frames)
            self._show_blob(view)
            self.grips.show(view)
            self.glow.show(view.frames, levels_of(view))
            self.notes.show(view)
            self._show_ghosts(view)
        self.server.flush()

    def redraw(self, view: View, detail: float) -> None:
        """Draw the figure again, coarser or finer; everything else stays as it is."""
        self.detail = detail
        if self.figure == view.figure:
            with self.server.atomic():
                self._draw(view)
            self.show(view)

    # --------------------------------------------------------------------------------------------------- building

    def _build(self, view: View) -> None:
        scene = self.server.scene
        if self.figure >= 0:
            self.grips.remove()
        for node in self.parts:
            node.remove()
        self.parts = tuple(scene.add_frame(name, show_axes=False) for name in ("/handles", "/notes", "/blob"))
        self.figure = view.figure
        up = view.skeleton.up or "z"
        self.size = extent(view.skeleton)
        self.up = np.array([0.0, 1.0, 0.0]) if up == "y" else np.array([0.0, 0.0, 1.0])
        self.dressed = has_body(view.skeleton)
        scene.set_up_direction(f"+{up}")  # type: ignore[arg-type]
        cell = 10.0 ** np.round(np.log10(self.size)) / 4.0
        scene.add_grid(
            "/ground", plane="xz" if up == "y" else "xy", infinite_grid=True, cell_size=cell, section_size=4 * cell,
            cell_color=GROUND, section_color=LINES, fade_distance=9.0 * self.size, shadow_opacity=0.28,
        )  # fmt: skip
        for k in range(3):  # a soft shadow under the figure, where no real ones are drawn
            scene.add_mesh_simple(
                f"/blob/{k}", *disc(0.16 * self.size * (1.0 - 0.28 * k), self.up), color=(70, 80, 95), opacity=0.07,
                side="double", cast_shadow=False, receive_shadow=False,
                position=(0.0015 + 0.0008 * k) * self.size * self.up,
            )  # fmt: skip
        self.notes = Notes(scene, self.size)
        self._draw(view)
        skinned = bool(self.drawn.covers) and not self.dressed
        self.grips = Grips(
            scene, self.session, size=self.size, up=self.up, dressed=self.dressed, thick=1.8 if skinned else 1.0
        )
        self._aim_camera(view)

    def _draw(self, view: View) -> None:
        """Draw the figure; what was drawn before goes."""
        for drawn in (self.drawn, *self.ghosts.values()):
            drawn.retire()
        if hasattr(self, "glow"):
            self.glow.remove()
        self.ghosts: dict[str, Drawn] = {}
        self.drawn = self._figure(view, "figure", self.detail)
        self.glow = Glow(self.server.scene, f"/glow/{view.figure}.{self.detail}", self.drawn, self.size)

    def _figure(self, view: View, name: str, detail: float, **style: Any) -> Drawn:
        """Return the figure drawn, or the same one drawn before: skins are hidden and kept, never removed."""
        same = float(np.linalg.norm(view.skeleton.joint("knee.L").offset)) if self.dressed else self.session.scene
        key = (name, detail, same)
        if key in self.pool:
            self.pool[key].visible(True)
            return self.pool[key]
        root = f"/{name}/{view.figure}.{len(self.pool)}"
        drawn = draw(self.server.scene, root, view.skeleton, self.session.scene, detail=detail, **style)
        if drawn.skins:
            self.pool[key] = drawn
        return drawn

    def _aim_camera(self, view: View) -> None:
        bodies = view.frames.many(view.skeleton.names)[0]
        middle = (np.min(bodies, axis=0) + np.max(bodies, axis=0)) / 2.0
        size = max(float(np.linalg.norm(np.ptp(bodies, axis=0))), 0.5 * self.size)
        across = np.array([0.42, 0.0, 1.0]) if self.up[1] else np.array([1.0, 0.42, 0.0])
        away = middle + 1.75 * size * across + 0.30 * size * self.up
        self.server.initial_camera.position, self.server.initial_camera.look_at = tuple(away), tuple(middle)
        self.server.initial_camera.fov = np.radians(42.0)
        for client in self.server.get_clients().values():
            client.camera.position, client.camera.look_at = tuple(away), tuple(middle)

    def _show_blob(self, view: View) -> None:
        place = np.asarray(view.frames.position(view.skeleton.names[0]), dtype=float)
        self.under.move([self.parts[2]], (place * (1.0 - self.up))[None])

    # ----------------------------------------------------------------------------------------------------- ghosts

    def _show_ghosts(self, view: View) -> None:
        poses: dict[str, tuple[np.ndarray, tuple]] = {}
        if view.ghost is not None:
            poses["ghost"] = (view.ghost, GHOST)
        if view.timeline.onion and view.timeline.keys and not view.timeline.playing:
            keys = sorted(view.timeline.keys)
            before = [k for k in keys if k < round(view.timeline.frame)]
            after = [k for k in keys if k > round(view.timeline.frame)]
            if before:
                poses["past"] = (view.timeline.keys[before[-1]], PAST)
            if after:
                poses["future"] = (view.timeline.keys[after[0]], FUTURE)
        shown = {name: (ps.forward(view.skeleton, pose), tint) for name, (pose, tint) in poses.items()}
        shown = {name: pair for name, pair in shown.items() if self._apart(view, pair[0])}
        for name, ghost in self.ghosts.items():
            ghost.visible(name in shown)
        for name, (frames, tint) in shown.items():
            if name not in self.ghosts:
                self.ghosts[name] = self._figure(view, name, UNSEEN * self.detail, tint=tint, opacity=0.3)
            self.ghosts[name].show(frames)

    def _apart(self, view: View, frames: Any) -> bool:
        """Say whether a ghost can be told from the figure: two surfaces in one place only flicker."""
        names = view.skeleton.names
        away = np.linalg.norm(frames.many(names)[0] - view.frames.many(names)[0], axis=1)
        return bool(away.max() > 0.01 * self.size)


def sky(rows: int = 64) -> np.ndarray:
    """Return a picture (rows, 2, 3) of a bright sky that fades into haze below the horizon."""
    share = np.minimum(1.6 * np.linspace(0.0, 1.0, rows), 1.0)[:, None]
    column = np.array(SKY) + share * (np.array(HAZE) - np.array(SKY))
    return np.repeat(column[:, None], 2, axis=1).astype(np.uint8)
