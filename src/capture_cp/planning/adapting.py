"""A closed loop whose regions learn from every executed step."""

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
    """A true system that judges every executed step by its region, and lets the planner's regions learn from it.

    Call it as the true system of an episode. Once a rollout is given to `guide`, its thresholds follow the regions.

    Args:
        system: the true system.
        cap: the calibrated predictor.
        axes: which entries of the state are the configuration.
        particles: draws the particles of the regions that steps are judged by.
        adaptive: the regions that learn, made from `cap`; None judges steps by the regions of `cap` and changes nothing.
        alpha: failure rate of the regions of `cap`, where nothing adapts.

    Attributes:
        held: whether the region of each executed step held what followed, T.
        thresholds: of the region of each executed step, by stratum: T times (M,).
        dials: where the dials stood after each step, T times (M,); empty where nothing adapts.
        strata: in which stratum each step ended, T.
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
        """Let the thresholds of a rollout follow the regions: from now on, or only from the next executed step on."""
        self._rollout = rollout
        if now:
            self._write()

    def __call__(self, state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
        """Execute an action (da,) from a state (ds,); the next state, and the outcome once the episode has ended."""
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
