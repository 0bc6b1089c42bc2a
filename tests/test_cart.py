"""Trees of compiled code: the same as scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from capture_cp.conformal.cart import grown_tree
from capture_cp.conformal.groups import _tree_nodes

SEEDS = st.integers(0, 2**31 - 1)


def theirs(X, y, weights, leaf, leaves, depth, seed):
    size = {"min_samples_leaf": leaf} if weights is None else {"min_weight_fraction_leaf": min(0.5, leaf / weights.sum())}
    tree = DecisionTreeRegressor(random_state=seed, max_leaf_nodes=leaves, max_depth=depth, **size)
    return _tree_nodes(tree.fit(X, y, weights))


@st.composite
def problems(draw):
    """Inputs without repeated values, except for constant and repeated columns, and scores, some of them zero."""
    n, d = draw(st.integers(2, 300)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(SEEDS))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d)
    if draw(st.booleans()):
        X[:, rng.integers(d)] = rng.normal()
    if draw(st.booleans()):
        X[:, rng.integers(d)] = X[:, rng.integers(d)]
    y = np.maximum(rng.normal(size=n) + np.sin(X[:, 0]), draw(st.sampled_from([-np.inf, 0.0])))
    weights = draw(st.sampled_from([None, [1.0], [0.1, 0.25, 1 / 3], [0.0, 0.5, 1.0]]))
    if weights is not None:
        weights = rng.choice(weights, size=n)
        weights[:2] = 1.0
    return X, y, weights


@given(problems(), st.integers(1, 20), st.integers(2, 25), st.sampled_from([None, 1, 2, 5]), SEEDS)
def test_a_tree_is_that_of_scikit_learn(problem, leaf, leaves, depth, seed):
    ours = grown_tree(*problem, leaf, leaves, depth, seed)
    assert np.array_equal(ours, theirs(*problem, leaf, leaves, depth, seed))


@given(SEEDS, st.integers(1, 20), st.integers(2, 25))
def test_repeated_values_give_a_tree_as_good(seed, leaf, leaves):
    """Of splits that differ by rounding only, either is right: the squared errors agree."""
    rng = np.random.default_rng(seed)
    X = np.rint(rng.normal(size=(250, 3)))
    X[:, 2] = X[:, 0]
    y = rng.normal(size=250) + X[:, 1]
    errors = []
    for nodes in (grown_tree(X, y, None, leaf, leaves, None, seed), theirs(X, y, None, leaf, leaves, None, seed)):
        group = leaf_of(nodes, X)
        sizes = np.bincount(group)
        errors.append(sum(((y[group == g] - y[group == g].mean()) ** 2).sum() for g in range(len(sizes))))
        assert sizes.min() >= leaf
    assert errors[0] == pytest.approx(errors[1], rel=1e-9)


def leaf_of(nodes, X):
    """Group of each row, step by step."""
    found = []
    for x in X.astype(np.float32):
        i = 0
        while nodes[i]["feature"] >= 0:
            i = nodes[i]["left" if x[nodes[i]["feature"]] <= nodes[i]["threshold"] else "right"]
        found.append(nodes[i]["group"])
    return np.array(found)


def test_negative_zeros_are_zeros():
    X = np.array([[0.0], [-0.0]] * 10 + [[1.0]] * 20)
    y = np.arange(40.0)
    assert np.array_equal(grown_tree(X, y, None, 1, 4, None, 0), grown_tree(X + 0.0, y, None, 1, 4, None, 0))
    assert len(grown_tree(X[:20], y[:20], None, 1, 4, None, 0)) == 1
