"""The part of a session that every other part stands on: what is open, who looks on, undo and redo, the worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps

from .engine import Answer, Engine, Settings
from .files import Folder, load_quietly
from .handles import Handle, default_handles
from .history import History
from .limbs import LimbView, find_limbs, look_at
from .timeline import Timeline
from .words import AtLimit, limits_met

FRAME = 1.0 / 60.0  # [s] between frames while playing
ONE_CHANGE = 1.5  # [s] within which two steps of one slider are one change
CALM = 0.12  # [s] without a new target until what takes longer is worked out: what blocks, the curves


@dataclass(frozen=True, eq=False)
class State:
    """What undo brings back."""

    pose: np.ndarray
    handles: tuple[Handle, ...]
    timeline: Timeline
    rest: np.ndarray
    strength: dict[str, float]


@dataclass(frozen=True, eq=False)
class View:
    """Everything that a page shows, at one moment."""

    figure: int  # counts the figures that were opened
    skeleton: ps.Skeleton
    pose: np.ndarray
    frames: Any
    handles: tuple[Handle, ...]
    elbows: tuple[str, ...]
    active: str | None
    selected: str | None
    answer: Answer | None
    ghost: np.ndarray | None
    ghost_answer: Answer | None
    limits: tuple[AtLimit, ...]
    blocking: tuple[Any, ...]
    curves: dict[str, np.ndarray]
    limb: LimbView | None
    timeline: Timeline
    settings: Settings
    strength: dict[str, float]  # of the joints that a person made stronger or weaker than they are
    calm: bool  # nothing is being dragged or played: what takes longer has been worked out


class Core:
    """What is open, who looks on, undo and redo, and the worker."""

    def __init__(self, source: ps.Scene | ps.Skeleton | None = None, *, settings: Settings | None = None):
        self._lock = threading.RLock()  # of everything below
        self._mail = threading.Lock()  # of the two next lines alone: a drag never waits for a solve
        self._wanted: dict[str, tuple[np.ndarray | None, np.ndarray | None]] = {}
        self._released = False
        self._wake = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._listeners: list[Callable[[View], None]] = []
        self._speakers: list[Callable[[str, str], None]] = []
        self._watched: tuple[Path, float] | None = None
        self.folder = Folder()
        self.history: History[State] = History()
        self.settings = settings or Settings()
        self.figure = 0
        self._tense = False  # a take was opened, and drags stay near its pose instead of relaxing
        self.open(source if source is not None else ps.figures.human())

    # ------------------------------------------------------------------------------------------------ what is open

    def open(self, source: ps.Scene | ps.Skeleton, *, keep: bool = False) -> None:
        """Show another figure, with its take where it has one; `keep` takes only its motion, for the figure shown."""
        scene = source if isinstance(source, ps.Scene) else ps.Scene(skeleton=source, name=source.name)
        with self._lock:
            skeleton = scene.skeleton if scene.skeleton is not None else getattr(self, "skeleton", None)
            if skeleton is None:
                raise ps.PosableError("open: expected a file with a figure or its motion, got neither")
            if not keep or scene.skeleton is not None:
                self.scene, self.skeleton = scene, skeleton
                self.figure += 1
                self.limbs = find_limbs(skeleton)
            take = scene.motion if scene.motion is not None and len(scene.motion) else None
            fps = take.fps if take is not None else scene.markers.fps if scene.markers is not None else 30.0
            length = len(scene.markers) if scene.markers is not None else 120
            self.timeline = Timeline(skeleton, take, scene.markers, fps=fps, length=length)
            # a take's rest is its T-pose: nobody relaxes into it
            if take is not None and self.settings.home == "relaxed":
                self.settings, self._tense = replace(self.settings, home="drag"), True
            elif take is None and self._tense:
                self.settings, self._tense = replace(self.settings, home="relaxed"), False
            self.rest: np.ndarray = np.array(skeleton.rest)
            self.strength: dict[str, float] = {}
            self.engine = self._new_engine()
            self.history.forget()
            self.active: str | None = None
            self.selected: str | None = None
            self.answer: Answer | None = None
            self.ghost: Answer | None = None
            self.blocking: tuple[Any, ...] = ()
            self.curves: dict[str, np.ndarray] = {}
            self.pose = np.array(skeleton.rest if take is None else take.poses[0], dtype=float)
            self.start = self.pose
            self.frames = ps.forward(skeleton, self.pose)
            self.handles = default_handles(skeleton, self.frames)
            self.dragged: str | None = None  # the handle that the last answer was for
            self._doing: str | None = None
            self._last_target = self._did = 0.0
            self._stale = self._busy = True
        self._changed()

    def open_path(self, path: str | Path, *, watch: bool = False) -> None:
        """Open a file of this machine; watched, it is read again whenever it changes."""
        place = Path(path)
        scene = load_quietly(place, getattr(self, "skeleton", None))
        self._watched = (place, place.stat().st_mtime) if watch else None
        self.open(scene)

    def upload(self, name: str, data: bytes) -> bool:
        """Open bytes that came from a page; says what is wrong with them where something is."""
        try:
            scene = self.folder.load(name, data, self.skeleton)
            self.open(scene)
        except (ps.PosableError, OSError) as error:
            self.say(str(error), "bad")
            return False
        notes = f" ({'; '.join(scene.notes[:2])})" if scene.notes else ""
        self.say(f"opened {name}{notes}", "good")
        return True

    def export(self, suffix: str) -> tuple[str, bytes]:
        """Return the name and bytes of the motion on screen in a format: bvh, glb, amc (with its asf), csv, npz."""
        with self._lock:
            motion = self.timeline.motion(self.pose, self.scene.name or self.skeleton.name)
        return self.folder.export(motion, suffix, name=self.scene.name or "posable")

    # -------------------------------------------------------------------------------------------------- the pose

    def _new_engine(self, settings: Settings | None = None) -> Engine:
        return Engine(self.skeleton, settings or self.settings, self.rest, self.strength)

    def _place(self, pose: np.ndarray) -> None:
        self.pose = np.array(pose)
        self.frames = ps.forward(self.skeleton, self.pose)

    def _snap_handles(self) -> None:
        """Let every handle, pinned or not, be where its body is."""
        self.handles = tuple(
            h.moved(self.frames.position(h.body), self.frames.rotation_matrix(h.body)) for h in self.handles
        )
        self.active, self._stale = None, True

    def _set(self, pose: np.ndarray) -> None:
        self._place(pose)
        self._snap_handles()
        self.answer, self.ghost, self.start, self.blocking = None, None, self.pose, ()

    # ----------------------------------------------------------------------------------------------- undo and redo

    def _state(self) -> State:
        return State(self.pose, self.handles, replace(self.timeline, playing=False), self.rest, self.strength)

    def _remember(self, doing: str | None = None) -> None:
        """Keep what is now, for undo. Many small steps (of a slider) of `doing` one thing are undone as one."""
        now = time.perf_counter()
        again = doing is not None and doing == self._doing and now - self._did < ONE_CHANGE
        if not again:
            self.history.remember(self._state())
        self._doing, self._did = doing, now
        self._last_target, self._stale = now, True

    def undo(self) -> bool:
        """Take back the last change."""
        with self._lock:
            return self._restore(self.history.undo(self._state()))

    def redo(self) -> bool:
        """Do again what was taken back."""
        with self._lock:
            return self._restore(self.history.redo(self._state()))

    def _restore(self, state: State | None) -> bool:
        if state is None:
            return False
        self._place(state.pose)
        self.handles, self.timeline = state.handles, state.timeline
        self.rest, self.strength = state.rest, state.strength
        self.active, self.answer, self.ghost, self.start, self.blocking = None, None, None, self.pose, ()
        self._doing, self._stale = None, True
        self._changed()
        return True

    # ------------------------------------------------------------------------------------------- who is looking on

    def view(self) -> View:
        """Return everything there is to see now."""
        with self._lock:
            limb = self.limb_view(self.selected) if self.selected in self.limbs and self.active is None else None
            return View(
                self.figure, self.skeleton, self.pose, self.frames, self.handles, tuple(self.limbs), self.active,
                self.selected, self.answer, None if self.ghost is None else self.ghost.pose, self.ghost,
                limits_met(self.skeleton, self.pose), self.blocking,
                self.curves, limb, self.timeline, self.settings, self.strength,
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
        """Tell whoever looks on."""
        for speaker in self._speakers:
            speaker(text, kind)

    def _changed(self) -> None:
        if self._listeners:
            view = self.view()
            for listener in self._listeners:
                listener(view)

    # ----------------------------------------------------------------------------------------------------- worker

    def step(self) -> bool:
        """Do what waits to be done, once; says whether there was anything."""
        raise NotImplementedError

    def start_worker(self) -> None:
        """Solve on a thread of its own from now on."""
        self._thread = threading.Thread(target=self._work, name="posable studio", daemon=True)
        self._thread.start()

    def warm_up(self) -> None:
        """Compile what the first drag needs (once per machine, some 20 s) and leave everything as it is."""
        engine = self._new_engine()
        engine.settle(self.handles, self.handles[0].body if self.handles else None, self.pose)
        engine.solve(self.handles, {h.body for h in self.handles}, self.pose)
        for limb in list(self.limbs.values())[:1]:
            look_at(limb, self.pose)

    def _work(self) -> None:
        try:
            self.warm_up()
        except ps.PosableError as error:
            self.say(str(error), "bad")
        while not self._closed:
            waiting = FRAME if self.timeline.playing else CALM if self._stale else 1.0
            self._wake.wait(waiting)
            self._wake.clear()
            if self._closed:
                return
            try:
                self.step()
                self._watch()
            except Exception as error:  # the page lives on, whatever a solver or a file does
                self.say(f"{type(error).__name__}: {error}", "bad")

    def _watch(self) -> None:
        if self._watched is None or not self._watched[0].exists():
            return
        path, before = self._watched
        now = path.stat().st_mtime
        if now != before:
            self._watched = (path, now)
            try:
                self.open_path(path, watch=True)
                self.say(f"read {path.name} again")
            except ps.PosableError as error:
                self.say(str(error), "bad")

    def close(self) -> None:
        """Stop the worker and remove the session's folder."""
        self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2.0)
        self.folder.close()
