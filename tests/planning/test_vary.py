"""`capture plan --vary`: one option at a time, of the study, its task or its weights."""

from __future__ import annotations

import json
from math import inf

import pytest

from capture_cp.cli import main
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.varied import varied
from capture_lab.tasks.box import Box
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.peg.options import PegOptions
from capture_lab.tasks.rows import weight_options
from commands import refused
from marble.boards import write_map

SMALL = ("--methods", "pcp", "capture", "--episodes", "1", "--samples", "8", "--horizon", "2", "--calibration", "800")


def studies(options, text):
    return varied(PlanningStudy.of(options, weights=weight_options(options.weights)(), vary=text))[1]


def test_rows_table_and_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Box, "max_steps", 2)
    file, state = tmp_path / "rows.json", tmp_path / "state"
    words = ["plan", "box", "--spacing", "0.05", *SMALL, "--vary", "true-gain=1,1.5,2.0"]
    main([*words, "--json", str(file), "--state", str(state), "--figures", str(tmp_path / "figures")])
    rows = json.loads(file.read_text())["rows"]
    assert [(row["setting"], row["value"], row["method"]) for row in rows] == [
        ("true_gain", value, method) for value in (1.0, 1.5, 2.0) for method in ("pcp", "capture")
    ]
    assert all(row["episodes"] == 1 and 0 <= row["success"] <= 1 for row in rows)
    assert (tmp_path / "figures" / "box-true_gain.png").stat().st_size > 5000
    assert "true_gain: 1 episodes per value, method and place" in capsys.readouterr().out

    monkeypatch.setattr(PlanningStudy, "play", None)  # nothing is played again, also not for other values
    main([*words[:-1], "true_gain=2,1", "--json", str(file), "--state", str(state)])
    assert sorted(map(str, json.loads(file.read_text())["rows"])) == sorted(map(str, rows[:2] + rows[4:]))


def test_several_places_are_also_added_up(tmp_path, monkeypatch):
    monkeypatch.setattr("capture_lab.tasks.marble.task.Marble.max_steps", 1)
    file, maps = tmp_path / "rows.json", [str(write_map(tmp_path)), "center"]
    main(["plan", "marble", "--maps", *maps, *SMALL, "--vary", "k=1,8", "--json", str(file)])
    rows = json.loads(file.read_text())["rows"]
    assert [(row["map"], row["value"]) for row in rows if row["method"] == "pcp"] == [
        (place, value) for value in (1, 8) for place in (*maps, "all maps")
    ]
    assert {row["episodes"] for row in rows if row["map"] == "all maps"} == {2}


@pytest.mark.parametrize(
    ("options", "text", "values", "read"),
    [
        (MarbleOptions(), "max_leaves=5,None", [5, None], lambda study: study.max_leaves),
        (MarbleOptions(), "calibration=0.25,1000", [0.25, 1000.0], lambda study: study.calibration),
        (MarbleOptions(), "pit_radius=8,12", [8.0, 12.0], lambda study: study.task.pit_radius),
        (MarbleOptions(), "--count-particles=True,False", [True, False], lambda study: study.weights.count_particles),
        (PegOptions(), "width=30,inf", [30.0, inf], lambda study: study.task.width),
        (PegOptions(), "infeasible=outside,worst", ["outside", "worst"], lambda study: study.weights.infeasible),
    ],
)
def test_values_arrive_in_the_study_its_task_or_its_weights(options, text, values, read):
    found = studies(options, text)
    assert list(found) == values
    assert [read(study) for study in found.values()] == values


@pytest.mark.parametrize(
    ("text", "said"),
    [("colour=1", "unknown option 'colour'"), ("k", "expected an option and its values"), ("episodes=1,2", "unknown option"),
     ("k=1,17", "k is 17"), ("noise=-1", "noise"), ("maps=nowhere", "nowhere"), ("k=many", "many")],
)  # fmt: skip
def test_wrong_options_and_values_are_refused_before_anything_is_played(text, said, capsys, monkeypatch):
    monkeypatch.setattr(PlanningStudy, "results", None)
    assert said in refused(capsys, "plan", "marble", "--vary", text)
