"""Practice: regions of executed steps are calibrated on runs of the very planner that is in use."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from capture_cp import OneGroup, PerStratum, executed
from capture_cp.conformal.groups import Uncalibrated
from capture_lab.tasks.marble.maps import MAP_NAMES, load_map, tuning_variant
from capture_lab.tasks.marble.task import Marble
from capture_lab.tasks.rows import fit_row, on_episodes, practised, ready_promise
from marble.boards import board

SEED, SIZES = 0, {"samples": 16, "horizon": 2}


class Quick(Marble):
    """Short runs in a small room, which end at walls and in corners."""

    max_steps = 12
    calibration_rollouts = 500


ROOM = Quick(board(size=(60, 60), start=(20, 20), goal=(50, 12), pits=((20, 45),), pit_radius=8.0))


@cache
def fitted(name="capture", practice=300):
    row = replace(ROOM.rows[name].changed(SIZES), practice=practice)
    return fit_row(row, ROOM, SEED, 8, calibration=6000)


def played(first, last):
    """One run per seed of the fitted planner."""
    return list(fitted().play(ROOM.starts(last - first), 0.1, [(n, n) for n in range(first, last)], regions=False))


@cache
def after_practice():
    return practised(fitted(), ROOM, seed=SEED)


def test_pits_are_floor_in_calibration_data_and_traps_in_closed_loop():
    assert not ROOM.absorb
    assert fitted().task.absorb
    assert fitted().cap.model.absorb
    in_pit = np.array([[0.02, 0.1, 0.045, 0.0, 0.1, 0.0]])
    still = np.zeros((1, 2))
    assert ROOM.step(in_pit, still, still, ROOM.true_gain)[0][0, 0] != in_pit[0, 0]
    assert ROOM.in_closed_loop.step(in_pit, still, still, ROOM.true_gain)[0][0, 0] == in_pit[0, 0]


def test_practice_does_not_change_what_the_planner_does():
    before, after = (next(one.play(ROOM.starts(1), 0.1, [(1, 2)])) for one in (fitted(), after_practice()))
    np.testing.assert_array_equal(before.states, after.states)
    assert (before.thresholds != after.thresholds).any()


def test_regions_hold_where_the_planner_goes():
    """The promise is for a random step in a stratum, of a new run that visits it: 600 runs, five standard errors."""
    promise, runs = after_practice().promise, played(10_000, 10_600)
    rows = executed(runs, ROOM.axes)
    found = promise.coverage(rows.X, rows.Y, volumes=False, episodes=rows.episodes, rng=SEED)
    for row in found.strata:
        if row.n > 50:
            slack = 5 * np.sqrt(0.09 / row.n + 0.09 / (row.n / 2))  # of 600 new runs and of 300 in practice
            assert 0.9 - slack <= row.coverage, row.name
    assert found.all.coverage <= 0.96


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("capture", PerStratum),
        ("capture-k1", PerStratum),
        ("no-strata", OneGroup),
        ("pcp", OneGroup),
        ("particles", Uncalibrated),
    ],
)
def test_a_method_stays_what_it_is(name, groups):
    row, runs = fitted(name), played(0, 5)
    promise = on_episodes(row.task, row.cap, runs)
    assert type(promise.groups) is groups
    assert promise.score == row.cap.score
    assert promise.model is row.task


# -- what the package brings along ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAP_NAMES)
def test_every_map_has_its_practice(name):
    task = Marble(load_map(name))
    row = fit_row(task.rows["capture-on-policy"], task, 0)
    promise = ready_promise(row, task, 0)
    assert promise.data_["episodes"] >= row.row.practice
    assert np.isfinite(promise.group_thresholds(0.1)).all()
    assert practised(row, task).promise.digest() == promise.digest()


def test_other_settings_practise_themselves():
    task = Marble(load_map("top-left"))
    assert task.practice_file(task.rows["capture"]) == task.practice_file(task.rows["capture-on-policy"]) is not None
    assert task.practice_file(task.rows["pcp"]) is None
    assert task.practice_file(task.rows["capture"].changed({"samples": 512})) is None
    changes = {"noise": 0.1}, {"true_gain": 1.5}, {"absorb": True}, {"design": "random"}, {"map": tuning_variant(task.map)}
    for other in (replace(task, **change) for change in changes):
        assert other.practice_file(task.rows["capture"]) is None
    row = fit_row(task.rows["capture-on-policy"], task, 0)
    assert ready_promise(row, task, 1) is None
    assert ready_promise(fit_row(row.row, task, 0, k=4), task, 0) is None
    assert ready_promise(fit_row(row.row, task, 0, calibration=0.5), task, 0) is None
