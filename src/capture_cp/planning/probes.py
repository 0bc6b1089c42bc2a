"""Hazards of regions that have no cells: points around the particles are tested one by one.

Half of the points around a particle reach as far as the threshold of its stratum, the other half as far as the largest
threshold. A point in the region is weighted by one over the density of points there, so that sums are volumes. The points
are the same for every region, moved and scaled: the costs of two plans differ because of the plans, not by chance.
"""

from __future__ import annotations

from math import gamma, pi
from typing import Any, NamedTuple

import numpy as np
import scipy

from capture_cp.base.checks import Bools, CaptureError, Floats, whole_number
from capture_cp.base.layouts import CIRCLE, EUCLIDEAN, INTERVAL, LINE, PLANAR, SPATIAL
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, ParticleBox
from capture_cp.planning.hazard import hazard_met, keep_cloud
from capture_cp.planning.kernel import measured_by
from capture_cp.planning.probe_kernel import measure_points, room_for_points
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.metrics import Euclidean, Metric
from capture_cp.spaces.strata import GriddedStrata

POINTS = 64  # around the particles of a region, by default
SEED = 0


class PointHazard(NamedTuple):
    """A hazard of which it is estimated, by points around the particles, how much of a region lies on it.

    Args:
        hazard: numba function `hazard(y, params)` of a configuration (dc,) that returns whether it is on the hazard or its
            signed distance, negative on the hazard; or grid cells, bool (cells,), in a metric that finds no cells.
        stratum: numba function `stratum(y, params)` that returns the stratum number of a configuration (dc,) as in the
            strata of the calibration; needed for strata without a grid.
        points: number of points around the particles; `hazard_error` measures the accuracy.
        steepness: largest change of a signed distance when a configuration moves by 1, if known: regions that are too far
            away are then skipped.
    """

    hazard: Any
    stratum: Any = None
    points: int = POINTS
    steepness: float | None = None


@measured_by(room_for_points, keep_cloud, measure_points, hazard_met)
class Probes(NamedTuple):
    """Points around particles, with the hazard and strata data to test them, in the form kernels need."""

    offsets: Any  # (J, dc): of size at most 1, the same number for every particle
    moves: Any  # (dc, 3), see kernels.probes
    ball: float  # volume of the unit ball of all lines and circles
    unit: float  # volume of a cell, in which the hazard is measured; 0 for the fraction of the region
    steepness: float  # upper bound on the slope of the signed distance; 0 if unknown
    ambient: bool  # whether the region extends into infeasible space
    mask: Any  # bool (cells,), empty for a hazard that is a function
    labels: Any  # int32 (cells,), empty for strata that are a function
    origin: Any
    spacing: Any
    shape: Any
    periodic: Any


def metric_of(score: Any) -> Metric | None:
    """The metric in which points are spread around particles; None for a score without one."""
    if type(score) is NearestParticles:
        return score.metric_
    return Euclidean() if type(score) in (Mahalanobis, ParticleBox) else None


def rule_of(score: Any, dims: int) -> tuple[int, Any, int]:
    """Rule, scale and k by which kernels test the regions of a score."""
    if type(score) is NearestParticles:
        kernel = score.metric_.kernel(dims)
        if kernel is None:
            raise CaptureError(
                f"{score.metric_!r} is not compiled; use a metric of the library or FunctionMetric(njit function)."
            )
        return *kernel, int(score.k)
    return EUCLIDEAN, 1.0, 1


def probes_of(cap: Fitted, hazard: Bools | None, labelled: bool, n_particles: int, given: PointHazard) -> Probes:
    """Points for the regions of a calibration with so many particles; the hazard is a mask, or None for that function."""
    dims, metric = cap.n_outputs_, metric_of(cap.score_)
    assert metric is not None  # checked by the caller
    strata = cap.strata
    grid = strata.grid if isinstance(strata, GriddedStrata) else None
    moves = checked_moves(metric, dims)
    offsets = low_discrepancy(moves, whole_number("points", given.points, 1), n_particles)
    known = _grid_parts(grid, dims)
    mask = np.empty(0, dtype=bool) if hazard is None else hazard
    labels = strata.labels.astype(np.int32) if labelled else np.empty(0, dtype=np.int32)  # type: ignore[attr-defined]
    unit = 0.0 if grid is None else float(grid.cell_volume)
    tested = unit, _checked_steepness(given.steepness), cap.ambient_, mask, labels
    return Probes(offsets, moves, unit_ball(moves), *tested, *known)


