"""Rolling out the sequences of plans on the GPU: hazard cells of every step, or sums over regions of the first steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.layouts import ELLIPSOID, EUCLIDEAN, Regions
from capture_cp.cuda import cells
from capture_cp.cuda.arrays import blocks, tuple_on_device
from capture_cp.cuda.exact import unfused
from capture_cp.planning.cuda import rollout, sums
from capture_cp.planning.cuda.layout import THREADS, Plans, Sampling, Work, layout_of
from capture_cp.planning.fused import DeviceParts
from capture_cp.planning.hazard import distance_from_hazard
from capture_cp.planning.specialise import specialise_cuda


class Rolls:
    """A rollout on the GPU; calling it draws the sequences of plans, or takes those there are, and computes their costs."""

    def __init__(self, parts: DeviceParts, template: Any) -> None:
        self.kernels = specialise_cuda(template, parts.functions, parts.sizes, parts.params.__class__)
        self.sizes, self.draws = parts.sizes, parts.draws
        self.regions, self.cells = tuple_on_device(parts.regions), tuple_on_device(parts.cells)
        self.columns, self.params = tuple_on_device(parts.columns), tuple_on_device(parts.params)

    def refresh(self, parts: DeviceParts) -> None:
        """Replace the thresholds."""
        self.regions.limits.copy_to_device(parts.regions.limits)
        self.regions.thresholds.copy_to_device(parts.regions.thresholds)
        self.regions.widest.copy_to_device(parts.regions.widest)


class HazardRolls(Rolls):
    """Hazard cells of the region of every step, in one kernel."""

    def __init__(self, parts: DeviceParts) -> None:
        super().__init__(parts, rollout)
        self.layout = layout_of(parts.sizes)
        in_runs = parts.sizes.rule == EUCLIDEAN and not parts.sizes.points
        self.clear = cuda.to_device(distance_from_hazard(parts.cells) if in_runs else np.zeros(1, np.float32))

    def __call__(self, plans: Plans, sampling: Sampling, n: int, purpose: int, draws_actions: bool, stream: Any) -> None:
        """Stage costs of the sequences of the first n plans."""
        lanes, groups, _ = self.layout
        grid, block = (blocks(plans.costs.shape[1], groups), n), (lanes, groups)
        chosen = self.draws, self.regions, self.cells, self.columns, self.clear, self.params
        self.kernels.roll_out[grid, block, stream](plans, sampling, draws_actions, purpose, *chosen)


class SummedRolls(Rolls):
    """Sums over the regions of the first steps, in four kernels that round as the CPU does."""

    def __init__(self, parts: DeviceParts) -> None:
        super().__init__(parts, sums)
        self.work: dict[int, Work] = {}

    def __call__(self, plans: Plans, sampling: Sampling, n: int, purpose: int, draws_actions: bool, stream: Any) -> None:
        """Stage costs of the sequences of the first n plans."""
        _, samples, horizon = plans.stages.shape
        work = self.work[samples] = self.work.get(samples) or self._room(*plans.sequences.shape[:3])
        kept, rolled = work.cells.shape[2], blocks(samples * self.sizes.particles, THREADS)
        found = Regions(
            self.regions.rule, self.regions.length, self.regions.k, work.clouds, self._whiten, self.cells.is_angle
        )  # fmt: skip
        counts, weights = work.cells.reshape(work.limits.shape), work.sums.reshape(work.limits.shape[0])
        boxes = work.limits, work.first, work.extent
        if draws_actions:
            self.kernels.draw_sequences[(blocks(samples * horizon, THREADS), n), THREADS, stream](
                plans, sampling, purpose - 1
            )
        with unfused():
            chosen = self.regions, self.cells, work, self.params
            self.kernels.roll_particles[(rolled, n), THREADS, stream](plans, purpose, *chosen)
            boxed = self.regions, self.cells, self.columns, work
            self.kernels.find_regions[(blocks(samples * kept, THREADS), n), THREADS, stream](plans, *boxed)
            cells.count_cells[n * samples * kept, cells.THREADS, stream](found, *boxes, self.columns, counts, weights)
            self.kernels.price[(blocks(samples, THREADS), n), THREADS, stream](plans, self.regions, work, self.params)

    @property
    def _whiten(self) -> Any:
        """The whitening of all ellipsoids, (1, dc, dc)."""
        return self.cells.whiten.reshape(1, *self.cells.whiten.shape)

    def _room(self, rows: int, samples: int, horizon: int) -> Work:
        ds, _, _, particles, axes, strata, _, _ = self.sizes
        kept, empty = min(self.cells.steps, horizon), cuda.device_array
        regions, in_region = rows * samples * kept, 1 if self.regions.rule == ELLIPSOID else particles
        return Work(
            states=empty((rows, samples, horizon, ds, particles), np.float64),
            alone=empty((rows, samples, ds, 1), np.float64),
            particles=empty((rows, samples, horizon), np.float64),
            clouds=empty((regions, in_region, len(axes)), np.float64),
            limits=empty((regions, strata + 1), np.float64),
            first=empty((regions, len(axes)), np.int64),
            extent=empty((regions, len(axes)), np.int64),
            cells=empty((rows, samples, kept, strata + 1), np.int64),
            sums=empty((rows, samples, kept), np.float64),
        )
