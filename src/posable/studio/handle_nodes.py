"""The handles in the scene: rings and balls to drag and click, and the gizmo of the selected one."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import viser
from scipy.spatial.transform import Rotation

import posable as ps
from posable.studio.body_goals import plan_of
from posable.studio.meshes import Shape, moved, quaternions, ring, sphere
from posable.studio.overlays import bone_of
from posable.studio.session import Session
from posable.studio.state import View
from posable.studio.viser_adapter import NodeUpdater

HELD, PINNED, FREE, ELBOW, CHOSEN = (46, 196, 182), (255, 159, 28), (170, 178, 190), (155, 114, 207), (239, 71, 111)
REACH = 1.50  # [m] from pelvis to fingertip of a person of 1.80 m: scale of the handles
GIZMO = "/gizmo"
SHORT, SLICE, THICKEST = 0.02, 0.03, 0.14  # relative to the figure: of a bone, and of the part of a limb at a handle


class Ring(NamedTuple):
    """A ring around the human body, its axis along y of its joint, and the ball inside that also takes hold [m]."""

    radius: float
    thickness: float
    centre: tuple[float, float, float]
    grip: float  # radius of the ball
    inside: tuple[float, float, float]  # its centre


RINGS = {  # of a person of 1.80 m
    "pelvis": Ring(0.205, 0.009, (0.0, 0.0, 0.0), 0.150, (0.0, 0.0, 0.0)),
    "head": Ring(0.095, 0.007, (0.0, 0.140, -0.085), 0.110, (0.0, 0.020, -0.080)),
    "foot": Ring(0.145, 0.008, (0.0, 0.010, 0.035), 0.080, (0.0, 0.0, 0.020)),
    "elbow": Ring(0.060, 0.0065, (0.0, 0.0, 0.0), 0.045, (0.0, 0.0, 0.0)),
    "knee": Ring(0.082, 0.0065, (0.0, 0.0, 0.0), 0.061, (0.0, 0.0, 0.0)),
}


class HandleStyle(NamedTuple):
    """How a handle looks."""

    shape: str
    color: tuple[int, int, int]
    opacity: float


class Hold(NamedTuple):
    """A page that drags a handle: its client, the handle, and the way from the pointer to the handle (3,) [m]."""

    client: int | None
    handle: str
    offset: np.ndarray


class Girth(NamedTuple):
    """How thick a limb is at a handle: radius [m] across an axis (3,) of the world."""

    radius: float
    axis: np.ndarray


def girth_at(
    skeleton: ps.Skeleton, frames: Any, points: dict[str, np.ndarray], name: str, up: np.ndarray, size: float
) -> Girth:
    """Return the girth of a figure at a joint or site.

    Args:
        skeleton: The figure.
        frames: Its frames.
        points: (V, 3) [m] of the surface of each body, in its frame.
        name: The joint or site.
        up: (3,) the axis at the root and at the pelvis.
        size: [m] of the figure.
    """
    joint = skeleton.joint(skeleton.carrier(name))
    place, axis, before = frames.position(name), up, np.zeros(3)
    plan = plan_of(skeleton)
    if joint.parent is not None and (plan is None or joint.name != plan.roles.get("pelvis")):
        along = frames.rotation_matrix(joint.name) @ np.array(bone_of(skeleton, joint.name))
        before = place - frames.position(joint.parent)
        axis = along if np.linalg.norm(along) > SHORT * size else before if np.linalg.norm(before) > 1e-6 else up
    above = [other for other in skeleton.path_to(joint.name)[:-1] if other in points]
    near = [joint.name, *above[-1:]]  # the surfaces that meet there: its own and the next one above
    axis = axis / np.linalg.norm(axis)
    parts = [np.zeros((0, 3))]
    for body in (body for body in near if body in points):
        away = points[body] @ frames.rotation_matrix(body).T + frames.position(body) - place
        if body != joint.name:  # of a bent limb, not the whole length of the bone above
            away = away[np.abs(away @ before) <= SLICE * size * np.linalg.norm(before)]
        parts.append(away)
    away = np.concatenate(parts)
    along = away @ axis
    across = np.sqrt(np.maximum(np.einsum("ij,ij->i", away, away) - along**2, 0.0))
    met = across[(np.abs(along) < SLICE * size) & (across < THICKEST * size)]
    return Girth(float(np.percentile(met, 90)) if len(met) > 3 else 0.0, axis)


class HandleNodes:
    """The handles of one figure, synchronised with the session, which is notified when they are dragged."""

    def __init__(
        self, scene: viser.SceneApi, session: Session, *, size: float, up: np.ndarray, dressed: bool,
        surface: dict[str, np.ndarray] | None = None,
    ):  # fmt: skip
        self.scene, self.session = scene, session
        self.surface = surface  # `surface_points` of a figure with a body mesh, around which handles are placed
        self.size, self.up, self.dressed = size, up, dressed
        self.nodes: dict[str, Any] = {}
        self.looks: dict[str, HandleStyle] = {}
        self.holds: dict[str, Hold] = {}  # by dragged node
        self._holding = threading.RLock()  # no target may follow the end of its drag, whichever thread ends it
        self.grips: dict[str, Shape] = {}  # balls inside rings, so that pressing the limb takes hold as well
        self.grip_nodes: dict[str, Any] = {}
        self.rings: set[str] = set()  # handles that are rings around a limb, because a ball would be inside it
        self.gizmo: tuple[tuple[str, str], Any] | None = None
        self.round, self.flat = NodeUpdater(), NodeUpdater()  # balls need no orientation

    def show(self, view: View) -> None:
        """Update the handles to a view."""
        self.frames = view.frames
        self._update_nodes(view)
        self._update_grips(view)
        self._move_nodes(view)
        self._show_gizmo(view)

    def remove(self) -> None:
        """End all drags and remove all nodes."""
        for node in list(self.holds):
            self._release(node)
        for node in self.nodes.values():
            node.remove()
        if self.gizmo is not None:
            self.gizmo[1].remove()

    def release_client(self, client: int) -> None:
        """End the drags of a page that has disconnected."""
        for node in [node for node, hold in list(self.holds.items()) if hold.client == client]:
            self._release(node)

    def _grab(self, node: str, hold: Hold) -> None:
        """Let a page drag a node, unless another page does."""
        with self._holding:
            free = node not in self.holds or self.holds[node].client == hold.client
            if free:
                self._release(node)
                self.holds[node] = hold
        if not free:
            self.session.notify(f"{hold.handle} is being dragged on another page.")

    def _drag_to(self, node: str, client: int | None, place: np.ndarray, rotation: np.ndarray | None = None) -> bool:
        """Drag a node to where the pointer of a page is (3,) [m]; return whether this page holds it."""
        with self._holding:
            hold = self.holds.get(node)
            if hold is None or hold.client != client:
                return False
            self.session.drag(hold.handle, place + hold.offset, rotation)
            return True

    def _release(self, node: str) -> None:
        with self._holding:
            hold = self.holds.pop(node, None)
            if hold is not None:
                self.session.release(hold.handle)

    def _update_nodes(self, view: View) -> None:
        wanted = {h.body: self._style_of(view, h) for h in view.handles}
        for name in view.elbows:
            wanted.setdefault(name, HandleStyle("elbow", CHOSEN if name in view.selection else ELBOW, 0.85))
        for name in [
            name for name, look in self.looks.items() if name not in wanted or wanted[name].shape != look.shape
        ]:
            self._release(name)  # its end may not be reported
            self.nodes.pop(name).remove()  # its grip goes with it
            self.looks.pop(name)
            self.grips.pop(name, None)
            self.grip_nodes.pop(name, None)
        for name, look in wanted.items():
            if name not in self.nodes:
                self.nodes[name], self.looks[name] = self._add(name, look), look
            elif self.looks[name] != look:  # the same node: a page may just be pressing on it
                self.nodes[name].color, self.nodes[name].opacity = look.color, look.opacity
                self.looks[name] = look

    def _update_grips(self, view: View) -> None:
        """Add the grips, except that of the selected handle, which would cover the arrows of its gizmo."""
        for name, shape in self.grips.items():
            wanted = name != view.selected or name in self.holds
            if wanted and name not in self.grip_nodes:
                look = self.looks[name]
                path = f"{self._path(name)}/grip"  # a child of the ring, so that it moves with it
                self.grip_nodes[name] = self._add_draggable(path, name, shape, look.color, 0.0)
            elif not wanted and name in self.grip_nodes:
                self.grip_nodes.pop(name).remove()

    @staticmethod
    def _path(name: str) -> str:
        return f"/handles/{quote(name, safe='')}"

    def _style_of(self, view: View, handle: Any) -> HandleStyle:
        color = CHOSEN if handle.body in view.selection else {"pinned": PINNED, "held": HELD, "free": FREE}[handle.hold]
        kind = handle.body.partition(".")[0]
        shape = kind if self.dressed and kind in ("pelvis", "head", "foot", "hand") else "end"
        return HandleStyle(shape, color, 0.35 if handle.hold == "free" else 0.9)

    def _move_nodes(self, view: View) -> None:
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
        return name not in self.rings and (shape in ("hand", "end") or (shape == "elbow" and not self.dressed))

    def _add(self, name: str, look: HandleStyle) -> Any:
        radius = {"elbow": 0.026, "hand": 0.050}.get(look.shape, 0.034) * self.size / REACH
        mesh, grip = self._ring_of(name, look.shape) or self._ball_or_ring(name, radius)
        if grip is not None:
            self.grips[name] = grip
        return self._add_draggable(self._path(name), name, mesh, look.color, look.opacity)

    def _ring_of(self, name: str, shape: str) -> tuple[Shape, Shape] | None:
        """Return the ring of a handle around the human body, and the ball inside it; None where there is none."""
        if not self.dressed or shape not in RINGS:
            return None
        unit, look = self.size / REACH, RINGS["knee" if name.startswith("knee") else shape]
        outer = ring(look.radius * unit, look.thickness * unit, np.array([0.0, 1.0, 0.0]))
        return moved(outer, unit * np.array(look.centre)), moved(sphere(look.grip * unit), unit * np.array(look.inside))

    def _add_draggable(self, path: str, name: str, mesh: Shape, color: tuple[int, int, int], opacity: float) -> Any:
        """Add a surface that drags and selects a handle."""
        node = self.scene.add_mesh_simple(
            path, *mesh, color=color, opacity=opacity, cast_shadow=False, receive_shadow=False
        )
        node.on_drag("left")(self._drag_callback(name))
        node.on_click(self._click_callback(name))
        node.on_click(modifier="cmd/ctrl")(self._ctrl_click_callback(name))
        return node

    def _ball_or_ring(self, name: str, radius: float) -> tuple[Shape, Shape | None]:
        """Return a ball of some radius [m], or where the limb would hide it, a ring around the limb.

        The second value is an invisible ball inside the ring, or None: pressing the limb grabs the handle.
        """
        if self.surface is None:
            return sphere(radius), None
        girth = girth_at(self.session.skeleton, self.frames, self.surface, name, self.up, self.size)
        if girth.radius < 0.7 * radius:
            return sphere(radius), None
        self.rings.add(name)
        axis = self.frames.rotation_matrix(name).T @ girth.axis
        return ring(1.08 * girth.radius + 0.008 * self.size, 0.006 * self.size, axis), sphere(0.75 * girth.radius)

    def _drag_callback(self, name: str) -> Any:
        async def follow(event: viser.SceneNodeDragEvent) -> None:
            node = self.nodes.get(name)
            if event.phase == "start" and node is not None:
                self._grab(name, Hold(event.client_id, name, node.position - np.array(event.start_position)))
            held = self._drag_to(name, event.client_id, np.array(event.end_position))
            if held and event.phase == "end":
                self._release(name)

        return follow

    def _click_callback(self, name: str) -> Any:
        def choose(_: Any) -> None:
            self.session.select(None if self.session.selected == name else name)

        return choose

    def _ctrl_click_callback(self, name: str) -> Any:
        def add(_: Any) -> None:
            self.session.select(name, add=True)

        return add

    def _show_gizmo(self, view: View) -> None:
        """Show arrows and circles on the selected handle, for moves along an axis and for rotation."""
        handle = view.selected_handle
        look = None if handle is None else (handle.body, handle.mode)
        if self.gizmo is not None and self.gizmo[0] != look:
            self._release(GIZMO)
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
            node.on_update(self._gizmo_callback(handle.body))
            self.gizmo = (look, node)
        if GIZMO not in self.holds:
            place = handle.position if handle.mode != "orientation" else view.frames.position(handle.body)
            self.gizmo[1].position = place
            self.gizmo[1].wxyz = quaternions(handle.rotation[None])[0]

    def _gizmo_callback(self, name: str) -> Any:
        async def follow(event: viser.TransformControlsEvent) -> None:
            if event.phase == "start":
                self._grab(GIZMO, Hold(event.client_id, name, np.zeros(3)))
            turn = Rotation.from_quat(event.target.wxyz, scalar_first=True).as_matrix()
            held = self._drag_to(GIZMO, event.client_id, event.target.position.copy(), turn)
            if held and event.phase == "end":
                self._release(GIZMO)

        return follow
