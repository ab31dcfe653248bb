"""The 3D scene: ground, light, the figure, its handles and its ghosts, synchronised with the session."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

import posable as ps
from posable.studio.appearance import appearance_of, extent, front_of, has_body, root_joint, surface_points
from posable.studio.figure_nodes import FigureNodes, LimitHighlight, add_ground, draw
from posable.studio.handle_nodes import HandleNodes
from posable.studio.meshes import disc, unit
from posable.studio.overlays import Overlays, limb_colors, marker_places
from posable.studio.session import Session
from posable.studio.state import View
from posable.studio.viser_adapter import NodeUpdater, Server

Side = Literal["front", "right", "back", "top", "frame"]


def bounding_box(frames: Any, names: tuple[str, ...]) -> tuple[np.ndarray, float]:
    """Return the centre (3,) and the diagonal [m] of the bounding box of bodies."""
    places = frames.many(names)[0]
    low, high = places.min(axis=0), places.max(axis=0)
    return 0.5 * (low + high), float(np.linalg.norm(high - low))


def camera_pose(view: Any, side: Side, camera: Any, front: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return position and look-at point (3,), (3,) [m] for a side of the figure, or to frame the selection."""
    middle, size = bounding_box(view.frames, view.skeleton.names)
    size = max(size, 1e-3)
    up = view.skeleton.up_vector
    if side == "frame":
        away = unit(np.asarray(camera.position) - np.asarray(camera.look_at))
        if view.selected is not None:
            return view.frames.position(view.selected) + 0.8 * size * away, view.frames.position(view.selected)
        return middle + 1.7 * size * away, middle
    ways = {"front": front, "right": np.cross(front, up), "back": -front, "top": up + 1e-3 * front}
    return middle + 1.7 * size * ways[side], middle


GHOST, PAST, FUTURE = (90, 140, 255), (244, 162, 97), (42, 157, 143)
SKY, HAZE = (214, 226, 240), (252, 252, 253)
STEP = 10  # [frames] between the current frame and its ghosts
NEAR = 1.2  # relative to the figure: how far a take may go without the cameras following it
SUNK = 0.05  # relative to the figure: depth below the origin from which the floor is drawn below it
FOV = np.radians(42.0)  # from bottom to top of a page
CLEAR = (0.60, 0.73)  # half of the part of a page that panel and timeline leave clear, relative to half its height
UNSEEN = 0.6  # detail of ghosts, relative to the figure's


