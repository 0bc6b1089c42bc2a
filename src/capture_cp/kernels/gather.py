"""Numbers brought together by their group."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def gathered(values, groups, starts, out):
    """Put each of the values (n,) into the slots of its group (n,), which begin at `starts` (J + 1,), of `out` (n,)."""
    free = starts.copy()
    for i in range(values.shape[0]):
        out[free[groups[i]]] = values[i]
        free[groups[i]] += 1
