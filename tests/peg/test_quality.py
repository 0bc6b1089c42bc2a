"""The measures of a simulated peg, and what they must come to."""

from __future__ import annotations

import math

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_lab.tasks.peg.geometry import MAX_OVERLAP, overlaps, shape_of
from capture_lab.tasks.peg.quality import NEAR, compare, contact_inputs, depths, free_inputs, measure
from capture_lab.tasks.peg.settings import PegSettings
from capture_lab.tasks.peg.systems import SYSTEMS, make_system

pytest.importorskip("mujoco")

SETTINGS = PegSettings()


@pytest.fixture(scope="module", params=SYSTEMS)
def measured(request):
    return {row.name: row for row in measure(make_system(request.param, threads=1), n=300, seed=1)}


def values(measured, start):
    """Values of the measures whose name starts so."""
    return [row.value for name, row in measured.items() if name.startswith(start)]


def test_a_control_step_is_long_enough_to_settle(measured):
    assert measured["free move left undone, largest"].value < 1.0  # %


def test_contact_is_hard(measured):
    assert measured["landings in contact"].value > 30.0  # %, or nothing was measured
    assert measured["penetration, 99th percentile"].value < 100.0  # µm
    assert measured["infeasible landings"].value <= 1.0  # %


def test_the_peg_keeps_to_the_plane(measured):
    assert max(values(measured, "off the plane")) < 50.0  # µm


def test_nothing_differs_when_it_is_run_again(measured):
    assert values(measured, "rows that differ") == [0.0] * 4


def test_every_measure_is_a_number_with_a_unit(measured):
    assert all(math.isfinite(row.value) and row.value >= 0.0 and row.unit for row in measured.values())


def test_the_two_systems_agree_in_free_space():
    rows = compare(make_system("arm", threads=1), make_system("planar", threads=1), n=100)
    assert {row.system for row in rows} == {"arm - planar"}
    free = [row.value for row in rows if "free" in row.name]
    assert len(free) == 2
    assert max(free) < 0.05  # mm


def test_the_inputs_are_what_they_say():
    shape, rng = shape_of(SETTINGS), np.random.default_rng(0)
    poses, move = free_inputs(500, SETTINGS, rng)
    assert max(depths(poses, shape).max(), depths(poses + move, shape).max()) < 0.0
    poses, _ = contact_inputs(500, SETTINGS, rng)
    gaps = -depths(poses, shape)
    assert gaps.min() > 0.0
    assert gaps.max() < NEAR


def test_depth_is_positive_exactly_where_areas_overlap():
    shape = shape_of(SETTINGS)
    poses = np.random.default_rng(0).uniform([-0.03, -0.01, -0.7], [0.03, 0.05, 0.7], size=(5000, 3))
    inside = depths(poses, shape) > 0.0
    area = overlaps(poses, shape)
    assert inside[area > MAX_OVERLAP].all()
    assert not inside[area == 0.0].any()


def test_too_few_transitions_are_refused():
    with pytest.raises(CaptureError, match="n is 1"):
        measure(make_system("planar", threads=1), n=1)
