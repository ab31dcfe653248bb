"""Ball joints in closed form: from a rotation to the joint's three numbers, in each family, and back.

Everything is raw (see `Anatomy`) and a rotation is (9,) by rows. `slack` is how far the worst of the three numbers stays
inside its limits [rad]; negative outside.
"""

from __future__ import annotations

import math

from posable.kernels.compiler import kernel
from posable.kernels.joints import rotate_by_vector, turn
from posable.kernels.rotations import exponential_coefficients, left_jacobian_column

from .anatomy import (
    BALL, COS_HALF, COS_MID, FULL, PROPER, SIN_MID, SWING_TWIST, TAIT_BRYAN, VECTOR, XA, XC, YA, YC, F, I, J, K,
)  # fmt: skip

TURN_ROUND = 2.0 * math.pi
SINGULAR = 1e-10  # below this the outer axes of an Euler joint coincide: only the sum of their angles counts
NO_LIMIT = 10.0  # slack of a joint without limits
NEVER = -1e9  # slack of a family that does not exist


@kernel
def into_limits(theta, low, high):
    """Return the angle, turned by whole turns into its limits, or as near to them as it comes."""
    if low <= theta <= high:
        return theta
    if theta < low:
        up = theta + TURN_ROUND * math.ceil((low - theta) / TURN_ROUND)
        return up if up - high < low - (up - TURN_ROUND) else up - TURN_ROUND
    down = theta - TURN_ROUND * math.ceil((theta - high) / TURN_ROUND)
    return down if low - down < (down + TURN_ROUND) - high else down + TURN_ROUND


@kernel
def slack_in(theta, low, high):
    """Return how far an angle is inside its limits; negative outside."""
    return min(theta - low, high - theta, NO_LIMIT)


@kernel
def last_angle(anatomy, ball, rotation, s, c):
    """Return the last Euler angle, given the sine and cosine of the first: well defined in every pose."""
    i = anatomy.shape[ball, I]
    j = anatomy.shape[ball, J]
    third = 3 - j - anatomy.shape[ball, K]
    p, q = 3 * ((i + 1) % 3), 3 * ((i + 2) % 3)
    if p == 3 * j:  # row j of R_i(a)' R
        x = c * rotation[p + j] + s * rotation[q + j]
        y = c * rotation[p + third] + s * rotation[q + third]
    else:
        x = c * rotation[q + j] - s * rotation[p + j]
        y = c * rotation[q + third] - s * rotation[p + third]
    return math.atan2(anatomy.sense[ball, 5] * y, x)


@kernel
def fit_euler(anatomy, ball, rotation, family, out, at):
    """Write the Euler angles of a rotation in one of the two families (0, 1); return their slack."""
    shape, sense, box, o = anatomy.shape, anatomy.sense, anatomy.box, 4 * ball
    side = 1.0 - 2.0 * family
    y = side * sense[ball, 1] * rotation[shape[ball, YA]]
    x = side * sense[ball, 2] * rotation[shape[ball, XA]]
    f = sense[ball, 0] * rotation[shape[ball, F]]
    r = math.sqrt(x * x + y * y)
    b = math.atan2(f, side * r) if shape[ball, BALL] == TAIT_BRYAN else math.atan2(side * r, f)
    b = into_limits(b, box[o + 1, 0], box[o + 1, 1])
    out[at + 1] = b
    slack = slack_in(b, box[o + 1, 0], box[o + 1, 1])
    if r <= SINGULAR:
        return min(slack, fit_singular(anatomy, ball, rotation, out, at))
    a = into_limits(math.atan2(y, x), box[o, 0], box[o, 1])
    c = into_limits(last_angle(anatomy, ball, rotation, y / r, x / r), box[o + 2, 0], box[o + 2, 1])
    out[at] = a
    out[at + 2] = c
    return min(slack, slack_in(a, box[o, 0], box[o, 1]), slack_in(c, box[o + 2, 0], box[o + 2, 1]))


