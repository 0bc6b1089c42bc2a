"""MPPI: sampling around the last plan, averaging by cost, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.planning.mppi import MPPI

TARGET = np.array([0.3, -0.2])


def effort(state, sequences, seed):
    """Squared distance of every action to TARGET: (N, H)."""
    return ((sequences - TARGET) ** 2).sum(axis=2)


class Recorder:
    """A rollout that remembers what it was asked."""

    def __init__(self, costs=effort):
        self.costs, self.sequences, self.seeds = costs, [], []

    def __call__(self, state, sequences, seed):
        self.sequences.append(sequences.copy())
        self.seeds.append(seed)
        return self.costs(state, sequences, seed)


def planner(rollout=effort, **changes):
    settings = {
        "horizon": 4,
        "samples": 50,
        "temperature": 0.1,
        "noise": 0.1 * np.eye(2),
        "low": [-1, -1],
        "high": [1, 1],
    }
    return MPPI(rollout, **(settings | changes))


def softmin_average(sequences, costs, temperature):
    weights = np.array([np.exp(-(cost - min(costs)) / temperature) for cost in costs])
    return sum(weight * sequence for weight, sequence in zip(weights, sequences)) / sum(weights)


@pytest.mark.parametrize("temperature", [0.01, 0.1, 10.0])
def test_plan_is_softmin_average_of_samples(temperature):
    rollout = Recorder()
    mppi = planner(rollout, temperature=temperature)
    action = mppi.plan(np.zeros(3))
    sequences = rollout.sequences[0]
    wanted = softmin_average(sequences, effort(None, sequences, 0).sum(axis=1), temperature)
    np.testing.assert_allclose(mppi.nominal, wanted, atol=1e-12)
    np.testing.assert_array_equal(action, mppi.nominal[0])


def test_costs_are_the_sums_over_the_horizon():
    rollout = Recorder()
    mppi = planner(rollout)
    mppi.plan(np.zeros(3))
    np.testing.assert_allclose(mppi.costs, effort(None, rollout.sequences[0], 0).sum(axis=1))


def test_one_sample_is_the_plan():
    rollout = Recorder()
    mppi = planner(rollout, samples=1)
    mppi.plan(np.zeros(3))
    np.testing.assert_allclose(mppi.nominal, rollout.sequences[0][0], atol=1e-15)


def test_low_temperature_picks_the_best_sample():
    rollout = Recorder()
    mppi = planner(rollout, temperature=1e-9)
    mppi.plan(np.zeros(3))
    np.testing.assert_allclose(mppi.nominal, rollout.sequences[0][mppi.costs.argmin()], atol=1e-12)


def test_high_temperature_averages_all_samples():
    rollout = Recorder()
    mppi = planner(rollout, temperature=1e12)
    mppi.plan(np.zeros(3))
    np.testing.assert_allclose(mppi.nominal, rollout.sequences[0].mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("offset", [-1e12, 1e12])
def test_large_costs_do_not_overflow(offset):
    mppi = planner(lambda *asked: effort(*asked) + offset)
    assert np.isfinite(mppi.plan(np.zeros(3))).all()


def test_warm_start_shifts_the_plan_and_repeats_its_end():
    rollout = Recorder()
    mppi = planner(rollout, noise=1e-16 * np.eye(2))
    mppi.nominal = np.arange(8.0).reshape(4, 2) / 10
    mppi.plan(np.zeros(3))
    np.testing.assert_allclose(mppi.nominal, np.array([[2, 3], [4, 5], [6, 7], [6, 7]]) / 10, atol=1e-6)


def test_sampled_actions_stay_within_bounds():
    rollout = Recorder()
    mppi = planner(rollout, noise=10 * np.eye(2), low=[-0.5, 0.1], high=[0.2, 0.3])
    for _ in range(3):
        mppi.plan(np.zeros(3))
    sampled = np.concatenate(rollout.sequences)
    assert (sampled >= [-0.5, 0.1]).all()
    assert (sampled <= [0.2, 0.3]).all()
    assert (mppi.nominal >= [-0.5, 0.1]).all()
    assert (mppi.nominal <= [0.2, 0.3]).all()


def test_perturbations_have_the_full_covariance_and_are_independent_over_steps():
    noise = np.array([[1.0, 0.6], [0.6, 2.0]])
    rollout = Recorder()
    n = 40_000
    planner(rollout, samples=n, horizon=2, noise=noise, low=[-99, -99], high=[99, 99]).plan(np.zeros(3))
    drawn = rollout.sequences[0].reshape(n, 4)
    wanted = np.kron(np.eye(2), noise)
    # the variance of a sample covariance is (cov_ij² + cov_ii cov_jj) / n; ten entries within five deviations
    deviation = np.sqrt((wanted**2 + np.outer(np.diag(wanted), np.diag(wanted))) / n)
    assert (np.abs(np.cov(drawn.T) - wanted) < 5 * deviation).all()
    assert (np.abs(drawn.mean(axis=0)) < 5 * np.sqrt(np.diag(wanted) / n)).all()


def test_each_iteration_samples_around_the_last_average():
    rollout = Recorder()
    mppi = planner(rollout, iterations=3, noise=1e-16 * np.eye(2))
    mppi.plan(np.zeros(3))
    assert len(rollout.sequences) == 3
    np.testing.assert_allclose(rollout.sequences[2].mean(axis=0), mppi.nominal, atol=1e-6)
    assert len(set(rollout.seeds)) == 3


def test_more_iterations_come_nearer_to_the_optimum():
    once, often = planner(noise=0.01 * np.eye(2)), planner(noise=0.01 * np.eye(2), iterations=30)
    once.plan(np.zeros(3))
    often.plan(np.zeros(3))
    assert np.abs(often.nominal - TARGET).max() < np.abs(once.nominal - TARGET).max()


def test_same_seed_gives_the_same_plans_and_another_seed_others():
    one, same, other = planner(seed=5), planner(seed=5), planner(seed=6)
    plans = [[mppi.plan(np.zeros(3)) for _ in range(3)] for mppi in (one, same, other)]
    np.testing.assert_array_equal(plans[0], plans[1])
    assert not np.isclose(plans[0], plans[2]).any()


def test_reset_starts_again():
    rollout = Recorder()
    mppi = planner(rollout)
    first = [mppi.plan(np.zeros(3)) for _ in range(3)]
    mppi.reset()
    np.testing.assert_array_equal([mppi.plan(np.zeros(3)) for _ in range(3)], first)
    assert rollout.seeds[:3] == rollout.seeds[3:]
    assert len(set(rollout.seeds)) == 3


def test_returned_action_is_the_callers_own():
    mppi = planner()
    action = mppi.plan(np.zeros(3))
    action[:] = 7.0
    assert (np.abs(mppi.nominal) <= 1).all()


def test_point_reaches_its_goal_in_a_few_steps():
    goal = np.array([2.0, -1.0])

    def rollout(state, sequences, seed):
        return ((state + sequences.cumsum(axis=1) - goal) ** 2).sum(axis=2)

    mppi, state = planner(rollout, samples=400, temperature=0.05), np.zeros(2)
    for _ in range(8):
        state = state + mppi.plan(state)
    assert np.linalg.norm(state - goal) < 0.2


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("horizon", 0),
        ("horizon", 2.5),
        ("samples", 0),
        ("iterations", 0),
        ("temperature", 0.0),
        ("temperature", -1.0),
        ("temperature", np.nan),
        ("temperature", "warm"),
        ("temperature", None),
        ("noise", np.eye(3)),
        ("noise", -np.eye(2)),
        ("noise", [[1.0, 2.0], [2.0, 1.0]]),
        ("noise", [[1.0, 0.9], [0.0, 1.0]]),
        ("noise", [[1.0, np.nan], [np.nan, 1.0]]),
        ("low", [-1, 1]),
        ("low", [-1, -1, -1]),
        ("low", [-1, np.nan]),
        ("high", [np.inf, 1]),
        ("seed", -1),
        ("seed", "x"),
    ],
)
def test_bad_setting_is_refused_by_name(setting, value):
    word = "bounds" if setting in ("low", "high") else setting
    with pytest.raises(CaptureError, match=word):
        planner(**{setting: value})


@pytest.mark.parametrize("state", [[np.nan, 0], [[0.0, 1.0]], "here"])
def test_bad_state_is_refused(state):
    with pytest.raises(CaptureError, match="state"):
        planner().plan(state)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_cost_that_is_not_finite_is_refused_and_its_step_named(value):
    def rollout(state, sequences, seed):
        costs = effort(state, sequences, seed)
        costs[7:9, 2] = value
        return costs

    with pytest.raises(CaptureError, match="2 of 50 sequences, first at step 3 of 4"):
        planner(rollout).plan(np.zeros(3))


@pytest.mark.parametrize("shape", [(), (50,), (4, 50), (50, 5), (50, 4, 1)])
def test_costs_of_another_shape_are_refused(shape):
    with pytest.raises(CaptureError, match="shape"):
        planner(lambda *asked: np.zeros(shape)).plan(np.zeros(3))


@pytest.mark.parametrize("answer", [None, "cheap", np.full((50, 4), None)])
def test_costs_that_are_no_numbers_are_refused(answer):
    with pytest.raises(CaptureError, match="rollout"):
        planner(lambda *asked: answer).plan(np.zeros(3))


def test_a_failed_plan_leaves_the_last_plan_alone():
    answers = iter([effort, lambda *asked: np.full((50, 4), np.nan)])
    mppi = planner(lambda *asked: next(answers)(*asked))
    mppi.plan(np.zeros(3))
    before = mppi.nominal.copy()
    with pytest.raises(CaptureError):
        mppi.plan(np.zeros(3))
    np.testing.assert_array_equal(mppi.nominal, before)


def test_temperature_may_depend_on_the_state():
    fixed, varying = planner(effort, temperature=0.3), planner(temperature=lambda s: s[0] / 10)
    state = np.array([3.0, 0.0])
    np.testing.assert_array_equal(fixed.plan(state), varying.plan(state))


def test_temperature_function_that_yields_nonsense_is_told():
    with pytest.raises(CaptureError, match=r"temperature is -1\.0"):
        planner(effort, temperature=lambda s: -1.0).plan(np.zeros(2))
