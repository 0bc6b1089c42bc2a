"""Groups: one, by stratum, or the leaves of trees; which rows make them, and what a group without scores means."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from capture_cp import (
    Capture,
    CaptureError,
    CaptureWarning,
    Groups,
    PerStratum,
    Tree,
    conformal_quantile,
)
from capture_cp.conformal.groups import Examples
from capture_cp.conformal.partition import Partition, leaves
from worlds import PARTICLES


@pytest.fixture
def examples():
    """Scores that depend on the first input and on the stratum; stratum 2 is the strangest."""
    rng = np.random.default_rng(0)
    X, m = rng.random((2000, 3)), rng.integers(0, 3, 2000)
    R = (X[:, 0] > 0.5) * 2.0 + m * m + rng.random(2000)
    return Examples(X, m, R, 3, None)


def rng():
    return np.random.default_rng(0)


def test_per_stratum_thresholds_are_those_of_each_stratum_alone(examples):
    parts, scores = PerStratum().calibrate(examples, rng())
    expected = [conformal_quantile(examples.R[examples.m == m], 0.2) for m in range(3)]
    assert scores.at(0.2)[parts.groups_everywhere(examples.X[:5])].tolist() == [expected] * 5


TREES = [Tree(min_leaf=50), Tree(min_leaf=50, per_stratum=False), Tree(min_leaf=50, per_stratum=False, stratum_input="none")]


@pytest.mark.parametrize("tree", TREES, ids=repr)
@pytest.mark.parametrize("share", [0.2, 0.7, 0.9])
def test_partition_and_calibration_rows_are_disjoint_and_of_the_given_share(examples, tree, share):
    _, scores = clone(tree).set_params(partition_share=share).calibrate(examples, rng())
    _, held_out = clone(tree).set_params(partition_share=share).split(examples, rng())
    assert (~held_out).sum() == int(len(examples.R) * share)
    assert scores.sizes.sum() == held_out.sum()
    assert np.array_equal(np.sort(scores.scores), np.sort(examples.R[held_out]))


def test_the_split_is_drawn_and_follows_the_generator(examples):
    """Logs are ordered in time: a split by row order would part early from late transitions, which are not exchangeable."""
    one, same, other = (Tree(partition_share=0.5).split(examples, np.random.default_rng(seed))[1] for seed in (0, 0, 1))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    for held_out in (one, other):
        halves = held_out[:1000].sum(), held_out[1000:].sum()
        assert min(halves) > 400  # half of either half is held out, give or take some ten rows


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_thresholds_do_not_depend_on_the_scores_that_grew_the_tree_beyond_the_partition(examples, tree):
    """Scaling the partition part's scores grows the same tree; the thresholds must not notice."""
    _, held_out = tree.split(examples, rng())
    scaled = examples._replace(R=np.where(held_out, examples.R, 2 * examples.R))
    one, two = tree.calibrate(examples, rng()), tree.calibrate(scaled, rng())
    assert np.array_equal(one[0].nodes, two[0].nodes)
    assert np.array_equal(one[1].at(0.1), two[1].at(0.1))


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_leaves_hold_at_least_min_leaf_partition_rows(examples, tree):
    parts, held_out = tree.split(examples, rng())
    sizes = np.bincount(parts.groups(examples.X[~held_out], examples.m[~held_out]), minlength=parts.n_groups)
    assert parts.n_groups > 3
    assert sizes.min() >= 50


def depths(parts):
    """Splits between root and deepest leaf, for the tree of each stratum."""

    def below(node):
        here = parts.nodes[node]
        return 0 if here["feature"] < 0 else 1 + max(below(here["left"]), below(here["right"]))

    return [below(root) for root in parts.roots]


@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("max_leaves", [20, None])
@pytest.mark.parametrize("max_depth", [1, 2, 3])
def test_max_depth_is_a_limit_for_each_tree(examples, max_depth, max_leaves, prune):
    settings = {"min_leaf": 5, "max_leaves": max_leaves, "prune": prune}
    for per_stratum in (False, True):
        parts, _ = Tree(**settings, per_stratum=per_stratum, max_depth=max_depth).split(examples, rng())
        assert 0 < max(depths(parts)) <= max_depth
        assert prune or max(depths(parts)) == max_depth  # without the limit they would be deeper


