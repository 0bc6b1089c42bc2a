"""Are new data like those of the calibration? Tests that are exact at any size, with Holm's correction for several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from capture_cp.checks import CaptureError, Floats, Ints, finite_array

LEVELS = 63  # quantiles of a column that a calibration keeps
MOST_ROWS = 10_000  # rows that they are taken from


def column_quantiles(X: Floats) -> dict[str, Any]:
    """Order statistics of each column of X (n, dx), as plain lists that a calibration can keep.

    Evenly spaced rows stand for very many: under exchangeability any rows do that are not chosen by their values.
    """
    rows = X[:: -(-len(X) // MOST_ROWS)]
    ranks = np.unique(np.rint(np.arange(1, LEVELS + 1) / (LEVELS + 1) * (len(rows) + 1)).astype(int).clip(1, len(rows)))
    values = np.partition(rows, ranks - 1, axis=0)[ranks - 1].T
    return {"rows": len(rows), "ranks": ranks.tolist(), "values": values.tolist()}


def column_p_values(summary: Mapping[str, Any], X: Floats, level: float, rng: np.random.Generator) -> Floats:
    """For each column of new inputs X (m, dx), how likely a distance this large from the calibration's is: (dx,).

    The distance is Kolmogorov and Smirnov's, at the kept order statistics. Were new and old inputs exchangeable, the shares
    of new ones between order statistics would be a Dirichlet draw, whatever their distribution; from it the distance is
    drawn often enough for Holm's test of all columns at `level`. Ties only shorten the distance.
    """
    n, ranks, values = _checked_summary(summary, X.shape[1])
    aim = ranks / (n + 1)
    ordered = np.sort(X, axis=0)
    found = np.empty(X.shape[1])
    for column, marks in enumerate(values):
        upto, below = (np.searchsorted(ordered[:, column], marks, side) / len(X) for side in ("right", "left"))
        found[column] = np.maximum(np.maximum(aim - upto, below - aim), 0.0).max()
    draws = _draws(len(found), level)
    shares = rng.dirichlet(np.diff(np.concatenate([[0], ranks, [n + 1]])), size=draws)
    between = rng.multinomial(len(X), shares)[:, :-1]
    by_luck = np.sort(np.abs(np.cumsum(between, axis=1) / len(X) - aim).max(axis=1))
    as_large = draws - np.searchsorted(by_luck, found * (1 - 1e-12))
    return np.asarray((1 + as_large) / (1 + draws))


def shortfall_p_value(
    held: int, trials: Ints, sizes: Ints, ranks: Ints, level: float, tests: int, rng: np.random.Generator
) -> float:
    """How likely it is that at most `held` of new outcomes pass their thresholds, if nothing has changed.

    Group j has `trials[j]` new outcomes, and its threshold is the `ranks[j]`-th of `sizes[j]` calibration scores. Its
    coverage is then a draw from Beta(k, n + 1 - k), so the luck of the calibration counts as well as that of the batch.
    """
    draws = _draws(tests, level)
    passed = np.zeros(draws, dtype=np.int64)
    for m, n, k in zip(trials, sizes, ranks):
        passed += int(m) if k > n else rng.binomial(m, rng.beta(k, n + 1 - k, size=draws))
    return float((1 + (passed <= held).sum()) / (1 + draws))


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """P-values corrected for their number by Holm's procedure: those at most a level are rejected at that family error."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def _draws(tests: int, level: float) -> int:
    """Draws after which the smallest possible p-value is well under level / tests."""
    return int(min(max(math.ceil(5 * max(tests, 1) / level), 2_000), 200_000))


def _checked_summary(summary: Mapping[str, Any], columns: int) -> tuple[int, Ints, Floats]:
    try:
        ranks = np.asarray(summary["ranks"], dtype=np.int64)
        values = finite_array("the kept quantiles", summary["values"], (columns, len(ranks)), "(dx, levels)")
        n = int(summary["rows"])
        sound = ranks.ndim == 1 and len(ranks) > 0 and ranks[0] >= 1 and ranks[-1] <= n and bool((np.diff(ranks) > 0).all())
    except (KeyError, TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise CaptureError("the quantiles of the inputs that the calibration keeps are damaged; calibrate again.")
    return n, ranks, values
