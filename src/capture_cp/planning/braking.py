"""A filter between planner and robot: where the regions of a plan touch a hazard, the robot brakes instead.

Plans that pass are selected twice, by the planner and by the filter, and the filter's regions under-cover around them: plans
that look better than they are pass more often. A second `HorizonCapture`, calibrated on plans that passed (see
`chosen_rollouts(which="passed")`), restores the coverage guarantee for them. The argument is not circular:

1. The filter is fixed before the first filtered episode: its regions, alpha and hazard do not change afterwards.
2. Whether a plan passes is therefore a fixed rule of the state, the plan and freshly drawn particles, and planner, filter
   and brake together are one policy. Its episodes are independent and identically distributed.
3. Draw one step at random among those of an episode whose plan passed, and execute the plan open loop. Given that they
   have such a step, episodes are identically distributed, and so are their rollouts: those of n episodes and of a new one.
4. The rollouts are exchangeable, so the second calibration covers a random passed plan of a new episode that has one.
5. The second calibration does not decide what passes. If it did, other plans would pass, and it would guarantee nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, finite_array, whole_number
from capture_cp.base.streams import stream
from capture_cp.capture.horizon import HorizonCapture
from capture_cp.capture.horizon_particles import Cloud
from capture_cp.planning.hazard_count import HazardCount
from capture_cp.planning.probes import POINTS

#: Fallback for a plan that failed: states (n, ds) -> actions (n, da).
Brake = Callable[[Floats], Floats]


class BrakingFilter:
    """Lets plans pass whose regions touch no hazard, and brakes in place of the others.

    Args:
        cap: regions of a plan's steps; calibrate them on chosen plans, see `chosen_rollouts`.
        hazard: what must be avoided: grid cells, bool (cells,), or a function of configurations (n, dc) that returns whether
            they are on the hazard, bool (n,), or their signed distances from it. A function is evaluated at points of a
            region, so a contact between those points is missed.
        brake: actions (n, da) of states (n, ds), executed where a plan fails.
        alpha: failure rate of the regions.
        simultaneous: whether the regions hold simultaneously, or each on its own.
        steps: use only the regions of this many first steps; all by default.
        points: number of points around the particles of a region at which a hazard function is evaluated.
        farthest: distance from its particles up to which an unbounded region is searched with a hazard function; by default
            such a region raises an error.
    """

    def __init__(
        self,
        cap: HorizonCapture,
        hazard: Any,
        brake: Brake,
        alpha: float = 0.1,
        simultaneous: bool = True,
        steps: int | None = None,
        points: int = POINTS,
        farthest: float | None = None,
    ) -> None:
        if not isinstance(cap, HorizonCapture):
            raise CaptureError(f"the regions come from a {type(cap).__name__}; expected a HorizonCapture, for whole plans.")
        if not callable(brake):
            raise CaptureError(f"brake is {brake!r}; expected a function of states (n, ds) that returns actions (n, da).")
        cap.check_fitted()
        self.cap, self.brake, self.alpha, self.simultaneous = cap, brake, alpha, simultaneous
        self.steps = len(cap.steps_) if steps is None else whole_number("steps", steps, 1)
        if self.steps > len(cap.steps_):
            raise CaptureError(
                f"steps is {steps}; the calibration has regions of {len(cap.steps_)} steps; give at most that."
            )
        cap.group_thresholds(alpha, simultaneous)  # an invalid alpha raises an error here, not during an episode
        self._count = HazardCount(cap, hazard, points, farthest)

    def filter(self, states: Any, plans: Any, rng: np.random.Generator) -> Bools:
        """Which plans (n, H, da) from states (n, ds) pass, with particles drawn by `rng`: (n,)."""
        starts = finite_array("states", states, (None, self.cap.n_states_), "(n, ds): as in fit")
        actions = finite_array("plans", plans, (len(starts), None, self.cap.n_actions_), "(n, H, da): one plan per state")
        own = stream(int(rng.integers(2**62)), "plan")  # takes one number from rng, however many a model draws
        return np.asarray(~self._touched(self.cap.predict(starts, actions, own)).any(axis=1))

    def act(self, states: Any, plans: Any, rng: np.random.Generator) -> tuple[Floats, Bools]:
        """Actions (n, da) to execute: the first of every plan that passes, the brake's elsewhere; and which braked (n,)."""
        braked = ~self.filter(states, plans, rng)
        actions = np.array(np.asarray(plans, dtype=np.float64)[:, 0])
        if braked.any():
            actions[braked] = self._brakes(np.asarray(states, dtype=np.float64)[braked], actions.shape[1])
        return actions, braked

    def _touched(self, clouds: Sequence[Cloud]) -> Bools:
        """Whether the region of each step touches the hazard: (n, steps)."""
        q = self.cap.thresholds(clouds, self.alpha, self.simultaneous)
        found = [self._count(cloud.particles, q[:, s]) > 0 for s, cloud in enumerate(clouds[: self.steps])]
        return np.stack(found, axis=1)

    def _brakes(self, states: Floats, n_actions: int) -> Floats:
        try:
            found = self.brake(states)
        except CaptureError:
            raise
        except Exception as error:
            raise CaptureError(f"the brake raised {type(error).__name__}: {error}") from error
        return finite_array("what the brake returned", found, (len(states), n_actions), "(n, da): one action per state")
