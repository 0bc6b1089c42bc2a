"""How calibration examples are grouped: not at all, by stratum, or by a regression tree (LOCART)."""

from __future__ import annotations

from abc import ABC
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from capture_cp.base.arrays import rows_where
from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, Labels, known_name, whole_number
from capture_cp.base.layouts import NODE
from capture_cp.base.params import Params
from capture_cp.conformal.episodes import drawn_rows, numbered_at_random, shuffled
from capture_cp.conformal.merging import Pools, pools, without_borrowers
from capture_cp.conformal.partition import Partition, counts_of, joined, leaves
from capture_cp.conformal.thresholds import EpisodeScores, FixedThreshold, GroupScores, Thresholds
from capture_cp.conformal.weighted import Ratios, WeightedScores

StratumInput = Literal["auto", "label", "features", "none"]


class Examples(NamedTuple):
    """The augmented calibration set: inputs X (n, dx), strata m (n,) of the outputs, scores R (n,)."""

    X: Floats
    m: Ints
    R: Floats
    n_strata: int
    stratum_features: Floats | None  # (M, df)
    episodes: Ints | None = None  # (n,): rows of one episode always stay together
    ratios: Ratios | None = None  # density ratio of new to logged inputs at each row; never together with episodes

    def weights(self) -> Floats | None:
        """Weight of each row, (n,): 1 / the length of its episode, or its ratio / the largest; None if all rows weigh 1.

        A leaf of sufficient weight can then expect a finite threshold, and a tree fits best where new rows are.
        """
        if self.ratios is not None:
            shares = self.ratios.weights / self.ratios.largest
            return None if shares.min() == 1.0 else shares
        if self.episodes is None:
            return None
        _, number, counts = np.unique(self.episodes, return_inverse=True, return_counts=True)
        return None if counts.max() == 1 else np.asarray(1.0 / counts[number])

    def rows(self, chosen: Bools) -> Examples:
        """Some of the examples, those `chosen` (n,)."""
        return self._replace(
            X=rows_where(chosen, self.X),
            m=self.m[chosen],
            R=self.R[chosen],
            episodes=None if self.episodes is None else self.episodes[chosen],
            ratios=None if self.ratios is None else self.ratios._replace(weights=self.ratios.weights[chosen]),
        )


class Groups(Params, ABC):
    """Base class of groupings of (input, stratum) pairs. To add one, subclass it and implement `held_out` and `grow`.

    A grouping that needs all rows at once may implement `split` instead; it cannot be fitted to a log that is read in
    pieces.
    """

    def split(self, examples: Examples, rng: np.random.Generator) -> tuple[Partition, Bools]:
        """A partition, and which rows (n,) it was *not* made from: only those may set thresholds."""
        self.check_inputs(examples.X)
        held_out = self.held_out(len(examples.R), examples.episodes, rng)
        return self.grow(examples.rows(~held_out), _count(held_out, examples.episodes), rng), held_out

    def held_out(self, n: int, episodes: Ints | None, rng: np.random.Generator) -> Bools:
        """Which of n rows are not used to make the groups, so that they may set thresholds: bool (n,).

        Rows of one episode, `episodes` (n,) numbered 0, 1, ..., always stay together.
        """
        raise NotImplementedError(f"{type(self).__name__} needs held_out and grow, or split")

    def grow(self, growing: Examples, others: int, rng: np.random.Generator) -> Partition:
        """The groups, made from the rows `growing`; `others` is the number of rows, or episodes, that are held out."""
        raise NotImplementedError(f"{type(self).__name__} needs held_out and grow, or split")

    def check_inputs(self, X: Floats) -> None:
        """Raise an error if inputs X (n, dx) cannot be grouped."""

    def calibrate(self, examples: Examples, rng: np.random.Generator) -> tuple[Partition, Thresholds]:
        """Partition and thresholds, from disjoint rows (Algorithm 1, lines 6 to 9)."""
        partition, held_out = self.split(examples, rng)
        episodes, M = examples.episodes, examples.n_strata
        if episodes is not None and np.isin(episodes[held_out], episodes[~held_out]).any():
            raise CaptureError(
                f"{type(self).__name__}.split separates rows of one episode; keep the rows of each episode together."
            )
        known = examples.rows(held_out)
        partition = without_borrowers(partition, met(examples.m, M), met(known.m, M))
        group = partition.groups(known.X, known.m)
        return partition, scores_of_groups(known.R, group, partition.n_groups, known.episodes, known.ratios, rng)


