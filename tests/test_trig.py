"""Trigonometry in products and sums, against the library's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit

from capture_cp.kernels.trig import arc


@njit
def arcs(sines, cosines, out):
    for i in range(len(out)):
        out[i] = arc(sines[i], cosines[i])


def test_arc_is_the_arc_tangent_to_the_last_digits():
    rng = np.random.default_rng(0)
    tiny, special = 10.0 ** rng.uniform(-300, 0, 1000), [math.pi / 8, math.pi / 4]
    angles = np.concatenate([rng.uniform(0, math.pi / 2, 200_000), tiny, special])
    size = 10.0 ** rng.uniform(-3, 3, len(angles))
    sines, cosines, found = size * np.sin(angles), size * np.cos(angles), np.empty(len(angles))
    arcs(sines, cosines, found)
    np.testing.assert_allclose(found, np.arctan2(sines, cosines), rtol=5e-16)


@pytest.mark.parametrize(("sine", "cosine", "angle"), [(0.0, 0.0, 0.0), (0.0, 2.0, 0.0), (3.0, 0.0, math.pi / 2)])
def test_arc_at_the_ends(sine, cosine, angle):
    found = np.empty(1)
    arcs(np.array([sine]), np.array([cosine]), found)
    assert found[0] == angle
