"""The peg on a GPU against the processor: the same fingerprints, particles to rounding, the same cells and costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numba import config

from capture_cp import CaptureError, HorizonCapture, OneGroup, Rollouts
from capture_cp.cuda import cells
from capture_cp.kernels.random import stream
from capture_cp.planning.cuda.plans import CudaPlans, Settings
from capture_cp.spaces.grid import Grid
from capture_cp.tasks.peg import cspace
from capture_cp.tasks.peg.corrected import CorrectedModel, CorrectedPeg, Correction
from capture_cp.tasks.peg.cspace import PegStrata
from capture_cp.tasks.peg.model import PegModel
from capture_cp.tasks.peg.planner import PLANNER, PegWeights, peg_planner, peg_rollout
from capture_cp.tasks.peg.settings import PegSettings
from capture_cp.tasks.peg.task import Peg
from peg.calibrated import NAMES, PARTICLES, PLACES, calibrated, coarse, inputs, place

NANOMETRE = 1e-9
CORRECTION = Correction(((1.4, 0.01, 0.0, 0.1), (0.0, 1.5, 0.02, 0.0), (0.0, 0.02, 1.45, 0.0)), 0.6)
FEW_CELLS = Grid.between((-0.03, -0.01, -0.7), (0.03, 0.05, 0.7), (6e-3, 6e-3, 0.2))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    if config.ENABLE_CUDASIM:  # every thread is one of Python
        monkeypatch.setattr(cells, "THREADS", 32)


def anywhere(n, seed=0):
    """Inputs (n, 6) from all places in turn."""
    return np.concatenate([inputs(where, -(-n // len(PLACES)), seed) for where in PLACES])[:n]


def coarse_task(**chosen):
    """The task on the coarse grid."""
    task = Peg(**chosen)
    task.__dict__["strata"] = coarse()
    return task


# -- fingerprints ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trim", [0.0, 1.5e-3])
def test_every_cell_has_the_processors_fingerprint(trim):
    here, there = (PegStrata(trim=trim, grid=FEW_CELLS, device=device) for device in ("cpu", "cuda"))
    assert here.names == there.names
    np.testing.assert_array_equal(here.labels, there.labels)
    assert here.fingerprint() == there.fingerprint()


def test_poses_have_the_processors_fingerprints(few, monkeypatch):
    monkeypatch.setattr(cspace, "MANY_POSES", 1)
    there = PegStrata(grid=FEW_CELLS, device="cuda")
    poses = coarse().require_grid().centre(np.random.default_rng(0).integers(coarse().labels.size, size=10 * few))
    np.testing.assert_array_equal(coarse().fingerprints(poses), there.fingerprints(poses))


# -- the model ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [PegModel, lambda settings, device: CorrectedModel(settings, CORRECTION, device)])
def test_particles_are_the_processors(few, make):
    X = anywhere(few)
    here, there = (make(PegSettings(), device) for device in ("cpu", "cuda"))
    ours, theirs = (model(X, 3, np.random.default_rng(1)) for model in (there, here))
    (mean, cov), (other, same) = there.gaussian(X), here.gaussian(X)
    apart = np.abs(np.concatenate([ours - theirs, (mean - other)[:, None]], axis=1)).max(axis=2)
    assert (apart > NANOMETRE).mean() <= 1e-3  # at the edge of a contact, rounding may decide on which side a peg lands
    np.testing.assert_array_equal(cov, same)


def test_no_inputs_no_particles():
    assert PegModel(device="cuda")(np.empty((0, 6)), 4, np.random.default_rng(0)).shape == (0, 4, 3)


def test_infeasible_inputs_are_refused():
    with pytest.raises(CaptureError, match="in the receptacle"):
        PegModel(device="cuda")(np.array([[0.02, 0.0, 0.0, 0.0, 0.0, 0.0]]), 4, np.random.default_rng(0))


# -- regions --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_regions_have_the_processors_cells(name):
    X, cap = (
        np.concatenate([inputs(where, 1) for where in ("corner", "flat", "mouth", "bottom")]),
        calibrated(name, coarse()),
    )
    prediction = cap.predict(X, 0)
    q = cap.cell_thresholds(X, 0.1, None)
    limits = np.where(np.isinf(q), -1.0, q)
    ours, theirs = (score.count_cells(prediction, limits, coarse()) for score in (cap.score_.on("cuda"), cap.score_))
    np.testing.assert_array_equal(ours, theirs)


# -- plans ----------------------------------------------------------------------------------------------------------------


def by_both(rollout, start, samples=3, horizon=4, key=7):
    """Stage costs (N, H) of the same sequences and noise: on the GPU, on the processor."""
    spread, bound = 1.5 * np.eye(3), np.full(3, 3.0)
    plans = CudaPlans(rollout, Settings(horizon, samples, spread, -bound, bound))
    plans.plan(start[None], 0.1, np.zeros((1, horizon, 3)), key)
    return plans.stages[0], rollout(start, plans.sequences[0], np.uint64(stream(np.uint64(key), 1)))


@pytest.mark.parametrize("name", ["capture", "particles", "lucca"])
@pytest.mark.parametrize("where", ["air", "mouth"])
def test_stage_costs_are_the_processors(name, where):
    rollout = peg_rollout(calibrated(name, coarse()), coarse_task(), weights=PegWeights(bonuses=True))
    ours, theirs = by_both(rollout, place(where))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("infeasible", ["worst", "nothing"])
def test_infeasible_cells_count_as_told(infeasible):
    rollout = peg_rollout(calibrated("lucca", coarse()), coarse_task(), weights=PegWeights(infeasible=infeasible))
    ours, theirs = by_both(rollout, place("flat"), horizon=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("limit", [np.inf, -1.0])
def test_whole_strata_and_regions_without_cells(limit):
    """Infinite thresholds take strata in whole; where there is no cell at all, the particles stand for the region."""
    rollout = peg_rollout(calibrated("capture", coarse()), coarse_task())
    thresholds = np.full_like(rollout.thresholds, -1.0)
    thresholds[1] = limit
    rollout.thresholds = thresholds
    ours, theirs = by_both(rollout, place("mouth"), horizon=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_stage_costs_of_a_corrected_model_and_a_horizon():
    task = CorrectedPeg(correction=CORRECTION)
    task.__dict__["strata"] = coarse()
    X = anywhere(240)
    rng = np.random.default_rng(3)
    first = task(X, 1, rng)[:, 0]
    second = task(np.hstack([first, X[:, 3:]]), 1, rng)[:, 0]
    poses = np.stack([first, second], axis=1)
    known = (coarse().index(poses.reshape(-1, 3)) >= 0).reshape(poses.shape[:2]).all(axis=1)
    X, poses = X[known], poses[known]
    rollouts = Rollouts.from_arrays(X[:, :3], np.repeat(X[:, None, 3:], 2, axis=1), poses, states=poses)
    score = task.method("capture", PARTICLES).score_
    ahead = HorizonCapture(task.model_step, coarse(), task.axes, score, OneGroup(), PARTICLES, 0).fit(rollouts)
    ours, theirs = by_both(peg_rollout(ahead, task), place("corner"), samples=2, horizon=3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_plan_with_elites_is_made_and_replaced_thresholds_are_used():
    settings = replace(PLANNER, horizon=2, samples=8, elites=1, repeats=2)
    planner = peg_planner(calibrated("capture", coarse()), coarse_task(), settings, seed=5, device="cuda")
    actions = planner.plan(place("mouth"))
    assert (np.abs(actions) <= 3.0).all()
    before = planner.costs.copy()
    planner.reset()
    planner.rollout.thresholds = np.full_like(planner.rollout.thresholds, np.inf)
    planner.plan(place("mouth"))
    assert (planner.costs != before).all()


def test_states_that_no_plan_can_start_from_are_refused():
    planner = peg_planner(
        calibrated("capture", coarse()), coarse_task(), replace(PLANNER, horizon=2, samples=4), device="cuda"
    )
    with pytest.raises(CaptureError, match="receptacle"):
        planner.plan(np.array([0.02, 0.0, 0.0]))


def test_a_task_on_the_device_is_the_same_task():
    assert Peg(device="cuda") == Peg()
    assert repr(Peg(device="cuda")) == repr(Peg())
