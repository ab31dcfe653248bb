"""Ball joints in closed form: from a rotation to the joint's three values, in each family, and back.

All values are raw (see `SrsChain`). The kernels of a limb share three arrays: `limb`, its constants; `shape`, its
integer constants; `w`, the scratch memory of one solve (see `circle`), into which arguments ending in `at` point. A
rotation is nine numbers by rows. `slack` [rad] is the smallest distance of a value inside its limits; negative outside.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel
from posable.engine.joints import exponential_coefficients, left_jacobian_column, rotate_by_vector, turn
from posable.limb.srs_chain import (  # fmt: skip
    ARC,
    BALL,
    BOX,
    COS_HALF,
    COS_MID,
    FULL,
    PROPER,
    REST,
    SENSE,
    SIN_MID,
    SWING_TWIST,
    TAIT_BRYAN,
    VECTOR,
    XA,
    XC,
    YA,
    YC,
    F,
    I,
    J,
    K,
)

TWO_PI = 2.0 * math.pi
SINGULAR = 1e-10  # below this the outer axes of an Euler joint coincide: only the sum of their angles is defined
NO_LIMIT = 10.0  # slack of a joint without limits
INFEASIBLE = -1e9  # slack of a family that does not exist


@kernel
def into_limits(theta, low, high):
    """Return the angle shifted by whole turns into its limits, or as close to them as possible."""
    if low <= theta <= high:
        return theta
    if theta < low:
        up = theta + TWO_PI * math.ceil((low - theta) / TWO_PI)
        return up if up - high < low - (up - TWO_PI) else up - TWO_PI
    down = theta - TWO_PI * math.ceil((theta - high) / TWO_PI)
    return down if low - down < (down + TWO_PI) - high else down + TWO_PI


@kernel
def slack_in(theta, low, high):
    """Return the distance of an angle inside its limits; negative outside."""
    return min(theta - low, high - theta, NO_LIMIT)


@kernel
def slack_of(limb, first, count, w, at):
    """Return the slack of `count` of the limb's seven values, from number `first`, which are at w[at:]."""
    slack = NO_LIMIT
    for m in range(count):
        box = BOX + 2 * (first + m)
        slack = min(slack, slack_in(w[at + m], limb[box], limb[box + 1]))
    return slack


@kernel
def last_angle(limb, shape, ball, w, turn_at, s, c):
    """Return the last Euler angle from the sine and cosine of the first; well defined in every pose."""
    i = shape[ball, I]
    j = shape[ball, J]
    third = 3 - j - shape[ball, K]
    p, q = turn_at + 3 * ((i + 1) % 3), turn_at + 3 * ((i + 2) % 3)
    if (i + 1) % 3 == j:  # row j of R_i(a)' R
        x = c * w[p + j] + s * w[q + j]
        y = c * w[p + third] + s * w[q + third]
    else:
        x = c * w[q + j] - s * w[p + j]
        y = c * w[q + third] - s * w[p + third]
    return math.atan2(limb[SENSE + 6 * ball + 5] * y, x)


@kernel
def put_angle(limb, number, theta, w, at):
    """Write an angle, shifted into its limits, to w[at]; return its slack."""
    low, high = limb[BOX + 2 * number], limb[BOX + 2 * number + 1]
    theta = into_limits(theta, low, high)
    w[at] = theta
    return slack_in(theta, low, high)


@kernel
def fit_euler(limb, shape, ball, w, turn_at, family, at):
    """Write the Euler angles of the rotation w[turn_at:] in one of the two families (0, 1); return their slack."""
    e, o = SENSE + 6 * ball, 4 * ball
    side = 1.0 - 2.0 * family
    y = side * limb[e + 1] * w[turn_at + shape[ball, YA]]
    x = side * limb[e + 2] * w[turn_at + shape[ball, XA]]
    f = limb[e] * w[turn_at + shape[ball, F]]
    r = math.sqrt(x * x + y * y)
    b = math.atan2(f, side * r) if shape[ball, BALL] == TAIT_BRYAN else math.atan2(side * r, f)
    slack = put_angle(limb, o + 1, b, w, at + 1)
    if r <= SINGULAR:
        return min(slack, fit_singular(limb, shape, ball, w, turn_at, at))
    slack = min(slack, put_angle(limb, o, math.atan2(y, x), w, at))
    return min(slack, put_angle(limb, o + 2, last_angle(limb, shape, ball, w, turn_at, y / r, x / r), w, at + 2))


