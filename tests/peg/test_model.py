"""The peg's approximate model: free motion, contact, and the promise that it never ends inside anything."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import CaptureError
from capture_cp.conformal.gaussian import Mahalanobis
from capture_lab.tasks.peg.geometry import MAX_OVERLAP, overlaps, shape_of
from capture_lab.tasks.peg.model import PegModel, settle
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings

MM = 1e-3
EXACT = PegSettings(noise=0.0)
BOLD = PegSettings(bound=30.0, noise=15.0)
THIN = PegSettings(bound=30.0, noise=15.0, block_width=11e-3)  # walls of 1 mm

actions = st.tuples(*[st.floats(-5, 5)] * 3)
#: Boxes of poses: the whole space, the mouth, the hole.
PLACES = {
    "space": ((-0.03, 0.0, -0.7), (0.03, 0.05, 0.7)),
    "mouth": ((-0.006, 0.018, -0.3), (0.006, 0.028, 0.3)),
    "hole": ((-0.0006, 0.001, -0.04), (0.0006, 0.025, 0.04)),
}


def feasible_poses(place, n, seed, settings=EXACT):
    low, high = PLACES[place]
    poses = np.random.default_rng(seed).uniform(low, high, size=(40 * n, 3))
    return poses[overlaps(poses, shape_of(settings)) <= MAX_OVERLAP][:n]


def step(pose, action, settings=EXACT):
    """The noise-free step from a pose in (mm, mm, degrees), in those units."""
    X = np.concatenate([np.array(pose) * ACTION_UNIT, action])[None]
    return PegModel(settings)(X, 1, np.random.default_rng(0))[0, 0] / ACTION_UNIT


def base_of(pose):
    """Middle of the peg's base (mm) in a pose in (mm, mm, degrees)."""
    turn = math.radians(pose[2])
    return pose[0] + 25 * math.sin(turn), pose[1] - 25 * math.cos(turn)


def inputs(place, n, seed, settings=EXACT):
    poses = feasible_poses(place, n, seed, settings)
    bound = settings.bound
    return np.hstack([poses, np.random.default_rng(seed + 1).uniform(-bound, bound, size=(len(poses), 3))])


# -- free motion ----------------------------------------------------------------------------------------------------------


def test_noise_is_added_before_clipping():
    X = np.tile([0.0, 0.05, 0.0, 2.0, 0.0, -2.0], (1000, 1))
    moves = (PegModel()(X, 8, np.random.default_rng(0)) - X[0, :3]) / ACTION_UNIT
    noise = np.random.default_rng(0).standard_normal((1000, 8, 3))
    assert moves == pytest.approx(np.clip(X[0, 3:] + 1.5 * noise, -3, 3), abs=1e-9)


# -- contact --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [PegSettings(), BOLD, THIN], ids=["paper", "bold", "thin walls"])
@pytest.mark.parametrize("place", PLACES)
def test_feasible_poses_stay_feasible(place, settings):
    X = inputs(place, 3000, 1, settings)
    after = PegModel(settings)(X, 4, np.random.default_rng(0)).reshape(-1, 3)
    assert overlaps(after, shape_of(settings)).max() <= MAX_OVERLAP


@given(st.floats(12, 25), st.floats(-3, 3), st.floats(-3, 0))
def test_peg_pressed_flat_on_the_block_slides_along_it(x, along, down):
    assert step((x, 25, 0), (along, down, 0)) == pytest.approx([x + along, 25, 0], abs=2e-3)


@given(st.floats(-0.5, 0.5), st.floats(8, 20), st.floats(-3, 3), st.floats(-3, 3))
def test_peg_in_the_hole_goes_up_and_down_between_its_walls(x, z, across, along):
    """Its middle, above the rim, is free to lean; its base is not."""
    after = step((x, z, 0), (across, along, 0))
    assert abs(base_of(after)[0]) < 0.6
    assert after[1] == pytest.approx(z + along, abs=0.2)


