"""Texts of the page: the status, the sizes of regions, the running counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.capture.region_draws import has_grid
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.planning.episode import TIMED_OUT
from capture_cp.viewer.live import Frame, Tally

NO_GUARANTEE = "The planner chooses the states, so the guarantee of the calibration does not apply to these counts."


def status_line(frame: Frame) -> str:
    """What is going on, in a few words."""
    if frame.waiting:
        return f"calibrating {' and '.join(frame.waiting)}{frame.progress} …"
    if frame.mode == "by hand":
        return "by hand: move the sliders, or press Start"
    doing = "recording" if frame.mode == "replay" else f"episode {frame.episode + 1}"
    at = frame.time if frame.mode == "replay" else frame.steps
    text = f"{doing}, step {at}" + (f" of {frame.steps}" if frame.mode == "replay" else "")
    if frame.moment.outcome is not None:
        return f"{text}: {frame.moment.outcome}"
    return text + (f", plan {frame.moment.plan_ms:.0f} ms" if frame.moment.plan_ms is not None else "")


def regions_table(frame: Frame) -> str:
    """Cells of the first region by regime, volumes without a grid, method by method in the order of pictures: Markdown."""
    shown = {name: steps[0].cells for name, steps in frame.plans.items() if steps}
    if not shown:
        return ""
    regimes = frame.scene.task.regimes
    of = np.append(frame.scene.task.stratum_regimes, len(regimes))
    gridded = has_grid(frame.scene.task.strata)
    title = f"**Region of the next step** ({'cells' if gridded else 'volume'}, α = {frame.settings.alpha:g})"
    lines = [title, "", _row("method", *regimes, "infeasible")]
    lines.append(_row(*["---"] + ["--:"] * (len(regimes) + 1)))
    for name, cells in shown.items():
        counts = np.bincount(of, weights=cells, minlength=len(regimes) + 1)
        lines.append(_row(name, *(f"{int(count):,}" if gridded else f"{count:.3g}" for count in counts)))
    return "\n".join(lines)


def counts_table(frame: Frame) -> str:
    """Episodes by outcome, and executed steps that ended inside their region, method by method: Markdown."""
    if not frame.tallies:
        return ""
    regimes = frame.scene.task.regimes
    named = dict.fromkeys(outcome for tally in frame.tallies.values() for outcome in tally.outcomes)
    failed = [outcome for outcome in named if outcome not in ("success", TIMED_OUT)] or ["fell"]
    outcomes = ("success", *failed, TIMED_OUT)
    lines = ["**Counts so far**", "", _row("method", *outcomes)]
    lines.append(_row("---", *["--:"] * len(outcomes)))
    for name, tally in frame.tallies.items():
        episodes = sum(tally.outcomes.values())
        shown = (f"{tally.outcomes[outcome]} / {episodes}" for outcome in outcomes)
        lines.append(_row(name, *shown))
    lines += ["", "Steps inside their region (95% interval over all):", "", _row("method", "all", *regimes)]
    lines.append(_row("---", *["--:"] * (len(regimes) + 1)))
    lines += [_row(name, *_coverage(tally)) for name, tally in frame.tallies.items()]
    return "\n".join([*lines, "", NO_GUARANTEE])


def legend(parts: Sequence[tuple[str, str]]) -> str:
    """Names beside squares of their colours: HTML."""
    square = "display:inline-block;width:0.8em;height:0.8em;margin:0 0.3em 0 0.9em;border:1px solid #888"
    swatches = "".join(f'<span style="{square};background:{colour}"></span>{name}' for name, colour in parts)
    return f'<div style="font-size:0.8em;line-height:1.8;padding:0 0.6em">{swatches}</div>'


def _coverage(tally: Tally) -> list[str]:
    held, landed = int(tally.held.sum()), int(tally.landed.sum())
    low, high = clopper_pearson(held, landed) if landed else (0.0, 1.0)
    every = f"{100 * held / max(1, landed):.0f}% ({100 * low:.0f}-{100 * high:.0f})"
    return [every, *(f"{h} / {n}" for h, n in zip(np.asarray(tally.held), np.asarray(tally.landed)))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
