"""Bad input at the public door: always a CaptureError of one sentence, and never a calibration half replaced."""

from __future__ import annotations

import contextlib
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from capture_cp import (
    SE2,
    Capture,
    CaptureError,
    CaptureWarning,
    FunctionStrata,
    HorizonCapture,
    NearestParticles,
    OneGroup,
    PerStratum,
    Rollouts,
    Score,
    Tree,
    method,
    one_stratum,
)
from capture_cp.conformal.thresholds import exact_product
from worlds import PARTICLES, fit


@pytest.fixture
def cap(world):
    return fit("capture", world)


def spoiled(array, value, *places):
    out = np.array(array, dtype=float)
    for place in places:
        out[place] = value
    return out


def one_sentence(error):
    """A message ends with a full stop and says what to do in the same breath, not in paragraphs."""
    text = str(error.value)
    assert "\n" not in text
    assert text[0].isalnum()
    assert re.search(r"[.?]$", text)
    assert not text.endswith("..")


# -- what is given to fit -------------------------------------------------------------------------------------------------

FIT = {
    "NaN in X": (
        lambda w: (spoiled(w.X, np.nan, (3, 1), (5, 0)), w.Y),
        "X has 2 NaN or infinite values, first in rows 3, 5",
    ),
    "NaN in Y": (lambda w: (w.X, spoiled(w.Y, np.nan, (0, 1))), "Y has 1 NaN or infinite values, first in row 0"),
    "different lengths": (lambda w: (w.X, w.Y[:-1]), "X has 800 rows and Y has 799; they must pair up row by row"),
    "no rows": (lambda w: (w.X[:0], w.Y[:0]), "X has no rows; at least one transition is needed"),
    "Y of another space": (lambda w: (w.X, np.hstack([w.Y, w.Y])), "Y has 4 columns, but the grid of the strata has 2 axes"),
    "X in words": (lambda w: ([["a"]], w.Y), "X is not an array of numbers"),
    "Y infeasible": (
        lambda w: (w.X, spoiled(w.Y, 9.0, (11, 0), (40, 1))),
        r"2 of 800 rows of Y lie in infeasible space \(stratum -1\), first in rows 11, 40; the guarantee needs every",
    ),
}


@pytest.mark.parametrize("name", FIT)
def test_bad_transitions_are_refused_and_the_earlier_calibration_stays(cap, world, fresh, name):
    arrays, sentence = FIT[name]
    before = cap.thresholds(fresh.X, 0.2)
    with pytest.raises(CaptureError, match=sentence) as error:
        cap.fit(*arrays(world), prediction=world.particles)
    one_sentence(error)
    assert np.array_equal(cap.thresholds(fresh.X, 0.2), before)
    assert cap.contains(fresh.X, fresh.Y, 0.2).shape == (200,)
    assert cap.region(fresh.X[0], 0.2).volume() > 0


@pytest.mark.parametrize("scale", [1e30, 1e39, 1e300])
@pytest.mark.parametrize("groups", [Tree(min_leaf=20), Tree(min_leaf=20, prune=True)], ids=repr)
def test_numbers_that_scikit_learn_cannot_hold_are_our_sentence_or_no_trouble(world, groups, scale):
    """Trees are grown on 32-bit floats, which end at 3.4e38; what happens beyond must not depend on the random split."""
    X = spoiled(world.X, scale, (slice(0, 100), 1))
    cap = Capture(world.box, world.box.strata, groups=groups, n_particles=PARTICLES)
    with contextlib.suppress(CaptureError):
        cap.fit(X, world.Y, prediction=world.particles)
        assert np.isfinite(cap.thresholds(X, 0.5)).any()


PARTICLE_ARRAYS = {
    "NaN": (lambda p: spoiled(p, np.nan, (2, 3, 1)), "the model's particles has 1 NaN or infinite values, first in row 2"),
    "too few rows": (lambda p: p[:-1], r"has shape \(799, 8, 2\), expected \(n, L, dc\).*here \(800, 8, 2\)"),
    "too many axes of space": (lambda p: np.concatenate([p, p], axis=2), r"has shape \(800, 8, 4\)"),
}


