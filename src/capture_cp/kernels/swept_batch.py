"""Signed distances of covers, planes and boxes at many configurations."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import Bools, Floats
from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.boxes import box_box
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.kinematics import place_links
from capture_cp.kernels.solids import shifted
from capture_cp.kernels.swept import Swept, frame_of, item_distance, swept_distances

#: Configurations that one thread processes at a time, with one table of frames.
SHARE = 256


class Boxes(NamedTuple):
    """The first box of every pair of two boxes, whose cover is empty; the second one is the object of its item."""

    frame: Any  #: (p,) its frame, as in `Swept`
    half: Any  #: (p, 3) its half sizes; 0 for other pairs


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
def _some_items(Y, swept, boxes, within, begin, end, table, known, frames):
    """Rows begin to end of the tables of distances of items and whether they are known; `frames` is overwritten."""
    Y, swept, boxes, table, known, frames = borrowed((Y, swept, boxes, table, known, frames))
    for i in range(begin, end):
        place_links(swept, Y[i], frames)
        for number in range(swept.items.shape[0]):
            cover, p = swept.items[number, 0], swept.items[number, 3]
            row = frame_of(swept.frame[cover], frames, swept.still)
            x, y, z = shifted(row, swept.ball[cover, 0], swept.ball[cover, 1], swept.ball[cover, 2])
            apart = item_distance(number, x, y, z, frames, swept, within)
            known[i, p] = apart < math.inf or boxes.half[p, 0] > 0.0
            if apart == math.inf and known[i, p]:
                a, b, c = boxes.half[p, 0], boxes.half[p, 1], boxes.half[p, 2]
                d, e, f = swept.size[number, 0], swept.size[number, 1], swept.size[number, 2]
                one = frame_of(boxes.frame[p], frames, swept.still)
                other = frame_of(swept.items[number, 2], frames, swept.still)
                apart = box_box(one, other, a, b, c, d, e, f, within)
            elif apart == math.inf:  # with the limit -inf, a lower bound
                apart = item_distance(number, x, y, z, frames, swept, -math.inf)
            table[i, p] = apart


@parallel_kernel(cache=True)
def _all_items(Y, swept, boxes, within, table, known):
    n = Y.shape[0]
    for share in prange((n + SHARE - 1) // SHARE):
        frames = np.empty((swept.parent.shape[0], 12))
        _some_items(Y, swept, boxes, within, share * SHARE, min(n, (share + 1) * SHARE), table, known, frames)


def distances_of(Y: Floats, swept: Swept, pairs: int, within: float) -> Floats:
    """Signed distance of every pair at configurations Y (n, dc): (n, pairs)."""
    table = np.empty((len(Y), pairs))
    if len(Y) <= SHARE:  # waking threads would take longer
        _some_distances(Y, swept, within, 0, len(Y), table, np.empty((len(swept.parent), 12)))
    else:
        _all_distances(Y, swept, within, table)
    return table


def item_distances(Y: Floats, swept: Swept, boxes: Boxes, within: float) -> tuple[Floats, Bools]:
    """Signed distances at configurations Y (n, dc) for one item per pair, and whether they are known: (n, p) and (n, p).

    Beyond `within`, and where they are unknown for lack of a cover, distances are lower bounds.
    """
    table, known = np.empty((len(Y), len(swept.items))), np.empty((len(Y), len(swept.items)), dtype=np.bool_)
    if len(Y) <= SHARE:
        _some_items(Y, swept, boxes, within, 0, len(Y), table, known, np.empty((len(swept.parent), 12)))
    else:
        _all_items(Y, swept, boxes, within, table, known)
    return table, known
