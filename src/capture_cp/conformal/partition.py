"""A fixed partition of (input, stratum) pairs into groups: the paper's g(X, m)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints
from capture_cp.base.layouts import NODE

MOST_RARE = 8  # largest number of strata of a pool that are listed
BLOCK = 1 << 20  # rows counted at a time


@dataclass(frozen=True)
class Partition:
    """Binary trees over (x, features of the stratum), one root per stratum; every leaf is a group.

    One group, one group per stratum, one tree, and one tree per stratum all have this structure and share one look-up.
    """

    nodes: npt.NDArray[Any]  # NODE records
    roots: npt.NDArray[np.int32]  # (M,)
    stratum_features: Floats  # (M, df), features number dx, dx + 1, ...
    n_inputs: int  # dx
    #: (M,): the roots before some strata were isolated; None if none was.
    grown_roots: npt.NDArray[np.int32] | None = None
    #: (M,): strata that were too rare for their own groups and share some; None if strata are not merged.
    rare: Bools | None = None

    @cached_property
    def grown(self) -> Partition:
        """The partition as it was grown, before strata were isolated: coverage is guaranteed for its groups.

        Which strata are isolated depends on the calibration points. Regions can only grow by it, so the guarantee of each
        grown group remains valid. Conditional on a point being in none of the isolated strata, there is no guarantee.
        """
        if self.grown_roots is None:
            return self
        return replace(self, roots=self.grown_roots, grown_roots=None)

    @property
    def in_use(self) -> Ints:
        """The groups that thresholds are read from, in ascending order."""
        return np.array(sorted({leaf.group for leaf in self._leaves}), dtype=np.int64)

    @property
    def n_groups(self) -> int:
        return int(self.nodes["group"].max()) + 1

    @property
    def by_stratum(self) -> bool:
        """Whether the group of an input may differ between strata, or would if none were rare."""
        return len(np.unique(self.roots)) > 1 or self.stratum_features.shape[1] > 0 or self.rare is not None

    def groups(self, X: Floats, m: Ints) -> Ints:
        """Group of each pair X[i] (dx,), m[i]: (n,)."""
        self._check_inputs(X)
        if m.shape != X.shape[:1] or (len(m) and not 0 <= m.min() <= m.max() < len(self.roots)):
            raise CaptureError(
                f"strata have shape {m.shape} or are not all from 0 to {len(self.roots) - 1}; pass one stratum for each of "
                f"{len(X)} inputs. An infeasible configuration (-1) is in no group."
            )
        from capture_cp.kernels.tree import groups_of

        return np.asarray(groups_of(self.nodes, self.roots, self.stratum_features, X, m))

    def groups_everywhere(self, X: Floats) -> Ints:
        """Group of each input in every stratum: (n, M)."""
        self._check_inputs(X)
        from capture_cp.kernels.tree import groups_everywhere

        return np.asarray(groups_everywhere(self.nodes, self.roots, self.stratum_features, X))

    def _check_inputs(self, X: Floats) -> None:
        if X.ndim != 2 or X.shape[1] != self.n_inputs:
            raise CaptureError(f"inputs have shape {X.shape}; expected (n, {self.n_inputs}), as in fit.")

    def isolate(self, strata: Ints) -> Partition:
        """The same partition with a new, separate group for each of these strata; see `grown`."""
        if len(strata) == 0:
            return self
        nodes, roots = self._apart(strata)
        shared = self._sharing(strata)
        # for a stratum that did not share its groups, the guarantee refers to its new group
        grown = np.where(np.isin(np.arange(len(roots)), shared), self.roots, roots) if len(shared) else None
        return replace(self, nodes=nodes, roots=roots, grown_roots=grown)._compact()

    def _apart(self, strata: Ints) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
        """Nodes and roots with a new leaf and group for each of these strata; other groups keep their numbers."""
        roots = self.roots.copy()
        roots[strata] = len(self.nodes) + np.arange(len(strata))
        return np.concatenate([self.nodes, leaves(len(strata), self.n_groups)]), roots

    @property
    def base(self) -> Partition:
        """The grown partition without the groups of isolated strata: the part shared by calibrations on several logs."""
        grown, reached, todo = self.grown, set(), [int(root) for root in np.unique(self.grown.roots)]
        while todo:
            node = todo.pop()
            reached.add(node)
            if self.nodes["feature"][node] >= 0:
                todo += [int(self.nodes[side][node]) for side in ("left", "right")]
        return replace(grown, nodes=self.nodes[: max(reached) + 1])

    @property
    def opened(self) -> Bools:
        """Which strata are not isolated from the groups that they share: (M,)."""
        return np.asarray(self.roots == self.grown.roots)

    def reopened(self, opened: Bools) -> Partition:
        """The same groups, but with strata isolated that share groups and are not `opened` (M,).

        Groups keep their numbers; those of isolated strata come last.
        """
        base = self.base
        shared = base._sharing(np.flatnonzero(~opened))
        if len(shared) == 0:
            return base
        nodes, roots = base._apart(shared)
        return replace(base, nodes=nodes, roots=roots, grown_roots=base.roots)

    def same_groups(self, other: Partition) -> bool:
        """Whether both were grown from the same rows in the same way, so that their groups correspond."""
        mine, others = self.base, other.base
        arrays = ("nodes", "roots", "stratum_features", "rare")
        equal = all(np.array_equal(getattr(mine, name), getattr(others, name)) for name in arrays)
        return equal and mine.n_inputs == others.n_inputs

    def at_step(self, s: int, n_strata: int) -> Partition:
        """The part of a `stacked` partition, of M strata each, that belongs to step s (from 0)."""
        own = slice(s * n_strata, (s + 1) * n_strata)
        grown, rare = self.grown.roots[own], None if self.rare is None else self.rare[own]
        return Partition(self.nodes, self.roots[own], self.stratum_features[own], self.n_inputs, grown, rare)

    def describe(self, group: int, strata: Sequence[str], inputs: Sequence[str] | None = None) -> str:
        """The group as text: its strata, and the interval of each input that was split on."""
        names = list(inputs) if inputs is not None else [f"x{i}" for i in range(self.n_inputs)]
        for leaf in (*self._leaves, *self.grown._leaves):
            if leaf.group == group:
                everywhere = len(leaf.strata) == len(strata)
                where = "any stratum" if everywhere else self._listed(leaf.strata, strata)
                return " and ".join([where, *(_interval(names[f], *ends) for f, ends in leaf.intervals.items())])
        raise CaptureError(f"group {group} does not exist; groups run from 0 to {self.n_groups - 1}.")

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The partition as plain arrays by name, for a file."""
        nodes = {f"nodes.{field}": np.ascontiguousarray(self.nodes[field]) for field in NODE.names or ()}
        grown = {} if self.grown_roots is None else {"grown_roots": self.grown_roots}
        rare = {} if self.rare is None else {"rare": self.rare.astype(np.uint8)}
        return nodes | {"roots": self.roots, "stratum_features": self.stratum_features} | grown | rare

    def has_splits(self, group: int) -> bool:
        """Whether the group is only a part of its strata, split by the input."""
        return any(leaf.group == group and leaf.intervals for leaf in self._leaves)

    def components(self, strata: Sequence[str]) -> dict[str, Ints]:
        """Sets of strata that share groups, by name, and their groups: the finest sets that coverage is guaranteed for."""
        found: list[tuple[set[int], set[int]]] = []
        for leaf in self._leaves:
            here, groups = set(leaf.strata.tolist()), {leaf.group}
            for other in [known for known in found if known[0] & here or known[1] & groups]:
                found.remove(other)
                here, groups = here | other[0], groups | other[1]
            found.append((here, groups))
        found.sort(key=lambda one: min(one[0]))
        members = [np.array(sorted(here), dtype=np.int64) for here, _ in found]
        names = ["all" if len(here) == len(strata) else self._listed(here, strata) for here in members]
        return {name: np.array(sorted(groups), dtype=np.int64) for name, (_, groups) in zip(names, found)}

    def merged(self, strata: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Rare strata by name, with the other strata that each shares its groups with; isolated strata are not included."""
        found = {}
        for m in range(len(strata)):
            if self.rare is not None and self.rare[m]:
                sharing = np.flatnonzero(self.roots == self.roots[m]).tolist()
                found[strata[m]] = tuple(strata[other] for other in sharing if other != m)
        return {name: others for name, others in found.items() if others}

    def _listed(self, members: Ints, strata: Sequence[str]) -> str:
        """Strata that share groups, the rare ones last."""
        pooled = np.zeros(len(members), dtype=bool) if self.rare is None or len(members) == 1 else self.rare[members]
        usual, rare = ([strata[m] for m in part.tolist()] for part in (members[~pooled], members[pooled]))
        if len(rare) > MOST_RARE:
            rare = [*rare[:MOST_RARE], f"{len(rare) - MOST_RARE} more"]
        return ", ".join([*usual, *([f"rare: {', '.join(rare)}"] if rare else [])])

    def _compact(self) -> Partition:
        """The same partition without the groups that no stratum leads to."""
        used = np.union1d(self.in_use, self.grown.in_use)
        nodes = self.nodes.copy()
        leaf = nodes["feature"] < 0
        # an unreachable leaf keeps some valid number
        nodes["group"][leaf] = np.searchsorted(used, nodes["group"][leaf]).clip(0, len(used) - 1)
        return replace(self, nodes=nodes)

    def _sharing(self, strata: Ints) -> Ints:
        """Which of these strata share a group with a stratum that is not among them."""
        found = self._leaves
        elsewhere = {leaf.group for leaf in found if not np.isin(leaf.strata, strata).all()}
        sharing = [leaf.strata for leaf in found if leaf.group in elsewhere]
        return np.intersect1d(np.concatenate(sharing), strata) if sharing else np.empty(0, dtype=np.int64)

    @cached_property
    def _leaves(self) -> tuple[_Leaf, ...]:
        """Every leaf that some stratum leads to, from left to right."""
        return tuple(self._found_leaves())

    def _found_leaves(self) -> Iterator[_Leaf]:
        # an explicit stack instead of recursion: a tree may be arbitrarily deep
        todo = [_Below(int(root), np.flatnonzero(self.roots == root), {}) for root in np.unique(self.roots)[::-1]]
        while todo:
            node, strata, intervals = todo.pop()
            record = self.nodes[node]
            feature, threshold, right, left = (record[name].item() for name in ("feature", "threshold", "right", "left"))
            if len(strata) == 0:
                continue
            if feature < 0:
                yield _Leaf(int(record["group"]), strata, intervals)
            elif feature < self.n_inputs:
                low, high = intervals.get(feature, (-np.inf, np.inf))
                todo.append(_Below(right, strata, intervals | {feature: (max(low, threshold), high)}))
                todo.append(_Below(left, strata, intervals | {feature: (low, min(high, threshold))}))
            else:
                goes_left = np.float32(self.stratum_features[strata, feature - self.n_inputs]) <= threshold
                todo.append(_Below(right, strata[~goes_left], intervals))
                todo.append(_Below(left, strata[goes_left], intervals))


class _Below(NamedTuple):
    node: int
    strata: Ints
    intervals: dict[int, tuple[float, float]]


class _Leaf(NamedTuple):
    group: int
    strata: Ints
    intervals: dict[int, tuple[float, float]]  # of each input that was split on: above, up to and including


def _interval(name: str, low: float, high: float) -> str:
    if np.isinf(low):
        return f"{name} <= {high:.4g}"
    return f"{name} > {low:.4g}" if np.isinf(high) else f"{low:.4g} < {name} <= {high:.4g}"


def stacked(parts: Sequence[Partition]) -> Partition:
    """Several partitions of the same M strata and inputs side by side; the strata of part s are numbered from s * M."""
    nodes, firsts = joined([part.nodes for part in parts])
    roots, grown = (
        np.concatenate([one.roots + first for one, first in zip(several, firsts)])
        for several in (parts, [part.grown for part in parts])
    )
    features, flags = np.concatenate([part.stratum_features for part in parts]), [part.rare for part in parts]
    rare = None if any(flag is None for flag in flags) else np.concatenate([flag for flag in flags if flag is not None])
    return Partition(nodes, roots, features, parts[0].n_inputs, grown, rare)


def joined(trees: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """All trees in one node array, with node and group numbers shifted, and the first node of each."""
    firsts, parts, node, group = [], [], 0, 0
    for tree in trees:
        part = tree.copy()
        inner = part["feature"] >= 0
        part["left"][inner] += node
        part["right"][inner] += node
        part["group"][~inner] += group
        firsts.append(node)
        parts.append(part)
        node, group = node + len(part), group + int(tree["group"].max()) + 1
    return np.concatenate(parts), np.array(firsts, dtype=np.int32)


def leaves(count: int, first_group: int = 0) -> npt.NDArray[Any]:
    """`count` leaf nodes with groups numbered from `first_group`."""
    nodes = np.zeros(count, dtype=NODE)
    nodes["feature"] = nodes["left"] = nodes["right"] = -1
    nodes["group"] = first_group + np.arange(count)
    return nodes


def counts_of(labels: npt.NDArray[Any], count: int, where: Bools | None = None) -> Ints:
    """How often each label 0, ..., count - 1 occurs in labels (n,), or in its rows where `where` (n,) is true: (count,).

    They are counted in blocks: NumPy makes a copy of what it counts, of eight bytes per row.
    """
    found = np.zeros(count, dtype=np.int64)
    for first in range(0, len(labels), BLOCK):
        rows = slice(first, first + BLOCK)
        found += np.bincount(labels[rows] if where is None else labels[rows][where[rows]], minlength=count)
    return found
