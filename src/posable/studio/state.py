"""The state of a session as immutable data: what undo restores and projects save, and what a page shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

import posable as ps
from posable.studio.contacts import Contact
from posable.studio.dragging import DragResult, JointSpeeds, Settings
from posable.studio.files import Origin
from posable.studio.handles import Handle
from posable.studio.limbs import LimbView
from posable.studio.messages import AtLimit
from posable.studio.timeline import Timeline

T = TypeVar("T")

DEEPEST = 200


class History(Generic[T]):
    """Undo and redo of immutable states."""

    def __init__(self) -> None:
        self._before: list[T] = []
        self._after: list[T] = []

    def remember(self, state: T) -> None:
        """Record a state before it changes; redo is cleared."""
        self._before = [*self._before[-DEEPEST + 1 :], state]
        self._after = []

    def undo(self, now: T) -> T | None:
        """Return the state before the last change, or None; `now` becomes available to `redo`."""
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
        """Drop states older than the last `different` values of `what`: figures are large."""
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
    """What undo restores, and what a project saves."""

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
    blend: dict[str, float] = field(default_factory=dict)  # limbs that are not fully IK; 0 is FK


@dataclass(frozen=True, eq=False)
class View:
    """Everything that a page shows, at one moment."""

    number: int  # increasing: a page never shows an older view
    figure: int  # number of figures opened so far
    skeleton: ps.Skeleton
    pose: np.ndarray
    frames: Any
    handles: tuple[Handle, ...]
    elbows: tuple[str, ...]
    active: str | None
    selected: str | None
    selection: tuple[str, ...]
    result: DragResult | None
    ghost: np.ndarray | None
    ghost_result: DragResult | None
    limits: tuple[AtLimit, ...]
    contacts: tuple[Contact, ...]  # contacts between limbs and with the floor
    support: np.ndarray  # (N, 3) [m] points of solids on the floor
    blocking: tuple[Any, ...]
    reasons: tuple[Any, ...]
    offers: tuple[str, ...]  # remedies for missed handles, as text
    curves: dict[str, np.ndarray]
    limb: LimbView | None
    blend: dict[str, float]
    fk_bodies: frozenset[str]  # bodies at the ends of limbs that are not fully IK
    timeline: Timeline
    settings: Settings
    strength: dict[str, float]  # of the joints whose strength was changed
    speeds: JointSpeeds | None  # of the joints, if drags respect velocity limits
    library: tuple[str, ...]
    name: str
    dirty: bool  # there are unsaved changes
    idle: bool  # nothing is being dragged or played, and slow results are up to date
    can_drag: bool = True  # False while the code of the first drag is compiled

    @property
    def selected_handle(self) -> Handle | None:
        """The handle of the selected body."""
        return next((h for h in self.handles if h.body == self.selected), None)

    @property
    def selected_joint(self) -> str | None:
        """The selected joint, or that of the selected site."""
        return None if self.selected is None else self.skeleton.carrier(self.selected)
