"""Pictures of regions for a report: one, two, three or more dimensions, with or without a grid."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import BytesIO
from itertools import islice
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, shortened
from capture_cp.base.streams import derived_seed
from capture_cp.capture.capture import Capture
from capture_cp.capture.region import Region
from capture_cp.capture.region_marks import Marks
from capture_cp.capture.region_plots import Members, comparable, members_of, plot_pairs, plot_region, turned, zoom
from capture_cp.capture.region_search import middles
from capture_cp.data.transitions import Transitions
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.marks import ACTION, INSIDE, OUTSIDE, PARTICLES, START
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.plotting import label, plot_strata, pyplot
from capture_cp.spaces.strata import FunctionStrata, Strata, grid_of, has_grid

if TYPE_CHECKING:
    from capture_cp.commands.calibrate import Calibrate

MOST_REGIONS = 6
#: Transitions that are tried for a picture: a region can be too small a part of its surroundings to be drawn.
SPARE = 3
#: Regions of configurations of three numbers, and of more.
MOST_ROWS, MOST_MATRICES = 3, 2
#: Numbers of a configuration that are drawn by pairs, and numbers of an action that a title lists.
MOST_AXES, MOST_ACTIONS = 7, 3
#: Configurations of a region without a grid, and of a map of its strata along each axis.
SAMPLE, MAP = 1500, 110
#: A region that keeps less than this fraction of its draws is drawn with a fifth of the configurations, to save time.
SCARCE, DRAWS = 0.01, 2048
PANEL = 2.9  # inches


class Shown(NamedTuple):
    """A region of the report, of a held-out transition."""

    region: Region
    members: Members
    marks: Marks
    title: str


def region_figures(cap: Capture, kept: Transitions, command: Calibrate) -> tuple[list[bytes], str]:
    """Regions of a few typical inputs of each stratum, as PNG files, with a caption; none where no region can be drawn."""
    most = {1: MOST_REGIONS, 2: MOST_REGIONS, 3: MOST_ROWS}.get(cap.n_outputs_, MOST_MATRICES)
    shown = []
    for rows in _typical(cap, kept)[:most]:
        tried = (_shown(cap, kept, command, row) for row in rows)
        shown += [*islice((one for one in tried if one is not None), 1)]
    return (_drawn(shown, kept.next_names), _caption(cap, shown)) if shown else ([], "")


def _drawn(shown: Sequence[Shown], names: Sequence[str]) -> list[bytes]:
    dims, files = shown[0].region.dims, []
    draw = {1: _intervals, 2: _planes, 3: _pairs_of_three}.get(dims, _matrices)
    for figure in draw(shown, names):
        file = BytesIO()
        # legends outside panels are part of the picture; matrices have none there, and finding their edges takes long
        figure.savefig(file, format="png", dpi=130, bbox_inches="tight" if dims < 4 else None)
        files.append(file.getvalue())
        pyplot().close(figure)
    return files


def starts_of(log: Transitions) -> Floats | None:
    """The configuration before each transition, (n, dc); None where that is unknown."""
    columns = configuration_columns(log.state_names, log.next_names)
    return None if columns is None else log.state[:, columns]


def configuration_columns(state: Sequence[str], after: Sequence[str]) -> list[int] | None:
    """Columns of the state that are the configuration: those named like the next one, or all if they are as many."""
    plain = [name.removeprefix("next_").removesuffix("_next") for name in after]
    if all(name in state for name in plain):
        return [state.index(name) for name in plain]
    return list(range(len(state))) if len(state) == len(plain) else None


def _shown(cap: Capture, kept: Transitions, command: Calibrate, row: int) -> Shown | None:
    seed, starts = derived_seed(command.seed, row), starts_of(kept)
    region = cap.region(kept.X[row], command.alpha, command.confidence, rng=seed)
    marks = Marks.checked(region, None if starts is None else starts[row], kept.Y[row])
    if not has_grid(region.strata):
        # a part that covers a whole stratum has no boundary that could be drawn
        finite = np.where(np.isinf(region.thresholds), -1.0, region.thresholds)
        region = Region(region.score, region.prediction, finite, region.strata, region.dims, region.alpha, region.ambient)
    try:
        scarce = not has_grid(region.strata) and region.acceptance(draws=DRAWS, rng=seed) < SCARCE
        members = members_of(region, SAMPLE // 5 if scarce else SAMPLE, seed)
    except CaptureError:
        return None
    return Shown(region, members, marks, _title(cap, kept, row))


def _title(cap: Capture, kept: Transitions, row: int) -> str:
    """Where a transition ended, and its action."""
    names, lines = cap.strata.names, []
    if len(names) > 1:
        lines.append(f"outcome: {label(shortened(names[int(cap.index(kept.Y[row : row + 1])[0])]))}")
    shown = list(zip(kept.action_names, kept.action[row]))
    if 0 < len(shown) <= MOST_ACTIONS:
        lines.append("action: " + ", ".join(f"{label(shortened(name, 16))} {value:.3g}" for name, value in shown))
    return "\n".join(fill(line, 40) for line in lines)


def _typical(cap: Capture, kept: Transitions) -> list[list[int]]:
    """For each stratum in turn, rows spread evenly over those that ended there, each with some spare rows."""
    labels = np.asarray(cap.strata.index(kept.Y))
    present = [np.flatnonzero(labels == m) for m in range(len(cap.strata.names)) if (labels == m).any()][:MOST_REGIONS]
    each = max(1, MOST_ROWS // len(present))
    return [
        [int(row) for row in np.roll(rows, -(len(rows) * (2 * i + 1) // (2 * each)))[:SPARE]]
        for rows in present
        for i in range(min(each, len(rows)))
    ]


def _intervals(shown: Sequence[Shown], names: Sequence[str]) -> list[Any]:
    """One number: bars, one line per stratum."""
    height = 0.7 + 0.3 * len(shown[0].region.strata.names)
    figure, panels = pyplot().subplots(
        len(shown), 1, figsize=(8.0, height * len(shown) + 0.5), layout="constrained", squeeze=False, sharex=True
    )
    for ax, one in zip(panels[:, 0], shown):
        plot_region(one.region, ax, (0,), one.members, None, one.marks)
        ax.set_title(one.title, fontsize=9)
    panels[-1, 0].set_xlabel(label(names[0]))
    _legend(figure, panels[:, 0])
    return [figure]


def _planes(shown: Sequence[Shown], names: Sequence[str]) -> list[Any]:
    """Two numbers: regions in the plane, on a map of the strata."""
    lines = -(-len(shown) // 3)
    size = (PANEL * 3, (PANEL + 0.7) * lines + 0.5)
    figure, panels = pyplot().subplots(lines, 3, figsize=size, layout="constrained", squeeze=False)
    for ax in panels.ravel()[len(shown) :]:
        ax.axis("off")
    for ax, one in zip(panels.ravel(), shown):
        square = comparable(one.region, (0, 1))
        zoom(ax, one.region, (0, 1), one.members, one.marks, square)
        limits = ax.get_xlim(), ax.get_ylim()
        _map(one, ax)
        plot_region(one.region, ax, (0, 1), one.members, names, one.marks)
        ax.set(xlim=limits[0], ylim=limits[1])
        ax.set_aspect("equal" if square else "auto")
        ax.set_title(one.title, fontsize=9)
        ax.locator_params(nbins=5)
        ax.tick_params(labelsize=8)
    _legend(figure, panels.ravel()[: len(shown)])
    return [figure]


def _pairs_of_three(shown: Sequence[Shown], names: Sequence[str]) -> list[Any]:
    """Three numbers: three projections of each region in a row, and its legend next to them."""
    layout: dict[str, Any] = {"layout": "constrained", "squeeze": False, "width_ratios": (1, 1, 1, 0.8)}
    figure, panels = pyplot().subplots(len(shown), 4, figsize=(PANEL * 3.2, 2.5 * len(shown)), **layout)
    for line, one in zip(panels, shown):
        for ax, axes in zip(line, ((0, 1), (0, 2), (1, 2))):
            plot_region(one.region, ax, axes, one.members, names, one.marks)
            square = comparable(one.region, axes)
            ax.set_aspect("equal" if square else "auto")
            zoom(ax, one.region, axes, one.members, one.marks, square)
            ax.tick_params(labelsize=7)
        line[3].axis("off")
        handles, texts = line[0].get_legend_handles_labels()
        legend = line[3].legend(handles, [fill(text, 22) for text in texts], fontsize=8, frameon=False, loc="center left")
        legend.set_title(fill(one.title, 24), prop={"size": 8, "weight": "bold"})
        legend.set_alignment("left")
    return [figure]


def _matrices(shown: Sequence[Shown], names: Sequence[str]) -> list[Any]:
    """More numbers: projections on every pair of the first axes, one figure per region."""
    figures = []
    for one in shown:
        axes = range(min(one.region.dims, MOST_AXES))
        figures.append(plot_pairs(one.region, one.members, names, one.marks, axes))
        figures[-1].suptitle(one.title, fontsize=10)
    return figures


def _map(one: Shown, ax: Any) -> None:
    """The strata behind a region: those of the grid, or evaluated on small squares of the window."""
    strata: Strata = one.region.strata
    if len(strata.names) == 1:
        return
    if has_grid(strata):
        gridded = grid_of(strata)
        closed = gridded.require_grid().periodic
        about = {axis: turn for axis, turn in middles(one.region).items() if axis in closed}
        plot_strata(gridded, ax, about=about | turned(one.region, one.members))
        return
    low, high = np.array([ax.get_xlim(), ax.get_ylim()]).T
    spacing = (high - low) / MAP
    grid = Grid((low + spacing / 2).tolist(), spacing.tolist(), (MAP, MAP))
    angles = list(middles(one.region))

    def index(Y: Floats) -> Any:
        Y[:, angles] = wrap_angle(Y[:, angles])
        return strata.index(Y)

    plot_strata(FunctionStrata(index, strata.names, grid=grid), ax)


def _legend(figure: Any, panels: Sequence[Any]) -> None:
    """One legend for all panels, below them; numbers of cells differ between panels and are left out."""
    found: dict[str, Any] = {}
    for ax in panels:
        for handle, text in zip(*ax.get_legend_handles_labels()):
            found.setdefault(re.sub(r" \([\d,]+ cells\)$", "", text), handle)
    order = {look.name: rank for rank, look in enumerate((PARTICLES, START, ACTION, INSIDE, OUTSIDE), 1)}
    names = sorted(found, key=lambda name: order.get(name, 0))  # strata first, then marks
    texts = [fill(name if name in order else f"region: {name}", 40, break_long_words=True) for name in names]
    where: dict[str, Any] = {"loc": "outside lower center", "ncols": 3, "fontsize": 9, "frameon": False}
    figure.legend([found[name] for name in names], texts, **where)


def _caption(cap: Capture, shown: Sequence[Shown]) -> str:
    kind = "Coloured cells" if has_grid(cap.strata) else "Coloured dots or bars"
    start = " The arrow leads from the start to the mean of the particles." if shown[0].marks.start is not None else ""
    more = " Parts that cover a whole stratum are left out." if not has_grid(cap.strata) and _any_infinite(shown) else ""
    axes = f" Only the first {MOST_AXES} numbers are drawn." if cap.n_outputs_ > MOST_AXES else ""
    return f"Regions of some held-out transitions. {kind} are the region, by stratum.{start}{more}{axes}"


def _any_infinite(shown: Sequence[Shown]) -> bool:
    return any((one.region.thresholds < 0).any() for one in shown)
