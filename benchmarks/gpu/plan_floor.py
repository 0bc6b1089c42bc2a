"""A lower bound on the time of a marble plan on a GPU: its arithmetic, counted from the source, over the card's rate.

Counted are float64 instructions: an addition, a multiplication, a comparison, a conversion, or a fused multiply-add. The
card issues 64 of them per clock on each multiprocessor; half of the "34 TFLOP/s without tensor cores" of its data sheet,
where a fused multiply-add counts twice. Integer work, loads and divergence are extra.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda

from benchmarks.gpu.timing import device_seconds
from capture_cp.planning.cuda.layout import Sizes
from capture_cp.tasks.marble import dynamics

#: Data sheet values of an H200.
INSTRUCTIONS_A_SECOND = 34e12 / 2
BYTES_A_SECOND = 4.8e12

# Instructions of CUDA's library functions on this card, without special cases.
ROOT, LOG, SINE, DIVISION = 8, 30, 18, 10
CHAINS = 8  # independent chains of multiply-adds per thread when rates are measured


def particle_step_instructions(pits: int) -> dict[str, int]:
    """Float64 instructions of one particle's control step away from obstacles, on a map with so many pits."""
    uniform = 3  # convert, add, multiply
    # normal_pair: two uniforms, a radius, an angle, its cosine and sine, two products
    noise = 2 * uniform + (LOG + 1 + ROOT) + 1 + 2 * SINE + 2
    clip = 2
    # dynamics.step: position, velocity (tilt, correction, its growth, time), tilt, each on two axes; the counter
    substep = 2 * (1 + (4 + clip) + (1 + clip)) + 1
    # contents_at: its square (subtract, multiply, compare, convert; on two axes), how far it went (4)
    met = 2 * 4 + 4
    # noise on the action and its clip on two axes; test for a pit or the goal (two differences, two products, compare)
    around = 2 * (1 + clip) + (pits + 1) * 6
    return {"noise": noise, "motion": around + dynamics.SUBSTEPS * (substep + met)}


def region_instructions(sizes: Sizes) -> int:
    """Float64 instructions of a sequence's step for region and cost, if no hazard cell is within reach."""
    means, spread = sizes.state * (sizes.particles + 1), len(sizes.axes) * 2 * sizes.particles
    bounds = 3 * ROOT + 6 + sizes.strata * (ROOT + 4)  # kth_at_most, sure_and_possible
    rows = 8  # runs_within
    cost = 2 * (DIVISION + 5) + 12  # interpolate
    return means + spread + bounds + rows + cost


def floor(samples: int, horizon: int, sizes: Sizes, pits: int) -> dict[str, Any]:
    """Instructions, bytes and minimum time (µs) of one plan.

    Bytes: sequences are written once and read twice, by the rollout and by the average; costs are written and read once.
    """
    each = particle_step_instructions(pits)
    steps = samples * horizon
    instructions = steps * (sizes.particles * sum(each.values()) + region_instructions(sizes))
    data = 8 * samples * (3 * horizon * sizes.action + 2)
    seconds = max(instructions / INSTRUCTIONS_A_SECOND, data / BYTES_A_SECOND)
    return {
        "instructions_per_particle_step": each,
        "instructions_per_sequence_step": region_instructions(sizes),
        "instructions": instructions,
        "bytes": data,
        "floor_us": 1e6 * seconds,
        "bytes_us": 1e6 * data / BYTES_A_SECOND,
        "documented": {"instructions_a_second": INSTRUCTIONS_A_SECOND, "bytes_a_second": BYTES_A_SECOND},
    }


@cuda.jit(cache=True)
def multiply_and_add(out, steps, by):
    """Only multiplications and additions, in CHAINS independent chains."""
    i = cuda.grid(1)
    a, b, c, d = 1.0 * i, 2.0 * i, 3.0 * i, 4.0 * i
    e, f, g, h = 5.0 * i, 6.0 * i, 7.0 * i, 8.0 * i
    for _ in range(steps):
        a, b, c, d = a * by + 1.0, b * by + 1.0, c * by + 1.0, d * by + 1.0
        e, f, g, h = e * by + 1.0, f * by + 1.0, g * by + 1.0, h * by + 1.0
    out[i] = a + b + c + d + e + f + g + h


def measured_rates(blocks: int = 132 * 32, threads: int = 256, steps: int = 4096, numbers: int = 2**26) -> dict[str, float]:
    """Measured rates of the card: float64 multiply-add instructions per second, and bytes per second of a copy."""
    out = cuda.device_array(blocks * threads, np.float64)
    source, target = (cuda.device_array(numbers, np.float64) for _ in range(2))
    arithmetic = min(device_seconds(lambda: multiply_and_add[blocks, threads](out, steps, 0.999)))
    copying = min(device_seconds(lambda: target.copy_to_device(source)))
    return {
        "instructions_a_second": CHAINS * steps * blocks * threads / arithmetic,
        "bytes_a_second": 2 * 8 * numbers / copying,
    }
