"""Which simulator is closer, and whether a log is one log: exact tests, by brute force and on simulated logs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capture_cp import CaptureError
from capture_cp.conformal.drift import drift
from capture_cp.conformal.paired import Comparison, compare, median_interval, verdicts

ERROR = 1e-4


def counted(closer, farther, tied=0):
    return Comparison(closer, tied, farther, 1.0, (0.5, 2.0))


@given(st.integers(1, 80), st.integers(1, 20), st.integers(0, 9999), st.sampled_from([0.0, 0.01, 0.3]))
def test_an_episode_counts_once(n, episodes, seed, resolution):
    rng = np.random.default_rng(seed)
    number = 3 * rng.integers(0, episodes, n)
    ours, theirs = (np.where(rng.random(n) < 0.2, np.inf, rng.integers(0, 9, n) / 4.0) for _ in range(2))
    signs, ratios = [], []
    for one in np.unique(number):
        a, b = ours[number == one], theirs[number == one]
        tied = [x == y or (max(x, y) < np.inf and abs(x - y) <= resolution * max(x, y)) for x, y in zip(a, b)]
        signs.append(np.sign(sum((0 if even else (1 if x < y else -1)) for x, y, even in zip(a, b, tied))))
        x, y = a.mean(), b.mean()
        ratios.append(1.0 if x == y else 0.0 if y == np.inf else np.inf if y == 0 else x / y)
    found = compare(ours, theirs, number, resolution)
    assert (found.closer, found.tied, found.farther) == (signs.count(1), signs.count(0), signs.count(-1))
    assert found.ratio == np.median(ratios)
    assert found.ratio_ci95 == median_interval(np.array(ratios))
    back = compare(theirs, ours, number, resolution)
    assert (back.closer, back.farther, back.p_two_sided) == (found.farther, found.closer, found.p_two_sided)


@given(st.integers(0, 60), st.integers(0, 60))
def test_intervals_and_p_values_agree(closer, farther):
    found, n = counted(closer, farther), closer + farther
    if n:
        exact = stats.binomtest(closer, n, 0.5)
        assert found.p_two_sided == pytest.approx(exact.pvalue)
        assert found.ci95 == pytest.approx(tuple(exact.proportion_ci(0.95)))
        assert found.p_no_better == pytest.approx(stats.binomtest(closer, n, 0.5, "less").pvalue)
        upper = stats.binomtest(closer, n, 0.5, "less").proportion_ci(0.95).high
        assert (found.p_no_better <= 0.05) == (upper <= 0.5)
    low, high = found.ci95
    unclear = "no better" if found.p_no_better <= 0.05 else "cannot tell"
    wanted = "better" if low > 0.5 else "worse" if high < 0.5 else unclear
    assert verdicts([found]) == [wanted]


def test_verdicts_are_corrected_for_their_number():
    assert verdicts([]) == []
    assert verdicts([counted(16, 4)]) == ["better"]
    assert verdicts([counted(5, 13)]) == ["no better"]
    assert verdicts([counted(16, 4), *[counted(10, 10)] * 19]) == ["cannot tell"] * 20
    # by Holm, where Bonferroni cannot tell
    assert verdicts([counted(16, 4), counted(0, 99), counted(99, 0)]) == ["better", "worse", "better"]
    assert math.isnan(counted(0, 0, 5).share)
    with pytest.raises(CaptureError, match="one of each per row, without NaN"):
        compare(np.array([np.nan]), np.ones(1), np.zeros(1, int))


@pytest.mark.parametrize("episodes", [7, 25, 80])
def test_false_verdicts_are_rare(episodes, repeated):
    """Two simulators that are as often closer, in unequal episodes whose rows agree; four modes that agree as well."""
    rng, draws = np.random.default_rng(episodes), repeated(6000)
    wrong, no_better, missed = 0, 0, 0
    for _ in range(draws):
        number = np.repeat(np.arange(episodes), rng.integers(1, 12, episodes))
        bad, mode = np.exp(rng.standard_normal(episodes))[number], rng.integers(0, 4, len(number))
        lean, hair = rng.standard_normal(episodes)[number], 0.3 * rng.standard_normal((2, len(number)))
        ours, theirs = bad * np.exp(lean + hair[0]), bad * np.exp(-lean + hair[1])
        shown = [compare(ours[mode == m], theirs[mode == m], number[mode == m]) for m in range(4)]
        found = verdicts(shown)
        wrong += bool({"better", "worse"} & set(found))
        no_better += bool({"worse", "no better"} & set(found))
        low, high = compare(ours, theirs, number).ratio_ci95
        missed += not low <= 1.0 <= high
    for count in (wrong, no_better, missed):
        assert stats.binomtest(count, draws, 0.05, "greater").pvalue > ERROR


@given(st.integers(1, 70))
def test_the_median_lies_in_its_interval_often_enough(n):
    low, high = median_interval(np.arange(1.0, n + 1))
    if math.isinf(high):
        return
    k = int(low)
    assert high == n + 1 - k
    assert 2 * stats.binom.cdf(k - 1, n, 0.5) <= 0.05 < 2 * stats.binom.cdf(k, n, 0.5)


def test_a_change_during_the_log_is_found_and_none_is_made_up(repeated):
    rng, draws = np.random.default_rng(0), repeated(2000)
    p_values = []
    for _ in range(draws):
        number = 2 * np.repeat(np.arange(21), rng.integers(1, 9, 21))
        errors = np.where(rng.random(len(number)) < 0.05, np.inf, np.exp(rng.standard_normal(50))[number])
        p_values.append(drift(errors, number, 199))
    for level in (0.05, 0.3):
        assert stats.binomtest(int((np.array(p_values) <= level).sum()), draws, level, "greater").pvalue > ERROR
    worse = np.where(number >= 20, 1.5, 1.0) * rng.uniform(0.8, 1.2, len(number))
    assert drift(worse, number) < 0.005
    assert drift(np.where(number >= 20, np.inf, worse), number) == drift(worse, number)  # the same ranks, up to ties
    assert drift(np.ones(9), np.arange(9)) == 1.0
    assert drift(np.arange(3.0), np.arange(3)) == 1.0
