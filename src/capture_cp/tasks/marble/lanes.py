"""One control step of many particles under one action: free motion of all in SIMD, obstacles only for those near them.

The results are those of `dynamics.step` for each particle. Sets of particles are bits of an integer, so that no memory is
needed for them.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from capture_cp.kernels.compiler import SeparateArrays
from capture_cp.kernels.scalar import clip, larger
from capture_cp.kernels.scratch import scratch
from capture_cp.tasks.marble.contact import clamp, contents_at, touches
from capture_cp.tasks.marble.contact_table import ANYTHING, ONLY_ENDS
from capture_cp.tasks.marble.dynamics import AT_GOAL, DT, MAX_ACTION, SUBSTEPS, contact, roll, stops

#: Particles that are handled together: the bits of an integer.
LANES = 64

_NONE = np.uint64(0)
_ONE = np.uint64(1)
_NO_EXTRA = (0.0, 0.0, 0.0, 0.0)


@njit(cache=True)
def _bit(l):
    return _ONE << np.uint64(l)


@njit(cache=True, forceinline=True, pipeline_class=SeparateArrays)
def _within(x, y, circle_x, circle_y, radius):
    """The particles within a circle."""
    found = _NONE
    for l in range(x.shape[0]):
        dx, dy = x[l] - circle_x, y[l] - circle_y
        found |= _bit(l) if dx * dx + dy * dy <= radius * radius else _NONE
    return found


@njit(cache=True, inline="always")
def _find_boxes(x, vx, y, vy, low_x, high_x, low_y, high_y, g):
    """The flat surfaces around each particle after the next substep, and two sets: in contact otherwise; near an end."""
    in_contact, near_end = _NONE, _NONE
    for l in range(x.shape[0]):
        x1, y1 = x[l] + DT * vx[l], y[l] + DT * vy[l]
        met = contents_at(x[l], y[l], x1, y1, g)
        if met == ANYTHING:
            far = larger(abs(x1 - x[l]), abs(y1 - y[l])) > g.radius
            in_contact |= _bit(l) if far or touches(x1, y1, g) else _NONE
            met = ONLY_ENDS
        near_end |= _bit(l) if met & 1 else _NONE
        box = np.uint32(met >> 1)
        low_x[l], high_x[l] = g.boxes[box, 0], g.boxes[box, 1]
        low_y[l], high_y[l] = g.boxes[box, 2], g.boxes[box, 3]
    return in_contact, near_end


@njit(cache=True, forceinline=True, pipeline_class=SeparateArrays)
def _roll_others(
    x, vx, y, vy, alpha, beta, noise0, noise1, low_x, high_x, low_y, high_y, push0, push1, spread, gain, left_out
):  # fmt: skip
    """A substep between flat surfaces of the particles that are not left out."""
    for l in range(x.shape[0]):
        u0 = clip(push0 + spread * noise0[l], -MAX_ACTION, MAX_ACTION)
        u1 = clip(push1 + spread * noise1[l], -MAX_ACTION, MAX_ACTION)
        x1, vx1, y1, vy1, alpha1, beta1 = roll(
            x[l], vx[l], y[l], vy[l], alpha[l], beta[l], u0, u1, _NO_EXTRA, 0.0, gain
        )  # fmt: skip
        x1, vx1 = clamp(x1, vx1, low_x[l], high_x[l])
        y1, vy1 = clamp(y1, vy1, low_y[l], high_y[l])
        moves = (left_out & _bit(l)) == _NONE
        x[l], vx[l], y[l] = x1 if moves else x[l], vx1 if moves else vx[l], y1 if moves else y[l]
        vy[l], alpha[l] = vy1 if moves else vy[l], alpha1 if moves else alpha[l]
        beta[l] = beta1 if moves else beta[l]


@njit(cache=True, inline="always")
def _at_ends(x, y, g):
    """The particles in a pit or at the goal."""
    found = _within(x, y, g.goal[0], g.goal[1], g.goal[2])
    for pit in range(g.pits.shape[0]):
        found |= _within(x, y, g.pits[pit, 0], g.pits[pit, 1], g.pits[pit, 2])
    return found


@njit(cache=True, inline="always")
def _stop(x, vx, y, vy, some, g):
    """Stop the particles that are in a pit or at the goal; there, they are moved to its centre."""
    for l in range(x.shape[0] if some else 0):
        if some & _bit(l):
            vx[l], vy[l] = 0.0, 0.0
            if stops(x[l], y[l], g) == AT_GOAL:
                x[l], y[l] = g.goal[0], g.goal[1]


@njit(cache=True, inline="always")
def _step_some(x, vx, y, vy, alpha, beta, noise0, noise1, action, spread, gain, g):
    """A control step of up to LANES particles."""
    box = scratch(4, LANES)
    every = ~_NONE >> np.uint64(LANES - x.shape[0])
    ended = _at_ends(x, y, g)
    _stop(x, vx, y, vy, ended, g)
    for _ in range(SUBSTEPS):
        if ended == every:
            break
        in_contact, near_end = _find_boxes(x, vx, y, vy, box[0], box[1], box[2], box[3], g)
        in_contact &= ~ended
        for l in range(x.shape[0] if in_contact else 0):
            if in_contact & _bit(l):
                x0, y0 = x[l], y[l]
                u0 = clip(action[0] + spread * noise0[l], -MAX_ACTION, MAX_ACTION)
                u1 = clip(action[1] + spread * noise1[l], -MAX_ACTION, MAX_ACTION)
                x1, vx1, y1, vy1, alpha[l], beta[l] = roll(
                    x0, vx[l], y0, vy[l], alpha[l], beta[l], u0, u1, _NO_EXTRA, 0.0, gain
                )  # fmt: skip
                x[l], y[l], vx[l], vy[l] = contact(x0, y0, x1, y1, vx1, vy1, g)
        _roll_others(
            x, vx, y, vy, alpha, beta, noise0, noise1, box[0], box[1], box[2], box[3],
            action[0], action[1], spread, gain, ended | in_contact,
        )  # fmt: skip
        if near_end & ~ended:
            ending = _at_ends(x, y, g) & ~ended
            _stop(x, vx, y, vy, ending, g)
            ended |= ending


@njit(cache=True, inline="always")
def step_lanes(states, action, noise, spread, gain, g):
    """One control step of all particles, states (6, L), in place; pits and the goal stop a particle.

    The noise, standard normals (2, L), is scaled by `spread`.
    """
    for first in range(0, states.shape[1], LANES):
        some = slice(first, min(first + LANES, states.shape[1]))
        _step_some(
            states[0, some], states[1, some], states[2, some], states[3, some], states[4, some], states[5, some],
            noise[0, some], noise[1, some], action, spread, gain, g,
        )  # fmt: skip
