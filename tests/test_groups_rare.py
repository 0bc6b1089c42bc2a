"""Rare strata share thresholds: which ones, with what, decided by the partition rows alone; and what is said about it."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import (
    Capture,
    CaptureError,
    FunctionStrata,
    Grid,
    Tree,
)
from capture_cp.capture.artifact import read, write
from capture_cp.conformal.groups import Examples
from capture_cp.conformal.merging import pools

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # infinite thresholds are wanted here

NAMES = ["free", "wall", "floor", "corner", "edge", "never"]
#: Two strata to be reckoned with, three that are rare, and one that is never met.
SHARES = np.array([0.6, 0.375, 0.01, 0.009, 0.006, 0.0])
MERGING = Tree(min_stratum=18, min_leaf=200)


def rng(seed=0):
    return np.random.default_rng(seed)


def drawn(seed, n, shares=SHARES, features=None, episodes=None):
    generator = rng(seed)
    m = generator.choice(len(shares), n, p=shares)
    return Examples(generator.random((n, 2)), m, generator.exponential(1.0 + m), len(shares), features, episodes)


def partition_rows(tree, examples, seed=0):
    """Which rows are not held out: it depends on their number alone."""
    return ~tree.split(examples, rng(seed))[1]


def obvious_pools(examples, held_out, fewest):
    """The sets of strata that share a tree, by loops: a list of sets."""
    episodes = np.arange(len(examples.R)) if examples.episodes is None else examples.episodes
    share = len(set(episodes[held_out])) / len(set(episodes[~held_out]))

    def visits(strata):
        return len(set(episodes[~held_out & np.isin(examples.m, strata)]))

    seen = [visits([m]) for m in range(examples.n_strata)]
    rare = [m for m in range(examples.n_strata) if seen[m] * share < fewest - 1e-9]
    usual = [m for m in range(examples.n_strata) if m not in rare]
    pool = set(rare)
    if rare and usual and visits(rare) * share < fewest - 1e-9:

        def unlike(m):
            R = examples.R[(examples.m == m) & ~held_out]
            if examples.stratum_features is None:
                return -np.quantile(R, 0.9)
            total, weight = 0.0, 0.0
            for other in rare:
                count = seen[other] if any(seen[one] for one in rare) else 1.0
                total += count * np.linalg.norm(examples.stratum_features[m] - examples.stratum_features[other])
                weight += count
            return round(total / weight, 9), -np.quantile(R, 0.9)

        pool.add(min(usual, key=unlike))
    return [pool, *({m} for m in usual if m not in pool)] if pool else [{m} for m in usual]


@pytest.mark.parametrize("kind", ["plain", "features", "episodes"])
def test_pools_are_those_of_the_plain_rule(kind):
    generator, joined, alone = rng(1), 0, 0
    for seed in range(60):
        M = int(generator.integers(2, 8))
        shares = generator.dirichlet(np.full(M, 0.3))
        n = int(generator.integers(20, 800))
        features = generator.integers(0, 2, (M, 3)).astype(float) if kind == "features" else None
        episodes = generator.integers(0, max(2, n // 4), n) if kind == "episodes" else None
        examples = drawn(seed, n, shares, features, episodes)
        held_out = Tree().split(examples, rng(seed))[1]
        fewest = int(generator.integers(1, 40))
        others = int(held_out.sum()) if episodes is None else len(np.unique(episodes[held_out]))
        found = pools(examples.rows(~held_out), others, fewest)
        sets = [set(np.flatnonzero(found.first == first).tolist()) for first in np.unique(found.first)]
        wanted = obvious_pools(examples, held_out, fewest)
        assert sorted(map(sorted, sets)) == sorted(map(sorted, wanted))
        joined += any(found.rare[list(one)].any() and not found.rare[list(one)].all() for one in sets)
        alone += any(found.rare[list(one)].all() for one in sets)
    assert joined > 3
    assert alone > 3


def test_nothing_but_the_partition_rows_decides():
    """Whatever the held-out rows are, the pools are the same."""
    examples = drawn(3, 2000)
    grow = partition_rows(MERGING, examples)
    other = examples._replace(m=np.where(grow, examples.m, 4), R=np.where(grow, examples.R, 7.0))
    one, two = (MERGING.split(given, rng())[0] for given in (examples, other))
    assert np.array_equal(one.roots, two.roots)
    assert np.array_equal(one.nodes, two.nodes)
    assert np.array_equal(one.rare, two.rare)


def test_a_stratum_that_was_met_shares_and_one_that_never_was_is_infinite():
    examples = drawn(8, 3000)
    grow = partition_rows(MERGING, examples)
    m = np.where(np.isin(examples.m, [3, 4]), 1, examples.m)
    m[np.flatnonzero(grow)[0]], m[np.flatnonzero(~grow)[0]] = 3, 4  # met once each, in one of the parts only
    parts, scores = MERGING.calibrate(examples._replace(m=m), rng())
    q = scores.at(0.1)[parts.groups_everywhere(examples.X[:1])][0]
    assert q[2] == q[3] == q[4] < np.inf
    assert q[5] == np.inf
    assert set(parts.merged(NAMES)) == {"floor", "corner", "edge"}
    assert set(parts.grown.merged(NAMES)) == {"floor", "corner", "edge", "never"}  # what is promised for


@pytest.fixture(scope="module")
def strata():
    return FunctionStrata(lambda Y: Y[:, 1].astype(int), NAMES, grid=Grid((0.0, 0.5), (0.5, 1.0), (30, 6)))


def outcomes(generator, n):
    m = generator.choice(len(SHARES), n, p=SHARES)
    return np.column_stack([generator.exponential(0.2 + 0.1 * m), m + 0.5])


def model(X, n_particles, rng):
    place = 0.1 * rng.standard_normal((len(X), n_particles, 1))
    return np.concatenate([place, np.full_like(place, 1.5)], axis=2)


@pytest.fixture(scope="module")
def cap(strata):
    generator = rng(9)
    return Capture(model, strata, groups=MERGING).fit(generator.random((4000, 2)), outcomes(generator, 4000))


def test_merged_strata_are_named(cap):
    assert cap.merged_ == {"floor": ("corner", "edge"), "corner": ("floor", "edge"), "edge": ("floor", "corner")}
    words = [cap.describe_group(j) for j in range(cap.partition_.n_groups)]
    assert words.count("rare: floor, corner, edge") == 1
    assert words.count("never") == 1
    assert list(cap.partition_.components(NAMES)) == ["free", "wall", "rare: floor, corner, edge", "never"]


def test_many_rare_strata_are_not_all_named():
    examples = drawn(10, 4000, np.array([0.9, *[0.1 / 30] * 30]))
    parts, _ = MERGING.split(examples, rng())
    names = [f"s{i}" for i in range(31)]
    words = [parts.describe(group, names) for group in range(parts.n_groups)]
    assert "rare: s1, s2, s3, s4, s5, s6, s7, s8, 22 more" in words


def test_coverage_is_reported_for_the_pool(cap):
    generator = rng(11)
    found = cap.coverage(generator.random((3000, 2)), outcomes(generator, 3000), rng=0)
    (pool,) = (row for row in found.groups if row.name.startswith("rare"))
    assert pool.n == sum(found[name].n for name in ("floor", "corner", "edge"))
    assert pool.covered == sum(found[name].covered for name in ("floor", "corner", "edge"))
    assert pool.calibration == next(
        size for j, size in enumerate(cap.calibration_.sizes) if cap.describe_group(j).startswith("rare")
    )


def test_merged_strata_survive_saving(cap, strata, tmp_path):
    cap.save(tmp_path / "a.capture")
    loaded = Capture.load(tmp_path / "a.capture", model, strata)
    assert loaded.merged_ == cap.merged_
    assert loaded.groups_ == cap.groups_
    assert loaded.describe_group(2) == cap.describe_group(2)
    assert np.array_equal(loaded.thresholds(np.zeros((1, 2))), cap.thresholds(np.zeros((1, 2))))
    header, arrays = read(tmp_path / "a.capture")
    write(tmp_path / "b.capture", header, arrays | {"rare": np.ones(2, dtype=np.uint8)})
    with pytest.raises(CaptureError, match="do not fit together"):
        Capture.load(tmp_path / "b.capture", model, strata)


@pytest.mark.parametrize("n", range(1, 25))
def test_trees_grow_and_merge_from_the_smallest_data_sets(n):
    examples = drawn(n, n)
    for settings in (
        {},
        {"prune": True},
        {"per_stratum": False},
        {"min_stratum": 1},
        {"min_stratum": 3},
        {"min_stratum": 18},
    ):
        _, scores = Tree(min_leaf=1, **settings).calibrate(examples, rng())
        assert scores.sizes.sum() == n - int(0.7 * n)
