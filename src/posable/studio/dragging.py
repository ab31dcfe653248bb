"""Drags: the queue between the pages and the session, and the solver behind it.

Only the newest target of a handle counts, but no end of a drag is ever lost. Goals are packed once and solved for every
target, or tracked under velocity limits.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import posable as ps
from posable.studio.body_goals import LikelyPose, arms_off_trunk, balance, hips_in, is_person
from posable.studio.handles import POSTURE, Handle, goals_of, posture_weights, relaxed

STEPS = 8  # Newton steps per solve during a drag; the next target continues from there
STEP = 0.12  # [rad, m] how far a dof may move in one solve, so that a drag beyond reach does not throw limbs about
STRIDE = 0.015  # [m] a target that jumps gets another solve per this distance
ROUNDS = 15  # largest number of solves for one target
STILL = 2e-3  # [rad, m] a solve that moves less is the last one for its target
YIELDING = 0.1  # of the weight of a head that is held: in place while the trunk bends, it would be thrown back
PACE = 4.0  # [rad/m] rate at which the reference pose follows the likely pose, per travel of the handle
HOMES = {"drag": 0.0, "relaxed": 0.5, "rest": 1.0}  # fraction of the way from the current pose to rest


@dataclass(frozen=True)
class Settings:
    """How to solve: the solver, a second one shown as a ghost, limits on or off, how strongly to keep the posture."""

    solver: str = "newton"
    ghost: str | None = None
    limits: bool = True
    iterations: int = 0  # 0: the solver's default
    stay: float = 10.0**-3.5
    home: str = "relaxed"  # reference posture: at the start of the "drag", between it and rest, or "rest"
    options: dict[str, Any] = field(default_factory=dict)  # of the solver
    balance: bool = True  # keep the centre of mass above pinned feet
    apart: bool = True  # keep arms out of the trunk
    natural: bool = True  # human figures: prefer likely poses
    motors: bool = False  # drags respect the velocity limits of the joints
    stretch: bool = False  # bones may change their lengths if the file allows it

    def method(self) -> Any:
        """Return the solver with its options."""
        return ps.solvers.get(self.solver)(**self.options) if self.options else self.solver


def are_settings(changes: Mapping[str, Any]) -> bool:
    """Return whether changed settings received from a page are valid."""
    names = ps.solvers.names()
    sound: dict[str, Callable[[Any], bool]] = {
        "solver": lambda value: value in names,
        "ghost": lambda value: value is None or value in names,
        "iterations": lambda value: isinstance(value, int) and 0 <= value <= 100_000,
        "stay": lambda value: isinstance(value, float | int) and 0.0 <= value <= 10.0,
        "home": lambda value: value in HOMES,
        "options": lambda value: isinstance(value, dict) and _are_options(changes.get("solver"), value),
    }
    switches = [field.name for field in fields(Settings) if isinstance(field.default, bool)]
    sound |= dict.fromkeys(switches, lambda value: isinstance(value, bool))
    return all(key in sound and sound[key](value) for key, value in changes.items())


@lru_cache(maxsize=8)
def with_lengths(skeleton: ps.Skeleton, stretch: bool) -> ps.Skeleton:
    """Return a figure whose bones keep their lengths, or may `stretch`: free joints also translate."""
    if not stretch:
        return skeleton.with_rigid_bones()
    slides = [
        name for joint in skeleton.joints if isinstance(joint.motion, ps.Free)
        for name in skeleton.dof_names[skeleton.index(joint.name)][:3]
    ]  # fmt: skip
    return skeleton.unfreeze(slides)


def _are_options(solver: Any, options: dict[str, Any]) -> bool:
    """Return whether a solver accepts options."""
    try:
        ps.solvers.get(solver)(**options)
    except (ps.PosableError, TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, eq=False)
class DragResult:
    """The result of a solve, as plain data."""

    pose: np.ndarray
    ok: bool
    status: str
    message: str
    errors: dict[str, float]
    tolerances: dict[str, float]
    iterations: int
    seconds: float
    solver: str


@dataclass
class DragSolver:
    """A solver, and an optional second one on the same goals.

    `pack` packs the goals; `solve` moves the targets and solves.
    """

    skeleton: ps.Skeleton
    settings: Settings
    rest: np.ndarray  # (n,)
    strength: Mapping[str, float]  # by joint, 1 by default: how strongly it keeps its posture
    main: Any = None
    ghost: Any = None
    goals: list[Any] = field(default_factory=list)
    ghost_error: str = ""
    last: Any = None
    going: bool = False  # whether further solves for the same targets would move the figure
    likely: LikelyPose | None = None
    home: Any = None  # (n,) the reference pose
    hips: dict[str, np.ndarray] = field(default_factory=dict)  # (3,) [m] in the pelvis, if it is dragged
    targets: dict[str, np.ndarray] = field(default_factory=dict)  # of the handles when `home` was last updated

    @property
    def moving(self) -> ps.Skeleton:
        """The figure whose degrees of freedom a drag may change."""
        return with_lengths(self.skeleton, self.settings.stretch)

    def pack(self, handles: tuple[Handle, ...], active: set[str], pose: np.ndarray) -> None:
        """Pack the goals of the handles, firm for those in `active`, for solves that start at `pose` (n,)."""
        s = self.settings
        home = relaxed(self.skeleton, pose, HOMES[s.home], self.rest)
        self.likely = None
        if s.natural and s.home == "relaxed" and s.solver == "newton" and s.stay > 0.0 and is_person(self.skeleton):
            self.likely, home = LikelyPose(self.moving, handles, active, pose), pose.copy()
            firm = {h.body for h in handles if h.hold != "held" or hips_in(self.skeleton, h.body) is not None}
            firm |= self.likely.bodies.keys()
            handles = tuple(h if h.body in firm else replace(h, weight=YIELDING * h.weight) for h in handles)
        self.home, self.targets = home, {h.body: h.position for h in handles}
        self.goals = goals_of(handles, active, home, s.stay, posture_weights(self.skeleton, self.strength))
        method = s.method()
        if s.solver == "newton":  # other methods are shown without help
            self._drag_by_hips(handles, active, pose)
            self.goals += balance(self.skeleton, handles, active, pose) if s.balance else []
            self.goals += arms_off_trunk(self.skeleton) if s.apart else []
        self.main = self._session(method, pose, continuous=method == "newton")
        self.ghost, self.ghost_error = None, ""
        if s.ghost is not None:
            try:
                self.ghost = self._session(s.ghost, pose)
            except ps.PosableError as error:
                self.ghost_error = str(error)

    def _drag_by_hips(self, handles: tuple[Handle, ...], active: set[str], pose: np.ndarray) -> None:
        """Drag the pelvis by the point between its hips.

        Tilting the pelvis brings its other points nearer to a target that the legs cannot reach, by a centimetre or
        two, at the cost of a folded trunk.
        """
        points = {h.body: hips_in(self.skeleton, h.body) for h in handles if h.body in active and h.mode == "position"}
        self.hips = {body: point for body, point in points.items() if point is not None}
        places = self._hip_targets(handles, pose)
        for goal in self.goals:
            if goal.label in self.hips:
                goal.point = self.hips[goal.label]
                goal.set_target(places[goal.label])

    def _hip_targets(self, handles: tuple[Handle, ...], pose: np.ndarray) -> dict[str, np.ndarray]:
        """Return where (3,) [m] the hips are when the pelvis is at its target, turned as it is now."""
        if not self.hips:
            return {}
        frames = ps.forward(self.skeleton, pose)
        return {
            h.body: h.position + frames.rotation_matrix(h.body) @ self.hips[h.body]
            for h in handles if h.body in self.hips
        }  # fmt: skip

    def _session(self, solver: Any, pose: np.ndarray, *, continuous: bool = False) -> ps.Session:
        s = self.settings
        return ps.Session(  # the posture goal keeps poses natural; a drag beyond reach does not jump between branches
            self.moving, self.goals, solver=solver, start=pose, limits=s.limits, natural=False, continuous=continuous,
            max_iterations=s.iterations or (STEPS if continuous else None), max_step=STEP if continuous else None,
        )  # fmt: skip

    def solve(
        self, handles: tuple[Handle, ...], moved: set[str], pose: np.ndarray, *, rounds: int = 1
    ) -> tuple[DragResult, DragResult | None]:
        """Return the results of solver and ghost with the handles `moved` at their targets, from `pose` (n,).

        Args:
            handles: All handles.
            moved: The bodies of handles with new targets.
            pose: Start.
            rounds: Minimum number of solves if the solver continues from its last result (newton).
        """
        labels = {goal.label for goal in self.goals}
        for handle in handles:
            if handle.body in moved and handle.body in labels and handle.body not in self.hips:
                self._move(handle.body, handle.target())
        way = self._largest_move(handles, moved)
        self._move_home(way, pose)
        rounds = min(max(rounds, 1 + int(way / STRIDE)), ROUNDS)
        self._move_hips(handles, pose)
        result = self.main.solve(start=pose)
        for _ in range(rounds - 1):
            self._move_hips(handles, result.pose)
            before, result = result.pose, self.main.solve()
            if np.abs(result.pose - before).max(initial=0.0) < STILL:
                break
        self.last = result
        self.going = not result.ok and float(np.abs(result.pose - pose).max(initial=0.0)) > STILL
        return self._answer(result), None if self.ghost is None else self._answer(self.ghost.solve())

    def _move_hips(self, handles: tuple[Handle, ...], pose: np.ndarray) -> None:
        for body, place in self._hip_targets(handles, pose).items():
            self._move(body, place)

    def _move(self, label: str, target: np.ndarray) -> None:
        """Move the target of a goal in the sessions of the solver and of its ghost."""
        for session in (self.main, self.ghost):
            if session is not None:
                session.move(label, target)

    def stated_goals(self) -> list[Any]:
        """Return the goals as the user stated them: of the pelvis itself, not of its hips."""
        out = []
        for goal in self.main.goals:
            if goal.label in self.hips:
                goal = copy(goal)
                goal.point = None
                goal.set_target(self.targets[goal.label])
            out.append(goal)
        return out

    def _largest_move(self, handles: tuple[Handle, ...], moved: set[str]) -> float:
        """Return the largest distance [m] that a handle has moved since the last call."""
        ways = [float(np.linalg.norm(h.position - self.targets[h.body])) for h in handles if h.body in moved]
        self.targets |= {h.body: h.position for h in handles}
        return max(ways, default=0.0)

    def _move_home(self, way: float, pose: np.ndarray) -> None:
        """Move the reference pose towards the likely one, in proportion to the travel of the handles [m]."""
        if self.likely is None:
            return
        likely = self.likely.near(pose, ps.forward(self.skeleton, pose))
        self.home = self.home + np.clip(likely - self.home, -PACE * way, PACE * way)
        self._move(POSTURE, self.home)

    def _answer(self, result: Any) -> DragResult:
        limits = {goal.label: _tolerance(goal) for goal in self.goals}
        return DragResult(
            result.pose, result.ok, str(result.status), result.message, dict(result.errors),
            limits, result.iterations, result.seconds, self.settings.solver if result is self.last else result.solver,
        )  # fmt: skip

    def from_step(self, step: Any) -> DragResult:
        """Return the step of a controller as a result."""
        return DragResult(
            step.pose, step.ok, "REACHED" if step.ok else "MOVING", str(step), dict(step.errors),
            {goal.label: _tolerance(goal) for goal in self.goals}, 0, 0.0, "controller",
        )  # fmt: skip

    def blocking(self) -> tuple[Any, ...]:
        """Return the limits that block the last result, worst first."""
        return tuple(self.last.blocking) if self.last is not None else ()

    def reasons(self) -> tuple[Any, ...]:
        """Return why the last result misses its goals."""
        return tuple(self.last.reasons) if self.last is not None else ()

    def curves(self, start: np.ndarray) -> dict[str, np.ndarray]:
        """Return the energy over the iterations from `start` (n,) of the solver and of its ghost, by name."""
        out = {}
        for name in dict.fromkeys((self.settings.solver, self.settings.ghost)):
            if name is None:
                continue
            method = self.settings.method() if name == self.settings.solver else name
            try:
                result = ps.solve(
                    self.moving, self.main.goals, solver=method, start=start, limits=self.settings.limits,
                    max_iterations=self.settings.iterations or 100, record=True, time_limit=0.5,
                )  # fmt: skip
            except ps.PosableError:
                continue
            if result.trace is not None and len(result.trace["energy"]):
                out[name] = np.asarray(result.trace["energy"], dtype=float)
        return out


def _tolerance(goal: Any) -> float:
    return float(np.min(goal.tolerance))


TICK = 1.0 / 60.0  # [s]
MOST = 4  # largest number of ticks at once
KEPT = 360  # ticks shown in the plot
STANDSTILL = 1e-3  # relative to the velocity limits: slower counts as standing
LONGEST = 20.0  # [s] for which the drag continues after its handle was released


class JointSpeeds(NamedTuple):
    """Speeds of the last ticks, for a plot: times (T,) [s], fraction of the limit (T, n), and names (n,)."""

    times: np.ndarray
    shares: np.ndarray
    names: tuple[str, ...]


class ControlledDrag:
    """Follows handles with a `Controller`: joints respect their velocity and acceleration limits.

    Args:
        skeleton: The figure.
        goals: The goals of its handles and its posture; labels are the bodies of the handles.
        pose: (n,) start.
        limits: Whether joint limits apply.
    """

    def __init__(self, skeleton: ps.Skeleton, goals: list[Any], pose: np.ndarray, *, limits: bool):
        self.controller = ps.Controller(skeleton, goals, dt=TICK, start=pose, limits=limits)
        self.labels = {goal.label for goal in goals}
        self.names = skeleton.dof_names
        self.step: Any = None
        self.clock: float | None = None  # [s] when the last tick was due
        self.ticks = 0
        self._speeds: deque[np.ndarray] = deque(maxlen=KEPT)

    def run(self, handles: tuple[Handle, ...], now: float) -> bool:
        """Tick until `now` [s]; return whether there was a tick."""
        if self.clock is None:
            self.clock = now - TICK
        count = min(int((now - self.clock) / TICK + 1e-9), MOST)
        if count <= 0:
            return False
        self.clock = now if count == MOST else self.clock + count * TICK
        targets = {h.body: h.target() for h in handles if h.body in self.labels}
        for _ in range(count):
            self.step = self.controller.step(targets)
            self.ticks += 1
            self._speeds.append(np.abs(self.step.velocity) / self.controller.velocity_limits)
        return True

    @property
    def arrived(self) -> bool:
        """Whether it has come to rest, at its targets or as close as possible."""
        return self.step is not None and float(self._speeds[-1].max(initial=0.0)) < STANDSTILL

    @property
    def speeds(self) -> JointSpeeds:
        """The data of the speed plot."""
        shares = np.array(self._speeds).reshape(-1, len(self.names))
        return JointSpeeds((self.ticks - len(shares) + np.arange(len(shares))) * TICK, shares, self.names)


MOST_WAITING = 64  # waiting drags; a page that sends more has to wait


class Drag(NamedTuple):
    """The newest target of a handle, position (3,) [m] and rotation (3, 3), and whether the drag ends there."""

    name: str
    position: np.ndarray | None = None
    rotation: np.ndarray | None = None
    ends: bool = False


class DragQueue:
    """Pending drags, in order. Adding to the queue never waits for a solve, so a page is never blocked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Drag] = []
        self._held: set[str] = set()  # handles that pages hold
        self._interrupted: set[str] = set()  # those of them whose targets are ignored until they are released

    def move(self, name: str, position: np.ndarray | None, rotation: np.ndarray | None) -> bool:
        """Set the target of a handle; return False if its drag was interrupted."""
        with self._lock:
            at = self._last(name)
            new = at is None or self._waiting[at].ends  # also while the end of its last drag still waits
            if name in self._interrupted or (new and len(self._waiting) >= MOST_WAITING):
                return False
            self._held.add(name)
            if at is None or new:
                self._waiting.append(Drag(name, position, rotation))
            else:
                drag = self._waiting[at]
                self._waiting[at] = drag._replace(
                    position=drag.position if position is None else position,
                    rotation=drag.rotation if rotation is None else rotation,
                )
            return True

    def end(self, name: str) -> None:
        """End the drag of a handle after its last target."""
        with self._lock:
            self._held.discard(name)
            self._interrupted.discard(name)
            at = self._last(name)
            if at is None:
                self._waiting.append(Drag(name, ends=True))
            else:
                self._waiting[at] = self._waiting[at]._replace(ends=True)

    @property
    def held(self) -> set[str]:
        """The handles that pages hold."""
        with self._lock:
            return set(self._held)

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, *, interrupt: bool = False) -> list[dict[str, Drag]]:
        """Return the waiting drags by handle, in batches: a handle that is dragged again is in a later one.

        Args:
            interrupt: Whether the drags that go on are ignored from now on, until their handles are released.
        """
        with self._lock:
            waiting, self._waiting = self._waiting, []
            if interrupt:
                self._interrupted |= self._held
        batches: list[dict[str, Drag]] = []
        for drag in waiting:
            if not batches or drag.name in batches[-1]:
                batches.append({})
            batches[-1][drag.name] = drag
        return batches

    def _last(self, name: str) -> int | None:
        return next((k for k in range(len(self._waiting) - 1, -1, -1) if self._waiting[k].name == name), None)
