"""The built-in example: its physics, and the story it tells about PCP and CaPTURe.

The story is tested with exact distributions. The coverage of a leaf's threshold is Beta(k, n + 1 - k) over the draw of its
n calibration scores, so the count of covered test rows is Beta-binomial, and a stratum's count is the sum over its leaves.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capture_cp import Tree, method
from capture_cp.conformal.quantile import conformal_rank
from capture_lab.tasks.box import Box

seeds = st.integers(0, 2**32 - 1)
BOX = Box()


@given(seeds, st.sampled_from([0.1, 0.4, 2.0]))
def test_true_steps_and_particles_are_always_feasible(seed, bound):
    box = Box(bound=bound)
    rng = np.random.default_rng(seed)
    transitions = box.transitions(200, rng)
    assert (BOX.strata.index(transitions.state) >= 0).all()
    assert (BOX.strata.index(transitions.Y) >= 0).all()
    particles = box(transitions.X, 8, rng)
    assert particles.shape == (200, 8, 2)
    assert (BOX.strata.index(particles.reshape(-1, 2)) >= 0).all()


def test_strata_are_what_they_are_called():
    points = {
        "free": [(0.3, 0.3), (0.9, 0.9), (0.5, 0.45), (0.65, 0.2)],
        "edge": [(0.0, 0.5), (1.0, 0.5), (0.3, 0.0), (0.3, 1.0), (0.55, 0.45), (0.75, 0.45), (0.65, 0.3), (0.65, 0.6)],
        "corner": [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)],
    }
    for name, positions in points.items():
        assert {BOX.strata.names[m] for m in BOX.strata.index(np.array(positions))} == {name}
    solid = [(0.65, 0.45), (-0.03, 0.5), (1.03, 0.5), (0.5, 1.04), (7.0, 7.0)]
    assert BOX.strata.index(np.array(solid)).tolist() == [-1] * 5


def test_the_model_is_right_about_the_noise_and_wrong_about_the_gain():
    X = np.tile([0.3, 0.7, 0.1, -0.1], (1, 1))
    particles = BOX(X, 4000, np.random.default_rng(0))[0]
    assert particles.mean(axis=0) == pytest.approx([0.4, 0.6], abs=0.002)
    assert particles.std(axis=0) == pytest.approx([0.02, 0.02], rel=0.1)
    mean, cov = BOX.gaussian(X)
    assert mean == pytest.approx(np.array([[0.4, 0.6]]))
    assert cov == pytest.approx(np.array([0.02**2 * np.eye(2)]))


ERROR = 1e-6  # of each single claim below


@pytest.fixture(scope="module", params=[0, 1, 2])
def coverages(request):
    """Coverage of PCP and CaPTURe at alpha = 0.1, on transitions that were not used to fit."""
    rng = np.random.default_rng(request.param)
    fit, test = BOX.transitions(20_000, rng), BOX.transitions(20_000, rng)
    return {
        name: method(name, BOX, BOX.strata, tree=Tree(), seed=request.param)
        .fit(fit.X, fit.Y)
        .coverage(test.X, test.Y, 0.1, volumes=False)
        for name in ("pcp", "capture")
    }


def covered_distribution(rows):
    """Probabilities of 0, 1, 2, ... covered test rows in total, given each leaf's calibration and test sizes."""
    leaves = []
    for row in rows:
        k = conformal_rank(row.calibration, 0.1)
        assert k <= row.calibration
        leaves.append(stats.betabinom(row.n, k, row.calibration + 1 - k).pmf(np.arange(row.n + 1)))
    return reduce(np.convolve, leaves)


def test_pcp_undercovers_free_space_and_overcovers_contact(coverages):
    """By more than the luck of the calibration set and of the test set together could explain."""
    (group,) = coverages["pcp"].groups
    k = conformal_rank(group.calibration, 0.1)
    luck = stats.beta(k, group.calibration + 1 - k)
    free = coverages["pcp"]["free"]
    assert stats.binom(free.n, luck.ppf(ERROR)).cdf(free.covered) < ERROR
    for name in ("edge", "corner"):
        contact = coverages["pcp"][name]
        assert stats.binom(contact.n, luck.ppf(1 - ERROR)).sf(contact.covered - 1) < ERROR


@pytest.mark.parametrize("stratum", ["free", "edge", "corner"])
def test_capture_is_right_in_every_stratum(coverages, stratum):
    coverage = coverages["capture"]
    leaves = [row for row in coverage.groups if row.name.split(" and ")[0] == stratum]
    probabilities = covered_distribution(leaves)
    assert probabilities.sum() == pytest.approx(1.0)
    covered = coverage[stratum].covered
    assert sum(row.covered for row in leaves) == covered
    assert probabilities[: covered + 1].sum() > ERROR
    if stratum != "corner":  # in corners many scores are exactly zero, and ties may only raise coverage
        assert probabilities[covered:].sum() > ERROR
