"""The sensitivity study of the marble: one setting at a time, the study's own values run once."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from capture_cp.studies.marble_sensitivity import SETTINGS, MarbleSensitivity, Setting, changed
from rich.console import Console

from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.methods import method
from capture_cp.conformal.groups import Tree
from capture_cp.studies import marble_sensitivity, planning_rows
from capture_cp.studies.planning import PlanningStudy
from capture_cp.studies.planning_rows import ROWS, calibrate
from capture_cp.tasks.marble.maps import load_map
from capture_cp.tasks.marble.task import Marble
from commands import refused
from marble.boards import write_map

HORIZON_ROW = "capture-horizon-residual"


@pytest.fixture
def quick(monkeypatch):
    """Little data and short episodes."""
    for name, value in {"ROLLOUTS": 800, "MAX_STEPS": 3}.items():
        monkeypatch.setattr(planning_rows, name, value)


@pytest.fixture
def task(tmp_path):
    return Marble(load_map(write_map(tmp_path)), absorb=True)


def run(study):
    console = Console(file=io.StringIO(), width=200)
    study.run(console)
    return console.file.getvalue()


# -- the settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_own_value_is_the_studys(name):
    setting, study = SETTINGS[name], PlanningStudy()
    assert setting.own in setting.values
    relative = {"k": study.particles // 2, "temperature": 1}  # where the study says None
    assert setting.own == relative.get(name, getattr(study, setting.field))


@pytest.mark.parametrize("method", ["capture", HORIZON_ROW])
@pytest.mark.parametrize("name", SETTINGS)
def test_one_setting_differs_and_the_study_takes_it(name, method, tmp_path):
    study = PlanningStudy(maps=(str(write_map(tmp_path)),), methods=(method,))
    for value in SETTINGS[name].values:
        point = changed(study, name, value, method)
        point.checked_tasks()
        assert (point == study) == (value == SETTINGS[name].own)
        assert replace(point, **{SETTINGS[name].field: getattr(study, SETTINGS[name].field)}) == study


@pytest.mark.parametrize("method", ["capture", HORIZON_ROW])
def test_temperature_is_a_multiple_of_the_rows_own(method):
    point = changed(PlanningStudy(), "temperature", 4, method)
    assert point.temperature == pytest.approx(4 * ROWS[method].planner.temperature)


# -- k and the share of the data --------------------------------------------------------------------------------------


def test_all_of_the_data_are_the_data_as_they_were(task):
    seed = derived_seed(0, "marble", task.map.name)
    data = task.design_transitions("grid", 2, stream(seed, "calibration"))
    tree = Tree(per_stratum=False, max_leaves=20)
    plain = method("capture", task, task.strata, n_particles=4, tree=tree, seed=seed).fit(data.X, data.Y)
    found = calibrate(ROWS["capture"], task, 4, 20, 2, 0).cap
    np.testing.assert_array_equal(found.thresholds(data.X), plain.thresholds(data.X))


@pytest.mark.parametrize("name", ["capture", "capture-horizon"])
def test_share_and_k_reach_the_calibration(name, task, quick):
    whole, half = (calibrate(ROWS[name], task, 4, 20, 2, 0, k=3, share=share).cap for share in (1.0, 0.5))
    sizes = [sum(value for key, value in cap.data_.items() if key in ("rows", "rollouts")) for cap in (whole, half)]
    assert sizes[0] > 0
    assert sizes[1] == round(sizes[0] / 2)
    assert whole.score.k == 3


def test_kept_episodes_belong_to_their_settings_and_row(task):
    study = PlanningStudy()
    kept = study._identity(task, "capture")
    assert kept == replace(study, episodes=7, jobs=2)._identity(task, "capture")
    assert kept != replace(study, k=2)._identity(task, "capture")
    assert kept["row"] != study._identity(task, "capture-horizon")["row"]


# -- the command ------------------------------------------------------------------------------------------------------


def test_rows_tables_and_figure(tmp_path, monkeypatch, quick):
    few = {"k": Setting("k", "neighbour", (1, 8), 8), "alpha": Setting("alpha", "alpha", (0.1, 0.5), 0.1)}
    monkeypatch.setattr(marble_sensitivity, "SETTINGS", few)
    monkeypatch.setattr("capture_cp.studies.sensitivity_figure.SETTINGS", few)
    played = []
    results = PlanningStudy.results
    monkeypatch.setattr(PlanningStudy, "results", lambda study, *rest: played.append(study) or results(study, *rest))
    study = MarbleSensitivity(
        settings=("k", "alpha"), maps=(str(write_map(tmp_path)),), methods=("capture-horizon",), episodes=2, samples=600,
        state=tmp_path / "state", json=tmp_path / "rows.json", figures=tmp_path / "figures",
    )  # fmt: skip
    text = run(study)
    assert len(played) == len(set(played)) == 3  # the study's own, k = 1, alpha = 0.5
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    points = {(row["setting"], row["value"]) for row in rows if row["map"] == "all"}
    assert points == {(name, value) for name in few for value in few[name].values}
    for row in rows:
        assert row["episodes"] == 2
        assert 0 <= sum(row["held"]) <= sum(row["landed"])
    assert "neighbour" in text
    assert (tmp_path / "figures" / "marble-sensitivity.png").stat().st_size > 0

    monkeypatch.setattr(PlanningStudy, "_episode", None)  # nothing is played again
    run(study)
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == rows


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["--settings", "colour"], "colour"), (["--settings"], "no settings"), (["--methods", "magic"], "magic"),
     (["--maps", "nowhere"], "nowhere"), (["--episodes", "0"], "episodes")],
)  # fmt: skip
def test_bad_settings_are_refused(wrong, said, capsys):
    assert said in refused(capsys, "plan", "marble-sensitivity", *wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["--k", "17"], "k is 17"), (["--k", "0"], "k"), (["--calibration", "0"], "calibration is 0"),
     (["--calibration", "2"], "calibration is 2"), (["--calibration", "nan"], "calibration is nan")],
)  # fmt: skip
def test_bad_k_and_share_are_refused(wrong, said, capsys):
    assert said in refused(capsys, "plan", "marble", *wrong)
