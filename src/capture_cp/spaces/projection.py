"""Moves configurations until pairs have given distances, by Gauss-Newton steps of least length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from capture_cp.base.checks import Bools, Floats

STEPS = 20
#: Half the width of a central difference, in units of the coordinates.
NUDGE = 1e-6
#: Regularisation of the normal equations, relative to their diagonal: redundant contacts make them singular.
DAMPING = 1e-6
#: Fraction of a contact's thickness within which a row counts as having reached its middle.
ARRIVED = 0.05


def project_rows(
    distances: Callable[[Floats], Floats], Y: Floats, touching: Bools, tolerance: float, depth: float
) -> Floats:
    """Configurations Y (n, dc) moved until the pairs `touching` (pairs,) touch and no others do: (n, dc).

    Touching pairs are brought to the middle of -depth..tolerance, others to a quarter of its thickness beyond the tolerance
    if they are nearer. `distances` maps configurations to signed distances (n, pairs). A step that makes things worse is
    undone and retried at a quarter of its length. Rows may fail to arrive; the caller must check.
    """
    thickness = tolerance + depth
    middle, clear = (tolerance - depth) / 2, tolerance + thickness / 4
    found, share, left = Y.copy(), np.ones(len(Y)), np.arange(len(Y))

    def misses(measured: Floats) -> Floats:
        """How much the distances (n, pairs) should grow."""
        return np.where(touching, middle - measured, np.maximum(clear - measured, 0.0))

    measured = distances(found) if len(Y) else np.empty((0, len(touching)))
    for _ in range(STEPS):
        wanted = misses(measured)
        # other pairs need no exact distance, only whether it is above the tolerance
        late = np.where(touching, np.abs(wanted) > ARRIVED * thickness, wanted > thickness / 8).any(axis=1)
        left, measured, wanted = left[late], measured[late], wanted[late]
        if not len(left):
            break
        step = _least_step(distances, found[left], wanted)
        tried = found[left] + share[left, None] * step
        after = distances(tried)
        better = np.abs(misses(after)).max(axis=1) < np.abs(wanted).max(axis=1)
        found[left[better]], measured[better] = tried[better], after[better]
        share[left] = np.where(better, np.minimum(1.0, 2 * share[left]), share[left] / 4)
    return found


def _least_step(distances: Callable[[Floats], Floats], Y: Floats, wanted: Floats) -> Floats:
    """The shortest steps (n, dc) that change the distances by `wanted` (n, pairs); pairs with 0 are unconstrained."""
    n, dims = Y.shape
    nudges = NUDGE * np.vstack([np.eye(dims), -np.eye(dims)])
    around = distances((Y[:, None] + nudges).reshape(-1, dims)).reshape(n, 2, dims, -1)
    slopes = np.swapaxes(around[:, 0] - around[:, 1], 1, 2) / (2 * NUDGE)  # (n, pairs, dc)
    slopes = np.where((wanted != 0)[..., None], slopes, 0.0)
    normal = slopes @ np.swapaxes(slopes, 1, 2)
    diagonal = np.einsum("nii->ni", normal)
    diagonal += np.maximum(DAMPING * diagonal.max(axis=1, keepdims=True), 1e-300)
    return np.asarray(np.einsum("nij,ni->nj", slopes, np.linalg.solve(normal, wanted[..., None])[..., 0]))
