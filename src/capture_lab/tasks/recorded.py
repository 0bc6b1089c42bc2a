"""Recorded episodes: the description of their task that they store, the task restored from it, and their regions.

Nothing is calibrated again: particles and thresholds are in the episode.
"""

from __future__ import annotations

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from capture_cp.base.checks import CaptureError, known_name
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.planning.episode import Episode
from capture_lab.tasks.registry import find_task, task_names
from capture_lab.tasks.task import Task


def recorded_info(options: Any, task: Task, place: str) -> dict[str, Any]:
    """The description of its task that an episode stores: options, place, and the correction of its model."""
    kinds = get_type_hints(type(options))
    kept = {entry.name: getattr(options, entry.name) for entry in fields(options)}
    plain = {name: value for name, value in kept.items() if _fits(value, kinds[name])}
    correction = getattr(task, "correction", None)
    return {"task": options.name, "options": plain, "map": place, "correction": correction}


def recorded_task(episode: Episode) -> Task:
    """The task of an episode that a planning study recorded, with the model that planned."""
    info = episode.info
    if not {"task", "options", "map"} <= info.keys():
        raise CaptureError(
            f"the episode has the entries {sorted(map(str, info))}; expected task, options and map among them, as written "
            "by `capture plan TASK --record FOLDER`: record it again."
        )
    name = known_name("task of the episode,", info["task"], task_names())  # never a module named in a file
    task: Task = _options(find_task(name), info["options"]).at(str(info["map"]))
    task = task.with_correction(info.get("correction"))
    task.check_episode(episode)
    return task


def recorded_method(episode: Episode, task: Task) -> Capture | None:
    """The method of a recorded episode, not fitted; None for an episode without regions."""
    if not len(episode.particles):
        return None
    row = task.rows[known_name("method of the episode,", episode.info.get("method"), task.rows)]
    particles = max(episode.particles.shape[1], 2)  # a Gaussian has one, its mean
    return task.method(row.method, particles, k=episode.info.get("k"))


def recorded_region(episode: Episode, cap: Capture, step: int) -> Region | None:
    """The region of an executed step; None if the episode has none.

    `cap` is the episode's method from `recorded_method`, whose model is the task; it need not be fitted, since the
    thresholds are in the episode.
    """
    if step >= len(episode.particles):
        return None
    thresholds, prediction = episode.thresholds[step], episode.particles[step][None]
    task: Any = cap.model
    strata, dims = cap.strata, len(task.axes)
    if thresholds.shape != (len(strata.names),) or prediction.shape[2:] != (dims,):
        raise CaptureError(
            f"the episode has thresholds {episode.thresholds.shape} and particles {episode.particles.shape}; its task has "
            f"{len(strata.names)} strata in {dims} dimensions: it was recorded with other settings or in another place."
        )
    score = cap.score_
    if isinstance(score, Mahalanobis):  # only a Gaussian's mean is recorded; its covariance follows from the input
        gaussian = score.predict(cap.model, episode.inputs[step][None], 1, np.random.default_rng(0))
        prediction = score.checked(gaussian, 1, 1, dims)
    alpha = float(episode.info.get("alpha", 0.1))
    return Region(score, prediction, thresholds, strata, dims, alpha, score.ambient)


# -- options ----------------------------------------------------------------------------------------------------------


def _options(kind: type[Any], given: Any) -> Any:
    """The options of a task, from values in a file."""
    kinds = get_type_hints(kind)
    known = {entry.name: kinds[entry.name] for entry in fields(kind)}
    for name, value in given.items() if isinstance(given, dict) else [("options", given)]:
        if name not in known or not _fits(value, known[name]):
            raise CaptureError(
                f"the episode has {str(name)!r}: {str(value)[:60]!r}, which is not a valid option of {kind.name}; "
                "it is damaged, or of another version: record it again."
            )
    return kind(**{name: _as_tuples(value) for name, value in given.items()})


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value, from options or JSON, is allowed by an annotation and can be stored in a file."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False
        if len(parts) == 2 and parts[1] is Ellipsis:
            return all(_fits(entry, parts[0]) for entry in value)
        return len(value) == len(parts) and all(map(_fits, value, parts))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return kind in (bool, int, str, NoneType) and type(value) is kind


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(entry) for entry in value) if isinstance(value, list) else value
