"""Environments and policies of a user's: a counter that says at which step of which episode it is."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Graph


class Counter(gymnasium.Env):
    """Its observation is (episode, step, noise); an episode ends after 4 steps, every second one by the clock."""

    observation_space = Box(-np.inf, np.inf, (3,), dtype=np.float32)
    action_space = Box(-1.0, 1.0, (2,), dtype=np.float32)

    def __init__(self, fails_at=None, error=None):
        self.fails_at, self.error = fails_at, error
        self.episode, self.step_number, self.all = -1, 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.step_number = self.episode + 1, 0
        return self.seen(), {}

    def step(self, action):
        if self.all == self.fails_at:
            if self.error is None:
                return np.full(3, np.nan, dtype=np.float32), 0.0, False, False, {}
            raise self.error
        self.step_number, self.all = self.step_number + 1, self.all + 1
        over = self.step_number == 4
        return self.seen(), float(action[0]), over and self.episode % 2 == 0, over and self.episode % 2 == 1, {}

    def seen(self):
        noise = self.np_random.standard_normal()
        return np.array([self.episode, self.step_number, noise], dtype=np.float32)


class Mixed(Counter):
    """A Dict of a position and a gear, and a choice of three actions."""

    observation_space = Dict({"gear": Discrete(2), "place": Box(-9.0, 9.0, (2,))})
    action_space = Discrete(3)

    def seen(self):
        return {"gear": np.int64(self.step_number % 2), "place": np.array([self.step_number, 0.5], dtype=np.float32)}

    def step(self, action):
        assert self.action_space.contains(action)
        return super().step([0.0])


class Net(Counter):
    observation_space = Graph(Box(0.0, 1.0, (2,)), None)


class Camera(Counter):
    observation_space = Box(0, 255, (64, 64, 3), dtype=np.uint8)


class Broken(Counter):
    def __init__(self):
        raise RuntimeError("no licence")


for name, kind, settings in (
    ("Counter", Counter, {}),
    ("Mixed", Mixed, {}),
    ("Net", Net, {}),
    ("Camera", Camera, {}),
    ("Broken", Broken, {}),
    ("Fails", Counter, {"fails_at": 6, "error": RuntimeError("the cable is out")}),
    ("Stopped", Counter, {"fails_at": 6, "error": KeyboardInterrupt()}),
    ("Blind", Counter, {"fails_at": 6}),
):
    if f"mine/{name}-v0" not in gymnasium.registry:
        gymnasium.register(f"mine/{name}-v0", entry_point=kind, kwargs=settings, disable_env_checker=True)


def half(observation):
    return [0.5, -0.5]


class Learnt:
    """As a library of learnt policies has it."""

    def predict(self, observation, deterministic=False):
        return np.array([0.25, observation[1]]), None


learnt, number = Learnt(), 3


def short(observation):
    return [0.5]


def unknown(observation):
    return [np.nan, 0.0]


def words(observation):
    return "left"


def crashes(observation):
    raise ZeroDivisionError("division by zero")


def gear(observation):
    return np.array([2])


def no_gear(observation):
    return 3
