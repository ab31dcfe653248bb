"""FABRIK: forward and backward reaching, for figures whose goals are positions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from posable.engine.assemble import energy_at
from posable.engine.bounds import recentre_all, write_trace
from posable.engine.jit import kernel
from posable.engine.joints import SLIDE, forward
from posable.engine.layout import (
    AT,
    BODY_A,
    BODY_B,
    ENERGY,
    EVALUATIONS,
    FIRST,
    KIND,
    LAST,
    MEASURE,
    PARENT,
    POINT,
    SPRING_KIND,
    matrix,
)
from posable.engine.springs import POINT_SPRING, rotated
from posable.errors import SolverError
from posable.problem import Problem
from posable.solvers.base import CompiledSolver, SolveOptions, refuse_strength, register
from posable.solvers.ccd import best_turn
from posable.solvers.loop import OPTIONS, batch_of, common_params

FITS, GUIDES, ROWS = OPTIONS, OPTIONS + 1, OPTIONS + 2  # columns of the params; then `GUIDES` rows of four
OWNER, BODY, SPRING_OF, SHARE = 0, 1, 2, 3  # columns of a guide: the body to rotate, what to point it at, the weight
FARTHER = 0.2  # weight of a joint relative to the one before it: settles the twist that the nearer one leaves open
SMALLEST = 0.03  # smaller weights are ignored
CLOSE = 1e-9  # [m]: points closer to a joint are ignored
WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


@kernel
def effector(springs, ws, k):
    """Return the position of the point of spring k, relative to the world's origin."""
    body = springs.kind[k, BODY_A]
    x, y, z = rotated(ws.rotation[body], springs.constants[k], POINT)
    p, o = ws.position[body], ws.origin
    return o[0] + p[0] + x, o[1] + p[1] + y, o[2] + p[2] + z


@kernel
def at_distance(x, y, z, tx, ty, tz, length):
    """Return the point at a distance from t on the line from t to x: one reaching step."""
    dx, dy, dz = x - tx, y - ty, z - tz
    size = math.sqrt(dx * dx + dy * dy + dz * dz)
    if not size > 1e-12:
        dx, dy, dz, size = 1.0, 0.0, 0.0, 1.0
    f = length / size
    return tx + f * dx, ty + f * dy, tz + f * dz


@kernel
def reach_inward(figure, springs, ws, wanted, votes):
    """Write the wanted position of each joint, wanted (b, 3), from the goals to the root; votes (b,): their number."""
    count = figure.body.shape[0]
    for b in range(count):
        votes[b] = 0.0
        for k in range(3):
            wanted[b, k] = 0.0
    for k in range(springs.kind.shape[0]):
        row, target, body = springs.constants[k], springs.targets[k], springs.kind[k, BODY_A]
        if row[MEASURE] == 0.0:
            continue
        length = math.sqrt(row[POINT] ** 2 + row[POINT + 1] ** 2 + row[POINT + 2] ** 2)
        vote(ws, body, target[AT], target[AT + 1], target[AT + 2], length, wanted, votes)
    for b in range(count - 1, -1, -1):
        if votes[b] == 0.0:
            continue
        for k in range(3):  # the mean, if several chains meet
            wanted[b, k] /= votes[b]
        parent = figure.body[b, PARENT]
        if parent >= 0:
            rest = figure.rest[b]
            length = math.sqrt(rest[0] * rest[0] + rest[1] * rest[1] + rest[2] * rest[2])
            vote(ws, parent, wanted[b, 0], wanted[b, 1], wanted[b, 2], length, wanted, votes)


@kernel
def vote(ws, body, tx, ty, tz, length, wanted, votes):
    """Add the position that a body's origin should have so that its point at `length` meets t."""
    p, o = ws.position[body], ws.origin
    x, y, z = at_distance(o[0] + p[0], o[1] + p[1], o[2] + p[2], tx, ty, tz, length)
    wanted[body, 0] += x
    wanted[body, 1] += y
    wanted[body, 2] += z
    votes[body] += 1.0


@kernel
def reach_outward(figure, ws, wanted, votes):
    """Move the joints back onto chains that start at the roots, from the root to the goals."""
    for b in range(figure.body.shape[0]):
        if votes[b] == 0.0:
            continue
        parent = figure.body[b, PARENT]
        if parent < 0:
            for k in range(3):
                wanted[b, k] = ws.origin[k] + ws.position[b, k]
            continue
        rest = figure.rest[b]
        length = math.sqrt(rest[0] * rest[0] + rest[1] * rest[1] + rest[2] * rest[2])
        x, y, z = at_distance(
            wanted[b, 0], wanted[b, 1], wanted[b, 2], wanted[parent, 0], wanted[parent, 1], wanted[parent, 2], length
        )
        wanted[b, 0], wanted[b, 1], wanted[b, 2] = x, y, z


