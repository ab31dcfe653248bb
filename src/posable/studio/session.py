"""The studio without a page: the figure on screen as plain data, and every operation on it.

This `Session` is not `posable.Session`, which solves its drags (dragging.py).
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
from posable.studio.appearance import asset, has_body
from posable.studio.document import Document
from posable.studio.dragging import LONGEST, ROUNDS, ControlledDrag, Drag, DragQueue, DragSolver, Settings, are_settings
from posable.studio.files import Folder, Origin, WatchedFile, load_quietly, notes_on, origin_of
from posable.studio.handles import HOLDS, MODES, Handle, checked_target, handle_at, is_number
from posable.studio.limbs import blended, ends_of, limb_view, with_elbow_near
from posable.studio.player import Player
from posable.studio.pose_tools import LimbTools, PoseTools
from posable.studio.remedies import Remedies

FRAME = 1.0 / 60.0  # [s] between frames while playing
IDLE = 0.12  # [s] without a new target before slow results are computed: blocking limits, curves
EXTRA_SOLVES = 40  # further solves for targets that are not reached
AUTOSAVE = 3.0  # [s] between two copies of unsaved work

WEAKEST, STRONGEST = 0.03, 30.0  # bounds of a joint's strength, relative to its own


class Session(Document):
    """A figure being posed. Methods may be called from any thread; invalid arguments change nothing and return False.

    Args:
        source: The figure or file contents to open; the human by default.
        settings: How to solve.
        recovery: Where unsaved work is kept for the next start; None: it is not kept.
    """

    def __init__(
        self,
        source: ps.Scene | ps.Skeleton | None = None, *, settings: Settings | None = None,
        recovery: project.RecoveryStore | None = None,
    ):  # fmt: skip
        self.queue = DragQueue()
        self._released: set[str] = set()  # handles released while a controlled drag is still moving
        self._released_at = 0.0  # [s] when they were released
        self._extra_solves = 0  # further solves so far for the last targets
        self._worker: threading.Thread | None = None
        self._closed = False
        self.folder = Folder()
        self.recovery = recovery
        self.watched = WatchedFile(self)
        self.remedies = Remedies(self)
        self.player, self.limb_tools, self.pose_tools = Player(self), LimbTools(self), PoseTools(self)
        super().__init__(source, settings=settings)

    # ------------------------------------------------------------------------------------------------ what is open

    def open_path(self, path: str | Path, *, watch: bool = False) -> None:
        """Open a local file; with `watch`, it is read again when it changes."""
        place = Path(path)
        if place.suffix.lower() == project.SUFFIX:
            self.open_project(place.name, place.read_bytes())
            return
        scene = load_quietly(place, getattr(self, "skeleton", None))
        self.watched.watch(place if watch else None)
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
                notes = notes_on(scene)
        except (ps.PosableError, OSError) as error:
            self.notify(str(error), "bad")
            return False
        self.notify(f"Opened {name}. {notes}".strip(), "good")
        return True

    def export(self, suffix: str) -> tuple[str, bytes]:
        """Return the name and bytes of the current motion in a format: bvh, glb, amc (with its asf), csv or npz."""
        with self.lock:
            self.flush()
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
        with self.lock:
            self.flush()
            state = self.state()
            data = project.dump(state, self.folder, saved=True, camera=self.camera)
            self._saved = state.revision
            if self.recovery is not None:
                self.recovery.keep(state.origin, data)
        self.publish()
        return f"{Path(state.origin.name or 'posable').stem}{project.SUFFIX}", data

    def open_project(self, name: str, data: bytes) -> None:
        """Open a project.

        Raises:
            PosableError: The data are not a project.
        """
        scene, origin, kept = project.load(name, data, self.folder)
        self.watched.watch(None)
        self.open(scene, origin=origin, kept=kept)
        if not kept.get("saved"):
            with self.lock:
                self._saved = -1

    def recover(self) -> bool:
        """Restore unsaved work on the current figure from the last run of the studio; return whether there was any."""
        data = self.recovery.unsaved(self.origin) if self.recovery is not None else None
        if data is None:
            return False
        try:
            watched = self.watched.path
            self.open_project("recovered work", data)
            self.watched.watch(watched)
        except (ps.PosableError, OSError) as error:
            self.notify(f"Unsaved work could not be recovered: {error}", "bad")
            return False
        return True

    def autosave(self) -> bool:
        """Write unsaved work to the recovery store; return whether there was any."""
        if self.recovery is None:
            return False
        with self.lock:
            self.flush()
            state = self.state()
            if state.revision in (self._kept, self._saved):
                return False
            data = project.dump(state, self.folder, saved=False, camera=self.camera)
            self._kept = state.revision
        self.recovery.keep(state.origin, data)
        return True

    # ----------------------------------------------------------------------------------------------------- worker

    def start_worker(self) -> None:
        """Start the worker thread: it compiles what drags need, then solves."""
        self.can_drag = self.ready = False
        self._worker = threading.Thread(target=self._work, name="posable studio", daemon=True)
        self._worker.start()

    def warm_up(self) -> None:
        """Compile what drags, limbs and diagnostics need (once per machine), without changing anything."""
        self._compile_drags(natural=False)
        self._compile_rest()

    def _compile_drags(self, *, natural: bool) -> DragSolver:
        with self.lock:
            engine = self._new_drag_solver(replace(self.settings, natural=natural))
            handles, pose = self.handles, self.pose
        engine.pack(handles, {handles[0].body} if handles else set(), pose)
        engine.solve(handles, {h.body for h in handles}, pose)
        return engine

    def _compile_rest(self) -> None:
        """Compile what the first drag can do without: limbs in closed form, natural poses, and diagnostics."""
        with self.lock:
            limbs, pose = list(self.limbs.values()), self.pose
        for limb in limbs[:1]:
            limb_view(limb, pose)
            with_elbow_near(limb, pose, ps.forward(limb.skeleton, pose).position(limb.middle), limits=True)
        self._compile_drags(natural=True).curves(pose)

    def _prepare(self, compiling: Callable[[], Any]) -> None:
        """Compile something; what fails here fails again, and is reported, when it is used."""
        with contextlib.suppress(ps.PosableError):
            compiling()

    def _become_ready(self) -> None:
        """Compile the rest while the worker solves already; contacts, which have code of their own, come last."""
        self._prepare(self._compile_rest)
        with self.lock:
            self.ready = self.stale = True
        self.wake.set()
        self.publish()

    def _work(self) -> None:
        self._prepare(lambda: self._compile_drags(natural=False))
        self.can_drag = True
        self.publish()
        threading.Thread(target=self._become_ready, name="posable warm-up", daemon=True).start()
        autosaved = time.monotonic()
        while not self._closed:
            moving = self.timeline.playing or (self.controlled_drag and self.dragging)
            self.wake.wait(FRAME if moving else IDLE if self.stale else 1.0)
            self.wake.clear()
            if self._closed:
                return
            try:
                self.step()
                self.watched.check()
                if time.monotonic() - autosaved > AUTOSAVE and self.active is None:
                    autosaved = time.monotonic()
                    self.autosave()
            except Exception as error:  # the page survives any error of a solver or a file
                self.notify(f"{type(error).__name__}: {error}", "bad")

    def close(self) -> None:
        """Stop the worker, keep unsaved work for the next start, and remove temporary files."""
        self._closed = True
        self.wake.set()
        if self._worker is not None:
            self._worker.join(2.0)
        with contextlib.suppress(OSError, ps.PosableError):
            self.autosave()
        self.folder.close()

    # --------------------------------------------------------------------------------------------------- dragging

    def drag(self, name: str, position: Any = None, rotation: Any = None) -> bool:
        """Set the target of a handle, an elbow or a knee; returns at once, the worker solves."""
        target = checked_target(position, rotation)
        if target is None or not self._can_drag(name) or not self.queue.move(name, *target):
            return False
        self.wake.set()
        return True

    def _can_drag(self, name: str) -> bool:
        return name in self.limbs or any(h.body == name for h in self.handles)

    def release(self, name: str | None = None) -> None:
        """End the drag of a body, or all drags: handles that are not pinned stay where they are."""
        for body in {*self.queue.held, *self.dragging} if name is None else {name}:
            self.queue.end(body)
        self.wake.set()

    def step(self) -> bool:
        """Process pending work once, as the worker does; return whether there was any."""
        with self.lock:
            did = self.flush()
            if (
                not did
                and self.dragging
                and self.controlled_drag is None
                and self.drag_solver.going
                and self._extra_solves < EXTRA_SOLVES
            ):
                self._extra_solves += 1
                self._solve_for({})
                did = True
                self.wake.set()
            did = self._advance_controlled_drag() or did
            if self.timeline.playing and not self.dragging:
                self.player.advance()
                did = True
        if did:
            self.publish()
        elif self.stale and time.perf_counter() - self._last_target > IDLE and not self.timeline.playing:
            self._compute_diagnostics()
            did = True
        return did

    def flush(self) -> bool:
        """Process the drags that wait, in order; return whether there were any."""
        with self.lock:
            return self._process(self.queue.take())

    def end_drags(self) -> None:
        """End all drags where they are; pages that still hold a handle have to grab it again."""
        with self.lock:
            self._process(self.queue.take(interrupt=True))
            self._finish_drags(set(self.dragging))

    def _process(self, batches: list[dict[str, Drag]]) -> bool:
        for batch in batches:
            wanted = {
                name: drag for name, drag in batch.items()
                if self._can_drag(name) and not (drag.position is None and drag.rotation is None)
            }  # fmt: skip
            try:
                if wanted:
                    self._follow(wanted)
            except Exception as error:  # whatever fails, a drag that was released ends
                self.notify(f"{type(error).__name__}: {error}", "bad")
            ended = {name for name, drag in batch.items() if drag.ends}
            if self.controlled_drag is None:
                self._finish_drags(ended)
            elif ended & self.dragging.keys():
                self._released |= ended & self.dragging.keys()
                self._released_at = self._released_at or time.perf_counter()
        return bool(batches)

    def _follow(self, wanted: dict[str, Drag]) -> None:
        self._finish_drags(self._released & wanted.keys())  # taken hold of again
        self._extra_solves = 0
        self._last_target, self.stale, self._last_edit, self.offers = time.perf_counter(), True, None, ()
        new = [name for name in wanted if name not in self.dragging]
        if new:
            self.push_state()  # one drag is one step of undo
            self.timeline = replace(self.timeline, playing=False)
            self.start, self.blocking, self.reasons = self.pose, (), ()
            self._begin(new)
        self.active = next(reversed(wanted))
        for name, drag in wanted.items():
            if name in self.limbs and drag.position is not None:
                solution = with_elbow_near(self.limbs[name], self.pose, drag.position, limits=self.settings.limits)
                if np.isfinite(solution.pose).all():
                    self.set_figure_pose(solution.pose)
        moved = {name: drag for name, drag in wanted.items() if name not in self.limbs}
        if moved:
            self._solve_for(moved)

    def _begin(self, new: list[str]) -> None:
        """Begin to drag bodies; with a selected handle, the rest of the selection moves."""
        for others in self.companions.values():
            for name in new:
                others.pop(name, None)
        self.dragging |= {name: self.frames.position(name) for name in new}
        for name in new:
            if name in self.selection and name not in self.limbs:
                taken = {*self.dragging, *self._driven_bodies()}
                self.companions[name] = {
                    h.body: self.frames.position(h.body)
                    for h in self.handles if h.body in self.selection and h.body not in taken
                }  # fmt: skip
        self.dragged = tuple(name for name in self.dragging if name not in self.limbs)
        self.drag_solver = self._new_drag_solver()
        self.drag_solver.pack(self._handles_with_fk(), self._driven_bodies(), self.pose)
        self.controlled_drag = (
            ControlledDrag(self.drag_solver.moving, self.drag_solver.goals, self.pose, limits=self.settings.limits)
            if self.settings.motors and self.dragged
            else None
        )

    def _driven_bodies(self) -> set[str]:
        """Return the handles that move with the drags: the dragged ones and their companions."""
        return {name for name in self.dragging if name not in self.limbs}.union(*self.companions.values())

    def _solve_for(self, moved: dict[str, Drag]) -> None:
        targets = {name: (drag.position, drag.rotation) for name, drag in moved.items()}
        for lead, drag in moved.items():
            if drag.position is not None:
                way = drag.position - self.dragging[lead]
                targets |= {other: (begin + way, None) for other, begin in self.companions.get(lead, {}).items()}
        self.handles = tuple(h.moved(*targets[h.body]) if h.body in targets else h for h in self.handles)
        if self.controlled_drag is not None:  # it follows tick by tick
            return
        try:
            self.result, self.ghost = self.drag_solver.solve(self.handles, set(targets), self.pose)
        except ps.PosableError as error:
            self.notify(str(error), "bad")
            return
        if np.isfinite(self.result.pose).all():
            self.set_figure_pose(self._with_fk(self.result.pose, set(targets)))

    def _advance_controlled_drag(self) -> bool:
        """Advance the controlled drag to the current time; released drags end when it has arrived."""
        drive, now = self.controlled_drag, time.perf_counter()
        if drive is None or not self.dragging:
            return False
        ticked = drive.run(self.handles, now)
        if ticked:
            self.result, self.ghost = self.drag_solver.from_step(drive.step), None
            self.set_figure_pose(drive.step.pose)
        if self._released and (drive.arrived or now - self._released_at > LONGEST):
            self._finish_drags(set(self._released))
            return True
        return ticked

    def _handles_with_fk(self) -> tuple[Handle, ...]:
        """Return the handles; those at the ends of limbs that are not fully IK are held gently, or free for FK."""
        holds = {
            body: "free" if share == 0.0 else "held"
            for name, share in self.blend.items() for body in ends_of(self.skeleton, self.limbs[name])
        }  # fmt: skip
        return tuple(replace(h, hold=holds.get(h.body, h.hold)) for h in self.handles)

    def _with_fk(self, pose: np.ndarray, dragged: set[str]) -> np.ndarray:
        """Return a pose (n,) with the limbs that are not fully IK blended with their FK pose, except dragged ones."""
        for name, share in self.blend.items():
            if not dragged & ends_of(self.skeleton, self.limbs[name]):
                pose = blended(self.skeleton, self.limbs[name], self.start, pose, share)
        return pose

    def _finish_drags(self, released: set[str]) -> None:
        """End drags: move handles that are not pinned to their bodies, and set a key."""
        if not released & self.dragging.keys():
            return
        self.dragging = {name: start for name, start in self.dragging.items() if name not in released}
        self.companions = {name: others for name, others in self.companions.items() if name in self.dragging}
        self._released &= self.dragging.keys()
        self._released_at = self._released_at if self._released else 0.0
        self.handles, self.timeline = self.released({*self.dragging, *self._driven_bodies()})
        self._newest += 1
        self._revision = self._newest  # what was saved during the drag is not all of it
        self.active = next(iter(self.dragging), None)
        self.stale = True

    def _compute_diagnostics(self) -> None:
        """Compute slow results: the blocking limits, and the convergence of both solvers."""
        with self.lock:
            self.stale = self._busy = False
            self.blocking, self.reasons, self.offers, self.curves = (), (), (), {}
            if self.result is not None and self.drag_solver.main is not None and self.ready:  # else nobody waits for it
                if not self.result.ok and self.controlled_drag is None:
                    self.blocking, self.reasons = self.drag_solver.blocking(), self.drag_solver.reasons()
                    self.remedies.search()
                if not np.array_equal(self.start, self.pose):
                    self.curves = self.drag_solver.curves(self.start)
        self.publish()

    # ------------------------------------------------------------------------------ changes that are solved for again

    def set_handle(
        self, body: str, hold: str | None = None, mode: str | None = None, weight: float | None = None,
        priority: int | None = None,
    ) -> bool:  # fmt: skip
        """Pin, hold or free a body; a handle is created if it has none."""
        bodies = (*self.skeleton.names, *self.skeleton.site_names)
        if body not in bodies or hold not in (None, *HOLDS) or mode not in (None, *MODES):
            return False
        if not (weight is None or is_number(weight, 1e-4, 1e4)) or not (priority is None or is_number(priority, 0, 9)):
            return False
        changes = {"hold": hold, "mode": mode, "weight": weight, "priority": priority}
        given = {key: value for key, value in changes.items() if value is not None}
        with self.change(f"{'/'.join(given)} of {body}", rest=False):
            if all(h.body != body for h in self.handles):
                self.handles = (*self.handles, handle_at(self.frames, body, hold="pinned"))
            self.handles = tuple(replace(h, **given) if h.body == body else h for h in self.handles)
            self.active = None
            if self.result is not None and not self.result.ok and given.keys() & {"weight", "priority"}:
                self._solve_again()
        return True

    def set_strength(self, joint: str, strength: float, *, below: bool = False) -> bool:
        """Scale the strength of a joint and, with `below`, of its descendants: stronger joints move later."""
        if joint not in self.skeleton.names or not is_number(strength, WEAKEST, STRONGEST):
            return False
        with self.change(f"strength of {joint}", rest=False):
            joints = (joint, *self.skeleton.below(joint)) if below else (joint,)
            changed = {**self.strength, **dict.fromkeys(joints, float(strength))}
            self.strength = {name: value for name, value in changed.items() if value != 1.0}
            self._solve_again()
        return True

    def clear_strength(self) -> None:
        """Reset the strength of every joint."""
        with self.change(rest=False):
            self.strength = {}
            self._solve_again()

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
                self._compile_solver(changes[key])
        with self.at_rest():
            old, self.settings = self.settings, replace(self.settings, **changes)
            if not self._solve_again(first=True):
                self.settings, self.drag_solver = old, self._new_drag_solver(old)
                self.publish()
                return False
            if self.drag_solver.ghost_error:
                self.notify(self.drag_solver.ghost_error, "bad")
        self.wake.set()
        self.publish()
        return True

    def _solve_again(self, *, first: bool = False) -> bool:
        """Solve the last drag again from its start with the new settings; with `first`, even if there was none."""
        self.active, self.stale = None, True
        if self.result is None and not first:
            return True
        start = self.start if self.result is not None else self.pose
        engine = self._new_drag_solver()
        try:
            engine.pack(self._handles_with_fk(), set(self.dragged) if self.result is not None else set(), start)
            self.result, self.ghost = engine.solve(self.handles, set(), start, rounds=ROUNDS)
        except ps.PosableError as error:
            self.notify(str(error), "bad")
            return False
        self.drag_solver = engine
        if np.isfinite(self.result.pose).all():
            self.set_figure_pose(self.result.pose)
        return True

    def _compile_solver(self, solver: str) -> None:
        engine = self._new_drag_solver(replace(self.settings, solver=solver, options={}, ghost=None, iterations=1))
        with contextlib.suppress(ps.PosableError):
            engine.pack(self.handles, set(), self.pose)
            engine.solve(self.handles, set(), self.pose)
