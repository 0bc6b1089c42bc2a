"""A closed loop whose regions adapt after every executed step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import Randomness
from capture_cp.capture.adaptive import Adaptive
from capture_cp.capture.capture import Capture
from capture_cp.planning.episode import System
from capture_cp.planning.rollout import Rollout


class Adapting:
    """A true system that checks every executed step against its region and adapts the planner's regions.

    Use it as the true system of an episode. Pass a rollout to `guide` to make its thresholds follow the regions.

    Args:
        system: the true system.
        cap: the calibrated predictor.
        axes: which entries of the state are the configuration.
        particles: draws the particles of the regions that steps are checked against.
        adaptive: adaptive regions made from `cap`; None checks steps against the regions of `cap` and changes nothing.
        alpha: failure rate of the regions of `cap`, used when nothing adapts.

    Attributes:
        held: for each of T executed steps, whether its region contained the next configuration.
        thresholds: of the region of each executed step, by stratum: T arrays (M,).
        dials: the adaptive parameters after each step, T arrays (M,); empty when nothing adapts.
        strata: stratum in which each of T steps ended.
    """

    def __init__(
        self,
        system: System,
        cap: Capture,
        axes: Sequence[int],
        particles: Randomness,
        adaptive: Adaptive | None = None,
        alpha: float = 0.1,
    ) -> None:
        self.system, self.cap, self.axes, self.adaptive, self.alpha = system, cap, list(axes), adaptive, alpha
        self._particles, self._rollout = particles, None
        self.held: list[bool] = []
        self.thresholds: list[Floats] = []
        self.dials: list[Floats] = []
        self.strata: list[int] = []

    _rollout: Rollout | None

    def guide(self, rollout: Rollout, now: bool = True) -> None:
        """Make the thresholds of a rollout follow the regions, from now on or from the next executed step on."""
        self._rollout = rollout
        if now:
            self._write()

    def __call__(self, state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        """Execute an action (da,) from a state (ds,); returns the next state, and the outcome once the episode has ended."""
        after, outcome = self.system(state, action, rng)
        x, y, adaptive = np.concatenate([state, action]), after[self.axes], self.adaptive
        if adaptive is None:
            self.thresholds.append(self.cap.thresholds(x[None], self.alpha)[0])
            self.held.append(bool(self.cap.contains(x[None], y[None], self.alpha, rng=self._particles)[0]))
        else:
            self.thresholds.append(adaptive.thresholds(x[None])[0])
            self.held.append(adaptive.observe(x, y, rng=self._particles))
        self.dials.append(np.empty(0) if adaptive is None else adaptive.dials.copy())
        self.strata.append(int(self.cap.strata.index(y[None])[0]))
        self._write()
        return after, outcome

    def _write(self) -> None:
        if self.adaptive is not None and self._rollout is not None:
            self._rollout.thresholds = self.adaptive.group_thresholds()
