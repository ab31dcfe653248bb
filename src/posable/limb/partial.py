"""Partial orientation: one axis of the site along a direction, the spin about it left free (seed 003, 3.3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posable.errors import GoalError

from .answer import REPORT, SPUN, SWIVEL
from .batch import around_of, scratch_memory, share_out, spread
from .circle import NO_SWIVEL, POSE, REACHED
from .core import LimbCore
from .reasons import SENTENCES, too
from .solution import LimbSolution
from .spin import HEIGHTS, POINTS, spins_of
from .spin_search import partial_batch
from .targets import common_lead, read_direction, read_directions, read_numbers, wishes

ANYWHERE = np.full(3, np.nan)
EXTREMES = ("highest", "lowest")


def solve_partial(
    limb: LimbCore,
    position: Any,
    axis: Any,
    along: Any,
    *,
    swivel: Any = None,
    spin: Any = None,
    wrist: Any = None,
    limits: bool = True,
    base: Any = None,
) -> LimbSolution:
    """Bring the site to a place with one axis along a direction: see `Limb.solve_partial`."""
    if spin is not None and wrist is not None:
        raise GoalError("solve_partial", expected="at most one of spin and wrist", got="both")
    places, alongs, lead = _goals(position, along, base)
    frame, count = site_frame(axis), math.prod(lead)
    poses, roots, helds = (spread(rows, around_of(base), lead) for rows in limb.placed(base, limits=limits))
    swivels, spins = wishes(swivel, "swivel", lead), wishes(spin, "spin", lead)
    kind, wrists = _wanted(limb, wrist, lead)
    near, far = limb.reach_of(limits=limits)
    out, reports, status = np.zeros((count, 7)), np.zeros((count, REPORT)), np.zeros(count, dtype=np.int64)

    def part(low: int, high: int) -> None:
        def mine(rows: np.ndarray) -> np.ndarray:
            return rows[low:high] if len(rows) == count and count > 1 else rows

        partial_batch(
            *limb.anatomy, mine(roots), limb.directions, frame, limb.tool_in_site(), places[low:high], alongs[low:high],
            mine(helds), near, far, mine(spins), kind, mine(wrists), bool(limits), mine(swivels), ANYWHERE,
            scratch_memory(), out[low:high], reports[low:high], status[low:high],
        )  # fmt: skip

    share_out(count, part)
    lost = np.isnan(reports[:, SWIVEL])
    if np.any(lost):
        reports[lost, SWIVEL] = limb.swivels(out[lost], roots[lost] if len(roots) > 1 else roots, POSE)
    messages: Any = np.where(status == NO_SWIVEL, "no spin and swivel angle hold every limit", SENTENCES[status])
    if lead == () and status[0] not in (REACHED, NO_SWIVEL):
        messages = np.array([_distance(limb, roots[0], frame, places[0], alongs[0], int(status[0]), limits)])
    turns = (reports[:, SPUN] + math.pi) % (2.0 * math.pi) - math.pi
    return limb.solution(lead, poses, out, reports, status, messages, turns)


def reachable_spins(
    limb: LimbCore, position: Any, axis: Any, along: Any, *, limits: bool = True, base: Any = None
) -> list[tuple[float, float]]:
    """Return the ranges [(lo, hi), ...] of spins [rad] at which the last joint is where the bend lets it be."""
    places, alongs, lead = _goals(position, along, base)
    if lead != ():
        raise GoalError("position", expected="one goal", got=f"leading axes {lead}")
    _, roots, _ = limb.placed(base)
    out = np.empty((4, 2))
    near, far = limb.reach_of(limits=limits)
    count = spins_of(
        roots[0], limb.directions, site_frame(axis), limb.tool_in_site(), places[0], alongs[0], near, far,
        scratch_memory(), out,
    )  # fmt: skip
    return [(float(lo), float(hi)) for lo, hi in out[:count]]


def site_frame(axis: Any) -> np.ndarray:
    """Return (9,), by rows: an axis of the site, another of it that shows the spin, and one across both."""
    first = read_direction(axis, "axis")
    helper = np.eye(3)[(int(np.argmax(np.abs(first))) + 1) % 3]
    second = helper - (helper @ first) * first
    second /= np.linalg.norm(second)
    return np.concatenate([first, second, np.cross(first, second)])


def _goals(position: Any, along: Any, base: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return places (t, 3), unit directions (t, 3) and the leading axes of all goals."""
    places, alongs = read_numbers(position, "position", (3,)), read_directions(along, "along")
    lead = common_lead({"position": places.shape[:-1], "along": alongs.shape[:-1], "base": around_of(base)})
    count = math.prod(lead)
    rows = [np.broadcast_to(given, (*lead, 3)).reshape(count, 3) for given in (places, alongs)]
    return np.ascontiguousarray(rows[0]), np.ascontiguousarray(rows[1]), lead


def _wanted(limb: LimbCore, wrist: Any, lead: tuple[int, ...]) -> tuple[int, np.ndarray]:
    """Return what is wanted of the last joint, and the directions or points (., 3) of the world that it is about."""
    if wrist is None:
        return 0, np.zeros((1, 3))
    if isinstance(wrist, str):
        if wrist not in EXTREMES:
            raise GoalError("wrist", expected="'highest', 'lowest' or three numbers", got=repr(wrist))
        return HEIGHTS, (limb.down if wrist == "lowest" else -limb.down)[None].copy()
    return POINTS, wishes(wrist, "wrist", lead, (3,))


def _distance(limb: LimbCore, root, frame, place, along, status: int, limits: bool) -> str:
    """Return the sentence for a place that is too far or too near at every spin."""
    near, far = limb.reach_of(limits=limits)
    arm = frame.reshape(3, 3) @ limb.tool_in_site()
    gap = place - arm[0] * along - root[:3]
    across, radius = float(np.linalg.norm(gap - (gap @ along) * along)), math.hypot(arm[1], arm[2])
    side = across - radius if status == 1 else across + radius
    return too(limb, status, POSE, math.hypot(float(gap @ along), side), far if status == 1 else near)


__all__ = ["reachable_spins", "solve_partial"]
