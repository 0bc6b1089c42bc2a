"""The marble's coverage study on the GPU, against the processor's."""

from __future__ import annotations

import io
import warnings
from functools import partial

import numpy as np
import pytest
from numba import cuda

from benchmarks.gpu import coverage as benchmark
from capture_cp import CaptureWarning
from capture_cp.capture.methods import METHODS
from capture_cp.cuda.conformal import zeros
from capture_lab.studies import montecarlo_cuda
from capture_lab.studies.montecarlo import Question, count, fit_methods
from capture_lab.tasks.marble.cuda import OutcomesOnCuda
from capture_lab.tasks.marble.maps import load_map
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.task import TestSet
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
    return fit_methods(task, METHODS, data.rows(rows), 0, tree=benchmark.TREE)


def counted_there(caps, task, X, question):
    """Counts of all inputs X in one part, on the GPU."""
    counter = montecarlo_cuda.CounterOnCuda(caps, task, task.outcomes_on_cuda(), question)
    [found] = counter.parts(X, [slice(0, len(X))])
    return found


@pytest.mark.parametrize("absorb", [False, True])
def test_outcomes_and_their_strata(task, inputs, absorb):
    task = Marble(task.map, absorb)
    positions, labels = cuda.device_array((len(inputs) * 4, 2)), cuda.device_array(len(inputs) * 4, np.int8)
    totals, strata = zeros((len(inputs), len(task.strata.names)), np.int64), np.arange(len(task.strata.names))
    OutcomesOnCuda(task).draw(cuda.to_device(inputs), 5, 7, 3, positions, labels, totals)
    Y = task.outcomes(inputs, 4, 5, 7, 3).reshape(-1, 2)
    wanted = task.strata.index(Y)
    np.testing.assert_allclose(positions.copy_to_host(), Y, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(labels.copy_to_host(), wanted)
    np.testing.assert_array_equal(totals.copy_to_host(), (wanted.reshape(-1, 4, 1) == strata).sum(axis=1))


@pytest.mark.parametrize("volume", [None, 4, 0])
def test_counts_are_those_of_the_processor(task, caps, inputs, volume):
    question = Question(4, 0.1, volume)
    ours = counted_there(caps, task, inputs, question)
    test = TestSet(inputs, partial(task.outcomes, seed=task.seed_here(0)))
    for name, theirs in count(caps, task, test, question, slice(0, len(inputs))).items():
        assert ours[name].to_json() == theirs.to_json()


def test_counts_do_not_depend_on_blocks_of_draws(task, caps, inputs, monkeypatch):
    few = {"capture": caps["capture"]}
    whole = counted_there(few, task, inputs, Question(3, 0.1))
    monkeypatch.setattr(montecarlo_cuda, "BLOCK", 2 * len(inputs))
    blocks = counted_there(few, task, inputs, Question(3, 0.1))
    np.testing.assert_array_equal(whole["capture"].sums, blocks["capture"].sums)


def test_whole_strata_count_whole(task, inputs):
    data = task.design_transitions("grid", 2, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)
        caps = fit_methods(task, ("capture",), data.rows(slice(0, 8)), 0, tree=benchmark.TREE)
        ours = counted_there(caps, task, inputs, Question(1, 0.1))
    np.testing.assert_array_equal(ours["capture"].cells[:-1], len(inputs) * task.strata.sizes)


def test_study_on_the_gpu_is_that_on_the_processor(caps, inputs, monkeypatch):
    coverage = pytest.importorskip("capture_lab.studies.coverage")  # the command line, which a bare machine may lack
    from rich.console import Console

    from capture_lab.tasks.marble.options import MarbleOptions

    monkeypatch.setattr(coverage.CoverageStudy, "calibrate", lambda self, task, advance=None: {"capture": caps["capture"]})
    monkeypatch.setattr("capture_lab.tasks.task.TEST_PART", 4)
    found, quiet = [], Console(file=io.StringIO())
    for device in ("cuda", "cpu"):
        study = coverage.CoverageStudy.of(MarbleOptions(("center",)), methods=("capture",), mc=2, device=device)
        tasks = study.checked_places()
        test = TestSet(inputs, partial(tasks["center"].outcomes, seed=tasks["center"].seed_here(0)))
        found.append(study.measure(tasks, {"center": test}, quiet)[0]["center"]["capture"].to_json())
    assert found[0] == found[1]


def test_benchmark(caps, monkeypatch):
    few = {name: caps[name] for name in ("lucca", "capture")}
    monkeypatch.setattr(benchmark, "METHODS", tuple(few))
    monkeypatch.setattr(benchmark, "calibrate", lambda task: few)
    monkeypatch.setattr(benchmark, "_warm_up", lambda *given: None)
    monkeypatch.setattr(benchmark, "COMPARED", 3)
    monkeypatch.setattr(benchmark, "COMPARED_DRAWS", 2)
    report = benchmark.benchmark(["center"], mc=2, inputs=3)
    for found in report["agreement"]["center"].values():
        assert found["sums_that_differ"] == found["cells_that_differ"] == 0
    assert "GPU and CPU, 12 memberships: 0 of" in benchmark.table(report)
