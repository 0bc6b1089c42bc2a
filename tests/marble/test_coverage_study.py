"""What the methods cover on the marble's maps, and the paper's figures beside them."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest

from capture_cp.cli import main
from capture_lab.studies.coverage import CoverageStudy
from capture_lab.studies.montecarlo import Question, count
from capture_lab.studies.paper import Paper
from capture_lab.tasks.marble.options import MarbleOptions
from capture_lab.tasks.task import TestSet
from marble.boards import REAL, counts_of

STRATA = ("free", "edge", "corner")
PAPER = Paper.of(MarbleOptions)


# -- what the methods cover -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_rows(tmp_path_factory):
    """The study on one map of the paper, with few outcomes an input: rows by method and stratum."""
    output = tmp_path_factory.mktemp("study") / "rows.json"
    methods = ["pcp", "capture-k1", "capture"]
    main(["coverage", "marble", "--maps", "top-left", "--mc", "3", "--methods", *methods, "--json", str(output)])
    return {(row["method"], row["stratum"]): row for row in json.loads(output.read_text())["rows"]}


def error_of(row) -> float:
    """Standard error of a row's coverage: of its test outcomes, and of as many calibration points as a part of them."""
    from_test = (row["ci95"][1] - row["ci95"][0]) / 4
    share = 0.3 * 2 / 3  # thresholds come from 30% of two draws an input, the test from three
    return math.hypot(from_test, math.sqrt(0.09 / (share * row["n"])))


@pytest.mark.parametrize("stratum", ["all", *STRATA])
@pytest.mark.parametrize("method", ["capture", "capture-k1"])
def test_capture_covers_every_stratum_as_promised(real_rows, method, stratum):
    row = real_rows[method, stratum]
    assert 0.89 - 3 * error_of(row) <= row["coverage"] <= 0.92 + 3 * error_of(row)


def test_pcp_misses_free_space_and_wastes_on_edges(real_rows):
    assert real_rows["pcp", "all"]["coverage"] == pytest.approx(0.9, abs=0.01)
    assert real_rows["pcp", "free"]["coverage"] < 0.80
    assert real_rows["pcp", "edge"]["coverage"] > 0.93


def test_rows_carry_the_papers_figures(real_rows):
    assert real_rows["capture", "free"]["paper"] == pytest.approx(0.901)
    assert real_rows["pcp", "corner"]["paper"] == pytest.approx(0.999)
    assert real_rows["pcp", "all"]["paper_volume_ratio"] == pytest.approx(0.97)


METHODS = ("particles", "pcp", "lucca", "no-strata", "capture-k1", "capture")


@pytest.fixture(scope="module")
def by_stratum():
    """All six methods, their trees one per stratum, calibrated on random transitions of one map; and inputs to test on."""
    task, rng = REAL["bottom-right"], np.random.default_rng(0)
    data = task.design_transitions("random", 1, rng)
    calibration, test = slice(0, 40_000), slice(40_000, 46_000)
    study = CoverageStudy(MarbleOptions(), methods=METHODS, tree="per-stratum", min_leaf=1000, max_leaves=None)
    caps = study.fit(task, data.rows(calibration))
    return task, caps, data.X[test], data.Y[test]


@pytest.fixture(scope="module")
def counted(by_stratum):
    task, caps, X, _ = by_stratum
    return counts(caps, task, X, 5)


def counts(caps, task, X, draws, first=0):
    """Counts for inputs X, whose noise is numbered from `first`."""
    before = np.zeros((first, X.shape[1]))
    test = TestSet(np.vstack([before, X]), partial(task.outcomes, seed=task.seed_here(0)))
    return count(caps, task, test, Question(draws, 0.1), slice(first, first + len(X)))


@pytest.mark.parametrize("stratum", STRATA)
@pytest.mark.parametrize("method", ["capture", "capture-k1"])
def test_tree_per_stratum_guarantees_every_stratum(by_stratum, counted, method, stratum):
    """At least 1 - alpha, less 4 standard errors of the draw of the test outcomes and of the calibration set."""
    task, caps, X, Y = by_stratum
    row = counted[method].coverage(0.1, STRATA)[stratum]
    here = task.strata.index(Y) == STRATA.index(stratum)
    cap = caps[method]
    share = np.bincount(cap.partition_.groups(X[here], task.strata.index(Y[here])), minlength=cap.partition_.n_groups)
    share = share / share.sum()
    of_calibration = (share**2 * 0.09 / np.maximum(cap.calibration_.sizes, 1)).sum()
    error = math.sqrt(0.09 / row.effective + of_calibration)
    assert 0.9 - 4 * error <= row.coverage <= 0.92 + 4 * error


@pytest.mark.parametrize("method", [name for name in METHODS if name != "lucca"])
def test_no_region_of_a_particle_method_has_an_infeasible_cell(by_stratum, counted, method):
    task, caps, X, _ = by_stratum
    assert counted[method].cells[-1] == 0
    for x in X[:50]:
        cells = caps[method].region(x).cells()
        assert (task.strata.labels[cells] >= 0).all()
        assert (task.map.clearance(task.strata.grid.centre(cells)) >= -1e-9).all()


def test_regions_of_lucca_reach_into_walls(counted):
    assert counted["lucca"].cells[-1] > 0


def test_count_agrees_with_regions_and_outcomes_one_by_one(by_stratum):
    """Slowly: each region built, each outcome asked about."""
    task, caps, X, _ = by_stratum
    X = X[:40]
    outcomes = task.outcomes(X, 6, seed=task.seed_here(0), first=100)
    for name, cap in caps.items():
        found = counts({name: cap}, task, X, 6, first=100)[name]
        prediction = cap.predict(X, task.prediction_stream(0, 100))
        regions = [cap.region(x, prediction=prediction[i : i + 1]) for i, x in enumerate(X)]
        inside = np.array([region.contains(Y) for region, Y in zip(regions, outcomes)])
        labels = np.array([task.strata.index(Y) for Y in outcomes])
        totals = np.array([[(row == m).sum() for m in range(3)] for row in labels])
        hits = np.array([[(row[own == m]).sum() for m in range(3)] for row, own in zip(inside, labels)])
        expected = counts_of(totals, hits)
        assert np.array_equal(found.sums, expected.sums)
        assert found.cells.sum() == sum(len(region.cells()) for region in regions)


# -- the paper's figures --------------------------------------------------------------------------------------------------


def test_paper_has_no_figures_for_other_maps_and_methods():
    assert PAPER.coverage("mine.json", "capture", "free") is None
    assert PAPER.coverage("center", "particles", "free") is None
    assert PAPER.volume_ratio("mine.json", "capture") is None
    assert PAPER.coverage("center", "capture", "volume ratio") is None
    assert PAPER.planning("center", "nothing") is None
