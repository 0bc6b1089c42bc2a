"""Settings of a sampling planner, the same for every robot; each robot defines the weights of its own objective."""

from __future__ import annotations

from dataclasses import dataclass

from capture_cp.base.checks import CaptureError, whole_number


@dataclass(frozen=True)
class PlannerSettings:
    """MPPI's settings; command flags and live-page controls are made from them.

    Attributes:
        horizon: steps H of a plan.
        samples: action sequences rolled out per iteration of a plan, including those that are rolled out again.
        temperature: MPPI's λ: small values follow the best samples, large ones average over many. Its unit is set by the
            robot's planner.
        elites: best samples that are rolled out again together with their average, see `MPPI`; the paper has none.
        repeats: rollouts of each of them.
        iterations: how often sampling and averaging are repeated in one plan.
    """

    horizon: int
    samples: int
    temperature: float
    elites: int = 0
    repeats: int = 16
    iterations: int = 1

    @property
    def sampled(self) -> int:
        """Action sequences tried at random."""
        whole_number("samples", self.samples, 1)
        again = (self.elites + 1) * self.repeats if self.elites else 0
        if again >= self.samples:
            raise CaptureError(
                f"{self.elites} elites, rolled out {self.repeats} more times each, leave none of {self.samples} samples; "
                "use more samples or fewer elites."
            )
        return self.samples - again
