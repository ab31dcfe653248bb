"""The stage: ground, light, the figure, its handles, and what stands in its way, kept in step with the session."""

from __future__ import annotations

from typing import Any

import numpy as np
import viser

import posable as ps

from .annotations import arcs_of, circle_of, misses_of
from .body import has_body
from .drawing import Drawn, Mover, draw, extent
from .session import Session, View
from .shapes import disc, matrices_wxyz, moved, quaternions, ring, sphere, transforms

HELD, PINNED, FREE, ELBOW, CHOSEN = (46, 196, 182), (255, 159, 28), (170, 178, 190), (155, 114, 207), (239, 71, 111)
GHOST, PAST, FUTURE = (90, 140, 255), (244, 162, 97), (42, 157, 143)
REACH = 1.50  # [m] from the pelvis to the farthest fingertip of a person of 1.80 m: what handles are scaled by
GROUND, LINES = (222, 227, 234), (196, 204, 216)


class Stage:
    """The scene of one server: built anew for every figure, moved with every view."""

    def __init__(self, server: viser.ViserServer, session: Session, *, detail: float = 1.0):
        self.server, self.session, self.detail = server, session, detail
        self.figure = -1
        self.nodes: list[Any] = []
        self.drawn = Drawn()
        self.mover, self.under = Mover(), Mover()
        self.pool: dict[Any, Drawn] = {}
        self.ghosts: dict[str, Drawn] = {}
        self.gizmo: Any = None
        self.grabbing: dict[str, np.ndarray] = {}

    def show(self, view: View) -> None:
        """Bring the scene to a view and send it at once."""
        with self.server.atomic():
            if view.figure != self.figure:
                self._build(view)
            self.drawn.show(view.frames)
            self._show_blob(view)
            self._show_handles(view)
            self._show_gizmo(view)
            self._show_lines(view)
            self._show_ghosts(view)
        self.server.flush()

    # --------------------------------------------------------------------------------------------------- building

    def _build(self, view: View) -> None:
        scene = self.server.scene
        for drawn in (self.drawn, *self.ghosts.values()):
            drawn.retire()
        if self.gizmo is not None:
            self.gizmo[1].remove()
        for node in self.nodes:
            node.remove()
        self.nodes = [scene.add_frame(name, show_axes=False) for name in ("/handles", "/notes")]
        self.figure, self.ghosts, self.gizmo, self.grabbing = view.figure, {}, None, {}
        up = view.skeleton.up or "z"
        self.size = extent(view.skeleton)
        self.up = np.array([0.0, 1.0, 0.0]) if up == "y" else np.array([0.0, 0.0, 1.0])
        scene.set_up_direction(f"+{up}")  # type: ignore[arg-type]
        cell = 10.0 ** np.round(np.log10(self.size)) / 4.0
        scene.add_grid(
            "/ground", plane="xz" if up == "y" else "xy", infinite_grid=True, cell_size=cell, section_size=4 * cell,
            cell_color=GROUND, section_color=LINES, fade_distance=9.0 * self.size, shadow_opacity=0.28,
        )  # fmt: skip
        self.dressed = has_body(view.skeleton)
        self.drawn = self._figure(view, "figure", self.detail)
        self._aim_camera(view)
        self.lines = scene.add_line_segments(
            "/notes/lines", np.zeros((1, 2, 3)), np.zeros((1, 2, 3)), thickness=0.004 * self.size
        )
        self.markers = scene.add_point_cloud(
            "/notes/markers", np.zeros((1, 3), dtype=np.float32), colors=(230, 57, 70), point_size=0.012 * self.size,
            point_shape="circle", visible=False,
        )  # fmt: skip
        self.blob = [
            scene.add_mesh_simple(
                f"/notes/blob{k}", *disc(0.16 * self.size * (1.0 - 0.28 * k), self.up), color=(70, 80, 95),
                opacity=0.07, side="double", cast_shadow=False, receive_shadow=False,
            )
            for k in range(3)
        ]  # fmt: skip
        self.handles: dict[str, Any] = {}
        self.looks: dict[str, tuple] = {}

    def _figure(self, view: View, name: str, detail: float, **style: Any) -> Drawn:
        """Return the figure drawn, or the same one drawn before: skins are hidden and kept, never removed."""
        key = (
            name,
            self.session.scene if not self.dressed else float(np.linalg.norm(view.skeleton.joint("knee.L").offset)),
        )
        if key in self.pool:
            self.pool[key].visible(True)
            return self.pool[key]
        drawn = draw(
            self.server.scene, f"/{name}/{view.figure}", view.skeleton, self.session.scene, detail=detail, **style
        )
        if drawn.skins:
            self.pool[key] = drawn
        return drawn

    def _aim_camera(self, view: View) -> None:
        bodies = [view.frames.position(name) for name in view.skeleton.names]
        middle = (np.min(bodies, axis=0) + np.max(bodies, axis=0)) / 2.0
        size = max(float(np.linalg.norm(np.ptp(bodies, axis=0))), 0.5 * self.size)
        across = np.array([0.42, 0.0, 1.0]) if self.up[1] else np.array([1.0, 0.42, 0.0])
        away = middle + 1.75 * size * across + 0.30 * size * self.up
        self.server.initial_camera.position, self.server.initial_camera.look_at = tuple(away), tuple(middle)
        self.server.initial_camera.fov = np.radians(42.0)
        for client in self.server.get_clients().values():
            client.camera.position, client.camera.look_at = tuple(away), tuple(middle)

    def _show_blob(self, view: View) -> None:
        """Lay a soft shadow under the figure, where no real ones are drawn."""
        place = np.asarray(view.frames.position(view.skeleton.names[0]), dtype=float)
        heights = (0.0015 + 0.0008 * np.arange(len(self.blob))) * self.size
        places = place * (1.0 - self.up) + heights[:, None] * self.up
        self.under.move(self.blob, places, np.tile([1.0, 0.0, 0.0, 0.0], (len(self.blob), 1)))

    # ---------------------------------------------------------------------------------------------------- handles

    def _show_handles(self, view: View) -> None:
        wanted = {h.body: self._look(view, h) for h in view.handles}
        for name in view.elbows:
            wanted.setdefault(name, ("elbow", CHOSEN if view.selected == name else ELBOW, 0.85))
        for name in [name for name in self.handles if wanted.get(name) != self.looks.get(name)]:
            if name not in self.grabbing or name not in wanted:
                self.handles.pop(name).remove()
        for name, look in wanted.items():
            if name not in self.handles:
                self.handles[name], self.looks[name] = self._add_handle(name, *look), look
        targets = {h.body: h for h in view.handles}
        positions, turns = transforms(view.frames, tuple(self.handles))
        for k, name in enumerate(self.handles):
            handle = targets.get(name)
            if handle is not None and (handle.hold == "pinned" or view.active == name):
                turns[k] = handle.rotation
                if handle.mode != "orientation":
                    positions[k] = handle.position
        self.mover.move(list(self.handles.values()), positions, quaternions(turns))

    def _look(self, view: View, handle: Any) -> tuple:
        color = CHOSEN if view.selected == handle.body else {"pinned": PINNED, "held": HELD, "free": FREE}[handle.hold]
        kind = handle.body.partition(".")[0]
        return (
            kind if kind in ("pelvis", "head", "foot", "hand") else "end",
            color,
            0.35 if handle.hold == "free" else 0.9,
        )

    def _add_handle(self, name: str, shape: str, color: tuple, opacity: float) -> Any:
        unit = self.size / REACH  # 1 for a person of 1.80 m
        _x, y, z = np.eye(3)
        if shape == "pelvis":
            mesh = ring(0.205 * unit, 0.009 * unit, self.up)
        elif shape == "head":
            mesh = moved(ring(0.095 * unit, 0.007 * unit, y), 0.140 * unit * y - 0.085 * unit * z)
        elif shape == "foot":
            mesh = moved(ring(0.145 * unit, 0.008 * unit, y), 0.035 * unit * z + 0.010 * unit * y)
        elif shape == "elbow" and self.dressed:
            mesh = ring((0.082 if name.startswith("knee") else 0.060) * unit, 0.0065 * unit, y)
        else:
            mesh = sphere((0.026 if shape == "elbow" else 0.050 if shape == "hand" else 0.034) * unit)
        node = self.server.scene.add_mesh_simple(
            f"/handles/{name}", *mesh, color=color, opacity=opacity, cast_shadow=False, receive_shadow=False
        )
        node.on_drag("left")(self._dragging(name))
        node.on_click(self._clicking(name))
        return node

    def _dragging(self, name: str) -> Any:
        async def follow(event: viser.SceneNodeDragEvent) -> None:
            pointer = np.array(event.end_position)
            if event.phase == "start":
                self.grabbing[name] = np.array(event.target.position) - np.array(event.start_position)
            offset = self.grabbing.get(name)
            if offset is not None:
                self.session.drag(name, pointer + offset)
            if event.phase == "end":
                self.grabbing.pop(name, None)
                self.session.release()

        return follow

    def _clicking(self, name: str) -> Any:
        def choose(event: Any) -> None:
            self.session.select(None if self.session.selected == name else name)

        return choose

    def _show_gizmo(self, view: View) -> None:
        """Show arrows and circles on the chosen handle: for exact moves along an axis, and for turning."""
        handle = next((h for h in view.handles if h.body == view.selected), None)
        look = None if handle is None else (handle.body, handle.mode)
        if self.gizmo is not None and self.gizmo[0] != look:
            self.gizmo[1].remove()
            self.gizmo = None
        if handle is None:
            return
        if self.gizmo is None:
            node = self.server.scene.add_transform_controls(
                "/gizmo", scale=0.16 * self.size, line_width=3.0, depth_test=False, opacity=0.9,
                disable_rotations=handle.mode == "position",
                disable_axes=handle.mode == "orientation", disable_sliders=handle.mode == "orientation",
            )  # fmt: skip
            node.on_update(self._turning(handle.body))
            self.gizmo = (look, node)
        if not self.grabbing.get("/gizmo"):
            self.gizmo[1].position = (
                handle.position if handle.mode != "orientation" else view.frames.position(handle.body)
            )
            self.gizmo[1].wxyz = quaternions(handle.rotation[None])[0]

    def _turning(self, name: str) -> Any:
        async def follow(event: viser.TransformControlsEvent) -> None:
            if event.phase == "start":
                self.grabbing["/gizmo"] = np.ones(1)
            self.session.drag(name, event.target.position.copy(), matrices_wxyz(event.target.wxyz))
            if event.phase == "end":
                self.grabbing.pop("/gizmo", None)
                self.session.release()

        return follow

    # ------------------------------------------------------------------------------------------- what is in the way

    def _show_lines(self, view: View) -> None:
        """Draw the ranges of joints at their limits, the circle of the chosen elbow, and how far handles miss."""
        sets = [arcs_of(view, self.size), circle_of(view), misses_of(view), markers_of(view)]
        points = np.concatenate([points for points, _ in sets])
        colors = np.concatenate([colors for _, colors in sets])
        self.lines.visible = len(points) > 0
        if len(points):
            self.lines.points, self.lines.colors = points.astype(np.float32), colors.astype(np.uint8)

        places = marker_places(view)
        self.markers.visible = len(places) > 0
        if len(places):
            self.markers.points = np.nan_to_num(places, nan=-1e3).astype(np.float32)  # unseen ones far below

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
                self.ghosts[name] = self._figure(view, name, 0.6 * self.detail, tint=tint, opacity=0.3)
            self.ghosts[name].show(frames)

    def _apart(self, view: View, frames: Any) -> bool:
        """Say whether a ghost can be told from the figure: two surfaces in one place only flicker."""
        away = (np.linalg.norm(frames.position(name) - view.frames.position(name)) for name in view.skeleton.names)
        return bool(max(away) > 0.01 * self.size)


def markers_of(view: View) -> tuple[np.ndarray, np.ndarray]:
    """Return a line (M, 2, 3) from every marker of the take that a site is named after to that site, and colours."""
    markers = view.timeline.markers
    if markers is None or not len(markers):
        return np.zeros((0, 2, 3)), np.zeros((0, 2, 3))
    known = set(view.skeleton.site_names)
    lines = [
        (place, view.frames.position(name))
        for name, place in zip(markers.names, marker_places(view), strict=True)
        if name in known and np.isfinite(place).all()
    ]
    points = np.array(lines).reshape(-1, 2, 3)
    return points, np.tile(np.array([[[230, 57, 70], [244, 162, 97]]], dtype=float), (len(points), 1, 1))


def marker_places(view: View) -> np.ndarray:
    """Return where the take's markers (M, 3) [m] are at this frame, NaN where unseen."""
    markers = view.timeline.markers
    if markers is None or not len(markers):
        return np.zeros((0, 3))
    return markers.positions[min(round(view.timeline.frame), len(markers) - 1)]
