"""What counts as a failure, and how often it may happen."""

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
    """Episodes that end in one of some outcomes, and the rate delta that they must not exceed.

    Attributes:
        name: of the risk.
        outcomes: how such an episode ends; or, with `others`, how all that are none of this risk end.
        delta: the rate; None asks for the least that can be certified.
        others: whether every outcome counts that is not among `outcomes`.
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
        """A risk from text: "fell=0.02", "fell+timed out=0.05", "failure=0.1" for all but success; no number asks for the "
        "least."""
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
        """In which of the episodes with these outcomes (n,): bool (n,)."""
        return np.asarray(np.isin(np.asarray(outcomes, dtype=str), self.outcomes) != self.others)

    def facts(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"name": self.name, "outcomes": list(self.outcomes), "delta": self.delta, "others": self.others}


def checked_risks(risks: Sequence[Risk]) -> tuple[Risk, ...]:
    """At least one risk, no two of one name."""
    found = tuple(risks)
    if not found or not all(isinstance(risk, Risk) for risk in found):
        raise CaptureError("no risks are given; expected at least one, such as fell=0.02.")
    if len({risk.name for risk in found}) < len(found):
        raise CaptureError(f"two risks have one name: {', '.join(risk.name for risk in found)}; give each its own.")
    return found
