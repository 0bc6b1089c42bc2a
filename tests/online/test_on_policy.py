"""Coverage on executed steps, and calibration on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, PerStratum, executed
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


def test_coverage_counts_what_the_regions_hold_with_equal_weight_for_every_episode(fitted, walks):
    cap = fitted["capture"]
    rows = executed(walks, AXES)
    inside, m = cap.contains(rows.X, rows.Y, 0.2, rng=3), cap.strata.index(rows.Y)
    found = cap.coverage(rows.X, rows.Y, 0.2, volumes=False, episodes=rows.episodes, rng=3)
    assert found.all.n == len(walks)
    shares = [inside[rows.episodes == number].mean() for number in range(len(walks))]
    assert found.all.coverage == pytest.approx(np.mean(shares))
    edge = [(inside[own] & (m[own] == 1)).mean() for own in (rows.episodes == number for number in range(len(walks)))]
    there = [(m[own] == 1).mean() for own in (rows.episodes == number for number in range(len(walks)))]
    assert found["edge"].coverage == pytest.approx(np.sum(edge) / np.sum(there))


def calibrated(box, runs, seed=0):
    rows = executed(runs, AXES)
    cap = Capture(box, box.strata, groups=PerStratum(), n_particles=8, seed=seed)
    return cap.fit(rows.X, rows.Y, episodes=rows.episodes)


def covered(cap, runs, seed):
    rows = executed(runs, AXES)
    found = cap.coverage(rows.X, rows.Y, 0.2, volumes=False, episodes=rows.episodes, rng=seed)
    return [row.coverage if row.n else np.nan for row in found]


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
def test_what_is_promised_holds_for_the_planner_that_gave_the_data_and_for_no_other(box):
    """Over many repetitions, on fresh episodes of that planner, in all and by stratum; and on those of a bolder one."""
    found, bolder = [], []
    for seed in range(40):
        first = 1000 * seed
        cap = calibrated(box, walk(box, 0.05, range(first, first + 25)), seed)
        found.append(covered(cap, walk(box, 0.05, range(first + 25, first + 35)), seed))
        bolder.append(covered(cap, walk(box, 0.4, range(first + 25, first + 35)), seed)[0])
    claims = {name: p_below(shares, 0.8) for name, shares in zip(("all", "free", "edge"), np.array(found).T)}
    assert rejected(claims) == []
    assert p_below(np.array(bolder), 0.8) < 1e-3


def test_episodes_without_a_step_are_refused():
    with pytest.raises(CaptureError, match="no executed steps"):
        executed([Walk(np.zeros((1, 2)), np.zeros((0, 4)))] * 4, AXES)
