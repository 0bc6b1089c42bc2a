"""Calibrations extended by new logs, and merged across sites: the scores of all logs in the same groups."""

from dataclasses import replace

import numpy as np
import pytest

from capture_cp import Capture, CaptureError, CaptureWarning, OneGroup, PerStratum, Tree
from capture_cp.capture.extending import extend_calibration, merge_calibrations, sources_of
from capture_cp.data.transitions import LogPart, Transitions
from capture_lab.tasks.box import Box

BOX = Box()


def log(n, seed, length=None):
    """Transitions of the box, of independent steps or of episodes of so many."""
    drawn = BOX.transitions(n, np.random.default_rng(seed))
    episode = None if length is None else [f"{seed}-{i // length}" for i in range(n)]
    return Transitions.from_arrays(drawn.state, drawn.action, drawn.next, episode=episode)


def fitted(data, groups=None, **options):
    cap = Capture(BOX.model, BOX.strata, groups=Tree(min_leaf=100) if groups is None else groups, **options)
    return cap.fit(data.X, data.Y, episodes=data.episode)


def plain_scores(cap, data):
    """Scores of a log by stratum and input, one row after the other, with the numbers that extending draws."""
    from capture_cp.base.arrays import digest

    prediction = cap.predict(data.X, cap.fit_stream("extend", digest(data.X, data.Y)))
    return cap.scores(prediction, data.Y)


@pytest.mark.parametrize("groups", [None, OneGroup(), PerStratum(), Tree(min_leaf=100, min_stratum=18)], ids=repr)
def test_an_extended_calibration_has_the_scores_of_both_logs(groups):
    first, second = log(3000, 1), log(2000, 2)
    cap = fitted(first, groups)
    more = extend_calibration(cap, second)
    new = plain_scores(cap, second)
    where = cap.partition_.grown.groups(second.X, cap.index(second.Y))
    for j in range(cap.partition_.base.n_groups):
        a, b = cap.calibration_.starts[j : j + 2]
        wanted = np.sort(np.concatenate([cap.calibration_.scores[a:b], new[where == j]]))
        a, b = more.calibration_.starts[j : j + 2]
        np.testing.assert_array_equal(more.calibration_.scores[a:b], wanted)
    assert more.calibration_.sizes.sum() == cap.calibration_.sizes.sum() + len(second)
    assert more.data_["rows"] == 5000
    assert [source["rows"] for source in sources_of(more)] == [3000, 2000]


def test_extending_leaves_the_calibration_as_it_was():
    cap = fitted(log(2000, 1))
    before = cap.digest()
    assert extend_calibration(cap, log(500, 2)).digest() != before
    assert cap.digest() == before


@pytest.mark.parametrize("length", [None, 5])
def test_merging_sites_is_extending_one_by_the_other(length):
    here, there = log(3000, 1, length), log(2000, 2, length)
    cap = fitted(here)
    one = extend_calibration(cap, there)
    other = merge_calibrations([cap, extend_calibration(cap, there, alone=True)])
    np.testing.assert_array_equal(one.calibration_.scores, other.calibration_.scores)
    np.testing.assert_array_equal(one.group_thresholds(0.1), other.group_thresholds(0.1))
    assert one.partition_.same_groups(other.partition_)
    assert one.data_["rows"] == other.data_["rows"] == 5000
    if length is not None:
        assert one.data_["episodes"] == other.data_["episodes"]


def test_an_extended_calibration_survives_its_file(tmp_path):
    for length in (None, 4):
        more = extend_calibration(fitted(log(2000, 1, length)), log(1000, 2, length))
        more.save(tmp_path / "more.capture")
        loaded = Capture.load(tmp_path / "more.capture", BOX.model, BOX.strata)
        assert loaded.digest() == more.digest()
        assert sources_of(loaded) == sources_of(more)
        again = extend_calibration(loaded, log(500, 3, length))
        assert [source["rows"] for source in sources_of(again)] == [2000, 1000, 500]


def test_a_calibration_keeps_the_weighting_it_was_made_with():
    cap, more = fitted(log(2000, 1, 5), PerStratum()), log(1000, 2, 5)
    older = fitted(log(2000, 1, 5), PerStratum())
    older.keep(cap.partition_, replace(cap.calibration_, steps=cap.calibration_.lengths), 2, cap.data_)
    alone = extend_calibration(older, more, alone=True)
    for found in (extend_calibration(older, more), alone, merge_calibrations([older, alone])):
        assert found.calibration_.weighting == "whole episode"
        assert found.calibration_.sizes.sum() <= found.data_["episodes"]
    assert extend_calibration(cap, more).calibration_.sizes.sum() > 600
    with pytest.raises(CaptureError, match="counts an episode once in whole episode, the first does not"):
        merge_calibrations([cap, alone])


