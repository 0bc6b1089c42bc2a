"""Roll-out, thresholds, region test and cost fused into one compiled kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.kernels.cells import ELLIPSOID, PARTICLE_BOX
from capture_cp.kernels.distance import EUCLIDEAN
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.planning.agreement import RolledOut, check_agreement
from capture_cp.planning.hazard import hazard_cells
from capture_cp.planning.records import Calibrated, Seen, Summed
from capture_cp.planning.regions import check_sizes, checked_axes, checked_hazard
from capture_cp.planning.rollout import Rollout
from capture_cp.planning.specialise import COMPILING, Functions, specialise, why
from capture_cp.planning.sums import RegionSums, summed_regions
from capture_cp.planning.trial import (
    STEPS,
    check_signature,
    content_key,
    python_twin,
    stays_inside,
    tried_with,
    try_in_python,
)
from capture_cp.spaces.metrics import of_cells
from capture_cp.spaces.strata import grid_of

if TYPE_CHECKING:
    from capture_cp.planning.cuda.plans import CudaPlans, Settings


class DeviceParts(NamedTuple):
    """A roll-out as `CudaPlans` takes it."""

    functions: Functions
    sizes: Any
    draws: bool
    regions: Any
    cells: Any  # Runs of hazard cells, or Summed
    columns: Any
    params: Any

    @property
    def summed(self) -> bool:
        """Whether the cost sees sums over regions."""
        return isinstance(self.cells, Summed)


class FusedRollout(Rollout):
    """Roll-out, thresholds, region test and cost in one compiled kernel.

    Args:
        cap: calibrated predictor: particle scores on the Euclidean or the SE2 metric, their box, or Mahalanobis. One-step
            regions are applied along the horizon, as in the paper; a `HorizonCapture` has thresholds for each step.
        step, stage_cost: numba functions as in `capture_cp.planning.plugin`.
        params: whatever the two functions need, a flat NamedTuple of arrays and numbers.
        hazard: which grid cells must be avoided, bool (cells,); None with `sums`.
        axes: which entries of the state are the configuration.
        noise_dims: standard normals that `step` uses; each sampled sequence draws its own.
        alpha: failure rate of the regions.
        gaussian_scale: for Mahalanobis only, the standard deviation of the configuration at each step, (H,).
        simultaneous: for `HorizonCapture` only, whether its regions are to hold all at once.
        count_particles: also count particles on hazard cells. A region narrower than a cell may hold no cell's centre, and
            one of k = L / 2 leaves out what only a few particles reach.
        compare_step: compare `step` with the calibrated model before the first plan, and refuse it where they differ at more
            than a third of the places. Pass False if they differ on purpose, or if the model is not at hand.
        sums: what the cost sees of regions in place of their hazard cells.
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
        sums: RegionSums | None = None,
        check: Callable[[Floats], None] | None = None,
    ) -> None:
        functions = Functions(step, stage_cost, *(sums[1:3] if sums else ()))
        for role, function in functions._asdict().items():
            check_signature(role, function)
        cap.check_fitted()
        self._functions, self._kernel = functions, specialise(functions, params.__class__)
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
        self._sums = None if sums is None else summed_regions(cap, sums)
        if self._sums is None:
            self._hazard = checked_hazard(hazard, grid_of(cap.strata).require_grid().size)
            self._runs, self._columns = hazard_cells(cap, self._hazard, self._axes, self._rule[0] == EUCLIDEAN)

    _scale: Floats | None

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
        cal = Calibrated(part.nodes, self._roots, part.stratum_features, self.thresholds, *self._rule, *counts, scale)
        sizes, key = (self._particles, self._noise_dims), np.uint64(seed)
        try:
            if self._sums is not None:
                return np.asarray(self._kernel.weigh(*inputs, *sizes, key, cal, self._axes, *self._sums, self._params))
            chosen = self._draws, key, cal, self._runs, self._columns, self._params
            return np.asarray(self._kernel.roll_out(*inputs, *sizes, *chosen))
        except Exception as error:  # of any kind, or a SystemError where two threads raise at once
            raise self._in_words(error, state, sequences) from error

    def try_out(self, state: Floats, sequences: Floats) -> None:
        """Try the two functions once, from state (ds,) along sequences (N, H, da), before compiled code is trusted.

        First in Python, where indices are checked, and then against the calibrated model. What has passed is remembered.
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
        """What a cost sees of regions, to try it with: no hazard, or a cell in every stratum."""
        if self._sums is None:
            return 0
        kept = min(self._sums[0].steps, horizon)
        return Seen(np.zeros(horizon), np.ones((kept, len(self.thresholds) + 1), dtype=np.int64), np.zeros(kept))

    def _compare(self, step: Any, state: Floats, sequences: Floats) -> None:
        """Compare the step, and its Python version, with the calibrated model."""

        def step_each(states: Floats, actions: Floats, noise: Floats) -> None:
            self._kernel.step_each(states, actions, noise, self._params)

        def is_safe(state: Floats, action: Floats) -> bool:
            return stays_inside(step, self._params, state, action, np.zeros((self._noise_dims, 1)))

        draws, grid = type(self._cap.score_) is not Mahalanobis, grid_of(self._cap.strata).require_grid()
        hazard = self._hazard if self._sums is None else np.zeros(grid.size, dtype=bool)
        rolled = RolledOut(self._cap, step_each, is_safe, self._noise_dims, draws, self._axes, hazard)
        try:
            check_agreement(rolled, state, sequences)
        except CaptureError:
            raise
        except Exception as error:
            raise self._in_words(error, state, sequences) from error

    def device_parts(self, horizon: int, action_dims: int) -> DeviceParts:
        """What the GPU needs of this roll-out: functions, sizes, and arrays that are still NumPy's."""
        from capture_cp.planning.cuda.layout import DeviceRegions, Sizes

        part, strata = self._partition, self.thresholds.shape[0]
        sizes = Sizes(
            part.n_inputs - action_dims, action_dims, self._noise_dims, self._particles, len(self._axes), strata
        )  # fmt: skip
        scaled = np.atleast_1d(1.0 if self._scale is None else self._scales(horizon))[:, None, None] * self.thresholds
        squared = np.asarray(squared_limits(scaled.ravel())).reshape(scaled.shape)
        limits = scaled if self._rule[0] == PARTICLE_BOX else squared
        counts = self._count_cells, self._count_particles
        tree = part.nodes, self._roots, part.stratum_features
        regions = DeviceRegions(*tree, limits, np.ascontiguousarray(scaled), self._axes, *self._rule, *counts)
        cells, columns = (self._runs, self._columns) if self._sums is None else self._sums
        return DeviceParts(self._functions, sizes, self._draws, regions, cells, columns, self._params)

    def _scales(self, horizon: int) -> Floats:
        """Factor on the thresholds of each step: (H,)."""
        scale = np.ones(horizon) if self._scale is None else self._scale
        if len(scale) < horizon:
            raise CaptureError(f"gaussian_scale has {len(scale)} steps, the plan {horizon}; give one per step.")
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
            self._functions.step(states, sequences[0, 0], np.zeros((self._noise_dims + 2, self._particles)), self._params)
        except Exception as error:
            return f"the model at step 1 of the roll-out, {type(error).__name__}: {error}"
        try:
            seen = self._seen_at_first(sequences.shape[1])
            self._functions.stage_cost(states.mean(axis=1), sequences[0, 0], seen, 1, sequences.shape[1], self._params)
        except Exception as error:
            return f"the cost at step 1 of the roll-out, {type(error).__name__}: {error}"
        return "not in the first step of the first sequence; try the functions in Python."


def _rule_of(score: Any, dims: int, sums: bool) -> tuple[int, float, int]:
    """How a kernel tests the regions of a score, see `capture_cp.kernels.cells`: rule, length and k."""
    if type(score) is Mahalanobis:
        return ELLIPSOID if sums else EUCLIDEAN, 1.0, 1
    if type(score) is ParticleBox:
        return PARTICLE_BOX, 1.0, 1
    if type(score) is NearestParticles and score.metric_.finds_cells:
        return *of_cells(score.metric_, dims), int(score.k)
    raise CaptureError(f"no fused roll-out for {score!r}; use PythonRollout.")


def _checked_scale(given: Any) -> Floats:
    """Standard deviations of the configuration at each step, (H,)."""
    if given is None:
        raise CaptureError("planning with Mahalanobis needs gaussian_scale: the standard deviation at each step.")
    scale = finite_array("gaussian_scale", given, (None,), "(H,): one standard deviation a step")
    if (scale < 0).any():
        raise CaptureError("gaussian_scale has negative standard deviations; expected (H,) of at least 0.")
    return scale
