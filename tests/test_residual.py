"""A model corrected by a regressor: the guarantee stays, regions shrink, and what was trained on is never calibrated on."""

from __future__ import annotations

import functools
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, PoissonRegressor, Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVR

from capture_cp import Capture, CaptureError, HorizonCapture, Rollouts, Tree, method, residual
from capture_cp.capture.horizon_particles import as_step
from capture_cp.models import ensemble
from capture_cp.models.residual import Residual
from test_guarantees import p_above, p_below
from worlds import PARTICLES, make_world

FOREST = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)


@pytest.fixture(scope="module")
def train(box):
    return make_world(box, 600, seed=50)


@pytest.fixture(scope="module")
def corrected(box, train):
    return residual(box, LinearRegression()).fit(train.X, train.Y)


def capture(model, box, **settings):
    return Capture(model, box.strata, groups=Tree(min_leaf=60), n_particles=PARTICLES, **settings)


# -- what it promises -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("regressor", [LinearRegression(), FOREST], ids=["linear", "forest"])
def test_a_corrected_model_keeps_the_guarantee(box, train, regressor):
    """Over random splits of a pool: coverage between 1 - alpha and 1 - alpha + 1/(smallest group + 1), up to ties."""
    model = residual(box, regressor).fit(train.X, train.Y)
    pool = make_world(box, 1600, seed=51)
    particles = model(pool.X, PARTICLES, np.random.default_rng(52))
    covered, slack = [], []
    for seed in range(80):
        rows = np.random.default_rng(seed).permutation(len(pool.X))
        fit, test = rows[:1200], rows[1200:]
        cap = capture(model, box, seed=seed).fit(pool.X[fit], pool.Y[fit], prediction=particles[fit])
        covered.append(cap.contains(pool.X[test], pool.Y[test], prediction=particles[test]).mean())
        slack.append(1 / (cap.calibration_.sizes.min() + 1))
    assert p_below(covered, 0.9) > 1e-3
    assert p_above(np.array(covered) - slack, 0.9) > 1e-3


def test_particles_are_shifted_by_what_the_regressor_says(box, fresh, corrected):
    plain = box(fresh.X, 5, np.random.default_rng(3))
    shift = corrected.regressor_.predict(fresh.X)
    assert np.array_equal(corrected(fresh.X, 5, np.random.default_rng(3)), plain + shift[:, None])


def test_lucca_takes_a_corrected_model_too(box, world, fresh, corrected):
    caps = [method("lucca", model, box.strata).fit(world.X, world.Y) for model in (box, corrected)]
    before, after = (cap.count_cells(fresh.X).sum() for cap in caps)
    assert after < before / 3
    mean, _ = corrected.gaussian(fresh.X)
    assert np.array_equal(mean, box.gaussian(fresh.X)[0] + corrected.regressor_.predict(fresh.X))
    with pytest.raises(CaptureError, match=r"the model Residual has no method gaussian\(X\)"):
        method("lucca", clone(corrected).set_params(model=box.model).fit(world.X, world.Y), box.strata).fit(fresh.X, fresh.Y)


def test_shifted_particles_are_put_back_where_they_may_be(box, train, fresh):
    model = residual(box, LinearRegression(), project=lambda Y: Y.clip(0.0, 1.0)).fit(train.X, train.Y)
    particles = model(fresh.X, PARTICLES, np.random.default_rng(0))
    assert particles.min() == 0.0
    assert particles.max() == 1.0
    bad = residual(box, LinearRegression(), project=lambda Y: Y[:-1]).fit(train.X, train.Y)
    with pytest.raises(CaptureError, match=r"what project returned has shape \(1599, 2\), expected"):
        bad(fresh.X, PARTICLES, np.random.default_rng(0))


