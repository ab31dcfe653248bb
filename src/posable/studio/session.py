"""What is on screen, as plain data, and everything that can be done with it: a studio without a page.

A worker thread solves; the newest target wins, so that a slow solver drops frames and never falls behind. Whoever shows
the session registers a listener and gets a `View`, which is never changed afterwards.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import posable as ps
from posable.studio.drag_solver import Answer, Engine, Settings, are_settings
from posable.studio.files import Folder, load_quietly
from posable.studio.handles import HOLDS, MODES, Handle, below_of, checked_target, default_handles, handle_at, is_number
from posable.studio.history import History
from posable.studio.limbs import LimbView, at_swivel, branch_poses, find_limbs, look_at, with_elbow_near
from posable.studio.messages import AtLimit, limits_met
from posable.studio.timeline import Timeline

# --- The part of a session that every other part stands on ---

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


# --- Posing ---

PICKED = 0.045  # of the figure's size: how near to a joint or site one has to click
WEAKEST, STRONGEST = 0.03, 30.0  # times as strong as it was


class Posing(Core):
    """Everything that moves the figure by hand."""

    # --------------------------------------------------------------------------------------------------- dragging

    def drag(self, name: str, position: Any = None, rotation: Any = None) -> bool:
        """Ask for a handle, an elbow or a knee to be somewhere else; answers at once, the worker solves."""
        target = checked_target(position, rotation)
        if target is None or not (name in self.limbs or any(h.body == name for h in self.handles)):
            return False
        with self._mail:
            before = self._wanted.get(name, (None, None))
            self._wanted[name] = (
                target[0] if target[0] is not None else before[0],
                target[1] if target[1] is not None else before[1],
            )
            self._released = False
        self._wake.set()
        return True

    def release(self) -> None:
        """Let go of what was dragged: a handle that is not pinned stays where it came to."""
        with self._mail:
            self._released = True
        self._wake.set()

    def step(self) -> bool:
        """Do what waits to be done, once: the worker's whole work. Says whether there was anything."""
        with self._mail:
            wanted, self._wanted = self._wanted, {}
            released, self._released = self._released and not self._wanted, False
        did = False
        with self._lock:
            if wanted:
                for name, (position, rotation) in wanted.items():
                    self._follow(name, position, rotation)
                self._last_target, self._stale, did = time.perf_counter(), True, True
                self._doing = None
            if released:
                self._settle_handles()
                did = True
            if self.timeline.playing and not wanted:
                did = self._play() or did
        if did:
            self._changed()
        elif self._stale and time.perf_counter() - self._last_target > CALM and not self.timeline.playing:
            self._reflect()
            did = True
        return did

    def _follow(self, name: str, position: np.ndarray | None, rotation: np.ndarray | None) -> None:
        if self.active != name:
            self._remember()
            self.active, self.start, self.blocking = name, self.pose, ()
            self.dragged = name if name not in self.limbs else None
            self.engine = self._new_engine()
            self.engine.settle(self.handles, name if name not in self.limbs else None, self.pose)
        if name in self.limbs:
            if position is not None:
                solution = with_elbow_near(self.limbs[name], self.pose, position, limits=self.settings.limits)
                if np.isfinite(solution.pose).all():
                    self._place(solution.pose)
            return
        self.handles = tuple(h.moved(position, rotation) if h.body == name else h for h in self.handles)
        try:
            self.answer, self.ghost = self.engine.solve(self.handles, {name}, self.pose)
        except ps.PosableError as error:
            self.say(str(error), "bad")
            return
        if np.isfinite(self.answer.pose).all():
            self._place(self.answer.pose)

    def _settle_handles(self) -> None:
        """Let every handle that is not pinned be where its body is."""
        self.handles = tuple(
            h if h.hold == "pinned" else h.moved(self.frames.position(h.body), self.frames.rotation_matrix(h.body))
            for h in self.handles
        )
        self.active = None
        self._stale = True

    def _reflect(self) -> None:
        """Work out what takes longer: which limits are in the way, and how both solvers came here."""
        with self._lock:
            self._stale = self._busy = False
            self.blocking, self.curves = (), {}
            if self.answer is not None and self.engine.main is not None:
                self.blocking = self.engine.blocking() if not self.answer.ok else ()
                if not np.array_equal(self.start, self.pose):
                    self.curves = self.engine.curves(self.handles, self.start)
        self._changed()

    # ---------------------------------------------------------------------------------------------------- handles

    def hold(
        self,
        body: str,
        hold: str | None = None,
        mode: str | None = None,
        weight: float | None = None,
        priority: int | None = None,
    ) -> bool:
        """Pin, hold or free a body; a joint or site that has no handle yet gets one."""
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
        """Take a handle away."""
        if all(h.body != body for h in self.handles):
            return False
        with self._lock:
            self._remember()
            self.handles = tuple(h for h in self.handles if h.body != body)
            self.selected = None if self.selected == body else self.selected
            self.active = None
        self._changed()
        return True

    def select(self, body: str | None) -> bool:
        """Choose what the panels are about: a handle, an elbow, any joint or site, or nothing."""
        if body is not None and body not in (*self.skeleton.names, *self.skeleton.site_names):
            return False
        with self._lock:
            self.selected = body
        self._changed()
        return True

    def pick(self, origin: Any, direction: Any) -> str | None:
        """Return the joint or site nearest to a ray, where one is near, and select it; of two, the one in front."""
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
        """Turn one joint by its number [rad, m]: forward kinematics; within its limits while they are on."""
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
        """Take a whole pose (n,)."""
        values = np.array(pose, dtype=float)
        if values.shape != (self.skeleton.size,) or not np.isfinite(values).all():
            return False
        with self._lock:
            self._remember()
            self._set(values)
        self._changed()
        return True

    def reset(self) -> None:
        """Stand at rest again, with every handle that the figure began with, held as it is now."""
        with self._lock:
            self._remember()
            self._set(self.rest.copy())
            own = {h.body for h in self.handles}
            lost = [h for h in default_handles(self.skeleton, self.frames) if h.body not in own]
            self.handles = (*self.handles, *lost)
        self._changed()

    def set_rest(self, *, own: bool = False) -> None:
        """Take the pose on screen for the rest pose, or with `own` the figure's own again: drags relax towards it."""
        with self._lock:
            self._remember()
            self.rest = np.array(self.skeleton.rest if own else self.pose)
        self._changed()

    def set_strength(self, joint: str, strength: float, *, below: bool = False) -> bool:
        """Make a joint, `below` also those that hang on it, so many times as strong: stronger ones stay longer."""
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
        """Make every joint as strong as it was."""
        with self._lock:
            self._remember()
            self.strength = {}
            self._solve_again()
        self._changed()

    # --------------------------------------------------------------------------------------------------- solving

    def configure(self, **changes: Any) -> bool:
        """Change the settings: solver, ghost, limits, iterations, stay, home; and solve again from here."""
        if not are_settings(changes):
            return False
        for key in ("solver", "ghost"):  # compiles it, the first time, while nothing is locked
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
        """Solve the last drag again from where it began, with what changed since; `first`, even if there was none."""
        self.active, self._stale = None, True
        if self.answer is None and not first:
            return True
        start = self.start if self.answer is not None else self.pose
        engine = self._new_engine()
        try:
            engine.settle(self.handles, self.dragged if self.answer is not None else None, start)
            self.answer, self.ghost = engine.solve(self.handles, set(), start)
        except ps.PosableError as error:
            self.say(str(error), "bad")
            return False
        self.engine = engine
        if np.isfinite(self.answer.pose).all():
            self._place(self.answer.pose)
        return True

    def _try(self, solver: str) -> None:
        engine = self._new_engine(replace(self.settings, solver=solver, ghost=None, iterations=1))
        with contextlib.suppress(ps.PosableError):
            engine.settle(self.handles, None, self.pose)
            engine.solve(self.handles, set(), self.pose)

    def _play(self) -> bool:
        raise NotImplementedError


