"""The peg planning study: its rows, its tables, and that episodes are the same however they are run."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from capture_cp.studies.peg_planning import PegPlanningStudy
from capture_cp.studies.peg_sensitivity import PegSensitivity
from rich.console import Console

from capture_cp import CaptureError, clopper_pearson
from capture_cp.planning.episode import Episode
from capture_cp.studies import paper, peg_sensitivity
from capture_cp.tasks.peg.options import PegOptions

pytest.importorskip("mujoco")

QUICK = {
    "system": "planar",
    "methods": ("pcp",),
    "episodes": 2,
    "samples": 4,
    "horizon": 2,
    "calibration": 400,
}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path_factory):
    """Transitions are kept once for all tests here, and away from the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "peg-cache"))
    monkeypatch.setattr("capture_cp.studies.peg_planning.MAX_STEPS", 3)


def run(study):
    text = io.StringIO()
    study.run(Console(file=text, width=160))
    return text.getvalue()


def without_times(results):
    return [{key: value for key, value in run.items() if key != "plan_ms"} for run in results]


def test_rows_and_tables(tmp_path):
    study = PegPlanningStudy(**QUICK, json=tmp_path / "rows.json", record=tmp_path / "runs", figures=tmp_path / "figures")
    text = run(study)
    assert "paper" in text
    assert "48" in text
    assert "In closed loop" in text
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["schema"] == 1
    assert written["config"]["bound"] == 3.0
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
    assert {file.name for file in (tmp_path / "figures").iterdir()} == {"peg-planar-paths.png", "peg-planar-horizon.png"}


def test_episodes_are_the_same_again_and_from_the_state_folder(tmp_path):
    quiet = Console(file=io.StringIO())
    once = PegPlanningStudy(**QUICK).results(quiet)[1]["pcp"]
    kept = PegPlanningStudy(**QUICK, state=tmp_path)
    again = kept.results(quiet)[1]["pcp"]
    assert without_times(once) == without_times(again)
    assert kept.results(quiet)[1]["pcp"] == again  # read, times and all


def test_all_methods_meet_the_same_start_and_noise():
    study = PegPlanningStudy(**QUICK | {"methods": ("particles", "lucca")})
    task, results = study.results(Console(file=io.StringIO()))
    starts = task.strata.halton_starts(2)
    for runs in results.values():
        np.testing.assert_allclose([run["path"][0] for run in runs], starts, atol=1e-6)


def test_paper_figures_are_those_of_table_4():
    printed = paper.Paper.of(PegOptions)
    assert [printed.planning("arm", name)[0] for name in paper.PLANNING_METHODS] == [14, 48, 48, 48, 20, 78]


def test_sensitivity_has_a_row_for_every_choice_and_method(tmp_path, monkeypatch):
    choices = {"as chosen": {}, "bound 4": {"bound": 4.0}, "soft": {"frequency": 60.0}}
    monkeypatch.setattr(peg_sensitivity, "CHOICES", choices)
    text = run(PegSensitivity(methods=("particles",), episodes=1, calibration=100, json=tmp_path / "rows.json"))
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["choice"] for row in rows] == list(choices)
    assert all(choice in text for choice in choices)


@pytest.mark.parametrize("changes", peg_sensitivity.CHOICES.values())
def test_every_choice_is_a_setting_of_the_study(changes):
    study = PegPlanningStudy(**QUICK | changes)
    study.check()
    assert study.peg().settings.bound == changes.get("bound", 3.0)


@pytest.mark.parametrize(
    "wrong",
    [{"methods": ()}, {"methods": ("magic",)}, {"episodes": 0}, {"alpha": 1.0}, {"bound": -1.0}, {"width": 5.0},
     {"frequency": 0.0}, {"temperature": 0.0}, {"system": "crane"}],
)  # fmt: skip
def test_settings_that_cannot_be_worked_with_are_refused(wrong):
    with pytest.raises(CaptureError):
        run(PegPlanningStudy(**QUICK | wrong))
