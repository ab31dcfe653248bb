"""The document: the figure on screen as plain data, with undo and redo, and the listeners that display it.

The tools (`player.py`, `pose_tools.py`, `remedies.py`) change a document. `session.py` adds drags, and assembles the
tools.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import posable as ps
from posable.studio import project
from posable.studio.contacts import Contact, ContactDetector
from posable.studio.dragging import ControlledDrag, DragResult, DragSolver, Settings
from posable.studio.files import Origin, first_seen, upright, with_take, without_paths
from posable.studio.handles import Handle, checked_target, default_handles, is_number, nearest_to_ray, opening_pose
from posable.studio.limbs import LimbView, ends_of, find_limbs, limb_view
from posable.studio.messages import limits_met, strip_control
from posable.studio.state import History, State, View
from posable.studio.timeline import Timeline

ONE_CHANGE = 1.5  # [s] within which steps of one slider are merged into one undo
FIGURES = 3  # figures that undo can return to


class Document:
    """A figure with its pose, handles, timeline and history. Methods may be called from any thread.

    Args:
        source: The figure or file contents to open; the human by default.
        settings: How to solve.
    """

    def __init__(self, source: ps.Scene | ps.Skeleton | None = None, *, settings: Settings | None = None):
        self.lock = threading.RLock()  # guards everything below
        self.wake = threading.Event()
        self._listeners: list[Callable[[View], None]] = []
        self._notified: list[Callable[[str, str], None]] = []
        self._views = 0
        self.history: History[State] = History()
        self.dragging: dict[str, np.ndarray] = {}  # the bodies being dragged, with their positions at the start
        self.settings = settings or Settings()
        self.figure = 0
        self.camera: Any = None  # the last view of a page
        self.opening_view: Any = None  # the view of the project opened last, None if it has none
        self.contacts = True  # whether contacts are detected
        self.can_drag = self.ready = True  # False while a worker compiles what drags need, and all that follows
        self.library: dict[str, dict[str, float]] = {}
        self._revision = self._newest = self._saved = self._kept = 0
        self._keeps_take_pose = False  # whether drags stay near the pose of a take instead of relaxing
        first = source if source is not None else ps.figures.human()
        self.open(first, origin=Origin("human", figure="human") if source is None else None)
        self._saved = self._kept = self._revision

    # ----------------------------------------------------------------------------------------------------- what is open

    def open(
        self, source: ps.Scene | ps.Skeleton, *, origin: Origin | None = None, kept: dict[str, Any] | None = None
    ) -> None:
        """Open another figure, with its take if it has one. This can be undone.

        Args:
            source: The figure.
            origin: Where it came from.
            kept: The data of a project.
        """
        scene = source if isinstance(source, ps.Scene) else ps.Scene(skeleton=source, name=source.name)
        with self.at_rest():
            if not scene.has_skeleton and scene.markers is None:
                raise ps.PosableError("expected a file with a figure, a motion or markers, got none of them")
            if self.figure:
                self.push_undo()
            if not scene.has_skeleton:  # markers only: shown beside the current figure, with its up axis
                markers = upright(scene.markers, self.skeleton)
                scene = self.scene.replace(motion=None, markers=markers, name=scene.name)
            skeleton = scene.skeleton
            take = scene.motion if scene.motion is not None and len(scene.motion) else None
            fps = take.fps if take is not None else scene.markers.fps if scene.markers is not None else 30.0
            length = len(scene.markers) if scene.markers is not None else 120
            timeline = Timeline(
                skeleton, take, scene.markers, fps=fps, length=length,
                frame=first_seen(scene.markers) if take is None else 0.0,
            )  # fmt: skip
            # the rest pose of a take is often a T-pose, which is no pose to relax to
            if take is not None and self.settings.home == "relaxed":
                self.settings, self._keeps_take_pose = replace(self.settings, home="drag"), True
            elif take is None and self._keeps_take_pose:
                self.settings, self._keeps_take_pose = replace(self.settings, home="relaxed"), False
            pose = opening_pose(skeleton, scene) if take is None else np.array(take.poses[0], dtype=float)
            frames = ps.forward(skeleton, pose)
            rest = pose.copy() if take is None else np.array(skeleton.rest)
            limbs = find_limbs(skeleton)
            state = State(
                scene, origin or Origin(scene.name or skeleton.name), self.figure + 1, pose,
                default_handles(skeleton, frames, limbs), timeline, rest,
                {}, self.library, self.settings, self._newest + 1,
            )  # fmt: skip
            if kept is not None:
                state = project.restore(state, kept, limbs)
            if self.figure:
                self.camera = self.opening_view = project.camera_of(kept)
            self.figure += 1
            self._newest += 1
            self.restore(state)
            self._saved = self._kept = self._revision  # not modified yet
            self.history.keep(FIGURES, lambda state: state.scene)
        self.publish()

    def open_take(self, name: str) -> bool:
        """Open another take of the file. This can be undone."""
        if name not in self.scene.motions:
            return False
        self.open(with_take(self.scene, name), origin=self.origin)
        return True

    @property
    def take_name(self) -> str | None:
        """Name of the take among those of the file."""
        return next((name for name, motion in self.scene.motions.items() if motion is self.timeline.take), None)

    def restore(self, state: State) -> None:
        """Make a state the current one."""
        if state.scene is not getattr(self, "scene", None):
            self.scene, self.origin, self.skeleton = state.scene, state.origin, state.timeline.skeleton
            self.figure = max(self.figure, state.figure) + (state.figure != self.figure)
            self.limbs = find_limbs(self.skeleton)
            self.contact_detector = ContactDetector(self.skeleton, self.scene, self._contacts_ready)
            self.selected: str | None = None
            self.selection: tuple[str, ...] = ()
        self.timeline, self.handles = state.timeline, state.handles
        self.rest, self.strength, self.library = state.rest, state.strength, state.library
        self.blend = state.blend
        self.settings, self._revision = state.settings, state.revision
        self.set_figure_pose(state.pose)
        self.drag_solver = self._new_drag_solver()
        self.active: str | None = None
        self.dragging = {}
        self.companions: dict[str, dict[str, np.ndarray]] = {}  # by dragged body: those that move with it, from where
        self.dragged: tuple[str, ...] = ()  # the handles of the last result
        self.controlled_drag: ControlledDrag | None = None  # if drags respect velocity limits
        self.curves: dict[str, np.ndarray] = {}
        self.forget_result()
        self._last_edit: str | None = None
        self._last_target = self._last_edit_time = 0.0
        self.stale = self._busy = True

    @property
    def dirty(self) -> bool:
        """Whether there are unsaved changes."""
        return self._revision != self._saved

    def _new_drag_solver(self, settings: Settings | None = None) -> DragSolver:
        if settings is None:  # natural poses wait until they are compiled
            settings = self.settings if self.ready else replace(self.settings, natural=False)
        return DragSolver(self.skeleton, settings, self.rest, self.strength)

    # --------------------------------------------------------------------------------------------------------- the pose

    def set_figure_pose(self, pose: np.ndarray) -> None:
        """Put the figure into a pose (n,); handles stay."""
        self.pose = np.array(pose)
        self.frames = ps.forward(self.skeleton, self.pose)

    def snap_handles(self) -> None:
        """Move every handle to where its body is."""
        self.handles = tuple(h.at(self.frames) for h in self.handles)
        self.active, self.stale = None, True

    def put_pose(self, pose: np.ndarray) -> None:
        """Set a pose that was not made by a drag."""
        self.set_figure_pose(pose)
        self.snap_handles()
        self.timeline = replace(self.timeline.posed(self.pose), playing=False)
        self.forget_result()

    def forget_result(self) -> None:
        """Forget the result of the last drag and what was found about it: the pose was made by something else."""
        self.result: DragResult | None = None
        self.ghost: DragResult | None = None
        self.start = self.pose
        self.blocking: tuple[Any, ...] = ()
        self.reasons: tuple[Any, ...] = ()
        self.offers: tuple[Any, ...] = ()  # remedies that are offered

    def apply_pose(self, what: str | None, pose: np.ndarray) -> bool:
        """Set a pose (n,) made by a tool, as one step of undo; `what` as in `push_undo`. No drag is in progress."""
        if not np.isfinite(pose).all():
            return False
        self.push_undo(what)
        self.put_pose(np.asarray(pose))
        self._busy = True
        self.publish()
        return True

    def show_frame(self) -> None:
        """Show the pose of the current frame, if there is one."""
        pose = self.timeline.at(self.timeline.frame)
        if pose is not None:
            self.set_figure_pose(pose)
            self.snap_handles()
            self.forget_result()
        self.offers = ()

    def set_dof(self, name: str, value: float) -> bool:
        """Set one degree of freedom [rad, m] by forward kinematics, clipped to its limits if they are on."""
        if name not in self.skeleton.dof_names or not is_number(value, -1e6, 1e6):
            return False
        with self.at_rest():
            dof = self.skeleton.dof(name)
            if self.settings.limits:
                value = float(np.clip(value, self.skeleton.lower[dof], self.skeleton.upper[dof]))
            if abs(self.pose[dof] - value) < 1e-12:
                return True
            self.push_undo(f"dof {name}")
            pose = self.pose.copy()
            pose[dof] = value
            self.put_pose(pose)
            self._busy = True
        self.publish()
        return True

    def set_pose(self, pose: Any) -> bool:
        """Set the pose (n,) [rad, m]."""
        values = np.array(pose, dtype=float)
        if values.shape != (self.skeleton.size,) or not np.isfinite(values).all():
            return False
        with self.change():
            self.put_pose(values)
        return True

    def reset(self) -> None:
        """Return to the rest pose and the initial handles, each held as it is now."""
        with self.change():
            self.put_pose(self.rest.copy())
            own = {h.body for h in self.handles}
            lost = [h for h in default_handles(self.skeleton, self.frames, self.limbs) if h.body not in own]
            self.handles = (*self.handles, *lost)

    def set_rest(self, *, own: bool = False) -> None:
        """Make the current pose the rest pose that drags relax to; with `own`, restore the figure's."""
        with self.change(rest=False):
            self.rest = np.array(self.skeleton.rest if own else self.pose)

    # ---------------------------------------------------------------------------------------------------- handles

    def select(self, body: str | None, *, add: bool = False) -> bool:
        """Select a joint or site for the panels, or nothing; with `add`, extend the selection."""
        if body is not None and body not in (*self.skeleton.names, *self.skeleton.site_names):
            return False
        with self.lock:
            if not add or body is None:
                self.selection = () if body is None else (body,)
            elif body in self.selection:
                self.selection = tuple(name for name in self.selection if name != body)
            elif any(h.body == body for h in self.handles):
                self.selection = (*self.selection, body)
            self.selected = self.selection[-1] if self.selection else None
        self.publish()
        return True

    def remove_handle(self, body: str) -> bool:
        """Remove a handle."""
        if all(h.body != body for h in self.handles):
            return False
        with self.change(rest=False):
            self.handles = tuple(h for h in self.handles if h.body != body)
            self.selected = None if self.selected == body else self.selected
            self.active = None
        return True

    def pick(self, origin: Any, direction: Any) -> str | None:
        """Select and return the joint or site nearest to a ray, if one is near; of several, the one in front."""
        target = checked_target(origin, None), checked_target(direction, None)
        if target[0] is None or target[1] is None:
            return None
        names = (*self.skeleton.names, *self.skeleton.site_names)
        body = nearest_to_ray(self.frames, names, target[0][0], target[1][0])  # type: ignore[arg-type]  # both are given
        if body is not None:
            self.select(body)
        return body

    # ---------------------------------------------------------------------------------------------------- undo and redo

    def flush(self) -> bool:
        """Process the drags that wait, in order; return whether there were any."""
        return False

    def end_drags(self) -> None:
        """End all drags where they are; pages that still hold a handle have to take hold of it again."""

    @contextmanager
    def at_rest(self) -> Iterator[None]:
        """Lock the session while nothing is dragged: drags that were under way are steps of undo of their own."""
        with self.lock:
            self.end_drags()
            yield

    @contextmanager
    def change(self, edit: str | None = None, *, rest: bool = True) -> Iterator[None]:
        """Change the session as one step of undo (`edit` as in `push_undo`), then show it to the listeners.

        Drags under way end first, unless `rest` is False.
        """
        with self.at_rest() if rest else self.lock:
            self.push_undo(edit)
            yield
        self.publish()

    def released(self, dragging: Collection[str] = ()) -> tuple[tuple[Handle, ...], Timeline]:
        """Return handles and timeline as they are when drags have ended, except those in `dragging`.

        Handles that are not pinned move to their bodies, and the pose becomes a key.
        """
        handles = tuple(
            h if (h.hold == "pinned" and h.body not in self.fk_bodies) or h.body in dragging
            else h.at(self.frames)
            for h in self.handles
        )  # fmt: skip
        return handles, self.timeline.posed(self.pose)

    def state(self) -> State:
        """Return the part of the session that undo and projects keep, as if the drags under way had ended."""
        handles, timeline = self.released() if self.dragging else (self.handles, self.timeline)
        return State(
            self.scene, self.origin, self.figure, self.pose, handles, replace(timeline, playing=False),
            self.rest, self.strength, self.library, self.settings, self._revision, self.blend,
        )  # fmt: skip

    def push_undo(self, edit: str | None = None) -> None:
        """Record the current state for undo. Consecutive small steps of the same `edit` (a slider) are merged."""
        self.flush()
        self.push_state(edit)

    def push_state(self, edit: str | None = None) -> None:
        """Record the current state for undo, without processing the waiting drags first."""
        now = time.perf_counter()
        again = edit is not None and edit == self._last_edit and now - self._last_edit_time < ONE_CHANGE
        if not again:
            self.history.remember(self.state())
        self._newest += 1
        self._revision = self._newest
        self._last_edit, self._last_edit_time = edit, now
        self._last_target, self.stale = now, True

    def undo(self) -> bool:
        """Undo the last change."""
        with self.at_rest():
            return self._go_to(self.history.undo(self.state()))

    def redo(self) -> bool:
        """Redo the last undone change."""
        with self.at_rest():
            return self._go_to(self.history.redo(self.state()))

    def _go_to(self, state: State | None) -> bool:
        if state is None:
            return False
        self.restore(state)
        self.publish()
        return True

    # ------------------------------------------------------------------------------------------- views and messages

    def view(self) -> View:
        """Return the current state for display."""
        with self.lock:
            limb = self.limb_view(self.selected) if self.selected in self.limbs and self.active is None else None
            self._views += 1
            return View(
                self._views,
                self.figure, self.skeleton, self.pose, self.frames, self.handles, tuple(self.limbs), self.active,
                self.selected, self.selection, self.result, None if self.ghost is None else self.ghost.pose, self.ghost,
                limits_met(self.skeleton, self.pose), self._find_contacts(), self.contact_detector.support(self.frames),
                self.blocking, self.reasons,
                tuple(offer.text for offer in self.offers),
                self.curves, limb, self.blend, self.fk_bodies, self.timeline, self.settings, self.strength,
                None if self.controlled_drag is None else self.controlled_drag.speeds, tuple(self.library),
                self.origin.name or self.skeleton.name, self.dirty,
                self.active is None and not self._busy and not self.timeline.playing, self.can_drag,
            )  # fmt: skip

    def _contacts_ready(self, made: ContactDetector) -> None:
        if made is self.contact_detector:
            self.publish()

    def _find_contacts(self) -> tuple[Contact, ...]:
        """Return the contacts, if they are shown and, during a drag, fast to detect."""
        if not self.contacts or not self.ready:
            return ()
        if not self.contact_detector.ready:
            self.contact_detector.start()
            return ()
        if not self.contact_detector.cheap and (self.active is not None or self.timeline.playing):
            return ()
        return self.contact_detector.at(self.pose, self.frames)

    @property
    def fk_bodies(self) -> frozenset[str]:
        """The bodies at the ends of limbs that are not fully IK."""
        return frozenset().union(*(ends_of(self.skeleton, self.limbs[name]) for name in self.blend))

    def limb_view(self, name: str) -> LimbView | None:
        """Return the swivel angle, ranges, circle and branches of a limb, by its middle joint."""
        with self.lock:
            return limb_view(self.limbs[name], self.pose) if name in self.limbs else None

    def on_view(self, listener: Callable[[View], None]) -> None:
        """Call `listener` with a view after every change; it must be quick."""
        self._listeners.append(listener)

    def on_notification(self, listener: Callable[[str, str], None]) -> None:
        """Call `listener` with every message and its kind, "good" or "bad"."""
        self._notified.append(listener)

    def notify(self, text: str, kind: str = "good") -> None:
        """Show a message to users, without control characters and local paths."""
        for listener in self._notified:
            listener(strip_control(without_paths(text)), kind)

    def publish(self) -> None:
        """Notify every listener with the current view."""
        if self._listeners:
            view = self.view()
            for listener in self._listeners:
                listener(view)
