"""Cells of a line that a region covers: single precision agrees with counting in double precision wherever it is certain."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import cuda

from capture_cp.planning.cuda.covered import WORD, covered_cells

PARTICLES = 6
PLANES = 3


@cuda.jit
def _cover(offsets, places, ats, limits, reaches, ks, out, certain):
    i = cuda.grid(1)
    planes = cuda.local.array(PLANES, np.uint32)
    if i < offsets.shape[0]:
        out[i], certain[i] = covered_cells(offsets[i], places[i], ats[i], limits[i], reaches[i], ks[i], WORD, planes)


def by_both(clouds, places, ats, limits, ks):
    """Bits and certainty of many lines, and the bits found one cell at a time in double precision, (n,) each."""
    n, dims = len(clouds), clouds.shape[2]
    reaches = np.maximum(np.sqrt(limits), np.linalg.norm(places, axis=1))
    out, certain = np.zeros(n, np.uint32), np.zeros(n, np.bool_)
    single = clouds.astype(np.float32), places.astype(np.float32)
    _cover[math.ceil(n / 8), 8](*single, ats, limits, reaches, ks, out, certain)
    cells = np.concatenate([np.repeat(places[:, None], WORD, axis=1), np.zeros((n, WORD, 1))], axis=2)
    cells[:, :, dims - 1] = np.arange(WORD) - ats[:, None]
    within = ((cells[:, :, None] - clouds[:, None]) ** 2).sum(axis=3) <= limits[:, None, None]
    inside = within.sum(axis=2) >= ks[:, None]
    return out, certain, (inside << np.arange(WORD)).sum(axis=1).astype(np.uint32)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_certain_cells_are_those_found_one_by_one(dims, few):
    rng, n = np.random.default_rng(dims), 20 * few
    clouds = rng.choice([0.3, 4.0], size=(n, 1, 1)) * rng.standard_normal((n, PARTICLES, dims))
    places, ats = rng.uniform(-8, 8, (n, dims - 1)), rng.uniform(-5, WORD + 5, n)
    limits, ks = rng.uniform(0, 12, n) ** 2, rng.integers(1, PARTICLES + 1, n)
    found, certain, wanted = by_both(clouds, places, ats, limits, ks)
    assert (found[certain] == wanted[certain]).all()
    assert certain.mean() > 0.98
    assert (wanted != 0).mean() > 0.3


def test_cells_on_the_edge_of_a_region_are_not_certain(few):
    """Particles and cells at whole numbers, and a threshold that is reached exactly, or missed by the last bit."""
    rng, n = np.random.default_rng(0), 20 * few
    clouds = rng.integers(-3, 4, (n, PARTICLES, 2)).astype(float)
    places, ats = rng.integers(-4, 5, (n, 1)).astype(float), rng.integers(5, 20, n).astype(float)
    limits = rng.choice([25.0, np.nextafter(25.0, 0.0), np.nextafter(25.0, 26.0)], n)  # of 3, 4 and 5, or 0 and 5
    found, certain, wanted = by_both(clouds, places, ats, limits, rng.integers(1, PARTICLES + 1, n))
    assert (found[certain] == wanted[certain]).all()
    assert 0.0 < certain.mean() < 0.9