@kernel
def fit_singular(anatomy, ball, rotation, out, at):
    """Write the outer Euler angles where only a + e c counts: at rest if that holds the limits, else wherever they hold."""
    box, o = anatomy.box, 4 * ball
    e = 1.0 if rotation[3 * anatomy.shape[ball, I] + anatomy.shape[ball, K]] > 0.0 else -1.0
    total = e * last_angle(anatomy, ball, rotation, 0.0, 1.0)
    best = -math.inf
    for trial in range(6):
        if best >= 0.0:
            break
        if trial < 3:  # choose the first angle
            a = anatomy.rest[o] if trial == 0 else box[o, trial - 1]
            c = into_limits(e * (total - a), box[o + 2, 0], box[o + 2, 1])
        else:
            c = anatomy.rest[o + 2] if trial == 3 else box[o + 2, trial - 4]
            a = into_limits(total - e * c, box[o, 0], box[o, 1])
        slack = min(slack_in(a, box[o, 0], box[o, 1]), slack_in(c, box[o + 2, 0], box[o + 2, 1]))
        if slack > best and math.isfinite(a) and math.isfinite(c):
            best = slack
            out[at] = a
            out[at + 2] = c
    return best


@kernel
def quaternion_of(rotation):
    """Return the unit quaternion (w, x, y, z), w not negative, of a rotation."""
    t = rotation[0] + rotation[4] + rotation[8]
    if t > 0.0:
        w = 1.0 + t
        x, y, z = rotation[7] - rotation[5], rotation[2] - rotation[6], rotation[3] - rotation[1]
    elif rotation[0] >= rotation[4] and rotation[0] >= rotation[8]:
        w, x = rotation[7] - rotation[5], 1.0 + rotation[0] - rotation[4] - rotation[8]
        y, z = rotation[1] + rotation[3], rotation[2] + rotation[6]
    elif rotation[4] >= rotation[8]:
        w, y = rotation[2] - rotation[6], 1.0 + rotation[4] - rotation[0] - rotation[8]
        x, z = rotation[1] + rotation[3], rotation[5] + rotation[7]
    else:
        w, z = rotation[3] - rotation[1], 1.0 + rotation[8] - rotation[0] - rotation[4]
        x, y = rotation[2] + rotation[6], rotation[5] + rotation[7]
    n = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
    if w < 0.0:
        n = -n
    return n * w, n * x, n * y, n * z


@kernel
def fit_vector(anatomy, ball, rotation, family, out, at):
    """Write the rotation vector of a rotation, the short way round (family 0) or the long one (1); return its slack."""
    o = 4 * ball
    w, x, y, z = quaternion_of(rotation)
    s = math.sqrt(x * x + y * y + z * z)
    t = 2.0 * math.atan2(s, w)
    factor = t / s if s > 1e-12 else 2.0
    if family == 1:
        if s < 1e-6:
            return NEVER
        factor = (t - TURN_ROUND) / s
    out[at], out[at + 1], out[at + 2] = x * factor, y * factor, z * factor
    slack = NO_LIMIT
    for k in range(3):
        slack = min(slack, slack_in(out[at + k], anatomy.box[o + k, 0], anatomy.box[o + k, 1]))
    return slack


@kernel
def fit_swing_twist(anatomy, ball, rotation, family, out, at):
    """Write swing (2) and twist (1) of R = swing twist, swing the short way (family 0) or the long one (1)."""
    o = 4 * ball
    k = anatomy.shape[ball, I]
    u, v = (k + 1) % 3, (k + 2) % 3
    # The axis goes to R e_k = cos(t) e_k + sin(t) (d x e_k): the swing's angle t and direction d.
    across_u, across_v = rotation[3 * u + k], rotation[3 * v + k]
    s = math.sqrt(across_u * across_u + across_v * across_v)
    t = math.atan2(s, rotation[4 * k])
    if s > 1e-12:
        du, dv = -across_v / s, across_u / s
    else:
        du, dv = 1.0, 0.0
        t = 0.0 if rotation[4 * k] > 0.0 else math.pi
    # twist = swing' R; its sine and cosine stand where R's rows meet the swung u axis.
    ct, st = math.cos(t), math.sin(t)
    b = 1.0 - ct
    # column u of the swing: e_u + st d x e_u + b d x (d x e_u)
    su, sv, sk = 1.0 - b * dv * dv, b * du * dv, -st * dv
    cosine = su * rotation[3 * u + u] + sv * rotation[3 * v + u] + sk * rotation[3 * k + u]
    sine = -(su * rotation[3 * u + v] + sv * rotation[3 * v + v] + sk * rotation[3 * k + v])
    if family == 1:
        if s < 1e-6 and rotation[4 * k] > 0.0:
            return NEVER
        t -= TURN_ROUND
    out[at], out[at + 1] = t * du, t * dv
    out[at + 2] = into_limits(math.atan2(sine, cosine), anatomy.box[o + 2, 0], anatomy.box[o + 2, 1])
    slack = NO_LIMIT
    for m in range(3):
        slack = min(slack, slack_in(out[at + m], anatomy.box[o + m, 0], anatomy.box[o + m, 1]))
    return slack


