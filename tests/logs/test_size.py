"""How many transitions to log: what is printed is what a calibration then has."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from capture_cp import Capture, FunctionStrata, NearestParticles, Transitions, Tree, load_calibration, write_transitions
from capture_cp.cli import main
from capture_cp.commands.options import Shares
from capture_cp.commands.size import Size, coverage_range, size_for_precision
from capture_cp.conformal.quantile import draws_needed
from capture_lab.tasks.box import Box
from commands import refused
from logs.common import COLUMNS

ERROR = 1e-4


def to_log(scores, **settings):
    return Size(**settings).to_log(scores)


def test_sizes_are_printed_before_anything_is_logged(tmp_path, capsys):
    main(["size", "--alpha", "0.1", "--confidence", "0.95", "--groups", "6", "--json", str(tmp_path / "size.json")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "6 groups" in shown
    assert "every group gets its scores in at least 95 of 100 logs" in shown
    rows = json.loads((tmp_path / "size.json").read_text())["rows"]
    assert rows[0]["scores"] == 29
    assert rows[0]["transitions"] > 29 * 6 / 0.3 / 0.5
    assert [row["transitions"] for row in rows] == sorted(row["transitions"] for row in rows)


@pytest.mark.parametrize("own_model", [False, True], ids=["linear model", "own model"])
def test_a_log_of_that_size_gives_calibrate_that_many_scores(tmp_path, monkeypatch, own_model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "size_box.py").write_text("from capture_lab.tasks.box import Box\n\nmodel = Box().model\n")
    n = to_log(132, own_model=own_model)
    write_transitions("log.csv", Box().transitions(n, np.random.default_rng(0)))
    main(["calibrate", "log.csv", *COLUMNS, *(["--model", "size_box:model"] if own_model else [])])
    cap = load_calibration("robot.capture", Box().model if own_model else None)
    assert cap.calibration_.sizes.sum() == 132


@pytest.mark.parametrize("shares", [Shares(0.25, 0.25), Shares(0.0, 0.25), Shares(0.1, 0.33), Shares(0.0, 0.0)])
@pytest.mark.parametrize("tree", [0.7, 0.0, 0.5])
def test_every_log_of_that_size_or_longer_has_the_scores(shares, tree):
    for scores in (1, 9, 10, 132):
        n = shares.transitions(scores, tree)
        assert min(shares.scores(longer, tree) for longer in range(n, n + 50)) >= scores
        assert n == 1 or shares.scores(n - 1, tree) < scores


@pytest.mark.parametrize("purpose", ["scores", "apart"])
def test_six_groups_have_enough_in_95_of_100_logs_of_that_size(purpose):
    """Their scores, or so many that no stratum is merged: split like the command, and a tree that takes its share."""
    settings, logs, rng = Size(groups=6), 400, np.random.default_rng(0)
    n = settings.to_log(9) if purpose == "scores" else settings.to_keep_apart()
    tree = Tree(max_leaves=1, min_stratum=None if purpose == "scores" else 18)
    parts, enough = tuple(settings.shares.parts().values()), 0
    strata = FunctionStrata(lambda Y: Y[:, 0].astype(int), list("abcdef"))
    for seed in range(logs):
        Y = rng.integers(0, 6, (n, 1)).astype(float)
        log = Transitions.from_arrays(np.zeros_like(Y), np.zeros_like(Y), Y).split(parts, seed)[1]
        cap = Capture(_noise, strata, NearestParticles(1), tree, n_particles=1, seed=seed).fit(log.X, log.Y)
        enough += (cap.calibration_.sizes >= 9).all() if purpose == "scores" else cap.merged_ == {}
    assert stats.binomtest(int(enough), logs, 0.95, "less").pvalue > ERROR
    assert enough < logs  # not many more than it takes


def test_the_size_to_keep_strata_apart_is_told_where_there_are_any(capsys):
    main(["size", "--groups", "6", "--own-model"])
    assert "From 660 on, capture calibrate gives each of as many strata" in " ".join(capsys.readouterr().out.split())
    for one in (Size(), Size(groups=6, tree_share=0.0)):
        assert one.to_keep_apart() is None


def _noise(X, n_particles, rng):
    return rng.standard_normal((len(X), n_particles, 1))


@pytest.mark.parametrize("share", [0.25, 0.1, 0.01])
def test_draws_are_the_fewest_that_suffice(share):
    n = draws_needed(9, share, 0.05)
    assert stats.binom.cdf(8, n, share) <= 0.05 < stats.binom.cdf(8, n - 1, share)


@pytest.mark.parametrize(("alpha", "confidence"), [(0.1, None), (0.1, 0.95), (0.05, None), (0.3, 0.9)])
def test_the_precision_is_reached(alpha, confidence):
    for half in (0.05, 0.02):
        n = size_for_precision(half, alpha, confidence)
        low, high = coverage_range(n, alpha, confidence)
        assert high - low <= 2 * half
        low, high = coverage_range(int(0.9 * n), alpha, confidence)
        assert high - low > 2 * half * 0.98


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--groups", "0"), "groups is 0"),
        (("--groups", "4", "--share", "0.5"), "the rarest of 4 groups has more than 0 and at most 1/4"),
        (("--tree-share", "1"), "tree-share is 1;"),
        (("--check-share", "0.8"), "expected fractions that leave part of the log to calibrate on"),
        (("--check-share", "nan"), "check-share is nan"),
        (("--precision", "0"), "precision is (0.0,)"),
    ],
)
def test_impossible_sizes_are_refused(capsys, options, sentence):
    assert sentence in refused(capsys, "size", *options)
