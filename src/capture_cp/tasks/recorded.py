"""Recorded episodes: the task they were run in, and the regions of their steps. Nothing is calibrated again."""

from __future__ import annotations

import numpy as np

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import METHODS
from capture_cp.capture.region import Region, grid_of
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.episode import Episode
from capture_cp.tasks.registry import find_task, task_names
from capture_cp.tasks.task import Task

#: What the rows of planning tables add to the name of their method.
ADDITIONS = ("horizon", "online", "residual")


def recorded_task(episode: Episode) -> Task:
    """The task that an episode was run in, in the same place and with the same model."""
    name = episode.info.get("task")
    if name is None:
        raise CaptureError("the episode does not say what it is a run of; expected one of capture plan TASK --record.")
    options = find_task(known_name("task of the episode,", name, task_names()))
    kind: type[Task] = getattr(options, "task", options)
    try:
        task = kind.recorded(episode.info)
    except (TypeError, ValueError, KeyError) as error:
        if isinstance(error, CaptureError):
            raise
        raise CaptureError(f"the episode's settings are not those of a {name}: {error}; record it again.") from None
    task.check_episode(episode)
    return task


def recorded_method(episode: Episode, task: Task) -> Capture | None:
    """The method of a recorded episode, not fitted; None for an episode without regions."""
    if not len(episode.particles):
        return None
    name, particles = episode.info.get("method"), max(episode.particles.shape[1], 2)  # of a Gaussian there is one, its mean
    return task.method(method_of_row(name), particles, k=episode.info.get("k"))


def method_of_row(name: object) -> str:
    """The method that a row of a planning table calibrates, such as capture for capture-online-residual."""
    method, parts = str(name), str(name).split("-")
    while parts and method not in METHODS and parts[-1] in ADDITIONS:
        method = "-".join(parts := parts[:-1])
    return method if method in METHODS else known_name("method of the episode,", name, METHODS)


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
