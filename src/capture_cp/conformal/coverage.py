"""Empirical coverage with exact binomial intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from capture_cp.checks import Bools, CaptureError, Floats, Ints, confidence_of_interval, known_name


def clopper_pearson(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Exact confidence interval of a success probability; effective sample sizes need not be whole.

    >>> low, high = clopper_pearson(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.824, 0.951)
    """
    if not 0 <= successes <= trials:
        raise CaptureError(f"{successes} successes of {trials} trials is impossible; expected 0 <= successes <= trials.")
    tail = (1 - confidence_of_interval(level)) / 2
    low = 0.0 if successes == 0 else float(special.betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(special.betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high


@dataclass(frozen=True)
class CoverageRow:
    """Coverage of one subset of the test transitions.

    `volume` is the mean number of region cells (None without a grid); `calibration` the calibration points behind it;
    `effective` the number of independent outcomes that n correlated ones are worth (n unless given). Where the coverage was
    asked for by episode, n is the number of episodes and `covered` the sum over them of the share that held.
    """

    name: str
    n: int
    covered: float
    volume: float | None = None
    calibration: int | None = None
    effective: float | None = None

    @property
    def coverage(self) -> float:
        return self.covered / self.n if self.n else float("nan")

    @property
    def ci95(self) -> tuple[float, float]:
        if self.effective is None or self.n == 0:
            return clopper_pearson(self.covered, self.n)
        return clopper_pearson(self.coverage * self.effective, self.effective)


@dataclass(frozen=True)
class Coverage:
    """Coverage over all test transitions, by stratum of the realised outcome, and by calibration group.

    `coverage["edge"]` is the row of one stratum, `coverage.all` the row of everything, `coverage.groups` the groups.
    """

    alpha: float
    all: CoverageRow
    strata: tuple[CoverageRow, ...]
    groups: tuple[CoverageRow, ...]

    def __getitem__(self, stratum: str) -> CoverageRow:
        names = [row.name for row in self.strata]
        return self.strata[names.index(known_name("stratum", stratum, names))]

    def __iter__(self) -> Iterator[CoverageRow]:
        return iter((self.all, *self.strata))

    def rows(self, **labels: Any) -> list[dict[str, Any]]:
        """One JSON-ready record a stratum, "all" first; `labels` such as task or method are put in front."""
        return [
            labels
            | {
                "stratum": row.name,
                "alpha": self.alpha,
                "coverage": row.coverage if row.n else None,
                "ci95": list(row.ci95),
                "n": row.n,
                "volume": row.volume,
            }
            for row in self
        ]

    def __str__(self) -> str:
        width = max(len(row.name) for row in self)
        lines = [f"coverage, target {1 - self.alpha:.1%}"]
        for row in self:
            low, high = row.ci95
            shown = f"{row.coverage:7.1%}  [{low:.1%}, {high:.1%}]" if row.n else "      -"
            cells = "" if row.volume is None else f"  {row.volume:10.1f} cells"
            lines.append(f"  {row.name:{width}}  {shown}  of {row.n:,}{cells}")
        return "\n".join(lines)


def coverage_of(
    alpha: float,
    inside: Bools,
    strata: Ints,
    groups: Ints,
    stratum_names: list[str],
    group_names: list[str],
    calibration: Ints,
    volumes: Floats | None,
    units: Ints | None,
) -> Coverage:
    """Coverage from what is inside (n,), with the stratum and the group of each outcome (n,), and its episode if any.

    `calibration` (J,) are the sizes of the groups, `volumes` (M + 1,) the mean cells of a region by stratum.
    """
    cells = None if volumes is None else [volumes.sum()]
    (everything,) = tally(["all"], np.zeros_like(strata), inside, cells, [calibration.sum()], units)
    return Coverage(
        alpha,
        everything,
        tally(stratum_names, strata, inside, volumes, None, units),
        tally(group_names, groups, inside, None, calibration, units),
    )


def tally(
    names: list[str], labels: Any, inside: Any, volumes: Any, calibration: Any, units: Any = None
) -> tuple[CoverageRow, ...]:
    """Rows for labels 0, 1, ...: which of `inside` (n,) are true under each of `labels` (n,).

    With `units` (n,), the episode of each, every episode counts once in a row.
    """
    count = len(names)
    n = np.bincount(labels, minlength=count)
    covered = np.bincount(labels, weights=inside, minlength=count).astype(int)
    rows = [
        CoverageRow(
            name,
            int(n[i]),
            int(covered[i]),
            None if volumes is None else float(volumes[i]),
            None if calibration is None else int(calibration[i]),
        )
        for i, name in enumerate(names)
    ]
    return tuple(rows if units is None else (_by_episode(row, inside, units, labels == i) for i, row in enumerate(rows)))


def _by_episode(row: CoverageRow, inside: Bools, units: Ints, here: Bools) -> CoverageRow:
    shares = _shares(inside[here], units[here])
    return replace(row, n=len(shares), covered=float(shares.sum()), effective=_worth(shares, row.n))


def _shares(inside: Bools, units: Ints) -> Floats:
    """Of each episode that occurs, the share of its steps that are inside."""
    unit = np.unique(units, return_inverse=True)[1]
    return np.asarray(np.bincount(unit, weights=inside) / np.bincount(unit)) if len(unit) else np.empty(0)


def _worth(shares: Floats, steps: int) -> float:
    """How many independent outcomes the mean over episodes is worth, by the variance between them (Korn and Graubard).

    From the number of episodes, if the steps of one say the same, up to the number of steps, if they are independent.
    """
    episodes, mean = len(shares), float(shares.mean()) if len(shares) else 0.0
    if episodes < 2 or not 0.0 < mean < 1.0:
        return float(episodes)
    spread = max(float(shares.var(ddof=1)) / episodes, 1e-300)
    # few episodes do not tell their variance well
    doubt = (special.ndtri(0.975) / special.stdtrit(episodes - 1, 0.975)) ** 2
    return float(np.clip(mean * (1 - mean) / spread * doubt, episodes * doubt, steps))
