"""What the page says: the status, the regions' sizes, the running counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.viewer.frame import Frame, Tally

NO_GUARANTEE = "The planner chooses the states, so the guarantee of the calibration does not apply to these counts."


def status_line(frame: Frame) -> str:
    """What is going on, in a few words."""
    if frame.waiting:
        return f"calibrating {' and '.join(frame.waiting)}{frame.world.progress} …"
    if frame.mode == "by hand":
        return "by hand: move the sliders, or press Start"
    doing = "recording" if frame.mode == "replay" else f"episode {frame.episode + 1}"
    at = frame.time if frame.mode == "replay" else frame.steps
    text = f"{doing}, step {at}" + (f" of {frame.steps}" if frame.mode == "replay" else "")
    if frame.moment.outcome is not None:
        return f"{text}: {frame.moment.outcome}"
    return text + (f", plan {frame.moment.plan_ms:.0f} ms" if frame.moment.plan_ms is not None else "")


def regions_table(frame: Frame) -> str:
    """Cells of the first region by kind of stratum, method by method, in the order of the pictures: Markdown."""
    shown = {name: ahead[0].cells for name, ahead in frame.ahead.items() if ahead}
    if not shown:
        return ""
    kinds, of = frame.world.kinds, np.append(frame.world.stratum_kinds, len(frame.world.kinds))
    lines = [f"**Region of the next step** (cells, α = {frame.settings.alpha:g})", "", _row("method", *kinds, "infeasible")]
    lines.append(_row(*["---"] + ["--:"] * (len(kinds) + 1)))
    for name, cells in shown.items():
        lines.append(_row(name, *(f"{int(count):,}" for count in np.bincount(of, weights=cells, minlength=len(kinds) + 1))))
    return "\n".join(lines)


def counts_table(frame: Frame) -> str:
    """Episodes by outcome, and executed steps that ended inside their region, method by method: Markdown."""
    if not frame.tallies:
        return ""
    kinds = frame.world.kinds
    lines = ["**Counts so far**", "", _row("method", "success", "fell", "timed out")]
    lines.append(_row("---", *["--:"] * 3))
    for name, tally in frame.tallies.items():
        episodes = sum(tally.outcomes.values())
        shown = (f"{tally.outcomes[outcome]} / {episodes}" for outcome in ("success", "fell", "timed out"))
        lines.append(_row(name, *shown))
    lines += ["", "Steps inside their region (95 % interval over all):", "", _row("method", "all", *kinds)]
    lines.append(_row("---", *["--:"] * (len(kinds) + 1)))
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
    every = f"{100 * held / max(1, landed):.0f} % ({100 * low:.0f}-{100 * high:.0f})"
    return [every, *(f"{h} / {n}" for h, n in zip(np.asarray(tally.held), np.asarray(tally.landed)))]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
