"""Membership in joint spaces and in SE(3), compared with NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.comparison import Comparison
from capture_cp.base.checks import Bools, Floats
from capture_cp.conformal.scores import NearestParticles
from capture_cp.spaces.metrics import Metric, Torus
from capture_cp.spaces.poses import SE3

ROWS, PARTICLES, K = 20_000, 16, 8


def space_comparisons(seed: int) -> Iterator[Comparison]:
    """20,000 configurations, each against its own 16 particles."""
    rng = np.random.default_rng(seed)
    joints = rng.uniform(-np.pi, np.pi, (ROWS, 7))
    poses = np.hstack([rng.uniform(-1, 1, (ROWS, 3)), rng.standard_normal((ROWS, 4))])
    for name, metric, Y in (("seven joints", Torus(), joints), ("SE(3)", SE3(0.2), poses)):
        yield _membership(name, metric, Y, rng)


def _membership(name: str, metric: Metric, Y: Floats, rng: np.random.Generator) -> Comparison:
    particles = Y[:, None] + 0.1 * rng.standard_normal((ROWS, PARTICLES, Y.shape[1]))
    score, q = NearestParticles(K, metric), np.full(ROWS, 0.25)

    def in_numpy() -> Bools:
        return np.asarray((metric.distance(Y[:, None], particles) <= q[:, None]).sum(axis=1) >= K)

    assert (score.within(particles, Y, q) == in_numpy()).mean() > 0.9999
    return Comparison(f"membership, {name}", lambda: score.within(particles, Y, q), "NumPy", in_numpy, 20)
