"""Joint motions and forward kinematics: from a pose to the frames and twists of every body.

A motion is the type of a `Joint`: `Revolute("z")`, `Ball("zyx")`, `Free("rotvec")`. It is a sequence of elementary
degrees of freedom along or about the axes of the joint's own frame (`JointMotion.dofs`), after one constant rotation
that aligns a skew axis with z (`JointMotion.basis`). Only this file knows the four elementary kinds:

SLIDE   a translation along an axis                                      S = [0; a]
TURN    a rotation about an axis                                         S = [a; o x a]
ROTVEC  three together: a rotation vector (exponential map)              S = columns of the left Jacobian, at o
SWING   two together: a rotation vector across an axis (Erleben & Andrews 2018, 4.2)   S = two of those columns

An Euler ball joint is three TURNs at one origin (Erleben & Andrews 2018, eq. 41); a swing-twist joint is a SWING and
then a TURN about the limb's own axis. Within a motion the slides come first.
"""

from __future__ import annotations

import math

from posable.engine.jit import entry, kernel, small
from posable.engine.layout import AXIS, FIRST, KIND, LAST, PARENT, TURNED, workspace

# --- Sines, cosines and the exponential map of SO(3) ---


# pi/2 in three pieces whose products with an integer below 2^20 are exact: the reduction of Cody and Waite.
HALF_PI_HIGH = float.fromhex("0x1.921fb54400000p+0")
HALF_PI_MID = float.fromhex("0x1.0b4611a600000p-34")
HALF_PI_LOW = float.fromhex("0x1.3198a2e037073p-69")
TWO_OVER_PI = 2.0 / math.pi
EXACT_BELOW = 1.0e5


@kernel
def sines_cosines(angles, sine, cosine):
    """Fill sine and cosine (n,) of angles (n,) [rad], within 2 units in the last place.

    One branch-free loop of multiplications and additions, which the compiler can run on several angles at once;
    angles beyond EXACT_BELOW go to the library, one by one.
    """
    n = angles.shape[0]
    for i in range(n):
        x = angles[i]
        k = math.floor(x * TWO_OVER_PI + 0.5)
        r = ((x - k * HALF_PI_HIGH) - k * HALF_PI_MID) - k * HALF_PI_LOW
        z = r * r
        s = -1.0 / 1307674368000.0 + z * (1.0 / 355687428096000.0)
        s = 1.0 / 6227020800.0 + z * s
        s = -1.0 / 39916800.0 + z * s
        s = 1.0 / 362880.0 + z * s
        s = -1.0 / 5040.0 + z * s
        s = 1.0 / 120.0 + z * s
        s = -1.0 / 6.0 + z * s
        s = r + r * z * s
        c = -1.0 / 87178291200.0 + z * (1.0 / 20922789888000.0)
        c = 1.0 / 479001600.0 + z * c
        c = -1.0 / 3628800.0 + z * c
        c = 1.0 / 40320.0 + z * c
        c = -1.0 / 720.0 + z * c
        c = 1.0 / 24.0 + z * c
        c = -0.5 + z * c
        c = 1.0 + z * c
        quarter = k - 4.0 * math.floor(k * 0.25)
        swap = quarter == 1.0 or quarter == 3.0
        a = c if swap else s
        b = s if swap else c
        sine[i] = -a if quarter >= 2.0 else a
        cosine[i] = -b if (quarter == 1.0 or quarter == 2.0) else b
    for i in range(n):
        if not abs(angles[i]) < EXACT_BELOW:
            sine[i] = math.sin(angles[i])
            cosine[i] = math.cos(angles[i])


