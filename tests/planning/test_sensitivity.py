"""The sensitivity study: one setting at a time, the study's own values run once; on the marble, the peg and the box."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from capture_cp.capture.methods import method
from capture_cp.conformal.groups import Tree
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.sensitivity import SensitivityStudy, changed
from capture_lab.tasks.box import Box
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.rows import ROWS
from capture_lab.tasks.marble.rows import SETTINGS as MARBLE
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.peg.options import PegOptions
from capture_lab.tasks.peg.rows import SETTINGS as PEG
from capture_lab.tasks.rows import Setting, fit_row, weight_options
from commands import refused
from marble.boards import write_map

HORIZON_ROW = "capture-horizon-residual"
OPTIONS = {"marble": MarbleOptions(), "peg": PegOptions(), "box": Box()}
ALL = [(task, name) for task, options in OPTIONS.items() for name in options.varied]


@pytest.fixture
def quick(monkeypatch):
    """Little data and short episodes."""
    for name, value in {"calibration_rollouts": 2000, "max_steps": 3}.items():
        monkeypatch.setattr(Marble, name, value)


@pytest.fixture
def task(tmp_path):
    (task,) = MarbleOptions(maps=(str(write_map(tmp_path)),)).places().values()
    return task


def study_of(task):
    options = OPTIONS[task]
    return PlanningStudy.of(options, weights=weight_options(options.weights)(), methods=("capture",))


def chosen(study, option):
    return next(getattr(part, option) for part in (study, study.task, study.weights) if hasattr(part, option))


def run(study):
    console = Console(file=io.StringIO(), width=200)
    study.run(console)
    return console.file.getvalue()


# -- the settings -----------------------------------------------------------------------------------------------------


def test_settings_are_those_of_the_documentation():
    assert set(MARBLE) == {"k", "particles", "leaves", "calibration", "alpha", "horizon", "temperature"}
    assert set(PEG) == {"bound", "frequency", "width", "bonuses", "infeasible"}


@pytest.mark.parametrize(("task", "name"), ALL)
def test_own_value_is_the_studys(task, name):
    setting, study = OPTIONS[task].varied[name], study_of(task)
    assert setting.own in setting.values
    relative = {"k": study.particles // 2, "temperature": 1, "infeasible": "outside"}  # where the study has None
    assert setting.own == relative.get(name, chosen(study, setting.option))


@pytest.mark.parametrize(("task", "name"), ALL)
def test_one_setting_differs(task, name):
    study, setting = study_of(task), OPTIONS[task].varied[name]
    for value in setting.values:
        if value == setting.own:
            continue
        point = changed(study, setting, value)
        assert point != study
        assert chosen(point, setting.option) == value


@pytest.mark.parametrize("name", MARBLE)
def test_the_study_takes_every_value(name, tmp_path):
    study = PlanningStudy.of(MarbleOptions(maps=(str(write_map(tmp_path)),)), methods=("capture", HORIZON_ROW))
    for value in MARBLE[name].values:
        changed(study, MARBLE[name], value).tasks()


# -- k and the share of the data --------------------------------------------------------------------------------------


def test_all_of_the_data_are_the_data_as_they_were(task):
    data, tree = task.calibration(0), Tree(per_stratum=False, max_leaves=7)
    plain = method("capture", task, task.strata, n_particles=4, tree=tree, seed=task.seed_here(0)).fit(data.X, data.Y)
    found = fit_row(ROWS["capture"], task, 0, 4).cap
    np.testing.assert_array_equal(found.thresholds(data.X), plain.thresholds(data.X))


@pytest.mark.parametrize("name", ["capture", "capture-horizon"])
def test_share_number_and_k_reach_the_calibration(name, task, quick):
    row = ROWS[name].changed({"horizon": 2})
    whole, half, some = (fit_row(row, task, 0, 4, k=3, calibration=share).cap for share in (1.0, 0.5, 700))
    sizes = [sum(v for key, v in cap.data_.items() if key in ("rows", "rollouts")) for cap in (whole, half, some)]
    assert sizes[0] > 0
    assert sizes[1:] == [round(sizes[0] / 2), 700]
    assert whole.score.k == 3


# -- the command ------------------------------------------------------------------------------------------------------


def test_rows_tables_and_figure(tmp_path, monkeypatch, quick):
    few = {
        "k": Setting("k", "neighbour", (1, 8), 8),
        "temperature": Setting("temperature", "warmth", (1, 4), 1, relative=True),
    }
    monkeypatch.setattr(MarbleOptions, "varied", few)
    played = []
    results = PlanningStudy.results
    monkeypatch.setattr(PlanningStudy, "results", lambda study, *rest: played.append(study) or results(study, *rest))
    options = MarbleOptions(maps=(str(write_map(tmp_path)),))
    study = SensitivityStudy(
        options, methods=("capture-horizon",), episodes=2, samples=600,
        state=tmp_path / "state", json=tmp_path / "rows.json", figures=tmp_path / "figures",
    )  # fmt: skip
    text = run(study)
    assert len(played) == len(set(played)) == 3  # the study's own, k = 1, four times the temperature
    assert [one.temperature for one in played] == [
        None,
        None,
        pytest.approx(4 * ROWS["capture-horizon"].planner.temperature),
    ]
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    points = {(row["setting"], row["value"]) for row in rows if row["map"] == "all"}
    assert points == {(name, value) for name in few for value in few[name].values}
    for row in rows:
        assert row["episodes"] == 2
        assert 0 <= sum(row["held"].values()) <= sum(row["landed"].values())
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
    assert said in refused(capsys, "sensitivity", "marble", *wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["--k", "17"], "k is 17"), (["--k", "0"], "k"), (["--calibration", "0"], "calibration is 0"),
     (["--calibration", "2.5"], "calibration is 2.5"), (["--calibration", "nan"], "calibration is nan")],
)  # fmt: skip
def test_bad_k_and_share_are_refused(wrong, said, capsys):
    assert said in refused(capsys, "plan", "marble", *wrong)
