"""Evidence about failure rates: exact tails, bounds that are their inverses, bets that nobody wins by looking often."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capture_cp import CaptureError
from capture_cp.certificates.certify import episodes_needed
from capture_cp.certificates.evidence import (
    ABOVE,
    BELOW,
    RateWatch,
    betting_p_value,
    log_capital,
    rate_bound,
    rate_p_value,
)

REPETITIONS = 2000


def at_most(count, level, n=REPETITIONS):
    """Whether so many false alarms of n are no more than a rate of `level` explains, but for one time in a thousand."""
    return stats.binomtest(count, n, level, alternative="greater").pvalue > 1e-3


@pytest.mark.parametrize(("failures", "episodes", "delta"), [(0, 10, 0.1), (3, 200, 0.02), (17, 100, 0.2), (0, 1, 0.5)])
def test_p_value_is_the_binomial_tail(failures, episodes, delta):
    assert rate_p_value(failures, episodes, delta) == pytest.approx(stats.binom.cdf(failures, episodes, delta), rel=1e-12)


@given(st.integers(0, 40), st.integers(0, 300), st.floats(0.001, 0.5))
def test_the_bound_is_where_the_p_value_reaches_its_level(failures, more, beta):
    episodes = failures + more
    bound = rate_bound(failures, episodes, beta)
    if bound < 1.0:
        assert rate_p_value(failures, episodes, min(bound * (1 + 1e-9), 1 - 1e-12)) <= beta * (1 + 1e-6)
        assert rate_p_value(failures, episodes, bound * (1 - 1e-6)) > beta * (1 - 1e-3)
        twice = stats.beta.ppf(1 - beta, failures + 1, episodes - failures)
        assert bound == pytest.approx(twice, rel=1e-9)
    else:
        assert failures == episodes or rate_p_value(failures, episodes, 1 - 1e-12) > beta


def test_capital_is_the_mean_of_what_every_bet_has_become():
    failed = np.random.default_rng(0).random(60) < 0.03
    delta, stakes = 0.07, np.ones(len(BELOW))
    for number, lost in enumerate(failed, start=1):
        stakes = stakes * (BELOW if lost else (1 - BELOW * delta) / (1 - delta))
        found = log_capital(np.array([failed[:number].sum()]), np.array([number]), delta)[0]
        assert found == pytest.approx(math.log(stakes.mean()), abs=1e-12)


@pytest.mark.parametrize("rate", [0.05, 0.08])
def test_looking_at_bets_any_time_certifies_falsely_as_rarely_as_promised(rate):
    rng, delta, beta = np.random.default_rng(1), 0.05, 0.1
    false = sum(betting_p_value(rng.random(400) < rate, delta) <= beta for _ in range(REPETITIONS))
    assert at_most(false, beta)


@pytest.mark.parametrize("rate", [0.05, 0.02])
def test_p_values_are_small_as_rarely_as_promised(rate):
    rng, beta = np.random.default_rng(2), 0.1
    failures = rng.binomial(300, 0.05 if rate == 0.05 else 0.07, REPETITIONS)
    assert at_most(sum(rate_p_value(count, 300, 0.05) <= beta for count in failures.tolist()), beta)


def test_bets_need_few_episodes_more_than_a_fixed_number():
    for delta in (0.01, 0.05, 0.2):
        fixed, open_end = episodes_needed(delta), episodes_needed(delta, anytime=True)
        assert fixed == math.ceil(math.log(0.05) / math.log1p(-delta))
        assert fixed < open_end < 1.5 * fixed
        assert rate_p_value(0, fixed, delta) <= 0.05 < rate_p_value(0, fixed - 1, delta)


def watched(delta, failed):
    watch = RateWatch(delta)
    for lost in failed:
        watch.update(bool(lost))
    return watch


def test_a_watch_bets_on_every_time_of_a_change():
    failed, delta = np.random.default_rng(3).random(40) < 0.3, 0.1
    rates = np.unique(np.append(ABOVE[delta * ABOVE < 1] * delta, (1 + delta) / 2))
    total = 1 / (len(failed) + 1)
    for k in range(1, len(failed) + 1):
        since = failed[k - 1 :]
        grown = (rates / delta) ** since.sum() * ((1 - rates) / (1 - delta)) ** (~since).sum()
        total += grown.mean() / (k * (k + 1))
    assert watched(delta, failed).log_capital == pytest.approx(math.log(total), abs=1e-10)


def test_a_watch_raises_false_alarms_as_rarely_as_promised():
    rng, level = np.random.default_rng(4), 0.1
    alarms = sum(watched(0.1, rng.random(150) < 0.1).alarm(level) for _ in range(500))
    assert at_most(alarms, level, 500)


def test_a_watch_notices_a_late_change():
    rng = np.random.default_rng(5)
    found = [watched(0.05, np.concatenate([rng.random(500) < 0.02, rng.random(100) < 0.3])).alarm(0.01) for _ in range(40)]
    assert np.mean(found) > 0.9


def test_a_watch_goes_on_where_it_stood():
    failed = np.random.default_rng(6).random(50) < 0.3
    whole, half = watched(0.2, failed), watched(0.2, failed[:20])
    again = RateWatch.from_facts(half.facts())
    for lost in failed[20:]:
        again.update(bool(lost))
    assert again.facts() == whole.facts()


@pytest.mark.parametrize(
    "change",
    [{"stakes": [0.0]}, {"log_largest": -1.0}, {"failures": 99}, {"delta": 2.0}, {"stakes": None}, {"log_largest": "x"}],
)
def test_a_damaged_watch_is_refused(change):
    facts = watched(0.2, [True, False]).facts() | change
    with pytest.raises(CaptureError):
        RateWatch.from_facts(facts)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, float("nan"), "x", True])
def test_rates_are_probabilities(bad):
    with pytest.raises(CaptureError, match="strictly between 0 and 1: a probability"):
        rate_p_value(0, 10, bad)


def test_more_failures_than_episodes_are_refused():
    with pytest.raises(CaptureError, match="11 failures in 10 episodes"):
        rate_bound(11, 10, 0.05)