def met(m: npt.NDArray[Any], n_strata: int, where: Bools | None = None) -> Bools:
    """Which strata occur in m (n,), or in its rows where `where` (n,) is true: bool (M,)."""
    return counts_of(m, n_strata, where) > 0


def scores_of_groups(
    R: Floats,
    group: Labels,
    n_groups: int,
    episodes: Ints | None,
    ratios: Ratios | None,
    rng: np.random.Generator,
    overwrite: bool = False,
) -> Thresholds:
    """The scores R (n,) that set thresholds, by group (n,); by episode (n,) or weighted by ratios, where given.

    With `overwrite`, R and `group` may be used as work arrays.
    """
    if ratios is not None:
        return WeightedScores.collected(R, group, n_groups, ratios.weights, ratios.largest)
    if episodes is None:
        return GroupScores.from_groups(R, group, n_groups, overwrite)
    return EpisodeScores.collected(R, group, n_groups, drawn_rows(episodes, rng), numbered_at_random(episodes, rng))


def _count(chosen: Bools, episodes: Ints | None) -> int:
    """Number of `chosen` rows (n,), or of their episodes if `episodes` (n,) is given."""
    return int(chosen.sum()) if episodes is None else len(np.unique(episodes[chosen]))


class OneGroup(Groups):
    """A single threshold for all inputs and strata, as in split conformal prediction and PCP."""

    def held_out(self, n: int, episodes: Ints | None, rng: np.random.Generator) -> Bools:
        return np.ones(n, dtype=bool)

    def grow(self, growing: Examples, others: int, rng: np.random.Generator) -> Partition:
        return _plain(leaves(1), np.zeros(growing.n_strata, dtype=np.int32), growing)


class Uncalibrated(OneGroup):
    """A constant threshold without a guarantee: the baseline for conformal prediction."""

    def __init__(self, threshold: float = 0.0) -> None:
        self.threshold = threshold

    def calibrate(self, examples: Examples, rng: np.random.Generator) -> tuple[Partition, Thresholds]:
        return self.split(examples, rng)[0], FixedThreshold(self.threshold)


class PerStratum(Groups):
    """One threshold per stratum, the same for all inputs.

    Every row sets thresholds, so no rows are left to determine which strata are rare. To merge rare strata, reserve some
    rows for that: `Tree(max_leaves=1, partition_share=0.3, min_stratum=18)`.
    """

    def held_out(self, n: int, episodes: Ints | None, rng: np.random.Generator) -> Bools:
        return np.ones(n, dtype=bool)

    def grow(self, growing: Examples, others: int, rng: np.random.Generator) -> Partition:
        return _plain(leaves(growing.n_strata), np.arange(growing.n_strata, dtype=np.int32), growing)


