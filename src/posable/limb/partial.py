"""Partial orientation: one axis of the site along a direction, the spin about it left free (seed 003, 3.3).

The spin psi turns the last joint about a circle round the direction. Its distance from the first joint, its height and
its distance from any point are then all a cos(psi) + b sin(psi) + c: seed 003's quartic for the nearest wrist has no
squared terms on a circle, and its root is one inverse tangent.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from posable.errors import GoalError
from posable.kinematics import forward

from .core import LimbCore, scratch_memory
from .entries import slack_grid
from .solution import LimbSolution
from .targets import read_direction, read_vector

SPINS, SWIVELS = 96, 96  # the first grid of the search inside the limits


class SpinCircle:
    """The targets G(psi) of a place and a direction, and the circle on which the last joint then is."""

    def __init__(self, limb: LimbCore, position: np.ndarray, axis: np.ndarray, along: np.ndarray):
        self.position, self.along = position, along
        second = _across(axis)  # an axis of the site that shows the spin
        u = limb.reference - (limb.reference @ along) * along
        u = u / np.linalg.norm(u) if np.linalg.norm(u) > 1e-7 else _across(along)
        frame_site = np.stack([axis, second, np.cross(axis, second)], axis=1)
        frame_world = np.stack([along, u, np.cross(along, u)], axis=1)
        self.start = frame_world @ frame_site.T
        arm = self.start @ limb.tool_in_site()  # last joint to site, at psi = 0
        axial = (arm @ along) * along
        self.centre, self.c, self.s = position - axial, -(arm - axial), -np.cross(along, arm)

    def targets(self, spins: Any) -> np.ndarray:
        """Return the targets (..., 4, 4) at spins (...)."""
        spins = np.asarray(spins, dtype=float)
        out = np.zeros((*spins.shape, 4, 4))
        turns = Rotation.from_rotvec(spins.reshape(-1, 1) * self.along).as_matrix()
        out[..., :3, :3] = (turns @ self.start).reshape(*spins.shape, 3, 3)
        out[..., :3, 3] = self.position
        out[..., 3, 3] = 1.0
        return out

    def nearest(self, point: np.ndarray) -> float:
        """Return the spin that brings the last joint nearest to a point (3,) of the world (equation (12))."""
        d = point - self.centre
        return math.atan2(d @ self.s, d @ self.c)

    def extreme(self, direction: np.ndarray) -> float:
        """Return the spin that brings the last joint farthest along a direction (equation (11))."""
        return math.atan2(direction @ self.s, direction @ self.c)

    def reachable(self, origin: np.ndarray, near: float, far: float) -> list[tuple[float, float]]:
        """Return the ranges of spins at which the last joint is between near and far from a point."""
        d = self.centre - origin
        a, b = 2.0 * float(d @ self.c), 2.0 * float(d @ self.s)
        c = float(d @ d + self.c @ self.c)
        slack = 1e-11 * far * far
        cuts = []
        for bound in (near * near, far * far):
            amplitude = math.hypot(a, b)
            if abs(bound - c) <= amplitude and amplitude > 0.0:
                half = math.acos((bound - c) / amplitude)
                cuts += [math.atan2(b, a) + half, math.atan2(b, a) - half]
        cuts = sorted((cut + math.pi) % (2.0 * math.pi) - math.pi for cut in cuts)

        def inside(psi: float) -> bool:
            square = a * math.cos(psi) + b * math.sin(psi) + c
            return near * near - slack <= square <= far * far + slack

        if not cuts:
            return [(-math.pi, math.pi)] if inside(0.0) else []
        ends = [*cuts[1:], cuts[0] + 2.0 * math.pi]
        return [(lo, hi) for lo, hi in zip(cuts, ends, strict=True) if inside(0.5 * (lo + hi))]


def solve_partial(
    limb: LimbCore,
    position: Any,
    axis: Any,
    along: Any,
    *,
    swivel: float | None = None,
    spin: float | None = None,
    wrist: Any = None,
    limits: bool = True,
    base: Any = None,
) -> LimbSolution:
    """Bring the site to a place with one axis along a direction: see `Limb.solve_partial`."""
    place, axis = read_vector(position, "position"), read_direction(axis, "axis")
    along = read_direction(along, "along")
    if spin is not None and wrist is not None:
        raise GoalError("solve_partial", expected="at most one of spin and wrist", got="both")
    circle = SpinCircle(limb, place, axis, along)
    if spin is not None:
        return _finish(limb, circle, axis, _reach(limb, circle, spin, swivel, limits, base), spin)
    wanted = _wanted_spin(limb, circle, wrist)
    _, roots, _ = limb.placed(base)
    near, far = limb.reach_of(limits=limits)
    reachable = circle.reachable(roots[0, :3], near, far)
    if reachable and not limits:
        psi = pick(reachable, wanted)
        return _finish(limb, circle, axis, _reach(limb, circle, psi, swivel, False, base), psi)
    if reachable:
        found = _search(limb, circle, reachable, wanted, swivel, base)
        if found is not None:
            psi, phi = found
            solution = _reach(limb, circle, psi, phi, True, base)
            if solution.ok:
                return _finish(limb, circle, axis, solution, psi)
    return _nearest(limb, circle, axis, base, limits)


def _reach(limb: LimbCore, circle: SpinCircle, spin: Any, swivel: Any, limits: bool, base: Any) -> LimbSolution:
    return limb.reach_for(circle.targets(spin), swivel=swivel, elbow=None, limits=limits, base=base)


def pick(ranges: list[tuple[float, float]], wanted: float | None) -> float:
    """Return the angle of the ranges nearest to the wanted one, or the middle of the widest."""
    if wanted is None:
        lo, hi = max(ranges, key=lambda pair: pair[1] - pair[0])
        return 0.5 * (lo + hi)
    turn = 2.0 * math.pi
    if any((wanted - lo) % turn <= hi - lo for lo, hi in ranges):
        return wanted
    return min((end for pair in ranges for end in pair), key=lambda end: abs((end - wanted + math.pi) % turn - math.pi))


def _wanted_spin(limb: LimbCore, circle: SpinCircle, wrist: Any) -> float | None:
    if wrist is None:
        return None
    if isinstance(wrist, str):
        if wrist not in ("highest", "lowest"):
            raise GoalError("wrist", expected="'highest', 'lowest' or three numbers", got=repr(wrist))
        return circle.extreme(limb.down if wrist == "lowest" else -limb.down)
    return circle.nearest(read_vector(wrist, "wrist"))


def _search(limb: LimbCore, circle: SpinCircle, reachable: list[tuple[float, float]], wanted, swivel, base):
    """Return (spin, swivel) inside every limit, or None.

    At each spin of a grid the swivel ranges are exact; where none has any, both angles are searched for the best slack.
    """
    total = sum(hi - lo for lo, hi in reachable)
    spins = np.concatenate([np.linspace(lo, hi, 2 + int(SPINS * (hi - lo) / total)) for lo, hi in reachable])
    if wanted is not None:
        spins = np.append(spins, pick(reachable, wanted))
    best = None
    for fine in (0.0, 2.0 * math.pi / SPINS):  # once more, closer, about the best spin
        if best is not None:
            spins = best[1] + fine * np.linspace(-1.0, 1.0, 33)
        found = limb.reach_for(circle.targets(spins), swivel=swivel, elbow=None, limits=True, base=base, nearest=False)
        score: np.ndarray = np.minimum(found.clearance, 0.5)
        if wanted is not None or swivel is not None:
            score = np.zeros(len(spins))
            if wanted is not None:
                score -= np.abs(np.sin(0.5 * (spins - wanted)))
            if swivel is not None:
                score -= np.abs(np.sin(0.5 * (found.swivel - swivel)))
        for k in np.flatnonzero(found.ok):
            if best is None or score[k] > best[0]:
                best = (float(score[k]), float(spins[k]), float(found.swivel[k]))
        if best is None:
            swivels = np.linspace(-math.pi, math.pi, SWIVELS, endpoint=False)
            return _climb(limb, circle, spins, swivels, grid_slack(limb, circle.targets(spins), swivels, base), base)
    return None if best is None else best[1:]


def _climb(limb: LimbCore, circle: SpinCircle, spins, swivels, slack, base):
    """Raise the slack from the best cells of a grid by ever finer grids; return (spin, swivel), or None below zero."""
    order = np.argsort(slack, axis=None)[::-1][:64:8]
    for flat in order:
        i, j = np.unravel_index(int(flat), slack.shape)
        psi, phi, step = float(spins[i]), float(swivels[j]), 2.0 * math.pi / SWIVELS
        while step > 1e-10:
            fine = np.linspace(-step, step, 9)
            values = grid_slack(limb, circle.targets(psi + fine), phi + fine, base)
            a, b = np.unravel_index(int(np.argmax(values)), values.shape)
            psi, phi = psi + fine[a], phi + fine[b]
            if values[a, b] >= 0.0:
                return float(psi), float(phi)
            step *= 0.4
    return None


def grid_slack(limb: LimbCore, targets: np.ndarray, swivels: np.ndarray, base: Any) -> np.ndarray:
    """Return the best slack (p, q) [rad] over branches and families for pose targets (p, 4, 4) and swivels (q,)."""
    _, roots, _ = limb.placed(base)
    flat = np.concatenate([targets[:, :3, 3], targets[:, :3, :3].reshape(-1, 9)], axis=1)
    out = np.empty((len(flat), len(swivels)))
    swivels = np.ascontiguousarray(swivels, dtype=float)
    slack_grid(*limb.anatomy, roots[0], limb.directions, flat, swivels, scratch_memory(), out)
    return out


def _finish(limb: LimbCore, circle: SpinCircle, axis: np.ndarray, solution: LimbSolution, spin: float) -> LimbSolution:
    """Measure what was asked: the place and the one axis."""
    at = forward(limb.skeleton, solution.pose)
    miss = float(np.linalg.norm(at.position(limb.site) - circle.position))
    towards = at.rotation_matrix(limb.site) @ axis
    angle = math.atan2(float(np.linalg.norm(np.cross(towards, circle.along))), float(towards @ circle.along))
    ok = bool(miss <= 1e-9 and angle <= 1e-8) if not solution.ok else True
    return replace(
        solution, ok=ok, status="REACHED" if ok else solution.status, message="reached" if ok else solution.message,
        position_error=miss, rotation_error=angle, spin=(spin + math.pi) % (2.0 * math.pi) - math.pi,
    )  # fmt: skip


def _nearest(limb: LimbCore, circle: SpinCircle, axis: np.ndarray, base: Any, limits: bool) -> LimbSolution:
    """Out of reach at every spin: the one that comes nearest in place, then in direction."""
    psi, width, best = 0.0, math.pi, None
    for _ in range(5):
        spins = psi + np.linspace(-width, width, 17)
        tries = [_finish(limb, circle, axis, _reach(limb, circle, s, None, limits, base), s) for s in spins]
        if best is not None:
            tries.append(best)
        best = min(tries, key=lambda s: (round(s.position_error, 7), s.rotation_error))
        psi, width = best.spin, 0.2 * width
    assert best is not None
    return best


def _across(direction: np.ndarray) -> np.ndarray:
    k = int(np.argmax(np.abs(direction)))
    helper = np.eye(3)[(k + 1) % 3]
    out = helper - (helper @ direction) * direction
    return out / np.linalg.norm(out)
