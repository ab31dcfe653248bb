"""The studio without a page: the figure on screen as plain data, and every operation on it.

A worker thread solves. Only the newest target counts, so that a slow solver drops frames instead of falling behind.
Whatever displays the session registers a listener and receives immutable `View` objects.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable.studio import project
from posable.studio.body import asset, has_body
from posable.studio.contacts import locked
from posable.studio.drag_solver import Answer, Engine, Settings, are_settings
from posable.studio.files import Folder, Origin, load_quietly, origin_of, without_paths
from posable.studio.handles import (
    HOLDS,
    MODES,
    below_of,
    checked_target,
    default_handles,
    handle_at,
    is_number,
    opening_pose,
)  # fmt: skip
from posable.studio.history import History
from posable.studio.limbs import LimbView, at_swivel, branch_poses, find_limbs, look_at, with_elbow_near
from posable.studio.messages import limits_met, plain
from posable.studio.mirror import mirrored
from posable.studio.state import State, View
from posable.studio.timeline import EASINGS, Timeline

FRAME = 1.0 / 60.0  # [s] between frames while playing
ONE_CHANGE = 1.5  # [s] within which two steps of one slider are undone together
CALM = 0.12  # [s] without a new target before slow results are computed: blocking limits, curves
AUTOSAVE = 3.0  # [s] between two copies of unsaved work
PICKED = 0.045  # largest distance of a click from a joint or site, relative to the figure's size
WEAKEST, STRONGEST = 0.03, 30.0  # bounds of a joint's strength, relative to its own
LONGEST = 1_000_000  # frames
FIGURES = 3  # that undo can return to


class Session:
    """A figure being posed. Methods may be called from any thread; invalid arguments change nothing and return False.

    Args:
        source: The figure or file contents to open; the human by default.
        settings: How to solve.
        shelf: Where unsaved work is kept for the next start; None: it is not kept.
    """

    def __init__(
        self,
        source: ps.Scene | ps.Skeleton | None = None,
        *,
        settings: Settings | None = None,
        shelf: project.Shelf | None = None,
    ):
        self._lock = threading.RLock()  # guards everything below
        self._mail = threading.Lock()  # guards only the next two fields, so that a drag never waits for a solve
        self._wanted: dict[str, tuple[np.ndarray | None, np.ndarray | None]] = {}
        self._released: set[str] = set()
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._listeners: list[Callable[[View], None]] = []
        self._speakers: list[Callable[[str, str], None]] = []
        self._watched: tuple[Path, float] | None = None
        self.changed_on_disk: Callable[[str], None] | None = None  # asks the user what to do about a changed file
        self.folder = Folder()
        self.shelf = shelf
        self.history: History[State] = History()
        self.settings = settings or Settings()
        self.figure = 0
        self.camera: Any = None  # view of the last page
        self.clipboard: dict[str, float] = {}
        self.library: dict[str, dict[str, float]] = {}
        self._revision = self._newest = self._saved = self._kept = 0
        self._tense = False  # whether drags stay near the pose of a take instead of relaxing
        first = source if source is not None else ps.figures.human()
        self.open(first, origin=Origin("human", figure="human") if source is None else None)
        self._saved = self._kept = self._revision

    # ------------------------------------------------------------------------------------------------ what is open

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
        with self._lock:
            if not scene.has_skeleton and scene.markers is None:
                raise ps.PosableError("expected a file with a figure, a motion or markers, got none of them")
            if self.figure:
                self._remember()
            if not scene.has_skeleton:  # markers alone: shown beside the present figure, turned upright like it
                markers = upright(scene.markers, self.skeleton)
                scene = self.scene.replace(motion=None, markers=markers, name=scene.name)
            skeleton = scene.skeleton
            take = scene.motion if scene.motion is not None and len(scene.motion) else None
            fps = take.fps if take is not None else scene.markers.fps if scene.markers is not None else 30.0
            length = len(scene.markers) if scene.markers is not None else 120
            timeline = Timeline(skeleton, take, scene.markers, fps=fps, length=length)
            # the rest pose of a take is its T-pose, which is no pose to relax to
            if take is not None and self.settings.home == "relaxed":
                self.settings, self._tense = replace(self.settings, home="drag"), True
            elif take is None and self._tense:
                self.settings, self._tense = replace(self.settings, home="relaxed"), False
            pose = opening_pose(skeleton, scene) if take is None else np.array(take.poses[0], dtype=float)
            frames = ps.forward(skeleton, pose)
            rest = pose.copy() if take is None else np.array(skeleton.rest)
            state = State(
                scene, origin or Origin(scene.name or skeleton.name), self.figure + 1, pose,
                default_handles(skeleton, frames, find_limbs(skeleton)), timeline, rest,
                {}, self.library, self.settings, self._newest + 1,
            )  # fmt: skip
            if kept is not None:
                state = project.restore(state, kept)
            if self.figure:
                self.camera = _camera(kept)
            self.figure += 1
            self._newest += 1
            self._adopt(state)
            self._saved = self._kept = self._revision  # not modified yet
            self.history.keep(FIGURES, lambda state: state.scene)
        self._changed()

    def _adopt(self, state: State) -> None:
        """Make a state the current one."""
        if state.scene is not getattr(self, "scene", None):
            self.scene, self.origin, self.skeleton = state.scene, state.origin, state.timeline.skeleton
            self.figure = max(self.figure, state.figure) + (state.figure != self.figure)
            self.limbs = find_limbs(self.skeleton)
            self.selected: str | None = None
            self.selection: tuple[str, ...] = ()
        self.timeline, self.handles = state.timeline, state.handles
        self.rest, self.strength, self.library = state.rest, state.strength, state.library
        self.settings, self._revision = state.settings, state.revision
        self._place(state.pose)
        self.engine = self._new_engine()
        self.active: str | None = None
        self.dragging: dict[str, np.ndarray] = {}  # the bodies being dragged, with their positions at the start
        self.dragged: tuple[str, ...] = ()  # the handles of the last answer
        self.answer: Answer | None = None
        self.ghost: Answer | None = None
        self.blocking: tuple[Any, ...] = ()
        self.reasons: tuple[Any, ...] = ()
        self.curves: dict[str, np.ndarray] = {}
        self.start = self.pose
        self._doing: str | None = None
        self._last_target = self._did = 0.0
        self._stale = self._busy = True

    @property
    def dirty(self) -> bool:
        """Whether there are unsaved changes."""
        return self._revision != self._saved

    def open_path(self, path: str | Path, *, watch: bool = False) -> None:
        """Open a local file; with `watch`, it is read again when it changes."""
        place = Path(path)
        if place.suffix.lower() == project.SUFFIX:
            self.open_project(place.name, place.read_bytes())
            return
        scene = load_quietly(place, getattr(self, "skeleton", None))
        self._watched = (place, place.stat().st_mtime) if watch else None
        self.open(scene, origin=origin_of(place))

    def open_figure(self, name: str) -> bool:
        """Open a built-in figure."""
        if name not in ps.figures.names():
            return False
        self.open(ps.figures.get(name), origin=Origin(name, figure=name))
        return True

    def upload(self, name: str, data: bytes) -> bool:
        """Open an uploaded project or file; errors are shown as messages."""
        try:
            if name.lower().endswith(project.SUFFIX):
                self.open_project(name, data)
                notes = ""
            else:
                scene = self.folder.load(name, data, self.skeleton)
                alone = not name.lower().endswith((".amc", ".csv"))
                self.open(scene, origin=Origin(self.folder.place(name).name, data=data if alone else None))
                notes = f" ({'; '.join(scene.notes[:2])})" if scene.notes else ""
        except (ps.PosableError, OSError) as error:
            self.say(str(error), "bad")
            return False
        self.say(f"Opened {name}{notes}", "good")
        return True

    def export(self, suffix: str) -> tuple[str, bytes]:
        """Return the name and bytes of the current motion in a format: bvh, glb, amc (with its asf), csv or npz."""
        with self._lock:
            name = Path(self.origin.name or self.skeleton.name or "posable").stem
            motion = self.timeline.motion(self.pose, name)
        if suffix == "glb":  # with the character of the file, or the body that is shown
            meshes = asset(False) if has_body(self.skeleton) else self.scene.meshes
            scene = ps.Scene(skeleton=motion.skeleton, motion=motion, meshes=meshes, name=name)
            return self.folder.export(scene, suffix, name=name)
        return self.folder.export(motion, suffix, name=name)

    # --------------------------------------------------------------------------------------------------- projects

    def save_project(self) -> tuple[str, bytes]:
        """Return the name and bytes of a project with the current state."""
        with self._lock:
            state = self._state()
            data = project.dump(state, self.folder, saved=True, camera=self.camera)
            self._saved = state.revision
            if self.shelf is not None:
                self.shelf.keep(state.origin, data)
        self._changed()
        return f"{Path(state.origin.name or 'posable').stem}{project.SUFFIX}", data

    def open_project(self, name: str, data: bytes) -> None:
        """Open a project.

        Raises:
            PosableError: The data are no project.
        """
        scene, origin, kept = project.load(name, data, self.folder)
        self._watched = None
        self.open(scene, origin=origin, kept=kept)
        if not kept.get("saved"):
            with self._lock:
                self._saved = -1

    def recover(self) -> bool:
        """Restore unsaved work on the current figure from the last run of the studio; return whether there was any."""
        data = self.shelf.unsaved(self.origin) if self.shelf is not None else None
        if data is None:
            return False
        try:
            watched = self._watched
            self.open_project("recovered work", data)
            self._watched = watched
        except (ps.PosableError, OSError) as error:
            self.say(f"Unsaved work could not be recovered: {error}", "bad")
            return False
        return True

    def autosave(self) -> bool:
        """Write unsaved work to the shelf; return whether there was any."""
        if self.shelf is None:
            return False
        with self._lock:
            state = self._state()
            if state.revision in (self._kept, self._saved):
                return False
            data = project.dump(state, self.folder, saved=False, camera=self.camera)
            self._kept = state.revision
        self.shelf.keep(state.origin, data)
        return True

    # -------------------------------------------------------------------------------------------------- the pose

    def _new_engine(self, settings: Settings | None = None) -> Engine:
        return Engine(self.skeleton, settings or self.settings, self.rest, self.strength)

    def _place(self, pose: np.ndarray) -> None:
        self.pose = np.array(pose)
        self.frames = ps.forward(self.skeleton, self.pose)

    def _snap_handles(self) -> None:
        """Move every handle to where its body is."""
        self.handles = tuple(
            h.moved(self.frames.position(h.body), self.frames.rotation_matrix(h.body)) for h in self.handles
        )
        self.active, self._stale = None, True
        self.dragging = {}

    def _set(self, pose: np.ndarray) -> None:
        """Set a pose that was not made by a drag."""
        self._place(pose)
        self._snap_handles()
        self.timeline = replace(self.timeline.posed(self.pose), playing=False)
        self.answer, self.ghost, self.start, self.blocking, self.reasons = None, None, self.pose, (), ()

    # ----------------------------------------------------------------------------------------------- undo and redo

    def _state(self) -> State:
        return State(
            self.scene, self.origin, self.figure, self.pose, self.handles, replace(self.timeline, playing=False),
            self.rest, self.strength, self.library, self.settings, self._revision,
        )  # fmt: skip

    def _remember(self, doing: str | None = None) -> None:
        """Record the current state for undo. Consecutive small steps of the same `doing` (a slider) are merged."""
        now = time.perf_counter()
        again = doing is not None and doing == self._doing and now - self._did < ONE_CHANGE
        if not again:
            self.history.remember(self._state())
        self._newest += 1
        self._revision = self._newest
        self._doing, self._did = doing, now
        self._last_target, self._stale = now, True

    def undo(self) -> bool:
        """Undo the last change."""
        with self._lock:
            return self._restore(self.history.undo(self._state()))

    def redo(self) -> bool:
        """Redo the last undone change."""
        with self._lock:
            return self._restore(self.history.redo(self._state()))

    def _restore(self, state: State | None) -> bool:
        if state is None:
            return False
        self._adopt(state)
        self._changed()
        return True

    # ------------------------------------------------------------------------------------------- who is looking on

    def view(self) -> View:
        """Return the current state for display."""
        with self._lock:
            limb = self.limb_view(self.selected) if self.selected in self.limbs and self.active is None else None
            return View(
                self.figure, self.skeleton, self.pose, self.frames, self.handles, tuple(self.limbs), self.active,
                self.selected, self.selection, self.answer, None if self.ghost is None else self.ghost.pose, self.ghost,
                limits_met(self.skeleton, self.pose), self.blocking, self.reasons,
                self.curves, limb, self.timeline, self.settings, self.strength, tuple(self.library),
                self.origin.name or self.skeleton.name, self.dirty,
                self.active is None and not self._busy and not self.timeline.playing,
            )  # fmt: skip

    def limb_view(self, name: str) -> LimbView | None:
        """Return the swivel angle, ranges, circle and branches of a limb, by its middle joint."""
        with self._lock:
            return look_at(self.limbs[name], self.pose) if name in self.limbs else None

    def listen(self, listener: Callable[[View], None]) -> None:
        """Call `listener` with a view after every change; it must be quick."""
        self._listeners.append(listener)

    def speak_to(self, speaker: Callable[[str, str], None]) -> None:
        """Call `speaker` with every message and its kind, "good" or "bad"."""
        self._speakers.append(speaker)

    def say(self, text: str, kind: str = "good") -> None:
        """Show a message to users, without control characters and local paths."""
        for speaker in self._speakers:
            speaker(plain(without_paths(text)), kind)

    def _changed(self) -> None:
        if self._listeners:
            view = self.view()
            for listener in self._listeners:
                listener(view)

    # ----------------------------------------------------------------------------------------------------- worker

    def start_worker(self) -> None:
        """Start the worker thread."""
        self._thread = threading.Thread(target=self._work, name="posable studio", daemon=True)
        self._thread.start()

    def warm_up(self) -> None:
        """Compile what the first drag needs (once per machine, about 20 s), without changing anything."""
        engine = self._new_engine()
        engine.settle(self.handles, {self.handles[0].body} if self.handles else set(), self.pose)
        engine.solve(self.handles, {h.body for h in self.handles}, self.pose)
        for limb in list(self.limbs.values())[:1]:
            look_at(limb, self.pose)

    def _work(self) -> None:
        try:
            self.warm_up()
        except ps.PosableError as error:
            self.say(str(error), "bad")
        autosaved = time.monotonic()
        while not self._closed:
            waiting = FRAME if self.timeline.playing else CALM if self._stale else 1.0
            self._wake.wait(waiting)
            self._wake.clear()
            if self._closed:
                return
            try:
                self.step()
                self._watch()
                if time.monotonic() - autosaved > AUTOSAVE and self.active is None:
                    autosaved = time.monotonic()
                    self.autosave()
            except Exception as error:  # the page survives any error of a solver or a file
                self.say(f"{type(error).__name__}: {error}", "bad")

    def _watch(self) -> None:
        if self._watched is None or not self._watched[0].exists():
            return
        path, before = self._watched
        now = path.stat().st_mtime
        if now == before:
            return
        self._watched = (path, now)
        if self.dirty and self.changed_on_disk is not None:
            self.changed_on_disk(path.name)
        else:
            self.reload()

    def reload(self) -> bool:
        """Read the watched file again; keys, handles and pose are kept if the figure is the same. Can be undone."""
        if self._watched is None:
            return False
        path = self._watched[0]
        try:
            scene = load_quietly(path, self.skeleton)
            same = scene.has_skeleton and scene.skeleton.dof_names == self.skeleton.dof_names
            if same and self.dirty:
                self._reload_below(scene, origin_of(path))
            else:
                self.open(scene, origin=origin_of(path))
            self.say(f"Reloaded {path.name}")
            return True
        except (ps.PosableError, OSError) as error:
            self.say(str(error), "bad")
            return False

    def _reload_below(self, scene: ps.Scene, origin: Origin) -> None:
        """Replace the take below the keys by another one of the same figure."""
        with self._lock:
            self._remember()
            take = scene.motion if scene.motion is not None and len(scene.motion) else None
            skeleton = scene.skeleton if scene.has_skeleton else self.skeleton
            count = len(take) if take is not None else LONGEST
            keys = {frame: pose for frame, pose in self.timeline.keys.items() if frame < count}
            line = replace(self.timeline, skeleton=skeleton, take=take, keys=keys)
            line = replace(line, frame=min(line.frame, line.count - 1))
            state = replace(self._state(), scene=scene, origin=origin, timeline=line, figure=self.figure + 1)
            self._adopt(state)
            self._show_frame()
        self._changed()

    def close(self) -> None:
        """Stop the worker, keep unsaved work for the next start, and remove temporary files."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2.0)
        with contextlib.suppress(OSError, ps.PosableError):
            self.autosave()
        self.folder.close()

    # --------------------------------------------------------------------------------------------------- dragging

    def drag(self, name: str, position: Any = None, rotation: Any = None) -> bool:
        """Set the target of a handle, an elbow or a knee; returns at once, the worker solves."""
        target = checked_target(position, rotation)
        if target is None or not (name in self.limbs or any(h.body == name for h in self.handles)):
            return False
        with self._mail:
            before = self._wanted.get(name, (None, None))
            self._wanted[name] = (
                target[0] if target[0] is not None else before[0],
                target[1] if target[1] is not None else before[1],
            )
            self._released.discard(name)
        self._wake.set()
        return True

    def release(self, name: str | None = None) -> None:
        """End the drag of a body, or all drags: handles that are not pinned stay where they are."""
        with self._mail:
            self._released |= {name} if name is not None else {*self._wanted, *self.dragging}
        self._wake.set()

    def step(self) -> bool:
        """Process pending work once, as the worker does; return whether there was any."""
        with self._mail:
            wanted, self._wanted = self._wanted, {}
            released, self._released = self._released, set()
        did = False
        with self._lock:
            if wanted:
                self._follow(wanted)
                self._last_target, self._stale, did = time.perf_counter(), True, True
                self._doing = None
            if released & self.dragging.keys():
                self._let_go(released)
                did = True
            if self.timeline.playing and not self.dragging:
                did = self._play() or did
        if did:
            self._changed()
        elif self._stale and time.perf_counter() - self._last_target > CALM and not self.timeline.playing:
            self._reflect()
            did = True
        return did

    def _follow(self, wanted: dict[str, tuple[np.ndarray | None, np.ndarray | None]]) -> None:
        new = [name for name in wanted if name not in self.dragging]
        if new:
            self._remember()  # one gesture is one step of undo
            self.timeline = replace(self.timeline, playing=False)
            self.start, self.blocking, self.reasons = self.pose, (), ()
            for name in new:
                self.dragging[name] = self.frames.position(name)
            self.dragged = tuple(name for name in self.dragging if name not in self.limbs)
            self.engine = self._new_engine()
            self.engine.settle(self.handles, self._moved_together(), self.pose)
        self.active = next(reversed(wanted))
        for name, (position, _) in wanted.items():
            if name in self.limbs and position is not None:
                solution = with_elbow_near(self.limbs[name], self.pose, position, limits=self.settings.limits)
                if np.isfinite(solution.pose).all():
                    self._place(solution.pose)
        moved = {name: target for name, target in wanted.items() if name not in self.limbs}
        if moved:
            self._solve_for(moved)

    def _moved_together(self) -> set[str]:
        """Return the handles that move with the drags: the dragged ones and, for a selection, all of it."""
        together = {name for name in self.dragging if name not in self.limbs}
        return together | set(self.selection) if together & set(self.selection) else together

    def _solve_for(self, moved: dict[str, tuple[np.ndarray | None, np.ndarray | None]]) -> None:
        lead = next((name for name in moved if name in self.selection and moved[name][0] is not None), None)
        targets = dict(moved)
        if lead is not None:
            for other in self.selection:
                if other not in moved:
                    begin = self.dragging.setdefault(other, self.frames.position(other))
                    targets[other] = (begin + (moved[lead][0] - self.dragging[lead]), None)  # type: ignore[operator]
        self.handles = tuple(h.moved(*targets[h.body]) if h.body in targets else h for h in self.handles)
        try:
            self.answer, self.ghost = self.engine.solve(self.handles, set(targets), self.pose)
        except ps.PosableError as error:
            self.say(str(error), "bad")
            return
        if np.isfinite(self.answer.pose).all():
            self._place(self.answer.pose)

    def _let_go(self, released: set[str]) -> None:
        """End drags: move handles that are not pinned to their bodies, and make the pose a key."""
        for name in released:
            self.dragging.pop(name, None)
        if not any(name in self.dragging for name in self.dragging if name not in self.selection):
            self.dragging = {}
        self.handles = tuple(
            h if h.hold == "pinned" or h.body in self.dragging
            else h.moved(self.frames.position(h.body), self.frames.rotation_matrix(h.body))
            for h in self.handles
        )  # fmt: skip
        self.timeline = self.timeline.posed(self.pose)
        self.active = next(iter(self.dragging), None)
        self._stale = True

    def _reflect(self) -> None:
        """Compute slow results: the blocking limits, and the convergence of both solvers."""
        with self._lock:
            self._stale = self._busy = False
            self.blocking, self.reasons, self.curves = (), (), {}
            if self.answer is not None and self.engine.main is not None:
                if not self.answer.ok:
                    self.blocking, self.reasons = self.engine.blocking(), self.engine.reasons()
                if not np.array_equal(self.start, self.pose):
                    self.curves = self.engine.curves(self.handles, self.start)
        self._changed()

    # ---------------------------------------------------------------------------------------------------- handles

    def select(self, body: str | None, *, add: bool = False) -> bool:
        """Select a joint or site for the panels, or nothing; with `add`, extend the selection."""
        if body is not None and body not in (*self.skeleton.names, *self.skeleton.site_names):
            return False
        with self._lock:
            if not add or body is None:
                self.selection = () if body is None else (body,)
            elif body in self.selection:
                self.selection = tuple(name for name in self.selection if name != body)
            elif any(h.body == body for h in self.handles):
                self.selection = (*self.selection, body)
            self.selected = self.selection[-1] if self.selection else None
        self._changed()
        return True

    def hold(
        self,
        body: str,
        hold: str | None = None,
        mode: str | None = None,
        weight: float | None = None,
        priority: int | None = None,
    ) -> bool:
        """Pin, hold or free a body; a handle is created if it has none."""
        bodies = (*self.skeleton.names, *self.skeleton.site_names)
        if body not in bodies or hold not in (None, *HOLDS) or mode not in (None, *MODES):
            return False
        if not (weight is None or is_number(weight, 1e-4, 1e4)) or not (priority is None or is_number(priority, 0, 9)):
            return False
        changes = {"hold": hold, "mode": mode, "weight": weight, "priority": priority}
        given = {key: value for key, value in changes.items() if value is not None}
        with self._lock:
            self._remember(f"{'/'.join(given)} of {body}")
            if all(h.body != body for h in self.handles):
                self.handles = (*self.handles, handle_at(self.frames, body, hold="pinned"))
            self.handles = tuple(replace(h, **given) if h.body == body else h for h in self.handles)
            self.active = None
            if self.answer is not None and not self.answer.ok and given.keys() & {"weight", "priority"}:
                self._solve_again()
        self._changed()
        return True

    def drop(self, body: str) -> bool:
        """Remove a handle."""
        if all(h.body != body for h in self.handles):
            return False
        with self._lock:
            self._remember()
            self.handles = tuple(h for h in self.handles if h.body != body)
            self.selected = None if self.selected == body else self.selected
            self.active = None
        self._changed()
        return True

    def pick(self, origin: Any, direction: Any) -> str | None:
        """Select and return the joint or site nearest to a ray, if one is near; of several, the one in front."""
        target = checked_target(origin, None), checked_target(direction, None)
        if target[0] is None or target[1] is None:
            return None
        eye, ray = np.array(origin, dtype=float), np.array(direction, dtype=float)
        names = (*self.skeleton.names, *self.skeleton.site_names)
        places = self.frames.many(names)[0]
        size = float(np.linalg.norm(np.ptp(places, axis=0)))
        depth = (places - eye) @ ray / max(float(ray @ ray), 1e-12)
        away = np.linalg.norm(places - eye - depth[:, None] * ray, axis=1)
        near = np.flatnonzero((depth > 0) & (away < PICKED * size))
        if not len(near):
            return None
        best = min(near, key=lambda k: away[k] + 0.2 * depth[k] * float(np.linalg.norm(ray)))
        self.select(names[best])
        return names[best]

    # ------------------------------------------------------------------------------------------------- the pose

    def set_dof(self, name: str, value: float) -> bool:
        """Set one degree of freedom [rad, m] by forward kinematics, clipped to its limits if they are on."""
        if name not in self.skeleton.dof_names or not is_number(value, -1e6, 1e6):
            return False
        with self._lock:
            dof = self.skeleton.dof(name)
            if self.settings.limits:
                value = float(np.clip(value, self.skeleton.lower[dof], self.skeleton.upper[dof]))
            if abs(self.pose[dof] - value) < 1e-12:
                return True
            self._remember(f"dof {name}")
            pose = self.pose.copy()
            pose[dof] = value
            self._set(pose)
            self._busy = True
        self._changed()
        return True

    def set_pose(self, pose: Any) -> bool:
        """Set the pose (n,) [rad, m]."""
        values = np.array(pose, dtype=float)
        if values.shape != (self.skeleton.size,) or not np.isfinite(values).all():
            return False
        with self._lock:
            self._remember()
            self._set(values)
        self._changed()
        return True

    def reset(self) -> None:
        """Return to the rest pose and the initial handles, each held as it is now."""
        with self._lock:
            self._remember()
            self._set(self.rest.copy())
            own = {h.body for h in self.handles}
            lost = [h for h in default_handles(self.skeleton, self.frames, self.limbs) if h.body not in own]
            self.handles = (*self.handles, *lost)
        self._changed()

    def set_rest(self, *, own: bool = False) -> None:
        """Make the current pose the rest pose that drags relax to; with `own`, restore the figure's."""
        with self._lock:
            self._remember()
            self.rest = np.array(self.skeleton.rest if own else self.pose)
        self._changed()

    def set_strength(self, joint: str, strength: float, *, below: bool = False) -> bool:
        """Scale the strength of a joint and, with `below`, of its descendants: stronger joints move later."""
        if joint not in self.skeleton.names or not is_number(strength, WEAKEST, STRONGEST):
            return False
        with self._lock:
            self._remember(f"strength of {joint}")
            joints = (joint, *below_of(self.skeleton, joint)) if below else (joint,)
            changed = {**self.strength, **dict.fromkeys(joints, float(strength))}
            self.strength = {name: value for name, value in changed.items() if value != 1.0}
            self._solve_again()
        self._changed()
        return True

    def clear_strength(self) -> None:
        """Reset the strength of every joint."""
        with self._lock:
            self._remember()
            self.strength = {}
            self._solve_again()
        self._changed()

    def configure(self, **changes: Any) -> bool:
        """Change settings (solver, options, ghost, limits, iterations, stay, home, ...) and solve again."""
        if "solver" in changes:
            changes.setdefault("options", {})  # another solver has other options
        elif "options" in changes:
            changes["solver"] = self.settings.solver
        if not are_settings(changes):
            return False
        for key in ("solver", "ghost"):  # compiles it the first time, before locking
            if changes.get(key) is not None:
                self._try(changes[key])
        with self._lock:
            old, self.settings = self.settings, replace(self.settings, **changes)
            if not self._solve_again(first=True):
                self.settings, self.engine = old, self._new_engine(old)
                self._changed()
                return False
            if self.engine.ghost_error:
                self.say(self.engine.ghost_error, "bad")
        self._wake.set()
        self._changed()
        return True

    def _solve_again(self, *, first: bool = False) -> bool:
        """Solve the last drag again from its start with the new settings; with `first`, even if there was none."""
        self.active, self._stale = None, True
        if self.answer is None and not first:
            return True
        start = self.start if self.answer is not None else self.pose
        engine = self._new_engine()
        try:
            engine.settle(self.handles, set(self.dragged) if self.answer is not None else set(), start)
            self.answer, self.ghost = engine.solve(self.handles, set(), start)
        except ps.PosableError as error:
            self.say(str(error), "bad")
            return False
        self.engine = engine
        if np.isfinite(self.answer.pose).all():
            self._place(self.answer.pose)
        return True

    def _try(self, solver: str) -> None:
        engine = self._new_engine(replace(self.settings, solver=solver, options={}, ghost=None, iterations=1))
        with contextlib.suppress(ps.PosableError):
            engine.settle(self.handles, set(), self.pose)
            engine.solve(self.handles, set(), self.pose)

    # ----------------------------------------------------------------------------------------------------- limbs

    def swivel(self, name: str, angle: float) -> bool:
        """Set the swivel angle [rad] of an elbow or a knee, keeping the limb's end in place."""
        if name not in self.limbs or not is_number(angle, -100.0, 100.0):
            return False
        with self._lock:
            solution = at_swivel(self.limbs[name], self.pose, angle, limits=self.settings.limits)
            return self._take(f"swivel {name}", solution.pose)

    def branch(self, name: str, number: int) -> bool:
        """Switch a limb to a branch inside all limits; if there is none, report the limits that it violates."""
        with self._lock:
            poses = branch_poses(self.limbs[name], self.pose) if name in self.limbs else []
            low, high = self.skeleton.lower - 1e-9, self.skeleton.upper + 1e-9
            inside = [pose for pose in poses if np.all((pose >= low) & (pose <= high))]
            if not poses or not self._take(f"branch {name}", (inside or poses)[number % len(inside or poses)]):
                return False
            if not inside:
                broken = np.flatnonzero((self.pose < low) | (self.pose > high))
                self.say(
                    f"Every branch violates a limit: {', '.join(self.skeleton.dof_names[k] for k in broken)}", "bad"
                )
            return True

    def aim(self, name: str, point: Any, axis: str = "z") -> bool:
        """Aim an axis of a limb's end at a point (3,) [m]."""
        target = checked_target(point, None)
        if name not in self.limbs or target is None:
            return False
        with self._lock:
            try:
                solution = self.limbs[name].aim(target[0], axis, limits=self.settings.limits, base=self.pose)
            except ps.PosableError as error:
                self.say(str(error), "bad")
                return False
            return self._take(f"aim {name}", solution.pose)

    def point_along(self, name: str, along: Any, axis: str = "z") -> bool:
        """Turn one axis of a limb's end along a direction (3,), keeping its position, free about that axis."""
        target = checked_target(along, None)
        if name not in self.limbs or target is None:
            return False
        with self._lock:
            limb = self.limbs[name]
            place = self.frames.position(limb.site)
            try:
                solution = limb.solve_partial(place, axis, target[0], limits=self.settings.limits, base=self.pose)
            except ps.PosableError as error:
                self.say(str(error), "bad")
                return False
            return self._take(f"along {name}", solution.pose)

    def _take(self, what: str | None, pose: np.ndarray) -> bool:
        if not np.isfinite(pose).all():
            return False
        self._remember(what)
        self._set(np.asarray(pose))
        self._busy = True
        self._changed()
        return True

    # --------------------------------------------------------------------------------- mirror, copy, paste, library

    def mirror(self) -> bool:
        """Swap left and right."""
        with self._lock:
            pose = mirrored(self.skeleton, self.pose)
            if pose is None:
                self.say("This figure has no left and right to swap.", "bad")
                return False
            return self._take(None, pose)

    def copy(self) -> dict[str, float]:
        """Copy the pose as values [rad, m] by name of the degree of freedom."""
        self.clipboard = dict(zip(self.skeleton.dof_names, self.pose.tolist(), strict=True))
        return self.clipboard

    def paste(self, values: dict[str, float] | None = None, *, root: bool = False) -> bool:
        """Paste a pose by name: the copied one, or `values`. The position on the floor stays, unless `root`."""
        values = self.clipboard if values is None else values
        with self._lock:
            pose, known = self.pose.copy(), 0
            stays = set() if root else _standing(self.skeleton)
            for dof, name in enumerate(self.skeleton.dof_names):
                if name in values and is_number(values[name], -1e6, 1e6):
                    known += 1
                    if dof not in stays:
                        pose[dof] = values[name]
            if not known:
                self.say("The copied pose does not fit this figure.", "bad")
                return False
            if self.settings.limits:
                pose = np.clip(pose, self.skeleton.lower, self.skeleton.upper)
            return self._take(None, pose)

    def keep_pose(self, name: str) -> bool:
        """Save the pose to the library."""
        if not isinstance(name, str) or not name.strip():
            return False
        with self._lock:
            self._remember()
            values = dict(zip(self.skeleton.dof_names, self.pose.tolist(), strict=True))
            self.library = {**self.library, plain(name.strip())[:60]: values}
        self._changed()
        return True

    def drop_pose(self, name: str) -> bool:
        """Delete a pose from the library."""
        if name not in self.library:
            return False
        with self._lock:
            self._remember()
            self.library = {key: value for key, value in self.library.items() if key != name}
        self._changed()
        return True

    # ------------------------------------------------------------------------------------------------------ time

    def seek(self, frame: float) -> bool:
        """Go to a frame."""
        if not is_number(frame, -1e9, 1e9):
            return False
        with self._lock:
            self.timeline = replace(self.timeline, frame=float(np.clip(frame, 0, self.timeline.count - 1)))
            self._show_frame()
        self._changed()
        return True

    def play(self, playing: bool = True) -> None:
        """Play or stop."""
        with self._lock:
            at_end = self.timeline.frame >= self.timeline.last
            frame = 0.0 if playing and at_end else self.timeline.frame
            self.timeline = replace(self.timeline, playing=playing, frame=frame if playing else float(round(frame)))
            self._played = time.perf_counter()
            if not playing:
                self._show_frame()
        self._wake.set()
        self._changed()

    def set_time(self, **changes: Any) -> bool:
        """Change fps, length, loop, onion, autokey, fade or easing."""
        bounds = {
            "fps": (1e-3, 1000.0), "length": (1, LONGEST), "loop": (0, 1), "onion": (0, 1), "autokey": (0, 1),
            "fade": (0, 100_000),
        }  # fmt: skip
        numbers = {key: value for key, value in changes.items() if key != "easing"}
        if not all(key in bounds and is_number(value, *bounds[key]) for key, value in numbers.items()):
            return False
        if changes.get("easing", EASINGS[0]) not in EASINGS:
            return False
        with self._lock:
            self.timeline = replace(self.timeline, **changes)
        self._changed()
        return True

    def _play(self) -> bool:
        now = time.perf_counter()
        elapsed, self._played = now - self._played, now
        self.timeline = self.timeline.advanced(elapsed)
        self._show_frame()
        return True

    def _show_frame(self) -> None:
        pose = self.timeline.at(self.timeline.frame)
        if pose is not None:
            self._place(pose)
            self._snap_handles()
            self.answer, self.ghost, self.start, self.blocking, self.reasons = None, None, self.pose, (), ()

    def set_key(self, frame: int | None = None) -> bool:
        """Set a key with the current pose, by default at the current frame."""
        if frame is not None and not is_number(frame, 0, LONGEST):
            return False
        at = self.timeline.shown if frame is None else int(frame)
        if self.timeline.take is not None and at >= self.timeline.count:
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.with_key(at, self.pose)
        self._changed()
        return True

    def drop_key(self, frame: int | None = None) -> bool:
        """Delete a key."""
        at = self.timeline.shown if frame is None else int(frame)
        if at not in self.timeline.keys and at not in self.timeline.drafts:
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.without_key(at)
            self._show_frame()
        self._changed()
        return True

    def move_key(self, frame: int, to: int) -> bool:
        """Move a key to another frame."""
        if frame not in self.timeline.keys or not is_number(to, 0, LONGEST):
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.with_key_moved(frame, to)
            self._show_frame()
        self._changed()
        return True

    def lock_contact(self, body: str, first: int, last: int) -> bool:
        """Hold a body at its current place over the frames from `first` to `last`."""
        bodies = (*self.skeleton.names, *self.skeleton.site_names)
        if body not in bodies or not (is_number(first, 0, LONGEST) and is_number(last, first, first + 2000)):
            return False
        with self._lock:
            frames = range(int(first), min(int(last), self.timeline.count - 1) + 1)
            poses = {frame: self.timeline.at(frame) for frame in frames}
            if not poses or any(pose is None for pose in poses.values()):
                self.say("There is no motion to lock a contact in.", "bad")
                return False
            held = locked(self.skeleton, poses, body, self.frames.matrix(body))  # type: ignore[arg-type]
            self._remember()
            self.timeline = replace(self.timeline, keys={**self.timeline.keys, **held})
            self._show_frame()
        self._changed()
        return True


