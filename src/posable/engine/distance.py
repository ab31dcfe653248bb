"""The distance between two segments: where they are nearest, and how those points slide as one segment moves.

With the gap delta = p + s a - t c between them and D = 1/2 |delta|^2, the nearest points slide as p and a move, so the
second derivative of D by (p, a) is D_xx - u M^-1 u', u and M the mixed and second derivatives by those of s and t that
are inside their segments. A segment of no length is a point. The second derivative jumps where a nearest point meets
the end of its segment; where parallel segments have many nearest points, the first one does.
"""

from __future__ import annotations

from posable.engine.jit import kernel

TINY = 1e-18  # [m^2]: a segment shorter than its root is a point


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
def sliding(ax, ay, az, cx, cy, cz, s, t):
    """Return the entries (ss, tt, st) of M^-1, zero for a parameter that does not slide.

    With u_s = (a, delta + s a) and u_t = -(c, s c), the sliding takes ss u_s u_s' + tt u_t u_t' + st (u_s u_t' + ...).
    """
    aa, cc, ac = ax * ax + ay * ay + az * az, cx * cx + cy * cy + cz * cz, ax * cx + ay * cy + az * cz
    slides_s = aa > TINY and 0.0 < s < 1.0
    slides_t = cc > TINY and 0.0 < t < 1.0
    room = aa * cc - ac * ac
    if slides_s and slides_t and room > 1e-12 * aa * cc:
        return cc / room, aa / room, ac / room
    if slides_s:  # also of parallel segments: one of the two is enough
        return 1.0 / aa, 0.0, 0.0
    if slides_t:
        return 0.0, 1.0 / cc, 0.0
    return 0.0, 0.0, 0.0
