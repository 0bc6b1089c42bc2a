"""Warnings about possible problems in a log that can still be used, and how commands print them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import numpy as np
from rich.console import Console

from capture_cp.base.checks import CaptureWarning
from capture_cp.capture.capture import Capture
from capture_cp.commands.options import axes_before
from capture_cp.data.roles import wraps
from capture_cp.data.transitions import Transitions

TOO_FEW = "too few calibration points"
SMALL_STEP = 1.0  # rad: where most steps are larger, one of a full turn says nothing
ORDERS = 6.0  # decimal orders of magnitude between scales from which units are taken to be mixed


@contextmanager
def listening() -> Iterator[list[str]]:
    """A list that after the block holds our warnings, each once, except the one that `group_cautions` replaces."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CaptureWarning)
        warnings.filterwarnings("ignore", message=TOO_FEW, category=CaptureWarning)
        yield found
    found += dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, CaptureWarning))


def print_cautions(console: Console, cautions: Sequence[str]) -> None:
    """Print warnings as they are, one by one."""
    for caution in cautions:
        console.print(f"warning: {caution}", style="yellow", highlight=False, markup=False)


def print_alarm(console: Console, sentence: str) -> NoReturn:
    """Print what is wrong, and end the command with the status of an alarm."""
    console.print(sentence, style="red", highlight=False, markup=False)
    raise SystemExit(1)


def log_cautions(
    cap: Capture, log: Transitions, new: Transitions, alpha: float, confidence: float | None, seed: int
) -> list[str]:
    """Warnings about the units of a log, the groups of a calibration, and `new` transitions far from their prediction."""
    return [*unit_cautions(log), *group_cautions(cap, alpha, confidence, log.X_names), *far_cautions(cap, new, seed)]


def fit_cautions(
    cap: Capture, log: Transitions, angles: Sequence[str], shared: Sequence[tuple[str, str, int, int]], estimated: bool
) -> list[str]:
    """Warnings about a log that was split and calibrated on: its angles, the rows that parts share, merged strata."""
    return [*turn_cautions(log, angles), *duplicate_cautions(shared, estimated), *merge_cautions(cap)]


def group_cautions(cap: Capture, alpha: float, confidence: float | None, inputs: Sequence[str] | None) -> list[str]:
    """Groups that are too small for a finite threshold, and what helps: it differs between leaves and whole strata."""
    rest = getattr(cap.strata, "rest", None)  # a stratum for what nobody expects may well be empty
    sizes, names = cap.calibration_.counted(confidence), cap.strata.names
    infinite = np.flatnonzero(np.isinf(cap.calibration_.at(alpha, confidence))).tolist()
    words = {j: cap.describe_group(j, inputs) for j in infinite}
    small = [j for j in infinite if rest is None or (words[j], sizes[j]) != (names[rest], 0)]
    if not small:
        return []
    shown = ", ".join(f"{words[j]} has {sizes[j]}" for j in small[:4])
    more = f", and {len(small) - 4} more groups" if len(small) > 4 else ""
    leaves = any(len(groups) > 1 and np.isin(small, groups).any() for groups in cap.partition_.components(names).values())
    help = "log more transitions that end there" + (", calibrate with a larger --min-leaf" if leaves else "")
    so = (
        "Their thresholds are infinite, so a region contains the whole stratum there"
        if cap.farthest is None
        else f"Only --farthest {cap.farthest:g} limits a region there"
    )
    needed = cap.calibration_.needed(alpha, confidence)
    return [f"{TOO_FEW} for alpha = {alpha:g}: {shown}{more}; {needed} are needed. {so}; {help}, or raise --alpha."]


def merge_cautions(cap: Capture) -> list[str]:
    """Strata that share thresholds because each of them is rare."""
    rare, fewest = list(cap.merged_), getattr(cap.groups_, "min_stratum", None)
    if not rare:
        return []
    hosts = sorted({name for others in cap.merged_.values() for name in others} - set(rare), key=cap.strata.names.index)
    shown = ", ".join(rare[:8]) + (f", and {len(rare) - 8} more" if len(rare) > 8 else "")
    share = "shares its thresholds" if len(rare) == 1 else "share their thresholds"
    return [
        f"rare strata are merged: {shown} {share}{' with ' + ', '.join(hosts) if hosts else ''}, because fewer than "
        f"{fewest} calibration transitions are expected in each. Coverage is guaranteed for them together, not for each; "
        "log more transitions that end there, or give --min-stratum 0 to keep them apart."
    ]


def far_cautions(cap: Capture, log: Transitions, seed: int) -> list[str]:
    """Warnings about transitions that end farther from their prediction than --farthest."""
    if cap.farthest is None:
        return []
    R = cap.scores(cap.predict(log.X, seed), log.next)
    beyond = int((cap.farthest < R).sum())
    trouble = (
        f"{beyond} of {len(R)} transitions are farther from their prediction than {cap.farthest:g}, up to {R.max():.4g}: "
        "--farthest is too small, so coverage is not guaranteed where it limits regions; calibrate with a larger value, or "
        "without it."
    )
    return [trouble] if beyond else []


def unit_cautions(log: Transitions) -> list[str]:
    """Warnings about columns with very different scales, which probably have different units."""
    found = []
    for what, columns, names, trouble in (
        ("next configuration", log.next, log.next_names, "distances between configurations depend only on the large ones"),
        ("state and action", log.X, log.X_names, "are they all in the units that the model expects?"),
    ):
        scales = sorted((scale, name) for scale, name in zip(columns.std(axis=0).tolist(), names) if scale > 0)
        (small, one), (large, other) = (scales or [(1.0, "")])[0], (scales or [(1.0, "")])[-1]
        if np.log10(large) - np.log10(small) > ORDERS:
            spreads = f"{other} spreads by {large:.3g} and {one} by {small:.3g}"
            rescale = "rescale the columns if this is not intended"
            found.append(f"mixed units? Of the {what}, {spreads}: {trouble}; {rescale}.")
    return found


def duplicate_cautions(shared: Sequence[tuple[str, str, int, int]], estimated: bool) -> list[str]:
    """Warnings about parts of a log that share rows, as from `shared_rows`: one part cannot check what the other learnt."""
    about = "about " if estimated else ""
    return [
        f"{about}{count} of {size} transitions {second} on are exact duplicates of those {first} on; duplicates "
        "make coverage look better than it is: remove them, or name their --episode."
        for first, second, count, size in shared
    ]


def turn_cautions(log: Transitions, angles: Sequence[str]) -> list[str]:
    """Warnings about columns that jump by about a full turn between state and next: probably unnamed angles."""
    found = []
    for after, before in axes_before(log):
        name, now, then = log.next_names[after], log.state[:, before], log.next[:, after]
        jumps = 0 if name in angles else wraps(now, then)
        if jumps and np.median(np.abs(then - now)) < SMALL_STEP:
            found.append(
                f"{name} jumps by about a full turn, 2 pi, in {jumps:,} of {len(now):,} transitions: is it an angle that "
                f"wraps? Name it with --angles {name}."
            )
    return found
