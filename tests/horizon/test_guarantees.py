"""The two guarantees over a horizon, as guarantees: many exchangeable splits, one-sided tests, Holm's correction.

With scores that never tie, a configuration whose group has n calibration scores is covered with probability rank/(n + 1)
exactly, and all steps of a rollout at once with probability rank/(n + 1) for n calibration rollouts.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import oracles
from capture_cp import OneGroup, PerStratum, Tree
from capture_cp.capture.horizon_particles import Cloud
from horizon.boxes import Line, box_rollouts, horizon_capture, rows
from test_guarantees import p_above, p_below, rejected

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # small groups are wanted here

HORIZON = 3
ALPHAS = (Fraction(1, 10), Fraction(3, 10))
STRATA = ("free", "edge", "corner")


@pytest.fixture(scope="module")
def pool(box):
    return box_rollouts(box, 900, HORIZON, np.random.default_rng(20))


@pytest.fixture(scope="module")
def clouds(box, pool):
    """Particles moved a hair: at a wall they sit exactly where the point comes to rest, and scores would tie."""
    rng = np.random.default_rng(21)
    cap = horizon_capture(box, PerStratum()).fit(pool)
    found = cap.predict(pool.starts, pool.actions, rng)
    return [Cloud(c.x, c.particles + 1e-5 * rng.standard_normal(c.particles.shape)) for c in found]


def gaps(box, pool, clouds, groups, n, splits, simultaneous, alphas=ALPHAS):
    """Covered less what theory says, and covered, by alpha: each (splits, 300, S) or, for all steps, (splits, 300)."""
    rng = np.random.default_rng(22)
    cap = horizon_capture(box, groups)
    seen = {alpha: ([], [], []) for alpha in alphas}
    for split in range(splits):
        order = rng.permutation(len(pool))
        fit, test = order[:n], order[n : n + 300]
        cap.set_params(seed=split).fit(pool[fit], prediction=rows(clouds, fit))
        m = cap.labels(pool[test])
        at = [cap.partition_.groups(np.ascontiguousarray(clouds[s].x[test]), 3 * s + m[:, s]) for s in range(HORIZON)]
        for alpha in alphas:
            inside = cap.contains(pool[test], float(alpha), simultaneous, prediction=rows(clouds, test))
            if simultaneous:
                size = cap.calibration_.n_together
                exact = np.full(300, oracles.rank(size, alpha) / (size + 1))
                inside = inside.all(axis=1)
            else:
                by_group = np.array([oracles.rank(int(size), alpha) / (size + 1) for size in cap.calibration_.sizes])
                exact = by_group[np.stack(at, axis=1)]
            for kept, value in zip(seen[alpha], (inside - exact, inside, m)):
                kept.append(value)
    return {alpha: tuple(np.array(part) for part in parts) for alpha, parts in seen.items()}


def mean_over(values, mask):
    with np.errstate(invalid="ignore"):  # a split without such rows says nothing
        return (values * mask).sum(axis=1) / mask.sum(axis=1)


@pytest.mark.parametrize(
    ("groups", "n", "splits"),
    [(OneGroup(), 30, 250), (PerStratum(), 200, 250), (Tree(min_leaf=20), 300, 200)],
    ids=["one group", "per stratum", "tree a stratum"],
)
def test_every_step_is_covered_also_given_the_stratum(box, pool, clouds, groups, n, splits):
    p = {}
    for alpha, (gap, covered, m) in gaps(box, pool, clouds, groups, n, splits, simultaneous=False).items():
        for s in range(HORIZON):
            everything = np.ones(gap.shape[:2], dtype=bool)
            masks = {"all": everything}
            if type(groups) is not OneGroup:
                masks |= {name: m[:, :, s] == i for i, name in enumerate(STRATA)}
            for name, mask in masks.items():
                mean = mean_over(gap[:, :, s], mask)
                p[f"{name} at step {s + 1}, {alpha}: too low"] = p_below(mean, 0.0)
                p[f"{name} at step {s + 1}, {alpha}: too high"] = p_above(mean, 0.0)
                p[f"{name} at step {s + 1} below 1 - {alpha}"] = p_below(mean_over(covered[:, :, s], mask), float(1 - alpha))
    assert rejected(p) == []


@pytest.mark.parametrize(
    ("groups", "n", "splits"),
    [(OneGroup(), 40, 300), (PerStratum(), 100, 300), (Tree(min_leaf=20), 300, 200), (Tree(min_leaf=5), 40, 200)],
    ids=["one group", "per stratum", "tree a stratum", "tree of 40 rollouts"],
)
def test_all_steps_are_covered_at_once(box, pool, clouds, groups, n, splits):
    p = {}
    for alpha, (gap, covered, _) in gaps(box, pool, clouds, groups, n, splits, simultaneous=True).items():
        p[f"{alpha}: too low"] = p_below(gap.mean(axis=1), 0.0)
        if n > 40 or type(groups) is not Tree:  # leaves of few rollouts may have none that sets thresholds: infinite
            p[f"{alpha}: too high"] = p_above(gap.mean(axis=1), 0.0)
        p[f"below 1 - {alpha}"] = p_below(covered.mean(axis=1), float(1 - alpha))
    assert rejected(p) == []


def test_regions_for_each_step_do_not_hold_all_at_once(box, pool, clouds):
    """The tests have power: what is promised for single steps is not promised for all of them."""
    (_, covered, _) = gaps(box, pool, clouds, PerStratum(), 200, 100, simultaneous=False)[Fraction(1, 10)]
    assert p_below(covered.all(axis=2).mean(axis=1), 0.9) < 1e-6


# -- ties, confidence, episodes: on the line, where the coverage of any threshold is known --------------------------------


def test_coverage_is_at_least_one_minus_alpha_with_ties():
    rng = np.random.default_rng(23)
    each, together = [], []
    for split in range(600):
        c = rng.integers(1, 4, size=(60, 2)) * rng.choice([-1.0, 1.0], size=(60, 1))
        cap = Line.of(c).fit(PerStratum(), split)
        fresh = Line.of(rng.integers(1, 4, size=(50, 2)) * rng.choice([-1.0, 1.0], size=(50, 1)))
        each.append(cap.contains(fresh.rollouts, 0.2, prediction=fresh.clouds).mean())
        together.append(cap.contains(fresh.rollouts, 0.2, True, prediction=fresh.clouds).all(axis=1).mean())
    assert rejected({"each": p_below(each, 0.8), "together": p_below(together, 0.8)}) == []


@pytest.mark.parametrize(("alpha", "confidence", "n"), [(0.1, 0.95, 150), (0.2, 0.8, 60)])
def test_calibration_sets_that_undercover_are_as_rare_as_confidence_says(alpha, confidence, n):
    """Scores are uniform at two independent steps: thresholds t hold all steps with probability t₁ t₂."""
    sets, rng = 500, np.random.default_rng(24)
    together, first, plain = 0, 0, 0
    for number in range(sets):
        cap = Line.of(rng.random((n, 2))).fit(OneGroup(), number)
        q = np.minimum(cap.group_thresholds(alpha, True, confidence), 1.0)
        together += q.prod() < 1 - alpha
        first += min(cap.group_thresholds(alpha, confidence=confidence)[0], 1.0) < 1 - alpha
        plain += np.minimum(cap.group_thresholds(alpha, True), 1.0).prod() < 1 - alpha
    p = {
        name: stats.binomtest(int(count), sets, 1 - confidence, alternative="greater").pvalue
        for name, count in (("together", together), ("one step", first))
    }
    assert rejected(p) == []
    assert plain > 0.3 * sets  # without it, many do


def episodes(rng, count, windows):
    """Rollouts of episodes that are easy or hard as a whole, (count * windows, 2), and their units."""
    level = np.repeat(rng.random((count, 2)), windows, axis=0)
    return level + 1e-3 * rng.random((count * windows, 2)), np.repeat(np.arange(count), windows)


def test_several_roll_outs_of_an_episode_keep_the_promise_for_a_random_one_of_a_new_episode():
    rng = np.random.default_rng(25)
    each, together, taken_as_independent = [], [], []
    for number in range(400):
        c, units = episodes(rng, 12, 8)
        few = c[: 6 * 8]
        fresh = Line.of(episodes(rng, 40, 1)[0])
        ask = {"rollouts": fresh.rollouts, "alpha": 0.2, "prediction": fresh.clouds}
        each.append(Line.of(few, units[: 6 * 8]).fit(OneGroup(), number).contains(**ask)[:, 0].mean())
        all_steps = Line.of(c, units).fit(OneGroup(), number).contains(simultaneous=True, **ask)
        together.append(all_steps.all(axis=1).mean())  # half of the episodes set the scales
        taken_as_independent.append(Line.of(few).fit(OneGroup(), number).contains(**ask)[:, 0].mean())
    assert rejected({"each": p_below(each, 0.8), "together": p_below(together, 0.8)}) == []
    assert p_below(taken_as_independent, 0.8) < 1e-3  # the test has power