@kernel
def slide_root(figure, lower, upper, theta, ws, wanted, votes):
    """Move the roots towards their wanted positions, as far as their sliders and limits allow."""
    for i in range(theta.shape[0]):
        b = figure.dof[i, 3]
        if figure.dof[i, KIND] == SLIDE and votes[b] > 0.0 and lower[i] < upper[i]:
            x = 0.0
            for k in range(3):
                x += ws.twist[i, 3 + k] * (wanted[b, k] - ws.origin[k] - ws.position[b, k])
            theta[i] = min(max(theta[i] + x, lower[i]), upper[i])
    forward(figure, theta, ws)


@kernel
def turn_towards(figure, springs, lower, upper, theta, ws, wanted, guides, i):
    """Rotate dof i so that its body points at the wanted positions of the next joints, within its limits."""
    b = figure.dof[i, 3]
    t = ws.twist[i]
    size = math.sqrt(t[0] * t[0] + t[1] * t[1] + t[2] * t[2])
    if not size > 1e-12 or not lower[i] < upper[i]:
        return
    ax, ay, az = t[0] / size, t[1] / size, t[2] / size
    ox, oy, oz = ws.origin[0] + ws.position[b, 0], ws.origin[1] + ws.position[b, 1], ws.origin[2] + ws.position[b, 2]
    slope, bend, size_of_all = 0.0, 0.0, 0.0
    for k in range(guides.shape[0]):
        if guides[k, OWNER] != b:
            continue
        if guides[k, SPRING_OF] >= 0.0:
            row = int(guides[k, SPRING_OF])
            x, y, z = effector(springs, ws, row)
            tx, ty, tz = springs.targets[row, AT], springs.targets[row, AT + 1], springs.targets[row, AT + 2]
        else:
            c = int(guides[k, BODY])
            x, y, z = (
                ws.origin[0] + ws.position[c, 0],
                ws.origin[1] + ws.position[c, 1],
                ws.origin[2] + ws.position[c, 2],
            )
            tx, ty, tz = wanted[c, 0], wanted[c, 1], wanted[c, 2]
        x, y, z, tx, ty, tz = x - ox, y - oy, z - oz, tx - ox, ty - oy, tz - oz
        cx, cy, cz = y * tz - z * ty, z * tx - x * tz, x * ty - y * tx
        share = guides[k, SHARE]
        size_of_all += share * math.sqrt((x * x + y * y + z * z) * (tx * tx + ty * ty + tz * tz))
        slope -= share * (ax * cx + ay * cy + az * cz)
        bend += share * (x * tx + y * ty + z * tz - (ax * x + ay * y + az * z) * (ax * tx + ay * ty + az * tz))
    if not abs(slope) + abs(bend) > 1e-9 * size_of_all:
        return  # everything is on its axis: rounding must not rotate it
    change, _ = best_turn(slope, bend, theta[i], lower[i], upper[i], math.pi)
    theta[i] = min(max(theta[i] + change / size, lower[i]), upper[i])
    forward(figure, theta, ws)


class FabrikScratch(NamedTuple):
    """Scratch memory of a step."""

    wanted: np.ndarray  # (b, 3) [m]: wanted positions of the joints
    votes: np.ndarray  # (b,): number of chains that contribute
    fixed: np.ndarray  # (n,)
    guides: np.ndarray  # (k, 4): rows of `guides_of`


@kernel
def carve_fabrik(own, lower, upper, params, b, g):
    """Return the memory of a step, of the scratch memory and of the params, and the box."""
    fixed = own[4 * b : 4 * b + lower.shape[0]]
    guides = matrix(params, ROWS, int(params[GUIDES]), 4)
    return FabrikScratch(matrix(own, 0, b, 3), own[3 * b : 4 * b], fixed, guides), lower, upper


@kernel
def fabrik_step(figure, order, springs, lower, upper, theta, ws, memory, state, params, trace):
    """Reach inward and outward once, then fit the figure to the chains; return whether it moved."""
    n = theta.shape[0]
    wanted, votes, fixed, guides = memory.wanted, memory.votes, memory.fixed, memory.guides
    before = state[ENERGY]
    for i in range(n):
        ws.trial[i] = theta[i]
        fixed[i] = 1.0 if not lower[i] < upper[i] else 0.0
    reach_inward(figure, springs, ws, wanted, votes)
    slide_root(figure, lower, upper, theta, ws, wanted, votes)
    reach_outward(figure, ws, wanted, votes)
    for b in range(figure.body.shape[0]):
        if votes[b] > 0.0:
            for _ in range(int(params[FITS])):
                for i in range(figure.body[b, FIRST], figure.body[b, LAST]):
                    if figure.dof[i, KIND] != SLIDE:
                        turn_towards(figure, springs, lower, upper, theta, ws, wanted, guides, i)
    length = 0.0
    for i in range(n):
        length = max(length, abs(theta[i] - ws.trial[i]))
    recentre_all(figure, theta, lower, upper)
    state[ENERGY] = energy_at(figure, springs, theta, ws)
    state[EVALUATIONS] += 1.0
    write_trace(trace, state, 0.0, length, 0.0, fixed, state[ENERGY] - before, before)
    return length > 1e-12


