"""One control step of many particles under one action, sixteen at once in SIMD, with obstacles only where they are near.

The results are those of `dynamics.step` for each particle, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from capture_cp.kernels.eight import (
    SIXTEEN,
    at_most,
    below,
    bits,
    both,
    chosen,
    either,
    lowest,
    minus,
    plus,
    sixteen_flags,
    store,
    times,
)  # fmt: skip
from capture_cp.kernels.eight import load_sixteen as load
from capture_cp.kernels.eight import spread_sixteen as spread
from capture_cp.kernels.scratch import scratch
from capture_cp.tasks.marble.contact import TOLERANCE, contents_at
from capture_cp.tasks.marble.contact_blocks import LEVELS
from capture_cp.tasks.marble.contact_lanes import apart, at_side, clip_lanes, push_out_lanes
from capture_cp.tasks.marble.contact_table import ANYTHING, NOTHING
from capture_cp.tasks.marble.dynamics import DT, MAX_ACTION, MAX_SPEED, MAX_TILT, ROLLING, SUBSTEPS, contact

_WIDEST = 2 ** (LEVELS - 1)
_MOST_WALLS = 8  # that are tested for sixteen particles at once
_ALL = np.uint64((1 << SIXTEEN) - 1)


# -- where the particles are --------------------------------------------------------------------------------------------


@njit(cache=True)
def _index(x, corner, per_pitch):
    """Row or column of a square of the contact table, negative if it is not one."""
    u = (x - corner) * per_pitch
    return np.int64(u) if 0.0 <= u < 1e6 else -1


@njit(cache=True)
def _within(x, y, circle_x, circle_y, radius):
    """The particles within a circle."""
    dx, dy = minus(x, spread(circle_x)), minus(y, spread(circle_y))
    return at_most(plus(times(dx, dx), times(dy, dy)), spread(radius * radius))


@njit(cache=True)
def _at_wall(x, y, low_x, low_y, high_x, high_y, radius):
    """The particles that touch a wall."""
    dx = minus(x, clip_lanes(x, spread(low_x), spread(high_x)))
    dy = minus(y, clip_lanes(y, spread(low_y), spread(high_y)))
    return below(plus(times(dx, dx), times(dy, dy)), spread((radius + TOLERANCE) * (radius + TOLERANCE)))


@njit(cache=True, inline="always")
def _block_at(i0, i1, j0, j1, g):
    """Contents of the block of squares from (i0, j0) to (i1, j1)."""
    size = max(i1 - i0, j1 - j0)
    if i0 < 0 or j0 < 0 or i1 >= g.blocks.shape[1] or j1 >= g.blocks.shape[2] or size >= _WIDEST:
        return ANYTHING
    level = (size > 0) + (size > 1) + (size > 3) + (size > 7)
    return g.blocks[np.uint32(level), np.uint32(i0), np.uint32(j0)]


@njit(cache=True, inline="always")
def _walls_around(x0, x1, y0, y1, walls, g):
    """Copy the walls that are within two radii of a box, and return their number, -1 if there are too many."""
    margin, count = 2.0 * g.radius + TOLERANCE, 0
    for w in range(g.walls.shape[0]):
        across = g.walls[w, 0] <= x1 + margin and g.walls[w, 2] >= x0 - margin
        if across and g.walls[w, 1] <= y1 + margin and g.walls[w, 3] >= y0 - margin:
            if count == _MOST_WALLS:
                return -1
            for side in range(4):
                walls[count, side] = g.walls[w, side]
            count += 1
    return count


@njit(cache=True, inline="always")
def _boxes_of(some, before, after, box, g):
    """The boxes of some particles, into box (4, 16), and those in contact with more than flat surfaces, as bits."""
    in_contact = np.uint64(0)
    for l in range(SIXTEEN):
        if some >> np.uint64(l) & np.uint64(1):
            met = contents_at(before[0, l], before[1, l], after[0, l], after[1, l], g)
            if met == ANYTHING:
                in_contact |= np.uint64(1) << np.uint64(l)
            else:
                for side in range(4):
                    box[side, l] = g.boxes[np.uint32(met >> 1), side]
    return in_contact


# -- moves --------------------------------------------------------------------------------------------------------------


@njit(cache=True)
def _clamp(x, vx, low, high):
    """`contact.clamp`."""
    zero, hair = spread(0.0), spread(TOLERANCE)
    vx = chosen(both(below(x, plus(low, hair)), below(vx, zero)), zero, vx)
    vx = chosen(both(below(minus(high, hair), x), below(zero, vx)), zero, vx)
    return clip_lanes(x, low, high), vx


@njit(cache=True)
def limited(value, bound):
    """Numbers limited to the interval from -bound to bound."""
    return clip_lanes(value, spread(-bound), spread(bound))


@njit(cache=True)
def faster(vx, alpha, gain):
    """The speed after a substep."""
    return limited(minus(vx, times(spread(DT), times(spread(gain * ROLLING), alpha))), MAX_SPEED)


@njit(cache=True)
def push(action, noise, spread_of_noise):
    """The change of the tilt in a substep."""
    pushed = plus(spread(action), times(spread(spread_of_noise), noise))
    return times(spread(DT), limited(pushed, MAX_ACTION))


@njit(cache=True)
def _put(rows, x, y):
    store(rows, 0, x)
    store(rows, SIXTEEN, y)


@njit(cache=True, inline="always")
def _one_by_one(some, before, after, speed, g):
    """Contact of some particles that cannot be computed together; after (2, 16) and speed (2, 16) are changed."""
    for l in range(SIXTEEN):
        if some >> np.uint64(l) & np.uint64(1):
            after[0, l], after[1, l], speed[0, l], speed[1, l] = contact(
                before[0, l], before[1, l], after[0, l], after[1, l], speed[0, l], speed[1, l], g
            )  # fmt: skip


@njit(cache=True, inline="always")
def _meet_walls(x, y, vx, vy, in_contact, far, count, room, g):
    """The ends of moves into walls, and the velocities there, of the particles that are in contact: x, y, vx, vy."""
    sides = g.bounds[0], g.bounds[1], g.bounds[2], g.bounds[3]
    x1, y1, vx1, vy1, lost = push_out_lanes(x, y, vx, vy, room.walls, count, room.normals, sides, g.radius, MAX_SPEED)
    alone = in_contact if count < 0 else in_contact & bits(either(lost, far))
    if alone:
        _put(room.after, x, y)
        _put(room.speed, vx, vy)
        _one_by_one(alone, room.before, room.after, room.speed, g)
        picked = sixteen_flags(alone)
        x1, y1 = chosen(picked, load(room.after, 0), x1), chosen(picked, load(room.after, SIXTEEN), y1)
        vx1, vy1 = chosen(picked, load(room.speed, 0), vx1), chosen(picked, load(room.speed, SIXTEEN), vy1)
    touching = sixteen_flags(in_contact)
    return chosen(touching, x1, x), chosen(touching, y1, y), chosen(touching, vx1, vx), chosen(touching, vy1, vy)


# -- a step -------------------------------------------------------------------------------------------------------------


class _Room(NamedTuple):
    """Work arrays."""

    walls: Any  # (_MOST_WALLS, 4)
    normals: Any  # (_MOST_WALLS, 32)
    box: Any  # (4, 16): surfaces around each particle
    before: Any  # (2, 16): x and y before a substep
    after: Any  # (2, 16): x and y after it
    speed: Any  # (2, 16)


@njit(cache=True, inline="always")
def _in_pits(x, y, g):
    found = below(spread(0.0), spread(0.0))
    for pit in range(g.pits.shape[0]):
        found = either(found, _within(x, y, g.pits[pit, 0], g.pits[pit, 1], g.pits[pit, 2]))
    return found


@njit(cache=True, inline="always")
def _stopped(x, y, vx, vy, ended, g):
    """Stop the particles in a pit, and those at the goal, in its centre: x, y, vx, vy and all that have ended."""
    fell, arrived, zero = _in_pits(x, y, g), _within(x, y, g.goal[0], g.goal[1], g.goal[2]), spread(0.0)
    x, y = chosen(fell, x, chosen(arrived, spread(g.goal[0]), x)), chosen(fell, y, chosen(arrived, spread(g.goal[1]), y))
    ended = either(ended, either(fell, arrived))
    return x, y, chosen(ended, zero, vx), chosen(ended, zero, vy), ended


@njit(cache=True, inline="always")
def _touching(x1, y1, far, x_low, x_high, y_low, y_high, room, g):
    """The particles at (x1, y1) that touch something, as bits, and how many walls are around the box that holds all.

    The walls are in `room`; there are -1 if they are too many or if a particle is not a number.
    """
    count = -1
    if x_low <= x_high and y_low <= y_high:
        count = _walls_around(x_low, x_high, y_low, y_high, room.walls, g)
    touching = either(at_side(x1, g.bounds[0], g.bounds[1]), at_side(y1, g.bounds[2], g.bounds[3]))
    for w in range(count):
        wall = room.walls[w]
        touching = either(touching, _at_wall(x1, y1, wall[0], wall[1], wall[2], wall[3], g.radius))
    return _ALL if count < 0 else bits(either(touching, far)), count


@njit(cache=True, inline="always")
def _step_some(x, vx, y, vy, alpha, beta, push0, push1, gain, room, g):
    """A control step of sixteen particles."""
    nothing = below(push0, push0)
    x, y, vx, vy, ended = _stopped(x, y, vx, vy, nothing, g)
    quick = 1.001 * MAX_SPEED
    hasty = DT * quick > g.radius or bits(either(apart(vx, spread(0.0), quick), apart(vy, spread(0.0), quick))) != 0
    for _ in range(SUBSTEPS):
        if bits(ended) == _ALL:
            break
        x1, y1 = plus(x, times(spread(DT), vx)), plus(y, times(spread(DT), vy))
        x_low, x_high, y_low, y_high = lowest(x1, minus(spread(0.0), x1), y1, minus(spread(0.0), y1))
        i0, i1 = _index(x_low, g.corner[0], g.per_pitch), _index(-x_high, g.corner[0], g.per_pitch)
        j0, j1 = _index(y_low, g.corner[1], g.per_pitch), _index(-y_high, g.corner[1], g.per_pitch)
        met = ANYTHING if hasty else _block_at(i0, i1, j0, j1, g)
        around, in_contact, count, far = np.uint32(NOTHING if met == ANYTHING else met >> 1), np.uint64(0), 0, nothing
        low_x, high_x = spread(g.boxes[around, 0]), spread(g.boxes[around, 1])
        low_y, high_y = spread(g.boxes[around, 2]), spread(g.boxes[around, 3])
        if met == ANYTHING:
            if hasty:
                far = either(apart(x1, x, g.radius), apart(y1, y, g.radius))
            touching, count = _touching(x1, y1, far, x_low, -x_high, y_low, -y_high, room, g)
            touching &= ~bits(ended)
            if touching:
                _put(room.before, x, y)
                _put(room.after, x1, y1)
                for side in range(4):
                    store(room.box, SIXTEEN * side, spread(-math.inf if side % 2 == 0 else math.inf))
                in_contact = _boxes_of(touching, room.before, room.after, room.box, g)
                low_x, high_x = load(room.box, 0), load(room.box, SIXTEEN)
                low_y, high_y = load(room.box, 2 * SIXTEEN), load(room.box, 3 * SIXTEEN)
        x1, vx1 = _clamp(x1, faster(vx, alpha, gain), low_x, high_x)
        y1, vy1 = _clamp(y1, faster(vy, beta, gain), low_y, high_y)
        if in_contact:
            x1, y1, vx1, vy1 = _meet_walls(x1, y1, vx1, vy1, in_contact, far, count, room, g)
        x, y, vx, vy = chosen(ended, x, x1), chosen(ended, y, y1), chosen(ended, vx, vx1), chosen(ended, vy, vy1)
        alpha = chosen(ended, alpha, limited(plus(alpha, push0), MAX_TILT))
        beta = chosen(ended, beta, limited(plus(beta, push1), MAX_TILT))
        if met & 1:  # also odd where anything may be met
            x, y, vx, vy, ended = _stopped(x, y, vx, vy, ended, g)
    return x, vx, y, vy, alpha, beta


@njit(cache=True, inline="always")
def step_lanes(states, action, noise, spread_of_noise, gain, g):
    """One control step of all particles, states (6, L), in place; pits and the goal stop a particle.

    The noise, standard normals (2, L), is scaled. Both arrays are C-contiguous.
    """
    room = _Room(
        scratch(_MOST_WALLS, 4), scratch(_MOST_WALLS, 32), scratch(4, SIXTEEN), scratch(2, SIXTEEN), scratch(2, SIXTEEN),
        scratch(2, SIXTEEN),
    )  # fmt: skip
    few = scratch(8, SIXTEEN)
    count = states.shape[1]
    for first in range(0, count, SIXTEEN):
        rest = count - first
        if rest < SIXTEEN:  # the last particle repeated
            for l in range(SIXTEEN):
                for s in range(6):
                    few[s, l] = states[s, first + min(l, rest - 1)]
                for s in range(2):
                    few[6 + s, l] = noise[s, first + min(l, rest - 1)]
            x, vx, y, vy = load(few, 0), load(few, 16), load(few, 32), load(few, 48)
            alpha, beta, noise0, noise1 = load(few, 64), load(few, 80), load(few, 96), load(few, 112)
        else:
            x, vx = load(states, first), load(states, count + first)
            y, vy = load(states, 2 * count + first), load(states, 3 * count + first)
            alpha, beta = load(states, 4 * count + first), load(states, 5 * count + first)
            noise0, noise1 = load(noise, first), load(noise, count + first)
        push0, push1 = push(action[0], noise0, spread_of_noise), push(action[1], noise1, spread_of_noise)
        x, vx, y, vy, alpha, beta = _step_some(x, vx, y, vy, alpha, beta, push0, push1, gain, room, g)
        if rest < SIXTEEN:
            store(few, 0, x)
            store(few, 16, vx)
            store(few, 32, y)
            store(few, 48, vy)
            store(few, 64, alpha)
            store(few, 80, beta)
            for l in range(rest):
                for s in range(6):
                    states[s, first + l] = few[s, l]
        else:
            store(states, first, x)
            store(states, count + first, vx)
            store(states, 2 * count + first, y)
            store(states, 3 * count + first, vy)
            store(states, 4 * count + first, alpha)
            store(states, 5 * count + first, beta)