class Tree(Groups):
    """Leaves of a regression tree that predicts the score from the input and the stratum (LOCART).

    Args:
        per_stratum: grow one tree per stratum, so that coverage is guaranteed for every stratum. False is the paper's
            single tree, which may or may not split on the stratum: coverage is then guaranteed for every leaf.
        partition_share: fraction of the examples that grow the tree; the others set the thresholds.
        min_leaf: smallest number of partition examples in a leaf. If rows are steps of episodes, episodes are counted, and
            each step counts as its fraction of one; with a shift, each row counts as its ratio divided by the largest.
        max_leaves: largest number of leaves of a tree, None for no limit.
        max_depth: largest number of splits between the root of a tree and a leaf, None for no limit.
        prune: choose the tree's size by cost-complexity pruning, validated on a third of the partition examples.
        stratum_input: how a single tree sees the stratum: "label" (its number, as in the paper), "features" (those of the
            strata), "auto" (features if there are any, otherwise the label), or "none".
        min_stratum: with one tree per stratum, merge the strata that can expect fewer calibration examples than this. They
            share one tree, and coverage is guaranteed for them together. The expected number is computed from the
            partition examples alone (from episodes that visit it, if rows are steps of episodes), so it remains valid. None
            merges nothing: a stratum with fewer calibration examples than alpha needs, 9 for 0.1, then has an infinite
            threshold. With twice that number, 18, and the default share, a stratum that is not merged has an infinite
            threshold in fewer than one of a hundred logs. A stratum without any example stays infinite. If all rare strata
            together expect too few, they join the stratum most similar to them, see `merging.pools`; coverage is then
            guaranteed for it and them together.
        max_growing: largest number of examples that grow the tree, None for no limit. In a long log all others set
            thresholds: more rows make thresholds more precise, but hardly improve a tree with so few leaves.
    """

    def __init__(
        self,
        per_stratum: bool = True,
        partition_share: float = 0.7,
        min_leaf: int = 300,
        max_leaves: int | None = 20,
        max_depth: int | None = None,
        prune: bool = False,
        stratum_input: StratumInput = "auto",
        min_stratum: int | None = None,
        max_growing: int | None = 1_000_000,
    ) -> None:
        self.per_stratum = per_stratum
        self.partition_share = partition_share
        self.min_leaf = min_leaf
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.prune = prune
        self.stratum_input = stratum_input
        self.min_stratum = min_stratum
        self.max_growing = max_growing

    def held_out(self, n: int, episodes: Ints | None, rng: np.random.Generator) -> Bools:
        """Rows that are not used to grow the tree: a random fraction of the rows, or of whole episodes."""
        self._check()
        number = None if episodes is None else np.unique(episodes, return_inverse=True)[1]
        count = n if number is None else int(number.max()) + 1
        held_out = np.ones(count, dtype=bool)
        held_out[shuffled(count, rng)[: self.growing(n, count)]] = False
        return held_out if number is None else np.asarray(held_out[number])

    def growing(self, rows: int, count: int) -> int:
        """How many of `count` rows or episodes grow the tree, if the log has `rows` rows in total."""
        most = count if self.max_growing is None else max(1, self.max_growing * count // rows)
        return min(int(count * self.partition_share), most)

    def grow(self, growing: Examples, others: int, rng: np.random.Generator) -> Partition:
        self._check()
        rows = np.arange(len(growing.R))
        if not self.per_stratum:
            features = self._stratum_features(growing)
            nodes, roots = joined([self._grow(growing, rows, features, rng)])
            return Partition(nodes, np.repeat(roots, growing.n_strata), features, growing.X.shape[1])
        pooled = self._pools(growing, others)
        of_row, (firsts, tree) = pooled.first[growing.m], np.unique(pooled.first, return_inverse=True)
        nodes, roots = joined([self._grow(growing, rows[of_row == first], None, rng) for first in firsts])
        rare = None if self.min_stratum is None else pooled.rare
        return _plain(nodes, roots[tree], growing, rare)

    def check_inputs(self, X: Floats) -> None:
        if np.abs(X).max() > np.finfo(np.float32).max:
            raise CaptureError("X has values beyond 3.4e38, which a tree cannot split on; rescale its columns.")

    def _pools(self, growing: Examples, others: int) -> Pools:
        """Which strata share a tree."""
        if self.min_stratum is None:
            return Pools(np.arange(growing.n_strata), np.zeros(growing.n_strata, dtype=bool))
        return pools(growing, others, self.min_stratum)

    def _stratum_features(self, examples: Examples) -> Floats:
        own, choice = examples.stratum_features, self.stratum_input
        if choice == "none":
            return np.empty((examples.n_strata, 0))
        if choice == "features" and own is None:
            raise CaptureError('Tree(stratum_input="features") needs strata with features; add features or use "label".')
        if choice == "label" or own is None:
            return np.arange(examples.n_strata, dtype=np.float64)[:, None]
        return own

    def _grow(
        self, examples: Examples, rows: npt.NDArray[np.intp], features: Floats | None, rng: np.random.Generator
    ) -> npt.NDArray[Any]:
        """CART on (X, features of m) with the score as target: nodes of one tree."""
        weights = examples.weights()
        weights = None if weights is None else weights[rows]
        if (len(rows) if weights is None else weights.sum()) < 2 * self.min_leaf or self.max_leaves == 1:
            return leaves(1)
        inputs = examples.X if len(rows) == len(examples.X) else examples.X.take(rows, axis=0)
        if features is not None:
            inputs = np.hstack([inputs, features[examples.m[rows]]])
        scores, seed = examples.R[rows], int(rng.integers(2**31))
        return _tree_nodes(self._fit_cart(inputs, scores, weights, seed, rng))

    def _fit_cart(self, inputs: Floats, scores: Floats, weights: Floats | None, seed: int, rng: np.random.Generator) -> Any:
        from sklearn.tree import DecisionTreeRegressor

        def cart(leaf: int, weights: Floats | None, penalty: float = 0.0) -> Any:
            """A tree whose leaves have at least this many rows, or this much weight."""
            size = (
                {"min_samples_leaf": leaf}
                if weights is None
                else {"min_weight_fraction_leaf": min(0.5, leaf / weights.sum())}
            )
            most = {"max_leaf_nodes": self.max_leaves, "max_depth": self.max_depth}
            return DecisionTreeRegressor(random_state=seed, ccp_alpha=penalty, **most, **size)

        if not self.prune or len(scores) < 6:
            return cart(self.min_leaf, weights).fit(inputs, scores, weights)
        order = rng.permutation(len(scores))
        check, grow = np.split(order, [len(order) // 3])
        smaller_leaf = max(1, self.min_leaf * 2 // 3)
        of_check, of_grow = (None if weights is None else weights[part] for part in (check, grow))
        part = inputs[grow], scores[grow], of_grow
        path = cart(smaller_leaf, of_grow).cost_complexity_pruning_path(*part)
        candidates = np.unique(np.quantile(np.maximum(path.ccp_alphas, 0.0), np.linspace(0, 1, 16)))
        errors = [
            np.average((fitted.predict(inputs[check]) - scores[check]) ** 2, weights=of_check)
            for penalty in candidates
            for fitted in [cart(smaller_leaf, of_grow, penalty).fit(*part)]
        ]
        return cart(self.min_leaf, weights, candidates[int(np.argmin(errors))]).fit(inputs, scores, weights)

    def _check(self) -> None:
        if not (isinstance(self.partition_share, float | np.floating) and 0.0 < self.partition_share < 1.0):
            raise CaptureError(
                f"partition_share is {self.partition_share!r}; expected a number between 0 and 1, such as 0.7."
            )
        for name in ("min_leaf", "max_leaves", "max_depth", "max_growing", "min_stratum"):
            if name == "min_leaf" or getattr(self, name) is not None:
                whole_number(name, getattr(self, name), 1)
        known_name("stratum_input", self.stratum_input, get_args(StratumInput))
        if self.min_stratum is not None and not self.per_stratum:
            raise CaptureError(
                "min_stratum merges strata with one tree each, but with per_stratum=False a single tree shares leaves "
                "between strata by itself; set only one of the two."
            )


def _plain(
    nodes: npt.NDArray[Any], roots: npt.NDArray[np.int32], examples: Examples, rare: Bools | None = None
) -> Partition:
    """A partition that uses no features of the strata."""
    return Partition(nodes, roots, np.empty((examples.n_strata, 0)), examples.X.shape[1], rare=rare)


def _tree_nodes(cart: Any) -> npt.NDArray[Any]:
    tree = cart.tree_
    nodes = np.zeros(tree.node_count, dtype=NODE)
    leaf = tree.children_left < 0
    nodes["feature"] = np.where(leaf, -1, tree.feature)
    nodes["threshold"] = np.where(leaf, 0.0, tree.threshold)
    nodes["left"], nodes["right"] = tree.children_left, tree.children_right
    nodes["group"] = np.where(leaf, np.cumsum(leaf) - 1, -1)
    return nodes
