"""Why a limb does not reach: too far, too near, or no swivel angle inside the limits; in a sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .answer import MOVED, PLACE_ERROR, SWIVEL
from .batch import Goals, scratch_memory
from .circle import NO_SWIVEL, POSE, POSITION, REACHED, TOO_FAR, TOO_NEAR
from .entries import distance_batch

SENTENCES = np.array(["reached", "too far", "too near", "no swivel angle holds every limit"], dtype=object)


def classify(limb: Any, goals: Goals, limits: bool, out: np.ndarray, reports: np.ndarray, status: np.ndarray):
    """Correct the status (t,) of places that are not reached, in place; return (t,) [m] how far the site reaches there.

    The last joint moves too, so the reach of one way to hold it says little. With the first joint free to turn any way,
    the site comes to the place, or as near to it as the rest of the limb lets it: then the first joint is to blame, or
    the distance, and what is left of it is the reach.
    """
    edges = np.full(len(status), np.nan)
    missed = np.flatnonzero(status != REACHED)
    if goals.task == POSE or not missed.size:
        return edges
    numbers, errors = out[missed], reports[missed, PLACE_ERROR]
    if limits:
        box = limb.anatomy.box.copy()
        box[:3] = -np.inf, np.inf
        numbers, freed, found = limb.answers(goals.rows(missed), True, True, anatomy=limb.anatomy.with_box(box))
        errors = np.where(found == REACHED, 0.0, freed[:, PLACE_ERROR])
    reached = np.empty(len(missed))
    distance_batch(*limb.anatomy, numbers * limb.anatomy.sign, scratch_memory(), reached)
    roots = goals.roots[missed] if len(goals.roots) > 1 else goals.roots
    wanted = np.linalg.norm(goals.targets[missed, :3] - roots[:, :3], axis=1)
    status[missed] = np.where(errors == 0.0, NO_SWIVEL, np.where(wanted > reached, TOO_FAR, TOO_NEAR))
    edges[missed] = reached
    return edges


def sentence(limb: Any, goals: Goals, limits: bool, status: int, report: np.ndarray, edge: float, swivel: Any):
    """Return what became of one goal; edge [m]: how far the site reaches towards it, from `classify`."""
    target, root = goals.targets[0], goals.roots[0]
    if status == REACHED:
        note = ""
        if swivel is not None:
            wish, got = float(np.asarray(swivel).reshape(-1)[0]), float(report[SWIVEL])
            if abs(math.sin(0.5 * (got - wish))) > 1e-9:
                note = f"; the swivel angle moved from {wish:.4f} to {got:.4f} rad to hold the limits"
        if report[MOVED]:
            note += f"; {limb.last!r} had to move"
        return f"reached{note}"
    if status in (TOO_FAR, TOO_NEAR):
        place = target[:3]
        if goals.task == POSE:
            edge = limb.reach_of(limits=limits)[1 if status == TOO_FAR else 0]
            place = place - target[3:].reshape(3, 3) @ limb.tool_in_site()
        return too(limb, status, goals.task, float(np.linalg.norm(place - root[:3])), edge)
    blame = to_blame(limb, goals)
    return f"no swivel angle holds every limit{'; in the way: ' + ', '.join(blame) if blame else ''}"


def too(limb: Any, status: int, task: int, distance: float, edge: float) -> str:
    """Return the sentence for what is too far or too near."""
    what = limb.last if task == POSE else limb.site
    word, reach = ("far", "at most") if status == TOO_FAR else ("near", "no less than")
    return (
        f"too {word}: {what!r} would have to be {distance:.4f} m from {limb.first!r}; towards it, it can be {reach} "
        f"{edge:.4f} m away"
    )


def to_blame(limb: Any, goals: Goals) -> list[str]:
    """Name the degrees of freedom whose limits alone, taken away, would let the goal be reached."""
    found = []
    for number in range(7):
        box = limb.anatomy.box.copy()
        box[number] = -np.inf, np.inf
        nearest = goals.task == POSITION
        _, _, status = limb.answers(goals, True, nearest, anatomy=limb.anatomy.with_box(box))
        if status[0] == REACHED:
            found.append(limb.skeleton.dof_names[limb.columns[number]])
    return found
