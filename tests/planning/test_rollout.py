"""Rollouts with a region a step: the fused kernel against the Python one and against regions themselves."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, CaptureWarning, NearestParticles, OneGroup, PerStratum, Tree
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import ParticleBox
from capture_cp.planning import plugin
from capture_cp.planning.rollout import PythonRollout
from capture_cp.spaces.metrics import Euclidean, Metric
from planning import plugins
from planning.plugins import GOAL, WEIGHT, GivenNoise, by_threads, fused_rollout, guarded, kernel_noise, push, python_cost

PARTICLES = 8
START = np.array([0.35, 0.45])
SEED = 11
GROUPS = {"one": OneGroup(), "strata": PerStratum(), "tree": Tree(min_leaf=40)}


def calibrated(world, score, groups="tree"):
    cap = Capture(world.box, world.box.strata, score=score, groups=GROUPS[groups], n_particles=PARTICLES)
    return cap.fit(world.X, world.Y, prediction=world.prediction(cap))


def sequences(n=12, horizon=3, size=0.15):
    return np.random.default_rng(0).uniform(-size, size, size=(n, horizon, 2))


def masks(box):
    """Hazards of several shapes."""
    grid = box.strata.grid
    x, y = grid.centre(np.arange(grid.size)).T
    scattered = np.random.default_rng(1).random(grid.size) < 0.3
    block = (np.abs(x - 0.5) < 0.12) & (np.abs(y - 0.4) < 0.2)
    return {
        "none": np.zeros(grid.size, dtype=bool),
        "one cell": np.arange(grid.size) == grid.cell([[0.4, 0.5]])[0],
        "block": block,
        "block and far corner": block | ((x > 0.9) & (y > 0.9)),
        "scattered": scattered,
        "everything": np.ones(grid.size, dtype=bool),
    }


MASKS = ("none", "one cell", "block", "block and far corner", "scattered", "everything")


def fused(cap, hazard, noise=0.02, **settings):
    settings = {"axes": (0, 1), "noise_dims": 2, "compare_step": False} | settings  # a point without the box's walls
    return fused_rollout(cap, plugin.step, plugin.stage_cost, push(noise), hazard, **settings)


def python(cap, hazard, normals, noise=0.02, **settings):
    flat = normals.reshape(len(normals), -1, 2)
    return PythonRollout(cap, GivenNoise(flat, noise), python_cost, hazard, (0, 1), **settings)


def clouds(asked, normals, noise=0.02):
    """Particles after every step: (H, N, L, 2)."""
    return START + np.cumsum(np.moveaxis(asked, 1, 0)[:, :, None] + noise * normals, axis=0)


def hazard_counts(costs, particles):
    """The hazard part (N, H) of costs whose particles are known."""
    away = ((particles.mean(axis=2) - GOAL) ** 2).sum(axis=2).T
    counts = (costs - away) / WEIGHT
    np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
    return np.rint(counts).astype(int)


# -- fused equals Python ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hazard", MASKS)
@pytest.mark.parametrize("groups", list(GROUPS))
@pytest.mark.parametrize("k", [1, PARTICLES // 2])
def test_fused_equals_python_with_the_same_noise(world, k, groups, hazard):
    cap, mask, asked = calibrated(world, NearestParticles(k), groups), masks(world.box)[hazard], sequences()
    wanted = python(cap, mask, kernel_noise(SEED, 12, 3, PARTICLES))(START, asked, SEED)
    np.testing.assert_allclose(fused(cap, mask)(START, asked, SEED), wanted, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.9])
def test_fused_equals_python_at_any_alpha(world, alpha):
    cap, mask, asked = calibrated(world, NearestParticles(4), "one"), masks(world.box)["scattered"], sequences()
    wanted = python(cap, mask, kernel_noise(SEED, 12, 3, PARTICLES), alpha=alpha)(START, asked, SEED)
    np.testing.assert_allclose(fused(cap, mask, alpha=alpha)(START, asked, SEED), wanted, atol=1e-9)


def test_fused_equals_python_for_the_calibrated_box_of_particles(world):
    cap, mask, asked = calibrated(world, ParticleBox(), "strata"), masks(world.box)["scattered"], sequences()
    wanted = python(cap, mask, kernel_noise(SEED, 12, 3, PARTICLES))(START, asked, SEED)
    np.testing.assert_allclose(fused(cap, mask)(START, asked, SEED), wanted, atol=1e-9)


def test_fused_equals_python_for_uncalibrated_particles(world, fitted):
    mask, asked = masks(world.box)["scattered"], sequences()
    wanted = python(fitted["particles"], mask, kernel_noise(SEED, 12, 3, PARTICLES))(START, asked, SEED)
    np.testing.assert_allclose(fused(fitted["particles"], mask)(START, asked, SEED), wanted, atol=1e-9)


def test_far_away_particles_meet_no_hazard_and_do_no_harm(world):
    cap, mask = calibrated(world, NearestParticles(1), "one"), masks(world.box)["everything"]
    for size in (50.0, 1e12):
        asked = np.full((4, 3, 2), size)
        wanted = python(cap, mask, np.zeros((3, 4, PARTICLES, 2)))(START, asked, SEED)
        np.testing.assert_allclose(fused(cap, mask, noise=0.0)(START, asked, SEED), wanted, rtol=1e-12)


def test_configuration_may_be_any_entries_of_the_state(world):
    cap, mask, asked = calibrated(world, NearestParticles(4), "one"), masks(world.box)["block"], sequences()
    swapped = mask.reshape(world.box.strata.grid.shape).T.ravel()
    costs = fused(cap, mask, axes=(1, 0))(START, asked, SEED)
    hazard = hazard_counts(costs, clouds(asked, kernel_noise(SEED, 12, 3, PARTICLES)))
    strata, grid = world.box.strata, world.box.strata.grid
    free = swapped & (strata.labels.reshape(grid.shape).T.ravel() >= 0)
    q, points = cap.thresholds(np.zeros((1, 4)))[0, 0], grid.centre(np.flatnonzero(free))
    particles = np.moveaxis(clouds(asked, kernel_noise(SEED, 12, 3, PARTICLES)), 0, 1)
    near = np.linalg.norm(points - particles[..., None, :], axis=-1) <= q
    np.testing.assert_array_equal(hazard, (near.sum(axis=2) >= 4).sum(axis=2))


# -- the region test --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pcp", "no-strata", "capture-k1", "capture"])
def test_hazard_is_the_regions_cells_on_the_hazard(world, fitted, name):
    cap, asked, normals = fitted[name], sequences(40, 1, 0.4), kernel_noise(SEED, 40, 1, PARTICLES)
    particles = clouds(asked, normals)
    for mask in masks(world.box).values():
        counts = hazard_counts(fused(cap, mask)(START, asked, SEED), particles)
        for i in range(40):
            region = cap.region(np.r_[START, asked[i, 0]], prediction=particles[0, i])
            assert counts[i, 0] == mask[region.cells()].sum()


@pytest.mark.parametrize(("groups", "alpha"), [("one", 1e-4), ("strata", 0.005), ("tree", 0.02)])
def test_infinite_threshold_takes_in_the_whole_stratum(world, groups, alpha):
    cap, mask, asked = calibrated(world, NearestParticles(4), groups), masks(world.box)["scattered"], sequences(6, 1)
    with pytest.warns(CaptureWarning, match="infinite"):
        q = cap.thresholds(np.c_[np.tile(START, (6, 1)), asked[:, 0]], alpha)
    assert np.isinf(q).any()
    particles = clouds(asked, kernel_noise(SEED, 6, 1, PARTICLES))
    counts = hazard_counts(fused(cap, mask, alpha=alpha)(START, asked, SEED), particles)
    for i in range(6):
        region = cap.region(np.r_[START, asked[i, 0]], alpha, prediction=particles[0, i])
        assert counts[i, 0] == mask[region.cells()].sum()
    slow = python(cap, mask, kernel_noise(SEED, 6, 1, PARTICLES), alpha=alpha)
    np.testing.assert_array_equal(hazard_counts(slow(START, asked, SEED), particles), counts)


def test_box_of_particles_counts_particles_on_hazard_cells(world, fitted):
    asked, grid = sequences(size=0.8), world.box.strata.grid
    particles = np.moveaxis(clouds(asked, kernel_noise(SEED, 12, 3, PARTICLES)), 0, 1)
    cells = grid.cell(particles.reshape(-1, 2)).reshape(particles.shape[:3])
    assert (cells < 0).any()
    for mask in masks(world.box).values():
        counts = hazard_counts(fused(fitted["particles"], mask)(START, asked, SEED), np.moveaxis(particles, 0, 1))
        np.testing.assert_array_equal(counts, (mask[cells] & (cells >= 0)).sum(axis=2))


def test_thresholds_are_those_of_the_state_before_the_step(world):
    """Algorithm 2: the region belongs to the mean state in which the action is taken."""
    cap, mask, asked = calibrated(world, NearestParticles(4)), masks(world.box)["everything"], sequences(20, 2)
    normals = kernel_noise(SEED, 20, 2, PARTICLES)
    particles = clouds(asked, normals)
    counts = hazard_counts(fused(cap, mask)(START, asked, SEED), particles)
    for i in range(20):
        before = particles[0, i].mean(axis=0)
        region = cap.region(np.r_[before, asked[i, 1]], prediction=particles[1, i])
        assert counts[i, 1] == len(region.cells())


# -- Gaussians --------------------------------------------------------------------------------------------------------


def test_mahalanobis_needs_the_spread_of_the_configuration(world, fitted):
    with pytest.raises(CaptureError, match="gaussian_scale"):
        fused(fitted["lucca"], masks(world.box)["block"])


@pytest.mark.parametrize("spread", [[0.02, 0.03, 0.05], [0.01, 0.01, 0.2]])
def test_mahalanobis_counts_a_disc_around_the_noise_free_mean(world, fitted, spread):
    cap, asked, grid = fitted["lucca"], sequences(), world.box.strata.grid
    means = START + np.cumsum(asked, axis=1)
    before = np.concatenate([np.broadcast_to(START, (12, 1, 2)), means[:, :-1]], axis=1)
    for mask in masks(world.box).values():
        costs = fused(cap, mask, gaussian_scale=spread)(START, asked, SEED)
        counts = hazard_counts(costs, np.moveaxis(means, 1, 0)[:, :, None])
        for h in range(3):
            q = cap.thresholds(np.c_[before[:, h], asked[:, h]])[:, 0] * spread[h]
            away = np.linalg.norm(grid.centre(np.arange(grid.size)) - means[:, h, None], axis=2)
            np.testing.assert_array_equal(counts[:, h], ((away <= q[:, None]) & mask).sum(axis=1))


def test_mahalanobis_of_one_step_is_the_regions_ellipsoid(world, fitted):
    cap, asked, mask = fitted["lucca"], sequences(30, 1, 0.05), masks(world.box)["scattered"]
    costs = fused(cap, mask, gaussian_scale=[world.box.noise])(START, asked, SEED)
    counts = hazard_counts(costs, (START + asked[:, 0])[None, :, None])
    wanted = [mask[cap.region(np.r_[START, action]).cells()].sum() for action in asked[:, 0]]
    np.testing.assert_array_equal(counts[:, 0], wanted)


def test_spread_that_is_shorter_than_the_horizon_is_refused(world, fitted):
    rollout = guarded(fused(fitted["lucca"], masks(world.box)["block"], gaussian_scale=[0.02, 0.03]))
    with pytest.raises(CaptureError, match="gaussian_scale"):
        rollout(START, sequences(), SEED)


@pytest.mark.parametrize("spread", [[0.02, np.nan, 0.1], [0.02, -0.1, 0.1], [[0.02, 0.1, 0.1]]])
def test_spread_that_is_none_is_refused(world, fitted, spread):
    with pytest.raises(CaptureError, match="gaussian_scale"):
        guarded(fused(fitted["lucca"], masks(world.box)["block"], gaussian_scale=spread))(START, sequences(), SEED)


def test_step_always_sees_as_many_rows_of_noise_as_it_asked_for(world, fitted):
    """The noise-free rollout of a Gaussian must not hand the step a shorter array than it reads."""
    params, hazard = plugins.Fault(plugins.TELLS_NOISE_ROWS, 0), masks(world.box)["none"]
    for name, spread in (("capture", None), ("lucca", [0.02])):
        functions, settings = (plugins.faulty_step, plugins.first_number), {"gaussian_scale": spread, "compare_step": False}
        rollout = fused_rollout(fitted[name], *functions, params, hazard, (0, 1), 6, **settings)
        assert rollout(START, sequences(2, 1), SEED).min() >= 6


# -- random numbers ---------------------------------------------------------------------------------------------------


def test_costs_do_not_depend_on_threads(world):
    cap, mask, asked = calibrated(world, NearestParticles(4)), masks(world.box)["scattered"], sequences(64)
    np.testing.assert_array_equal(*by_threads(fused(cap, mask), START, asked, SEED))
    np.testing.assert_array_equal(*by_threads(fused(cap, plugins.disc_distance), START, asked, SEED))


def test_costs_do_not_depend_on_later_sequences(world):
    cap, mask, asked = calibrated(world, NearestParticles(4)), masks(world.box)["scattered"], sequences(20)
    all_of_them, some = (fused(cap, mask)(START, part, SEED) for part in (asked, asked[:7]))
    np.testing.assert_array_equal(all_of_them[:7], some)


def test_sequences_draw_different_noise_and_a_seed_fixes_it(world):
    cap, mask = calibrated(world, NearestParticles(4), "one"), masks(world.box)["none"]
    rollout, asked = fused(cap, mask), np.zeros((50, 3, 2))
    costs = rollout(START, asked, SEED)
    assert len(np.unique(costs)) == costs.size
    np.testing.assert_array_equal(costs, rollout(START, asked, SEED))
    assert not np.isclose(costs, rollout(START, asked, SEED + 1), rtol=0, atol=1e-12).any()


def test_noise_is_standard_normal_and_independent():
    drawn = kernel_noise(3, 50, 4, 20).reshape(-1, 2)
    assert np.abs(drawn.mean(axis=0)).max() < 5 / np.sqrt(len(drawn))
    assert np.abs(np.cov(drawn.T) - np.eye(2)).max() < 5 * np.sqrt(2 / len(drawn))
    assert len(np.unique(drawn)) == drawn.size


def test_python_noise_has_the_fused_distribution(world):
    """Mean stage costs of many equal sequences agree within their standard errors."""
    cap, mask, asked = calibrated(world, NearestParticles(4)), masks(world.box)["block"], np.full((600, 2, 2), 0.03)

    def step(states, actions, rng):
        return states + actions + 0.02 * rng.standard_normal(states.shape)

    one = fused(cap, mask)(START, asked, SEED)
    two = PythonRollout(cap, step, python_cost, mask, (0, 1))(START, asked, SEED)
    error = np.sqrt((one.var(axis=0) + two.var(axis=0)) / 600)
    assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < 5 * error + 1e-9).all()


def test_python_costs_are_fixed_by_the_seed(world):
    cap, mask, asked = calibrated(world, NearestParticles(4)), masks(world.box)["block"], sequences()

    def step(states, actions, rng):
        return states + actions + rng.standard_normal(states.shape)

    rollout = PythonRollout(cap, step, python_cost, mask, (0, 1))
    np.testing.assert_array_equal(rollout(START, asked, 3), rollout(START, asked, 3))
    assert not np.isclose(rollout(START, asked, 3), rollout(START, asked, 4)).all()


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cap(fitted):
    return fitted["capture"]


@pytest.mark.parametrize("make", ["fused", "python"])
@pytest.mark.parametrize("kind", ["too short", "too long", "integers", "floats"])
def test_hazard_of_another_size_or_type_is_refused(world, cap, make, kind):
    n = world.box.strata.grid.size
    hazard = {
        "too short": np.zeros(n - 1, dtype=bool),
        "too long": np.zeros(2 * n, dtype=bool),
        "integers": np.zeros(n, dtype=int),
        "floats": np.zeros(n),
    }[kind]
    with pytest.raises(CaptureError, match="hazard"):
        fused(cap, hazard) if make == "fused" else python(cap, hazard, np.zeros((1, 1, 1, 2)))


@pytest.mark.parametrize("make", ["fused", "python"])
@pytest.mark.parametrize("axes", [(0, 5), (0, -3), (0,), (0, 1, 1)])
def test_axes_that_the_state_or_the_grid_does_not_have_are_refused(world, cap, make, axes):
    mask = masks(world.box)["block"]
    make_rollout = {
        "fused": lambda: guarded(fused(cap, mask, axes=axes)),
        "python": lambda: PythonRollout(cap, late(None, 99), python_cost, mask, axes),
    }[make]
    with pytest.raises(CaptureError, match="axes"):
        make_rollout()(START, sequences(), SEED)


@pytest.mark.parametrize("make", ["fused", "python"])
def test_state_and_action_must_make_an_input_of_the_calibration(world, cap, make):
    mask, asked = masks(world.box)["block"], sequences()
    rollout = guarded(fused(cap, mask)) if make == "fused" else python(cap, mask, np.zeros((3, 12, PARTICLES, 2)))
    for state, actions in ((np.zeros(1), asked), (START, asked[..., :1])):
        with pytest.raises(CaptureError):
            rollout(state, actions, SEED)


@pytest.mark.parametrize("make", ["fused", "python"])
def test_thresholds_of_another_shape_or_kind_are_refused(world, cap, make):
    mask = masks(world.box)["block"]
    rollout = fused(cap, mask) if make == "fused" else python(cap, mask, np.zeros((3, 12, PARTICLES, 2)))
    before = rollout.thresholds.copy()
    unknown = before.copy()
    unknown[0, 0] = np.nan
    wrong = {
        "expected": before[:1],
        "expected ": before[:, :-1],
        "one for every stratum and group": before.ravel(),
        "NaN": unknown,
        "not an array of numbers": "low",
    }
    for printed, given in wrong.items():
        with pytest.raises(CaptureError, match=printed.strip()):
            rollout.thresholds = given
    with pytest.raises(ValueError, match="read-only"):
        rollout.thresholds[0, 0] = np.nan
    np.testing.assert_array_equal(rollout.thresholds, before)


@pytest.mark.parametrize("make", ["fused", "python"])
def test_replaced_thresholds_are_used_as_they_were_given(world, cap, make):
    mask, asked = masks(world.box)["everything"], sequences()
    normals = np.zeros((3, 12, PARTICLES, 2))

    def made():
        return fused(cap, mask, noise=0.0) if make == "fused" else python(cap, mask, normals)

    rollout, wanted = made(), made()(START, asked, SEED)
    given = np.full(rollout.thresholds.shape, np.inf)
    rollout.thresholds = given
    given[:] = -1.0  # no longer the rollout's
    free = (world.box.strata.labels >= 0).sum()
    np.testing.assert_array_equal(np.rint((rollout(START, asked, SEED) - wanted % WEIGHT) / WEIGHT), np.full((12, 3), free))


def raises(*given):
    raise RuntimeError("the motor is on fire")


def late(fault, at):
    """The push model, or a cost of zero, that goes wrong at one step."""
    calls = []

    def plug_in(*given):
        calls.append(1)
        if len(calls) == at:
            return fault(*given)
        return np.zeros(len(given[0].mean)) if len(given) == 1 else given[0] + given[1]

    return plug_in


FAULTY_MODELS = {
    "raises": raises,
    "returns NaN": lambda states, actions, rng: states * np.nan,
    "returns infinity": lambda states, actions, rng: states + np.inf,
    "wrong shape": lambda states, actions, rng: states[:-1],
    "wrong columns": lambda states, actions, rng: states[:, :1],
    "nothing": lambda states, actions, rng: None,
    "text": lambda states, actions, rng: "left",
}
FAULTY_COSTS = {
    "raises": raises,
    "wrong shape": lambda stage: np.zeros(3),
    "one number": lambda stage: 0.0,
    "two axes": lambda stage: np.zeros((len(stage.mean), 1)),
    "text": lambda stage: "cheap",
}


@pytest.mark.parametrize("fault", list(FAULTY_MODELS))
def test_faulty_model_is_named_with_its_step(world, cap, fault):
    rollout = PythonRollout(cap, late(FAULTY_MODELS[fault], 2), python_cost, masks(world.box)["block"], (0, 1))
    with pytest.raises(CaptureError, match=r"model .* step 2 "):
        rollout(START, sequences(), SEED)


@pytest.mark.parametrize("fault", list(FAULTY_COSTS))
def test_faulty_cost_is_named_with_its_step(world, cap, fault):
    def step(states, actions, rng):
        return states + actions

    rollout = PythonRollout(cap, step, late(FAULTY_COSTS[fault], 3), masks(world.box)["block"], (0, 1))
    with pytest.raises(CaptureError, match=r"cost .* step 3 "):
        rollout(START, sequences(), SEED)


def test_compiled_model_that_raises_is_told(world, cap):
    params, hazard = plugins.Fault(plugins.RAISES, 0), masks(world.box)["block"]
    rollout = fused_rollout(cap, plugins.faulty_step, plugins.first_number, params, hazard, (0, 1), 0)
    with pytest.raises(CaptureError, match="on fire"):
        rollout(START, sequences(), SEED)


def test_compiled_model_that_returns_nan_does_no_harm(world, fitted):
    """It shows in the costs at once, even where the cost looks away, and MPPI names the step."""
    params = plugins.Fault(plugins.NAN, 2)
    for name in ("capture", "particles"):
        for hazard in masks(world.box).values():
            rollout = fused_rollout(fitted[name], plugins.faulty_step, plugins.first_number, params, hazard, (0, 1), 0)
            costs = rollout(START, sequences(), SEED)
            assert np.isnan(costs).all()


def test_function_that_is_not_compiled_is_refused(world, cap):
    with pytest.raises(CaptureError, match="numba"):
        fused_rollout(cap, plugin.step.py_func, plugin.stage_cost, push(), masks(world.box)["block"], (0, 1), 2)(
            START, sequences(), SEED
        )


class Manhattan(Metric):
    def distance(self, a, b):
        return np.abs(np.asarray(a) - np.asarray(b)).sum(axis=-1)


class Twice(Euclidean):
    """A metric that inherits from the Euclidean one and measures something else."""

    def distance(self, a, b):
        return 2 * super().distance(a, b)


class Centre(ParticleBox):
    """A score that inherits from another and means something else."""

    def score(self, prediction, Y):
        return np.linalg.norm(prediction.mean(axis=1) - Y, axis=1)

    def box(self, prediction, q, dims):
        middle = prediction.mean(axis=1)
        return middle - q[:, None], middle + q[:, None]


@pytest.mark.parametrize("score", [NearestParticles(2, Manhattan()), NearestParticles(2, Twice()), Centre()])
def test_score_without_a_fused_version_is_refused_and_rolls_out_in_python(world, score):
    cap, mask, asked = calibrated(world, score, "one"), masks(world.box)["everything"], sequences(5, 1)
    normals = kernel_noise(SEED, 5, 1, PARTICLES)
    particles = clouds(asked, normals)
    counts = hazard_counts(python(cap, mask, normals)(START, asked, SEED), particles)
    regions = [cap.region(np.r_[START, asked[i, 0]], prediction=particles[0, i]) for i in range(5)]
    np.testing.assert_array_equal(counts[:, 0], [len(region.cells()) for region in regions])
    with pytest.raises(CaptureError, match="PythonRollout"):
        fused(cap, mask)


def test_gaussian_score_is_refused_by_the_particle_rollout(world, fitted):
    assert isinstance(fitted["lucca"].score, Mahalanobis)
    with pytest.raises(CaptureError, match=r"particle|Mahalanobis"):
        python(fitted["lucca"], masks(world.box)["block"], np.zeros((3, 12, PARTICLES, 2)))(START, sequences(), SEED)


@pytest.mark.parametrize("make", ["fused", "python"])
def test_predictor_that_is_not_calibrated_is_refused(world, make):
    cap, mask = Capture(world.box, world.box.strata, n_particles=PARTICLES), masks(world.box)["block"]
    with pytest.raises(CaptureError, match="calibrated"):
        fused(cap, mask) if make == "fused" else python(cap, mask, np.zeros((3, 12, 8, 2)))(START, sequences(), SEED)


@pytest.mark.parametrize("alpha", [0.0, 1.0, np.nan])
@pytest.mark.parametrize("make", ["fused", "python"])
def test_alpha_is_checked_at_the_door(world, cap, make, alpha):
    mask = masks(world.box)["block"]
    with pytest.raises(CaptureError, match="alpha"):
        fused(cap, mask, alpha=alpha) if make == "fused" else python(cap, mask, np.zeros((1, 1, 1, 2)), alpha=alpha)
