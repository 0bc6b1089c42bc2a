"""Plans made entirely on the GPU: states are copied to it, plans are copied back."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import cuda

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.cuda.arrays import Exchanged, blocks, tuple_on_device
from capture_cp.cuda.graphs import Recorded
from capture_cp.planning.agreement import PLACES
from capture_cp.planning.cuda import average as kernels
from capture_cp.planning.cuda.layout import COMBINING, LINE, Plans, Sampling
from capture_cp.planning.cuda.rolls import HazardRolls, SummedRolls
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.specialise import COMPILING, why


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

    Samples and noise depend only on a plan's key, not on the number of plans made at once or on the GPU. A call with exactly
    `rows` plans is recorded as a CUDA graph, which starts faster.

    Args:
        rollout: model, cost and regions.
        settings: settings of MPPI.
        rows: maximum number of plans at a time.
    """

    def __init__(self, rollout: FusedRollout, settings: Settings, rows: int = 1) -> None:
        self.rollout, self.settings, self.rows = rollout, settings, rows
        parts = rollout.device_parts(settings.horizon, len(settings.low))
        self._sizes, self._rolls = parts.sizes, (SummedRolls if parts.summed else HazardRolls)(parts)
        self._thresholds = rollout.thresholds
        self._sampling = tuple_on_device(Sampling(settings.spread, settings.low, settings.high))
        self._plans = self._buffers(settings.samples)
        again = (settings.elites + 1) * settings.repeats if settings.elites else 0
        self._again = self._plans._replace(**self._sequences(again)) if again else None
        self._stream, self._accepted = cuda.stream(), ((), ())
        self._all_rows = Recorded(partial(_work_of, weakref.ref(self), rows), self._stream)

    def plan(self, states: Floats, temperatures: Any, nominal: Floats, keys: Any) -> tuple[Floats, Floats]:
        """Plans (n, H, da) and the lowest sampled costs (n,).

        From states (n, ds), temperatures (n,), plans to sample around (n, H, da) and keys of the random numbers (n,).
        """
        n, host = len(states), self._exchanged.host
        if (sizes := (states.shape, nominal.shape)) != self._accepted:
            self.rollout.check_sizes(states[0], nominal)
            self._accepted = sizes
        if not self.rollout.tried:
            shape = PLACES, self.settings.horizon, self._sizes.action
            drawn = np.random.default_rng(0).uniform(self.settings.low, self.settings.high, size=shape)
            self.rollout.try_out(np.array(states[0]), drawn)
        self._refresh_thresholds()
        host["states"][:n, :-1], host["states"][:n, -1] = states, temperatures
        host["nominal"][:n], host["keys"][:n] = nominal, keys
        try:
            if n == self.rows:
                self._all_rows()
            else:
                self._work(n, self._stream)
                self._stream.synchronize()
        except (*COMPILING, KeyError) as error:  # KeyError where a NumPy function has no GPU version
            raise CaptureError(
                "the model or the cost does not compile for a GPU, where memory cannot be allocated and few NumPy functions "
                f"are available. Numba reports: {why(error)}."
            ) from error
        self._check(host["trouble"][:n])
        return np.array(host["nominal"][:n]), np.array(host["lowest"][:n])

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

    def _buffers(self, samples: int) -> Plans:
        s, rows, empty = self.settings, self.rows, cuda.device_array
        da, partials = self._sizes.action, blocks(samples, COMBINING)
        self._exchanged = Exchanged(
            states=np.empty((rows, self._sizes.state + 1)),
            keys=np.empty(rows, np.uint64),
            nominal=np.empty((rows, s.horizon, da)),
            trouble=np.empty((rows, 2), np.int64),
            lowest=np.empty(rows),
        )
        return Plans(
            **self._exchanged.device,
            **self._sequences(samples),
            partial=empty((rows, partials, LINE * blocks(2 + s.horizon * da, LINE)), np.float64),
            done=cuda.to_device(np.zeros(rows, np.int32)),
        )

    def _sequences(self, samples: int) -> dict[str, Any]:
        s, rows, empty = self.settings, self.rows, cuda.device_array
        return {
            "sequences": empty((rows, samples, s.horizon, self._sizes.action), np.float64),
            "costs": empty((rows, samples), np.float64),
            "stages": empty((rows, samples, s.horizon), np.float64),
        }

    def _work(self, n: int, stream: Any) -> None:
        """Sample, roll out and average in each iteration, then evaluate the best again, for the first n rows."""
        s, plans = self.settings, self._plans
        self._exchanged.up("states", "nominal", stream)
        for iteration in range(s.iterations):
            self._rolls(plans, self._sampling, n, 2 * iteration + 1, True, stream)
            kernels.average[(plans.partial.shape[1], n), COMBINING, stream](plans)
        if self._again is not None:
            kernels.take_elites[n, COMBINING, stream](plans, s.elites, s.repeats, self._again)
            self._rolls(self._again, self._sampling, n, 2 * s.iterations, False, stream)
            kernels.take_best[n, COMBINING, stream](self._again, s.repeats)
        self._exchanged.down("nominal", "lowest", stream)

    def _refresh_thresholds(self) -> None:
        """Upload thresholds that were replaced since the last plan, as online adaptation does."""
        if self.rollout.thresholds is not self._thresholds:
            self._thresholds = self.rollout.thresholds
            parts = self.rollout.device_parts(self.settings.horizon, self._sizes.action)
            self._rolls.refresh(parts)

    def _check(self, trouble: npt.NDArray[np.int64]) -> None:
        if np.count_nonzero(trouble[:, 0]):
            count, step = trouble[np.flatnonzero(trouble[:, 0])[0]]
            raise CaptureError(
                f"the rollout's stage cost is NaN or infinite for {count} of {self.settings.samples} sequences, "
                f"first at step {step} of {self.settings.horizon}; check the model and the cost there."
            )


def _work_of(plans: weakref.ref[CudaPlans], rows: int, stream: Any) -> None:
    """The work of plans held by a weak reference: a reference cycle would delay the release of their memory."""
    found = plans()
    assert found is not None
    found._work(rows, stream)
