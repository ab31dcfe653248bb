"""Which limits stand in the way of which goals, and what relaxing them would gain."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import KIND, Springs
from posable.engine.sensitivity import follow_bound, refine_pose
from posable.model.kinematics import scratch
from posable.problem import Problem

AT_BOUND = 1e-7  # [rad, m]
STEP = 1e-5  # of a limit relaxed to see what it costs [rad, m]
DEGREE, MILLIMETRE = np.radians(1.0), 1e-3  # [rad], [m]: what a limit is relaxed by to see what it costs
SENTENCE = 5  # times as much is what a sentence supposes: 5 degrees, 5 mm
SAME = 0.02  # [rad, m]: a pose that refining moves farther was no minimum
STEADY = 0.1  # part of a rate by which its mean over the first degree may differ
TELLING = 1e-4  # [m, rad] of change that is worth telling


@dataclass(frozen=True)
class Block:
    """A limit that holds the figure back.

    Attributes:
        dof: Name of the degree of freedom.
        side: "lower" or "upper".
        multiplier: How fast the energy of all goals would fall if the limit moved outward.
        cost: {goal: how fast its error would fall} [m or rad per rad or m]; negative where the goal would lose. If
            that changes by a tenth within the first degree or millimetre, the mean over it.
        limit: Where the limit is [rad, m].
        slides: Whether the degree of freedom is a slide [m] and not an angle [rad].
        angles: The goals whose errors are angles [rad].
        gain: {goal: by how much its error would fall} [m, rad] if the limit gave 5 degrees, or 5 mm.
        ends: Whether the solution jumps to another pose before the limit has given that much: `gain` then says what is
            gained before.
        pixels: The goals whose errors are in pixels.
    """

    dof: str
    side: str
    multiplier: float
    cost: dict[str, float] = field(default_factory=dict)
    limit: float = np.nan
    slides: bool = False
    angles: frozenset[str] = frozenset()
    gain: dict[str, float] = field(default_factory=dict)
    ends: bool = False
    pixels: frozenset[str] = frozenset()

    def __str__(self) -> str:
        changes = {name: value for name, value in self.gain.items() if abs(value) > TELLING}
        told = sorted(changes.items(), key=lambda item: -abs(item[1]))[:3]
        closer = [f"{name} {self._amount(name, value)}" for name, value in told if value > 0.0]
        away = [f"{name} {self._amount(name, -value)}" for name, value in told if value < 0.0]
        parts = [f"bring {' and '.join(closer)} closer"] if closer else []
        parts += [f"move {' and '.join(away)} away"] if away else []
        where = "" if np.isnan(self.limit) else f" ({self._place()})"
        text = f"{self.dof} is at its {self.side} limit{where}"
        more = f"{SENTENCE} mm" if self.slides else f"{SENTENCE}°"
        return f"{text}; {more} more would {' and '.join(parts)}" if parts else text

    def _place(self) -> str:
        return f"{1e3 * self.limit:.0f} mm" if self.slides else f"{np.degrees(self.limit):.0f}°"

    def _amount(self, goal: str, change: float) -> str:
        if goal in self.pixels:
            return f"{change:.2g} px"
        return f"{np.degrees(change):.2g}°" if goal in self.angles else f"{1e3 * change:.2g} mm"


class ConstrainedMinimum:
    """A minimum of the energy inside the limits, and what becomes of it while a limit moves.

    Attributes:
        pose: (n,) [rad, m].
        errors: (g,) of the springs there [m, rad].
    """

    def __init__(self, problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int = 0):
        self.problem, self.lower, self.upper = problem, lower.copy(), upper.copy()
        self.springs: Springs = problem.packed(member)
        self.pose, self.errors = np.clip(pose, lower, upper), np.empty(len(problem.springs))
        refine_pose(
            problem.figure, problem.order, self.springs, self.lower, self.upper, self.pose, scratch(problem.work_size),
            problem.depth, int(problem.coupled), 40, self.errors,
        )  # fmt: skip

    def relaxed(self, dof: int, outward: float, steps: int) -> tuple[ConstrainedMinimum, bool]:
        """Return what the minimum becomes when a bound of one dof moves outward [rad, m], and whether the path ended.

        The path of solutions is followed in steps, so that limits which take hold or let go on the way are met.
        """
        out = object.__new__(ConstrainedMinimum)
        out.problem, out.springs = self.problem, self.springs
        out.lower, out.upper, out.pose = self.lower.copy(), self.upper.copy(), self.pose.copy()
        out.errors = np.empty_like(self.errors)
        problem = self.problem
        ended = follow_bound(
            problem.figure, problem.order, self.springs, out.lower, out.upper, out.pose, scratch(problem.work_size),
            problem.depth, int(problem.coupled), dof, float(outward), steps, out.errors,
        )  # fmt: skip
        return out, bool(ended)

    def gains(self, dof: int, sense: float, unit: float) -> tuple[np.ndarray, np.ndarray, bool] | None:
        """Return what relaxing a bound gains: rate and gain of each spring (g,), and whether the path ends on the way.

        None where it ends within the first unit [rad, m].
        """
        at_once = (self.errors - self.relaxed(dof, sense * STEP, 1)[0].errors) / STEP
        near, ended = self.relaxed(dof, sense * unit, 2)
        if ended:
            return None
        mean = (self.errors - near.errors) / unit
        rate = np.where(np.abs(mean - at_once) < STEADY * np.abs(at_once), at_once, mean)
        far, ends = near.relaxed(dof, sense * (SENTENCE - 1) * unit, SENTENCE - 1)
        return rate, self.errors - (near if ends else far).errors, ends


def blocking_limits(
    problem: Problem, pose: np.ndarray, lower: np.ndarray, upper: np.ndarray, member: int = 0
) -> list[Block]:
    """Return the limits that hold back the goals at a pose (n,), worst first.

    The gradient on an active bound is its multiplier (Karush-Kuhn-Tucker; Engell-Nørregård & Erleben 2011, 3). What
    each goal would gain is found by letting the bound move and following the path of solutions.
    """
    _, gradient, hessian, _ = problem.evaluate(pose, member=member)
    at_lower = (pose <= lower + AT_BOUND) & (gradient > 0.0) & (lower < upper)
    at_upper = (pose >= upper - AT_BOUND) & (gradient < 0.0) & (lower < upper)
    active = np.flatnonzero(at_lower | at_upper)
    scale = np.abs(gradient).max(initial=0.0)
    significant = 1e-9 * max(1.0, np.abs(np.diag(hessian)).max(initial=0.0))
    active = active[np.abs(gradient[active]) > max(1e-6 * scale, significant)]
    if active.size == 0:
        return []
    minimum = ConstrainedMinimum(problem, pose, lower, upper, member)
    # of energies in Python and of choices, the springs alone say too little
    settled = not (problem.customs or problem.choices) and float(np.abs(minimum.pose - pose).max()) < SAME
    counted = np.flatnonzero(np.isfinite(problem.tolerances))
    names = problem.error_names
    angles = frozenset(name for k, name in enumerate(names) if problem.measures_angle(k))
    pixels = frozenset(name for k, name in enumerate(names) if problem.measures_pixels(k))
    held = at_lower | at_upper | (lower >= upper)
    blocks = []
    for i in active.tolist():
        slides = bool(problem.skeleton.figure.dof[i, KIND] == SLIDE)
        unit = MILLIMETRE if slides else DEGREE
        sense = -1.0 if at_lower[i] else 1.0
        found = minimum.gains(i, sense, unit) if settled else None
        if found is None:
            rate = linear_response(problem, pose, hessian, held, i, sense, member)
            found = rate, SENTENCE * unit * rate, True
        cost, gain = ({names[k]: float(value[k]) for k in counted} for value in found[:2])
        side, limit = ("lower", lower[i]) if at_lower[i] else ("upper", upper[i])
        name, force = problem.skeleton.dof_names[i], float(abs(gradient[i]))
        blocks.append(Block(name, side, force, cost, float(limit), slides, angles, gain, found[2], pixels))
    return sorted(blocks, key=lambda block: (-block.multiplier, block.dof))


def linear_response(
    problem: Problem, pose: np.ndarray, hessian: np.ndarray, held: np.ndarray, dof: int, sense: float, member: int
) -> np.ndarray:
    """Return how fast each spring's error falls (g,) while a bound moves outward, at a pose that is no minimum."""
    answer = np.zeros_like(pose)
    answer[dof] = sense
    free = np.flatnonzero(~held)
    if free.size:
        matrix = hessian[np.ix_(free, free)]
        small = 1e-9 * max(np.trace(np.abs(matrix)) / free.size, 1e-300)
        move = np.linalg.lstsq(matrix + small * np.eye(free.size), -hessian[free, dof] * sense, rcond=1e-12)[0]
        answer[free] = move / max(1.0, np.abs(move).max() * STEP / 0.05)
    before = problem.evaluate(pose, member=member)[3]
    return (before - problem.evaluate(pose + STEP * answer, member=member)[3]) / STEP
