"""The two free angles of a partial orientation and of an aim (Tolani et al. 2000, 3.3 and 3.4).

One axis along a direction leaves the spin about it and the swivel; an aim leaves the bend of the middle joint and the
swivel. Here are every solution and the swivel ranges at given angles, and the angles that make an objective least.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from posable.errors import GoalError
from posable.limb.aim import aim, aim_branches, aim_ranges
from posable.limb.ball_ik import INFEASIBLE
from posable.limb.base import LimbCore, leading_axes, read_direction, read_directions, read_numbers, scratch_memory
from posable.limb.circle import RANGES
from posable.limb.kernels import BRANCH, REPORT, SLACK, TURN_ERROR
from posable.limb.objective import Objective, as_objective
from posable.limb.partial import reachable_spins, site_frame, solve_partial
from posable.limb.partial_orientation import target_of_spin
from posable.limb.solution import Branch, LimbSolution, SwivelRange

GRID, ACROSS = 24, 0.2  # samples of the spin or the bend; step of the swivel [rad]
KEPT = 4  # samples that are refined
WHOLE_CIRCLE = SwivelRange(-math.pi, math.pi)


# --- Partial orientation ---


def target_at_spin(limb: LimbCore, position: Any, axis: Any, along: Any, spin: Any) -> np.ndarray:
    """Return the pose target (4, 4) that a partial orientation has at a spin [rad]."""
    place, direction = read_numbers(position, "position", (3,)), read_directions(along, "along")
    angle = read_numbers(spin, "spin")
    if place.ndim > 1 or direction.ndim > 1 or angle.ndim:
        raise GoalError("position, along and spin", expected="one goal", got="several")
    flat, out = np.empty(12), np.eye(4)
    target_of_spin(
        limb.directions, site_frame(axis), limb.tool_in_site(), place, direction, float(angle), scratch_memory(), flat
    )
    out[:3, 3], out[:3, :3] = flat[:3], flat[3:].reshape(3, 3)
    return out


def partial_solutions(
    limb: LimbCore, position: Any, axis: Any, along: Any, *, swivel: Any, spin: Any, base: Any
) -> list[LimbSolution]:
    """Return every solution of a partial orientation at both angles: see `Limb.partial_solutions`."""
    target = target_at_spin(limb, position, axis, along, spin)
    turn = (float(spin) + math.pi) % (2.0 * math.pi) - math.pi
    return [replace(found, spin=turn) for found in limb.solutions(target, swivel, base=base)]


def partial_swivel_ranges(
    limb: LimbCore, position: Any, axis: Any, along: Any, *, spin: Any, base: Any
) -> list[SwivelRange]:
    """Return the swivel ranges of a partial orientation at a spin: see `Limb.partial_swivel_ranges`."""
    return limb.swivel_ranges(target_at_spin(limb, position, axis, along, spin), base=base)


# --- Aiming ---


def _sight(limb: LimbCore, point: Any, axis: Any, bend: Any, base: Any, limits: bool) -> tuple[Any, ...]:
    """Return what the kernels of an aim are given: place and axis, the base, and the raw bend."""
    place, direction = read_numbers(point, "point", (3,)), read_direction(axis, "axis")
    angle = read_numbers(bend, "bend")
    if place.ndim > 1 or angle.ndim or leading_axes(base):
        raise GoalError("point, bend and base", expected="one goal", got="several")
    poses, roots, helds = limb.base_frames(base, limits=limits)
    return poses[0], roots[0], place, direction, helds[0], float(angle) * float(limb.chain.sign[3])


def aim_solutions(
    limb: LimbCore, point: Any, axis: Any, *, bend: Any, swivel: Any, limits: bool, base: Any
) -> list[LimbSolution]:
    """Return every solution of an aim at a bend and a swivel angle: see `Limb.aim_solutions`."""
    pose, root, place, direction, held, raw = _sight(limb, point, axis, bend, base, limits)
    angle = float(read_numbers(swivel, "swivel"))
    out, reports = np.empty((2, 7)), np.zeros((2, REPORT))
    aim_branches(*limb.chain, root, limb.directions, place, direction, held, raw, angle, scratch_memory(), out, reports)
    found: list[LimbSolution] = []
    low, high = limb.skeleton.lower[limb.columns], limb.skeleton.upper[limb.columns]
    for numbers, report in zip(out, reports, strict=True):
        if report[SLACK] <= INFEASIBLE:
            continue
        good = bool(report[SLACK] >= -1e-12)
        solved = pose.copy()
        solved[limb.columns] = np.clip(numbers, low, high) if good else numbers
        if any(np.abs(solved - other.pose).max() < 1e-12 for other in found):
            continue
        code = int(report[BRANCH])
        found.append(
            LimbSolution(
                solved, good, angle, Branch(code // 4, code // 2 % 2, 0),
                "reached" if good else "reached, outside the limits",
                "REACHED", 0.0, float(report[TURN_ERROR]), limb.clearance(solved),
            )
        )  # fmt: skip
    return found


def aim_swivel_ranges(limb: LimbCore, point: Any, axis: Any, *, bend: Any, base: Any) -> list[SwivelRange]:
    """Return the swivel ranges of an aim with a bend: see `Limb.aim_swivel_ranges`."""
    _, root, place, direction, held, raw = _sight(limb, point, axis, bend, base, True)
    low, high = limb.chain.box[3]
    if not low - 1e-12 <= raw <= high + 1e-12:
        return []
    out = np.empty((RANGES, 4))
    count = aim_ranges(*limb.chain, root, limb.directions, place, direction, held, raw, scratch_memory(), out)
    rows = out[:count][np.argsort(out[:count, 0], kind="stable")]
    return [SwivelRange(lo, hi, limb.limit_name(a), limb.limit_name(b)) for lo, hi, a, b in rows]


# --- An objective over both angles ---


@dataclass(frozen=True)
class Sample:
    """An answer: its objective, its spin or bend with the range and the step that it was sampled with, and itself."""

    value: float
    outer: float
    within: tuple[float, float]
    found: LimbSolution


@dataclass(frozen=True)
class ObjectiveSurface:
    """The solutions of a goal over two angles, the outer one (spin or bend) and the swivel."""

    solutions: Callable[[float, float], list[LimbSolution]]  # at an outer angle and a swivel
    ranges: Callable[[float], list[SwivelRange]]  # of the swivel, at an outer angle
    objective: Objective
    limits: bool

    def at(self, outer: float, swivel: float) -> list[tuple[float, LimbSolution]]:
        """Return the allowed solutions at two angles, with their objectives."""
        found = self.solutions(outer, swivel)
        return [(self.objective.value(one.pose), one) for one in found if one.ok or not self.limits]

    def sampled(self, spans: list[tuple[float, float]]) -> list[Sample]:
        """Return samples over ranges of the outer angle, the best first."""
        out = []
        total = sum(high - low for low, high in spans)
        for low, high in spans:
            count = max(6, round(GRID * (high - low) / max(total, 1e-12)))
            step = (high - low) / (count - 1)
            for outer in np.linspace(low, high, count).tolist():
                within = (max(low, outer - step), min(high, outer + step))
                for first, last in self.ranges(outer):
                    for phi in np.linspace(first, last, 2 + int((last - first) / ACROSS)).tolist():
                        out += [Sample(value, outer, within, found) for value, found in self.at(outer, phi)]
        return sorted(out, key=lambda sample: sample.value)

    def along_swivel(self, outer: float, near: LimbSolution, precision: float) -> tuple[float, LimbSolution | None]:
        """Return the least objective at an outer angle, on the branch and near the swivel of a solution."""
        best: tuple[float, LimbSolution | None] = (math.inf, None)

        def value(phi: float) -> float:
            nonlocal best
            here = [(v, s) for v, s in self.at(outer, float(phi)) if s.branch == near.branch]
            if here and here[0][0] < best[0]:
                best = here[0]
            return here[0][0] if here else math.inf

        for low, high in self.ranges(outer):
            for turn in (-2.0 * math.pi, 0.0, 2.0 * math.pi):
                a, b = max(low, near.swivel + turn - 2.0 * ACROSS), min(high, near.swivel + turn + 2.0 * ACROSS)
                if a <= b:
                    value(a)
                    value(b)
                if b - a > precision:
                    minimize_scalar(value, bounds=(a, b), method="bounded", options={"xatol": precision, "maxiter": 50})
        return best

    def refined(self, sample: Sample, precision: float) -> Sample:
        """Return the best answer near a sample."""
        best = sample

        def value(outer: float) -> float:
            nonlocal best
            least, found = self.along_swivel(float(outer), best.found, precision)
            if found is not None and least < best.value:
                best = replace(best, value=least, outer=float(outer), found=found)
            return least

        low, high = sample.within
        for end in (low, high):
            value(end)
        if high - low > precision:
            minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": precision, "maxiter": 50})
        return best


def least(surface: ObjectiveSurface, spans: list[tuple[float, float]], plain: LimbSolution, what: str) -> LimbSolution:
    """Return the solution with the least objective over both angles; the plain one where none is better."""
    chosen: list[Sample] = []
    for sample in surface.sampled(spans):
        near = (
            other.found.branch == sample.found.branch
            and other.within[0] <= sample.outer <= other.within[1]
            and abs(math.sin(0.5 * (other.found.swivel - sample.found.swivel))) < ACROSS
            for other in chosen
        )
        if not any(near):
            chosen.append(sample)
        if len(chosen) == KEPT:
            break
    rough = sorted((surface.refined(sample, 1e-3) for sample in chosen), key=lambda sample: sample.value)
    best = surface.refined(rough[0], 1e-9) if rough else None
    answer = plain if best is None or surface.objective.value(plain.pose) <= best.value else best.found
    return replace(answer, ok=True, message=f"reached, with the least objective over the {what} and the swivel")


def partial_with_objective(
    limb: LimbCore, position: Any, axis: Any, along: Any, objective: Any, *, limits: bool, base: Any
) -> LimbSolution:
    """Solve a partial orientation with the least objective: see `Limb.solve_partial`."""
    measure = as_objective(limb, objective)
    plain = solve_partial(limb, position, axis, along, limits=limits, base=base)
    if np.ndim(plain.ok):
        raise GoalError("solve_partial", expected="one goal with an objective", got="a batch")
    if not plain.ok:
        return plain
    goal = (limb, position, axis, along)
    surface = ObjectiveSurface(
        lambda spin, phi: partial_solutions(*goal, swivel=phi, spin=spin, base=base),
        lambda spin: partial_swivel_ranges(*goal, spin=spin, base=base) if limits else [WHOLE_CIRCLE],
        measure, limits,
    )  # fmt: skip
    return least(surface, reachable_spins(*goal, limits=limits, base=base), plain, "spin")


def aim_with_objective(
    limb: LimbCore, point: Any, axis: Any, objective: Any, *, limits: bool, base: Any
) -> LimbSolution:
    """Aim with the least objective: see `Limb.aim`."""
    measure = as_objective(limb, objective)
    plain = aim(limb, point, axis, limits=limits, base=base)
    if np.ndim(plain.ok):
        raise GoalError("aim", expected="one goal with an objective", got="a batch")
    if not plain.ok:
        return plain
    middle = limb.columns[3]
    rest = float(limb.skeleton.rest[middle])
    low, high = (
        max(float(limb.skeleton.lower[middle]) if limits else -math.inf, rest - math.pi),
        min(float(limb.skeleton.upper[middle]) if limits else math.inf, rest + math.pi),
    )
    goal = (limb, point, axis)
    surface = ObjectiveSurface(
        lambda bend, phi: aim_solutions(*goal, bend=bend, swivel=phi, limits=limits, base=base),
        lambda bend: aim_swivel_ranges(*goal, bend=bend, base=base) if limits else [WHOLE_CIRCLE],
        measure, limits,
    )  # fmt: skip
    return least(surface, [(low, high)], plain, "bend")