@kernel
def exponential_coefficients(square):
    """Return (a, b, c, b', c') at t^2: a = sin/t, b = (1 - cos)/t^2, c = (t - sin)/t^3; primes are by t^2.

    Exp(w) = 1 + a hat(w) + b hat(w)^2, and the left Jacobian of SO(3) is 1 + b hat(w) + c hat(w)^2.
    """
    z = square
    if z < 0.25:  # power series: the closed forms lose digits below half a radian
        a = 1.0 - z / 6.0 * (
            1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0 * (1.0 - z / 110.0 * (1.0 - z / 156.0))))
        )
        b = 1.0 - z / 12.0 * (
            1.0 - z / 30.0 * (1.0 - z / 56.0 * (1.0 - z / 90.0 * (1.0 - z / 132.0 * (1.0 - z / 182.0))))
        )
        c = 1.0 - z / 20.0 * (
            1.0 - z / 42.0 * (1.0 - z / 72.0 * (1.0 - z / 110.0 * (1.0 - z / 156.0 * (1.0 - z / 210.0))))
        )
        db = 4.0 / 3628800.0 + z * (-5.0 / 479001600.0 + z * (6.0 / 87178291200.0))
        db = -1.0 / 24.0 + z * (2.0 / 720.0 + z * (-3.0 / 40320.0 + z * db))
        dc = 4.0 / 39916800.0 + z * (-5.0 / 6227020800.0 + z * (6.0 / 1307674368000.0))
        dc = -1.0 / 120.0 + z * (2.0 / 5040.0 + z * (-3.0 / 362880.0 + z * dc))
        return a, 0.5 * b, c / 6.0, db, dc
    t = math.sqrt(z)
    a = math.sin(t) / t
    half = math.sin(0.5 * t)
    b = 2.0 * half * half / z
    c = (1.0 - a) / z
    return a, b, c, 0.5 * (a - 2.0 * b) / z, 0.5 * (b - 3.0 * c) / z


@kernel
def left_jacobian_column(wx, wy, wz, b, c, k):
    """Return column k of the left Jacobian of SO(3) at w: the spatial angular velocity of dw_k = 1."""
    x = 1.0 if k == 0 else 0.0
    y = 1.0 if k == 1 else 0.0
    z = 1.0 if k == 2 else 0.0
    ux, uy, uz = wy * z - wz * y, wz * x - wx * z, wx * y - wy * x
    vx, vy, vz = wy * uz - wz * uy, wz * ux - wx * uz, wx * uy - wy * ux
    return x + b * ux + c * vx, y + b * uy + c * vy, z + b * uz + c * vz


@kernel
def left_jacobian_rate(wx, wy, wz, b, c, db, dc, k, m):
    """Return the derivative by w_m of column k of the left Jacobian of SO(3) at w."""
    x = 1.0 if k == 0 else 0.0
    y = 1.0 if k == 1 else 0.0
    z = 1.0 if k == 2 else 0.0
    p = 1.0 if m == 0 else 0.0
    q = 1.0 if m == 1 else 0.0
    r = 1.0 if m == 2 else 0.0
    slope = 2.0 * (wx * p + wy * q + wz * r)  # of t^2 by w_m
    ux, uy, uz = wy * z - wz * y, wz * x - wx * z, wx * y - wy * x  # w x e_k
    vx, vy, vz = wy * uz - wz * uy, wz * ux - wx * uz, wx * uy - wy * ux  # w x (w x e_k)
    ex, ey, ez = q * z - r * y, r * x - p * z, p * y - q * x  # e_m x e_k
    fx, fy, fz = q * uz - r * uy, r * ux - p * uz, p * uy - q * ux  # e_m x (w x e_k)
    gx, gy, gz = wy * ez - wz * ey, wz * ex - wx * ez, wx * ey - wy * ex  # w x (e_m x e_k)
    db, dc = db * slope, dc * slope
    return (
        db * ux + b * ex + dc * vx + c * (fx + gx),
        db * uy + b * ey + dc * vy + c * (fy + gy),
        db * uz + b * ez + dc * vz + c * (fz + gz),
    )


# --- Vectors, and 3x3 matrices by rows ---


@small
def cross(ax, ay, az, bx, by, bz):
    """Return the cross product a x b."""
    return ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx


