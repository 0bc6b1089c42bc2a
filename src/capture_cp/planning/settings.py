"""Settings of a sampling planner, the same for every robot; the weights of its objective are the robot's own."""

from __future__ import annotations

from dataclasses import dataclass

from capture_cp.base.checks import CaptureError, whole_number


@dataclass(frozen=True)
class PlannerSettings:
    """MPPI's settings; flags of commands and controls of the live page are made of them.

    Attributes:
        horizon: steps H of a plan.
        samples: action sequences rolled out per iteration of a plan, those that are rolled out again included.
        temperature: MPPI's λ: small follows the best samples, large averages over many. In the unit that the robot's planner
            gives it.
        elites: best samples that are rolled out again beside their average, see `MPPI`; the paper has none.
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
                f"{self.elites} elites, rolled out {self.repeats} times again, leave none of {self.samples} samples; take "
                "more samples or fewer elites."
            )
        return self.samples - again
