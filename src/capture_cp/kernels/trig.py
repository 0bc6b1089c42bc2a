"""Cosine and sine together, in products and sums alone.

Processors and GPUs round them alike, and a loop over many angles becomes vector instructions; calls of a library do not.
"""

from __future__ import annotations

import math

from numba import njit

#: A quarter turn in three parts: the first two have so few digits that small multiples of them are exact.
QUARTER, MORE, REST = 1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21
#: Beside 1.5 · 2⁵² a fraction has no room: adding and taking it away rounds to a whole number.
ROUNDER = 6755399441055744.0


@njit(cache=True, error_model="numpy")
def cosine_sine(angle):
    """Cosine and sine of an angle, right to the last digit or two up to a million radians."""
    quarters = (angle * (2.0 / math.pi) + ROUNDER) - ROUNDER
    r = ((angle - quarters * QUARTER) - quarters * MORE) - quarters * REST
    q = r * r
    # their series, up to what no longer counts for an eighth of a turn
    s = q * (1 / 6227020800 + q * (-1 / 1307674368000 + q * (1 / 355687428096000)))
    s = r + r * q * (-1 / 6 + q * (1 / 120 + q * (-1 / 5040 + q * (1 / 362880 + q * (-1 / 39916800 + s)))))
    c = q * (1 / 479001600 + q * (-1 / 87178291200 + q * (1 / 20922789888000)))
    c = 1.0 + q * (-0.5 + q * (1 / 24 + q * (-1 / 720 + q * (1 / 40320 + q * (-1 / 3628800 + c)))))
    half = math.floor(0.5 * quarters)
    odd, sign = quarters - 2.0 * half, 1.0 - 2.0 * (half - 2.0 * math.floor(0.5 * half))
    return sign * (c if odd == 0.0 else -s), sign * (s if odd == 0.0 else c)
