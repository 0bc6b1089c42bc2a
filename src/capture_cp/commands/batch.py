"""Does a new batch of transitions still satisfy a calibration? Four questions, whose false alarms together are limited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import digest, digest_of_chunks
from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, some_rows, whole_number
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.monitor import Monitor
from capture_cp.conformal.coverage import Coverage
from capture_cp.conformal.drift import MOST_ROWS, Outcomes, column_p_values, holm
from capture_cp.conformal.episodes import episode_numbers, one_of_each
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.data.transitions import CHUNK, Chunk, LogPart, Runner, TransitionLog, Transitions, in_columns, in_turn

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
    """The results for a batch: its coverage, and findings, each of which may be an alarm."""

    coverage: Coverage
    findings: tuple[Finding, ...]
    level: float  # false-alarm rate of all of them together
    outcomes: int  # independent ones that were tested: transitions, or one step of each episode
    sha256: str  # digest of the batch

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
    named = None if episodes is None else episode_numbers(episodes, len(X))
    names = tuple(f"x{i}" for i in range(X.shape[1])) if inputs is None else inputs
    log = Transitions(X, np.empty((len(X), 0)), Y, names, (), tuple(f"y{i}" for i in range(Y.shape[1])), named)
    return check_log(cap, log, alpha, confidence, level, seed, history)


def check_log(
    cap: Capture,
    log: TransitionLog,
    alpha: float = 0.1,
    confidence: float | None = None,
    level: float = 0.01,
    seed: int = 0,
    history: History | None = None,
    run: Runner[Any] = in_turn,
) -> BatchCheck:
    """As `check_batch`, for a log that need not fit into memory; its episodes count where it has any.

    `run` decides where its chunks are computed, by default in this process.
    """
    episodes = log.episodes()
    if episodes is None and isinstance(cap.calibration_, EpisodeScores):
        raise CaptureError(
            "the calibration was made from episodes; give the episode of each new transition too (episodes=, or --episode)."
        )
    monitor = Monitor(cap, seed) if history is None else history.monitor  # which refuses what is not calibrated
    n = len(log)
    rows = np.arange(n) if episodes is None else one_of_each(episodes, monitor.rng)
    asked = _asked(cap, log, rows, alpha, confidence, monitor, run)
    digests = asked.digests.tolist()
    if history is not None:
        level = history.level
        history.check_new(n, digests, asked.X, asked.Y)
    coverage = cap.tallied(asked.inside, asked.m, asked.groups, float(alpha), None, episodes)
    R, group = asked.R[rows], asked.groups[rows].astype(np.int64)
    each = level / len(QUESTIONS)
    part = each if history is None else each * history.share
    together = cap.partition_.grown.components(cap.strata.names)  # strata that share groups are tested together
    where = {name: here for name, groups in together.items() if (here := np.isin(group, groups)).any()}
    assert isinstance(cap.calibration_, GroupScores | EpisodeScores)
    outcomes = Outcomes.of(cap.calibration_.single, R, group, asked.inside[rows], alpha, confidence)
    order = _order(monitor, R, group, rows, each)
    p_values = monitor.p_values[-len(rows) :]
    found = [
        order,
        *_findings("scores", {name: _ranks(p_values[here]) for name, here in where.items()}, part),
        *_findings("coverage", {name: _share(outcomes, here) for name, here in where.items()}, part),
        *_findings("inputs", _inputs(cap, asked.sampled, log.X_names), part),
    ]
    checked = BatchCheck(coverage, tuple(found), level, len(rows), digest_of_chunks(digests))
    if history is not None:
        history.add(n, digests, checked.alarms_about)
    return checked


class _Asked(NamedTuple):
    """Scores, coverage, strata and groups of every transition of a log."""

    R: Floats  # (n,)
    inside: Bools  # (n,)
    m: npt.NDArray[np.int32]  # (n,)
    groups: npt.NDArray[np.int32]  # (n,)
    sampled: Floats  # inputs of some, (r, dx)
    digests: npt.NDArray[np.str_]  # of the chunks
    X: Floats  # inputs of the first chunk
    Y: Floats  # outcomes of the first chunk


def _asked(
    cap: Capture,
    log: TransitionLog,
    rows: Ints,
    alpha: float,
    confidence: float | None,
    monitor: Monitor,
    run: Runner[Any],
) -> _Asked:
    """Ask about every transition; `rows` are those that are tested, of which some evenly spaced ones are kept."""
    n = len(log)
    wanted = np.zeros(n, dtype=bool)
    wanted[rows[:: -(-len(rows) // MOST_ROWS)]] = True
    part = LogPart.whole(log)
    # a log of one chunk draws from the monitor itself; in longer logs every chunk has its own random numbers
    rng: Any = monitor.rng if n <= CHUNK else int(monitor.rng.integers(2**62))
    cap.group_thresholds(alpha, confidence=confidence)  # warns here, once
    here_only = isinstance(rng, np.random.Generator)  # it must go on from where it stands
    ask = partial(in_columns, partial(_ask, cap, alpha, confidence, rng))
    return _Asked(*map(np.concatenate, zip(*(in_turn if here_only else run)(ask, part.spans(wanted)))))


def _ask(cap: Capture, alpha: float, confidence: float | None, rng: Any, chunk: Chunk) -> tuple[Any, ...]:
    m = cap.feasible_index(chunk.Y, "Y" if chunk.first == 0 else f"Y from row {chunk.first} on")
    again = rng if isinstance(rng, np.random.Generator) else stream(rng, "check", chunk.number)
    prediction = cap.predict(chunk.X, again)
    inside = cap.contains(chunk.X, chunk.Y, alpha, confidence, prediction, m)
    group = cap.partition_.grown.groups(chunk.X, m).astype(np.int32)
    known = slice(None if chunk.number == 0 else 0)
    names = [digest(chunk.X, chunk.Y)]
    R = cap.scores(prediction, chunk.Y)
    return R, inside, m.astype(np.int32), group, chunk.X[chunk.wanted], names, chunk.X[known], chunk.Y[known]


def _order(monitor: Monitor, R: Floats, group: Ints, rows: Ints, level: float) -> Finding:
    """Is the batch, in its order, exchangeable with the calibration? A martingale bets that it is not."""
    before = monitor.alarm(level)
    first = monitor.first_alarm(R, group, level)
    p = float(np.exp(-monitor.martingale.log_largest))
    says = f"a bet of 1 grew to {monitor.capital:.3g}, at most to {1 / max(p, 1e-300):.3g}; alarm from {1 / level:g}"
    if before:
        says += ", reached in an earlier batch"
    elif first is not None:
        says += f", reached in data row {int(rows[first]) + 1}"
    return Finding("order", "all, over time", p, says, level, before or first is not None)


def _findings(question: str, found: Mapping[str, tuple[float, str]], level: float) -> list[Finding]:
    """The p-value, corrected for their number, and what was seen of each thing that the question is about."""
    corrected = holm([p for p, _ in found.values()]).tolist()
    return [Finding(question, name, p, says, level, p <= level) for (name, (_, says)), p in zip(found.items(), corrected)]


def _ranks(p_values: Floats) -> tuple[float, str]:
    """Do scores drift? Ranks among earlier scores should be uniform wherever groups are shared by some strata."""
    from scipy import stats

    mean = float(p_values.mean())
    grown = "larger" if mean < 0.5 else "smaller"
    says = f"{grown} than {100 * max(mean, 1 - mean):.0f}% of earlier ones on average; 50 expected"
    return float(stats.kstest(p_values, "uniform").pvalue), says


def _share(outcomes: Outcomes, here: Bools) -> tuple[float, str]:
    """Is coverage below 1 - alpha by more than the chance of the batch, and of the calibration?"""
    says = f"{outcomes.held[here].sum()} of {here.sum()} inside, {1 - outcomes.alpha:.0%} guaranteed"
    return outcomes.shortfall(here), says


def _inputs(cap: Capture, X: Floats, names: tuple[str, ...]) -> dict[str, tuple[float, str]]:
    """Which inputs are distributed otherwise than those of the calibration?"""
    summary = cap.data_.get("inputs")
    if summary is None:
        return {}
    middle = len(summary["ranks"]) // 2
    says = [f"median {np.median(x):.4g}, it was {values[middle]:.4g}" for x, values in zip(X.T, summary["values"])]
    return dict(zip(names, zip(column_p_values(summary, X), says)))


# -- batch after batch ----------------------------------------------------------------------------------------------------


@dataclass
class History:
    """A monitor that continues from batch to batch, and the batches it has seen.

    The martingale of the monitor can be checked as often as you like: its false alarms are limited over all time. The other
    questions of a check are tests of one batch, and their p-values share the draw of the calibration set, so that they can
    neither be multiplied nor bet on. They are given a share 1 / (b (b + 1)) of their level at batch b instead. These shares
    add up to 1, so whatever the dependence, a test raises a false alarm ever with probability at most its level (the union
    bound). Late batches must deviate more than early ones to raise such an alarm, though not by much: the level enters the
    deviation as the root of its logarithm. A small change that lasts is found by the martingale.

    Attributes:
        monitor: bets on all scores so far.
        level: false-alarm rate of all questions and batches together.
        batches: rows and digest of each batch so far.
        alarm: what the first alarm was about, and its batch; None while there is none.
    """

    monitor: Monitor
    level: float
    batches: list[dict[str, Any]] = field(default_factory=list)
    alarm: dict[str, Any] | None = None

    @classmethod
    def begun_or_continued(cls, file: Path, cap: Capture, level: float, seed: int) -> History:
        """The history in the file, which must be of that calibration, or a new one if there is no such file."""
        if not file.exists():
            return cls(Monitor(cap, seed), level)
        try:
            monitor = Monitor.load(file, cap)
            found = cls(monitor, *_checked(monitor.notes, file))
        except CaptureError as error:
            raise CaptureError(f"{error} To begin anew, give --history the name of a new file.") from None
        if found.level != level:
            raise CaptureError(f"history {file} was begun with --alarm {found.level:g}, not {level:g}; use the same value.")
        return found

    @property
    def share(self) -> float:
        """The fraction of the level that a test of the next batch gets."""
        number = len(self.batches) + 1
        return 1.0 / (number * (number + 1))

    def check_new(self, n: int, digests: Sequence[str], X: Floats, Y: Floats) -> None:
        """Reject a batch of n transitions that is, or begins with, one that was checked before.

        `digests` are those of its chunks, X and Y the first: a longer batch is known as a whole.
        """
        beginnings = {rows: digest(X[:rows], Y[:rows]) for rows in {seen["rows"] for seen in self.batches} if rows <= len(X)}
        beginnings[n] = digest_of_chunks(digests)
        for number, seen in enumerate(self.batches, 1):
            if beginnings.get(seen["rows"]) == seen["sha256"]:
                what = "are" if seen["rows"] == n else f"begin with the {seen['rows']:,} of"
                raise CaptureError(
                    f"these transitions {what} batch {number} of the history, which was checked before; give new ones."
                )

    def add(self, n: int, digests: Sequence[str], alarms: str) -> None:
        """Remember a batch of n transitions that was checked, and what its alarms were about, if there were any."""
        self.batches.append({"rows": n, "sha256": digest_of_chunks(digests)})
        if alarms and self.alarm is None:
            self.alarm = {"batch": len(self.batches), "about": alarms}

    def save(self, file: Path) -> None:
        """Write it to the file, completely or not at all."""
        self.monitor.notes = {"level": self.level, "batches": self.batches, "alarm": self.alarm}
        self.monitor.save(file)


def _checked(notes: Mapping[str, Any], file: Path) -> tuple[float, list[dict[str, Any]], dict[str, Any] | None]:
    """Level, batches and first alarm out of the notes of a file, which may hold anything."""
    if not notes:
        raise CaptureError(f"{file} was written by Monitor.save and not by capture check, so its batches are unknown.")
    try:
        level, alarm = float(notes["level"]), notes["alarm"]
        batches = [{"rows": whole_number("rows", one["rows"], 1), "sha256": str(one["sha256"])} for one in notes["batches"]]
        if alarm is not None:
            alarm = {"batch": whole_number("batch", alarm["batch"], 1), "about": str(alarm["about"])}
    except (KeyError, TypeError, ValueError) as error:
        raise CaptureError(f"history {file} is damaged ({error}).") from None
    return level, batches, alarm
