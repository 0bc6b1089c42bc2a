"""The study of when regions help: rows that differ in their regions only, shared points played once, files put together."""

from __future__ import annotations

import io
import json
from dataclasses import fields, replace

import pytest
from rich.console import Console

from capture_cp import CaptureError
from capture_lab.studies import planning, worth
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.worth import Point, WorthStudy
from capture_lab.tasks.marble.maps import MAP_NAMES
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.marble.rows import ROWS, WORTH
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.rows import Axis, Worth
from commands import refused
from marble.boards import write_map

METHODS = ("particles", "pcp", "capture", "capture-horizon", "particles-oracle")
SUMMARY = {
    "outcome": "success",
    "steps": 3,
    "plan_ms": [1.0],
    "landed": {"free": 3},
    "held": {"free": 2},
    "path": [[0.0, 0.0]],
}


@pytest.fixture
def quick(monkeypatch):
    """Little data and short episodes."""
    for name, value in {"calibration_rollouts": 800, "max_steps": 3}.items():
        monkeypatch.setattr(Marble, name, value)


@pytest.fixture
def few(monkeypatch):
    """Two axes of two values that share a point: the model as it is, on a board of its own pits."""
    axes = {
        "training": replace(WORTH.axes["training"], values=(0, 200)),
        "pit_radius": replace(WORTH.axes["pit_radius"], values=(6.0, 8.0), own=8.0),
    }
    monkeypatch.setattr(MarbleOptions, "worth", Worth(axes, WORTH.planners))


@pytest.fixture
def options(tmp_path):
    return MarbleOptions(maps=(str(write_map(tmp_path)),))


@pytest.fixture
def calibrated(monkeypatch):
    """The calibrations that were made."""
    made, fit = [], PlanningStudy.fit
    monkeypatch.setattr(PlanningStudy, "fit", lambda study, *rest: made.append(study) or fit(study, *rest))
    worth._calibrated.cache_clear()
    return made


def run(study):
    console = Console(file=io.StringIO(), width=80)
    study.run(console)
    return console.file.getvalue()


def rows_of(study):
    return study.rows(Console(file=io.StringIO()))


def planned(options):
    """Rows of every cell as they plan, with the task they plan for."""
    (task,) = options.places().values()
    return {cell: (point, point.planned_row(task, cell.method)) for cell, point in WorthStudy(options).points().items()}


# -- axes and rows ----------------------------------------------------------------------------------------------------


def test_axes_are_options_of_the_task_with_their_own_value():
    assert {name: axis.values for name, axis in WORTH.axes.items()} == {
        "training": (0, 50, 200, 1000, 20_000),
        "training_drag": (0.0, 0.05, 0.15, 0.3),
        "true_gain": (1.0, 1.5, 2.0, 2.5, 3.0),
        "noise": (0.0125, 0.025, 0.05, 0.1, 0.2),
        "pit_radius": (8.0, 10.0, 12.0, 13.0, 14.0),
    }
    known = {entry.name: entry.default for entry in fields(MarbleOptions)} | {"pit_radius": 12.0}
    for axis in WORTH.axes.values():
        assert axis.own == known[axis.option]
        assert axis.own in axis.values


@pytest.mark.parametrize("radius", WORTH.axes["pit_radius"].values)
def test_every_map_takes_every_pit(radius):
    places = MarbleOptions(pit_radius=radius).places()
    assert [task.map.pit_radius for task in places.values()] == [radius] * len(MAP_NAMES)


def test_rows_of_a_planner_differ_in_their_regions_only(options):
    seen = planned(options)
    assert {cell.method for cell in seen} == set(METHODS)
    for cell, (_, row) in seen.items():
        source = {"averaging": ROWS["capture"], "second-look": ROWS["capture-residual"]}[cell.planner]
        assert row.planner == source.planner
        assert row.weights == replace(source.weights, count_particles=True)
        own = ROWS[cell.method]
        assert (row.method, row.horizon, row.online, row.oracle) == (own.method, own.horizon, own.online, own.oracle)


def test_the_model_is_corrected_on_the_training_axes_alone(options):
    for cell, (_, row) in planned(options).items():
        learnt = cell.axis in ("training", "training_drag") and cell[:2] != ("training", 0)
        assert row.corrected == (learnt and cell.method != "particles-oracle")


def test_values_arrive_in_the_task(options):
    for cell, (point, row) in planned(options).items():
        if row.corrected or not WORTH.axes[cell.axis].corrected:
            assert point.task == replace(options, **{cell.axis: cell.value})
        else:
            assert point.task == options


@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_the_oracle_has_the_true_gain_and_the_others_the_models(options, gain, quick):
    study = WorthStudy(options, axes=("true_gain",), planners=("averaging",), calibration=700)
    for method in ("particles", "particles-oracle"):
        point = study.points()["true_gain", gain, method, "averaging"]
        (task,) = point.tasks().values()
        fitted = point.fit(task, method)
        assert (fitted.task.true_gain, fitted.task.model_gain) == (gain, gain if method == "particles-oracle" else 1.0)
        assert fitted.task.correction is None


def test_training_corrects_the_model(options, quick):
    study = WorthStudy(options, axes=("training",), planners=("averaging",), calibration=700)
    corrections = []
    for value in (0, 50, 200):
        point = study.points()["training", value, "particles", "averaging"]
        (task,) = point.tasks().values()
        corrections.append(point.fit(task, "particles").task.correction)
    assert corrections[0] is None
    assert None not in corrections[1:]
    assert corrections[1] != corrections[2]


# -- points -----------------------------------------------------------------------------------------------------------


