"""Groups: look-up of that of a state, an action and a candidate stratum in regression trees, and sorting by group."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel


@njit(cache=True, inline="always")
def find_leaf(nodes, root, stratum_features, m, x):
    """Leaf of input x (dx,) in stratum m; features from dx on are those of the stratum, (M, df)."""
    i = np.uint32(root)  # unsigned, so that numba omits the check for negative indices
    while nodes[i].feature >= 0:
        f = np.uint32(nodes[i].feature)
        value = x[f] if f < x.shape[0] else stratum_features[m, np.uint32(f - x.shape[0])]
        # scikit-learn grows its trees on float32 inputs: comparing at another precision could lead to a different leaf
        i = np.uint32(nodes[i].left if np.float32(value) <= nodes[i].threshold else nodes[i].right)
    return i


@njit(cache=True, inline="always")
def find_group(nodes, root, stratum_features, m, x):
    """Group of input x (dx,) in stratum m."""
    return nodes[find_leaf(nodes, root, stratum_features, m, x)].group


@njit(cache=True, nogil=True)
def threshold_of(nodes, roots, stratum_features, n_inputs, x, m):
    """Conformal threshold of one input (dx,) in stratum m, from leaves whose `threshold` is their group's.

    NaN if the input has the wrong length or the stratum does not exist: a look-up would read out of bounds.
    """
    if x.shape[0] != n_inputs or m < 0 or m >= roots.shape[0]:
        return np.nan
    return nodes[find_leaf(nodes, roots[m], stratum_features, m, x)].threshold


@parallel_kernel(cache=True)
def groups_of(nodes, roots, stratum_features, X, m):
    """Group of each input X[i] (dx,) in its stratum m[i]: (n,)."""
    out = np.empty(X.shape[0], dtype=np.int64)
    for i in prange(X.shape[0]):
        out[i] = find_group(nodes, roots[m[i]], stratum_features, m[i], X[i])
    return out


@parallel_kernel(cache=True)
def groups_everywhere(nodes, roots, stratum_features, X):
    """Group of each input X[i] (dx,) in every stratum: (n, M)."""
    out = np.empty((X.shape[0], roots.shape[0]), dtype=np.int64)
    for i in prange(X.shape[0]):
        for m in range(roots.shape[0]):
            out[i, m] = find_group(nodes, roots[m], stratum_features, m, X[i])
    return out


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
