"""The solver behind a drag: goals are packed once and solved for every target, or tracked under velocity limits."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import posable as ps
from posable.studio.body_goals import LikelyPose, apart, balance, is_person
from posable.studio.handles import POSTURE, Handle, effort_of, goals_of, relaxed

STEPS = 8  # Newton steps of one solve while a handle is dragged: the next target goes on from there
STRIDE = 0.015  # [m] for each of which a target that jumps has another solve
ROUNDS = 15  # solves for one target, at most
STILL = 2e-3  # [rad, m] less than which a solve that goes on for the same target ends it
PACE = 4.0  # [rad/m] how fast the pose to stay near follows the likely one, against the handle
HOMES = {
    "drag": 0.0,
    "relaxed": 0.5,
    "rest": 1.0,
}  # fraction of the way to rest: poses stay natural


@dataclass(frozen=True)
class Settings:
    """How to solve: the solver, a second one shown as a ghost, limits on or off, how strongly to keep the posture."""

    solver: str = "newton"
    ghost: str | None = None
    limits: bool = True
    iterations: int = 0  # 0: the solver's default
    stay: float = 10.0**-3.5
    home: str = "relaxed"  # posture to stay near: that at the start of the "drag", one between it and rest, or "rest"
    options: dict[str, Any] = field(default_factory=dict)  # of the solver
    balance: bool = True  # pinned feet carry the body
    apart: bool = True  # arms keep off the trunk
    natural: bool = True  # of people: tend to poses that people take
    motors: bool = False  # drags keep to the velocity limits of the joints
    stretch: bool = False  # bones may change their lengths, where a file lets them

    def method(self) -> Any:
        """Return the solver with its options."""
        return ps.solvers.get(self.solver)(**self.options) if self.options else self.solver


def are_settings(changes: Mapping[str, Any]) -> bool:
    """Return whether changed settings received from outside are valid."""
    names = ps.solvers.names()
    sound = {
        "solver": lambda value: value in names,
        "ghost": lambda value: value is None or value in names,
        "limits": lambda value: isinstance(value, bool),
        "iterations": lambda value: isinstance(value, int) and 0 <= value <= 100_000,
        "stay": lambda value: isinstance(value, float | int) and 0.0 <= value <= 10.0,
        "home": lambda value: value in HOMES,
        "options": lambda value: isinstance(value, dict) and _are_options(changes.get("solver"), value),
        "balance": lambda value: isinstance(value, bool),
        "apart": lambda value: isinstance(value, bool),
        "natural": lambda value: isinstance(value, bool),
        "motors": lambda value: isinstance(value, bool),
        "stretch": lambda value: isinstance(value, bool),
    }
    return all(key in sound and sound[key](value) for key, value in changes.items())


@lru_cache(maxsize=8)
def unstretched(skeleton: ps.Skeleton) -> ps.Skeleton:
    """Return a figure whose bones keep their lengths: joints that could turn and slide, but for the root, only turn."""
    slides = [
        name for joint in skeleton.joints[1:] if isinstance(joint.motion, ps.Free)
        for name in skeleton.dof_names[skeleton.index(joint.name)][:3]
    ]  # fmt: skip
    return skeleton.freeze(slides) if slides else skeleton


def _are_options(solver: Any, options: dict[str, Any]) -> bool:
    """Say whether a solver by name takes options."""
    try:
        ps.solvers.get(solver)(**options)
    except (ps.PosableError, TypeError, ValueError):
        return False
    return True


@dataclass(frozen=True, eq=False)
class Answer:
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
class Engine:
    """Two solvers on the same goals. `settle` packs the goals; `solve` moves the targets and solves."""

    skeleton: ps.Skeleton
    settings: Settings
    rest: np.ndarray  # (n,)
    strength: Mapping[str, float]  # of joints, 1 by default: how strongly they keep their posture
    main: Any = None
    ghost: Any = None
    goals: list[Any] = field(default_factory=list)
    ghost_error: str = ""
    last: Any = None
    going: bool = False  # whether more solves for the same targets would still move the figure
    likely: LikelyPose | None = None
    home: Any = None  # (n,) the pose to stay near
    targets: dict[str, np.ndarray] = field(default_factory=dict)  # of the handles when the home was moved last

    @property
    def moving(self) -> ps.Skeleton:
        """The figure as drags move it."""
        return self.skeleton if self.settings.stretch else unstretched(self.skeleton)

    def settle(self, handles: tuple[Handle, ...], active: set[str], pose: np.ndarray) -> None:
        """Pack the goals of the handles, firm for those in `active`, for solves that start at `pose` (n,)."""
        s = self.settings
        home = relaxed(self.skeleton, pose, HOMES[s.home], self.rest)
        self.likely = None
        if s.natural and s.home == "relaxed" and s.solver == "newton" and s.stay > 0.0 and is_person(self.skeleton):
            self.likely, home = LikelyPose(self.moving, handles, active, pose), pose.copy()
        self.home, self.targets = home, {h.body: h.position for h in handles}
        self.goals = goals_of(handles, active, home, s.stay, effort_of(self.skeleton, self.strength))
        method = s.method()
        if s.solver == "newton":  # other methods show what they do by themselves
            self.goals += balance(self.skeleton, handles, active, pose) if s.balance else []
            self.goals += apart(self.skeleton) if s.apart else []
        self.main = self._session(method, pose, continuous=method == "newton")
        self.ghost, self.ghost_error = None, ""
        if s.ghost is not None:
            try:
                self.ghost = self._session(s.ghost, pose)
            except ps.PosableError as error:
                self.ghost_error = str(error)

    def _session(self, solver: Any, pose: np.ndarray, *, continuous: bool = False) -> ps.Session:
        s = self.settings
        return ps.Session(
            self.moving,
            self.goals,
            solver=solver,
            start=pose,
            limits=s.limits,
            max_iterations=s.iterations or (STEPS if continuous else None),
            natural=False,  # the posture goal keeps poses natural, by strength
            continuous=continuous,  # a drag past the end of its reach does not hop from branch to branch
        )

    def solve(
        self, handles: tuple[Handle, ...], moved: set[str], pose: np.ndarray, *, rounds: int = 1
    ) -> tuple[Answer, Answer | None]:
        """Return the answers of solver and ghost with the handles `moved` at their targets, from `pose` (n,).

        Args:
            handles: All of them.
            moved: Those with new targets.
            pose: Where to begin.
            rounds: Solves at least, where the solver goes on from its last answer (newton).
        """
        labels = {goal.label for goal in self.goals}
        for handle in handles:
            if handle.body in moved and handle.body in labels:
                self.main.move(handle.body, handle.target())
                if self.ghost is not None:
                    self.ghost.move(handle.body, handle.target())
        way = self._way(handles, moved)
        self._go_home(way, pose)
        rounds = min(max(rounds, 1 + int(way / STRIDE)), ROUNDS)
        result = self.main.solve(start=pose)
        for _ in range(rounds - 1):
            before, result = result.pose, self.main.solve()
            if np.abs(result.pose - before).max(initial=0.0) < STILL:
                break
        self.last = result
        self.going = not result.ok and float(np.abs(result.pose - pose).max(initial=0.0)) > STILL
        return self._answer(result), None if self.ghost is None else self._answer(self.ghost.solve())

    def _way(self, handles: tuple[Handle, ...], moved: set[str]) -> float:
        """Return how far [m] the handles have moved since the last call."""
        ways = [float(np.linalg.norm(h.position - self.targets[h.body])) for h in handles if h.body in moved]
        self.targets |= {h.body: h.position for h in handles}
        return max(ways, default=0.0)

    def _go_home(self, way: float, pose: np.ndarray) -> None:
        """Move the pose to stay near towards the likely one: as far as the handles moved [m], so that nothing hops."""
        if self.likely is None:
            return
        likely = self.likely.near(pose, ps.forward(self.skeleton, pose))
        self.home = self.home + np.clip(likely - self.home, -PACE * way, PACE * way)
        for session in (self.main, self.ghost):
            if session is not None:
                session.move(POSTURE, self.home)

    def _answer(self, result: Any) -> Answer:
        limits = {goal.label: _tolerance(goal) for goal in self.goals}
        return Answer(
            result.pose, result.ok, str(result.status), result.message, dict(result.errors),
            limits, result.iterations, result.seconds, self.settings.solver if result is self.last else result.solver,
        )  # fmt: skip

    def driven(self, step: Any) -> Answer:
        """Return where a controller's step has brought the figure."""
        return Answer(
            step.pose, step.ok, "REACHED" if step.ok else "MOVING", str(step), dict(step.errors),
            {goal.label: _tolerance(goal) for goal in self.goals}, 0, 0.0, "controller",
        )  # fmt: skip

    def blocking(self) -> tuple[Any, ...]:
        """Return the limits that block the last answer, worst first."""
        return tuple(self.last.blocking) if self.last is not None else ()

    def reasons(self) -> tuple[Any, ...]:
        """Return why the last answer misses its goals."""
        return tuple(self.last.reasons) if self.last is not None else ()

    def curves(self, handles: tuple[Handle, ...], start: np.ndarray) -> dict[str, np.ndarray]:
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
MOST = 4  # ticks at once, where the machine was busy
KEPT = 360  # ticks that the plot shows
STANDSTILL = 1e-3  # of the velocity limits: slower is standing
LONGEST = 20.0  # [s] that a drive goes on after its handle was let go
TURN, SLIDE = np.pi, 1.0  # [rad/s], [m/s]: the limits of a `Controller` where a file states none