def guides_of(problem: Problem) -> np.ndarray:
    """Return (k, 4): for each body on the way to a goal, the joints and effectors that turn with it, nearest first."""
    body, rest = problem.skeleton.figure.body, problem.skeleton.figure.rest
    on_path = np.zeros(len(body), dtype=bool)
    for b in problem.kind[:, BODY_A]:
        while b >= 0:
            on_path[b] = True
            b = body[b, PARENT]
    rows: list[tuple[float, ...]] = []

    def look_below(owner: int, b: int, share: float) -> None:
        for k in np.flatnonzero(problem.kind[:, BODY_A] == b):
            apart = share < 1.0 or np.linalg.norm(problem.constants[0, k, POINT : POINT + 3]) > CLOSE
            if apart and problem.constants[0, k, MEASURE] > 0.0:
                rows.append((owner, -1, int(k), share))
        for c in np.flatnonzero((body[:, PARENT] == b) & on_path):
            apart = np.linalg.norm(rest[c, :3]) > CLOSE
            if apart:
                rows.append((owner, int(c), -1, share))
            below = share * FARTHER if apart else share
            if below > SMALLEST:
                look_below(owner, int(c), below)

    for b in np.flatnonzero(on_path):
        look_below(int(b), int(b), 1.0)
    return np.array(rows, dtype=float).reshape(-1, 4)


@register("fabrik")
@dataclass(frozen=True, kw_only=True)
class Fabrik(CompiledSolver):
    """FABRIK: forward and backward reaching (Aristidou & Lasenby 2011), for position goals.

    Joints are placed one bone's length from where the next one should be, from the goals to the root and back; where
    chains meet, their mean counts. Then the figure's own joints turn, from the root outward, to point at these places,
    as far as their axes and limits allow: the limits hold by projection. Sliders must all be at the root.

    Args:
        fits: How often each joint is turned in an iteration.
    """

    fits: int = 2

    name: ClassVar[str] = "fabrik"
    summary: ClassVar[str] = "forward and backward reaching, for positions"
    iterations: ClassVar[int] = 500
    loop: ClassVar = staticmethod(batch_of("fabrik", fabrik_step, carve_fabrik))

    def __post_init__(self):
        self.require("fits", isinstance(self.fits, int) and self.fits >= 1, "a positive integer")

    def check(self, problem: Problem) -> None:
        """Raise SolverError for goals other than positions, sliders off the root, or joints of different strength."""
        refuse_strength(problem, "fabrik")
        for k, owner in enumerate(problem.owners):
            goal = problem.goals[owner]
            measure = problem.constants[0, k, MEASURE : MEASURE + 6]
            point = (
                problem.kind[k, SPRING_KIND] == POINT_SPRING
                and problem.kind[k, BODY_A] >= 0
                and problem.kind[k, BODY_B] < 0
            )
            point = point and (np.array_equal(measure, WHOLE) or not measure.any())
            if not point:
                raise SolverError(f"fabrik: {goal!r}", expected="Position goals", got=f"a {type(goal).__name__} goal")
        if problem.pull.any():
            raise SolverError("fabrik", expected="Position goals", got="a posture")
        figure = problem.skeleton.figure
        for i in range(problem.skeleton.size):
            if figure.dof[i, KIND] == SLIDE and figure.body[figure.dof[i, 3], PARENT] >= 0:
                name = problem.skeleton.dof_names[i]
                raise SolverError("fabrik", expected="sliders at the root only", got=f"{name!r} within a chain")

    def memory(self, problem: Problem) -> int:
        """Return the scratch memory of the engine and of the wanted positions."""
        return problem.work_size + 4 * len(problem.skeleton.figure.body) + problem.skeleton.size

    def params(self, problem: Problem, options: SolveOptions) -> np.ndarray:
        """Return the params of the loop."""
        guides = guides_of(problem)
        shared = common_params(problem, options, self.iterations, (float(self.fits), float(len(guides))))
        return np.concatenate([shared, guides.ravel()])
