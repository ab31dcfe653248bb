"""Hold what a level of goals has reached: put the targets of missed goals where they came to, and stiffen springs."""

from __future__ import annotations

from typing import Any

import numpy as np

from posable.kernels.couplings import FOLLOWER, LEADER, RATIO
from posable.kernels.fields import (
    ALONG,
    AT,
    AXES,
    AXES2,
    GOAL,
    MEASURE,
    ON,
    OTHER,
    POINT,
    POINT2,
    ROBUST,
    SIZE,
    SPRING,
    WEIGHT,
)
from posable.kernels.springs import (
    AIM_SPRING,
    CENTRE_SIDE_SPRING,
    CENTRE_SPRING,
    CLEAR_SPRING,
    COUPLING_SPRING,
    CROSS_SPRING,
    DIRECTION_SPRING,
    DISTANCE_SPRING,
    MODEL_SPRING,
    ORIENTATION_SPRING,
    POINT_SPRING,
    SIDE_SPRING,
)
from posable.kinematics import place_bodies


def scale_springs(problem: Any, chosen: np.ndarray, factor: float) -> None:
    """Make the springs marked in chosen (g,) stiffer by a factor, in problem.data (t, g, WIDTH)."""
    data = problem.data
    for k in np.flatnonzero(chosen):
        data[:, k, WEIGHT : WEIGHT + 6] *= factor
        data[:, k, ROBUST] = np.where(data[:, k, ROBUST] > 0.0, data[:, k, ROBUST] * factor, data[:, k, ROBUST])
        if problem.kind[k, SPRING] in (POINT_SPRING, MODEL_SPRING):
            data[:, k, AXES : AXES + 9] *= np.sqrt(factor)  # the root that it may bring along


def hold_springs(
    problem: Any, chosen: np.ndarray, poses: np.ndarray, errors: np.ndarray, tolerances: np.ndarray
) -> None:
    """Put the targets of the goals that were missed where their bodies are at poses (t, n), in problem.data.

    chosen (g,) marks the springs of the level; errors (t, g) and tolerances (g,) say what was missed. A goal within its
    tolerance keeps its target: it can only gain by being held.
    """
    positions, rotations, _ = place_bodies(problem.skeleton, poses)
    missed = (errors > tolerances) | np.isinf(tolerances)
    for goal in np.unique(problem.kind[chosen, GOAL]):
        rows = np.flatnonzero(chosen & (problem.kind[:, GOAL] == goal))
        for t in np.flatnonzero(missed[:, rows].any(axis=1)):
            for k in rows:
                _hold(problem, problem.data[t, k], problem.kind[k], poses[t], positions[t], rotations[t])


def _hold(problem: Any, row: np.ndarray, kind: np.ndarray, pose: np.ndarray, p: np.ndarray, r: np.ndarray) -> None:
    """Put one spring's target where it is satisfied at a pose, in place: p (b, 3), r (b, 3, 3) of the bodies."""
    spring, b, other = int(kind[SPRING]), int(kind[ON]), int(kind[OTHER])
    if row[ROBUST] < 0.0:
        return
    if spring == COUPLING_SPRING:
        row[SIZE] = pose[int(row[FOLLOWER])] - row[RATIO] * pose[int(row[LEADER])]
        return
    if spring in (CENTRE_SPRING, CENTRE_SIDE_SPRING):
        mass = problem.skeleton.figure.mass
        centre = np.einsum("b,bi->i", mass[:, 0], p + np.einsum("bij,bj->bi", r, mass[:, 1:]))
        if spring == CENTRE_SPRING:
            row[AT : AT + 3] = centre
        else:
            row[SIZE] = min(row[SIZE], float((centre - row[AT : AT + 3]) @ row[ALONG : ALONG + 3]))
        return
    moves = row[MEASURE] if spring in (MODEL_SPRING, CROSS_SPRING) else 1.0
    e = moves * p[b] + r[b] @ row[POINT : POINT + 3]
    if spring == CROSS_SPRING:
        row[AT : AT + 3] = e
        row[ALONG : ALONG + 3] = row[MEASURE + 1] * p[other] + r[other] @ row[POINT2 : POINT2 + 3]
        return
    base_p, base_r = (np.zeros(3), np.eye(3)) if other < 0 else (p[other], r[other])
    at, along = (AT, ALONG) if other < 0 else (POINT2, AXES2)
    if spring in (POINT_SPRING, MODEL_SPRING):
        row[at : at + 3] = base_r.T @ (e - base_p)
        if spring == MODEL_SPRING:
            row[ALONG : ALONG + 3] = 0.0
    elif spring == ORIENTATION_SPRING:
        row[along : along + 9] = (base_r.T @ r[b] @ row[AXES : AXES + 9].reshape(3, 3)).ravel()
    elif spring == DIRECTION_SPRING:
        row[along : along + 3] = base_r.T @ r[b] @ row[AXES : AXES + 3]
    elif spring == AIM_SPRING:
        target = base_p + base_r @ row[at : at + 3]
        ahead = e + float(np.linalg.norm(target - e)) * (r[b] @ row[AXES : AXES + 3])
        row[at : at + 3] = base_r.T @ (ahead - base_p)
    elif spring == SIDE_SPRING:
        normal, point = base_r @ row[along : along + 3], base_p + base_r @ row[at : at + 3]
        row[SIZE] = min(row[SIZE], float((e - point) @ normal))
    elif spring in (DISTANCE_SPRING, CLEAR_SPRING):
        d = _segment_distance(
            e, r[b] @ row[AXES : AXES + 3], base_p + base_r @ row[at : at + 3], base_r @ row[along : along + 3]
        )
        row[SIZE] = d if spring == DISTANCE_SPRING else min(row[SIZE], d)


def _segment_distance(p: np.ndarray, a: np.ndarray, q: np.ndarray, c: np.ndarray) -> float:
    """Return the distance [m] between the segments p + s a and q + t c."""
    from posable.kernels.clearance import nearest_parameters

    s, t = nearest_parameters(*(p - q), *a, *c)
    return float(np.linalg.norm(p + s * a - q - t * c))
