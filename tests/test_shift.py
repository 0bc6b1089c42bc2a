"""Known shifts: weighted thresholds hold for new inputs that are drawn otherwise than the log, and guesses have a name."""

from __future__ import annotations

import functools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as serialise
from scipy import stats

from capture_cp import (
    Capture,
    CaptureError,
    CaptureWarning,
    Examples,
    FunctionStrata,
    Monitor,
    NearestParticles,
    OneGroup,
    PerStratum,
    Shift,
    Tree,
    Uncalibrated,
    check_batch,
    conformal_rank,
    size_needed,
)
from capture_cp.capture import artifact
from capture_cp.conformal.shift import LEVEL, log_evidence
from capture_cp.conformal.thresholds import GroupScores
from capture_cp.conformal.weighted import Ratios, WeightedScores, exact_sum
from test_guarantees import p_above, p_below, rejected

# -- a cart whose errors grow with its pushes -----------------------------------------------------------------------------

STRATA = FunctionStrata(lambda Y: (Y[:, 0] >= 0).astype(int), ["left", "right"])


def uniform(X):
    return np.ones(len(X))


def of(distribution):
    """The density of pushes as a function of inputs (n, 2), a place and a push."""
    return lambda X: distribution.pdf(X[:, 1])


NEAR_ONE = stats.truncnorm((0 - 0.9) / 0.15, (1 - 0.9) / 0.15, 0.9, 0.15)
#: New pushes, and a bound of their density; the logged ones are uniform on (0, 1).
DESIGNS = {
    "beta": (stats.beta(4, 1), 4.0),
    "truncated Gaussian": (NEAR_ONE, float(NEAR_ONE.pdf(0.9)) * 1.001),
    "only hard pushes": (stats.uniform(0.75, 0.25), 4.0),
}


def spread(push):
    return 0.02 + 0.3 * push**3


def transitions(pushes, rng):
    """Inputs (n, 2), next places (n, 1) and where the model believes the cart to be (n, 1, 1)."""
    X = np.column_stack([rng.uniform(-1, 1, len(pushes)), pushes])
    believed = X[:, :1] + 0.3 * (X[:, 1:] - 0.5)
    Y = believed + spread(X[:, 1:]) * rng.standard_normal((len(X), 1))
    return X, Y, believed[:, None]


def model(X, n_particles, rng):
    return np.repeat((X[:, :1] + 0.3 * (X[:, 1:] - 0.5))[:, None], n_particles, axis=1)


def capture(groups=None, **settings):
    groups = PerStratum() if groups is None else groups
    settings = {"score": NearestParticles(1), "n_particles": 1, "deterministic_model": True} | settings
    return Capture(model, STRATA, groups=groups, **settings)


def logged(n, seed=0, **settings):
    """A calibration on n uniform pushes for new ones of Beta(4, 1)."""
    X, Y, _ = transitions(np.random.default_rng(seed).random(n), np.random.default_rng(seed + 1))
    return capture(**settings).fit(X, Y, shift=Shift(uniform, of(stats.beta(4, 1)), 4.0)), X, Y


# -- the guarantee, as a guarantee ----------------------------------------------------------------------------------------

ALPHA = 0.2
TREE = Tree(min_leaf=8, partition_share=0.5, max_leaves=3)


def new_rows_covered(groups, distribution, shift, calibrations, rows=50, n=400):
    """Of new transitions, so many rows for each calibration: whether they are covered, and their strata, both
    (calibrations, rows)."""
    rng = np.random.default_rng(20)
    cap, covered, strata = capture(groups), [], []
    for seed in range(calibrations):
        X, Y, prediction = transitions(rng.random(n), rng)
        cap.set_params(seed=seed).fit(X, Y, prediction=prediction, shift=shift)
        X, Y, prediction = transitions(distribution.rvs(rows, random_state=rng), rng)
        covered.append(cap.contains(X, Y, ALPHA, prediction=prediction))
        strata.append(STRATA.index(Y))
    return np.array(covered), np.array(strata)


