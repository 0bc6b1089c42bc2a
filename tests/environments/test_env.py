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


@pytest.mark.parametrize("env_id", capture_lab.gym.env_ids())
def test_gymnasium_finds_nothing_to_warn_of(env_id):
    if env_id.startswith(("capture/Peg", "capture/Shelf")):
        pytest.importorskip("mujoco")
    drawn = env_id in ("capture/Box-v0", "capture/MarbleCenter-v0", "capture/PegPlanar-v0", "capture/ShelfOpen-v0")
    if drawn:
        pytest.importorskip("matplotlib")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(env_id).unwrapped, skip_render_check=not drawn)


def played(env, seed):
    """Observations and infos of a few random actions."""
    env.action_space.seed(seed)
    rows = [env.reset(seed=seed)]
    while len(rows) < 12 and rows[-1][1]["outcome"] is None:
        rows.append(env.step(env.action_space.sample())[::4])
    return [row[0] for row in rows], [row[1] for row in rows]


@pytest.mark.parametrize("env_id", ["capture/Box-v0", "capture/MarbleCenter-v0"])
def test_a_seed_is_an_episode(env_id):
    env = gymnasium.make(env_id)
    first, again, other = (played(env, seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_step_is_the_true_systems_with_an_action_cut_back_to_its_bounds():
    env = TaskEnv(Box(noise=0.0))
    env.reset(options={"state": [0.2, 0.1]})
    after, reward, terminated, truncated, info = env.step([0.5, -7.0])
    own = np.array([0.5, -1.0]) * 0.4
    assert np.allclose(after, np.clip([0.2 + 1.5 * own[0], 0.1 + 1.5 * own[1]], 0, 1))
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert np.array_equal(info["action"], own)
    assert np.array_equal(info["configuration"], after)
    assert (info["outcome"], info["steps"], info["stratum"]) == (None, 1, "edge")
    plain = TaskEnv(Box(noise=0.0), own_units=True)
    plain.reset(options={"state": [0.2, 0.1]})
    assert np.array_equal(plain.step(own)[0], after)
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


def test_starts_anywhere_and_where_the_study_starts_if_the_task_has_starts():
    class Lost(Box):
        starts = capture_lab.tasks.Task.starts

    env, lost = TaskEnv(Box()), TaskEnv(Lost())
    assert np.array_equal(env.reset(seed=0)[0], [0.1, 0.85])
    anywhere = np.array([env.reset(options={"anywhere": True})[0] for _ in range(20)])
    assert len(np.unique(anywhere, axis=0)) == 20
    assert not np.array_equal(lost.reset(seed=0)[0], lost.reset(seed=1)[0])


def test_regions_are_reported_and_change_nothing_else(box, fitted):
    plain, with_regions = TaskEnv(box), TaskEnv(box, regions=fitted["capture"], alpha=0.2)
    (path, _), (same, infos) = played(plain, 3), played(with_regions, 3)
    assert np.array_equal(path, same)
    assert "region" not in infos[0]
    region = infos[1]["region"]
    assert isinstance(region["held"], bool)
    assert region["particles"].shape == (fitted["capture"].n_particles, 2)
    assert region["thresholds"].keys() == set(box.strata.names)


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
    assert first.shape == (540, 1040, 3)
    assert (first != env.render()).any()
    assert gymnasium.make("capture/Box-v0").unwrapped.render() is None


@pytest.mark.parametrize(
    ("task", "options", "sentence"),
    [
        (Box(), {"render_mode": "human"}, "render_mode is 'human'; expected"),
        ("box", {"gain": 2.0}, r"the options \['gain'\] are not accepted by the task box"),
        (Box(), {"noise": 0.0}, "need a task given by name"),
        ("boxx", {}, "unknown task 'boxx'"),
        ("marble", {"dense": True}, "marble has no stage cost in Python"),
    ],
)
def test_wrong_settings_are_one_sentence(task, options, sentence):
    with pytest.raises(CaptureError, match=sentence):
        TaskEnv(task, **options)


def test_wrong_calls_are_one_sentence():
    env = TaskEnv(Box())
    with pytest.raises(CaptureError, match=r"no episode has begun; call reset\(\) before step"):
        env.step([0.0, 0.0])
    env.reset(seed=0)
    for action in ([np.nan, 0.0], [0.0], [[0.0, 0.0]], "left", None, [np.inf, 0.0]):
        with pytest.raises(CaptureError, match=r"the action (has|is not)"):
            env.step(action)
    for options, sentence in (
        ({"start": [0.1, 0.1]}, r"reset has no options \['start'\]; known: 'state'"),
        ({"state": [0.65, 0.45]}, "lies in no stratum; give a feasible one"),
        ({"state": [0.65]}, "the state to start from has shape"),
    ):
        with pytest.raises(CaptureError, match=sentence):
            env.reset(options=options)
    with pytest.raises(CaptureError, match=r"nothing to draw yet; call reset\(\)"):
        TaskEnv(Box(), render_mode="rgb_array").render()
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step([0.0, 0.0])):
        with pytest.raises(CaptureError, match="the environment is closed; make a new one"):
            call()
