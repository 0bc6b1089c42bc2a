"""The paper's figures, to compare with ours: read from the file `paper.json` of a task.

Its sections "coverage" and "planning" hold figures by place and method, with the names of their columns; the place "*" is
any. Rates are percentages. "reproduce" lists what makes the paper's tables and figures again, see `studies.reproduce`, and
"place_names" what pages call the places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Columns of the paper's coverage tables, in its order.
COVERAGE_METHODS = ("lucca", "pcp", "no-strata", "capture-k1", "capture")
#: Columns of the paper's planning tables, in its order.
PLANNING_METHODS = ("particles", "pcp", "lucca", "no-strata", "capture-k1", "capture")

ANY_PLACE = "*"
VOLUME_RATIO = "volume ratio"


@dataclass(frozen=True)
class Paper:
    """The paper's figures for a task; empty if the paper does not have the task."""

    sections: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Any) -> Paper:
        """The paper's figures of a task, from its options; none if they ask for other places than the paper's."""
        known = options.paper is not None and options.in_paper
        return cls(json.loads(options.paper.read_text(encoding="utf-8"))) if known else cls()

    def coverage(self, place: str, method: str, regime: str) -> float | None:
        """Coverage (0 to 1) in a regime, or in "all" of them, where the paper gives it."""
        share = self._coverage_row(place, method).get(regime) if regime != VOLUME_RATIO else None
        return None if share is None else share / 100

    def volume_ratio(self, place: str, method: str) -> float | None:
        """Mean volume of the regions as a ratio to CaPTURe's, where the paper gives it."""
        return self._coverage_row(place, method).get(VOLUME_RATIO)

    def _coverage_row(self, place: str, method: str) -> Mapping[str, float | None]:
        return dict(zip(self.sections.get("coverage", {}).get("columns", ()), self._figures("coverage", place, method)))

    def planning(self, place: str, method: str) -> list[float] | None:
        """Figures of a planning table in the order of `planning_columns`; without steps where no run succeeded."""
        return list(self._figures("planning", place, method)) or None

    def _figures(self, section: str, place: str, method: str) -> Sequence[float]:
        places = self.sections.get(section, {}).get("places", {})
        figures: Sequence[float] = places.get(place, places.get(ANY_PLACE, {})).get(method, ())
        return figures

    @property
    def planning_columns(self) -> tuple[str, ...]:
        """Names of the figures of `planning`: outcomes in %, then the mean steps to success and their deviation."""
        return tuple(self.sections.get("planning", {}).get("columns", ()))

    @property
    def reproduced(self) -> Sequence[Mapping[str, Any]]:
        """The parts of the reproduction."""
        parts: Sequence[Mapping[str, Any]] = self.sections.get("reproduce", ())
        return parts

    def place_name(self, place: str) -> str:
        """What a page calls a place."""
        return str(self.sections.get("place_names", {}).get(place, Path(place).stem.replace("-", " ")))
