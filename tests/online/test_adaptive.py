"""Online adaptation: the bound holds against any adversary, and thresholds are those of the calibration at the dials."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import AdaptiveAlpha, AdaptiveScale, Capture, CaptureError, NearestParticles, OneGroup, Tree, one_stratum

LARGEST = 8.0


@pytest.fixture(scope="module")
def cap(fitted):
    return fitted["capture"]


@pytest.fixture(scope="module")
def single(box, world):
    """The paper's single tree: a group may serve several strata."""
    groups = Tree(per_stratum=False, min_leaf=40)
    return Capture(box, box.strata, groups=groups, n_particles=8).fit(world.X, world.Y, prediction=world.particles)


def adaptives(cap, **settings):
    return [AdaptiveAlpha(cap, gamma=0.07, **settings), AdaptiveScale(cap, eta=0.3, largest=LARGEST, floor=1e-3, **settings)]


def duel(adaptive, wishes, landed) -> tuple[list[bool], list[int]]:
    """An adversary decides at every step where the system lands and whether it misses, as far as the region leaves a choice.

    A region that takes in everything cannot be missed, and one that holds nothing always is. A score is at most LARGEST
    times its calibrated threshold.
    """
    missed = []
    calibrated = adaptive.group_thresholds()
    for wish, m in zip(wishes, landed):
        q = adaptive.group_thresholds()[m]
        unmissable = (q >= LARGEST * calibrated[m]).all() if isinstance(adaptive, AdaptiveScale) else np.isinf(q).all()
        missed.append(bool((q < 0).all() or (wish and not unmissable)))
        adaptive.update(not missed[-1], m)
    return missed, list(landed)


def shares(missed, landed, m=None):
    """Share of misses after 1, 2, ... steps in stratum m, or in all."""
    kept = np.array([miss for miss, at in zip(missed, landed) if m is None or at == m], dtype=float)
    return kept.cumsum() / np.arange(1, len(kept) + 1)


adversaries = st.one_of(
    st.lists(st.booleans(), min_size=1, max_size=400),
    st.integers(1, 400).map(lambda n: [True] * n),
    st.integers(1, 400).map(lambda n: [False] * n),
    st.tuples(st.integers(1, 200), st.integers(1, 200)).map(lambda n: [False] * n[0] + [True] * n[1]),
)


@given(adversaries, st.randoms(use_true_random=False))
def test_the_share_of_misses_is_within_the_bound_in_every_stratum_at_every_time(cap, wishes, random):
    landed = [random.choice((0, 0, 0, 1, 1, 2)) for _ in wishes]
    for adaptive in adaptives(cap, per_stratum=False):  # one dial for all strata
        share = shares(*duel(adaptive, wishes, landed))
        assert (np.abs(share - 0.1) <= adaptive.bound(np.arange(1, len(share) + 1)) + 1e-12).all()
        assert len(set(adaptive.dials)) == 1
    for adaptive in adaptives(cap):
        missed, _ = duel(adaptive, wishes, landed)
        for m in range(3):
            share = shares(missed, landed, m)
            assert (np.abs(share - 0.1) <= adaptive.bound(np.arange(1, len(share) + 1)) + 1e-12).all()
            assert adaptive.steps[m] == len(share)
            assert adaptive.misses[m] == (round(share[-1] * len(share)) if len(share) else 0)


@given(adversaries)
def test_regions_that_never_shrink_miss_no_more_than_the_bound_allows(cap, wishes):
    for adaptive in adaptives(cap, never_smaller=True):
        start = adaptive.group_thresholds()
        share = shares(*duel(adaptive, wishes, [1] * len(wishes)))
        assert (share - 0.1 <= adaptive.bound(np.arange(1, len(share) + 1)) + 1e-12).all()
        assert (adaptive.group_thresholds() >= start).all()


# -- thresholds -----------------------------------------------------------------------------------------------------------


def test_the_dial_of_a_stratum_moves_the_thresholds_of_that_stratum_only(single, fresh):
    adaptive = AdaptiveAlpha(single, gamma=0.01)
    for _ in range(4):
        adaptive.update(True, 2)
    adaptive.update(False, 0)
    alphas = [0.1 - 0.01 * 0.9, 0.1, 0.1 + 4 * 0.01 * 0.1]
    assert adaptive.dials == pytest.approx(alphas)
    table = adaptive.group_thresholds()
    assert table.shape == (3, single.partition_.n_groups)
    for m, alpha in enumerate(adaptive.dials):
        assert np.array_equal(table[m], single.calibration_.at(alpha))
        assert np.array_equal(adaptive.thresholds(fresh.X)[:, m], single.thresholds(fresh.X, alpha)[:, m])
    adaptive.reset()
    assert np.array_equal(adaptive.thresholds(fresh.X), single.thresholds(fresh.X, 0.1))
    assert adaptive.steps.sum() == adaptive.misses.sum() == 0


def test_beyond_zero_and_one_a_region_is_everything_or_nothing(cap, fresh):
    adaptive = AdaptiveAlpha(cap, gamma=0.5)
    adaptive.update(False, 0)
    for _ in range(20):
        adaptive.update(True, 1)
    region = adaptive.region(fresh.X[0])
    assert region.thresholds[0] == math.inf
    assert region.thresholds[1] < 0
    assert len(region.cells("free")) == cap.strata.sizes[0]
    assert len(region.cells("edge")) == 0


