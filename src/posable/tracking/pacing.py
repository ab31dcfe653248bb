"""A figure with markers, packed for the compiled walk, and the walk called with names instead of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from posable.goals import Position
from posable.kernels.fields import ROBUST
from posable.problem import Problem
from posable.skeleton import Skeleton
from posable.tracking import walking
from posable.tracking.branches import open_box

_NONE = np.zeros((0, 0, 3))


@dataclass(frozen=True)
class Pace:
    """How a walk goes: `walking`'s options, and the stiffness of the pull to the prediction [m^2/rad^2]."""

    most: int = 10
    enough: float = 0.0
    gain: float = 1e-4
    damping: float = 1e-2
    keep: float = 0.0
    exact: bool = False
    jump: float = 0.0
    own: bool = False
    pull: float = 0.0
    swerve: float = 0.0

    def options(self, coupled: bool) -> np.ndarray:
        """Return the numbers that `walking.walk` reads."""
        out = np.zeros(walking.OPTIONS)
        out[walking.MOST], out[walking.ENOUGH], out[walking.GAIN] = self.most, self.enough, self.gain
        out[walking.DAMPING], out[walking.KEEP], out[walking.EXACT] = self.damping, self.keep, self.exact
        out[walking.COUPLED], out[walking.JUMP], out[walking.OWN] = coupled, self.jump, self.own
        out[walking.SWERVE] = self.swerve
        return out


class Walker:
    """A problem whose targets change from frame to frame.

    Its springs are packed once. `lower`, `upper` (n,): the box, open where an angle can come round. `pull` (n,):
    shares of a pace's pull, one by default.
    """

    def __init__(self, problem: Problem, *, limits: bool = True):
        self.problem = problem
        skeleton = problem.skeleton
        self.lower, self.upper = open_box(skeleton, limits)
        self.robust = problem.data[0, :, ROBUST].copy()
        self.pull = np.ones(skeleton.size)

    def __call__(
        self,
        pace: Pace,
        poses: np.ndarray,
        *,
        targets: np.ndarray = _NONE,
        points: np.ndarray = _NONE,
        data: np.ndarray | None = None,
        last: np.ndarray | None = None,
        before: np.ndarray | None = None,
        home: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Walk over poses (T, n), in place; return errors (T, g) [m, rad] and notes (T, NOTES).

        home (n,): what frames that start from their own rows are pulled to; at rest by default.
        """
        problem = self.problem
        t, n, g = len(poses), problem.skeleton.size, len(problem.springs)
        errors, notes = np.empty((t, g)), np.empty((t, walking.NOTES))
        last = problem.skeleton.rest.copy() if last is None else last.copy()
        before = last.copy() if before is None else before.copy()
        home = (problem.skeleton.rest if home is None else home).copy()  # the walk writes into it
        walking.walk(
            problem.skeleton.figure, problem.order, problem.kind, (problem.data if data is None else data).copy(),
            self.robust, self.pull * pace.pull, home, self.lower, self.upper,
            np.empty(n), np.empty(n), np.ascontiguousarray(targets), np.ascontiguousarray(points), poses, last, before,
            np.empty(problem.work_size), problem.depth, pace.options(problem.coupled), errors, notes,
        )  # fmt: skip
        assert poses.shape == (t, n)
        return errors, notes


def marker_walker(
    skeleton: Skeleton, sites: Sequence[str], *, limits: bool = True, robust: float | None = None
) -> Walker:
    """Return the walker of sites that are to be at markers; robust [m]: beyond, one pulls no harder."""
    return Walker(Problem(skeleton, [Position(site, (0.0, 0.0, 0.0), robust=robust) for site in sites]), limits=limits)
