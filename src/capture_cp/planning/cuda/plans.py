"""Plans made entirely on the GPU: states are copied to it, plans are copied back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import cuda

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.cuda.arrays import tuple_on_device
from capture_cp.planning.agreement import PLACES
from capture_cp.planning.cuda.regions import THREADS
from capture_cp.planning.cuda.rollout import AVERAGING, Plans, Sampling, average, rollout_kernel, take_elites
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.mppi import check_stages
from capture_cp.planning.trial import COMPILING, why


class Settings(NamedTuple):
    """MPPI's settings, as `MPPI` checked them."""

    horizon: int
    samples: int
    spread: npt.NDArray[np.floating[Any]]
    low: Floats
    high: Floats
    iterations: int = 1
    elites: int = 0
    repeats: int = 1


class CudaPlans:
    """Plans of one rollout from up to `rows` states at a time.

    Samples and noise depend only on a plan's key, not on the number of plans made at once or on the GPU.

    Args:
        rollout: model, cost and regions.
        settings: settings of MPPI.
        rows: maximum number of plans at a time.
    """

    def __init__(self, rollout: FusedRollout, settings: Settings, rows: int = 1) -> None:
        self.rollout, self.settings, self.rows = rollout, settings, rows
        functions, self._sizes, *arrays = rollout.device_parts(settings.horizon, len(settings.low))
        self._thresholds, self._kernel = rollout.thresholds, rollout_kernel(functions, self._sizes)
        self._regions, self._hazard, self._params = map(tuple_on_device, arrays)
        self._sampling = tuple_on_device(Sampling(settings.spread, settings.low, settings.high))
        empty, horizon, da = cuda.device_array, settings.horizon, self._sizes.action
        self._plans = Plans(
            states=empty((rows, self._sizes.state + 1), np.float64),
            keys=empty(rows, np.uint64),
            nominal=empty((rows, horizon, da), np.float64),
            lowest=empty(rows, np.float64),
            **self._sequences(settings.samples),
        )
        again = (settings.elites + 1) * settings.repeats
        self._again = self._plans._replace(**self._sequences(again)) if settings.elites else None

    def plan(self, states: Floats, temperatures: Any, nominal: Floats, keys: Any) -> tuple[Floats, Floats]:
        """Plans (n, H, da) and the lowest sampled costs (n,).

        From states (n, ds), temperatures (n,), plans to sample around (n, H, da) and keys of the random numbers (n,).
        """
        self._try_out(states, nominal)
        self._refresh_thresholds()
        n, s, plans = len(states), self.settings, self._plans
        given = np.empty((n, self._sizes.state + 1))
        given[:, :-1], given[:, -1] = states, temperatures
        plans.states[:n].copy_to_device(given)
        plans.nominal[:n].copy_to_device(np.ascontiguousarray(nominal))
        plans.keys[:n].copy_to_device(np.broadcast_to(np.asarray(keys, dtype=np.uint64), n).copy())
        for iteration in range(s.iterations):
            self._roll_out(plans, n, 2 * iteration + 1)
            average[(s.horizon * self._sizes.action, n), AVERAGING](plans)
        lowest = plans.lowest[:n].copy_to_host()
        self._check(plans, n, lowest)
        best = plans.nominal[:n].copy_to_host() if self._again is None else self._best_again(self._again, n)
        return np.asarray(best), np.asarray(lowest)

    @property
    def costs(self) -> Floats:
        """Costs of the sequences sampled last: (rows, N)."""
        return np.asarray(self._plans.costs.copy_to_host())

    @property
    def stages(self) -> Floats:
        """Stage costs of the sequences sampled last: (rows, N, H)."""
        return np.asarray(self._plans.stages.copy_to_host())

    @property
    def sequences(self) -> Floats:
        """The sequences sampled last: (rows, N, H, da)."""
        return np.asarray(self._plans.sequences.copy_to_host())

    # -- parts --------------------------------------------------------------------------------------------------------

    def _sequences(self, samples: int) -> dict[str, Any]:
        shape, empty = (self.rows, samples, self.settings.horizon), cuda.device_array
        return {
            "sequences": empty((*shape, self._sizes.action), np.float64),
            "stages": empty(shape, np.float64),
            "costs": empty(shape[:2], np.float64),
        }

    def _roll_out(self, plans: Plans, n: int, purpose: int) -> None:
        """Costs of the sequences of the first n plans."""
        given = self._sampling, purpose, self._regions, self._hazard, self._params
        try:
            self._kernel[(plans.costs.shape[1], n), THREADS](plans, *given)
        except (*COMPILING, KeyError) as error:  # KeyError where a NumPy function has no GPU version
            raise CaptureError(
                "the model or the cost does not compile for a GPU, where memory cannot be allocated and few NumPy functions "
                f"are available. Numba reports: {why(error)}."
            ) from error

    def _best_again(self, again: Plans, n: int) -> Floats:
        """The plans (n, H, da) with the lowest costs on fresh noise: among the averages and the best sequences."""
        s, copies = self.settings, again.costs.shape[1]
        order = np.argsort(self._plans.costs[:n].copy_to_host(), axis=1, kind="stable")[:, : s.elites]
        take_elites[(copies, n), THREADS](self._plans, cuda.to_device(np.ascontiguousarray(order)), s.repeats, again)
        self._roll_out(again, n, 2 * s.iterations)
        costs = again.costs[:n].copy_to_host()
        self._check(again, n, costs)
        best = s.repeats * costs.reshape(n, -1, s.repeats).sum(axis=2).argmin(axis=1)
        return np.asarray(again.sequences[:n].copy_to_host()[np.arange(n), best])

    def _try_out(self, states: Floats, nominal: Floats) -> None:
        """Try the rollout's functions before the first plan."""
        self.rollout.check_sizes(states[0], nominal)
        if not self.rollout.tried:
            shape = PLACES, self.settings.horizon, self._sizes.action
            drawn = np.random.default_rng(0).uniform(self.settings.low, self.settings.high, size=shape)
            self.rollout.try_out(np.array(states[0]), drawn)

    def _refresh_thresholds(self) -> None:
        """Upload thresholds that were replaced since the last plan, as online adaptation does."""
        if self.rollout.thresholds is not self._thresholds:
            self._thresholds = self.rollout.thresholds
            _, _, regions, _, _ = self.rollout.device_parts(self.settings.horizon, self._sizes.action)
            self._regions.limits.copy_to_device(regions.limits)

    def _check(self, plans: Plans, n: int, costs: Floats) -> None:
        """Report stage costs that are not finite, if any of these costs is not."""
        if not np.isfinite(costs).all():
            for stages in plans.stages[:n].copy_to_host():
                check_stages(stages)