@small
def times(m, i, x, y, z):
    """Return M (x, y, z) for the matrix at m[i:i+9]."""
    return (
        m[i] * x + m[i + 1] * y + m[i + 2] * z,
        m[i + 3] * x + m[i + 4] * y + m[i + 5] * z,
        m[i + 6] * x + m[i + 7] * y + m[i + 8] * z,
    )


@small
def times_transposed(m, i, x, y, z):
    """Return M' (x, y, z) for the matrix at m[i:i+9]."""
    return (
        m[i] * x + m[i + 3] * y + m[i + 6] * z,
        m[i + 1] * x + m[i + 4] * y + m[i + 7] * z,
        m[i + 2] * x + m[i + 5] * y + m[i + 8] * z,
    )


@small
def product(a, b, out):
    """Write the product of two matrices (9,); out may not be one of them."""
    for row in range(0, 9, 3):
        x, y, z = a[row], a[row + 1], a[row + 2]
        for k in range(3):
            out[row + k] = x * b[k] + y * b[3 + k] + z * b[6 + k]


# --- Elementary motions ---


SLIDE, TURN, ROTVEC, SWING, TAIL = 0, 1, 2, 3, 4  # TAIL: a later parameter of a ROTVEC or a SWING


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
            x, y, z = times(rotation, 0, x, y, z)
            _twist_at(twist, i + k, position, x, y, z)
        rotate_by_vector(rotation, wx, wy, wz)


@small
def _twist_at(twist, i, position, ax, ay, az):
    twist[i, 0] = ax
    twist[i, 1] = ay
    twist[i, 2] = az
    twist[i, 3], twist[i, 4], twist[i, 5] = cross(position[0], position[1], position[2], ax, ay, az)


@kernel
def axis_rate(kind, axis, i, ka, kb, theta, share):
    """Return dw_a/db + share w_a x w_b for parameters ka, kb of the ROTVEC or SWING that starts at dof i.

    w are the axes of the parameters, in the joint's frame before its motion.
    """
    wx, wy, wz = rotation_vector(kind, axis, i, theta)
    _, b, c, db, dc = exponential_coefficients(wx * wx + wy * wy + wz * wz)
    a_column, b_column = column_of(kind, axis, ka), column_of(kind, axis, kb)
    rx, ry, rz = left_jacobian_rate(wx, wy, wz, b, c, db, dc, a_column, b_column)
    ax, ay, az = left_jacobian_column(wx, wy, wz, b, c, a_column)
    bx, by, bz = left_jacobian_column(wx, wy, wz, b, c, b_column)
    x, y, z = cross(ax, ay, az, bx, by, bz)
    return rx + share * x, ry + share * y, rz + share * z


@kernel
def joint_curvature(kind, axis, i, ka, kb, theta, frame, tx, ty, tz):
    """Return t . (dS_a/db + 1/2 S_a x S_b) for parameters ka, kb of the ROTVEC or SWING that starts at dof i.

    t is the torque about the joint's origin in the world; frame (9,) is the joint's frame before its motion.
    It takes the place of the half Lie bracket, which holds for joints that follow one another (mathematics.md).
    """
    rx, ry, rz = axis_rate(kind, axis, i, ka, kb, theta, 0.5)
    lx, ly, lz = times_transposed(frame, 0, tx, ty, tz)
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


# --- Forward kinematics ---


@small
def rest_rotation(figure, b, rotation, out):
    """Write the frame (9,) that body b has before its own motion, from the frames (b, 9) of the bodies."""
    parent = figure.body[b, PARENT]
    if parent < 0:
        for k in range(9):
            out[k] = figure.rest[b, 3 + k]
    elif figure.body[b, TURNED] == 0:
        for k in range(9):
            out[k] = rotation[parent, k]
    else:
        product(rotation[parent], figure.rest[b, 3:], out)


