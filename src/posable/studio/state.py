"""The state of a session as immutable data: what undo restores and projects save, and what a page shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

import posable as ps
from posable.studio.contacts import Touch
from posable.studio.drag_solver import Answer, Settings, Speeds
from posable.studio.files import Origin
from posable.studio.handles import Handle
from posable.studio.limbs import LimbView
from posable.studio.messages import AtLimit
from posable.studio.timeline import Timeline

T = TypeVar("T")

DEEPEST = 200


class History(Generic[T]):
    """What was before, and what was undone."""

    def __init__(self) -> None:
        self._before: list[T] = []
        self._after: list[T] = []

    def remember(self, state: T) -> None:
        """Keep a state before it changes; what had been undone is forgotten."""
        self._before = [*self._before[-DEEPEST + 1 :], state]
        self._after = []

    def undo(self, now: T) -> T | None:
        """Return the state before the last change, or None; `now` can be had again by `redo`."""
        if not self._before:
            return None
        self._after.append(now)
        return self._before.pop()

    def redo(self, now: T) -> T | None:
        """Return the state that was undone last, or None."""
        if not self._after:
            return None
        self._before.append(now)
        return self._after.pop()

    def keep(self, different: int, what: Callable[[T], Any]) -> None:
        """Forget states that are older than the last `different` values of `what`: figures are large."""
        seen: list[Any] = []
        for index in range(len(self._before) - 1, -1, -1):
            value = what(self._before[index])
            if all(value is not other for other in seen):
                seen.append(value)
            if len(seen) > different:
                self._before = self._before[index + 1 :]
                return

    def __len__(self) -> int:
        return len(self._before)


@dataclass(frozen=True, eq=False)
class State:
    """What undo brings back, and what a project keeps."""

    scene: ps.Scene
    origin: Origin
    figure: int
    pose: np.ndarray
    handles: tuple[Handle, ...]
    timeline: Timeline
    rest: np.ndarray
    strength: dict[str, float]
    library: dict[str, dict[str, float]]
    settings: Settings
    revision: int
    blend: dict[str, float] = field(default_factory=dict)  # limbs that are not wholly IK: 0 is FK


@dataclass(frozen=True, eq=False)
class View:
    """Everything that a page shows, at one moment."""

    number: int  # counts the views: a page never goes back to an older one
    figure: int  # counts the figures that were opened
    skeleton: ps.Skeleton
    pose: np.ndarray
    frames: Any
    handles: tuple[Handle, ...]
    elbows: tuple[str, ...]
    active: str | None
    selected: str | None
    selection: tuple[str, ...]
    answer: Answer | None
    ghost: np.ndarray | None
    ghost_answer: Answer | None
    limits: tuple[AtLimit, ...]
    touches: tuple[Touch, ...]  # limbs in each other, and what is on or below the floor
    blocking: tuple[Any, ...]
    reasons: tuple[Any, ...]
    offers: tuple[str, ...]  # what would make missed handles reachable, in words
    curves: dict[str, np.ndarray]
    limb: LimbView | None
    blend: dict[str, float]
    loose: frozenset[str]  # bodies at the ends of limbs that are not wholly IK
    timeline: Timeline
    settings: Settings
    strength: dict[str, float]  # of the joints that a person made stronger or weaker than they are
    speeds: Speeds | None  # of the joints, where drags keep to velocity limits
    library: tuple[str, ...]
    name: str
    dirty: bool  # there is work that no project file has
    calm: bool  # nothing is being dragged or played: what takes longer has been worked out
