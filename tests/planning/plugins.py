"""Compiled plug-ins for the planning tests, and the same in NumPy."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba import njit

from capture_cp.kernels.random import normal_pair, stream
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.plugin import Called, stage_cost, step
from capture_cp.planning.probes import PointHazard
from capture_cp.planning.rollout import Stage
from capture_cp.planning.steps import StepModel


class Push(NamedTuple):
    """Parameters of `capture_cp.planning.plugin`, the point that is pushed about."""

    noise: float
    goal: Any
    hazard_weight: float


class Fault(NamedTuple):
    kind: int
    at: int


GOAL = np.array([0.9, 0.2])
#: Large against any distance in the unit box, so that the cost's two parts can be printed apart.
WEIGHT = 1000.0
RAISES, NAN, TELLS_NOISE_ROWS = range(3)


def push(noise: float = 0.02) -> Push:
    return Push(noise, GOAL, WEIGHT)


def python_cost(stage: Stage) -> np.ndarray:
    return ((stage.mean - GOAL) ** 2).sum(axis=1) + WEIGHT * stage.hazard


class GivenNoise:
    """The push model in Python with the noise of every step given: standard normals (H, N * L, 2)."""

    def __init__(self, normals: np.ndarray, scale: float = 0.02) -> None:
        self.normals, self.scale, self.h = normals, scale, 0

    def __call__(self, states, actions, rng):
        self.h += 1
        return states + actions + self.scale * self.normals[self.h - 1]


def kernel_noise(seed: int, samples: int, horizon: int, particles: int) -> np.ndarray:
    """The two standard normals that the kernel draws for each step, sequence and particle: (H, N, L, 2)."""
    keys = [np.uint64(stream(np.uint64(seed), i)) for i in range(samples)]
    return np.array(
        [[[normal_pair(key, h * particles + l) for l in range(particles)] for key in keys] for h in range(horizon)]
    )


def fused_rollout(cap, step, stage_cost, params, hazard, axes, noise_dims, alpha=0.1, **settings) -> FusedRollout:
    model = StepModel(step, 1 + max(2, *axes), axes, noise_dims, params)
    about = {name: settings.pop(name) for name in ("stratum", "points", "steepness") if name in settings}
    return FusedRollout(cap, model, stage_cost, PointHazard(hazard, **about) if about else hazard, alpha, **settings)


def guarded(rollout: FusedRollout) -> FusedRollout:
    """The rollout with its kernel out of reach: compiled code given the wrong arrays reads beyond their ends."""
    reached = lambda *given: pytest.fail("wrong input reached the compiled kernel")  # noqa: E731
    rollout._kernel = reached
    return rollout


def by_threads(rollout: FusedRollout, *given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Costs by one thread, and by as many as this machine has: two kernels."""
    before = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        alone = rollout(*given)
        numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
        return alone, rollout(*given)
    finally:
        numba.set_num_threads(before)


def noise_free(rollout: FusedRollout) -> FusedRollout:
    """The rollout with zeros for noise."""
    rollout._draws = False
    return rollout


@njit(cache=True)
def still_step(states, action, noise, params):
    """The push model without noise."""
    for axis in range(states.shape[0]):
        for l in range(states.shape[1]):
            states[axis, l] += action[axis]


@njit(cache=True)
def faulty_step(states, action, noise, params):
    """Raises, returns NaN, or writes the number of its noise rows to the state."""
    if params.kind == 0:
        raise ValueError("the motor is on fire")
    for axis in range(states.shape[0]):
        for l in range(states.shape[1]):
            states[axis, l] = np.nan if params.kind == 1 else 1.0 * noise.shape[0]


@njit(cache=True)
def first_number(mean, action, hazard, h, horizon, params):
    """The mean state's first number as cost."""
    return mean[0] if h >= params.at else 0.0


@njit(cache=True)
def returning_step(states, action, noise, params):
    """Returns next states in place of writing them."""
    return states + 1.0


@njit(cache=True)
def faster_step(states, action, noise, params):
    """The push model with half as much push again."""
    for axis in range(states.shape[0]):
        for l in range(states.shape[1]):
            states[axis, l] += 1.5 * action[axis] + params.noise * noise[axis, l]


DISC = np.array([0.5, 0.4])
RADIUS = 0.15


@njit
def disc_distance(y, params):
    """Signed distance from a disc, in the first two numbers of a configuration."""
    return math.sqrt((y[0] - 0.5) ** 2 + (y[1] - 0.4) ** 2) - 0.15


@njit
def on_disc(y, params):
    return (y[0] - 0.5) ** 2 + (y[1] - 0.4) ** 2 < 0.15**2


@njit
def halves(y, params):
    """Two strata, left and right, and what is far to the right infeasible."""
    return -1 if y[0] > 0.8 else 1 if y[0] > 0.45 else 0


@njit
def straight(y, p):
    """The Euclidean metric as a function."""
    total = 0.0
    for axis in range(y.shape[0]):
        total += (y[axis] - p[axis]) ** 2
    return total


@njit
def hazard_only(mean, action, hazard, h, horizon, params):
    return 1.0 * hazard


@njit
def drifting_step(states, action, noise, params):
    """Every number of the state drifts by the first action, and is spread by its own noise."""
    for axis in range(states.shape[0]):
        for l in range(states.shape[1]):
            states[axis, l] += action[0] + params.noise * noise[axis, l]


# compiled once for all tests and their processes


class Pushed(Called, cached=True):
    step, stage_cost = step, stage_cost


class PushedAroundDisc(Called, cached=True):
    step, stage_cost, hazard = step, stage_cost, disc_distance
