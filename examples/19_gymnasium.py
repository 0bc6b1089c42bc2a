"""Learn: record transitions from a Gymnasium environment, and calibrate on them by whole episodes.

Run: python examples/19_gymnasium.py [steps]
Explained in: docs/use/gymnasium.md
"""

import sys

import gymnasium
import numpy as np
from gymnasium.spaces import flatten

from capture_cp import Capture, Transitions, Tree, write_transitions

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
env = gymnasium.make("capture_lab.gym:capture/Box-v0", own_units=True)  # or any other environment
configuration = [0, 1]  # the entries of the observation that regions are about


def recorded(env, policy, steps, seed=0):
    """Transitions of an environment under policy(observation), such as `predict` of a learning library."""
    rows, episode, ended = [], -1, True
    for _ in range(steps):
        if ended:  # one seed for all: later episodes continue its random numbers
            observation, _ = env.reset(seed=seed if episode < 0 else None)
            episode += 1
        action = policy(observation)
        after, _, terminated, truncated, _ = env.step(action)
        state, reached = (flatten(env.observation_space, each) for each in (observation, after))
        rows.append((state, flatten(env.action_space, action), reached[configuration], episode))
        observation, ended = after, terminated or truncated
    return Transitions.from_arrays(*map(np.array, zip(*(row[:3] for row in rows))), episode=[row[3] for row in rows])


env.action_space.seed(0)
log = recorded(env, lambda observation: env.action_space.sample(), steps)
write_transitions("box.csv", log)
print(f"{len(log)} transitions of {log.episode.max() + 1} episodes")

fit, check = log.split((0.75, 0.25), seed=0)  # every episode stays whole
task = env.unwrapped.task  # of our environments: an approximate model, and the strata
cap = Capture(task, task.strata, groups=Tree(min_leaf=100)).fit(fit.X, fit.Y, episodes=fit.episode)
print(cap.coverage(check.X, check.Y, alpha=0.1, episodes=check.episode))
