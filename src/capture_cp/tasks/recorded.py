"""Recorded episodes: the task they were run in, and the regions of their steps. Nothing is calibrated again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, known_name, shortened
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region, grid_of
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.episode import Episode
from capture_cp.tasks.registry import find_task, task_names
from capture_cp.tasks.task import Task


def recorded_task(episode: Episode) -> Task:
    """The task that an episode was run in: the same place, options and model, as far as its file notes them."""
    name, info = episode.info.get("task"), episode.info
    if name is None:
        raise CaptureError("the episode does not say what it is a run of; expected one of capture plan TASK --record.")
    place = info.get("map")
    if not isinstance(place, str | None):
        raise CaptureError(f"the episode's map is {shortened(repr(place))}; expected a name. Record it again.")
    options = find_task(known_name("task of the episode,", name, task_names()))
    noted = _noted_options(options, info)
    try:
        found = options(**noted)
        task: Task = next(iter(found.places(planning=True).values())) if place is None else found.at(place)
        task = task.with_correction(info.get("correction"))
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, CaptureError):
            raise
        raise CaptureError(f"the episode's settings are not those of the {name} ({error}); record it again.") from None
    task.check_episode(episode)
    return task


def _noted_options(options: type[Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a task that an episode notes; a file must not choose where we read and write."""
    noted = [entry for entry in fields(options) if entry.name in info and "Path" not in str(entry.type)]
    for entry in noted:
        value, number = info[entry.name], isinstance(entry.default, int | float)
        if number and not isinstance(value, int | float):
            raise CaptureError(
                f"the episode's {entry.name} is {shortened(repr(value))}; expected a number. Record it again."
            )
    return {entry.name: info[entry.name] for entry in noted}


def recorded_method(episode: Episode, task: Task) -> Capture | None:
    """The method of a recorded episode, not fitted; None for an episode without regions."""
    if not len(episode.particles):
        return None
    row = task.rows[known_name("method of the episode,", episode.info.get("method"), task.rows)]
    particles = max(episode.particles.shape[1], 2)  # of a Gaussian there is one, its mean
    return task.method(row.method, particles, k=episode.info.get("k"))


def recorded_region(episode: Episode, cap: Capture, step: int) -> Region | None:
    """The region of an executed step, or None where the episode has none.

    `cap` is the episode's method as `recorded_method` makes it; it need not be fitted, since the thresholds are in the
    episode.
    """
    if step >= len(episode.particles):
        return None
    thresholds, prediction = episode.thresholds[step], episode.particles[step][None]
    strata, dims = cap.strata, grid_of(cap.strata).require_grid().dims
    if thresholds.shape != (len(strata.names),) or prediction.shape[2:] != (dims,):
        raise CaptureError(
            f"the episode has thresholds {episode.thresholds.shape} and particles {episode.particles.shape}; its task has "
            f"{len(strata.names)} strata in {dims} dimensions: it was recorded with other settings or in another place."
        )
    score = cap.score_
    if isinstance(score, Mahalanobis):  # of a Gaussian only the mean is recorded; its covariance follows from the input
        gaussian = score.predict(cap.model, episode.inputs[step][None], 1, np.random.default_rng(0))
        prediction = score.checked(gaussian, 1, 1, dims)
    alpha = float(episode.info.get("alpha", 0.1))
    return Region(score, prediction, thresholds, strata, dims, alpha, score.ambient)
