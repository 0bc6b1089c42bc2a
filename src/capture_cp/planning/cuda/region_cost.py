"""The cost of regions for PyTorch tensors that are on a GPU and stay there."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError
from capture_cp.capture.compiled_cuda import CompiledCuda
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.partition import ThresholdTable
from capture_cp.conformal.scores import ParticleBox
from capture_cp.planning.region_cost import checked_rows
from capture_cp.planning.regions import checked_hazard
from capture_cp.spaces.strata import INFEASIBLE, GridStrata, grid_of


class CudaRegionCost:
    """`RegionCost` on a GPU: counts region cells on a grid that contains only the hazard's cells.

    Nothing waits for the GPU, so invalid numbers cannot raise an error: NaN or infinite inputs cost NaN. Work is queued on
    the default stream.
    """

    def __init__(self, cap: Fitted, hazard: Any, alpha: float, weight: float, simultaneous: bool) -> None:
        if callable(hazard) or type(cap.score_) is ParticleBox:
            raise CaptureError(
                "on a GPU, a region cost needs a hazard mask over grid cells and regions of nearest particles; move the "
                "tensors to the CPU with .cpu() first."
            )
        strata = grid_of(cap.strata)
        mask = checked_hazard(hazard, strata.require_grid().size)
        hazards = GridStrata(strata.require_grid(), np.where(mask, strata.labels, INFEASIBLE), strata.names)
        self.cap, self.weight = cap, weight
        thresholds, sizes = cap.group_thresholds(alpha, simultaneous), (cap.n_particles, cap.n_outputs_, alpha, None)
        tables = [ThresholdTable(cap.partition_at(h), thresholds) for h in range(len(cap.steps_))]
        self._steps = [CompiledCuda(table, cap.score_, hazards, *sizes) for table in tables]

    def __call__(self, states: Any, actions: Any, particles: Any, first: int) -> Any:
        """Cost of each step, (n,) or (n, H), from step `first` (from 0) on; arguments as those of `RegionCost`."""
        torch = import_module("torch")
        rows, _ = checked_rows(self.cap, *(tuple(part.shape) for part in (states, actions, particles)))
        parts = [part.to(device=particles.device) for part in (states, actions)]
        x, clouds = torch.cat(parts, dim=-1).double(), particles.double()
        if len(rows) == 1:
            counts = self._count(first, x, clouds)
        elif len(self._steps) == 1:
            counts = self._count(first, x.flatten(0, 1), clouds.flatten(0, 1)).reshape(rows)
        else:
            counts = torch.stack([self._count(first + h, x[:, h], clouds[:, h]) for h in range(rows[1])], dim=1)
        return self.weight * counts.to(particles.dtype)

    def cells(self, h: int, x: Any, clouds: Any) -> Any:
        """Hazard cells of each stratum in regions of step h (from 0), of inputs (n, dx) and particles: (n, M + 1)."""
        return self._steps[min(h, len(self._steps) - 1)].count_cells(x, clouds)

    def _count(self, h: int, x: Any, clouds: Any) -> Any:
        """All hazard cells in the regions, as a tensor (n,)."""
        torch = import_module("torch")
        cells = self.cells(h, x.detach().contiguous(), clouds.detach().contiguous())
        found = torch.as_tensor(cells, device=x.device).sum(dim=1).double()
        sound = x.isfinite().all(dim=1) & clouds.isfinite().flatten(1).all(dim=1)
        return torch.where(sound, found, torch.nan)
