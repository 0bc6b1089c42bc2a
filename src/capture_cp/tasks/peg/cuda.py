"""The peg on a GPU: fingerprints and the approximate model, one thread each.

The kernels call the functions of the CPU loops, with the same normals as noise.
Import this only when a GPU is used.
"""

from __future__ import annotations

import threading
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numba import cuda

from capture_cp.base.checks import Floats
from capture_cp.cuda.arrays import THREADS, blocks
from capture_cp.cuda.exact import exact_kernel, unfused
from capture_cp.tasks.peg.corrected import Correction, corrected_move
from capture_cp.tasks.peg.cspace import Codes, code_at
from capture_cp.tasks.peg.geometry import Shape
from capture_cp.tasks.peg.model import ModelParams


class _Kept(threading.local):
    """GPU data kept by a thread of this process: buffers, and its stream."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    @cached_property
    def stream(self) -> Any:
        return cuda.stream()


_kept = _Kept()


def buffer(name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """A GPU array that the next call with this name reuses: allocation takes longer than most kernels."""
    arrays = _kept.arrays
    if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != dtype:
        arrays[name] = cuda.device_array(shape, dtype)
    return arrays[name]


def uploaded(name: str, array: Any) -> Any:
    """A copy of a NumPy array in the buffer of this name."""
    there = buffer(name, array.shape, array.dtype)
    there.copy_to_device(np.ascontiguousarray(array), _kept.stream)
    return there


def start(kernel: Any, n_blocks: int, *arguments: Any) -> None:
    """Start a kernel that rounds as the CPU does, after earlier work on the stream."""
    with unfused():
        kernel[n_blocks, THREADS, _kept.stream](*arguments)


def fetched(array: Any) -> Any:
    """A NumPy copy of a buffer, after all work on the stream is done."""
    there = array.copy_to_host(stream=_kept.stream)
    _kept.stream.synchronize()
    return there


# -- fingerprints ---------------------------------------------------------------------------------------------------------


@exact_kernel
def pose_codes(poses, trim, g, codes):
    """Fingerprint of each pose (n, 3), -1 where infeasible."""
    i = cuda.grid(1)
    if i < codes.shape[0]:
        codes[i] = code_at(poses[i, 0], poses[i, 1], poses[i, 2], trim, g)


@exact_kernel
def cell_codes(origin, spacing, rows, angles, trim, g, codes):
    """Fingerprint of every cell of a grid with `rows` cells along z and `angles` along theta, -1 where infeasible."""
    cell = cuda.grid(1)
    if cell < codes.shape[0]:
        column, k = cell // angles, cell % angles
        i, j = column // rows, column % rows
        x, z, theta = origin[0] + i * spacing[0], origin[1] + j * spacing[1], origin[2] + k * spacing[2]
        codes[cell] = code_at(x, z, theta, trim, g)


def codes_of(poses: Floats, trim: float, shape: Shape) -> Codes:
    """Fingerprint of each pose (n, 3), -1 where infeasible: (n,)."""
    codes = buffer("codes", (len(poses),), np.int16)
    start(pose_codes, blocks(len(poses)), uploaded("poses", poses), trim, shape, codes)
    return np.asarray(fetched(codes))


def codes_of_cells(origin: Floats, spacing: Floats, shape: tuple[int, ...], trim: float, g: Shape) -> Codes:
    """Fingerprint of every cell of a grid, -1 where infeasible: (cells,)."""
    codes = cuda.device_array(int(np.prod(shape)), np.int16)
    chosen = tuple(map(float, origin)), tuple(map(float, spacing)), shape[1], shape[2], trim, g, codes
    start(cell_codes, blocks(codes.size), *chosen)
    return np.asarray(fetched(codes))


# -- the model ------------------------------------------------------------------------------------------------------------


@exact_kernel
def step_particles(X, noise, move, friction, params):
    """Particles of inputs X (n, 6), written over the standard normals (n, L, 3) that disturb them."""
    particles = noise.shape[1]
    number = cuda.grid(1)
    if number < X.shape[0] * particles:
        i, l = number // particles, number % particles
        x, z, theta = corrected_move(X[i, :3], X[i, 3:], noise[i, l], move, friction, params)
        noise[i, l, 0], noise[i, l, 1], noise[i, l, 2] = x, z, theta


@lru_cache(maxsize=8)
def moves(correction: Correction) -> Any:
    """The matrix of a correction, (3, 4)."""
    return cuda.to_device(np.array(correction.move))


def step_all(X: Floats, noise: Floats, correction: Correction, params: ModelParams) -> Floats:
    """Particles (n, L, 3) of inputs X (n, 6) under standard normals (n, L, 3)."""
    if not noise.size:
        return np.empty_like(noise)
    there = uploaded("noise", noise)
    chosen = uploaded("inputs", X), there, moves(correction), correction.friction, params
    start(step_particles, blocks(noise.size // 3), *chosen)
    return np.asarray(fetched(there))
