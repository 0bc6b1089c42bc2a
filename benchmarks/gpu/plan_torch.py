"""The marble's plan in PyTorch in several forms on a GPU: eager, recorded as a CUDA graph, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch._inductor.config

from benchmarks.torch_plan import TorchPlanner, TorchRollout
from capture_cp.base.checks import Floats
from capture_cp.capture.capture import Capture
from capture_cp.planning.mppi import MPPI
from capture_lab.tasks.marble.planner import marble_params
from capture_lab.tasks.marble.task import Marble

# PyTorch's compiler keeps many worker processes, which would take cores from the timed ones.
torch._inductor.config.compile_threads = 1

COMPARED = 4  # states whose costs are compared


def contenders(
    task: Marble, cap: Capture, planner: MPPI, states: Floats, say: Callable[[str], None]
) -> dict[str, Callable[[Floats], Any]]:
    """PyTorch's plans by name; on the CPU if PyTorch finds no GPU. `planner` has the settings and our costs."""
    from benchmarks.planning import ALPHA

    device = "cuda" if torch.cuda.is_available() else "cpu"
    rollout = TorchRollout(cap, task, marble_params(task, task.model_gain), ALPHA, device)
    say(f"PyTorch {torch.__version__}: mean costs differ by up to {apart(rollout, planner, states):.1f} standard errors")
    plans: dict[str, Callable[[Floats], Any]] = {}
    for way, chosen in {"eager": rollout, "torch.compile": rollout.compiled()}.items():
        try:
            plain, recorded = TorchPlanner(chosen, planner), TorchPlanner(chosen, planner)
            plain.plan(states[0])
            plans[f"PyTorch {way}, {device}"] = plain.plan
            if device == "cuda":
                recorded.plan(states[0])
                plans[f"PyTorch {way}, CUDA graph"] = recorded.record().plan
        except Exception as error:  # a compiler may fail in any way, and that is then the result
            say(f"PyTorch {way} did not compile: {type(error).__name__}: {str(error).strip()[:300]}")
    return plans


def apart(rollout: TorchRollout, planner: MPPI, states: Floats) -> float:
    """How far PyTorch's mean stage costs are from ours over the same sequences, each with its own noise.

    In standard errors of the difference, the largest over steps and states.
    """
    errors, rng = [], np.random.default_rng(0)
    for number in np.linspace(0, len(states) - 1, min(COMPARED, len(states))).astype(int):
        sequences = rng.uniform(planner.low, planner.high, (planner.samples, planner.horizon, len(planner.low)))
        theirs, ours = (costs(states[number], sequences, int(number)) for costs in (rollout, planner.rollout))
        spread = (theirs - ours).std(axis=0) / np.sqrt(len(ours)) + 1e-5 * ours.mean(axis=0)  # float32
        errors.append(np.abs((theirs - ours).mean(axis=0)) / spread)
    return float(np.max(errors))
