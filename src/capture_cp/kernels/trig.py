"""Cosine and sine together, and an arc tangent, computed with products and sums only.

CPUs and GPUs round them identically, and a loop over many angles is vectorised, unlike calls to a maths library.
"""

from __future__ import annotations

import math

from numba import njit

#: A quarter turn as a sum of three parts: the first two have so few digits that small multiples of them are exact.
QUARTER, MORE, REST = 1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21
#: Tangent of π/8, and a polynomial for atan(√z) / √z up to its square, fitted at Chebyshev points.
EIGHTH = math.sqrt(2.0) - 1.0
ARC = (
    *(1.0, -0.33333333333333387, 0.2000000000001868, -0.14285714287800347, 0.11111111222944431, -0.09090912477683404),
    *(0.07692370148408137, -0.06667381825931948, 0.05887189616878476, -0.052774997795893015, 0.04721393671033741),
    *(-0.038089258596921985, 0.01947384315072808),
)
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12 = ARC
#: Adding and subtracting 1.5 · 2⁵² discards the fraction, that is, rounds to an integer.
ROUNDER = 6755399441055744.0


@njit(cache=True, error_model="numpy", inline="always")
def within_eighth(angle):
    """The nearest number of quarter turns, and cosine and sine of the rest."""
    quarters = (angle * (2.0 / math.pi) + ROUNDER) - ROUNDER
    r = ((angle - quarters * QUARTER) - quarters * MORE) - quarters * REST
    q = r * r
    # their series, up to the terms that are negligible for an eighth of a turn
    s = q * (1 / 6227020800 + q * (-1 / 1307674368000 + q * (1 / 355687428096000)))
    s = r + r * q * (-1 / 6 + q * (1 / 120 + q * (-1 / 5040 + q * (1 / 362880 + q * (-1 / 39916800 + s)))))
    c = q * (1 / 479001600 + q * (-1 / 87178291200 + q * (1 / 20922789888000)))
    c = 1.0 + q * (-0.5 + q * (1 / 24 + q * (-1 / 720 + q * (1 / 40320 + q * (-1 / 3628800 + c)))))
    return quarters, c, s


@njit(cache=True, error_model="numpy")
def cosine_sine(angle):
    """Cosine and sine of an angle, accurate to the last digit or two up to a million radians."""
    quarters, c, s = within_eighth(angle)
    half = math.floor(0.5 * quarters)
    odd, sign = quarters - 2.0 * half, 1.0 - 2.0 * (half - 2.0 * math.floor(0.5 * half))
    return sign * (c if odd == 0.0 else -s), sign * (s if odd == 0.0 else c)


@njit(cache=True, inline="always", error_model="numpy")
def arc(sine, cosine):
    """The angle from 0 to a quarter turn whose sine and cosine, both at least 0, are in this ratio: `atan2(sine, cosine)`.

    Accurate to the last digit or two.
    """
    less, more = min(sine, cosine), max(sine, cosine)
    far = less > EIGHTH * more
    over, under = (less - more, less + more) if far else (less, more)
    x = over / under if under > 0.0 else 0.0
    z = x * x
    high = A7 + z * (A8 + z * (A9 + z * (A10 + z * (A11 + z * A12))))
    low = A0 + z * (A1 + z * (A2 + z * (A3 + z * (A4 + z * (A5 + z * (A6 + z * high))))))
    angle = (0.25 * math.pi if far else 0.0) + x * low
    return 0.5 * math.pi - angle if sine > cosine else angle