class Stage:
    """The scene of one server: rebuilt for every figure, updated with every view."""

    def __init__(self, server: Server, session: Session, *, detail: float = 1.0):
        self.server, self.session, self.detail = server, session, detail
        self.figure, self.count = -1, 0
        self.drawn, self.ghosts = FigureNodes(), {}
        self.parts: tuple[Any, ...] = ()
        self.under = NodeUpdater()
        self.follow = False  # whether cameras follow the figure
        self.balance = True  # whether the support polygon is shown
        self.last_root: np.ndarray | None = None
        server.scene.set_background_image(sky())

    def show(self, view: View) -> None:
        """Update the scene to a view and send it at once."""
        with self.server.atomic():
            if view.figure != self.figure:
                self._build(view)
            self.drawn.show(view.frames)
            self._show_blob(view)
            self.handles.show(view)
            self.highlight.show(view.frames, limb_colors(view, self.size))
            self.overlays.show(view, balance=self.balance)
            self._show_ghosts(view)
        self._follow(view)
        self.server.flush()

    def redraw(self, view: View, detail: float) -> None:
        """Draw the figure again with another level of detail."""
        self.detail = detail
        if self.figure == view.figure:
            with self.server.atomic():
                self._draw(view)
            self.show(view)

    def _follow(self, view: View) -> None:
        """Move the cameras of all pages with the root of the figure, if `follow` is set."""
        root = np.asarray(view.frames.position(root_joint(view.skeleton).name), dtype=float)
        if self.follow and self.last_root is not None:
            step = (root - self.last_root) * (1.0 - self.up)
            if np.linalg.norm(step) > 1e-4:
                for client in self.server.get_clients().values():
                    client.camera.position, client.camera.look_at = (
                        client.camera.position + step,
                        client.camera.look_at + step,
                    )
        self.last_root = root

    # --------------------------------------------------------------------------------------------------- building

    def _build(self, view: View) -> None:
        scene = self.server.scene
        if self.figure >= 0:
            self.handles.remove()
        for node in self.parts:
            node.remove()
        self.parts = tuple(scene.add_frame(name, show_axes=False) for name in ("/handles", "/overlays", "/blob"))
        self.figure, self.last_root = view.figure, None
        self.size = extent(view.skeleton)
        self.up = view.skeleton.up_vector
        self.dressed = has_body(view.skeleton)
        take = view.timeline.take
        first = view.skeleton.rest if take is None else take.poses[0]
        self.front = front_of(view.skeleton, ps.forward(view.skeleton, first))  # and stays while it is posed
        self._draw(view)
        self.floor = floor_height(view.skeleton, view.frames, surface_points(self.look), self.up)
        add_ground(scene, view.skeleton, self.size, shadow_opacity=0.28, position=self.floor * self.up)
        for k in range(3):  # a soft shadow below the figure, for pages without real shadows
            scene.add_mesh_simple(
                f"/blob/{k}", *disc(0.16 * self.size * (1.0 - 0.28 * k), self.up), color=(70, 80, 95), opacity=0.07,
                side="double", cast_shadow=False, receive_shadow=False,
                position=(0.0015 + 0.0008 * k) * self.size * self.up,
            )  # fmt: skip
        self.overlays = Overlays(scene, self.size)
        covered = bool(self.drawn.covers) or np.mean([part.flat for part in self.look.rigid]) > 0.5
        surface = surface_points(self.look) if covered and not self.dressed else None
        self.handles = HandleNodes(
            scene, self.session, size=self.size, up=self.up, dressed=self.dressed, surface=surface
        )
        self._aim_camera(view)

    def _draw(self, view: View) -> None:
        """Draw the figure in place of the previous one."""
        for drawn in (self.drawn, *self.ghosts.values()):
            drawn.remove()
        self.ghosts: dict[str, FigureNodes] = {}
        self.count += 1
        self.look = self._look(view, self.detail)
        self.drawn = draw(self.server.scene, f"/figure/{self.count}", self.look)
        self.highlight = LimitHighlight(self.server.scene, self.drawn, self.size)
        self.server.forget_removed()

    def _look(self, view: View, detail: float) -> Any:
        return appearance_of(view.skeleton, self.session.scene, detail=detail)

    def _aim_camera(self, view: View) -> None:
        drawn = [
            points[:: max(len(points) // 200, 1)] @ view.frames.rotation_matrix(body).T + view.frames.position(body)
            for body, points in surface_points(self.look).items()
        ]
        bodies = np.concatenate([*drawn, *seen_markers(view), *self._path(view)])
        middle = (np.min(bodies, axis=0) + np.max(bodies, axis=0)) / 2.0
        aside = 0.42 * np.cross(self.up, self.front)
        away = middle + framed(bodies - middle, self.front + aside + 0.20 * self.up, self.up)
        if (view_of := self.session.opening_view) is not None:
            away, middle = view_of["position"], view_of["look_at"]
        self.server.initial_camera.position, self.server.initial_camera.look_at = tuple(away), tuple(middle)
        self.server.initial_camera.fov = FOV
        for client in self.server.get_clients().values():
            client.camera.position, client.camera.look_at = tuple(away), tuple(middle)

    def _path(self, view: View) -> list[np.ndarray]:
        """Return places (T, 3) [m] of the root during a take that stays near; else the cameras follow the figure."""
        take, self.follow = view.timeline.take, False
        if take is None:
            return []
        some = take.poses[np.unique(np.linspace(0, len(take) - 1, 24).astype(int))]
        places = np.atleast_2d(ps.forward(view.skeleton, some).position(root_joint(view.skeleton).name))
        self.follow = bool(np.ptp(places, axis=0).max() > NEAR * self.size)
        return [] if self.follow else [places]

    def _show_blob(self, view: View) -> None:
        place = np.asarray(view.frames.position(root_joint(view.skeleton).name), dtype=float)
        self.under.move([self.parts[2]], (place * (1.0 - self.up) + self.floor * self.up)[None])

    # ----------------------------------------------------------------------------------------------------- ghosts

    def _show_ghosts(self, view: View) -> None:
        poses: dict[str, tuple[np.ndarray, tuple]] = {}
        if view.ghost is not None:
            poses["ghost"] = (view.ghost, GHOST)
        line = view.timeline
        if line.onion and not line.playing and (line.keys or line.take is not None):
            before = [k for k in line.keys if k < line.shown] or [line.shown - STEP] * (line.take is not None)
            after = [k for k in line.keys if k > line.shown] or [line.shown + STEP] * (line.take is not None)
            for name, tint, frames in (("past", PAST, [max(before)] if before else []),
                                       ("future", FUTURE, [min(after)] if after else [])):  # fmt: skip
                pose = line.at(frames[0]) if frames and 0 <= frames[0] < line.count else None
                if pose is not None:
                    poses[name] = (pose, tint)
        shown = {name: (ps.forward(view.skeleton, pose), tint) for name, (pose, tint) in poses.items()}
        shown = {name: pair for name, pair in shown.items() if self._apart(view, pair[0])}
        for name, ghost in self.ghosts.items():
            ghost.visible(name in shown)
        for name, (frames, tint) in shown.items():
            if name not in self.ghosts:
                self.count += 1
                look = self._look(view, UNSEEN * self.detail)
                self.ghosts[name] = draw(self.server.scene, f"/{name}/{self.count}", look, tint=tint, opacity=0.3)
            self.ghosts[name].show(frames)

    def _apart(self, view: View, frames: Any) -> bool:
        """Return whether a ghost is distinct from the figure: coincident surfaces would flicker."""
        names = view.skeleton.names
        away = np.linalg.norm(frames.many(names)[0] - view.frames.many(names)[0], axis=1)
        return bool(away.max() > 0.01 * self.size)


def framed(points: np.ndarray, direction: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Return where (3,) [m] a camera in some direction (3,) of the origin sees points (N, 3) [m] beside the panel."""
    back = direction / np.linalg.norm(direction)
    right = np.cross(up, back) / np.linalg.norm(np.cross(up, back))
    half = np.tan(0.5 * FOV) * np.array(CLEAR)
    sides = np.abs(points @ np.stack([right, np.cross(back, right)], axis=1)) / half
    return back * float((points @ back + sides.max(axis=1)).max())


def floor_height(skeleton: ps.Skeleton, frames: Any, points: dict[str, np.ndarray], up: np.ndarray) -> float:
    """Return the height of the floor [m]: 0, or below a figure that is fixed in the air, such as a humanoid of a URDF.

    Args:
        skeleton: The figure.
        frames: Its frames as it opens.
        points: (V, 3) [m] of the surface of each body, in its frame.
        up: (3,) the axis.
    """
    fixed = points if root_joint(skeleton).motion.size == 0 else {}
    heights = [
        own @ (frames.rotation_matrix(body).T @ up) + frames.position(body) @ up
        for body, own in fixed.items()
        if len(own)
    ]
    lowest = min((float(height.min()) for height in heights), default=0.0)
    return lowest if lowest < -SUNK * extent(skeleton) else 0.0


def seen_markers(view: View) -> list[np.ndarray]:
    """Return the positions (M, 3) [m] of the visible markers at this frame, if there are any."""
    places = marker_places(view)
    seen = places[np.isfinite(places).all(axis=1)] if len(places) else places
    return [seen] if len(seen) else []


def sky(rows: int = 64) -> np.ndarray:
    """Return a picture (rows, 2, 3) of a bright sky that fades into haze below the horizon."""
    share = np.minimum(1.6 * np.linspace(0.0, 1.0, rows), 1.0)[:, None]
    column = np.array(SKY) + share * (np.array(HAZE) - np.array(SKY))
    return np.repeat(column[:, None], 2, axis=1).astype(np.uint8)
