"""Bounds over episodes and trust: the definitions by brute force, and the guarantees on simulated logs.

Logs here are unkind: long episodes are the bad ones, and a mode is visited the more, the worse the episode.
"""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capture_cp import CaptureError
from capture_cp.conformal.hierarchical import (
    Trust,
    betting_passes,
    betting_quantile,
    confident_quantile,
    drawn_quantile,
    episode_quantile,
    episodes_needed,
    few_rows,
    trusted_steps,
)

ERROR = 1e-4  # a right implementation fails a test here once in ten thousand runs, were the seeds not fixed
ALPHAS = st.sampled_from([0.05, 0.1, 0.3, 1 / 3, 1 - 0.9])


@st.composite
def small_logs(draw, most=60):
    """Scores with ties and infinities, and their episodes, some of whose numbers are skipped."""
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    n = draw(st.integers(1, most))
    scores = rng.integers(0, 1 + draw(st.integers(1, 40)), n) / 7.0
    scores[rng.random(n) < 0.05] = np.inf
    return scores, 2 * rng.integers(0, 1 + draw(st.integers(0, most)), n)


# -- the definitions ------------------------------------------------------------------------------------------------------


@given(small_logs(), ALPHAS)
def test_the_quantile_is_that_of_the_definition(log, alpha):
    scores, episodes = log
    rows = {one: int((episodes == one).sum()) for one in episodes}
    needed = (1 - Fraction(alpha).limit_denominator(100)) * (len(rows) + 1)
    found = (q for q in sorted(scores) if sum(Fraction(1, rows[one]) for one in episodes[scores <= q]) >= needed)
    assert episode_quantile(scores, episodes, alpha) == next(found, math.inf)


def test_a_quantile_at_the_border_is_exact():
    """Episodes of 1 to 400 rows: nine tenths of all weights fall on a row exactly, which float sums miss."""
    lengths = np.r_[1:360, [3, 7, 11], 363:400]
    episodes = np.repeat(np.arange(399), lengths)
    scores = np.where(episodes < 360, np.arange(len(episodes)), np.inf)
    assert episode_quantile(scores, episodes, 0.1) == scores[episodes == 359][-1]
    assert math.isinf(episode_quantile(scores, episodes, 0.0999))


def literal(shares, alpha, delta):
    """Whether the bets on shares (K,) ever reach 1 / delta, as the formula is printed."""
    wealth, best, squares = 1.0, 0.0, 0.0
    for i, share in enumerate(shares, 1):
        x, v = share - (1 - alpha), (2 * alpha * (1 - alpha) + squares) / (i + 1)
        wealth *= 1 + min(math.sqrt(2 * math.log(1 / delta) / (len(shares) * v)), 0.97 / (1 - alpha)) * x
        best, squares = max(best, wealth), squares + x * x
    return best >= 1 / delta


@given(small_logs(200), st.sampled_from([0.1, 0.2, 0.5]), st.sampled_from([0.05, 0.3]))
def test_betting_is_that_of_the_definition(log, alpha, delta):
    scores, episodes = log
    which = np.unique(episodes)
    wanted = math.inf
    for q in np.unique(scores[np.isfinite(scores)])[::-1]:
        within = scores <= q
        passes = literal([within[episodes == one].mean() for one in which], alpha, delta)
        if len(which) >= episodes_needed(alpha, delta) and not few_rows(episodes):
            assert betting_passes(within, episodes, alpha, delta) == passes
        if not passes:
            break
        wanted = q
    assert betting_quantile(scores, episodes, alpha, delta) == wanted


@given(small_logs(), st.floats(0.0, 6.0))
def test_a_drawn_row_gives_the_same_bound_as_the_test(log, tolerance):
    scores, episodes = log
    few = len(np.unique(episodes)) < episodes_needed(0.2, 0.1, drawn=True)
    q, within = drawn_quantile(scores, episodes, 0.2, 0.1), scores <= tolerance
    if few_rows(episodes):
        assert confident_quantile(scores, episodes, 0.2, 0.1) == q
        assert betting_passes(within, episodes, 0.2, 0.1) == (None if few else q <= tolerance)
    else:
        assert confident_quantile(scores, episodes, 0.2, 0.1) == betting_quantile(scores, episodes, 0.2, 0.1)