def claims(covered, strata, by_stratum=True):
    """P-values of the claims that coverage is at least 1 - alpha: overall and by stratum.

    The first new row of each calibration is independent of all others, so their number is binomial, exactly. The mean over
    all rows of a calibration is sharper.
    """
    found = {}
    for name, here in {"all": strata >= 0, **({"left": strata == 0, "right": strata == 1} if by_stratum else {})}.items():
        first = covered[here[:, 0], 0]
        found[f"{name}, exactly"] = stats.binomtest(int(first.sum()), len(first), 1 - ALPHA, alternative="less").pvalue
        found[f"{name}, on average"] = p_below(((covered - (1 - ALPHA)) * here).mean(axis=1), 0.0)
    return found


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # a leaf of little weight is infinite, and that is right
@pytest.mark.parametrize("groups", [OneGroup(), PerStratum(), TREE], ids=["one group", "per stratum", "tree"])
@pytest.mark.parametrize("design", DESIGNS)
def test_weighted_thresholds_cover_new_actions(groups, design):
    distribution, largest = DESIGNS[design]
    covered, strata = new_rows_covered(groups, distribution, Shift(uniform, of(distribution), largest), 800)
    # one group promises nothing by stratum
    assert rejected(claims(covered, strata, by_stratum=not isinstance(groups, OneGroup))) == []


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
@pytest.mark.parametrize(("groups", "most"), [(PerStratum(), 0.6), (TREE, 0.79)], ids=["per stratum", "tree"])
@pytest.mark.parametrize("design", DESIGNS)
def test_without_weights_new_actions_are_not_covered(groups, most, design):
    """Clearly so per stratum; a tree that splits on the push makes up for much, and not for all."""
    covered, strata = new_rows_covered(groups, DESIGNS[design][0], None, 250)
    assert covered.mean() < most
    assert {"all, on average", "right, on average"} <= set(rejected(claims(covered, strata)))


PUSHES = (np.arange(4000) + 0.5) / 4000


def true_coverage(distribution, n, repetitions, alpha, largest, bound):
    """Coverage of new pushes by thresholds of n logged ones, without a test set: errors are uniform on (0, spread)."""
    rng, density = np.random.default_rng(21), distribution.pdf(PUSHES)
    found = []
    for _ in range(repetitions):
        pushes = rng.random(n)
        scores, weights = spread(pushes) * rng.random(n), np.minimum(distribution.pdf(pushes), largest)
        known = WeightedScores.from_groups(scores, np.zeros(n, dtype=np.int64), 1, Ratios(weights, bound))
        q = known.at(alpha)[0]
        found.append(np.average(np.minimum(q / spread(PUSHES), 1.0), weights=density))
    return np.array(found)


@pytest.mark.parametrize(("n", "alpha"), [(30, 0.3), (100, 0.1), (400, 0.05)])
@pytest.mark.parametrize("design", DESIGNS)
def test_mean_coverage_is_at_least_promised_and_not_much_more(design, n, alpha):
    distribution, largest = DESIGNS[design]
    found = true_coverage(distribution, n, 1500, alpha, largest, largest)
    # what the bound and the rank add is at most two rows of the largest weight in a total of about n
    most = 1 - alpha + 3 * largest / n + 0.01
    assert rejected({"at least": p_below(found, 1 - alpha), "at most": p_above(found, most)}) == []


def test_a_forgotten_new_row_is_caught():
    """Without the bound in the sum, that is, with one next to nothing, coverage is too low: the tests have power."""
    distribution, largest = DESIGNS["beta"]
    assert p_below(true_coverage(distribution, 60, 3000, 0.1, largest, 4.0), 0.9) > 1e-3
    original = WeightedScores.totals
    broken = property(lambda self: [total - Fraction(self.largest) for total in original.__get__(self)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WeightedScores, "totals", broken)
        assert p_below(true_coverage(distribution, 60, 3000, 0.1, largest, 4.0), 0.9) < 1e-6


# -- thresholds, against an oracle ----------------------------------------------------------------------------------------

WEIGHTS = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.5, 1.0, 1.0, 3.0]),
    st.floats(0, 5, allow_subnormal=True),
    st.floats(0, 1e-300),
)
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 8), WEIGHTS), min_size=0, max_size=60)
ALPHAS = st.one_of(st.sampled_from([0.05, 0.1, 1 - 0.9, 0.2, 0.3, 0.5, 2 / 3]), st.floats(0.01, 0.99))


