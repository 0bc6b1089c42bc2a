"""Rollout, thresholds, regions and cost in one kernel.

The functions that it calls are named by the types of its arguments: the user's by `Called`, how regions are measured by the
class of `regions`. What calls a user's function is compiled with the kernel; all else is compiled once and cached on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit, prange

from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.compiler import parallel_kernel, renamed
from capture_cp.kernels.distance import squared_limit
from capture_cp.kernels.random import normal_rows, stream
from capture_cp.kernels.tree import find_group
from capture_cp.planning.plugin import Called, function_of

T = TypeVar("T")

CHUNK = 8  # sequences that a thread handles at once, with the same scratch arrays


class Calibrated(NamedTuple):
    """A calibration, how its region is tested, and how its particles are rolled out."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any  # (S, M): of the steps that have their own trees; the last serves all later steps
    stratum_features: Any
    thresholds: Any  # (M, J): of a group, which may be stricter in one stratum than in another
    step_scale: Any  # (H,): factor on the thresholds of each step
    rule: int  # see kernels.cells
    length: float
    k: int  # at least this many particles must be near
    count_cells: bool  # count hazard cells in the region
    count_particles: bool  # count particles on hazard cells
    axes: Any  # (dc,): which entries of the state are the configuration
    particles: int
    noise_dims: int
    draws: bool  # whether particles are drawn, or move without noise


class Rolled(NamedTuple):
    """A sequence's rollout; scratch arrays that serve one sequence after the other."""

    states: Any  # (ds, L): of the particles
    means: Any  # (H + 1, ds): of them, at the start and after each step
    noise: Any  # (dn + 3, L): of one step
    x: Any  # (ds + da,): the calibration's input at one step


def measured_by(room_for: Any, keep: Any, measure: Any, seen: Any) -> Callable[[type[T]], type[T]]:
    """Gives a class of regions the compiled functions by which the kernel measures them along a sequence.

    - `room_for(horizon, ds, cal, regions)`: scratch arrays, with room for what is measured;
    - `keep(h, states (ds, L), cal, room)`: keeps what is needed of the particles after step h;
    - `measure(actions (H, da), rolled, cal, regions, called, params, room)`: measures all steps;
    - `seen(h, room)`: what the cost of step h receives.
    """

    def given(regions: type[T]) -> type[T]:
        for name, function in (("room_for", room_for), ("keep", keep), ("measure", measure), ("seen", seen)):
            setattr(regions, name, function)
        return regions

    return given


