"""Kernels in programs with threads and processes of their own, whatever library numba takes for its threads."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numba import prange

from capture_cp.kernels import compiler
from capture_cp.kernels.compiler import parallel_kernel

TESTS = Path(__file__).parent

SETUP = """
import multiprocessing, os, sys, threading
import numba
import numpy as np
from capture_cp import Capture, NearestParticles, PerStratum
from capture_cp.planning import MPPI, FusedRollout, plugin
from capture_lab.tasks.box import Box
from planning.plugins import push

box = Box(spacing=0.05)
data = box.transitions(400, np.random.default_rng(0))

def calibrated():
    return Capture(box, box.strata, NearestParticles(4), PerStratum(), n_particles=8).fit(data.X, data.Y)

cap = calibrated()
hazard = np.zeros(box.strata.grid.size, dtype=bool)

def planned():
    rollout = FusedRollout(cap, plugin.step, plugin.stage_cost, push(), hazard, (0, 1), 2, compare_step=False)
    planner = MPPI(rollout, 3, 64, 0.05, 0.01 * np.eye(2), [-0.2] * 2, [0.2] * 2)
    return [planner.plan([0.3, 0.5]) for _ in range(3)]

particles = box(data.X, 8, np.random.default_rng(1))

def asked(_=None):
    plans, inside = planned(), cap.contains(data.X, data.Y, prediction=particles)
    return np.concatenate([np.ravel(plans), inside, cap.count_cells(data.X[:50], prediction=particles[:50]).ravel()])
"""

THREADS = (
    SETUP
    + """
wanted = asked()
failed = []

def work():
    for _ in range(6):
        same = np.array_equal(calibrated().thresholds(data.X), cap.thresholds(data.X))
        if not same or not np.array_equal(asked(), wanted):
            failed.append(1)

threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(numba.threading_layer(), "wrong" if failed else "right")
"""
)

FORK = (
    SETUP
    + """
wanted = asked()
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map(asked, range(4))
print(numba.threading_layer(), "right" if all(np.array_equal(one, wanted) for one in found) else "wrong")
assert np.array_equal(asked(), wanted)
"""
)

FORK_FIRST = (
    SETUP.replace("cap = calibrated()", "cap = None")
    + """
def work(_=None):
    global cap
    cap = calibrated()
    return asked()

with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map(work, range(2))
wanted = work()
print(numba.threading_layer(), "right" if all(np.array_equal(one, wanted) for one in found) else "wrong")
"""
)


@cache
def is_there(layer):
    """Whether numba can use this library for its threads here."""
    code = "import importlib, sys; importlib.import_module('numba.np.ufunc.' + sys.argv[1])"
    name = {"omp": "omppool", "tbb": "tbbpool"}.get(layer, layer)
    return subprocess.run([sys.executable, "-c", code, name], capture_output=True).returncode == 0


def run(code, layer):
    if not is_there(layer):
        pytest.skip(f"numba has no {layer} here")
    folders = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": folders, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [layer, "right"]


@pytest.mark.parametrize("layer", ["workqueue", "omp", "tbb"])
def test_threads_may_calibrate_ask_and_plan_at_the_same_time(layer):
    run(THREADS, layer)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("layer", ["workqueue", "omp", "tbb"])
@pytest.mark.parametrize("code", [FORK, FORK_FIRST], ids=["after", "before"])
def test_forked_processes_ask_and_plan(layer, code):
    run(code, layer)


DISABLED = """
import numpy as np
from numba import njit
from capture_cp import Capture, CaptureError, ParticleBox, OneGroup
from capture_cp.planning import FusedRollout, plugin
from capture_lab.tasks.box import Box

box = Box(spacing=0.1)
data = box.transitions(50, np.random.default_rng(0))

def printed(action):
    try:
        action()
    except CaptureError as error:
        print(error)

printed(lambda: Capture(box, box.strata).fit(data.X, data.Y))
printed(lambda: Capture(box, box.strata, ParticleBox(), OneGroup()).fit(data.X, data.Y).contains(data.X, data.Y))
printed(lambda: FusedRollout(None, plugin.step, plugin.stage_cost, (), (), (0, 1), 2))
"""


def test_a_numba_that_may_not_compile_is_reported():
    env = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", DISABLED], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["NUMBA_DISABLE_JIT is set, but the kernels need numba's compiler; unset it."] * 3
    code = "import sys; from capture_cp.cli import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "coverage", "marble", "--maps", "center"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert "NUMBA_DISABLE_JIT" in done.stderr
    assert "Traceback" not in done.stderr


@parallel_kernel(cache=False)
def doubled(values):
    """Twice the values (n,)."""
    out = np.empty_like(values)
    for i in prange(values.shape[0]):
        out[i] = 2 * values[i]
    return out


def test_a_kernel_without_threads_is_the_same_kernel():
    values = np.arange(5.0)
    np.testing.assert_array_equal(doubled(values), doubled.alone(values))
    assert doubled.alone.py_func.__qualname__ == "doubled_alone"
    assert not doubled.alone.targetoptions.get("parallel")


def test_a_kernel_is_a_numba_function_to_those_who_ask():
    assert doubled.__doc__ == "Twice the values (n,)."
    assert doubled.__name__ == "doubled"
    np.testing.assert_array_equal(doubled.py_func(np.ones(2)), [2.0, 2.0])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(doubled.threaded))(np.ones(2)), [2.0, 2.0])


def test_kernels_wait_for_each_other_only_where_they_must(monkeypatch):
    class Lock:
        def __enter__(self):
            taken.append(library)

        def __exit__(self, *given):
            pass

    taken = []
    monkeypatch.setattr(compiler, "_lock", Lock())
    for library in ("workqueue", "omp", "tbb", None):
        monkeypatch.setattr(compiler, "_library", lambda library=library: library)
        doubled(np.arange(5.0))
    assert taken == ["workqueue", None]


def test_a_forked_process_does_without_threads_only_where_it_must(monkeypatch):
    for library, alone in (("omp", True), ("workqueue", False), (None, False)):
        monkeypatch.setattr(compiler, "_alone", False)
        monkeypatch.setattr(compiler, "_library", lambda library=library: library)
        before = compiler._lock
        compiler._after_fork()
        assert compiler._alone is alone
        assert compiler._lock is not before
        np.testing.assert_array_equal(doubled(np.arange(3.0)), [0.0, 2.0, 4.0])
        assert doubled._kernel is (doubled.alone if alone else doubled.threaded)


def test_all_kernels_that_threads_share_are_made_in_one_place():
    source = TESTS.parent / "src" / "capture_cp"
    files = [file.name for file in source.rglob("*.py") if re.search(r"jit\(.*parallel=True", file.read_text())]
    assert files == ["compiler.py"]
