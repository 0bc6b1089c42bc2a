"""Coverage counts of many inputs: sums that add up, and intervals that are honest about correlated outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capture_cp.conformal.coverage import clopper_pearson
from marble.boards import counts_of

STRATA = ("free", "edge", "corner")
seeds = st.integers(0, 2**32 - 1)


def interval(totals, hits):
    """95% interval of the coverage over all outcomes of inputs with `totals` (n,) outcomes, `hits` (n,) of them inside."""
    return counts_of(totals[:, None], hits[:, None]).coverage(0.1, ("free",)).all.ci95


# -- counts and their intervals -------------------------------------------------------------------------------------------


def random_counts(seed, n=20):
    rng = np.random.default_rng(seed)
    totals = rng.integers(0, 10, size=(n, 3))
    return totals, rng.binomial(totals, 0.9)


@given(seeds, st.integers(1, 19))
def test_counts_of_parts_add_up_to_counts_of_the_whole(seed, cut):
    totals, hits = random_counts(seed)
    parts = counts_of(totals[:cut], hits[:cut], 2.0) + counts_of(totals[cut:], hits[cut:], 3.0)
    whole = counts_of(totals, hits, 5.0)
    assert parts.inputs == whole.inputs
    assert np.array_equal(parts.sums, whole.sums)
    assert np.array_equal(parts.cells, whole.cells)


@given(seeds)
def test_coverage_is_the_share_of_outcomes_inside(seed):
    totals, hits = random_counts(seed)
    result = counts_of(totals, hits, 40.0).coverage(0.1, STRATA)
    assert result.all.coverage == pytest.approx(hits.sum() / totals.sum())
    for m, row in enumerate(result.strata):
        assert (row.n, row.covered) == (totals[:, m].sum(), hits[:, m].sum())
        assert row.volume == 40.0 / len(totals)


def test_stratum_without_outcomes_has_no_coverage():
    totals = np.array([[5, 0, 0], [5, 0, 0]])
    result = counts_of(totals, totals).coverage(0.1, STRATA)
    assert result["edge"].n == 0
    assert math.isnan(result["edge"].coverage)
    assert result.rows()[2]["coverage"] is None


@given(st.integers(1, 2000), st.data())
def test_interval_of_single_outcomes_is_clopper_pearson(n, data):
    covered = data.draw(st.integers(0, n))
    hits = np.arange(n) < covered
    assert interval(np.ones(n), hits) == pytest.approx(clopper_pearson(covered, n), abs=1e-9)


@pytest.mark.parametrize("strength", [0.3, 1.0, 3.0])
def test_intervals_hold_the_truth_95_times_in_100_however_strong_the_correlation(strength):
    """Inputs whose own coverage is drawn from a beta distribution around 0.9, 20 outcomes each."""
    rng = np.random.default_rng(0)
    repeats, n, draws = 3000, 500, 20
    own = rng.beta(0.9 * strength, 0.1 * strength, size=(repeats, n))
    hits = rng.binomial(draws, own)
    intervals = np.array([interval(np.full(n, draws), h) for h in hits])
    held = ((intervals[:, 0] <= 0.9) & (intervals[:, 1] >= 0.9)).sum()
    assert stats.binomtest(int(held), repeats, 0.94, alternative="less").pvalue > 1e-3
    assert stats.binomtest(int(held), repeats, 0.97, alternative="greater").pvalue > 1e-3
    naive = np.array([clopper_pearson(int(h.sum()), n * draws) for h in hits])
    assert ((naive[:, 0] <= 0.9) & (naive[:, 1] >= 0.9)).mean() < 0.9
    assert (np.diff(intervals, axis=1) > np.diff(naive, axis=1)).all()
