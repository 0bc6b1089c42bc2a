"""Choosing a device for the peg on a machine without a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_cp.cuda import device as devices
from capture_cp.studies.coverage import CoverageStudy
from capture_cp.studies.planning import PlanningStudy
from capture_cp.tasks.peg.corrected import CorrectedModel, Correction
from capture_cp.tasks.peg.cspace import PegStrata
from capture_cp.tasks.peg.model import PegModel
from capture_cp.tasks.peg.options import PegOptions
from capture_cp.tasks.peg.planner import peg_planner
from capture_cp.tasks.peg.settings import PegSettings
from capture_cp.tasks.peg.task import Peg
from peg.calibrated import TASK, calibrated, coarse, inputs

NONE_HERE = "no NVIDIA GPU with a working driver was found."
MAKERS = {
    "strata": lambda device: PegStrata(grid=coarse().grid, device=device),
    "model": lambda device: PegModel(device=device),
    "task": lambda device: Peg(device=device),
    "planner": lambda device: peg_planner(calibrated(), TASK, device=device),
    "planning": lambda device: PlanningStudy.of(PegOptions(), device=device).tasks(),
    "coverage": lambda device: CoverageStudy.of(PegOptions(), device=device).checked_places(),
}


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(devices, "_trouble", lambda: NONE_HERE)


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("what", MAKERS)
def test_without_a_gpu_cuda_is_refused_in_a_sentence(what):
    with pytest.raises(CaptureError, match=f'device "cuda" cannot be used: {NONE_HERE}'):
        MAKERS[what]("cuda")


@pytest.mark.parametrize("what", ["strata", "model", "task", "planner"])
def test_unknown_devices_are_refused(what):
    with pytest.raises(CaptureError, match="unknown device 'gpu'"):
        MAKERS[what]("gpu")


@pytest.mark.usefixtures("without_gpu")
def test_auto_is_the_processor_where_there_is_no_gpu():
    X, rng = inputs("mouth", 4), np.random.default_rng
    assert PegStrata(grid=coarse().grid, device="auto").device == "cpu"
    np.testing.assert_array_equal(PegModel(device="auto")(X, 3, rng(0)), PegModel()(X, 3, rng(0)))
    assert Peg(device="auto") == Peg()


def test_the_gaussian_of_a_corrected_model_is_corrected():
    gain = Correction(tuple(tuple(1.5 * row) for row in np.eye(3, 4)))
    X = inputs("air", 20, bound=2.0)
    further = X * [1, 1, 1, 1.5, 1.5, 1.5]
    wide = PegSettings(bound=3.0)
    np.testing.assert_allclose(CorrectedModel(wide, gain).gaussian(X)[0], PegModel(wide).gaussian(further)[0], atol=1e-12)
