"""Adapters: what they return, that seeds fix it and rows do not mix, and what they refuse."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression

from capture_cp import Capture, CaptureError, FunctionStrata, Mahalanobis, OneGroup
from capture_cp.models import ensemble, gaussian, jax_function, mujoco_rollout, torch_module

EVERYWHERE = FunctionStrata(lambda Y: np.zeros(len(Y), dtype=int), ["everywhere"])
X = np.random.default_rng(0).uniform(-1, 1, size=(40, 3))


def mean_and_variance(X):
    return np.stack([X[:, 0] + X[:, 1], 2 * X[:, 2]], axis=1), np.stack([0.1 + X[:, 0] ** 2, np.full(len(X), 0.04)], axis=1)


def full_covariance(X):
    mean, variance = mean_and_variance(X)
    mix = np.array([[1.0, 0.0], [0.5, 1.0]])
    return mean, mix @ (variance[:, :, None] * np.eye(2)) @ mix.T


def rng(seed=0):
    return np.random.default_rng(seed)


def check_model(model, dims):
    """Shape, seed and generator are as the predictor wants them."""
    particles = model(X, 6, rng())
    assert particles.shape == (len(X), 6, dims)
    assert particles.dtype == np.float64
    assert np.array_equal(particles, model(X, 6, rng()))
    assert not np.array_equal(particles, model(X, 6, rng(1)))
    assert model(X[:1], 3, rng()).shape == (1, 3, dims)
    assert np.isfinite(particles).all()


def check_fits(model, dims, **settings):
    """It can be calibrated as it is."""
    Y = X[:, :dims] + 0.1 * rng(5).standard_normal((len(X), dims))
    cap = Capture(model, EVERYWHERE, groups=OneGroup(), **settings).fit(X, Y)
    assert cap.coverage(X, Y, alpha=0.2, volumes=False).all.n == len(X)


# -- Gaussian ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [mean_and_variance, full_covariance])
def test_gaussian_particles_have_its_mean_and_covariance(function):
    model = gaussian(function)
    check_model(model, 2)
    mean, covariance = model.gaussian(X[:3])
    particles = model(X[:3], 40_000, rng())
    assert particles.mean(axis=1) == pytest.approx(mean, abs=0.03)
    for cloud, wanted in zip(particles, covariance):
        assert np.cov(cloud.T) == pytest.approx(wanted, abs=0.04)


def test_gaussian_serves_the_mahalanobis_score():
    check_fits(gaussian(full_covariance), 2)
    check_fits(gaussian(full_covariance), 2, score=Mahalanobis())


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (3, "gaussian needs a callable"),
        (lambda X: X, "must return two arrays"),
        (lambda X: (X, np.ones((2, 2))), "the predicted covariance has shape"),
        (lambda X: (X, np.zeros(X.shape)), "not positive definite"),
        (lambda X: (X * np.nan, np.ones(X.shape)), "the predicted mean has .* NaN"),
    ],
)
def test_gaussian_refuses_in_one_sentence(function, sentence):
    with pytest.raises(CaptureError, match=sentence):
        gaussian(function)(X, 2, rng())


# -- ensemble ---------------------------------------------------------------------------------------------------------------


def test_ensemble_takes_members_in_turn():
    members = [lambda X, i=i: np.full((len(X), 2), float(i)) for i in range(4)]
    check_model(ensemble(members), 2)
    for particles, counts in ((4, {1}), (8, {2}), (6, {1, 2}), (2, {0, 1})):
        drawn = ensemble(members)(X, particles, rng())[..., 0]
        for row in drawn:
            assert set(np.bincount(row.astype(int), minlength=4)) == counts


def test_ensemble_of_regressors_and_functions_with_noise():
    Y = X[:, :2]
    linear, forest = LinearRegression().fit(X, Y), ExtraTreesRegressor(5, random_state=0).fit(X, Y)
    check_model(ensemble([linear, forest, lambda X: X[:, :2]], noise=0.1), 2)
    model = ensemble([linear], noise=[0.0, 0.2])
    particles = model(X, 5000, rng())
    assert particles[..., 0] == pytest.approx(np.repeat(linear.predict(X)[:, :1], 5000, axis=1))
    assert particles[..., 1].std(axis=1) == pytest.approx(np.full(len(X), 0.2), rel=0.1)
    check_fits(ensemble([*forest.estimators_], noise=0.05), 2)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ensemble([]), "predictors are \\[\\]; expected a list"),
        (lambda: ensemble(LinearRegression()), "expected a list of callables"),
        (lambda: ensemble([LinearRegression]), "predictor 0 is <class"),
        (lambda: ensemble([abs], noise=-1), "noise is -1; expected standard deviations of at least 0"),
        (lambda: ensemble([abs], noise=[1, 2])(X, 2, rng()), "noise has 2 numbers; expected one, or one per coordinate: 3"),
        (lambda: ensemble([lambda X: X[:3]])(X, 2, rng()), "predictor 0 has shape"),
        (lambda: ensemble([lambda X: X, lambda X: X[:, :2]])(X, 2, rng()), "expected one shape"),
    ],
)
def test_ensemble_refuses_in_one_sentence(make, sentence):
    with pytest.raises(CaptureError, match=sentence):
        make()


# -- MuJoCo ---------------------------------------------------------------------------------------------------------------


PUCK = """<mujoco><option timestep="0.01" gravity="0 0 0"/><worldbody>
  <body><joint name="x" type="slide" axis="1 0 0" damping="1"/><joint name="y" type="slide" axis="0 1 0" damping="1"/>
    <geom size="0.1" mass="1"/></body>
