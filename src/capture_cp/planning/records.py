"""Arguments of the rollout kernels, and the values that they pass to a cost.

Kept apart from the kernels, which are compiled again for every user's functions: these classes must stay the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Calibrated(NamedTuple):
    """A calibration, and how its region is tested."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any  # (S, M): of the steps that have their own trees; the last serves all later steps
    stratum_features: Any
    thresholds: Any  # (M, J): of a group, which may be stricter in one stratum than in another
    rule: int  # see kernels.cells
    length: float
    k: int  # at least this many particles must be near
    count_cells: bool  # count hazard cells in the region
    count_particles: bool  # count particles on hazard cells
    step_scale: Any  # (H,): factor on the thresholds of each step


class Summed(NamedTuple):
    """Which regions are summed, and the sums of strata that are contained entirely."""

    steps: int  # the first steps of a plan
    infeasible: bool  # whether regions include infeasible cells, with the threshold of stratum 0
    sizes: Any  # (M,): cells of each stratum
    totals: Any  # (M,): their summed weights
    whiten: Any  # (dc, dc): of a Gaussian's ellipsoid
    is_angle: Any  # bool (dc,)
    spread: Any  # (dc,): standard deviations


class Seen(NamedTuple):
    """What a stage cost receives about regions and particles."""

    particles: Any  # (H,): mean cost of the particles after each step
    cells: Any  # (n, M + 1): cells of the regions of the first n steps by stratum, infeasible ones last
    sums: Any  # (n,): their summed weights
