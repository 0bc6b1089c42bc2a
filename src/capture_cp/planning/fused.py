"""Roll-out, thresholds, region test and cost fused into one compiled kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.planning.agreement import RolledOut, check_agreement
from capture_cp.planning.hazard import hazard_runs
from capture_cp.planning.kernel import Calibrated
from capture_cp.planning.numba_errors import COMPILING, why
from capture_cp.planning.python_twin import python_twin
from capture_cp.planning.regions import check_sizes, checked_axes, checked_hazard
from capture_cp.planning.rollout import Rollout
from capture_cp.planning.specialise import specialise
from capture_cp.planning.trial import STEPS, check_signature, stays_inside, try_in_python
from capture_cp.planning.tried import content_key, tried_with
from capture_cp.spaces.metrics import Euclidean
from capture_cp.spaces.strata import grid_of

if TYPE_CHECKING:
    from capture_cp.planning.cuda.plans import CudaPlans, Settings


class DeviceParts(NamedTuple):
    """A roll-out as `cuda_plans` takes it."""

    step: Any
    stage_cost: Any
    sizes: Any
    draws: bool
    regions: Any
    cells: Any
    params: Any


class FusedRollout(Rollout):
    """Roll-out, thresholds, region test and cost in one compiled kernel.

    Args:
        cap: calibrated predictor: particle scores on the Euclidean metric, their box, or Mahalanobis. One-step regions are
            applied along the horizon, as in the paper; a `HorizonCapture` has thresholds for each step.
        step, stage_cost: numba functions as in `capture_cp.planning.plugin`.
        params: whatever the two functions need, a flat NamedTuple of arrays and numbers.
        hazard: which grid cells must be avoided, bool (cells,).
        axes: which entries of the state are the configuration.
        noise_dims: standard normals that `step` uses; each sampled sequence draws its own.
        alpha: failure rate of the regions.
        gaussian_scale: for Mahalanobis only, the standard deviation of the configuration at each step, (H,).
        simultaneous: for `HorizonCapture` only, whether its regions are to hold all at once.
        count_particles: also count particles on hazard cells. A region narrower than a cell may hold no cell's centre, and
            one of k = L / 2 leaves out what only a few particles reach.
        compare_step: compare `step` with the calibrated model before the first plan, and refuse it where they differ at more
            than a third of the places. Pass False if they differ on purpose, or if the model is not at hand.
        check: raises a `CaptureError` for a state (ds,) from which no plan can start; asked before each plan.

    Attributes:
        thresholds: see `Rollout`.
        tried: whether the two functions have been tried, as they are before the first plan.
    """

    on_cuda = True

    def __init__(
        self,
        cap: Fitted,
        step: Any,
        stage_cost: Any,
        params: Any,
        hazard: Any,
        axes: Sequence[int],
        noise_dims: int,
        alpha: float = 0.1,
        gaussian_scale: Any = None,
        simultaneous: bool = False,
        count_particles: bool = False,
        compare_step: bool = True,
        check: Callable[[Floats], None] | None = None,
    ) -> None:
        check_signature("step", step)
        check_signature("stage_cost", stage_cost)
        cap.check_fitted()
        self._kernel, self._step, self._stage_cost = specialise(step, stage_cost, params.__class__), step, stage_cost
        self._check, self._compare_step, self.tried = check, compare_step, False
        self._cap, self._params, self._noise_dims = cap, params, whole_number("noise_dims", noise_dims, 0)
        self._particles, self._k, self._draws = cap.n_particles, 1, True
        self._scale: Floats | None = None
        score = cap.score_
        if type(score) is Mahalanobis:
            # an isotropic Gaussian's ellipsoid is a ball around its mean: one noise-free particle, thresholds in σ
            if gaussian_scale is None:
                raise CaptureError("planning with Mahalanobis needs gaussian_scale: the standard deviation at each step.")
            self._scale = finite_array("gaussian_scale", gaussian_scale, (None,), "(H,): one standard deviation a step")
            if (self._scale < 0).any():
                raise CaptureError("gaussian_scale has negative standard deviations; expected (H,) of at least 0.")
            self._particles, self._draws = 1, False
        elif type(score) is NearestParticles and type(score.metric_) is Euclidean:
            self._k = score.k
        elif type(score) is not ParticleBox:
            raise CaptureError(f"no fused roll-out for {score!r}; use PythonRollout.")
        super().__init__(cap.plan_thresholds(alpha, simultaneous))
        self._partition, self._roots = cap.partition_, cap.partition_.roots.reshape(-1, len(cap.strata.names))
        self._count_cells = type(score) is not ParticleBox
        self._count_particles = count_particles or not self._count_cells
        self._axes = checked_axes(cap, axes)
        strata = grid_of(cap.strata)
        grid = strata.require_grid()
        # a region that ignores the strata reaches into infeasible cells too, with the one threshold it has
        labels = np.maximum(strata.labels, 0) if cap.ambient_ else strata.labels
        self._cells = hazard_runs(grid, labels, checked_hazard(hazard, grid.size), self._axes)

    def check(self, state: Floats) -> None:
        """Refuse a state (ds,) that no plan can start from."""
        if self._check is not None:
            self._check(state)

    def check_sizes(self, state: Floats, sequences: Floats) -> None:
        """Refuse a state (ds,) and sequences (N, H, da) that are not the ones the calibration was made for."""
        check_sizes(self._cap, state, sequences, self._axes)

    def cuda_plans(self, settings: Settings, rows: int) -> CudaPlans:
        """Plans on a GPU, up to `rows` at a time."""
        from capture_cp.planning.cuda.plans import CudaPlans

        return CudaPlans(self, settings, rows)

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""
        self.check_sizes(state, sequences)
        self.check(state)
        inputs = [np.ascontiguousarray(part, dtype=np.float64) for part in (state, sequences)]
        self.try_out(*inputs)
        part, scale = self._partition, self._scales(sequences.shape[1])
        counts = self._count_cells, self._count_particles
        cal = Calibrated(part.nodes, self._roots, part.stratum_features, self.thresholds, self._k, *counts, scale)
        settings = self._particles, self._noise_dims, self._draws, np.uint64(seed)
        try:
            return np.asarray(self._kernel.roll_out(*inputs, *settings, cal, self._cells, self._params))
        except Exception as error:  # of any kind, or a SystemError where two threads raise at once
            raise self._in_words(error, state, sequences) from error

    def try_out(self, state: Floats, sequences: Floats) -> None:
        """Try the two functions once, from state (ds,) along sequences (N, H, da), before compiled code is trusted.

        First in Python, where indices are checked, and then against the calibrated model. What has passed is remembered.
        """
        if self.tried or not len(sequences):
            return
        tried = tried_with(self._cap)
        functions = self._step, self._stage_cost, content_key(self._params)
        key = (*functions, self._noise_dims, self._particles, *self._axes.tolist(), len(state), self._compare_step)
        if key not in tried:
            step, cost = python_twin(self._step), python_twin(self._stage_cost)
            rng = np.random.default_rng(0)
            noise = float(self._draws) * rng.standard_normal((STEPS, self._noise_dims, self._particles))
            try_in_python(step, cost, self._params, state, sequences[0], noise)
            if self._compare_step:
                self._compare(step, state, sequences)
            tried.add(key)
        self.tried = True

    def _compare(self, step: Any, state: Floats, sequences: Floats) -> None:
        """Compare the step, and its Python version, with the calibrated model."""

        def step_each(states: Floats, actions: Floats, noise: Floats) -> None:
            self._kernel.step_each(states, actions, noise, self._params)

        def is_safe(state: Floats, action: Floats) -> bool:
            return stays_inside(step, self._params, state, action, np.zeros((self._noise_dims, 1)))

        rolled = RolledOut(
            self._cap, step_each, is_safe, self._noise_dims, self._draws, self._axes, self._cells.hazard
        )  # fmt: skip
        try:
            check_agreement(rolled, state, sequences)
        except CaptureError:
            raise
        except Exception as error:
            raise self._in_words(error, state, sequences) from error

    def device_parts(self, horizon: int, action_dims: int) -> DeviceParts:
        """What the GPU needs of this roll-out: functions, sizes, and arrays that are still NumPy's."""
        from capture_cp.planning.cuda.layout import Regions, Sizes

        part, strata = self._partition, self.thresholds.shape[0]
        sizes = Sizes(
            part.n_inputs - action_dims, action_dims, self._noise_dims, self._particles, len(self._axes), strata
        )  # fmt: skip
        scaled = np.atleast_1d(1.0 if self._scale is None else self._scales(horizon))[:, None, None] * self.thresholds
        limits = np.asarray(squared_limits(scaled.ravel())).reshape(scaled.shape)
        counts = self._count_cells, self._count_particles
        regions = Regions(part.nodes, self._roots, part.stratum_features, limits, self._k, *counts)
        return DeviceParts(self._step, self._stage_cost, sizes, self._draws, regions, self._cells, self._params)

    def _scales(self, horizon: int) -> Floats:
        """Factor on the thresholds of each step: (H,)."""
        scale = np.ones(horizon) if self._scale is None else self._scale
        if len(scale) < horizon:
            raise CaptureError(f"gaussian_scale has {len(scale)} steps, the plan {horizon}; give one a step.")
        return scale

    def _in_words(self, error: Exception, state: Floats, sequences: Floats) -> CaptureError:
        """What went wrong in the compiled functions."""
        if isinstance(error, COMPILING):
            return CaptureError(f"the model or the cost does not compile. Numba reports: {why(error)}.")
        return CaptureError(f"the compiled model or cost raised an error: {self._trouble(state, sequences)}")

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