def slow(scores, weights, largest, alpha):
    """The definition, in fractions."""
    miss = Fraction(alpha).limit_denominator(10**12)
    weights = [Fraction(w) for w in weights]
    total, squares = sum(weights), sum(w * w for w in weights)
    if total == 0 or total**2 / squares < size_needed(alpha):
        return np.inf
    for q in sorted(scores):
        if sum(w for s, w in zip(scores, weights) if s <= q) >= (1 - miss) * (total + Fraction(largest)):
            return q
    return np.inf


def collected(rows, largest):
    groups, scores, weights = (np.array(part) for part in zip(*rows)) if rows else (np.empty(0),) * 3
    return WeightedScores.from_groups(scores.astype(float), groups.astype(np.int64), 3, Ratios(weights, largest))


@given(ROWS, st.floats(5, 20), ALPHAS)
def test_thresholds_are_those_of_the_definition(rows, largest, alpha):
    known = collected(rows, largest)
    for j, (found, size) in enumerate(zip(known.at(alpha), known.effective_sizes)):
        mine = [(score, weight) for group, score, weight in rows if group == j]
        if abs(size - size_needed(alpha)) > 1e-6 or size == round(size):  # next to the limit rounding may decide
            assert found == slow(*(zip(*mine) if mine else ((), ())), largest, alpha)


@given(st.integers(0, 80), st.floats(1e-300, 1e300), ALPHAS, st.integers(0, 1000))
def test_equal_weights_are_no_weights(n, weight, alpha, seed):
    rng = np.random.default_rng(seed)
    scores, groups = rng.integers(0, 30, n).astype(float), rng.integers(0, 3, n)
    known = WeightedScores.from_groups(scores, groups, 3, Ratios(np.full(n, weight), weight))
    plain = GroupScores.from_groups(scores, groups, 3)
    assert np.array_equal(known.at(alpha), plain.at(alpha))
    assert np.array_equal(known.sizes, plain.sizes)
    assert np.array_equal(known.effective_sizes, plain.sizes)
    for j, q in enumerate(known.at(alpha)):
        mine = np.sort(scores[groups == j])
        rank = conformal_rank(len(mine), alpha)
        assert q == (mine[rank - 1] if rank <= len(mine) else np.inf)


@pytest.mark.parametrize("n", [9, 19, 1999, 99_999])
def test_equal_weights_reach_whole_ranks_exactly(n):
    """At alpha = 0.1 the rank is a whole number here, and sums of 0.1 in floats would be one off."""
    known = WeightedScores(np.arange(n, dtype=float), np.array([0, n]), np.full(n, 0.1), 0.1)
    assert known.at(0.1)[0] == conformal_rank(n, 0.1) - 1


@given(ROWS, st.floats(5, 20), st.floats(0, 20), ALPHAS, ALPHAS)
def test_thresholds_grow_with_largest_and_fall_with_alpha(rows, largest, more, alpha, other):
    low, high = sorted((alpha, other))
    known = collected(rows, largest)
    assert (known.at(high) <= known.at(low)).all()
    assert (known.at(alpha) <= collected(rows, largest + more).at(alpha)).all()


@given(ROWS, st.floats(5, 20), ALPHAS)
def test_a_finite_threshold_has_enough_rows_by_both_counts(rows, largest, alpha):
    known = collected(rows, largest)
    assert (known.times_largest <= known.effective_sizes * (1 + 1e-12)).all()
    finite = np.isfinite(known.at(alpha))
    assert (known.times_largest[finite] >= (1 / alpha - 1) * (1 - 1e-9)).all()
    assert (known.counted(None)[finite] >= size_needed(alpha)).all()


@given(st.lists(WEIGHTS, max_size=100))
def test_sums_are_exact(weights):
    assert exact_sum(np.array(weights, dtype=float)) == sum(map(Fraction, weights))


