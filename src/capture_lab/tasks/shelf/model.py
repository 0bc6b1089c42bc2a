"""The approximate model: the arm moves as commanded, is stopped by boxes, and slides along them without friction."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.solids import shifted
from capture_lab.tasks.shelf.geometry import (
    angles_of,
    contact_stratum,
    glass_clearance,
    gradient,
    jar_at,
    link_frames,
    pushed_out,
)

#: Control steps per second.
RATE = 10.0
#: Largest distance of any touching part of the arm from the axis of each joint (m).
LEVERS = (0.95, 0.95, 0.7, 0.7, 0.4, 0.4, 0.15)
#: Largest change of a distance when a configuration moves by one radian.
STEEPNESS = float(np.linalg.norm(LEVERS))
#: Substeps after which the arm is moved off obstacles, and how often each time: boards are thin.
PARTS_OF_STEP, ROUNDS = 2, 6
#: The model's assumption for every joint: it moves as commanded, at constant speed; speed and weight have no effect.
BELIEVED = (1.0, 0.0, 0.0, RATE, 0.0, 0.0)


class ShelfParams(NamedTuple):
    """Parameters of the task's compiled functions: the fields of `Solids`, the model's motion, and the objective."""

    fixed: Any
    capsules: Any
    balls: Any
    boxes: Any
    glasses: Any
    tool: Any
    tolerance: float
    depth: float
    limits: Any  #: (2, 7)
    #: (7, 6) for each joint: its move per action, per velocity and per lever of the jar's weight; and the same for its
    #: velocity after the step
    motion: Any
    noise: float  #: standard deviation of the disturbance of an action
    goal: Any  #: (3,)
    away: float  #: weights of the objective, see `ShelfWeights`
    last: float
    lift: float
    upright: float
    effort: float
    glass: float
    margin: float


@njit(cache=True, error_model="numpy", inline="always")
def _inside(angle, limits, i):
    return min(max(angle, limits[0, i]), limits[1, i])


@njit(cache=True, error_model="numpy", inline="always")
def _moved(q, move, share, limits):
    """Angles q (7) after a fraction of a move (7), within limits."""
    return (
        _inside(q[0] + share * move[0], limits, 0), _inside(q[1] + share * move[1], limits, 1),
        _inside(q[2] + share * move[2], limits, 2), _inside(q[3] + share * move[3], limits, 3),
        _inside(q[4] + share * move[4], limits, 4), _inside(q[5] + share * move[5], limits, 5),
        _inside(q[6] + share * move[6], limits, 6),
    )  # fmt: skip


@njit(cache=True, error_model="numpy")
def travelled(fixed, capsules, boxes, limits, q, move):
    """Angles (7) after a move (7) from angles q (7), pushed off boxes on the way; and whether they were pushed."""
    stopped = False
    for _ in range(PARTS_OF_STEP):
        q, pushed = pushed_out(fixed, capsules, boxes, _moved(q, move, 1.0 / PARTS_OF_STEP, limits), ROUNDS)
        stopped = stopped or pushed
    return q, stopped


@njit(cache=True, error_model="numpy", inline="always")
def step(states, action, noise, params):
    """One step of the model, in place: states (14, L) of L particles, action (7,), standard normals (7, L)."""
    fixed, capsules, boxes, limits = params.fixed, params.capsules, params.boxes, params.limits
    motion, sigma = params.motion, params.noise
    weighed = False
    for i in range(7):
        weighed = weighed or motion[i, 2] != 0.0 or motion[i, 5] != 0.0
    for l in range(states.shape[1]):
        q = (states[0, l], states[1, l], states[2, l], states[3, l], states[4, l], states[5, l], states[6, l])
        load = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        if weighed:
            frames = link_frames(fixed, q)
            x, y, z = shifted(frames[6], params.tool[0], params.tool[1], params.tool[2])
            load = gradient(frames, 6, x, y, z, 0.0, 0.0, 1.0)
        move = (
            _way(motion, 0, action, sigma, noise, states, load, l), _way(motion, 1, action, sigma, noise, states, load, l),
            _way(motion, 2, action, sigma, noise, states, load, l), _way(motion, 3, action, sigma, noise, states, load, l),
            _way(motion, 4, action, sigma, noise, states, load, l), _way(motion, 5, action, sigma, noise, states, load, l),
            _way(motion, 6, action, sigma, noise, states, load, l),
        )  # fmt: skip
        after, held = travelled(fixed, capsules, boxes, limits, q, move)
        for i in range(7):
            a, v = action[i] + sigma * noise[i, l], states[7 + i, l]
            held_back = RATE * (after[i] - q[i] - move[i]) if held else 0.0
            states[7 + i, l] = motion[i, 3] * a + motion[i, 4] * v + motion[i, 5] * load[i] + held_back
            states[i, l] = after[i]


@njit(cache=True, error_model="numpy", inline="always")
def _way(motion, i, action, sigma, noise, states, load, l):
    """The move of joint i of particle l without obstacles."""
    commanded = action[i] + sigma * noise[i, l]
    return motion[i, 0] * commanded + motion[i, 1] * states[7 + i, l] + motion[i, 2] * load[i]


@njit(cache=True, error_model="numpy", inline="always")
def hazard(y, params):
    """Signed distance of a configuration y (7,) from touching a glass, less the margin; a lower bound where positive.

    Its sign decides; a larger distance only tells what need not be tested, for which the bound is good enough.
    """
    return _clearance(y, params.margin, params) - params.margin


@njit(cache=True, error_model="numpy", inline="always")
def _clearance(y, within, params):
    frames = link_frames(params.fixed, angles_of(y))
    return glass_clearance(params.capsules, params.balls, params.glasses, frames, within)


@njit(cache=True, error_model="numpy", inline="always")
def stratum(y, params):
    """Stratum of a configuration y (7,), -1 if infeasible."""
    frames = link_frames(params.fixed, angles_of(y))
    return contact_stratum(params.capsules, params.boxes, frames, params.tolerance, params.depth)


@parallel_kernel(cache=True)
def glass_clearances(Y, params):
    """Signed distance of configurations Y (n, 7) from touching a glass, exact up to a decimetre: (n,)."""
    found = np.empty(Y.shape[0])
    for i in prange(Y.shape[0]):
        found[i] = _clearance(Y[i], 0.1, params) - params.margin
    return found


@parallel_kernel(cache=True)
def jars(Y, params):
    """The centre of the jar at configurations Y (n, 7), and how upright it is: (n, 4)."""
    found = np.empty((Y.shape[0], 4))
    for i in prange(Y.shape[0]):
        x, y, z, upright = jar_at(params.fixed, params.tool, angles_of(Y[i]))
        found[i, 0], found[i, 1], found[i, 2], found[i, 3] = x, y, z, upright
    return found


@parallel_kernel(cache=True)
def jar_jacobians(Y, params):
    """Derivative of the jar's centre with respect to each angle at configurations Y (n, 7): (n, 3, 7), m per rad."""
    found = np.empty((Y.shape[0], 3, 7))
    for i in prange(Y.shape[0]):
        frames = link_frames(params.fixed, angles_of(Y[i]))
        x, y, z = shifted(frames[6], params.tool[0], params.tool[1], params.tool[2])
        for axis in range(3):
            row = gradient(frames, 6, x, y, z, 1.0 * (axis == 0), 1.0 * (axis == 1), 1.0 * (axis == 2))
            for j in range(7):
                found[i, axis, j] = row[j]
    return found
