"""Strata of a sphere-swept robot in a GPU's kernel: those of the processor."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float64

from benchmarks.contact_strata import PAIRS, arm_configurations, arm_scene
from capture_cp import SweptStrata
from capture_cp.cuda.arrays import THREADS, blocks
from capture_cp.kernels.swept import Swept, swept_stratum

pytest.importorskip("mujoco")

LINKS, CONTACTS = 7, 10


@cuda.jit
def strata_kernel(Y, swept, strata, distances):
    """Stratum and distances of each configuration Y (n, 7), a thread each."""
    frames, out = cuda.local.array((LINKS, 12), float64), cuda.local.array(CONTACTS, float64)
    i = cuda.grid(1)
    if i < strata.shape[0]:
        strata[i] = swept_stratum(swept, Y[i], frames, out)
        for p in range(CONTACTS):
            distances[i, p] = out[p]


def test_strata_are_those_of_the_processor(few):
    swept = SweptStrata(arm_scene(), PAIRS, tolerance=0.05, depth=0.05)
    assert (swept.n_links, len(swept.pairs)) == (LINKS, CONTACTS)
    Y = arm_configurations(few, np.random.default_rng(0))
    there = Swept(*(cuda.to_device(part) if isinstance(part, np.ndarray) else part for part in swept.params))
    strata, distances = cuda.device_array(few, np.int64), cuda.device_array((few, CONTACTS), np.float64)
    strata_kernel[blocks(few), THREADS](cuda.to_device(Y), there, strata, distances)
    np.testing.assert_array_equal(strata.copy_to_host(), swept.index(Y))
    limited = swept.distances(Y, within=swept.tolerance)
    np.testing.assert_allclose(distances.copy_to_host(), limited, rtol=0, atol=1e-12)