def test_the_scale_of_guessed_ratios_does_not_matter():
    rng = np.random.default_rng(0)
    scores, weights, starts = np.sort(rng.random(500)), 4 * rng.random(500), np.array([0, 500])
    plain = WeightedScores(scores, starts, weights, 4.0)
    for scale in (2.0**-900, 2.0**900):
        scaled = WeightedScores(scores, starts, weights * scale, 4.0 * scale)
        assert np.array_equal(scaled.at(0.1), plain.at(0.1))
        assert np.allclose(scaled.effective_sizes, plain.effective_sizes)


def test_an_effective_size_is_that_of_equal_weights():
    known = WeightedScores(np.arange(5.0), np.array([0, 3, 3, 5]), np.array([1.0, 1.0, 2.0, 3.0, 0.0]), 3.0)
    assert known.effective_sizes.tolist() == pytest.approx([16 / 6, 0, 1])
    assert known.sizes.tolist() == known.counted(None).tolist() == [2, 0, 1]


# -- the log is asked whether it was drawn as claimed ---------------------------------------------------------------------


@pytest.mark.parametrize("design", [*DESIGNS, "two points"])
@pytest.mark.parametrize("n", [10, 300])
def test_a_true_claim_is_refused_as_rarely_as_stated(design, n):
    """Exactly binomial, at the level in use and at others where a false alarm would show sooner."""
    rng, repetitions = np.random.default_rng(22), 3000
    if design == "two points":  # the most that a ratio may vary: 0, or rarely its bound
        largest, draw = 20.0, lambda: 20.0 * (rng.random(n) < 1 / 20)
    else:
        distribution, largest = DESIGNS[design]
        draw = functools.partial(lambda pdf: pdf(rng.random(n)), distribution.pdf)
    evidence = np.array([log_evidence(draw(), largest) for _ in range(repetitions)])
    for level in (LEVEL, 0.01, 0.1, 0.5):
        alarms = int((evidence >= -np.log(level)).sum())
        assert stats.binomtest(alarms, repetitions, level, alternative="greater").pvalue > 1e-4


def test_the_evidence_has_mean_at_most_one_exactly():
    """All logs of up to eight rows whose ratio is 0 or its bound, each with its probability."""
    for largest in (1.5, 2.0, 7.0):
        share = 1 / largest
        for n in range(1, 9):
            mean = sum(
                stats.binom.pmf(k, n, share) * np.exp(log_evidence(largest * (np.arange(n) < k), largest))
                for k in range(n + 1)
            )
            assert mean == pytest.approx(1.0)


@pytest.mark.parametrize("design", DESIGNS)
def test_a_log_of_the_new_actions_is_noticed(design):
    distribution, largest = DESIGNS[design]
    rng = np.random.default_rng(23)
    shift = Shift(uniform, of(distribution), largest)
    for _ in range(20):
        X, Y, _ = transitions(distribution.rvs(200, random_state=rng), rng)
        with pytest.raises(CaptureError, match=r"the log was not drawn from `logged`: the mean of new / logged is \d"):
            capture().fit(X, Y, shift=shift)


def test_new_actions_that_the_log_never_had_are_noticed():
    """Half of the new pushes are beyond 1, where nothing was logged: the mean ratio is a half."""
    X, Y, _ = transitions(np.random.default_rng(0).random(300), np.random.default_rng(1))
    with pytest.raises(CaptureError, match=r"mean of new / logged is 0\.5 over 300 rows where 1 is expected"):
        capture().fit(X, Y, shift=Shift(uniform, of(stats.uniform(0, 2)), 1.0))


# -- in use ---------------------------------------------------------------------------------------------------------------


def test_effective_sizes_are_reported():
    cap, X, Y = logged(2000)
    m, weights = STRATA.index(Y), stats.beta(4, 1).pdf(X[:, 1])
    expected = [weights[m == j].sum() ** 2 / (weights[m == j] ** 2).sum() for j in (0, 1)]
    assert cap.effective_sizes() == pytest.approx(expected)
    assert 0 < min(expected) < 0.6 * (m == 0).sum()
    found = cap.coverage(X, Y)
    assert [row.calibration for row in found.groups] == [int(size) for size in expected]
    assert capture().fit(X, Y).effective_sizes().tolist() == [(m == 0).sum(), (m == 1).sum()]


