"""How every study prints, writes and draws its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from capture_cp.base.checks import Floats
from capture_cp.base.progress import stage
from capture_cp.conformal.coverage import clopper_pearson
from capture_cp.report.output import output_folder, write_rows
from capture_cp.report.style import STRATA_COLOURS, pyplot

Rows = list[dict[str, Any]]


def plain_table(title: str, words: Sequence[str], numbers: Iterable[str], caption: str = "") -> Table:
    """An empty table with columns of words, then columns of numbers."""
    table = Table(
        title=title, caption=caption or None, caption_justify="left", box=box.SIMPLE_HEAD, pad_edge=False,
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    for column in words:
        table.add_column(column, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right")
    return table


def write_results(study: Any, rows: Rows, console: Console, draw: Callable[[Path], Iterable[Path]] | None = None) -> None:
    """Write the files that a study was asked for: its rows, and the figures that `draw` makes in a folder."""
    if study.json is not None:
        write_rows(study.json, rows, study)
    if draw is not None and study.figures is not None:
        with stage("drawing figures"):
            files = list(draw(output_folder(study.figures)))
        console.print(f"Figures: {', '.join(map(str, files))}", markup=False)


class Panel(NamedTuple):
    """A panel of a figure: by label the mean, low and high end at each value, (3, n); and a target, drawn as a line."""

    title: str
    curves: Mapping[str, Any]
    target: float | None = None


def percentages(counts: Iterable[tuple[float, int]]) -> Floats:
    """Fractions in % with their exact 95% intervals, (3, n); NaN where nothing was counted."""
    found = [(held / of, *clopper_pearson(int(held), of)) if of else (np.nan,) * 3 for held, of in counts]
    return 100 * np.array(found, dtype=np.float64).T


def save_curves(file: Path, panels: Sequence[Panel], values: Sequence[Any], label: str, columns: int = 3) -> Path:
    """Draw `curves_figure` to a file."""
    figure = curves_figure(panels, values, label, columns)
    figure.savefig(file, dpi=130)
    pyplot().close(figure)
    return file


def curves_figure(panels: Sequence[Panel], values: Sequence[Any], label: str, columns: int = 3) -> Any:
    """Curves with whiskers against evenly spaced values, whose name is `label`."""
    columns = min(columns, len(panels))
    lines = -(-len(panels) // columns)
    size = (max(3.2 * columns, 6.0), 2.4 * lines + 0.6)
    figure, axes = pyplot().subplots(lines, columns, figsize=size, sharex=True, squeeze=False, layout="constrained")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels):
        for (name, ends), colour, marker in zip(panel.curves.items(), cycle(STRATA_COLOURS), cycle("os^Dv")):
            mean, low, high = np.asarray(ends)
            look = {"color": colour, "marker": marker, "ms": 4, "lw": 1.4}
            axis.errorbar(range(len(values)), mean, np.maximum((mean - low, high - mean), 0.0), label=name, **look)
        if panel.target is not None:
            axis.axhline(panel.target, color="#222222", lw=0.8, ls="--")
        if "%" in panel.title:
            axis.set_ylim(-2, 103)
        axis.set_title(panel.title, fontsize=9)
        axis.set_xticks(range(len(values)), list(map(str, values)), fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(label)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure
