"""The planning study on tasks that are quick: rows, kept episodes, recordings, and the tasks made of them again."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from rich.console import Console

from capture_cp import CaptureError, Tree
from capture_cp.capture.methods import method
from capture_cp.planning.episode import Episode, run_episode
from capture_cp.report.output import output_folder
from capture_lab.studies.planning import PlanningStudy
from capture_lab.studies.study import Study, study_of
from capture_lab.tasks.box import Box, BoxWeights
from capture_lab.tasks.marble.options import ROWS, MarbleOptions
from capture_lab.tasks.marble.planner import MarbleWeights
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.peg.model import Correction
from capture_lab.tasks.peg.options import PegOptions
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.recorded import recorded_info, recorded_task
from capture_lab.tasks.registry import TASKS, register_task
from capture_lab.tasks.rows import FittedRow, fit_row, weight_options
from commands import refused
from marble.boards import write_map

SMALL = {"methods": ("pcp", "capture"), "episodes": 2, "samples": 8, "horizon": 2, "calibration": 800}
COARSE = Box(spacing=0.05)


def run(study):
    text = io.StringIO()
    study.run(Console(file=text, width=160))
    return text.getvalue()


def quiet():
    return Console(file=io.StringIO())


def episode_of(info, start, actions):
    """One step of a recording with that information, which leads nowhere."""
    still = np.zeros((1, actions))
    return Episode("success", np.stack([start, start]), still, still[None], np.zeros(1), np.zeros(1), info)


# -- the box: what a task needs to be planned in ----------------------------------------------------------------------


def test_rows_tables_and_recordings_of_the_box(tmp_path, monkeypatch):
    monkeypatch.setattr(Box, "max_steps", 3)
    study = PlanningStudy.of(COARSE, **SMALL, json=tmp_path / "rows.json", record=tmp_path / "runs")
    text = run(study)
    assert "In closed loop" in text
    assert "paper" not in text
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["config"]["task"]["spacing"] == 0.05
    for row, name in zip(written["rows"], SMALL["methods"]):
        assert (row["task"], row["map"], row["method"], row["episodes"]) == ("box", "box", name, 2)
        assert row["success"] + row["fell"] + row["timed_out"] == 1
        assert list(row["landed"]) == ["free", "edge", "corner"]
        assert all(row["held"][regime] <= row["landed"][regime] for regime in row["landed"])
        assert row["paper"] is None
        assert row["plan_ms_median"] <= row["plan_ms_p99"]
    saved = Episode.load(tmp_path / "runs" / "box-capture-001.npz")
    assert saved.info["method"] == "capture"
    assert recorded_task(saved) == COARSE


# -- a task of a stranger ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corridor(Box):
    """A box without a pillar, as another package may bring it."""

    name = "corridor"
    pillar: tuple[tuple[float, float], tuple[float, float]] = ((2.0, 2.1), (2.0, 2.1))


def test_a_registered_task_is_planned_recorded_and_made_again(tmp_path, monkeypatch):
    monkeypatch.setitem(TASKS, "corridor", None)
    monkeypatch.setattr(Corridor, "max_steps", 2)
    register_task(Corridor)
    task = Corridor(spacing=0.05)
    run(PlanningStudy.of(task, **SMALL, record=tmp_path))
    assert recorded_task(Episode.load(tmp_path / "corridor-pcp-000.npz")) == task


# -- choices ----------------------------------------------------------------------------------------------------------


def test_choices_replace_a_rows_own_and_nothing_else():
    row = ROWS["capture-residual"]
    options = weight_options(MarbleWeights)
    assert row.changed({"temperature": None, "horizon": None}, options()) == row
    assert row.changed({"samples": 700}, options(pit=9.0)) == replace(
        row, planner=replace(row.planner, samples=700), weights=replace(row.weights, pit=9.0)
    )
    assert ROWS["capture"].changed({}, options(count_particles=True)).weights.count_particles


def test_weights_and_defaults_of_a_task_become_options():
    study = study_of(PlanningStudy, Box)()
    assert (study.task, study.weights.patch, study.methods) == (Box(), None, Box.defaults["plan"]["methods"])
    assert BoxWeights(**{"away": 1.0, "patch": 0.05}) == Box().rows["capture"].weights


def test_limits_of_leaves_replace_those_of_the_tasks_tree_and_nothing_else():
    few = SMALL | {"methods": ("capture",), "max_leaves": None}
    own, limited = PlanningStudy.of(COARSE, **few), PlanningStudy.of(COARSE, **few, min_leaf=50, max_depth=2)
    assert own.fit(COARSE, "capture").cap.groups == Tree(max_leaves=None)
    assert limited.fit(COARSE, "capture").cap.groups == Tree(max_leaves=None, min_leaf=50, max_depth=2)


def test_options_of_one_name_are_told_apart():
    @dataclass(frozen=True)
    class Noisy(Study):
        command = "noisy"
        noise: float = 3.0

    study = study_of(Noisy, Box)(noise=4.0)
    assert (study.noise, study.task.noise) == (4.0, Box().noise)


# -- kept episodes ----------------------------------------------------------------------------------------------------


def test_episodes_are_the_same_again_with_more_jobs_and_from_the_state_folder(tmp_path):
    tasks, few = {"box": COARSE}, SMALL | {"methods": ("capture",)}

    def without_times(results):
        return [{key: value for key, value in one.items() if key != "plan_ms"} for one in results["box", "capture"]]

    once = PlanningStudy.of(COARSE, **few).results(tasks, quiet())
    kept = PlanningStudy.of(COARSE, **few, jobs=2, state=tmp_path)
    again = kept.results(tasks, quiet())
    assert without_times(once) == without_times(again)
    assert kept.results(tasks, quiet()) == again  # read, times and all


def test_kept_episodes_belong_to_their_settings_and_row(tmp_path):
    options = MarbleOptions(maps=(str(write_map(tmp_path)), "center"))
    study = PlanningStudy.of(options)
    task = next(iter(study.tasks().values()))
    kept = study._identity(task, "capture")
    same = replace(study, episodes=7, jobs=2, methods=("pcp",), task=replace(options, maps=("center",)))
    assert kept == same._identity(task, "capture")
    for change in ({"k": 2}, {"temperature": 0.5}, {"alpha": 0.2}, {"min_leaf": 200}, {"max_depth": 8}):
        assert kept != replace(study, **change)._identity(task, "capture")
    assert kept != study._identity(replace(task, design="random"), "capture")
    assert kept["row"] != study._identity(task, "capture-horizon")["row"]


def test_episodes_played_together_are_those_played_alone(tmp_path, monkeypatch):
    """What a GPU does with all episodes at once, done here by the processor, one after the other."""
    monkeypatch.setattr(Marble, "max_steps", 3)
    options = MarbleOptions(maps=(str(write_map(tmp_path)),))
    study = PlanningStudy.of(options, methods=("capture",), episodes=3, samples=16, horizon=2, calibration=800)
    tasks = study.tasks()
    alone, plan = study.results(tasks, quiet()), FittedRow.planner

    def run_episodes(planner, systems, starts, max_steps, seeds, noise_seeds):
        def system(state, action, rng):
            after, outcomes = systems(state[None], action[None], [rng])
            return after[0], outcomes[0]

        found = zip(starts, seeds, noise_seeds)
        return [run_episode(planner(seed), system, start, max_steps, noise) for start, seed, noise in found]

    monkeypatch.setattr(FittedRow, "planner", lambda row, alpha, *_: lambda seed: plan(row, alpha, seed))
    monkeypatch.setattr("capture_lab.tasks.rows.run_episodes", run_episodes)
    for module in ("studies.planning", "tasks.rows"):
        monkeypatch.setattr(f"capture_lab.{module}.chosen_device", lambda device: device)
    monkeypatch.setattr("capture_lab.tasks.rows.TOGETHER", 2)
    together = replace(study, device="cuda", record=output_folder(tmp_path / "runs")).results(tasks, quiet())
    for key in ("outcome", "steps", "path", "landed"):
        ((first,), (second,)) = ([[run[key] for run in runs] for runs in found.values()] for found in (alone, together))
        assert first == second
    numbers = [Episode.load(file).info["episode"] for file in sorted((tmp_path / "runs").iterdir())]
    assert numbers == [0, 1, 2]


# -- recordings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "place", "correction"),
    [
        (MarbleOptions(), "center", None),
        (MarbleOptions(variant=True, model_gain=1.5, design="random"), "top-left", tuple((0.5,) * 9 for _ in range(4))),
        (PegOptions(bound=4.0, width=30.0, trim=1.0), "planar", None),
        (PegOptions(system="arm"), "arm", Correction(friction=0.25)),
        (COARSE, "box", None),
    ],
)
def test_a_recorded_task_is_the_one_that_was_recorded(options, place, correction, tmp_path):
    task = options.at(place).with_correction(correction)
    run = episode_of(recorded_info(options, task, place), task.starts(1)[0], len(task.actions))
    run.save(tmp_path / "run.npz")
    found = recorded_task(Episode.load(tmp_path / "run.npz"))
    assert repr(found) == repr(task)
    assert found == task


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": None}, "task of the episode"),
        ({"task": "sys:exit"}, "task of the episode"),
        ({"options": {"colour": "red"}}, "'colour'"),
        ({"options": {"model_gain": "much"}}, "'model_gain'"),
        ({"options": [1, 2]}, "record it again"),
        ({"options": {"maps": 3}}, "'maps'"),
        ({"map": "nowhere"}, "nowhere"),
        ({"map": 3}, "3"),
        ({"correction": [[1.0]]}, "correction"),
        ({"correction": "all"}, "correction"),
    ],
)
def test_damaged_and_foreign_recordings_are_refused(wrong, said):
    info = recorded_info(MarbleOptions(), MarbleOptions().at("center"), "center") | wrong
    with pytest.raises(CaptureError, match=said):
        recorded_task(episode_of(info, MarbleOptions().at("center").starts(1)[0], 2))


@pytest.mark.parametrize("correction", [[[1.0]], "all", [[[1.0] * 4] * 3], [[[1.0] * 4] * 3, None], 7])
def test_damaged_corrections_of_the_peg_are_refused(correction):
    with pytest.raises(CaptureError, match="correction"):
        Peg().with_correction(correction)


# -- k, the share of the data, and the model --------------------------------------------------------------------------


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A small map with little data."""
    monkeypatch.setattr(Marble, "calibration_rollouts", 2000)
    return MarbleOptions(maps=(str(write_map(tmp_path)),))


