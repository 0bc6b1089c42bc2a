"""A learning library takes our environments as they are."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import capture_lab.gym

sb3 = pytest.importorskip("stable_baselines3")
pytestmark = pytest.mark.peers


@pytest.mark.parametrize("env_id", capture_lab.gym.env_ids())
def test_its_checker_finds_nothing_to_warn_of(env_id, recwarn):
    from stable_baselines3.common.env_checker import check_env

    check_env(gymnasium.make(env_id).unwrapped, warn=True)
    assert not [str(warning.message) for warning in recwarn if "stable" in str(warning.filename)]


def test_ppo_learns_on_the_marble():
    env = gymnasium.make("capture/MarbleCenter-v0")
    model = sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=2, seed=0, device="cpu").learn(256)
    assert model.num_timesteps == 256
    before = sb3.PPO("MlpPolicy", model.env, n_steps=64, batch_size=64, seed=0, device="cpu")
    weights = [dict(each.policy.named_parameters())["action_net.weight"].detach().numpy() for each in (before, model)]
    assert np.isfinite(weights[1]).all()
    assert not np.array_equal(*weights)
