"""Is new data like the old? Tests whose false alarms are limited, and that see what they should."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone

from capture_cp import (
    Capture,
    CaptureError,
    FunctionStrata,
    Monitor,
    NearestParticles,
    OneGroup,
    PerStratum,
    Tree,
    one_stratum,
)
from capture_cp.commands.batch import check_batch
from capture_cp.conformal.drift import column_p_values, column_quantiles, holm, shortfall_p_value
from capture_cp.conformal.groups import Uncalibrated
from capture_cp.conformal.martingale import JumperMartingale, OnlineRanks
from capture_cp.conformal.thresholds import GroupScores

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
ERROR = 1e-4


def bag(*scores):
    return GroupScores(np.sort(np.array(scores, dtype=float)), np.array([0, len(scores)]))


class Half:
    """In place of a generator: ties are broken in the middle."""

    def random(self):
        return 0.5


# -- ranks and bets -------------------------------------------------------------------------------------------------------


def test_ranks_of_every_order_are_independent_and_uniform():
    """All orders of five scores, two of them calibration: each sequence of ranks comes equally often."""
    seen = Counter()
    for order in itertools.permutations(range(5)):
        ranks = OnlineRanks(bag(*order[:2]), Half())
        seen[tuple(round(ranks.p_value(0, score), 9) for score in order[2:])] += 1
    assert len(seen) == 3 * 4 * 5
    assert set(seen.values()) == {2}


def test_p_values_are_uniform_with_ties_too():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        ranks = OnlineRanks(bag(*rng.integers(0, 3, 5)), rng)
        found += [ranks.p_value(0, score) for score in rng.integers(0, 3, 10)]
    assert stats.kstest(found, "uniform").pvalue > ERROR


def test_capital_is_a_fair_bet():
    """Whatever came before, the capital after the next p-value is as large as before, on average over uniform ones."""
    martingale = JumperMartingale()
    for p in (0.1, 0.9, 0.03, 0.5):
        martingale.update(p)
    before, after = martingale.capital, []
    for p in (np.arange(1000) + 0.5) / 1000:
        again = clone(martingale)
        for earlier in (0.1, 0.9, 0.03, 0.5):
            again.update(earlier)
        after.append(again.update(p))
    assert np.mean(after) == pytest.approx(before, rel=1e-9)


def alarms(p_values, draws, level):
    return sum(_alarmed(p_values(), level) for _ in range(draws))


def _alarmed(p_values, level):
    martingale = JumperMartingale()
    for p in p_values:
        martingale.update(p)
    return martingale.alarm(level)


def test_false_alarms_are_as_rare_as_stated():
    rng, draws = np.random.default_rng(1), 500

    def online():
        ranks = OnlineRanks(bag(*rng.random(20)), rng)
        return [ranks.p_value(0, score) for score in rng.random(150)]

    assert stats.binomtest(alarms(online, draws, 0.05), draws, 0.05, "greater").pvalue > ERROR


def test_drift_is_found_soon():
    rng = np.random.default_rng(3)
    ranks, martingale = OnlineRanks(bag(*rng.exponential(size=200)), rng), JumperMartingale()
    for score in rng.exponential(size=100):
        martingale.update(ranks.p_value(0, score))
    assert not martingale.alarm(0.01)
    for score in 3 * rng.exponential(size=100):
        martingale.update(ranks.p_value(0, score))
    assert martingale.alarm(0.01)
    assert martingale.steps == 200
    for score in rng.exponential(size=3000):
        capital = martingale.update(ranks.p_value(0, score))
    assert np.isfinite(capital)
    assert martingale.alarm(0.01)  # once raised it stays
    martingale.reset()
    assert martingale.capital == 1.0


# -- other tests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [None, 1], ids=["continuous", "ties"])
@pytest.mark.parametrize(("n", "m"), [(5, 3), (60, 200), (30_000, 50)])
def test_columns_that_have_not_changed_are_left_alone(n, m, digits):
    rng, draws, level = np.random.default_rng(n + m), 100, 0.1
    found = 0
    for _ in range(draws):
        old, new = (rng.normal(size=(size, 2)).round(digits or 9) for size in (n, m))
        found += holm(column_p_values(column_quantiles(old), new)).min() <= level
    assert stats.binomtest(int(found), draws, level, "greater").pvalue > ERROR


@pytest.mark.parametrize("change", [{"ranks": [3, 2]}, {"values": [[1.0]]}, {"rows": 0}, {"ranks": "x"}, {"values": None}])
def test_damaged_quantiles_are_refused(change):
    summary = column_quantiles(np.random.default_rng(0).random((100, 2))) | change
    with pytest.raises(CaptureError, match="damaged"):
        column_p_values(summary, np.zeros((3, 2)))


def test_shortfall_knows_the_luck_of_the_calibration():
    """The sharpest null: coverage of a calibration is Beta(k, n + 1 - k); a binomial test would cry wolf."""
    rng, draws, level = np.random.default_rng(5), 400, 0.1
    sizes, ranks, trials = np.array([30, 50]), np.array([28, 46]), np.array([4000, 3000])
    false, naive = 0, 0
    for _ in range(draws):
        held = sum(rng.binomial(m, rng.beta(k, n + 1 - k)) for m, n, k in zip(trials, sizes, ranks))
        false += shortfall_p_value(held, trials, sizes, ranks) <= level
        naive += stats.binom.cdf(held, trials.sum(), 0.9) <= level
    assert stats.binomtest(int(false), draws, level, "greater").pvalue > ERROR
    assert false > 0.03 * draws
    assert naive > 0.25 * draws


# -- a calibration and new batches ----------------------------------------------------------------------------------------


def still(X, n_particles, rng):
    return 1e-6 * rng.standard_normal((len(X), n_particles, 1))


def batch(rng, n, scale=1.0, shift=0.0):
    """Inputs X (n, 2); outcomes whose spread depends on the input, and whose sign is the stratum."""
    X = rng.random((n, 2)) + shift
    return X, (scale * (1 + X[:, :1]) * rng.standard_normal((n, 1)))


SIGN = FunctionStrata(lambda Y: (Y[:, 0] > 0).astype(int), ["left", "right"])


def fitted(rng, n=300, groups=None, strata=SIGN):
    groups = groups if groups is not None else PerStratum()
    return Capture(still, strata, score=NearestParticles(1), groups=groups, n_particles=2).fit(*batch(rng, n))


@pytest.mark.parametrize(
    ("groups", "confidence"),
    [(PerStratum(), None), (PerStratum(), 0.9), (OneGroup(), None), (Tree(min_leaf=20, per_stratum=False), None)],
    ids=["per stratum", "with confidence", "one group", "a tree over both strata"],
)
def test_a_batch_like_the_calibration_raises_few_alarms(groups, confidence):
    rng, draws, level = np.random.default_rng(6), 60, 0.2
    found = 0
    for seed in range(draws):
        cap = fitted(rng, 120, groups)
        found += bool(check_batch(cap, *batch(rng, 150), 0.1, confidence, level=level, seed=seed).alarms)
    assert stats.binomtest(found, draws, level, "greater").pvalue > ERROR


def test_a_batch_of_episodes_like_the_calibration_raises_few_alarms():
    rng, draws, level = np.random.default_rng(7), 60, 0.2

    def episodes(count):
        ids = np.repeat(np.arange(count), 8)
        X = np.repeat(rng.random((count, 2)), 8, axis=0)
        effect = np.exp(rng.standard_normal(count))[ids][:, None]
        return X, effect * rng.standard_normal((len(ids), 1)), ids

    found = 0
    for seed in range(draws):
        X, Y, ids = episodes(60)
        cap = Capture(still, SIGN, score=NearestParticles(1), groups=PerStratum(), n_particles=2).fit(X, Y, episodes=ids)
        X, Y, ids = episodes(60)
        found += bool(check_batch(cap, X, Y, 0.1, episodes=ids, level=level, seed=seed).alarms)
    assert stats.binomtest(found, draws, level, "greater").pvalue > ERROR


def test_scores_that_grow_are_told_where():
    rng = np.random.default_rng(8)
    X, Y = batch(rng, 400)
    Y = np.where(Y > 0, 2.5 * Y, Y)
    found = check_batch(fitted(rng, 800), X, Y, 0.1)
    assert {(f.question, f.about) for f in found.alarms} >= {("scores", "right"), ("coverage", "right")}
    assert not {(f.question, f.about) for f in found.alarms} & {("scores", "left"), ("coverage", "left")}
    assert "larger than" in next(f.says for f in found.findings if f.question == "scores" and f.about == "right")
    assert not any(f.alarm for f in found.findings if f.question == "inputs")


def test_inputs_that_move_are_told():
    rng = np.random.default_rng(9)
    found = check_batch(fitted(rng, 800), *batch(rng, 300, shift=np.array([0.0, 0.3])), inputs=("load", "tilt"))
    assert [f.about for f in found.alarms if f.question == "inputs"] == ["tilt"]


def test_a_change_over_time_is_told_with_its_row():
    rng = np.random.default_rng(10)
    parts = batch(rng, 300), batch(rng, 300, scale=3.0)
    X, Y = (np.concatenate(both) for both in zip(*parts))
    (order,) = [f for f in check_batch(fitted(rng, 800), X, Y).findings if f.question == "order"]
    assert order.alarm
    assert 301 <= int(order.says.rsplit(" ", 1)[1]) <= 400


def test_what_cannot_be_watched_is_refused():
    rng = np.random.default_rng(13)
    with pytest.raises(CaptureError, match="expected numbers from 0 to 1"):
        JumperMartingale(rates=(0.5, 2.0))
    with pytest.raises(CaptureError, match="not calibrated"):
        Monitor(fitted(rng, groups=Uncalibrated()))
    X, Y = batch(rng, 60)
    cap = Capture(still, one_stratum(), n_particles=2).fit(X, Y, episodes=np.arange(60) // 3)
    with pytest.raises(CaptureError, match="made from episodes; give the episode of each"):
        check_batch(cap, X, Y)


# -- many at once ---------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), n=st.integers(2, 60), ties=st.booleans())
def test_ranks_of_a_batch_are_those_of_its_scores_one_by_one(seed, n, ties):
    rng = np.random.default_rng(seed)
    draw = (lambda size: rng.integers(0, 4, size).astype(float)) if ties else rng.random
    groups, scores = rng.integers(0, 3, n), draw(n)
    known = GroupScores.from_groups(draw(12), rng.integers(0, 3, 12), 3)
    one, all_at_once = (OnlineRanks(known, np.random.default_rng(seed)) for _ in range(2))
    wanted = [one.p_value(int(group), float(score)) for group, score in zip(groups, scores)]
    np.testing.assert_array_equal(all_at_once.p_values(groups, scores), wanted)
    # and both go on alike
    np.testing.assert_array_equal(all_at_once.p_values(groups, scores), one.p_values(groups, scores))


@given(seed=st.integers(0, 1000), level=st.sampled_from([0.5, 0.1, 0.01]))
def test_bets_on_a_batch_are_those_on_its_p_values_one_by_one(seed, level):
    p = np.random.default_rng(seed).random(40) ** 2
    one, all_at_once, first = JumperMartingale(), JumperMartingale(), None
    for i, value in enumerate(p.tolist()):
        one.update(value)
        if first is None and one.alarm(level):
            first = i
    assert all_at_once.update_all(p, level) == first
    assert all_at_once.facts() == one.facts()