def test_angles_are_corrected_across_the_seam():
    """A heading that the model misses by 0.3, logged near ±π: the correction is 0.3, not 2π."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-np.pi, np.pi, size=(400, 1))

    def model(X, n_particles, rng):
        return _around(X[:, None] + 0.1 * rng.standard_normal((len(X), n_particles, 1)))

    corrected = residual(model, LinearRegression(), angles=(0,)).fit(X, _around(X + 0.3))
    slope, offset = corrected.linear_correction()
    assert np.allclose([slope.item(), offset.item()], [0.0, 0.3], atol=0.01)
    assert np.abs(corrected(X, 9, rng)).max() <= np.pi
    with pytest.raises(CaptureError, match=r"angles are \(1,\); the configuration has axes 0 to 0"):
        residual(model, LinearRegression(), angles=(1,)).fit(X, X)


def _around(angle):
    return np.angle(np.exp(1j * angle))


# -- what it refuses ------------------------------------------------------------------------------------------------------


def test_calibrating_on_training_rows_is_refused(box, train, world, corrected):
    X, Y = np.vstack([world.X, train.X[:3]]), np.vstack([world.Y, train.Y[:3]])
    sentence = (
        "the model was trained on 3 of these 803 transitions, .* calibrate on transitions and episodes that it has not seen"
    )
    with pytest.raises(CaptureError, match=sentence):
        capture(corrected, box).fit(X, Y)
    with pytest.raises(CaptureError, match=sentence):
        capture(corrected, box).fit(X, Y, prediction=corrected(X, PARTICLES, np.random.default_rng(0)))
    twice = residual(corrected, LinearRegression()).fit(world.X, world.Y)
    with pytest.raises(
        CaptureError, match=r"trained on 3 of these 3 transitions"
    ):  # what the inner model has seen counts too
        capture(twice, box).fit(train.X[:3], train.Y[:3])
    assert corrected.trained_on(train.X, train.Y + 1e-3).sum() == 0  # the same input with another outcome is a new row
    assert corrected.trained_on(np.empty((0, 4)), np.empty((0, 2))).shape == (0,)


def with_six_decimals(rows):
    return np.array([[float(f"{value:.6f}") for value in row] for row in rows])


class Wrapped:
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, X, n_particles, rng):
        return self.inner(X, n_particles, rng)


def decorated(model):
    @functools.wraps(model.__call__)
    def call(X, n_particles, rng):
        return model(X, n_particles, rng)

    return call


def same(rows):
    return rows


@pytest.mark.parametrize(
    ("wrap", "copied"),
    [
        (same, lambda rows: rows.astype(np.float32)),
        (same, with_six_decimals),
        (same, lambda rows: rows * (1 + 1e-12)),
        (lambda model: lambda X, n_particles, rng: model(X, n_particles, rng), same),
        (lambda model: functools.partial(lambda inner, X, n_particles, rng: inner(X, n_particles, rng), model), same),
        (lambda model: model.__call__, same),
        (lambda model: Wrapped([lambda: None, Wrapped(model)][1]), same),
        (decorated, same),
        (lambda model: ensemble([lambda X: model(X, 1, np.random.default_rng(0))[:, 0]], noise=0.1), same),
    ],
    ids=["float32", "csv", "ulp", "lambda", "partial", "method", "attribute", "decorator", "ensemble"],
)
def test_copies_of_rows_and_wrappers_of_models_are_seen_through(box, train, corrected, wrap, copied):
    with pytest.raises(CaptureError, match="trained on 600 of these 600 transitions"):
        capture(wrap(corrected), box).fit(copied(train.X), copied(train.Y))


def test_what_a_function_names_without_using_it_does_no_harm(box, world):
    untrained = residual(box, LinearRegression())

    def model(X, n_particles, rng):
        assert isinstance(untrained, Residual)
        return box(X, n_particles, rng)

    capture(model, box).fit(world.X, world.Y)

    def early(X, n_particles, rng):
        return later if X is None else box(X, n_particles, rng)

    capture(early, box).fit(world.X, world.Y)
    later = None


def test_a_horizon_asks_its_model_too(box, train, corrected):
    starts, actions = train.X[:300, :2], train.X[:300, None, 2:]
    seen = Rollouts.from_arrays(starts, actions, train.Y[:300, None])
    with pytest.raises(CaptureError, match="trained on 300 of these 300 transitions"):
        HorizonCapture(as_step(corrected), box.strata, (0, 1), n_particles=PARTICLES).fit(seen)


@pytest.fixture(scope="module")
def runs(box):
    """Runs of 20 steps: X (n, 4), Y (n, 2) and the number of the run (n,)."""
    rng = np.random.default_rng(60)
    position, X, Y = box.transitions(40, rng).state, [], []
    for _ in range(20):
        push = rng.uniform(-0.2, 0.2, (40, 2))
        X.append(np.hstack([position, push]))
        position = box.step(position, push + box.noise * rng.standard_normal((40, 2)), box.true_gain)
        Y.append(position)
    X, Y = (np.stack(rows, axis=1).reshape(800, -1) for rows in (X, Y))
    return X, Y, np.repeat(np.arange(40), 20)


def test_steps_between_the_training_steps_of_the_same_runs_are_refused(box, runs):
    X, Y, run = runs
    odd = np.arange(800) % 2 == 1
    unnamed, named = (residual(box, FOREST).fit(X[odd], Y[odd], names) for names in (None, run[odd]))
    with pytest.raises(CaptureError, match=r"of these transitions begin where a training transition of the model ended"):
        capture(unnamed, box).fit(X[~odd], Y[~odd])
    with pytest.raises(CaptureError, match=r"trained on 400 of these 400 transitions, or on steps of their episodes"):
        capture(named, box).fit(X[~odd], Y[~odd], episodes=run[~odd])


def test_other_runs_are_no_training_runs(box, runs):
    X, Y, run = runs
    early = run < 20
    for names in (None, run[early]):
        model = residual(box, FOREST).fit(X[early], Y[early], names)
        assert not model.trained_on(X[~early], Y[~early], run[~early]).any()
        assert model.share_continued(X[~early], run[~early]) < 0.1
    with pytest.raises(CaptureError, match="episodes has shape"):
        residual(box, FOREST).fit(X, Y, episodes=[1, 2])


def test_an_untrained_model_is_refused(box, world):
    model = residual(box, LinearRegression())
    for use in (
        lambda: capture(model, box).fit(world.X, world.Y),
        lambda: model(world.X, 4, np.random.default_rng(0)),
        lambda: model.gaussian(world.X),
        model.linear_correction,
        model.identity,
    ):
        with pytest.raises(CaptureError, match="residual model is not trained yet; call fit"):
            use()


class OneNumber(LinearRegression):
    def predict(self, X):
        return super().predict(X)[:, 0]


class NaN(LinearRegression):
    def predict(self, X):
        return super().predict(X) * np.nan


@pytest.mark.parametrize(
    ("regressor", "sentence"),
    [
        (OneNumber(), r"what the regressor predicts has shape \(1,\), expected \(n, dc\)"),
        (NaN(), "what the regressor predicts has 2 NaN or infinite values"),
        (SVR(), r"SVR\(\) cannot be trained on 2 numbers per row .* sklearn.multioutput.MultiOutputRegressor"),
        ("linear", "the regressor is 'linear'; expected a scikit-learn regressor"),
        (LinearRegression, "the regressor is <class .*expected a scikit-learn regressor"),
    ],
    ids=["shape", "nan", "one target", "a word", "a class"],
)
def test_a_regressor_that_does_not_fit_is_refused(box, train, regressor, sentence):
    with pytest.raises(CaptureError, match=sentence):
        residual(box, regressor).fit(train.X, train.Y)


# -- conventions ----------------------------------------------------------------------------------------------------------


def test_clone_forgets_and_pickle_remembers(box, train, fresh, corrected):
    again = clone(corrected)
    assert again.get_params()["model"] == box
    assert repr(again) == f"Residual(model={box!r}, regressor=LinearRegression())"
    assert not hasattr(again, "regressor_")
    kept = pickle.loads(pickle.dumps(corrected))
    assert kept.identity() == corrected.identity()
    assert kept.trained_on(train.X, train.Y).all()
    assert not hasattr(corrected.regressor, "coef_")  # the one given stays as it was


def test_the_identity_tells_settings_and_training_data_apart(box, train):
    prints = {
        residual(box, regressor, **settings).fit(X, Y).identity()
        for regressor, X, Y, settings in [
            (Ridge(), train.X, train.Y, {}),
            (Ridge(), train.X[1:], train.Y[1:], {}),
            (Ridge(2.0), train.X, train.Y, {}),
            (make_pipeline(PolynomialFeatures(2), Ridge()), train.X, train.Y, {}),
            (make_pipeline(PolynomialFeatures(3), Ridge()), train.X, train.Y, {}),
            (Ridge(), train.X, train.Y, {"seed": 1}),
            (Ridge(), train.X, train.Y, {"n_particles": 32}),
            (Ridge(), train.X, train.Y, {"project": _around}),
        ]
    }
    assert len(prints) == 8
    assert residual(box, Ridge()).fit(train.X, train.Y).identity() in prints


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("regressor", [LinearRegression(), LinearRegression(fit_intercept=False), Ridge(3.0)], ids=str)
def test_a_linear_correction_is_what_the_regressor_predicts(box, train, fresh, regressor, outputs):
    def model(X, n_particles, rng):
        return box(X, n_particles, rng)[..., :outputs]

    corrected = residual(model, regressor).fit(train.X, train.Y[:, :outputs])
    coefficients, offset = corrected.linear_correction()
    assert coefficients.shape == (outputs, 4)
    assert offset.shape == (outputs,)
    zero = np.zeros((len(fresh.X), 1, outputs))
    corrected.model = lambda X, n_particles, rng: zero
    assert np.allclose((fresh.X @ coefficients.T + offset)[:, None], corrected(fresh.X, 1, np.random.default_rng(0)))


def test_a_curved_correction_is_not_called_linear(box, train):
    curved = [FOREST, make_pipeline(PolynomialFeatures(2), Ridge()), MultiOutputRegressor(SVR())]
    for regressor in curved:
        with pytest.raises(CaptureError, match="is not linear in X with a coef_ and an intercept_"):
            residual(box, regressor).fit(train.X, train.Y).linear_correction()
    growing = residual(lambda X, n, rng: np.zeros((len(X), n, 1)), PoissonRegressor())  # has a coef_, behind an exponential
    with pytest.raises(CaptureError, match="is not linear"):
        growing.fit(train.X, train.Y[:, :1]).linear_correction()
