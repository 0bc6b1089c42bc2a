"""A robot whose strata have no grid, in four dimensions: every study, film and page works with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, partial
from math import gamma, pi
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from capture_cp import CaptureError, FunctionStrata, NearestParticles, Torus
from capture_cp.capture.region_draws import batch_volumes
from capture_cp.cli import main
from capture_cp.conformal.gaussian import Gaussians, Mahalanobis
from capture_cp.planning import PythonRollout
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.strata import one_stratum
from capture_lab.studies.live import TaskSession
from capture_lab.studies.live_texts import regions_table
from capture_lab.studies.montecarlo import Counts, in_regimes
from capture_lab.studies.view import TaskView
from capture_lab.tasks import TASKS, Task

APART, NEAR = 0.15, 0.02  # how far apart the points must be, and what counts as touching
GOAL, PATCH = np.array([0.9, 0.5]), np.array([0.5, 0.5])


def contact(Y):
    """Strata of two points (n, 4): free, at a wall, touching each other; -1 outside the box or too near each other."""
    away = np.linalg.norm(Y[:, :2] - Y[:, 2:], axis=1)
    wall = ((Y < NEAR) | (Y > 1 - NEAR)).any(axis=1)
    feasible = ((Y >= 0) & (Y <= 1)).all(axis=1) & (away >= 0.9 * APART)
    return np.where(feasible, np.where(away < APART + NEAR, 2, wall), -1)


def on_patch(Y):
    """Signed distance of the first point from the patch: (n,)."""
    return np.linalg.norm(Y[:, :2] - PATCH, axis=1) - 0.1


@dataclass(frozen=True)
class Pair(Task):
    """Two points in a box that push each other. The true ones move farther than their model believes."""

    name, axes = "pair", (0, 1, 2, 3)
    states, actions = ("x1", "y1", "x2", "y2"), ("u1", "v1", "u2", "v2")
    bounds = np.full(4, 0.15)
    max_steps = 4
    defaults: ClassVar = {**Task.defaults, "demo": {"samples": 8}}

    gain: float = 1.4

    @cached_property
    def strata(self):
        return FunctionStrata(contact, ("free", "wall", "touch"))

    def step(self, states, actions, rng, gain):
        moved = np.clip(states + gain * actions + 0.02 * rng.standard_normal(actions.shape), 0, 1)
        return separated(moved)

    def model_step(self, states, actions, rng):
        return self.step(states, actions, rng, 1.0)

    def true_step(self, states, actions, rng):
        return self.step(states, actions, rng, self.gain)

    def inputs(self, n, rng):
        return np.hstack([separated(rng.random((n, 4))), rng.uniform(-self.bounds, self.bounds, (n, 4))])

    def starts(self, n):
        return np.tile([0.1, 0.5, 0.5, 0.8], (n, 1))

    @property
    def hazard(self):
        return on_patch

    def cost(self, stage, weights):
        return np.linalg.norm(stage.mean[:, :2] - GOAL, axis=1) + stage.hazard

    def outcome(self, state):
        fell = on_patch(state[None])[0] < 0
        return "fell" if fell else "success" if np.linalg.norm(state[:2] - GOAL) < 0.2 else None


def separated(Y):
    """Two points (n, 4) of the box, moved apart where they are too near each other."""
    Y = Y.copy()
    for _ in range(20):
        between = Y[:, 2:] - Y[:, :2] + 1e-6 * np.array([3, 4])  # some direction, if they are in one place
        away = np.linalg.norm(between, axis=1, keepdims=True)
        near = away[:, 0] < APART
        push = (APART * (1 + 1e-6) - away[near]) / 2 * between[near] / away[near]
        Y[near] = np.clip(Y[near] + np.hstack([-push, push]), 0, 1)
    return Y


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to run commands in; what is registered there is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(TASKS, "pair", None)
    monkeypatch.delitem(TASKS, "pair")
    return tmp_path


def run(command, *options):
    main([command, "--task", f"{__name__}:Pair", *map(str, options), *(["--json", f"{command}.json"])])
    return json.loads(Path(f"{command}.json").read_text())["rows"]


def ball(dims, radius):
    return pi ** (dims / 2) / gamma(dims / 2 + 1) * radius**dims


@pytest.mark.parametrize("dims", [2, 4, 7])
def test_volumes_of_balls_and_ellipsoids_are_known(dims):
    """One particle makes a ball, a Gaussian an ellipsoid; a wall through their middle halves them."""
    rng, n = np.random.default_rng(dims), 400
    half = FunctionStrata(lambda Y: np.where(Y[:, 0] > 0, 0, -1), ["right"])
    clouds, q = np.zeros((n, 1, dims)), rng.uniform(0.1, 1.0, n)
    for strata, share in ((one_stratum(), 1.0), (half, 0.5)):
        found = batch_volumes(NearestParticles(1), clouds, np.column_stack([q, np.full(n, -1.0)]), strata, dims, rng)
        assert found.shape == (n, 2)
        assert not found[:, 1].any()
        assert_unbiased(found[:, 0], share * ball(dims, q))
    cov = np.diag(np.linspace(0.1, 0.4, dims) ** 2)
    gaussians = Gaussians(np.zeros((n, dims)), np.tile(cov, (n, 1, 1)), np.tile(np.linalg.inv(np.sqrt(cov)), (n, 1, 1)))
    both = batch_volumes(Mahalanobis(), gaussians, np.column_stack([q, q]), half, dims, rng)
    assert_unbiased(both[:, 0], 0.5 * ball(dims, q) * np.sqrt(np.linalg.det(cov)))
    np.testing.assert_allclose(both.sum(axis=1), ball(dims, q) * np.sqrt(np.linalg.det(cov)))  # with what is infeasible


def assert_unbiased(found, wanted):
    """The mean error of independent estimates is nothing but noise."""
    off = found / wanted - 1
    assert abs(off.mean()) <= 4 * off.std() / np.sqrt(len(off)) + 1e-12
    assert off.std() < 0.2


def test_whole_strata_have_infinite_volumes_and_no_nan():
    q = np.array([[0.1, np.inf, -1.0, -1.0], [0.1, 0.1, -1.0, -1.0]])
    strata = FunctionStrata(contact, ["free", "wall", "touch"])
    found = batch_volumes(
        NearestParticles(1), np.tile([0.3, 0.5, 0.7, 0.5], (2, 1, 1)), q, strata, 4, np.random.default_rng(0)
    )
    assert np.isinf(found).tolist() == [[False, True, False, False], [False] * 4]
    by_regime = in_regimes(Pair(), found)
    assert not np.isnan(by_regime).any()
    finite, counts = (Counts.of(np.ones((2, 3)), np.ones((2, 3)), cells) for cells in (by_regime[1:], by_regime))
    assert counts.coverage(0.1, Pair().regimes).all.volume == np.inf
    assert counts.volume_ratio(finite) == (np.inf, None)
    assert finite.volume_ratio(counts) == (None, None)
    assert Counts.from_json(json.loads(json.dumps(counts.to_json()))).cells.tolist() == counts.cells.tolist()


# -- the task ---------------------------------------------------------------------------------------------------------


def test_inputs_in_one_place_are_refused():
    class Still(Pair):
        def inputs(self, n, rng):
            return np.ones((n, 8))

    with pytest.raises(CaptureError, match="all have the same configuration"):
        _ = Still().cell
    assert not Task.hazard.fget(Pair())(np.zeros((3, 4))).any()  # by default nothing is to be avoided


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")  # so few episodes leave strata without data
def test_regions_without_end_are_looked_through_as_far_as_inputs_lie_apart():
    task, log = Pair(), Pair().transitions(400, np.random.default_rng(0))
    cap = task.method("capture", tree=task.tree.__class__(min_leaf=100)).fit(log.X[:40], log.Y[:40])
    assert np.isinf(cap.plan_thresholds(0.01, False)).any()
    planner = task.planner(cap, task.rows["capture"].planner, alpha=0.01)
    assert np.isfinite(planner.plan(task.starts(1)[0])).all()
    rest = task.model_step, partial(task.cost, weights=None), on_patch, task.axes, 0.01
    with pytest.raises(CaptureError, match="without grid cells a hazard cannot be"):
        PythonRollout(cap, *rest)(task.starts(1)[0], np.zeros((2, 1, 4)), 0)
    with pytest.raises(CaptureError, match="farthest is -1; expected a positive number"):
        PythonRollout(cap, *rest, farthest=-1)


def test_the_default_gaussian_of_angles_does_not_mind_half_a_turn():
    class Wheels(Pair):
        metric = Torus((1.0,) * 4)

        def model_step(self, states, actions, rng):
            return wrap_angle(states + 0.1 * rng.standard_normal(states.shape))

    X = np.zeros((2, 8))
    X[1, :4] = np.pi
    mean, cov = Wheels().gaussian(X)
    np.testing.assert_allclose(np.abs(wrap_angle(mean - X[:, :4])), 0, atol=0.1)
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2), 0.01, rtol=0.8)


# -- studies ----------------------------------------------------------------------------------------------------------


def test_coverage(folder, capsys):
    rows = run("coverage", "--calibration", 3000, "--test", 400, "--mc", 4, "--volume", 50, "--figures", "figures")
    found = {(row["method"], row["stratum"]): row for row in rows}
    assert 0.86 < found["capture", "all"]["coverage"] < 0.94
    assert found["capture", "all"]["volume_inputs"] == 50
    assert all(0 < found["capture", name]["volume"] < 1 for name in ("all", "free", "wall", "touch"))
    parts = sum(found["capture", name]["volume"] for name in ("free", "wall", "touch"))
    assert found["capture", "all"]["volume"] == pytest.approx(parts)
    said = capsys.readouterr().out
    assert "mean volume of 50 regions" in said
    assert "cells" not in said
    assert len(list(Path("figures").glob("*.png"))) == 2


def test_volumes_by_default_and_against_the_calibration_size(folder, capsys):
    small = "--calibration", 1500, "--mc", 1
    rows = run("coverage", *small, "--methods", "capture", "--test", 1100)
    assert {row["volume_inputs"] for row in rows if row["stratum"] == "all"} == {1000}
    both = "--methods", "pcp", "capture"
    rows = run("coverage", *small, *both, "--test", 100, "--sizes", 400, 1200, "--figures", "figures")
    assert all(row["volume"] > 0 for row in rows if row["stratum"] == "all")
    assert "mean volume per region" in " ".join(capsys.readouterr().out.split())


def test_horizon(folder, capsys):
    small = "--horizon", 2, "--calibration", 800, "--test", 200, "--volume", 5, "--min-leaf", 60
    rows = run("horizon", *small, "--figures", "figures")
    found = {(row["method"], row["step"]): row for row in rows if row["stratum"] == "all"}
    assert 0.8 < found["each step", 1]["coverage"] < 0.97
    assert found["all steps", "all"]["volume"] > found["each step", "all"]["volume"] > 0
    said = capsys.readouterr().out
    assert "Volume: mean per region" in said
    assert "cells" not in said.lower()


def test_plan_and_film(folder):
    names = "capture", "particles", "capture-horizon", "capture-online"
    small = "--episodes", 1, "--samples", 8, "--calibration", 1500, "--record", "runs", "--figures", "figures"
    rows = run("plan", "--methods", *names, *small)
    assert [row["method"] for row in rows] == list(names)
    assert rows[0]["landed"].keys() == {"free", "wall", "touch"}
    for name in ("capture", "particles"):
        main(["view", "--task", f"{__name__}:Pair", "--replay", f"runs/pair-{name}-000.npz", "--save", f"{name}.gif"])
        assert Path(f"{name}.gif").read_bytes()[:3] == b"GIF"


# -- pictures ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session():
    found = TaskSession(TaskView.of(Pair(), calibration=1500, beside="lucca"))
    while found.prepare():
        pass
    return found


def test_the_page_has_frames_and_pictures(session):
    shown = session.shown()
    assert shown.waiting == ()
    (step,) = shown.now.plans["capture"]
    assert step.cells.shape == (4,)
    assert 0 < step.cells.sum() < 1
    whole, near = shown.scene.page_panels(shown.now)
    assert [len(panels) for panels in whole] == [1, 1]
    assert len(near) == 2
    drawn = session.frame()
    assert len(drawn.pictures) == 2
    assert drawn.scene.picture.ndim == 3
    assert "(volume, α = 0.1)" in regions_table(shown)
    assert session.sliders[0].low <= 0.05
    session.play()
    session.advance()
    assert session.mode == "live"


def test_an_impossible_place_becomes_the_nearest_input(session):
    asked = np.array([0.5, 0.5, 0.5, 0.52])
    placed = session.scene.placed(asked)
    assert contact(placed[None])[0] >= 0
    every = Pair().extent.configurations
    assert np.linalg.norm(placed - asked) == np.linalg.norm(every - asked, axis=1).min()
