"""Regression trees with a largest number of leaves, as scikit-learn grows them, without its sorting of every node."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Floats
from capture_cp.base.layouts import NODE
from capture_cp.base.threads import in_order

_NO_LIMIT = 2**31 - 1
#: Columns that are sorted at once where there are more rows than this.
THREADS, MANY = 2, 50_000


def certain_tree(
    inputs: Floats, scores: Floats, weights: Floats | None, min_leaf: int, max_leaves: int, max_depth: int | None
) -> npt.NDArray[Any] | None:
    """Nodes of the tree that scikit-learn grows to predict scores (n,) from inputs (n, d); see `base.layouts.NODE`.

    Each leaf has at least `min_leaf` rows, or with weights (n,) so much weight, but at most half of all. None where the
    rounding of sums, or scikit-learn's random numbers, may decide between two trees.
    """
    from capture_cp.kernels.cart import FEATURE, LEFT, grow  # loaded only where a tree is grown

    if not np.isfinite(scores).all():
        return None
    lightest = 0.0
    if weights is not None:
        total = weights.sum()
        lightest, min_leaf = min(0.5, min_leaf / total) * total, 1
        if not weights.all():
            some = np.flatnonzero(weights)  # as in scikit-learn, rows without weight are not split
            inputs, scores, weights = inputs.take(some, axis=0), scores[some], weights[some]
    order, values = _sorted(inputs)
    w = np.empty(0) if weights is None else np.ascontiguousarray(weights)
    depth = _NO_LIMIT if max_depth is None else max_depth
    found, thresholds = np.empty((2 * max_leaves - 1, 6), dtype=np.int64), np.empty(2 * max_leaves - 1)
    equal = weights is None or bool(weights.min() == weights.max())
    y = np.ascontiguousarray(scores)
    count = grow(order, values, y, w, equal, min_leaf, lightest, depth, found, thresholds)
    if count == 0:
        return None
    nodes = np.zeros(count, dtype=NODE)
    left = found[:count, LEFT]
    leaf = left < 0
    nodes["feature"] = np.where(leaf, -1, found[:count, FEATURE])
    nodes["threshold"] = np.where(leaf, 0.0, thresholds[:count])
    nodes["left"], nodes["right"] = left, np.where(leaf, -1, left + 1)
    nodes["group"] = np.where(leaf, np.cumsum(leaf) - 1, -1)
    return nodes


def _sorted(inputs: Floats) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """For each column of inputs (n, d): row numbers in the order of its values, (d, n), and these values in float32."""
    n, d = inputs.shape
    order, values = np.empty((d, n), dtype=np.int32), np.empty((d, n), dtype=np.float32)
    rows = np.arange(n, dtype=np.uint64)

    def sort(i: int) -> None:
        column = inputs[:, i].astype(np.float32) + np.float32(0.0)  # no negative zeros
        bits = column.view(np.uint32)
        # an unsigned number in the order of the values, and after it the row: one sort of plain numbers is the fastest
        flipped = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
        keys = (flipped.astype(np.uint64) << np.uint64(32)) | rows
        keys.sort()
        order[i] = (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
        values[i] = column[order[i]]

    for _ in in_order(sort, range(d), THREADS if n > MANY else 1):
        pass
    return order, values
