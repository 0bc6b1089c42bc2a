"""The filter that brakes: what passes, what is executed and recorded, and what holds for plans that pass."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, CaptureWarning, OneGroup, PerStratum
from capture_cp.base.streams import stream
from capture_cp.capture.region import Region
from capture_cp.planning import BrakingFilter, Episode, chosen_plans, chosen_rollouts
from planning.sled import AXES, CENTRES, HAZARD, STRATA, capture, episode, episodes, tails, truth

ALPHA, SURE = 0.2, 1e-3


def still(states):
    return np.zeros((len(states), 1))


@cache
def judge():
    return capture(chosen_rollouts(episodes(0, 300), truth, AXES, np.random.default_rng(0)), OneGroup())


@cache
def braking(**settings):
    return BrakingFilter(judge(), HAZARD, still, ALPHA, **settings)


@cache
def filtered(first, last):
    return [episode(seed, braking()) for seed in range(first, last)]


@pytest.fixture(scope="module")
def asked():
    """States and plans, some of which lead into the hazard."""
    found = chosen_plans(episodes(0, 12), np.random.default_rng(1), per_episode=6)
    return found.starts, found.plans


# -- what passes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [None, 1])
@pytest.mark.parametrize("simultaneous", [True, False])
def test_a_plan_passes_where_no_region_holds_a_hazard_cell(asked, steps, simultaneous):
    """By every cell of the hazard and every region, one plan at a time."""
    states, plans = asked
    found = BrakingFilter(judge(), HAZARD, still, ALPHA, simultaneous, steps)
    passed = found.filter(states, plans, np.random.default_rng(2))
    key = int(np.random.default_rng(2).integers(2**62))
    clouds = judge().predict(states, plans, stream(key, "plan"))
    for i, q in enumerate(judge().thresholds(clouds, ALPHA, simultaneous)):
        parts = (cloud.particles[i : i + 1] for cloud in clouds)
        regions = [Region(judge().score_, part, limit, STRATA, 1, ALPHA, False) for part, limit in zip(parts, q)]
        assert passed[i] == (not any(region.contains(CENTRES[HAZARD]).any() for region in regions[:steps]))
    assert 0 < passed.sum() < len(passed)


def test_a_hazard_may_be_a_function(asked):
    near = BrakingFilter(judge(), lambda Y: np.abs(Y[:, 0] - 2.2) - 0.2, still, ALPHA, points=400)
    by_points, by_cells = (one.filter(*asked, np.random.default_rng(3)) for one in (near, braking()))
    assert np.mean(by_points == by_cells) > 0.9  # a touch of a cell or two may be missed
    nowhere = BrakingFilter(judge(), lambda Y: np.zeros(len(Y), dtype=bool), still, ALPHA)
    assert nowhere.filter(*asked, np.random.default_rng(3)).all()


def test_infinite_regions_take_in_their_stratum(asked):
    few = capture(chosen_rollouts(episodes(0, 12), truth, AXES, np.random.default_rng(0)), PerStratum())
    with pytest.warns(CaptureWarning, match="too few"):
        endless = BrakingFilter(few, HAZARD, still, 0.01)
    assert not endless.filter(*asked, np.random.default_rng(0)).any()


# -- the guarantee ----------------------------------------------------------------------------------------------------


def test_regions_calibrated_on_plans_that_passed_hold_for_plans_that_pass():
    """The filter is fixed before, so that passing is a fixed rule: an exact test, as for chosen plans."""
    log, fresh = (
        chosen_rollouts(filtered(*which), truth, AXES, np.random.default_rng(seed), which="passed")
        for which, seed in (((1000, 1250), 5), ((2000, 2250), 6))
    )
    too_rare, too_often = tails(capture(log, OneGroup()), fresh, ALPHA)
    assert too_rare > SURE
    assert too_often > SURE


def test_the_filter_keeps_the_sled_off_the_hazard():
    both = episodes(0, 100), filtered(1000, 1100)
    reached = [np.mean([np.abs(run.states[:, 0] - 2.2).min() < 0.2 for run in runs]) for runs in both]
    assert reached[1] < 0.5 * reached[0]


# -- episodes ---------------------------------------------------------------------------------------------------------


def test_an_episode_executes_the_brake_where_a_plan_fails():
    pushed_back = BrakingFilter(judge(), HAZARD, lambda states: np.full((len(states), 1), -0.25), ALPHA)
    run = episode(7, pushed_back, steps=15)
    assert run.braked.shape == (run.steps,)
    assert 0 < run.braked.sum() < run.steps
    np.testing.assert_array_equal(run.actions[run.braked], -0.25)
    np.testing.assert_array_equal(run.actions[~run.braked], run.plans[~run.braked, 0])


def test_a_filter_that_never_brakes_changes_nothing():
    nothing = BrakingFilter(judge(), np.zeros_like(HAZARD), still, ALPHA)
    with_it, without = episode(3, nothing), episode(3)
    assert not with_it.braked.any()
    assert len(without.braked) == 0
    for part in ("states", "actions", "plans", "costs"):
        np.testing.assert_array_equal(getattr(with_it, part), getattr(without, part))


def test_files_keep_what_braked_and_old_files_have_none(tmp_path):
    run = filtered(1000, 1001)[0]
    run.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(Episode.load(tmp_path / "run.npz").braked, run.braked)
    with np.load(tmp_path / "run.npz") as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "wrong.npz", **(arrays | {"braked": run.braked[1:]}))
    with pytest.raises(CaptureError, match="not a capture-cp episode"):
        Episode.load(tmp_path / "wrong.npz")
    del arrays["braked"]
    np.savez(tmp_path / "old.npz", **arrays)
    assert Episode.load(tmp_path / "old.npz").braked.shape == (0,)


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "printed"),
    [
        ({"cap": Capture(None, STRATA)}, "expected a HorizonCapture"),
        ({"brake": 0.0}, "brake is 0.0; expected a function"),
        ({"alpha": 2.0}, "alpha is 2.0"),
        ({"steps": 4}, "regions of 3 steps"),
        ({"steps": 0}, "steps is 0"),
        ({"hazard": np.zeros(3, dtype=bool)}, "one for each of the grid's"),
    ],
)
def test_bad_settings_are_one_sentence(settings, printed):
    good = {"cap": judge(), "hazard": HAZARD, "brake": still, "alpha": ALPHA}
    with pytest.raises(CaptureError, match=printed):
        BrakingFilter(**(good | settings))


def test_bad_questions_are_one_sentence(asked):
    states, plans = asked
    rng = np.random.default_rng(0)
    with pytest.raises(CaptureError, match="plans has shape"):
        braking().filter(states[:1], plans, rng)
    with pytest.raises(CaptureError, match="but regions up to step 3"):
        braking().filter(states, plans[:, :2], rng)
    brakes = {"the brake returned has shape": lambda states: states[:, :0], "the brake raised": lambda states: 1 / 0}
    for printed, brake in brakes.items():
        with pytest.raises(CaptureError, match=printed):
            BrakingFilter(judge(), np.ones_like(HAZARD), brake, ALPHA).act(states, plans, rng)