def test_a_group_of_too_little_weight_is_infinite_and_named():
    X, Y, _ = transitions(np.random.default_rng(0).random(400), np.random.default_rng(1))
    left = np.flatnonzero(STRATA.index(Y) == 0)
    guess = np.ones(400)
    guess[left[8:]] = 0.0
    cap = capture().fit(X, Y, shift=Shift.guessed(guess, 1.0, responsible="Ada"))
    with pytest.warns(CaptureWarning, match="too few calibration points for alpha = 0.1, by their weights") as caught:
        q = cap.group_thresholds(0.1)
    words = "group 0 (left) has an effective size of 8.0 and 8.0 times the largest ratio in sum; 9 are needed of both"
    assert words in str(caught[0].message)
    assert np.isinf(q).tolist() == [True, False]


def test_a_needlessly_large_bound_makes_thresholds_infinite():
    X, Y, _ = transitions(np.random.default_rng(0).random(400), np.random.default_rng(1))
    cap = capture(OneGroup()).fit(X, Y, shift=Shift(uniform, uniform, 50.0))
    with pytest.warns(CaptureWarning, match=r"effective size of 400.0 and 8.0 times the largest ratio in sum; 9 are needed"):
        assert np.isinf(cap.group_thresholds(0.1)).all()
    assert cap.effective_sizes().tolist() == [400.0]


def test_a_known_shift_says_so():
    cap, X, Y = logged(2000)
    assert (cap.shift_.kind, cap.shift_.responsible, cap.shift_.largest) == ("known", None, 4.0)
    assert repr(cap).endswith(", fitted for a shift known by design, ratios up to 4")
    assert str(cap.coverage(X, Y)).endswith("\n  promised for a shift known by design, ratios up to 4")
    assert repr(Shift(uniform, uniform, 4)).endswith(", largest=4)")


def test_guessed_ratios_carry_a_name_wherever_a_promise_is_reported():
    _, X, Y = logged(500)
    shift = Shift.guessed(lambda X: 4 * X[:, 1] ** 3, 4.0, responsible="  Ada\nLovelace ")
    cap = capture().fit(X, Y, shift=shift)
    words = "GUESSED ratios up to 4, for which Ada Lovelace is responsible"
    assert repr(shift) == "Shift.guessed(..., largest=4, responsible='Ada Lovelace')"
    assert str(cap.shift_) == words
    assert words in repr(cap)
    found = cap.coverage(X, Y)
    assert words in str(found)
    assert all(words in row["note"] for row in found.rows())
    cap.fit(X, Y)
    assert cap.shift_ is None
    assert repr(cap) == repr(capture())
    assert "note" not in cap.coverage(X, Y).rows()[0]


def test_a_guess_may_be_an_array_and_equals_what_is_known():
    cap, X, Y = logged(500)
    again = capture().fit(X, Y, shift=Shift.guessed(4 * X[:, 1] ** 3, 4.0, responsible="Ada"))
    assert np.allclose(again.calibration_.weights, cap.calibration_.weights)
    assert np.array_equal(again.thresholds(X, 0.2), cap.thresholds(X, 0.2))


def test_a_ratio_above_its_bound_by_rounding_is_none():
    X, Y, _ = transitions(np.random.default_rng(0).random(100), np.random.default_rng(1))
    cap = capture().fit(X, Y, shift=Shift.guessed(np.full(100, 0.1 + 0.2), 0.3, responsible="Ada"))
    assert cap.shift_.largest == cap.calibration_.largest == 0.1 + 0.2 > 0.3


def test_leaves_are_grown_where_new_inputs_are():
    """Of weight enough for finite thresholds: leaves of so many rows would not be, where new pushes are rare."""
    for seed in range(20):
        cap, *_ = logged(1000, seed, groups=Tree(min_leaf=20, partition_share=0.5))
        assert cap.partition_.n_groups > 2
        assert (cap.calibration_.times_largest > size_needed(0.2)).all()
        assert np.isfinite(cap.group_thresholds(0.2)).all()


def test_equal_ratios_grow_the_same_tree():
    X, Y, _ = transitions(np.random.default_rng(0).random(600), np.random.default_rng(1))
    cap, same = (capture(TREE).fit(X, Y, shift=shift) for shift in (None, Shift(uniform, uniform, 1.0)))
    assert cap.partition_.n_groups > 2
    assert np.array_equal(cap.partition_.nodes, same.partition_.nodes)
    assert np.array_equal(cap.thresholds(X, 0.2), same.thresholds(X, 0.2))


