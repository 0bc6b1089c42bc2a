"""Closed loop: when it stops, what it records, and files of it."""

from __future__ import annotations

import contextlib
import os
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from capture_cp import CaptureError, method
from capture_cp.base.streams import stream
from capture_cp.capture.methods import METHODS
from capture_cp.planning.episode import TIMED_OUT, Episode, run_episode
from capture_cp.planning.mppi import MPPI
from capture_lab.tasks.box import Box

GOAL = np.array([1.0, -0.5])


def rollout(state, sequences, seed):
    return ((state + sequences.cumsum(axis=1) - GOAL) ** 2).sum(axis=2)


def planner(seed=0):
    bound = np.full(2, 0.3)
    return MPPI(rollout, 3, 60, 0.05, 0.05 * np.eye(2), -bound, bound, seed=seed)


def system(state, action, rng):
    """A noisy point that has arrived when it is near the goal."""
    after = state + action + 0.01 * rng.standard_normal(2)
    return after, "success" if np.linalg.norm(after - GOAL) < 0.2 else None


def endless(state, action, rng):
    return system(state, action, rng)[0], None


def episode(seed=0, max_steps=50, planner_seed=0, system=system, **keys):
    return run_episode(planner(planner_seed), system, np.zeros(2), max_steps, seed, **keys)


def same(a: Episode, b: Episode) -> bool:
    """Equal in everything but the time that planning took."""
    names = ("states", "actions", "plans", "costs")
    return a.outcome == b.outcome and all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


# -- running ----------------------------------------------------------------------------------------------------------


def test_episode_stops_at_the_outcome():
    run = episode()
    assert run.outcome == "success"
    away = np.linalg.norm(run.states - GOAL, axis=1)
    assert away[-1] < 0.2
    assert (away[:-1] >= 0.2).all()


@pytest.mark.parametrize("steps", [1, 7])
def test_episode_without_an_outcome_times_out(steps):
    run = episode(max_steps=steps, system=endless)
    assert run.outcome == TIMED_OUT
    assert run.steps == steps


def test_outcome_of_the_last_step_counts():
    full = episode()
    assert episode(max_steps=full.steps).outcome == "success"
    assert episode(max_steps=full.steps - 1).outcome == TIMED_OUT


def test_record_has_a_row_a_step_and_one_more_state():
    run = episode(max_steps=5, system=endless, info={"map": "mine"})
    assert run.states.shape == (6, 2)
    assert run.actions.shape == (5, 2)
    assert run.plans.shape == (5, 3, 2)
    assert run.costs.shape == run.plan_ms.shape == (5,)
    assert (run.plan_ms > 0).all()
    assert run.info == {"map": "mine"}
    np.testing.assert_array_equal(run.plans[:, 0], run.actions)
    np.testing.assert_array_equal(run.states[0], np.zeros(2))


def test_record_keeps_every_state_of_a_system_that_works_in_place():
    def in_place(state, action, rng):
        state += action
        return state, None

    start = np.zeros(2)
    run = run_episode(planner(), in_place, start, 4, seed=0)
    np.testing.assert_array_equal(start, np.zeros(2))
    np.testing.assert_allclose(np.diff(run.states, axis=0), run.actions)


def test_same_seeds_give_the_same_episode_and_others_do_not():
    assert same(episode(seed=3), episode(seed=3))
    assert not same(episode(seed=3), episode(seed=4))
    assert not same(episode(planner_seed=3), episode(planner_seed=4))


def test_episode_does_not_depend_on_earlier_ones():
    one = planner()
    for seed in (1, 2):
        run_episode(one, system, np.ones(2), 9, seed)
    assert same(run_episode(one, system, np.zeros(2), 50, 0), episode(seed=0))


def test_actions_replayed_on_the_same_system_give_the_recorded_states():
    run = episode(seed=5)
    rng, state = stream(5, "system"), run.states[0]
    for action, recorded in zip(run.actions, run.states[1:]):
        state, _ = system(state, action, rng)
        np.testing.assert_array_equal(state, recorded)


@pytest.mark.parametrize("steps", [0, -1, 2.5])
def test_number_of_steps_is_checked(steps):
    with pytest.raises(CaptureError, match="max_steps"):
        episode(max_steps=steps)


@pytest.mark.parametrize("start", [[np.nan, 0.0], [[0.0, 0.0]], "here"])
def test_start_is_checked(start):
    with pytest.raises(CaptureError, match="sta"):
        run_episode(planner(), system, start, 3, 0)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    file = tmp_path / "run.npz"
    episode(info={"map": "mine", "seed": 3, "method": "capture"}).save(file)
    return file


def test_episode_survives_its_file(tmp_path):
    run = episode(info={"map": "mine", "seed": 3, "scale": 0.5, "note": "Größe"})
    run.save(tmp_path / "run.npz")
    back = Episode.load(tmp_path / "run.npz")
    assert same(run, back)
    np.testing.assert_array_equal(run.plan_ms, back.plan_ms)
    assert back.info == run.info
    assert back.steps == run.steps


