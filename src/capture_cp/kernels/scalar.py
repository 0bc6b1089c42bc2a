"""Minimum, maximum and clipping as single comparisons, and pairwise summation.

On a GPU, Python's `min` and `max` become calls that handle NaN, several instructions each; these functions are one
comparison and one selection. NaN as the first argument of `clip` stays NaN.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def smaller(a, b):
    """The smaller of two numbers, b if they are equal."""
    return a if a < b else b


@njit(cache=True)
def larger(a, b):
    """The larger of two numbers, b if they are equal."""
    return a if a > b else b


@njit(cache=True)
def clip(value, low, high):
    """A value limited to the interval from low to high."""
    value = low if value < low else value
    return high if value > high else value


@njit(cache=True)
def _every_eighth(values, first, end):
    total = values[first]
    for i in range(first + 8, end, 8):
        total += values[i]
    return total


@njit(cache=True)
def pairwise_sum(values):
    """The sum of an array (n,), in eight partial sums: the same order as NumPy for up to 128 numbers."""
    total, end = 0.0, values.shape[0] - values.shape[0] % 8
    if end > 0:
        a = _every_eighth(values, 0, end) + _every_eighth(values, 1, end)
        b = _every_eighth(values, 2, end) + _every_eighth(values, 3, end)
        c = _every_eighth(values, 4, end) + _every_eighth(values, 5, end)
        d = _every_eighth(values, 6, end) + _every_eighth(values, 7, end)
        total = (a + b) + (c + d)
    for i in range(end, values.shape[0]):
        total += values[i]
    return total
