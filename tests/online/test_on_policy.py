"""Coverage on executed steps, and rounds of calibration on them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, PerStratum, executed, on_policy_coverage, on_policy_rounds
from capture_cp.base.streams import derived_seed
from test_guarantees import p_below, rejected

AXES = (0, 1)


@dataclass(frozen=True)
class Walk:
    """Steps in the box, as much of an episode as is asked for."""

    states: np.ndarray
    inputs: np.ndarray


def walk(box, size, seeds) -> list[Walk]:
    """Episodes of 3 to 8 pushes of a given size, one a seed."""
    rngs = [np.random.default_rng(seed) for seed in seeds]
    steps = [int(rng.integers(3, 9)) for rng in rngs]
    states = [np.array([box.transitions(1, rng).state[0] for rng in rngs])]
    drift = np.array([rng.uniform(-size, size, 2) for rng in rngs])  # of the whole episode: its steps are not independent
    pushes = np.clip(drift[:, None] + np.array([rng.uniform(-size, size, (8, 2)) for rng in rngs]) / 4, -0.4, 0.4)
    noise = box.noise * np.array([rng.standard_normal((8, 2)) for rng in rngs])
    for step in range(8):
        states.append(box.step(states[-1], pushes[:, step] + noise[:, step], box.true_gain))
    paths = np.stack(states, axis=1)
    return [Walk(path[: n + 1], np.hstack([path[:n], push[:n]])) for path, push, n in zip(paths, pushes, steps)]


@pytest.fixture(scope="module")
def walks(box):
    return walk(box, 0.2, range(12))


def test_executed_steps_are_numbered_by_episode_and_step(walks):
    rows = executed(walks, AXES)
    assert len(rows.X) == sum(len(run.inputs) for run in walks)
    for row in range(len(rows.X)):
        run, step = walks[rows.episodes[row]], rows.steps[row]
        assert np.array_equal(rows.X[row], run.inputs[step - 1])
        assert np.array_equal(rows.Y[row], run.states[step])


def test_on_policy_coverage_counts_what_the_regions_hold(fitted, walks):
    cap = fitted["capture"]
    rows = executed(walks, AXES)
    inside, m = cap.contains(rows.X, rows.Y, 0.2, rng=3), cap.strata.index(rows.Y)
    found = on_policy_coverage(cap, walks, AXES, alpha=0.2, rng=3)
    assert found.all.n == len(walks)
    shares = [inside[rows.episodes == number].mean() for number in range(len(walks))]
    assert found.all.coverage == pytest.approx(np.mean(shares))
    edge = [(inside[own] & (m[own] == 1)).mean() for own in (rows.episodes == number for number in range(len(walks)))]
    there = [(m[own] == 1).mean() for own in (rows.episodes == number for number in range(len(walks)))]
    assert found["edge"].coverage == pytest.approx(np.sum(edge) / np.sum(there))
    assert len(found.steps) == max(len(run.inputs) for run in walks)
    for step, coverage in enumerate(found.steps, start=1):
        assert coverage.all.n == (rows.steps == step).sum()
        for stratum, row in enumerate(coverage.strata):
            here = (rows.steps == step) & (m == stratum)
            assert (row.n, row.covered) == (here.sum(), inside[here].sum())


def planner(box):
    """A policy that pushes harder where its regions are smaller, so that it changes with its calibration."""

    def play(cap, seeds):
        size = float(np.clip(0.05 / cap.thresholds([[0.5, 0.15, 0.1, 0.0]], 0.1)[0, 0], 0.02, 0.3))
        return walk(box, size, seeds)

    return play


def refit(box, seed=0):
    def fit(episodes):
        rows = executed(episodes, AXES)
        cap = Capture(box, box.strata, groups=PerStratum(), n_particles=8, seed=seed)
        return cap.fit(rows.X, rows.Y, episodes=rows.episodes)

    return fit


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_every_round_is_played_on_fresh_episodes_with_the_calibration_of_the_round_before(box, fitted):
    played, fits, play, fit = [], [], planner(box), refit(box)

    def watched_play(cap, seeds):
        played.append((cap, seeds, play(cap, seeds)))
        return played[-1][2]

    def watched_fit(episodes):
        fits.append(episodes)
        return fit(episodes)

    rounds = on_policy_rounds(fitted["capture"], watched_play, watched_fit, AXES, rounds=2, episodes=20, checks=5, seed=4)
    assert [one.cap for one in rounds] == [cap for cap, _, _ in played]
    assert rounds[0].cap is fitted["capture"]
    assert len({seed for _, seeds, _ in played for seed in seeds}) == 3 * 25
    assert [list(episodes) for episodes in fits] == [runs[:20] for _, _, runs in played[:2]]
    assert rounds[0].promised is None
    for number, (before, one) in enumerate(pairwise(rounds)):
        in_use, promised = derived_seed(4, "in use", number + 1), derived_seed(4, "promised", number)
        assert one.in_use == on_policy_coverage(one.cap, one.episodes, AXES, rng=in_use)
        assert one.promised == on_policy_coverage(one.cap, before.episodes[20:], AXES, rng=promised)
    again = on_policy_rounds(fitted["capture"], play, fit, AXES, rounds=2, episodes=20, checks=5, seed=4)
    assert [one.in_use for one in again] == [one.in_use for one in rounds]


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_what_is_promised_holds_for_the_planner_that_gave_the_data(box, fitted):
    """Over many repetitions, on random steps of fresh episodes of the previous round's planner, in all and by stratum."""
    found = []
    for seed in range(40):
        # a single repetition of the check a round, so that repetitions are independent
        rounds = on_policy_rounds(fitted["capture"], planner(box), refit(box, seed), AXES, 1, 25, 10, 0.2, seed)
        found.append([row.coverage if row.n else np.nan for row in rounds[1].promised])
    claims = {name: p_below(shares, 0.8) for name, shares in zip(("all", "free", "edge"), np.array(found).T)}
    assert rejected(claims) == []


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_nothing_is_promised_for_the_planner_that_uses_the_calibration(box, fitted):
    """A planner that runs away from its calibration is not covered, and the rounds show it."""

    def play(cap, seeds):
        return walk(box, 0.02 if cap is fitted["capture"] else 0.4, seeds)

    found = []
    for seed in range(20):
        (_, second) = on_policy_rounds(fitted["capture"], play, refit(box, seed), AXES, 1, 60, 10, 0.2, seed)
        found.append((second.promised.all.coverage, second.in_use.all.coverage))
    promised, in_use = np.array(found).T
    assert p_below(in_use, 0.8) < 1e-3
    assert p_below(promised, 0.8) > 1e-3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rounds": -1}, "rounds is -1"),
        ({"episodes": 0}, "episodes is 0"),
        ({"play": lambda cap, seeds: []}, "play returned 0 episodes for 4 seeds"),
        ({"play": lambda cap, seeds: [Walk(np.zeros((1, 2)), np.zeros((0, 4)))] * 4}, "no executed steps"),
    ],
)
def test_bad_rounds_are_refused(box, fitted, change, sentence):
    settings = {"play": planner(box), "fit": refit(box), "axes": AXES, "rounds": 1, "episodes": 4} | change
    with pytest.raises(CaptureError, match=sentence):
        on_policy_rounds(fitted["capture"], **settings)


def test_a_fit_that_changes_the_calibration_in_place_is_refused(box, fitted):
    with pytest.raises(CaptureError, match="expected a new Capture"):
        on_policy_rounds(fitted["capture"], planner(box), lambda runs: fitted["capture"], AXES, 1, 4)
