"""The true system of the peg: it goes where it is sent unless something is in the way, and always does so alike."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest

from capture_cp import CaptureError
from capture_lab.tasks.peg.geometry import shape_of
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_lab.tasks.peg.simulator import REACH, SYSTEMS, make_system
from peg.inputs import contact_inputs, depths, free_inputs, landed

pytest.importorskip("mujoco")

#: No noise and no surprise: an action is what happens.
EXACT = PegSettings(noise=0.0, gain=1.0)
UPRIGHT = EXACT.peg_length / 2  # m; height of an upright peg that stands on the rim
DOWN, UP = np.array([0.0, -3.0, 0.0]), np.array([0.0, 3.0, 0.0])


@pytest.fixture(scope="module", params=SYSTEMS)
def system(request):
    return make_system(request.param, EXACT, threads=1)


@pytest.fixture(scope="module")
def planar():
    return make_system("planar", EXACT, threads=1)


def run(system, start, action, steps):
    """Pose (3,) after some equal steps."""
    system.reset(np.asarray(start))
    rng = np.random.default_rng(0)
    return [system.step(np.asarray(action), rng) for _ in range(steps)][-1]


# -- motion -----------------------------------------------------------------------------------------------------------


def test_a_free_move_lands_where_it_was_sent_and_at_rest(system):
    poses, move = free_inputs(100, EXACT, np.random.default_rng(1))
    after, velocities, off_plane = landed(system, poses, move)
    largest = EXACT.gain * EXACT.bound * ACTION_UNIT
    np.testing.assert_array_less(np.abs(after - poses - move), np.broadcast_to(0.01 * largest, (100, 3)))
    assert np.abs(velocities[:, :2]).max() < 2e-3  # m/s, after moves at 0.1 m/s and more
    assert off_plane.max() < 1e-6


def test_the_peg_stays_out_of_the_receptacle_and_in_the_plane(system):
    poses, move = contact_inputs(300, EXACT, np.random.default_rng(2))
    after, _, off_plane = landed(system, poses, 1.5 * move)
    depth = depths(after, shape_of(EXACT))
    assert np.quantile(depth, 0.99) < 1e-4
    assert np.mean(depth > -2e-5) > 0.3  # they do touch
    assert off_plane.max() < 5e-5


def test_an_aligned_peg_goes_in_and_ends_on_the_table(system):
    x, z, theta = run(system, [0.0, UPRIGHT + 1e-3, 0.0], DOWN, 12)
    assert abs(x) < 0.5e-3
    assert z == pytest.approx(UPRIGHT - EXACT.hole_depth, abs=2e-5)
    assert abs(theta) < 0.02


def test_friction_holds_a_peg_that_is_pushed_down(planar):
    start, move = np.array([[0.02, UPRIGHT, 0.0]]), np.array([[1e-3, -3e-3, 0.0]])
    slippery = make_system("planar", replace(EXACT, friction=0.0), threads=1)
    assert abs(planar.transitions(start, move)[0, 0] - 0.02) < 0.05e-3
    assert slippery.transitions(start, move)[0, 0] - 0.02 == pytest.approx(1e-3, rel=0.02)


def test_what_contact_held_back_is_not_made_up_for(system):
    pressed = run(system, [0.02, UPRIGHT + 1e-4, 0.0], DOWN, 4)
    raised = system.step(UP, np.random.default_rng(0))
    assert raised[1] - pressed[1] == pytest.approx(3e-3, rel=0.02)


# -- actions ----------------------------------------------------------------------------------------------------------


def test_actions_are_disturbed_then_bounded_then_multiplied():
    settings = PegSettings(noise=1.5, bound=3.0, gain=1.5)
    actions = np.random.default_rng(4).uniform(-3, 3, (50, 3))
    noise = 1.5 * np.random.default_rng(5).standard_normal((50, 3))
    applied = make_system("planar", settings, threads=1).applied(actions, np.random.default_rng(5))
    np.testing.assert_allclose(applied, 1.5 * np.clip(actions + noise, -3, 3) * ACTION_UNIT)


# -- repeatability ----------------------------------------------------------------------------------------------------


def test_the_same_bits_in_any_batch_on_any_threads_and_in_a_copy(system):
    poses, move = contact_inputs(40, EXACT, np.random.default_rng(6))
    once = system.transitions(poses, move)
    backwards = system.transitions(poses[::-1], move[::-1])[::-1]
    one_by_one = np.concatenate([system.transitions(pose, step) for pose, step in zip(poses, move)])
    threaded = type(system)(EXACT, threads=3).transitions(poses, move)
    copied = pickle.loads(pickle.dumps(system)).transitions(poses, move)
    for other in (backwards, one_by_one, threaded, copied):
        np.testing.assert_array_equal(other, once)


def test_a_first_step_is_a_transition_and_transitions_leave_the_closed_loop_alone(system):
    poses, move = contact_inputs(20, EXACT, np.random.default_rng(7))
    for pose, step in zip(poses, move):
        began = system.reset(pose)
        landed = system.transitions(began, np.clip(step / ACTION_UNIT, -3, 3) * ACTION_UNIT)[0]
        np.testing.assert_allclose(system.step(step / ACTION_UNIT, np.random.default_rng(0)), landed, atol=1e-9)


# -- the arm ----------------------------------------------------------------------------------------------------------


def test_the_arm_reaches_every_pose_within_the_limits_of_its_joints():
    arm = make_system("arm", threads=1)
    limits = arm.model.jnt_range.T
    corners = np.stack(np.meshgrid(*REACH.T), axis=-1).reshape(-1, 3)
    for pose in np.concatenate([corners, np.random.default_rng(8).uniform(*REACH, size=(100, 3))]):
        arm._place(arm.data, pose)
        np.testing.assert_allclose(arm._read(arm.data), pose, atol=1e-12)
        assert np.all((arm.data.qpos > limits[0] + 0.15) & (arm.data.qpos < limits[1] - 0.15))


# -- bad input --------------------------------------------------------------------------------------------------------


def test_a_pose_in_the_receptacle_is_refused(system):
    poses = np.array([[0.0, 0.04, 0.0], [0.02, 0.0, 0.0]])
    with pytest.raises(CaptureError, match="1 of 2 poses lie inside the receptacle"):
        system.transitions(poses, np.zeros((2, 3)))
    with pytest.raises(CaptureError, match="inside the receptacle"):
        system.reset(poses[1])
    with pytest.raises(CaptureError, match=r"call reset\(pose\)"):
        system.step(DOWN, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("poses", "moves", "message"),
    [
        (np.zeros((2, 2)), np.zeros((2, 2)), "poses has shape"),
        (np.full((2, 3), 0.05), np.zeros((3, 3)), "pair up"),
        (np.full((1, 3), np.nan), np.zeros((1, 3)), "NaN"),
        (np.array([[1.0, 0.05, 0.0]]), np.zeros((1, 3)), "out of reach"),
    ],
)
def test_bad_arrays_are_refused(planar, poses, moves, message):
    with pytest.raises(CaptureError, match=message):
        planar.transitions(poses, moves)


def test_bad_choices_are_refused():
    with pytest.raises(CaptureError, match="Did you mean 'planar'"):
        make_system("planer")
    with pytest.raises(CaptureError, match="threads is 0"):
        make_system("planar", threads=0)
    with pytest.raises(CaptureError, match="at most 100 mm"):
        make_system("planar", PegSettings(hole_depth=0.5))


def test_without_mujoco_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with pytest.raises(CaptureError, match=r'pip install "capture-cp\[sim\]"'):
        make_system("planar")
