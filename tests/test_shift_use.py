"""Shifts in use: what they report, what is refused, and what their files may claim."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

from capture_cp import Capture, CaptureError, CaptureWarning, Monitor, PerStratum, Shift, Tree, size_needed
from capture_cp.capture import artifact
from capture_cp.commands.batch import check_batch
from capture_cp.conformal.groups import Examples, Uncalibrated
from capture_cp.conformal.weighted import Ratios
from test_artifact import forge
from test_shift import STRATA, TREE, capture, logged, model, of, transitions, uniform


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
    words = "group 0 (left) has an effective size of 8.0 and a total weight of 8.0 times the largest ratio; both must be"
    assert f"{words} at least 9" in str(caught[0].message)
    assert np.isinf(q).tolist() == [True, False]


def test_guessed_ratios_carry_a_name_wherever_a_promise_is_reported():
    _, X, Y = logged(500)
    shift = Shift.guessed(lambda X: 4 * X[:, 1] ** 3, 4.0, responsible="  Ada\nLovelace ")
    cap = capture().fit(X, Y, shift=shift)
    words = "GUESSED ratios up to 4, for which Ada Lovelace is responsible"
    assert repr(Shift(uniform, uniform, 4)).endswith(", largest=4)")
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


def test_leaves_are_grown_where_new_inputs_are():
    """Of weight enough for finite thresholds: leaves of so many rows would not be, where new pushes are rare."""
    for seed in range(20):
        cap, *_ = logged(1000, seed, groups=Tree(min_leaf=20, partition_share=0.5))
        assert cap.partition_.n_groups > 2
        assert (cap.calibration_.times_largest > size_needed(0.2)).all()
        assert np.isfinite(cap.group_thresholds(0.2)).all()


def test_strata_are_rare_by_weight_and_only_partition_rows_decide():
    """Held-out rows of the right stratum lose their weight, and nothing is merged that was not before."""
    X, Y, _ = transitions(np.random.default_rng(0).random(400), np.random.default_rng(1))
    groups, m = Tree(max_leaves=1, partition_share=0.5, min_stratum=20), STRATA.index(Y)
    held_out = groups.held_out(len(X), None, np.random.default_rng(5))
    found = []
    for part in (~held_out, held_out):
        weights = np.where((m == 1) & part, 0.01, 1.0)
        examples = Examples(X, m, m + 1.0, 2, None, None, Ratios(weights, 1.0))
        partition, chosen = groups.split(examples, np.random.default_rng(5))
        assert np.array_equal(chosen, held_out)
        found.append(partition.merged(STRATA.names))
    assert found == [{"right": ("left",)}, {}]


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


@pytest.mark.parametrize(
    "shift", [np.ones(100), [1.0] * 100, uniform, CLASSIFIER], ids=["array", "list", "function", "model"]
)
def test_ratios_that_nobody_vouches_for_are_refused(shift):
    X, Y, _ = transitions(np.linspace(0, 1, 100), np.random.default_rng(0))
    with pytest.raises(CaptureError, match=r"ratios without a stated origin: .* Shift\(logged, new, largest\) if both"):
        capture().fit(X, Y, shift=shift)


@pytest.mark.parametrize(
    ("shift", "sentence"),
    [
        (lambda: Shift(uniform, uniform, 0.9), "largest is 0.9, but the mean ratio of two densities is 1"),
        (lambda: Shift(uniform, np.ones(100), 2.0), r"`new` is a ndarray; expected a function new\(X\) -> \(n,\)"),
        (lambda: Shift(lambda X: X[:, 1] > 0.5, uniform, 2.0), "`logged` is 0 in 50 of 100 rows of the log, first in row 0"),
        (lambda: Shift(uniform, lambda X: -X[:, 1], 2.0), r"new is -0\.0101 in row 1; expected numbers of at least 0"),
        (lambda: Shift(uniform, lambda X: np.ones((len(X), 1)), 2.0), r"new has shape \(100, 1\), expected \(n,\)"),
        (lambda: Shift(uniform, of(stats.beta(4, 1)), 3.0), r"largest is 3, but 10 of 100 rows .* up to 4 in row 99"),
        (lambda: Shift(lambda X: np.full(len(X), 1e-300), lambda X: 1e300 + X[:, 1], 9.0), "100 of 100 .* up to inf"),
        (lambda: Shift.guessed(np.ones(99), 1.0, "Ada"), r"the guessed ratios has shape \(99,\)"),
        (lambda: Shift.guessed(np.full(100, -1.0), 1.0, "Ada"), "the guessed ratios is -1 in row 0"),
        (lambda: Shift.guessed(np.full(100, 2.0), 1.0, "Ada"), "largest is 1, but 100 of 100 rows"),
        (lambda: Shift.guessed(np.zeros(100), 1.0, "Ada"), "all ratios are 0: no row of the log is like the new inputs"),
        (lambda: Shift.guessed(np.ones(100), 1.0, "  "), "guessed ratios need a responsible person, but responsible is"),
        (lambda: Shift.guessed(np.ones(100), 1.0, 7), "guessed ratios need a responsible person"),
        (lambda: Shift.guessed(np.ones(100), 1.0, "x" * 201), "guessed ratios need a responsible person"),
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
    with pytest.raises(CaptureError, match="shift needs independent rows, but episodes marks these rows as dependent"):
        cap.fit(X, Y, episodes=np.arange(len(X)), shift=shift)
    for groups in (Uncalibrated(), Own()):
        with pytest.raises(
            CaptureError, match=f"{type(groups).__name__} does not weight its scores, so it does not support a shift"
        ):
            capture(groups).fit(X, Y, shift=shift)
    for watch in (Monitor, lambda cap: check_batch(cap, X, Y)):
        with pytest.raises(CaptureError, match="a calibration with a shift cannot be monitored"):
            watch(cap)


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
    assert again.digest() == cap.digest()
    assert np.array_equal(again.thresholds(X, 0.2), cap.thresholds(X, 0.2))
    assert np.array_equal(again.effective_sizes(), cap.effective_sizes())
    assert str(again.coverage(X, Y, 0.2, rng=1)) == str(cap.coverage(X, Y, 0.2, rng=1))
    header, _ = artifact.read(file)
    assert header["shift"] == {"kind": "known" if name is None else "guessed", "responsible": name, "largest": 4.0}
    assert b'"schema":"4"' in file.read_bytes()  # a version that does not know weights must not read equal ones


ARRAYS = {
    "negative": lambda arrays: arrays["weights"].__setitem__(3, -1e-9),
    "NaN": lambda arrays: arrays["weights"].__setitem__(3, np.nan),
    "above largest": lambda arrays: arrays["weights"].__setitem__(3, 4.0001),
    "too few": lambda arrays: arrays.update(weights=arrays["weights"][:-1].copy()),
    "of two axes": lambda arrays: arrays.update(weights=arrays["weights"][:, None].copy()),
    "whole numbers": lambda arrays: arrays.update(weights=np.ones(len(arrays["weights"]), dtype=np.int64)),
    "another largest": lambda arrays: arrays.update(largest=np.array([5.0])),
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
    "another largest claimed": lambda header: header["shift"].update(largest=5.0),
    "a word": lambda header: header["shift"].update(largest="4"),
}


@pytest.mark.parametrize("change", [*ARRAYS, *HEADERS])
def test_forged_weights_and_claims_are_refused(file, change):
    logged(300)[0].save(file)
    forge(file, HEADERS.get(change), ARRAYS.get(change))
    sentence = "do not fit together|damaged|save it again|responsible is None|expected a positive number"
    with pytest.raises(CaptureError, match=sentence):
        Capture.load(file, model, STRATA)
