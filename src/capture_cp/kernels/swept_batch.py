"""Signed distances and strata of a sphere-swept robot at many configurations."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import Floats, Ints
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.swept import Swept, stratum_of, swept_distances

#: Configurations that one thread processes at a time, with one table of frames.
SHARE = 256


@njit(cache=True, error_model="numpy")
def _some_distances(Y, swept, within, begin, end, table, frames):
    """Rows begin to end of the table of distances; `frames` (links, 12) is overwritten."""
    Y, swept, table, frames = borrowed((Y, swept, table, frames))
    for i in range(begin, end):
        swept_distances(swept, Y[i], frames, within, table[i])


@parallel_kernel(cache=True)
def _all_distances(Y, swept, within, table):
    n = Y.shape[0]
    for share in prange((n + SHARE - 1) // SHARE):
        frames = np.empty((swept.parent.shape[0], 12))
        _some_distances(Y, swept, within, share * SHARE, min(n, (share + 1) * SHARE), table, frames)


@njit(cache=True, error_model="numpy")
def _all_strata(table, codes, numbers, rest, tolerance, depth, found):
    for i in range(table.shape[0]):
        found[i] = stratum_of(table[i], codes, numbers, rest, tolerance, depth)


def distances_of(Y: Floats, swept: Swept, pairs: int, within: float) -> Floats:
    """Signed distance of every pair at configurations Y (n, dc): (n, pairs)."""
    table = np.empty((len(Y), pairs))
    if len(Y) <= SHARE:  # waking threads would take longer
        _some_distances(Y, swept, within, 0, len(Y), table, np.empty((len(swept.parent), 12)))
    else:
        _all_distances(Y, swept, within, table)
    return table


def strata_of(Y: Floats, swept: Swept, pairs: int) -> Ints:
    """Stratum of each configuration Y (n, dc), -1 where infeasible: (n,)."""
    found, table = np.empty(len(Y), dtype=np.int64), distances_of(Y, swept, pairs, swept.tolerance)
    _all_strata(table, swept.codes, swept.numbers, swept.rest, swept.tolerance, swept.depth, found)
    return found
