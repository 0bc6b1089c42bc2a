"""A calibration at one failure rate, for arrays that are already on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.checks import CaptureError
from capture_cp.base.layouts import BLOCKS, Columns, Regions
from capture_cp.capture.compiled import NO_CELLS, AtOneAlpha, grid_arrays, limits_and_rule
from capture_cp.conformal.scores import Score, of_particles
from capture_cp.conformal.threshold_table import ThresholdTable
from capture_cp.cuda import conformal
from capture_cp.cuda.arrays import device_array, is_on_device, tuple_on_device
from capture_cp.spaces.strata import NO_GRID, Strata


class CompiledCuda(AtOneAlpha):
    """A calibration at one alpha, on a GPU; made by `Capture.compile(alpha, device="cuda")`.

    Arrays of PyTorch, JAX, CuPy and Numba on the GPU are used without a copy; they must be C-contiguous float64 (labels:
    int64). If any argument is on the GPU, so is the result, and other libraries can use it without a copy through its
    `__cuda_array_interface__`: `torch.as_tensor(answer)`, `cupy.asarray(answer)`, `jax.numpy.asarray(answer)`. NumPy arrays
    are copied to the GPU, and if all arguments are NumPy arrays, so is the result.

    Work is queued on the default stream: a result is complete for any work queued there later. Values are not checked: NaN
    is in no region.
    """

    def _compile(self, table: ThresholdTable, score: Score, strata: Strata) -> None:
        limits, rule, length, k = limits_and_rule(score, table, self.n_outputs)
        unused = tuple_on_device(of_particles(rule, length, k, np.empty((0, self.n_particles, self.n_outputs))))
        self._regions = unused  # no inputs yet
        self._tree = tuple(map(cuda.to_device, table.arrays))
        self._thresholds = cuda.to_device(np.ascontiguousarray(table.arrays[0]["threshold"]))
        self._limits = cuda.to_device(limits)
        grid = grid_arrays(strata)
        self._columns = None if grid is None else tuple_on_device(Columns(*grid[:-1]))
        self._sizes = None if grid is None else cuda.to_device(grid[-1])

    def thresholds(self, X: Any) -> Any:
        """Threshold of every input X (n, dx) in every stratum: (n, M)."""
        found = conformal.look_up(self._tree, self._thresholds, self._inputs(X), len(self.names))
        return _answer(found, X)

    def scores(self, Y: Any, particles: Any) -> Any:
        """Score of each Y[i] (dc,) under the model's particles (n, L, dc): (n,)."""
        regions = self._of(particles, None)
        found = conformal.scores(regions, self._outputs(Y, len(regions.clouds)))
        return _answer(found, Y, particles)

    def contains(self, X: Any, Y: Any, particles: Any, labels: Any) -> Any:
        """Whether each Y[i] (dc,) is in the region of X[i] (dx,): bool (n,).

        `particles` (n, L, dc) are the model's particles; `labels` (n,) are the strata of Y, any other number where
        infeasible.
        """
        inputs = self._inputs(X)
        n = len(inputs)
        limits = conformal.look_up(self._tree, self._limits, inputs, len(self.names) + 1)
        regions, strata = self._of(particles, n), device_array("labels", labels, np.int64, (n,))
        found = conformal.within(regions, self._outputs(Y, n), strata, limits)
        return _answer(found, X, Y, particles, labels)

    def count_cells(self, X: Any, particles: Any) -> Any:
        """Grid cells of the region of each X[i] (dx,), by stratum: int64 (n, M + 1).

        `particles` (n, L, dc) are the model's particles. The last column, infeasible cells, is 0: particle regions have
        none.
        """
        if self._columns is None:
            raise CaptureError(NO_GRID)
        if self._regions.rule == BLOCKS:
            raise CaptureError(NO_CELLS)
        inputs = self._inputs(X)
        regions = self._of(particles, len(inputs))
        thresholds = conformal.look_up(self._tree, self._thresholds, inputs, len(self.names))
        limits = conformal.look_up(self._tree, self._limits, inputs, len(self.names) + 1)
        first, extent, counts = conformal.find_boxes(regions, self._sizes, thresholds, limits, self._columns)
        found = conformal.count_cells(regions, limits, first, extent, self._columns, counts)
        return _answer(found, X, particles)

    def _inputs(self, X: Any) -> Any:
        return device_array("X", X, np.float64, (None, self.n_inputs))

    def _outputs(self, Y: Any, n: int) -> Any:
        return device_array("Y", Y, np.float64, (n, self.n_outputs))

    def _of(self, particles: Any, n: int | None) -> Regions:
        cloud = device_array("particles", particles, np.float64, (n, self.n_particles, self.n_outputs))
        return self._regions._replace(clouds=cloud)


def _answer(found: Any, *arguments: Any) -> Any:
    """The result, left on the GPU if any argument was there."""
    return found if any(map(is_on_device, arguments)) else found.copy_to_host()
