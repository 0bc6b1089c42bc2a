"""The marble's motion: the paper's matrices in five substeps, contact without bounce, pits and goal that stop it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import CaptureError
from capture_lab.tasks.marble.dynamics import FELL, MODEL_GAIN, ROLLS, TRUE_GAIN
from capture_lab.tasks.marble.maps import load_map
from capture_lab.tasks.marble.task import Marble
from marble.boards import MM, REAL, board, crosses, feasible_positions, positions_in, states, write_map

MAX_SPEED, MAX_TILT, MAX_ACTION = 0.3, 0.175, 0.5
GRAVITY = 9.81
#: A board so wide that nothing is ever touched.
OPEN = Marble(board(size=(2000, 2000)))
MIDDLE = np.array([[1.0, 1.0]])

gains = st.sampled_from([MODEL_GAIN, TRUE_GAIN])
rows = st.integers(1, 50)
seeds = st.integers(0, 2**32 - 1)


def random_motion(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Velocities, tilts, actions and noise (n, 2): anything allowed, half of the velocities at the limit."""
    velocities = rng.uniform(-MAX_SPEED, MAX_SPEED, size=(n, 2))
    fastest = rng.random((n, 2)) < 0.5
    velocities[fastest] = np.copysign(MAX_SPEED, velocities[fastest])
    tilts = rng.uniform(-MAX_TILT, MAX_TILT, size=(n, 2))
    return velocities, tilts, rng.uniform(-MAX_ACTION, MAX_ACTION, size=(n, 2)), 0.05 * rng.standard_normal((n, 2))


def reference(state, push, gain, substeps):
    """The paper's matrix with dt = 0.02, explicit Euler, walls left out: states (n, 6), noisy actions (n, 2)."""
    dt, pull = 0.02, -gain * 5 / 7 * GRAVITY * 0.02
    A, B = np.eye(6), np.zeros((6, 2))
    A[0, 1] = A[2, 3] = dt
    A[1, 4] = A[3, 5] = pull
    B[4, 0] = B[5, 1] = dt
    limits = np.array([np.inf, MAX_SPEED, np.inf, MAX_SPEED, MAX_TILT, MAX_TILT])
    u = np.clip(push, -MAX_ACTION, MAX_ACTION)
    for _ in range(substeps):
        state = np.clip(state @ A.T + u @ B.T, -limits, limits)
    return state


def step(task, state, action=(0.0, 0.0), noise=(0.0, 0.0), gain=TRUE_GAIN):
    """One control step of states (n, 6), with the same or with different actions and noise."""
    both = (np.array(np.broadcast_to(part, (len(state), 2))) for part in (action, noise))
    return task.step(state, *both, gain)


def trail(task, state, action, gain, n):
    """The state after each of n control steps."""
    return list(itertools.accumulate(range(n), lambda s, _: step(task, s, action, gain=gain)[0], initial=state))


# -- without contact ------------------------------------------------------------------------------------------------------


@given(gains, rows, seeds)
def test_step_is_five_substeps_of_the_papers_matrix(gain, n, seed):
    velocities, tilts, actions, noise = random_motion(n, np.random.default_rng(seed))
    start = states(np.repeat(MIDDLE, n, axis=0), velocities, tilts)
    after, outcomes = OPEN.step(start, actions, noise, gain)
    assert after == pytest.approx(reference(start, actions + noise, gain, 5), abs=1e-14)
    assert (outcomes == ROLLS).all()


# -- contact --------------------------------------------------------------------------------------------------------------

#: One wall in the middle of a board; its right face as the marble's centre meets it is at x = 66.4 mm.
WALLED = Marble(board((40, 40, 60, 60)))
FACE = 66.4 * MM


@given(st.floats(0, 20), st.floats(-0.3, -0.05), st.floats(40, 60))
def test_marble_stops_at_a_wall_without_bounce(gap, speed, height):
    start = states(np.array([[FACE + gap * MM, height * MM]]), [[speed, 0.0]])
    path = np.concatenate(trail(WALLED, start, (0.0, 0.0), TRUE_GAIN, 6))
    assert (path[:, 1] <= 0).all()
    assert (path[:, 0] >= FACE - 1e-9).all()
    assert path[-1, :4] == pytest.approx([FACE, 0, height * MM, 0], abs=1e-9)


@given(st.floats(-0.3, 0), st.floats(-0.1, 0.1), st.floats(-0.175, 0.175), st.floats(-0.5, 0.5))
def test_sliding_along_a_wall_is_as_fast_as_on_open_ground(into, along, tilt, action):
    """No friction: the motion along the wall does not know about it."""
    state = states(np.array([[FACE, 50 * MM]]), [[into, along]], [[0.175, tilt]])
    found = step(WALLED, state, (0.0, action))[0][0]
    expected = reference(state, np.array([[0.0, action]]), TRUE_GAIN, 5)[0]
    assert found[[2, 3, 5]] == pytest.approx(expected[[2, 3, 5]], abs=1e-14)


