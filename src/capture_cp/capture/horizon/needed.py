"""How many roll-outs a horizon takes, told before any is recorded."""

from __future__ import annotations

import math

from capture_cp.base.checks import CaptureError, confidence_level, failure_rate, whole_number
from capture_cp.conformal.quantile import draws_needed, size_needed

#: With at least this probability every group gets as many roll-outs as it needs.
SURE = 0.95


def rollouts_needed(
    alpha: float,
    confidence: float | None = None,
    steps: int = 1,
    groups: int = 1,
    *,
    simultaneous: bool = False,
    smallest: float | None = None,
    partition_share: float = 0.7,
) -> int:
    """Fewest roll-outs that give finite thresholds, those that make the groups included.

    A roll-out serves all of its steps, so for single steps their number matters only to `confidence`. Without it the answer
    does not depend on `steps`; with it, coverage holds for every step and group at once with that probability, each being
    asked for 1 - (1 - confidence) / (steps * groups). For all steps at once (`simultaneous`) there is one threshold, which
    groups and steps share; what they need are scales, from the roll-outs that make the groups.

    Args:
        alpha: allowed failure rate.
        confidence: as when asking for thresholds; None for coverage on average over calibration sets.
        steps: S, steps with a region.
        groups: groups a step, strata times leaves.
        simultaneous: whether all steps are to hold at once.
        smallest: share of roll-outs in the rarest group, 1 / groups unless given. Every group gets enough with a
            probability of 95 %.
        partition_share: share of roll-outs that make the groups, as in `Tree`.

    >>> rollouts_needed(0.1, steps=6, groups=3)
    177
    >>> rollouts_needed(0.1, steps=6, groups=3, simultaneous=True)
    336
    """
    alpha, confidence = failure_rate(alpha), confidence_level(confidence)
    steps, groups = whole_number("steps", steps, 1), whole_number("groups", groups, 1)
    rarest = 1 / groups if smallest is None else float(smallest)
    if not 0.0 < rarest <= 1 / groups:
        raise CaptureError(
            f"smallest is {smallest!r}; the rarest of {groups} groups has a share above 0, at most 1/{groups}."
        )
    if not 0.0 < partition_share < 1.0:
        raise CaptureError(f"partition_share is {partition_share!r}; expected a number between 0 and 1, such as 0.7.")
    many = steps * groups
    if simultaneous:
        thresholds = _parted(size_needed(alpha, confidence), 1 - partition_share)
        scales = _drawn(size_needed(alpha / steps), rarest, many)
        return max(thresholds, _parted(scales, partition_share))
    each = None if confidence is None else 1 - (1 - confidence) / many
    return _parted(_drawn(size_needed(alpha, each), rarest, many), 1 - partition_share)


def _drawn(needed: int, share: float, many: int) -> int:
    """Fewest draws of which `needed` fall in a group of that share, in all of `many` such groups, with probability SURE."""
    return draws_needed(needed, share, (1 - SURE) / many)


def _parted(rows: int, share: float) -> int:
    """Fewest roll-outs of which a part of that share has so many rows."""
    return math.ceil(rows / share - 1e-9)
