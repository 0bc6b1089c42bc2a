"""Coverage on spaces that are not flat, and of merged strata: hundreds of independent calibrations each.

As in `test_guarantees`: the rows of one draw share a calibration, so their mean is what is tested, and claims are corrected
for their number. Beside it stands an exact test: of one row per draw and stratum, the number that is covered is compared
with binomial distributions at both ends of what is promised.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import oracles
from capture_cp import Capture, FunctionStrata, NearestParticles, OneGroup, PerStratum, Tree
from capture_cp.conformal import groups as groups_module
from capture_cp.conformal.merging import Pools
from moving_bodies import ARM, BODY, PARTICLES, WHEELS
from test_guarantees import Outcome, p_above, p_below, rejected

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # small groups are wanted here

ALPHA = Fraction(1, 10)
DRAWS, FIT, TEST, K = 250, 400, 150, 4
ROBOTS = {"arm": ARM, "body": BODY, "wheels": WHEELS}


def calibration(robot, groups):
    return Capture(lambda *_: None, robot.strata, NearestParticles(K, robot.metric), groups, n_particles=PARTICLES)


def outcomes(robot, groups, draws=DRAWS, fit=FIT, seed=0) -> Outcome:
    """What became of `TEST` new rows under each of `draws` calibrations, every one from new rows."""
    cap, rng, records = calibration(robot, groups), np.random.default_rng(seed), []
    for draw in range(draws):
        X, Y, particles = robot.draw(rng, fit + TEST)
        cap.set_params(seed=draw).fit(X[:fit], Y[:fit], prediction=particles[:fit])
        X, Y, particles = X[fit:], Y[fit:], particles[fit:]
        m = cap.index(Y)
        group, sizes = cap.partition_.groups(X, m), cap.calibration_.sizes
        exact = np.array([oracles.rank(int(size), ALPHA) / (size + 1) for size in sizes])
        covered = cap.contains(X, Y, float(ALPHA), prediction=particles)
        records.append((covered, exact[group], 1 / (sizes[group] + 1), m, group))
    return Outcome(*(np.array(part) for part in zip(*records)))


def binomial_claims(found: Outcome, name: str, rows) -> dict[str, float]:
    """Exact: the first row of each draw that is among `rows` is covered with a probability between the promised ends."""
    there = np.flatnonzero(rows.any(axis=1))
    first = rows[there].argmax(axis=1)
    covered, slack = int(found.covered[there, first].sum()), float(found.slack[there, first].max())
    low = float(1 - ALPHA)
    return {
        f"{name}: {covered} of {len(there)} is too few": stats.binomtest(covered, len(there), low, "less").pvalue,
        f"{name}: {covered} of {len(there)} is too many": stats.binomtest(
            covered, len(there), min(1.0, low + slack), "greater"
        ).pvalue,
    }


# -- by stratum -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [PerStratum(), Tree(min_leaf=60)], ids=["per stratum", "tree a stratum"])
@pytest.mark.parametrize("name", ROBOTS)
def test_coverage_is_right_in_every_stratum_of_the_space(name, groups):
    robot = ROBOTS[name]
    found = outcomes(robot, groups)
    p = found.claims("everything", ALPHA)
    for m, stratum in enumerate(robot.strata.names):
        rows = found.stratum == m
        if rows.any(axis=1).sum() > 30:
            p |= found.claims(stratum, ALPHA, rows) | binomial_claims(found, stratum, rows)
    assert len(p) >= 16  # at least two strata were looked at
    assert rejected(p) == []


@pytest.mark.parametrize("name", ROBOTS)
def test_one_threshold_for_all_would_be_caught(name):
    """The worlds are hard enough for the tests to have power: contact is where the models err."""
    found = outcomes(ROBOTS[name], OneGroup(), draws=60)
    p = found.claims("contact", ALPHA, found.stratum == 1)
    assert any("at least 1 -" in claim for claim in rejected(p))


@pytest.mark.parametrize("name", ROBOTS)
def test_scores_in_these_spaces_are_the_obvious_ones(name):
    """The k-th smallest of the distances, one by one; no two scores tie, so that coverage is known exactly."""
    robot = ROBOTS[name]
    _, Y, particles = robot.draw(np.random.default_rng(1), 300)
    found = NearestParticles(K, robot.metric).score(particles, Y)
    assert len(np.unique(found)) == len(found)
    slow = [sorted(float(robot.metric.distance(one, y)) for one in cloud)[K - 1] for cloud, y in zip(particles, Y)]
    assert found == pytest.approx(slow, rel=1e-9)


def test_the_worlds_wrap_and_turn():
    """What they are for: steps past half a turn, rotations near pi, quaternions of either sign."""
    rng = np.random.default_rng(2)
    X, Y, _ = ARM.draw(rng, 2000)
    assert (np.abs(Y - X[:, :6]) > np.pi).any(axis=1).mean() > 0.05
    X, Y, _ = BODY.draw(rng, 2000)
    assert (np.abs(Y[:, 3]) < 0.1).mean() > 0.3
    assert 0.4 < ((Y[:, 3:] * X[:, 3:7]).sum(axis=1) < 0).mean() < 0.6
    assert (2 * np.arccos(np.abs((Y[:, 3:] * X[:, 3:7]).sum(axis=1)).clip(0, 1)) > 0.9 * np.pi).mean() > 0.03
    _, Y, _ = WHEELS.draw(rng, 20000)
    shares = np.bincount(WHEELS.strata.index(Y), minlength=4) / 20000
    assert (shares[:2] > 0.1).all()
    assert (shares[2:] < 0.02).all()
    assert (shares[2:] > 0).all()


# -- merged strata --------------------------------------------------------------------------------------------------------

SMALL = Tree(min_leaf=60, min_stratum=9, partition_share=0.5)


def sharing(robot, groups, draws, fit, seed=0):
    """Coverage of the groups that merged strata are in, by draw, and by how much it differs from rank/(n + 1)."""
    cap, rng, gaps, covered = calibration(robot, groups), np.random.default_rng(seed), [], []
    for draw in range(draws):
        X, Y, particles = robot.draw(rng, fit + 3000)
        cap.set_params(seed=draw).fit(X[:fit], Y[:fit], prediction=particles[:fit])
        X, Y, particles = X[fit:], Y[fit:], particles[fit:]
        m, together = cap.index(Y), np.zeros(len(robot.strata.names), dtype=bool)
        for name, others in cap.merged_.items():
            together[[robot.strata.names.index(one) for one in (name, *others)]] = True
        rows = together[m]
        if not rows.any():
            continue
        group, sizes = cap.partition_.groups(X, m), cap.calibration_.sizes
        exact = np.array([oracles.rank(int(size), ALPHA) / (size + 1) for size in sizes])[group]
        inside = cap.contains(X, Y, float(ALPHA), prediction=particles)
        gaps.append((inside - exact)[rows].mean())
        covered.append(inside[rows].mean())
    return np.array(covered), np.array(gaps)


@pytest.mark.parametrize("fit", [3000, 500], ids=["a pool by itself", "a pool that joins a stratum"])
def test_coverage_of_merged_strata_holds_for_them_together(fit):
    """The stops of the wheeled arm are rare. With 500 rows even both together are, and they join a stratum."""
    covered, gaps = sharing(WHEELS, SMALL, 150, fit)
    assert len(covered) > 100
    p = {
        "at least 1 - alpha": p_below(covered, float(1 - ALPHA)),
        "at least rank/(n + 1)": p_below(gaps, 0.0),
        "at most rank/(n + 1)": p_above(gaps, 0.0),
    }
    assert rejected(p) == []


def test_pools_that_the_held_out_rows_chose_would_be_caught(monkeypatch):
    """Merging by the rows that set thresholds, until those are small, loses coverage, and the test above would notice."""

    def greedy(examples, held_out, fewest):
        """Share the threshold of whichever stratum makes it smallest, looking at the very scores that set it."""
        tops = [np.max(examples.R[held_out & (examples.m == m)], initial=0.0) for m in range(examples.n_strata)]
        chosen = np.asarray(tops) < np.median(examples.R[held_out])
        first = np.where(chosen, int(np.argmax(chosen)), np.arange(examples.n_strata))
        return Pools(first, chosen)

    class Scattered:
        """Fifty strata of about ten held-out rows each, all alike."""

        strata = FunctionStrata(lambda Y: Y[:, 1].astype(int), [f"s{i}" for i in range(50)])
        metric = None

        @staticmethod
        def draw(rng, n):
            Y = np.column_stack([rng.exponential(1.0, n), rng.integers(0, 50, n) + 0.5])
            return np.zeros((n, 1)), Y, np.repeat(np.column_stack([np.zeros(n), Y[:, 1]])[:, None], PARTICLES, axis=1)

    honest, _ = sharing(Scattered, Tree(max_leaves=1, partition_share=0.5, min_stratum=40), 40, 300)
    assert p_below(honest, 0.9) > 1e-3
    monkeypatch.setattr(groups_module, "pools", greedy)
    cheated, _ = sharing(Scattered, Tree(max_leaves=1, partition_share=0.5, min_stratum=40), 40, 300)
    assert p_below(cheated, 0.9) < 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_merged_calibrations_are_the_obvious_ones(seed):
    """Pools, thresholds and membership once more, by loops over plain arrays."""
    rng = np.random.default_rng(seed)
    n = (400, 800, 1600, 3200)[seed]
    tree = Tree(max_leaves=1, min_stratum=9, partition_share=0.5)
    cap = calibration(WHEELS, tree).set_params(seed=seed)
    X, Y, particles = WHEELS.draw(rng, n + 200)
    cap.fit(X[:n], Y[:n], prediction=particles[:n])
    R = np.array([np.sort(WHEELS.metric.distance(cloud, y))[K - 1] for cloud, y in zip(particles, Y)])
    m = np.array([int(y[0] < 1e-3) + 2 * int(y[3] > 0.95 * np.pi - 1e-3) for y in Y])
    held_out = np.ones(n, dtype=bool)
    held_out[cap._stream("split").permutation(n)[: n // 2]] = False
    counts = [int((m[:n][~held_out] == one).sum()) for one in range(4)]
    rare = [one for one in range(4) if counts[one] < 9]
    pool = set(rare)
    if rare and sum(counts[one] for one in rare) < 9:
        usual = [one for one in range(4) if one not in rare]
        pool.add(max(usual, key=lambda one: np.quantile(R[:n][~held_out & (m[:n] == one)], 0.9)))
    for one in range(4):
        shared = sorted(pool) if one in pool else [one]
        if not (m[:n] == one).any():
            assert np.isinf(cap.thresholds(X[:1])[0, one])
            continue
        wanted = oracles.quantile(R[:n][held_out & np.isin(m[:n], shared)], ALPHA)
        assert cap.thresholds(X[:1])[0, one] == pytest.approx(wanted, rel=1e-9)
        here = np.flatnonzero(m[n:] == one) + n
        inside = cap.contains(X[here], Y[here], float(ALPHA), prediction=particles[here])
        clear = np.abs(R[here] - wanted) > 1e-9
        assert np.array_equal(inside[clear], (R[here] <= wanted)[clear])