@kernel
def fit_singular(limb, shape, ball, w, turn_at, at):
    """Write the outer Euler angles where only a + e c is defined: at rest if the limits allow, else within them."""
    o = 4 * ball
    box, rest = BOX + 2 * o, REST + o
    e = 1.0 if w[turn_at + 3 * shape[ball, I] + shape[ball, K]] > 0.0 else -1.0
    total = e * last_angle(limb, shape, ball, w, turn_at, 0.0, 1.0)
    best, first, last = -math.inf, 0.0, total
    for trial in range(6):
        if best >= 0.0:
            break
        if trial < 3:  # choose the first angle
            a = limb[rest] if trial == 0 else limb[box + trial - 1]
            c = into_limits(e * (total - a), limb[box + 4], limb[box + 5])
        else:
            c = limb[rest + 2] if trial == 3 else limb[box + trial]
            a = into_limits(total - e * c, limb[box], limb[box + 1])
        slack = min(slack_in(a, limb[box], limb[box + 1]), slack_in(c, limb[box + 4], limb[box + 5]))
        if slack > best and math.isfinite(a) and math.isfinite(c):
            best, first, last = slack, a, c
    w[at], w[at + 2] = first, last
    return best


@kernel
def quaternion_of(w, at):
    """Return the unit quaternion (w, x, y, z), w >= 0, of the rotation w[at:]."""
    a, b, c = w[at], w[at + 1], w[at + 2]
    d, e, f = w[at + 3], w[at + 4], w[at + 5]
    g, h, i = w[at + 6], w[at + 7], w[at + 8]
    if a + e + i > 0.0:
        r, x, y, z = 1.0 + a + e + i, h - f, c - g, d - b
    elif a >= e and a >= i:
        r, x, y, z = h - f, 1.0 + a - e - i, b + d, c + g
    elif e >= i:
        r, x, y, z = c - g, b + d, 1.0 + e - a - i, f + h
    else:
        r, x, y, z = d - b, c + g, f + h, 1.0 + i - a - e
    n = 1.0 / math.sqrt(r * r + x * x + y * y + z * z)
    if r < 0.0:
        n = -n
    return n * r, n * x, n * y, n * z


@kernel
def fit_vector(limb, ball, w, turn_at, family, at):
    """Write the rotation vector of a rotation, the short way (family 0) or the long way (1); return its slack."""
    r, x, y, z = quaternion_of(w, turn_at)
    s = math.sqrt(x * x + y * y + z * z)
    t = 2.0 * math.atan2(s, r)
    factor = t / s if s > 1e-12 else 2.0
    if family == 1:
        if s < 1e-6:
            return INFEASIBLE
        factor = (t - TWO_PI) / s
    w[at], w[at + 1], w[at + 2] = x * factor, y * factor, z * factor
    return slack_of(limb, 4 * ball, 3, w, at)


@kernel
def fit_swing_twist(limb, shape, ball, w, turn_at, family, at):
    """Write swing (2) and twist (1) of R = swing twist, the swing the short way (family 0) or the long way (1)."""
    k = shape[ball, I]
    u, v = (k + 1) % 3, (k + 2) % 3
    # The axis goes to R e_k = cos(t) e_k + sin(t) (d x e_k): the swing's angle t and direction d.
    across_u, across_v, ct = w[turn_at + 3 * u + k], w[turn_at + 3 * v + k], w[turn_at + 4 * k]
    st = math.sqrt(across_u * across_u + across_v * across_v)
    t = math.atan2(st, ct)
    du, dv = 1.0, 0.0
    if st > 1e-12:
        du, dv = -across_v / st, across_u / st
    # twist = swing' R: its row u is column u of the swing, e_u + st d x e_u + (1 - ct) d x (d x e_u), times R
    su, sv, sk = 1.0 - (1.0 - ct) * dv * dv, (1.0 - ct) * du * dv, -st * dv
    p, q, r = turn_at + 3 * u, turn_at + 3 * v, turn_at + 3 * k
    cosine = su * w[p + u] + sv * w[q + u] + sk * w[r + u]
    sine = -(su * w[p + v] + sv * w[q + v] + sk * w[r + v])
    if family == 1:
        if st < 1e-6 and ct > 0.0:
            return INFEASIBLE
        t -= TWO_PI
    w[at], w[at + 1] = t * du, t * dv
    put_angle(limb, 4 * ball + 2, math.atan2(sine, cosine), w, at + 2)
    return slack_of(limb, 4 * ball, 3, w, at)