@njit
def _roll_out_some(start, sequences, seed, cal, regions, called, params, rolled, room, costs, first, stop):
    cal, regions, params, rolled, room = borrowed((cal, regions, params, rolled, room))
    states, means, horizon = rolled.states, rolled.means, sequences.shape[1]
    for i in range(first, stop):
        key = stream(seed, i)
        place(start, states, means[0])
        for h in range(horizon):
            if cal.draws:
                draw(rolled.noise, key, h, (cal.noise_dims + 1) // 2)
            function_of(called, "step")(states, sequences[i, h], rolled.noise, params)
            average(states, means[h + 1])
            function_of(regions, "keep")(h, states, cal, room)
        function_of(regions, "measure")(sequences[i], rolled, cal, regions, called, params, room)
        for h in range(horizon):
            costs[i, h] = math.nan  # of a state with a NaN entry, even if the cost does not use it
            if is_finite(means[h + 1]):
                seen = function_of(regions, "seen")(h, room)
                costs[i, h] = function_of(called, "stage_cost")(means[h + 1], sequences[i, h], seen, h + 1, horizon, params)


def _roll_out(start, sequences, seed, cal, regions, called, params):
    samples, horizon, da = sequences.shape
    costs = np.empty((samples, horizon))
    for chunk in prange((samples + CHUNK - 1) // CHUNK):
        first = chunk * CHUNK
        stop = min(samples, first + CHUNK)
        rolled = rolled_for(horizon, start.shape[0], da, cal)
        room = function_of(regions, "room_for")(horizon, start.shape[0], cal, regions)
        _roll_out_some(start, sequences, seed, cal, regions, called, params, rolled, room, costs, first, stop)
    return costs


def _step_each(states, actions, noise, called, params):
    for i in range(states.shape[0]):
        function_of(called, "step")(states[i], actions[i], noise[i], params)


@cache
def _kernels(called: Any) -> tuple[Any, Any]:
    """Both kernels for a class of functions: cached on disk in files of their own, if it can be imported."""
    if not called.cached:
        return parallel_kernel(cache=False)(_roll_out), njit(_step_each)
    name = f"{called.__module__}.{called.__name__}"
    return parallel_kernel(cache=True)(renamed(_roll_out, name)), njit(cache=True)(renamed(_step_each, name))


def roll_out(called: Called, start: Any, sequences: Any, seed: Any, cal: Calibrated, regions: Any, params: Any) -> Any:
    """Stage costs (N, H) of sequences (N, H, da) from a state (ds,).

    Particles are rolled through the model; at each step the region of (mean state, action, particles) is measured (Algorithm
    2). Sequence i draws its noise from stream i of the seed.
    """
    kind: Any = type(called)
    return _kernels(kind)[0](start, sequences, seed, cal, regions, called, params)


def step_each(called: Called, states: Any, actions: Any, noise: Any, params: Any) -> None:
    """One step in each of n places, in place: states (n, ds, L), actions (n, da), noise (n, dn, L)."""
    kind: Any = type(called)
    _kernels(kind)[1](states, actions, noise, called, params)


# -- parts of a step ------------------------------------------------------------------------------------------------------


@njit(cache=True)
def rolled_for(horizon, ds, da, cal):
    """Scratch arrays for sequences."""
    states, noise = np.empty((ds, cal.particles)), np.zeros((cal.noise_dims + 3, cal.particles))
    return Rolled(states, np.empty((horizon + 1, ds)), noise, np.empty(ds + da))


@njit(cache=True)
def place(start, states, mean):
    """Put all particles, states (ds, L), and their mean (ds,), at the start."""
    for s in range(states.shape[0]):
        mean[s] = start[s]
        for l in range(states.shape[1]):
            states[s, l] = start[s]


@njit(cache=True)
def draw(noise, key, h, pairs):
    """The standard normals of step h, into noise (2 * pairs or more, L)."""
    for pair in range(pairs):
        normal_rows(noise[2 * pair], noise[2 * pair + 1], key, h * noise.shape[1] * pairs + pair, pairs)


@njit(cache=True)
def average(states, mean):
    """The mean of states (ds, L), into mean (ds,)."""
    for s in range(states.shape[0]):
        value = 0.0
        for l in range(states.shape[1]):
            value += states[s, l]
        mean[s] = value / states.shape[1]


@njit(cache=True)
def is_finite(mean):
    """Whether the sum of a mean state is finite."""
    total = 0.0
    for s in range(mean.shape[0]):
        total += mean[s]
    return math.isfinite(total)


@njit(cache=True)
def take_cloud(states, axes, cloud):
    """The configurations of states (ds, L), into cloud (L, dc)."""
    for axis in range(axes.shape[0]):
        for l in range(states.shape[1]):
            cloud[l, axis] = states[axes[axis], l]


@njit(cache=True)
def put_input(x, mean, action):
    """The calibration's input (ds + da,) from a mean state and an action, into x."""
    for s in range(mean.shape[0]):
        x[s] = mean[s]
    for a in range(action.shape[0]):
        x[mean.shape[0] + a] = action[a]


@njit(cache=True, inline="always")
def threshold(cal, h, m, x):
    """Threshold of stratum m at step h (from 0) for an input x (dx,)."""
    root = cal.roots[min(h, cal.roots.shape[0] - 1), m]
    return cal.step_scale[h] * cal.thresholds[m, find_group(cal.nodes, root, cal.stratum_features, m, x)]


@njit(cache=True, inline="always")
def find_limits(cal, h, mean, action, x, limits):
    """Squared thresholds of all strata at step h (from 0), into limits (M or more,); returns the largest threshold.

    x (ds + da,) is overwritten with the input: the mean state before the step, and the action.
    """
    put_input(x, mean, action)
    reach = -1.0
    for m in range(cal.roots.shape[1]):
        q = threshold(cal, h, m, x)
        limits[m], reach = squared_limit(q), max(reach, q)
    return reach
