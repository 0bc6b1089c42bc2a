"""The interface between planner and rollout, and rollouts through any Python model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.fitted import Fitted
from capture_cp.data.rollouts import BatchedStep, advance
from capture_cp.planning.hazard_count import HazardCount
from capture_cp.planning.probes import POINTS
from capture_cp.planning.steps import step_model_of

if TYPE_CHECKING:
    from capture_cp.planning.cuda.plans import CudaPlans, Settings


class Rollout(ABC):
    """Stage costs of action sequences, with one region per step: the cost that `MPPI` plans with.

    Attributes:
        thresholds: of every group in every stratum, (M, J); may be replaced between plans by others of that shape, as online
            adaptation does. The array is read-only, so every threshold that a kernel reads was checked here.
    """

    def __init__(self, thresholds: Floats) -> None:
        self._thresholds = _read_only(thresholds)

    @abstractmethod
    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""

    @abstractmethod
    def check(self, state: Floats) -> None:
        """Reject a state (ds,) that no plan can start from."""

    def parts(self) -> tuple[Any, ...]:
        """The objects that its costs depend on, for the identity of a planner."""
        return type(self).__name__, self._thresholds

    @property
    def on_cuda(self) -> bool:
        """Whether plans can be made entirely on a GPU."""
        return False

    def cuda_plans(self, settings: Settings, rows: int) -> CudaPlans:
        """Plans on a GPU, up to `rows` at a time."""
        raise CaptureError(
            f'planning on device "cuda" needs a FusedRollout, whose functions are compiled; {type(self).__name__} calls '
            'Python. Use a FusedRollout, or device "cpu".'
        )

    @property
    def thresholds(self) -> Floats:
        return self._thresholds

    @thresholds.setter
    def thresholds(self, given: Any) -> None:
        shape = self._thresholds.shape
        try:
            found = np.array(given, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise CaptureError(f"thresholds are not an array of numbers ({error}); expected shape {shape}.") from None
        if found.shape != shape:
            raise CaptureError(
                f"thresholds have shape {found.shape}; expected {shape}: one for every stratum and group of the calibration."
            )
        if np.isnan(found).any():
            raise CaptureError(
                f"thresholds have {int(np.isnan(found).sum())} NaN; expected numbers, infinite where a region includes its "
                "whole stratum, negative where it is empty."
            )
        self._thresholds = _read_only(found)


def _read_only(array: Floats) -> Floats:
    array.flags.writeable = False
    return array


@dataclass(frozen=True)
class Stage:
    """The arguments of a cost for one step of N sequences.

    Attributes:
        h: the step, 1 to horizon.
        mean: the particles' mean states, (N, ds).
        action: the actions taken, (N, da).
        particles: next configurations, (N, L, dc).
        hazard: hazard cells inside each region, (N,); estimated for a hazard function, and without a grid a fraction.
    """

    h: int
    horizon: int
    mean: Floats
    action: Floats
    particles: Floats
    hazard: npt.NDArray[Any]


class PythonRollout(Rollout):
    """Rolls particles through any batched Python model: simple to write, slow to run.

    Args:
        cap: calibrated predictor whose regions are tested, with a particle score. One-step regions are applied along the
            horizon, as in the paper; a `HorizonCapture` has thresholds for each step.
        step: approximate model of the whole state, `step(states, actions, rng)`.
        cost: stage costs (N,) of a `Stage`.
        hazard: what must be avoided: grid cells, bool (cells,), or a function of configurations (n, dc) that returns whether
            they are on the hazard, bool (n,), or their signed distances from it. See `FusedRollout`.
        axes: which entries of the state are the configuration.
        alpha: failure rate of the regions.
        simultaneous: for `HorizonCapture` only, whether its regions hold simultaneously.
        points: number of points around the particles at which a hazard function is evaluated.
        farthest: distance from its particles up to which an unbounded region is searched with a hazard function; by default
            such a region raises an error.

    Attributes:
        thresholds: of every group in every stratum, (M, J); may be replaced between plans by others of that shape, as online
            adaptation does.
    """

    def __init__(
        self,
        cap: Fitted,
        step: BatchedStep,
        cost: Callable[[Stage], Floats],
        hazard: Any,
        axes: Sequence[int],
        alpha: float = 0.1,
        simultaneous: bool = False,
        points: int = POINTS,
        farthest: float | None = None,
    ) -> None:
        cap.check_fitted()
        if cap.score_.ambient:
            raise CaptureError(f"no Python rollout for {cap.score_!r}, which has no particles; use FusedRollout.")
        self.cap, self.step, self.cost, self._avoided = cap, step, cost, hazard
        super().__init__(cap.plan_thresholds(alpha, simultaneous))
        self.axes = checked_axes(cap, axes).tolist()
        self._hazard, self._farthest = HazardCount(cap, hazard, points, farthest), farthest

    @classmethod
    def from_model(cls, cap: Fitted, cost: Callable[[Stage], Floats], hazard: Any, **settings: Any) -> PythonRollout:
        """A rollout of the calibrated model itself, a `StepModel`; settings are those of the class."""
        model = step_model_of(cap, compiled=False)
        return cls(cap, model.next_states, cost, hazard, model.axes, **settings)

    def check(self, state: Floats) -> None:
        """Accept any state; its size is checked together with the actions."""

    def parts(self) -> tuple[Any, ...]:
        partition = self.cap.partition_
        reach = () if self._farthest is None else (self._farthest,)
        return *super().parts(), self.step, self.cost, self._avoided, self.axes, partition.nodes, partition.roots, *reach

    def __call__(self, state: Floats, sequences: Floats, seed: int) -> Floats:
        """Stage costs (N, H) of sequences (N, H, da) from state (ds,)."""
        check_sizes(self.cap, state, sequences, self.axes)
        samples, horizon, _ = sequences.shape
        particles, rng = self.cap.n_particles, stream(seed, "PythonRollout")
        states = np.tile(state, (samples, particles, 1))
        costs = np.empty((samples, horizon))
        for h in range(horizon):
            action = sequences[:, h]
            x = np.hstack([states.mean(axis=1), action])
            flat, pushed = states.reshape(-1, len(state)), np.repeat(action, particles, axis=0)
            states = advance(self.step, flat, pushed, rng, h + 1).reshape(states.shape)
            cloud = np.ascontiguousarray(states[..., self.axes])
            stage = Stage(h + 1, horizon, states.mean(axis=1), action, cloud, self._count(h, x, cloud))
            costs[:, h] = self._cost(stage)
        return costs

    def _count(self, h: int, x: Floats, cloud: Floats) -> Any:
        """Hazard of each region of step h (from 0), of inputs x (N, dx) and particles (N, L, dc): (N,)."""
        groups = self.cap.partition_at(h).groups_everywhere(x)
        q = self.thresholds[np.arange(len(self.thresholds)), groups]
        return self._hazard(cloud, q)

    def _cost(self, stage: Stage) -> Floats:
        try:
            costs = np.asarray(self.cost(stage), dtype=np.float64)
        except Exception as error:
            raise CaptureError(
                f"the cost raised {type(error).__name__} at step {stage.h} of the rollout: {error}"
            ) from error
        if costs.shape != (len(stage.mean),):
            raise CaptureError(
                f"the cost returned shape {costs.shape} at step {stage.h} of the rollout; expected ({len(stage.mean)},)."
            )
        return costs


def checked_axes(cap: Fitted, axes: Sequence[int]) -> Ints:
    """Indices of the state's entries that are the configuration, checked: one for each of its numbers."""
    dims, order = cap.n_outputs_, np.asarray(axes)
    sound = order.shape == (dims,) and order.dtype.kind in "iu" and len(set(order.tolist())) == dims
    if not sound or order.min() < 0 or order.max() >= cap.partition_.n_inputs:
        raise CaptureError(
            f"axes are {tuple(axes)}; expected {dims} different entries of the state, one per number of a configuration."
        )
    return order.astype(np.int64)


def check_sizes(cap: Fitted, state: Floats, sequences: Floats, axes: Any) -> None:
    """Reject a state and actions whose sizes do not match the calibration."""
    wanted = cap.partition_.n_inputs
    if state.ndim != 1 or sequences.ndim != 3 or len(state) + sequences.shape[2] != wanted or max(axes) >= len(state):
        raise CaptureError(
            f"a state of shape {state.shape} and actions of shape {sequences.shape} do not make up the "
            f"{wanted} inputs of the calibration, or the axes of the configuration lie outside the state."
        )