class Speeds(NamedTuple):
    """The speeds of the last ticks, for a plot: times (T,) [s], share of its limit (T, n), and the names (n,)."""

    times: np.ndarray
    shares: np.ndarray
    names: tuple[str, ...]


class Drive:
    """Follows handles with a `Controller`.

    Args:
        skeleton: The figure.
        goals: The goals of its handles and its posture; labels are the handles' bodies.
        pose: (n,) Where it stands.
        limits: Whether joint limits hold.
    """

    def __init__(self, skeleton: ps.Skeleton, goals: list[Any], pose: np.ndarray, *, limits: bool):
        self.controller = ps.Controller(skeleton, goals, dt=TICK, start=pose, limits=limits)
        self.labels = {goal.label for goal in goals}
        self.names = skeleton.dof_names
        slides = np.array([isinstance(j.motion, ps.Prismatic) for j in skeleton.joints for _ in range(j.motion.size)])
        self.most = np.where(np.isfinite(skeleton.velocity), skeleton.velocity, np.where(slides, SLIDE, TURN))
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
            self._speeds.append(np.abs(self.step.velocity) / self.most)
        return True

    @property
    def arrived(self) -> bool:
        """Whether it stands, at its targets or as near as it comes."""
        return self.step is not None and float(self._speeds[-1].max(initial=0.0)) < STANDSTILL

    @property
    def speeds(self) -> Speeds:
        """What the plot of joint speeds shows."""
        shares = np.array(self._speeds).reshape(-1, len(self.names))
        return Speeds((self.ticks - len(shares) + np.arange(len(shares))) * TICK, shares, self.names)