def test_features_of_strata_are_split_on_instead_of_their_number(examples):
    """Strata 0 and 2 touch the same wall: one bit tells them from stratum 1, which their numbers cannot."""
    touching = examples._replace(
        R=np.where(examples.m == 1, 0.0, 5.0) + rng().random(2000), stratum_features=np.array([[1.0], [0.0], [1.0]])
    )
    one_split = Tree(min_leaf=50, per_stratum=False, max_leaves=2)
    by_bit = one_split.split(touching, rng())[0].groups_everywhere(touching.X)
    assert (by_bit[:, 0] == by_bit[:, 2]).all()
    assert (by_bit[:, 0] != by_bit[:, 1]).all()
    by_number = clone(one_split).set_params(stratum_input="label").split(touching, rng())[0]
    assert by_number.groups_everywhere(touching.X)[0].tolist() != by_bit[0].tolist()


def test_features_are_taken_where_there_are_any(examples):
    bits = examples._replace(stratum_features=np.eye(3))
    widths = {
        choice: Tree(per_stratum=False, stratum_input=choice).split(bits, rng())[0].stratum_features.shape[1]
        for choice in ("auto", "features", "label", "none")
    }
    assert widths == {"auto": 3, "features": 3, "label": 1, "none": 0}
    assert Tree(per_stratum=False).split(examples, rng())[0].stratum_features.tolist() == [[0], [1], [2]]


def test_features_asked_for_but_missing_are_an_error(examples):
    with pytest.raises(CaptureError, match='needs strata with features; add features or use "label"'):
        Tree(per_stratum=False, stratum_input="features").split(examples, rng())


def test_pruning_keeps_a_tree_that_helps_and_cuts_one_that_does_not(examples):
    noise = examples._replace(R=rng().random(2000))
    settings = {"min_leaf": 20, "per_stratum": False, "max_leaves": None}
    full, pruned = (Tree(**settings, prune=prune).split(noise, rng())[0].n_groups for prune in (False, True))
    assert pruned < full
    steps = examples._replace(R=np.where(examples.X[:, 0] > 0.5, 5.0, 0.0) + rng().random(2000))
    parts, _ = Tree(**settings, prune=True).split(steps, rng())
    groups = parts.groups(steps.X, steps.m)
    assert not set(groups[steps.X[:, 0] < 0.49]) & set(groups[steps.X[:, 0] > 0.51])


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"partition_share": 0}, "partition_share is 0; expected a number between 0 and 1"),
        ({"partition_share": "most"}, "partition_share is 'most'"),
        ({"min_leaf": 0}, "min_leaf is 0; expected a whole number of at least 1"),
        ({"min_leaf": 2.5}, "min_leaf is 2.5"),
        ({"max_leaves": 0}, "max_leaves is 0"),
        ({"max_depth": 0}, "max_depth is 0; expected a whole number of at least 1"),
        ({"min_stratum": 0}, "min_stratum is 0; expected a whole number of at least 1"),
        ({"min_stratum": 9, "per_stratum": False}, "min_stratum merges strata with one tree each"),
        ({"stratum_input": "lable"}, "unknown stratum_input 'lable'.*Did you mean 'label'"),
    ],
    ids=str,
)
def test_bad_settings_of_a_tree_are_refused(examples, settings, sentence):
    with pytest.raises(CaptureError, match=sentence):
        Tree(**settings).split(examples, rng())


UNSEEN = [PerStratum(), Tree(min_leaf=20), Tree(min_leaf=20, per_stratum=False)]


@pytest.mark.parametrize("max_leaves", [1, 3])
def test_max_leaves_is_a_limit_for_each_tree(examples, max_leaves):
    single, _ = Tree(min_leaf=5, max_leaves=max_leaves, per_stratum=False).split(examples, rng())
    each, _ = Tree(min_leaf=5, max_leaves=max_leaves).split(examples, rng())
    assert single.n_groups == max_leaves
    assert each.n_groups == 3 * max_leaves