def test_shared_points_are_known_by_the_same_key():
    options = MarbleOptions(maps=("center",))
    points = WorthStudy(options).points()
    tasks = {task: task.places()["center"] for task in {point.task for point in points.values()}}
    keys = {cell: point.key(tasks[point.task]) for cell, point in points.items()}
    assert len(set(keys.values())) == 2 * (4 * 20 + 13)  # planners, rows and values; an oracle needs no training
    as_it_is = [("training", 0), ("true_gain", 2.0), ("noise", 0.05), ("pit_radius", 12.0)]
    for method in METHODS:
        assert len({keys[*at, method, "averaging"] for at in as_it_is}) == 1
        learnt = [("training", 20_000), ("training_drag", 0.0)]
        assert len({keys[*at, method, "second-look"] for at in learnt}) == 1


def test_rows_tables_and_figure(options, few, tmp_path, quick, calibrated, monkeypatch):
    played, summaries = [], Point.summaries
    monkeypatch.setattr(Point, "summaries", lambda point, *rest: played.append(point) or summaries(point, *rest))
    study = WorthStudy(
        options, methods=("capture", "particles-oracle"), episodes=2, samples=600, calibration=700,
        state=tmp_path / "state", json=tmp_path / "rows.json", figures=tmp_path / "figures",
    )  # fmt: skip
    text = run(study)
    assert len(played) == 2 * (3 + 2)  # planners; points of the row and of the oracle
    assert len(calibrated) == 3 + 2  # planners share them
    assert len(list((tmp_path / "state").iterdir())) == len(played)
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert len(rows) == 2 * 2 * 2 * 2 * 2  # axes, values, rows, planners, and all places beside the one
    for row in rows:
        assert row["episodes"] == 2
        assert row["success"] + row["fell"] + row["timed_out"] == pytest.approx(1)
        assert (row["axis"] in ("training", "pit_radius"), row["planner"] in WORTH.planners) == (True, True)
    one, other = (
        [row["steps_mean"] for row in rows if (row["axis"], row["value"]) == point]
        for point in (("training", 0), ("pit_radius", 8.0))
    )
    assert one == other
    assert text.count("95%") == 4  # tables of two axes and two planners
    assert "transitions that correct the model, planner averaging: 2 episodes per row" in " ".join(text.split())
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("Figure"))
    assert (tmp_path / "figures" / "marble-worth.png").stat().st_size > 0
    assert '"path"' not in next((tmp_path / "state").iterdir()).read_text()

    monkeypatch.setattr(Point, "_episode", None)  # nothing is played again
    run(study)
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == rows


def test_places_played_apart_are_put_together_from_their_state_folder(few, tmp_path, monkeypatch):
    """As on a machine with a GPU, one process per place, and then on one without."""
    monkeypatch.setattr(planning, "chosen_device", lambda device: "cuda")
    monkeypatch.setattr(Point, "fit", lambda *_: None)
    monkeypatch.setattr(
        Point,
        "_episodes",
        lambda point, _, place, name, wanted: (
            (n, SUMMARY | {"outcome": "fell" if place == "center" else "success"}) for n in wanted
        ),
    )
    few = {"methods": ("pcp",), "planners": ("averaging",), "axes": ("training",), "state": tmp_path, "device": "cuda"}
    for place in ("center", "top-left"):
        rows_of(WorthStudy(MarbleOptions(maps=(place,)), **few, episodes=3))

    def no_gpu(device):
        if device == "cuda":
            raise CaptureError('device "cuda" cannot be used')
        return "cpu"

    monkeypatch.setattr(planning, "chosen_device", no_gpu)
    both = MarbleOptions(maps=("center", "top-left"))
    rows = rows_of(WorthStudy(both, **few, episodes=3))
    assert [(row["map"], row["episodes"], row["success"]) for row in rows] == 2 * [
        ("center", 3, 0.0),
        ("top-left", 3, 1.0),
        ("all", 6, 0.5),
    ]
    with pytest.raises(CaptureError, match="cannot be used"):  # an episode is missing
        rows_of(WorthStudy(both, **few, episodes=4))
    with pytest.raises(CaptureError, match="cannot be used"):  # nothing is there
        rows_of(WorthStudy(both, **(few | {"state": None}), episodes=3))


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["--axes", "colour"], "unknown axis 'colour'"), (["--axes"], "no axes"), (["--methods", "magic"], "unknown method"),
     (["--methods"], "no methods"), (["--planners", "second-lok"], "Did you mean 'second-look'?"),
     (["--planners"], "no planners"), (["--maps", "nowhere"], "nowhere"), (["--episodes", "0"], "episodes"),
     (["--calibration", "0"], "calibration is 0")],
)  # fmt: skip
def test_bad_settings_are_refused(wrong, said, capsys):
    assert said in refused(capsys, "worth", "marble", *wrong)


def test_a_task_without_axes_is_refused(capsys):
    assert "box has no axes for this study" in refused(capsys, "worth", "box")


def test_an_axis_of_a_map_that_cannot_have_it_is_refused_before_anything_is_played(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Point, "summaries", None)
    wide = {"pit_radius": Axis("pit_radius", "pits", (8.0, 40.0), 8.0)}
    monkeypatch.setattr(MarbleOptions, "worth", Worth(wide, WORTH.planners))
    assert "no path" in refused(capsys, "worth", "marble", "--maps", write_map(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["--noise", "-1"], "noise"), (["--noise", "nan"], "noise"), (["--true-gain", "0"], "true gain"),
     (["--training", "-1"], "training is -1"), (["--training-drag", "1"], "training drag"),
     (["--pit-radius", "200"], "lies over the start"), (["--pit-radius", "-1"], "pit_radius is -1"),
     (["--pit-radius", "nan"], "pit_radius is nan")],
)  # fmt: skip
def test_impossible_marbles_are_refused(wrong, said, capsys):
    assert said in refused(capsys, "plan", "marble", "--maps", "center", *wrong)
