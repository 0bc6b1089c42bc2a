"""Coverage by Monte Carlo: outcomes of the true system for each test input, counted by regime.

Outcomes of one input share its particles and thresholds, so they are not independent: intervals are taken over inputs, by
the variance of a ratio of sums, and expressed as an effective sample size. With one outcome each they are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.region_draws import batch_volumes
from capture_cp.conformal.coverage import Coverage, CoverageRow
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device
from capture_cp.data.transitions import Transitions
from capture_cp.spaces.strata import has_grid
from capture_lab.tasks.task import Task, TestSet

#: Outcomes held in memory at once.
BLOCK = 2_000_000
#: The method whose volumes are the unit, and the same method on a model whose bias was learnt away.
REFERENCE, RESIDUAL = "capture", "capture-residual"
#: Inputs whose regions have their volumes estimated by default where there is no grid: about a minute of seven axes.
VOLUMES = 1000


def fit_methods(
    task: Task,
    methods: Sequence[str],
    data: Transitions,
    seed: int,
    particles: int | None = None,
    tree: Tree | None = None,
    device: Device = "cpu",
) -> dict[str, Capture]:
    """Methods by name, fitted to the same transitions of a task; those that need it on the task's corrected model."""
    fitted = {}
    for name in methods:
        recipe, model = (REFERENCE, task.corrected(seed)) if name == RESIDUAL else (name, task)
        cap = model.method(recipe, particles, tree, task.seed_here(seed)).set_params(device=device)
        fitted[name] = cap.fit(data.X, data.Y)
    return fitted


