"""Regression trees with a largest number of leaves, as scikit-learn grows them, without its sorting of every node."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Floats
from capture_cp.kernels.cart import grow

_LARGEST_SEED = 2**31 - 1
_NO_LIMIT = 2**31 - 1


def grown_tree(
    inputs: Floats,
    scores: Floats,
    weights: Floats | None,
    min_leaf: int,
    max_leaves: int,
    max_depth: int | None,
    seed: int,
) -> npt.NDArray[Any]:
    """Nodes of a tree that predicts scores (n,) from inputs (n, d); see `capture_cp.kernels.tree.NODE`.

    Each leaf has at least `min_leaf` rows, or with weights (n,) so much weight, but at most half of all.
    """
    heaviest = 0.0
    if weights is not None:
        total = weights.sum()
        heaviest, min_leaf = min(0.5, min_leaf / total) * total, 1
        if not weights.all():
            some = weights != 0.0
            inputs, scores, weights = inputs[some], scores[some], weights[some]
    order, values = _sorted(inputs)
    w = np.empty(0) if weights is None else np.ascontiguousarray(weights)
    # the numbers that scikit-learn draws features with
    state = np.random.RandomState(seed).randint(0, _LARGEST_SEED)
    depth = _NO_LIMIT if max_depth is None else max_depth
    nodes = grow(order, values, np.ascontiguousarray(scores), w, min_leaf, heaviest, max_leaves, depth, np.uint32(state))
    leaf = nodes["feature"] < 0
    nodes["group"] = np.where(leaf, np.cumsum(leaf) - 1, -1)
    return np.asarray(nodes)


def _sorted(inputs: Floats) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """For each column of inputs (n, d): row numbers in the order of its values, (d, n), and these values in float32."""
    n, d = inputs.shape
    order, values = np.empty((d, n), dtype=np.int32), np.empty((d, n), dtype=np.float32)
    rows = np.arange(n, dtype=np.uint64)
    for i in range(d):
        column = inputs[:, i].astype(np.float32) + np.float32(0.0)  # no negative zeros
        bits = column.view(np.uint32)
        # an unsigned number in the order of the values, and after it the row: one sort of plain numbers is the fastest
        flipped = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
        keys = np.sort((flipped.astype(np.uint64) << np.uint64(32)) | rows)
        order[i] = (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)
        values[i] = column[order[i]]
    return order, values
