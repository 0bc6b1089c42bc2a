"""Rows grouped into episodes, whose steps are not independent: numbering, sampling, and splits of whole episodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Ints, whole_number
from capture_cp.base.streams import stream


def episode_numbers(episodes: Any, n: int) -> Ints:
    """The episode of each of n rows, given as numbers or text, as numbers 0, 1, ...: (n,)."""
    given = np.asarray(episodes)
    if given.shape != (n,) or given.dtype.kind not in "biufUSO":
        raise CaptureError(
            f"episodes has shape {given.shape} of {given.dtype}; expected ({n},): for each row the number or name of its "
            "episode."
        )
    try:
        missing = given != given  # NaN differs from itself
        if bool(np.any(missing)):
            row = int(np.flatnonzero(missing)[0])
            raise CaptureError(f"episodes has no value in row {row}; name the episode of every row.")
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        raise CaptureError("episodes mixes values that cannot be compared; use numbers or text for all episodes.") from None


def shuffled(n: int, rng: np.random.Generator) -> npt.NDArray[Any]:
    """The numbers 0 to n - 1 in the order of `rng.permutation(n)`, in half the memory."""
    numbers = np.arange(n, dtype=np.uint32 if n <= 1 << 32 else np.int64)
    rng.shuffle(numbers)
    return numbers


def one_of_each(labels: Ints, rng: np.random.Generator) -> Ints:
    """One random row for each different label (n,), in the order of the rows."""
    order = rng.permutation(len(labels))
    return np.sort(order[np.unique(labels[order], return_index=True)[1]])


def drawn_rows(episodes: Ints, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """1 where the row was drawn at random among those of its episode, else 0: (n,)."""
    drawn = np.zeros(len(episodes), dtype=np.uint8)
    drawn[one_of_each(episodes, rng)] = 1
    return drawn


def numbered_at_random(episodes: Ints, rng: np.random.Generator) -> Ints:
    """The episodes (n,) of n rows as numbers 0, 1, ... in random order, independent of the scores: (n,)."""
    _, number = np.unique(episodes, return_inverse=True)
    return rng.permutation(int(number.max(initial=-1)) + 1)[number].astype(np.int64)


def split_rows(n: int, shares: Sequence[float], episodes: Any = None, seed: int = 0) -> tuple[npt.NDArray[np.intp], ...]:
    """Row numbers of random parts of n rows, in ascending order; with `episodes`, no episode is split between parts.

    Args:
        n: number of rows.
        shares: fraction of each part, with a sum of at most 1; of the episodes if `episodes` is given, otherwise of the
            rows.
        episodes: which episode each row belongs to, (n,): numbers or text. All steps of an episode stay in one part.
        seed: same seed, same parts.

    >>> fit, check = split_rows(8, (0.75, 0.25), episodes=[0, 0, 1, 1, 2, 2, 3, 3])
    >>> len(fit), len(check), set(fit // 2) & set(check // 2)
    (6, 2, set())
    """
    part = part_of_rows(n, shares, episodes, seed)
    return tuple(np.flatnonzero(part == i) for i in range(len(shares)))


def part_of_rows(n: int, shares: Sequence[float], episodes: Any = None, seed: int = 0) -> npt.NDArray[np.int8]:
    """The part that `split_rows` assigns to each row, -1 for none: (n,), one byte each."""
    whole_number("n", n, 1)
    parts = np.asarray(shares, dtype=np.float64) if not isinstance(shares, str) else np.empty(0)
    if parts.ndim != 1 or not 0 < len(parts) < 128 or not (parts > 0).all() or parts.sum() > 1 + 1e-9:
        raise CaptureError(f"shares are {shares!r}; expected positive numbers that add up to at most 1, such as (0.8, 0.2).")
    number = None if episodes is None else episode_numbers(episodes, n)
    count = n if number is None else int(number.max()) + 1
    ends = np.rint(np.cumsum(parts) * count).astype(int)
    if (np.diff(ends, prepend=0) < 1).any():
        what = "rows" if episodes is None else "episodes"
        raise CaptureError(f"{count} {what} are too few for parts of {shares!r}; each part needs at least one.")
    part = np.full(count, -1, dtype=np.int8)
    drawn = shuffled(count, stream(whole_number("seed", seed, 0), "split_rows"))
    for i, (first, end) in enumerate(pairwise([0, *ends.tolist()])):
        part[drawn[first:end]] = i
    return part if number is None else np.asarray(part[number])
