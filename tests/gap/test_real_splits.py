"""Bounds of real tosses hold for other tosses: 100 set them, the others judge, 20 times; and early ones for late ones."""

import os
from pathlib import Path

import numpy as np
import pytest

from capture_cp import measure_gap
from capture_cp.conformal.hierarchical import episode_quantile

EXAMPLES = Path(__file__).parents[2] / "examples"
DATA = os.environ.get("CAPTURE_DATA")
STEPS = (1, 5, 10)
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(DATA is None, reason="needs the tosses: CAPTURE_DATA names no folder that holds them"),
]


def cells(model, log):
    """Errors (n,) and episodes (n,) of every mode, number of steps and quantity, once with all tosses."""
    gap = measure_gap(EXAMPLES / model, Path(DATA or ".") / log, steps=STEPS)
    part = gap.parts[0]
    name = next(iter(part.errors))
    for m in range(len(part.modes)):
        for s, step in enumerate(STEPS):
            rows = part.rows_in(step, "end", m)
            for q in range(len(part.quantities)):
                yield part.errors[name][rows, s, q], part.log.episode[part.starts[rows]]


def covered(errors, episodes, calibrating):
    """Of a random row of a random other toss that visits the mode: the share within the bound of the calibrating ones."""
    mine = np.isin(episodes, calibrating)
    bound = episode_quantile(errors[mine], episodes[mine], 0.1)
    _, number = np.unique(episodes[~mine], return_inverse=True)
    inside = np.bincount(number, errors[~mine] <= bound) / np.bincount(number)
    return inside.mean()


@pytest.mark.parametrize(
    ("model", "log"), [("cube/cube.xml", "cube/tosses.parquet"), ("elbow/elbow.xml", "elbow/tosses.parquet")]
)
def test_bounds_of_100_tosses_hold_for_the_others(model, log):
    every = list(cells(model, log))
    count = 1 + max(int(episodes.max()) for _, episodes in every)
    splits = [np.random.default_rng(seed).permutation(count)[:100] for seed in range(20)]
    found = np.array([[covered(*cell, split) for split in splits] for cell in every])
    print(model, "mean over splits, smallest and largest cell:", found.mean(axis=1).min(), found.mean(axis=1).max())
    print("mean over cells:", found.mean(), "early for late:", min(covered(*cell, np.arange(100)) for cell in every))
    assert found.mean(axis=1).min() >= 0.89
    assert 0.90 <= found.mean() <= 0.92
