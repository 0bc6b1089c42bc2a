"""Checks before fitting, of the model and of its scores, and warnings about what a calibration lacks."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, CaptureWarning, Floats, finite_array
from capture_cp.conformal.quantile import size_needed
from capture_cp.conformal.scores import Score

DEEPEST, WIDEST = 5, 100  # limits of the search through a model for its training data
MOST_CONTINUED = 0.5  # fraction of transitions that may begin where a training transition ended


def check_model(model: Any, score: Score, X: Floats, n_particles: int, dims: int, deterministic: bool) -> None:
    """Call the model twice on a few inputs, to check that it accepts its arguments and uses its generator."""
    try:
        inspect.signature(model).bind(X, n_particles, np.random.default_rng())
    except TypeError as error:
        raise CaptureError(f"the model must accept (X, n_particles, rng), but {error}.") from None
    except ValueError:
        pass  # a compiled callable without a signature
    # drawn at random, not evenly spaced: on a regular grid of inputs, evenly spaced rows may all be saturated by limits
    rows = X[np.random.default_rng(0).choice(len(X), size=min(len(X), 64), replace=False)]
    one, two = (
        score.checked(score.predict(model, rows, n_particles, np.random.default_rng(seed)), len(rows), n_particles, dims)
        for seed in (1, 2)
    )
    if isinstance(one, np.ndarray) and not deterministic and np.array_equal(one, two):
        raise CaptureError(
            "the model returned the same particles for two different random generators; draw its noise from the rng "
            "argument, or pass deterministic_model=True if it is meant to have no noise."
        )


def checked_scores(R: Any, shape: tuple[int, ...], meaning: str) -> Floats:
    """Scores, checked to be finite, at least 0 and of that shape; negative thresholds are reserved for "admit nothing"."""
    scores = finite_array("the scores", R, shape, meaning)
    if (scores < 0).any():
        raise CaptureError(
            f"the smallest score is {scores.min():.4g}; expected scores of at least 0, larger for more unusual outcomes. "
            "Use an increasing function that is not negative, such as exp of a log-distance."
        )
    return scores


def check_unseen(model: Any, X: Floats, Y: Floats, episodes: Any = None) -> None:
    """Raise an error if the model, or a model inside it, reports that it was trained on these transitions.

    A model reports this with a method `trained_on(X, Y) -> bool (n,)`, which may also accept the names of the episodes (n,),
    and with a method `share_continued(X, episodes)`.
    """
    for trained in training_memories(model):
        try:
            seen = np.asarray(trained.trained_on(X, Y, *_names_for(trained, episodes)))
        except CaptureError:
            if trained is model:
                raise
            continue  # referenced, but not trained, so not used for predictions
        if seen.any():
            raise CaptureError(
                f"the model was trained on {int(seen.sum())} of these {len(X)} transitions, or on steps of their episodes, "
                "where it errs less than on new ones; calibrate on transitions and episodes that it has not seen."
            )
        continued = float(trained.share_continued(X, episodes)) if hasattr(trained, "share_continued") else 0.0
        if continued > MOST_CONTINUED:
            raise CaptureError(
                f"{continued:.0%} of these transitions begin where a training transition of the model ended: they are steps "
                "of the same runs, where it errs less than on new ones; train and calibrate on different runs, or name the "
                "runs in both (episodes= in both fits)."
            )


def training_memories(model: Any) -> list[Any]:
    """The objects with `trained_on` in a model: itself, the objects it wraps, and so on.

    The search covers attributes, bound objects, arguments of `functools.partial`, closures, and globals that a function
    names; not compiled code or other processes.
    """
    found, known, todo = [], set(), [(model, 0)]
    while todo:
        part, depth = todo.pop()
        if id(part) in known:
            continue
        known.add(id(part))
        if not isinstance(part, type) and callable(getattr(part, "trained_on", None)):
            found.append(part)
        if depth < DEEPEST:
            todo += [(inner, depth + 1) for inner in _inside(part)[:WIDEST]]
    return found


def _inside(part: Any) -> list[Any]:
    """Objects inside an object that may be models."""
    if isinstance(part, list | tuple | dict):
        held = list(part.values()) if isinstance(part, dict) else list(part)
    elif isinstance(part, partial):
        held = [part.func, *part.args, *part.keywords.values()]
    elif inspect.ismethod(part):
        held = [part.__self__]
    elif inspect.isfunction(part):
        held = [*(part.__defaults__ or ()), getattr(part, "__wrapped__", None)]
        with suppress(ValueError):  # a variable of the enclosing function that has no value yet
            names = inspect.getclosurevars(part)
            held += [*names.nonlocals.values(), *names.globals.values()]
    elif isinstance(part, type) or inspect.ismodule(part):
        return []
    else:
        held = list(getattr(part, "__dict__", {}).values())
    return [one for one in held if callable(one) or hasattr(one, "predict") or isinstance(one, list | tuple | dict)]


def _names_for(trained: Any, episodes: Any) -> tuple[Any, ...]:
    """The names of the episodes, for a `trained_on` that accepts them."""
    try:
        inspect.signature(trained.trained_on).bind(None, None, None)
    except (TypeError, ValueError):
        return ()
    return (episodes,)


def warn_of_few_runs(run: str, compared: int, alpha: float, confidence: float | None) -> None:
    """Warn that too few runs (rollouts or episodes) were `compared` for a finite region for all steps of a run at once."""
    _warn(
        f"too few calibration {run}s for all steps of one {run} at once at alpha = {alpha:g}: {compared} are compared, "
        f"{size_needed(alpha, confidence)} are needed, and as many for the scales. All thresholds are infinite, so a region "
        f"includes every stratum; collect more {run}s, raise alpha, or use fewer for the groups (partition_share)."
    )


def warn_of_unseen_groups(run: str, groups: Sequence[str]) -> None:
    """Warn about groups that no calibration `run` (a rollout or an episode) has visited."""
    _warn(
        f"no calibration {run} that sets thresholds has visited: {_first(groups, '')}. Their thresholds are infinite, so a "
        f"region includes the whole stratum there; collect {run}s that go there."
    )


def warn_of_small_groups(sizes: Mapping[int, tuple[str, int]], alpha: float, needed: int, leaves: bool = False) -> None:
    """Warn about groups, by description and size, with fewer points than are `needed` for finite thresholds.

    `leaves` is whether some of them were split by a tree, so that larger leaves would help.
    """
    if not sizes:
        return
    shown = _first([f"group {j} ({name}) has {size}" for j, (name, size) in sizes.items()])
    remedy = ", raise alpha, or make leaves larger (min_leaf)" if leaves else ", or raise alpha"
    _warn(
        f"too few calibration points for alpha = {alpha:g}: {shown}; {needed} are needed. Their "
        f"thresholds are infinite, so a region includes the whole stratum there; collect more transitions there{remedy}."
    )


def warn_of_light_groups(groups: Mapping[int, tuple[str, float, float]], alpha: float) -> None:
    """Warn about groups with too little weight for finite thresholds: description, effective size, weight / largest."""
    if not groups:
        return
    described = "group {} ({}) has an effective size of {:.1f} and a total weight of {:.1f} times the largest ratio"
    shown = _first([described.format(j, *group) for j, group in groups.items()])
    _warn(
        f"too few calibration points for alpha = {alpha:g}, by their weights: {shown}; both must be "
        f"at least {size_needed(alpha)}. Their thresholds are infinite, so a region includes the whole stratum there; "
        "collect transitions where new inputs will be, raise alpha, or pass a smaller `largest` if that is also a bound."
    )


def _first(items: Sequence[str], what: str = " groups") -> str:
    """The first four items, and how many more there are."""
    return ", ".join(items[:4]) + (f", and {len(items) - 4} more{what}" if len(items) > 4 else "")


def _warn(message: str) -> None:
    """Warn at the line of the user's code that led here."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("capture_cp.", "capture_lab.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, CaptureWarning, stacklevel=level)