def test_strata_are_rare_by_weight_and_only_partition_rows_decide():
    """Held-out rows of the right stratum lose their weight, and nothing is merged that was not before."""
    X, Y, _ = transitions(np.random.default_rng(0).random(400), np.random.default_rng(1))
    groups, m = Tree(max_leaves=1, partition_share=0.5, min_stratum=20), STRATA.index(Y)
    held_out = groups._held_out(Examples(X, m, m + 1.0, 2, None), np.random.default_rng(5))
    found = []
    for part in (~held_out, held_out):
        weights = np.where((m == 1) & part, 0.01, 1.0)
        examples = Examples(X, m, m + 1.0, 2, None, None, Ratios(weights, 1.0))
        partition, chosen = groups.split(examples, np.random.default_rng(5))
        assert np.array_equal(chosen, held_out)
        found.append(partition.merged(STRATA.names))
    assert found == [{"right": ("left",)}, {}]


def test_answers_of_all_kinds_agree():
    cap, X, Y = logged(600, groups=TREE)
    q = cap.thresholds(X[:50], 0.2)
    table = cap.threshold_table(0.2)
    assert all(table(X[i], m) == q[i, m] for i in range(50) for m in (0, 1))
    inside = cap.contains(X[:50], Y[:50], 0.2, rng=0)
    assert [cap.region(x, 0.2, rng=0).contains(y[None])[0] for x, y in zip(X[:50], Y[:50])] == inside.tolist()


# -- refusals -------------------------------------------------------------------------------------------------------------


class Classifier:
    def __call__(self, X):
        return np.ones(len(X))

    def predict_proba(self, X):
        return np.ones((len(X), 2)) / 2


class Own(PerStratum):
    def calibrate(self, examples, rng):
        return super().calibrate(examples._replace(ratios=None), rng)


CLASSIFIER = Classifier()
ESTIMATED = r"`{}` is estimated from data, so the ratios are a guess; .* Shift\.guessed\(ratios, largest, responsible="


@pytest.mark.parametrize(
    "estimate",
    [
        CLASSIFIER,
        CLASSIFIER.predict_proba,
        functools.partial(CLASSIFIER.predict_proba),
        lambda X: CLASSIFIER.predict_proba(X)[:, 0],
        stats.gaussian_kde(np.arange(5.0)),
    ],
    ids=["classifier", "its method", "partial", "in a function", "kernel density"],
)
def test_estimates_are_not_taken_for_known(estimate):
    with pytest.raises(CaptureError, match=ESTIMATED.format("new")):
        Shift(uniform, estimate, 2.0)
    with pytest.raises(CaptureError, match=ESTIMATED.format("logged")):
        Shift(estimate, uniform, 2.0)


def test_an_estimator_in_a_closure_is_found():
    estimator = Classifier()
    with pytest.raises(CaptureError, match=ESTIMATED.format("new")):
        Shift(uniform, lambda X: estimator.predict_proba(X)[:, 0], 2.0)


@pytest.mark.parametrize("name", [None, "", "  ", 7, "x" * 201])
def test_nobody_is_responsible_for_a_guess(name):
    with pytest.raises(CaptureError, match="guessed ratios need a person who answers for them, but responsible is"):
        Shift.guessed(np.ones(5), 1.0, responsible=name)


@pytest.mark.parametrize(
    "shift", [np.ones(100), [1.0] * 100, uniform, CLASSIFIER], ids=["array", "list", "function", "model"]
)
def test_ratios_that_nobody_vouches_for_are_refused(shift):
    X, Y, _ = transitions(np.linspace(0, 1, 100), np.random.default_rng(0))
    with pytest.raises(CaptureError, match=r"ratios that nobody vouches for: .* Shift\(logged, new, largest\) where both"):
        capture().fit(X, Y, shift=shift)


