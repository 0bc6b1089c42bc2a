"""Regions for the planners of other libraries: judo's tasks and pytorch_mppi."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.planning.region_cost import RegionCost
from capture_cp.planning.rollout import checked_axes

#: Configurations (n, L, dc) that may follow states (n, ds) under controls (n, du), where the rollout arrived at (n, ds).
Spread = Callable[[Floats, Floats, Floats, np.random.Generator], Floats]


class JudoReward:
    """A reward for tasks of judo: minus the cost of the regions along each of its rollouts.

    judo rolls out one state per sample, without noise, and passes states (n, T, nq + nv) that leave out the first. Regions
    need particles of every step: `spread` draws them around the rollout. A region is evaluated every few simulator steps,
    with the state and the mean control until the next one as its input: calibrate on such transitions.

    Args:
        cost: cost of regions, whose states are judo's (nq + nv) and whose actions are its controls.
        axes: which entries of the state are the configuration.
        spread: particles (n, L, dc) from states (n, ds), controls (n, du), the states that the rollout arrived at (n, ds)
            and a generator. By default the calibrated model is called, which simulates the steps again.
        every: simulator steps between regions.
        rng: draws the particles.
    """

    def __init__(
        self,
        cost: RegionCost,
        axes: Sequence[int],
        spread: Spread | None = None,
        every: int = 1,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.cost, self.axes = cost, checked_axes(cost.cap, axes)
        self.every = whole_number("every", every, 1)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._spread = self._asked if spread is None else spread
        self._start: Floats | None = None

    def attach(self, task: Any) -> Any:
        """Add it to the reward of a judo task and return the task: from now on its controllers plan with regions."""
        before, reward = getattr(task, "pre_rollout", None), getattr(task, "reward", None)
        if not callable(before) or not callable(reward):
            raise CaptureError(f"{type(task).__name__} has no pre_rollout and reward; expected a task of judo.")

        def pre_rollout(curr_state: Any) -> None:
            self.begin(curr_state)
            before(curr_state)

        def with_regions(states: Any, sensors: Any, controls: Any, system_metadata: Any = None) -> Any:
            return reward(states, sensors, controls, system_metadata) + self(states, sensors, controls, system_metadata)

        task.pre_rollout, task.reward = pre_rollout, with_regions
        return task

    def begin(self, state: Any) -> None:
        """Store the state (nq + nv,) that the next rollouts start from; judo calls `pre_rollout` with it."""
        self._start = finite_array("state", state, (None,), "(nq + nv,)")

    def __call__(self, states: Any, sensors: Any, controls: Any, system_metadata: Any = None) -> Floats:
        """Rewards (n,) of states (n, T, nq + nv) and controls (n, T, nu), with the signature of `Task.reward`."""
        if self._start is None:
            raise CaptureError("the state that rollouts start from is not known; attach it to a task, or call begin first.")
        n, blocks = len(states), states.shape[1] // self.every
        if not blocks:
            raise CaptureError(f"a rollout has {states.shape[1]} steps, fewer than every={self.every}; use a smaller every.")
        after = np.asarray(states)[:, self.every - 1 :: self.every][:, :blocks]
        start = np.broadcast_to(self._start, (n, 1, len(self._start)))
        before = np.concatenate([start, after[:, :-1]], axis=1)
        held = np.asarray(controls)[:, : blocks * self.every].reshape(n, blocks, self.every, -1).mean(axis=2)
        s, u, arrived = (part.reshape(n * blocks, -1) for part in (before, held, after))
        particles = self._spread(s, u, arrived, self._rng)
        return -np.asarray(self.cost(before, held, np.reshape(particles, (n, blocks, *np.shape(particles)[1:]))))

    def _asked(self, states: Floats, controls: Floats, after: Floats, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) of the calibrated model."""
        clouds = self.cost.cap.first_prediction(states, controls, rng)[1]
        return np.asarray(clouds)


class TorchMPPICost:
    """A `terminal_state_cost` for `pytorch_mppi.MPPI`: the regions of every step of every sampled plan.

    Make the controller with `rollout_samples` equal to the particles of the calibration and dynamics that draw their own
    noise. It passes states (M, K, T, nx) of M particles, K samples and T steps, without the state that all start from;
    that state is read from the controller, so pass the controller to `watch` before the first command.

    Args:
        cost: cost of regions.
        axes: which entries of the state are the configuration.
    """

    def __init__(self, cost: RegionCost, axes: Sequence[int]) -> None:
        self.cost, self.axes = cost, checked_axes(cost.cap, axes).tolist()
        self.controller: Any = None

    def watch(self, controller: Any) -> TorchMPPICost:
        """Read the states that plans start from in a controller's `state`, (nx,) or (K, nx)."""
        if not hasattr(controller, "state"):
            raise CaptureError(f"{type(controller).__name__} has no state; give the pytorch_mppi controller that plans.")
        self.controller = controller
        return self

    def __call__(self, states: Any, actions: Any) -> Any:
        """Cost of each sample's regions, (K,), from states (M, K, T, nx) and actions (M, K, T, nu)."""
        before, _ = self.means(states)
        particles = states[..., self.axes].permute(1, 2, 0, 3)
        return self.cost(before, actions[0], particles.contiguous())

    def means(self, states: Any) -> tuple[Any, Any]:
        """Mean states of the particles before and after each step, both (K, T, nx), from states (M, K, T, nx)."""
        if self.controller is None or self.controller.state is None:
            raise CaptureError("the state that plans start from is not known; call watch(controller) before it plans.")
        torch, (samples, _, dims) = import_module("torch"), states.shape[1:]
        start = self.controller.state.reshape(-1, dims).expand(samples, dims)
        after = states.mean(dim=0)
        return torch.cat([start[:, None], after[:, :-1]], dim=1), after