def test_info_may_hold_numpy_numbers(tmp_path):
    episode(info={"seed": np.int64(3), "alpha": np.float64(0.1)}).save(tmp_path / "run.npz")
    assert Episode.load(tmp_path / "run.npz").info == {"seed": 3, "alpha": 0.1}


def test_info_that_no_file_can_hold_is_refused_in_words(tmp_path):
    with pytest.raises(CaptureError, match="info"):
        episode(info={"planner": planner()}).save(tmp_path / "run.npz")
    assert list(tmp_path.iterdir()) == []


def test_file_name_is_kept_whatever_its_ending(tmp_path):
    episode().save(tmp_path / "run.episode")
    assert [file.name for file in tmp_path.iterdir()] == ["run.episode"]
    assert Episode.load(tmp_path / "run.episode").outcome == "success"


def test_missing_empty_and_foreign_files_are_refused(tmp_path):
    foreign = tmp_path / "foreign"
    contents = {
        "nothing": b"",
        "text": b"hello",
        "pickle": pickle.dumps({"outcome": "success"}),
        "a zip's beginning": b"PK\x03\x04",
    }
    with pytest.raises(CaptureError, match="does not exist"):
        Episode.load(foreign)
    with pytest.raises(CaptureError):
        Episode.load(tmp_path)
    for content in contents.values():
        foreign.write_bytes(content)
        with pytest.raises(CaptureError, match="foreign"):
            Episode.load(foreign)


def test_other_numpy_files_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    np.savez(tmp_path / "b.npz", states=np.zeros(3))
    np.savez(tmp_path / "c.npz", header=np.array("[]"))
    np.savez(tmp_path / "d.npz", header=np.array('{"format": "another"}'))
    np.savez(tmp_path / "e.npz", header=np.array([None], dtype=object))
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.writestr("header.npy", b"no array")
    with zipfile.ZipFile(tmp_path / "g.zip", "w") as archive:
        archive.writestr("header", b"no array")
    for file in sorted(tmp_path.iterdir()):
        with pytest.raises(CaptureError, match="not a capture-cp episode"):
            Episode.load(file)


def test_arrays_that_do_not_belong_together_are_refused(saved, tmp_path):
    with np.load(saved) as archive:
        arrays = dict(archive)
    for name, wrong in (("states", arrays["states"][:-1]), ("costs", np.zeros((2, 2))), ("actions", np.array("x"))):
        np.savez(tmp_path / "wrong.npz", **(arrays | {name: wrong}))
        with pytest.raises(CaptureError, match="not a capture-cp episode"):
            Episode.load(tmp_path / "wrong.npz")


def test_truncated_file_is_refused_wherever_it_ends(saved):
    whole = saved.read_bytes()
    for end in range(1, len(whole), 37):
        saved.write_bytes(whole[:end])
        with pytest.raises(CaptureError):
            Episode.load(saved)


def test_damaged_file_is_refused_or_harmless(saved):
    """A flipped byte may sit where nobody looks; it may never show as another error, nor as other numbers."""
    whole, good = saved.read_bytes(), Episode.load(saved)
    for place in range(0, len(whole), 3):
        saved.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with contextlib.suppress(CaptureError):
            assert same(Episode.load(saved), good)


def test_save_replaces_a_file_whole_or_not_at_all(saved, monkeypatch):
    before = saved.read_bytes()

    def fail(file, **arrays):
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(CaptureError, match="No space left"):
        episode().save(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_save_into_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(CaptureError, match="cannot write"):
        episode().save(tmp_path / "none" / "run.npz")


# -- regions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS)
def test_recorded_regions_are_those_of_the_executed_steps(name, tmp_path):
    box = Box()
    data = box.transitions(2000, np.random.default_rng(0))
    cap = method(name, box, box.strata, n_particles=8).fit(data.X, data.Y)
    plain = run_episode(planner(), system, np.array([0.2, 0.2]), 6, 0)
    inside_box = replace(plain, states=np.clip(plain.states, 0.0, 1.0))
    run = inside_box.with_regions(cap, (0, 1), alpha=0.2)
    run.save(tmp_path / "run.npz")
    again = Episode.load(tmp_path / "run.npz")
    assert again.particles.shape[0] == again.steps
    np.testing.assert_array_equal(again.thresholds, cap.thresholds(again.inputs, 0.2))
    np.testing.assert_array_equal(again.inside, run.inside)
    if name != "lucca":
        for t in range(again.steps):
            region = cap.region(again.inputs[t], 0.2, prediction=again.particles[t])
            assert region.contains(again.states[t + 1][None])[0] == again.inside[t]


def test_file_with_regions_of_some_steps_only_is_refused(tmp_path):
    run = replace(episode(), particles=np.zeros((1, 2, 2)), thresholds=np.zeros((1, 3)), inside=np.zeros(1, dtype=bool))
    run.save(tmp_path / "run.npz")
    with pytest.raises(CaptureError, match="damaged"):
        Episode.load(tmp_path / "run.npz")
