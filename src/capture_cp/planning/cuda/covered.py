"""Cells of a run that a region covers, all at once: in single precision, which says where it cannot decide."""

from __future__ import annotations

import math

import numpy as np
from numba import config, cuda
from numba.cuda import libdevice

from capture_cp.kernels.scalar import clip, larger

WORD = 31  # cells of a run that are tested at once: their bits fit in a word, and so does the bit after the last
SLACK = np.float32(2.0**-19)  # of a squared distance, as a fraction of the reach squared, for two other axes: 32 roundings
HAIR = np.float32(2.0**-20)  # of a distance, as a fraction of the longest one: 16 roundings
SMALLEST = np.float32(1e-30)
NOTHING, HALF, ONE_AND_A_HALF = np.float32(0.0), np.float32(0.5), np.float32(1.5)
BIT = np.uint32(1)
WHOLE = np.float32(1.5 * 2**23)  # added and subtracted again, it rounds to a whole number


@cuda.jit(device=True)
def _inverse_root(x):
    """One over the square root of a float32, with a few units of error in the last place."""
    return np.float32(1.0 / math.sqrt(x))


inverse_root = _inverse_root if config.ENABLE_CUDASIM else libdevice.rsqrtf  # one instruction


@cuda.jit(device=True, cache=True)
def covered_cells(offsets, place, at, limit, reach, k, width, planes):
    """Bits of the cells from 0 to `width` along a line that at least k particles reach, and whether they are certain.

    A particle reaches an interval of the line, so its cells are neighbours. Each plane holds one binary digit of a counter
    per cell. The counters start such that the k-th particle makes them overflow.

    Lengths are in cells: offsets (L, dc) of the particles from their mean, float32; the line's `place` (dc - 1,) on the
    other axes; the mean `at` on the last axis, seen from the first cell; `limit`, the squared threshold; `reach`, at least
    the threshold and the line's distance from the mean. `planes`, uint32 (p,), is scratch with 2^p >= L.
    """
    last, start, reached, certain = offsets.shape[1] - 1, (1 << planes.shape[0]) - k, np.uint32(0), True
    for p in range(planes.shape[0]):
        planes[p] = np.uint32(0xFFFFFFFF) if (start >> p) & 1 else np.uint32(0)
    along, squared = np.float32(at), np.float32(limit)
    slack = larger(SLACK * np.float32(reach * reach), SMALLEST)
    hair = HAIR * np.float32(2.0 * reach + WORD)
    for l in range(offsets.shape[0]):
        rest = squared
        for axis in range(last):
            aside = place[axis] - offsets[l, axis]
            rest -= aside * aside
        if rest >= -slack:
            root = inverse_root(larger(rest, slack))
            half = larger(rest, NOTHING) * root
            unsure = ONE_AND_A_HALF * slack * root + hair
            low = along + offsets[l, last] - half + HALF
            high = along + offsets[l, last] + half + HALF
            first, stop = (low + WHOLE) - WHOLE, (high + WHOLE) - WHOLE
            certain = certain and abs(low - first) + unsure < HALF and abs(high - stop) + unsure < HALF
            first, stop = clip(first, NOTHING, np.float32(width)), clip(stop, NOTHING, np.float32(width))
            carry = np.uint32((BIT << np.uint32(stop)) - (BIT << np.uint32(first)))  # from one to before the other
            for p in range(planes.shape[0]):
                digit = planes[p]
                planes[p] = digit ^ carry
                carry = np.uint32(digit & carry)
            reached |= carry
    return reached, certain
