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
from capture_cp.kernels.swept import Swept, frame_of, item_distance

#: Configurations that one thread processes at a time, with one table of frames.
SHARE = 256


class Boxes(NamedTuple):
    """The first box of every item that is a pair of two boxes, without a cover; the second is the item's object."""

    frame: Any  #: (i,) its frame, as in `Swept`
    half: Any  #: (i, 3) its half sizes; 0 for other items


@njit(cache=True, error_model="numpy")
def _some_items(Y, swept, boxes, within, begin, end, table, known, frames):
    """Rows begin to end of the tables of distances of items and whether they are known; `frames` is overwritten."""
    Y, swept, boxes, table, known, frames = borrowed((Y, swept, boxes, table, known, frames))
    for i in range(begin, end):
        place_links(swept, Y[i], frames)
        for number in range(swept.items.shape[0]):
            cover, half = swept.items[number, 0], boxes.half[number]
            row = frame_of(swept.frame[cover], frames, swept.still)
            x, y, z = shifted(row, swept.ball[cover, 0], swept.ball[cover, 1], swept.ball[cover, 2])
            apart = item_distance(number, x, y, z, frames, swept, within)
            known[i, number] = apart < math.inf or half[0] > 0.0
            if apart == math.inf and half[0] > 0.0:
                size = swept.size[number]
                one = frame_of(boxes.frame[number], frames, swept.still)
                other = frame_of(swept.items[number, 2], frames, swept.still)
                apart = box_box(one, other, half[0], half[1], half[2], size[0], size[1], size[2], within)
            elif apart == math.inf:  # with the limit -inf, a lower bound
                apart = item_distance(number, x, y, z, frames, swept, -math.inf)
            table[i, number] = apart


@parallel_kernel(cache=True)
def _all_items(Y, swept, boxes, within, table, known):
    n = Y.shape[0]
    for share in prange((n + SHARE - 1) // SHARE):
        frames = np.empty((swept.parent.shape[0], 12))
        _some_items(Y, swept, boxes, within, share * SHARE, min(n, (share + 1) * SHARE), table, known, frames)


def item_distances(Y: Floats, swept: Swept, boxes: Boxes, within: float) -> tuple[Floats, Bools]:
    """Signed distance of every item at configurations Y (n, dc), and whether it is known: (n, i) and (n, i).

    Beyond `within`, and where they are unknown for lack of a cover, distances are lower bounds.
    """
    table, known = np.empty((len(Y), len(swept.items))), np.empty((len(Y), len(swept.items)), dtype=np.bool_)
    if len(Y) <= SHARE:  # waking threads would take longer
        _some_items(Y, swept, boxes, within, 0, len(Y), table, known, np.empty((len(swept.parent), 12)))
    else:
        _all_items(Y, swept, boxes, within, table, known)
    return table, known
