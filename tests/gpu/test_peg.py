"""The peg on a GPU against the processor: the same fingerprints, particles to rounding, the same cells and costs."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numba import config

from capture_cp import CaptureError, HorizonCapture, OneGroup, Rollouts
from capture_cp.spaces.grid import Grid
from capture_cp.tasks.peg import cspace, cuda_regions
from capture_cp.tasks.peg.corrected import CorrectedModel, CorrectedPeg, Correction
from capture_cp.tasks.peg.cspace import PegStrata
from capture_cp.tasks.peg.first_step import FirstStepRegions
from capture_cp.tasks.peg.model import PegModel
from capture_cp.tasks.peg.planner import PLANNER, PegRollout, PegWeights, peg_planner
from capture_cp.tasks.peg.settings import PegSettings
from capture_cp.tasks.peg.task import Peg
from peg.calibrated import NAMES, PARTICLES, PLACES, TASK, calibrated, coarse, inputs, place

NANOMETRE = 1e-9
CORRECTION = Correction(((1.4, 0.01, 0.0, 0.1), (0.0, 1.5, 0.02, 0.0), (0.0, 0.02, 1.45, 0.0)), 0.6)
FEW_CELLS = Grid.between((-0.03, -0.01, -0.7), (0.03, 0.05, 0.7), (6e-3, 6e-3, 0.2))


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    if config.ENABLE_CUDASIM:  # every thread is one of Python
        monkeypatch.setattr(cuda_regions, "THREADS", 32)


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
    X = np.concatenate([inputs(where, 1) for where in ("corner", "flat", "mouth", "bottom")])
    particles = TASK.model(X, PARTICLES, np.random.default_rng(0))
    here, there = (FirstStepRegions(calibrated(name, coarse()), coarse(), device=device) for device in ("cpu", "cuda"))
    mine, other = there(X, particles), here(X, particles)
    np.testing.assert_array_equal(mine.cells, other.cells)
    np.testing.assert_allclose(np.array(mine), np.array(other), rtol=1e-12)


@pytest.mark.parametrize("infeasible", ["worst", "nothing"])
def test_infeasible_cells_count_as_told(infeasible):
    X, cap = inputs("flat", 2), calibrated("lucca", coarse())
    here, there = (FirstStepRegions(cap, coarse(), infeasible=infeasible, device=device) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(np.array(there(X, None)), np.array(here(X, None)), rtol=1e-12)


def test_whole_strata_and_regions_without_cells():
    """Infinite thresholds take strata in whole; where there is no cell at all, the particles stand for the region."""
    X, far = inputs("mouth", 2), np.tile([0.0, 0.09, 0.0], (2, PARTICLES, 1))
    here, there = (FirstStepRegions(calibrated("capture", coarse()), coarse(), device=device) for device in ("cpu", "cuda"))
    for limit in (np.inf, -1.0):
        q = np.full((2, len(coarse().names)), -1.0)
        q[:, 1] = limit
        here.thresholds = there.thresholds = lambda _, q=q: q
        np.testing.assert_allclose(np.array(there(X, far)), np.array(here(X, far)), rtol=1e-12)


def test_regions_travel_to_other_processes():
    X, there = inputs("corner", 1), FirstStepRegions(calibrated("capture", coarse()), coarse(), device="cuda")
    particles = TASK.model(X, PARTICLES, np.random.default_rng(0))
    found = there(X, particles)
    again = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(np.array(again(X, particles)), np.array(found))


# -- plans ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["capture", "particles", "lucca"])
@pytest.mark.parametrize("where", ["air", "mouth"])
def test_stage_costs_are_the_processors(name, where):
    task, cap = coarse_task(), calibrated(name, coarse())
    sequences = np.random.default_rng(2).uniform(-3, 3, (3, 4, 3))
    here, there = (PegRollout(cap, task, weights=PegWeights(bonuses=True), device=device) for device in ("cpu", "cuda"))
    ours, theirs = (rollout(place(where), sequences, 7) for rollout in (there, here))
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
    sequences = rng.uniform(-3, 3, (2, 3, 3))
    ours, theirs = (PegRollout(ahead, task, device=device)(place("corner"), sequences, 7) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


def test_a_plan_is_the_processors():
    task, cap, settings = coarse_task(), calibrated("capture", coarse()), replace(PLANNER, horizon=3, samples=4)
    actions = [peg_planner(cap, task, settings, seed=5, device=device).plan(place("mouth")) for device in ("cuda", "cpu")]
    np.testing.assert_allclose(*actions, rtol=0, atol=1e-6)


def test_a_task_on_the_device_is_the_same_task():
    assert Peg(device="cuda") == Peg()
    assert repr(Peg(device="cuda")) == repr(Peg())