@dataclass(frozen=True)
class Counts:
    """Sums over test inputs: outcomes t, those inside h, their products, and region cells of some of the inputs.

    Where there is no grid, volumes stand in place of cells; they are infinite where a region takes in a whole stratum.

    Attributes:
        inputs: how many there are.
        sums: t, h, t², h², th by regime, the last column for all: (5, R + 1).
        cells: region cells by regime, infeasible ones last: (R + 1,).
        sized: inputs whose region cells were counted.
        squares: of the cells c of a region and those u of the reference's: c², cu, u².
    """

    inputs: int
    sums: Floats
    cells: Floats
    sized: int = 0
    squares: Floats = field(default_factory=lambda: np.zeros(3))

    @classmethod
    def of(cls, totals: Floats, hits: Floats, cells: Floats, unit: Floats | None = None) -> Counts:
        """Counts from outcomes and those inside, both (n, R), and region cells (v, R + 1) of the first inputs.

        `unit` (v, R + 1) are the cells of the reference's regions.
        """
        t, h = (np.column_stack([part, part.sum(axis=1)]).astype(np.float64) for part in (totals, hits))
        sums = np.stack([t.sum(0), h.sum(0), (t**2).sum(0), (h**2).sum(0), (t * h).sum(0)])
        c = cells.sum(axis=1).astype(np.float64)
        u = np.zeros_like(c) if unit is None else unit.sum(axis=1).astype(np.float64)
        # of infinite volumes nothing is asked but that they are
        squares = np.array([c @ c, c @ u, u @ u]) if np.isfinite([c, u]).all() else np.full(3, np.inf)
        return cls(len(t), sums, cells.sum(axis=0).astype(np.float64), len(cells), squares)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, part.name) + getattr(other, part.name) for part in fields(self)))

    def to_json(self) -> dict[str, Any]:
        return {key: found.tolist() if isinstance(found, np.ndarray) else found for key, found in vars(self).items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Counts:
        read: Any = {key: np.array(found) if isinstance(found, list) else found for key, found in value.items()}
        return cls(**read)

    def coverage(self, alpha: float, regimes: Sequence[str]) -> Coverage:
        """The counts as coverage, overall and by regime, with intervals over inputs."""
        volumes = self.cells / max(self.sized, 1)
        rows = [self._row(column, name, volumes[column]) for column, name in enumerate(regimes)]
        return Coverage(alpha, self._row(len(regimes), "all", volumes.sum()), tuple(rows), ())

    def volume_ratio(self, reference: Counts | None) -> tuple[float | None, list[float] | None]:
        """Mean cells as a ratio to the reference's for the same inputs, and its 95% interval (delta method).

        None where there is no such ratio; infinite, without an interval, where only the reference's cells are finite.
        """
        unit, own = 0.0 if reference is None else reference.cells.sum(), self.cells.sum()
        if not 0 < unit < np.inf:
            return None, None
        if np.isinf(own):
            return float("inf"), None
        ratio = float(own / unit)
        cc, cu, uu = self.squares
        half = 1.96 * float(np.sqrt(max(cc - 2 * ratio * cu + ratio**2 * uu, 0.0)) / unit)
        return ratio, [ratio - half, ratio + half]

    def _row(self, column: int, name: str, cells: float) -> CoverageRow:
        t, h, tt, hh, th = self.sums[:, column]
        volume = float(cells) if self.sized else None
        if t == 0:
            return CoverageRow(name, 0, 0, volume)
        p = h / t
        variance = max(hh - 2 * p * th + p * p * tt, 0.0) / t**2
        effective = min(p * (1 - p) / variance, t) if variance > 0 else t * t / tt
        return CoverageRow(name, int(t), int(h), volume, effective=float(effective))


@dataclass(frozen=True)
class Question:
    """What is counted: so many outcomes of every test input, cells of the first `volume` inputs (None: all), at alpha.

    Where there is no grid, volumes are estimated in place of cells.
    """

    draws: int
    alpha: float
    volume: int | None = None
    seed: int = 0

    def sized(self, first: int, n: int) -> int:
        """How many of n inputs, numbered from `first`, have their region cells counted."""
        return n if self.volume is None else min(max(self.volume - first, 0), n)


def count(caps: Mapping[str, Capture], task: Task, test: TestSet, question: Question, rows: slice) -> dict[str, Counts]:
    """Counts of every calibrated method for some rows of the test inputs, which also number their noise."""
    X, regimes = test.X[rows], len(task.regimes)
    draws = 1 if test.draw is None else question.draws  # a log has one outcome of each input
    asked = predictions(caps, task, X, question.seed, rows.start)
    totals = np.zeros((len(X), regimes))
    hits = {name: np.zeros((len(X), regimes)) for name in caps}
    step = max(1, BLOCK // len(X))
    for first in range(0, draws, step):
        Y = test.outcomes(rows, min(step, draws - first), first)
        labels = task.strata.index(Y.reshape(-1, Y.shape[-1])).reshape(Y.shape[:-1])
        landed = task.stratum_regimes[labels]
        totals += _by_regime(landed, np.ones(landed.shape, dtype=bool), regimes)
        for name, cap in caps.items():
            inside = cap.contains(X, Y, question.alpha, prediction=asked[name], labels=labels)
            hits[name] += _by_regime(landed, inside, regimes)
    sized = question.sized(rows.start, len(X))
    streams = {name: stream(task.seed_here(question.seed), "volumes", name, rows.start) for name in caps}
    cells = {
        name: region_sizes(cap, X[:sized], asked[name][:sized], question.alpha, streams[name]) for name, cap in caps.items()
    }
    return counts_by_method(task, totals, hits, cells)


def counts_by_method(
    task: Task, totals: Floats, hits: Mapping[str, Floats], cells: Mapping[str, Ints | Floats]
) -> dict[str, Counts]:
    """Counts of every method: outcomes (n, R), those inside (n, R) by method, and region cells (v, M + 1) by stratum."""
    sizes = {name: in_regimes(task, found) for name, found in cells.items()}
    return {name: Counts.of(totals, h, sizes[name], sizes.get(REFERENCE)) for name, h in hits.items()}


def in_regimes(task: Task, by_stratum: Ints | Floats) -> Floats:
    """Numbers by stratum (n, M) as numbers by regime (n, R); a last column beyond the strata stays the last."""
    n, strata = by_stratum.shape[1], len(task.stratum_regimes)
    columns = np.append(task.stratum_regimes, len(task.regimes))[:n]
    found = np.zeros((len(by_stratum), len(task.regimes) + n - strata))
    for column, numbers in zip(columns, by_stratum.T):  # a product with zeros would make NaN of infinite volumes
        found[:, column] += numbers
    return found


def predictions(caps: Mapping[str, Capture], task: Task, X: Floats, seed: int, first: int) -> dict[str, Any]:
    """Predictions of each method's model at X (n, dx), numbered from `first`; methods with the same model share them."""
    answers: dict[Any, Any] = {}
    found = {}
    for name, cap in caps.items():
        score = type(cap.score_)
        question = (id(cap.model), cap.n_particles, score.predict, score.checked)
        if question not in answers:
            answers[question] = cap.predict(X, task.prediction_stream(seed, first))
        found[name] = answers[question]
    return found


def region_sizes(cap: Capture, X: Floats, prediction: Any, alpha: float, rng: np.random.Generator) -> Ints | Floats:
    """Region cells (v, M + 1) of inputs X (v, dx), infeasible ones last; without a grid volumes, estimated by `rng`."""
    if not len(X):
        return np.zeros((0, len(cap.strata.names) + 1), dtype=np.int64)
    if has_grid(cap.strata):
        return cap.count_cells(X, alpha, prediction=prediction)
    q = cap.cell_thresholds(cap.group_thresholds(alpha), X)
    return batch_volumes(cap.score_, prediction, q, cap.strata, cap.n_outputs_, rng)


def unit_of(task: Task) -> str:
    """The unit of the sizes of a task's regions."""
    return "cells" if has_grid(task.strata) else "volume"


def _by_regime(landed: Any, chosen: Any, regimes: int) -> Floats:
    """How many of `chosen` (n, r) each input has in each regime: (n, R)."""
    return np.stack([(chosen & (landed == m)).sum(axis=1) for m in range(regimes)], axis=1).astype(np.float64)
