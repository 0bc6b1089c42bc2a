"""The search for cells near particles against looking at every cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import Grid
from capture_cp.base.layouts import EUCLIDEAN, SE2
from capture_cp.kernels import cells, distance
from capture_cp.spaces.strata import GridStrata, columns_of

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.integers(1, 3), st.integers(1, 18), st.sampled_from([np.int8, np.int32]), st.booleans(), st.booleans())
def test_cells_near_particles_equal_looking_at_every_cell(seed, dims, particles, dtype, turns, wraps):
    """Long columns with runs of labels, particles that are not numbers, boxes that wrap around."""
    rng = np.random.default_rng(seed)
    rule, length = (SE2, 0.4) if turns and dims == 3 else (EUCLIDEAN, 1.0)
    shape = [*rng.integers(1, 7, size=dims - 1), int(rng.integers(1, 70))]
    grid = Grid(rng.normal(size=dims), [0.2] * (dims - 1) + [0.03], shape, periodic=(dims - 1,) if wraps else ())
    labels = np.repeat(rng.integers(-1, 3, size=grid.size), rng.integers(1, 40, size=grid.size))[: grid.size]
    found = columns_of(GridStrata(grid, labels, ["one", "two", "three"]))
    weights = rng.normal(size=grid.size).astype(np.float32)
    columns = found._replace(labels=found.labels.astype(dtype), weights=weights.reshape(found.labels.shape))
    cloud = grid.centre(rng.integers(grid.size, size=particles)) + 0.1 * rng.normal(size=(particles, dims))
    cloud[rng.random(particles) < 0.1] = np.nan
    limits, k = rng.choice([-1.0, 0.0, 0.02, 0.1, 0.5], size=4), int(rng.integers(1, particles + 1))
    first = np.array([int(rng.integers(shape[axis])) if wraps and axis == dims - 1 else 0 for axis in range(dims)])
    counts, room = np.zeros(4, dtype=np.int64), cells.room_for(particles, dims, shape[-1])
    unused = np.zeros((dims, dims)), np.zeros(dims, dtype=bool)
    total = cells.search(rule, length, k, cloud, *unused, limits, first, np.array(shape), columns, room, counts)

    centres = grid.centre(np.arange(grid.size))
    near = [[distance.squared_distance(rule, length, y, p) for p in cloud] for y in centres]
    inside = (np.array(near) <= limits[labels][:, None]).sum(axis=1) >= k
    assert counts.tolist() == [int((inside & (labels == m)).sum()) for m in (0, 1, 2, -1)]
    assert total == pytest.approx(weights[inside].sum(dtype=float), abs=1e-9)
