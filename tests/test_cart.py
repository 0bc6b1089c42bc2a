"""Trees of compiled code: those of scikit-learn, or none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from capture_cp.conformal.cart import certain_tree
from capture_cp.conformal.groups import Examples, Tree, _tree_nodes

SEEDS = st.integers(0, 2**31 - 1)


def theirs(X, y, weights, leaf, leaves, depth, seed):
    size = {"min_samples_leaf": leaf} if weights is None else {"min_weight_fraction_leaf": min(0.5, leaf / weights.sum())}
    tree = DecisionTreeRegressor(random_state=seed, max_leaf_nodes=leaves, max_depth=depth, **size)
    return _tree_nodes(tree.fit(X, y, weights))


@st.composite
def problems(draw):
    """Inputs with ties: rounded, constant, repeated, mirrored and nearly equal columns; scores with ties; odd weights."""
    n, d = draw(st.integers(2, 300)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(SEEDS))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, d)
    for kind in draw(
        st.lists(st.sampled_from(["rounded", "constant", "repeated", "mirrored", "close", "zero"]), max_size=3)
    ):
        to, other = rng.integers(d, size=2)
        X[:, to] = {
            "rounded": np.rint(X[:, to]),
            "constant": rng.normal(),
            "repeated": X[:, other],
            "mirrored": -X[:, other],
            "close": 1.0 + 1e-7 * rng.integers(4, size=n),
            "zero": rng.choice([0.0, -0.0, 1.0], size=n),
        }[kind]
    y = rng.normal(size=n) + np.sin(X[:, 0])
    kind = draw(st.sampled_from(["plain", "clipped", "rounded", "tiny", "large offset", "constant", "of a column"]))
    y = {
        "plain": y,
        "clipped": np.maximum(y, 0.0),
        "rounded": np.rint(y),
        "tiny": 1e-9 * y,
        "large offset": 1e6 + y,
        "constant": np.full(n, 0.1),
        "of a column": np.abs(np.rint(X[:, -1])) * 0.1,
    }[kind]
    weights = draw(st.sampled_from([None, None, [1.0], [0.02], [0.1, 0.25, 1 / 3], [0.0, 0.5, 1.0]]))
    if weights is not None:
        weights = rng.choice(weights, size=n)
        weights[:2] = 1.0
    return X, y, weights


@given(problems(), st.integers(1, 20), st.integers(2, 25), st.sampled_from([None, 1, 2, 5]), SEEDS)
def test_a_tree_that_is_certain_is_that_of_scikit_learn(problem, leaf, leaves, depth, seed):
    ours = certain_tree(*problem, leaf, leaves, depth)
    assert ours is None or np.array_equal(ours, theirs(*problem, leaf, leaves, depth, seed))


@pytest.mark.parametrize("lengths", [None, (1, 40), (39, 40)], ids=["no episodes", "of any length", "of equal length"])
def test_a_tree_on_numbers_without_ties_is_certain(lengths):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4))
    y = np.abs(rng.normal(size=5000)) * (1 + X[:, 1] ** 2)
    weights = None if lengths is None else 1 / rng.integers(*lengths, 5000)
    nodes = certain_tree(X, y, weights, 5, 20, None)
    assert nodes is not None
    assert len(nodes) > 20


@given(problems(), SEEDS)
def test_a_grouping_is_the_same_with_and_without_compiled_code(problem, seed):
    """Also where scikit-learn's random numbers decide between equal columns."""
    X, y, _ = problem
    examples = Examples(X, np.zeros(len(X), dtype=np.int64), y, 1, None)
    own = np.random.default_rng(seed)
    found = Tree(min_leaf=5, max_leaves=8).grow(examples, 100, own)
    expected = theirs(X, y, None, 5, 8, None, int(np.random.default_rng(seed).integers(2**31))) if len(X) >= 10 else None
    assert expected is None or np.array_equal(found.nodes, expected)


def test_equal_columns_are_left_to_scikit_learn():
    X = np.random.default_rng(0).normal(size=(200, 1))
    assert certain_tree(X[:, [0, 0]], X[:, 0] ** 2, None, 5, 8, None) is None
    assert certain_tree(X, X[:, 0] ** 2, None, 5, 8, None) is not None


def test_scores_that_are_not_numbers_are_left_to_scikit_learn():
    X = np.arange(40.0)[:, None]
    assert certain_tree(X, np.where(X[:, 0] > 30, np.inf, 1.0), None, 5, 8, None) is None
