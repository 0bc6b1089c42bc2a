"""Planning for the marble: its compiled model against its dynamics, its objective, its true system."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from capture_cp import CaptureError, method
from capture_cp.planning.episode import run_episode
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.rollout import PythonRollout
from capture_lab.tasks.marble import dynamics, planner
from capture_lab.tasks.marble.maps import MAP_NAMES
from capture_lab.tasks.marble.planner import PLANNER, marble_params, model_step
from capture_lab.tasks.marble.task import Marble
from marble.boards import MM, REAL, board, feasible_positions, model_step_of_rollouts, positions_in
from planning.plugins import fused_rollout, guarded, noise_free

GAINS = [dynamics.MODEL_GAIN, dynamics.TRUE_GAIN]
PARTICLES = 8
#: A small room with a pit in the far corner, out of the way.
ROOM = Marble(board(size=(80, 60), start=(15, 15), goal=(60, 20), pits=((20, 50),), pit_radius=6.0))


#: The same room with a model that has the true gain.
KNOWING = replace(ROOM, model_gain=dynamics.TRUE_GAIN)


@cache
def calibrated(name="capture", task=ROOM):
    """A method calibrated on random transitions of a task."""
    rng = np.random.default_rng(0)
    X = task.design_inputs("random", rng)[:1500]
    after, _ = task.step(X[:, :6], X[:, 6:], 0.05 * rng.standard_normal((len(X), 2)), dynamics.TRUE_GAIN)
    return method(name, task, task.strata, n_particles=PARTICLES).fit(X, after[:, [0, 2]])


def random_states(task, n, rng):
    """States (n, 6) of every kind: free, in contact, in pits and at the goal, half of the speeds at the limit."""
    geometry = task.map.geometry
    stops = np.vstack([geometry.pits, geometry.goal])
    there = stops[rng.integers(len(stops), size=n)]
    direction = rng.uniform(0, 2 * np.pi, size=n)
    around = (
        there[:, :2] + (there[:, 2] * rng.uniform(0.8, 1.3, size=n))[:, None] * np.c_[np.cos(direction), np.sin(direction)]
    )
    parts = [feasible_positions(task, n, rng), positions_in(task, "edge", n, rng), positions_in(task, "corner", n, rng)]
    positions = np.vstack([*parts, around[task.map.clearance(around) >= 0]])
    positions = positions[rng.permutation(len(positions))[:n]]
    states = np.empty((len(positions), 6))
    states[:, [0, 2]] = positions
    limits = [dynamics.MAX_SPEED, dynamics.MAX_SPEED, dynamics.MAX_TILT, dynamics.MAX_TILT]
    states[:, [1, 3, 4, 5]] = np.clip(rng.uniform(-2, 2, size=(len(positions), 4)), -1, 1) * limits
    return states


def arrived(states, outcomes, task):
    """States with those that have reached the goal at its centre."""
    moved = states.copy()
    moved[np.ix_(outcomes == dynamics.AT_GOAL, [0, 2])] = np.array(task.map.goal) * MM
    return moved


# -- the model --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", GAINS)
@pytest.mark.parametrize("name", MAP_NAMES)
def test_model_step_is_the_dynamics_of_every_particle(name, gain):
    rng = np.random.default_rng(0)
    task = Marble(REAL[name].map, absorb=True)
    params, seen = marble_params(task, gain), set()
    for action in rng.uniform(-0.5, 0.5, size=(4, 2)):
        states = random_states(task, 1500, rng)
        noise = rng.standard_normal((len(states), 2))
        wanted, outcomes = task.step(states, np.tile(action, (len(states), 1)), dynamics.NOISE * noise, gain)
        found = np.ascontiguousarray(states.T)
        model_step_of_rollouts(found, action, np.ascontiguousarray(noise.T), params)
        np.testing.assert_allclose(found.T, arrived(wanted, outcomes, task), rtol=0, atol=1e-12)
        seen |= set(outcomes.tolist())
    assert seen == {dynamics.ROLLS, dynamics.AT_GOAL, dynamics.FELL}


@pytest.mark.parametrize("name", ["pcp", "capture"])
def test_fused_rollout_equals_python_on_the_marble(name):
    cap, rng = calibrated(name), np.random.default_rng(2)
    task = Marble(ROOM.map, absorb=True)
    params, hazard = marble_params(ROOM, 1.0), ROOM.strata.pit_cells
    sequences, start = rng.uniform(-0.5, 0.5, size=(30, 4, 2)), np.array([0.02, 0.0, 0.04, 0.1, 0.0, -0.1])

    def step(states, actions, rng):
        return arrived(*task.step(states, actions, np.zeros((len(states), 2)), 1.0), task)

    def cost(stage):
        away = [planner.interpolate(params.field, params.origin, params.spacing, x, y) for x, y in stage.mean[:, [0, 2]]]
        return (30 + 50 * (stage.h == stage.horizon)) * np.array(away) + 250 * stage.hazard

    wanted = PythonRollout(cap, step, cost, hazard, (0, 2))(start, sequences, 0)
    rollout = noise_free(fused_rollout(cap, model_step, planner.marble_cost, params, hazard, (0, 2), 2, compare_step=False))
    found = rollout(start, sequences, 0)
    assert (wanted > 250).any()
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize("gain", GAINS)
def test_one_step_spread_is_that_of_the_wall_free_model(gain):
    n, rng = 20_000, np.random.default_rng(3)
    task = Marble(board(size=(600, 600)), model_gain=gain)
    states = np.zeros((6, n))
    states[[0, 2]] = 0.3
    model_step_of_rollouts(states, np.zeros(2), rng.standard_normal((2, n)), marble_params(task, gain))
    for axis in (0, 2):  # a sample deviation has the standard error σ / √(2n): within five of them
        assert abs(states[axis].std() - task.one_step_spread) < 5 * task.one_step_spread / np.sqrt(2 * n)


# -- the objective ----------------------------------------------------------------------------------------------------


def test_cost_of_a_sequence_is_the_papers_objective():
    """50 d(final) + Σ (30 d + 250 pit cells), distances in metres along feasible paths."""
    params, horizon = marble_params(ROOM, 1.0), 5
    rng = np.random.default_rng(4)
    grid = ROOM.strata.grid
    means, hazards = rng.uniform(0.01, 0.05, size=(horizon, 6)), rng.integers(0, 9, size=horizon)
    cells = grid.cell(means[:, [0, 2]])
    means[:, [0, 2]] = grid.centre(cells)
    away = params.field.ravel()[cells]
    total = sum(planner.marble_cost(means[h], np.zeros(2), hazards[h], h + 1, horizon, params) for h in range(horizon))
    assert total == pytest.approx(50 * away[-1] + 30 * away.sum() + 250 * hazards.sum(), rel=1e-9)


def test_distance_is_zero_at_the_goal_and_leads_around_walls():
    task = Marble(board((38, 0, 42, 50), size=(80, 80), start=(10, 10), goal=(70, 10)))
    params = marble_params(task, 1.0)

    def away(x, y):
        return planner.interpolate(params.field, params.origin, params.spacing, x * MM, y * MM)

    assert away(70, 10) < 1 * MM
    # around the wall's end at 6.4 mm: two tangents, two arcs and the wall's 4 mm, to a cell and the grid's 2.8%
    reach = np.hypot(28, 40)
    turn = np.arctan2(40, 28) + np.arcsin(6.4 / reach)
    taut = (2 * np.sqrt(reach**2 - 6.4**2) + 2 * 6.4 * turn + 4) * MM
    assert taut - 2 * MM < away(10, 10) < 1.028 * taut + 2 * MM


def test_distance_leads_around_pits():
    straight = {"size": (80, 80), "start": (10, 10), "goal": (70, 10)}
    with_pit = Marble(board(**straight, pits=((40, 10),), pit_radius=12.0))
    field = marble_params(with_pit, 1.0)
    away = planner.interpolate(field.field, field.origin, field.spacing, 10 * MM, 10 * MM)
    # two tangents to the pit and the arc between them
    taut = (2 * np.sqrt(30**2 - 12**2) + 12 * 2 * np.arcsin(12 / 30)) * MM
    assert taut - 2 * MM < away < 1.028 * taut + 2 * MM


# -- the planner ------------------------------------------------------------------------------------------------------


def test_temperature_falls_with_the_distance_left():
    mppi = ROOM.planner(calibrated(), replace(PLANNER, samples=4))
    start = ROOM.starts(1)[0]
    params = marble_params(ROOM, 1.0)
    away = planner.interpolate(params.field, params.origin, params.spacing, start[0], start[2])
    assert mppi.temperature(start) == pytest.approx(0.04 * (6 * 30 + 50) * away)
    there = start.copy()
    there[[0, 2]] = np.array(ROOM.map.goal) * MM
    assert 0 < mppi.temperature(there) < 0.1 * mppi.temperature(start)


@pytest.mark.parametrize(("place", "outcome"), [((60, 20), "success"), ((20, 50), "fell"), ((40, 30), None)])
def test_true_system_tells_goal_and_pit_apart(place, outcome):
    state = np.array([place[0] * MM, 0.0, place[1] * MM, 0.0, 0.0, 0.0])
    after, found = ROOM.closed_loop(state)(state, np.zeros(2), np.random.default_rng(0))
    assert found == outcome
    assert after.shape == (6,)


def test_true_system_sees_a_pit_that_is_crossed_between_control_steps():
    """At full speed a control step is 30 mm: a pit of 12 mm across lies within it."""
    state = np.array([20 * MM, 0.0, 35 * MM, dynamics.MAX_SPEED, 0.0, 0.0])
    after, outcome = ROOM.closed_loop(state)(state, np.zeros(2), np.random.default_rng(0))
    assert outcome == "fell"
    assert after[2] < 56 * MM


@pytest.mark.parametrize("name", ["particles", "lucca", "capture"])
def test_planner_with_the_true_gain_reaches_an_easy_goal(name):
    mppi = KNOWING.planner(calibrated(name, KNOWING), replace(PLANNER, samples=256))
    run = run_episode(mppi, ROOM.closed_loop(ROOM.starts(1)[0]), ROOM.starts(1)[0], 100, seed=0)
    assert run.outcome == "success"
    assert (np.abs(run.actions) <= dynamics.MAX_ACTION).all()


def test_planner_has_the_papers_settings():
    settings = PLANNER
    mppi = ROOM.planner(calibrated(), settings)
    assert isinstance(mppi, MPPI)
    assert (mppi.horizon, mppi.samples) == (6, 4096)
    np.testing.assert_allclose(mppi._spread @ mppi._spread.T, [[1.0, 0.1], [0.1, 1.0]])
    np.testing.assert_array_equal([mppi.low, mppi.high], [[-0.5, -0.5], [0.5, 0.5]])


# -- bad input --------------------------------------------------------------------------------------------------------


def test_calibration_of_another_map_is_refused():
    other = Marble(board((30, 0, 34, 20), size=(80, 60), start=(15, 15), goal=(60, 20), pits=((20, 50),), pit_radius=6.0))
    with pytest.raises(CaptureError, match=r"map|strata|calibrat"):
        other.planner(calibrated(), replace(PLANNER, samples=4))


@pytest.mark.parametrize("place", [(-5, 20), (90, 20), (20, 1e6)])
def test_state_outside_the_map_is_refused(place):
    mppi = ROOM.planner(calibrated(), replace(PLANNER, samples=4))
    with pytest.raises(CaptureError, match=r"outside|map"):
        mppi.plan([place[0] * MM, 0.0, place[1] * MM, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("state", [np.zeros(2), np.zeros(7)])
def test_state_of_another_length_is_refused(state):
    mppi = ROOM.planner(calibrated(), replace(PLANNER, samples=4))
    guarded(mppi.rollout)
    with pytest.raises(CaptureError, match="state"):
        mppi.plan(state)


def test_calibration_of_another_model_is_refused():
    with pytest.raises(CaptureError, match="gain 1, the planner's has 2"):
        KNOWING.planner(calibrated(), replace(PLANNER, samples=4))
    assert KNOWING.identity() != ROOM.identity()


def test_model_that_is_no_number_is_told_at_its_step():
    mppi = ROOM.planner(calibrated(), replace(PLANNER, samples=4))
    model = mppi.rollout._model
    model.params = model.params._replace(gain=np.nan)
    with pytest.raises(CaptureError, match="step 1 of 6"):
        mppi.plan(ROOM.starts(1)[0])