@pytest.mark.parametrize(
    ("shift", "sentence"),
    [
        (lambda: Shift(uniform, uniform, 0.9), "largest is 0.9, but the mean ratio of two densities is 1"),
        (lambda: Shift(uniform, uniform, np.inf), "largest is inf; expected a positive number"),
        (lambda: Shift(uniform, np.ones(100), 2.0), r"`new` is a ndarray; expected a function new\(X\) -> \(n,\)"),
        (lambda: Shift(lambda X: X[:, 1] > 0.5, uniform, 2.0), "`logged` is 0 in 50 of 100 rows of the log, first in row 0"),
        (lambda: Shift(uniform, lambda X: -X[:, 1], 2.0), r"new is -0\.0101 in row 1; expected numbers of at least 0"),
        (lambda: Shift(uniform, lambda X: np.nan * X[:, 1], 2.0), "new has 100 NaN or infinite values"),
        (lambda: Shift(uniform, lambda X: np.ones((len(X), 1)), 2.0), r"new has shape \(100, 1\), expected \(n,\)"),
        (lambda: Shift(uniform, of(stats.beta(4, 1)), 3.0), r"largest is 3, but 10 of 100 rows .* up to 4 in row 99"),
        (lambda: Shift(lambda X: np.full(len(X), 1e-300), lambda X: 1e300 + X[:, 1], 9.0), "100 of 100 .* up to inf"),
        (lambda: Shift.guessed(np.ones(99), 1.0, "Ada"), r"the guessed ratios has shape \(99,\)"),
        (lambda: Shift.guessed(np.full(100, -1.0), 1.0, "Ada"), "the guessed ratios is -1 in row 0"),
        (lambda: Shift.guessed(np.full(100, 2.0), 1.0, "Ada"), "largest is 1, but 100 of 100 rows"),
        (lambda: Shift.guessed(np.zeros(100), 1.0, "Ada"), "all ratios are 0: the log has no row like new ones"),
        (lambda: Shift.guessed(np.ones(100), 0, "Ada"), "largest is 0; expected a positive number"),
        (lambda: Shift.guessed("many", 1.0, "Ada"), "the guessed ratios is not an array of numbers"),
    ],
)
def test_impossible_shifts_are_refused(shift, sentence):
    X, Y, _ = transitions(np.linspace(0, 1, 100), np.random.default_rng(0))
    with pytest.raises(CaptureError, match=sentence):
        capture().fit(X, Y, shift=shift())


def test_what_weights_cannot_do_is_refused():
    cap, X, Y = logged(600)
    with pytest.raises(CaptureError, match="confidence is not available for a calibration with a shift"):
        cap.thresholds(X, 0.2, confidence=0.9)
    with pytest.raises(CaptureError, match="confidence is not available"):
        cap.calibration_.counted(0.9)
    shift = Shift(uniform, of(stats.beta(4, 1)), 4.0)
    with pytest.raises(CaptureError, match="shift weighs independent rows, but episodes says that these are not"):
        cap.fit(X, Y, episodes=np.arange(len(X)), shift=shift)
    for groups in (Uncalibrated(), Own()):
        with pytest.raises(
            CaptureError, match=f"{type(groups).__name__} does not weigh its scores, so it cannot take a shift"
        ):
            capture(groups).fit(X, Y, shift=shift)
    for watch in (Monitor, lambda cap: check_batch(cap, X, Y)):
        with pytest.raises(CaptureError, match="a calibration with a shift cannot be watched"):
            watch(cap)


# -- files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    return tmp_path / "calibration"


@pytest.mark.parametrize("name", [None, "Ada Lovelace"])
def test_a_loaded_calibration_answers_as_the_saved_one(file, name):
    cap, X, Y = logged(600, groups=TREE)
    if name is not None:
        cap.fit(X, Y, shift=Shift.guessed(lambda X: 4 * X[:, 1] ** 3, 4.0, responsible=name))
    cap.save(file)
    again = Capture.load(file, model, STRATA)
    assert again.shift_ == cap.shift_
    assert again.shift_.responsible == name
    assert again.fingerprint() == cap.fingerprint()
    assert np.array_equal(again.thresholds(X, 0.2), cap.thresholds(X, 0.2))
    assert np.array_equal(again.effective_sizes(), cap.effective_sizes())
    assert str(again.coverage(X, Y, 0.2, rng=1)) == str(cap.coverage(X, Y, 0.2, rng=1))
    header, _ = artifact.read(file)
    assert header["shift"] == {"kind": "known" if name is None else "guessed", "responsible": name, "largest": 4.0}


