"""What a report marks: coverage that neither the chance of the check nor that of the calibration explains."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capture_cp import Capture, FunctionStrata, NearestParticles, OneGroup, PerStratum, Transitions, one_stratum
from capture_cp.commands.report import MARKED, marks
from capture_cp.conformal.drift import excess_p_value, shortfall_p_value

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
ERROR = 1e-4
SIGN = FunctionStrata(lambda Y: (Y[:, 0] > 0).astype(int), ["left", "right"])


def still(X, n_particles, rng):
    return 1e-6 * rng.standard_normal((len(X), n_particles, 1))


def log(rng, n, right=1.0, episodes=None):
    """Outcomes whose sign is the stratum; those on the right spread `right` times as far."""
    Y = rng.standard_normal((n, 1))
    if episodes is not None:
        Y = np.exp(rng.standard_normal(n))[episodes][:, None] * rng.standard_normal((len(episodes), 1))
    Y = np.where(Y > 0, right * Y, Y)
    return Transitions.from_arrays(np.zeros_like(Y), np.zeros_like(Y), Y, episode=episodes)


def fitted(data, groups, strata=SIGN):
    cap = Capture(still, strata, score=NearestParticles(1), groups=groups, n_particles=2)
    return cap.fit(data.X, data.Y, episodes=data.episode)


@pytest.mark.parametrize("confidence", [None, 0.9])
def test_sound_logs_are_seldom_marked(confidence):
    """By binomial intervals, which ignore the draw of the calibration set, a third of them would be."""
    rng, draws, marked, naive = np.random.default_rng(0), 150, 0, 0
    for _ in range(draws):
        cap, new = fitted(log(rng, 100), PerStratum()), log(rng, 300)
        marked += bool(marks(cap, new, 0.1, confidence, 0))
        naive += any(not row.ci95[0] <= 0.9 <= row.ci95[1] for row in cap.coverage(new.X, new.Y, 0.1))
    assert stats.binomtest(marked, draws, MARKED, "greater").pvalue > ERROR
    assert stats.binomtest(naive, draws, MARKED, "greater").pvalue < ERROR


def test_sound_logs_of_episodes_are_seldom_marked():
    rng, draws, marked = np.random.default_rng(1), 100, 0
    for seed in range(draws):
        old, new = (log(rng, 40, episodes=np.repeat(np.arange(40), 8)) for _ in range(2))
        marked += bool(marks(fitted(old, OneGroup(), one_stratum()), new, 0.1, None, seed))
    assert stats.binomtest(marked, draws, MARKED, "greater").pvalue > ERROR


def test_strata_that_share_a_threshold_they_should_not_are_marked():
    rng = np.random.default_rng(2)
    cap = fitted(log(rng, 1000, right=3.0), OneGroup())
    assert marks(cap, log(rng, 1000, right=3.0), 0.1, None, 0).items() >= {"left": "too high", "right": "too low"}.items()
    assert marks(fitted(log(rng, 1000, right=3.0), PerStratum()), log(rng, 1000, right=3.0), 0.1, None, 0) == {}


def test_tails_are_those_of_drawn_calibrations():
    """The number that pass, drawn in the obvious way: a coverage from a Beta for each group, then the outcomes."""
    rng, draws = np.random.default_rng(3), 40_000
    trials, sizes, ranks = np.array([30, 12, 5]), np.array([20, 50, 4]), np.array([19, 46, 5])
    passed = 5 + sum(rng.binomial(m, rng.beta(k, n + 1 - k, draws)) for m, n, k in zip(trials[:2], sizes, ranks))
    for held in (30, 38, 42, 45, 47):
        for found, drawn in (
            (shortfall_p_value(held, trials, sizes, ranks), passed <= held),
            (excess_p_value(held, trials, sizes, ranks), passed >= held),
        ):
            assert stats.binomtest(int(drawn.sum()), draws, found).pvalue > ERROR


def test_tails_of_many_outcomes_are_probabilities():
    trials, sizes, ranks = np.array([40_000, 30_000]), np.array([5000, 400]), np.array([4501, 361])
    low = [shortfall_p_value(held, trials, sizes, ranks) for held in (0, 60_000, 63_000, 70_000)]
    assert low == sorted(low)
    assert 0 < low[0] < 1e-9
    assert low[-1] == pytest.approx(1.0)