</worldbody>
<actuator><motor name="east" joint="x"/><motor name="north" joint="y"/></actuator>
<keyframe><key name="aside" qpos="0 2"/></keyframe></mujoco>"""

pushes = np.random.default_rng(1).uniform(-1, 1, size=(30, 4))


@pytest.fixture
def mujoco():
    return pytest.importorskip("mujoco")


@pytest.mark.usefixtures("mujoco")
class TestMujocoRollout:
    def test_it_follows_the_equation_of_motion(self):
        ends = mujoco_rollout(PUCK, nstep=50)(pushes, 2, rng())
        position, speed = pushes[:, :2].copy(), np.zeros((30, 2))
        for _ in range(50):  # implicit in the damping, as MuJoCo is
            speed = (speed + 0.01 * pushes[:, 2:]) / 1.01
            position += 0.01 * speed
        assert ends == pytest.approx(np.repeat(position[:, None], 2, axis=1), abs=1e-9)

    def test_randomised_parameters_and_noise_make_particles(self):
        model = mujoco_rollout(PUCK, nstep=30, randomise={"mass": (0.5, 2.0), "damping": (0.5, 2.0)}, pool=8)
        particles = model(pushes, 64, rng())
        assert particles.shape == (30, 64, 2)
        assert {len(np.unique(cloud[:, 0])) for cloud in particles} == {8}
        noisy = mujoco_rollout(PUCK, nstep=30, control_noise=[0.5, 0.0])(pushes, 16, rng())
        assert (noisy[..., 0].std(axis=1) > 0).all()
        assert noisy[..., 1].std(axis=1) == pytest.approx(np.zeros(30), abs=1e-12)

    def test_seeds_fix_the_pool_and_threads_change_nothing(self):
        settings = {"nstep": 20, "randomise": {"mass": (0.5, 2.0)}, "control_noise": 0.1, "pool": 5}
        one, two = (mujoco_rollout(PUCK, threads=threads, **settings) for threads in (1, 3))
        particles = one(pushes, 7, rng())
        assert np.array_equal(particles, two(pushes, 7, rng()))
        assert not np.array_equal(particles, one(pushes, 7, rng(1)))
        other = mujoco_rollout(PUCK, seed=1, **settings)
        assert not np.array_equal(particles, other(pushes, 7, rng()))
        assert one.identity() == two.identity() != other.identity()
        again = pickle.loads(pickle.dumps(one))
        assert np.array_equal(particles, again(pushes, 7, rng()))

    def test_names_say_what_columns_hold(self):
        whole = mujoco_rollout(PUCK, nstep=20)
        only = mujoco_rollout(PUCK, nstep=20, state=["y"], control=["north"])
        assert only(pushes[:, [1, 3]], 1, rng()) == pytest.approx(whole(pushes, 1, rng())[..., 1:])
        turned = mujoco_rollout(PUCK, nstep=20, state=["y", "x"], control=["north", "east"], next=["x", 1])
        assert turned(pushes[:, [1, 0, 3, 2]], 1, rng()) == pytest.approx(whole(pushes, 1, rng()))
        aside = mujoco_rollout(PUCK, nstep=20, state=["x"], control=["east"], next=["y"], reference="aside")
        assert aside(pushes[:, [0, 2]], 1, rng()) == pytest.approx(np.full((30, 1, 1), 2.0))

    def test_functions_say_what_columns_mean(self):
        whole = mujoco_rollout(PUCK, nstep=20)
        by_function = mujoco_rollout(
            PUCK,
            nstep=20,
            state=lambda X: (X[:, :2], np.zeros((len(X), 2))),
            control=lambda X: np.repeat(X[:, None, 2:], 20, axis=1),
            next=lambda qpos, qvel: np.hstack([qpos, qvel])[:, :2],
        )
        assert np.array_equal(by_function(pushes, 2, rng()), whole(pushes, 2, rng()))
        thrown = mujoco_rollout(PUCK, nstep=20, state=lambda X: (X[:, :2], X[:, 2:]), control=[], next=["x", "y"])
        assert (np.sign(thrown(pushes, 1, rng())[:, 0] - pushes[:, :2]) == np.sign(pushes[:, 2:])).all()

    def test_states_may_have_rates(self):
        states = np.random.default_rng(2).normal(size=(30, 6))  # x, y, their rates, and two controls
        pair = mujoco_rollout(PUCK, nstep=20, state=lambda X: (X[:, :2], X[:, 2:4]), next=["x", "y"])(states, 1, rng())
        assert np.array_equal(mujoco_rollout(PUCK, nstep=20)(states, 1, rng()), pair)
        beside = mujoco_rollout(PUCK, nstep=20, state=lambda X: X[:, :4], next=["x", "y"])(states, 1, rng())
        assert np.array_equal(beside, pair)

    def test_noise_of_the_start_is_along_the_joints(self):
        free = "<mujoco><worldbody><body><freejoint/><geom size='.1'/></body></worldbody><option gravity='0 0 0'/></mujoco>"
        at_rest = np.tile([0.0, 0, 0, 1, 0, 0, 0], (1, 1))
        noisy = mujoco_rollout(free, 1, state_noise=[0.1, 0, 0, 0, 0, 0.2])(at_rest, 2000, rng())[0]
        assert noisy[:, 0].std() == pytest.approx(0.1, rel=0.1)
        assert np.abs(noisy[:, [1, 2, 4, 5]]).max() < 1e-12
        assert (2 * np.arctan2(noisy[:, 6], noisy[:, 3])).std() == pytest.approx(0.2, rel=0.1)
        moving = mujoco_rollout(free, 100, state_noise=[0.0] * 6 + [0.5] + [0.0] * 5)(at_rest, 2000, rng())[0]
        assert moving[:, 0].std() == pytest.approx(0.5 * 100 * 0.002, rel=0.1)
        with pytest.raises(CaptureError, match="noise has 5 numbers"):
            mujoco_rollout(free, 1, state_noise=[0.1] * 5)(at_rest, 2, rng())
        assert mujoco_rollout(free, 1, state_noise=0.1).identity() != mujoco_rollout(free, 1).identity()

    def test_a_simulation_that_runs_away_is_told(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)  # MuJoCo writes a log
        runaway = PUCK.replace('damping="1"', 'damping="-1e9"')
        with pytest.raises(CaptureError, match="60 of 60 simulations diverged; choose a smaller time step"):
            mujoco_rollout(runaway, nstep=50)(pushes, 2, rng())

    def test_a_function_may_randomise_anything(self):
        def stick(model, rng):
            model.dof_damping[0] = rng.uniform(50, 100)

        ends = mujoco_rollout(PUCK, nstep=50, randomise=stick, pool=4)(pushes, 8, rng())
        assert np.abs(ends[..., 0] - pushes[:, None, 0]).max() < 0.02
        assert np.ptp(ends[..., 1], axis=1).max() == 0

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"model": "no.xml"}, "MuJoCo model no.xml does not exist"),
            ({"state": ["z"]}, "unknown joint 'z'"),
            ({"control": ["west"]}, "unknown actuator 'west'; known: east, north"),
            ({"control": "east"}, "control is 'east'; expected a list"),
            ({"state": lambda X: X[:, :2]}, "pass next="),
            ({"randomise": {"colour": (0, 1)}}, "unknown parameter to randomise 'colour'"),
            ({"randomise": {"mass": (2, 1)}}, "the range of mass is 2 to 1"),
            ({"randomise": {}}, "randomise is {}; expected ranges"),
            ({"threads": 0}, "threads is 0"),
            ({"state": ["x"]}, "X has 4 columns; expected 1 of state and 2 of control"),
            ({"control": lambda X: X[:, :3]}, "control\\(X\\) has shape"),
            ({"state": lambda X: X[:, :3], "next": ["x"]}, "qpos from state\\(X\\) has shape"),
            ({"next": lambda qpos, qvel: qpos[:2]}, "next\\(qpos, qvel\\) has shape"),
        ],
    )
    def test_bad_input_is_told_in_one_sentence(self, change, sentence):
        with pytest.raises(CaptureError, match=sentence) as error:
            mujoco_rollout(**({"model": PUCK, "nstep": 5} | change))(pushes, 2, rng())
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["torch", "jax", "mujoco"])
def test_what_is_missing_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    make = {"torch": torch_module, "jax": jax_function, "mujoco": lambda f: mujoco_rollout(PUCK, 1)}[name]
    with pytest.raises(CaptureError, match="install it with: pip install"):
        make(abs)
