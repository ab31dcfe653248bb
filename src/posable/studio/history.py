"""Undo and redo of anything that is never changed in place."""

from __future__ import annotations

from typing import Generic, TypeVar

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

    def forget(self) -> None:
        """Forget everything."""
        self._before, self._after = [], []

    def __len__(self) -> int:
        return len(self._before)
