"""The distance between two segments as an energy: DISTANCE keeps it at a length, CLEAR keeps it from falling below one.

With delta from the nearest point of the obstacle to the nearest point e of the body, D = 1/2 |delta|^2 and d = |delta|:
E = 1/2 w (size - d)^2, for CLEAR only where d < size. The nearest points slide as the body moves, so the second
derivative of D is D_xx - u M^-1 u', where u and M are its mixed and second derivatives by the two parameters, where
those are inside their segments. A segment of no length is a point. Smooth but where d = 0 and where parallel segments
have many nearest points; the second derivative jumps where a nearest point meets the end of its segment.
"""

from __future__ import annotations

import math

from posable.engine.jit import kernel
from posable.engine.layout import ALONG, AT, AXES, POINT, SIZE, WEIGHT
from posable.engine.wrenches import add_product

TINY = 1e-18  # [m^2]: a segment shorter than its root is a point
NEAR = 1e-9  # [m]: a distance that gives no direction


@kernel
def within(x):
    """Return x brought into [0, 1]."""
    return min(max(x, 0.0), 1.0)


@kernel
def nearest_parameters(px, py, pz, ax, ay, az, cx, cy, cz):
    """Return where, in [0, 1] of each, the segments p + s a and t c are nearest."""
    aa, cc = ax * ax + ay * ay + az * az, cx * cx + cy * cy + cz * cz
    ap, cp = ax * px + ay * py + az * pz, cx * px + cy * py + cz * pz
    if aa <= TINY and cc <= TINY:
        return 0.0, 0.0
    if aa <= TINY:
        return 0.0, within(cp / cc)
    if cc <= TINY:
        return within(-ap / aa), 0.0
    ac = ax * cx + ay * cy + az * cz
    room = aa * cc - ac * ac
    s = within((ac * cp - ap * cc) / room) if room > 1e-12 * aa * cc else 0.0
    t = (ac * s + cp) / cc
    if t < 0.0:
        return within(-ap / aa), 0.0
    if t > 1.0:
        return within((ac - ap) / aa), 1.0
    return s, t


@kernel
def segment_gap(row, target, origin, position, r):
    """Return e (3), delta (3), the body's segment in world axes (3), and both parameters."""
    x, y, z = row[POINT], row[POINT + 1], row[POINT + 2]
    ex = position[0] + r[0] * x + r[1] * y + r[2] * z
    ey = position[1] + r[3] * x + r[4] * y + r[5] * z
    ez = position[2] + r[6] * x + r[7] * y + r[8] * z
    x, y, z = row[AXES], row[AXES + 1], row[AXES + 2]
    ax, ay, az = r[0] * x + r[1] * y + r[2] * z, r[3] * x + r[4] * y + r[5] * z, r[6] * x + r[7] * y + r[8] * z
    cx, cy, cz = target[ALONG], target[ALONG + 1], target[ALONG + 2]
    px, py, pz = ex + origin[0] - target[AT], ey + origin[1] - target[AT + 1], ez + origin[2] - target[AT + 2]
    s, t = nearest_parameters(px, py, pz, ax, ay, az, cx, cy, cz)
    return (
        ex + s * ax, ey + s * ay, ez + s * az,
        px + s * ax - t * cx, py + s * ay - t * cy, pz + s * az - t * cz,
        ax, ay, az, s, t,
    )  # fmt: skip


@kernel
def segment_distance(row, target, origin, position, r):
    """Return the distance [m] between the body's segment and the obstacle's."""
    _, _, _, x, y, z, _, _, _, _, _ = segment_gap(row, target, origin, position, r)
    return math.sqrt(x * x + y * y + z * z)


@kernel
def add_sliding(f, ex, ey, ez, x, y, z, ax, ay, az, cx, cy, cz, s, t, stiffness):
    """Add -f u M^-1 u': what the sliding of the nearest points takes from the second derivative of D, times f."""
    aa, cc, ac = ax * ax + ay * ay + az * az, cx * cx + cy * cy + cz * cz, ax * cx + ay * cy + az * cz
    slides_s = aa > TINY and 0.0 < s < 1.0
    slides_t = cc > TINY and 0.0 < t < 1.0
    room = aa * cc - ac * ac
    if slides_s and slides_t and room <= 1e-12 * aa * cc:
        slides_t = False  # parallel: one of the two is enough
    # u_s = [e x a + a x delta; a], u_t = -[e x c; c]
    s0, s1, s2 = (
        ey * az - ez * ay + ay * z - az * y,
        ez * ax - ex * az + az * x - ax * z,
        ex * ay - ey * ax + ax * y - ay * x,
    )
    t0, t1, t2 = ez * cy - ey * cz, ex * cz - ez * cx, ey * cx - ex * cy
    if slides_s and slides_t:
        k = -f / room
        add_product(k * cc, s0, s1, s2, ax, ay, az, s0, s1, s2, ax, ay, az, stiffness)
        add_product(k * aa, t0, t1, t2, -cx, -cy, -cz, t0, t1, t2, -cx, -cy, -cz, stiffness)
        add_product(2.0 * k * ac, s0, s1, s2, ax, ay, az, t0, t1, t2, -cx, -cy, -cz, stiffness)
    elif slides_s:
        add_product(-f / aa, s0, s1, s2, ax, ay, az, s0, s1, s2, ax, ay, az, stiffness)
    elif slides_t:
        add_product(-f / cc, t0, t1, t2, -cx, -cy, -cz, t0, t1, t2, -cx, -cy, -cz, stiffness)


@kernel
def clearance_terms(row, target, one_sided, origin, position, r, slope):
    """Return f and k of a spring between segments: force f delta, Gauss-Newton weight k delta delta'; 0 where idle."""
    d = segment_distance(row, target, origin, position, r)
    gap = row[SIZE] - d
    if d < NEAR or (one_sided and gap <= 0.0):
        return 0.0, 0.0
    w = slope * row[WEIGHT]
    return -w * gap / d, w / (d * d)
