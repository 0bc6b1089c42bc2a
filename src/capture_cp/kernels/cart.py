"""Growth of a regression tree, best split first, by decisions that rounding cannot change.

Scikit-learn sorts the rows of every node by every feature. Here each feature is sorted once, and a split keeps that order on
both sides. Where two choices are so close that the rounding of sums decides between them, the outcome depends on the order
in which scikit-learn happens to add numbers up; growth then stops, and the tree is left to scikit-learn.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

#: Neighbouring values closer than this are not separated, as in scikit-learn.
CLOSEST = np.float32(1e-7)
EPSILON = np.finfo(np.float64).eps
#: Gains of splits of n rows are trusted up to this multiple of (n + FEW) * EPSILON * sum of squares. That is about the bound
#: of what the order of a summation can change, which sums of many numbers stay far below.
TRUST, FEW = 8.0, 32
#: Columns of an array of nodes. A node has rows from `START` to `END`; those from `PLACE` on go to its right child, which
#: follows its left child `LEFT`. `FEATURE` and `PLACE` are those of its best split, `LEFT` is -1 in a leaf.
START, END, PLACE, FEATURE, LEFT, DEPTH = range(6)


@njit(cache=True, error_model="numpy")
def _sums(rows, y, w, start, end):
    """Weighted sums of y and its squares, and of the weights, over rows[start:end]; w is empty if all weigh 1."""
    total, squares, weight = 0.0, 0.0, 0.0
    for i in range(start, end):
        row = rows[i]
        each = w[row] if w.shape[0] > 0 else 1.0
        total += each * y[row]
        squares += each * y[row] * y[row]
        weight += each
    return total, squares, weight


@njit(cache=True, error_model="numpy")
def _best_place(rows, values, y, w, start, end, total, weight, min_leaf, min_weight, doubts, best, second):
    """Best place to split rows[start:end], sorted by values[start:end], if better than `best`, otherwise -1.

    Returns the larger of its gain and `best`, the gain of the runner-up if above `second`, and the place.
    """
    left, left_weight, place, done = 0.0, 0.0, -1, start
    doubt, doubt_of_jumps = doubts
    for p in range(start + 1, end - min_leaf + 1):
        row = rows[p - 1]
        each = w[row] if w.shape[0] > 0 else 1.0
        left += each * y[row]
        left_weight += each
        if p - start < min_leaf or values[p] <= values[p - 1] + CLOSEST:
            continue
        if p - done > end - p:  # scikit-learn then subtracts the rows beyond from the whole weight
            doubt = doubt_of_jumps
        done = p
        right, right_weight = total - left, weight - left_weight
        lighter = min(left_weight, right_weight)
        if lighter < min_weight - doubt:
            continue
        gain = left * left / left_weight + right * right / right_weight
        if gain > second:
            if gain <= best or lighter < min_weight + doubt:
                second = gain
            else:
                best, second, place = gain, best, p
    return best, second, place


@njit(cache=True, error_model="numpy")
def _examine(order, values, y, w, equal, part, min_leaf, min_weight, max_depth, error):
    """Find the best split of a part, and return its gain, -inf without a split; NaN if rounding could lead to another one.

    `error` is that of a sum of squares over all rows of the tree.
    """
    start, end = part[START], part[END]
    if part[DEPTH] >= max_depth or end - start < max(2, 2 * min_leaf):
        return -math.inf
    total, squares, weight = _sums(order[0], y, w, start, end)
    doubt = TRUST * EPSILON * (end - start + FEW)
    unsure = 0.0 if equal else doubt * weight
    if abs(weight - 2 * min_weight) <= unsure and min_weight > 0.0:
        return math.nan
    if weight < 2 * min_weight:
        return -math.inf
    if squares - total * total / weight <= EPSILON * weight + error:
        return math.nan
    doubts = unsure, doubt * weight
    best, second = -math.inf, -math.inf
    for feature in range(len(order)):
        rows, numbers = order[feature], values[feature]
        best, second, place = _best_place(
            rows, numbers, y, w, start, end, total, weight, min_leaf, min_weight, doubts, best, second
        )
        if place >= 0:
            part[PLACE], part[FEATURE] = place, feature
    if best == second:  # no place, or two
        return -math.inf if best == -math.inf else math.nan
    gain = best - total * total / weight
    return gain if second < best - doubt * squares and gain > error else math.nan


@njit(cache=True, error_model="numpy")
def _divide(order, values, part, goes_left, spare_rows, spare_values):
    """In every feature, bring the rows that go left to the front of the part, in unchanged order."""
    start, end = part[START], part[END]
    for i in range(start, end):
        goes_left[order[part[FEATURE], i]] = i < part[PLACE]
    for feature in range(len(order)):
        if feature == part[FEATURE]:
            continue
        at, kept = start, 0
        for i in range(start, end):  # without branches, which could not be predicted
            row, number = order[feature, i], values[feature, i]
            left = int(goes_left[row])
            order[feature, at], values[feature, at] = row, number
            spare_rows[kept], spare_values[kept] = row, number
            at += left
            kept += 1 - left
        for i in range(kept):
            order[feature, at + i], values[feature, at + i] = spare_rows[i], spare_values[i]


@njit(cache=True, error_model="numpy")
def _next_part(gains, error):
    """The part whose split gains most, -1 if none can be split, -2 if rounding decides between two."""
    best, second = 0, -math.inf
    for i in range(1, len(gains)):
        if gains[i] > gains[best]:
            second, best = gains[best], i
        elif gains[i] > second:
            second = gains[i]
    if gains[best] == -math.inf:
        return -1
    return best if second < gains[best] - error else -2


@njit(cache=True, nogil=True, error_model="numpy")
def grow(order, values, y, w, equal, min_leaf, min_weight, max_depth, nodes, thresholds):
    """Grow the tree that predicts y (n,) with weights w (n,), or (0,) if all rows weigh 1; returns how many nodes it has.

    The result is 0 if rounding could lead to another tree. A leaf has at least `min_leaf` rows, and the weight `min_weight`.

    Args:
        order: row numbers sorted by each feature, (d, n); changed.
        values: its float32 values in that order, (d, n); changed.
        equal: whether all rows have the same weight; sums of weights then depend on no order.
        nodes: filled with the nodes, see `START`; (2 * leaves - 1, 6) for the largest number of leaves.
        thresholds: filled with thresholds of nodes that are no leaves.
    """
    n = order.shape[1]
    goes_left = np.zeros(n, dtype=np.bool_)
    spare_rows, spare_values = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.float32)
    gains = np.full(len(nodes), -math.inf)
    error = TRUST * EPSILON * (n + FEW) * _sums(order[0], y, w, 0, n)[1]
    nodes[:, LEFT] = -1
    nodes[0, START], nodes[0, END], nodes[0, DEPTH] = 0, n, 0
    count, examined = 1, 0
    while count < len(nodes):
        for i in range(examined, count):
            gains[i] = _examine(order, values, y, w, equal, nodes[i], min_leaf, min_weight, max_depth, error)
            if math.isnan(gains[i]):
                return 0
        examined = count
        best = _next_part(gains[:count], error)
        if best < 0:
            return count if best == -1 else 0
        part = nodes[best]
        feature, place = part[FEATURE], part[PLACE]
        thresholds[best] = values[feature, place - 1] / 2.0 + values[feature, place] / 2.0
        if count + 2 < len(nodes):
            _divide(order, values, part, goes_left, spare_rows, spare_values)
        part[LEFT] = count
        nodes[count, START], nodes[count, END] = part[START], place
        nodes[count + 1, START], nodes[count + 1, END] = place, part[END]
        nodes[count, DEPTH] = nodes[count + 1, DEPTH] = part[DEPTH] + 1
        gains[best] = -math.inf
        count += 2
    return count
