"""Roll-outs with a region a step: through any Python model, or fused into one compiled kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from capture_cp.checks import Bools, CaptureError, Floats, Ints
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.planning.kernel import Calibrated, Cells
from capture_cp.planning.specialise import specialise
from capture_cp.predictor import Capture
from capture_cp.region import grid_of
from capture_cp.spaces.metrics import Euclidean
from capture_cp.spaces.strata import GridStrata


@dataclass(frozen=True)
class Stage:
    """What a cost sees of one step of N sequences.

    Attributes:
        h: the step, 1 to horizon.
        mean: the particles' mean states, (N, ds).
        action: the actions taken, (N, da).
        particles: next configurations, (N, L, dc).
        hazard: hazard cells inside each region, (N,).
    """

    h: int
    horizon: int
    mean: Floats
    action: Floats
    particles: Floats
    hazard: Ints


class BatchedStep(Protocol):
    """A model of the whole state: any callable with this signature."""

    def __call__(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) of states (n, ds) and actions (n, da)."""


class PythonRollout:
    """Rolls particles through any batched Python model: short to write, slow to run.

    Args:
        cap: calibrated predictor whose regions are tested, with a particle score.
        step: approximate model of the whole state, `step(states, actions, rng)`.
        cost: stage costs (N,) of a `Stage`.
        hazard: which grid cells must be avoided, bool (cells,).
        axes: which entries of the state are the configuration.
        alpha: failure rate of the regions.
    """

    def __init__(
        self,
        cap: Capture,
        step: BatchedStep,
        cost: Callable[[Stage], Floats],
        hazard: Any,
        axes: Sequence[int],
        alpha: float = 0.1,
    ) -> None:
        strata = grid_of(cap.strata)
        grid = strata.require_grid()
        self.cap, self.step, self.cost, self.axes, self.alpha = cap, step, cost, list(axes), alpha
        mask = checked_hazard(hazard, grid.size)
        self._hazards = GridStrata(grid, np.where(mask, strata.labels, -1), strata.names)

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""
        samples, horizon, _ = sequences.shape
        particles, rng = self.cap.n_particles, np.random.default_rng(seed)
        states = np.tile(state, (samples, particles, 1))
        costs = np.empty((samples, horizon))
        for h in range(horizon):
            action = sequences[:, h]
            x = np.hstack([states.mean(axis=1), action])
            states = self._next(states, action, rng, h + 1)
            cloud = np.ascontiguousarray(states[..., self.axes])
            stage = Stage(h + 1, horizon, states.mean(axis=1), action, cloud, self._count(x, cloud))
            costs[:, h] = self._cost(stage)
        return costs

    def _next(self, states: Floats, action: Floats, rng: np.random.Generator, h: int) -> Floats:
        flat = states.reshape(-1, states.shape[-1])
        try:
            after = np.asarray(self.step(flat, np.repeat(action, states.shape[1], axis=0), rng), dtype=np.float64)
        except Exception as error:
            raise CaptureError(f"the model raised {type(error).__name__} at step {h} of the roll-out: {error}") from error
        if after.shape != flat.shape or not np.isfinite(after).all():
            raise CaptureError(
                f"the model returned shape {after.shape} or NaN at step {h} of the roll-out; expected finite {flat.shape}."
            )
        return after.reshape(states.shape)

    def _count(self, x: Floats, cloud: Floats) -> Ints:
        q = np.hstack([self.cap.thresholds(x, self.alpha), np.full((len(x), 1), -1.0)])
        return np.asarray(self.cap._score.count_cells(cloud, q, self._hazards).sum(axis=1))

    def _cost(self, stage: Stage) -> Floats:
        try:
            costs = np.asarray(self.cost(stage), dtype=np.float64)
        except Exception as error:
            raise CaptureError(
                f"the cost raised {type(error).__name__} at step {stage.h} of the roll-out: {error}"
            ) from error
        if costs.shape != (len(stage.mean),):
            raise CaptureError(
                f"the cost returned shape {costs.shape} at step {stage.h} of the roll-out; expected ({len(stage.mean)},)."
            )
        return costs


