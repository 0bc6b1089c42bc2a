"""Sorting of values by group."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def gather(values, groups, starts):
    """Sort values (n,) by their groups (n,), both in place; the slots of group j are from `starts[j]` to `starts[j + 1]`.

    A value in a slot of another group changes places with the one in the next free slot of its own.
    """
    free = starts.copy()
    for j in range(starts.shape[0] - 1):
        while free[j] < starts[j + 1]:
            here, group = free[j], groups[free[j]]
            there = free[group]
            free[group] += 1
            values[here], values[there] = values[there], values[here]
            groups[here], groups[there] = groups[there], groups[here]
