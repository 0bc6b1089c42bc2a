"""Stepping through the cells of an index box on a grid."""

from __future__ import annotations

from numba import njit


@njit(cache=True, inline="always")
def box_size(extent):  # type: ignore[no-untyped-def]
    """Number of cells in an index box of `extent` (dc,)."""
    total = 1
    for axis in range(extent.shape[0]):
        total *= extent[axis]
    return total


@njit(cache=True, inline="always")
def box_cell(t, first, extent, origin, spacing, shape, centre):  # type: ignore[no-untyped-def]
    """Flat index of the t-th cell of the box; its configuration is written to `centre` (dc,). Indices wrap."""
    cell = 0
    stride = 1
    for back in range(extent.shape[0]):
        axis = extent.shape[0] - 1 - back
        index = (first[axis] + t % extent[axis]) % shape[axis]
        t //= extent[axis]
        centre[axis] = origin[axis] + index * spacing[axis]
        cell += index * stride
        stride *= shape[axis]
    return cell