def test_all_of_the_data_are_the_data_as_they_were(room):
    (task,) = room.places().values()
    data, tree = task.calibration(0), Tree(per_stratum=False, max_leaves=7)
    plain = method("capture", task, task.strata, n_particles=4, tree=tree, seed=task.seed_here(0)).fit(data.X, data.Y)
    found = fit_row(ROWS["capture"], task, 0, 4).cap
    np.testing.assert_array_equal(found.thresholds(data.X), plain.thresholds(data.X))


@pytest.mark.parametrize("name", ["capture", "capture-horizon"])
def test_share_number_and_k_reach_the_calibration(name, room):
    (task,) = room.places().values()
    row = ROWS[name].changed({"horizon": 2})
    whole, half, some = (fit_row(row, task, 0, 4, k=3, calibration=share).cap for share in (1.0, 0.5, 700))
    sizes = [sum(v for key, v in cap.data_.items() if key in ("rows", "rollouts")) for cap in (whole, half, some)]
    assert sizes[0] > 0
    assert sizes[1:] == [round(sizes[0] / 2), 700]
    assert whole.score.k == 3


@pytest.mark.parametrize("gain", [1.0, 3.0])
def test_the_oracle_has_the_true_gain_and_the_others_the_models(room, gain):
    study = PlanningStudy.of(replace(room, true_gain=gain), calibration=700)
    for name in ("particles", "particles-oracle"):
        (task,) = study.tasks().values()
        fitted = study.fit(task, name)
        assert (fitted.task.true_gain, fitted.task.model_gain) == (gain, gain if name == "particles-oracle" else 1.0)
        assert fitted.task.correction is None


