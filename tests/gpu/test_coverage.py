"""The marble's coverage study on the GPU, against the processor's."""

from __future__ import annotations

import io
import warnings

import numpy as np
import pytest
from capture_cp.studies.marble_methods import MarbleMethods
from numba import cuda

from benchmarks.gpu import coverage as benchmark
from capture_cp import CaptureWarning
from capture_cp.capture.methods import METHODS
from capture_cp.studies import montecarlo_cuda
from capture_cp.studies.montecarlo import count
from capture_cp.tasks.marble.cuda import OutcomesOnCuda
from capture_cp.tasks.marble.maps import load_map
from capture_cp.tasks.marble.task import Marble
from gpu.conftest import SIMULATED


@pytest.fixture(scope="module")
def task():
    return Marble(load_map("center"))


@pytest.fixture(scope="module")
def inputs(task):
    """Inputs that bump into walls, and some whose clipped actions give the same outcome again and again."""
    X = task.design_inputs("grid", np.random.default_rng(0))
    return X[np.random.default_rng(1).permutation(len(X))[: 6 if SIMULATED else 3000]]


@pytest.fixture(scope="module")
def caps(task):
    data = task.design_transitions("grid", 2, np.random.default_rng(0))
    rows = np.random.default_rng(2).permutation(len(data.X))[:6000]
    return MarbleMethods(METHODS).fit(task, data.X[rows], data.Y[rows])


@pytest.mark.parametrize("absorb", [False, True])
def test_outcomes_and_their_strata(task, inputs, absorb):
    task = Marble(task.map, absorb)
    positions, labels = cuda.device_array((len(inputs) * 4, 2)), cuda.device_array(len(inputs) * 4, np.int8)
    OutcomesOnCuda(task).draw(cuda.to_device(inputs), 4, 5, 7, 3, positions, labels)
    Y = task.outcomes(inputs, 4, 5, 7, 3).reshape(-1, 2)
    np.testing.assert_allclose(positions.copy_to_host(), Y, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(labels.copy_to_host(), task.strata.index(Y))


def test_counts_are_those_of_the_processor(task, caps, inputs):
    [(part, ours)] = montecarlo_cuda.CounterOnCuda(caps, task, 4, 0, 0.1).parts(inputs, [0], len(inputs))
    assert part == 0
    for name, theirs in count(caps, task, inputs, 4, 0, 0, 0.1).items():
        np.testing.assert_array_equal(ours[name].sums, theirs.sums)
        np.testing.assert_array_equal(ours[name].cells, theirs.cells)


def test_counts_do_not_depend_on_blocks_of_draws(task, caps, inputs, monkeypatch):
    few = {"capture": caps["capture"]}
    [(_, whole)] = montecarlo_cuda.CounterOnCuda(few, task, 3, 0, 0.1).parts(inputs, [0], len(inputs))
    monkeypatch.setattr(montecarlo_cuda, "BLOCK", 2 * len(inputs))
    [(_, blocks)] = montecarlo_cuda.CounterOnCuda(few, task, 3, 0, 0.1).parts(inputs, [0], len(inputs))
    np.testing.assert_array_equal(whole["capture"].sums, blocks["capture"].sums)


def test_whole_strata_count_whole(task, inputs):
    data = task.design_transitions("grid", 2, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        caps = MarbleMethods(("capture",)).fit(task, data.X[:8], data.Y[:8])
        [(_, ours)] = montecarlo_cuda.CounterOnCuda(caps, task, 1, 0, 0.1).parts(inputs, [0], len(inputs))
    np.testing.assert_array_equal(ours["capture"].cells[:-1], len(inputs) * task.strata.sizes)


def test_study_on_the_gpu_is_that_on_the_processor(caps, inputs, monkeypatch):
    study = pytest.importorskip("capture_cp.studies.coverage")  # the command line, which a bare machine may lack
    from rich.console import Console

    monkeypatch.setattr(study.CoverageStudy, "test_inputs", lambda self, task: inputs)
    monkeypatch.setattr(MarbleMethods, "calibrate", lambda self, task: {"capture": caps["capture"]})
    monkeypatch.setattr(study, "PART", 4)
    ours, theirs = (
        study.CoverageStudy(maps=("center",), methods=("capture",), mc=2, device=device)._measure(
            {"center": caps["capture"].model}, Console(file=io.StringIO())
        )
        for device in ("cuda", "cpu")
    )
    assert ours["center"]["capture"].to_json() == theirs["center"]["capture"].to_json()


def test_benchmark(caps, monkeypatch):
    few = {name: caps[name] for name in ("lucca", "capture")}
    monkeypatch.setattr(benchmark, "METHODS", tuple(few))
    monkeypatch.setattr(MarbleMethods, "calibrate", lambda self, task: few)
    monkeypatch.setattr(benchmark, "_warm_up", lambda *given: None)
    monkeypatch.setattr(benchmark, "COMPARED", 3)
    monkeypatch.setattr(benchmark, "COMPARED_DRAWS", 2)
    report = benchmark.benchmark(["center"], mc=2, inputs=3)
    agreement = report["agreement"]["center"]
    assert agreement["strata_that_differ"] == 0
    assert [method["memberships_that_differ"] for method in agreement["methods"].values()] == [0, 0]
    assert agreement["sums_that_differ"] == {"lucca": 0, "capture": 0}
    assert set(report["stage_seconds"]) == {"calibrating", "predicting", "outcomes", "membership", "volumes", "counting"}
    assert "GPU and processor: 0 of 12 memberships" in benchmark.table(report)
