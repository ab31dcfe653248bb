"""Everything about the ways a joint can move: what a user writes, and what the kernels do with it.

A motion is what a `Joint` is made with: `Revolute("z")`, `Ball("zyx")`, `Free("rotvec")`. It spells itself as a run of
elementary degrees of freedom along or about the axes of the joint's own frame (`JointMotion.dofs`), after one constant
rotation that lays a skew axis onto z (`JointMotion.basis`). Only this file knows the four elementary kinds:

SLIDE   a translation along an axis                                      S = [0; a]
TURN    a rotation about an axis                                         S = [a; o x a]
ROTVEC  three together: a rotation vector (exponential map)              S = columns of the left Jacobian, at o
SWING   two together: a rotation vector across an axis (Erleben & Andrews 2018, 4.2)   S = two of those columns

An Euler ball joint is three TURNs at one origin (Erleben & Andrews 2018, eq. 41); a swing-twist joint is a SWING and
then a TURN about the limb's own axis. Within a motion the slides come first.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel, small
from posable.engine.so3 import exponential_coefficients, left_jacobian_column, left_jacobian_rate

SLIDE, TURN, ROTVEC, SWING, TAIL = 0, 1, 2, 3, 4  # TAIL: a later parameter of a ROTVEC or a SWING


# ---------------------------------------------------------------------------------------------- what a user writes


# ------------------------------------------------------------------------------------------- what the kernels do


@small
def turn(rotation, k, s, c):
    """Rotate a frame (9,) by rows about its own axis k: only its other two columns change."""
    u = (k + 1) % 3
    v = (k + 2) % 3
    for row in range(0, 9, 3):
        x = rotation[row + u]
        y = rotation[row + v]
        rotation[row + u] = c * x + s * y
        rotation[row + v] = c * y - s * x


@kernel
def rotate_by_vector(rotation, wx, wy, wz):
    """Rotate a frame (9,) by rows by the rotation vector w, given in the frame itself: R <- R Exp(w)."""
    square = wx * wx + wy * wy + wz * wz
    a, b, _, _, _ = exponential_coefficients(square)
    for row in range(0, 9, 3):
        x, y, z = rotation[row], rotation[row + 1], rotation[row + 2]
        # r hat(w), as a row: r x w
        px, py, pz = y * wz - z * wy, z * wx - x * wz, x * wy - y * wx
        qx, qy, qz = py * wz - pz * wy, pz * wx - px * wz, px * wy - py * wx
        rotation[row] = x + a * px + b * qx
        rotation[row + 1] = y + a * py + b * qy
        rotation[row + 2] = z + a * pz + b * qz


@small
def rotation_vector(kind, axis, i, theta):
    """Return the rotation vector of a ROTVEC or a SWING whose first dof is i."""
    if kind == ROTVEC:
        return theta[i], theta[i + 1], theta[i + 2]
    p, q = theta[i], theta[i + 1]
    if axis == 0:
        return 0.0, p, q
    if axis == 1:
        return q, 0.0, p
    return p, q, 0.0


@small
def column_of(kind, axis, k):
    """Return which component of the rotation vector parameter k (0, 1, 2) of a ROTVEC or a SWING is."""
    return k if kind == ROTVEC else (axis + 1 + k) % 3


@small
def parameters_of(kind):
    """Return how many degrees of freedom an elementary kind takes."""
    if kind == ROTVEC:
        return 3
    return 2 if kind == SWING else 1


@small
def move(kind, axis, sign, i, theta, sine, cosine, position, rotation, twist):
    """Move a body's frame by the elementary motion that starts at dof i, and write its world twists (n, 6).

    position (3,) [m] is relative to the figure's origin, rotation (9,) by rows; both are in the world's axes.
    """
    if kind == SLIDE:
        d = theta[i] * sign
        for row in range(3):
            a = rotation[3 * row + axis]
            position[row] += d * a
            twist[i, row] = 0.0
            twist[i, 3 + row] = sign * a
    elif kind == TURN:
        _twist_at(twist, i, position, sign * rotation[axis], sign * rotation[3 + axis], sign * rotation[6 + axis])
        turn(rotation, axis, sign * sine[i], cosine[i])
    else:
        wx, wy, wz = rotation_vector(kind, axis, i, theta)
        _, b, c, _, _ = exponential_coefficients(wx * wx + wy * wy + wz * wz)
        for k in range(parameters_of(kind)):
            x, y, z = left_jacobian_column(wx, wy, wz, b, c, column_of(kind, axis, k))
            _twist_at(
                twist,
                i + k,
                position,
                rotation[0] * x + rotation[1] * y + rotation[2] * z,
                rotation[3] * x + rotation[4] * y + rotation[5] * z,
                rotation[6] * x + rotation[7] * y + rotation[8] * z,
            )
        rotate_by_vector(rotation, wx, wy, wz)


@small
def _twist_at(twist, i, position, ax, ay, az):
    twist[i, 0] = ax
    twist[i, 1] = ay
    twist[i, 2] = az
    twist[i, 3] = position[1] * az - position[2] * ay
    twist[i, 4] = position[2] * ax - position[0] * az
    twist[i, 5] = position[0] * ay - position[1] * ax


@kernel
def joint_curvature(kind, axis, i, ka, kb, theta, frame, tx, ty, tz):
    """Return t . (dS_a/db + 1/2 S_a x S_b) for parameters ka, kb of the ROTVEC or SWING that starts at dof i.

    t is the torque about the joint's origin in the world; frame (9,) is the joint's frame before its motion.
    It takes the place of the half Lie bracket, which holds for joints that follow one another (mathematics.md).
    """
    wx, wy, wz = rotation_vector(kind, axis, i, theta)
    _, b, c, db, dc = exponential_coefficients(wx * wx + wy * wy + wz * wz)
    a_column, b_column = column_of(kind, axis, ka), column_of(kind, axis, kb)
    rx, ry, rz = left_jacobian_rate(wx, wy, wz, b, c, db, dc, a_column, b_column)
    ax, ay, az = left_jacobian_column(wx, wy, wz, b, c, a_column)
    bx, by, bz = left_jacobian_column(wx, wy, wz, b, c, b_column)
    rx += 0.5 * (ay * bz - az * by)
    ry += 0.5 * (az * bx - ax * bz)
    rz += 0.5 * (ax * by - ay * bx)
    lx = frame[0] * tx + frame[3] * ty + frame[6] * tz
    ly = frame[1] * tx + frame[4] * ty + frame[7] * tz
    lz = frame[2] * tx + frame[5] * ty + frame[8] * tz
    return lx * rx + ly * ry + lz * rz


@kernel
def recentre(kind, i, theta, lower, upper):
    """Bring a rotation vector that has passed pi back to the short way round, where its limits allow it.

    Returns whether it moved.
    """
    m = parameters_of(kind)
    square = 0.0
    for k in range(m):
        square += theta[i + k] * theta[i + k]
    if square <= math.pi * math.pi * 1.0000001:
        return False
    length = math.sqrt(square)
    factor = (length - 2.0 * math.pi * math.floor(length / (2.0 * math.pi) + 0.5)) / length
    for k in range(m):
        x = theta[i + k] * factor
        if x < lower[i + k] or x > upper[i + k]:
            return False
    for k in range(m):
        theta[i + k] *= factor
    return True
