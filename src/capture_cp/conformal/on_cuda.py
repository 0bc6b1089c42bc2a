"""The scores on a GPU: the same answers, from kernels that call the same functions.

Each subclass says how its prediction goes to the GPU; everything else is what it is on the processor.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import cuda

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.partition import ThresholdTable
from capture_cp.conformal.scores import NearestParticles, ParticleBox, Score, geometry
from capture_cp.cuda import conformal
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.kernels.loop import PARTICLE_BOX
from capture_cp.spaces.strata import GriddedStrata

#: A prediction on the GPU, as the kernels of its kind of region are told it.
Told = tuple[Any, ...]


class OnCuda(Score):
    """A score whose numbers come from a GPU; NumPy arrays in, NumPy arrays out."""

    kernels: conformal.Kernels

    @abstractmethod
    def told(self, prediction: Any) -> Told:
        """The prediction, copied to the GPU."""

    def limits(self, q: Floats) -> Floats:
        """Thresholds (n, M) in the form that the kernels compare."""
        return np.asarray(squared_limits(q.ravel())).reshape(q.shape)

    def score(self, prediction: Any, Y: Floats) -> Floats:
        return np.asarray(conformal.scores(self.kernels, self.told(prediction), cuda.to_device(Y)).copy_to_host())

    def within(self, prediction: Any, Y: Floats, q: Floats) -> Bools:
        if len(Y) == 0:
            return np.empty(0, dtype=bool)
        n, each = len(prediction), len(Y) // len(prediction)
        columns = np.tile(np.arange(each, dtype=np.int32), n)  # every row has a limit of its own
        limits = cuda.to_device(self.limits(q.reshape(n, each)))
        told = self.told(prediction)
        inside = conformal.within(self.kernels, told, cuda.to_device(Y), cuda.to_device(columns), limits)
        return np.asarray(inside.copy_to_host())

    def count_cells(self, prediction: Any, q: Floats, strata: GriddedStrata) -> Ints:
        grid = GridOnCuda(strata)
        return np.asarray(self.count(prediction, self.told(prediction), q, grid).copy_to_host())

    def count(self, prediction: Any, told: Told, q: Floats, grid: GridOnCuda) -> Any:
        """Cells within q (n, M + 1), left on the GPU; `told` is the prediction as it is there."""
        first, extent = grid.strata.require_grid().box(*self.box(prediction, q.max(axis=1), grid.dims))
        limits = cuda.to_device(self.limits(q))
        return conformal.count_cells(self.kernels, told, limits, cuda.to_device(first), cuda.to_device(extent), grid.arrays)


class GridOnCuda:
    """The grid of strata with its labels, copied to the GPU."""

    def __init__(self, strata: GriddedStrata) -> None:
        self.strata = strata
        self.dims = strata.require_grid().dims
        self.arrays = tuple(cuda.to_device(part) for part in (strata.labels, *geometry(strata.require_grid())))


class NearestOnCuda(OnCuda, NearestParticles):
    """`NearestParticles` with a compiled metric."""

    kernels = conformal.PARTICLES

    def told(self, prediction: Any) -> Told:
        assert self.metric_.compiled is not None
        return (*self.metric_.compiled, self.k, cuda.to_device(prediction))


class BoxOnCuda(OnCuda, ParticleBox):
    """`ParticleBox`."""

    kernels = conformal.PARTICLES

    def told(self, prediction: Any) -> Told:
        return PARTICLE_BOX, 1.0, 1, cuda.to_device(prediction)

    def limits(self, q: Floats) -> Floats:
        return q


class MahalanobisOnCuda(OnCuda, Mahalanobis):
    """`Mahalanobis`."""

    kernels = conformal.ELLIPSOIDS

    def told(self, prediction: Any) -> Told:
        is_angle: npt.NDArray[Any] = self._is_angle(prediction.mean.shape[1])
        return tuple(cuda.to_device(np.ascontiguousarray(part)) for part in (prediction.mean, prediction.whiten, is_angle))


def on_cuda(score: Score) -> OnCuda | None:
    """The score on a GPU; None for one, or a metric, of the user's own."""
    versions: dict[type[Score], type[OnCuda]] = {
        NearestParticles: NearestOnCuda,
        ParticleBox: BoxOnCuda,
        Mahalanobis: MahalanobisOnCuda,
    }
    if type(score) not in versions or (isinstance(score, NearestParticles) and score.metric_.compiled is None):
        return None
    return versions[type(score)](**score.get_params(deep=False))


def thresholds_on_cuda(table: ThresholdTable, X: Floats) -> Floats:
    """Threshold of every input X (n, dx) in every stratum, found on a GPU: (n, M)."""
    tree = tuple(cuda.to_device(part) for part in table.arrays)
    values = cuda.to_device(np.ascontiguousarray(table.arrays[0]["threshold"]))
    return np.asarray(conformal.look_up(tree, values, cuda.to_device(X), len(table.arrays[1])).copy_to_host())
