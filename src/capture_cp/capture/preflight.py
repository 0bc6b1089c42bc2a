"""Checks before fitting: whether the parts fit together, and whether the model behaves as required."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, CaptureWarning, Floats, finite_array, whole_number
from capture_cp.conformal.groups import Groups
from capture_cp.conformal.quantile import size_needed
from capture_cp.conformal.scores import Score
from capture_cp.spaces.strata import GriddedStrata, Strata

DEEPEST, WIDEST = 5, 100  # limits of the search through a model for its training data
MOST_CONTINUED = 0.5  # fraction of transitions that may begin where a training transition ended


def check_parts(model: Any, strata: Any, score: Any, groups: Any, n_particles: Any, seed: Any, dims: int) -> None:
    """Raise an error if parts have the wrong type, or do not fit each other or configurations of `dims` numbers."""
    whole_number("n_particles", n_particles, 1)
    whole_number("seed", seed, 0)
    if not callable(model):
        raise CaptureError(f"the model is a {type(model).__name__}; expected a callable model(X, n_particles, rng).")
    if not isinstance(score, Score):
        raise CaptureError(f"the score is {score!r}; expected a Score such as NearestParticles(k=8).")
    if not isinstance(groups, Groups):
        raise CaptureError(f"the groups are {groups!r}; expected Groups such as Tree() or OneGroup().")
    if not isinstance(strata, Strata):
        raise CaptureError(f"the strata are a {type(strata).__name__}; expected an object with names and index(Y).")
    grid = strata.grid if isinstance(strata, GriddedStrata) else None
    if grid is not None and grid.dims != dims:
        raise CaptureError(f"Y has {dims} columns, but the grid of the strata has {grid.dims} axes; they must agree.")
    score.check(n_particles, dims, grid)


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


def check_same_strata(strata: Strata, fitted: int) -> None:
    """Raise an error if the strata were replaced after fitting by a different number of strata."""
    if len(strata.names) != fitted:
        raise CaptureError(
            f"there are {len(strata.names)} strata ({', '.join(map(str, strata.names[:5]))}), but the calibration was "
            f"fitted with {fitted}; strata must not be replaced after fitting, so fit again."
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
        held = [*_referred(part), *(part.__defaults__ or ()), getattr(part, "__wrapped__", None)]
    elif isinstance(part, type) or inspect.ismodule(part):
        return []
    else:
        held = list(getattr(part, "__dict__", {}).values())
    return [one for one in held if callable(one) or hasattr(one, "predict") or isinstance(one, list | tuple | dict)]


def _referred(function: Any) -> list[Any]:
    """The closure of a function, and the globals that it names."""
    try:
        names = inspect.getclosurevars(function)
    except ValueError:  # a variable of the enclosing function that has no value yet
        return []
    return [*names.nonlocals.values(), *names.globals.values()]


def _names_for(trained: Any, episodes: Any) -> tuple[Any, ...]:
    """The names of the episodes, for a `trained_on` that accepts them."""
    try:
        inspect.signature(trained.trained_on).bind(None, None, None)
    except (TypeError, ValueError):
        return ()
    return (episodes,)


def warn_of_few_episodes(compared: int, alpha: float, confidence: float | None) -> None:
    """Warn that too few episodes were `compared` for a finite region for all steps of an episode at once."""
    needed = size_needed(alpha, confidence)
    warnings.warn(
        f"too few calibration episodes for all steps of an episode at once at alpha = {alpha:g}: {compared} are compared, "
        f"{needed} are needed, and as many for the scales. All thresholds are infinite, so a region includes every stratum; "
        "collect more episodes, raise alpha, or use fewer for the groups (partition_share).",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def warn_of_unseen_groups(groups: Sequence[str], run: str = "rollout") -> None:
    """Warn about groups that no calibration `run` (a rollout or an episode) has visited."""
    shown = ", ".join(groups[:4]) + (f", and {len(groups) - 4} more" if len(groups) > 4 else "")
    warnings.warn(
        f"no calibration {run} that sets thresholds has visited: {shown}. Their thresholds are infinite, so a region "
        f"includes the whole stratum there; collect {run}s that go there.",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def warn_of_small_groups(
    sizes: Mapping[int, tuple[str, int]], alpha: float, confidence: float | None, leaves: bool = False
) -> None:
    """Warn about groups, by description and size, that are too small for finite thresholds.

    `leaves` is whether some of them were split by a tree, so that larger leaves would help.
    """
    if not sizes:
        return
    shown = ", ".join(f"group {j} ({name}) has {size}" for j, (name, size) in list(sizes.items())[:4])
    more = f", and {len(sizes) - 4} more groups" if len(sizes) > 4 else ""
    needed = size_needed(alpha, confidence)
    remedy = (
        "collect more transitions there, raise alpha, or make leaves larger (min_leaf)"
        if leaves
        else ("collect more transitions there, or raise alpha")
    )
    warnings.warn(
        f"too few calibration points for alpha = {alpha:g}: {shown}{more}; {needed} are needed. Their thresholds are "
        f"infinite, so a region includes the whole stratum there; {remedy}.",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def warn_of_light_groups(groups: Mapping[int, tuple[str, float, float]], alpha: float) -> None:
    """Warn about groups with too little weight for finite thresholds: description, effective size, weight / largest."""
    if not groups:
        return
    shown = ", ".join(
        f"group {j} ({name}) has an effective size of {size:.1f} and a total weight of {times:.1f} times the largest ratio"
        for j, (name, size, times) in list(groups.items())[:4]
    )
    more = f", and {len(groups) - 4} more groups" if len(groups) > 4 else ""
    warnings.warn(
        f"too few calibration points for alpha = {alpha:g}, by their weights: {shown}{more}; both must be "
        f"at least {size_needed(alpha)}. Their thresholds are infinite, so a region includes the whole stratum there; "
        "collect transitions where new inputs will be, raise alpha, or pass a smaller `largest` if that is also a bound.",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def callers_level() -> int:
    """Stack level of the user's code, counted from the function that warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("capture_cp.", "capture_lab.")):
        frame, level = frame.f_back, level + 1
    return level
