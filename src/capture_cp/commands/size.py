"""The command that computes how many transitions to log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from capture_cp.base.checks import CaptureError, confidence_level, failure_rate, whole_number
from capture_cp.base.files import check_writable
from capture_cp.commands.options import CHECK, TRAIN, Confidence, Shares, expected_to_suffice
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.hierarchical import episodes_needed
from capture_cp.conformal.quantile import conformal_rank, draws_needed, size_needed, smallest_enough
from capture_cp.report.output import table_of, write_rows

SURE = 0.95  # of calibrations within the range shown, and of logs that give every group enough
APART = (
    "From {:,} on, capture calibrate gives each of as many strata its own thresholds; with fewer, rare strata may share "
    "theirs (--min-stratum)."
)


@dataclass(frozen=True)
class Size:
    """Compute how many transitions to log for finite thresholds, and for coverage close to its target.

    The coverage guarantee is on average over calibrations. The coverage of one calibration follows a Beta distribution
    around the target, for any robot, and the table shows how far it can deviate. The log is split as in `capture calibrate`:
    to train the linear model (not with --own-model), to check, and to grow the tree; the rest sets thresholds. Where steps
    of an episode are not independent (see `capture calibrate --episode`), the numbers are episodes, not transitions.
    """

    alpha: Annotated[float, tyro.conf.arg(help="Allowed failure rate: regions cover at least 1 - alpha.")] = 0.1
    confidence: Confidence = None
    groups: Annotated[
        int, tyro.conf.arg(help="Number of groups with their own threshold: strata, or leaves of the tree.")
    ] = 1
    share: Annotated[
        float | None, tyro.conf.arg(help="Fraction of transitions in the rarest group; by default 1 / groups.")
    ] = None
    precision: Annotated[
        tuple[float, ...], tyro.conf.arg(help="Half-widths of the range of coverage, such as 0.02 for 2 percentage points.")
    ] = (0.05, 0.02, 0.01)
    own_model: Annotated[
        bool, tyro.conf.arg(help="You have your own model, so no part of the log trains the linear model.")
    ] = False
    train_share: Annotated[float, tyro.conf.arg(help="Fraction of the log that trains the linear model.")] = TRAIN
    tree_share: Annotated[
        float, tyro.conf.arg(help="Fraction of the calibration part that grows the tree; 0 for methods without a tree.")
    ] = Tree().partition_share
    check_share: Annotated[float, tyro.conf.arg(help="Fraction of the log held out to check on.")] = CHECK
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this JSON file.")] = None

    def run(self, console: Console) -> None:
        """Print the table."""
        self._check()
        rows, apart = self.rows(), self.to_keep_apart()
        confident = "" if self.confidence is None else f", confidence {self.confidence:g}"
        title = f"alpha {self.alpha:g}{confident}, {self.groups} {'group' if self.groups == 1 else 'groups'}"
        headings = "for", "scores in\neach group", "coverage of 95 in 100\ncalibrations", "transitions\nto log"
        shown = []
        for row in rows:
            low, high = (100 * end for end in row["coverage"])
            shown.append([row["for"], f"{row['scores']:,}", f"{low:.1f} - {high:.1f}%", f"{row['transitions']:,}"])
        console.print(table_of(title, headings, shown, self._caption(apart)))
        if self.json is not None:
            write_rows(self.json, rows, self, unmerged=apart)

    def rows(self) -> list[dict[str, Any]]:
        """A row for a finite threshold, and one for each precision."""
        wanted = {"a finite threshold": size_needed(self.alpha, self.confidence)}
        for half in sorted(self.precision, reverse=True):
            unit = "point" if half == 0.01 else "points"
            wanted[f"within {100 * half:g} {unit}"] = size_for_precision(half, self.alpha, self.confidence)
        return [
            {
                "for": purpose,
                "scores": n,
                "coverage": list(coverage_range(n, self.alpha, self.confidence)),
                "transitions": self.to_log(n),
            }
            for purpose, n in wanted.items()
        ]

    def to_log(self, scores: int) -> int:
        """Transitions of which every group gets that many scores, in at least 95 of 100 logs.

        The probability that some group gets fewer is at most the sum over the groups, none of which is rarer than the
        rarest.
        """
        drawn = draws_needed(scores, self._rarest, (1 - SURE) / self.groups)
        return self.shares.transitions(drawn, self.tree_share)

    def to_keep_apart(self) -> int | None:
        """Transitions with which `capture calibrate` merges no stratum, in at least 95 of 100 logs; None if it never does.

        As `Tree(min_stratum=...)` decides it: by what the rows that grow the tree make it expect of the others.
        """
        if self.groups == 1 or not self.tree_share:
            return None
        from scipy import special

        fewest, miss = expected_to_suffice(self.alpha, self.confidence), (1 - SURE) / self.groups

        def apart(log: int) -> bool:
            grow = int(self.shares.calibrate(log) * self.tree_share)
            wanted = math.ceil(fewest * grow / max(1, self.shares.scores(log, self.tree_share)))
            return grow >= wanted and float(special.bdtr(wanted - 1, grow, self._rarest)) <= miss

        many = smallest_enough(1, apart) + 50  # parts are rounded, so a slightly longer log may again be too short
        while apart(many - 1):
            many -= 1
        return many

    @property
    def _rarest(self) -> float:
        return self.share if self.share is not None else 1 / self.groups

    @property
    def shares(self) -> Shares:
        """How the log is divided."""
        return Shares(0.0 if self.own_model else self.train_share, self.check_share)

    @property
    def _episodes(self) -> int:
        """Episodes that must visit a group; with confidence their steps are bet on, which takes slightly more."""
        delta = None if self.confidence is None else round(1 - self.confidence, 12)
        return episodes_needed(self.alpha, delta)

    def _caption(self, apart: int | None) -> str:
        shares, rarest = self.shares, f"The rarest group has {100 * self._rarest:.3g}% of the transitions."
        uses = {
            "of the log trains the linear model": shares.train,
            "of the log is held out to check on": shares.check,
            "of the rest grows the tree": self.tree_share,
        }
        used = ", ".join(f"{100 * share:g}% {use}" for use, share in uses.items() if share)
        sure = "every group gets its scores in at least 95 of 100 logs" if self.groups > 1 else "any log has its scores"
        needed = "" if self.confidence is None else f", and {self._episodes} must visit a group for a finite threshold"
        sentences = [
            rarest if self.groups > 1 else "",
            f"{used}." if used else "",
            f"With so many transitions, {sure}.",
            "" if apart is None else APART.format(apart),
            f"Where steps of an episode are not independent, these numbers are episodes{needed}.",
        ]
        return " ".join(sentence for sentence in sentences if sentence)

    def _check(self) -> None:
        failure_rate(self.alpha)
        confidence_level(self.confidence)
        whole_number("groups", self.groups, 1)
        check_writable(self.json)
        if not 0.0 < self._rarest <= 1 / self.groups + 1e-12:
            raise CaptureError(
                f"share is {self.share!r}; the rarest of {self.groups} groups has more than 0 and at most 1/{self.groups}."
            )
        if not 0.0 <= self.tree_share < 1.0:
            raise CaptureError(f"tree-share is {self.tree_share:g}; expected a number from 0 to below 1, such as 0.7.")
        self.shares.parts()
        if not self.precision or not all(0.0005 <= half < 0.5 for half in self.precision):
            raise CaptureError(f"precision is {self.precision!r}; expected numbers from 0.0005 to below 0.5, such as 0.02.")


def coverage_range(n: int, alpha: float, confidence: float | None = None) -> tuple[float, float]:
    """Where the coverage of 95 of 100 calibrations with n scores lies: central quantiles of Beta(k, n + 1 - k)."""
    from scipy import special

    k = conformal_rank(n, alpha, confidence)
    if k > n:
        return 1.0, 1.0
    low, high = special.betaincinv(k, n + 1 - k, [(1 - SURE) / 2, (1 + SURE) / 2])
    return float(low), float(high)


def size_for_precision(half: float, alpha: float, confidence: float | None = None) -> int:
    """Scores after which the range of coverage is at most 2 * half wide; to within one step of the rank."""

    def fits(n: int) -> bool:
        low, high = coverage_range(n, alpha, confidence)
        return high - low <= 2 * half

    return smallest_enough(size_needed(alpha, confidence), fits)
