"""What regions promise to a planner: the calibrations that were made for a promise keep it, and the command says so."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, HorizonCapture, OneGroup, PerStratum
from capture_cp.cli import main
from capture_cp.conformal.coverage import CoverageRow
from capture_lab.studies.promises import Found, PromisesStudy
from capture_lab.tasks.practice import play_from, played
from capture_lab.tasks.promises import Played, Promise, Promises, can_branch, chosen_capture, share
from capture_lab.tasks.rows import FittedRow
from capture_lab.tasks.task import Task
from commands import refused
from planning import sled
from planning.sled import capture, random_rollouts

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # few episodes are wanted here

ALPHA = 0.2


class SledTask(Task):
    """The sled, with a planner that is no row's."""

    name, axes, states, actions, max_steps = "sled", sled.AXES, ("x",), ("push",), 10
    strata = sled.STRATA

    def model_step(self, states, actions, rng):
        return sled.model(states, actions, rng)

    def true_step(self, states, actions, rng):
        return sled.truth(states, actions, rng)

    def brake(self, states):
        return np.zeros((len(states), 1))

    @property
    def hazard(self):
        return sled.HAZARD

    def planner(self, cap, settings, weights=None, alpha=0.1, seed=0, device="cpu", simultaneous=False):
        return sled.planner(seed)

    def starts(self, n):
        return np.zeros((n, 1))

    def closed_loop(self, start):
        return sled.system


@cache
def row() -> FittedRow:
    task, log = SledTask(), random_rollouts(500, 1)
    cap = Capture(task, task.strata, groups=PerStratum(), n_particles=8).fit(*log.transitions())

    class Plain:
        planner = weights = None
        online = False

    return FittedRow(Plain(), task, cap)


@cache
def promises() -> Promises:
    return Promises(row(), ALPHA, seed=3)


@cache
def ahead() -> HorizonCapture:
    return capture(random_rollouts(800, 2))


@cache
def runs() -> Played:
    return Played(played(row(), range(200), ALPHA), played(row(), range(1000, 1200), ALPHA))


def kept(promise: Promise) -> bool:
    """Whether a promise is kept, five standard errors allowed for: of 200 test episodes, and of 100 that are compared."""
    return promise.calibrated.coverage > 1 - ALPHA - 5 * np.sqrt(ALPHA * (1 - ALPHA) * (1 / 200 + 1 / 100))


def test_executed_steps_and_chosen_plans_hold_where_they_were_calibrated_for_it():
    step, (plan, cap) = promises().executed_step(runs()), promises().chosen_plan(runs(), ahead())
    for promise in (step, plan):
        assert promise.target == 1 - ALPHA
        assert promise.ordinary.coverage < 0.6  # hard pushes slip
        assert kept(promise)
    assert plan.ordinary.n == plan.calibrated.n == plan.examples == 200
    assert cap.steps_ == (1, 2, 3)


def test_plans_that_passed_hold_where_they_were_calibrated_for_it():
    _, judge = promises().chosen_plan(runs(), ahead())
    braking, starts = row().braking(judge, ALPHA), row().task.starts(150)
    seeds = range(3000, 3150), range(4000, 4150)
    filtered = Played(
        *([play_from(row(), at, seed, ALPHA, braking=braking) for at, seed in zip(starts, part)] for part in seeds)
    )
    passed, second = promises().passed_plan(filtered, judge)
    assert kept(passed)
    assert second is not judge


def test_where_nothing_passes_nothing_is_promised():
    always = [replace(run, braked=np.ones(run.steps, dtype=bool)) for run in played(row(), range(3), ALPHA)]
    assert promises().passed_plan(Played(always, always), ahead()) is None


def test_regions_of_chosen_plans_keep_the_steps_of_the_others():
    first = capture(random_rollouts(100, 5))
    again = chosen_capture(first, random_rollouts(100, 6))
    assert again.steps_ == first.steps_
    assert again.score == first.score
    assert type(again.groups) is OneGroup
    assert type(chosen_capture(first, random_rollouts(100, 6), PerStratum()).groups) is PerStratum