def test_too_few_episodes_are_unknown_and_not_zero():
    """At alpha 0.1: 9 for a bound; with confidence 95%, 30 from all rows and 29 from one drawn row per episode."""
    for alpha, delta in ((0.1, 0.05), (0.05, 0.01), (0.2, 0.05 / 8)):
        for rows, drawn in ((1, True), (3, False)):
            needed = episodes_needed(alpha, delta, drawn)
            for count in (needed - 1, needed):
                episodes = np.repeat(np.arange(count), rows)
                scores = np.zeros(count * rows)
                assert math.isinf(confident_quantile(scores, episodes, alpha, delta)) == (count < needed)
                assert betting_passes(scores <= 1, episodes, alpha, delta) is (True if count == needed else None)
                assert betting_passes(scores < 0, episodes, alpha, delta) is (False if count == needed else None)
        few = np.arange(episodes_needed(alpha) - 1)
        assert math.isinf(episode_quantile(np.zeros(len(few)), few, alpha))
    assert trusted_steps([]) == Trust(0, "all passed")
    assert trusted_steps([True, True]) == Trust(2, "all passed")
    assert trusted_steps([True, None, False]) == Trust(1, "too few episodes")
    assert trusted_steps([False, True]) == Trust(0, "failed")
    nothing = np.empty(0), np.empty(0, dtype=int)
    assert math.isinf(betting_quantile(*nothing, 0.1, 0.05))
    assert math.isinf(episode_quantile(*nothing, 0.1))
    assert betting_passes(nothing[0] < 1, nothing[1], 0.1, 0.05) is None


def test_what_is_no_log_is_refused():
    for scores, episodes in (([1.0, np.nan], [0, 1]), ([1.0], [0, 1]), ([1.0, 2.0], [0, -1]), ([1.0, 2.0], [0.0, 1.0])):
        with pytest.raises(CaptureError, match="expected a number without NaN and the number of its episode"):
            episode_quantile(np.array(scores), np.array(episodes), 0.1)


def test_plain_bounds_import_no_compiler():
    """`capture gap` starts in a blink: nothing on the way to its bounds imports numba or scipy.stats."""
    code = "import sys; import capture_cp.conformal.hierarchical as h, capture_cp.conformal.paired, numpy as np; \
h.confident_quantile(np.ones(9), np.arange(9), 0.1, 0.05); print({'numba', 'scipy.stats'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


# -- the guarantees -------------------------------------------------------------------------------------------------------


def simulated(rng, episodes, rows=8):
    """Scores of two modes, the mode of each row, and its episode: bad episodes are long, and often in the second mode."""
    bad = np.exp(0.8 * rng.standard_normal(episodes))
    number = np.repeat(np.arange(episodes), 1 + rng.poisson(rows * bad))
    mode = rng.random(len(number)) < np.minimum(0.9, 0.2 * bad[number])
    return bad[number] * (1 + mode) * rng.exponential(size=len(number)), mode, number


def new_row(rng, mode):
    """The score of one row in the mode, of the first of some new episodes that visits it."""
    scores, modes, number = simulated(rng, 30)
    here = np.flatnonzero(modes == mode)
    return scores[rng.choice(here[number[here] == number[here[0]]])]


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("episodes", [12, 40])
def test_a_row_of_a_new_episode_is_covered(mode, episodes, repeated):
    rng, draws, inside, most = np.random.default_rng(episodes + mode), repeated(6000), 0, 0.0
    for _ in range(draws):
        scores, modes, number = simulated(rng, episodes)
        here = modes == mode
        inside += bool(new_row(rng, mode) <= episode_quantile(scores[here], number[here], 0.2))
        most += min(1.0, 0.8 + 2 / (len(np.unique(number[here])) + 1)) / draws
    assert stats.binomtest(inside, draws, 0.8, "less").pvalue > ERROR
    assert stats.binomtest(inside, draws, most, "greater").pvalue > ERROR  # and not wasteful


@pytest.fixture(scope="module", params=[0, 1])
def truth(request):
    """A mode, and what a row of an episode that visits it exceeds with probability one fifth."""
    scores, modes, number = simulated(np.random.default_rng(9), 100_000)
    here = modes == request.param
    return request.param, episode_quantile(scores[here], number[here], 0.2)


@pytest.mark.parametrize("bound", [betting_quantile, drawn_quantile, confident_quantile])
def test_with_confidence_few_logs_undercover(bound, truth, repeated):
    (mode, true), draws = truth, repeated(4000)
    rng, short, found = np.random.default_rng(mode), 0, []
    for _ in range(draws):
        scores, modes, number = simulated(rng, 60)
        here = modes == mode
        found.append(bound(scores[here], number[here], 0.2, 0.1))
        short += found[-1] < 0.98 * true  # true itself is known to one per cent
    assert stats.binomtest(short, draws, 0.1, "greater").pvalue > ERROR
    assert np.median(found) < 2.2 * true


def test_trust_is_rarely_longer_than_true(truth, repeated):
    """Errors grow with the steps, so that the tolerance is kept for four steps, and just not for the fifth."""
    (mode, true), draws = truth, repeated(4000)
    rng, tolerance, found = np.random.default_rng(mode), 4.9 * true, []
    for _ in range(draws):
        scores, modes, number = simulated(rng, 60)
        here = modes == mode
        passes = [betting_passes(step * scores[here] <= tolerance, number[here], 0.2, 0.1) for step in range(1, 9)]
        found.append(trusted_steps(passes).steps)
    assert stats.binomtest(sum(steps > 4 for steps in found), draws, 0.1, "greater").pvalue > ERROR
    assert np.median(found) >= 3
