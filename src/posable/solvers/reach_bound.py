"""Proof that a target is out of reach: it is farther away than the chain is long."""

from __future__ import annotations

import math

import numpy as np

from posable.engine.joints import SLIDE
from posable.engine.layout import AT, FIRST, KIND, LAST, MEASURE, ON, OTHER, PARENT, POINT, ROBUST, SPRING
from posable.engine.springs import POINT_SPRING
from posable.problem import Problem
from posable.solvers.base import SolveOptions

WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


def reach_bound(
    problem: Problem, spring: int, lower: np.ndarray, upper: np.ndarray, member: int
) -> tuple[np.ndarray, float]:
    """Return a centre (3,) [m] and a radius [m]: the spring's point can be nowhere outside that ball."""
    figure = problem.skeleton.figure
    body = int(problem.kind[spring, ON])
    local = problem.packed(member).constants[spring, POINT : POINT + 3]
    radius = float(np.linalg.norm(local))
    centre = np.zeros(3)
    while body >= 0:
        parent = int(figure.body[body, PARENT])
        dofs = range(int(figure.body[body, FIRST]), int(figure.body[body, LAST]))
        slides = [max(abs(float(lower[i])), abs(float(upper[i]))) for i in dofs if figure.dof[i, KIND] == SLIDE]
        radius += math.hypot(*slides)  # infinite where limits are too large to be squared
        if parent < 0:
            centre = figure.rest[body, :3]
        else:
            radius += float(np.linalg.norm(figure.rest[body, :3]))
        body = parent
    return centre, radius


def proof_of_distance(problem: Problem, options: SolveOptions, member: int) -> str | None:
    """Return a sentence that proves a goal out of reach, or None where there is no such proof.

    Of an AnyOf every member must be out of reach: the one that was taken proves nothing about the others.
    """
    packed = problem.packed(member)
    on = packed.constants[:, ROBUST] >= 0.0
    chosen: set[int] = set()
    for _, parts in problem.choices:
        every = [range(part.start, part.stop) for part in parts]
        chosen.update(*every)
        if not any(on[k] for part in every for k in part):
            continue  # the whole goal is switched off
        proofs = [next(filter(None, (too_far(problem, options, member, k) for k in part)), None) for part in every]
        if all(proofs):
            return "; ".join(dict.fromkeys(proof for proof in proofs if proof))
    for k in range(len(problem.springs)):
        if k not in chosen and on[k]:
            proof = too_far(problem, options, member, k)
            if proof is not None:
                return proof
    return None


def too_far(problem: Problem, options: SolveOptions, member: int, k: int) -> str | None:
    """Return a sentence that proves the target of spring k out of reach, or None where there is no such proof."""
    if problem.kind[k, SPRING] != POINT_SPRING or not np.isfinite(problem.tolerances[k]):
        return None
    if problem.kind[k, ON] < 0:
        return None  # on the center of mass
    packed = problem.packed(member)
    if problem.kind[k, OTHER] >= 0 or not np.array_equal(packed.constants[k, MEASURE : MEASURE + 6], WHOLE):
        return None  # a target that moves, or one of which only a part counts
    centre, radius = reach_bound(problem, k, options.lower, options.upper, member)
    distance = float(np.linalg.norm(packed.targets[k, AT : AT + 3] - centre))
    if not distance > radius * (1.0 + 1e-9) + problem.tolerances[k]:
        return None
    return (
        f"{problem.error_names[k]}: the target is {distance:.4g} m from where the chain begins, "
        f"the chain is {radius:.4g} m long"
    )
