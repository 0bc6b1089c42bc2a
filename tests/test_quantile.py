"""The conformal rank and quantile, against exact arithmetic and the Beta distribution."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import oracles
from capture_cp import CaptureError, conformal_quantile, size_needed
from capture_cp.conformal.quantile import conformal_rank

TENTHS = [Fraction(i, 10) for i in range(1, 10)]
ALPHAS = [
    *TENTHS,
    Fraction(1, 100),
    Fraction(1, 20),
    Fraction(1, 3),
    Fraction(2, 3),
    Fraction(1, 7),
    Fraction(29, 100),
    Fraction(57, 100),
    Fraction(999, 1000),
    Fraction(1, 1000),
    Fraction(123457, 10**6),
]


@pytest.mark.parametrize("alpha", ALPHAS, ids=str)
def test_rank_is_exact_also_when_alpha_comes_from_a_coverage(alpha):
    """1 - 0.9 is not 0.1 in floating point, yet who writes it means one tenth."""
    for number in (alpha, float(alpha), np.float64(alpha), 1 - float(1 - alpha)):
        assert [conformal_rank(n, number) for n in range(500)] == [oracles.rank(n, alpha) for n in range(500)]


@given(st.integers(0, 10**6), st.integers(1, 10**4 - 1))
def test_rank_is_exact_for_any_size_and_any_decimal_alpha(n, numerator):
    alpha = Fraction(numerator, 10**4)
    assert conformal_rank(n, float(alpha)) == oracles.rank(n, alpha)


@given(st.lists(st.floats(-1e6, 1e6), max_size=60), st.integers(1, 99))
def test_quantile_is_a_score_of_exact_rank_or_infinite(scores, percent):
    alpha = Fraction(percent, 100)
    assert conformal_quantile(scores, float(alpha)) == oracles.quantile(scores, alpha)


def test_quantile_leaves_its_scores_alone_and_takes_infinite_ones():
    assert conformal_quantile([1.0, math.inf, math.inf], 0.5) == math.inf
    assert conformal_quantile([1.0, 2.0, math.inf], 0.5) == 2.0
    scores = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    conformal_quantile(scores, 0.4)
    assert scores.tolist() == [3.0, 1.0, 2.0, 5.0, 4.0]


CONFIDENT = [(0.1, 0.95), (0.05, 0.9), (0.2, 0.5), (0.5, 0.99), (0.3, 0.999)]


@pytest.mark.parametrize(("alpha", "confidence"), CONFIDENT)
def test_confident_rank_is_the_smallest_that_the_beta_distribution_allows(alpha, confidence):
    for n in [*range(0, 80), 200, 1000]:
        k = conformal_rank(n, alpha, confidence)
        plain = conformal_rank(n, alpha)
        assert k >= plain
        if k <= n:
            assert stats.beta.cdf(1 - alpha, k, n + 1 - k) <= 1 - confidence + 1e-12
        if k > plain:
            assert stats.beta.cdf(1 - alpha, k - 1, n + 2 - k) > 1 - confidence


@pytest.mark.parametrize("alpha", ALPHAS, ids=str)
@pytest.mark.parametrize("confidence", [None, 0.5, 0.875, 0.95, 0.999])
def test_size_needed_is_the_smallest_with_a_finite_threshold(alpha, confidence):
    n = size_needed(float(alpha), confidence)
    assert n >= 1
    assert conformal_rank(n, float(alpha), confidence) <= n
    assert conformal_rank(n - 1, float(alpha), confidence) > n - 1


def test_size_needed_takes_no_memory_in_proportion_to_its_answer():
    """A warning about small groups asks for it, at whatever alpha someone has typed."""
    tracemalloc.start()
    try:
        assert 2_995_000 < size_needed(1e-6, 0.95) < 2_996_000
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("alpha", [1e-12, 1e-13, 1e-300])
def test_size_needed_for_a_vanishing_alpha_is_astronomical(alpha):
    """More than any data set: the sentence about small groups must still be printable."""
    assert size_needed(alpha) >= 10**12 - 1


@pytest.mark.parametrize("alpha", [1 - 1e-12, 1 - 1e-13, math.nextafter(1, 0)])
def test_rank_is_at_least_one_when_alpha_is_almost_one(alpha):
    assert [conformal_rank(n, alpha) for n in (0, 1, 2, 100)] == [1, 1, 1, 1]
    assert conformal_quantile([3.0, 1.0, 2.0], alpha) == 1.0
    assert conformal_quantile([], alpha) == math.inf
    assert size_needed(alpha) == 1


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 1.1, math.nan, math.inf, "x", None, [0.1, 0.2]])
def test_alpha_outside_the_open_interval_is_refused(alpha):
    for ask in (lambda: conformal_rank(5, alpha), lambda: conformal_quantile([1.0], alpha), lambda: size_needed(alpha)):
        with pytest.raises(CaptureError, match=r"alpha is .* strictly between 0 and 1"):
            ask()


@pytest.mark.parametrize("confidence", [0, 1, math.nan, "x", 95])
def test_confidence_outside_the_open_interval_is_refused(confidence):
    with pytest.raises(CaptureError, match=r"confidence is .* strictly between 0 and 1"):
        conformal_quantile([1.0], 0.1, confidence)


@pytest.mark.parametrize("scores", [[[1.0, 2.0]], [1.0, math.nan], "x", None, ["a"], 3.0])
def test_scores_that_are_not_a_row_of_numbers_are_refused(scores):
    with pytest.raises(CaptureError, match=r"expected numbers of shape \(n,\), without NaN"):
        conformal_quantile(scores, 0.1)


@pytest.mark.parametrize("n", [-1, 2.5, "3", None])
def test_a_size_that_is_not_a_count_is_refused(n):
    with pytest.raises(CaptureError, match="whole number"):
        conformal_rank(n, 0.1)
