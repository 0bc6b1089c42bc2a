"""Monitoring of a calibration in use: whether new transitions are still exchangeable with the calibration set."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, whole_number
from capture_cp.base.files import Pathlike
from capture_cp.base.streams import stream
from capture_cp.capture.artifact import MONITOR_FORMAT, explained, read, write
from capture_cp.capture.capture import Capture
from capture_cp.conformal.martingale import JumperMartingale, OnlineRanks
from capture_cp.conformal.thresholds import EpisodeScores, GroupScores
from capture_cp.conformal.weighted import WeightedScores

MOST_BATCHES = 1000  # batches held separately before they are concatenated


class Monitor:
    """Sequential test of whether new transitions are exchangeable with a calibration, one by one or in batches.

    The scores of new transitions are ranked among all earlier ones of their group; a martingale bets on the ranks. If
    nothing changes, `alarm(level)` ever becomes true with probability at most `level`, however long it runs. For a
    calibration by episodes, pass one random step of each new episode: steps of one episode are not independent.

    `save` and `load` continue a monitor in another process: with the same capital, the same scores, and new random numbers.
    A monitor that is restarted every night would eventually raise a false alarm.

    Args:
        cap: a fitted `Capture`.
        seed: seed of the particles and of the tie-breaking.
        martingale: betting strategy, `JumperMartingale()` by default.

    Attributes:
        scores: of all transitions seen so far.
        p_values: of all transitions seen so far; uniform while nothing has changed, small where scores have grown.
        groups: the group of each.
        rng: generator of the particles and of the tie-breaking.
        notes: your own JSON-compatible data, saved with the monitor.
    """

    def __init__(self, cap: Capture, seed: int = 0, martingale: JumperMartingale | None = None) -> None:
        cap.check_fitted()
        if isinstance(cap.calibration_, WeightedScores):
            raise CaptureError(
                "a calibration with a shift cannot be monitored: by design its log is not exchangeable with new "
                "transitions; monitor one that was fitted without a shift, on transitions of the new distribution."
            )
        if not isinstance(cap.calibration_, GroupScores | EpisodeScores):
            raise CaptureError("this method is not calibrated, so there is nothing to compare new transitions with.")
        self.cap = cap
        self.martingale = martingale if martingale is not None else JumperMartingale()
        self.rng = stream(whole_number("seed", seed, 0), "Monitor")
        self._ranks = OnlineRanks(cap.calibration_.single, self.rng)
        self.notes: dict[str, Any] = {}
        self._seen: list[tuple[Floats, Floats, Ints]] = []  # scores, p-values and groups, batch by batch

    def update(self, X: Any, Y: Any, prediction: Any = None) -> Floats:
        """Add transitions X (n, dx), Y (n, dc), or a single one, in order of time; returns their p-values (n,)."""
        X, Y = self.cap.pairs(np.atleast_2d(X), np.atleast_2d(Y))
        m = self.cap.feasible_index(Y)
        scores = self.cap.scores(self.cap.predicted(X, prediction, self.rng), Y)
        return self.update_scores(scores, self.cap.partition_.grown.groups(X, m))

    def update_scores(self, scores: Floats, groups: Ints) -> Floats:
        """Like `update`, for scores (n,) and their groups (n,) that are already computed."""
        found = self._ranked(scores, groups)
        for p in found.tolist():
            self.martingale.update(p)
        return found

    def first_alarm(self, scores: Floats, groups: Ints, level: float) -> int | None:
        """Like `update_scores`, but returns the index of the score that raised a new alarm, None if there is none."""
        return self.martingale.update_all(self._ranked(scores, groups), level)

    def _ranked(self, scores: Floats, groups: Ints) -> Floats:
        """P-values (n,) of scores (n,), which are added to the earlier ones."""
        if len(scores) == 1:
            found = np.array([self._ranks.p_value(int(groups[0]), float(scores[0]))])
        else:
            found = self._ranks.p_values(groups, scores)
        self._seen.append((np.array(scores, dtype=np.float64), found, np.array(groups, dtype=np.int64)))
        if len(self._seen) >= MOST_BATCHES:
            self._seen = [(self.scores, self.p_values, self.groups)]
        return found

    @property
    def scores(self) -> Floats:
        return np.concatenate([np.empty(0), *(batch[0] for batch in self._seen)])

    @property
    def p_values(self) -> Floats:
        return np.concatenate([np.empty(0), *(batch[1] for batch in self._seen)])

    @property
    def groups(self) -> Ints:
        return np.concatenate([np.empty(0, dtype=np.int64), *(batch[2] for batch in self._seen)])

    @property
    def capital(self) -> float:
        """Current value of an initial bet of 1 against exchangeability."""
        return self.martingale.capital

    def alarm(self, level: float = 0.01) -> bool:
        """Whether a change was detected; the probability of ever raising a false alarm is at most `level`."""
        return self.martingale.alarm(level)

    # -- saved state -------------------------------------------------------------------------------------

    def save(self, path: Pathlike) -> None:
        """Write the monitor's state (not the calibration) to one safetensors file, atomically."""
        if type(self.martingale) is not JumperMartingale:
            raise CaptureError(
                f"a monitor with martingale {type(self.martingale).__name__} cannot be saved; use JumperMartingale."
            )
        header = {
            "fingerprint": self.cap.digest(),
            "martingale": self.martingale.facts(),
            "rng": self.rng.bit_generator.state,
            "notes": self.notes,
        }
        arrays = {"scores": self.scores, "p_values": self.p_values, "groups": self.groups}
        write(path, header, arrays, MONITOR_FORMAT)

    @classmethod
    def load(cls, path: Pathlike, cap: Capture) -> Self:
        """Load a saved monitor of the calibration `cap`, ready to continue."""
        header, arrays = read(path, MONITOR_FORMAT)
        monitor = cls(cap)
        with explained(path, "monitor state"):
            if header["fingerprint"] != cap.digest():
                raise CaptureError("it monitors another calibration; load it with that one, or start a new monitor.")
            monitor._restore(header, arrays)
        return monitor

    def _restore(self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Restore the saved state; every array is checked, since a file may contain anything."""
        scores = finite_array("scores", arrays["scores"], (None,), "(n,)")
        p_values = finite_array("p_values", arrays["p_values"], (len(scores),), "(n,)")
        groups = np.asarray(arrays["groups"], dtype=np.int64)
        self.martingale, self.notes = JumperMartingale.from_facts(header["martingale"]), dict(header["notes"])
        known = (groups >= 0) & (groups < self.cap.partition_.n_groups) & (p_values >= 0) & (p_values <= 1)
        if groups.shape != scores.shape or self.martingale.steps < len(scores) or not known.all():
            raise CaptureError("its arrays do not fit together; start a new monitor.")
        self.rng.bit_generator.state = header["rng"]  # the ranks draw from the same generator
        self._ranks.add(groups, scores)
        self._seen = [(scores, p_values, groups)]
