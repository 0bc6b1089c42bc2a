"""Steps of one episode: thresholds, splits and coverage that count episodes, and the guarantee for correlated logs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from capture_cp import (
    Capture,
    CaptureError,
    FunctionStrata,
    Groups,
    NearestParticles,
    OneGroup,
    Transitions,
    Tree,
    one_stratum,
    read_transitions,
    write_transitions,
)
from capture_cp.capture.horizon_scores import HorizonScores
from capture_cp.conformal.coverage import share_interval, tally
from capture_cp.conformal.episodes import drawn_rows, one_of_each, split_rows
from capture_cp.conformal.thresholds import PER_EPISODE, PER_GROUP, EpisodeScores, GroupScores

pytestmark = pytest.mark.filterwarnings("ignore::capture_cp.CaptureWarning")
ERROR = 1e-4  # a right implementation fails a test here once in ten thousand runs, were the seeds not fixed


def still(X, n_particles, rng):
    """A model that says 0 with a hair of noise."""
    return 1e-9 * rng.standard_normal((len(X), n_particles, 1))


def run(rng, episodes, steps, spread=3.0):
    """A log whose errors share a random effect within an episode: X (n, 1), Y (n, 1), ids (n,)."""
    lengths = rng.integers(1, 2 * steps, episodes)
    ids = np.repeat(np.arange(episodes), lengths)
    effect = np.exp(spread * rng.standard_normal(episodes) / 3)
    return rng.random((len(ids), 1)), (effect[ids] * rng.uniform(0.7, 1.3, len(ids)))[:, None], ids


def collected(scores, groups, n_groups, units, rng):
    number = np.unique(units, return_inverse=True)[1]
    return EpisodeScores.collected(scores, groups, n_groups, drawn_rows(number, rng), number)


# -- thresholds -----------------------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.integers(1, 4), st.sampled_from([0.05, 0.1, 0.3, 1 / 3, 1 - 0.9]), st.integers(0, 999))
def test_one_step_an_episode_gives_the_plain_thresholds(n, n_groups, alpha, seed):
    rng = np.random.default_rng(seed)
    scores, groups = rng.integers(0, 8, n) / 7.0, rng.integers(0, n_groups, n)
    plain = GroupScores.from_groups(scores, groups, n_groups)
    episodes = collected(scores, groups, n_groups, rng.permutation(n), rng)
    for confidence in (None, 0.9):
        assert np.array_equal(episodes.at(alpha, confidence), plain.at(alpha, confidence))
    assert np.array_equal(episodes.sizes, plain.sizes)
    assert np.array_equal(episodes.single.scores, plain.scores)


def obvious(scores, units, groups, j, alpha, before):
    """The smallest score q of group j where misses, were a new episode to miss in all of its steps, are at most alpha.

    An episode weighs 1 in the group, or, in files made `before`, over all of its steps.
    """
    counted = [u for u, g in zip(units, groups) if before or g == j]
    here = [(score, Fraction(1, counted.count(u))) for score, u, g in zip(scores, units, groups) if g == j]
    for q in sorted({score for score, _ in here}):
        if sum(w for score, w in here if score > q) + 1 <= alpha * (sum(w for _, w in here) + 1):
            return q
    return np.inf


@given(
    st.integers(1, 60),
    st.integers(1, 30),
    st.sampled_from([Fraction(1, 10), Fraction(1, 4), Fraction(1, 3)]),
    st.booleans(),
    st.integers(0, 999),
)
def test_thresholds_are_those_of_the_definition(n, episodes, alpha, before, seed):
    rng = np.random.default_rng(seed)
    scores, units, groups = rng.integers(0, 12, n) / 11.0, rng.integers(0, episodes, n), rng.integers(0, 2, n)
    known = collected(scores, groups, 2, units, rng)
    found = (replace(known, steps=known.lengths) if before else known).at(float(alpha))
    for j in range(2):
        assert found[j] == obvious(scores.tolist(), units.tolist(), groups.tolist(), j, alpha, before)
        visits = len({u for u, g in zip(units, groups) if g == j})
        assert before or known.sizes[j] == visits


@pytest.mark.parametrize("weighting", [PER_GROUP, PER_EPISODE])
def test_pieces_of_an_episode_share_its_weight_at_every_step_of_a_horizon(weighting):
    rng = np.random.default_rng(4)
    episodes, steps, n_groups = np.repeat(np.arange(30), rng.integers(1, 5, 30)), 2, 4
    scores = rng.integers(0, 30, (len(episodes), steps)) / 7.0
    groups = rng.integers(0, 2, scores.shape) + 2 * np.arange(steps)
    role = np.full(len(episodes), 2)
    found = HorizonScores(scores, groups, episodes, role, n_groups, weighting).at(0.2)
    for s in range(steps):
        for j in (2 * s, 2 * s + 1):
            columns = scores[:, s].tolist(), episodes.tolist(), groups[:, s].tolist()
            assert found[j] == obvious(*columns, j, Fraction(1, 5), weighting == PER_EPISODE)


def test_which_step_is_drawn_is_uniform():
    rng = np.random.default_rng(0)
    labels = np.array([7, 3, 7, 7, 3])
    counts = np.zeros(5)
    for _ in range(6000):
        counts[one_of_each(labels, rng)] += 1
    assert stats.chisquare(counts, [2000, 3000, 2000, 2000, 3000]).pvalue > ERROR


# -- the guarantee --------------------------------------------------------------------------------------------------------


def hits(rng, calibrate, draws=400, new_episodes=1, **shape):
    """How often a random step of a new episode is inside, over independent calibrations and new episodes."""
    inside = 0
    for _ in range(draws):
        q = calibrate(rng, **shape)
        _, Y, ids = run(rng, new_episodes, 20)
        rows = one_of_each(ids, rng)
        inside += int((Y[rows, 0] <= q).all())
    return inside


def by_episode(rng, episodes, alpha=0.1, confidence=None):
    _, Y, ids = run(rng, episodes, 20)
    return collected(Y[:, 0], np.zeros(len(ids), int), 1, ids, rng).at(alpha, confidence)[0]


def by_step(rng, episodes, alpha=0.1):
    _, Y, ids = run(rng, episodes, 20)
    return GroupScores.from_groups(Y[:, 0], np.zeros(len(ids), int), 1).at(alpha)[0]


@pytest.mark.parametrize("episodes", [4, 10, 30])
def test_a_random_step_of_a_new_episode_is_covered(episodes):
    draws = 3000
    inside = hits(np.random.default_rng(episodes), by_episode, draws, episodes=episodes)
    assert stats.binomtest(inside, draws, 0.9, "less").pvalue > ERROR
    most = min(1.0, 0.9 + 2 / (episodes + 1))
    assert stats.binomtest(inside, draws, most, "greater").pvalue > ERROR  # and not wasteful


def test_counting_steps_instead_of_episodes_covers_too_little():
    draws = 3000
    inside = hits(np.random.default_rng(0), by_step, draws, episodes=10)
    assert stats.binomtest(inside, draws, 0.9, "less").pvalue < 1e-6


def test_with_confidence_few_calibrations_undercover():
    """True coverage of a threshold, known by a large sample, is below 1 - alpha in at most one of ten calibrations."""
    rng = np.random.default_rng(1)
    _, Y, ids = run(rng, 20_000, 20)
    rows = one_of_each(ids, rng)
    sample = np.sort(Y[rows, 0])
    draws = 800
    q = np.array([by_episode(rng, 30, 0.2, 0.9) for _ in range(draws)])
    short = int((np.searchsorted(sample, q, "right") / len(sample) < 0.8 - 0.005).sum())
    assert stats.binomtest(short, draws, 0.1, "greater").pvalue > ERROR


def skewed(rng, episodes):
    """Episodes that stay in the left half for long where they err much: X (n, 1), Y (n, 1), ids (n,)."""
    X, Y, ids = [], [], []
    for number in range(episodes):
        bad = rng.random() < 0.2
        left, right = (30, 1) if bad else (1, 6)
        side = np.concatenate([np.zeros(left), np.ones(right)])
        X.append((side + rng.random(len(side))) / 2)
        Y.append(rng.random(len(side)) * (1 + 9 * bad))
        ids.append(np.full(len(side), number))
    return np.concatenate(X)[:, None], np.concatenate(Y)[:, None], np.concatenate(ids)


@pytest.mark.parametrize("halves", [False, True], ids=["a tree", "strata"])
def test_a_random_step_is_covered_in_every_group_that_an_episode_visits(halves):
    """Also where bad episodes are long in one of the groups."""
    rng = np.random.default_rng(2)
    strata = FunctionStrata(lambda Y: (Y[:, 0] > 1).astype(int), ["small", "large"]) if halves else one_stratum()
    groups = Tree(min_leaf=20, max_leaves=2, partition_share=0.5)
    cap = Capture(still, strata, score=NearestParticles(1), groups=groups, n_particles=2)
    inside = {}
    for seed in range(300):
        X, Y, ids = skewed(rng, 120)
        cap.set_params(seed=seed).fit(X, Y, episodes=ids)
        X, Y, ids = skewed(rng, 10)
        group = cap.partition_.groups(X, cap.index(Y))
        row = one_of_each(9 * ids + group, rng)  # one per episode and group
        for j in np.unique(group[row]):
            here = row[group[row] == j]
            inside.setdefault(int(j), []).append(cap.contains(X[here], Y[here], 0.2).mean())
    # ten steps of one calibration are one draw
    assert len(inside) >= 2
    for shares in inside.values():
        assert stats.ttest_1samp(shares, 0.8, alternative="less").pvalue > ERROR


# -- fit, save, coverage --------------------------------------------------------------------------------------------------


@pytest.fixture
def log():
    return run(np.random.default_rng(3), 120, 6)


@pytest.fixture
def fitted(log):
    X, Y, ids = log
    return Capture(still, one_stratum(), groups=Tree(min_leaf=40), n_particles=4).fit(X, Y, episodes=ids)


def test_a_calibration_by_episode_survives_saving(tmp_path, log, fitted):
    fitted.save(tmp_path / "a.capture")
    again = Capture.load(tmp_path / "a.capture", still, one_stratum())
    assert isinstance(again.calibration_, EpisodeScores)
    for confidence in (None, 0.8):
        assert np.array_equal(again.thresholds(log[0], 0.2, confidence), fitted.thresholds(log[0], 0.2, confidence))
    assert again.data_ == fitted.data_
    assert b'"schema":"5"' in (tmp_path / "a.capture").read_bytes()  # older versions must not weigh them otherwise
    assert fitted.data_["episodes"] == 120
    assert fitted.calibration_.single.sizes.sum() == 36  # 30% of the episodes, whole


def test_episodes_of_the_wrong_kind_are_refused(log):
    X, Y, ids = log
    missing = np.where(np.arange(len(ids)) == 4, np.nan, ids.astype(float))
    for episodes, sentence in (
        (np.zeros(3), r"episodes has shape \(3,\) .*; expected \(\d+,\): for each row .* of its episode"),
        (Tree(), r"episodes has shape \(\) of object; expected"),
        (missing, "episodes has no value in row 4"),
    ):
        with pytest.raises(CaptureError, match=sentence):
            Capture(still, one_stratum(), n_particles=4).fit(X, Y, episodes=episodes)


def test_groupings_that_part_episodes_are_refused(log):
    class Careless(OneGroup):
        def split(self, examples, rng):
            partition, held_out = super().split(examples, rng)
            held_out[::2] = False
            return partition, held_out

    assert issubclass(Careless, Groups)
    with pytest.raises(CaptureError, match=r"Careless.split separates rows of one episode"):
        Capture(still, one_stratum(), groups=Careless(), n_particles=4).fit(log[0], log[1], episodes=log[2])


def test_coverage_counts_every_episode_once(log, fitted):
    X, Y, ids = log
    row = fitted.coverage(X, Y, 0.2, episodes=ids, rng=0).all
    inside = fitted.contains(X, Y, 0.2, rng=0)
    shares = [inside[ids == i].mean() for i in range(120)]
    assert row.n == 120
    assert row.coverage == pytest.approx(np.mean(shares))
    plain = fitted.coverage(X, Y, 0.2).all
    assert np.ptp(row.ci95) > np.ptp(plain.ci95)  # steps of an episode say less than independent ones


@pytest.mark.parametrize("episodes", [5, 10, 20, 80])
@pytest.mark.parametrize("kind", ["rare", "beta", "long"])
def test_intervals_by_episode_hold(episodes, kind, repeated):
    """At least 97.5% on either side, also where a rare episode is all bad, or the bad ones are the long ones.

    Power: a quarter of the draws (all of them) finds, with probability 0.99, a side that misses 9.4% (5.5%) of the time.
    """
    rng, draws, low, high = np.random.default_rng(episodes), repeated(1500), 0, 0
    for _ in range(draws):
        bad = rng.random(episodes) < 0.06
        chance = {"rare": np.where(bad, 0.0, 0.95), "beta": rng.beta(1.7, 0.3, episodes), "long": 1.0 - bad}[kind]
        lengths = np.where(bad, 40, 4) if kind == "long" else rng.integers(5, 30, episodes)
        ids = np.repeat(np.arange(episodes), lengths)
        truth = {"rare": 0.94 * 0.95, "beta": 0.85, "long": 0.94}[kind]
        (row,) = tally(["all"], np.zeros(len(ids), int), rng.random(len(ids)) < chance[ids], None, None, ids)
        low, high = low + (row.ci95[0] > truth), high + (row.ci95[1] < truth)
    for missed in (low, high):
        assert stats.binomtest(missed, draws, 0.025, "greater").pvalue > ERROR


@given(st.integers(1, 30), st.integers(0, 999))
def test_an_interval_holds_what_was_seen_and_narrows_with_the_level(episodes, seed):
    rng = np.random.default_rng(seed)
    shares = rng.choice([0.0, 0.5, 1.0], episodes)
    wide, narrow = (share_interval(shares, level) for level in (0.99, 0.8))
    assert 0.0 <= wide[0] <= narrow[0] <= shares.mean() + 1e-5
    assert shares.mean() - 1e-5 <= narrow[1] <= wide[1] <= 1.0


# -- splits and files -----------------------------------------------------------------------------------------------------


@given(st.integers(3, 40), st.integers(0, 999), st.sampled_from([(0.5, 0.5), (0.6, 0.2, 0.2), (0.4, 0.35)]))
@settings(max_examples=40)
def test_split_keeps_episodes_whole(episodes, seed, shares):
    ids = np.repeat(np.arange(episodes), np.random.default_rng(seed).integers(1, 6, episodes))
    if min(shares) * episodes < 1:
        return
    parts = split_rows(len(ids), shares, ids, seed)
    of = [set(ids[part].tolist()) for part in parts]
    assert sum(map(len, of)) == len(set().union(*of))
    for share, mine in zip(shares, of):
        assert abs(len(mine) - share * episodes) <= 1
    if sum(shares) > 0.99:
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(ids)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((10, (0.5, 0.6)), "add up to at most 1"),
        ((10, ()), "expected positive numbers"),
        ((10, (0.5, -0.1)), "expected positive numbers"),
        ((3, (0.9, 0.1)), "3 rows are too few"),
        ((4, (0.5, 0.5), [1, 1, 1, 1]), "1 episodes are too few"),
        ((4, (0.5, 0.5), [1, 1]), "episodes has shape"),
    ],
)
def test_impossible_splits_are_refused(arguments, sentence):
    with pytest.raises(CaptureError, match=sentence):
        split_rows(*arguments)


@pytest.fixture
def transitions():
    rng = np.random.default_rng(5)
    ids, time = np.repeat(["run#1", "a,b", 'say "c"', "4"], 5), np.tile(np.arange(5.0), 4)
    return Transitions.from_arrays(rng.random((20, 2)), rng.random((20, 1)), rng.random((20, 2)), episode=ids, time=time)


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
def test_episodes_and_times_survive_files(tmp_path, transitions, ending):
    file = tmp_path / f"log.{ending}"
    write_transitions(file, transitions)
    again = read_transitions(file, transitions.state_names, "action_0", transitions.next_names, "episode", "time")
    assert again.episode.tolist() == transitions.episode.tolist()
    assert np.array_equal(again.time, transitions.time)
    fit, check = again.split((0.5, 0.5), seed=1)
    assert len(fit) == len(check) == 10
    assert not set(fit.episode) & set(check.episode)
    assert fit.time_name == "time"


def test_time_that_goes_backwards_is_an_error_with_its_row(tmp_path, transitions):
    columns = transitions.columns()
    columns["time"][13] = 0.5  # after 2.0 in the same episode
    parts = transitions.state, transitions.action, transitions.next
    with pytest.raises(
        CaptureError, match=r"time goes backwards within an episode in data row 14: 0.5 after 2 in data row 13"
    ):
        Transitions.from_arrays(*parts, episode=transitions.episode, time=columns["time"])
    interleaved = np.tile(np.arange(4), 5)
    Transitions.from_arrays(*parts, episode=interleaved, time=np.repeat(np.arange(5.0), 4))
    with pytest.raises(CaptureError, match="name the episode of each row"):
        Transitions.from_arrays(*parts, time=np.tile(np.arange(5.0), 4))
