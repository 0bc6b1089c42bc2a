"""What the planner's GPU kernels are given."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sizes(NamedTuple):
    """Constants of a rollout's kernel, which is compiled for them."""

    state: int
    action: int
    noise: int
    particles: int
    axes: tuple[int, ...]  # which entries of the state are the configuration
    strata: int
    rule: int  # by which regions are tested, see kernels.cells
    points: int  # around the particles of a region; 0 where hazard cells are counted
    draws: bool  # whether particles are drawn, or move without noise
    count_cells: bool  # count the hazard in the region
    count_particles: bool  # count particles on the hazard


class DeviceRegions(NamedTuple):
    """A calibration, and how its region is tested."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any  # (S, M): of the steps that have their own trees; the last serves all later steps
    stratum_features: Any
    limits: Any  # (T, M, J): squared thresholds of each step; the last serve all later steps
    length: Any  # of the metric, or a table of its axes
    k: int


class Sampling(NamedTuple):
    """How sequences are drawn."""

    spread: Any  # (da, da): lower triangular
    low: Any  # (da,)
    high: Any


class Plans(NamedTuple):
    """Buffers of B plans, N sequences each."""

    states: Any  # (B, ds + 1): state, temperature
    keys: Any  # (B,): of the random numbers
    nominal: Any  # (B, H, da): to sample around, then the plan
    sequences: Any  # (B, N, H, da)
    stages: Any  # (B, N, H): costs of the steps
    costs: Any  # (B, N)
    lowest: Any  # (B,): lowest cost, -inf if any is not finite
