"""Regions for the planners of pytorch_mppi, whose terminal cost receives all particles of all samples at once."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from capture_cp.base.checks import CaptureError
from capture_cp.planning.region_cost import RegionCost
from capture_cp.planning.regions import checked_axes


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
