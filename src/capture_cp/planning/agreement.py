"""Checks that a compiled step is the calibrated model, by comparing both at the same states and actions.

Regions are valid only for particles of the model they were calibrated with. A step with another gain, without its noise, or
that does not write its result produces other particles, and the coverage guarantee is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints
from capture_cp.capture.fitted import Fitted
from capture_cp.spaces.strata import GriddedStrata

PLACES = 32  # pairs of state and action at which both are compared
FEWEST = 8  # fewest of them for which the comparison is made
DRAWS = 128  # minimum number of next states at each
STEPS = 4  # maximum number of steps from the robot's state to such a state
#: Standard errors by which means and spreads may differ: chance does not exceed it at a third of the places.
ERRORS = 4.0
#: Fraction of the places that may differ on purpose, such as where a rollout ends at a goal that its model passes.
SHARE = 1 / 3
#: Further tolerances, as fractions of a place's displacement, of its spread, and of the typical displacement.
OF_MOVE, OF_SPREAD, OF_ALL = 0.05, 0.1, 1e-4
SEED = 0


class RolledOut(NamedTuple):
    """A calibration, and the step that a planner rolls out with it."""

    cap: Fitted
    step_each: Callable[[Floats, Floats, Floats], None]  # states (n, ds, L), actions (n, da), noise (n, dn, L), in place
    is_safe: Callable[[Floats, Floats], bool]  # whether a step from a state (ds,) stays within its arrays
    noise_dims: int
    draws: bool  # False where a single particle without noise represents a Gaussian
    axes: Ints  # (dc,): which entries of the state are the configuration
    is_hazard: Callable[[Floats], Bools]  # of configurations (n, dc): where a rollout may end while its model continues


class Places(NamedTuple):
    """States and actions at which the two are compared."""

    states: Floats  # (places, ds)
    actions: Floats  # (places, da)


class Summary(NamedTuple):
    """Means and spreads of the next values at every place, and their standard errors, (places, entries)."""

    mean: Floats
    spread: Floats
    mean_error: Floats
    spread_error: Floats


def check_agreement(rolled: RolledOut, state: Floats, sequences: Floats) -> None:
    """Reject a step that is not the calibrated model, given the robot's state (ds,) and sequences (N, H, da).

    With a grid, the places have the configurations of random cells that are feasible and no hazard; the other entries of
    the state are those the step reaches from the robot's state within a few actions. For a `HorizonCapture` the whole state
    is compared, for a `Capture` the configuration, which is all that its model predicts.
    """
    rng = np.random.default_rng(SEED)
    places = _places(rolled, state, sequences, rng)
    after = _stepped(rolled, places, rng)
    # a step that yields NaN is reported by the plan, with the step where it does
    kept: Bools = np.asarray(np.isfinite(after).all(axis=(1, 2)))
    kept[kept] = ~_meets_hazard(rolled, after[kept])
    if kept.sum() < FEWEST:
        return
    places, after = Places(*(part[kept] for part in places)), after[kept]
    entries = list(range(len(state))) if rolled.cap.predicts_state else rolled.axes.tolist()
    ours, theirs = _summary(after[:, :, entries]), _predicted(rolled, places, rng)
    differs = _differs(ours, theirs, places.states[:, entries], rolled.draws)
    if differs.any(axis=1).mean() > SHARE:
        raise CaptureError(_in_words(differs, ours, theirs, places, entries))


def _places(rolled: RolledOut, state: Floats, sequences: Floats, rng: np.random.Generator) -> Places:
    rows = rng.integers(len(sequences), size=PLACES)
    ahead = np.arange(PLACES) % min(STEPS, sequences.shape[1])
    states = np.repeat(state[None, :, None], PLACES, axis=0)
    for h in range(int(ahead.max())):
        moved = states[ahead > h]
        noise = rng.standard_normal((len(moved), rolled.noise_dims, 1))
        rolled.step_each(moved, sequences[rows[ahead > h], h], noise)
        states[ahead > h] = moved
    states[~np.isfinite(states).all(axis=(1, 2))] = state[:, None]
    strata = rolled.cap.strata
    if isinstance(strata, GriddedStrata) and strata.grid is not None:
        tried = strata.grid.centre(rng.choice(np.flatnonzero(strata.labels >= 0), 8 * PLACES))
        free = tried[~rolled.is_hazard(tried)]
        if len(free):
            states[:, rolled.axes, 0] = np.resize(free, (PLACES, len(rolled.axes)))
    found = Places(states[:, :, 0], sequences[rows, ahead])
    safe = np.array([rolled.is_safe(*place) for place in zip(*found)], dtype=bool)
    return Places(found.states[safe], found.actions[safe])


def _stepped(rolled: RolledOut, places: Places, rng: np.random.Generator) -> Floats:
    """Next states by the step: (places, draws, ds)."""
    n, draws = len(places.states), DRAWS if rolled.draws else 1
    noise = float(rolled.draws) * rng.standard_normal((n, rolled.noise_dims, draws))
    after = np.repeat(places.states[:, :, None], draws, axis=2)
    rolled.step_each(after, places.actions, noise)
    return after.swapaxes(1, 2)


def _meets_hazard(rolled: RolledOut, after: Floats) -> Bools:
    """Whether some next state of each place lies on a hazard: (places,)."""
    found = rolled.is_hazard(after[:, :, rolled.axes].reshape(-1, len(rolled.axes)))
    return np.asarray(found.reshape(after.shape[:2]).any(axis=1))


def _predicted(rolled: RolledOut, places: Places, rng: np.random.Generator) -> Summary:
    """Next values predicted by the calibrated model at every place."""
    try:
        if rolled.draws:
            return _summary(rolled.cap.next_points(*places, DRAWS, rng))
        _, prediction = rolled.cap.first_prediction(*places, rng)
    except Exception as error:
        cause = str(error).rstrip(".")
        raise CaptureError(
            f"the step cannot be compared with the calibrated model, which raised {type(error).__name__}: {cause}. "
            "Fix the model, or pass compare_step=False if it is not available."
        ) from error
    spread = np.sqrt(np.diagonal(prediction.cov, axis1=1, axis2=2))
    return Summary(prediction.mean, spread, spread / ERRORS, spread)


def _summary(points: Floats) -> Summary:
    """Summary of points (places, draws, entries)."""
    n, mean = points.shape[1], points.mean(axis=1)
    squares = (points - mean[:, None]) ** 2
    spread = np.sqrt(squares.mean(axis=1))
    of_variance = np.sqrt(squares.var(axis=1) / n)
    return Summary(mean, spread, spread / np.sqrt(n), of_variance / np.maximum(2 * spread, 1e-300))


def _differs(ours: Summary, theirs: Summary, before: Floats, draws: bool) -> Bools:
    """Which values differ by more than chance and the tolerances: (places, entries)."""
    move = np.abs(theirs.mean - before)
    little = OF_ALL * np.sqrt((move**2 + theirs.spread**2).mean(axis=0)) + 1e-9 * np.abs(theirs.mean)
    by_chance = ERRORS * np.hypot(ours.mean_error, theirs.mean_error)
    means = np.abs(ours.mean - theirs.mean) > by_chance + OF_MOVE * move + little
    by_chance = ERRORS * np.hypot(ours.spread_error, theirs.spread_error)
    larger = np.maximum(ours.spread, theirs.spread)
    spreads = np.abs(ours.spread - theirs.spread) > by_chance + OF_SPREAD * larger + little
    return np.asarray(means | (spreads & draws))


def _in_words(differs: Bools, ours: Summary, theirs: Summary, places: Places, entries: list[int]) -> str:
    entry = int(differs.sum(axis=0).argmax())
    place = int(np.where(differs[:, entry], np.abs(ours.mean - theirs.mean)[:, entry], -1.0).argmax())
    state, action = ([float(f"{number:.4g}") for number in part[place]] for part in places)
    one, two = (_number(part.mean[place, entry], part.spread[place, entry]) for part in (ours, theirs))
    return (
        f"the step is not the model that was calibrated: they differ at {int(differs.any(axis=1).sum())} of {len(differs)} "
        f"places, mostly in entry {entries[entry]} of the state. From state {state} under action {action} the step leads it "
        f"to {one} (mean ± standard deviation), the model to {two}. Write the calibrated model as the step, or pass "
        "compare_step=False if they differ on purpose."
    )


def _number(mean: float, spread: float) -> str:
    """A mean with its spread; a spread within rounding error is shown as 0."""
    return f"{mean:.4g} ± {spread if spread > 1e-12 * (1.0 + abs(mean)) else 0.0:.2g}"
