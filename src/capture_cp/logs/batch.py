"""Does a new batch of transitions still satisfy a calibration? Four questions, whose false alarms together are limited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, some_rows
from capture_cp.capture.capture import Capture
from capture_cp.capture.monitor import Monitor
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.drift import Outcomes, column_p_values, holm
from capture_cp.conformal.episodes import episode_numbers, one_of_each
from capture_cp.conformal.quantile import conformal_rank
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.logs.history import History

QUESTIONS = ("order", "scores", "coverage", "inputs")


@dataclass(frozen=True)
class Finding:
    """An answer to one question about one thing: its p-value, corrected for the number of things (Holm), and in words."""

    question: str
    about: str
    p: float
    says: str
    level: float  # an alarm is a p-value of at most this
    alarm: bool


@dataclass(frozen=True)
class BatchCheck:
    """What was found about a batch: coverage as it is, and findings, each of which may be an alarm."""

    coverage: Coverage
    findings: tuple[Finding, ...]
    level: float  # false-alarm rate of all of them together
    outcomes: int  # independent ones that were tested: transitions, or one step of each episode

    @property
    def alarms(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.alarm)

    @property
    def alarms_about(self) -> str:
        """What the alarms are about, in words; empty if there are none."""
        return "; ".join(dict.fromkeys(f"{finding.question} ({finding.about})" for finding in self.alarms))


def check_batch(
    cap: Capture,
    X: Any,
    Y: Any,
    alpha: float = 0.1,
    confidence: float | None = None,
    episodes: Any = None,
    level: float = 0.01,
    seed: int = 0,
    inputs: tuple[str, ...] | None = None,
    history: History | None = None,
) -> BatchCheck:
    """Check transitions X (n, dx), Y (n, dc), in the order of time, against a calibration.

    If they are exchangeable with those of the calibration, there is any alarm with probability at most `level`. With a
    `history` of earlier batches, its own level takes the place of `level`, and holds for all batches together; the batch is
    then added to it. `episodes` (n,) is the episode of each row: then one random step of each episode is tested. `inputs`
    names the columns of X.
    """
    X, Y = cap.pairs(X, Y)
    some_rows("X", X)
    if episodes is None and isinstance(cap.calibration_, EpisodeScores):
        raise CaptureError(
            "the calibration was made from episodes; give the episode of each new transition too (episodes=, or --episode)."
        )
    monitor = Monitor(cap, seed) if history is None else history.monitor  # which refuses what is not calibrated
    if history is not None:
        level = history.level
        history.check_new(X, Y)
    m = cap.feasible_index(Y)
    prediction = cap.predict(X, monitor.rng)
    coverage = cap.coverage(X, Y, alpha, confidence, prediction, volumes=False, episodes=episodes)
    rows = np.arange(len(X)) if episodes is None else one_of_each(episode_numbers(episodes, len(X)), monitor.rng)
    R = cap.scores(prediction, Y)[rows]
    group = cap.partition_.grown.groups(X[rows], m[rows])
    each = level / len(QUESTIONS)
    part = each if history is None else each * history.share
    together = cap.partition_.grown.components(cap.strata.names)
    order = _order(monitor, R, group, rows, each)
    found = [
        order,
        *_scores(monitor.p_values[-len(rows) :], group, together, part),
        *_coverage(outcomes_of(cap, R, X[rows], m[rows], alpha, confidence), together, part),
        *_inputs(cap, X[rows], inputs, part),
    ]
    checked = BatchCheck(coverage, tuple(found), level, len(rows))
    if history is not None:
        history.add(X, Y, checked.alarms_about)
    return checked


def outcomes_of(cap: Capture, R: Floats, X: Floats, m: Ints, alpha: float, confidence: float | None) -> Outcomes:
    """Outcomes with scores R (n,) of inputs X (n, dx) that landed in strata m (n,)."""
    assert isinstance(cap.calibration_, GroupScores | EpisodeScores)
    single = cap.calibration_.single
    ranks = np.array([conformal_rank(int(n), alpha, confidence) for n in single.sizes])
    group = cap.partition_.grown.groups(X, m)
    held = cap.threshold_table(alpha, confidence).thresholds[cap.partition_.groups(X, m)] >= R
    return Outcomes(alpha, group, held, single.at(alpha, confidence)[group] >= R, single.sizes, ranks)


def _order(monitor: Monitor, R: Floats, group: Ints, rows: Ints, level: float) -> Finding:
    """Is the batch, in its order, exchangeable with the calibration? A martingale bets that it is not."""
    before, first = monitor.alarm(level), None
    for i in range(len(R)):
        monitor.update_scores(R[i : i + 1], group[i : i + 1])
        if first is None and monitor.alarm(level):
            first = int(rows[i])
    p = float(np.exp(-monitor.martingale.log_largest))
    says = f"a bet of 1 grew to {monitor.capital:.3g}, at most to {1 / max(p, 1e-300):.3g}; alarm from {1 / level:g}"
    if first is not None:
        says += ", reached in an earlier batch" if before else f", reached in data row {first + 1}"
    return Finding("order", "all, over time", p, says, level, first is not None)


def _scores(p_values: Floats, group: Ints, together: dict[str, Ints], level: float) -> list[Finding]:
    """Where do scores drift? Ranks among earlier scores should be uniform wherever groups are shared by some strata."""
    from scipy import stats

    of = {name: p_values[np.isin(group, groups)] for name, groups in together.items()}
    of = {name: p for name, p in of.items() if len(p)}
    corrected = holm([float(stats.kstest(p, "uniform").pvalue) for p in of.values()])
    return [
        Finding("scores", name, float(p), _direction(of[name]), level, bool(p <= level)) for name, p in zip(of, corrected)
    ]


def _direction(p_values: Floats) -> str:
    mean = float(p_values.mean())
    grown = "larger" if mean < 0.5 else "smaller"
    return f"{grown} than {100 * max(mean, 1 - mean):.0f} % of earlier ones on average; 50 expected"


def _coverage(outcomes: Outcomes, together: dict[str, Ints], level: float) -> list[Finding]:
    """Is coverage below 1 - alpha by more than the chance of the batch, and of the calibration?"""
    where = {name: np.isin(outcomes.group, groups) for name, groups in together.items()}
    where = {name: here for name, here in where.items() if here.any()}
    corrected = holm([outcomes.shortfall(here) for here in where.values()]).tolist()
    found = []
    for (name, here), p in zip(where.items(), corrected):
        says = f"{outcomes.held[here].sum()} of {here.sum()} inside, {1 - outcomes.alpha:.0%} promised"
        found.append(Finding("coverage", name, p, says, level, p <= level))
    return found


def _inputs(cap: Capture, X: Floats, names: tuple[str, ...] | None, level: float) -> list[Finding]:
    """Which inputs are distributed otherwise than those of the calibration?"""
    summary = cap.data_.get("inputs")
    if summary is None:
        return []
    corrected = holm(column_p_values(summary, X))
    called = names if names is not None else tuple(f"x{i}" for i in range(X.shape[1]))
    middle = len(summary["ranks"]) // 2
    return [
        Finding("inputs", name, float(p), f"median {np.median(x):.4g}, it was {values[middle]:.4g}", level, bool(p <= level))
        for name, p, x, values in zip(called, corrected, X.T, summary["values"])
    ]
