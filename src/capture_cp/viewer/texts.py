"""Texts of a task's page: the status, sizes of regions, running counts, legends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from capture_cp.capture.region_draws import has_grid
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.planning.episode import TIMED_OUT
from capture_cp.spaces.marks import Mark, mark_signs
from capture_cp.viewer.live import Frame, Tally
from capture_lab.tasks.scene import REGION_KEY

#: Colours and marks are made for a light ground, so legends have one on a dark page too.
CARD = "font-size:0.8em;line-height:1.8;padding:0.2em 0.8em;background:#ffffff;color:#1d2329;border-radius:4px"

RECORDED = "Regions and counts are those of the recording."


def status_line(frame: Frame) -> str:
    """The current activity, in a few words."""
    if frame.waiting:
        return f"calibrating {' and '.join(frame.waiting)}{frame.progress} …"
    if frame.mode == "by hand":
        return "by hand: press Start to plan live, or move the sliders"
    doing = "recording" if frame.mode == "replay" else f"episode {frame.episode + 1}"
    at = frame.time if frame.mode == "replay" else frame.steps
    text = f"{doing}, step {at}" + (f" of {frame.steps}" if frame.mode == "replay" else "")
    if frame.moment.outcome is not None:
        return f"{text}: {frame.moment.outcome}"
    return text + (f", plan {frame.moment.plan_ms:.0f} ms" if frame.moment.plan_ms is not None else "")


def inside_line(frame: Frame) -> str:
    """How many executed steps of the first method ended inside their region; empty if there are none."""
    tally = frame.tallies.get(frame.settings.method)
    if tally is None or not tally.landed.sum():
        return ""
    held, landed = int(tally.held.sum()), int(tally.landed.sum())
    target = f"{100 * (1 - frame.settings.alpha):.3g}%"
    return f"{held} of {landed} steps inside their region ({100 * held / landed:.0f}%, target {target})"


def regions_table(frame: Frame) -> str:
    """Cells of the first region by regime, or volumes without a grid, one row per method: Markdown."""
    shown = {name: steps[0].cells for name, steps in frame.plans.items() if steps}
    if not shown:
        return ""
    regimes = frame.scene.task.regimes
    of = np.append(frame.scene.task.stratum_regimes, len(regimes))
    gridded = has_grid(frame.scene.task.strata)
    title = f"**Size of the next step's region** ({'cells' if gridded else 'volume'}, α = {frame.settings.alpha:g})"
    lines = [title, "", _row("method", *regimes, "infeasible")]
    lines.append(_row(*["---"] + ["--:"] * (len(regimes) + 1)))
    for name, cells in shown.items():
        counts = np.bincount(of, weights=cells, minlength=len(regimes) + 1)
        lines.append(_row(name, *(f"{int(count):,}" if gridded else f"{count:.3g}" for count in counts)))
    return "\n".join(lines)


def counts_table(frame: Frame) -> str:
    """Executed steps that ended inside their region, and episodes by outcome, one row per method: Markdown."""
    if not frame.tallies:
        return ""
    regimes, target = frame.scene.task.regimes, f"{100 * (1 - frame.settings.alpha):.3g}%"
    lines = [f"**Steps inside their region so far** (target {target})", "", _row("method", "all (95% interval)", *regimes)]
    lines.append(_row("---", *["--:"] * (len(regimes) + 1)))
    lines += [_row(name, *_coverage(tally)) for name, tally in frame.tallies.items()]
    why = RECORDED if frame.mode == "replay" else why_it_differs(frame.practice.get(frame.settings.method, 0), target)
    lines += ["", why, ""]
    named = dict.fromkeys(outcome for tally in frame.tallies.values() for outcome in tally.outcomes)
    failed = [outcome for outcome in named if outcome not in ("success", TIMED_OUT)] or ["fell"]
    outcomes = ("success", *failed, TIMED_OUT)
    lines += ["**Episodes so far**", "", _row("method", *outcomes), _row("---", *["--:"] * len(outcomes))]
    for name, tally in frame.tallies.items():
        episodes = sum(tally.outcomes.values())
        lines.append(_row(name, *(f"{tally.outcomes[outcome]} / {episodes}" for outcome in outcomes)))
    return "\n".join(lines)


def why_it_differs(practice: int, target: str) -> str:
    """How the counts relate to the target, in a sentence or two; `practice` runs of the planner made the calibration."""
    if practice:
        return (
            f"Calibrated on {practice:,} runs of this planner. New runs are exchangeable with them: a random step of a run "
            f"is inside its region with probability at least {target}. Steps of one run are not independent."
        )
    return (
        "Calibrated on states and actions that this planner did not choose. Its steps are not exchangeable with them, so "
        "the percentage can differ from the target."
    )


def legend(parts: Sequence[tuple[str, str]], marks: Iterable[Mark] = (), key: str = REGION_KEY) -> str:
    """Names next to squares of their colours, and marks, after a sentence `key`: HTML."""
    square = "display:inline-block;width:0.8em;height:0.8em;margin:0 0.3em 0 0;border:1px solid #888"
    swatches = "".join(
        f'<span style="white-space:nowrap;margin-right:1em"><span style="{square};background:{colour}"></span>{name}</span> '
        for name, colour in parts
    )
    return f'<div style="{CARD}"><div>{key}</div><div>{swatches}</div>{mark_signs(marks)}</div>'


def _coverage(tally: Tally) -> list[str]:
    held, landed = int(tally.held.sum()), int(tally.landed.sum())
    low, high = clopper_pearson(held, landed) if landed else (0.0, 1.0)
    every = f"{held} / {landed} = {100 * held / max(1, landed):.0f}% ({100 * low:.0f} to {100 * high:.0f})"
    return [every, *(f"{h} / {n}" for h, n in zip(np.asarray(tally.held), np.asarray(tally.landed)))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
