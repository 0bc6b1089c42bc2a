"""Roll-outs with a region a step: through any Python model, or fused into one compiled kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba.core.errors import NumbaError

from capture_cp.checks import Bools, CaptureError, Floats, Ints, failure_rate, finite_array, whole_number
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.planning.hazard import hazard_runs
from capture_cp.planning.kernel import Calibrated
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
        cap._check_fitted()
        strata = grid_of(cap.strata)
        grid = strata.require_grid()
        if cap._score.ambient:
            raise CaptureError(f"no Python roll-out for {cap._score!r}, which has no particles; use FusedRollout.")
        self.cap, self.step, self.cost, self.alpha = cap, step, cost, failure_rate(alpha)
        self.axes = checked_axes(cap, axes).tolist()
        mask = checked_hazard(hazard, grid.size)
        self._hazards = GridStrata(grid, np.where(mask, strata.labels, -1), strata.names)

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""
        check_sizes(self.cap, state, sequences, self.axes)
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
        if type(self.cap._score) is ParticleBox:
            cells = self._hazards.index(cloud.reshape(-1, cloud.shape[-1])).reshape(cloud.shape[:2])
            return np.asarray((cells >= 0).sum(axis=1))
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
        for name, function in (("step", step), ("stage_cost", stage_cost)):
            if not hasattr(function, "py_func"):
                raise CaptureError(f"{name} is {function!r}; expected a function compiled with numba.njit.")
        cap._check_fitted()
        self._kernel, self._step, self._stage_cost = specialise(step, stage_cost), step, stage_cost
        self._cap, self._params, self._noise_dims = cap, params, whole_number("noise_dims", noise_dims, 0)
        self._particles, self._k, self._draws = cap.n_particles, 1, True
        self._scale: Floats | None = None
        score = cap._score
        if type(score) is Mahalanobis:
            # an isotropic Gaussian's ellipsoid is a ball around its mean: one noise-free particle, thresholds in σ
            if gaussian_scale is None:
                raise CaptureError("planning with Mahalanobis needs gaussian_scale: the standard deviation at each step.")
            self._scale = finite_array("gaussian_scale", gaussian_scale, (None,), "(H,): one standard deviation a step")
            if (self._scale < 0).any():
                raise CaptureError("gaussian_scale has negative standard deviations; expected (H,) of at least 0.")
            self._particles, self._draws = 1, False
        elif type(score) is NearestParticles and type(score._metric) is Euclidean:
            self._k = score.k
        elif type(score) is not ParticleBox:
            raise CaptureError(f"no fused roll-out for {score!r}; use PythonRollout.")
        self._table = cap.threshold_table(alpha)
        self._partition = cap.partition_
        self._boxes = type(score) is ParticleBox
        self._axes = checked_axes(cap, axes)
        strata = grid_of(cap.strata)
        grid = strata.require_grid()
        # a region that ignores the strata reaches into infeasible cells too, with the one threshold it has
        labels = np.maximum(strata.labels, 0) if cap._ambient else strata.labels
        self._cells = hazard_runs(grid, labels, checked_hazard(hazard, grid.size), self._axes)

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""
        check_sizes(self._cap, state, sequences, self._axes)
        horizon = sequences.shape[1]
        scale = np.ones(horizon) if self._scale is None else self._scale
        if len(scale) < horizon:
            raise CaptureError(f"gaussian_scale has {len(scale)} steps, the plan {horizon}; give one a step.")
        part = self._partition
        cal = Calibrated(part.nodes, part.roots, part.stratum_features, self._table.thresholds, self._k, self._boxes, scale)
        inputs = (np.ascontiguousarray(part, dtype=np.float64) for part in (state, sequences))
        settings = self._particles, self._noise_dims, self._draws, np.uint64(seed)
        try:
            return np.asarray(self._kernel(*inputs, *settings, cal, self._cells, self._params))
        except NumbaError as error:
            raise CaptureError(
                "the model or cost does not compile for these arguments; expected step(states, action, noise, params) and "
                f"stage_cost(mean, action, hazard, h, horizon, params). Numba says: {str(error).strip().splitlines()[-1]}"
            ) from error
        except Exception as error:  # of any kind, or a SystemError where two threads raise at once
            raise CaptureError(f"the compiled model or cost raised an error: {self._trouble(state, sequences)}") from error

    def _trouble(self, state: Floats, sequences: Floats) -> str:
        """What the compiled functions say when called once from Python, where their errors keep their words."""
        states = np.repeat(np.asarray(state, dtype=np.float64)[:, None], self._particles, axis=1)
        try:
            self._step(states, sequences[0, 0], np.zeros((self._noise_dims + 2, self._particles)), self._params)
        except Exception as error:
            return f"the model at step 1 of the roll-out, {type(error).__name__}: {error}"
        try:
            self._stage_cost(states.mean(axis=1), sequences[0, 0], 0, 1, sequences.shape[1], self._params)
        except Exception as error:
            return f"the cost at step 1 of the roll-out, {type(error).__name__}: {error}"
        return "not in the first step of the first sequence; try the functions in Python."


def checked_axes(cap: Capture, axes: Sequence[int]) -> Ints:
    """Which entries of the state are the configuration, one for each axis of the grid."""
    dims, order = grid_of(cap.strata).require_grid().dims, np.asarray(axes)
    sound = order.shape == (dims,) and order.dtype.kind in "iu" and len(set(order.tolist())) == dims
    if not sound or order.min() < 0 or order.max() >= cap.n_inputs_:
        raise CaptureError(
            f"axes are {tuple(axes)}; expected {dims} different entries of the state, one an axis of the grid."
        )
    return order.astype(np.int64)


def check_sizes(cap: Capture, state: Floats, sequences: Floats, axes: Any) -> None:
    """Refuse a state and actions that are not the ones the calibration was made for."""
    if state.ndim != 1 or sequences.ndim != 3 or len(state) + sequences.shape[2] != cap.n_inputs_ or max(axes) >= len(state):
        raise CaptureError(
            f"a state of shape {state.shape} and actions of shape {sequences.shape} do not make up the "
            f"{cap.n_inputs_} inputs of the calibration, or the axes of the configuration lie outside the state."
        )


def checked_hazard(hazard: Any, cells: int) -> Bools:
    """A hazard mask as bool (cells,)."""
    mask = np.ravel(np.asarray(hazard))
    if mask.shape != (cells,) or mask.dtype != np.bool_:
        raise CaptureError(
            f"hazard is {mask.dtype} of {mask.size} cells; expected bool, one for each of the grid's {cells}."
        )
    return np.ascontiguousarray(mask)
