"""The smaller, the larger and the clipped, as a processor has them.

Python's `min` and `max` become calls on a GPU that take care of NaN, several instructions each; these are a comparison and a
choice. NaN as the first argument stays NaN in `clip`.
"""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def smaller(a, b):  # type: ignore[no-untyped-def]
    """The smaller of two numbers, b if they are equal."""
    return a if a < b else b


@njit(cache=True)
def larger(a, b):  # type: ignore[no-untyped-def]
    """The larger of two numbers, b if they are equal."""
    return a if a > b else b


@njit(cache=True)
def clip(value, low, high):  # type: ignore[no-untyped-def]
    """The number between two bounds that is nearest to a value."""
    value = low if value < low else value
    return high if value > high else value
