"""The solver of the studio: goals are packed once per drag, then solved repeatedly, if wanted by two solvers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import posable as ps
from posable.studio.body_goals import apart, balance
from posable.studio.handles import Handle, effort_of, goals_of, relaxed

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

    def method(self) -> Any:
        """Return the solver with its options."""
        return ps.solvers.get(self.solver)(**self.options)


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
    }
    return all(key in sound and sound[key](value) for key, value in changes.items())


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

    def settle(self, handles: tuple[Handle, ...], active: set[str], pose: np.ndarray) -> None:
        """Pack the goals of the handles, firm for those in `active`, for solves that start at `pose` (n,)."""
        s = self.settings
        home = relaxed(self.skeleton, pose, HOMES[s.home], self.rest)
        self.goals = goals_of(handles, active, home, s.stay, effort_of(self.skeleton, self.strength))
        method = s.method()
        if s.solver == "newton":  # other methods show what they do by themselves
            self.goals += balance(self.skeleton, handles, active, pose) if s.balance else []
            self.goals += apart(self.skeleton) if s.apart else []
        self.main = self._session(method, pose)
        self.ghost, self.ghost_error = None, ""
        if s.ghost is not None:
            try:
                self.ghost = self._session(s.ghost, pose)
            except ps.PosableError as error:
                self.ghost_error = str(error)

    def _session(self, solver: Any, pose: np.ndarray) -> ps.Session:
        s = self.settings
        return ps.Session(
            self.skeleton,
            self.goals,
            solver=solver,
            start=pose,
            limits=s.limits,
            max_iterations=s.iterations or None,
            natural=False,  # the posture goal keeps poses natural, by strength
        )

    def solve(self, handles: tuple[Handle, ...], moved: set[str], pose: np.ndarray) -> tuple[Answer, Answer | None]:
        """Return the answers of solver and ghost with the handles `moved` at their targets, from `pose` (n,)."""
        labels = {goal.label for goal in self.goals}
        for handle in handles:
            if handle.body in moved and handle.body in labels:
                self.main.move(handle.body, handle.target())
                if self.ghost is not None:
                    self.ghost.move(handle.body, handle.target())
        result = self.main.solve(start=pose)
        self.last = result
        return self._answer(result), None if self.ghost is None else self._answer(self.ghost.solve())

    def _answer(self, result: Any) -> Answer:
        limits = {goal.label: _tolerance(goal) for goal in self.goals}
        return Answer(
            result.pose, result.ok, str(result.status), result.message, dict(result.errors),
            limits, result.iterations, result.seconds, result.solver,
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
                    self.skeleton, self.main.goals, solver=method, start=start, limits=self.settings.limits,
                    max_iterations=self.settings.iterations or 100, record=True, time_limit=0.5,
                )  # fmt: skip
            except ps.PosableError:
                continue
            if result.trace is not None and len(result.trace["energy"]):
                out[name] = np.asarray(result.trace["energy"], dtype=float)
        return out


def _tolerance(goal: Any) -> float:
    return float(np.min(goal.tolerance))
