"""The marble's plan in PyTorch in several forms on a GPU: eager, recorded as a CUDA graph, compiled."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch._inductor.config

from benchmarks.gpu.timing import seconds
from benchmarks.planning import ALPHA
from benchmarks.torch_plan import TorchPlanner, TorchRollout
from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.planning.mppi import MPPI
from capture_cp.tasks.marble.planner import marble_params
from capture_cp.tasks.marble.task import Marble

# PyTorch's compiler keeps many worker processes, which would take cores from the timed ones.
torch._inductor.config.compile_threads = 1

COMPARED = 4  # states whose costs are compared

Plan = Callable[[Floats], Any]


def contenders(
    task: Marble, cap: Capture, planner: MPPI, states: Floats, compile_limit: int, say: Callable[[str], None]
) -> tuple[dict[str, Plan], dict[str, Any]]:
    """PyTorch's plans by name, and notes on them: missing ones, and the error of their costs.

    On the CPU if PyTorch finds no GPU. `planner` has the settings; its rollout gives the costs to compare with.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rollout = TorchRollout(cap, task, marble_params(task, task.model_gain), ALPHA, device)
    plans: dict[str, Plan] = {}
    missing: dict[str, str] = {}
    first_plans: dict[str, float] = {}
    ways = {"eager": rollout, "torch.compile": rollout.compiled()}
    for way, chosen in ways.items():
        try:
            first, recorded = TorchPlanner(chosen, planner), TorchPlanner(chosen, planner)
            with _time_limit(compile_limit):
                first_plans[way] = seconds(lambda: first.plan(states[0]))  # noqa: B023
            say(f"PyTorch {way}: first plan {first_plans[way]:.2f} s")
            plans[f"PyTorch {way}, {device}"] = first.plan
            if device == "cuda":
                recorded.plan(states[0])
                plans[f"PyTorch {way}, CUDA graph"] = recorded.record().plan
        except (Exception, TooLong) as error:  # a compiler may fail in any way, and that is then the result
            missing[f"PyTorch {way}"] = f"did not compile: {type(error).__name__}: {str(error).strip()[:300]}"
            say(f"PyTorch {way} {missing[f'PyTorch {way}']}")
    report = {"torch": torch.__version__, "device": device, "missing": missing, "first_plan_seconds": first_plans}
    return plans, report | {"costs": compared(rollout, planner, states)}


def compared(rollout: TorchRollout, planner: MPPI, states: Floats) -> dict[str, float]:
    """How far PyTorch's mean stage costs are from ours over the same sequences, each with its own noise.

    In standard errors of the difference, the largest over steps and states.
    """
    errors, rng = [], np.random.default_rng(0)
    for number in np.linspace(0, len(states) - 1, min(COMPARED, len(states))).astype(int):
        sequences = rng.uniform(planner.low, planner.high, (planner.samples, planner.horizon, len(planner.low)))
        theirs, ours = (costs(states[number], sequences, int(number)) for costs in (rollout, planner.rollout))
        apart = theirs - ours
        spread = apart.std(axis=0) / np.sqrt(len(apart)) + 1e-5 * ours.mean(axis=0)  # float32
        errors.append(np.abs(apart.mean(axis=0)) / spread)
    return {"largest_in_standard_errors": float(np.max(errors)), "means": float(np.size(errors))}


class TooLong(BaseException):
    """A time limit has passed. Not an Exception, which the compiler would catch and continue."""


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Stop the enclosed work after so long; repeated every second in case something caught it."""

    def stop(*_: Any) -> None:
        raise TooLong(f"stopped after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