# --- What is on screen ---

__all__ = ["Session", "State", "View"]

LONGEST = 1_000_000  # frames


class Session(Posing):
    """A figure being posed. Every method may be called from any thread; nonsense changes nothing and returns False."""

    # ----------------------------------------------------------------------------------------------------- limbs

    def swivel(self, name: str, angle: float) -> bool:
        """Turn an elbow or a knee to a swivel angle [rad] with the limb's end where it is."""
        if name not in self.limbs or not is_number(angle, -100.0, 100.0):
            return False
        with self._lock:
            solution = at_swivel(self.limbs[name], self.pose, angle, limits=self.settings.limits)
            return self._take(f"swivel {name}", solution.pose)

    def branch(self, name: str, number: int) -> bool:
        """Take one of the branches of a limb: the other bend of the elbow, the other numbers of the same rotations."""
        with self._lock:
            poses = branch_poses(self.limbs[name], self.pose) if name in self.limbs else []
            return bool(poses) and self._take(f"branch {name}", poses[number % len(poses)])

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
        """Keep a limb's end in its place with one of its axes along a direction (3,), free to spin about it."""
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

    def _take(self, what: str, pose: np.ndarray) -> bool:
        if not np.isfinite(pose).all():
            return False
        self._remember(what)
        self._set(np.asarray(pose))
        self._busy = True
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
            self.timeline = replace(self.timeline, playing=playing, frame=frame)
            self._played = time.perf_counter()
        self._wake.set()
        self._changed()

    def set_time(self, **changes: Any) -> bool:
        """Change fps, length, loop or onion."""
        bounds = {"fps": (1e-3, 1000.0), "length": (1, LONGEST), "loop": (0, 1), "onion": (0, 1)}
        if not all(key in bounds and is_number(value, *bounds[key]) for key, value in changes.items()):
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
            self.answer, self.ghost, self.start = None, None, self.pose

    def set_key(self, frame: int | None = None) -> bool:
        """Keep the pose on screen as a key, by default at the frame shown."""
        if frame is not None and not is_number(frame, 0, LONGEST):
            return False
        with self._lock:
            self._remember()
            at = round(self.timeline.frame) if frame is None else int(frame)
            self.timeline = self.timeline.with_key(at, self.pose)
        self._changed()
        return True

    def drop_key(self, frame: int | None = None) -> bool:
        """Take a key away."""
        at = round(self.timeline.frame) if frame is None else int(frame)
        if at not in self.timeline.keys:
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.without_key(at)
        self._changed()
        return True

    def move_key(self, frame: int, to: int) -> bool:
        """Move a key to another frame."""
        if frame not in self.timeline.keys or not is_number(to, 0, LONGEST):
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.with_key_moved(frame, to)
        self._changed()
        return True

    def blend(self, reach: int = 12) -> bool:
        """Write the pose on screen into the take at this frame and blend it into `reach` frames on both sides."""
        if self.timeline.take is None or not is_number(reach, 0, 100_000):
            return False
        with self._lock:
            self._remember()
            self.timeline = self.timeline.edited(round(self.timeline.frame), self.pose, reach)
        self._changed()
        return True
