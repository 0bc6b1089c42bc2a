"""Properties that hold for any data, any alpha and any method."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import oracles
from capture_cp import SE2, Capture, Euclidean, Mahalanobis, Metric, NearestParticles, OneGroup, PerStratum, Tree, method
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import Uncalibrated
from capture_cp.conformal.scores import ParticleBox
from capture_cp.conformal.thresholds import GroupScores
from worlds import PARTICLES

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # any alpha makes some group too small

alphas = st.floats(0.001, 0.999)
confidences = st.none() | st.floats(0.01, 0.99)
rows = st.integers(0, 199)
seeds = st.integers(0, 2**32 - 1)
names = st.sampled_from(METHODS)
particle_names = st.sampled_from([name for name in METHODS if name != "lucca"])


class Manhattan(Metric):
    """A metric of the user's own, which has no compiled version."""

    def distance(self, a, b):
        return np.abs(np.asarray(a) - b).sum(axis=-1)


def region_of(cap, world, row, alpha, confidence=None):
    return cap.region(world.X[row], alpha, confidence, prediction=world.prediction(cap, slice(row, row + 1)))


# -- thresholds -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(0, 10), max_size=40), min_size=1, max_size=4), alphas, alphas, confidences)
def test_threshold_is_monotone_in_alpha(groups, one, other, confidence):
    scores = GroupScores.from_groups(
        np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(g) for g in groups]), len(groups)
    )
    strict, loose = sorted((one, other))
    assert (scores.at(strict, confidence) >= scores.at(loose, confidence)).all()


@given(st.lists(st.floats(0, 10), max_size=60), alphas, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_threshold_is_monotone_in_confidence(scores, alpha, one, other):
    group = GroupScores.from_groups(np.array(scores), np.zeros(len(scores), dtype=np.int64), 1)
    low, high = sorted((one, other))
    assert group.at(alpha)[0] <= group.at(alpha, low)[0] <= group.at(alpha, high)[0]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=80), st.integers(1, 99))
def test_thresholds_for_any_alpha_asked_later_are_the_exact_quantiles(pairs, percent):
    groups, scores = np.array(pairs or np.empty((0, 2)), dtype=np.int64).reshape(-1, 2).T
    q = GroupScores.from_groups(scores / 7.0, groups, 4).at(percent / 100)
    assert q.tolist() == [oracles.quantile(scores[groups == j] / 7.0, Fraction(percent, 100)) for j in range(4)]


# -- scores and membership ------------------------------------------------------------------------------------------------


@given(seeds, st.lists(st.integers(0, 1), max_size=1))
def test_mahalanobis_is_within_q_exactly_when_its_score_is(seed, angles):
    rng = np.random.default_rng(seed)
    score = Mahalanobis(angles)
    root = rng.normal(size=(6, 2, 2))
    prediction = score.checked((rng.normal(size=(6, 2)), root @ root.swapaxes(1, 2) + 0.01 * np.eye(2)), 6, 1, 2)
    Y = rng.normal(size=(6, 2))
    scores = score.score(prediction, Y)
    for q in (scores, np.nextafter(scores, 0), np.nextafter(scores, 9), rng.random(6)):
        assert np.array_equal(score.within(prediction, Y, q), scores <= q)


@given(seeds)
def test_permuting_particles_changes_no_score(seed):
    rng = np.random.default_rng(seed)
    Y, particles = rng.normal(size=(5, 3)), rng.normal(size=(5, 6, 3))
    shuffled = rng.permuted(np.broadcast_to(np.arange(6), (5, 6)), axis=1)
    for score in (NearestParticles(1), NearestParticles(4, SE2(0.5)), NearestParticles(6, Manhattan()), ParticleBox()):
        permuted = np.take_along_axis(particles, shuffled[..., None], axis=1)
        assert np.array_equal(score.score(particles, Y), score.score(permuted, Y))


@given(st.sampled_from([OneGroup(), PerStratum()]), seeds, alphas, confidences)
@settings(max_examples=30)
def test_permuting_calibration_rows_changes_nothing(world, fresh, groups, seed, alpha, confidence):
    order = np.random.default_rng(seed).permutation(len(world.X))
    cap = Capture(world.box, world.box.strata, groups=groups, n_particles=PARTICLES)
    thresholds = []
    for rows in (np.arange(len(order)), order):
        cap.fit(world.X[rows], world.Y[rows], prediction=world.particles[rows])
        thresholds.append(cap.thresholds(fresh.X, alpha, confidence))
    assert np.array_equal(*thresholds)


# -- regions, and the same twice ------------------------------------------------------------------------------------------


@given(names, rows, alphas, alphas, confidences)
def test_regions_are_nested_in_alpha(fitted, fresh, name, row, one, other, confidence):
    strict, loose = sorted((one, other))
    large, small = (region_of(fitted[name], fresh, row, alpha, confidence) for alpha in (strict, loose))
    assert np.isin(small.cells(), large.cells()).all()
    assert (large.contains(fresh.Y) | ~small.contains(fresh.Y)).all()
    assert large.volume() >= small.volume()


