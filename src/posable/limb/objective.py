"""The swivel angle that makes a user's own objective least (Tolani et al. 2000, 3.2.4, selecting a suitable value of
phi).

The search has one unknown, inside the ranges that hold every limit; every pose that it tries meets the goal. Where the
objective gives its gradient too, the analytic rates of the joint angles turn it into the slope along the swivel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from posable.errors import GoalError, SolverError
from posable.limb.ball_ik import ball_rotation
from posable.limb.base import LimbCore
from posable.limb.solution import LimbSolution
from posable.limb.srs_chain import TOOL
from posable.model.kinematics import place_bodies

MIDDLE = "middle"
SAMPLES = 24  # in a range, at least; one every 0.1 rad in a wide one


def swivel_rates(limb: LimbCore, pose: np.ndarray, *, held: bool = False) -> np.ndarray:
    """Return (n,) the derivatives of the pose by the swivel angle, the goal being kept.

    The first body turns about the circle's normal n at unit speed and the last one not at all: both ball joints' rates
    solve A rates = +-n, with A the joint's axes. It is Tolani et al.'s derivative of both families at once, with the
    denominator that its second form lacks, and holds for rotation vectors and swings too. held: about the site, the
    last joint at rest.
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


class Objective:
    """A user's objective: a function of the pose (n,) that returns a number, or a number and its gradient (n,)."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def value(self, pose: np.ndarray) -> float:
        """Return the objective at a pose (n,)."""
        return self.measure(pose)[0]

    def measure(self, pose: np.ndarray) -> tuple[float, np.ndarray | None]:
        """Return the objective at a pose (n,), and its gradient (n,) where the user gives it."""
        answer = self.function(pose)
        gradient = None
        if isinstance(answer, tuple):
            answer, gradient = answer
            gradient = np.asarray(gradient, dtype=float)
            if gradient.shape != pose.shape:
                raise SolverError("objective", expected=f"a gradient of shape {pose.shape}", got=gradient.shape)
        try:
            return float(answer), gradient
        except (TypeError, ValueError):
            raise SolverError("objective", expected="a number, or a number and a gradient", got=repr(answer)) from None


def as_objective(limb: LimbCore, objective: Any) -> Objective:
    """Return a user's objective: a function of the pose, or "middle" for Tolani et al.'s F (2000, 3.3).

    F is the sum of the squared distances of both ball joints' angles from the middle of their ranges; from rest where
    a range has no end.
    """
    if objective == MIDDLE:
        columns = np.delete(limb.columns, 3)
        low, high = limb.skeleton.lower[columns], limb.skeleton.upper[columns]
        middle = np.where(np.isfinite(high - low), 0.5 * (low + high), limb.skeleton.rest[columns])

        def distance(pose: np.ndarray) -> tuple[float, np.ndarray]:
            gap, gradient = pose[columns] - middle, np.zeros(len(pose))
            gradient[columns] = 2.0 * gap
            return float(gap @ gap), gradient

        return Objective(distance)
    if not callable(objective):
        raise GoalError("objective", expected=f"a function of the pose, or {MIDDLE!r}", got=repr(objective))
    return Objective(objective)


class _Curve:
    """One branch's objective along the swivel, with its slope where the user gives the gradient."""

    def __init__(self, limb: LimbCore, target: Any, objective: Objective, base: Any, held: bool, limits: bool):
        self.limb, self.target, self.base, self.held = limb, target, base, held
        self.limits, self.value, self.measure = limits, objective.value, objective.measure

    def solution(self, phi: float, branch: Any) -> LimbSolution | None:
        found = self.limb.solutions(self.target, phi, limits=self.limits, base=self.base)
        return next((solution for solution in found if solution.branch == branch), None)

    def at(self, phi: float, branch: Any) -> float:
        solution = self.solution(phi, branch)
        return np.inf if solution is None else self.value(solution.pose)

    def slope(self, phi: float, branch: Any) -> float:
        solution = self.solution(phi, branch)
        if solution is None:
            return 0.0
        _, gradient = self.measure(solution.pose)
        return float(np.asarray(gradient) @ swivel_rates(self.limb, solution.pose, held=self.held))


def solve_with_objective(
    limb: LimbCore, target: Any, objective: Callable[..., Any] | str, *, limits: bool, base: Any
) -> LimbSolution:
    """Return the solution whose pose makes objective(pose), or the first of (value, gradient (n,)), least."""
    measure = as_objective(limb, objective)
    plain = limb.solve_target(target, swivel=None, elbow=None, limits=limits, base=base)
    if np.ndim(plain.ok):
        raise GoalError("target", expected="one target with an objective", got="a batch")
    if not plain.ok:
        return plain
    held = limb.is_position(target)
    if held:
        base = plain.pose  # the last joint stays as it is held there
    ranges = limb.swivel_ranges(target, base=base) if limits else [(-np.pi, np.pi)]
    curve = _Curve(limb, target, measure, base, held, limits)
    best, best_value = plain, curve.value(plain.pose)
    for lo, hi in ranges:
        count = max(SAMPLES, int(10 * (hi - lo)))
        angles: list[float] = np.linspace(lo, hi, count + 1).tolist()
        values: dict[Any, np.ndarray] = {}
        for i, phi in enumerate(angles):
            for solution in limb.solutions(target, phi, limits=limits, base=base):
                if solution.ok or not limits:
                    values.setdefault(solution.branch, np.full(count + 1, np.inf))[i] = curve.value(solution.pose)
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
                    value = curve.value(solution.pose)
                    if value < best_value:
                        best, best_value = solution, value
    return replace(best, ok=True, message="reached, with the least objective along the swivel")


def _refine(curve: _Curve, branch: Any, low: float, middle: float, high: float) -> float:
    """Return the least point near the middle of a bracket: by the slope's root where there is one, else by values."""
    start = curve.solution(middle, branch)
    if start is not None and curve.measure(start.pose)[1] is not None:
        a, b = curve.slope(low, branch), curve.slope(high, branch)
        if a < 0.0 < b:
            return float(brentq(curve.slope, low, high, args=(branch,), xtol=1e-13))  # type: ignore[arg-type]
    found = minimize_scalar(
        curve.at, bounds=(low, high), args=(branch,), method="bounded", options={"xatol": 1e-10, "maxiter": 60}
    )
    return float(found.x)  # type: ignore[union-attr]
