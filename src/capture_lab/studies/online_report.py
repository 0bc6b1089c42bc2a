"""Tables and figures of the online study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.capture.adaptive import factor_of
from capture_cp.spaces.plotting import STRATA_COLOURS, pyplot
from capture_lab.studies.montecarlo import Counts

if TYPE_CHECKING:
    from capture_lab.studies.online import OnlineStudy

#: Steps of one regime over which the figure averages.
WINDOW = 200


def online_rows(runs: Mapping[tuple[str, str], Any], regimes: Sequence[str], study: OnlineStudy) -> list[dict[str, Any]]:
    """JSON rows: coverage by place, mode, before or after the change, and regime."""
    rows = []
    for (place, mode), run in runs.items():
        for when in ("before", "after"):
            counts, outcomes, infinite = _count(run, when, len(regimes))
            labels = {"task": study.task.name, "map": place, "mode": mode, "when": when}
            found = counts.coverage(study.alpha, tuple(regimes)).rows(**labels)
            shares = {name: outcomes.count(name) for name in ("success", "fell", "timed out")}
            more = {"change": run["change"], "infinite": infinite, "episodes": len(outcomes), **shares}
            rows += [{key: value for key, value in row.items() if key != "volume"} | more for row in found]
    return rows


def _count(run: Any, when: str, regimes: int) -> tuple[Counts, list[str], float]:
    """Steps and hits of the episodes before or after the change, how these ended, and the fraction of infinite regions.

    The episode of the change counts on both sides with its steps there, and after the change with its outcome.
    """
    change, total = run["change"], len(run["held"])
    here = slice(0, change) if when == "before" else slice(change, total)
    episode = np.searchsorted(run["ends"], np.arange(total), side="right")[here]
    regime, held = np.array(run["regime"])[here], np.array(run["held"])[here]
    ended = [name for name, end in zip(run["outcomes"], run["ends"]) if (end > change) == (when == "after")]
    episode -= episode.min()
    t, h = (np.zeros((episode.max() + 1, regimes)) for _ in range(2))
    np.add.at(t, (episode, regime), 1)
    np.add.at(h, (episode, regime), held)
    return Counts.of(t, h, np.zeros((len(t), regimes + 1))), ended, float(np.mean(run["infinite"][here]))


def print_online(console: Console, rows: list[dict[str, Any]], regimes: Sequence[str], study: OnlineStudy) -> None:
    """One table per place."""
    caption = (
        "Executed steps inside their region, %, with 95% intervals over episodes, and the number of steps.\n"
        "infinite: percentage of steps whose region contains a whole stratum."
    )
    for place in dict.fromkeys(row["map"] for row in rows):
        here = [row for row in rows if row["map"] == place]
        change = f"gain times {study.gain:g}" + (f", drag {study.drag:g}" if study.drag else "")
        title = f"{place}: {change} after {here[0]['change']:,} steps"
        table = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("regions", "when", "all", *regimes, "infinite", "success", "fell"):
            table.add_column(column, justify="left" if column in ("regions", "when") else "right")
        for mode in study.modes:
            for when in ("before", "after"):
                found = {row["stratum"]: row for row in here if row["mode"] == mode and row["when"] == when}
                total = found["all"]
                ends = [f"{100 * total[name] / max(total['episodes'], 1):.0f}" for name in ("success", "fell")]
                cells = [_cell(found[name]) for name in ("all", *regimes)]
                table.add_row(mode if when == "before" else "", when, *cells, f"{100 * total['infinite']:.1f}", *ends)
        console.print(table)


def _cell(row: dict[str, Any]) -> str:
    if not row["n"]:
        return "-"
    low, high = row["ci95"]
    return f"{100 * row['coverage']:.1f}\n[dim]{100 * low:.1f}-{100 * high:.1f}, {row['n']:,}[/dim]"


def online_figure(runs: Mapping[str, Any], regimes: Sequence[str], alpha: float) -> Any:
    """Coverage over the last steps of each regime, and below it the adapted quantity, over time: one column per mode."""
    shape = {"figsize": (3.3 * len(runs), 4.8), "squeeze": False, "layout": "constrained"}
    figure, panels = pyplot().subplots(2, len(runs), **shape)
    for (upper, lower), (mode, run) in zip(panels.T, runs.items()):
        for m, name in enumerate(regimes):
            look = {"color": STRATA_COLOURS[m], "lw": 1.0}
            upper.plot([], [], label=name, **look)
            at = np.flatnonzero(np.array(run["regime"]) == m)
            if len(at) >= WINDOW:
                share = np.convolve(np.array(run["held"], dtype=float)[at], np.full(WINDOW, 1 / WINDOW), mode="valid")
                upper.plot(at[WINDOW - 1 :] / 1e3, 100 * share, **look)
            if mode != "fixed":
                dials = np.array(run["dials"])[:, m]
                lower.plot(np.arange(len(dials)) / 1e3, dials if mode == "alpha" else factor_of(dials), **look)
        upper.axhline(100 * (1 - alpha), color="black", lw=0.8, ls="--")
        upper.set(title=f"{mode}: % inside, last {WINDOW} steps", ylim=(0, 102))
        lower.set(xlabel="executed steps, thousands", title="alpha" if mode == "alpha" else "factor on thresholds")
        lower.set_visible(mode != "fixed")
        for axis in (upper, lower):
            axis.set_xlim(0, len(run["held"]) / 1e3)
            axis.axvline(run["change"] / 1e3, color="#555555", lw=0.8, ls=":")
    panels[0, 0].set_xlabel("executed steps, thousands")
    panels[0, 0].legend(fontsize=8, loc="lower center", ncols=len(regimes))
    return figure