@kernel
def fit_ball(anatomy, ball, rotation, family, out, at):
    """Write the three numbers of a ball joint (0 first, 1 last) at out[at:at + 3]; return their slack."""
    kind = anatomy.shape[ball, BALL]
    if kind <= PROPER:
        return fit_euler(anatomy, ball, rotation, family, out, at)
    if kind == VECTOR:
        return fit_vector(anatomy, ball, rotation, family, out, at)
    return fit_swing_twist(anatomy, ball, rotation, family, out, at)


@kernel
def euler_holds(anatomy, ball, rotation, out):
    """Say whether some family holds the limits of an Euler joint: products and one root, no inverse functions."""
    shape, sense, arc, o = anatomy.shape, anatomy.sense, anatomy.arc, 4 * ball
    ya, xa = sense[ball, 1] * rotation[shape[ball, YA]], sense[ball, 2] * rotation[shape[ball, XA]]
    r = math.sqrt(xa * xa + ya * ya)
    if r <= SINGULAR:
        return fit_euler(anatomy, ball, rotation, 0, out, 0) >= -SINGULAR
    f = sense[ball, 0] * rotation[shape[ball, F]]
    yc, xc = sense[ball, 3] * rotation[shape[ball, YC]], sense[ball, 4] * rotation[shape[ball, XC]]
    a = xa * arc[o, COS_MID] + ya * arc[o, SIN_MID]
    c = xc * arc[o + 2, COS_MID] + yc * arc[o + 2, SIN_MID]
    if shape[ball, BALL] == TAIT_BRYAN:
        fixed, turned = f * arc[o + 1, SIN_MID], r * arc[o + 1, COS_MID]
    else:
        fixed, turned = f * arc[o + 1, COS_MID], r * arc[o + 1, SIN_MID]
    for side in (1.0, -1.0):
        if (
            (arc[o, FULL] != 0.0 or side * a >= arc[o, COS_HALF] * r)
            and (arc[o + 2, FULL] != 0.0 or side * c >= arc[o + 2, COS_HALF] * r)
            and (arc[o + 1, FULL] != 0.0 or fixed + side * turned >= arc[o + 1, COS_HALF] - 1e-15)
        ):
            return True
    return False


@kernel
def ball_holds(anatomy, ball, rotation, out):
    """Say whether some family of a ball joint holds its limits at a rotation; out (3,) is scratch."""
    if anatomy.shape[ball, BALL] <= PROPER:
        return euler_holds(anatomy, ball, rotation, out)
    if fit_ball(anatomy, ball, rotation, 0, out, 0) >= 0.0:
        return True
    return fit_ball(anatomy, ball, rotation, 1, out, 0) >= 0.0


@kernel
def ball_rotation(anatomy, ball, numbers, at, rotation, axes):
    """Write the rotation of a ball joint and the axes (3, 3), a row per number, about which it then turns."""
    for m in range(9):
        rotation[m] = 1.0 if m % 4 == 0 else 0.0
    kind = anatomy.shape[ball, BALL]
    if kind <= PROPER:
        for m in range(3):
            axis = anatomy.shape[ball, I + m]
            for row in range(3):
                axes[m, row] = rotation[3 * row + axis]
            turn(rotation, axis, math.sin(numbers[at + m]), math.cos(numbers[at + m]))
        return
    k = anatomy.shape[ball, I]
    x, y, z = numbers[at], numbers[at + 1], numbers[at + 2]
    count = 3
    if kind == SWING_TWIST:
        count = 2
        if k == 0:
            x, y, z = 0.0, numbers[at], numbers[at + 1]
        elif k == 1:
            x, y, z = numbers[at + 1], 0.0, numbers[at]
        else:
            x, y, z = numbers[at], numbers[at + 1], 0.0
    _, b, c, _, _ = exponential_coefficients(x * x + y * y + z * z)
    for m in range(count):
        column = m if kind == VECTOR else (k + 1 + m) % 3
        axes[m, 0], axes[m, 1], axes[m, 2] = left_jacobian_column(x, y, z, b, c, column)
    rotate_by_vector(rotation, x, y, z)
    if kind == SWING_TWIST:
        for row in range(3):
            axes[2, row] = rotation[3 * row + k]
        turn(rotation, k, math.sin(numbers[at + 2]), math.cos(numbers[at + 2]))
