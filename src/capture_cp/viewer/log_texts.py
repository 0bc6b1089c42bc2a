"""Texts of the page of a user's calibration. Names from files and logs are shown literally, never as markup."""

from __future__ import annotations

import html
import math
import string
from collections.abc import Sequence

from capture_cp.base.checks import Floats, printable, shortened
from capture_cp.commands.replay import Count
from capture_cp.commands.robot import Robot
from capture_cp.conformal.quantile import size_needed
from capture_cp.report.canvas import INFEASIBLE_LEGEND
from capture_cp.spaces.plotting import colour_of
from capture_cp.viewer.log_session import LISTED, LogFrame

#: Letters of a name in a table, and numbers of an input in the status.
LETTERS, NUMBERS = 28, 8
ONE_EPISODE = "The intervals assume independent steps. Steps of one episode are not, so these intervals are too narrow."
SAME_LOG = "**The calibration was made from this log, so these counts are no test. Use new transitions.**"
ASSUMED = "The target assumes exchangeability: the logged steps are drawn like those of the calibration."


def as_text(name: str) -> str:
    """A name in Markdown, with all punctuation escaped."""
    shown = shortened(printable(name), LETTERS)
    return "".join(f"\\{letter}" if letter in string.punctuation else letter for letter in shown)


def status(frame: LogFrame) -> str:
    """The current activity, in a few words: Markdown."""
    if frame.name is None:
        what = "**by hand: move the sliders" + (", or choose an episode**" if frame.runs is not None else "**")
    elif frame.look is None:
        what = f"**predicting {_called(frame)} …**"
    else:
        held = "outcome inside the region" if frame.look.inside else "outcome outside the region"
        what = f"**{_called(frame)}, step {frame.step + 1} of {frame.steps}: {held}**"
    return what if frame.look is None else f"{what}  \n{_numbers(frame.robot.inputs, frame.look.x)}"


def _called(frame: LogFrame) -> str:
    """The name of the part of the log that is shown."""
    kind = "episode " if frame.runs is not None and frame.runs.episodes else ""
    return kind + as_text(frame.name or "")


def _numbers(names: Sequence[str], values: Floats) -> str:
    shown = ", ".join(f"{as_text(name)} {value:.3g}" for name, value in list(zip(names, values))[:NUMBERS])
    return shown + (f" and {len(names) - NUMBERS} more" if len(names) > NUMBERS else "")


def thresholds_table(frame: LogFrame) -> str:
    """The threshold of each stratum at the input, and its number of calibration points: Markdown."""
    if frame.look is None:
        return ""
    robot, thresholds = frame.robot, frame.look.region.thresholds
    unit = "episodes" if "episodes" in robot.cap.data_ else "transitions"
    lines = [f"**Region of this step** (α = {frame.chosen.alpha:g})", ""]
    lines += [_row("stratum", "threshold", f"calibration {unit}"), _row("---", "--:", "--:")]
    for name, threshold, size in zip(robot.strata, thresholds, frame.sizes):
        shown = "whole stratum" if math.isinf(threshold) else f"{threshold:.4g}"
        lines.append(_row(as_text(name), shown, f"{int(size):,}"))
    return "\n".join([*lines, "", *_whole_strata(frame, unit), *_merged(robot)])


def _whole_strata(frame: LogFrame, unit: str) -> list[str]:
    """Why the region covers whole strata, in words."""
    assert frame.look is not None
    parts = list(zip(frame.robot.strata, frame.look.region.thresholds, frame.sizes))
    empty = [as_text(name) for name, q, size in parts if math.isinf(q) and size == 0]
    few = [as_text(name) for name, q, size in parts if math.isinf(q) and size > 0]
    lines = []
    if empty:
        lines.append(
            f"No calibration transition from such an input ended in {', '.join(empty)}: the region covers all of it."
        )
    if few:
        needed = size_needed(frame.chosen.alpha, frame.robot.confidence)
        lines.append(
            f"Too few {unit} for {', '.join(few)}: {needed:,} are needed at this α, so the region covers all of it."
        )
    return lines


def _merged(robot: Robot) -> list[str]:
    """Which strata share a threshold, in words."""
    if len(robot.strata) > 1 and robot.cap.partition_.n_groups == 1:
        return ["All strata share one threshold: coverage is guaranteed for them together."]
    shared = {frozenset((name, *others)) for name, others in robot.cap.merged_.items()}
    groups = [", ".join(sorted(as_text(name) for name in group)) for group in shared if len(group) > 1]
    return [f"One threshold, because some are rare, with coverage guaranteed together: {group}." for group in sorted(groups)]


def counts_table(frame: LogFrame) -> str:
    """Coverage so far, over all steps and by stratum, with exact intervals: Markdown."""
    if not frame.counts or frame.runs is None:
        return ""
    target = f"{100 * (1 - frame.chosen.alpha):.3g}%"
    title = f"**Coverage so far**, steps 1 to {frame.step + 1} (target {target})"
    lines = [title, "", _row("ended in", "inside", "coverage", "95% interval"), _row("---", "--:", "--:", "--:")]
    lines += [_row(as_text(count.name), *_cells(count)) for count in frame.counts]
    notes = [SAME_LOG if frame.runs.calibrated_on else ASSUMED] + [ONE_EPISODE] * frame.runs.episodes
    return "\n".join([*lines, "", *("\n" + note for note in notes)])


def _cells(count: Count) -> tuple[str, str, str]:
    if not count.steps:
        return "none yet", "", ""
    low, high = count.interval
    return (
        f"{count.held} / {count.steps}",
        f"{100 * count.held / count.steps:.0f}%",
        f"{100 * low:.0f} to {100 * high:.0f}%",
    )


def facts(robot: Robot, listed: int = 0, parts: int = 0) -> str:
    """Facts about the calibration: Markdown."""
    cap, rows, episodes = robot.cap, robot.cap.data_.get("rows"), robot.cap.data_.get("episodes")
    made = f"{rows:,} transitions" if isinstance(rows, int) else "transitions"
    made += f" of {episodes:,} episodes" if isinstance(episodes, int) else ""
    sure = "" if robot.confidence is None else f", confidence {robot.confidence:g}"
    lines = [
        f"**{as_text(robot.name)}**: made from {made}, for α = {robot.alpha:g}{sure}.",
        f"Score {_code(repr(cap.score_))}, groups {_code(repr(cap.groups_))}, {cap.n_particles} particles, "
        f"{cap.partition_.n_groups} group{'s' * (cap.partition_.n_groups != 1)}.",
    ]
    if parts > listed:
        lines.append(f"The menu lists the first {LISTED} of {parts:,} parts of the log; --episode NAME shows another.")
    return "  \n".join(lines)


def _code(text: str) -> str:
    return "".join(f"\\{letter}" if letter in string.punctuation else letter for letter in shortened(printable(text), 300))


def legend_parts(robot: Robot) -> list[tuple[str, str]]:
    """Names of strata, escaped for HTML, with their colours."""
    named = [(html.escape(shortened(printable(name), LETTERS)), colour_of(m)) for m, name in enumerate(robot.strata)]
    return [*named, *(INFEASIBLE_LEGEND if len(robot.strata) > 1 else ())]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
