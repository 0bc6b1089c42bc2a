"""The benchmark of plans on a GPU, at the smallest size."""

from __future__ import annotations

import json

import pytest

from benchmarks.gpu import plan as benchmark


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(benchmark, "METHODS", ("capture",))
    monkeypatch.setattr(benchmark, "SCALING", {"samples": (16,), "plans": (2,)})
    return ["--maps", "center", "--samples", "8", "--horizon", "1", "--rounds", "1", "--steps", "1"]


def test_every_part_reports_its_figures(small, tmp_path, capsys):
    file = tmp_path / "plan.json"
    assert benchmark.main(["--parts", "plan", "scaling", "agreement", *small, "--out", str(file)]) == 0
    report, said = json.loads(file.read_text()), capsys.readouterr().out
    assert len(report["scaling"]) == 3
    assert all(row["median_us"] > 0 for part in ("plan", "scaling") for row in report[part])
    [row] = report["agreement"]
    assert row["stages"] == 8
    assert row["largest_difference"] < 1e-9
    assert "center, capture: 0 of 8 stage costs differ" in said


def test_unknown_parts_are_refused(capsys):
    assert benchmark.main(["--parts", "speed"]) == 2
    assert "unknown part 'speed'" in capsys.readouterr().err
