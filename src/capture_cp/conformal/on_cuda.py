"""The scores on a GPU: membership and cells, from kernels that call the same functions. Scores stay on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.base.layouts import Regions
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox, Score, of_particles
from capture_cp.cuda import conformal
from capture_cp.cuda.arrays import tuple_on_device
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.spaces.metrics import is_compiled
from capture_cp.spaces.strata import GriddedStrata, columns_of


class OnCuda(Score):
    """A score whose regions are tested on a GPU, with NumPy arrays as inputs and outputs."""

    def on_device(self, prediction: Any) -> Regions:
        """The regions of a prediction, copied to the GPU."""
        regions = self.regions(prediction)
        assert regions is not None
        return tuple_on_device(regions)

    def limits(self, q: Floats) -> Floats:
        """Thresholds (n, M) in the form that the kernels compare."""
        return np.asarray(squared_limits(q.ravel())).reshape(q.shape)

    def within(self, prediction: Any, Y: Floats, q: Floats) -> Bools:
        if len(Y) == 0:
            return np.empty(0, dtype=bool)
        n, each = len(prediction), len(Y) // len(prediction)
        columns = np.tile(np.arange(each, dtype=np.int32), n)  # every row has its own limit
        limits = cuda.to_device(self.limits(q.reshape(n, each)))
        inside = conformal.within(self.on_device(prediction), cuda.to_device(Y), cuda.to_device(columns), limits)
        return np.asarray(inside.copy_to_host())

    def count_cells(self, prediction: Any, q: Floats, strata: GriddedStrata) -> Ints:
        return np.asarray(self.count(prediction, self.on_device(prediction), q, GridOnCuda(strata)).copy_to_host())

    def count(self, prediction: Any, regions: Regions, q: Floats, grid: GridOnCuda) -> Any:
        """Cells within q (n, M + 1), left on the GPU; `regions` are those of the prediction, on the GPU."""
        first, extent = grid.strata.require_grid().box(*self.box(prediction, q.max(axis=1), grid.dims))
        limits = cuda.to_device(self.limits(q))
        return conformal.count_cells(regions, limits, cuda.to_device(first), cuda.to_device(extent), grid.columns)


class GridOnCuda:
    """The cells of strata, copied to the GPU."""

    def __init__(self, strata: GriddedStrata) -> None:
        self.strata = strata
        self.dims = strata.require_grid().dims
        self.columns = tuple_on_device(columns_of(strata))


class NearestOnCuda(OnCuda, NearestParticles):
    """`NearestParticles` with one of the library's metrics."""

    def on_device(self, prediction: Any) -> Regions:
        kernel = self.metric_.kernel(prediction.shape[2])
        assert kernel is not None
        rule, scale = kernel
        there = cuda.to_device(scale) if isinstance(scale, np.ndarray) else scale
        return tuple_on_device(of_particles(rule, there, self.k, prediction))

    def count_cells(self, prediction: Any, q: Floats, strata: GriddedStrata) -> Ints:
        if self.metric_.finds_cells:
            return super().count_cells(prediction, q, strata)
        return Score.count_cells(self, prediction, q, strata)  # cell by cell, as for any metric


class BoxOnCuda(OnCuda, ParticleBox):
    """`ParticleBox`."""

    def limits(self, q: Floats) -> Floats:
        return q


class MahalanobisOnCuda(OnCuda, Mahalanobis):
    """`Mahalanobis`."""


def on_cuda(score: Score) -> OnCuda | None:
    """The GPU version of the score; None for a user-defined score or metric."""
    versions: dict[type[Score], type[OnCuda]] = {
        NearestParticles: NearestOnCuda,
        ParticleBox: BoxOnCuda,
        Mahalanobis: MahalanobisOnCuda,
    }
    if type(score) not in versions or (isinstance(score, NearestParticles) and not is_compiled(score.metric_)):
        return None
    return versions[type(score)](**score.get_params(deep=False))
