"""Configurations moved onto strata, most of which are a thousandth of the space or less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from benchmarks.contact_strata import PAIRS, PEG_PAIRS, arm_configurations, arm_scene
from capture_cp import CaptureError, ContactStrata, SweptStrata
from capture_lab.tasks.peg.task import Peg

pytest.importorskip("mujoco")

KINDS = pytest.mark.parametrize("kind", [ContactStrata, SweptStrata])


@KINDS
@pytest.mark.parametrize("name", ["link7-floor", "link7-table", "link7-wall", "link7-post"])
def test_most_rows_arrive_on_a_thin_stratum(kind, name):
    strata = kind(arm_scene(), PAIRS, tolerance=1e-3)
    Y, m = arm_configurations(1000, np.random.default_rng(0)), strata.number(name)
    assert np.mean(strata.index(Y) == m) < 0.005
    moved = strata.project(Y, m)
    assert moved.shape == Y.shape
    arrived = strata.index(moved) == m
    assert arrived.mean() > 0.8
    left = ~arrived
    assert (moved[left] == Y[left]).all()
    # in the middle of the contact, not at its edge: a little noise leaves most where they are
    touching = strata.distances(moved[arrived])[:, strata.pairs.index(name)]
    assert np.quantile(np.abs(touching), 0.9) < 0.2e-3


@KINDS
def test_free_moves_off_what_touches_or_overlaps(kind):
    strata = kind(arm_scene(), PAIRS, tolerance=1e-3)
    Y = arm_configurations(500, np.random.default_rng(2))
    inside = Y[strata.index(Y) != 0]
    free = strata.project(inside, 0)
    assert len(inside) > 100
    assert np.mean(strata.index(free) == 0) > 0.8


def test_the_peg_reaches_every_contact_and_both_at_once():
    peg, rng = Peg(), np.random.default_rng(3)
    grid = peg.strata.require_grid()
    strata = ContactStrata(peg.true_system(threads=1).model, PEG_PAIRS, tolerance=0.25e-3)
    Y = grid.centre(rng.integers(grid.size, size=300))
    for name, share in [("peg-left", 0.9), ("peg-right", 0.9), ("peg-left + peg-right", 0.9), ("peg-left + peg-table", 0.4)]:
        m = strata.number(name)
        assert np.mean(strata.index(Y) == m) < 0.02
        assert np.mean(strata.index(strata.project(Y, m)) == m) > share


def test_other_contact_moves_nothing():
    strata = ContactStrata(arm_scene(), PAIRS, at_most=1)
    Y = arm_configurations(20, np.random.default_rng(4))
    same = strata.project(Y, strata.rest)
    assert (same == Y).all()
    assert same is not Y
    assert strata.project(np.empty((0, 7)), 1).shape == (0, 7)


@KINDS
def test_quaternions_stay_unit_ones(kind):
    text = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
      <body name="block"><freejoint/><geom type="box" size="0.1 0.2 0.3"/></body></worldbody></mujoco>"""
    strata, rng = kind(text, [("block", "floor")]), np.random.default_rng(5)
    Y = np.hstack([rng.uniform(-1, 1, (100, 3)), Rotation.random(100, random_state=rng).as_quat()])
    moved = strata.project(Y, 1)
    assert (strata.index(moved) == 1).mean() > 0.9
    assert np.linalg.norm(moved[:, 3:], axis=1) == pytest.approx(1)


@pytest.mark.parametrize(
    ("m", "sentence"),
    [(-1, "m is -1; expected a whole number"), (99, "m is 99; expected the number of a stratum"), ("free", "m is")],
)
def test_bad_input_is_told_in_one_sentence(m, sentence):
    with pytest.raises(CaptureError, match=sentence):
        ContactStrata(arm_scene(), PAIRS, at_most=1).project(np.zeros((1, 7)), m)
