"""Posing: dragging handles, holding and freeing them, turning single joints, choosing how it is solved."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any

import numpy as np

import posable as ps

from .core import CALM, Core
from .engine import Engine
from .handles import HOLDS, MODES, checked_target, default_handles, handle_at
from .limbs import with_elbow_near


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
            self.active, self.start = name, self.pose
            self.engine = Engine(self.skeleton, self.settings)
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
            self._stale = False
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
        if weight is not None and not 0.0 < weight <= 1e4:
            return False
        changes = {"hold": hold, "mode": mode, "weight": weight, "priority": priority}
        with self._lock:
            self._remember()
            if all(h.body != body for h in self.handles):
                self.handles = (*self.handles, handle_at(self.frames, body, hold="pinned"))
            given = {key: value for key, value in changes.items() if value is not None}
            self.handles = tuple(replace(h, **given) if h.body == body else h for h in self.handles)
            self.active, self._stale = None, True
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

    def pick(self, origin: Any, direction: Any, within: float = 0.09) -> str | None:
        """Return the joint or handle nearest to a ray, where one is within so many metres of it, and select it."""
        ray = np.asarray(direction, dtype=float)
        ray = ray / max(float(np.linalg.norm(ray)), 1e-12)
        best, least = None, within
        for body in (*[h.body for h in self.handles], *self.skeleton.names):
            offset = self.frames.position(body) - np.asarray(origin, dtype=float)
            away = float(np.linalg.norm(offset - (offset @ ray) * ray))
            if offset @ ray > 0 and away < least - 1e-9:
                best, least = body, away
        if best is not None:
            self.select(best)
        return best

    # ------------------------------------------------------------------------------------------------- the pose

    def set_dof(self, name: str, value: float) -> bool:
        """Turn one joint by its number [rad, m]: forward kinematics; within its limits while they are on."""
        if name not in self.skeleton.dof_names or not np.isfinite(value):
            return False
        with self._lock:
            dof = self.skeleton.dof(name)
            if self.settings.limits:
                value = float(np.clip(value, self.skeleton.lower[dof], self.skeleton.upper[dof]))
            if abs(self.pose[dof] - value) < 1e-12:
                return True
            if self.active != f"dof {name}":
                self._remember()
            pose = self.pose.copy()
            pose[dof] = value
            self._set(pose)
            self.active = f"dof {name}"
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
        """Stand at rest again, with the handles that the figure began with."""
        with self._lock:
            self._remember()
            self._set(self.skeleton.rest.copy())
            self.handles = default_handles(self.skeleton, self.frames)
        self._changed()

    # --------------------------------------------------------------------------------------------------- solving

    def configure(self, **changes: Any) -> bool:
        """Change the settings: solver, ghost, limits, iterations, stay, home; and solve again from here."""
        names = ps.solvers.names()
        for key in ("solver", "ghost"):
            if changes.get(key) is not None and changes[key] not in names:
                return False
        if not changes.get("iterations", 0) >= 0 or not 0.0 <= changes.get("stay", 0.0) <= 10.0:
            return False
        for key in ("solver", "ghost"):  # compiles it, the first time, while nothing is locked
            if changes.get(key) is not None:
                self._try(changes[key])
        with self._lock:
            old, self.settings = self.settings, replace(self.settings, **changes)
            self.engine = Engine(self.skeleton, self.settings)
            start = self.start if self.answer is not None else self.pose
            try:
                self.engine.settle(self.handles, None, start)
                self.answer, self.ghost = self.engine.solve(self.handles, set(), start)
            except ps.PosableError as error:
                self.settings, self.engine = old, Engine(self.skeleton, old)
                self.say(str(error), "bad")
                self._changed()
                return False
            if np.isfinite(self.answer.pose).all():
                self._place(self.answer.pose)
            self.active, self._stale = None, True
            if self.engine.ghost_error:
                self.say(self.engine.ghost_error, "bad")
        self._wake.set()
        self._changed()
        return True

    def _try(self, solver: str) -> None:
        engine = Engine(self.skeleton, replace(self.settings, solver=solver, ghost=None, iterations=1))
        with contextlib.suppress(ps.PosableError):
            engine.settle(self.handles, None, self.pose)
            engine.solve(self.handles, set(), self.pose)

    def _play(self) -> bool:
        raise NotImplementedError
