"""The guarantees, as guarantees: over many exchangeable splits, by one-sided tests corrected for multiplicity.

A pool of transitions is split at random into calibration and test rows, again and again. Given the pool the splits are
independent, so the test rows of one split are averaged first and the averages are tested. With scores that never tie, a
test row whose group has n calibration scores is covered with probability rank/(n + 1) exactly, which makes the sharpest
test of all: the mean of (covered - rank/(n + 1)) is zero, in every leaf and every stratum.

Power: a quarter of the splits (all of them) finds, with probability 0.99, a coverage that is off by about 6.5 (3.3) points
with one calibration row, 3.5 (1.7) with 9, 1.3 (0.7) with 300; in leaves of 20 rows by 1.6 (0.8) points, of 5 rows by 3.2
(1.6); in the rarest stratum of 200 rows by 5.6 (2.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import oracles
from capture_cp import Capture, FunctionStrata, NearestParticles, OneGroup, PerStratum, Tree, conformal_quantile
from capture_cp.conformal import thresholds
from worlds import make_world

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # small groups are wanted here

#: A right implementation fails a test of this file less than once in a thousand runs, were the seeds not fixed.
FAMILY_ERROR = 1e-3
ALPHAS = (Fraction(1, 20), Fraction(1, 10), Fraction(3, 10), Fraction(1, 2))


def p_below(samples, bound) -> float:
    """How likely a mean this low is if the true mean is at least `bound`."""
    return _one_sided(np.asarray(samples) - bound)


def p_above(samples, bound) -> float:
    """How likely a mean this high is if the true mean is at most `bound`."""
    return _one_sided(bound - np.asarray(samples))


def _one_sided(surplus) -> float:
    surplus = surplus[np.isfinite(surplus)]
    if np.ptp(surplus) < 1e-12:  # no spread, no t test
        return float(surplus.mean() > -1e-12)
    return float(stats.ttest_1samp(surplus, 0.0, alternative="less").pvalue)


def rejected(p_values: dict[str, float], error: float = FAMILY_ERROR) -> list[str]:
    """Claims that Holm's step-down procedure rejects, at this family-wise error."""
    out = []
    for done, (claim, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if p > error / (len(p_values) - done):
            break
        out.append(claim)
    return out


def test_holm_rejects_what_it_should():
    assert rejected({"a": 1e-5, "b": 4e-4, "c": 0.5}) == ["a", "b"]
    assert rejected({"a": 6e-4, "b": 4e-4, "c": 0.5}) == []
    assert p_below([0.0, 0.1, 0.05] * 50, 0.9) < 1e-6 < 0.9 < p_below([1.0, 0.9, 0.95] * 50, 0.9)
    assert p_above([0.0, 0.1, 0.05] * 50, 0.9) > 0.9 > 1e-6 > p_above([1.0, 0.9, 0.95] * 50, 0.9)
    assert p_below([0.4] * 9, 0.5) == 0.0 < p_below([0.5] * 9, 0.5) == 1.0


@dataclass(frozen=True)
class Outcome:
    """What happened to every test row of every split, all (splits, rows)."""

    covered: np.ndarray
    exact: np.ndarray  # rank/(n + 1) of the row's group
    slack: np.ndarray  # 1/(n + 1) of the row's group
    stratum: np.ndarray
    group: np.ndarray

    def claims(self, name: str, alpha: Fraction, rows: np.ndarray | None = None, sharp: bool = True) -> dict[str, float]:
        """P-values of the claims about the mean over `rows` (a mask): all of them unless given."""
        low = float(1 - alpha)
        p = {f"{name} covers at least 1 - {alpha}": p_below(self._mean(self.covered, rows), low)}
        if sharp:
            p[f"{name} covers at most 1 - {alpha} + 1/(n + 1)"] = p_above(self._mean(self.covered - self.slack, rows), low)
            gap = self._mean(self.covered - self.exact, rows)
            p[f"{name} covers at least rank/(n + 1) at {alpha}"] = p_below(gap, 0.0)
            p[f"{name} covers at most rank/(n + 1) at {alpha}"] = p_above(gap, 0.0)
        return p

    def by_stratum(self, alpha: Fraction, sharp: bool = True) -> dict[str, float]:
        p: dict[str, float] = {}
        for m, name in enumerate(("free", "edge", "corner")):
            p |= self.claims(name, alpha, self.stratum == m, sharp)
        return p

    def by_leaf(self, alpha: Fraction) -> dict[str, float]:
        """Every leaf counts the same, however few test rows it gets."""
        gap = self.covered - self.exact
        means = []
        for groups, gaps in zip(self.group, gap):
            n = np.bincount(groups)
            means.append((np.bincount(groups, weights=gaps)[n > 0] / n[n > 0]).mean())
        return {f"leaves cover too little at {alpha}": p_below(means, 0.0), f"too much at {alpha}": p_above(means, 0.0)}

    @staticmethod
    def _mean(values, rows):
        rows = np.ones(values.shape, dtype=bool) if rows is None else rows
        with np.errstate(invalid="ignore"):  # a split without such rows says nothing
            return (values * rows).sum(axis=1) / rows.sum(axis=1)


@pytest.fixture(scope="module")
def pool(box):
    return make_world(box, 900, seed=10)


@pytest.fixture(scope="module")
def distinct(pool):
    """The same particles moved a hair: at a wall they sit exactly where the point comes to rest, and scores would tie."""
    moved = pool.particles + 1e-5 * np.random.default_rng(11).standard_normal(pool.particles.shape)
    scores = NearestParticles(4).score(moved, pool.Y)
    assert len(np.unique(scores)) == len(scores)
    return moved


def outcomes(pool, particles, groups, n, splits, alphas=ALPHAS, seed=12) -> dict[Fraction, Outcome]:
    """Fit on n rows of the pool and ask about 300 others, `splits` times."""
    rng = np.random.default_rng(seed)
    cap = Capture(pool.box, pool.box.strata, score=NearestParticles(4), groups=groups, n_particles=particles.shape[1])
    seen: dict[Fraction, list] = {alpha: [] for alpha in alphas}
    X, Y, m = pool.X, pool.Y, pool.m
    for split in range(splits):
        rows = rng.permutation(len(X))
        fit, test = rows[:n], rows[n : n + 300]
        cap.set_params(seed=split).fit(X[fit], Y[fit], prediction=particles[fit])
        group = cap.partition_.groups(X[test], m[test])
        sizes = cap.calibration_.sizes
        for alpha in alphas:
            exact = np.array([oracles.rank(int(size), alpha) / (size + 1) for size in sizes])
            covered = cap.contains(X[test], Y[test], float(alpha), prediction=particles[test])
            seen[alpha].append((covered, exact[group], 1 / (sizes[group] + 1), m[test], group))
    return {alpha: Outcome(*(np.array(part) for part in zip(*records))) for alpha, records in seen.items()}


# -- the quantile itself --------------------------------------------------------------------------------------------------

SIZES = (1, 2, 3, 5, 9, 10, 19, 39, 100)


def quantile_claims(quantile, draw, true_coverage, continuous: bool, sets: int = 2000) -> dict[str, float]:
    """Coverage of thresholds from many calibration sets, whose true coverage is known."""
    rng = np.random.default_rng(13)
    p = {}
    for n in SIZES:
        for alpha in ALPHAS:
            coverage = true_coverage(np.array([quantile(draw(rng, n), float(alpha)) for _ in range(sets)]))
            p[f"n = {n}, alpha = {alpha}: too low"] = p_below(coverage, float(1 - alpha))
            if continuous:
                p[f"n = {n}, alpha = {alpha}: too high"] = p_above(coverage, float(1 - alpha) + 1 / (n + 1))
    return p


def uniform_claims(quantile, sets=2000):
    return quantile_claims(quantile, lambda rng, n: rng.random(n), lambda q: np.minimum(q, 1.0), continuous=True, sets=sets)


def test_coverage_is_between_its_bounds_for_every_size():
    assert rejected(uniform_claims(conformal_quantile)) == []


def test_coverage_is_at_least_one_minus_alpha_with_ties():
    claims = quantile_claims(
        conformal_quantile,
        draw=lambda rng, n: rng.integers(1, 5, n).astype(float),
        true_coverage=lambda q: np.minimum(q, 4.0) / 4.0,
        continuous=False,
    )
    assert rejected(claims) == []


@pytest.mark.parametrize(
    "broken",
    [
        lambda scores, alpha: np.sort(scores)[max(int(len(scores) * (1 - alpha)), 1) - 1],
        lambda scores, alpha: np.quantile(scores, 1 - alpha),
        lambda scores, alpha: np.quantile(scores, min(1.0, (1 - alpha) * (len(scores) + 1) / len(scores)), method="lower"),
        lambda scores, alpha: np.max(scores),
    ],
    ids=["rank rounded down", "interpolated", "clipped to the largest score", "always the largest"],
)
def test_a_broken_quantile_is_caught(broken):
    assert rejected(uniform_claims(broken, sets=300)) != []


# -- marginally, by leaf, by stratum --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "splits"), [(1, 3000), (2, 3000), (9, 3000), (30, 2000), (300, 1500)])
def test_coverage_is_marginally_between_its_bounds(pool, distinct, n, splits, repeated):
    p = {}
    for alpha, outcome in outcomes(pool, distinct, OneGroup(), n, repeated(splits)).items():
        p |= outcome.claims("everything", alpha)
    assert rejected(p) == []


@pytest.mark.parametrize(
    "groups",
    [
        Tree(min_leaf=20),
        Tree(min_leaf=20, per_stratum=False),
        Tree(min_leaf=20, per_stratum=False, stratum_input="none", partition_share=0.5),
        Tree(min_leaf=5, max_leaves=None, max_depth=2),
    ],
    ids=["tree a stratum", "scalar label", "blind", "depth 2"],
)
def test_coverage_is_right_in_the_leaves(pool, distinct, groups, repeated):
    p = {}
    for alpha, outcome in outcomes(pool, distinct, groups, 300, repeated(1500)).items():
        p |= outcome.claims("everything", alpha) | outcome.by_leaf(alpha)
    assert rejected(p) == []


def test_coverage_is_right_in_the_leaves_of_a_pruned_tree(pool, distinct):
    """Pruning looks only at the partition part, so it must not cost coverage."""
    p = {}
    for alpha, outcome in outcomes(pool, distinct, Tree(min_leaf=20, prune=True), 300, 100).items():
        p |= outcome.claims("everything", alpha) | outcome.by_leaf(alpha)
    assert rejected(p) == []


@pytest.mark.parametrize(
    ("groups", "n"),
    [(PerStratum(), 8), (PerStratum(), 200), (Tree(min_leaf=20), 300), (Tree(min_leaf=5, partition_share=0.3), 60)],
    ids=["per stratum, 8 rows", "per stratum", "tree a stratum", "tree a stratum, 60 rows"],
)
def test_coverage_is_right_in_every_stratum(pool, distinct, groups, n, repeated):
    p = {}
    for alpha, outcome in outcomes(pool, distinct, groups, n, repeated(1500)).items():
        p |= outcome.by_stratum(alpha)
    assert rejected(p) == []


@pytest.mark.parametrize("groups", [PerStratum(), Tree(min_leaf=20)], ids=["per stratum", "tree a stratum"])
def test_coverage_is_at_least_one_minus_alpha_in_every_stratum_with_ties(pool, groups, repeated):
    """The particles as they are: in contact, many scores are exactly zero."""
    scores = NearestParticles(4).score(pool.particles, pool.Y)
    assert (scores == 0).sum() > 20
    p = {}
    for alpha, outcome in outcomes(pool, pool.particles, groups, 300, repeated(800)).items():
        p |= outcome.by_stratum(alpha, sharp=False)
    assert rejected(p) == []


# -- the tests have power -------------------------------------------------------------------------------------------------


def test_one_threshold_for_all_is_caught_by_stratum(pool, distinct):
    p = outcomes(pool, distinct, OneGroup(), 300, 300, [Fraction(1, 10)])[Fraction(1, 10)].by_stratum(Fraction(1, 10))
    assert any("at least 1 -" in claim for claim in rejected(p))


@pytest.mark.parametrize("groups", [OneGroup(), Tree(min_leaf=20)], ids=["one group", "tree a stratum"])
def test_a_rank_rounded_down_is_caught(pool, distinct, groups, monkeypatch):
    def too_low(sizes, alpha, confidence=None):
        return np.maximum((np.asarray(sizes) * (1 - alpha)).astype(np.int64), 1)

    monkeypatch.setattr(thresholds, "conformal_ranks", too_low)
    p = {}
    for alpha, outcome in outcomes(pool, distinct, groups, 300, 500).items():
        p |= outcome.claims("everything", alpha)
    assert any("at least" in claim for claim in rejected(p))


def test_thresholds_from_the_rows_that_grew_the_tree_are_caught(pool, distinct, monkeypatch):
    honest = Tree.split

    def reuse(self, examples, rng):
        partition, held_out = honest(self, examples, rng)
        return partition, ~held_out

    monkeypatch.setattr(Tree, "split", reuse)
    p = {}
    for alpha, outcome in outcomes(pool, distinct, Tree(min_leaf=5), 300, 60).items():
        p |= outcome.claims("everything", alpha)
    assert any("at least" in claim for claim in rejected(p))


# -- confidence over the draw of the calibration set ----------------------------------------------------------------------


SCALES = np.array([1.0, 3.0])


def undercovering(groups, n, alpha, confidence, sets):
    """How many of `sets` calibrations give each stratum a threshold whose true coverage is below 1 - alpha, at one input.

    Scores are uniform on (0, 1) left of the origin and on (0, 3) right of it, whatever the input, so that the coverage
    of any threshold is known without a test set.
    """
    strata = FunctionStrata(lambda Y: (Y[:, 0] >= 0).astype(int), ["left", "right"])
    cap = Capture(lambda X, L, rng: None, strata, score=NearestParticles(1), groups=groups, n_particles=1)
    rng = np.random.default_rng(14)
    found = np.zeros(2, dtype=int)
    for number in range(sets):
        right = rng.random(n) < 0.4
        Y = np.where(right, 3 * rng.random(n), -rng.random(n))[:, None]
        cap.set_params(seed=number).fit(rng.random((n, 1)), Y, prediction=np.zeros((n, 1, 1)))
        coverage = np.minimum(cap.thresholds([[0.5]], alpha, confidence)[0] / SCALES, 1.0)
        found += coverage < 1 - alpha
    return found


CONFIDENT = [(0.1, 0.95, 100), (0.2, 0.8, 60), (0.3, 0.9, 30)]


@pytest.mark.parametrize("groups", [PerStratum(), Tree(min_leaf=10, partition_share=0.4)], ids=["per stratum", "tree"])
def test_calibration_sets_that_undercover_are_as_rare_as_confidence_says(groups, repeated):
    """Power: with probability 0.99, a quarter of the sets (all of them) finds one that undercovers in 14% (9%) of the sets
    instead of 5%, in 21% (15%) instead of 10%, or in 34% (27%) instead of 20%.
    """
    sets = repeated(1500)
    p = {}
    for alpha, confidence, n in CONFIDENT:
        for name, count in zip(("left", "right"), undercovering(groups, n, alpha, confidence, sets)):
            test = stats.binomtest(int(count), sets, 1 - confidence, alternative="greater")
            p[f"{name}, alpha = {alpha}, confidence = {confidence}"] = test.pvalue
    assert rejected(p) == []


def test_without_confidence_calibration_sets_undercover_often():
    """The plain threshold is right on average over calibration sets; the test above would catch it."""
    count = undercovering(PerStratum(), 100, 0.1, None, 500)
    assert (count > 0.3 * 500).all()
