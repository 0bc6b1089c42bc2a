"""Action sequences on the GPU, drawn around a nominal plan."""

from __future__ import annotations

from numba import cuda

from capture_cp.kernels.random import normal_pair
from capture_cp.kernels.scalar import clip


@cuda.jit(device=True, cache=True)
def draw_action(plans, sampling, key, row, i, h, da, normals):
    """Draw the action (da,) of sequence i at step h around the nominal plan, within bounds; `normals` is scratch."""
    pairs = (da + 1) // 2
    for pair in range(pairs):
        normals[2 * pair], normals[2 * pair + 1] = normal_pair(key, h * pairs + pair)
    for a in range(da):
        action = plans.nominal[row, h, a]
        for b in range(a + 1):
            action += sampling.spread[a, b] * normals[b]
        plans.sequences[row, i, h, a] = clip(action, sampling.low[a], sampling.high[a])
