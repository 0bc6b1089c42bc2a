"""Vectorised kinematics of many configurations.

A lane is a configuration. Every number of a frame is a row of lanes, and every loop over lanes writes one such row and
reads few, so LLVM turns it into vector instructions. Sums are evaluated in the same order as in `kinematics.place_links`,
so the frames are bit-identical.
"""

from __future__ import annotations

from numba import njit

from capture_cp.kernels.kinematics import BALL, FREE, HINGE, SLIDE, entry_of, turned_row
from capture_cp.kernels.trig import cosine_sine

LANES = 64
#: Rows of the work array `spare`.
WAY, COSINE, SINE = range(3)


@njit(cache=True, error_model="numpy", inline="always")
def _read(column, held, number, Y, first, less, spare, row):
    """An entry of qpos minus a number, for LANES configurations from row `first` of Y (n, dc); the last row is repeated."""
    at, last = column[number], Y.shape[0] - 1
    if at < 0:
        for l in range(LANES):
            spare[row, l] = held[number] - less
    else:
        for l in range(LANES):
            spare[row, l] = Y[min(first + l, last), at] - less


@njit(cache=True, error_model="numpy", inline="always")
def _rotate(frames, k, p, start, xx, yx, zx, xy, yy, zy, xz, yz, zz):
    """A row of the rotation of frame k, from its parent p."""
    for l in range(LANES):
        frames[k, start, l] = frames[p, start, l] * xx + frames[p, start + 1, l] * yx + frames[p, start + 2, l] * zx
    for l in range(LANES):
        frames[k, start + 1, l] = frames[p, start, l] * xy + frames[p, start + 1, l] * yy + frames[p, start + 2, l] * zy
    for l in range(LANES):
        frames[k, start + 2, l] = frames[p, start, l] * xz + frames[p, start + 1, l] * yz + frames[p, start + 2, l] * zz


@njit(cache=True, error_model="numpy", inline="always")
def _turn_about_z(frames, k, start, spare):
    """A row of the rotation of frame k, rotated by angles whose cosines and sines are in `spare`."""
    for l in range(LANES):
        x, y = frames[k, start, l], frames[k, start + 1, l]
        frames[k, start, l] = spare[COSINE, l] * x + spare[SINE, l] * y
        frames[k, start + 1, l] = spare[COSINE, l] * y - spare[SINE, l] * x


@njit(cache=True, error_model="numpy", inline="always")
def _shift(frames, k, p, row, x, y, z):
    """A coordinate of the origin of frame k, from its parent p."""
    a, b, c = 3 + 3 * row, 4 + 3 * row, 5 + 3 * row
    for l in range(LANES):
        frames[k, row, l] = frames[p, row, l] + frames[p, a, l] * x + frames[p, b, l] * y + frames[p, c, l] * z


@njit(cache=True, error_model="numpy", inline="always")
def _slide(frames, k, p, row, x, y, z, dx, dy, dz, spare):
    """Like `_shift`, moved along (dx, dy, dz) by the distances in `spare`."""
    a, b, c = 3 + 3 * row, 4 + 3 * row, 5 + 3 * row
    for l in range(LANES):
        i, j, n = x + spare[WAY, l] * dx, y + spare[WAY, l] * dy, z + spare[WAY, l] * dz
        frames[k, row, l] = frames[p, row, l] + frames[p, a, l] * i + frames[p, b, l] * j + frames[p, c, l] * n


@njit(cache=True, error_model="numpy", inline="always")
def _turn_by_quaternions(column, held, number, Y, first, frames, k):
    for l in range(LANES):
        y = Y[min(first + l, Y.shape[0] - 1)]
        w, i = entry_of(column, held, y, number), entry_of(column, held, y, number + 1)
        j, n = entry_of(column, held, y, number + 2), entry_of(column, held, y, number + 3)
        for s in range(3, 12, 3):
            a, b, c = turned_row(frames[k, s, l], frames[k, s + 1, l], frames[k, s + 2, l], w, i, j, n)
            frames[k, s, l], frames[k, s + 1, l], frames[k, s + 2, l] = a, b, c


@njit(cache=True, error_model="numpy", inline="always")
def place_lanes(parent, kinds, firsts, zero, fixed, axis, column, held, Y, first, frames, spare):
    """Write the frames of LANES configurations, from row `first` of Y (n, dc) on, into `frames` (links + 1, 12, LANES).

    The last frame must be that of the world. `spare` (3, LANES) is overwritten.
    """
    for k in range(parent.shape[0]):
        kind, number = kinds[k], firsts[k]
        p = parent[k] if parent[k] >= 0 else parent.shape[0]
        x, y, z = fixed[k, 0], fixed[k, 1], fixed[k, 2]
        xx, xy, xz, yx, yy = fixed[k, 3], fixed[k, 4], fixed[k, 5], fixed[k, 6], fixed[k, 7]
        yz, zx, zy, zz = fixed[k, 8], fixed[k, 9], fixed[k, 10], fixed[k, 11]
        if kind in (HINGE, SLIDE):
            _read(column, held, number, Y, first, zero[k], spare, WAY)
        if kind == HINGE:
            for l in range(LANES):
                spare[COSINE, l], spare[SINE, l] = cosine_sine(spare[WAY, l])
        for row in range(3):
            if kind == SLIDE:
                _slide(frames, k, p, row, x, y, z, axis[k, 0], axis[k, 1], axis[k, 2], spare)
            else:
                _shift(frames, k, p, row, x, y, z)
            _rotate(frames, k, p, 3 + 3 * row, xx, yx, zx, xy, yy, zy, xz, yz, zz)
            if kind == HINGE:
                _turn_about_z(frames, k, 3 + 3 * row, spare)
        if kind == FREE:
            for row in range(3):
                _read(column, held, number + row, Y, first, 0.0, frames[k], row)
            number += 3
        if kind in (BALL, FREE):
            _turn_by_quaternions(column, held, number, Y, first, frames, k)
