"""Rollout, thresholds, region test and cost fused into one compiled kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, finite_array, whole_number
from capture_cp.base.layouts import BLOCKS, ELLIPSOID, EUCLIDEAN, FUNCTION, PARTICLE_BOX, SE2
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.kernels.compiler import require_compiler
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.planning import plugin
from capture_cp.planning.agreement import RolledOut, check_agreement
from capture_cp.planning.hazard import hazard_cells
from capture_cp.planning.kernel import Calibrated, roll_out, step_each
from capture_cp.planning.plugin import Functions, called_by, checked_functions
from capture_cp.planning.point_test import asked_one_by_one
from capture_cp.planning.probes import POINTS, Probes, check_finite, metric_of, probes_of, rule_of
from capture_cp.planning.regions import check_sizes, checked_axes, checked_hazard
from capture_cp.planning.rollout import Rollout
from capture_cp.planning.steps import step_model_of
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


class DeviceParts(NamedTuple):
    """A rollout in the form that `CudaPlans` needs: functions, sizes, and NumPy arrays."""

    functions: Functions
    sizes: Any
    regions: Any
    hazard: Any  # LabelledCells, or Probes
    params: Any


class FusedRollout(Rollout):
    """Rollout, thresholds, region test and cost in one compiled kernel.

    Args:
        cap: calibrated predictor: particle scores on any compiled metric, their box, or Mahalanobis. One-step regions are
            applied along the horizon, as in the paper; a `HorizonCapture` has thresholds for each step.
        step, stage_cost: numba functions as in `capture_cp.planning.plugin`.
        params: parameters of the two functions, a flat NamedTuple of arrays and numbers.
        hazard: what must be avoided: grid cells, bool (cells,), or a numba function `hazard(y, params)` of a configuration
            (dc,) that returns whether it is on the hazard or its signed distance; None with `sums`. The cost receives the
            number of region cells on it. For a function, and in metrics other than the Euclidean and SE2, the number is
            estimated, see `points`; without a grid, the cost receives a fraction of the region, from 0 to 1.
        axes: which entries of the state are the configuration.
        noise_dims: standard normals that `step` uses; each sampled sequence draws its own.
        alpha: failure rate of the regions.
        gaussian_scale: for Mahalanobis only, the standard deviation of the configuration at each step, (H,).
        simultaneous: for `HorizonCapture` only, whether its regions hold simultaneously.
        count_particles: also count particles on hazard cells. A region narrower than a cell may contain no cell centre, and
            a region with k = L / 2 leaves out what only a few particles reach.
        compare_step: compare `step` with the calibrated model before the first plan, and raise an error if they differ at
            more than a third of the places. Pass False if they differ on purpose, or if the model is not available.
        sums: sums over regions that the cost receives instead of their hazard cells.
        check: raises a `CaptureError` for a state (ds,) from which no plan can start; called before each plan.
        stratum: numba function `stratum(y, params)` that returns the stratum number of a configuration (dc,) as in the
            strata of `cap`; needed for strata without a grid.
        points: number of points around the particles that estimate a hazard where no cells are counted; `hazard_error`
            measures the accuracy.
        steepness: largest change of a signed distance when a configuration moves by 1, if known: regions that are too far
            away are then skipped.

    Attributes:
        thresholds: see `Rollout`.
        tried: whether the two functions have been tried, which happens before the first plan.
    """

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
        sums: RegionSums | None = None,
        check: Callable[[Floats], None] | None = None,
        stratum: Any = None,
        points: int = POINTS,
        steepness: float | None = None,
    ) -> None:
        require_compiler()
        cap.check_fitted()
        self._functions = _functions(cap, step, stage_cost, sums, hazard, stratum)
        self._called = called_by(self._functions)
        self._kernel = partial(roll_out, self._called)
        self._check, self._compare_step, self.tried = check, compare_step, False
        self._cap, self._params, self._noise_dims = cap, params, whole_number("noise_dims", noise_dims, 0)
        self._rule, self._scale = _rule_of(cap.score_, cap.n_outputs_, sums is not None), None
        self._particles, self._draws = cap.n_particles, True
        if type(cap.score_) is Mahalanobis and sums is None:
            # an isotropic Gaussian's ellipsoid is a ball around its mean: one noise-free particle, thresholds in σ
            self._particles, self._draws, self._scale = 1, False, _checked_scale(gaussian_scale)
        super().__init__(cap.plan_thresholds(alpha, simultaneous))
        self._partition, self._roots = cap.partition_, cap.partition_.roots.reshape(-1, len(cap.strata.names))
        self._count_cells = type(cap.score_) is not ParticleBox
        self._count_particles = count_particles or not self._count_cells
        self._axes = checked_axes(cap, axes)
        self._hazard: Bools | None = None
        if sums is None and not callable(hazard):
            self._hazard = checked_hazard(hazard, grid_of(cap.strata).require_grid().size)
        self._regions = self._measured(sums, points, steepness)

    def _measured(self, sums: RegionSums | None, points: int, steepness: float | None) -> Any:
        """What regions are tested against; its class has the functions that do it."""
        if sums is not None:
            return summed_regions(self._cap, sums)
        if self._hazard is None or self._rule[0] in (BLOCKS, FUNCTION):
            labelled = self._functions.stratum is None
            return probes_of(self._cap, self._hazard, labelled, self._particles, points, steepness)
        return hazard_cells(self._cap, self._hazard, labelled=self._rule[0] == SE2)

    _scale: Floats | None

    @property
    def on_cuda(self) -> bool:
        """Whether plans can be made on a GPU."""
        return not isinstance(self._regions, Summed)

    @classmethod
    def from_model(cls, cap: Fitted, stage_cost: Any, hazard: Any, **settings: Any) -> FusedRollout:
        """A rollout of the calibrated model itself, a `StepModel` with a compiled step; settings are those of the class."""
        model = step_model_of(cap, compiled=True)
        return cls(cap, model.step, stage_cost, model.params, hazard, model.axes, model.noise_dims, **settings)

    def check(self, state: Floats) -> None:
        """Reject a state (ds,) that no plan can start from."""
        if self._check is not None:
            self._check(state)

    def parts(self) -> tuple[Any, ...]:
        partition, sizes = self._partition, (self._noise_dims, self._particles, self._draws, self._axes)
        counted = self._rule, self._count_cells, self._count_particles, self._scale, self._hazard
        return *super().parts(), self._functions, self._params, *sizes, *counted, partition.nodes, partition.roots

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
        inputs = [np.ascontiguousarray(part, dtype=np.float64) for part in (state, sequences)]
        self.try_out(*inputs)
        part, counts = self._partition, (self._count_cells, self._count_particles)
        cal = Calibrated(
            part.nodes, self._roots, part.stratum_features, self.thresholds, self._scales(sequences.shape[1]), *self._rule,
            *counts, self._axes, self._particles, self._noise_dims, self._draws,
        )  # fmt: skip
        if isinstance(self._regions, Probes):
            check_finite(self.thresholds)
        try:
            return np.asarray(self._kernel(*inputs, np.uint64(seed), cal, self._regions, self._params))
        except Exception as error:  # of any kind, or a SystemError where two threads raise at once
            raise self._in_words(error, state, sequences) from error

    def try_out(self, state: Floats, sequences: Floats) -> None:
        """Try the two functions once, from state (ds,) along sequences (N, H, da), before the compiled code runs.

        First in Python, where indices are checked, then against the calibrated model. A success is remembered.
        """
        if self.tried or not len(sequences):
            return
        tried = tried_with(self._cap)
        functions = *self._functions, content_key(self._params)
        key = (*functions, self._noise_dims, self._particles, *self._axes.tolist(), len(state), self._compare_step)
        if key not in tried:
            step, cost = python_twin(self._functions.step), python_twin(self._functions.stage_cost)
            rng = np.random.default_rng(0)
            noise = float(self._draws) * rng.standard_normal((STEPS, self._noise_dims, self._particles))
            try_in_python(step, cost, self._params, state, sequences[0], noise, self._seen_at_first(sequences.shape[1]))
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
            step_each(self._called, states, actions, noise, self._params)

        def is_safe(state: Floats, action: Floats) -> bool:
            return stays_inside(step, self._params, state, action, np.zeros((self._noise_dims, 1)))

        draws = type(self._cap.score_) is not Mahalanobis
        rolled = RolledOut(self._cap, stepped, is_safe, self._noise_dims, draws, self._axes, self._is_hazard)
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
        return asked_one_by_one(self._functions.hazard, self._params, Y) < 0

    def device_parts(self, horizon: int, action_dims: int) -> DeviceParts:
        """What the GPU needs of this rollout."""
        from capture_cp.planning.cuda.records import DeviceRegions, Sizes

        if not self.on_cuda:
            raise CaptureError('sums over regions are computed on the CPU only; plan with device="cpu".')
        part, strata, (rule, length, k), hazard = self._partition, len(self.thresholds), self._rule, self._regions
        points = len(hazard.offsets) if isinstance(hazard, Probes) else 0
        if points:
            check_finite(self.thresholds)
        elif self._hazard is not None:
            hazard = hazard_cells(self._cap, self._hazard, labelled=True)
        inputs, tested = (part.n_inputs - action_dims, action_dims, self._noise_dims), (strata, int(rule), points)
        counts = self._draws, self._count_cells, self._count_particles
        sizes = Sizes(*inputs, self._particles, tuple(self._axes.tolist()), *tested, *counts)
        scaled = np.atleast_1d(1.0 if self._scale is None else self._scales(horizon))[:, None, None] * self.thresholds
        limits = np.asarray(squared_limits(scaled.ravel())).reshape(scaled.shape)
        regions = DeviceRegions(part.nodes, self._roots, part.stratum_features, limits, length, k)
        return DeviceParts(self._functions, sizes, regions, hazard, self._params)

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
            self._functions.step(states, sequences[0, 0], np.zeros((self._noise_dims + 2, self._particles)), self._params)
        except Exception as error:
            return f"the model at step 1 of the rollout, {type(error).__name__}: {error}"
        try:
            seen = self._seen_at_first(sequences.shape[1])
            self._functions.stage_cost(states.mean(axis=1), sequences[0, 0], seen, 1, sequences.shape[1], self._params)
        except Exception as error:
            return f"the cost at step 1 of the rollout, {type(error).__name__}: {error}"
        return "not in the first step of the first sequence; try the functions in Python."


def _functions(cap: Fitted, step: Any, stage_cost: Any, sums: RegionSums | None, hazard: Any, stratum: Any) -> Functions:
    """The compiled functions of a rollout, checked; without those that it does not use."""
    found, metric = Functions(step, stage_cost, stratum=stratum), metric_of(cap.score_)
    if isinstance(metric, FunctionMetric):
        found = found._replace(squared=metric.squared)
    if sums is not None:
        found = found._replace(particle_cost=sums.particle_cost, particle_stratum=sums.particle_stratum)
    elif callable(hazard):
        known = stratum is not None or (isinstance(cap.strata, GriddedStrata) and cap.strata.grid is not None)
        if not known and len(cap.strata.names) > 1:
            raise CaptureError(
                "the strata have no grid, so a compiled rollout cannot look them up; give stratum=, a function compiled "
                "with numba.njit, stratum(y, params), that returns the stratum number of one configuration as strata.index "
                "does."
            )
        found = found._replace(hazard=hazard, stratum=stratum if known else plugin.stratum)  # which is 0 everywhere
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
