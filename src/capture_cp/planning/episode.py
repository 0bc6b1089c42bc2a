"""Closed loop: plan, act on the true system, repeat; recorded so that it can be replayed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from capture_cp.base.arrays import read_arrays
from capture_cp.base.checks import Bools, CaptureError, Floats, finite_array, whole_number
from capture_cp.base.files import Pathlike, existing_file, written_whole
from capture_cp.base.streams import Randomness, derived_seed, stream
from capture_cp.capture.fitted import Fitted
from capture_cp.planning.braking import BrakingFilter
from capture_cp.planning.mppi import MPPI

#: The true system: (state (ds,), action (da,), rng) -> next state (ds,), and the outcome once the episode has ended.
System = Callable[[Floats, Floats, np.random.Generator], tuple[Floats, str | None]]

TIMED_OUT = "timed out"
_FORMAT = "capture-cp episode"
_ALWAYS = ("states", "actions", "plans", "costs", "plan_ms")
_WITH_REGIONS = ("particles", "thresholds", "inside")
_WITH_FILTER = ("braked",)
#: Kind of number and number of axes of every array.
_KINDS = {
    "states": ("f", 2), "actions": ("f", 2), "plans": ("f", 3), "costs": ("f", 1), "plan_ms": ("f", 1),
    "particles": ("f", 3), "thresholds": ("f", 2), "inside": ("b", 1), "braked": ("b", 1),
}  # fmt: skip


@dataclass(frozen=True)
class Episode:
    """One closed-loop run of T steps.

    Attributes:
        outcome: how it ended.
        states: (T + 1, ds).
        actions: (T, da), as commanded.
        plans: the plan made at each step, (T, H, da).
        costs: cost of the best sampled sequence at each step, (T,).
        plan_ms: time spent planning at each step, (T,).
        info: description of the run: map, method, seed and so on.
        particles: the model's prediction for each executed step, (T, L, dc); for a Gaussian the mean, L = 1.
        thresholds: of the region of each executed step, by stratum, (T, M).
        inside: whether the region of each executed step contained the next configuration, (T,).
        braked: whether the plan of each step failed the filter and the brake's action was executed instead, (T,).

    `particles`, `thresholds` and `inside` are empty until `with_regions` fills them, `braked` if there was no filter.
    """

    outcome: str
    states: Floats
    actions: Floats
    plans: Floats
    costs: Floats
    plan_ms: Floats
    info: dict[str, Any] = field(default_factory=dict)
    particles: Floats = field(default_factory=lambda: np.empty((0, 0, 0)))
    thresholds: Floats = field(default_factory=lambda: np.empty((0, 0)))
    inside: Bools = field(default_factory=lambda: np.empty(0, dtype=bool))
    braked: Bools = field(default_factory=lambda: np.empty(0, dtype=bool))

    @property
    def steps(self) -> int:
        return len(self.actions)

    @property
    def inputs(self) -> Floats:
        """State and action of each executed step: (T, ds + da)."""
        return np.hstack([self.states[:-1], self.actions])

    def with_regions(
        self,
        cap: Fitted,
        axes: Sequence[int],
        alpha: float = 0.1,
        rng: Randomness = None,
        simultaneous: bool = False,
    ) -> Episode:
        """The episode with the regions of its executed steps; `axes` are the state's entries that `cap` predicts.

        A `HorizonCapture` contributes its regions of the first step. `rng` is as in `Capture.predict`. With `simultaneous`,
        a `Capture` that was fitted to episodes gives regions that hold simultaneously for all executed steps.

        `cap.region(inputs[t], alpha, prediction=particles[t])` is then the region of step t.
        """
        return with_regions([self], cap, axes, alpha, rng, simultaneous)[0]

    def save(self, path: Pathlike) -> None:
        """Write the episode to an .npz file, atomically."""
        header = json.dumps({"format": _FORMAT, "outcome": self.outcome, "info": self.info}, default=_plain)
        arrays = {name: getattr(self, name) for name in (*_ALWAYS, *_WITH_REGIONS, *_WITH_FILTER)}
        with written_whole(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, header=np.array(header), **arrays)

    @classmethod
    def load(cls, path: Pathlike) -> Episode:
        """Read an episode written by `save`."""
        file = existing_file(path, "episode")
        try:
            found = read_arrays(file, "episode")
            header = json.loads(str(found["header"]))
            if header["format"] != _FORMAT or not isinstance(header["outcome"], str) or not isinstance(header["info"], dict):
                raise ValueError("another header")
            arrays = {name: found[name] for name in (*_ALWAYS, *_WITH_REGIONS)}
            arrays["braked"] = found.get("braked", np.empty(0, dtype=bool))  # absent from files written before filters
            if any((array.dtype.kind, array.ndim) != _KINDS[name] for name, array in arrays.items()):
                raise ValueError("arrays of another kind")
            steps = len(arrays["states"]) - 1
            if any(len(arrays[name]) != steps for name in _ALWAYS[1:]):
                raise ValueError("arrays of different lengths")
            if {len(arrays[name]) for name in _WITH_REGIONS} not in ({0}, {steps}):
                raise ValueError("regions of some steps only")
            if len(arrays["braked"]) not in (0, steps):
                raise ValueError("a filter of some steps only")
            return cls(outcome=header["outcome"], info=header["info"], **arrays)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CaptureError(
                f"{file} is not a capture-cp episode, or is damaged; expected one written by Episode.save."
            ) from None


def with_regions(
    runs: Sequence[Episode],
    cap: Fitted,
    axes: Sequence[int],
    alpha: float = 0.1,
    rng: Randomness = None,
    simultaneous: bool = False,
) -> list[Episode]:
    """Episodes with the regions of their executed steps, computed together; see `Episode.with_regions`."""
    before, actions = np.concatenate([run.states[:-1] for run in runs]), np.concatenate([run.actions for run in runs])
    after = np.concatenate([run.states[1:] for run in runs])[:, list(axes)]
    found = cap.executed_regions(before, actions, after, alpha, rng, simultaneous)
    ends = np.cumsum([run.steps for run in runs])[:-1]
    parts = zip(runs, *(np.split(part, ends) for part in found))
    return [replace(run, particles=p, thresholds=q, inside=i) for run, p, q, i in parts]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise CaptureError(f"info holds {value!r}, which a file cannot store; use numbers, text, lists and dictionaries.")


def episode_seeds(seed: int, where: str, episode: int) -> tuple[int, int]:
    """Seeds of the planner and of the true system in one episode of a study, the same for every method.

    `where` names the map or the system: episodes with the same number on two maps are independent.
    """
    return derived_seed(seed, "planner", where, episode), derived_seed(seed, "system", where, episode)


def run_episode(
    planner: MPPI,
    system: System,
    start: Floats,
    max_steps: int,
    seed: int,
    info: dict[str, Any] | None = None,
    braking: BrakingFilter | None = None,
) -> Episode:
    """Plan and act until the system ends the episode or `max_steps` have passed.

    `seed` fixes the true system's noise and the filter's particles; the planner has its own seed. Where the plan fails the
    filter `braking`, the brake's action is executed. The planner is not informed: its next plan starts from its last one,
    shifted by a step, as after any step.
    """
    rng, max_steps = stream(whole_number("seed", seed, 0), "system"), whole_number("max_steps", max_steps, 1)
    particles, braked = stream(seed, "braking"), list[bool]()
    planner.reset()
    run = Record(finite_array("start", start, (None,), "(ds,)"))
    while run.outcome is None and len(run.actions) < max_steps:
        began = time.perf_counter()
        action = planner.plan(run.state)
        spent = 1e3 * (time.perf_counter() - began)
        if braking is not None:
            (action,), (failed,) = braking.act(run.state[None], planner.nominal[None], particles)
            braked.append(bool(failed))
        after = system(run.state.copy(), action.copy(), rng)
        run.add(planner.nominal.copy(), planner.costs.min(), action, *after, spent)
    return replace(run.episode(dict(info or {})), braked=np.array(braked, dtype=bool))


class Record:
    """A run as it is recorded, step by step."""

    def __init__(self, start: Floats) -> None:
        self.outcome: str | None = None
        self.states, self.actions, self.plans = [start], list[Floats](), list[Floats]()
        self.costs, self.plan_ms = list[float](), list[float]()

    @property
    def state(self) -> Floats:
        return self.states[-1]

    def add(self, plan: Floats, cost: float, action: Floats, state: Floats, outcome: str | None, plan_ms: float) -> None:
        """A plan, the cost of the best sample, and what was executed; the outcome once the run has ended."""
        self.outcome = outcome
        lists: tuple[list[Any], ...] = (self.plans, self.costs, self.actions, self.states, self.plan_ms)
        for numbers, new in zip(lists, (plan, float(cost), action, state, plan_ms)):
            numbers.append(new)

    def episode(self, info: dict[str, Any]) -> Episode:
        """The episode so far; one without an outcome has timed out."""
        arrays: dict[str, Any] = {name: np.array(getattr(self, name)) for name in _ALWAYS}
        return Episode(self.outcome or TIMED_OUT, info=info, **arrays)
