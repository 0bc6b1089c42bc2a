"""The planning study on the peg: its rows, its tables, and that episodes are the same however they are run."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from capture_cp import CaptureError
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.planning.episode import Episode
from capture_lab.studies.planning import PlanningStudy
from capture_lab.tasks.peg.options import PegOptions
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.recorded import recorded_task

pytest.importorskip("mujoco")

QUICK = {"methods": ("pcp",), "episodes": 2, "samples": 4, "horizon": 2, "calibration": 400}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    """Transitions are kept once for all tests here, and away from the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "peg-cache"))
    monkeypatch.setattr(Peg, "max_steps", 3)


def planning(task=None, **changes):
    return PlanningStudy.of(PegOptions(**(task or {})), **(QUICK | changes))


def run(study):
    text = io.StringIO()
    study.run(Console(file=text, width=160))
    return text.getvalue()


def played(study):
    tasks = study.tasks()
    return tasks["planar"], study.results(tasks, Console(file=io.StringIO()))


def without_times(results):
    return [{key: value for key, value in run.items() if key != "plan_ms"} for run in results]


def test_rows_and_tables(tmp_path):
    text = run(planning(json=tmp_path / "rows.json", record=tmp_path / "runs", figures=tmp_path / "figures"))
    assert "paper" in text
    assert "48" in text
    assert "In closed loop" in text
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["schema"] == 1
    assert written["config"]["task"]["bound"] == 3.0
    (row,) = written["rows"]
    assert (row["task"], row["map"], row["method"], row["episodes"]) == ("peg", "planar", "pcp", 2)
    assert row["success"] + row["fell"] + row["timed_out"] == 1
    assert row["success_ci95"] == list(clopper_pearson(0, 2))
    assert row["steps_mean"] is None
    assert 0 < row["plan_ms_median"] <= row["plan_ms_p99"]
    assert sum(row["landed"].values()) == 6
    assert all(row["held"][regime] <= row["landed"][regime] for regime in row["landed"])
    assert row["paper"] == [48, 38.4, 13.9]
    saved = Episode.load(tmp_path / "runs" / "peg-planar-pcp-001.npz")
    assert saved.info["method"] == "pcp"
    assert saved.states.shape == (4, 3)
    assert recorded_task(saved) == Peg()
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"peg-planar-paths.png", "peg-planar-horizon.png"}


def test_episodes_are_the_same_again_and_from_the_state_folder(tmp_path):
    once, again = played(planning())[1], played(planning(state=tmp_path))[1]
    assert without_times(once["planar", "pcp"]) == without_times(again["planar", "pcp"])
    assert played(planning(state=tmp_path))[1] == again  # read, times and all


@pytest.mark.parametrize(
    ("wrong", "of_task"),
    [({"methods": ()}, {}), ({"methods": ("magic",)}, {}), ({"episodes": 0}, {}), ({"alpha": 1.0}, {}),
     ({"temperature": 0.0}, {}), ({}, {"bound": -1.0}), ({}, {"width": 5.0}), ({}, {"frequency": 0.0}),
     ({}, {"system": "crane"})],
)  # fmt: skip
def test_settings_that_cannot_be_worked_with_are_refused(wrong, of_task):
    with pytest.raises(CaptureError):
        run(planning(of_task, **wrong))
