"""Measured coverage and its exact binomial intervals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from capture_cp import CaptureError
from capture_cp.conformal.coverage import CoverageRow, clopper_pearson, tally


@given(st.integers(0, 400), st.integers(0, 400), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_clopper_pearson_equals_scipy(successes, failures, level):
    trials = successes + failures
    low, high = clopper_pearson(successes, trials, level)
    assert 0.0 <= low <= high <= 1.0
    if trials:
        expected = stats.binomtest(successes, trials).proportion_ci(level, method="exact")
        assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-10)


def test_clopper_pearson_at_the_ends():
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert clopper_pearson(0, 10)[0] == 0.0
    assert clopper_pearson(10, 10)[1] == 1.0


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, -1)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(CaptureError, match="is impossible; expected 0 <= successes <= trials"):
        clopper_pearson(successes, trials)


def test_tally_counts_under_each_label():
    rows = tally(["a", "b", "c"], np.array([0, 2, 2, 0]), np.array([True, False, True, True]), None, [4, 5, 6])
    assert [(row.name, row.n, row.covered, row.calibration) for row in rows] == [
        ("a", 2, 2, 4),
        ("b", 0, 0, 5),
        ("c", 2, 1, 6),
    ]
    assert rows[0].coverage == 1.0
    assert math.isnan(rows[1].coverage)
    assert rows[2].ci95 == clopper_pearson(1, 2)


@pytest.mark.parametrize("covered", [0, 7, 20])
def test_correlated_outcomes_widen_the_interval(covered):
    """Twenty outcomes worth five independent ones have the interval of five."""
    row = CoverageRow("a", 20, covered, effective=5.0)
    low, high = clopper_pearson(covered, 20)
    assert row.ci95 == pytest.approx(clopper_pearson(covered / 4, 5))
    assert row.ci95[0] <= low < high <= row.ci95[1]
    assert CoverageRow("a", 20, covered, effective=20.0).ci95 == pytest.approx((low, high))


@pytest.fixture
def coverage(each_method, fresh):
    return each_method.coverage(fresh.X, fresh.Y, 0.2, prediction=fresh.prediction(each_method))


def test_coverage_is_the_share_of_contained_outcomes(each_method, fresh, coverage):
    inside = each_method.contains(fresh.X, fresh.Y, 0.2, prediction=fresh.prediction(each_method))
    assert (coverage.all.n, coverage.all.covered) == (200, inside.sum())
    for m, name in enumerate(fresh.box.strata.names):
        assert (coverage[name].n, coverage[name].covered) == ((fresh.m == m).sum(), inside[fresh.m == m].sum())
    assert (sum(row.n for row in coverage.groups), sum(row.covered for row in coverage.groups)) == (200, inside.sum())
    assert [row.calibration for row in coverage.groups] == each_method.calibration_.sizes.tolist()


def test_volume_is_the_mean_number_of_cells(each_method, fresh, coverage):
    counts = each_method.count_cells(fresh.X, 0.2, prediction=fresh.prediction(each_method))
    assert coverage.all.volume == pytest.approx(counts.sum(axis=1).mean())
    assert [row.volume for row in coverage.strata] == pytest.approx(counts[:, :-1].mean(axis=0))


def test_coverage_becomes_json(coverage):
    rows = json.loads(json.dumps(coverage.rows(task="box", method="any")))
    assert [row["stratum"] for row in rows] == ["all", "free", "edge", "corner"]
    assert rows[0] == {
        "task": "box",
        "method": "any",
        "stratum": "all",
        "alpha": 0.2,
        "coverage": coverage.all.coverage,
        "ci95": list(coverage.all.ci95),
        "n": 200,
        "volume": coverage.all.volume,
    }


def test_coverage_is_printed_as_a_table(coverage):
    first, *rows = str(coverage).splitlines()
    assert first == "coverage, target 80.0%"
    assert [row.split()[0] for row in rows] == ["all", "free", "edge", "corner"]
    assert "of 200" in rows[0]
    assert rows[0].endswith("cells")


def test_a_stratum_without_test_rows_is_shown_without_a_number(fitted, fresh):
    rows = fresh.m == 0
    coverage = fitted["pcp"].coverage(fresh.X[rows], fresh.Y[rows], 0.2)
    assert coverage.rows()[3]["coverage"] is None
    assert coverage.rows()[3]["ci95"] == [0.0, 1.0]
    assert "corner        -  of 0" in str(coverage)
    json.dumps(coverage.rows(), allow_nan=False)
