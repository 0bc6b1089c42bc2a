"""Plans on the GPU against those of the processor: the same sequences and noise must cost the same."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, CaptureWarning
from capture_cp.capture.methods import METHODS
from capture_cp.conformal.groups import Tree
from capture_cp.conformal.scores import NearestParticles
from capture_cp.kernels.random import stream
from capture_cp.planning import MPPI, PythonRollout, plugin, run_episode, run_episodes
from capture_cp.planning.cuda.plans import CudaPlans, Settings
from planning import plugins
from planning.plugins import GOAL, fused_rollout, push, python_cost
from planning.test_rollout import masks

START = np.array([0.35, 0.45])
SPREAD = np.array([[0.1, 0.0], [0.03, 0.1]])
LOW, HIGH = np.array([-0.15, -0.2]), np.array([0.15, 0.2])
TEMPERATURE = 0.05
SPREADS = [0.02, 0.03, 0.05, 0.06, 0.07]


def rollout(cap, hazard, **settings):
    settings = {"axes": (0, 1), "noise_dims": 2, "compare_step": False} | settings  # a point without the box's walls
    return fused_rollout(cap, plugin.step, plugin.stage_cost, push(), hazard, **settings)


def settings(samples, horizon=5, **others):
    return Settings(horizon, samples, SPREAD, LOW, HIGH, **others)


def by_both(fused, samples, horizon=5, key=7):
    """Stage costs (N, H) of the same sequences and noise: on the GPU, on the processor."""
    plans = CudaPlans(fused, settings(samples, horizon))
    plans.plan(START[None], TEMPERATURE, np.zeros((1, horizon, 2)), key)
    return plans.stages[0], fused(START, plans.sequences[0], np.uint64(stream(np.uint64(key), 1)))


@pytest.fixture(scope="module")
def hazard(box):
    return masks(box)["block and far corner"]


@pytest.mark.parametrize("name", METHODS)
def test_costs_are_those_of_the_processor(world, fitted, hazard, few, name):
    fused = rollout(fitted[name], hazard, gaussian_scale=SPREADS if name == "lucca" else None)
    found, wanted = by_both(fused, few)
    assert wanted.max() > 1000  # some region met a hazard
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", ["none", "scattered", "everything"])
def test_costs_are_those_of_the_processor_for_any_hazard(world, box, fitted, few, kind):
    found, wanted = by_both(rollout(fitted["capture"], masks(box)[kind], count_particles=True), few)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize(("particles", "horizon"), [(3, 1), (20, 9), (40, 3)])
def test_any_number_of_particles_and_steps(world, hazard, few, particles, horizon):
    cap = Capture(world.box, world.box.strata, NearestParticles(2), Tree(min_leaf=40), n_particles=particles)
    cap.fit(world.X, world.Y)
    found, wanted = by_both(rollout(cap, hazard), min(few, 300), horizon)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_infinite_thresholds_take_in_whole_strata(world, fitted, hazard, few):
    with pytest.warns(CaptureWarning, match="too few calibration points"):
        fused = rollout(fitted["capture"], hazard, alpha=1e-4)
    found, wanted = by_both(fused, few)
    assert (wanted > 10_000).all()
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_replaced_thresholds_are_used(world, fitted, hazard, few):
    fused = rollout(fitted["capture"], hazard)
    plans = CudaPlans(fused, settings(few))
    before = plans.plan(START[None], TEMPERATURE, np.zeros((1, 5, 2)), 3)[1]
    fused.thresholds = 10 * fused.thresholds
    assert plans.plan(START[None], TEMPERATURE, np.zeros((1, 5, 2)), 3)[1] > before


def test_thresholds_of_another_shape_are_refused(world, fitted, hazard):
    plans = CudaPlans(rollout(fitted["capture"], hazard), settings(4))
    with pytest.raises(CaptureError, match="thresholds have shape"):
        plans.rollout.thresholds = plans.rollout.thresholds[:1]
    plans.plan(START[None], TEMPERATURE, np.zeros((1, 5, 2)), 3)


def test_sequences_are_normal_around_the_plan_and_within_bounds(world, fitted, hazard):
    plans = CudaPlans(rollout(fitted["particles"], hazard), Settings(2, 200, SPREAD, -np.ones(2), np.ones(2)))
    nominal = np.array([[[0.1, 0.0], [-0.1, 0.2]]])
    plans.plan(START[None], TEMPERATURE, nominal, 5)
    drawn = plans.sequences[0] - nominal
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=0.03)
    for h in range(2):
        np.testing.assert_allclose(np.cov(drawn[:, h].T), SPREAD @ SPREAD.T, atol=0.004)
    assert abs(np.corrcoef(drawn[:, 0, 0], drawn[:, 1, 0])[0, 1]) < 0.25
    narrow = CudaPlans(rollout(fitted["particles"], hazard), settings(60, 2))
    narrow.plan(START[None], TEMPERATURE, nominal, 5)
    assert (narrow.sequences >= LOW).all()
    assert (narrow.sequences <= HIGH).all()


@pytest.mark.parametrize("samples", [1, 100])
def test_plan_is_the_weighted_average(world, fitted, hazard, samples):
    plans = CudaPlans(rollout(fitted["particles"], hazard), settings(samples, 2))
    found, lowest = plans.plan(START[None], TEMPERATURE, np.zeros((1, 2, 2)), 9)
    costs, sequences = plans.costs[0], plans.sequences[0]
    weights = np.exp((costs.min() - costs) / TEMPERATURE)
    np.testing.assert_allclose(found[0], np.tensordot(weights / weights.sum(), sequences, axes=1), rtol=1e-12, atol=1e-15)
    assert lowest[0] == costs.min()


def test_plans_do_not_depend_on_their_company(world, fitted, hazard):
    fused = rollout(fitted["capture"], hazard)
    states, nominal, keys = START + 0.05 * np.arange(3)[:, None], np.zeros((3, 5, 2)), np.array([4, 5, 6])
    together = CudaPlans(fused, settings(6), rows=3).plan(states, np.full(3, TEMPERATURE), nominal, keys)[0]
    alone = CudaPlans(fused, settings(6))
    for row in range(3):
        found = alone.plan(states[row : row + 1], TEMPERATURE, nominal[:1], keys[row])[0]
        np.testing.assert_array_equal(found[0], together[row])


def test_elites_compete_on_fresh_noise(world, fitted, hazard):
    fused, chosen = rollout(fitted["capture"], hazard), settings(8, elites=3, repeats=4)
    plans = CudaPlans(fused, chosen)
    found = plans.plan(START[None], TEMPERATURE, np.zeros((1, 5, 2)), 8)[0][0]
    costs, sequences = plans.costs[0], plans.sequences[0]
    weights = np.exp((costs.min() - costs) / TEMPERATURE)
    average = np.tensordot(weights / weights.sum(), sequences, axes=1)
    candidates = np.concatenate([average[None], sequences[np.argsort(costs)[:3]]])
    again = fused(START, np.repeat(candidates, 4, axis=0), np.uint64(stream(np.uint64(8), 2)))
    best = again.sum(axis=1).reshape(4, 4).mean(axis=1).argmin()
    np.testing.assert_allclose(found, candidates[best], rtol=1e-12)


def test_iterations_narrow_in_on_the_goal(world, fitted, box):
    fused = rollout(fitted["particles"], masks(box)["none"])
    lowest = [
        CudaPlans(fused, settings(40, iterations=n)).plan(START[None], TEMPERATURE, np.zeros((1, 5, 2)), 2)[1][0]
        for n in (1, 4)
    ]
    assert lowest[1] < lowest[0]


def test_costs_that_are_no_numbers_are_told(world, fitted, hazard):
    params = plugins.Fault(plugins.NAN, 2)
    fused = fused_rollout(fitted["capture"], plugins.faulty_step, plugins.first_number, params, hazard, (0, 1), 2)
    with pytest.raises(CaptureError, match=r"NaN or infinite for 10 of 10 sequences, first at step 1 of 5"):
        CudaPlans(fused, settings(10)).plan(START[None], TEMPERATURE, np.zeros((1, 5, 2)), 2)


def test_functions_are_tried_before_the_first_plan(world, fitted, hazard):
    returning = fused_rollout(fitted["capture"], plugins.returning_step, plugin.stage_cost, push(), hazard, (0, 1), 2)
    faster = fused_rollout(fitted["capture"], plugins.faster_step, plugin.stage_cost, push(), hazard, (0, 1), 2)
    for fused, message in ((returning, "return nothing"), (faster, "not the model that was calibrated")):
        with pytest.raises(CaptureError, match=message):
            planner(fused).plan(START)


# -- the planner ------------------------------------------------------------------------------------------------------


def planner(fused, device="cuda", **others):
    return MPPI(fused, 4, 30, TEMPERATURE, SPREAD @ SPREAD.T, LOW, HIGH, device=device, **others)


def system(states, actions, rngs):
    after = states + actions + 0.01 * np.array([rng.standard_normal(2) for rng in rngs])
    return after, ["there" if near else None for near in np.linalg.norm(after - GOAL, axis=1) < 0.15]


def single(state, action, rng):
    after, outcomes = system(state[None], action[None], [rng])
    return after[0], outcomes[0]


def test_planner_reaches_the_goal_and_a_seed_fixes_its_way(world, fitted, box):
    fused = rollout(fitted["capture"], masks(box)["none"])
    runs = [run_episode(planner(fused, seed=3), single, START, 12, seed=1) for _ in range(2)]
    assert runs[0].outcome == "there"
    np.testing.assert_array_equal(runs[0].plans, runs[1].plans)


def test_runs_together_are_the_runs_alone(world, fitted, box):
    fused = rollout(fitted["capture"], masks(box)["one cell"])
    together = run_episodes(planner(fused), system, [START, START + 0.1], 4, [3, 4], [5, 6], {"map": "none"})
    for run, start, seed, noise in zip(together, [START, START + 0.1], [3, 4], [5, 6]):
        alone = run_episode(planner(fused, seed=seed), single, start, 4, noise)
        assert run.outcome == alone.outcome
        assert run.info == {"map": "none"}
        for part in ("states", "actions", "plans", "costs"):
            np.testing.assert_array_equal(getattr(run, part), getattr(alone, part))


def test_python_rollouts_are_refused(world, fitted, hazard):
    slow = PythonRollout(fitted["capture"], lambda states, actions, rng: states + actions, python_cost, hazard, (0, 1))
    with pytest.raises(CaptureError, match="needs a FusedRollout"):
        planner(slow).plan(START)
    assert planner(slow, "auto").device == "cpu"
    assert planner(rollout(fitted["capture"], hazard), "auto").device == "cuda"


def test_states_of_another_size_are_refused(world, fitted, hazard):
    with pytest.raises(CaptureError, match="do not make up the 4 inputs"):
        planner(rollout(fitted["capture"], hazard)).plan(np.zeros(3))


def test_seeds_for_every_run_are_wanted(world, fitted, hazard):
    with pytest.raises(CaptureError, match="give one of each per run"):
        run_episodes(planner(rollout(fitted["capture"], hazard)), system, [START], 4, [1, 2], [1])


@pytest.mark.parametrize(("start", "seed", "message"), [([0.1] * 3, 1, "do not make up"), ([0.1] * 2, -1, "seeds is -1")])
def test_runs_that_cannot_be_are_refused(world, fitted, hazard, start, seed, message):
    with pytest.raises(CaptureError, match=message):
        run_episodes(planner(rollout(fitted["capture"], hazard)), system, [start], 2, [seed], [1])
