"""Pushing sixteen marbles out of a few walls at once: the arithmetic of `contact.push_out`, to the last bit.

Many square roots and divisions take little longer than one. Every pass is computed for all; flags select whom it moves.
"""

from __future__ import annotations

from numba import njit

from capture_cp.kernels.eight import (
    at_most,
    below,
    bits,
    both,
    chosen,
    either,
    minus,
    over,
    plus,
    root,
    store,
    times,
)  # fmt: skip
from capture_cp.kernels.eight import load_sixteen as load
from capture_cp.kernels.eight import spread_sixteen as spread
from capture_cp.tasks.marble.contact import PASSES, PUSHED, TOLERANCE


@njit(cache=True)
def push_out_lanes(x, y, vx, vy, walls, count, normals, sides, radius, fastest):
    """Push sixteen marbles out of walls (count, 4) and between the `sides` of the board, and limit their speed.

    `walls` must include all that are within two radii of a marble. `normals` (count, 32) is a work array. Returns x, y, vx,
    vy and the marbles that must be moved by `contact.push_out` instead: inside a wall, pushed far, or wedged.
    """
    low_x, high_x, low_y, high_y = sides
    from_x, from_y, none = x, y, spread(-1.0)
    moving, lost, left = at_most(none, none), below(none, none), none
    touching, wall = none, none
    for _ in range(PASSES):
        x, y = clip_lanes(x, spread(low_x), spread(high_x)), clip_lanes(y, spread(low_y), spread(high_y))
        touching, wall, deepest, nx, ny, inside = _deepest(x, y, walls, count, normals, radius)
        lost = either(lost, inside)
        moving = both(moving, at_most(deepest, spread(-PUSHED)))
        if bits(moving) == 0:
            break
        x, y = chosen(moving, minus(x, times(deepest, nx)), x), chosen(moving, minus(y, times(deepest, ny)), y)
        along_x, along_y = _along(vx, vy, nx, ny)
        vx, vy = chosen(moving, along_x, vx), chosen(moving, along_y, vy)
        left = chosen(moving, chosen(at_most(touching, spread(1.0)), wall, none), left)
        lost = either(lost, either(apart(x, from_x, radius), apart(y, from_y, radius)))
        if count == 1 and bits(both(moving, either(at_side(x, low_x, high_x), at_side(y, low_y, high_y)))) == 0:
            moving = below(none, none)  # nothing else can be touched: another pass would find the same
            break
    vx, vy = _without_speed_inwards(x, y, vx, vy, touching, wall, left, count, normals, sides)
    vx, vy = _slowed(vx, vy, spread(fastest))
    return x, y, vx, vy, either(moving, lost)


@njit(cache=True)
def clip_lanes(value, low, high):
    """Values limited to intervals."""
    value = chosen(below(value, low), low, value)
    return chosen(below(high, value), high, value)


@njit(cache=True)
def _deepest(x, y, walls, count, normals, radius):
    """How many walls touch, the last that does, the depth and normal of the deepest, and which marbles are inside one.

    The normals of all walls that touch are written to `normals`, zero for others.
    """
    zero, reach = spread(0.0), spread((radius + TOLERANCE) * (radius + TOLERANCE))
    touching, wall, deepest, nx, ny, inside = zero, spread(-1.0), zero, zero, zero, below(zero, zero)
    for w in range(count):
        dx = minus(x, clip_lanes(x, spread(walls[w, 0]), spread(walls[w, 2])))
        dy = minus(y, clip_lanes(y, spread(walls[w, 1]), spread(walls[w, 3])))
        squared = plus(times(dx, dx), times(dy, dy))
        touches = below(squared, reach)
        ax, ay = zero, zero
        if bits(touches) != 0:
            away = root(squared)
            gap = minus(away, spread(radius))
            ax, ay = chosen(touches, over(dx, away), zero), chosen(touches, over(dy, away), zero)
            inside = either(inside, at_most(squared, zero))
            touching = chosen(touches, plus(touching, spread(1.0)), touching)
            wall = chosen(touches, spread(1.0 * w), wall)
            deeper = both(touches, below(gap, deepest))
            deepest, nx, ny = chosen(deeper, gap, deepest), chosen(deeper, ax, nx), chosen(deeper, ay, ny)
        store(normals, 32 * w, ax)
        store(normals, 32 * w + 16, ay)
    return touching, wall, deepest, nx, ny, inside


@njit(cache=True)
def _along(vx, vy, nx, ny):
    """The velocity without its component against the normal."""
    inward = plus(times(vx, nx), times(vy, ny))
    inward = chosen(below(inward, spread(0.0)), inward, spread(0.0))
    return minus(vx, times(inward, nx)), minus(vy, times(inward, ny))


@njit(cache=True)
def apart(a, b, most):
    """Which numbers differ by more."""
    return either(below(spread(most), minus(a, b)), below(spread(most), minus(b, a)))


@njit(cache=True)
def at_side(x, low, high):
    """Which coordinates are at a side of the board or beyond."""
    return either(below(x, spread(low + TOLERANCE)), below(spread(high - TOLERANCE), x))


@njit(cache=True)
def _off_side(x, vx, surfaces, wanted, low, high):
    """The speed along one axis without that into a side of the board, and the number of surfaces touched."""
    zero, one = spread(0.0), spread(1.0)
    at_low, at_high = both(wanted, below(x, spread(low + TOLERANCE))), both(wanted, below(spread(high - TOLERANCE), x))
    vx = chosen(at_low, chosen(below(zero, vx), vx, zero), vx)
    vx = chosen(at_high, chosen(below(vx, zero), vx, zero), vx)
    surfaces = chosen(at_low, plus(surfaces, one), surfaces)
    return vx, chosen(at_high, plus(surfaces, one), surfaces)


@njit(cache=True)
def _without_speed_inwards(x, y, vx, vy, touching, wall, left, count, normals, sides):
    """The velocity without that into the surfaces which are touched after all passes."""
    one, two = spread(1.0), spread(2.0)
    wanted, surfaces = at_most(one, one), touching
    # a wall that the last pass has left, and nothing else: its part is gone
    anew = either(at_most(two, touching), both(at_most(one, touching), either(below(wall, left), below(left, wall))))
    for _ in range(2):  # twice with several surfaces: leaving one may lead into another
        vx, surfaces = _off_side(x, vx, surfaces, wanted, sides[0], sides[1])
        vy, surfaces = _off_side(y, vy, surfaces, wanted, sides[2], sides[3])
        if bits(both(wanted, anew)) != 0:
            for w in range(count):
                along_x, along_y = _along(vx, vy, load(normals, 32 * w), load(normals, 32 * w + 16))
                vx, vy = chosen(both(wanted, anew), along_x, vx), chosen(both(wanted, anew), along_y, vy)
        wanted, anew = at_most(two, surfaces), at_most(one, touching)
        if bits(wanted) == 0:
            break
    return vx, vy


@njit(cache=True)
def _slowed(vx, vy, most):
    """The velocity with its direction kept, and its components limited."""
    zero = spread(0.0)
    across, down = minus(zero, vx), minus(zero, vy)
    across, down = chosen(below(across, vx), vx, across), chosen(below(down, vy), vy, down)
    fastest = chosen(below(down, across), across, down)
    fast, slower = below(most, fastest), over(most, fastest)
    return chosen(fast, times(vx, slower), vx), chosen(fast, times(vy, slower), vy)