class FusedRollout:
    """Roll-out, thresholds, region test and cost in one compiled kernel.

    Args:
        cap: calibrated predictor: particle scores on the Euclidean metric, their box, or Mahalanobis.
        step, stage_cost: numba functions as in `capture_cp.planning.plugin`.
        params: whatever the two functions need, a flat NamedTuple of arrays and numbers.
        hazard: which grid cells must be avoided, bool (cells,).
        axes: which entries of the state are the configuration.
        noise_dims: standard normals that `step` uses; each sampled sequence draws its own.
        alpha: failure rate of the regions.
        gaussian_scale: for Mahalanobis only, the standard deviation of the configuration at each step, (H,).
    """

    def __init__(
        self,
        cap: Capture,
        step: Any,
        stage_cost: Any,
        params: Any,
        hazard: Any,
        axes: Sequence[int],
        noise_dims: int,
        alpha: float = 0.1,
        gaussian_scale: Any = None,
    ) -> None:
        self._kernel = specialise(step, stage_cost)
        self._params, self._noise_dims, self._particles = params, noise_dims, cap.n_particles
        score = cap._score
        self._k, self._scale = 1, gaussian_scale
        if isinstance(score, Mahalanobis):
            # an isotropic Gaussian's ellipsoid is a ball around its mean: one noise-free particle, thresholds in σ
            if gaussian_scale is None:
                raise CaptureError(
                    "planning with Mahalanobis needs gaussian_scale: the standard deviation at each step, (H,)."
                )
            self._particles, self._noise_dims = 1, 0
        elif isinstance(score, NearestParticles) and isinstance(score._metric, Euclidean):
            self._k = score.k
        elif not isinstance(score, ParticleBox):
            raise CaptureError(f"no fused roll-out for {score!r}; use PythonRollout.")
        self._table = cap.threshold_table(alpha)
        self._partition, self._ambient = cap.partition_, cap._ambient
        self._boxes = isinstance(score, ParticleBox)
        self._cells = hazard_cells(cap, hazard, axes)

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""
        horizon = sequences.shape[1]
        scale = np.ones(horizon) if self._scale is None else np.asarray(self._scale, dtype=np.float64)[:horizon]
        part = self._partition
        cal = Calibrated(
            part.nodes, part.roots, part.stratum_features, self._table.thresholds, self._k, self._ambient, self._boxes, scale
        )
        seed64 = np.uint64(seed)
        return np.asarray(
            self._kernel(state, sequences, self._particles, self._noise_dims, seed64, cal, self._cells, self._params)
        )


def hazard_cells(cap: Capture, hazard: Any, axes: Sequence[int]) -> Cells:
    """The grid as the kernel takes it, with the index box around all hazard cells."""
    strata = grid_of(cap.strata)
    grid = strata.require_grid()
    mask = checked_hazard(hazard, grid.size)
    where = np.nonzero(mask.reshape(grid.shape))
    first = np.array([index.min() if len(index) else 0 for index in where], dtype=np.int64)
    last = np.array([index.max() if len(index) else -1 for index in where], dtype=np.int64)
    shape = np.array(grid.shape, dtype=np.int64)
    order = np.array(axes, dtype=np.int64)
    return Cells(strata.labels, mask, first, last - first + 1, grid.origin, grid.spacing, shape, order)


def checked_hazard(hazard: Any, cells: int) -> Bools:
    """A hazard mask as bool (cells,)."""
    mask = np.ravel(np.asarray(hazard))
    if mask.shape != (cells,) or mask.dtype != np.bool_:
        raise CaptureError(
            f"hazard is {mask.dtype} of {mask.size} cells; expected bool, one for each of the grid's {cells}."
        )
    return np.ascontiguousarray(mask)
