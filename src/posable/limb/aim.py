"""Aiming: an axis of the site points at a point, the last joint held (seed 003, 3.4)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from posable.errors import GoalError

from .answer import REPORT, SWIVEL, TURN_ERROR
from .batch import around_of, scratch_memory, share_out, spread
from .circle import POSE, TOO_NEAR
from .core import LimbCore
from .sight import aim_batch
from .solution import LimbSolution
from .targets import common_lead, read_direction, read_numbers, wishes


def aim(
    limb: LimbCore,
    point: Any,
    axis: Any,
    *,
    bend: Any = None,
    swivel: Any = None,
    limits: bool = True,
    base: Any = None,
) -> LimbSolution:
    """Aim an axis of the site at a point: see `Limb.aim`."""
    given, direction = read_numbers(point, "point", (3,)), read_direction(axis, "axis")
    lead = common_lead({"point": given.shape[:-1], "base": around_of(base)})
    count = math.prod(lead)
    points = np.ascontiguousarray(np.broadcast_to(given, (*lead, 3)).reshape(count, 3))
    poses, roots, helds = (spread(rows, around_of(base), lead) for rows in limb.placed(base, limits=limits))
    bends, swivels = wishes(bend, "bend", lead) * limb.anatomy.sign[3], wishes(swivel, "swivel", lead)
    low, high = limb.anatomy.box[3]
    if limits and bend is not None and not np.all((bends >= low - 1e-12) & (bends <= high + 1e-12)):
        raise GoalError("bend", expected=f"angles inside the limits of {limb.middle!r}", got=repr(bend))
    out, reports, status = np.zeros((count, 7)), np.zeros((count, REPORT)), np.zeros(count, dtype=np.int64)

    def part(start: int, stop: int) -> None:
        def mine(rows: np.ndarray) -> np.ndarray:
            return rows[start:stop] if len(rows) == count and count > 1 else rows

        aim_batch(
            *limb.anatomy, mine(roots), limb.directions, points[start:stop], direction, mine(helds), mine(bends),
            bool(limits), mine(swivels), scratch_memory(), out[start:stop], reports[start:stop], status[start:stop],
        )  # fmt: skip

    share_out(count, part)
    lost = np.isnan(reports[:, SWIVEL])
    if np.any(lost):
        reports[lost, SWIVEL] = limb.swivels(out[lost], roots[lost] if len(roots) > 1 else roots, POSE)
    messages = np.array([_sentence(int(code), miss) for code, miss in zip(status, reports[:, TURN_ERROR], strict=True)])
    return limb.solution(lead, poses, out, reports, status, messages.astype(object))


def _sentence(status: int, miss: float) -> str:
    if status == 0:
        return "reached"
    why = "the point is too near for any bend" if status == TOO_NEAR else "no swivel angle holds every limit"
    return f"{why}: the aim misses by {miss:.4f} rad"
