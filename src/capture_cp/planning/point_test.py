"""Regions tested by points in Python, and the accuracy of such estimates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, positive_number, whole_number
from capture_cp.base.streams import Randomness, generator
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.scores import ParticleBox
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.kernels.probes import ask_each, spread_points, volumes_within, weights_inside
from capture_cp.planning.probes import (
    POINTS,
    check_finite,
    checked_moves,
    low_discrepancy,
    metric_of,
    rule_of,
    unit_ball,
)
from capture_cp.spaces.strata import GriddedStrata

FINER = 64  # factor on the number of points for the reference estimate


class PointTest:
    """How much of every region lies on a hazard given as a function: (n,), a fraction or a number of cells.

    Args:
        cap: calibrated predictor whose regions are tested, with a particle score.
        hazard: returns whether configurations (n, dc) are on the hazard, bool (n,), or their signed distances from it.
        points: number of points around the particles of a region.
        farthest: replaces an infinite threshold: distance from its particles up to which an unbounded region is searched;
            with None such a region raises an error.
    """

    def __init__(self, cap: Fitted, hazard: Callable[[Floats], Any], points: int, farthest: float | None = None) -> None:
        metric = metric_of(cap.score_)
        if metric is None:
            raise CaptureError(f"no hazard function for {cap.score_!r}, whose regions have no points; use NearestParticles.")
        self.cap, self.hazard, self.alone = cap, hazard, type(cap.score_) is ParticleBox
        self.farthest = None if farthest is None else positive_number("farthest", farthest)
        self.moves = checked_moves(metric, cap.n_outputs_)
        self.ball, self.rule = unit_ball(self.moves), rule_of(cap.score_, cap.n_outputs_)
        self.offsets = low_discrepancy(self.moves, whole_number("points", points, 1), cap.n_particles)
        strata = cap.strata
        grid = strata.grid if isinstance(strata, GriddedStrata) else None
        self.unit = 0.0 if grid is None else float(grid.cell_volume)

    def __call__(self, clouds: Floats, q: Floats) -> Floats:
        """Hazard of regions with particles (n, L, dc) and thresholds q (n, M)."""
        on_particles = self._on_hazard(clouds)
        if self.alone:
            return np.asarray(on_particles.sum(axis=1) if self.unit else on_particles.mean(axis=1))
        if self.farthest is None:
            check_finite(q)
        else:
            q = np.where(np.isposinf(q), self.farthest, q)
        weights, on_points = self._weighed(clouds, q, on_particles)
        found = (weights * on_points).sum(axis=1)
        if self.unit:
            return np.asarray(found / self.offsets.shape[0] / self.unit)
        total = weights.sum(axis=1)
        # a region without any point is represented by its particles
        return np.asarray(np.where(total > 0, found / np.maximum(total, 1e-300), on_particles.mean(axis=1)))

    def _weighed(self, clouds: Floats, q: Floats, on_particles: Bools) -> tuple[Floats, Bools]:
        """Weights (n, J) of points, 0 outside the region, and which are on the hazard, for regions that may meet it."""
        index, widest = self.cap.strata.index, np.maximum(q.max(axis=1, keepdims=True), 0.0)
        own = _at(q, _labels(index, clouds))
        radii = np.hstack([np.where(own >= 0, own, widest), widest])
        points, densities = spread_points(self.moves, clouds, radii, self.offsets)
        on_points, weights = self._on_hazard(points), np.zeros(densities.shape)
        met = (on_points.any(axis=1) | on_particles.any(axis=1)) & (q.max(axis=1) >= 0)
        if met.any():
            limits = _squared(_at(q[met], _labels(index, points[met])))
            volumes = volumes_within(self.moves, self.ball, radii[met].ravel()).reshape(radii[met].shape)
            near = points[met], clouds[met], _squared(radii[met]), 1 / np.maximum(volumes, 1e-300)
            weights[met] = weights_inside(*self.rule, limits, *near) * densities[met]
        return weights, on_points

    def _on_hazard(self, configurations: Floats) -> Bools:
        flat = configurations.reshape(-1, configurations.shape[-1])
        return on_hazard(self.hazard, flat).reshape(configurations.shape[:-1])


class HazardError(NamedTuple):
    """Accuracy of hazard estimates over the regions that meet the hazard."""

    regions: int  # number of regions that meet it
    typical: float  # their mean hazard, in the cost's units
    error: float  # root mean square error of the estimates
    missed: float  # fraction of these regions in which no point was on the hazard


def hazard_error(
    cap: Fitted,
    hazard: Any,
    states: Floats,
    actions: Floats,
    alpha: float = 0.1,
    points: int = POINTS,
    params: Any = (),
    rng: Randomness = None,
) -> HazardError:
    """How accurately this many points estimate how much of a region is on a hazard, against 64 times as many.

    Args:
        cap: calibrated predictor with a particle score.
        hazard: as for `PythonRollout`, or compiled, as for `FusedRollout`.
        states, actions: regions to test: one step from states (n, ds) under actions (n, da), such as those of a log.
        alpha: failure rate of the regions.
        points: number of points around the particles of a region.
        params: parameters of a compiled hazard.
        rng: draws the particles.
    """
    function = hazard
    if hasattr(hazard, "py_func"):

        def function(Y: Floats) -> Any:
            return asked_one_by_one(hazard, params, Y)

    x, cloud = cap.first_prediction(states, actions, generator(rng))
    thresholds = cap.plan_thresholds(alpha, False)
    q = thresholds[np.arange(len(thresholds)), cap.partition_at(0).groups_everywhere(x)]
    estimates, truth = (PointTest(cap, function, n)(cloud, q) for n in (points, FINER * points))
    met = truth > 0
    if not met.any():
        return HazardError(0, 0.0, 0.0, 0.0)
    off = estimates[met] - truth[met]
    numbers = truth[met].mean(), np.sqrt((off**2).mean()), (estimates[met] == 0).mean()
    return HazardError(int(met.sum()), *map(float, numbers))


def asked_one_by_one(hazard: Any, params: Any, Y: Floats) -> Floats:
    """Signed distances of configurations Y (n, dc) by a compiled hazard, called one by one: (n,)."""
    out = np.empty(len(Y))
    ask_each(hazard, params, np.ascontiguousarray(Y), out)
    return out


def on_hazard(hazard: Callable[[Floats], Any], Y: Floats) -> Bools:
    """Whether configurations Y (n, dc) are on a hazard, by a function that returns that or a signed distance: (n,)."""
    try:
        found = np.asarray(hazard(Y))
    except Exception as error:
        raise CaptureError(f"the hazard raised {type(error).__name__}: {error}") from error
    if found.shape != (len(Y),) or found.dtype.kind not in "bf":
        raise CaptureError(
            f"the hazard returned {found.dtype} of shape {found.shape}; expected bool or signed distances, ({len(Y)},)."
        )
    if np.isnan(found).any():
        raise CaptureError(
            f"the hazard is NaN at {int(np.isnan(found).sum())} of {len(Y)} configurations; return a distance for each."
        )
    return found if found.dtype.kind == "b" else np.asarray(found < 0)


def _labels(index: Callable[[Floats], Any], configurations: Floats) -> Ints:
    """Strata of configurations (n, J, dc): (n, J)."""
    flat = configurations.reshape(-1, configurations.shape[-1])
    return np.asarray(index(flat)).reshape(configurations.shape[:-1])


def _at(q: Floats, labels: npt.NDArray[Any]) -> Floats:
    """Threshold of every label (n, J), from thresholds q (n, M); -1 if infeasible."""
    return np.where(labels >= 0, np.take_along_axis(q, np.maximum(labels, 0), axis=1), -1.0)


def _squared(q: Floats) -> Floats:
    return np.asarray(squared_limits(q.ravel())).reshape(q.shape)
