"""The marble on the tilting board (Appendix B.1 of the paper), true and approximate: one function with a gain.

A state is (x, vx, y, vy, alpha, beta) in metres, metres per second and radians; an action is two motor speeds. A control
step of 0.1 s has five explicit Euler substeps. Noise is drawn once per control step and added to the action before clipping.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from capture_cp.kernels.borrowed import borrowed
from capture_cp.kernels.compiler import parallel_kernel
from capture_cp.kernels.random import normal_pair, stream
from capture_cp.kernels.scalar import larger
from capture_lab.tasks.marble.contact import clamp, clearance, contents_at, last_free, push_out
from capture_lab.tasks.marble.contact_table import ANYTHING, NOTHING

SUBSTEPS = 5
DT = 0.02
ROLLING = 5.0 / 7.0 * 9.81  # acceleration of a rolling ball per radian of tilt
MAX_ACTION = 0.5
MAX_TILT = 0.175
MAX_SPEED = 0.3
NOISE = 0.05
MODEL_GAIN = 1.0
TRUE_GAIN = 2.0

ROLLS, AT_GOAL, FELL = range(3)
#: Of an uncorrected model and of the true system, see `step`.
NO_PULL = (0.0, 0.0, 0.0, 0.0)

CHUNK = 64  # rows that a thread handles at once; numba optimises a loop that contains `step` itself less reliably


@njit(cache=True)
def _clip(value, bound):
    return math.copysign(bound, value) if abs(value) > bound else value


@njit(cache=True, inline="always")
def stops(x, y, g):
    """What ends the motion here: nothing, the goal or a pit."""
    for number in range(g.pits.shape[0]):
        p = np.uint32(number)
        dx, dy = x - g.pits[p, 0], y - g.pits[p, 1]
        if dx * dx + dy * dy <= g.pits[p, 2] * g.pits[p, 2]:
            return FELL
    dx, dy = x - g.goal[0], y - g.goal[1]
    return AT_GOAL if dx * dx + dy * dy <= g.goal[2] * g.goal[2] else ROLLS


@njit(cache=True, inline="always")
def contact(x0, y0, x, y, vx, vy, g):
    """The end of a move from a free point (x0, y0) to (x, y) with walls, and the velocity there: x, y, vx, vy."""
    if math.isnan(x + y):
        return x, y, vx, vy  # has no square in the table
    away, pieces, dx, dy = larger(abs(x - x0), abs(y - y0)), 1, 0.0, 0.0
    if away > g.radius:  # a thin wall could be passed; this never occurs with the paper's marble
        pieces = math.ceil(away / g.radius)
        dx, dy = (x - x0) / pieces, (y - y0) / pieces
        x, y = x0 + dx, y0 + dy
    for _ in range(pieces):  # a loop also where there is one piece, so that `_arrive` is compiled once
        x0, y0, vx, vy = _arrive(x0, y0, x, y, vx, vy, g)
        x, y = x0 + dx, y0 + dy
    x, y = x0, y0
    # a round corner turns speed from one axis to the other: keep the direction, and the limit on each axis
    fastest = larger(abs(vx), abs(vy))
    if fastest > MAX_SPEED:
        vx, vy = vx * (MAX_SPEED / fastest), vy * (MAX_SPEED / fastest)
    return x, y, vx, vy


@njit(cache=True, inline="always")
def _arrive(x0, y0, x, y, vx, vy, g):
    x1, y1, vx, vy, out_of_walls = push_out(x, y, vx, vy, g)
    if out_of_walls:
        return x1, y1, vx, vy
    # wedged where leaving one wall leads into another: stop on the way in
    x1, y1 = last_free(x0, y0, x, y, g)
    return x1, y1, 0.0, 0.0


@njit(cache=True, inline="always")
def roll(x, vx, y, vy, alpha, beta, u0, u1, pull, late, gain):
    """One substep without obstacles: the next x, vx, y, vy, alpha, beta; `late` counts substeps from the middle one."""
    ax, ay, jx, jy = pull
    x, y = x + DT * vx, y + DT * vy
    vx = _clip(vx - DT * (gain * ROLLING * alpha - ax - late * jx), MAX_SPEED)
    vy = _clip(vy - DT * (gain * ROLLING * beta - ay - late * jy), MAX_SPEED)
    return x, vx, y, vy, _clip(alpha + DT * u0, MAX_TILT), _clip(beta + DT * u1, MAX_TILT)


@njit(cache=True, inline="always")
def meet(x0, y0, x, vx, y, vy, absorb, g):
    """What obstacles do to a move from (x0, y0) to (x, y): x, vx, y, vy and the outcome."""
    outcome, met = ROLLS, contents_at(x0, y0, x, y, g)
    if met != NOTHING:
        if met == ANYTHING:
            x, y, vx, vy = contact(x0, y0, x, y, vx, vy, g)
        else:
            box = np.uint32(met >> 1)
            x, vx = clamp(x, vx, g.boxes[box, 0], g.boxes[box, 1])
            y, vy = clamp(y, vy, g.boxes[box, 2], g.boxes[box, 3])
        if absorb and (met & 1):  # also odd where anything may be met
            outcome = stops(x, y, g)
    return x, vx, y, vy, outcome


@njit(cache=True, inline="always")
def step(x, vx, y, vy, alpha, beta, push0, push1, pull, gain, absorb, g):
    """One control step of one marble under the noisy action (push0, push1): its next state, and the outcome.

    With `absorb`, a marble in a pit or at the goal stays there, checked at every substep. A pull (ax, ay, jx, jy) is an
    acceleration in addition to the tilt's, its mean and its growth per substep; `NO_PULL` costs nothing.
    """
    u0, u1 = _clip(push0, MAX_ACTION), _clip(push1, MAX_ACTION)
    outcome = stops(x, y, g) if absorb else ROLLS
    substep, late = 0, -0.5 * (SUBSTEPS - 1)
    while substep < SUBSTEPS and outcome == ROLLS:
        x0, y0 = x, y
        x, vx, y, vy, alpha, beta = roll(x, vx, y, vy, alpha, beta, u0, u1, pull, late, gain)
        x, vx, y, vy, outcome = meet(x0, y0, x, vx, y, vy, absorb, g)
        substep += 1
        late += 1.0
    if outcome != ROLLS:
        vx, vy = 0.0, 0.0
    return x, vx, y, vy, alpha, beta, outcome


@njit(cache=True)
def _step_rows(states, actions, noise, pull, gain, absorb, g, after, outcomes, start, stop):
    g = borrowed(g)
    for i in range(start, stop):
        x, vx, y, vy, alpha, beta, outcomes[i] = step(
            states[i, 0], states[i, 1], states[i, 2], states[i, 3], states[i, 4], states[i, 5],
            actions[i, 0] + noise[i, 0], actions[i, 1] + noise[i, 1],
            (pull[i, 0], pull[i, 1], pull[i, 2], pull[i, 3]), gain, absorb, g,
        )  # fmt: skip
        after[i, 0], after[i, 1], after[i, 2], after[i, 3], after[i, 4], after[i, 5] = x, vx, y, vy, alpha, beta


@parallel_kernel(cache=True)
def step_all(states, actions, noise, pull, gain, absorb, g):
    """A control step of every marble, `states` (n, 6), with actions, given noise (n, 2) and `pull` acceleration (n, 4).

    Next states (n, 6), outcomes (n,).
    """
    n = states.shape[0]
    after = np.empty_like(states)
    outcomes = np.empty(n, dtype=np.int64)
    for chunk in prange((n + CHUNK - 1) // CHUNK):
        start = chunk * CHUNK
        _step_rows(states, actions, noise, pull, gain, absorb, g, after, outcomes, start, min(n, start + CHUNK))
    return after, outcomes


@njit(cache=True)
def _sample_rows(states, actions, draws, seed, first, first_draw, gain, noise, absorb, g, positions, start, stop):
    g = borrowed(g)
    for i in range(start, stop):
        key = stream(seed, first + i)
        for draw in range(draws):
            n0, n1 = normal_pair(key, first_draw + draw)
            x, _, y, _, _, _, _ = step(
                states[i, 0], states[i, 1], states[i, 2], states[i, 3], states[i, 4], states[i, 5],
                actions[i, 0] + noise * n0, actions[i, 1] + noise * n1, NO_PULL, gain, absorb, g,
            )  # fmt: skip
            positions[i, draw, 0], positions[i, draw, 1] = x, y


@parallel_kernel(cache=True)
def sample_positions(states, actions, draws, seed, first, first_draw, gain, noise, absorb, g):
    """`draws` next positions of every marble under fresh noise: (n, draws, 2).

    Row i uses stream `first + i` of the seed from number `first_draw` on, so the result depends neither on threads nor on
    how rows and draws are batched.
    """
    n = states.shape[0]
    positions = np.empty((n, draws, 2))
    for chunk in prange((n + CHUNK - 1) // CHUNK):
        start = chunk * CHUNK
        stop = min(n, start + CHUNK)
        _sample_rows(states, actions, draws, seed, first, first_draw, gain, noise, absorb, g, positions, start, stop)
    return positions


@parallel_kernel(cache=True)
def clearances(points, g):
    """Signed distance of each point (n, 2) to the nearest obstacle: (n,)."""
    gaps = np.empty(points.shape[0])
    for i in prange(points.shape[0]):
        gaps[i] = clearance(points[i, 0], points[i, 1], g)
    return gaps
