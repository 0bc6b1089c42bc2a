"""Counter-based random numbers: stateless, and the same for any number of threads.

SplitMix64 (Steele, Lea and Flood, 2014) as a counter-based generator: number i of stream `key` is a mix of key + i * γ.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

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


@njit(cache=True)
def normal_pair(key, counter):
    """Two independent standard normals (Box and Muller), number `counter` of the stream."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, np.uint64(2) * np.uint64(counter))))
    angle = 2.0 * math.pi * uniform(key, np.uint64(2) * np.uint64(counter) + np.uint64(1))
    return radius * math.cos(angle), radius * math.sin(angle)
