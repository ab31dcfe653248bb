"""Redundancy resolution: the free angles of a limb's goal, and those at which an objective is least.

A position or a pose leaves the swivel angle (Tolani et al. 2000, 3.2.4). One axis along a direction also leaves the
spin about it (3.3), an aim the bend of the middle joint (3.4). Every pose tried meets the goal; the search runs inside
the ranges that respect every limit. If the objective also returns its gradient, the analytic rates of the joint angles
give its slope along the swivel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from posable.errors import GoalError, SolverError
from posable.limb.aim import aim_at, aim_branches, aim_ranges
from posable.limb.ball_ik import ball_rotation
from posable.limb.base import LimbCore, leading_axes, read_direction, read_directions, read_numbers, scratch_memory
from posable.limb.circle import RANGES
from posable.limb.kernels import REPORT
from posable.limb.partial_orientation import place_with_axis, read_goals, site_frame, spins_of, target_of_spin
from posable.limb.solution import LimbSolution, SwivelRange
from posable.limb.srs_chain import TOOL
from posable.model.kinematics import place_bodies

# --- Along the swivel ---

MIDDLE = "middle"
SAMPLES = 24  # per range, at least; one every 0.1 rad in a wide range


def swivel_rates(limb: LimbCore, pose: np.ndarray, *, held: bool = False) -> np.ndarray:
    """Return the derivatives (n,) of the pose with respect to the swivel angle while the goal is kept.

    The first body turns about the circle's normal n at unit speed and the last body does not turn: the rates of both
    ball joints solve A rates = +-n, with A the axes of the joint. This is Tolani et al.'s derivative of both families
    at once, with the denominator that their second form lacks, and is valid for rotation vectors and swings too. held:
    about the site, with the last joint fixed.
    """
    poses, roots, _ = limb.base_frames(pose)
    places, turns, _ = place_bodies(limb.skeleton, poses[:1])
    tip = places[0, limb.bodies[2]]
    if held:
        tip = tip + turns[0, limb.bodies[2]] @ limb.chain.place[TOOL : TOOL + 3]
    normal = roots[0, 3:].reshape(3, 3).T @ (tip - roots[0, :3])
    normal /= max(float(np.linalg.norm(normal)), 1e-300)
    raw = poses[0, limb.columns] * limb.chain.sign
    rates = np.zeros(7)
    frames = [np.eye(3)]
    if not held:
        frames.append(roots[0, 3:].reshape(3, 3).T @ limb.parent_frame(poses[0], int(limb.bodies[2])))
    for ball, frame in enumerate(frames):
        memory = np.concatenate([raw[4 * ball : 4 * ball + 3], np.empty(18)])
        ball_rotation(limb.chain.shape, ball, memory, 0, 3, 12)
        axes = frame @ memory[12:].reshape(3, 3).T
        rates[4 * ball : 4 * ball + 3] = np.linalg.lstsq(axes, normal if ball == 0 else -normal, rcond=1e-12)[0]
    out = np.zeros(limb.skeleton.size)
    out[limb.columns] = rates * limb.chain.sign
    return out


Objective = Callable[
    [np.ndarray], tuple[float, np.ndarray | None]
]  # its value at a pose (n,), and perhaps its gradient


def as_objective(limb: LimbCore, objective: Any) -> Objective:
    """Return an objective that says whether it has a gradient (n,).

    Args:
        limb: The limb.
        objective: A user's function of the pose (n,) that returns a number, or a number and its gradient (n,); or
            "middle" for Tolani et al.'s F (2000, 3.3), the sum of the squared distances of both ball joints' angles
            from the middle of their ranges, or from the rest pose where a range is unbounded.
    """
    if objective == MIDDLE:
        columns = np.delete(limb.columns, 3)
        low, high = limb.skeleton.lower[columns], limb.skeleton.upper[columns]
        middle = np.where(np.isfinite(high - low), 0.5 * (low + high), limb.skeleton.rest[columns])

        def distance(pose: np.ndarray) -> tuple[float, np.ndarray]:
            gap, gradient = pose[columns] - middle, np.zeros(len(pose))
            gradient[columns] = 2.0 * gap
            return float(gap @ gap), gradient

        return distance
    if not callable(objective):
        raise GoalError("objective", expected=f"a function of the pose, or {MIDDLE!r}", got=repr(objective))
    function: Callable[..., Any] = objective

    def measure(pose: np.ndarray) -> tuple[float, np.ndarray | None]:
        answer, gradient = function(pose), None
        if isinstance(answer, tuple):
            answer, gradient = answer
            gradient = np.asarray(gradient, dtype=float)
            if gradient.shape != pose.shape:
                raise SolverError("objective", expected=f"a gradient of shape {pose.shape}", got=gradient.shape)
        try:
            return float(answer), gradient
        except (TypeError, ValueError, OverflowError):
            raise SolverError("objective", expected="a number, or a number and a gradient", got=repr(answer)) from None

    return measure


class _Curve:
    """The objective of one branch along the swivel, with its slope if the objective returns a gradient."""

    def __init__(self, limb: LimbCore, target: Any, objective: Objective, base: Any, held: bool, limits: bool):
        self.limb, self.target, self.base, self.held = limb, target, base, held
        self.limits, self.measure = limits, objective

    def solution(self, phi: float, branch: Any) -> LimbSolution | None:
        found = self.limb.solutions(self.target, phi, limits=self.limits, base=self.base)
        return next((solution for solution in found if solution.branch == branch), None)

    def at(self, phi: float, branch: Any) -> float:
        solution = self.solution(phi, branch)
        return np.inf if solution is None else self.measure(solution.pose)[0]

    def slope(self, phi: float, branch: Any) -> float:
        solution = self.solution(phi, branch)
        if solution is None:
            return 0.0
        _, gradient = self.measure(solution.pose)
        return float(np.asarray(gradient) @ swivel_rates(self.limb, solution.pose, held=self.held))


def solve_with_objective(
    limb: LimbCore, target: Any, objective: Callable[..., Any] | str, *, limits: bool, base: Any
) -> LimbSolution:
    """Return the solution that minimises objective(pose), which returns a value or (value, gradient (n,))."""
    measure = as_objective(limb, objective)
    plain = limb.solve_target(target, swivel=None, elbow=None, limits=limits, base=base)
    if np.ndim(plain.ok):
        raise GoalError("target", expected="one target with an objective", got="a batch")
    if not plain.ok:
        return plain
    held = limb.is_position(target)
    if held:
        base = plain.pose  # the last joint stays there
    ranges = limb.swivel_ranges(target, base=base) if limits else [(-np.pi, np.pi)]
    curve = _Curve(limb, target, measure, base, held, limits)
    best, best_value = plain, measure(plain.pose)[0]
    for lo, hi in ranges:
        count = max(SAMPLES, int(10 * (hi - lo)))
        angles: list[float] = np.linspace(lo, hi, count + 1).tolist()
        values: dict[Any, np.ndarray] = {}
        for i, phi in enumerate(angles):
            for solution in limb.solutions(target, phi, limits=limits, base=base):
                if solution.ok or not limits:
                    values.setdefault(solution.branch, np.full(count + 1, np.inf))[i] = measure(solution.pose)[0]
        for branch, row in values.items():
            padded = np.concatenate([[np.inf], row, [np.inf]])
            lowest = np.flatnonzero((row < np.inf) & (row <= padded[:-2]) & (row <= padded[2:]))
            for i in lowest[np.argsort(row[lowest])][:3]:
                if row[i] - best_value > 0.5 * (np.ptp(row[np.isfinite(row)]) + 1e-12):
                    continue
                phi = _refine(curve, branch, angles[max(i - 1, 0)], angles[i], angles[min(i + 1, count)])
                for at in (phi, angles[i]):
                    solution = curve.solution(at, branch)
                    if solution is None or (limits and not solution.ok):
                        continue
                    value = measure(solution.pose)[0]
                    if value < best_value:
                        best, best_value = solution, value
    return replace(best, ok=True, message="reached, at the minimum of the objective over the swivel")


def _refine(curve: _Curve, branch: Any, low: float, middle: float, high: float) -> float:
    """Return the minimum in a bracket: the root of the slope if there is one, otherwise by values."""
    start = curve.solution(middle, branch)
    if start is not None and curve.measure(start.pose)[1] is not None:
        a, b = curve.slope(low, branch), curve.slope(high, branch)
        if a < 0.0 < b:
            # SciPy's types allow a function of one argument alone
            return float(brentq(curve.slope, low, high, args=(branch,), xtol=1e-13))  # type: ignore[arg-type]
    found = minimize_scalar(
        curve.at, bounds=(low, high), args=(branch,), method="bounded", options={"xatol": 1e-10, "maxiter": 60}
    )
    return float(found.x)  # type: ignore[union-attr]  # SciPy's types do not tell the result's class


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


def reachable_spins(
    limb: LimbCore, position: Any, axis: Any, along: Any, *, limits: bool = True, base: Any = None
) -> list[tuple[float, float]]:
    """Return the ranges of spins at which the last joint is within reach of the middle one.

    Args:
        position: (3,) [m], the position of the site.
        axis: "x", ... or (3,), an axis of the site.
        along: (3,), the direction of that axis in the world.
        limits: Whether the limits of the middle joint hold.
        base: (n,), the pose of the rest of the figure; by default the rest pose.

    Returns:
        Ranges (lo, hi) [rad].
    """
    places, alongs, lead = read_goals(position, along, base)
    if lead != ():
        raise GoalError("position", expected="one goal", got=f"leading axes {lead}")
    _, roots, _ = limb.base_frames(base)
    out = np.empty((4, 2))
    near, far = limb.reach_of(limits=limits)
    count = spins_of(
        roots[0], limb.directions, site_frame(axis), limb.tool_in_site(), places[0], alongs[0], near, far,
        scratch_memory(), out,
    )  # fmt: skip
    return [(float(lo), float(hi)) for lo, hi in out[:count]]


def partial_solutions(
    limb: LimbCore, position: Any, axis: Any, along: Any, *, swivel: Any = 0.0, spin: Any = 0.0, base: Any = None
) -> list[LimbSolution]:
    """Return every solution of a partial orientation at given angles: both bends, both families of each ball joint.

    Args:
        position: (3,) [m], the position of the site.
        axis: "x", ... or (3,), an axis of the site.
        along: (3,), the direction of that axis in the world.
        swivel: [rad].
        spin: [rad], about the direction.
        base: (n,), the pose of the rest of the figure; by default the rest pose.

    Returns:
        The solutions. Limits are not enforced: `ok` says which solutions respect them.
    """
    target = target_at_spin(limb, position, axis, along, spin)
    turn = (float(spin) + math.pi) % (2.0 * math.pi) - math.pi
    return [replace(found, spin=turn) for found in limb.solutions(target, swivel, base=base)]


def partial_swivel_ranges(
    limb: LimbCore, position: Any, axis: Any, along: Any, *, spin: Any, base: Any = None
) -> list[SwivelRange]:
    """Return all ranges of swivel angles at which a partial orientation respects every limit.

    Args:
        position: (3,) [m], the position of the site.
        axis: "x", ... or (3,), an axis of the site.
        along: (3,), the direction of that axis in the world.
        spin: [rad], about the direction.
        base: (n,), the pose of the rest of the figure; by default the rest pose.

    Returns:
        Ranges (lo, hi) [rad], in increasing order.
    """
    return limb.swivel_ranges(target_at_spin(limb, position, axis, along, spin), base=base)


# --- Aiming ---


def _sight(limb: LimbCore, point: Any, axis: Any, bend: Any, base: Any, limits: bool) -> tuple[Any, ...]:
    """Return the arguments of the aim kernels: base pose, root, point, axis, last joint and raw bend."""
    place, direction = read_numbers(point, "point", (3,)), read_direction(axis, "axis")
    angle = read_numbers(bend, "bend")
    if place.ndim > 1 or angle.ndim or leading_axes(base):
        raise GoalError("point, bend and base", expected="one goal", got="several")
    poses, roots, helds = limb.base_frames(base, limits=limits)
    return poses[0], roots[0], place, direction, helds[0], float(angle) * float(limb.chain.sign[3])


def aim_solutions(
    limb: LimbCore, point: Any, axis: Any, *, bend: Any, swivel: Any = 0.0, limits: bool = True, base: Any = None
) -> list[LimbSolution]:
    """Return every solution of an aim at given angles: both families of the first ball joint.

    Args:
        point: (3,) [m], to aim at.
        axis: "x", ... or (3,), an axis of the site.
        bend: [rad], the middle joint's angle.
        swivel: [rad], about the line from the first joint to the point.
        limits: Whether the last joint, which stays as in `base`, is brought inside its limits.
        base: (n,), the pose of the rest of the figure; by default the rest pose.

    Returns:
        The solutions; none if the point is too close for this bend. Limits are not enforced: `ok` says which
        solutions respect them.
    """
    pose, root, place, direction, held, raw = _sight(limb, point, axis, bend, base, limits)
    angle = float(read_numbers(swivel, "swivel"))
    out, reports = np.empty((2, 7)), np.zeros((2, REPORT))
    aim_branches(*limb.chain, root, limb.directions, place, direction, held, raw, angle, scratch_memory(), out, reports)
    return limb.listed(pose, out, reports)


def aim_swivel_ranges(limb: LimbCore, point: Any, axis: Any, *, bend: Any, base: Any = None) -> list[SwivelRange]:
    """Return all ranges of swivel angles at which an aim respects every limit.

    Args:
        point: (3,) [m], to aim at.
        axis: "x", ... or (3,), an axis of the site.
        bend: [rad], the middle joint's angle.
        base: (n,), the pose of the rest of the figure; by default the rest pose.

    Returns:
        Ranges (lo, hi) [rad], in increasing order.
    """
    _, root, place, direction, held, raw = _sight(limb, point, axis, bend, base, True)
    low, high = limb.chain.box[3]
    if not low - 1e-12 <= raw <= high + 1e-12:
        return []
    out = np.empty((RANGES, 4))
    count = aim_ranges(*limb.chain, root, limb.directions, place, direction, held, raw, scratch_memory(), out)
    return limb.named_ranges(out[:count])


# --- An objective over both angles ---


@dataclass(frozen=True)
class ObjectiveSample:
    """A sampled solution: its objective, its spin or bend, and the interval of that between its neighbours."""

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
        return [(self.objective(one.pose)[0], one) for one in found if one.ok or not self.limits]

    def sampled(self, spans: list[tuple[float, float]]) -> list[ObjectiveSample]:
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
                        out += [ObjectiveSample(value, outer, within, found) for value, found in self.at(outer, phi)]
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

    def refined(self, sample: ObjectiveSample, precision: float) -> ObjectiveSample:
        """Return the best solution near a sample."""
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


def refuse_both(what: str, **others: Any) -> None:
    """Raise GoalError if an objective and a preference are given."""
    given = [name for name, value in others.items() if value is not None]
    if given:
        wanted = f"at most one of {', '.join((*others, 'objective'))}"
        raise GoalError(what, expected=wanted, got=f"objective, {given[0]}")


def least(surface: ObjectiveSurface, spans: list[tuple[float, float]], plain: LimbSolution, what: str) -> LimbSolution:
    """Return the solution with the least objective over both angles; `plain` if none is better."""
    if np.ndim(plain.ok):
        raise GoalError("objective", expected="one goal", got="a batch")
    if not plain.ok:
        return plain
    chosen: list[ObjectiveSample] = []
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
    answer = plain if best is None or surface.objective(plain.pose)[0] <= best.value else best.found
    return replace(answer, ok=True, message=f"reached, at the minimum of the objective over the {what} and the swivel")


def solve_partial(
    limb: LimbCore, position: Any, axis: Any, along: Any, *, swivel: Any = None, spin: Any = None, wrist: Any = None,
    objective: Callable[..., Any] | str | None = None, limits: bool = True, base: Any = None,
) -> LimbSolution:  # fmt: skip
    """Bring the site to a position with one of its axes along a world direction.

    Two angles remain free: the swivel, and the spin about the direction. The spin is zero where the site's axis
    after `axis` points along the limb's reference direction. Without `spin` or `wrist` it is the middle of the
    reachable spins; with limits, a search over both angles and all branches starts there and ends at the first
    solution that stays 0.1 rad clear of every limit, or at the one with the largest clearance.

    Args:
        position: (..., 3) [m].
        axis: "x", "-y", ... or (3,), an axis of the site.
        along: (..., 3), the world direction of that axis.
        swivel: [rad] The preferred swivel angle.
        spin: [rad] The spin.
        wrist: "highest", "lowest", or a point (..., 3) [m] that the last joint should be close to, as far as the
            limits allow. At most one of spin and wrist.
        objective: As in `solve`, minimised over both angles; one goal at a time.
        limits: Whether joint limits hold.
        base: (..., n) The pose of the rest of the figure; by default the rest pose.

    Returns:
        The solution; its fields have the leading axes of the goals.
    """
    if objective is None:
        return place_with_axis(limb, position, axis, along, swivel, spin, wrist, limits, base)
    refuse_both("solve_partial", swivel=swivel, spin=spin, wrist=wrist)
    measure = as_objective(limb, objective)
    plain = place_with_axis(limb, position, axis, along, None, None, None, limits, base)
    goal = (limb, position, axis, along)
    surface = ObjectiveSurface(
        lambda spin, phi: partial_solutions(*goal, swivel=phi, spin=spin, base=base),
        lambda spin: partial_swivel_ranges(*goal, spin=spin, base=base) if limits else [WHOLE_CIRCLE],
        measure, limits,
    )  # fmt: skip
    return least(surface, reachable_spins(*goal, limits=limits, base=base), plain, "spin")


def aim(
    limb: LimbCore, point: Any, axis: Any, *, bend: Any = None, swivel: Any = None,
    objective: Callable[..., Any] | str | None = None, limits: bool = True, base: Any = None,
) -> LimbSolution:  # fmt: skip
    """Aim an axis of the site at a point.

    The last joint stays as in `base`. If the point cannot be aimed at, the aim comes as close as possible.

    Args:
        point: (..., 3) [m], in the world.
        axis: "x", "-y", ... or (3,), an axis of the site.
        bend: [rad] The middle joint's angle. By default, starting from the middle of its range, the first that
            stays 0.1 rad clear of every limit, or the one with the largest clearance; without limits, the one
            nearest to the rest pose.
        swivel: [rad] The preferred angle about the line from the first joint to the point; with limits, the
            nearest that respects them.
        objective: As in `solve`, minimised over the bend and the swivel; one goal at a time.
        limits: Whether joint limits hold.
        base: (..., n) The pose of the rest of the figure; by default the rest pose.

    Returns:
        The solution; its fields have the leading axes of the points.
    """
    if objective is None:
        return aim_at(limb, point, axis, bend, swivel, limits, base)
    refuse_both("aim", bend=bend, swivel=swivel)
    measure = as_objective(limb, objective)
    plain = aim_at(limb, point, axis, None, None, limits, base)
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
