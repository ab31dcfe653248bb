"""The handles in the scene: rings and balls to drag and click, and the gizmo of the selected one."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import viser

from posable.studio.meshes import matrices_wxyz, moved, quaternions, ring, sphere
from posable.studio.session import Session
from posable.studio.state import View
from posable.studio.viser_adapter import NodeUpdater

HELD, PINNED, FREE, ELBOW, CHOSEN = (46, 196, 182), (255, 159, 28), (170, 178, 190), (155, 114, 207), (239, 71, 111)
REACH = 1.50  # [m] from pelvis to fingertip of a person of 1.80 m: scale of the handles
GIZMO = "/gizmo"


class HandleStyle(NamedTuple):
    """How a handle looks."""

    shape: str
    color: tuple[int, int, int]
    opacity: float


class HandleNodes:
    """The handles of one figure, synchronised with the session, which is notified when they are dragged."""

    def __init__(
        self, scene: viser.SceneApi, session: Session, *, size: float, up: np.ndarray, dressed: bool, thick: float = 1.0
    ):
        self.scene, self.session = scene, session
        self.thick = thick  # scale of balls, so that they protrude from a skin
        self.size, self.up, self.dressed = size, up, dressed
        self.nodes: dict[str, Any] = {}
        self.looks: dict[str, HandleStyle] = {}
        self.grabbing: dict[str, np.ndarray] = {}  # by dragged body: from the pointer to the handle (3,) [m]
        self.holders: dict[str, tuple[int | None, str]] = {}  # the page that drags it, and the handle
        self.gizmo: tuple[tuple[str, str], Any] | None = None
        self.round, self.flat = NodeUpdater(), NodeUpdater()  # balls need no orientation

    def show(self, view: View) -> None:
        """Update the handles to a view."""
        self._dress(view)
        self._move(view)
        self._show_gizmo(view)

    def remove(self) -> None:
        """Remove all nodes."""
        for node in self.nodes.values():
            node.remove()
        if self.gizmo is not None:
            self.gizmo[1].remove()

    def let_go(self, client: int) -> None:
        """End the drags of a page that has disconnected."""
        for node in [node for node, (holder, _) in self.holders.items() if holder == client]:
            self._drop(node)

    def _take(self, node: str, handle: str, client: int | None, offset: np.ndarray) -> None:
        self.grabbing[node], self.holders[node] = offset, (client, handle)

    def _drop(self, node: str) -> None:
        self.grabbing.pop(node, None)
        _, handle = self.holders.pop(node, (0, None))
        if handle is not None:
            self.session.release(handle)

    def _dress(self, view: View) -> None:
        wanted = {h.body: self._look(view, h) for h in view.handles}
        for name in view.elbows:
            wanted.setdefault(name, HandleStyle("elbow", CHOSEN if name in view.selection else ELBOW, 0.85))
        if wanted == self.looks:
            return
        for name in [name for name in self.nodes if wanted.get(name) != self.looks.get(name)]:
            if name not in self.grabbing or name not in wanted:
                self.nodes.pop(name).remove()
                self.looks.pop(name)
        for name, look in wanted.items():
            if name not in self.nodes:
                self.nodes[name], self.looks[name] = self._add(name, look), look

    def _look(self, view: View, handle: Any) -> HandleStyle:
        color = CHOSEN if handle.body in view.selection else {"pinned": PINNED, "held": HELD, "free": FREE}[handle.hold]
        kind = handle.body.partition(".")[0]
        shape = kind if kind in ("pelvis", "head", "foot", "hand") else "end"
        return HandleStyle(shape, color, 0.35 if handle.hold == "free" else 0.9)

    def _move(self, view: View) -> None:
        names = list(self.nodes)
        if not names:
            return
        positions, turns = view.frames.many(names)
        targets = {h.body: h for h in view.handles}
        for k, name in enumerate(names):
            handle = targets.get(name)
            if handle is not None and (handle.hold == "pinned" or view.active == name):
                turns[k] = handle.rotation
                if handle.mode != "orientation":
                    positions[k] = handle.position
        ball = np.array([self._is_ball(name) for name in names])
        nodes = np.array(list(self.nodes.values()), dtype=object)
        self.round.move(list(nodes[ball]), positions[ball])
        self.flat.move(list(nodes[~ball]), positions[~ball], quaternions(turns[~ball]))

    def _is_ball(self, name: str) -> bool:
        shape = self.looks[name].shape
        return shape in ("hand", "end") or (shape == "elbow" and not self.dressed)

    def _add(self, name: str, look: HandleStyle) -> Any:
        unit = self.size / REACH  # 1 for a person of 1.80 m
        _x, y, z = np.eye(3)
        if look.shape == "pelvis":
            mesh = ring(0.205 * unit, 0.009 * unit, self.up)
        elif look.shape == "head":
            mesh = moved(ring(0.095 * unit, 0.007 * unit, y), 0.140 * unit * y - 0.085 * unit * z)
        elif look.shape == "foot":
            mesh = moved(ring(0.145 * unit, 0.008 * unit, y), 0.035 * unit * z + 0.010 * unit * y)
        elif look.shape == "elbow" and self.dressed:
            mesh = ring((0.082 if name.startswith("knee") else 0.060) * unit, 0.0065 * unit, y)
        else:
            radius = 0.026 if look.shape == "elbow" else 0.050 if look.shape == "hand" else 0.034
            mesh = sphere(radius * self.thick * unit)
        node = self.scene.add_mesh_simple(
            f"/handles/{quote(name, safe='')}",
            *mesh,
            color=look.color,
            opacity=look.opacity,
            cast_shadow=False,
            receive_shadow=False,
        )
        node.on_drag("left")(self._dragging(name))
        node.on_click(self._clicking(name))
        node.on_click(modifier="cmd/ctrl")(self._adding(name))
        return node

    def _dragging(self, name: str) -> Any:
        async def follow(event: viser.SceneNodeDragEvent) -> None:
            pointer = np.array(event.end_position)
            if event.phase == "start":
                offset = np.array(event.target.position) - np.array(event.start_position)
                self._take(name, name, event.client_id, offset)
            offset = self.grabbing.get(name)
            if offset is not None:
                self.session.drag(name, pointer + offset)
            if event.phase == "end":
                self._drop(name)

        return follow

    def _clicking(self, name: str) -> Any:
        def choose(_: Any) -> None:
            self.session.select(None if self.session.selected == name else name)

        return choose

    def _adding(self, name: str) -> Any:
        def add(_: Any) -> None:
            self.session.select(name, add=True)

        return add

    def _show_gizmo(self, view: View) -> None:
        """Show arrows and circles on the selected handle, for moves along an axis and for rotation."""
        handle = next((h for h in view.handles if h.body == view.selected), None)
        look = None if handle is None else (handle.body, handle.mode)
        if self.gizmo is not None and self.gizmo[0] != look:
            self._drop(GIZMO)  # its end will not be heard
            self.gizmo[1].remove()
            self.gizmo = None
        if handle is None or look is None:
            return
        if self.gizmo is None:
            node = self.scene.add_transform_controls(
                GIZMO, scale=0.16 * self.size, line_width=3.0, depth_test=False, opacity=0.9,
                disable_rotations=handle.mode == "position",
                disable_axes=handle.mode == "orientation", disable_sliders=handle.mode == "orientation",
            )  # fmt: skip
            node.on_update(self._turning(handle.body))
            self.gizmo = (look, node)
        if GIZMO not in self.grabbing:
            place = handle.position if handle.mode != "orientation" else view.frames.position(handle.body)
            self.gizmo[1].position = place
            self.gizmo[1].wxyz = quaternions(handle.rotation[None])[0]

    def _turning(self, name: str) -> Any:
        async def follow(event: viser.TransformControlsEvent) -> None:
            if event.phase == "start":
                self._take(GIZMO, name, event.client_id, np.zeros(3))
            if GIZMO in self.grabbing:  # a move may still come after the end, and would begin a drag that nobody ends
                self.session.drag(name, event.target.position.copy(), matrices_wxyz(event.target.wxyz))
            if event.phase == "end":
                self._drop(GIZMO)

        return follow
