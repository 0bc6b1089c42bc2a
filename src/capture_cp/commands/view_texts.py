"""What the live page of a user's calibration and its videos report in words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.commands.replay import Replay, Runs
from capture_cp.commands.robot import Robot
from capture_cp.conformal.coverage import Count
from capture_cp.conformal.quantile import size_needed
from capture_cp.viewer.texts import as_text, coverage_table, table

#: Episodes that the page lists, and numbers of an input in the status.
LISTED, NUMBERS = 500, 8
ONE_EPISODE = "The intervals assume independent steps. Steps of one episode are not, so these intervals are too narrow."
SAME_LOG = "**The calibration was made from this log, so these counts are no test. Use new transitions.**"
ASSUMED = "The target assumes exchangeability: the logged steps are drawn like those of the calibration."


def input_line(robot: Robot, x: Floats) -> str:
    """The first numbers of an input (dx,) with their names: Markdown."""
    shown = ", ".join(f"{as_text(name)} {value:.3g}" for name, value in [*zip(robot.inputs, x)][:NUMBERS])
    return shown + (f" and {len(x) - NUMBERS} more" if len(x) > NUMBERS else "")


def thresholds_table(robot: Robot, thresholds: Floats, sizes: Ints, alpha: float) -> str:
    """The threshold of each stratum (M,) at an input, and its number of calibration points (M,): Markdown."""
    unit = "episodes" if "episodes" in robot.cap.data_ else "transitions"
    parts = [(as_text(name), q, int(n)) for name, q, n in zip(robot.strata, thresholds, sizes)]
    rows = [[name, "whole stratum" if math.isinf(q) else f"{q:.4g}", f"{n:,}"] for name, q, n in parts]
    empty = ", ".join(name for name, q, n in parts if math.isinf(q) and n == 0)
    few = ", ".join(name for name, q, n in parts if math.isinf(q) and n > 0)
    notes = []
    if empty:
        notes.append(f"No calibration transition from such an input ended in {empty}: the region covers all of it.")
    if few:
        needed = size_needed(alpha, robot.confidence)
        notes.append(f"Too few {unit} for {few}: {needed:,} are needed at this α, so the region covers all of it.")
    title = f"**Region of this step** (α = {alpha:g})"
    return table(title, ["stratum", "threshold", f"calibration {unit}"], rows, [*notes, *_merged(robot)])


def _merged(robot: Robot) -> list[str]:
    """Which strata share a threshold, in words."""
    if len(robot.strata) > 1 and robot.cap.partition_.n_groups == 1:
        return ["All strata share one threshold: coverage is guaranteed for them together."]
    shared = {frozenset((name, *others)) for name, others in robot.cap.merged_.items()}
    groups = [", ".join(sorted(as_text(name) for name in group)) for group in shared if len(group) > 1]
    return [f"One threshold, because some are rare, with coverage guaranteed together: {group}." for group in sorted(groups)]


def counts_table(runs: Runs, counts: Sequence[Count], alpha: float) -> str:
    """Coverage so far: Markdown."""
    notes = [SAME_LOG if runs.calibrated_on else ASSUMED] + [ONE_EPISODE] * runs.episodes
    return coverage_table({"inside": counts}, alpha, notes)


def facts(robot: Robot, listed: int, parts: int) -> str:
    """Facts about the calibration, and how many parts of the log the menu lists: Markdown."""
    cap, rows, episodes = robot.cap, robot.cap.data_.get("rows"), robot.cap.data_.get("episodes")
    made = f"{rows:,} transitions" if isinstance(rows, int) else "transitions"
    made += f" of {episodes:,} episodes" if isinstance(episodes, int) else ""
    sure = "" if robot.confidence is None else f", confidence {robot.confidence:g}"
    score, groups = (as_text(repr(part), 300) for part in (cap.score_, cap.groups_))
    many = cap.partition_.n_groups
    lines = [
        f"**{as_text(robot.name)}**: made from {made}, for α = {robot.alpha:g}{sure}.",
        f"Score {score}, groups {groups}, {cap.n_particles} particles, {many} group{'s' * (many != 1)}.",
    ]
    if parts > listed:
        lines.append(f"The menu lists the first {LISTED} of {parts:,} parts of the log; --episode NAME shows another.")
    return "  \n".join(lines)


def film_notes(robot: Robot, runs: Runs, replay: Replay) -> list[str]:
    """Notes for the viewer of a video: whole strata, and limits of the counts."""
    found = []
    if runs.calibrated_on:
        found.append("this is the log that the calibration was made from, so these counts are no test; use new transitions.")
    infinite = np.isinf(robot.cap.thresholds(replay.X, robot.alpha, robot.confidence))  # (n, M)
    whole = [name for m, name in enumerate(robot.strata) if infinite[:, m].any()]
    if whole:
        found.append(
            f"the regions of some steps cover all of {', '.join(whole)}: too few calibration transitions ended there "
            f"for alpha = {robot.alpha:g}."
        )
    if runs.episodes:
        found.append(
            "the intervals assume independent steps; those of one episode are not, so the intervals are too narrow."
        )
    return found
