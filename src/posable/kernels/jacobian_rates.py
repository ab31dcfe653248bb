"""The time derivative of a frame's Jacobian (seed 001 (14), (15)), on the walk of the adjoint blocks."""

from __future__ import annotations

from .compiler import entry, kernel
from .fields import AXIS, FIRST, KIND, LAST, PARENT
from .jacobians import (
    WORLD_AXES,
    inverse_adjoint,
    put_blocks,
    rotate_columns,
    run_start,
    start_at,
    step_over,
    step_to_parent,
)
from .joints import SLIDE, TURN, column_of, parameters_of, rotation_vector
from .rotations import exponential_coefficients, left_jacobian_rate


@kernel
def put_rates(figure, first, theta, speed, block, twist, jacobian, out):
    """Set the time derivative of one elementary motion's columns (seed 001 (14), (15)).

    twist (6,) is the frame's velocity relative to before the motion, in its own axes: d(Ad) = -ad(twist) Ad. An
    exponential map also changes its own axes with time.
    """
    kind, axis = figure.dof[first, KIND], figure.dof[first, AXIS]
    vx, vy, vz, wx, wy, wz = twist[0], twist[1], twist[2], twist[3], twist[4], twist[5]
    for k in range(parameters_of(kind)):
        i = first + k
        lx, ly, lz = jacobian[0, i], jacobian[1, i], jacobian[2, i]
        ax, ay, az = jacobian[3, i], jacobian[4, i], jacobian[5, i]
        out[0, i] = -(wy * lz - wz * ly + vy * az - vz * ay)
        out[1, i] = -(wz * lx - wx * lz + vz * ax - vx * az)
        out[2, i] = -(wx * ly - wy * lx + vx * ay - vy * ax)
        out[3, i] = -(wy * az - wz * ay)
        out[4, i] = -(wz * ax - wx * az)
        out[5, i] = -(wx * ay - wy * ax)
    if kind in (SLIDE, TURN):
        return
    rx, ry, rz = rotation_vector(kind, axis, first, theta)
    _, b, c, db, dc = exponential_coefficients(rx * rx + ry * ry + rz * rz)
    for k in range(parameters_of(kind)):
        for m in range(parameters_of(kind)):
            x, y, z = left_jacobian_rate(rx, ry, rz, b, c, db, dc, column_of(kind, axis, k), column_of(kind, axis, m))
            for row in range(6):
                j = 6 * row + 3
                change = block[j] * x + block[j + 1] * y + block[j + 2] * z
                out[row, first + k] += speed[first + m] * change


@entry
def frame_jacobian_rates(figure, poses, velocities, body, place, axes, scratch, jacobian, out):
    """Write the time derivatives (t, 6, n) of the Jacobians of a frame, at poses and velocities (t, n).

    jacobian (6, n) is scratch. In world axes the frame's own turning is added: d(R J) = R (hat(w) J + dJ).
    """
    position, motion, spare, block = scratch[0:3], scratch[3:12], scratch[12:21], scratch[21:57]
    rotation, twist = scratch[57:66], scratch[66:72]
    for t in range(poses.shape[0]):
        for row in range(6):
            twist[row] = 0.0
            for i in range(poses.shape[1]):
                out[t, row, i] = jacobian[row, i] = 0.0
        start_at(place, rotation, position)
        b = body
        while b >= 0:
            i = figure.body[b, LAST]
            while i > figure.body[b, FIRST]:
                i = run_start(figure, i - 1)
                step_over(figure, i, poses[t], rotation, position, motion, spare)
                inverse_adjoint(rotation, position, block)
                put_blocks(figure, i, poses[t], block, jacobian)
                for k in range(parameters_of(figure.dof[i, KIND])):
                    for row in range(6):
                        twist[row] += jacobian[row, i + k] * velocities[t, i + k]
                put_rates(figure, i, poses[t], velocities[t], block, twist, jacobian, out[t])
            step_to_parent(figure, b, rotation, position, spare)
            b = figure.body[b, PARENT]
        if axes == WORLD_AXES:
            wx, wy, wz = twist[3], twist[4], twist[5]
            for i in range(poses.shape[1]):
                for half in range(0, 6, 3):
                    x, y, z = jacobian[half, i], jacobian[half + 1, i], jacobian[half + 2, i]
                    out[t, half, i] += wy * z - wz * y
                    out[t, half + 1, i] += wz * x - wx * z
                    out[t, half + 2, i] += wx * y - wy * x
            rotate_columns(rotation, False, out[t])
