"""Coverage by Monte Carlo on the GPU: `montecarlo.count` for tasks whose outcomes are drawn there, at the paper's scale.

Outcomes never leave the GPU. They are drawn, placed in their strata and tested against every method's regions one block at a
time; what comes back is a few sums for each test input. While the GPU counts one part, the processor predicts the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from capture_cp.base.checks import Floats
from capture_cp.base.layouts import Regions
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import finite_columns, with_whole_strata
from capture_cp.conformal.on_cuda import GridOnCuda, OnCuda
from capture_cp.cuda import conformal
from capture_cp.spaces.strata import grid_of
from capture_lab.studies.montecarlo import Counts, Question, counts_by_method, in_regimes, predictions
from capture_lab.tasks.task import OutcomesOnCuda, Task

#: Outcomes held on the GPU at once: 17 bytes each in a plane.
BLOCK = 1 << 26


class _Method(NamedTuple):
    """A method's regions for the inputs of one part, and what the GPU counts of them."""

    regions: Regions
    limits: Any  # (n, M + 1), as the kernels compare them
    hits: Any  # (n, M): outcomes inside, by stratum
    q: Floats  # thresholds (s, M + 1) of the s regions whose cells are counted
    cells: Any  # (s, M + 1), or None where s is 0


class CounterOnCuda:
    """Counts of the calibrated methods of one place."""

    def __init__(self, caps: Mapping[str, Capture], task: Task, outcomes: OutcomesOnCuda, question: Question) -> None:
        self.caps, self.task, self.outcomes, self.question = caps, task, outcomes, question
        self.seed, self.grid = task.seed_here(question.seed), GridOnCuda(grid_of(task.strata))

    def parts(self, X: Floats, parts: Iterable[slice]) -> Iterator[dict[str, Counts]]:
        """Counts of every part: the rows of a slice of X (n, dx)."""
        counting: tuple[Any, dict[str, _Method]] | None = None
        for rows in parts:
            predicted = predictions(self.caps, self.task, X[rows], self.question.seed, rows.start)
            if counting is not None:
                yield self._collect(*counting)
            counting = self._start(X[rows], rows.start, predicted)
        if counting is not None:
            yield self._collect(*counting)

    def _start(self, X: Floats, first: int, predicted: Mapping[str, Any]) -> tuple[Any, dict[str, _Method]]:
        """Everything that the GPU has to do for test inputs X (n, dx), numbered from `first`; started, not awaited."""
        methods = {name: self._method(cap, X, first, predicted[name]) for name, cap in self.caps.items()}
        n, draws, there = len(X), self.question.draws, cuda.to_device(X)
        totals, step = conformal.zeros((n, len(self.task.strata.names)), np.int64), min(draws, max(1, BLOCK // n))
        for first_draw in range(0, draws, step):
            rows = n * min(step, draws - first_draw)
            Y, labels = cuda.device_array((rows, len(self.task.axes)), np.float64), cuda.device_array(rows, np.int8)
            self.outcomes.draw(there, self.seed, first, first_draw, Y, labels, totals)
            for method in methods.values():
                conformal.count_inside(method.regions, Y, labels, method.limits, method.hits)
        return totals, methods

    def _method(self, cap: Capture, X: Floats, first: int, prediction: Any) -> _Method:
        score = cap.score_.on("cuda")
        assert isinstance(score, OnCuda)
        q, sized = cap.cell_thresholds(cap.group_thresholds(self.question.alpha), X), self.question.sized(first, len(X))
        regions, hits = score.on_device(prediction), conformal.zeros((len(X), len(self.task.strata.names)), np.int64)
        cells = None
        if sized:
            some = prediction[:sized]
            cells = score.count(some, score.on_device(some), finite_columns(q[:sized]), self.grid)
        return _Method(regions, cuda.to_device(score.limits(q)), hits, q[:sized], cells)

    def _collect(self, totals: Any, methods: Mapping[str, _Method]) -> dict[str, Counts]:
        """The sums, once the GPU has them."""
        grid, hits, cells = grid_of(self.task.strata), {}, {}
        for name, method in methods.items():
            hits[name] = in_regimes(self.task, method.hits.copy_to_host())
            none = np.zeros((0, method.q.shape[1]), dtype=np.int64)
            cells[name] = with_whole_strata(method.q, none if method.cells is None else method.cells.copy_to_host(), grid)
        return counts_by_method(self.task, in_regimes(self.task, totals.copy_to_host()), hits, cells)
