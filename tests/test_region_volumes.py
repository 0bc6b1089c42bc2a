"""Volumes without a grid, as guarantees: 95% intervals hold the volume that a fine grid counts, and samples are uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capture_cp import FunctionStrata, Grid, NearestParticles
from capture_cp.capture.region import Region

NAMES = ["free", "edge", "corner"]


def contact(Y):
    """How many of the first two walls, at x = 0 and y = 0, are touched; -1 within them."""
    touching = (Y[:, :2] < 0.1).sum(axis=1)
    return np.where((Y[:, :2] < 0).any(axis=1), -1, touching)


def with_grid(dims):
    low, spacing = -0.2, {2: 0.002, 3: 0.01}[dims]
    cells = round(1.2 / spacing)
    return FunctionStrata(contact, NAMES, grid=Grid([low + spacing / 2] * dims, spacing, [cells] * dims))


def regions(dims, tries, seed):
    """Regions of random particles near the corner, on strata with a grid and on the same without: pairs."""
    rng, gridded, bare = np.random.default_rng(seed), with_grid(dims), FunctionStrata(contact, NAMES)
    for _ in range(tries):
        particles = rng.uniform(0.0, 0.35, dims) + rng.normal(0, 0.06, (1, 8, dims))
        score, q = NearestParticles(int(rng.integers(1, 5))), rng.uniform(0.1, 0.18, 3)
        yield [Region(score, particles, q, strata, dims, 0.1, False) for strata in (gridded, bare)]


@pytest.mark.parametrize(("dims", "tries"), [(2, 300), (3, 200)])
def test_intervals_hold_the_volume_about_as_often_as_they_say(dims, tries):
    """The grid is fine: its own error is a small part of the standard errors."""
    held = {name: [] for name in (None, *NAMES)}
    for number, (gridded, bare) in enumerate(regions(dims, tries, dims)):
        for name, outcomes in held.items():
            counted, found = gridded.volume(name), bare.volume(name, draws=1000, rng=number)
            if counted > 0.1 * gridded.volume():  # of less, a thousand draws find too few for a normal error
                outcomes.append(abs(found - counted) <= 1.96 * found.standard_error)
    for name, outcomes in held.items():
        low, high = stats.binom.ppf([1e-4, 1 - 1e-4], len(outcomes), 0.95)
        assert len(outcomes) > 30, name
        assert low <= sum(outcomes) <= high, name


@pytest.mark.parametrize("dims", [2, 3])
def test_samples_are_uniform_over_the_cells(dims):
    """Chi-square against the volumes that the grid counts in coarse cells, over all strata at once."""
    pvalues = []
    for number, (gridded, bare) in enumerate(regions(dims, 6, 10 + dims)):
        Y, centres = bare.sample(3000, rng=number), gridded.strata.grid.centre(gridded.cells())
        assert bare.contains(Y).all()
        pvalues.append(_uniformity(Y, centres))
    assert min(pvalues) > 1e-4


def _uniformity(Y, centres):
    low = centres.min(axis=0)
    wide = (np.ptp(centres, axis=0) + 1e-9) / 4
    shape = (4,) * Y.shape[1]
    expected, counts = (
        np.bincount(
            np.ravel_multi_index(tuple(np.clip((X - low) / wide, 0, 3).astype(int).T), shape), minlength=4 ** len(wide)
        )
        for X in (centres, Y)
    )
    big = expected * len(Y) / len(centres) > 5
    return stats.chisquare(counts[big], expected[big] * counts[big].sum() / expected[big].sum()).pvalue
