"""Counter-based random numbers: stateless, and the same for any number of threads.

SplitMix64 (Steele, Lea and Flood, 2014) as a counter-based generator: number i of stream `key` is a mix of key + i * γ.
Normal numbers are computed with products and sums, without branches, so that loops over them vectorise.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from capture_cp.kernels.trig import cosine_sine

GAMMA = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)
TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


@njit(cache=True)
def mix(z):
    """A well-mixed 64-bit number from a 64-bit counter."""
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def stream(seed, number):
    """Key of an independent stream of a seed."""
    return mix(mix(np.uint64(seed) + GAMMA) + np.uint64(number) * GAMMA)


@njit(cache=True)
def uniform(key, counter):
    """Uniform in (0, 1], 53 bits."""
    bits = mix(np.uint64(key) + (np.uint64(counter) + np.uint64(1)) * GAMMA)
    return (np.float64(bits >> np.uint64(11)) + 1.0) * TO_UNIT


# ln 2 in two parts; the first has zeros at the end, so that its product with an exponent is exact
_LOG_2 = float.fromhex("0x1.62e42fee00000p-1")
_LOG_2_REST = float.fromhex("0x1.a39ef35793c76p-33")
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # bits of the square root of 1/2
_EXPONENT = np.uint64(52)  # its lowest bit


@njit(cache=True, error_model="numpy", inline="always")
def _log(u):
    """Natural logarithm of a positive normal number, within a few units in the last place.

    From the exponent and log m = 2 artanh((m - 1) / (m + 1)) with m between the square roots of 1/2 and 2.
    """
    bits = np.float64(u).view(np.uint64)
    exponent = np.int64(bits - _ROOT_HALF) >> np.int64(_EXPONENT)
    m = np.uint64(bits - (np.uint64(exponent) << _EXPONENT)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z, k = s * s, np.float64(exponent)
    series = 1 / 11 + z * (1 / 13 + z * (1 / 15 + z * (1 / 17 + z * (1 / 19 + z * (1 / 21)))))
    series = z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * (1 / 9 + z * series))))
    return k * _LOG_2 + (2.0 * s + (2.0 * s * series + k * _LOG_2_REST))


@njit(cache=True, error_model="numpy", inline="always")
def _pair(key, counter):
    radius = math.sqrt(-2.0 * _log(uniform(key, np.uint64(2) * np.uint64(counter))))
    c, s = cosine_sine(2.0 * math.pi * uniform(key, np.uint64(2) * np.uint64(counter) + np.uint64(1)))
    return radius * c, radius * s


@njit(cache=True, error_model="numpy")
def normal_pair(key, counter):
    """Two independent standard normals (Box and Muller), number `counter` of the stream."""
    return _pair(key, counter)


@njit(cache=True, error_model="numpy")
def normal_rows(even, odd, key, first, stride):
    """Pairs of standard normals into two arrays (n,): numbers first, first + stride, ... of the stream."""
    for i in range(even.shape[0]):
        even[i], odd[i] = _pair(key, np.uint64(first) + np.uint64(i) * np.uint64(stride))
