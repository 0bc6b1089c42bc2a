"""Particles propagated open loop through a model of the whole state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.capture.region import finite_columns, with_whole_strata
from capture_cp.conformal.scores import Model, Score
from capture_cp.data.rollouts import BatchedStep, advance
from capture_cp.spaces.strata import INFEASIBLE, Strata, grid_of


class Cloud(NamedTuple):
    """The prediction for one step: the grouping input x (n, ds + da), and particles (n, L, dc) after the step."""

    x: Floats
    particles: Floats


def as_step(model: Model) -> BatchedStep:
    """Turn a model into a step function, if the configuration is the whole state, such as a quasi-static pose."""

    def step(states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        return model(np.hstack([states, actions]), 1, rng)[:, 0]

    return step


def propagate(
    step: BatchedStep, starts: Floats, actions: Floats, axes: Sequence[int], n_particles: int, rng: np.random.Generator
) -> Iterator[Cloud]:
    """Particles of every step from starts (n, ds) under actions (n, H, da), in sequence.

    The input of a step is the particles' mean state before it and the action, which is all that a planner knows then.
    """
    shape = (len(starts), n_particles, starts.shape[1])
    states = np.repeat(starts, n_particles, axis=0)
    for h in range(actions.shape[1]):
        x = np.hstack([states.reshape(shape).mean(axis=1), actions[:, h]])
        states = advance(step, states, np.repeat(actions[:, h], n_particles, axis=0), rng, h + 1)
        yield Cloud(x, np.ascontiguousarray(states.reshape(shape)[:, :, list(axes)]))


def within(score: Score, clouds: Sequence[Cloud], q: Floats, configurations: Floats, labels: Ints) -> Bools:
    """Whether configurations (n, S, dc) with strata `labels` (n, S) are in the regions of thresholds q (n, S, M): (n, S)."""
    limit = np.take_along_axis(q, np.maximum(labels, 0)[:, :, None], axis=2)[:, :, 0]
    inside = [
        score.within(cloud.particles, np.ascontiguousarray(configurations[:, s]), limit[:, s])
        for s, cloud in enumerate(clouds)
    ]
    return np.asarray(np.stack(inside, axis=1) & (labels != INFEASIBLE))


def count_cells(score: Score, clouds: Sequence[Cloud], q: Floats, strata: Strata) -> Ints:
    """Grid cells within thresholds q (n, S, M) of the particles of S steps, by stratum: (n, S, M)."""
    gridded = grid_of(strata)
    counts = np.empty(q.shape, dtype=np.int64)
    for s, cloud in enumerate(clouds):
        columns = np.hstack([q[:, s], np.full((len(q), 1), -1.0)])  # no infeasible cells
        found = score.count_cells(cloud.particles, finite_columns(columns), gridded)
        counts[:, s] = with_whole_strata(columns, found, gridded)[:, :-1]
    return counts