@given(particle_names, rows, alphas)
def test_region_never_contains_infeasible(fitted, fresh, name, row, alpha):
    strata = fresh.box.strata
    region = region_of(fitted[name], fresh, row, alpha)
    assert (strata.labels[region.cells()] >= 0).all()
    blocked = strata.grid.centre(np.flatnonzero(strata.labels < 0))
    assert not region.contains(blocked).any()
    outside_the_grid = [[5.0, 5.0], [-9.0, 0.5]]
    assert not region.contains(outside_the_grid).any()
    assert fitted[name].count_cells(fresh.X[row : row + 1], alpha, prediction=fresh.particles[row : row + 1])[0, -1] == 0


@given(names, alphas, confidences, seeds)
@settings(max_examples=24)
def test_contains_on_a_batch_equals_one_region_at_a_time(fitted, fresh, name, alpha, confidence, seed):
    cap, rng = fitted[name], np.random.default_rng(seed)
    rows = rng.choice(200, size=25, replace=False)
    Y = np.where(rng.random((25, 1)) < 0.5, fresh.Y[rows], rng.uniform(-0.3, 1.3, size=(25, 2)))  # some infeasible
    batch = cap.contains(fresh.X[rows], Y, alpha, confidence, prediction=fresh.prediction(cap, rows))
    regions = [region_of(cap, fresh, row, alpha, confidence) for row in rows]
    assert batch.tolist() == [bool(region.contains(y)[0]) for region, y in zip(regions, Y)]
    assert batch.tolist() == [y in region for region, y in zip(regions, Y)]


@given(names, alphas, seeds)
@settings(max_examples=24)
def test_contains_of_several_outcomes_an_input_equals_asking_each(fitted, fresh, name, alpha, seed):
    cap, rng = fitted[name], np.random.default_rng(seed)
    rows = rng.choice(200, size=10, replace=False)
    Y = rng.uniform(-0.2, 1.2, size=(10, 7, 2))
    together = cap.contains(fresh.X[rows], Y, alpha, prediction=fresh.prediction(cap, rows))
    apart = [region_of(cap, fresh, row, alpha).contains(y) for row, y in zip(rows, Y)]
    assert together.tolist() == np.array(apart).tolist()
    labels = fresh.box.strata.index(Y.reshape(-1, 2)).reshape(10, 7)
    at_hand = cap.contains(fresh.X[rows], Y, alpha, prediction=fresh.prediction(cap, rows), labels=labels)
    assert np.array_equal(at_hand, together)


@given(names, rows, alphas, seeds)
def test_every_cell_of_a_region_is_contained_and_no_other_is(fitted, fresh, name, row, alpha, seed):
    grid = fresh.box.strata.grid
    region = region_of(fitted[name], fresh, row, alpha)
    assert np.array_equal(region.cells(), np.flatnonzero(region.contains(grid.centre(np.arange(grid.size)))))


@given(names, rows, alphas, seeds)
def test_every_sample_is_in_the_region(fitted, fresh, name, row, alpha, seed):
    region = region_of(fitted[name], fresh, row, alpha)
    if len(region.cells()):
        Y = region.sample(50, np.random.default_rng(seed))
        assert Y.shape == (50, 2)
        assert region.contains(Y).all()
        assert np.isin(fresh.box.strata.grid.cell(Y), region.cells()).all()


@given(names, alphas)
@settings(max_examples=12)
def test_fitting_twice_gives_the_same_answers(world, fresh, name, alpha):
    caps = [
        method(name, world.box, world.box.strata, n_particles=PARTICLES, tree=Tree(min_leaf=40), seed=3).fit(
            world.X, world.Y
        )
        for _ in range(2)
    ]
    one, two = (cap.contains(fresh.X, fresh.Y, alpha, rng=0) for cap in caps)
    assert np.array_equal(one, two)
    assert np.array_equal(*(cap.thresholds(fresh.X, alpha) for cap in caps))


# -- scikit-learn's conventions -------------------------------------------------------------------------------------------

PARTS = [
    Euclidean(),
    SE2(0.3),
    Manhattan(),
    NearestParticles(),
    NearestParticles(3, SE2(0.3)),
    Mahalanobis((2,)),
    ParticleBox(),
    OneGroup(),
    PerStratum(),
    Uncalibrated(0.5),
    Tree(),
    Tree(per_stratum=False, min_leaf=7, prune=True, stratum_input="label", max_leaves=None, max_depth=8),
]


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_parts_survive_clone_and_repr(part):
    again = clone(part)
    assert again is not part
    assert again == part
    assert repr(again) == repr(part)
    assert again.get_params() == part.get_params()
    assert eval(repr(part)) == part  # the repr is the call that makes it


def test_nested_parameters_are_reached_by_double_underscores():
    score = NearestParticles(3, SE2(0.3)).set_params(k=2, metric__length=0.5)
    assert score == NearestParticles(2, SE2(0.5))
    assert score.get_params()["metric__length"] == 0.5


def test_capture_survives_clone_and_repr(each_method, fresh):
    again = clone(each_method)
    assert not hasattr(again, "partition_")
    assert again.score == each_method.score
    assert again.groups == each_method.groups
    assert repr(again) == repr(each_method)
    assert again.set_params(seed=5, n_particles=4).get_params(deep=False)["seed"] == 5
    assert each_method.seed == 0
