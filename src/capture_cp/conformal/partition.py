"""A fixed partition of (input, stratum) pairs into groups: the paper's g(X, m)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.checks import CaptureError, Floats, Ints
from capture_cp.kernels.tree import NODE, groups_everywhere, groups_of, threshold_of


@dataclass(frozen=True)
class Partition:
    """Binary trees over (x, features of the stratum), one root a stratum; every leaf is a group.

    One group, one group a stratum, one tree, and one tree a stratum are all this structure, so they share one look-up.
    """

    nodes: npt.NDArray[Any]  # NODE records
    roots: npt.NDArray[np.int32]  # (M,)
    stratum_features: Floats  # (M, df), the features numbered dx, dx + 1, ...
    n_inputs: int  # dx

    @property
    def n_groups(self) -> int:
        return int(self.nodes["group"].max()) + 1

    @property
    def by_stratum(self) -> bool:
        """Whether the group of an input may differ between strata."""
        return len(np.unique(self.roots)) > 1 or self.stratum_features.shape[1] > 0

    def groups(self, X: Floats, m: Ints) -> Ints:
        """Group of each pair X[i] (dx,), m[i]: (n,)."""
        return np.asarray(groups_of(self.nodes, self.roots, self.stratum_features, X, m))

    def groups_everywhere(self, X: Floats) -> Ints:
        """Group of each input in every stratum: (n, M)."""
        return np.asarray(groups_everywhere(self.nodes, self.roots, self.stratum_features, X))

    def isolate(self, strata: Ints) -> Partition:
        """The same partition with a new group of its own for each of the given strata."""
        first, group = len(self.nodes), self.n_groups
        roots = self.roots.copy()
        roots[strata] = first + np.arange(len(strata))
        nodes = np.concatenate([self.nodes, leaves(len(strata), group)])
        return Partition(nodes, roots, self.stratum_features, self.n_inputs)

    def describe(self, group: int, strata: Sequence[str], inputs: Sequence[str] | None = None) -> str:
        """The group in words: its strata and the splits on the input that lead to it."""
        names = list(inputs) if inputs is not None else [f"x{i}" for i in range(self.n_inputs)]
        for root in np.unique(self.roots):
            found = self._path(int(root), group, np.flatnonzero(self.roots == root), names)
            if found is not None:
                here, splits = found
                where = "any stratum" if len(here) == len(strata) else ", ".join(strata[m] for m in here)
                return " and ".join([where, *splits])
        raise CaptureError(f"group {group} does not exist; groups run from 0 to {self.n_groups - 1}.")

    def _path(self, node: int, group: int, strata: Ints, names: list[str]) -> tuple[Ints, list[str]] | None:
        """Strata and splits with which `group` is reached from `node`; None where it is not."""
        record = self.nodes[node]
        feature, threshold = int(record["feature"]), float(record["threshold"])
        if feature < 0:
            return (strata, []) if record["group"] == group else None
        own = feature - self.n_inputs
        for side, sign in (("left", "<="), ("right", ">")):
            below = strata
            if own >= 0:
                goes_left = np.float32(self.stratum_features[strata, own]) <= threshold
                below = strata[goes_left if side == "left" else ~goes_left]
            found = self._path(int(record[side]), group, below, names)
            if found is not None:
                split = [] if own >= 0 else [f"{names[feature]} {sign} {threshold:.4g}"]
                return found[0], split + found[1]
        return None


class ThresholdTable:
    """Thresholds of one calibration at one alpha, for a control loop: `table(x, m)` takes under a microsecond.

    `x` is a contiguous float64 array (dx,) and `m` a stratum number; nothing is checked.
    """

    __slots__ = ("_arrays", "thresholds")

    def __init__(self, partition: Partition, thresholds: Floats) -> None:
        self._arrays = (partition.nodes, partition.roots, partition.stratum_features, thresholds)
        self.thresholds = thresholds

    def __call__(self, x: Floats, m: int) -> float:
        nodes, roots, features, thresholds = self._arrays
        return threshold_of(nodes, roots, features, thresholds, x, m)  # type: ignore[no-any-return]


def leaves(count: int, first_group: int = 0) -> npt.NDArray[Any]:
    """`count` leaf nodes with groups numbered from `first_group`."""
    nodes = np.zeros(count, dtype=NODE)
    nodes["feature"] = nodes["left"] = nodes["right"] = -1
    nodes["group"] = first_group + np.arange(count)
    return nodes
