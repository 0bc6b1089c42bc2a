"""Questions asked before fitting: do the parts fit together, and does the model do what it must?"""

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

DEEPEST, WIDEST = 5, 100  # how far a model is looked through for what it was trained on
MOST_CONTINUED = 0.5  # share of transitions that may begin where a training transition ended


def check_parts(model: Any, strata: Any, score: Any, groups: Any, n_particles: Any, seed: Any, dims: int) -> None:
    """Refuse parts of the wrong kind, or that do not fit each other or configurations of `dims` numbers."""
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
    """Ask the model twice about a few inputs: does it take our arguments, and does it use its generator?"""
    try:
        inspect.signature(model).bind(X, n_particles, np.random.default_rng())
    except TypeError as error:
        raise CaptureError(f"the model must take (X, n_particles, rng), but {error}.") from None
    except ValueError:
        pass  # a compiled callable without a signature
    # drawn, not spaced: on a regular grid of inputs spaced rows may all be ones where limits swallow the noise
    rows = X[np.random.default_rng(0).choice(len(X), size=min(len(X), 64), replace=False)]
    one, two = (
        score.checked(score.predict(model, rows, n_particles, np.random.default_rng(seed)), len(rows), n_particles, dims)
        for seed in (1, 2)
    )
    if isinstance(one, np.ndarray) and not deterministic and np.array_equal(one, two):
        raise CaptureError(
            "the model returned the same particles for two different random generators; draw its noise from the rng "
            "it is given, or pass deterministic_model=True if it is meant to have none."
        )


def check_same_strata(strata: Strata, fitted: int) -> None:
    """Refuse strata that were replaced, after fitting, by others in number: the groups know only the fitted ones."""
    if len(strata.names) != fitted:
        raise CaptureError(
            f"the strata are {len(strata.names)} ({', '.join(map(str, strata.names[:5]))}), but the calibration was fitted "
            f"with {fitted}; they must not be replaced after fitting, so fit again."
        )


def checked_scores(R: Any, shape: tuple[int, ...], meaning: str) -> Floats:
    """What a score computed, of that shape, finite and at least 0: a negative threshold is kept for "nothing"."""
    scores = finite_array("the scores", R, shape, meaning)
    if (scores < 0).any():
        raise CaptureError(
            f"the smallest score is {scores.min():.4g}; expected scores of at least 0, larger for stranger outcomes. Use an "
            "increasing function that is not negative, such as exp of a log-distance."
        )
    return scores


def check_unseen(model: Any, X: Floats, Y: Floats, episodes: Any = None) -> None:
    """Refuse transitions that the model, or one inside it, was trained on, where it can tell.

    A model can tell by a method `trained_on(X, Y) -> bool (n,)`, which may take the names of the episodes (n,) too, and by a
    method `share_continued(X, episodes)`.
    """
    for trained in training_memories(model):
        try:
            seen = np.asarray(trained.trained_on(X, Y, *_names_for(trained, episodes)))
        except CaptureError:
            if trained is model:
                raise
            continue  # named somewhere, but not trained, so not what the model predicts with
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
    """The objects with `trained_on` that a model consists of: itself, what it wraps, and what that wraps.

    Found are attributes, bound objects, arguments of `functools.partial`, and what a function closes over or refers to by
    name; not what compiled code or another process holds.
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
    """What an object holds that may be a model."""
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
    """What a function closes over, and the globals that it names."""
    try:
        names = inspect.getclosurevars(function)
    except ValueError:  # a variable of the enclosing function that has no value yet
        return []
    return [*names.nonlocals.values(), *names.globals.values()]


def _names_for(trained: Any, episodes: Any) -> tuple[Any, ...]:
    """The names of the episodes, for a `trained_on` that takes them."""
    try:
        inspect.signature(trained.trained_on).bind(None, None, None)
    except (TypeError, ValueError):
        return ()
    return (episodes,)


def warn_of_few_episodes(compared: int, alpha: float, confidence: float | None) -> None:
    """Report that so few episodes were `compared` that no region for all steps of an episode at once is finite."""
    needed = size_needed(alpha, confidence)
    warnings.warn(
        f"too few calibration episodes for all steps of an episode at once at alpha = {alpha:g}: {compared} are compared, "
        f"{needed} are needed, and as many for the scales. All thresholds are infinite, so a region takes in every stratum; "
        "collect more episodes, raise alpha, or keep fewer for the groups (partition_share).",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def warn_of_unseen_groups(groups: Sequence[str], run: str = "rollout") -> None:
    """Report groups that no `run` of the calibration, a rollout or an episode, has been in."""
    shown = ", ".join(groups[:4]) + (f", and {len(groups) - 4} more" if len(groups) > 4 else "")
    warnings.warn(
        f"no calibration {run} that sets thresholds has been in: {shown}. Their thresholds are infinite, so a region "
        f"takes in the whole stratum there; collect {run}s that go there.",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def warn_of_small_groups(
    sizes: Mapping[int, tuple[str, int]], alpha: float, confidence: float | None, leaves: bool = False
) -> None:
    """Report groups, by description and size, that are too small for finite thresholds.

    `leaves` is true where some of them were split off by a tree, so that larger leaves would help.
    """
    if not sizes:
        return
    shown = ", ".join(f"group {j} ({words}) has {size}" for j, (words, size) in list(sizes.items())[:4])
    more = f", and {len(sizes) - 4} more groups" if len(sizes) > 4 else ""
    needed = size_needed(alpha, confidence)
    remedy = (
        "collect more transitions there, raise alpha, or let leaves be larger (min_leaf)"
        if leaves
        else ("collect more transitions there, or raise alpha")
    )
    warnings.warn(
        f"too few calibration points for alpha = {alpha:g}: {shown}{more}; {needed} are needed. Their thresholds are "
        f"infinite, so a region takes in the whole stratum there; {remedy}.",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def warn_of_light_groups(groups: Mapping[int, tuple[str, float, float]], alpha: float) -> None:
    """Report groups whose weights are too few for finite thresholds: description, effective size, weight / largest."""
    if not groups:
        return
    shown = ", ".join(
        f"group {j} ({words}) has an effective size of {size:.1f} and {times:.1f} times the largest ratio in sum"
        for j, (words, size, times) in list(groups.items())[:4]
    )
    more = f", and {len(groups) - 4} more groups" if len(groups) > 4 else ""
    warnings.warn(
        f"too few calibration points for alpha = {alpha:g}, by their weights: {shown}{more}; {size_needed(alpha)} are "
        "needed of both. Their thresholds are infinite, so a region takes in the whole stratum there; collect transitions "
        "where new inputs will be, raise alpha, or state a smaller `largest` if that is a bound too.",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def callers_level() -> int:
    """How far up the stack, from the function that warns, the user's code is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("capture_cp."):
        frame, level = frame.f_back, level + 1
    return level