def _camera(kept: dict[str, Any] | None) -> Any:
    """Return the view stored in a project, or None."""
    camera = (kept or {}).get("camera")
    try:
        places = {key: checked_target(camera[key], None)[0].tolist() for key in ("position", "look_at")}  # type: ignore
    except (TypeError, KeyError, AttributeError):
        return None
    return places


def _standing(skeleton: ps.Skeleton) -> set[int]:
    """Return the degrees of freedom of a figure's position on the floor."""
    root = skeleton.joints[0]
    first = skeleton.index(root.name).start
    return {first + k for k in range(3) if k != (2 if skeleton.up == "z" else 1)} if root.motion.size == 6 else set()


def upright(markers: ps.Markers | None, skeleton: ps.Skeleton) -> ps.Markers | None:
    """Return markers with their up axis turned to the figure's."""
    if markers is None or not len(markers) or skeleton.up is None:
        return markers
    tall = np.nan_to_num(np.nanmax(markers.positions, axis=(0, 1)) - np.nanmin(markers.positions, axis=(0, 1)))
    if (markers.up or ("y" if tall[1] > tall[2] else "z")) == skeleton.up:
        return markers
    x, y, z = np.moveaxis(markers.positions, -1, 0)
    turned = (x, z, -y) if skeleton.up == "y" else (x, -z, y)
    return replace(markers, positions=np.stack(turned, axis=-1), up=skeleton.up)