@given(st.floats(0.6, 4), st.floats(-3, -0.5))
def test_corner_of_the_rim_is_not_cut(x, down):
    """Leaving the block sideways, into the hole, would be shorter than back up; the peg came from above."""
    assert step((x, 25, 0), (0, down, 0))[1] > 25 - 0.1


@pytest.mark.parametrize("place", PLACES)
def test_contact_throws_no_peg_about(place):
    """No sub-move of a millimetre, turns counted, becomes longer than two."""
    X = inputs(place, 20_000, 11)
    moved = (PegModel(EXACT)(X, 1, np.random.default_rng(0))[:, 0] - X[:, :3]) * [1, 1, EXACT.radius]
    printed = X[:, 3:] * ACTION_UNIT * [1, 1, EXACT.radius]
    far, wanted = (np.hypot(part[:, 0], part[:, 1]) + np.abs(part[:, 2]) for part in (moved, printed))
    assert (far <= 2 * (wanted + MM)).all()


# -- one motion, three doors ----------------------------------------------------------------------------------------------


def test_gaussian_is_the_noise_free_step_with_the_noise_of_free_motion():
    model, X = PegModel(), inputs("mouth", 200, 7)
    mean, cov = model.gaussian(X)
    assert np.array_equal(mean, PegModel(EXACT)(X, 1, np.random.default_rng(0))[:, 0])
    assert np.array_equal(cov, np.tile(np.diag([1.5e-3, 1.5e-3, math.radians(1.5)]) ** 2, (200, 1, 1)))
    assert len(Mahalanobis(angles=[2]).checked((mean, cov), 200, 1, 3)) == 200


def test_particles_do_not_depend_on_threads():
    before = numba.get_num_threads()
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one core")
    model, X = PegModel(), inputs("mouth", 500, 8)
    try:
        numba.set_num_threads(2)
        two = model(X, 8, np.random.default_rng(0))
        numba.set_num_threads(1)
        assert np.array_equal(model(X, 8, np.random.default_rng(0)), two)
    finally:
        numba.set_num_threads(before)


# -- poses that lie too deep ----------------------------------------------------------------------------------------------


def test_settling_moves_infeasible_poses_a_little_and_others_not_at_all():
    rng = np.random.default_rng(0)
    poses = np.concatenate([feasible_poses(place, 500, 9) for place in PLACES])
    touching = PegModel(EXACT)(np.hstack([poses, np.tile([1.0, -3.0, 0.5], (len(poses), 1))]), 1, rng)[:, 0]
    measured = touching + rng.uniform(-1, 1, touching.shape) * [50e-6, 50e-6, 1e-3]
    deep = overlaps(measured, shape_of(EXACT)) > MAX_OVERLAP
    settled = settle(measured, EXACT)
    assert deep.sum() > 100
    assert overlaps(settled, shape_of(EXACT)).max() <= MAX_OVERLAP
    assert np.array_equal(settled[~deep], measured[~deep])
    assert np.abs(settled - measured)[:, :2].max() < 0.5 * MM


def test_pose_deep_inside_cannot_be_settled():
    with pytest.raises(CaptureError, match=r"1 of 2 poses lie deep in the receptacle.*first in row 1"):
        settle(np.array([[0.0, 0.04, 0.0], [0.02, 0.0, 0.0]]), EXACT)


# -- bad input ------------------------------------------------------------------------------------------------------------


def test_start_inside_the_receptacle_is_refused():
    X = np.zeros((3, 6))
    X[:, 1] = 0.04
    X[1, :2] = 0.02, 0.0
    for ask in (lambda: PegModel()(X, 8, np.random.default_rng(0)), lambda: PegModel().gaussian(X)):
        with pytest.raises(CaptureError, match=r"1 of 3 poses of X lie in the receptacle or the table, first in row 1"):
            ask()