def test_a_factor_scales_thresholds_from_the_floor_on(single):
    adaptive = AdaptiveScale(single, eta=0.5, floor=0.05)
    adaptive.update(False, 1)
    for _ in range(4):
        adaptive.update(True, 2)
    q = np.maximum(single.calibration_.at(0.1), 0.05)
    assert adaptive.factors == pytest.approx([1.0, math.exp(0.45), 0.8])
    assert np.allclose(adaptive.group_thresholds(), adaptive.factors[:, None] * q)


def test_a_group_without_data_stays_infinite_at_every_factor(box, world):
    cap = Capture(box, box.strata, n_particles=8, groups=Tree(min_leaf=40)).fit(world.X, world.Y)
    with pytest.warns(UserWarning, match="too few calibration points"):
        adaptive = AdaptiveScale(cap, alpha=0.001, eta=1000.0)
    adaptive.update(True, 0)  # the factor is 0 now, exactly
    assert adaptive.dials[0] == 0.0
    assert np.isinf(adaptive.group_thresholds()[0]).all()


@pytest.mark.parametrize("make", [AdaptiveAlpha, AdaptiveScale])
def test_observing_says_what_the_region_said(make, single, fresh):
    adaptive = make(single)
    for x, y, particles in zip(fresh.X[:60], fresh.Y[:60], fresh.particles[:60]):
        expected = y in adaptive.region(x, particles)
        assert adaptive.observe(x, y, particles) == expected
    assert adaptive.steps.sum() == 60


def test_coverage_holds_by_stratum_when_the_system_changes(box, single):
    """Half of the 6,000 steps are those of another system: its gain is half as large again."""
    rng = np.random.default_rng(3)
    before, after = (type(box)(true_gain=gain, spacing=0.05).transitions(3000, rng) for gain in (1.5, 2.25))
    X, Y = np.concatenate([before.X, after.X]), np.concatenate([before.Y, after.Y])
    m, particles = box.strata.index(Y), single.predict(X)
    fixed = single.contains(X, Y, 0.1, prediction=particles)
    assert fixed[3000:][m[3000:] == 0].mean() < 0.8
    for adaptive in (AdaptiveAlpha(single, gamma=0.05), AdaptiveScale(single, eta=0.2, floor=0.01)):
        held = np.array([adaptive.observe(x, y, p) for x, y, p in zip(X, Y, particles)])
        for stratum in range(3):
            here = m[3000:] == stratum
            # of alpha the bound is exact, here for a part of the run: from one end of the dial's way to the other
            assert abs(held[3000:][here].mean() - 0.9) < 1.1 / (0.05 * here.sum())


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda cap: AdaptiveAlpha(cap, alpha=1.2), "alpha is 1.2"),
        (lambda cap: AdaptiveAlpha(cap, gamma=0), "gamma is 0; expected a positive number"),
        (lambda cap: AdaptiveScale(cap, floor=0), "floor is 0; expected a positive number"),
        (lambda cap: AdaptiveScale(cap, largest=0), "largest is 0"),
        (lambda cap: AdaptiveAlpha(cap).update(True, 3), "stratum 3 does not exist"),
        (lambda cap: AdaptiveAlpha(cap).observe([0.5, 0.5, 0.0, 0.0], [9.0, 9.0]), "infeasible space"),
        (lambda cap: AdaptiveAlpha(cap).observe([0.5, 0.5], [0.5, 0.5]), "x has shape (2,)"),
        (lambda cap: AdaptiveAlpha(cap).observe([0.5, 0.5, 0.0, 0.0], [0.5, math.nan]), "NaN"),
        (lambda cap: AdaptiveAlpha(Capture(cap.model, cap.strata)), "not calibrated yet"),
    ],
)
def test_bad_input_is_refused(cap, make, sentence):
    with pytest.raises(CaptureError) as refused:
        make(cap)
    assert sentence in str(refused.value)


def stuck(errors):
    """A calibration of a model that was always right, or almost: scores are the given errors (n,)."""
    n = len(errors)
    cap = Capture(lambda X, L, rng: np.zeros((len(X), L, 1)), one_stratum(), NearestParticles(1), OneGroup(), n_particles=1)
    return cap.fit(np.zeros((n, 1)), np.asarray(errors)[:, None], prediction=np.zeros((n, 1, 1)))


def test_thresholds_of_zero_are_left_behind_when_the_system_changes():
    """A factor does nothing to a threshold of zero: all steps would miss, whatever the dial says."""
    adaptive = AdaptiveScale(stuck([0.0] * 95 + [0.01] * 5), alpha=0.1, eta=0.2)
    assert adaptive.cap.thresholds([[0.0]])[0, 0] == 0.0
    held = [adaptive.observe([0.0], [0.5], prediction=np.zeros((1, 1, 1))) for _ in range(400)]
    assert not any(held[:20])
    assert np.mean(held[200:]) == pytest.approx(0.9, abs=0.02)


def test_no_scale_to_begin_with_is_refused():
    with pytest.raises(CaptureError, match=r"every calibration score is 0, .* pass floor="):
        AdaptiveScale(stuck([0.0] * 50))
    assert AdaptiveScale(stuck([0.0] * 50), floor=1e-3).thresholds([[0.0]])[0, 0] == 1e-3
