"""Model predictive path integral control: sample action sequences, roll them out, average them by their cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.arrays import identity
from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.base.streams import seed_sequence
from capture_cp.cuda.device import Device, chosen_device, require_cuda
from capture_cp.planning.rollout import Rollout

if TYPE_CHECKING:
    from capture_cp.planning.cuda.plans import CudaPlans


_NUMBERS = (int, float, np.number)


class MPPI:
    """Plans by sampling around the last plan (Algorithm 1, line 11).

    Args:
        rollout: stage costs of action sequences; `PythonRollout` for any Python model, `FusedRollout` for compiled ones, or
            your own function `cost(state (ds,), sequences (N, H, da), seed)` that returns costs (N, H).
        horizon: steps H of a plan.
        samples: action sequences N tried at each step.
        temperature: λ; small values follow the best samples, large ones average over many. In units of the cost. Give a
            function of the state (ds,) if costs shrink along the way, for example with the distance to a goal.
        noise: covariance (da, da) of the action perturbations.
        low, high: bounds of the action, (da,).
        iterations: how often sampling and averaging are repeated in one plan.
        elites: how many of the best samples compete with their average; 0 uses the average without a check. An average of
            paths left and right of a pit leads into it, and the best of many samples may have a low cost by chance. So each
            is rolled out again, and the best on fresh noise is used. This takes (elites + 1) * repeats extra rollouts.
        repeats: rollouts behind each comparison, each with its own noise.
        seed: fixes every random number of every plan.
        device: "cuda" plans entirely on a GPU, which requires a `FusedRollout`; its random numbers differ from those of the
            CPU. "auto" uses a GPU if there is one and the rollout can run there.
    """

    def __init__(
        self,
        rollout: Rollout | Callable[[Floats, Floats, int], Floats],
        horizon: int,
        samples: int,
        temperature: float | Callable[[Floats], float],
        noise: Any,
        low: Any,
        high: Any,
        iterations: int = 1,
        elites: int = 0,
        repeats: int = 16,
        seed: int = 0,
        device: Device = "cpu",
    ) -> None:
        self.rollout = rollout
        on_cuda = isinstance(rollout, Rollout) and rollout.on_cuda
        self.device = chosen_device("cpu" if device == "auto" and not on_cuda else device)
        self.horizon = whole_number("horizon", horizon, 1)
        self.samples = whole_number("samples", samples, 1)
        self.iterations = whole_number("iterations", iterations, 1)
        self.elites, self.repeats = whole_number("elites", elites, 0), whole_number("repeats", repeats, 1)
        self.low, self.high = (finite_array("action bounds", bound, (None,), "(da,)") for bound in (low, high))
        if self.low.shape != self.high.shape or not (self.low < self.high).all():
            raise CaptureError(
                f"action bounds {self.low.tolist()} to {self.high.tolist()} are not an interval on each axis."
            )
        self.temperature = temperature
        if not callable(temperature):
            self.temperature_at(self.low)
        da = len(self.low)
        covariance = finite_array("noise", noise, (da, da), "(da, da): covariance of the action perturbations")
        try:
            if not np.allclose(covariance, covariance.T):
                raise np.linalg.LinAlgError
            self._spread = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            raise CaptureError("noise is not a covariance: it must be symmetric and positive definite.") from None
        self._seeds = seed_sequence(whole_number("seed", seed, 0), "MPPI")
        self.reset()

    #: Kept between plans, as it holds compiled code and GPU memory.
    _device_plans: CudaPlans | None = None

    def reset(self) -> None:
        """Forget the last plan, and restart the random numbers."""
        self.nominal: Floats = np.zeros((self.horizon, len(self.low)))
        self._rng = np.random.default_rng(self._seeds)

    def identity(self) -> str:
        """Digest of all that its plans depend on, except the seed and the device; see `capture_cp.base.arrays.identity`."""
        sizes = self.horizon, self.samples, self.iterations, self.elites, self.repeats
        costs = self.rollout.parts() if isinstance(self.rollout, Rollout) else self.rollout
        return identity(sizes, self.low, self.high, self._spread, self.temperature, costs)

    def plan(self, state: Any) -> Floats:
        """The next action (da,) from a state (ds,); the whole plan is then in `nominal` (H, da)."""
        state = finite_array("state", state, (None,), "(ds,)")
        plan = one_step_on(self.nominal)
        if self.device == "cuda":
            return self._plan_on_device(state, plan)
        for _ in range(self.iterations):
            sequences = self._sample(plan)
            costs = self._total(state, sequences)
            plan = self._average(sequences, costs, self.temperature_at(state))
        if self.elites:
            plan = self._best_again(state, np.concatenate([plan[None], sequences[np.argsort(costs)[: self.elites]]]))
        self.nominal, self.costs = plan, costs
        return np.array(self.nominal[0])

    def on_device(self, rows: int = 1) -> CudaPlans:
        """This planner's rollout on the GPU, for up to `rows` plans at a time."""
        require_cuda()
        from capture_cp.planning.cuda.plans import Settings

        again = self.iterations, self.elites, self.repeats
        settings = Settings(self.horizon, self.samples, self._spread, self.low, self.high, *again)
        return self.checked_rollout().cuda_plans(settings, rows)

    def checked_rollout(self) -> Rollout:
        """The rollout, checked not to be a plain function."""
        if isinstance(self.rollout, Rollout):
            return self.rollout
        raise CaptureError(f"the rollout is {self.rollout!r}; expected a Rollout, such as FusedRollout.")

    def _plan_on_device(self, state: Floats, plan: Floats) -> Floats:
        if self._device_plans is None:
            self._device_plans = self.on_device()
        self.checked_rollout().check(state)
        key = self._rng.bit_generator.random_raw() >> 2  # `integers(2**62)`, sooner
        plans, self.costs = self._device_plans.plan(state[None], self.temperature_at(state), plan[None], key)
        self.nominal = plans[0]
        return np.array(self.nominal[0])

    def _sample(self, plan: Floats) -> Floats:
        """Perturbed action sequences within bounds: (N, H, da)."""
        normals = self._rng.standard_normal((self.samples, self.horizon, len(self.low)))
        return np.clip(plan + normals @ self._spread.T, self.low, self.high)

    def _total(self, state: Floats, sequences: Floats) -> Floats:
        try:
            stages = np.asarray(self.rollout(state, sequences, int(self._rng.integers(2**62))), dtype=np.float64)
        except (TypeError, ValueError) as error:
            if isinstance(error, CaptureError):
                raise
            raise CaptureError(f"the rollout raised {type(error).__name__}: {error}; expected costs (N, H).") from error
        if stages.shape != sequences.shape[:2]:
            raise CaptureError(
                f"the rollout returned costs of shape {stages.shape}; expected (N, H) = {sequences.shape[:2]}."
            )
        check_stages(stages)
        return np.asarray(stages.sum(axis=1))

    def _best_again(self, state: Floats, plans: Floats) -> Floats:
        """The plan (H, da) among several (c, H, da) with the lowest cost on fresh noise."""
        costs = self._total(state, np.repeat(plans, self.repeats, axis=0)).reshape(len(plans), self.repeats)
        return np.asarray(plans[int(costs.mean(axis=1).argmin())])

    def temperature_at(self, state: Floats) -> float:
        """The temperature of a plan from a state (ds,)."""
        given = self.temperature(state) if callable(self.temperature) else self.temperature
        if not (isinstance(given, _NUMBERS) and math.isfinite(given) and given > 0):
            raise CaptureError(f"temperature is {given!r}; expected a positive number, in the unit of the cost.")
        return float(given)

    def _average(self, sequences: Floats, costs: Floats, temperature: float) -> Floats:
        """Average of the sequences, weighted by exp(-cost / λ): (H, da)."""
        weights = np.exp((costs.min() - costs) / temperature)
        return np.asarray(np.tensordot(weights / weights.sum(), sequences, axes=1))


def one_step_on(plan: Floats) -> Floats:
    """A plan (H, da) one step later, its last action repeated."""
    return np.concatenate([plan[1:], plan[-1:]])


def check_stages(stages: Floats) -> None:
    """Raise an error for stage costs (N, H) that are not all finite."""
    bad = ~np.isfinite(stages)
    if bad.any():
        raise CaptureError(
            f"the rollout's stage cost is NaN or infinite for {int(bad.any(axis=1).sum())} of {len(stages)} sequences, "
            f"first at step {int(np.flatnonzero(bad.any(axis=0))[0]) + 1} of {stages.shape[1]}; check the model and the "
            "cost there."
        )
