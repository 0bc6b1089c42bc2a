"""Rollout, thresholds, region test and cost fused into one compiled kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, finite_array
from capture_cp.base.layouts import BLOCKS, ELLIPSOID, EUCLIDEAN, FUNCTION, PARTICLE_BOX, SE2
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.kernels.compiler import require_compiler
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.planning import plugin
from capture_cp.planning.agreement import RolledOut, check_agreement
from capture_cp.planning.hazard import checked_hazard, hazard_cells
from capture_cp.planning.kernel import Calibrated, roll_out, step_each
from capture_cp.planning.plugin import Functions, called_by, checked_functions
from capture_cp.planning.point_test import asked_one_by_one
from capture_cp.planning.probes import PointHazard, Probes, check_finite, metric_of, probes_of, rule_of
from capture_cp.planning.rollout import Rollout, check_sizes, checked_axes
from capture_cp.planning.steps import StepModel, step_model_of
from capture_cp.planning.sums import RegionSums, Seen, Summed, summed_regions
from capture_cp.planning.trial import (
    COMPILING,
    STEPS,
    content_key,
    python_twin,
    stays_inside,
    tried_with,
    try_in_python,
    why,
)
from capture_cp.spaces.metrics import FunctionMetric
from capture_cp.spaces.strata import GriddedStrata, grid_of

if TYPE_CHECKING:
    from capture_cp.planning.cuda.plans import CudaPlans, Settings


class FusedRollout(Rollout):
    """Rollout, thresholds, region test and cost in one compiled kernel.

    Args:
        cap: calibrated predictor: particle scores on any compiled metric, their box, or Mahalanobis. One-step regions are
            applied along the horizon, as in the paper; a `HorizonCapture` has thresholds for each step.
        model: a `StepModel` with a compiled step; its parameters are also those of the cost.
        stage_cost: numba function as in `capture_cp.planning.plugin`.
        hazard: what must be avoided: grid cells, bool (cells,), a numba function as in `capture_cp.planning.plugin`, or a
            `PointHazard` with more about one. The cost receives the number of region cells on it. For a function, and in
            metrics other than the Euclidean and SE2, the number is estimated; without a grid, the cost receives a fraction
            of the region, from 0 to 1. With `RegionSums` the cost receives sums over regions instead.
        alpha: failure rate of the regions.
        simultaneous: for `HorizonCapture` only, whether its regions hold simultaneously.
        gaussian_scale: for Mahalanobis only, the standard deviation of the configuration at each step, (H,).
        count_particles: also count particles on hazard cells. A region narrower than a cell may contain no cell centre, and
            a region with k = L / 2 leaves out what only a few particles reach.
        check: raises a `CaptureError` for a state (ds,) from which no plan can start; called before each plan.
        compare_step: compare the step with the calibrated model before the first plan, and raise an error if they differ at
            more than a third of the places. Pass False if they differ on purpose, or if the model is not available.

    Attributes:
        thresholds: see `Rollout`.
        tried: whether the functions have been tried, which happens before the first plan.
    """

    def __init__(
        self,
        cap: Fitted,
        model: StepModel,
        stage_cost: Any,
        hazard: Any,
        alpha: float = 0.1,
        simultaneous: bool = False,
        gaussian_scale: Any = None,
        count_particles: bool = False,
        check: Callable[[Floats], None] | None = None,
        compare_step: bool = True,
    ) -> None:
        require_compiler()
        cap.check_fitted()
        avoided = hazard if isinstance(hazard, RegionSums | PointHazard) else PointHazard(hazard)
        sums = isinstance(avoided, RegionSums)
        self._cap, self._model = cap, model
        self._functions = _functions(cap, model.step, stage_cost, avoided)
        self._called = called_by(self._functions)
        self._kernel = partial(roll_out, self._called)
        self._check, self._compare_step, self.tried = check, compare_step, False
        self._rule, self._scale = _rule_of(cap.score_, cap.n_outputs_, sums), None
        self._particles, self._draws = cap.n_particles, True
        if type(cap.score_) is Mahalanobis and not sums:
            # an isotropic Gaussian's ellipsoid is a ball around its mean: one noise-free particle, thresholds in σ
            self._particles, self._draws, self._scale = 1, False, _checked_scale(gaussian_scale)
        super().__init__(cap.plan_thresholds(alpha, simultaneous))
        self._partition, self._roots = cap.partition_, cap.partition_.roots.reshape(-1, len(cap.strata.names))
        self._count_cells = type(cap.score_) is not ParticleBox
        self._count_particles = count_particles or not self._count_cells
        self._axes = checked_axes(cap, model.axes)
        self._hazard: Bools | None = None
        if isinstance(avoided, PointHazard) and not callable(avoided.hazard):
            self._hazard = checked_hazard(avoided.hazard, grid_of(cap.strata).require_grid().size)
        self._regions = self._measured(avoided)

    def _measured(self, avoided: RegionSums | PointHazard) -> Any:
        """What regions are tested against; its class has the functions that do it."""
        if isinstance(avoided, RegionSums):
            return summed_regions(self._cap, avoided)
        if self._hazard is None or self._rule[0] in (BLOCKS, FUNCTION):
            return probes_of(self._cap, self._hazard, self._functions.stratum is None, self._particles, avoided)
        return hazard_cells(self._cap, self._hazard, labelled=self._rule[0] == SE2)

    _scale: Floats | None

    @property
    def on_cuda(self) -> bool:
        """Whether plans can be made on a GPU."""
        return not isinstance(self._regions, Summed)

    @classmethod
    def from_model(cls, cap: Fitted, stage_cost: Any, hazard: Any, **settings: Any) -> FusedRollout:
        """A rollout of the calibrated model itself, a `StepModel` with a compiled step; settings are those of the class."""
        return cls(cap, step_model_of(cap, compiled=True), stage_cost, hazard, **settings)

    def check(self, state: Floats) -> None:
        """Reject a state (ds,) that no plan can start from."""
        if self._check is not None:
            self._check(state)

    def parts(self) -> tuple[Any, ...]:
        partition, sizes = self._partition, (self._model.noise_dims, self._particles, self._draws, self._axes)
        counted = self._rule, self._count_cells, self._count_particles, self._scale, self._hazard
        return *super().parts(), self._functions, self._model.params, *sizes, *counted, partition.nodes, partition.roots

    def check_sizes(self, state: Floats, sequences: Floats) -> None:
        """Reject a state (ds,) and sequences (N, H, da) whose sizes do not match the calibration."""
        check_sizes(self._cap, state, sequences, self._axes)

    def cuda_plans(self, settings: Settings, rows: int) -> CudaPlans:
        """Plans on a GPU, up to `rows` at a time."""
        from capture_cp.planning.cuda.plans import CudaPlans

        return CudaPlans(self, settings, rows)

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""
        self.check_sizes(state, sequences)
        self.check(state)
        start, asked = (np.ascontiguousarray(part, dtype=np.float64) for part in (state, sequences))
        self.try_out(start, asked)
        part, counts = self._partition, (self._count_cells, self._count_particles)
        cal = Calibrated(
            part.nodes, self._roots, part.stratum_features, self.thresholds, self._scales(sequences.shape[1]), *self._rule,
            *counts, self._axes, self._particles, self._model.noise_dims, self._draws,
        )  # fmt: skip
        if isinstance(self._regions, Probes):
            check_finite(self.thresholds)
        try:
            return np.asarray(self._kernel(start, asked, np.uint64(seed), cal, self._regions, self._model.params))
        except Exception as error:  # of any kind, or a SystemError where two threads raise at once
            raise self._in_words(error, state, sequences) from error

    def try_out(self, state: Floats, sequences: Floats) -> None:
        """Try the two functions once, from state (ds,) along sequences (N, H, da), before the compiled code runs.

        First in Python, where indices are checked, then against the calibrated model. A success is remembered.
        """
        if self.tried or not len(sequences):
            return
        tried = tried_with(self._cap)
        functions = *self._functions, content_key(self._model.params)
        key = (*functions, self._model.noise_dims, self._particles, *self._axes.tolist(), len(state), self._compare_step)
        if key not in tried:
            step, cost = python_twin(self._functions.step), python_twin(self._functions.stage_cost)
            rng = np.random.default_rng(0)
            noise = float(self._draws) * rng.standard_normal((STEPS, self._model.noise_dims, self._particles))
            try_in_python(
                step, cost, self._model.params, state, sequences[0], noise, self._seen_at_first(sequences.shape[1])
            )
            if self._compare_step:
                self._compare(step, state, sequences)
            tried.add(key)
        self.tried = True

    def _seen_at_first(self, horizon: int) -> Any:
        """Region values to try a cost with: no hazard, or one cell in every stratum."""
        if not isinstance(self._regions, Summed):
            return 0.0 if isinstance(self._regions, Probes) else 0
        kept = min(self._regions.steps, horizon)
        return Seen(np.zeros(horizon), np.ones((kept, len(self.thresholds) + 1), dtype=np.int64), np.zeros(kept))

    def _compare(self, step: Any, state: Floats, sequences: Floats) -> None:
        """Compare the step, and its Python version, with the calibrated model."""

        def stepped(states: Floats, actions: Floats, noise: Floats) -> None:
            step_each(self._called, states, actions, noise, self._model.params)

        def is_safe(state: Floats, action: Floats) -> bool:
            return stays_inside(step, self._model.params, state, action, np.zeros((self._model.noise_dims, 1)))

        draws = type(self._cap.score_) is not Mahalanobis
        rolled = RolledOut(self._cap, stepped, is_safe, self._model.noise_dims, draws, self._axes, self._is_hazard)
        try:
            check_agreement(rolled, state, sequences)
        except CaptureError:
            raise
        except Exception as error:
            raise self._in_words(error, state, sequences) from error

    def _is_hazard(self, Y: Floats) -> Bools:
        """Whether configurations Y (n, dc) are on the hazard: (n,)."""
        if self._hazard is not None:
            cells = grid_of(self._cap.strata).require_grid().cell(Y)
            return np.asarray((cells >= 0) & self._hazard[cells])
        if not isinstance(self._regions, Probes):
            return np.zeros(len(Y), dtype=bool)
        return asked_one_by_one(self._functions.hazard, self._model.params, Y) < 0

    def device_parts(self, horizon: int, action_dims: int) -> tuple[Functions, Any, Any, Any, Any]:
        """What the GPU needs of this rollout: functions, `Sizes`, `DeviceRegions`, hazard cells or points, parameters."""
        from capture_cp.planning.cuda.regions import DeviceRegions, Sizes

        if not self.on_cuda:
            raise CaptureError('sums over regions are computed on the CPU only; plan with device="cpu".')
        part, strata, (rule, length, k), hazard = self._partition, len(self.thresholds), self._rule, self._regions
        points = len(hazard.offsets) if isinstance(hazard, Probes) else 0
        if points:
            check_finite(self.thresholds)
        elif self._hazard is not None:
            hazard = hazard_cells(self._cap, self._hazard, labelled=True)
        inputs, tested = (part.n_inputs - action_dims, action_dims, self._model.noise_dims), (strata, int(rule), points)
        counts = self._draws, self._count_cells, self._count_particles
        sizes = Sizes(*inputs, self._particles, tuple(self._axes.tolist()), *tested, *counts)
        scaled = np.atleast_1d(1.0 if self._scale is None else self._scales(horizon))[:, None, None] * self.thresholds
        limits = np.asarray(squared_limits(scaled.ravel())).reshape(scaled.shape)
        regions = DeviceRegions(part.nodes, self._roots, part.stratum_features, limits, length, k)
        return self._functions, sizes, regions, hazard, self._model.params

    def _scales(self, horizon: int) -> Floats:
        """Factor on the thresholds of each step: (H,)."""
        scale = np.ones(horizon) if self._scale is None else self._scale
        if len(scale) < horizon:
            raise CaptureError(f"gaussian_scale has {len(scale)} steps, the plan {horizon}; give one value per step.")
        return scale

    def _in_words(self, error: Exception, state: Floats, sequences: Floats) -> CaptureError:
        """The error of the compiled functions as a `CaptureError`."""
        if isinstance(error, COMPILING):
            return CaptureError(f"the model or the cost does not compile. Numba reports: {why(error)}.")
        return CaptureError(f"the compiled model or cost raised an error: {self._trouble(state, sequences)}")

    def _trouble(self, state: Floats, sequences: Floats) -> str:
        """The error raised when the compiled functions are called once from Python, where its message is kept."""
        states = np.repeat(np.asarray(state, dtype=np.float64)[:, None], self._particles, axis=1)
        try:
            self._functions.step(
                states, sequences[0, 0], np.zeros((self._model.noise_dims + 2, self._particles)), self._model.params
            )
        except Exception as error:
            return f"the model at step 1 of the rollout, {type(error).__name__}: {error}"
        try:
            seen = self._seen_at_first(sequences.shape[1])
            self._functions.stage_cost(states.mean(axis=1), sequences[0, 0], seen, 1, sequences.shape[1], self._model.params)
        except Exception as error:
            return f"the cost at step 1 of the rollout, {type(error).__name__}: {error}"
        return "not in the first step of the first sequence; try the functions in Python."


def _functions(cap: Fitted, step: Any, stage_cost: Any, avoided: RegionSums | PointHazard) -> Functions:
    """The compiled functions of a rollout, checked; without those that it does not use."""
    found, metric = Functions(step, stage_cost), metric_of(cap.score_)
    if isinstance(metric, FunctionMetric):
        found = found._replace(squared=metric.squared)
    if isinstance(avoided, RegionSums):
        found = found._replace(particle_cost=avoided.particle_cost, particle_stratum=avoided.particle_stratum)
    elif callable(avoided.hazard):
        stratum = avoided.stratum
        known = stratum is not None or (isinstance(cap.strata, GriddedStrata) and cap.strata.grid is not None)
        if not known and len(cap.strata.names) > 1:
            raise CaptureError(
                "the strata have no grid, so a compiled rollout cannot look them up; give PointHazard(..., stratum=), a "
                "function compiled with numba.njit, stratum(y, params), that returns the stratum number of a configuration."
            )
        # without strata, every configuration has number 0
        found = found._replace(hazard=avoided.hazard, stratum=stratum if known else plugin.stratum)
    return checked_functions(found)


def _rule_of(score: Any, dims: int, sums: bool) -> tuple[int, Any, int]:
    """How a kernel tests the regions of a score, see `capture_cp.kernels.cells`: rule, scale and k."""
    if type(score) is Mahalanobis:
        return ELLIPSOID if sums else EUCLIDEAN, 1.0, 1
    if type(score) is ParticleBox:
        return PARTICLE_BOX, 1.0, 1
    particles = type(score) is NearestParticles and score.metric_.kernel(dims) is not None
    if particles and (score.metric_.finds_cells or not sums):
        rule, scale, k = rule_of(score, dims)
        return rule, 1.0 if rule == FUNCTION else scale, k
    raise CaptureError(f"no fused rollout for {score!r}; use PythonRollout.")


def _checked_scale(given: Any) -> Floats:
    """Standard deviations of the configuration at each step, (H,)."""
    if given is None:
        raise CaptureError("planning with Mahalanobis needs gaussian_scale: the standard deviation at each step.")
    scale = finite_array("gaussian_scale", given, (None,), "(H,): one standard deviation per step")
    if (scale < 0).any():
        raise CaptureError("gaussian_scale has negative standard deviations; expected (H,) of at least 0.")
    return scale
