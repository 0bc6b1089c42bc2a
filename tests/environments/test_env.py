"""One environment: Gymnasium's own checks, seeds, starts, rewards, regions, pictures and refusals."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import capture_lab.gym
from capture_cp import CaptureError, HorizonCapture
from capture_lab.gym import TaskEnv
from capture_lab.tasks.box import GOAL, Box

IDS = capture_lab.gym.env_ids()


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_finds_nothing_to_warn_of(env_id):
    if env_id.startswith(("capture/Peg", "capture/Shelf")):
        pytest.importorskip("mujoco")
    drawn = env_id in ("capture/Box-v0", "capture/MarbleCenter-v0", "capture/PegPlanar-v0", "capture/ShelfOpen-v0")
    if drawn:
        pytest.importorskip("matplotlib")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(env_id).unwrapped, skip_render_check=not drawn)


def played(env, seed, steps=12):
    """Observations, rewards and infos of random actions."""
    env.action_space.seed(seed)
    rows = [env.reset(seed=seed)]
    for _ in range(steps):
        observation, _, terminated, truncated, info = env.step(env.action_space.sample())
        rows.append((observation, info))
        if terminated or truncated:
            break
    return [observation for observation, _ in rows], [info for _, info in rows]


@pytest.mark.parametrize("env_id", ["capture/Box-v0", "capture/MarbleCenter-v0"])
def test_a_seed_is_an_episode(env_id):
    env = gymnasium.make(env_id)
    first, again, other = (played(env, seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_noise_is_not_that_of_a_plain_generator():
    """A policy that draws from default_rng(seed) must not know the noise."""
    box = Box()
    env = TaskEnv(box)
    env.reset(seed=5, options={"state": [0.3, 0.2]})
    after = env.step([0.0, 0.0])[0]
    plain = box.true_step(np.array([[0.3, 0.2]]), np.zeros((1, 2)), np.random.default_rng(5))[0]
    assert not np.allclose(after, plain)


def test_a_step_is_the_true_systems(box):
    """Without noise, by the plain formula of the box in place of the environment."""
    env = TaskEnv(Box(noise=0.0))
    env.reset(options={"state": [0.2, 0.1]})
    after, reward, terminated, truncated, info = env.step([0.5, -1.0])
    own = np.array([0.5, -1.0]) * 0.4
    assert np.allclose(after, np.clip([0.2 + 1.5 * own[0], 0.1 + 1.5 * own[1]], 0, 1))
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["stratum"] == "edge"
    assert np.array_equal(info["action"], own)
    assert np.array_equal(info["configuration"], after)
    assert (info["outcome"], info["steps"]) == (None, 1)


def test_actions_are_cut_back_to_the_bounds_and_may_be_in_own_units():
    env, plain = TaskEnv(Box(noise=0.0)), TaskEnv(Box(noise=0.0), own_units=True)
    for each in (env, plain):
        each.reset(options={"state": [0.2, 0.1]})
    assert np.array_equal(env.step([7.0, -0.5])[4]["action"], plain.step([0.4, -0.2])[4]["action"])
    assert plain.action_space.high.tolist() == [0.4, 0.4]


def test_success_pays_and_any_other_end_costs():
    env = TaskEnv(Box(noise=0.0))
    for start, end, reward in (([0.88, 0.85], "success", 1.0), ([0.38, 0.85], "fell", -1.0)):
        env.reset(options={"state": start})
        _, paid, terminated, truncated, info = env.step([0.06, 0.0])
        assert (info["outcome"], paid, terminated, truncated) == (end, reward, True, False)
        with pytest.raises(CaptureError, match=rf"has ended \({end}\); call reset\(\)"):
            env.step([0.0, 0.0])


def test_a_dense_reward_is_what_the_step_takes_off_the_cost():
    """So that a way there is worth what its ends are, and an early end pays for nothing."""
    env = TaskEnv(Box(noise=0.0), dense=True)
    start, _ = env.reset(options={"state": [0.2, 0.1]})
    paid = [env.step([0.1, 0.1])[:2] for _ in range(3)]
    nearer = np.linalg.norm(start - GOAL) - np.linalg.norm(paid[-1][0] - GOAL)
    assert np.isclose(sum(reward for _, reward in paid), nearer)
    start, _ = env.reset(options={"state": [0.38, 0.85]})
    after, reward, *_ = env.step([0.06, 0.0])  # into the patch: one cell of the hazard is where it is
    assert np.isclose(reward, -1 + np.linalg.norm(start - GOAL) - np.linalg.norm(after - GOAL) - 0.05)
    with pytest.raises(CaptureError, match="marble has no stage cost in Python"):
        gymnasium.make("capture/MarbleCenter-v0", dense=True)


def test_starts_anywhere_and_where_the_study_starts():
    env = TaskEnv(Box())
    assert np.array_equal(env.reset(seed=0)[0], [0.1, 0.85])
    anywhere = np.array([env.reset(options={"anywhere": True})[0] for _ in range(20)])
    assert len(np.unique(anywhere, axis=0)) == 20


def test_a_task_without_starts_begins_at_random_inputs():
    class Lost(Box):
        starts = capture_lab.tasks.Task.starts

    env = TaskEnv(Lost())
    assert not np.array_equal(env.reset(seed=0)[0], env.reset(seed=1)[0])


def test_regions_are_told_and_change_nothing_else(box, fitted):
    plain, with_regions = TaskEnv(box), TaskEnv(box, regions=fitted["capture"], alpha=0.2)
    (path, _), (same, infos) = played(plain, 3), played(with_regions, 3)
    assert np.array_equal(path, same)
    assert "region" not in infos[0]
    region = infos[1]["region"]
    assert isinstance(region["held"], bool)
    assert region["particles"].shape == (fitted["capture"].n_particles, 2)
    x = np.concatenate([path[0], infos[1]["action"]])
    expected = dict(zip(box.strata.names, fitted["capture"].step_thresholds(x[None], 0.2)[0]))
    assert region["thresholds"] == expected
    again = fitted["capture"].region(x, 0.2, prediction=region["particles"])
    assert region["held"] == (infos[1]["configuration"] in again)


def test_regions_hold_as_often_as_they_promise(box, fitted):
    """Steps from random states under random actions, as those that calibrated: coverage by the exact test."""
    from scipy.stats import binom

    env = TaskEnv(box, regions=fitted["capture"], alpha=0.2)
    env.action_space.seed(0)
    held = []
    for seed in range(400):
        env.reset(seed=seed, options={"anywhere": True})
        held.append(env.step(env.action_space.sample())[4]["region"]["held"])
    assert binom.cdf(sum(held), len(held), 0.8 - 0.05) > 1e-3  # 0.05: one calibration of 800 strays from its target


def test_regions_from_a_file(box, fitted, tmp_path):
    file = tmp_path / "box.capture"
    fitted["capture"].save(file)
    env = TaskEnv(box, regions=file)
    env.reset(seed=0)
    assert "region" in env.step([0.0, 0.0])[4]
    with pytest.raises(CaptureError, match="the calibration has 4 inputs and 2 outputs, and marble has 8 and 2"):
        gymnasium.make("capture/MarbleCenter-v0", regions=fitted["capture"])
    with pytest.raises(CaptureError, match="fit"):
        TaskEnv(box, regions=HorizonCapture(box.model_step, box.strata, (0, 1)))


def test_pictures():
    pytest.importorskip("matplotlib")
    env = gymnasium.make("capture/Box-v0", render_mode="rgb_array")
    env.reset(seed=0)
    first = env.render()
    env.step([1.0, 0.0])
    second = env.render()
    assert first.dtype == np.uint8
    assert first.shape == second.shape == (540, 1040, 3)
    assert (first != second).any()
    assert gymnasium.make("capture/Box-v0").unwrapped.render() is None


@pytest.mark.parametrize("action", [[np.nan, 0.0], [0.0], [[0.0, 0.0]], "left", None, [np.inf, 0.0]])
def test_wrong_actions_are_one_sentence(action):
    env = TaskEnv(Box())
    env.reset(seed=0)
    with pytest.raises(CaptureError, match=r"the action is .*; expected 2 finite numbers, \(da,\)\."):
        env.step(action)


def test_refusals():
    env = TaskEnv(Box())
    with pytest.raises(CaptureError, match=r"has not begun; call reset\(\) before step"):
        env.step([0.0, 0.0])
    with pytest.raises(CaptureError, match=r"nothing to draw yet; call reset\(\)"):
        TaskEnv(Box(), render_mode="rgb_array").render()
    with pytest.raises(CaptureError, match=r"reset has no options \['start'\]; known: 'state'"):
        env.reset(options={"start": [0.1, 0.1]})
    with pytest.raises(CaptureError, match="lies in no stratum; give a feasible one"):
        env.reset(options={"state": [0.65, 0.45]})
    with pytest.raises(CaptureError, match="the state to start from has shape"):
        env.reset(options={"state": [0.65]})
    with pytest.raises(CaptureError, match="render_mode is 'human'; expected"):
        TaskEnv(Box(), render_mode="human")
    with pytest.raises(CaptureError, match=r"the options \['gain'\] are not accepted by the task box"):
        TaskEnv("box", gain=2.0)
    with pytest.raises(CaptureError, match="need a task given by name"):
        TaskEnv(Box(), noise=0.0)
    with pytest.raises(CaptureError, match="unknown task 'boxx'"):
        TaskEnv("boxx")
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step([0.0, 0.0])):
        with pytest.raises(CaptureError, match="the environment is closed; make a new one"):
            call()
