"""Files that version 0.1 wrote give the answers that they gave then; tests/kept/README.md says how they were made.

A later version may refuse one of them instead, in one sentence. The objects that a file needs besides its content are here.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from capture_cp import Capture, FunctionStrata, HorizonCapture, Monitor, load_calibration, residual
from capture_cp.certificates.certificate import Certificate
from capture_cp.cli import main
from capture_cp.models import gaussian
from capture_lab.tasks.box import Box

KEPT = Path(__file__).parent / "kept"
EXPECTED = json.loads((KEPT / "expected.json").read_text())
BOX = Box()
FIBONACCI = 0.6180339887498949


def spread(n, axes, start=0.0):
    """Points (n, axes) that fill [-1, 1], of sums and products alone: the same bits on every machine."""
    steps = (FIBONACCI * np.arange(1, axes + 1))[None] * (np.arange(n) + 1.0 + start)[:, None]
    return 2 * (steps - np.floor(steps)) - 1


def arm(X, n_particles, rng):
    """Two joint angles after a step, without friction."""
    moved = X[:, None, :2] + X[:, None, 2:] + 0.02 * rng.standard_normal((len(X), n_particles, 2))
    return moved - 2 * np.pi * np.round(moved / (2 * np.pi))


def arm_log(n, start=0.0):
    """Joint angles and turns, and the angles that follow: (n, 4), (n, 2)."""
    u = spread(n, 6, start)
    X = np.hstack([np.pi * u[:, :2], 0.3 * u[:, 2:4]])
    after = X[:, :2] + 0.8 * X[:, 2:] + 0.05 * u[:, 4:] ** 3
    return X, after - 2 * np.pi * np.round(after / (2 * np.pi))


def cart_step(states, actions, rng):
    """Poses (x, y, angle) of a cart that drives and turns."""
    noise = 0.01 * rng.standard_normal(states.shape)
    return states + np.hstack([actions[:, :1], 0.1 * actions[:, :1] * states[:, 2:], actions[:, 1:]]) + noise


ARM_STRATA = FunctionStrata(lambda Y: (np.abs(Y[:, 0]) > 2.5).astype(int), ["free", "at the stop"])
CART_STRATA = FunctionStrata(lambda Y: (Y[:, 0] > 0.5).astype(int), ["floor", "ramp"])


def arm_model():
    """The arm with its mean error corrected, trained again. The file remembers what it was trained on and its parameters."""
    return residual(arm, DummyRegressor(), angles=(0, 1)).fit(*arm_log(300, 5000.0))


LOADED = {
    "pushes": lambda file: load_calibration(file),
    "fleet": lambda file: load_calibration(file),
    "tosses": lambda file: load_calibration(file),
    "arm": lambda file: Capture.load(file, arm_model(), ARM_STRATA),
    "box-lucca": lambda file: Capture.load(file, gaussian(BOX.gaussian), BOX.strata),
    "cart": lambda file: HorizonCapture.load(file, cart_step, CART_STRATA),
}
#: Calibration, file of a history of two nights with it, and the third night.
NIGHTS = {"pushes": "pushes-night.csv", "tosses": "tosses-night.csv"}


def answers(cap):
    """Thresholds at several alphas, with confidence and for all steps at once; and what the file says of its parts."""
    together = (False, True) if "episodes" in cap.data_ or isinstance(cap, HorizonCapture) else (False,)
    confidence = (None, 0.9) if getattr(cap, "shift_", None) is None else (None,)
    settings = [(a, s, c) for a in (0.05, 0.1, 0.3) for s in together for c in confidence]
    return {
        "thresholds": {str(given): cap.group_thresholds(*given).tolist() for given in settings},
        "score": repr(cap.score_),
        "grouping": repr(cap.groups_),
        "data": cap.data_["sha256"],
        "fingerprint": cap.digest(),
    }


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
@pytest.mark.parametrize("name", LOADED)
def test_a_calibration_has_the_thresholds_it_had(name):
    found = answers(LOADED[name](KEPT / f"{name}.capture"))
    expected = EXPECTED["calibrations"][name]
    thresholds, wanted = found.pop("thresholds"), expected.pop("thresholds")
    assert found == expected
    assert thresholds.keys() == wanted.keys()
    for given in wanted:
        np.testing.assert_allclose(thresholds[given], wanted[given], rtol=1e-12, err_msg=given)


def third_night(name, folder):
    """What the check of the third night finds."""
    history, rows = folder / f"{name}.history", folder / f"{name}.json"
    shutil.copy(KEPT / history.name, history)
    main(["check", str(KEPT / f"{name}.capture"), str(KEPT / NIGHTS[name]), "--history", str(history), "--json", str(rows)])
    found = json.loads(rows.read_text())
    findings = {f"{one['question']}, {one['about']}": one["p"] for one in found["findings"]}
    return {"batch": found["batch"], "alarm": found["alarm"], "p": findings}, history


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
@pytest.mark.parametrize("name", NIGHTS)
def test_a_history_goes_on(name, tmp_path, capsys):
    found, history = third_night(name, tmp_path)
    expected = EXPECTED["histories"][name]
    assert (found["batch"], found["alarm"]) == (3, expected["alarm"])
    assert found["p"] == pytest.approx(expected["p"], rel=1e-6)
    cap = LOADED[name](KEPT / f"{name}.capture")
    assert Monitor.load(history, cap).capital == pytest.approx(expected["capital"], rel=1e-6)


def test_a_certificate_is_checked_as_before(tmp_path, capsys):
    file, expected = KEPT / "calm.json", EXPECTED["certificate"]
    certificate = Certificate.load(file)
    assert certificate.claim == expected["claim"]
    assert {risk.name: risk.delta for risk in certificate.risks} == expected["deltas"]
    rows = tmp_path / "rows.json"
    main(["check", str(file), str(KEPT / "outcomes-night.csv"), "--json", str(rows)])
    assert json.loads(rows.read_text())["rows"] == expected["rows"]
