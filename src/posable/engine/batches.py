"""What a batch needs beside its solver: targets checked and packed, and answers judged."""

from __future__ import annotations

from posable.engine.assemble import judge, springs_of
from posable.engine.jit import entry, kernel
from posable.engine.layout import ALONG, AT, LARGEST, workspace

ROTATION_TOLERANCE = 1e-6  # by which a rotation's rows may miss length one and right angles

# What is wrong with a target
TOO_LARGE, NO_ROTATION = 0, 1


@kernel
def is_rotation(m, a, b, c):
    """Return whether the rows of m that begin at a, b and c are orthonormal and right-handed."""
    small = ROTATION_TOLERANCE
    return (
        abs(m[a] * m[a] + m[a + 1] * m[a + 1] + m[a + 2] * m[a + 2] - 1.0) < small
        and abs(m[b] * m[b] + m[b + 1] * m[b + 1] + m[b + 2] * m[b + 2] - 1.0) < small
        and abs(m[a] * m[b] + m[a + 1] * m[b + 1] + m[a + 2] * m[b + 2]) < small
        and abs(m[a + 1] * m[b + 2] - m[a + 2] * m[b + 1] - m[c]) < small
        and abs(m[a + 2] * m[b] - m[a] * m[b + 2] - m[c + 1]) < small
        and abs(m[a] * m[b + 1] - m[a + 1] * m[b] - m[c + 2]) < small
    )


@entry
def take_targets(values, targets, row):
    """Check the targets of a goal and write them into those of a batch.

    Args:
        values: (t, k) [m, 1]: by k, 3: points; 9: rotations by rows; 16: transforms by rows.
        targets: (t, g, TARGETS); of no problems to check alone.
        row: The goal's first spring. A transform has two: of its point, then of its rotation.

    Returns:
        -1, or 2 i + TOO_LARGE or NO_ROTATION for the first bad problem i; those after it are not written.
    """
    k = values.shape[1]
    for t in range(values.shape[0]):
        value = values[t]
        for i in range(k):
            if not abs(value[i]) <= LARGEST:
                return 2 * t + TOO_LARGE
        if k == 9 and not is_rotation(value, 0, 3, 6):
            return 2 * t + NO_ROTATION
        if k == 16 and not is_rotation(value, 0, 4, 8):
            return 2 * t + NO_ROTATION
        if t >= targets.shape[0]:
            continue
        if k == 3:
            for i in range(3):
                targets[t, row, AT + i] = value[i]
        elif k == 9:
            for i in range(9):
                targets[t, row, ALONG + i] = value[i]
        else:
            for i in range(3):
                targets[t, row, AT + i] = value[4 * i + 3]
                for j in range(3):
                    targets[t, row + 1, ALONG + 3 * i + j] = value[4 * i + j]
    return -1


@entry
def clip_starts(poses, lower, upper):
    """Put poses (t, n) into the box, in place; return whether they are then small enough to be solved."""
    good = True
    for t in range(poses.shape[0]):
        for i in range(poses.shape[1]):
            poses[t, i] = min(max(poses[t, i], lower[i]), upper[i])
            good = good and abs(poses[t, i]) <= LARGEST
    return good


@entry
def pick_columns(values, columns, out, places):
    """Copy columns of values (t, k) to places of out (t, m)."""
    for t in range(values.shape[0]):
        for i in range(columns.shape[0]):
            out[t, places[i]] = values[t, columns[i]]


@entry
def judge_batch(
    figure, kind, constants, targets, pull, home, tolerances, lower, upper, poses, work, d, errors, good
):  # fmt: skip
    """Evaluate every goal at the poses of a batch, whatever the solver thought of them.

    Args:
        figure, kind, constants, targets, pull, home, tolerances, lower, upper, d: As of `newton_batch`.
        poses: (t, n) [rad, m].
        work: Scratch memory.
        errors: (t, g) [m, rad], written.
        good: (t,) written: 1 where every limit is held and every error is within its tolerance.
    """
    n, b, g = figure.dof.shape[0], figure.body.shape[0], kind.shape[0]
    ws = workspace(work, n, b, g, d)
    for t in range(poses.shape[0]):
        springs = springs_of(kind, constants, targets, t, pull, home)
        reached, _ = judge(figure, springs, tolerances, lower, upper, poses[t], ws)
        good[t] = 1 if reached else 0
        for k in range(g):
            errors[t, k] = ws.error[k]
