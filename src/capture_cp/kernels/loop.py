"""Kernels for a control loop: single-threaded, no array is allocated.

Each kernel first checks that the shapes of its arrays match and that all numbers are finite; if not, it returns False and
writes nothing.

Throughout, `shape` is (dx, L, dc); `nodes` are the nodes of the trees, with the threshold of its group in every leaf; and
`limits` (nodes,) are these thresholds in the form that `passes` compares.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numba
from numba import from_dtype, njit

from capture_cp.base.layouts import NODE, PARTICLE_BOX, Columns
from capture_cp.kernels.cells import Room, index_box, search
from capture_cp.kernels.compiler import require_compiler
from capture_cp.kernels.nearest import enough_within
from capture_cp.kernels.tree import find_leaf

types: Any = numba.types
_PREPARING = threading.Lock()


@njit(cache=True, inline="always")
def all_finite(values):
    """Whether a C-contiguous array holds neither NaN nor infinity."""
    bad = False
    for value in values.flat:
        bad |= not abs(value) < math.inf
    return not bad


@njit(cache=True, inline="always")
def passes(rule, length, k, limit, y, cloud):
    """Whether y (dc,) is within the limit of `cloud` (L, dc): squared for k particles, a distance for their box."""
    inside = True
    if rule == PARTICLE_BOX:
        for axis in range(y.shape[0]):
            low, high = cloud[0, axis], cloud[0, axis]
            for l in range(1, cloud.shape[0]):
                low, high = min(low, cloud[l, axis]), max(high, cloud[l, axis])
            inside &= low - y[axis] <= limit and y[axis] - high <= limit
    else:
        inside = enough_within(rule, length, k, limit, y, cloud)
    return inside


@njit(cache=True, nogil=True)
def thresholds_into(nodes, roots, features, shape, X, out):
    """Threshold of every input X (n, dx) in every stratum, into out (n, M)."""
    n, strata = X.shape[0], roots.shape[0]
    if X.shape[1] != shape[0] or out.shape != (n, strata) or not all_finite(X):
        return False
    for i in range(n):
        for m in range(strata):
            out[i, m] = nodes[find_leaf(nodes, roots[m], features, m, X[i])].threshold
    return True


@njit(cache=True, nogil=True)
def contains_into(nodes, roots, features, limits, rule, length, k, shape, X, Y, particles, labels, out):
    """Whether each Y[i] (dc,) of stratum labels[i] is in the region of X[i], into out (n,); False where infeasible."""
    n, strata = X.shape[0], roots.shape[0]
    fits = X.shape[1] == shape[0] and Y.shape == (n, shape[2]) and particles.shape == (n, shape[1], shape[2])
    if not fits or labels.shape[0] != n or out.shape[0] != n:
        return False
    if not (all_finite(X) and all_finite(Y) and all_finite(particles)):
        return False
    for i in range(n):
        if not -1 <= labels[i] < strata:
            return False
    for i in range(n):
        m = labels[i]
        out[i] = False
        if m >= 0:
            limit = limits[find_leaf(nodes, roots[m], features, m, X[i])]
            out[i] = passes(rule, length, k, limit, Y[i], particles[i])
    return True


@njit(cache=True, nogil=True)
def count_cells_into(
    nodes, roots, features, limits, rule, length, k, shape,
    labels, weights, present, origin, spacing, cells, periodic, sizes,
    centre, corners, along, across, before, aside, stretches, terms, nears, limit, indices, X, particles, out,
):  # fmt: skip
    """Grid cells of every region, by stratum, into out (n, M + 1), whose last column (infeasible cells) is 0.

    The arguments from `labels` on are the fields of `Columns` and the sizes (M,) of the strata. Those from `centre` on are
    overwritten: the fields of `Room`, limits (M + 1,) and indices (2 dc,).
    """
    n, strata, dims = X.shape[0], roots.shape[0], shape[2]
    if X.shape[1] != shape[0] or particles.shape != (n, shape[1], dims) or out.shape != (n, strata + 1):
        return False
    if not (all_finite(X) and all_finite(particles)):
        return False
    columns = Columns(labels, weights, present, origin, spacing, cells, periodic)
    room = Room(centre, corners, along, across, before, aside, stretches, terms, nears)
    first, extent = indices[:dims], indices[dims:]
    limit[strata] = -1.0
    for i in range(n):
        reach = -1.0
        out[i, strata] = 0
        for m in range(strata):
            leaf = find_leaf(nodes, roots[m], features, m, X[i])
            whole = nodes[leaf].threshold == math.inf
            limit[m] = -1.0 if whole else limits[leaf]
            out[i, m] = sizes[m] if whole else 0
            reach = reach if whole else max(reach, nodes[leaf].threshold)
        if reach >= 0.0:
            # no rule here is an ellipsoid: the standard deviations, the whitening and the angles are unused
            index_box(rule, length, reach, centre, particles[i], columns, first, extent)
            search(rule, length, k, particles[i], corners, periodic, limit, first, extent, columns, room, out[i])
    return True


def prepare(table: bool = False) -> None:
    """Compile every kernel for the one set of array types it accepts; other types then raise an error.

    `table`: whether the scale of the metric is a table of its axes; cells are then not counted.
    """
    require_compiler()
    with _PREPARING:
        for kernel, signature in _signatures(table):
            if signature not in kernel.signatures:
                kernel.disable_compile(False)
                kernel.compile(signature)
                kernel.disable_compile()


def _signatures(table: bool) -> Iterator[tuple[Any, tuple[Any, ...]]]:

    def given(kind: Any, dims: int) -> Any:
        return types.Array(kind, dims, "C", readonly=True)

    def written(kind: Any, dims: int) -> Any:
        return types.Array(kind, dims, "C")

    f8, i8, i4 = types.float64, types.int64, types.int32
    tree = (given(from_dtype(NODE), 1), given(i4, 1), given(f8, 2))
    rule = (given(f8, 1), i8, given(f8, 2) if table else f8, i8, given(i8, 1))
    X, Y, particles, labels = given(f8, 2), given(f8, 2), given(f8, 3), given(i8, 1)
    columns = (given(i4, 2), given(types.float32, 2), given(types.boolean, 2), given(f8, 1), given(f8, 1), given(i8, 1))
    grid = (*columns, given(types.boolean, 1), given(i8, 1))
    room = (written(f8, 1), written(f8, 2), *[written(f8, 1)] * 4, *[written(f8, 2)] * 2, written(i8, 1))
    scratch = (*room, written(f8, 1), written(i8, 1))
    yield thresholds_into, (*tree, given(i8, 1), X, written(f8, 2))
    yield contains_into, (*tree, *rule, X, Y, particles, labels, written(types.boolean, 1))
    if table:
        return
    yield count_cells_into, (*tree, *rule, *grid, *scratch, X, particles, written(i8, 2))
