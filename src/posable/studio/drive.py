"""A drag as motors would follow it: joints keep to their velocity and acceleration limits, tick by tick."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

import posable as ps
from posable.studio.handles import Handle

TICK = 1.0 / 60.0  # [s]
MOST = 4  # ticks at once, where the machine was busy
KEPT = 360  # ticks that the plot shows
STILL = 1e-3  # of the velocity limits: slower is standing
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
        return self.step is not None and float(self._speeds[-1].max(initial=0.0)) < STILL

    @property
    def speeds(self) -> Speeds:
        """What the plot of joint speeds shows."""
        shares = np.array(self._speeds).reshape(-1, len(self.names))
        return Speeds((self.ticks - len(shares) + np.arange(len(shares))) * TICK, shares, self.names)