@kernel
def forward(figure, theta, ws):
    """Place every body at the pose theta (n,): ws.origin, position, rotation, twist."""
    sines_cosines(theta, ws.sine, ws.cosine)
    for b in range(figure.body.shape[0]):
        parent = figure.body[b, PARENT]
        rotation = ws.rotation[b]
        position = ws.position[b]
        rest_rotation(figure, b, ws.rotation, rotation)
        if parent < 0:
            for k in range(3):
                position[k] = 0.0
        else:
            x, y, z = figure.rest[b, 0], figure.rest[b, 1], figure.rest[b, 2]
            for k in range(3):
                position[k] = (
                    ws.position[parent, k]
                    + ws.rotation[parent, 3 * k] * x
                    + ws.rotation[parent, 3 * k + 1] * y
                    + ws.rotation[parent, 3 * k + 2] * z
                )
        i = figure.body[b, FIRST]
        while i < figure.body[b, LAST]:
            kind = figure.dof[i, KIND]
            move(kind, figure.dof[i, AXIS], figure.sign[i], i, theta, ws.sine, ws.cosine, position, rotation, ws.twist)
            i += parameters_of(kind)
        if parent < 0:  # the root's slides become the origin: everything else is small numbers near it
            for k in range(3):
                ws.origin[k] = figure.rest[b, k] + position[k]
                position[k] = 0.0
            for j in range(figure.body[b, FIRST], figure.body[b, LAST]):
                if ws.twist[j, 0] != 0.0 or ws.twist[j, 1] != 0.0 or ws.twist[j, 2] != 0.0:
                    for k in range(3):
                        ws.twist[j, 3 + k] = 0.0


@small
def velocity(t, x, y, z, moves):
    """Return how a dof of twist t (6,) moves a point (moves = 1) or turns a direction (moves = 0): moves v + w x e."""
    return (
        t[1] * z - t[2] * y + moves * t[3],
        t[2] * x - t[0] * z + moves * t[4],
        t[0] * y - t[1] * x + moves * t[5],
    )


@small
def last_dof(figure, body):
    """Return the last dof that moves a body, or -1: where the walk up to the root starts."""
    while body >= 0:
        if figure.body[body, LAST] > figure.body[body, FIRST]:
            return figure.body[body, LAST] - 1
        body = figure.body[body, PARENT]
    return -1


@kernel
def center_of_mass(figure, ws, out):
    """Write the centre of mass (3,) [m], relative to ws.origin, of a figure whose mass shares sum to one."""
    for k in range(3):
        out[k] = 0.0
    for b in range(figure.body.shape[0]):
        share = figure.mass[b, 0]
        if share != 0.0:
            x, y, z = figure.mass[b, 1], figure.mass[b, 2], figure.mass[b, 3]
            r = ws.rotation[b]
            for k in range(3):
                out[k] += share * (ws.position[b, k] + r[3 * k] * x + r[3 * k + 1] * y + r[3 * k + 2] * z)


@entry
def forward_batch(figure, poses, work, d, positions, rotations, twists):
    """Place every body at every pose (t, n): positions (t, b, 3) [m], rotations (t, b, 9), twists (t, n, 6) in world.

    The twists are taken at the world's origin. Where twists has no row, none are written.
    """
    n = figure.dof.shape[0]
    ws, _ = workspace(figure, 0, work, d)
    for t in range(poses.shape[0]):
        forward(figure, poses[t], ws)
        for body in range(figure.body.shape[0]):
            for k in range(3):
                positions[t, body, k] = ws.origin[k] + ws.position[body, k]
            for k in range(9):
                rotations[t, body, k] = ws.rotation[body, k]
        if twists.shape[0] > 0:
            ox, oy, oz = ws.origin[0], ws.origin[1], ws.origin[2]
            for i in range(n):
                x, y, z = ws.twist[i, 0], ws.twist[i, 1], ws.twist[i, 2]
                twists[t, i, 0] = x
                twists[t, i, 1] = y
                twists[t, i, 2] = z
                twists[t, i, 3] = ws.twist[i, 3] + oy * z - oz * y
                twists[t, i, 4] = ws.twist[i, 4] + oz * x - ox * z
                twists[t, i, 5] = ws.twist[i, 5] + ox * y - oy * x


@kernel
def length3(x, y, z):
    """Return the length of a vector."""
    return math.sqrt(x * x + y * y + z * z)
