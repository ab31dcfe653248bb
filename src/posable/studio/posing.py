"""Posing: dragging handles, holding and freeing them, turning single joints, choosing how it is solved."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace
from typing import Any

import numpy as np

import posable as ps

from .core import CALM, Core
from .engine import are_settings
from .handles import HOLDS, MODES, below_of, checked_target, default_handles, handle_at, is_number
from .limbs import with_elbow_near

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