@pytest.fixture(params=UNSEEN, ids=repr)
def without_corners(request, world):
    """A calibration that never saw a corner."""
    rows = world.m != world.box.strata.number("corner")
    cap = Capture(world.box, world.box.strata, groups=clone(request.param), n_particles=PARTICLES)
    return cap.fit(world.X[rows], world.Y[rows], prediction=world.particles[rows])


def test_a_stratum_never_seen_has_an_infinite_threshold(without_corners, fresh):
    with pytest.warns(CaptureWarning) as caught:
        q = without_corners.thresholds(fresh.X, 0.3)
    described = re.findall(r"group \d+ \((.*?)\) has", str(caught[0].message))
    assert described.count("corner") == 1
    assert {words.split(" and ")[0] for words in described} <= {"free", "edge", "free, edge", "corner", "any stratum"}
    assert np.isinf(q[:, 2]).all()
    assert np.isfinite(q[:, 0]).any()


def test_a_stratum_seen_only_while_the_tree_grew_is_infinite(examples):
    """The tree gives it a leaf, the calibration part has no score for it; nothing of it may lie about in the groups."""
    tree = Tree(min_leaf=100, per_stratum=False)
    _, held_out = tree.split(examples, rng())  # which rows depends on their number alone
    m = np.where(held_out, examples.m % 2, examples.m)
    parts, scores = tree.calibrate(examples._replace(m=m), rng())
    q = scores.at(0.2)[parts.groups_everywhere(examples.X)]
    assert np.isinf(q[:, 2]).all()
    assert np.isfinite(q[:, :2]).all()
    words = [parts.describe(group, ("free", "edge", "corner")) for group in range(parts.n_groups)]
    assert all(text.split(" and ")[0] for text in words)
    assert words.count("corner") == 1


def test_groups_are_described_by_their_strata_and_splits():
    nodes = np.concatenate([leaves(5), leaves(1, 5)])
    nodes[0] = (0.5, 0, 1, 2, -1)  # x0 <= 0.5 ?
    nodes[2] = (0.5, 2, 3, 4, -1)  # then the stratum's own feature
    nodes["group"] = [-1, 0, -1, 1, 2, 3]
    parts = Partition(nodes, np.array([0, 0, 5], dtype=np.int32), np.array([[0.0], [1.0], [0.0]]), 2)
    words = [parts.describe(group, ("free", "edge", "corner")) for group in range(4)]
    assert words == ["free, edge and x0 <= 0.5", "free and x0 > 0.5", "edge and x0 > 0.5", "corner"]
    assert parts.describe(1, ("free", "edge", "corner"), inputs=("pos", "push")) == "free and pos > 0.5"
    nodes[2] = (0.75, 0, 3, 4, -1)  # the same input once more
    parts = replace(parts)
    words = [parts.describe(group, ("free", "edge", "corner")) for group in range(3)]
    assert words == ["free, edge and x0 <= 0.5", "free, edge and 0.5 < x0 <= 0.75", "free, edge and x0 > 0.75"]


def test_a_group_that_does_not_exist_is_an_error(fitted):
    with pytest.raises(CaptureError, match="group 99 does not exist; groups run from 0 to"):
        fitted["capture"].describe_group(99)


class LeftAndRight(Groups):
    """Two groups by the sign of the push: what a user might write."""

    def split(self, examples, rng):
        nodes = np.concatenate([leaves(1), leaves(2)])
        nodes[0] = (0.0, 2, 1, 2, -1)
        roots = np.zeros(examples.n_strata, dtype=np.int32)
        return Partition(nodes, roots, np.empty((examples.n_strata, 0)), examples.X.shape[1]), np.ones(len(examples.R), bool)


def test_groups_of_the_users_own_are_used(world, fresh):
    cap = Capture(world.box, world.box.strata, groups=LeftAndRight(), n_particles=PARTICLES)
    cap.fit(world.X, world.Y, prediction=world.particles)
    R = cap.score_.score(world.particles, world.Y)
    left, right = (conformal_quantile(R[side], 0.1) for side in (world.X[:, 2] <= 0, world.X[:, 2] > 0))
    q = cap.thresholds(fresh.X, 0.1)
    assert np.array_equal(q[:, 0], np.where(fresh.X[:, 2] <= 0, left, right))
