"""Kernels in programs with threads and processes of their own, whatever library numba takes for its threads."""

from __future__ import annotations

import os
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
import multiprocessing, sys, threading
import numba
import numpy as np
from capture_cp import Capture, NearestParticles, PerStratum
from capture_cp.planning import MPPI, plugin
from capture_lab.tasks.box import Box
from planning.plugins import fused_rollout, push

box = Box(spacing=0.05)
data = box.transitions(400, np.random.default_rng(0))
particles = box(data.X, 8, np.random.default_rng(1))

def calibrated():
    return Capture(box, box.strata, NearestParticles(4), PerStratum(), n_particles=8).fit(data.X, data.Y)

def planned(cap):
    hazard = np.zeros(box.strata.grid.size, dtype=bool)
    rollout = fused_rollout(cap, plugin.step, plugin.stage_cost, push(), hazard, (0, 1), 2, compare_step=False)
    planner = MPPI(rollout, 3, 64, 0.05, 0.01 * np.eye(2), [-0.2] * 2, [0.2] * 2)
    return [planner.plan([0.3, 0.5]) for _ in range(3)]

def asked(_=None):
    cap = calibrated()
    inside = cap.contains(data.X, data.Y, prediction=particles)
    cells = cap.count_cells(data.X[:50], prediction=particles[:50])
    plans = planned(cap) if "plan" in sys.argv else []
    return np.concatenate([np.ravel(plans), cap.thresholds(data.X).ravel(), inside, cells.ravel()])

def tell(found, wanted):
    print(numba.threading_layer(), "right" if all(np.array_equal(one, wanted) for one in found) else "wrong")
"""

THREADS = (
    SETUP
    + """
wanted, found = asked(), []
threads = [threading.Thread(target=lambda: found.extend(asked() for _ in range(6))) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
tell([*found, *[None] * (24 - len(found))], wanted)
"""
)

#: Where the parent has used the kernels, and where it has not.
FORK, FORK_FIRST = (
    SETUP
    + f"""
wanted = {before}
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map(asked, range(4))
tell(found, wanted if wanted is not None else asked())
"""
    for before in ("asked()", "None")
)


@cache
def is_there(layer):
    """Whether numba can use this library for its threads here."""
    code = "import importlib, sys; importlib.import_module('numba.np.ufunc.' + sys.argv[1])"
    name = {"omp": "omppool", "tbb": "tbbpool"}.get(layer, layer)
    return subprocess.run([sys.executable, "-c", code, name], capture_output=True).returncode == 0


def run(code, layer, *arguments):
    if not is_there(layer):
        pytest.skip(f"numba has no {layer} here")
    folders = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | {"PYTHONPATH": folders, "NUMBA_THREADING_LAYER": layer, "NUMBA_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [layer, "right"]


@pytest.mark.parametrize(("layer", "what"), [("workqueue", "plan"), ("omp", ""), ("tbb", "")])
def test_threads_may_calibrate_ask_and_plan_at_the_same_time(layer, what):
    run(THREADS, layer, what)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("layer", ["workqueue", "omp", "tbb"])
@pytest.mark.parametrize("code", [FORK, FORK_FIRST], ids=["after", "before"])
def test_forked_processes_calibrate_and_ask(layer, code):
    run(code, layer, "plan" if (code, layer) == (FORK, "omp") else "")


DISABLED = """
import numpy as np
from numba import njit
from capture_cp import Capture, CaptureError, OneGroup
from capture_cp.conformal.scores import ParticleBox
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
printed(lambda: FusedRollout(None, None, plugin.stage_cost, ()))
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


def test_a_kernel_does_without_threads_only_where_it_must(monkeypatch):
    monkeypatch.setattr(compiler.numba, "get_num_threads", lambda: 2)
    for library, alone in (("omp", True), ("workqueue", False), (None, False)):
        monkeypatch.setattr(compiler, "_alone", False)
        monkeypatch.setattr(compiler, "_library", lambda library=library: library)
        compiler._after_fork()
        np.testing.assert_array_equal(doubled(np.arange(3.0)), [0.0, 2.0, 4.0])
        assert doubled._kernel is (doubled.alone if alone else doubled.threaded)
    assert not doubled.alone.targetoptions.get("parallel")


def test_all_kernels_that_threads_share_are_made_in_one_place():
    source = TESTS.parent / "src" / "capture_cp"
    files = [file.name for file in source.rglob("*.py") if re.search(r"jit\(.*parallel=True", file.read_text())]
    assert files == ["compiler.py"]