@kernel
def fit_ball(limb, shape, ball, w, turn_at, family, at):
    """Write the values of a ball joint (0 first, 1 last) with rotation w[turn_at:] to w[at:]; return the slack."""
    kind = shape[ball, BALL]
    if kind <= PROPER:
        return fit_euler(limb, shape, ball, w, turn_at, family, at)
    if kind == VECTOR:
        return fit_vector(limb, ball, w, turn_at, family, at)
    return fit_swing_twist(limb, shape, ball, w, turn_at, family, at)


@kernel
def euler_holds(limb, shape, ball, w, turn_at, at):
    """Return whether some family respects the limits of an Euler joint, without inverse functions."""
    e, o = SENSE + 6 * ball, ARC + 32 * ball
    ya, xa = limb[e + 1] * w[turn_at + shape[ball, YA]], limb[e + 2] * w[turn_at + shape[ball, XA]]
    r = math.sqrt(xa * xa + ya * ya)
    if r <= SINGULAR:
        return fit_euler(limb, shape, ball, w, turn_at, 0, at) >= -SINGULAR
    f = limb[e] * w[turn_at + shape[ball, F]]
    yc, xc = limb[e + 3] * w[turn_at + shape[ball, YC]], limb[e + 4] * w[turn_at + shape[ball, XC]]
    a = xa * limb[o + COS_MID] + ya * limb[o + SIN_MID]
    c = xc * limb[o + 16 + COS_MID] + yc * limb[o + 16 + SIN_MID]
    if shape[ball, BALL] == TAIT_BRYAN:
        fixed, turned = f * limb[o + 8 + SIN_MID], r * limb[o + 8 + COS_MID]
    else:
        fixed, turned = f * limb[o + 8 + COS_MID], r * limb[o + 8 + SIN_MID]
    side = 1.0
    for _ in range(2):
        if (
            (limb[o + FULL] != 0.0 or side * a >= limb[o + COS_HALF] * r)
            and (limb[o + 16 + FULL] != 0.0 or side * c >= limb[o + 16 + COS_HALF] * r)
            and (limb[o + 8 + FULL] != 0.0 or fixed + side * turned >= limb[o + 8 + COS_HALF] - 1e-15)
        ):
            return True
        side = -1.0
    return False


@kernel
def ball_holds(limb, shape, ball, w, turn_at, at):
    """Return whether some family of a ball joint respects its limits at a rotation; w[at:at + 3] is scratch."""
    if shape[ball, BALL] <= PROPER:
        return euler_holds(limb, shape, ball, w, turn_at, at)
    slack = fit_ball(limb, shape, ball, w, turn_at, 0, at)
    return slack >= 0.0 or fit_ball(limb, shape, ball, w, turn_at, 1, at) >= 0.0


@kernel
def put_vector(w, at, x, y, z):
    """Write a vector."""
    w[at], w[at + 1], w[at + 2] = x, y, z


@kernel
def rotate(w, at, x, y, z):
    """Return the rotation w[at:] times a vector."""
    return (
        w[at] * x + w[at + 1] * y + w[at + 2] * z,
        w[at + 3] * x + w[at + 4] * y + w[at + 5] * z,
        w[at + 6] * x + w[at + 7] * y + w[at + 8] * z,
    )


@kernel
def copy_numbers(w, source, to):
    """Copy seven values."""
    for m in range(7):
        w[to + m] = w[source + m]


@kernel
def ball_rotation(shape, ball, w, at, turn_at, axes):
    """Write the rotation of a ball joint with values w[at:] to w[turn_at:], its three axes to w[axes:]."""
    rotation = w[turn_at : turn_at + 9]
    for m in range(9):
        rotation[m] = 1.0 if m % 4 == 0 else 0.0
    kind, k = shape[ball, BALL], shape[ball, I]
    count = 0
    if kind >= VECTOR:
        x, y, z = w[at], w[at + 1], w[at + 2]
        count = 3
        if kind == SWING_TWIST:
            count, p, q = 2, w[at], w[at + 1]
            x, y, z = (0.0, p, q) if k == 0 else ((q, 0.0, p) if k == 1 else (p, q, 0.0))
        _, b, c, _, _ = exponential_coefficients(x * x + y * y + z * z)
        for m in range(count):
            column = m if kind == VECTOR else (k + 1 + m) % 3
            p, q, r = left_jacobian_column(x, y, z, b, c, column)
            put_vector(w, axes + 3 * m, p, q, r)
        rotate_by_vector(rotation, x, y, z)
    for m in range(count, 3):
        axis = k if kind == SWING_TWIST else shape[ball, I + m]
        put_vector(w, axes + 3 * m, rotation[axis], rotation[3 + axis], rotation[6 + axis])
        turn(rotation, axis, math.sin(w[at + m]), math.cos(w[at + m]))