def test_weights_have_a_schema_of_their_own(file):
    """A version that does not know weights must not read such a file as one of equal ones."""
    cap, X, Y = logged(600)
    cap.save(file)
    assert b'"schema":"4"' in file.read_bytes()
    cap.fit(X, Y).save(file)
    assert b'"schema":"1"' in file.read_bytes()
    assert Capture.load(file, model, STRATA).shift_ is None


def forge(file, change_header=lambda header: None, change_arrays=lambda arrays: None):
    header, arrays = artifact.read(file)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change_header(header)
    change_arrays(arrays)
    text, schema = json.dumps(header), artifact.WEIGHTED_SCHEMA if "weights" in arrays else artifact.SCHEMA
    metadata = {"format": artifact.FORMAT, "schema": str(schema), "calibration": text}
    file.write_bytes(serialise(arrays, metadata=metadata | {"sha256": artifact.checksum(text, arrays)}))


ARRAYS = {
    "negative": lambda arrays: arrays["weights"].__setitem__(3, -1e-9),
    "NaN": lambda arrays: arrays["weights"].__setitem__(3, np.nan),
    "infinite": lambda arrays: arrays["weights"].__setitem__(3, np.inf),
    "above largest": lambda arrays: arrays["weights"].__setitem__(3, 4.0001),
    "too few": lambda arrays: arrays.update(weights=arrays["weights"][:-1].copy()),
    "of two axes": lambda arrays: arrays.update(weights=arrays["weights"][:, None].copy()),
    "whole numbers": lambda arrays: arrays.update(weights=np.ones(len(arrays["weights"]), dtype=np.int64)),
    "another largest": lambda arrays: arrays.update(largest=np.array([5.0])),
    "a smaller largest": lambda arrays: arrays.update(largest=np.array([0.5])),
    "an infinite largest": lambda arrays: arrays.update(largest=np.array([np.inf])),
    "two largest": lambda arrays: arrays.update(largest=np.array([4.0, 4.0])),
    "no largest": lambda arrays: arrays.pop("largest"),
    "no weights": lambda arrays: arrays.pop("weights"),
    "episodes too": lambda arrays: arrays.update(
        drawn=np.ones(len(arrays["scores"]), dtype=np.uint8), steps=np.ones(len(arrays["scores"]), dtype=np.int64)
    ),
}
HEADERS = {
    "no shift": lambda header: header.pop("shift"),
    "not a table": lambda header: header.update(shift="known"),
    "an unknown kind": lambda header: header["shift"].update(kind="felt"),
    "a guess of nobody": lambda header: header["shift"].update(kind="guessed"),
    "a known shift of somebody": lambda header: header["shift"].update(responsible="Ada"),
    "another largest": lambda header: header["shift"].update(largest=5.0),
    "a word": lambda header: header["shift"].update(largest="4"),
}


@pytest.mark.parametrize("change", ARRAYS)
def test_forged_weights_are_refused(file, change):
    logged(300)[0].save(file)
    forge(file)
    Capture.load(file, model, STRATA)
    forge(file, change_arrays=ARRAYS[change])
    with pytest.raises(CaptureError, match=r"do not fit together|damaged"):
        Capture.load(file, model, STRATA)


@pytest.mark.parametrize("change", HEADERS)
def test_forged_claims_are_refused(file, change):
    logged(300)[0].save(file)
    forge(file, change_header=HEADERS[change])
    with pytest.raises(CaptureError, match=r"save it again|responsible is None|expected a positive number"):
        Capture.load(file, model, STRATA)


def test_a_shift_of_a_plain_calibration_is_refused(file):
    cap, X, Y = logged(300)
    cap.fit(X, Y).save(file)
    claim = {"kind": "known", "responsible": None, "largest": 4.0}
    forge(file, change_header=lambda header: header.update(shift=claim))
    with pytest.raises(CaptureError, match="do not fit together"):
        Capture.load(file, model, STRATA)
