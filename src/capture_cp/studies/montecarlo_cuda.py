"""Coverage by Monte Carlo on the GPU: `montecarlo.count` for tasks whose outcomes are drawn there, at the paper's scale.

Outcomes never leave the GPU. They are drawn, placed in their strata and tested against every method's regions one block at a
time; what comes back is a few sums for each test input. While the GPU counts one part, the processor predicts the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.checks import Floats
from capture_cp.base.layouts import Regions
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import finite_columns, with_whole_strata
from capture_cp.conformal.on_cuda import GridOnCuda, OnCuda
from capture_cp.cuda import conformal
from capture_cp.spaces.strata import grid_of
from capture_cp.studies.montecarlo import Counts, Question, counts_by_method, in_regimes, predictions
from capture_cp.tasks.task import OutcomesOnCuda, Task

#: Outcomes held on the GPU at once: 20 bytes each in a plane.
BLOCK = 1 << 26

#: What times the stages of the work: it is given a stage's name, and stands around it.
Clock = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True)
class _Asked:
    """A method's regions for the inputs of one part, and how many of them have their cells counted."""

    score: OnCuda
    prediction: Any
    on_device: Regions
    q: Floats  # (n, M + 1)
    limits: Any  # (n, M + 1), as the kernels compare them
    sized: int

    def count(self, grid: GridOnCuda) -> Any:
        """Region cells of the first inputs by stratum, counted on the GPU; None if there are none."""
        if not self.sized:
            return None
        regions = self.on_device if self.sized == len(self.q) else self.score.on_device(self.prediction[: self.sized])
        return self.score.count(self.prediction[: self.sized], regions, finite_columns(self.q[: self.sized]), grid)


class CounterOnCuda:
    """Counts of the calibrated methods of one place."""

    def __init__(
        self,
        caps: Mapping[str, Capture],
        task: Task,
        outcomes: OutcomesOnCuda,
        question: Question,
        clock: Clock = nullcontext,
    ) -> None:
        self.caps, self.task, self.outcomes, self.question, self.clock = caps, task, outcomes, question, clock
        self.seed, self.grid = task.seed_here(question.seed), GridOnCuda(grid_of(task.strata))
        self.room: _Room | None = None

    def parts(self, X: Floats, parts: Iterable[slice]) -> Iterator[dict[str, Counts]]:
        """Counts of every part: the rows of a slice of X (n, dx)."""
        counting: _Counted | None = None
        for rows in parts:
            with self.clock("predicting"):
                predicted = predictions(self.caps, self.task, X[rows], self.question.seed, rows.start)
            if counting is not None:
                yield self._collect(counting)
            counting = self._start(X[rows], rows.start, predicted)
        if counting is not None:
            yield self._collect(counting)

    def _start(self, X: Floats, first: int, predicted: Mapping[str, Any]) -> _Counted:
        """Everything that the GPU has to do for test inputs X (n, dx), numbered from `first`; started, not awaited."""
        asked = self._asked(X, first, predicted)
        n, strata, draws = len(X), len(self.task.strata.names), self.question.draws
        step = min(draws, max(1, BLOCK // n))
        if self.room is None or self.room.rows < n * step:
            self.room = _Room(n * step, len(self.task.axes))
        totals, *hits = (conformal.zeros((n, strata), np.int64) for _ in range(1 + len(asked)))
        there = cuda.to_device(X)
        for first_draw in range(0, draws, step):
            now = min(step, draws - first_draw)
            Y, labels, inside, everything = self.room.for_rows(n * now)
            with self.clock("outcomes"):
                self.outcomes.draw(there, now, self.seed, first, first_draw, Y, labels)
                conformal.tally(labels, everything, totals)
            with self.clock("membership"):
                for regions, held in zip(asked.values(), hits):
                    conformal.within(regions.on_device, Y, labels, regions.limits, inside)
                    conformal.tally(labels, inside, held)
        with self.clock("volumes"):
            cells = [regions.count(self.grid) for regions in asked.values()]
        return _Counted(asked, totals, hits, cells)

    def _asked(self, X: Floats, first: int, predicted: Mapping[str, Any]) -> dict[str, _Asked]:
        asked = {}
        for name, cap in self.caps.items():
            score = cap.score_.on("cuda")
            assert isinstance(score, OnCuda)
            q = cap.cell_thresholds(X, self.question.alpha)
            regions, limits = score.on_device(predicted[name]), cuda.to_device(score.limits(q))
            asked[name] = _Asked(score, predicted[name], regions, q, limits, self.question.sized(first, len(X)))
        return asked

    def _collect(self, counted: _Counted) -> dict[str, Counts]:
        """The sums, once the GPU has them."""
        totals, *hits = (in_regimes(self.task, found.copy_to_host()) for found in (counted.totals, *counted.hits))
        cells = {}
        for (name, regions), found in zip(counted.asked.items(), counted.cells):
            own = np.zeros((0, regions.q.shape[1]), dtype=np.int64) if found is None else found.copy_to_host()
            cells[name] = with_whole_strata(regions.q[: regions.sized], own, grid_of(self.task.strata))
        return counts_by_method(self.task, totals, dict(zip(counted.asked, hits)), cells)


@dataclass(frozen=True)
class _Counted:
    """The sums that the GPU computes for one part: outcomes by stratum (n, M), and per method those inside, and cells."""

    asked: Mapping[str, _Asked]
    totals: Any
    hits: Sequence[Any]
    cells: Sequence[Any]


class _Room:
    """Memory of the GPU for a block of outcomes, used again and again."""

    def __init__(self, rows: int, dims: int) -> None:
        self.rows = rows
        self.configurations = cuda.device_array((rows, dims), np.float64)
        self.labels = cuda.device_array(rows, np.int8)
        self.inside = cuda.device_array(rows, np.bool_)
        self.everything = cuda.to_device(np.ones(rows, dtype=np.bool_))

    def for_rows(self, rows: int) -> tuple[Any, Any, Any, Any]:
        """Configurations, labels, whether they are inside, and a yes for each, of so many rows."""
        return self.configurations[:rows], self.labels[:rows], self.inside[:rows], self.everything[:rows]