@given(st.floats(0, 2 * math.pi), st.floats(0, 2 * math.pi), st.floats(0, 0.3), st.floats(0, 20))
def test_no_velocity_into_a_wall_is_left(around, heading, speed, gap):
    """Also on round corners: whatever touches after a step moves along the surface or away from it."""
    direction = np.array([math.cos(around), math.sin(around)])
    reach = 10 * direction / np.abs(direction).max() + (6.4 + gap) * direction
    state = states(np.array([[50, 50]]) * MM + reach * MM, [[speed * math.cos(heading), speed * math.sin(heading)]])
    for _ in range(3):
        state = step(WALLED, state)[0]
        position, velocity = state[0, [0, 2]], state[0, [1, 3]]
        if WALLED.map.clearance(position[None])[0] <= 1e-9:
            nearest = np.clip(position, 40 * MM, 60 * MM)
            sides = np.array([position[0] < 1e-9, position[0] > 0.1 - 1e-9, position[1] < 1e-9, position[1] > 0.1 - 1e-9])
            normals = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])[sides]
            if np.linalg.norm(position - nearest) <= 6.4 * MM + 1e-9:
                normals = np.vstack([normals, (position - nearest) / np.linalg.norm(position - nearest)])
            assert (normals @ velocity >= -1e-9).all()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_marble_pressed_into_a_corner_stays_in_it(order):
    """Also where a third wall ends unseen behind one of the two, at any distance from the corner."""
    nooks = np.stack(np.meshgrid(*[np.arange(0, 1, 0.05)] * 2), axis=-1).reshape(-1, 2) + 34.4
    for end in np.arange(28, 37, 0.25):
        walls = [(20, 20, 28, 50), (20, 20, 50, 28), (end, 0, 50, 28)]
        task = Marble(board(*(walls[i] for i in order), size=(50, 50)))
        state = states(nooks * MM, [[-0.3, -0.3]], [[0.175, 0.175]])
        for _ in range(2):
            state = step(task, state)[0]
            assert state[:, [0, 2]] == pytest.approx(np.full((len(nooks), 2), 34.4 * MM), abs=1e-9)


@pytest.mark.parametrize("framed", [(), ("left", "right", "bottom", "top")])
def test_sides_of_the_board_hold_the_marble(framed):
    task = Marble(board(framed=framed))
    low = 6.4 * MM if framed else 0.0
    for direction in itertools.product((-1, 1), repeat=2):
        state = states(np.array([[50, 50]]) * MM, 0.3 * np.array([direction]), -0.175 * np.array([direction]))
        state = trail(task, state, (0.0, 0.0), TRUE_GAIN, 8)[-1][0]
        assert state[[0, 2]] == pytest.approx([low if side < 0 else 0.1 - low for side in direction], abs=1e-9)
        assert state[[1, 3]] == pytest.approx([0, 0], abs=1e-12)


# -- no tunnelling --------------------------------------------------------------------------------------------------------


def check_motion(task: Marble, before: np.ndarray, after: np.ndarray) -> None:
    """No step may end in an obstacle, pass through the core of a wall, or leave the limits."""
    start, end = before[:, [0, 2]], after[:, [0, 2]]
    assert task.map.clearance(end).min() >= -1e-9
    for wall in task.map.geometry.walls:
        # a step round a corner may cut a little off the box, never its inner half
        inset = (wall[2:] - wall[:2]).min() / 4
        through = crosses(start, end, wall + inset * np.array([1, 1, -1, -1]))
        assert not through.any(), f"{before[through][0].tolist()} -> {after[through][0].tolist()}"


def random_states(task: Marble, rng: np.random.Generator) -> np.ndarray:
    """400,000 states: half anywhere, half within reach of a wall or in a corner, where something can go wrong."""
    places = [feasible_positions(task, 200_000, rng)]
    places += [positions_in(task, stratum, 100_000, rng) for stratum in ("edge", "corner")]
    positions = np.concatenate(places)
    velocities, tilts, _, _ = random_motion(len(positions), rng)
    return states(positions, velocities, tilts)


@pytest.mark.parametrize("name", REAL)
def test_no_marble_ends_in_a_wall_or_beyond_it(name):
    rng = np.random.default_rng(0)
    state = random_states(REAL[name], rng)
    for _ in range(3):
        _, _, actions, noise = random_motion(len(state), rng)
        after = REAL[name].step(state, actions, noise, TRUE_GAIN)[0]
        check_motion(REAL[name], state, after)
        state = after


