"""The data of the planner's GPU kernels, and how their threads are divided."""

from __future__ import annotations

from typing import Any, NamedTuple

from capture_cp.base.checks import CaptureError
from capture_cp.base.layouts import EUCLIDEAN

WARP = 32
THREADS = 128  # of a block that rolls out
CHUNK = 6  # maximum number of steps that particles advance before the lanes compute regions and costs
SHARED_BYTES = 48 * 1024  # shared memory of a block without an explicit request for more
LINE = 16  # numbers in a line of the cache: what blocks write for each other must not share one
COMBINING = 256  # threads of a block that averages, and sequences that it handles


class Sizes(NamedTuple):
    """Sizes that the kernels are compiled for."""

    state: int
    action: int
    noise: int
    particles: int
    axes: tuple[int, ...]  # which entries of the state are the configuration
    strata: int
    points: int = 0  # around the particles of a region; 0 where hazard cells are counted
    rule: int = EUCLIDEAN  # by which cells are tested, see kernels.cells: what another rule needs is not compiled


class DeviceRegions(NamedTuple):
    """A calibration, and how its region is tested."""

    nodes: Any  # the partition, see kernels.tree
    roots: Any  # (S, M): of the steps that have their own trees; the last serves all later steps
    stratum_features: Any
    limits: Any  # (T, M, J): thresholds of each step in the form kernels compare; the last serve all later steps
    thresholds: Any  # (T, M, J): the same thresholds, unconverted
    widest: Any  # float32 (T,): the largest of each step, or more
    rule: int
    length: Any  # of the metric, or a table of its axes
    k: int
    count_cells: bool
    count_particles: bool


class Plans(NamedTuple):
    """Buffers of B plans, N sequences each."""

    states: Any  # (B, ds + 1): state, temperature
    keys: Any  # (B,): of the random numbers
    nominal: Any  # (B, H, da): to sample around, then the plan
    sequences: Any  # (B, N, H, da)
    costs: Any  # (B, N)
    stages: Any  # (B, N, H): costs of the steps
    partial: Any  # (B, blocks, 2 + H * da or more): lowest cost, sum of weights, weighted sums
    done: Any  # (B,): blocks that have written their sums
    trouble: Any  # (B, 2): number of sequences with a non-finite cost, first such step
    lowest: Any  # (B,): lowest cost


class Sampling(NamedTuple):
    """How sequences are drawn."""

    spread: Any  # (da, da): lower triangular
    low: Any  # (da,)
    high: Any


class Shared(NamedTuple):
    """Shared memory through which the threads of a block exchange data of the current steps of its G sequences."""

    sums: Any  # (G, DS, LANES + 1): sums over a lane's particles after the current step
    cloud: Any  # (G, STEPS, L, DC): configurations of the particles
    x: Any  # (G, STEPS + 1, DS + DA): mean state before each step, and its action
    close: Any  # (G, STEPS): particles that may be within the largest threshold of a hazard cell
    counts: Any  # (G, STEPS): hazard cells in the region, and particles on the hazard
    number: Any  # (1,): of regions that may have hazard cells
    listed: Any  # (G * STEPS,): these regions, each as the number of its sequence and, in the last bits, of its step
    squares: Any  # (G, STEPS, L): squared distances of the particles from the mean
    offsets: Any  # float32 (G, STEPS, L, DC): of the particles from the mean, in spacings of the last axis
    bounds: Any  # (G, STEPS, 2): distances from the mean of the k-th nearest and of the k-th farthest particle, or more
    limits: Any  # (G, STEPS, M + 1): squared thresholds, and none for infeasible cells
    near: Any  # (G, STEPS, M): distance from the centre within which all cells are inside
    far: Any  # (G, STEPS, M): distance beyond which no cell is; for metrics other than the Euclidean, the thresholds
    runs: Any  # (G * STEPS, 2): first run of hazard cells that a listed region may reach, and one after the last
    begins: Any  # (G * STEPS + 1,): how many runs the regions before each listed one may reach
    radii: Any  # (G, STEPS, 3, L + 1) where points are tested: reach squared, reach, and one over the volume
    weights: Any  # (G, STEPS, 2, LANES): weight of a lane's points in the region, on the hazard and in total


class Work(NamedTuple):
    """Buffers between the kernels that sum over regions, for B plans of N sequences each."""

    states: Any  # (B, N, H, ds, L): of the particles after each step
    alone: Any  # (B, N, ds, 1): of a Gaussian's mean after the first step
    particles: Any  # (B, N, H): their mean cost
    clouds: Any  # (B * N * n, L, dc): configurations after the first steps, or a Gaussian's mean
    limits: Any  # (B * N * n, M + 1)
    first: Any  # (B * N * n, dc): index boxes
    extent: Any
    cells: Any  # (B, N, n, M + 1)
    sums: Any  # (B, N, n)


class Layout(NamedTuple):
    """How a block of threads is divided."""

    lanes: int  # lanes of a warp that share a sequence
    groups: int  # sequences of a block
    steps: int  # steps that particles advance before regions and costs are computed, no more than lanes


def layout_of(sizes: Sizes) -> Layout:
    """One lane per particle if they fit, with a minimum for testing hazard cells; as many sequences and steps as fit."""
    lanes = WARP // 2 if sizes.particles <= WARP // 2 else WARP
    for threads in (THREADS, THREADS // 2, WARP):
        for steps in range(min(CHUNK, lanes), 0, -1):
            layout = Layout(lanes, threads // lanes, steps)
            if _shared_bytes(sizes, layout) <= SHARED_BYTES:
                return layout
    raise CaptureError(
        f"{sizes.particles} particles of {sizes.state} numbers do not fit into the shared memory of a GPU; use fewer."
    )


def _shared_bytes(sizes: Sizes, layout: Layout) -> int:
    """Bytes of the shared arrays of `roll_out`."""
    ds, da, _, particles, axes, strata, points, _ = sizes
    a_step = particles * (len(axes) + 1) + 3 * strata + 3
    a_step += 3 * (particles + 1) + 2 * layout.lanes if points else 5
    numbers = layout.steps * a_step + (layout.steps + 1) * (ds + da) + ds * (layout.lanes + 1)
    small = layout.steps * (particles * len(axes) + 6)
    return layout.groups * (8 * numbers + 4 * small) + 8
