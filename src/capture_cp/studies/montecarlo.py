"""Coverage by Monte Carlo: many outcomes of the true system for each test input, counted by stratum.

Outcomes of one input share its particles and thresholds, so they are not independent: intervals are taken over inputs, by
the variance of a ratio of sums, and expressed as an effective sample size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from capture_cp.base.checks import Floats
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.conformal.coverage import Coverage, CoverageRow
from capture_cp.spaces.strata import GriddedStrata

#: Outcomes held in memory at once.
BLOCK = 2_000_000


class Task(Protocol):
    """What a task must offer to be measured: strata, a model, and outcomes of its true system."""

    @property
    def strata(self) -> GriddedStrata: ...

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats: ...

    def outcomes(self, X: Floats, draws: int, seed: int, first: int = 0, first_draw: int = 0) -> Floats: ...


@dataclass(frozen=True)
class Counts:
    """Sums over test inputs, one column a stratum and the last for all: outcomes t, those inside h, and their products."""

    inputs: int
    sums: Floats  # (5, M + 1): t, h, t², h², th
    cells: Floats  # (M + 1,): region cells by stratum, infeasible ones last

    @classmethod
    def of(cls, totals: Any, hits: Any, cells: Any) -> Counts:
        """Counts from outcomes and those inside, both (n, M), and region cells (n, M + 1), of each input."""
        t, h = (np.column_stack([part, part.sum(axis=1)]).astype(np.float64) for part in (totals, hits))
        sums = np.stack([t.sum(0), h.sum(0), (t**2).sum(0), (h**2).sum(0), (t * h).sum(0)])
        return cls(len(t), sums, cells.sum(axis=0).astype(np.float64))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.inputs + other.inputs, self.sums + other.sums, self.cells + other.cells)

    def to_json(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "sums": self.sums.tolist(), "cells": self.cells.tolist()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Counts:
        return cls(int(value["inputs"]), np.array(value["sums"], float), np.array(value["cells"], float))

    def coverage(self, alpha: float, strata: tuple[str, ...]) -> Coverage:
        """The counts as coverage, overall and by stratum, with intervals over inputs."""
        cells = self.cells / self.inputs
        rows = [self._row(column, name, cells[column]) for column, name in enumerate(strata)]
        return Coverage(alpha, self._row(len(strata), "all", float(cells.sum())), tuple(rows), ())

    def _row(self, column: int, name: str, volume: float) -> CoverageRow:
        t, h, tt, hh, th = self.sums[:, column]
        if t == 0:
            return CoverageRow(name, 0, 0, float(volume))
        p = h / t
        variance = max(hh - 2 * p * th + p * p * tt, 0.0) / t**2
        effective = min(p * (1 - p) / variance, t) if variance > 0 else t * t / tt
        return CoverageRow(name, int(t), int(h), float(volume), effective=float(effective))


def count(
    caps: Mapping[str, Capture], task: Task, X: Floats, draws: int, seed: int, first: int, alpha: float
) -> dict[str, Counts]:
    """Counts of every calibrated method for test inputs X (n, dx), numbered from `first` for their noise."""
    n, strata = len(X), len(task.strata.names)
    asked = predictions(caps, X, seed, first)
    totals = np.zeros((n, strata))
    hits = {name: np.zeros((n, strata)) for name in caps}
    step = max(1, BLOCK // n)
    for first_draw in range(0, draws, step):
        Y = task.outcomes(X, min(step, draws - first_draw), seed, first, first_draw)
        labels = task.strata.index(Y.reshape(-1, Y.shape[-1])).reshape(Y.shape[:-1])
        totals += _by_stratum(labels, np.ones(labels.shape, dtype=bool), strata)
        for name, cap in caps.items():
            inside = cap.contains(X, Y, alpha, prediction=asked[name], labels=labels)
            hits[name] += _by_stratum(labels, inside, strata)
    return {name: Counts.of(totals, h, caps[name].count_cells(X, alpha, prediction=asked[name])) for name, h in hits.items()}


def predictions(caps: Mapping[str, Capture], X: Floats, seed: int, first: int) -> dict[str, Any]:
    """What each method's model predicts at X (n, dx), numbered from `first`; methods of one model share the answer."""
    answers: dict[Any, Any] = {}
    found = {}
    for name, cap in caps.items():
        score = type(cap.score_)
        question = (id(cap.model), cap.n_particles, score.predict, score.checked)
        if question not in answers:
            answers[question] = cap.predict(X, stream(seed, "predictions", first))
        found[name] = answers[question]
    return found


def _by_stratum(labels: Any, chosen: Any, strata: int) -> Floats:
    """How many of `chosen` (n, r) each input has in each stratum: (n, M)."""
    return np.stack([(chosen & (labels == m)).sum(axis=1) for m in range(strata)], axis=1).astype(np.float64)
