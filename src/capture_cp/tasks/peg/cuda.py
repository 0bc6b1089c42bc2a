"""The peg on a GPU: fingerprints, the approximate model and particles along a plan, a thread each.

The kernels call the functions that the processor's loops call; noise comes from the same normals or the same counters.
Import this only when a GPU is asked for.
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
from capture_cp.kernels.random import stream
from capture_cp.tasks.peg.corrected import Correction, corrected_move
from capture_cp.tasks.peg.cspace import Codes, code_at
from capture_cp.tasks.peg.geometry import Shape
from capture_cp.tasks.peg.model import ModelParams
from capture_cp.tasks.peg.objective import pose_cost
from capture_cp.tasks.peg.planner import rolled

#: Threads of a block that rolls particles: one warp, so that few sequences spread over many multiprocessors.
ROLLING = 32


class _Kept(threading.local):
    """What a thread of this process keeps on the GPU: buffers, its stream and one beside it, an event between the two."""

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}

    @cached_property
    def stream(self) -> Any:
        return cuda.stream()

    @cached_property
    def beside(self) -> Any:
        return cuda.stream()

    @cached_property
    def turn(self) -> Any:
        return cuda.event()


_kept = _Kept()


def buffer(name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    """An array on the GPU that the next call of this name gets again: allocating takes longer than most kernels."""
    arrays = _kept.arrays
    if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != dtype:
        arrays[name] = cuda.device_array(shape, dtype)
    return arrays[name]


def uploaded(name: str, array: Any) -> Any:
    """A copy of a NumPy array in the buffer of this name."""
    there = buffer(name, array.shape, array.dtype)
    there.copy_to_device(np.ascontiguousarray(array), _kept.stream)
    return there


def start(kernel: Any, n_blocks: int, *arguments: Any, threads: int = THREADS, on: Any = None) -> None:
    """Start a kernel that rounds as the processor does, after what was started before on its stream."""
    with unfused():
        kernel[n_blocks, threads, on or _kept.stream](*arguments)


def fetched(array: Any) -> Any:
    """A NumPy copy of a buffer, once everything started on the main stream is done."""
    there = array.copy_to_host(stream=_kept.stream)
    _kept.stream.synchronize()
    return there


# -- fingerprints ---------------------------------------------------------------------------------------------------------


@exact_kernel
def pose_codes(poses, trim, g, codes):  # type: ignore[no-untyped-def]
    """Fingerprint of each pose (n, 3), -1 where infeasible."""
    i = cuda.grid(1)
    if i < codes.shape[0]:
        codes[i] = code_at(poses[i, 0], poses[i, 1], poses[i, 2], trim, g)


@exact_kernel
def cell_codes(origin, spacing, rows, angles, trim, g, codes):  # type: ignore[no-untyped-def]
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
def step_particles(X, noise, move, friction, params):  # type: ignore[no-untyped-def]
    """Particles of inputs X (n, 6), in the place of the standard normals (n, L, 3) that disturb them."""
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


# -- particles along a plan -----------------------------------------------------------------------------------------------


@exact_kernel
def roll(pose, sequences, begin, end, seed, bonuses, move, friction, params, clouds, costs):  # type: ignore[no-untyped-def]
    """Some steps of sequences (N, H, 3), a thread a particle: Ψ (N, H, L), and particles (kept, N, L, 3) after the first.

    The first step starts from the pose, a later one from the particles before it.
    """
    samples, _, particles = costs.shape
    number = cuda.grid(1)
    if number < samples * particles:
        i, l = number // particles, number % particles
        key = np.uint64(stream(seed, i))
        x, z, theta = pose
        if begin > 0:
            x, z, theta = clouds[begin - 1, i, l, 0], clouds[begin - 1, i, l, 1], clouds[begin - 1, i, l, 2]
        for h in range(begin, end):
            x, z, theta = rolled(x, z, theta, sequences[i, h], key, h * particles + l, move, friction, params)
            costs[i, h, l] = pose_cost(x, z, theta, bonuses, params)
            if h < clouds.shape[0]:
                clouds[h, i, l, 0], clouds[h, i, l, 1], clouds[h, i, l, 2] = x, z, theta


@exact_kernel
def mean_costs(costs, mean):  # type: ignore[no-untyped-def]
    """Mean over particles (N, H) of costs (N, H, L), added in the processor's order."""
    number = cuda.grid(1)
    samples, horizon, particles = costs.shape
    if number < samples * horizon:
        i, h = number // horizon, number % horizon
        total = 0.0
        for l in range(particles):
            total += costs[i, h, l] / particles
        mean[i, h] = total


def roll_particles(
    pose: Floats,
    sequences: Floats,
    n_particles: int,
    kept: int,
    seed: int,
    bonuses: bool,
    correction: Correction,
    params: ModelParams,
) -> tuple[Any, Any]:
    """As the processor's, but both stay on the GPU until the next call: particles (kept, N, L, 3), mean Ψ (N, H).

    Steps whose particles are not kept are rolled on a stream of their own, beside what is made of those that are.
    """
    samples, horizon, _ = sequences.shape
    clouds, costs = buffer("clouds", (kept, samples, n_particles, 3)), buffer("costs", (samples, horizon, n_particles))
    mean = buffer("mean", (samples, horizon))
    chosen = np.uint64(seed), bonuses, moves(correction), correction.friction, params
    plan, size = (tuple(map(float, pose)), uploaded("sequences", sequences)), blocks(samples * n_particles, ROLLING)
    start(roll, size, *plan, 0, kept, *chosen, clouds, costs, threads=ROLLING)
    _kept.turn.record(_kept.stream)
    _kept.turn.wait(_kept.beside)
    start(roll, size, *plan, kept, horizon, *chosen, clouds, costs, threads=ROLLING, on=_kept.beside)
    start(mean_costs, blocks(samples * horizon), costs, mean, on=_kept.beside)
    return clouds, mean
