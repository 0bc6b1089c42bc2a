"""Learn: errors within a run are correlated; split, calibrate and check by whole runs, and monitor for change.

Run: python examples/15_episodes.py [runs]
Explained in: docs/use/episodes.md
"""

import sys

import numpy as np

from capture_cp import Capture, Monitor, OneGroup, Transitions, one_stratum

runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
rng = np.random.default_rng(0)


def logged_runs(runs, steps=30, spread=0.05):
    """A cart on a line; its camera is remounted for every run, with a small random offset."""
    run = np.repeat(np.arange(runs), steps)
    off = rng.normal(0.0, spread, runs)[run]
    x, push = rng.random(len(run)), rng.uniform(-0.2, 0.2, len(run))
    after = x + push + off + rng.normal(0.0, 0.01, len(run))
    return Transitions.from_arrays(x[:, None], push[:, None], after[:, None], episode=run)


def model(X, n_particles, rng):
    """Next positions (n, L, 1) of inputs X (n, 2)."""
    return (X[:, :1] + X[:, 1:])[:, None] + rng.normal(0.0, 0.01, (len(X), n_particles, 1))


fit, check = logged_runs(runs).split((0.75, 0.25), seed=0)  # every run stays whole
cap = Capture(model, one_stratum(), groups=OneGroup()).fit(fit.X, fit.Y, episodes=fit.episode)
print(f"{len(fit)} steps of {cap.data_['episodes']} runs to fit")
print(cap.coverage(check.X, check.Y, alpha=0.1, episodes=check.episode))  # every run counts once

# on the robot: one random step of each new run; after run 50 the camera's mount is loose
monitor = Monitor(cap)
for number in range(1, 1001):
    log = logged_runs(1, spread=0.05 if number <= 50 else 0.15)
    step = rng.integers(len(log))
    monitor.update(log.X[step], log.Y[step])
    if monitor.alarm(level=0.01):  # the probability of ever raising a false alarm is at most 0.01
        print(f"alarm after {number} runs, {number - 50} after the change")
        break
