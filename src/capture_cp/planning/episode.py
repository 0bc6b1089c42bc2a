"""Closed loop: plan, act on the true system, repeat; recorded so that it can be replayed."""

from __future__ import annotations

import json
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from capture_cp.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.files import Pathlike, existing_file, written_whole
from capture_cp.planning.mppi import MPPI

#: The true system: (state (ds,), action (da,), rng) -> next state (ds,), and the outcome once the episode has ended.
System = Callable[[Floats, Floats, np.random.Generator], tuple[Floats, str | None]]

TIMED_OUT = "timed out"
_FORMAT = "capture-cp episode"


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
        info: what it was a run of: map, method, seed and the like.
    """

    outcome: str
    states: Floats
    actions: Floats
    plans: Floats
    costs: Floats
    plan_ms: Floats
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        return len(self.actions)

    def save(self, path: Pathlike) -> None:
        """Write the episode to an .npz file, atomically."""
        header = json.dumps({"format": _FORMAT, "outcome": self.outcome, "info": self.info}, default=_plain)
        arrays = {name: getattr(self, name) for name in ("states", "actions", "plans", "costs", "plan_ms")}
        with written_whole(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, header=np.array(header), **arrays)

    @classmethod
    def load(cls, path: Pathlike) -> Episode:
        """Read an episode written by `save`."""
        file = existing_file(path, "episode")
        try:
            with np.load(file, allow_pickle=False) as archive:
                header = json.loads(str(archive["header"]))
                if header["format"] != _FORMAT:
                    raise KeyError("format")
                arrays = {name: archive[name] for name in ("states", "actions", "plans", "costs", "plan_ms")}
                if len({len(arrays["states"]) - 1, *(len(arrays[name]) for name in list(arrays)[1:])}) != 1:
                    raise ValueError("arrays of different lengths")
                return cls(outcome=header["outcome"], info=header["info"], **arrays)
        except (ValueError, OSError, EOFError, KeyError, TypeError, RuntimeError, zlib.error, zipfile.BadZipFile):
            raise CaptureError(
                f"{file} is not an episode of ours, or is damaged; expected one written by Episode.save."
            ) from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise CaptureError(f"info holds {value!r}, which a file cannot; use numbers, text, lists and dictionaries.")


def run_episode(
    planner: MPPI, system: System, start: Floats, max_steps: int, seed: int, info: dict[str, Any] | None = None
) -> Episode:
    """Plan and act until the system ends the episode or `max_steps` have passed.

    `seed` fixes the true system's noise; the planner has a seed of its own.
    """
    rng, max_steps = np.random.default_rng(seed), whole_number("max_steps", max_steps, 1)
    planner.reset()
    state, outcome = finite_array("start", start, (None,), "(ds,)"), None
    states: list[Floats] = [state]
    actions: list[Floats] = []
    plans: list[Floats] = []
    costs: list[float] = []
    plan_ms: list[float] = []
    while outcome is None and len(actions) < max_steps:
        began = time.perf_counter()
        action = planner.plan(state)
        plan_ms.append(1e3 * (time.perf_counter() - began))
        plans.append(planner.nominal.copy())
        costs.append(planner.costs.min())
        state, outcome = system(state.copy(), action.copy(), rng)
        actions.append(action)
        states.append(state)
    return Episode(
        outcome or TIMED_OUT,
        np.array(states),
        np.array(actions),
        np.array(plans),
        np.array(costs),
        np.array(plan_ms),
        dict(info or {}),
    )
