"""A closed loop whose regions adapt after every executed step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import Randomness
from capture_cp.capture.adaptive import Adaptive
from capture_cp.planning.episode import System
from capture_cp.planning.rollout import Rollout


class Adapting:
    """A true system that checks every executed step against its region and adapts the planner's regions.

    Use it as the true system of an episode. Pass a rollout to `guide` to make its thresholds follow the regions.

    Args:
        system: the true system.
        axes: which entries of the state are the configuration.
        particles: draws the particles of the regions that steps are checked against.
        adaptive: adaptive regions.

    Attributes:
        held: for each of T executed steps, whether its region contained the next configuration.
        thresholds: of the region of each executed step, by stratum: T arrays (M,).
    """

    def __init__(self, system: System, axes: Sequence[int], particles: Randomness, adaptive: Adaptive) -> None:
        self.system, self.axes, self.adaptive = system, list(axes), adaptive
        self._particles = particles
        self._rollout: Rollout | None = None
        self.held: list[bool] = []
        self.thresholds: list[Floats] = []

    def guide(self, rollout: Rollout, now: bool = True) -> None:
        """Make the thresholds of a rollout follow the regions, from now on or from the next executed step on."""
        self._rollout = rollout
        if now:
            self._write()

    def __call__(self, state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        """Execute an action (da,) from a state (ds,); returns the next state, and the outcome once the episode has ended."""
        after, outcome = self.system(state, action, rng)
        x = np.concatenate([state, action])
        self.thresholds.append(self.adaptive.thresholds(x[None])[0])
        self.held.append(self.adaptive.observe(x, after[self.axes], rng=self._particles))
        self._write()
        return after, outcome

    def _write(self) -> None:
        if self._rollout is not None:
            self._rollout.thresholds = self.adaptive.group_thresholds()