def test_training_corrects_the_model(room):
    corrections = []
    for training, name in ((0, "particles"), (50, "particles-residual"), (200, "particles-residual")):
        study = PlanningStudy.of(replace(room, training=training), calibration=700)
        (task,) = study.tasks().values()
        corrections.append(study.fit(task, name).task.correction)
    assert corrections[0] is None
    assert None not in corrections[1:]
    assert corrections[1] != corrections[2]


def test_places_played_apart_are_put_together_from_their_state_folder(tmp_path, monkeypatch):
    """As on a machine with a GPU, one process per place, and then on one without."""
    won = {"outcome": "success", "steps": 3, "plan_ms": [1.0], "landed": {"free": 3}, "held": {"free": 2}, "path": []}

    def episodes(study, _, place, name, wanted):
        return (won | {"outcome": "fell" if place == "center" else "success"} for _ in wanted)

    def no_gpu(device):
        if device == "cuda":
            raise CaptureError('device "cuda" cannot be used')
        return "cpu"

    monkeypatch.setattr("capture_lab.studies.planning.chosen_device", lambda device: "cuda")
    monkeypatch.setattr(PlanningStudy, "fit", lambda *_: None)
    monkeypatch.setattr(PlanningStudy, "play", episodes)
    monkeypatch.setattr("capture_lab.studies.planning.summary", lambda run, task: run)
    few = {"methods": ("pcp",), "episodes": 3, "state": tmp_path, "device": "cuda"}
    for place in ("center", "top-left"):
        study = PlanningStudy.of(MarbleOptions(maps=(place,)), **few)
        study.results(study.tasks(), quiet())
    monkeypatch.setattr("capture_lab.studies.planning.chosen_device", no_gpu)
    both = PlanningStudy.of(MarbleOptions(maps=("center", "top-left")), **few)
    found = both.results(both.tasks(), quiet())
    assert [[run["outcome"] for run in runs] for runs in found.values()] == [["fell"] * 3, ["success"] * 3]
    more = replace(both, episodes=4)
    with pytest.raises(CaptureError, match="cannot be used"):  # an episode is missing
        more.results(more.tasks(), quiet())
    with pytest.raises(CaptureError, match="cannot be used"):  # nothing is there
        replace(both, state=None).tasks()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [(["--k", "17"], "k is 17"), (["--calibration", "0"], "calibration is 0"),
     (["--calibration", "2.5"], "calibration is 2.5"),
     (["--noise", "-1"], "noise"), (["--true-gain", "0"], "true gain"),
     (["--training", "-1"], "training is -1"), (["--training-drag", "1"], "training drag"),
     (["--pit-radius", "200"], "lies over the start"), (["--pit-radius", "-1"], "pit_radius is -1"),],
)  # fmt: skip
def test_impossible_settings_are_refused(wrong, said, capsys):
    assert said in refused(capsys, "plan", "marble", "--maps", "center", *wrong)
