"""Strata that calibration points never reached, in a tree that all strata share: promises hold, and are reported as made."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from capture_cp import Capture, FunctionStrata, HorizonCapture, Rollouts, Tree
from test_guarantees_merged import FirstOnly, still

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
ERROR = 1e-4
SHARED = Tree(per_stratum=False, min_leaf=10, max_leaves=2, partition_share=0.5)


def strata(count):
    """The stratum is the whole part of the second number of a configuration."""
    return FunctionStrata(lambda Y: Y[:, 1].astype(int), [f"s{i}" for i in range(count)])


def drawn(rng, n, count):
    """Outcomes (n, 2): an error that grows with the stratum, and the stratum."""
    m = rng.integers(count, size=n)
    return np.column_stack([rng.exponential(1.0 + 5 * (m % 7 == 0)), m + 0.5])


@pytest.mark.parametrize("count", [30, 60])
def test_all_steps_hold_at_once_with_many_strata_and_few_roll_outs(count):
    """Strata that no rollout of the second half reached were given a scale of their own luck: 64% with 60 strata."""
    rng, covered = np.random.default_rng(count), []
    for seed in range(150):

        def rollouts(n):
            steps = np.stack([drawn(rng, n, count) for _ in range(2)], axis=1)
            return Rollouts.from_arrays(np.tile([0.0, 0.5], (n, 1)), np.zeros((n, 2, 1)), steps)

        cap = HorizonCapture(still, strata(count), (0, 1), FirstOnly(1), SHARED, n_particles=1, seed=seed)
        cap.fit(rollouts(100))
        covered.append(cap.contains(rollouts(40), 0.1, simultaneous=True).all(axis=1).mean())
    assert stats.ttest_1samp(covered, 0.9, alternative="less").pvalue > ERROR


def one_bad_among_many(rng, n):
    """Outcomes (n, 2): half of them in one stratum, where errors are large; the others in 150 rare ones."""
    m = np.where(rng.random(n) < 0.5, 0, rng.integers(1, 151, size=n))
    return np.column_stack([rng.exponential(1.0, n) * np.where(m == 0, 10, 1), m + 0.5])


def still_particles(X, n_particles, rng):
    return np.tile([[[0.0, 0.5]]], (len(X), n_particles, 1))


def test_groups_are_reported_as_they_are_promised():
    """A group without the strata that no calibration point reached is at 82%; what is promised is the whole leaf.

    Power: coverage of 86% is found with probability 0.99.
    """
    rng, covered, whole = np.random.default_rng(7), [], Tree(per_stratum=False, max_leaves=1, partition_share=0.5)
    cap = Capture(still_particles, strata(151), FirstOnly(1), whole, n_particles=1, deterministic_model=True)
    for seed in range(60):
        cap.set_params(seed=seed).fit(np.zeros((120, 1)), one_bad_among_many(rng, 120))
        rows = cap.coverage(np.zeros((200, 1)), one_bad_among_many(rng, 200), volumes=False).groups
        covered.append(max(rows, key=lambda row: row.n).coverage)
    assert stats.ttest_1samp(covered, 0.9, alternative="less").pvalue > ERROR


def test_isolated_strata_survive_saving(tmp_path):
    rng = np.random.default_rng(8)
    Y = drawn(rng, 120, 60)
    parts = {"score": FirstOnly(1), "groups": SHARED}
    cap = Capture(still_particles, strata(60), **parts, n_particles=1, deterministic_model=True).fit(np.zeros((120, 1)), Y)
    assert cap.partition_.grown_roots is not None
    cap.save(tmp_path / "many.capture")
    again = Capture.load(tmp_path / "many.capture", still_particles, strata(60), **parts)
    m, X = np.arange(60), np.zeros((60, 1))
    for one, other in ((again.partition_, cap.partition_), (again.partition_.grown, cap.partition_.grown)):
        assert np.array_equal(one.groups(X, m), other.groups(X, m))
    unseen = np.setdiff1d(m, Y[:, 1].astype(int))
    assert np.isinf(cap.thresholds([[0.0]])[0, unseen]).all()
    assert len(unseen) == 0 or not np.isin(cap.partition_.groups(X, m)[unseen], cap.partition_.grown.groups(X, m)).any()