def low_discrepancy(moves: Floats, points: int, n_particles: int) -> Floats:
    """Offsets (J, dc) of size at most 1, spread evenly: an even number per particle, `points` or a few more in all.

    Scrambled Sobol' points; consecutive points, which belong to one particle, are also spread evenly among themselves.
    """
    each = 2 * -(-points // (2 * n_particles))
    kinds = moves[:, 0]
    first = _first_of_blocks(kinds)
    together = np.flatnonzero((kinds == LINE) | (kinds == CIRCLE))
    drawn = scipy.stats.qmc.Sobol(len(kinds), rng=SEED).random(_power_of_two(each * n_particles))[: each * n_particles]
    offsets = np.zeros(drawn.shape)
    offsets[:, together] = _in_ball(drawn[:, together])
    for axis in first:
        if kinds[axis] == INTERVAL:
            offsets[:, axis] = 2 * drawn[:, axis] - 1
        elif kinds[axis] == PLANAR:
            offsets[:, axis : axis + 2] = _in_ball(drawn[:, axis : axis + 2])
            offsets[:, axis + 2] = 2 * drawn[:, axis + 2] - 1
        elif kinds[axis] == SPATIAL:
            for begin in (axis, axis + 3):
                offsets[:, begin : begin + 3] = _in_ball(drawn[:, begin : begin + 3])
    return offsets


def unit_ball(moves: Floats) -> float:
    """Volume of the unit ball of all axes that are lines and circles."""
    n = int(np.isin(moves[:, 0], (LINE, CIRCLE)).sum())
    return float(pi ** (n / 2) / gamma(n / 2 + 1))


def check_finite(thresholds: Floats) -> None:
    """Reject infinite thresholds, which points cannot reach."""
    if np.isposinf(thresholds).any():
        raise CaptureError(
            "a group has too few calibration points for a finite threshold, and without grid cells a hazard cannot be "
            "searched for in an unbounded region; calibrate on more transitions, merge rare strata with "
            "Tree(min_stratum=...), or bound the reach of one step with Capture(farthest=...)."
        )


def checked_moves(metric: Metric, dims: int) -> Floats:
    """How a metric moves configurations, (dims, 3), or an error if it defines no reach."""
    moves = np.ascontiguousarray(metric.moves(dims))
    if not np.isfinite(moves).all():
        raise CaptureError(
            f"{metric!r} does not define how far a distance reaches on each axis; give it `axis_reach`, or a method `reach`."
        )
    return moves


def _checked_steepness(given: Any) -> float:
    if given is None:
        return 0.0
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not 0 < float(given) < np.inf:
        raise CaptureError(
            f"steepness is {given!r}; expected None or a positive number: the largest change of the signed distance "
            "when a configuration moves by 1."
        )
    return float(given)


def _grid_parts(grid: Grid | None, dims: int) -> tuple[Any, Any, Any, Any]:
    """Origin, spacing, shape and periodic axes; empty if there is no grid."""
    if grid is None:
        return np.zeros(dims), np.ones(dims), np.zeros(dims, dtype=np.int64), np.zeros(dims, dtype=bool)
    return grid.origin, grid.spacing, np.array(grid.shape, dtype=np.int64), np.isin(np.arange(dims), grid.periodic)


def _first_of_blocks(kinds: Floats) -> list[int]:
    """The axes at which blocks begin."""
    first, axis = [], 0
    while axis < len(kinds):
        first.append(axis)
        axis += {PLANAR: 3, SPATIAL: 7}.get(int(kinds[axis]), 1)
    return first


def _in_ball(drawn: Floats) -> Floats:
    """Points (n, d) of the unit cube, mapped to the unit ball: directions of normals, radii by their chi-square rank."""
    dims = drawn.shape[1]
    if dims == 0:
        return drawn
    normals = scipy.stats.norm.ppf(np.clip(drawn, 1e-12, 1 - 1e-12))
    size = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.asarray(normals / np.maximum(size, 1e-300) * scipy.stats.chi2.cdf(size**2, dims) ** (1 / dims))


def _power_of_two(n: int) -> int:
    """The smallest power of two that is at least n, as Sobol' sequences require."""
    return 1 << (n - 1).bit_length()
