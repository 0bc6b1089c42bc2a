"""The peg's coverage study and the check of its simulator: what they must show, and what they refuse."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from rich.console import Console

from capture_cp import CaptureWarning
from capture_cp.cli import main
from capture_lab.studies.coverage import CoverageStudy
from capture_lab.tasks.peg.cspace import REGIMES
from capture_lab.tasks.peg.options import PegOptions
from commands import refused

pytest.importorskip("mujoco")

# a single tree: for one per stratum, the rarest strata would have too few transitions
SMALL = ["--calibration=3000", "--test=300", "--volume=20", "--tree=label", "--min-leaf=300", "--threads=1"]


CALIBRATION, TEST = 9000, 4000


@pytest.fixture
def run(tmp_path, capsys):
    """Runs the command on few transitions: its JSON and what it printed."""

    def command(*options):
        file = tmp_path / "rows.json"
        main(["coverage", "peg", *SMALL, "--json", str(file), *map(str, options)])
        return json.loads(file.read_text()), capsys.readouterr().out

    return command


# -- what it must show ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["planar", "arm"])
def shown(request):
    options = PegOptions(request.param)
    study = CoverageStudy.of(options, calibration=CALIBRATION, test=TEST, volume=60)
    quiet, tasks = Console(quiet=True), study.checked_places()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaptureWarning)  # the rarest strata may have too few transitions
        found, _ = study.measure(tasks, study.tests(tasks, quiet), quiet)
    return {name: counted.coverage(0.1, REGIMES) for name, counted in found[request.param].items()}


def deviation(row, held_out=0.3):
    """Standard deviation of coverage, from both draws: the calibration scores of a regime are as rare as its landings."""
    return np.sqrt(0.09 / row.n + 0.09 / (row.n / TEST * CALIBRATION * held_out))


@pytest.mark.parametrize("name", ["capture", "capture-k1"])
def test_capture_covers_every_regime(shown, name):
    for row in shown[name]:
        assert abs(row.coverage - 0.9) < 0.01 + 4 * deviation(row)


def test_every_method_covers_overall(shown):
    assert all(abs(found.all.coverage - 0.9) < 0.03 for found in shown.values())


@pytest.mark.parametrize("name", ["pcp", "no-strata"])
def test_methods_that_ignore_strata_undercover_free_space(shown, name):
    free = shown[name]["free"]
    assert free.coverage < 0.9 - 3 * deviation(free)
    assert shown[name]["edge"].coverage > 0.9


def test_only_lucca_has_infeasible_cells(shown):
    for name, found in shown.items():
        inside = sum(row.volume for row in found.strata)
        assert (found.all.volume - inside > 1) == (name == "lucca")


# -- the command ----------------------------------------------------------------------------------------------------------


def test_rows_follow_the_schema(run):
    content, printed = run("--methods", "pcp", "capture")
    assert content["schema"] == 1
    assert content["config"]["calibration"] == 3000
    assert [(row["method"], row["stratum"]) for row in content["rows"]] == [
        (name, regime) for name in ("pcp", "capture") for regime in ("all", "free", "point", "edge")
    ]
    first = content["rows"][0]
    assert (first["task"], first["map"], first["n"], first["paper"]) == ("peg", "planar", 300, 0.899)
    assert first["ci95"][0] < first["coverage"] < first["ci95"][1]
    assert first["volume_ratio_ci95"][0] < first["volume_ratio"] < first["volume_ratio_ci95"][1]
    assert "(89.9)" in printed
    assert "landings overlapped" in " ".join(printed.split())


def test_figures_are_written(run, tmp_path):
    pytest.importorskip("matplotlib")
    run("--methods", "lucca", "capture", "--volume", 0, "--figures", tmp_path / "new" / "figures")
    names = {file.name for file in (tmp_path / "new" / "figures").iterdir()}
    assert names == {"peg-spaces.png", "peg-contacts.png", "peg-starts.png", "peg-planar-regions.png"}


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--hole", 5), "error: the hole is 5.000 mm wide and the peg 7.986 mm; the peg must be narrower than the hole."),
        (("--bound", 40), "error: margin is 1.5 times a bound of 40.0"),
        (("--trim", 9), "error: trim is 0.009"),
        (("--noise", -1), "error: the peg's noise is -1.0"),
        (("--methods", "captur"), "Did you mean 'capture'?"),
        (("--volume", -1), "error: volume is -1"),
        (("--mc", 2), "error: mc is 2; test transitions of peg are recorded, expected at most 1."),
        (("--threads", 0), "error: threads is 0"),
        (("--json", "/no/such/folder/rows.json"), "error: cannot write /no/such/folder/rows.json"),
        (("--figures", "/dev/null/figures"), "error: cannot make the folder /dev/null/figures"),
    ],
)
def test_bad_input_is_one_sentence(capsys, options, sentence):
    assert sentence in refused(capsys, "coverage", "peg", *SMALL, *options)
