"""The three rows of each spring's residual r, as a function of the vectors that it depends on; E = 1/2 r'W r.

POINT, CENTRE     what counts of e - target: all of it, across a line, along a normal
DIRECTION, AIM    d - t, d - u: chords, of length 2 sin(angle / 2)
ORIENTATION       2 sin(angle / 2) n, n the axis of the rotation from the target, in the goal's own axes
SIDE, CENTRE_SIDE the depth, along the normal; zero on the right side
DISTANCE, CLEAR   (d - size) along the line between the nearest points; CLEAR: zero where it is clear

World axes; where the target is on another body, the axes of that body, but for an orientation, whose axes are its own.
With W = w 1 each is the energy of its spring (kernels/springs.py). The functions take complex vectors (..., k, 3), so
that a step of 1e-30 i gives derivatives with no digits lost; real parts decide where a function has branches.
"""

from __future__ import annotations

import numpy as np

from posable.errors import GoalError
from posable.goals.goal import Goal, Spring
from posable.kernels.fields import ALONG, AT, AXES, AXES2, MEASURE, POINT, POINT2, SIZE, WIDTH
from posable.kernels.springs import (
    AIM_SPRING,
    CENTRE_SIDE_SPRING,
    CENTRE_SPRING,
    CLEAR_SPRING,
    DIRECTION_SPRING,
    DISTANCE_SPRING,
    ORIENTATION_SPRING,
    POINT_SPRING,
    SIDE_SPRING,
)
from posable.skeleton import Skeleton

TINY = 1e-18  # [m^2]: a segment shorter than its root is a point
NEAR = 1e-9  # [m]: a distance that gives no direction
Vectors = list[tuple[int, np.ndarray, float]]


def vectors_of(spring: Spring, skeleton: Skeleton, goal: Goal) -> Vectors:
    """Return the points and directions of bodies that a spring's residual depends on: its own, then the other body's.

    Of the other body: its origin and its three axes. Raises GoalError for a spring that is on no body.
    """
    row = spring.data.reshape(-1, WIDTH)[0]
    point, axis = (spring.body, row[POINT : POINT + 3], 1.0), (spring.body, row[AXES : AXES + 3], 0.0)
    if spring.kind in (CENTRE_SPRING, CENTRE_SIDE_SPRING):
        mass = skeleton.figure.mass
        return [(int(b), mass[b, 1:], 1.0) for b in np.flatnonzero(mass[:, 0])]
    if spring.kind in (POINT_SPRING, SIDE_SPRING):
        out: Vectors = [point]
    elif spring.kind in (AIM_SPRING, DISTANCE_SPRING, CLEAR_SPRING):
        out = [point, axis]
    elif spring.kind == DIRECTION_SPRING:
        out = [axis]
    elif spring.kind == ORIENTATION_SPRING:
        out = [(spring.body, column, 0.0) for column in row[AXES : AXES + 9].reshape(3, 3).T]
    else:
        raise GoalError(
            f"{goal}", expected="a goal on points and directions of bodies", got="a goal on angles or in Python"
        )
    if spring.other >= 0:
        out += [(spring.other, np.zeros(3), 1.0), *((spring.other, one, 0.0) for one in np.eye(3))]
    return out


def is_linear(spring: Spring) -> bool:
    """Return whether a spring's residual is linear in its vectors."""
    return spring.other < 0 and spring.kind in (POINT_SPRING, DIRECTION_SPRING, CENTRE_SPRING)


