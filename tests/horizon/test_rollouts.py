"""Rollouts from arrays, systems and logs; and how many are needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_cp import CaptureError, Rollouts, Tree
from capture_cp.conformal.quantile import rollouts_needed
from capture_cp.data.rollouts import split_log
from horizon.boxes import Line, box_rollouts

AXES = (0, 2)


def episode(number: int, actions: int):
    """States (T + 1, 3) that say where they are from: episode, time, both."""
    time = np.arange(actions + 1)
    return np.stack([np.full(actions + 1, number), time, 1000 * number + time], axis=1), 10.0 * time[:-1, None]


@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=6),
    horizon=st.integers(1, 5),
    stride=st.none() | st.integers(1, 4),
)
def test_windows_are_pieces_of_their_episodes(lengths, horizon, stride):
    log = [episode(number, length) for number, length in enumerate(lengths)]
    if max(lengths) < horizon:
        with pytest.raises(CaptureError, match="none of"):
            Rollouts.from_episodes(log, horizon, AXES, np.random.default_rng(0), stride)
        return
    cut = Rollouts.from_episodes(log, horizon, AXES, np.random.default_rng(0), stride)
    long_enough = [length for length in lengths if length >= horizon]
    wanted = len(long_enough) if stride is None else sum((length - horizon) // stride + 1 for length in long_enough)
    assert len(cut) == wanted
    assert len(np.unique(cut.episodes)) == len(long_enough)
    for i in range(len(cut)):
        number, first, _ = cut.starts[i]
        np.testing.assert_array_equal(cut.actions[i, :, 0], 10 * (first + np.arange(horizon)))
        np.testing.assert_array_equal(cut.configurations[i, :, 1], 1000 * number + first + 1 + np.arange(horizon))
        np.testing.assert_array_equal(cut.states[i][:, list(AXES)], cut.configurations[i])


def test_every_place_of_an_episode_is_as_likely():
    log = [episode(0, 6)] * 3000
    first = Rollouts.from_episodes(log, 4, AXES, np.random.default_rng(0)).starts[:, 1]
    assert np.bincount(first.astype(int)) == pytest.approx([1000] * 3, abs=130)


def test_flat_log_is_split_where_the_episode_changes():
    log = [episode(number, length) for number, length in enumerate((3, 5, 0))]
    states = np.concatenate([s for s, _ in log])
    actions = np.concatenate([np.concatenate([a, np.full((1, 1), np.nan)]) for _, a in log])
    parts = split_log(states, actions, ["b"] * 4 + ["a"] * 6 + ["c"])
    for (s, a), (part, act) in zip(log, parts):
        np.testing.assert_array_equal(s, part)
        np.testing.assert_array_equal(a, act)
    assert len(Rollouts.from_episodes(parts, 2, AXES, np.random.default_rng(0))) == 2


@pytest.mark.parametrize("actions", [np.zeros((2, 1)), np.zeros(3), [[0.0], [np.nan], [0.0]], np.zeros((5, 1))])
def test_actions_that_do_not_fit_a_log_are_refused(actions):
    with pytest.raises(CaptureError, match="actions has"):
        split_log(np.zeros((3, 2)), actions, [0, 0, 0])


@pytest.mark.parametrize(
    ("episode", "said"),
    [([0, 1, 0], "not consecutive"), ([0, 0], r"expected \(3,\)")],
)
def test_log_out_of_order_is_refused(episode, said):
    with pytest.raises(CaptureError, match=said):
        split_log(np.zeros((3, 2)), np.zeros((3, 1)), episode)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ([(np.zeros((3, 3)), np.zeros((3, 1)))], "3 states and 3 actions"),
        ([(np.zeros((3, 3)), np.full((2, 1), np.nan))], "NaN"),
        ([np.zeros((3, 3))], "not a pair"),
        ([(np.zeros((3, 3)), np.zeros((2, 1))), (np.zeros((3, 4)), np.zeros((2, 1)))], "differ"),
        ([], "none of 0"),
    ],
)
def test_bad_episodes_are_refused(log, said):
    with pytest.raises(CaptureError, match=said):
        Rollouts.from_episodes(log, 2, AXES, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"starts": np.zeros((0, 2))}, "no rows"),
        ({"actions": np.zeros((4, 2))}, "actions has shape"),
        ({"configurations": np.full((4, 2, 1), np.inf)}, "infinite"),
        ({"episodes": [0, 1]}, "episodes"),
        ({"states": np.zeros((4, 2, 1))}, "states has shape"),
    ],
)
def test_bad_arrays_are_refused(change, said):
    good = {"starts": np.zeros((4, 2)), "actions": np.zeros((4, 2, 1)), "configurations": np.zeros((4, 2, 1))}
    with pytest.raises(CaptureError, match=said):
        Rollouts.from_arrays(**(good | change))


def test_transitions_are_the_single_steps(box):
    rollouts = box_rollouts(box, 20, 3, np.random.default_rng(0))
    X, Y = rollouts.transitions()
    np.testing.assert_array_equal(X[:3, 2:], rollouts.actions[0])
    np.testing.assert_array_equal(X[1:3, :2], Y[:2])
    with pytest.raises(CaptureError, match="no whole states"):
        Line.of(np.zeros((3, 2))).rollouts.transitions()


def test_recordings_are_put_together_with_episodes_of_their_own(box):
    rng = np.random.default_rng(0)
    parts = [box_rollouts(box, n, 2, rng) for n in (3, 4)]
    both = Rollouts.concatenate(parts)
    np.testing.assert_array_equal(both.episodes, np.arange(7))
    np.testing.assert_array_equal(both.configurations, np.concatenate([part.configurations for part in parts]))
    np.testing.assert_array_equal(both[3:].states, parts[1].states)
    with pytest.raises(CaptureError, match="differ"):
        Rollouts.concatenate([parts[0], box_rollouts(box, 3, 4, rng)])
    with pytest.raises(CaptureError, match="none"):
        Rollouts.concatenate([])


# -- how many -------------------------------------------------------------------------------------------------------------


def test_needed_roll_outs_of_one_group_are_the_known_sizes():
    assert rollouts_needed(0.1, partition_share=0.5) == 2 * 9
    assert rollouts_needed(0.1, 0.95, partition_share=0.5) == 2 * 29
    assert rollouts_needed(0.1, steps=6) == rollouts_needed(0.1)  # a rollout serves all of its steps
    assert rollouts_needed(0.1, 0.95, steps=6) > rollouts_needed(0.1, 0.95)


@pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize("smallest", [0.5, 0.2])
def test_that_many_roll_outs_give_finite_thresholds_nearly_always(simultaneous, smallest):
    rng = np.random.default_rng(0)
    n = rollouts_needed(0.1, steps=2, groups=2, simultaneous=simultaneous, smallest=smallest)

    def finite(count):
        draws = [rng.random((count, 2)) * np.where(rng.random((count, 2)) < smallest, -1, 1) for _ in range(200)]
        caps = [Line.of(c).fit(Tree(min_leaf=1000), seed) for seed, c in enumerate(draws)]
        return np.mean([np.isfinite(cap.group_thresholds(0.1, simultaneous)).all() for cap in caps])

    assert finite(n) >= 0.93
    if not simultaneous:
        assert finite(n // 2) < 0.9


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"alpha": 0}, "alpha is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"groups": 3, "smallest": 0.5}, "smallest is 0.5"),
        ({"partition_share": 1.0}, "partition_share"),
    ],
)
def test_bad_questions_are_refused(given, said):
    with pytest.raises(CaptureError, match=said):
        rollouts_needed(**({"alpha": 0.1} | given))
