"""Sines, cosines and the exponential map of SO(3), with their first and second derivatives."""

from __future__ import annotations

import math

from posable.engine.jit import kernel

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