@pytest.mark.parametrize("name", ["center", "bottom-right", "top-center"])
def test_no_marble_leaves_a_pocket(name):
    task, rng = REAL[name], np.random.default_rng(3)
    inside = np.flatnonzero((task.strata.labels >= 0) & ~task.strata.reachable)
    start = task.strata.grid.centre(rng.choice(inside, size=100_000))
    state = states(start, *random_motion(len(start), rng)[:2])
    for _ in range(5):
        _, _, actions, noise = random_motion(len(state), rng)
        state = task.step(state, actions, noise, TRUE_GAIN)[0]
    cells = task.strata.grid.cell(np.clip(state[:, [0, 2]], 0, np.array(task.map.size) * MM - 1e-9))
    assert not task.strata.reachable[cells].any()


@pytest.mark.parametrize("thickness", [0.1, 1, 8])
@pytest.mark.parametrize("radius", [1, 3, 6.4, 10])
def test_walls_of_own_maps_hold_any_marble(tmp_path, thickness, radius):
    """Thin walls and small marbles, with substeps of up to 6 mm on each axis: they hold, or the map is refused."""
    walls = [[50 - thickness / 2, 0, 50 + thickness / 2, 100], [50, 30, 80, 30 + thickness], [20, 70, 50, 70 + thickness]]
    file = write_map(tmp_path, size=[100, 100], walls=walls, goal=[10, 30], pits=[], marble_radius=radius, framed=[])
    try:
        task = Marble(load_map(file))
    except CaptureError:
        return
    rng = np.random.default_rng(4)
    start = feasible_positions(task, 50_000, rng)
    state = states(start, *random_motion(len(start), rng)[:2])
    for _ in range(5):
        _, _, actions, noise = random_motion(len(state), rng)
        state = task.step(state, actions, noise, TRUE_GAIN)[0]
        assert task.map.clearance(state[:, [0, 2]]).min() >= -1e-9
    assert ((state[:, 0] < 50 * MM) == (start[:, 0] < 50 * MM)).all()


# -- pits and goal --------------------------------------------------------------------------------------------------------

WITH_PIT = board(size=(200, 100), pits=((100, 50),), start=(20, 50), goal=(180, 50))
ABSORBING = Marble(WITH_PIT, absorb=True)


@given(st.floats(0, 2 * math.pi), st.floats(0, 11.9), seeds)
def test_marble_in_a_pit_stays_there(angle, away, seed):
    position = np.array([[100 + away * math.cos(angle), 50 + away * math.sin(angle)]]) * MM
    velocities, tilts, actions, noise = random_motion(1, np.random.default_rng(seed))
    after, outcome = ABSORBING.step(states(position, velocities, tilts), actions, noise, TRUE_GAIN)
    assert outcome[0] == FELL
    assert np.array_equal(after[:, [0, 2]], position)
    assert (after[:, [1, 3]] == 0).all()


def test_without_absorption_pits_and_goal_are_floor():
    for place in ((100, 50), (180, 50)):
        after, outcome = step(Marble(WITH_PIT), states(np.array([place]) * MM, [[0.1, 0.0]]))
        assert outcome[0] == ROLLS
        assert after[0, 0] == pytest.approx((place[0] + 10) * MM)


# -- the same numbers however it is run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inputs():
    return REAL["top-center"].design_inputs("random", np.random.default_rng(0))[:500]


@given(st.integers(0, 500), st.integers(0, 20))
def test_outcomes_do_not_depend_on_batches(inputs, row, draw):
    task, whole = REAL["top-center"], REAL["top-center"].outcomes(inputs, 20, seed=7)
    by_rows = [task.outcomes(inputs[:row], 20, seed=7), task.outcomes(inputs[row:], 20, seed=7, first=row)]
    by_draws = [task.outcomes(inputs, draw, seed=7), task.outcomes(inputs, 20 - draw, seed=7, first_draw=draw)]
    assert np.array_equal(np.concatenate(by_rows), whole)
    assert np.array_equal(np.concatenate(by_draws, axis=1), whole)


def test_outcomes_are_steps_of_the_true_marble():
    """Their mean from rest on open ground is the noise-free step, their spread that of the noise carried through."""
    X = np.hstack([states(MIDDLE), [[0.2, -0.2]]])
    draws = OPEN.outcomes(X, 20_000, seed=0)[0]
    mean = reference(states(MIDDLE), np.array([[0.2, -0.2]]), TRUE_GAIN, 5)[0, [0, 2]]
    spread = 10 * 0.02**3 * TRUE_GAIN * 5 / 7 * GRAVITY * 0.05
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * spread / math.sqrt(20_000)).all()
    assert draws.std(axis=0) == pytest.approx(spread, rel=5 / math.sqrt(2 * 20_000))
