"""Proof that a point is out of reach: it is farther from where its chain begins than the chain is long."""

from __future__ import annotations

import numpy as np

from posable.kernels.fields import AT, FIRST, KIND, LAST, MEASURE, ON, OTHER, PARENT, POINT, ROBUST, SPRING
from posable.kernels.joints import SLIDE
from posable.kernels.springs import POINT_SPRING
from posable.problem import Problem
from posable.solvers.solver import Request

WHOLE = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])


def reach_bound(
    problem: Problem, spring: int, lower: np.ndarray, upper: np.ndarray, member: int
) -> tuple[np.ndarray, float]:
    """Return a centre (3,) [m] and a radius [m]: the spring's point can be nowhere outside that ball."""
    figure = problem.skeleton.figure
    body = int(problem.kind[spring, ON])
    local = problem.data[member, spring, POINT : POINT + 3]
    radius = float(np.linalg.norm(local))
    centre = np.zeros(3)
    while body >= 0:
        parent = int(figure.body[body, PARENT])
        slides = 0.0
        for i in range(int(figure.body[body, FIRST]), int(figure.body[body, LAST])):
            if figure.dof[i, KIND] == SLIDE:
                slides += max(abs(float(lower[i])), abs(float(upper[i]))) ** 2
        radius += np.sqrt(slides)
        if parent < 0:
            centre = figure.rest[body, :3]
        else:
            radius += float(np.linalg.norm(figure.rest[body, :3]))
        body = parent
    return centre, radius


def proof_of_distance(problem: Problem, request: Request, member: int) -> str | None:
    """Return a sentence that proves a goal out of reach, or None where there is no such proof."""
    member = member if problem.data.shape[0] > 1 else 0
    for k in range(len(problem.springs)):
        if problem.kind[k, SPRING] != POINT_SPRING or not np.isfinite(problem.tolerances[k]):
            continue
        if problem.kind[k, OTHER] >= 0 or problem.data[member, k, ROBUST] < 0.0:  # a moving target, or switched off
            continue
        if not np.array_equal(problem.data[member, k, MEASURE : MEASURE + 6], WHOLE):
            continue
        centre, radius = reach_bound(problem, k, request.lower, request.upper, member)
        distance = float(np.linalg.norm(problem.data[member, k, AT : AT + 3] - centre))
        if distance > radius * (1.0 + 1e-9) + problem.tolerances[k]:
            return (
                f"{problem.error_names[k]}: the target is {distance:.4g} m from where the chain begins, "
                f"the chain is {radius:.4g} m long"
            )
    return None
