"""Growth of a regression tree, best split first: the same tree as scikit-learn's, from rows that are sorted only once.

Scikit-learn sorts the rows of every node by every feature. Here each feature is sorted once, and a split keeps that order on
both sides, so a node costs time proportional to its rows. Sums are taken in scikit-learn's order and features are drawn from
its random numbers, so that trees agree to the last bit if no column repeats a value, and otherwise up to rounding of sums.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from capture_cp.kernels.tree import NODE

#: Neighbouring values closer than this are not separated.
CLOSEST = np.float32(1e-7)
EPSILON = np.finfo(np.float64).eps
#: Rows of a node, from `start` to `end`, and its best split: rows from `place` on go to the right.
PART = np.dtype(
    [(name, "i8") for name in ("start", "end", "place", "depth", "feature")]
    + [(name, "f8") for name in ("threshold", "improvement", "impurity", "left_impurity", "right_impurity")]
)


@njit(cache=True, error_model="numpy")
def _drawn(state, n):
    """A random number from 0 to n - 1 by a 32-bit xorshift generator, whose state[0] moves on."""
    x = state[0] if state[0] != 0 else np.uint32(1)
    x ^= np.uint32(x << np.uint32(13))
    x ^= np.uint32(x >> np.uint32(17))
    x ^= np.uint32(x << np.uint32(5))
    state[0] = x
    return np.int64(x & np.uint32(0x7FFFFFFF)) % n


@njit(cache=True, error_model="numpy")
def _without(rows, y, w, start, end, total, weight):
    """What remains of a sum and of a weight without rows[start:end], from the last of them to the first."""
    for i in range(end - 1, start - 1, -1):
        each = w[rows[i]] if w.shape[0] > 0 else 1.0
        total -= each * y[rows[i]]
        weight -= each
    return total, weight


@njit(cache=True, error_model="numpy")
def _best_of_feature(rows, values, y, w, start, end, total, weight, limits, best):
    """Best place to split rows[start:end], sorted by values[start:end]: its gain and position, if above `best`, else end.

    `total` is the weighted sum of y over these rows, and `weight` the sum of their weights; w is empty if all weigh 1.
    """
    min_leaf, min_weight, _ = limits
    weighted = w.shape[0] > 0
    place, done, left, left_weight = end, start, 0.0, 0.0
    p = start
    while True:
        p += 1
        while p < end and values[p] <= values[p - 1] + CLOSEST:
            p += 1
        if p >= end or end - p < min_leaf:
            return best, place
        if p - start < min_leaf:
            continue
        if p - done <= end - p:
            for i in range(done, p):
                each = w[rows[i]] if weighted else 1.0
                left += each * y[rows[i]]
                left_weight += each
        else:
            left, left_weight = _without(rows, y, w, p, end, total, weight)
        done = p
        right, right_weight = total - left, weight - left_weight
        if left_weight < min_weight or right_weight < min_weight:
            continue
        gain = left * left / left_weight + right * right / right_weight
        if gain > best:
            best, place = gain, p


@njit(cache=True, error_model="numpy")
def _sums(rows, y, w, start, end):
    """Weighted sums of y and its squares, and of the weights, over rows[start:end]."""
    total, squares, weight = 0.0, 0.0, 0.0
    for i in range(start, end):
        row = rows[i]
        each = w[row] if w.shape[0] > 0 else 1.0
        total += each * y[row]
        squares += each * y[row] * y[row]
        weight += each
    return total, squares, weight


@njit(cache=True, error_model="numpy")
def _part(rows, values, start, end, goes_left, spare_rows, spare_values):
    """Bring the rows that go left to the front of rows[start:end], and likewise their values, in unchanged order."""
    at, kept = start, 0
    for i in range(start, end):
        if goes_left[rows[i]]:
            rows[at], values[at] = rows[i], values[i]
            at += 1
        else:
            spare_rows[kept], spare_values[kept] = rows[i], values[i]
            kept += 1
    rows[at:end] = spare_rows[:kept]
    values[at:end] = spare_values[:kept]


@njit(cache=True, error_model="numpy")
def _best_split(data, features, state, start, end, total, weight, limits):
    """Feature and place of the best split of the rows from start to end, and the feature that was tried last.

    The place is `end` if there is none. `features` (d,) are permuted as they are drawn.
    """
    order, values, y, w = data
    best, place, chosen, last, undrawn, constant = -math.inf, end, 0, 0, len(features), 0
    while undrawn > constant:
        at = _drawn(state, undrawn - constant) + constant
        last = features[at]
        if values[last, end - 1] <= values[last, start] + CLOSEST:
            features[at], features[constant] = features[constant], features[at]
            constant += 1
            continue
        undrawn -= 1
        features[at], features[undrawn] = features[undrawn], features[at]
        gain, found = _best_of_feature(order[last], values[last], y, w, start, end, total, weight, limits, best)
        if found < end:
            best, place, chosen = gain, found, last
    return chosen, place, last


@njit(cache=True, error_model="numpy")
def _divide(rows, start, end, goes_left):
    """Bring the rows that go left to the front of rows[start:end], exchanging them with those at its end."""
    while start < end:
        if goes_left[rows[start]]:
            start += 1
        else:
            end -= 1
            rows[start], rows[end] = rows[end], rows[start]


@njit(cache=True, error_model="numpy")
def _examine(data, part, rows, goes_left, features, state, limits, all_weight):
    """Find the best split of the rows of `part`, and what it improves; -inf if there is none."""
    order, values, y, w = data
    min_leaf, min_weight, max_depth = limits
    start, end = part.start, part.end
    total, squares, weight = _sums(rows, y, w, start, end)
    small = end - start < max(2, 2 * min_leaf) or weight < 2 * min_weight
    if small or part.depth >= max_depth or part.impurity <= EPSILON:
        return
    feature, place, last = _best_split(data, features, state, start, end, total, weight, limits)
    rows[start:end] = order[last, start:end]
    if place == end:
        return
    for i in range(start, end):
        goes_left[order[feature, i]] = i < place
    _divide(rows, start, end, goes_left)
    left, left_squares, left_weight = _sums(rows, y, w, start, place)
    if place - start > end - place:
        left, left_weight = _without(rows, y, w, place, end, total, weight)
    right, right_weight = total - left, weight - left_weight
    part.left_impurity = left_squares / left_weight - (left / left_weight) ** 2
    part.right_impurity = (squares - left_squares) / right_weight - (right / right_weight) ** 2
    within = right_weight / weight * part.right_impurity, left_weight / weight * part.left_impurity
    improvement = weight / all_weight * (part.impurity - within[0] - within[1])
    if improvement + EPSILON >= 0.0:
        part.improvement, part.place, part.feature = improvement, place, feature
        part.threshold = values[feature, place - 1] / 2.0 + values[feature, place] / 2.0


@njit(cache=True, nogil=True, error_model="numpy")
def grow(order, values, y, w, min_leaf, min_weight, max_leaves, max_depth, seed):
    """Nodes of the tree that predicts y (n,) with weights w (n,), or (0,) if all rows weigh 1.

    order (d, n) are the row numbers sorted by each feature, and values (d, n) its float32 values in that order; both are
    changed. A leaf has at least `min_leaf` rows, and at least the weight `min_weight`.
    """
    d, n = order.shape
    data, limits = (order, values, y, w), (min_leaf, min_weight, max_depth)
    state, features = np.array([seed], dtype=np.uint32), np.arange(d)
    rows, goes_left = np.arange(n).astype(np.int32), np.zeros(n, dtype=np.bool_)
    spare_rows, spare_values = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.float32)
    nodes, parts = np.zeros(2 * max_leaves - 1, dtype=NODE), np.zeros(2 * max_leaves - 1, dtype=PART)
    for i in range(len(nodes)):
        nodes[i].feature = nodes[i].left = nodes[i].right = -1
        parts[i].improvement = -math.inf
    total, squares, all_weight = _sums(rows, y, w, 0, n)
    parts[0].end, parts[0].impurity = n, squares / all_weight - (total / all_weight) ** 2
    examined, count = 0, 1
    while count < len(nodes):
        for i in range(examined, count):
            _examine(data, parts[i], rows, goes_left, features, state, limits, all_weight)
        examined = count
        best = np.argmax(parts[:count]["improvement"])
        part = parts[best]
        if part.improvement == -math.inf:
            break
        for feature in range(d):
            _part(order[feature], values[feature], part.start, part.end, goes_left, spare_rows, spare_values)
        nodes[best].feature, nodes[best].threshold = part.feature, part.threshold
        nodes[best].left, nodes[best].right = count, count + 1
        left, right = parts[count], parts[count + 1]
        left.start, left.end, left.impurity, left.depth = part.start, part.place, part.left_impurity, part.depth + 1
        right.start, right.end, right.impurity, right.depth = part.place, part.end, part.right_impurity, part.depth + 1
        part.improvement = -math.inf
        count += 2
    return nodes[:count]
