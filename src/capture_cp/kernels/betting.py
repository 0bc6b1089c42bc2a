"""Sequential ranks among earlier numbers, and sequential bets on p-values, fast enough for long sequences."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def among_earlier(ranks, distinct):
    """For each of the ranks (n,), from 0 to `distinct` - 1: how many earlier ranks are smaller, and how many are equal.

    A Fenwick tree holds the counts, so each rank takes O(log `distinct`) time.
    """
    tree, same = np.zeros(distinct + 1, dtype=np.int64), np.zeros(distinct, dtype=np.int64)
    smaller, equal = np.empty(ranks.shape[0], dtype=np.int64), np.empty(ranks.shape[0], dtype=np.int64)
    for i in range(ranks.shape[0]):
        rank = ranks[i]
        equal[i] = same[rank]
        same[rank] += 1
        total, node = 0, rank
        while node > 0:
            total += tree[node]
            node -= node & -node
        smaller[i] = total
        node = rank + 1
        while node <= distinct:
            tree[node] += 1
            node += node & -node
    return smaller, equal


@njit(cache=True, nogil=True)
def jump(bets, rates, p_values, log_capital, log_largest, limit):
    """Bet on p-values (n,) with the composite jumper; updates `bets` (r, 3), fractions of the capital for each of r rates.

    Returns the log of the capital, the log of its maximum so far, and the index of the p-value after which that maximum
    first reached `limit` (-1 if never).
    """
    first = -1
    for i in range(p_values.shape[0]):
        edge = p_values[i] - 0.5
        gain = 0.0
        for r in range(bets.shape[0]):
            dealt = rates[r] * ((bets[r, 0] + bets[r, 1] + bets[r, 2]) / 3.0)
            for b in range(3):
                bets[r, b] = ((1.0 - rates[r]) * bets[r, b] + dealt) * (1.0 + (b - 1.0) * edge)
                gain += bets[r, b]
        for r in range(bets.shape[0]):
            for b in range(3):
                bets[r, b] /= gain
        log_capital += math.log(gain)
        log_largest = max(log_largest, log_capital)
        if first < 0 and log_largest >= limit:
            first = i
    return log_capital, log_largest, first
