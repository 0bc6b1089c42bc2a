"""Regions of a recorded episode, from its particles and thresholds: nothing is calibrated again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.episode import Episode
from capture_cp.spaces.strata import grid_of


class Planned(Protocol):
    """A row of a planning table."""

    @property
    def method(self) -> str:
        """The recipe of its one-step calibration."""
        ...


def recorded_method(episode: Episode, rows: Mapping[str, Planned], make: Callable[[str, int], Capture]) -> Capture | None:
    """The method of a recorded episode, not fitted; None for an episode without regions.

    `rows` are those of the task's planning table, of which the episode names one; `make` takes a recipe and a number of
    particles.
    """
    if not len(episode.particles):
        return None
    name = known_name("method of the episode,", episode.info.get("method"), rows)
    return make(rows[name].method, max(episode.particles.shape[1], 2))  # of a Gaussian there is one, its mean


def recorded_region(episode: Episode, cap: Capture, step: int) -> Region | None:
    """The region of an executed step, or None where the episode has none.

    `cap` is the episode's method as `method` makes it; it need not be fitted, since the thresholds are in the episode.
    """
    if step >= len(episode.particles):
        return None
    thresholds, prediction = episode.thresholds[step], episode.particles[step][None]
    strata, dims = cap.strata, grid_of(cap.strata).require_grid().dims
    if thresholds.shape != (len(strata.names),) or prediction.shape[2:] != (dims,):
        raise CaptureError(
            f"the episode has thresholds {episode.thresholds.shape} and particles {episode.particles.shape}; its task has "
            f"{len(strata.names)} strata in {dims} dimensions: it was recorded with other settings or another map."
        )
    score = cap.score_
    if isinstance(score, Mahalanobis):  # of a Gaussian only the mean is recorded; its covariance follows from the input
        gaussian = score.predict(cap.model, episode.inputs[step][None], 1, np.random.default_rng(0))
        prediction = score.checked(gaussian, 1, 1, dims)
    alpha = float(episode.info.get("alpha", 0.1))
    return Region(score, prediction, thresholds, strata, dims, alpha, score.ambient)


def verdict(episode: Episode, step: int) -> str:
    """Whether the region of a step held what followed, in words."""
    if step >= len(episode.inside):
        return ""
    return "the region held" if episode.inside[step] else "the region missed"
