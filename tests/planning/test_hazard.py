"""Hazard cells inside a region, by rows, against looking at every cell."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import Grid
from capture_cp.planning.hazard import hazard_runs, region_hazard

SHAPES = {1: (40,), 2: (17, 12), 3: (7, 6, 9)}


@pytest.mark.parametrize("dims", SHAPES)
def test_counting_by_rows_is_counting_cell_by_cell(dims):
    rng, shape = np.random.default_rng(dims), SHAPES[dims]
    upper = [0.1 * (size - 1) for size in shape]
    grid = Grid.between([0.0] * dims, upper, 0.1)
    centres = grid.centre(np.arange(grid.size))
    met = 0
    for _ in range(200):
        labels, hazard = rng.integers(-1, 3, size=grid.size), rng.random(grid.size) < rng.choice([0.2, 0.9])
        cells = hazard_runs(grid, labels, hazard)
        cloud = rng.uniform(0, max(upper), size=dims) + rng.choice([0.02, 0.3]) * rng.standard_normal((6, dims))
        limits = np.where(rng.random(3) < 0.2, -1.0, rng.choice([0.05, 0.3, 1.0], size=3) ** 2)
        limits[rng.random(3) < 0.1] = np.inf
        k = int(rng.integers(1, 7))
        room = np.empty(dims), np.empty(dims), np.empty(3), np.empty(3)
        near = (((centres[:, None] - cloud) ** 2).sum(axis=2)[..., None] <= limits).sum(axis=1) >= k
        wanted = int((near[np.arange(grid.size), labels] & (labels >= 0) & hazard).sum())
        assert region_hazard(cloud, limits, k, cells, *room) == wanted
        met += wanted
    assert met > 200
