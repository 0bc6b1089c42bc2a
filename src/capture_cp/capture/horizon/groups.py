"""Groups of a horizon: every step is grouped by itself, so that no group ever holds two scores of one roll-out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.conformal.groups import Examples, Groups
from capture_cp.conformal.partition import Partition


def split_by_step(
    groups: Groups,
    X: Floats,
    m: Ints,
    R: Floats,
    units: Ints,
    n_strata: int,
    features: Floats | None,
    random: Callable[[], np.random.Generator],
) -> tuple[Partition, Bools]:
    """One partition for all steps, and the roll-outs (n,) that it was *not* made from.

    Inputs X (n, S, dx), strata m (n, S) and scores R (n, S) of S steps. The root of step s (from 0) and stratum m is
    `roots[s * M + m]`. `random` gives every step the same random numbers, so that it leaves out the same roll-outs.
    """
    parts, held_out = [], np.ones(len(R), dtype=bool)
    for s in range(R.shape[1]):
        examples = Examples(np.ascontiguousarray(X[:, s]), m[:, s], R[:, s], n_strata, features, units)
        part, left_out = groups.split(examples, random())
        if part.by_stratum:
            # as for one step: a stratum without a calibration score borrows no other's threshold
            part = part.isolate(np.setdiff1d(np.arange(n_strata), m[left_out, s]))
        parts.append(part)
        held_out &= left_out
    return stack(parts), held_out


def stack(parts: Sequence[Partition]) -> Partition:
    """Several partitions of the same strata and inputs side by side; the strata of part s are numbered from s * M."""
    nodes, roots, grown, node, group = [], [], [], 0, 0
    for part in parts:
        moved = part.nodes.copy()
        inner = moved["feature"] >= 0
        moved["left"][inner] += node
        moved["right"][inner] += node
        moved["group"][~inner] += group
        nodes.append(moved)
        roots.append(part.roots + np.int32(node))
        grown.append(part.grown.roots + np.int32(node))
        node, group = node + len(moved), group + part.n_groups
    features = np.concatenate([part.stratum_features for part in parts])
    return Partition(np.concatenate(nodes), np.concatenate(roots), features, parts[0].n_inputs, np.concatenate(grown))


def at_step(partition: Partition, s: int, n_strata: int) -> Partition:
    """The part of a stacked partition that belongs to step s (from 0)."""
    own = slice(s * n_strata, (s + 1) * n_strata)
    grown = partition.grown.roots[own]
    return Partition(partition.nodes, partition.roots[own], partition.stratum_features[own], partition.n_inputs, grown)


def groups_of_steps(partition: Partition, X: Floats, m: Ints, n_strata: int) -> Ints:
    """Group of every input X (n, S, dx) in its stratum m (n, S): (n, S)."""
    parts = [at_step(partition, s, n_strata) for s in range(m.shape[1])]
    return np.stack([part.groups(np.ascontiguousarray(X[:, s]), m[:, s]) for s, part in enumerate(parts)], axis=1)
