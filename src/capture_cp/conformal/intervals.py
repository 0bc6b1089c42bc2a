"""A confidence interval for episodes: valid for any number of episodes of any, also unequal, lengths."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from capture_cp.base.checks import Floats, confidence_of_interval

#: Fractions of the capital bet on each episode; the capital is the mean over these strategies.
_BETS = np.geomspace(0.01, 0.98, 12)[:, None]
_HALVINGS = 50


def share_interval(hits: Floats, weights: Floats, level: float = 0.95) -> tuple[float, float]:
    """Confidence interval of θ = E[hits] / E[weights], from independent episodes with 0 <= hits <= weights <= 1, both (n,).

    For every θ, bets are placed against E[hits - θ weights] = 0, in both directions. Capital that starts at 1 has
    expectation 1 at the true θ, so it reaches 2 / (1 - level) with probability at most (1 - level) / 2 (Markov).
    The interval contains every θ at which no bet has reached that. Nothing is assumed about the distribution of the
    episodes: where few episodes cannot rule out a rare bad one, the interval is wide.

    >>> low, high = share_interval(np.array([0.9, 1.0, 0.8] * 20), np.ones(60))
    >>> 0.7 < low < 0.9 < high < 1.0
    True
    """
    if len(hits) == 0 or weights.sum() == 0:
        return 0.0, 1.0
    rich = math.log(2 / (1 - confidence_of_interval(level)))

    def too_low(theta: float) -> bool:  # capital falls as theta grows
        return _log_capital(hits / theta - weights) >= rich

    def too_high(theta: float) -> bool:
        return _log_capital((theta * weights - hits) / (1 - theta)) >= rich

    middle = float(np.clip(hits.sum() / weights.sum(), 1e-6, 1 - 1e-6))
    return _edge(too_low, middle, 0.0), _edge(too_high, middle, 1.0)


def _log_capital(gains: Floats) -> float:
    """Logarithm of the mean capital, where a bet b on an episode multiplies it by 1 + b * gains (n,), gains >= -1."""
    capitals = np.log1p(_BETS * gains).sum(axis=1)
    most = capitals.max()
    return float(most + np.log(np.exp(capitals - most).mean()))


def _edge(excluded: Callable[[float], bool], inside: float, end: float) -> float:
    """Where exclusion begins between `inside`, which is not excluded, and `end`; `end` itself if nothing is excluded."""
    outside = min(max(end, 1e-12), 1 - 1e-12)
    if not excluded(outside):
        return end
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if excluded(middle) else (middle, outside)
    return outside
