"""Empirical coverage of one step or of a horizon, with confidence intervals: exact binomial, or valid for episodes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, known_name, probability
from capture_cp.conformal.partition import counts_of

CONFIDENCE = "the confidence of an interval, for example 0.95"
#: Fractions of the capital bet on each episode; the capital is the mean over these strategies.
_BETS = np.geomspace(0.01, 0.98, 12)[:, None]
_HALVINGS = 50


def clopper_pearson(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Exact confidence interval of a success probability; effective sample sizes need not be integers.

    >>> low, high = clopper_pearson(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.824, 0.951)
    """
    if not 0 <= successes <= trials:
        raise CaptureError(f"{successes} successes in {trials} trials is impossible; expected 0 <= successes <= trials.")
    tail = (1 - probability("level", level, CONFIDENCE)) / 2
    low = 0.0 if successes == 0 else float(scipy.special.betaincinv(successes, trials - successes + 1, tail))
    high = 1.0 if successes == trials else float(scipy.special.betaincinv(successes + 1, trials - successes, 1 - tail))
    return low, high


def share_interval(shares: Floats, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of the mean share, from independent episodes with shares (n,) between 0 and 1.

    For every θ, bets are placed against E[share] = θ, in both directions. Capital that starts at 1 has expectation 1 at the
    true θ, so it reaches 2 / (1 - level) with probability at most (1 - level) / 2 (Markov). The interval contains every θ at
    which no bet has reached that. Nothing is assumed about the distribution of the episodes: where few episodes cannot rule
    out a rare bad one, the interval is wide.

    >>> low, high = share_interval(np.array([0.9, 1.0, 0.8] * 20))
    >>> 0.7 < low < 0.9 < high < 1.0
    True
    """
    if len(shares) == 0:
        return 0.0, 1.0
    rich = math.log(2 / (1 - probability("level", level, CONFIDENCE)))

    def too_low(theta: float) -> bool:  # capital falls as theta grows
        return _log_capital(shares / theta - 1) >= rich

    def too_high(theta: float) -> bool:
        return _log_capital((theta - shares) / (1 - theta)) >= rich

    middle = float(np.clip(shares.mean(), 1e-6, 1 - 1e-6))
    return _edge(too_low, middle, 0.0), _edge(too_high, middle, 1.0)


def _log_capital(gains: Floats) -> float:
    """Logarithm of the mean capital, where a bet b on an episode multiplies it by 1 + b * gains (n,), gains >= -1."""
    capitals = np.log1p(_BETS * gains).sum(axis=1)
    most = capitals.max()
    return float(most + np.log(np.exp(capitals - most).mean()))


def _edge(excluded: Callable[[float], bool], inside: float, end: float) -> float:
    """Where exclusion begins between `inside`, which is not excluded, and `end`; `end` itself if nothing is excluded."""
    outside = min(max(end, 1e-12), 1 - 1e-12)
    if not excluded(outside):
        return end
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if excluded(middle) else (middle, outside)
    return outside


class Count(NamedTuple):
    """Steps that ended in one stratum, or in any, and how many of them ended in their region."""

    name: str
    held: int
    steps: int

    @property
    def interval(self) -> tuple[float, float]:
        """Exact 95% interval of the fraction, for independent steps."""
        return clopper_pearson(self.held, self.steps) if self.steps else (0.0, 1.0)


@dataclass(frozen=True)
class CoverageRow:
    """Coverage of one subset of the test transitions.

    `volume` is the mean number of region cells; without a grid it is None or an estimated mean volume. `calibration` is the
    number of calibration points behind the row. `effective` is the effective number of independent outcomes among n
    correlated ones, n by default. For coverage by episode, n is the number of episodes with steps in the subset, the
    coverage is that of a random one of these steps in a random one of these episodes, and `interval` is its confidence
    interval.
    """

    name: str
    n: int
    covered: float
    volume: float | None = None
    calibration: int | None = None
    effective: float | None = None
    interval: tuple[float, float] | None = None

    @property
    def coverage(self) -> float:
        return self.covered / self.n if self.n else float("nan")

    @property
    def ci95(self) -> tuple[float, float]:
        if self.interval is not None:
            return self.interval
        if self.effective is None or self.n == 0:
            return clopper_pearson(self.covered, self.n)
        return clopper_pearson(self.coverage * self.effective, self.effective)


@dataclass(frozen=True)
class Coverage:
    """Coverage over all test transitions, by stratum of the realised outcome, and by calibration group.

    `coverage["edge"]` is the row of one stratum, `coverage.all` the row of all transitions, `coverage.groups` the groups.
    For coverage by episode, `coverage.together` is the row of whole episodes, all of whose steps must be inside; that is
    what `simultaneous` regions guarantee. `coverage.note` states what the guarantee assumes beyond the log, if anything.
    """

    alpha: float
    all: CoverageRow
    strata: tuple[CoverageRow, ...]
    groups: tuple[CoverageRow, ...]
    together: CoverageRow | None = field(default=None, kw_only=True)
    simultaneous: bool = field(default=False, kw_only=True)
    note: str | None = field(default=None, kw_only=True)

    def __getitem__(self, stratum: str) -> CoverageRow:
        names = [row.name for row in self.strata]
        return self.strata[names.index(known_name("stratum", stratum, names))]

    def __iter__(self) -> Iterator[CoverageRow]:
        return iter((self.all, *self.strata))

    def rows(self, **labels: Any) -> list[dict[str, Any]]:
        """One JSON-ready record per stratum, "all" first; `labels` such as task or method come first in each record."""
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
            | ({} if self.note is None else {"note": self.note})
            for row in self
        ]

    def __str__(self) -> str:
        rows = [*self, *([self.together] if self.simultaneous and self.together is not None else [])]
        width = max(len(row.name) for row in rows)
        promise = " for all steps of an episode at once" if self.simultaneous else ""
        lines = [f"coverage, target {1 - self.alpha:.1%}{promise}"]
        for row in rows:
            low, high = row.ci95
            shown = f"{row.coverage:7.1%}  [{low:.1%}, {high:.1%}]" if row.n else "      -"
            cells = "" if row.volume is None else f"  {row.volume:10.1f} cells"
            lines.append(f"  {row.name:{width}}  {shown}  of {row.n:,}{cells}")
        return "\n".join(lines if self.note is None else [*lines, f"  {self.note}"])


class Grouped(NamedTuple):
    """The group of each outcome (n,), and the names and the calibration points of the groups (J,)."""

    group: Ints
    names: list[str]
    sizes: Ints


def coverage_of(
    alpha: float,
    inside: Bools,
    strata: Ints,
    names: list[str],
    volumes: Floats | None = None,
    episodes: Ints | None = None,
    simultaneous: bool = False,
    groups: Grouped | None = None,
) -> Coverage:
    """Coverage from membership `inside` (n,), with the stratum of each outcome (n,), and its episode and group if any.

    `volumes` (M + 1,) or (M,) are the mean cells of a region by stratum, and `simultaneous` is whether regions are for all
    steps of an episode at once.
    """
    cells, points = None if volumes is None else [volumes.sum()], None if groups is None else [groups.sizes.sum()]
    (everything,) = tally(["all"], np.zeros(len(strata), dtype=np.int8), inside, cells, points, episodes)
    return Coverage(
        float(alpha),
        everything,
        tally(names, strata, inside, volumes, None, episodes),
        () if groups is None else tally(groups.names, groups.group, inside, None, groups.sizes, episodes),
        together=None if episodes is None else whole_episodes(inside, episodes),
        simultaneous=simultaneous,
    )


def whole_episodes(inside: Bools, episodes: Ints) -> CoverageRow:
    """Fraction of episodes all of whose steps are `inside` (n,); `episodes` (n,) is the episode of each step.

    An episode is one trial, so the interval is the exact binomial one.
    """
    different, number = np.unique(episodes, return_inverse=True)
    missed = np.bincount(number, weights=~inside, minlength=len(different)) > 0
    return CoverageRow("whole episodes", len(different), int((~missed).sum()))


def tally(
    names: list[str], labels: Any, inside: Any, volumes: Any, calibration: Any, episodes: Any = None
) -> tuple[CoverageRow, ...]:
    """One coverage row for each label 0, 1, ..., from `inside` (n,) and `labels` (n,).

    With `episodes` (n,), every episode with steps of a label has the same weight there, divided equally among them.
    """
    n, covered = counts_of(labels, len(names)).tolist(), counts_of(labels, len(names), inside).tolist()
    volume, points = (
        [None] * len(names) if known is None else np.asarray(known).tolist() for known in (volumes, calibration)
    )
    rows = list(map(CoverageRow, names, n, covered, volume, points))
    if episodes is None:
        return tuple(rows)
    number = np.unique(episodes, return_inverse=True)[1]
    return tuple(_by_episode(row, inside, number, labels == i) for i, row in enumerate(rows))


def _by_episode(row: CoverageRow, inside: Bools, number: Ints, here: Bools) -> CoverageRow:
    """The row for a random one of the steps `here` (n,) of a random episode that has any; `number` (n,) is the episode."""
    steps = np.bincount(number[here])
    hits = np.bincount(number[here], weights=inside[here])[steps > 0] / steps[steps > 0]
    return replace(row, n=len(hits), covered=float(hits.sum()), interval=share_interval(hits))


@dataclass(frozen=True)
class HorizonCoverage:
    """Coverage of test rollouts, with exact intervals.

    `coverage[3]` is the coverage at step 3, overall and by stratum; `coverage.together` is the row of all steps at once,
    whose volume is the sum over the steps.
    """

    alpha: float
    simultaneous: bool
    together: CoverageRow
    steps: tuple[int, ...]
    by_step: tuple[Coverage, ...]

    def __getitem__(self, step: int) -> Coverage:
        if step not in self.steps:
            raise CaptureError(
                f"step {step!r} is not calibrated; the calibrated steps are {', '.join(map(str, self.steps))}."
            )
        return self.by_step[self.steps.index(step)]

    def __iter__(self) -> Iterator[tuple[int, Coverage]]:
        return iter(zip(self.steps, self.by_step))

    def rows(self, **labels: Any) -> list[dict[str, Any]]:
        """One JSON-ready record per step and stratum, after one with step "all"; `labels` come first in each record."""
        whole = Coverage(self.alpha, self.together, (), ()).rows(**labels, step="all")
        return whole + [row for step, coverage in self for row in coverage.rows(**labels, step=step)]

    def __str__(self) -> str:
        promise = "all steps at once" if self.simultaneous else "each step"
        lines = [f"coverage, target {1 - self.alpha:.1%} for {promise}"]
        names = [row.name for row in self.by_step[0]]
        lines.append(f"  {'step':>4}  " + "  ".join(f"{name:>21}" for name in names) + ("  cells" if self._gridded else ""))
        for step, coverage in self:
            cells = f"  {coverage.all.volume:,.0f}" if self._gridded else ""
            lines.append(f"  {step:>4}  " + "  ".join(f"{_in_brackets(row):>21}" for row in coverage) + cells)
        lines.append(f"  {'all':>4}  {_in_brackets(self.together):>21}  of {self.together.n:,} rollouts")
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
    episodes: Ints | None,
) -> HorizonCoverage:
    """Coverage from membership (n, S), the strata of the outcomes (n, S) and mean cells by step and stratum (S, M)."""

    by_step = tuple(
        coverage_of(alpha, inside[:, s], labels[:, s], names, None if cells is None else cells[s], episodes)
        for s in range(len(steps))
    )
    whole, volume = np.asarray(inside.all(axis=1)), None if cells is None else [cells.sum()]
    (together,) = tally(["all"], np.zeros(len(whole), dtype=np.int8), whole, volume, None, episodes)
    return HorizonCoverage(alpha, simultaneous, together, steps, by_step)


def _in_brackets(row: CoverageRow) -> str:
    low, high = row.ci95
    return f"{row.coverage:.1%} [{low:.1%}, {high:.1%}]" if row.n else "-"