def residual(spring: Spring, row: np.ndarray, v: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the three rows (..., 3) of a spring with data row (WIDTH,) at its vectors v (..., k, 3).

    shares: of the mass, of each body that has any.
    """
    kind, turn = spring.kind, None
    at, along, axes = row[AT : AT + 3], row[ALONG : ALONG + 3], row[ALONG : ALONG + 9].reshape(3, 3)
    if spring.other >= 0:
        turn = np.swapaxes(v[..., -3:, :], -1, -2)  # the other body's axes are its columns
        at = v[..., -4, :] + turn @ row[POINT2 : POINT2 + 3]
        along, axes = turn @ row[AXES2 : AXES2 + 3], turn @ row[AXES2 : AXES2 + 9].reshape(3, 3)
        v = v[..., :-4, :]
    if kind == ORIENTATION_SPRING:
        return twice_half_sine(np.swapaxes(axes, -1, -2) @ np.swapaxes(v, -1, -2))
    if kind == DIRECTION_SPRING:
        return v[..., 0, :] - along
    if kind == AIM_SPRING:
        return v[..., 1, :] - _unit(at - v[..., 0, :])
    if kind in (DISTANCE_SPRING, CLEAR_SPRING):
        gap = _nearest(v[..., 0, :] - at, v[..., 1, :], along)
        length = np.sqrt((gap * gap).sum(axis=-1, keepdims=True))
        miss = length - row[SIZE]
        idle = np.real(length) < NEAR
        if kind == CLEAR_SPRING:
            idle |= np.real(miss) >= 0.0
        out = np.where(idle, 0.0, miss * gap / np.where(idle, 1.0, length))
        return out if turn is None else _turned_back(turn, out)
    place = (shares[:, None] * v).sum(axis=-2) if kind in (CENTRE_SPRING, CENTRE_SIDE_SPRING) else v[..., 0, :]
    if kind in (SIDE_SPRING, CENTRE_SIDE_SPRING):
        height = ((place - at) * along).sum(axis=-1, keepdims=True) - row[SIZE]
        return np.where(np.real(height) < 0.0, height, 0.0) * along
    miss = place - at if turn is None else _turned_back(turn, place - at)
    return miss @ full(row[MEASURE : MEASURE + 6])


def full(six: np.ndarray) -> np.ndarray:
    """Return the symmetric 3x3 matrix of xx yy zz xy xz yz."""
    x, y, z, xy, xz, yz = six
    return np.array([[x, xy, xz], [xy, y, yz], [xz, yz, z]])


def twice_half_sine(q: np.ndarray) -> np.ndarray:
    """Return 2 sin(angle / 2) n (..., 3) of rotations q (..., 3, 3): twice the vector part of their quaternions.

    By the largest of the quaternion's four numbers, so that no digits are lost at half a turn.
    """
    a, b, c = q[..., 0, 0], q[..., 1, 1], q[..., 2, 2]
    skew = [q[..., 2, 1] - q[..., 1, 2], q[..., 0, 2] - q[..., 2, 0], q[..., 1, 0] - q[..., 0, 1]]
    sums = {(i, j): q[..., i, j] + q[..., j, i] for i, j in ((0, 1), (0, 2), (1, 2))}
    squares = np.stack([1.0 + a + b + c, 1.0 + a - b - c, 1.0 - a + b - c, 1.0 - a - b + c], axis=-1)
    largest = np.real(squares).argmax(axis=-1)
    roots = np.sqrt(np.where(np.arange(4) == largest[..., None], squares, 1.0))  # twice that number
    by_w = np.stack([s / roots[..., 0] for s in skew], axis=-1)
    out = np.where((largest == 0)[..., None], by_w, 0.0)
    for k in range(3):
        root = roots[..., k + 1]
        sense = np.where(np.real(skew[k]) < 0.0, -1.0, 1.0)  # the scalar part is not negative
        parts = [root if i == k else sums[min(i, k), max(i, k)] / root for i in range(3)]
        out = np.where((largest == k + 1)[..., None], sense[..., None] * np.stack(parts, axis=-1), out)
    return out


def _unit(v: np.ndarray) -> np.ndarray:
    length = np.sqrt((v * v).sum(axis=-1, keepdims=True))
    return v / np.where(np.real(length) < NEAR, 1.0, length)


def _turned_back(turn: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (np.swapaxes(turn, -1, -2) @ v[..., None])[..., 0]


def _within(x: np.ndarray) -> np.ndarray:
    """Return x brought into [0, 1]."""
    return np.where(np.real(x) < 0.0, 0.0, np.where(np.real(x) > 1.0, 1.0, x))


def _nearest(p: np.ndarray, a: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return the gap (..., 3) from the segment t c to the segment p + s a where they are nearest, s and t in [0, 1]."""

    def dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (x * y).sum(axis=-1, keepdims=True)

    aa, cc, ac, ap, cp = dot(a, a), dot(c, c), dot(a, c), dot(a, p), dot(c, p)
    point_a, point_c = np.real(aa) <= TINY, np.real(cc) <= TINY
    aa, cc = np.where(point_a, 1.0, aa), np.where(point_c, 1.0, cc)
    room = aa * cc - ac * ac
    apart = np.real(room) > 1e-12 * np.real(aa * cc)
    s = np.where(apart, _within((ac * cp - ap * cc) / np.where(apart, room, 1.0)), 0.0)
    s = np.where(point_c, _within(-ap / aa), s)
    s = np.where(point_a, 0.0, s)
    t = np.where(point_c, 0.0, (ac * s + cp) / cc)
    s = np.where(point_a | point_c, s, np.where(np.real(t) < 0.0, _within(-ap / aa), s))
    s = np.where(point_a | point_c, s, np.where(np.real(t) > 1.0, _within((ac - ap) / aa), s))
    return p + s * a - _within(t) * c
