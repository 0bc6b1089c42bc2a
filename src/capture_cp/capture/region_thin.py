"""Detection of thin parts of a region, and starting points to cover them, for strata with a method `project`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from capture_cp.base.checks import Bools, Floats, finite_array
from capture_cp.capture.region_cover import BUILDERS, CHECKERS, Ellipsoids, Inside, covering, differences, moved
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.scores import NearestParticles, Proposed, Score
from capture_cp.spaces.metrics import Euclidean, Metric, Product, Torus
from capture_cp.spaces.poses import SE2
from capture_cp.spaces.strata import Strata

#: A part is thin if fewer than this fraction of this many plain draws are in it.
THIN, PILOT = 0.02, 512
#: Largest number of batches of plain draws that are moved onto a part.
BATCHES = 3
#: Smallest number of configurations found on a part from which it is covered.
FEWEST = 16


def thin_cover(
    score: Score,
    strata: Strata,
    dims: int,
    part: int,
    propose: Callable[[int, np.random.Generator], Proposed],
    inside: Inside,
    rng: np.random.Generator,
) -> Ellipsoids | None:
    """Ellipsoids that cover the part of a region in stratum `part` if it is thin; None if plain draws suffice.

    They need strata with `project(Y (n, dc), m) -> (n, dc)`, which moves configurations onto stratum m, and a score that
    measures volume in plain coordinates. Euclidean, Torus, SE2 and their products do; SE3 does not and uses plain draws.

    Args:
        propose: plain draws around the prediction, within the part's threshold.
        inside: whether configurations (n, dc) are in the part: (n,).
    """
    project, is_angle = getattr(strata, "project", None), plain_angles(score, dims)
    if project is None or is_angle is None or part < 0:
        return None
    proposed = propose(PILOT, rng)
    drawn = proposed.Y[proposed.weights > 0]
    if not len(drawn) or inside(drawn).sum() >= THIN * PILOT:
        return None
    scale = np.maximum(differences(drawn, drawn[0], is_angle).std(axis=0), 1e-300)
    seeds = arrived(project, drawn, part, inside, is_angle)
    for _ in range(BATCHES - 1):
        if len(seeds) >= BUILDERS + CHECKERS:
            break
        proposed = propose(PILOT, rng)
        more = arrived(project, proposed.Y[proposed.weights > 0], part, inside, is_angle)
        seeds = np.concatenate([seeds, more])
    return covering(seeds, inside, scale, is_angle, rng) if len(seeds) >= FEWEST else None


def arrived(project: Any, Y: Floats, part: int, inside: Inside, is_angle: Bools) -> Floats:
    """Those of Y (n, dc) that are in the part after `project` has moved them there."""
    there = finite_array(
        "what strata.project returned", project(Y.copy(), part), Y.shape, "(n, dc), the shape of its argument"
    )
    there = moved(there, np.zeros_like(there), is_angle)
    return there[inside(there)]


def plain_angles(score: Score, dims: int) -> Bools | None:
    """Which axes are angles, (dc,), if volume is measured in plain coordinates; otherwise None."""
    if type(score).propose not in (Score.propose, NearestParticles.propose, Mahalanobis.propose):
        return None
    angles = getattr(score, "angles", ())
    if isinstance(score, NearestParticles):
        if not _is_plain(score.metric_):
            return None
        angles = score.metric_.angles(dims)
    return np.isin(np.arange(dims), list(angles))


def _is_plain(metric: Metric) -> bool:
    if isinstance(metric, Product):
        return all(_is_plain(block) for block in metric.metrics)
    return type(metric).around in (Metric.around, Euclidean.around, Torus.around, SE2.around)
