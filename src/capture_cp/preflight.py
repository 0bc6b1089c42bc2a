"""Questions asked before fitting: do the parts fit together, and does the model do what it must?"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from capture_cp.checks import CaptureError, CaptureWarning, Floats, whole_number
from capture_cp.conformal.groups import Groups
from capture_cp.conformal.quantile import size_needed
from capture_cp.conformal.scores import Score
from capture_cp.spaces.strata import GriddedStrata, Strata


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


def check_unseen(model: Any, X: Floats, Y: Floats) -> None:
    """Refuse transitions that the model was trained on, where it can tell by a method `trained_on(X, Y) -> bool (n,)`."""
    trained_on = getattr(model, "trained_on", None)
    seen = int(np.count_nonzero(trained_on(X, Y))) if callable(trained_on) else 0
    if seen:
        raise CaptureError(
            f"the model was trained on {seen} of these {len(X)} transitions, where it errs less than on new ones; calibrate "
            "on transitions that it has not seen."
        )


def warn_of_small_groups(sizes: Mapping[int, tuple[str, int]], alpha: float, confidence: float | None) -> None:
    """Say which groups, by their words and sizes, are too small for finite thresholds."""
    if not sizes:
        return
    shown = ", ".join(f"group {j} ({words}) has {size}" for j, (words, size) in list(sizes.items())[:4])
    more = f", and {len(sizes) - 4} more groups" if len(sizes) > 4 else ""
    needed = size_needed(alpha, confidence)
    warnings.warn(
        f"too few calibration points for alpha = {alpha:g}: {shown}{more}; {needed} are needed. Their thresholds are "
        "infinite, so a region takes in the whole stratum there; collect more transitions, raise alpha or min_leaf.",
        CaptureWarning,
        stacklevel=callers_level(),
    )


def callers_level() -> int:
    """How far up the stack, from the function that warns, the user's code is."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("capture_cp."):
        frame, level = frame.f_back, level + 1
    return level
