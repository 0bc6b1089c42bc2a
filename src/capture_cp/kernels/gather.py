"""Sorting of values by group."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def gathered(values, groups, starts, out):
    """Write the values (n,) to `out` (n,), sorted by their groups (n,); the slots of group j start at `starts[j]`."""
    free = starts.copy()
    for i in range(values.shape[0]):
        out[free[groups[i]]] = values[i]
        free[groups[i]] += 1
