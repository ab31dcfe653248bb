"""Undo and redo of anything that is never changed in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

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
