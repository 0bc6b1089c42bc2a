"""What counts as a failure, and how often it may occur."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, probability, shortened

SUCCESS = "success"
FAILURE = "failure"


@dataclass(frozen=True)
class Risk:
    """A set of outcomes that count as a failure, and the rate delta that they must not exceed.

    Attributes:
        name: of the risk.
        outcomes: outcomes that count; with `others`, the outcomes that do not count.
        delta: the rate; None finds the smallest that can be certified.
        others: whether every outcome that is not among `outcomes` counts.
    """

    name: str
    outcomes: tuple[str, ...]
    delta: float | None = None
    others: bool = False

    def __post_init__(self) -> None:
        if not self.outcomes or not all(isinstance(outcome, str) and outcome for outcome in self.outcomes):
            raise CaptureError(f"risk {self.name!r} names no outcomes; expected words such as 'fell'.")
        if self.delta is not None:
            probability(f"delta of {self.name!r}", self.delta)

    @classmethod
    def failure(cls, delta: float | None = None, success: str = SUCCESS) -> Risk:
        """Every episode that does not succeed."""
        return cls(FAILURE, (success,), delta, others=True)

    @classmethod
    def parse(cls, text: str, success: str = SUCCESS) -> Risk:
        """A risk from text: "fell=0.02", "fell+timed out=0.05", or "failure=0.1" for all but success; without a number,
        the smallest certifiable rate is found."""
        words, equals, number = text.rpartition("=") if "=" in text else (text, "", "")
        try:
            delta = float(number) if equals else None
        except ValueError:
            delta = np.nan
        names = tuple(word.strip() for word in words.split("+"))
        if not all(names) or (delta is not None and not 0.0 < delta < 1.0):
            raise CaptureError(
                f"the risk {shortened(text)!r} cannot be read; expected an outcome and its rate, such as fell=0.02, "
                "fell+collided=0.05, or failure=0.1 for every episode without success."
            )
        return cls.failure(delta, success) if names == (FAILURE,) else cls("+".join(names), names, delta)

    def occurred(self, outcomes: Any) -> Bools:
        """Whether each episode with these outcomes (n,) counts: bool (n,)."""
        return np.asarray(np.isin(np.asarray(outcomes, dtype=str), self.outcomes) != self.others)

    def facts(self) -> dict[str, Any]:
        """The risk as JSON values."""
        return {"name": self.name, "outcomes": list(self.outcomes), "delta": self.delta, "others": self.others}


def checked_risks(risks: Sequence[Risk]) -> tuple[Risk, ...]:
    """The risks, checked: at least one, and no repeated names."""
    found = tuple(risks)
    if not found or not all(isinstance(risk, Risk) for risk in found):
        raise CaptureError("no risks are given; expected at least one, such as fell=0.02.")
    if len({risk.name for risk in found}) < len(found):
        raise CaptureError(f"risk names are repeated: {', '.join(risk.name for risk in found)}; use different names.")
    return found
