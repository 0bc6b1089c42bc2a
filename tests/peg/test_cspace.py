"""The peg's strata: the grid against brute force, strata against hand-picked poses, and starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapely import Polygon, unary_union

from capture_cp import CaptureError
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.peg.cspace import FEATURES, PegStrata, peg_grid
from capture_lab.tasks.peg.geometry import MAX_OVERLAP, TOUCH
from peg.test_geometry import columns, corners, distances

SMALL = Grid.between((-0.03, -0.01, -0.6), (0.03, 0.05, 0.6), (2e-3, 2e-3, 0.1))


@pytest.fixture(scope="module")
def literal():
    return PegStrata()


@pytest.fixture(scope="module")
def trimmed():
    return PegStrata(trim=1.5e-3)


@pytest.fixture(scope="module", params=["literal", "trimmed"])
def strata(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def small():
    """So coarse that many fingerprints occur in no cell."""
    return PegStrata(grid=SMALL)


# -- the grid -------------------------------------------------------------------------------------------------------------


def test_grid_is_the_papers():
    grid = peg_grid()
    assert grid.shape == (241, 241, 161)
    assert grid.centre([0, grid.size - 1]) == pytest.approx(
        np.array([[-0.03, -0.01, -math.radians(40)], [0.03, 0.05, math.radians(40)]])
    )


def test_cells_have_the_fingerprint_of_their_centre_by_brute_force(strata):
    rng = np.random.default_rng(0)
    touching = np.flatnonzero(strata.labels > 0)
    cells = np.concatenate([rng.integers(strata.grid.size, size=300), rng.choice(touching, 300)])
    world = unary_union(columns(strata.settings))
    for cell, pose in zip(cells, strata.grid.centre(cells)):
        area = Polygon(corners(pose, strata.settings)).intersection(world).area
        away = distances(pose, strata.settings, strata.trim)
        if abs(area - MAX_OVERLAP) > 1e-13 and (np.abs(away - TOUCH) > 1e-12).all():
            name = " ".join(np.array(FEATURES)[away < TOUCH]) or "free"
            found = strata.labels[cell]
            assert (found == INFEASIBLE) == (area > MAX_OVERLAP)
            assert found == INFEASIBLE or strata.names[found] == name


# -- strata ---------------------------------------------------------------------------------------------------------------


def test_goal_is_told_from_the_rim_by_trimmed_tubes_only(literal, trimmed):
    on_the_rim = np.array([[0.02, 0.025, 0.0], [0.0, 0.025, 0.0]])
    assert (literal.index(on_the_rim) == literal.goal_stratum).all()
    assert (trimmed.index(on_the_rim) != trimmed.goal_stratum).all()


@pytest.mark.parametrize(
    ("pose", "regime"),
    [
        ((0.02, 0.04, 0.0), "free"),
        ((0.02, 0.0252, -0.35), "point"),  # a corner on the block
        ((0.004, 0.0253, 0.2), "point"),  # a bare edge on the rim
        ((0.02, 0.025, 0.0), "edge"),  # flush
        ((-0.008, 0.02275, 0.358), "other"),  # a corner and an edge, wedged in the mouth
    ],
)
def test_regimes_of_known_poses(strata, pose, regime):
    index = strata.index(np.array([pose]))[0]
    assert index != INFEASIBLE
    assert strata.regimes[index] == regime


def test_fingerprint_of_no_cell_counts_as_the_nearest_that_occurs(small, literal):
    poses = literal.sample_starts(20_000, np.random.default_rng(0))
    bits = literal.features[literal.index(poses)]
    rare = ~(bits[:, None] == small.features).all(axis=2).any(axis=1)
    assert rare.any()
    changed = (bits[:, None] != small.features).sum(axis=2)
    index = small.index(poses)
    assert np.array_equal(changed[np.arange(len(poses)), index], changed.min(axis=1))
    assert (index[literal.index(poses) == 0] == 0).all()


@given(st.floats(-0.006, 0.006), st.floats(-0.03, 0.03), st.floats(-0.3, 0.3))
def test_success_is_measured_at_the_base(literal, x, up, theta):
    """Within 2.5 mm of the axis, at most 0.96 mm above the bottom."""
    base_x, base_z = x, -0.024 + up
    pose = [base_x - 0.025 * math.sin(theta), base_z + 0.025 * math.cos(theta), theta]
    if abs(abs(x) - 2.5e-3) > 1e-9 and abs(up - 0.96e-3) > 1e-9:
        assert literal.success(np.array([pose]))[0] == (abs(x) < 2.5e-3 and up < 0.96e-3)


# -- starts ---------------------------------------------------------------------------------------------------------------

INNER = np.array([[-0.0255, -0.0055, -math.radians(35.5)], [0.0255, 0.0455, math.radians(35.5)]])


def test_starts_are_uniform_over_strata_and_inside_the_grid(strata):
    n = 28_000
    poses = strata.sample_starts(n, np.random.default_rng(0))
    counts = np.bincount(strata.index(poses), minlength=len(strata.names))
    expected = n / len(strata.names)
    assert (np.abs(counts - expected) < 5 * math.sqrt(expected)).all()
    assert (poses >= INNER[0]).all()
    assert (poses <= INNER[1]).all()


def test_halton_starts_are_feasible_fixed_and_apart(strata):
    poses = strata.halton_starts(50)
    assert poses.shape == (50, 3)
    assert (strata.index(poses) != INFEASIBLE).all()
    assert (poses >= INNER[0]).all()
    assert (poses <= INNER[1]).all()
    assert len(np.unique(poses, axis=0)) == 50
    assert np.array_equal(strata.halton_starts(50), poses)
    assert np.array_equal(strata.halton_starts(20), poses[:20])
    assert not strata.success(poses).any()


# -- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 2)), [[0, math.nan, 0]], [[0, math.inf, 0]], "pose"])
def test_bad_poses_are_refused(small, bad):
    for ask in (small.index, small.success):
        with pytest.raises(CaptureError, match="poses"):
            ask(bad)


def test_grid_inside_the_table_is_refused():
    with pytest.raises(CaptureError, match="no pose"):
        PegStrata(grid=Grid.between((-0.01, -0.5, -0.1), (0.01, -0.4, 0.1), (0.01, 0.01, 0.1)))