def test_a_stratum_that_was_never_met_opens_when_a_log_has_been_there():
    whole = log(6000, 1)
    m = BOX.strata.index(whole.Y)
    rarest = int(np.argmin(np.bincount(m)))
    without, some = whole.rows(m != rarest), log(3000, 2)
    cap = fitted(without, PerStratum())
    with pytest.warns(CaptureWarning, match="too few"):
        assert np.isinf(cap.thresholds(some.X[:1], 0.1)[0, rarest])
    more = extend_calibration(cap, some)
    q = more.thresholds(some.X[:1], 0.1)[0]
    assert np.isfinite(q).all()


@pytest.mark.parametrize("per_stratum", [True, False])
def test_isolated_strata_share_their_groups_again(per_stratum):
    whole = log(6000, 1)
    m = BOX.strata.index(whole.Y)
    rarest = int(np.argmin(np.bincount(m)))
    groups = Tree(per_stratum=per_stratum, min_leaf=100, **({"min_stratum": 2000} if per_stratum else {}))
    cap = fitted(whole.rows(m != rarest), groups)
    assert not cap.partition_.opened[rarest] or cap.partition_.grown_roots is None
    more = extend_calibration(cap, log(3000, 2))
    assert more.partition_.opened.all()
    assert more.partition_.same_groups(cap.partition_)
    q = more.thresholds(whole.X[:5], 0.1)
    assert np.isfinite(q[:, rarest]).all()
    # and a site that has not been there isolates it again
    site = log(3000, 3)
    alone = extend_calibration(more, site.rows(BOX.strata.index(site.Y) != rarest), alone=True)
    if not per_stratum:
        assert not alone.partition_.opened[rarest]
        with pytest.warns(CaptureWarning, match="has 0"):
            assert np.isinf(alone.thresholds(whole.X[:5], 0.1)[:, rarest]).all()


@pytest.mark.parametrize("alpha", [0.1, 0.3])
def test_extended_calibrations_cover(alpha):
    """Over many draws of both logs the mean coverage is at least 1 - alpha, up to four standard errors."""
    test = log(400, 10_000)
    shares = []
    for seed in range(60):
        cap = extend_calibration(fitted(log(200, 2 * seed), PerStratum(), n_particles=4), log(300, 2 * seed + 1))
        shares.append(cap.contains(test.X, test.Y, alpha).mean())
    assert np.mean(shares) >= 1 - alpha - 4 * (np.std(shares) / np.sqrt(60) + np.sqrt(alpha * (1 - alpha) / 400) / 2)


def test_a_part_of_a_log_extends_as_its_rows_do():
    cap, data = fitted(log(2000, 1)), log(1000, 2)
    chosen = np.random.default_rng(0).random(1000) < 0.5
    assert extend_calibration(cap, LogPart(data, chosen)).digest() == extend_calibration(cap, data.rows(chosen)).digest()


def test_what_cannot_be_put_together_is_refused():
    first, second = log(2000, 1), log(1000, 2)
    cap = fitted(first)
    with pytest.raises(CaptureError, match="already in the calibration"):
        extend_calibration(cap, first)
    with pytest.raises(CaptureError, match="already in the calibration"):
        extend_calibration(extend_calibration(cap, second), second)
    with pytest.raises(CaptureError, match="already in the calibration"):
        merge_calibrations([cap, cap])
    with pytest.raises(CaptureError, match="another groups than the first"):
        merge_calibrations([cap, fitted(second)])
    with pytest.raises(CaptureError, match="another score"):
        merge_calibrations([fitted(first, OneGroup()), fitted(second, OneGroup(), n_particles=8)])
    with pytest.raises(CaptureError, match="at least two"):
        merge_calibrations([cap])
    with pytest.raises(CaptureError, match="made with no episodes and the new log has some"):
        extend_calibration(cap, log(100, 3, 5))
    with pytest.raises(CaptureError, match="made with episodes and the new log has none"):
        extend_calibration(fitted(log(2000, 1, 5)), second)
