"""What the threads of a block do together: one sum, and the regions of one step tested by cells."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda

from capture_cp.kernels.cells import cell_at, column_at, column_count, index_box
from capture_cp.kernels.nearest import enough_within
from capture_cp.planning.cuda.records import Sizes
from capture_cp.planning.runs import is_on_hazard

THREADS = 32  # of a block


@cuda.jit(device=True)
def summed(value, thread):
    """The sum of a number of every thread, in the same order for all."""
    values = cuda.shared.array(THREADS, np.float64)
    cuda.syncthreads()
    values[thread] = value
    cuda.syncthreads()
    total = 0.0
    for other in range(THREADS):
        total += values[other]
    return total


@cuda.jit(device=True)
def reach_of(limits):
    """The largest threshold, from squared ones; -1 if none admits anything."""
    reach = -1.0
    for m in range(limits.shape[0]):
        if limits[m] >= 0.0:
            reach = max(reach, math.sqrt(limits[m]))
    return reach


def by_cells(sizes: Sizes) -> Any:
    """A function for the number of hazard cells in the region of one step, plus particles on such cells."""
    rule, dims = sizes.rule, len(sizes.axes)
    count_cells, count_particles = sizes.count_cells, sizes.count_particles

    @cuda.jit(device=True)
    def cells_inside(cloud, limits, reach, regions, cells, thread):
        """Hazard cells in a region: a thread's part."""
        centre, count = cuda.local.array(dims, np.float64), 0
        first, extent = cuda.local.array(dims, np.int64), cuda.local.array(dims, np.int64)
        index_box(rule, regions.length, reach, centre, cloud, cells, first, extent)
        for number in range(column_count(extent)):
            column = column_at(number, first, extent, cells.origin, cells.spacing, cells.shape, centre)
            for t in range(thread, extent[dims - 1], THREADS):
                cell = cell_at(t, first[dims - 1], cells.shape[dims - 1])
                m = cells.labels[column, cell]
                if m >= 0 and limits[m] >= 0.0:
                    centre[dims - 1] = cells.origin[dims - 1] + cell * cells.spacing[dims - 1]
                    count += enough_within(rule, regions.length, regions.k, limits[m], centre, cloud)
        return count

    @cuda.jit(device=True)
    def hazard_in(cloud, limits, regions, cells, params, thread):
        count, reach = 0, reach_of(limits)
        if count_cells and reach >= 0.0:
            count += cells_inside(cloud, limits, reach, regions, cells, thread)
        if count_particles:
            for l in range(thread, cloud.shape[0], THREADS):
                count += is_on_hazard(cloud, l, cells)
        return int(summed(count, thread))

    return hazard_in
