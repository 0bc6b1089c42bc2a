"""Plans that a planner chose: selection breaks the regions of random actions, and those calibrated on choices hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from capture_cp import CaptureError, OneGroup, PerStratum
from capture_cp.planning import chosen_plans, chosen_rollouts
from planning.sled import AXES, H, capture, episode, episodes, random_rollouts, tails, truth

ALPHA, SURE = 0.2, 1e-3


def rollouts(runs, seed, **settings):
    return chosen_rollouts(runs, truth, AXES, np.random.default_rng(seed), **settings)


# -- the guarantee ----------------------------------------------------------------------------------------------------


def test_selection_breaks_the_regions_of_random_actions():
    cap = capture(random_rollouts(800, 1), OneGroup())
    assert tails(cap, random_rollouts(400, 2), ALPHA)[0] > SURE  # for which they were made
    held = cap.contains(rollouts(episodes(0, 300), 3), ALPHA, simultaneous=True, rng=4).all(axis=1)
    assert held.mean() < 0.4


@pytest.mark.parametrize("groups", [OneGroup(), PerStratum()], ids=["one group", "per stratum"])
def test_regions_calibrated_on_chosen_plans_hold_for_chosen_plans(groups):
    """All steps at once of the plan at a random step of a new episode: neither too rarely, nor out of all proportion."""
    cap = capture(rollouts(episodes(0, 300), 5), groups)
    too_rare, too_often = tails(cap, rollouts(episodes(300, 600), 6), ALPHA)
    assert too_rare > SURE
    assert too_often > SURE


def test_several_plans_of_an_episode_count_as_one():
    log = rollouts(episodes(0, 300), 5, per_episode=4)
    cap = capture(log)
    assert len(log) == 1200
    assert cap.calibration_.n_together == 150
    held = cap.contains(rollouts(episodes(300, 600), 6), ALPHA, simultaneous=True, rng=7).all(axis=1)
    # five standard errors: of 300 new episodes, and of 150 that set the threshold
    assert held.mean() > 1 - ALPHA - 5 * np.sqrt(ALPHA * (1 - ALPHA) * (1 / 300 + 1 / 150))


# -- what is drawn ----------------------------------------------------------------------------------------------------


def test_plans_are_those_of_recorded_steps():
    runs = episodes(0, 20)
    found = chosen_plans(runs, np.random.default_rng(0), per_episode=3)
    assert found.starts.shape == (60, 1)
    assert found.plans.shape == (60, H, 1)
    np.testing.assert_array_equal(found.numbers, np.repeat(np.arange(20), 3))
    for start, plan, number in zip(*found):
        at = np.flatnonzero((runs[number].states[:-1] == start).all(axis=1))
        assert len(at) == 1
        np.testing.assert_array_equal(runs[number].plans[at[0]], plan)


def test_every_step_is_as_likely_and_none_is_drawn_twice():
    run, rng = episodes(0, 1)[0], np.random.default_rng(1)
    all_of_them = chosen_plans([run], rng, per_episode=100)
    np.testing.assert_array_equal(all_of_them.starts, run.states[:-1])
    first = [chosen_plans([run], rng).starts[0, 0] == run.states[0, 0] for _ in range(2000)]
    assert abs(np.mean(first) - 1 / run.steps) < 5 * np.sqrt(1 / run.steps / 2000)


def test_rollouts_are_the_true_system_under_the_plan():
    runs = episodes(0, 8)
    log = chosen_rollouts(runs, lambda states, actions, rng: states + actions, AXES, np.random.default_rng(2))
    np.testing.assert_allclose(log.configurations, log.starts[:, None] + log.actions.cumsum(axis=1))
    np.testing.assert_array_equal(log.episodes, np.arange(8))


def test_only_plans_that_passed_are_drawn():
    runs = [replace(run, braked=np.arange(run.steps) != 2 * (number % 2) - 1) for number, run in enumerate(episodes(0, 6))]
    found = chosen_plans(runs, np.random.default_rng(3), which="passed")
    np.testing.assert_array_equal(found.numbers, [1, 3, 5])  # the others have braked at every step
    for start, number in zip(found.starts, found.numbers):
        np.testing.assert_array_equal(start, runs[number].states[1])
    np.testing.assert_array_equal(rollouts(runs, 4, which="passed").episodes, [0, 1, 2])


# -- bad input --------------------------------------------------------------------------------------------------------


def test_bad_input_is_one_sentence():
    runs, rng = episodes(0, 3), np.random.default_rng(0)
    with pytest.raises(CaptureError, match="no executed step"):
        chosen_plans([], rng)
    with pytest.raises(CaptureError, match="per_episode is 0"):
        chosen_plans(runs, rng, 0)
    with pytest.raises(CaptureError, match="played without a filter"):
        chosen_plans(runs, rng, which="passed")
    with pytest.raises(CaptureError, match="Did you mean 'passed'"):
        chosen_plans(runs, rng, which="pased")
    with pytest.raises(CaptureError, match="no plan of 3 episodes has passed"):
        chosen_plans([replace(run, braked=np.ones(run.steps, dtype=bool)) for run in runs], rng, which="passed")
    shorter = replace(episode(9), plans=episode(9).plans[:, :2])
    with pytest.raises(CaptureError, match="give those of one planner"):
        chosen_plans([*runs, shorter], rng)
