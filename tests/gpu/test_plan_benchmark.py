"""The benchmark of plans on a GPU: what it counts, what it leaves behind, and that it times the launches of a plan."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gpu import plan as benchmark
from benchmarks.gpu.plan_floor import floor, measured_rates, particle_step_instructions
from benchmarks.gpu.plan_runs import closed_loop
from benchmarks.gpu.plan_table import table
from benchmarks.gpu.timing import kernel_jobs
from capture_cp.planning.cuda.layout import Sizes
from capture_cp.tasks.marble.planner import PLANNER

SIZES = Sizes(state=6, action=2, noise=2, particles=16, axes=(0, 2), strata=3)


@pytest.fixture(scope="module")
def run():
    return closed_loop("center", replace(PLANNER, horizon=1, samples=8), 1, 0)


def test_instructions_of_a_particle_are_those_of_the_source():
    one, two = particle_step_instructions(pits=1), particle_step_instructions(pits=2)
    assert one["noise"] == two["noise"] == 84
    assert two["motion"] - one["motion"] == 6  # a pit is a circle: two differences, two products, a sum, a comparison
    assert one["motion"] == 6 + 12 + 5 * 33


def test_floor_grows_with_the_plan():
    plan = floor(4096, 6, SIZES, 1)
    assert plan["instructions"] > 4096 * 6 * 16 * (84 + 183)
    assert plan["bytes"] == 8 * 4096 * (3 * 12 + 2)
    assert plan["floor_us"] == 1e6 * plan["instructions"] / 17e12 > plan["bytes_us"]
    assert floor(8192, 6, SIZES, 1)["floor_us"] == 2 * plan["floor_us"]


def test_rates_are_measured(few):
    rates = measured_rates(1, 2, 3, 4) if few < 100 else measured_rates()
    assert all(rate > 0 for rate in rates.values())


def test_timed_launches_make_the_plan(run):
    planner, engine, state = run.planner, run.planner._device_plans, run.states[0]
    planner.reset()
    planner.plan(state)
    engine._plans.nominal.copy_to_device(np.zeros((1, 1, 2)))
    kernel_jobs(engine)["all"](engine._stream)
    engine._stream.synchronize()
    np.testing.assert_array_equal(engine._plans.nominal.copy_to_host()[0], planner.nominal)


def test_a_part_that_fails_leaves_the_others(monkeypatch, tmp_path, capsys, run):
    def fails(self):
        raise RuntimeError("no memory")

    monkeypatch.setattr(benchmark.Benchmark, "scaling", fails)
    monkeypatch.setattr(benchmark, "closed_loop", lambda *_: run)
    monkeypatch.setattr(benchmark, "METHODS", ("capture",))
    file = tmp_path / "plan.json"
    sizes = ["--maps", "center", "--samples", "8", "--horizon", "1"]
    assert benchmark.main(["--parts", "scaling", "agreement", *sizes, "--out", str(file)]) == 1
    report = json.loads(file.read_text())
    assert report["errors"] == {"scaling": "RuntimeError: no memory"}
    assert report["agreement"]["stages"] == 8
    assert report["agreement"]["largest_difference"] < 1e-9
    assert report["settings"]["samples"] == 8
    assert "0 of 8 stage costs differ" in table(report)
    assert capsys.readouterr().out.endswith("part scaling failed: RuntimeError: no memory\n")


def test_unknown_parts_are_refused(capsys):
    assert benchmark.main(["--parts", "speed"]) == 2
    assert "unknown part 'speed'" in capsys.readouterr().err
