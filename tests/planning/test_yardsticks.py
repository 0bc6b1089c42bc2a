"""The alternatives that speed is measured against give the answers that our kernels give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.planning import calibrated
from capture_cp.cli import main
from capture_cp.cuda import device as device_module
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.planner import PLANNER, marble_params

STATES = {
    "at rest": lambda task: np.array([*_xy(task.map.start, 0), *_xy(task.map.start, 1), 0.0, 0.0]),
    "rolling, board tilted": lambda task: np.array(
        [task.map.start[0] / 1e3, 0.1, task.map.start[1] / 1e3, -0.05, 0.1, -0.1]
    ),
}


def _xy(point, axis):
    return point[axis] / 1e3, 0.0


@pytest.mark.parametrize("where", STATES)
def test_torch_rollout_costs_what_ours_costs(where):
    pytest.importorskip("torch")
    from benchmarks.torch_plan import TorchRollout

    task, cap = calibrated("center", 0)
    state = STATES[where](task)
    sequences = np.random.default_rng(0).uniform(-0.5, 0.5, (64, 4, 2))
    ours = task.planner(cap, replace(PLANNER, horizon=4, samples=64)).rollout
    theirs = TorchRollout(cap, task, marble_params(task, dynamics.MODEL_GAIN), 0.1)
    # each draws noise of its own: compare averages over draws, in units of their spread
    a, b = (np.array([rollout(state, sequences, seed) for seed in range(12)]) for rollout in (ours, theirs))
    error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 12) + 1e-4 * (1 + np.abs(a.mean(axis=0)))
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) / error).max() < 6
    assert a.std() > 0


def test_torch_planner_plans_what_ours_plans():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    from benchmarks.torch_plan import TorchPlanner, TorchRollout

    task, cap = calibrated("center", 0)
    state = STATES["rolling, board tilted"](task)
    ours = task.planner(cap, replace(PLANNER, horizon=3, samples=200))
    theirs = TorchPlanner(TorchRollout(cap, task, marble_params(task, dynamics.MODEL_GAIN), 0.1), ours)

    def actions(planner):
        found = []
        for _ in range(20):
            found.append(planner.plan(state))
            planner.nominal = 0 * planner.nominal
        return np.array(found)

    a, b = actions(ours), actions(theirs)
    error = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 20)
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) / error).max() < 5
    assert np.abs(a.mean(axis=0) / error).max() > 5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(("--device", "cuda"), 'device "cuda" cannot be used: no NVIDIA GPU'), (("--rounds", "0"), "rounds is 0; expected")],
)
def test_benchmarks_refuse_in_one_sentence(monkeypatch, capsys, arguments, sentence):
    monkeypatch.setattr(device_module, "_trouble", lambda: 'no NVIDIA GPU was found; use device "cpu".')
    monkeypatch.setattr("sys.argv", ["capture", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    reported = capsys.readouterr().err
    assert sentence in " ".join(reported.split())
    assert "Traceback" not in reported
