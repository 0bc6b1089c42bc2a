"""The task as studies use it: calibration, coverage, the corrected model, plans, episodes, and whole commands."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from capture_cp import CaptureError
from capture_cp.cli import main
from capture_cp.planning.episode import Episode
from capture_cp.planning.rollout import PythonRollout
from capture_lab.tasks.corrected import shelf_correction
from capture_lab.tasks.recorded import recorded_task
from capture_lab.tasks.shelf import task as shelf_task
from capture_lab.tasks.shelf.model import STEEPNESS, hazard, step, stratum
from capture_lab.tasks.shelf.options import ShelfOptions
from capture_lab.tasks.shelf.planner import POINTS, ShelfWeights, stage_cost
from capture_lab.tasks.shelf.task import ShelfTask
from commands import refused
from planning.plugins import fused_rollout
from shelf.arms import calibrated, logged, task_at

pytest.importorskip("mujoco")
pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # small groups are wanted here


# -- calibration ----------------------------------------------------------------------------------------------------------


def test_calibration_is_reproducible_and_kept(monkeypatch):
    monkeypatch.setattr(shelf_task, "PART", 20)
    task, other, seen = replace(task_at()), replace(task_at()), []
    log = task.calibration(3, 50, seen.append)
    assert seen == [20, 20, 10]
    assert task.calibration(3, 50) is log
    again = other.calibration(3, 50)
    np.testing.assert_array_equal(again.X, log.X)
    np.testing.assert_array_equal(again.Y, log.Y)
    assert (other.calibration(4, 50).X != log.X).any()
    assert (task_at("open").calibration(3, 50).X != log.X).any()


def test_regions_hold_as_often_as_promised():
    fresh = logged(400, seed=1)
    held = calibrated().contains(fresh.X, fresh.Y, rng=0).sum()
    low, high = binom.ppf([1e-4, 1 - 1e-4], 400, 0.9)
    # a calibration of some hundred transitions has a coverage of its own about 90%
    assert low - 16 <= held <= high + 16


def test_a_corrected_model_has_smaller_errors():
    task, fresh = task_at(), logged(400, seed=1)
    better = replace(task, correction=shelf_correction(task, 600, np.random.default_rng(5)))
    errors = [np.linalg.norm(model.gaussian(fresh.X)[0] - fresh.Y, axis=1).mean() for model in (better, task)]
    assert errors[0] < 0.7 * errors[1]
    assert np.array(better.correction).shape == (7, 6)
    assert task.with_correction(json.loads(json.dumps(better.correction))) == better
    assert task.with_correction(None) is task
    for wrong in ([1.0], "none", [[None] * 6] * 7):
        with pytest.raises(CaptureError, match="correction of the episode"):
            task.with_correction(wrong)
    with pytest.raises(CaptureError, match="transitions"):
        shelf_correction(task, 10, np.random.default_rng(0))


# -- plans ----------------------------------------------------------------------------------------------------------------


class Costs:
    """The compiled stage cost as a function of a `Stage`, and what it saw."""

    def __init__(self, params):
        self.params, self.hazards = params, []

    def __call__(self, stage):
        self.hazards.append(stage.hazard)
        rows = zip(stage.mean, stage.action, stage.hazard)
        return [stage_cost(mean, action, share, stage.h, stage.horizon, self.params) for mean, action, share in rows]


def near_the_glass():
    """A state (14,) at rest whose regions meet the glass, touching nothing."""
    task, Y = task_at(), logged().Y
    clear = task.glass_clearances(Y)
    there = np.flatnonzero((task.strata.index(Y) == 0) & (clear > 0.01) & (clear < 0.03))
    return np.concatenate([Y[there[0]], np.zeros(7)])


@pytest.mark.parametrize("noise", [0.0, 0.012])
def test_fused_plans_are_those_of_python(noise):
    """Without noise to rounding; with it up to the particles, which the two draw from different streams."""
    task = replace(task_at(), physics=replace(task_at().physics, noise=noise))
    cost = Costs(task.params)
    slow = PythonRollout(calibrated(), task.model_step, cost, task.hazard, task.axes, points=POINTS)
    functions, sizes = (step, stage_cost, task.params, hazard), (task.axes, 7)
    settings = {"stratum": stratum, "points": POINTS, "steepness": STEEPNESS, "compare_step": False}
    fast = fused_rollout(calibrated(), *functions, *sizes, **settings)
    state = near_the_glass()
    sequences = np.random.default_rng(0).uniform(-task.bounds, task.bounds, (64, 3, 7))
    found, wanted = fast(state, sequences, 1), slow(state, sequences, 1)
    assert 0 < np.mean(cost.hazards) < 1
    if noise == 0:
        # a point on the verge of a region may fall to either side, where sums are rounded differently
        assert np.isclose(found, wanted, atol=1e-9).mean() > 0.98
    assert abs(found.mean() - wanted.mean()) < 0.1 * abs(wanted.mean())
    assert np.corrcoef(found.ravel(), wanted.ravel())[0, 1] > 0.8


def test_the_objective_term_by_term():
    task = task_at()
    mean, action = np.concatenate([task.shelf.start, np.zeros(7)]), np.full(7, 0.1)
    x, y, z, upright = task.jars(mean[None, :7])[0]
    dx, dy, dz = np.array([x, y, z]) - task.shelf.goal
    for weights in (ShelfWeights(), ShelfWeights(2.0, 5.0, 0.1, 0.3, 0.7, 11.0)):
        flat = np.hypot(dx, dy)
        away = weights.away * np.hypot(flat, dz - weights.lift * flat)
        for h in (1, 3):
            wanted = away * (weights.last if h == 3 else 1) + weights.upright * (1 - upright)
            wanted += weights.effort * (action**2).sum() + 0.25 * weights.glass
            assert stage_cost(mean, action, 0.25, h, 3, task.params_for(weights)) == pytest.approx(wanted)


# -- closed loop ----------------------------------------------------------------------------------------------------------


def test_an_episode_ends_on_touch():
    """Towards the glass until it is touched, on the way or at the end of a step."""
    task = task_at()
    state = near_the_glass()
    act, outcome, rng = task.closed_loop(state), None, np.random.default_rng(0)
    for _ in range(30):
        slope = [task.glass_clearances(state[None, :7] + turn)[0] for turn in 1e-4 * np.eye(7)]
        away = np.array(slope) - task.glass_clearances(state[None, :7])
        state, outcome = act(state, -0.12 * away / np.abs(away).max(), rng)
        if outcome is not None:
            break
    assert outcome == "touched the glass"
    assert task.glass_clearances(state[None, :7])[0] < 0.02


def test_an_episode_ends_in_its_place():
    task = task_at()
    here = replace(task, shelf=replace(task.shelf, goal=tuple(task.jars(task.starts(1)[:, :7])[0, :3])))
    start = task.starts(1)[0]
    assert here.outcome(start) == "success"
    assert task.outcome(start) is None
    _, outcome = here.closed_loop(start)(start, np.zeros(7), np.random.default_rng(0))
    assert outcome == "success"


def test_starts_in_the_shelf_are_refused():
    task = task_at()
    inside = replace(task, shelf=replace(task.shelf, start=(0.0, 1.2, 0.0, -0.9, 0.0, 2.0, 0.785), spread=0.001))
    with pytest.raises(CaptureError, match="move the start"):
        inside.starts(3)


# -- commands -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(ShelfTask, "max_steps", 2)
    monkeypatch.setattr(ShelfTask, "calibration_rollouts", 200)

    def rows(command, *options):
        output = tmp_path / "rows.json"
        given = [command, "--task", "shelf", "--shelves", "corner", "--threads", 1, *options, "--json", output]
        with suppress(SystemExit):  # where nothing is certified
            main([str(word) for word in given])
        return json.loads(output.read_text())["rows"]

    return rows


def test_coverage_is_a_command(run):
    rows = run("coverage", "--calibration", 300, "--test", 60, "--mc", 1, "--volume", 5, "--methods", "capture", "pcp")
    assert {row["method"] for row in rows} == {"capture", "pcp"}
    assert {row["map"] for row in rows} == {"corner"}


def test_horizon_is_a_command(run):
    rows = run("horizon", "--calibration", 150, "--test", 40, "--horizon", 2, "--min-leaf", 40, "--volume", 5)
    assert {row["step"] for row in rows} == {1, 2, "all"}


def test_plan_is_a_command_and_its_episodes_can_be_read_back(run, tmp_path):
    few = ("--samples", 8, "--horizon", 2, "--episodes", 1, "--calibration", 800, "--payload", 1.5)
    (row,) = run("plan", "--methods", "capture", *few, "--record", tmp_path / "runs")
    assert (row["task"], row["map"], row["method"], row["episodes"]) == ("shelf", "corner", "capture", 1)
    (file,) = (tmp_path / "runs").iterdir()
    episode = Episode.load(file)
    assert episode.states.shape == (3, 14)
    assert recorded_task(episode) == ShelfOptions(("corner",), payload=1.5).at("corner")


def test_certify_is_a_command(run):
    few = ("--episodes", 2, "--calibration", 0.02, "--candidates", "method=particles,samples=8")
    (row,) = run("certify", *few)
    assert row["episodes"] == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shelves", "cornr"], "Did you mean 'corner'?"),
        (["--payload", "-1"], "payload is -1.0"),
        (["--noise", "nan"], "noise is nan"),
        (["--bound", "0"], "bound is 0.0"),
        (["--shelves", "corner", "--threads", "0"], "threads is 0"),
        (["--calibration", "0"], "calibration"),
        (["--methods", "captur"], "Did you mean"),
    ],
)
def test_bad_options_end_in_one_sentence(capsys, options, said):
    assert said in refused(capsys, "coverage", "shelf", *options)
