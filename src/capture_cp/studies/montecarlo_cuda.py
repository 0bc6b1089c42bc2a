"""Coverage by Monte Carlo on the GPU: `montecarlo.count` for the marble, at the scale of the paper.

Outcomes never leave the GPU. They are drawn, placed in their strata and tested against every method's regions a block at a
time; what comes back is a few sums for each test input. While the GPU counts one part, the processor predicts the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import finite_columns, with_whole_strata
from capture_cp.conformal.on_cuda import GridOnCuda, OnCuda, Told
from capture_cp.cuda import conformal
from capture_cp.studies.montecarlo import Counts, predictions
from capture_cp.tasks.marble.cuda import OutcomesOnCuda
from capture_cp.tasks.marble.task import Marble

#: Outcomes held on the GPU at once: 20 bytes each.
BLOCK = 1 << 26

#: What times the stages of the work: it is given a stage's name, and stands around it.
Clock = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class _Asked:
    """A method's regions for the inputs of one part."""

    score: OnCuda
    prediction: Any
    told: Told
    q: Floats  # (n, M + 1)
    limits: Any  # (n, M + 1), as the kernels compare them


class CounterOnCuda:
    """Counts of the calibrated methods of one map."""

    def __init__(
        self, caps: Mapping[str, Capture], task: Marble, draws: int, seed: int, alpha: float, clock: Clock = nullcontext
    ) -> None:
        self.caps, self.task, self.draws, self.seed, self.alpha, self.clock = caps, task, draws, seed, alpha, clock
        self.outcomes, self.grid = OutcomesOnCuda(task), GridOnCuda(task.strata)
        self.room: _Room | None = None

    def parts(self, X: Floats, parts: Sequence[int], size: int) -> Iterator[tuple[int, dict[str, Counts]]]:
        """Number and counts of every part: the `size` test inputs of X (n, 8) from `part * size` on."""
        counting: tuple[int, _Counted] | None = None
        for part in parts:
            inputs = X[part * size : (part + 1) * size]
            with self.clock("predicting"):
                predicted = predictions(self.caps, inputs, self.seed, part * size)
            if counting is not None:
                yield counting[0], self._collect(counting[1])
            counting = part, self._start(inputs, part * size, predicted)
        if counting is not None:
            yield counting[0], self._collect(counting[1])

    def _start(self, X: Floats, first: int, predicted: Mapping[str, Any]) -> _Counted:
        """Everything that the GPU has to do for test inputs X (n, 8), started."""
        asked = self._asked(X, predicted)
        n, strata = len(X), len(self.task.strata.names)
        step = min(self.draws, max(1, BLOCK // n))
        room = self.room = self.room if self.room is not None and self.room.rows >= n * step else _Room(n * step)
        totals, *hits = (conformal.zeros((n, strata), np.int64) for _ in range(1 + len(asked)))
        there = cuda.to_device(X)
        for first_draw in range(0, self.draws, step):
            draws = min(step, self.draws - first_draw)
            Y, labels, inside, everything = room.for_rows(n * draws)
            with self.clock("outcomes"):
                self.outcomes.draw(there, draws, self.seed, first, first_draw, Y, labels)
                conformal.tally(labels, everything, totals)
            with self.clock("membership"):
                for regions, held in zip(asked.values(), hits):
                    conformal.within(regions.score.kernels, regions.told, Y, labels, regions.limits, inside)
                    conformal.tally(labels, inside, held)
        with self.clock("volumes"):
            cells = [r.score.count(r.prediction, r.told, finite_columns(r.q), self.grid) for r in asked.values()]
        return _Counted(asked, totals, hits, cells)

    def _asked(self, X: Floats, predicted: Mapping[str, Any]) -> dict[str, _Asked]:
        asked = {}
        for name, cap in self.caps.items():
            score = cap.score_.on("cuda")
            assert isinstance(score, OnCuda)
            q = cap.cell_thresholds(X, self.alpha)
            told, limits = score.told(predicted[name]), cuda.to_device(score.limits(q))
            asked[name] = _Asked(score, predicted[name], told, q, limits)
        return asked

    def _collect(self, counted: _Counted) -> dict[str, Counts]:
        """The sums, once the GPU has them."""
        totals = counted.totals.copy_to_host()
        found = {}
        for (name, regions), hits, cells in zip(counted.asked.items(), counted.hits, counted.cells):
            volumes = with_whole_strata(regions.q, cells.copy_to_host(), self.task.strata)
            found[name] = Counts.of(totals, hits.copy_to_host(), volumes)
        return found


@dataclass(frozen=True)
class _Counted:
    """What the GPU is adding up for one part: outcomes by stratum (n, M), and of each method those inside, and its cells."""

    asked: Mapping[str, _Asked]
    totals: Any
    hits: Sequence[Any]
    cells: Sequence[Any]


class _Room:
    """Memory of the GPU for a block of outcomes, used again and again."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.positions = cuda.device_array((rows, 2), np.float64)
        self.labels = cuda.device_array(rows, np.int8)
        self.inside = cuda.device_array(rows, np.bool_)
        self.everything = cuda.to_device(np.ones(rows, dtype=np.bool_))

    def for_rows(self, rows: int) -> tuple[Any, Any, Any, Any]:
        """Positions, labels, whether they are inside, and a yes for each, of so many rows."""
        return self.positions[:rows], self.labels[:rows], self.inside[:rows], self.everything[:rows]