@pytest.mark.parametrize("name", PARTICLE_ARRAYS)
def test_bad_particles_are_refused_wherever_they_come_from(cap, world, fresh, name):
    change, sentence = PARTICLE_ARRAYS[name]
    with pytest.raises(CaptureError, match=sentence) as error:
        cap.fit(world.X, world.Y, prediction=change(world.particles))
    one_sentence(error)
    refit = clone(cap).set_params(model=lambda X, n, rng: change(world.particles) if len(X) == 800 else world.box(X, n, rng))
    with pytest.raises(CaptureError, match=sentence):
        refit.fit(world.X, world.Y)


MODELS = {
    "no callable": (5, "the model is a int; expected a callable"),
    "two arguments": (
        lambda X, n: None,
        r"the model must accept \(X, n_particles, rng\), but too many positional arguments",
    ),
    "the same for every seed": (
        lambda X, n, rng: np.tile(X[:, None, :2], (1, n, 1)),
        "the same particles for two different random generators; draw its noise from the rng.*deterministic_model=True",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_bad_models_are_refused(world, fresh, cap, name):
    model, sentence = MODELS[name]
    with pytest.raises(CaptureError, match=sentence) as error:
        Capture(model, world.box.strata, groups=OneGroup(), n_particles=PARTICLES).fit(world.X, world.Y)
    one_sentence(error)


def test_an_error_inside_the_model_is_the_models_own(world):
    def model(X, n, rng):
        raise ZeroDivisionError("in the model")

    with pytest.raises(ZeroDivisionError, match="in the model"):
        Capture(model, world.box.strata, groups=OneGroup()).fit(world.X, world.Y)


PARTS = {
    "k of 0": ({"score": NearestParticles(0)}, "k is 0; expected a whole number of at least 1"),
    "k above L": ({"score": NearestParticles(9)}, "k is 9, but the model returns 8 particles; choose k from 1 to 8"),
    "no particles": ({"n_particles": 0}, "n_particles is 0; expected a whole number of at least 1"),
    "a negative seed": ({"seed": -1}, "seed is -1; expected a whole number of at least 0"),
    "strata that are none": ({"strata": "walls"}, r"the strata are a str; expected an object with names and index\(Y\)"),
    "a metric of other poses": ({"score": NearestParticles(1, SE2(1.0))}, "3 numbers; the configurations here have 2"),
    "a score that is not called": ({"score": NearestParticles}, "score"),
    "a share of 0": ({"groups": Tree(partition_share=0.0)}, "partition_share is 0.0; expected a number between 0 and 1"),
}


@pytest.mark.parametrize("name", PARTS)
def test_bad_parts_are_refused_and_the_earlier_calibration_stays(cap, world, fresh, name):
    settings, sentence = PARTS[name]
    before, kept = cap.thresholds(fresh.X, 0.2), cap.get_params(deep=False)
    with pytest.raises(CaptureError, match=sentence) as error:
        cap.set_params(**settings).fit(world.X, world.Y, prediction=world.particles)
    one_sentence(error)
    cap.set_params(**kept)
    assert np.array_equal(cap.thresholds(fresh.X, 0.2), before)


def test_scores_that_are_not_finite_are_refused(world):
    class Broken(Score):
        def score(self, prediction, Y):
            return np.full(len(Y), np.nan)

    class Short(Score):
        def score(self, prediction, Y):
            return np.zeros(3)

    for score, sentence in ((Broken(), "the scores has 800 NaN"), (Short(), r"the scores has shape \(3,\)")):
        with pytest.raises(CaptureError, match=sentence):
            Capture(world.box, world.box.strata, score=score, groups=OneGroup()).fit(world.X, world.Y)


# -- questions ------------------------------------------------------------------------------------------------------------

QUESTIONS = {
    "x with two axes": (lambda c, w: c.region(w.X[:1]), r"x has shape \(1, 4\), expected \(dx,\)"),
    "NaN in x": (lambda c, w: c.region(w.X[0] * np.nan), "x has 4 NaN or infinite values"),
    "Y too wide": (lambda c, w: c.contains(w.X, w.X), r"Y has shape \(200, 4\)"),
    "different lengths": (lambda c, w: c.contains(w.X, w.Y[:5]), "X has 200 rows and Y has 5; they must pair up"),
    "particles of other rows": (
        lambda c, w: c.contains(w.X, w.Y, prediction=w.particles[:5]),
        "the model's particles has shape",
    ),
    "labels out of range": (
        lambda c, w: c.contains(w.X, w.Y, labels=w.m + 7),
        "stratum numbers from 7 to 9; expected 0 to 2",
    ),
    "no rows to cover": (lambda c, w: c.coverage(w.X[:0], w.Y[:0]), "X has no rows"),
    "infeasible Y to cover": (lambda c, w: c.coverage(w.X, w.Y + 9), "200 of 200 rows of Y lie in infeasible space"),
    "stratum of a region": (
        lambda c, w: c.region(w.X[0]).cells("conrer"),
        "unknown stratum 'conrer'.*Did you mean 'corner'",
    ),
    "method": (lambda c, w: method("pcpp", c.model, c.strata), "unknown method 'pcpp'.*Did you mean 'pcp'"),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_bad_questions_are_refused(fitted, fresh, name):
    ask, sentence = QUESTIONS[name]
    with pytest.raises(CaptureError, match=sentence) as error:
        ask(fitted["pcp"], fresh)
    one_sentence(error)


ASK = {
    "region": lambda c, w, **rates: c.region(w.X[0], **rates),
    "contains": lambda c, w, **rates: c.contains(w.X, w.Y, **rates),
    "thresholds": lambda c, w, **rates: c.thresholds(w.X, **rates),
    "threshold_table": lambda c, w, **rates: c.threshold_table(**rates),
    "compile": lambda c, w, **rates: c.compile(**rates),
    "count_cells": lambda c, w, **rates: c.count_cells(w.X, **rates),
    "coverage": lambda c, w, **rates: c.coverage(w.X, w.Y, **rates),
}


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
@pytest.mark.parametrize("rate", [0, 1, 0.0, 1.0, -0.1, 1.5, 90, math.nan, math.inf, "x", None, [0.1, 0.2]], ids=str)
def test_a_failure_rate_outside_the_open_interval_is_refused(fitted, fresh, ask, rate):
    with pytest.raises(
        CaptureError, match=r"alpha is .*; expected a number strictly between 0 and 1: the allowed failure"
    ) as error:
        ask(fitted["pcp"], fresh, alpha=rate)
    one_sentence(error)
    if rate is not None:
        with pytest.raises(CaptureError, match=r"confidence is .*; expected a number strictly between 0 and 1"):
            ask(fitted["pcp"], fresh, confidence=rate)


@pytest.mark.parametrize("ask", ASK.values(), ids=ASK)
def test_asking_before_fit_is_an_error_that_says_to_fit(world, fresh, ask):
    with pytest.raises(CaptureError, match=r"not calibrated yet; call fit\(X, Y\) or Capture.load\(...\) first") as error:
        ask(Capture(world.box, world.box.strata), fresh)
    one_sentence(error)


def test_cells_without_a_grid_are_an_error_that_says_what_to_use(world, fresh):
    strata = FunctionStrata(world.box.strata.index, world.box.strata.names)
    cap = Capture(world.box, strata, groups=OneGroup()).fit(world.X, world.Y)
    with pytest.raises(CaptureError, match="need strata with a grid; use GridStrata"):
        cap.count_cells(fresh.X)
    assert cap.coverage(fresh.X, fresh.Y).all.volume is None  # coverage goes without


def test_a_group_too_small_is_named_with_its_size_and_the_size_needed(world, fresh):
    rows = np.concatenate(
        [np.flatnonzero(world.m == 0)[:50], np.flatnonzero(world.m == 1)[:50], np.flatnonzero(world.m == 2)[:5]]
    )
    cap = Capture(world.box, world.box.strata, groups=PerStratum(), n_particles=PARTICLES)
    cap.fit(world.X[rows], world.Y[rows], prediction=world.particles[rows])
    with pytest.warns(CaptureWarning) as caught:
        region = cap.region(fresh.X[0], 0.1, prediction=fresh.particles[0])
    (warning,) = caught
    text = str(warning.message)
    assert "too few calibration points for alpha = 0.1" in text
    assert "group 2 (corner) has 5" in text
    assert "9 are needed" in text
    assert "whole stratum" in text
    assert "free" not in text
    assert region.thresholds[2] == math.inf
    assert np.isfinite(region.thresholds[:2]).all()
    assert np.array_equal(region.cells("corner"), world.box.strata.cells("corner"))
    cap.region(fresh.X[1], 0.1)  # printed once for each alpha
    cap.thresholds(fresh.X, 0.2)  # 4 are enough here
    with pytest.warns(CaptureWarning, match=r"alpha = 0.2: group 2 \(corner\) has 5; 14 are needed"):
        cap.thresholds(fresh.X, 0.2, confidence=0.95)


# -- what compiled code would read out of bounds, and scores that its arithmetic has no room for ----------------------------


class LogDistance(Score):
    """Larger is stranger, and negative near the particles."""

    def score(self, prediction, Y):
        return np.log(np.abs(Y - prediction[:, 0])[:, 0] + 1e-6)


def one_axis(X, n_particles, rng):
    return 1e-3 * rng.standard_normal((len(X), n_particles, 1))


def test_negative_scores_are_refused_in_every_fit():
    """`contains` covered as promised with them, and regions were empty: a negative threshold means nothing inside."""
    Y = np.random.default_rng(0).standard_normal((100, 1))
    sentence = r"the smallest score is -\d.*; expected scores of at least 0, .* such as exp of a log-distance"
    with pytest.raises(CaptureError, match=sentence):
        Capture(one_axis, one_stratum(), LogDistance(), OneGroup()).fit(np.zeros((100, 1)), Y)
    rollouts = Rollouts.from_arrays(np.zeros((100, 1)), np.zeros((100, 1, 1)), Y[:, None])
    with pytest.raises(CaptureError, match=sentence):
        HorizonCapture(lambda s, a, rng: s, one_stratum(), (0,), LogDistance(), OneGroup()).fit(rollouts)


@given(q=st.floats(0, allow_nan=False, allow_infinity=False), scale=st.floats(5e-324, allow_infinity=False))
def test_products_end_and_are_exact_for_any_numbers(q, scale):
    with np.errstate(over="ignore"):
        (t,) = exact_product(q, np.array([scale]))
        assert t / scale <= q
        assert np.nextafter(t, np.inf) / scale > q or np.isinf(np.nextafter(t, np.inf))


def test_a_table_refuses_strata_that_do_not_exist_and_inputs_of_another_kind(cap, world):
    table = cap.threshold_table(0.2)
    for m in (3, -1, 10**6):
        with pytest.raises(CaptureError, match=rf"m is {m}; expected a float64 array .* and a stratum from 0 to 2"):
            table(world.X[0], m)
    for x in (np.zeros(3), np.zeros(5), np.zeros(0), [0.0] * 4, None, "x", np.array(["a"] * 4)):
        with pytest.raises(CaptureError, match=r"expected a float64 array of shape \(4,\)"):
            table(x, 0)


def test_a_partition_refuses_what_it_does_not_know(cap, world):
    groups = cap.partition_.groups
    for m in (np.full(2, 3), np.full(2, -1), np.zeros(3, int)):
        with pytest.raises(CaptureError, match="not all from 0 to 2; pass one stratum for each of 2 inputs"):
            groups(world.X[:2], m)
    with pytest.raises(CaptureError, match=r"inputs have shape \(2, 3\); expected \(n, 4\)"):
        groups(world.X[:2, :3], np.zeros(2, int))
    with pytest.raises(CaptureError, match=r"expected \(n, 4\)"):
        cap.partition_.groups_everywhere(world.X[:2, :3])
    assert groups(world.X[:0], np.zeros(0, int)).shape == (0,)


def test_strata_are_not_replaced_after_fitting(box, world):
    cap = Capture(box, box.strata, groups=Tree(min_leaf=60), n_particles=8).fit(world.X, world.Y)
    cap.strata = FunctionStrata(lambda Y: np.full(len(Y), 9), [f"s{i}" for i in range(10)])
    for ask in (lambda: cap.contains(world.X, world.Y), lambda: cap.region(world.X[0]), lambda: cap.thresholds(world.X)):
        with pytest.raises(CaptureError, match=r"there are 10 strata \(s0, s1, .* was fitted with 3; .* fit again"):
            ask()
