"""The queue of drags between the pages and the session: only the newest target counts, but no end is ever lost."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

LONGEST = 64  # waiting drags; a page that sends more has to wait


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
            if name in self._interrupted or (new and len(self._waiting) >= LONGEST):
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
