"""Coverage of a horizon: step by step, by stratum, and of all steps at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints
from capture_cp.conformal.coverage import Coverage, CoverageRow, tally


@dataclass(frozen=True)
class HorizonCoverage:
    """Coverage of test roll-outs, with exact intervals.

    `coverage[3]` is the coverage at step 3, overall and by stratum; `coverage.together` the row of all steps at once, whose
    volume is the sum over the steps.
    """

    alpha: float
    simultaneous: bool
    together: CoverageRow
    steps: tuple[int, ...]
    by_step: tuple[Coverage, ...]

    def __getitem__(self, step: int) -> Coverage:
        if step not in self.steps:
            raise CaptureError(f"step {step!r} was not calibrated; steps are {', '.join(map(str, self.steps))}.")
        return self.by_step[self.steps.index(step)]

    def __iter__(self) -> Iterator[tuple[int, Coverage]]:
        return iter(zip(self.steps, self.by_step))

    def rows(self, **labels: Any) -> list[dict[str, Any]]:
        """One JSON-ready record a step and stratum, after one with step "all"; `labels` are put in front."""
        whole = Coverage(self.alpha, self.together, (), ()).rows(**labels, step="all")
        return whole + [row for step, coverage in self for row in coverage.rows(**labels, step=step)]

    def __str__(self) -> str:
        promise = "all steps at once" if self.simultaneous else "each step"
        lines = [f"coverage, target {1 - self.alpha:.1%} for {promise}"]
        names = [row.name for row in self.by_step[0]]
        lines.append(f"  {'step':>4}  " + "  ".join(f"{name:>21}" for name in names) + ("  cells" if self._gridded else ""))
        for step, coverage in self:
            cells = f"  {coverage.all.volume:,.0f}" if self._gridded else ""
            lines.append(f"  {step:>4}  " + "  ".join(f"{_cell(row):>21}" for row in coverage) + cells)
        lines.append(f"  {'all':>4}  {_cell(self.together):>21}  of {self.together.n:,} roll-outs")
        return "\n".join(lines)

    @property
    def _gridded(self) -> bool:
        return self.together.volume is not None


def horizon_coverage(
    alpha: float,
    simultaneous: bool,
    steps: tuple[int, ...],
    inside: Bools,
    labels: Ints,
    names: list[str],
    cells: Floats | None,
    units: Ints | None,
) -> HorizonCoverage:
    """Coverage from what is inside (n, S), the strata of the outcomes (n, S) and mean cells by step and stratum (S, M)."""

    def row(outcome: Bools, volume: float | None) -> CoverageRow:
        everything = np.zeros(len(outcome), dtype=np.int64)
        return tally(["all"], everything, outcome, None if volume is None else [volume], None, units)[0]

    by_step = [
        Coverage(
            alpha,
            row(inside[:, s], None if cells is None else float(cells[s].sum())),
            tally(names, labels[:, s], inside[:, s], None if cells is None else cells[s], None, units),
            (),
        )
        for s in range(len(steps))
    ]
    together = row(np.asarray(inside.all(axis=1)), None if cells is None else float(cells.sum()))
    return HorizonCoverage(alpha, simultaneous, together, steps, tuple(by_step))


def _cell(row: CoverageRow) -> str:
    low, high = row.ci95
    return f"{row.coverage:.1%} [{low:.1%}, {high:.1%}]" if row.n else "-"
