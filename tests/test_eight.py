"""Vectors of eight against NumPy, and the search for cells near particles against looking at every cell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from capture_cp import Grid
from capture_cp.base.layouts import EUCLIDEAN, SE2
from capture_cp.kernels import cells, distance
from capture_cp.kernels.eight import (
    EIGHT,
    SIXTEEN,
    alike,
    at_most,
    below,
    bits,
    both,
    chosen,
    count,
    either,
    load,
    load_sixteen,
    lowest,
    minus,
    over,
    plus,
    root,
    sixteen_flags,
    spread,
    spread_sixteen,
    store,
    times,
)  # fmt: skip
from capture_cp.spaces.strata import GridStrata, columns_of

seeds = st.integers(0, 2**32 - 1)


@njit
def _computed(a, b, at, out):
    one, other = load(a, at), load(b, at)
    store(out, 0, plus(one, other))
    store(out, 8, minus(one, other))
    store(out, 16, times(one, other))
    store(out, 24, root(times(one, one)))
    store(out, 32, chosen(at_most(one, other), one, spread(2.0)))
    return count(at_most(one, other))


@given(seeds, st.integers(0, 5))
def test_eight_numbers_are_computed_as_numpy_computes_them(seed, at):
    rng = np.random.default_rng(seed)
    a, b = rng.choice([-1.5, 0.0, 0.1, 3.7, np.inf, np.nan], size=(2, EIGHT + 5))
    out = np.empty((5, EIGHT))
    below = _computed(a, b, at, out)
    a, b = a[at : at + EIGHT], b[at : at + EIGHT]
    with np.errstate(invalid="ignore"):
        wanted = [a + b, a - b, a * b, np.sqrt(a * a), np.where(a <= b, a, 2.0)]
    np.testing.assert_array_equal(out, wanted)
    assert below == (a <= b).sum()


@njit
def _sixteen(a, b, out):
    one, other = load_sixteen(a, 0), load_sixteen(b, 0)
    less, equal_or_less = below(one, other), at_most(one, other)
    store(out, 0, over(one, other))
    store(out, 16, chosen(both(less, equal_or_less), one, spread_sixteen(2.0)))
    store(out, 32, chosen(sixteen_flags(bits(either(less, equal_or_less))), one, spread_sixteen(2.0)))
    return bits(less), lowest(one, other, minus(spread_sixteen(0.0), one), minus(spread_sixteen(0.0), other))


@given(seeds)
def test_sixteen_numbers_are_computed_as_numpy_computes_them(seed):
    a, b = np.random.default_rng(seed).choice([-1.5, 0.0, 0.1, 3.7, np.inf], size=(2, SIXTEEN))
    out = np.empty((3, SIXTEEN))
    less, lows = _sixteen(a, b, out)
    with np.errstate(invalid="ignore", divide="ignore"):
        wanted = [a / b, np.where(a < b, a, 2.0), np.where(a <= b, a, 2.0)]
    np.testing.assert_array_equal(out, wanted)
    assert less == sum(1 << i for i in np.flatnonzero(a < b))
    assert lows == (a.min(), b.min(), -a.max(), -b.max())


@njit
def _alike(labels, at, label):
    return alike(labels, at, label)


@given(st.integers(0, SIXTEEN), st.integers(0, 9), st.sampled_from([np.int8, np.int32]))
def test_labels_are_compared_up_to_the_first_that_differs(same, at, dtype):
    labels = np.full((5, 7), -1, dtype=dtype)
    labels.ravel()[at : at + same] = 3
    labels.ravel()[at + same + 1 :] = 3
    assert _alike(labels, at, dtype(3)) == same


@given(seeds, st.integers(1, 3), st.integers(1, 18), st.sampled_from([np.int8, np.int32]), st.booleans(), st.booleans())
def test_cells_near_particles_equal_looking_at_every_cell(seed, dims, particles, dtype, turns, wraps):
    """Long columns with runs of labels, more or fewer particles than a vector holds, boxes that wrap around."""
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