def test_a_share_has_an_exact_interval():
    assert share(np.array([True] * 90 + [False] * 10)).ci95 == CoverageRow("all", 100, 90).ci95


def test_a_system_that_cannot_go_on_from_a_state_has_no_plans():
    assert can_branch(SledTask())
    assert not can_branch(type("Closed", (Task,), {"name": "closed"})())


def test_regions_for_a_horizon_promise_nothing_about_executed_steps():
    with pytest.raises(CaptureError, match="need one-step regions"):
        Promises(FittedRow(row().row, row().task, ahead())).executed_step(runs())


# -- the command ------------------------------------------------------------------------------------------------------

SMALL = ["--episodes", "12", "--test", "6", "--samples", "16", "--calibration", "600", "--alpha", "0.4"]


def rows_of(file):
    return json.loads(file.read_text())["rows"]


@pytest.fixture
def board_file(tmp_path):
    """A small room with a pit beside the way."""
    file = tmp_path / "room.json"
    room = {"size": [60, 60], "walls": [], "start": [20, 20], "goal": [45, 20], "pits": [[20, 50]], "pit_radius": 6}
    file.write_text(json.dumps(room))
    return file


def test_the_command_prints_every_promise(capsys, tmp_path, board_file):
    main(["promises", "marble", "--maps", str(board_file), *SMALL, "--json", str(tmp_path / "rows.json")])
    printed = " ".join(capsys.readouterr().out.split())
    rows = rows_of(tmp_path / "rows.json")
    found = {(row["promise"], row["regions"]): row for row in rows if "promise" in row}
    for promise in ("one executed step", "all steps of the plan that was chosen"):
        assert promise[:20] in printed  # the table may break the line
        assert {found[promise, kind]["n"] for kind in ("ordinary", "calibrated")} == {6}
        assert found[promise, "calibrated"]["examples"] == 12
        low, high = found[promise, "calibrated"]["ci95"]
        assert 0 <= low <= found[promise, "calibrated"]["coverage"] <= high <= 1
    with_brake = next(row for row in rows if row.get("runs") == "with the brake")
    assert with_brake["n"] == 6
    assert 0 <= with_brake["steps_braked"] <= 1
    assert "with the brake, 6 test episodes" in printed


def test_without_the_brake_and_the_same_again(capsys, tmp_path, board_file):
    for name in ("a.json", "b.json"):
        main(["promises", "marble", "--maps", str(board_file), *SMALL, "--no-brake", "--json", str(tmp_path / name)])
    assert "with the brake" not in capsys.readouterr().out
    assert rows_of(tmp_path / "a.json") == rows_of(tmp_path / "b.json")
    assert {row.get("runs") for row in rows_of(tmp_path / "a.json")} == {None, "without the brake"}


def test_a_task_without_a_brake_has_the_other_promises(tmp_path):
    class Unbraked(SledTask):
        brake = Task.brake

    assert not PromisesStudy(Unbraked())._brakes(Unbraked())
    assert PromisesStudy(SledTask())._brakes(SledTask())
    assert not PromisesStudy(SledTask(), brake=False)._brakes(SledTask())


def test_what_is_missing_from_the_table_is_told():
    run = replace(sled.episode(0), braked=np.ones(10, dtype=bool))
    found = Found([], {"without the brake": [run], "with the brake": [run]}, False)
    assert "not one plan has passed the brake" in " ".join(PromisesStudy(SledTask())._lines(SledTask(), found))
    closed = type("Closed", (Task,), {"name": "closed"})()
    assert "closed: no plans" in " ".join(PromisesStudy(closed)._lines(closed, Found([], {}, False)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--method", "captur"), "Did you mean 'capture'?"),
        (("--method", "capture-horizon"), "name a row with one-step regions"),
        (("--episodes", "0"), "episodes is 0"),
        (("--test", "0"), "test is 0"),
        (("--brake-steps", "0"), "brake_steps is 0"),
        (("--alpha", "1"), "alpha is 1.0"),
    ],
)
def test_bad_settings_are_one_sentence(capsys, arguments, sentence):
    assert sentence in refused(capsys, "promises", "marble", *arguments)
