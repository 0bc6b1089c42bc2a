"""Figures of strata and of regions in one, two, three and more dimensions (needs matplotlib, extra `view`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.report.canvas import Canvas, rgb
from capture_cp.report.draw import add_legend, draw, figure_of, handles, name_things
from capture_cp.report.panel import Dots, Extract, Image, Panel, Shape, rectangle
from capture_cp.report.style import ACTION, PARTICLES, START, STRONG, colour_of, labels, outcome_look, pyplot
from capture_cp.spaces.strata import FunctionStrata, GriddedStrata, grid_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Configurations at which the stratum is evaluated to find the ends of intervals, and pixels along a side of a map.
STEPS, MAP = 2000, 110
#: Height of the particles and marks below the rows of intervals.
BELOW = -0.75
#: Sizes of dots in two and in three dimensions; width of a panel of a report in inches.
DOT, BALL, PANEL = 3.5, 6.0, 2.9


def plot_strata(
    strata: GriddedStrata, ax: Axes | None = None, axes: tuple[int, int] = (0, 1), opacity: float = 0.12
) -> Axes:
    """Plot the strata as a map, pale by default, with infeasible space in grey; with more than two axes, a middle slice."""
    gridded = grid_of(strata)
    grid = gridded.require_grid()
    check_axes(axes, grid.dims, 2)
    ax = ax if ax is not None else pyplot().subplots(figsize=(4, 4))[1]
    rest = grid.origin + grid.spacing * (np.array(grid.shape) // 2)
    sides = [grid.origin[axis] + grid.spacing[axis] * (np.arange(grid.shape[axis])) for axis in axes]
    cells = np.tile(rest, (len(sides[0]) * len(sides[1]), 1))
    cells[:, axes[0]], cells[:, axes[1]] = np.tile(sides[0], len(sides[1])), np.repeat(sides[1], len(sides[0]))
    labels = gridded.labels[grid.cell(cells)].reshape(len(sides[1]), len(sides[0]))
    colours = [(*rgb(colour_of(m)) / 255, opacity) for m in range(len(gridded.names))]
    pixels = np.array([*colours, (0.8, 0.8, 0.8, 1.0)])[labels][::-1]
    low = grid.origin - grid.spacing / 2
    high = low + grid.spacing * np.array(grid.shape)
    equal = len(set(axes) & set(grid.periodic)) != 1
    draw(ax, Panel(images=(Image(pixels, low[list(axes)], high[list(axes)]),), equal=equal))
    return ax


def check_axes(axes: Sequence[int], dims: int, wanted: int) -> None:
    """Raise an error unless `axes` are `wanted` different axes of the configuration."""
    if len(axes) != wanted or len(set(axes)) != wanted or not all(0 <= axis < dims for axis in axes):
        number = {1: "one axis", 2: "two different axes", 3: "three different axes"}[wanted]
        raise CaptureError(f"axes are {tuple(axes)}; expected {number} from 0 to {dims - 1}.")


# -- panels -------------------------------------------------------------------------------------------------------------


def region_panel(one: Extract, axes: Sequence[int], names: Sequence[str] = (), **contents: Any) -> Panel:
    """A region projected on one, two or three axes, escaped `names`, with particles, start, action and outcome."""
    if names and len(names) <= max(axes):
        raise CaptureError(f"got {len(names)} names; expected one for each coordinate of a configuration.")
    texts = dict(zip(("across", "up", "deep"), (names[axis] for axis in axes))) if names else {}

    def at(Y: Floats) -> Floats:
        shown = np.atleast_2d(Y)[:, list(axes)]
        return np.column_stack([shown, np.full(len(shown), BELOW)]) if len(axes) == 1 else shown

    if len(axes) == 1:
        contents |= _intervals(one)
    elif len(axes) == 2 and one.spacing is not None:
        contents |= {"images": (_cells(one, axes),), "equal": comparable(one, axes)}
    else:
        size = BALL if len(axes) == 3 else DOT
        parts = [(m, one.Y[one.labels == m]) for m in (-1, *range(len(one.names)))]
        contents |= {"dots": tuple(Dots(at(Y), colour_of(m), size) for m, Y in parts if len(Y)), "equal": False}
    if one.outcome is not None:
        contents |= {"outcomes": at(one.outcome), "inside": np.array([one.inside])}
    start = None if one.start is None else at(one.start)[0]
    return Panel(particles=at(one.particles), start=start, **(texts | contents))


def _cells(one: Extract, axes: Sequence[int]) -> Image:
    """The cells of a region on two axes, by stratum."""
    assert one.spacing is not None
    spacing, Y = one.spacing[list(axes)], one.Y[:, list(axes)]
    low = Y.min(axis=0) if len(Y) else np.zeros(2)
    cells = np.rint((Y - low) / spacing).astype(int)
    width, height = cells.max(axis=0) + 1 if len(Y) else (1, 1)
    pixels = np.zeros((height, width, 4))
    for m in (-1, *range(len(one.names))):
        across, up = cells[one.labels == m].T
        pixels[height - 1 - up, across] = (*rgb(colour_of(m)) / 255, STRONG)
    return Image(pixels, low - spacing / 2, low + spacing * (width - 0.5, height - 0.5))


def _intervals(one: Extract) -> dict[str, Any]:
    """Bars for a region of configurations of one number, a row for each stratum."""
    if one.spacing is not None:
        half, order = one.spacing[0] / 2, np.argsort(one.Y[:, 0])
        found = _runs(one.Y[order, 0], one.labels[order], 2.2 * half, half)
    else:
        low, high = one.Y.min(), one.Y.max()
        places = np.linspace(low - 0.02 * (high - low), high + 0.02 * (high - low), STEPS)
        places = np.union1d(places, one.Y[:, 0])
        found = _runs(places, one.classify(places[:, None]), np.inf, 0.0)
    rows = [m for m in (-1, *range(len(one.names))) if m >= 0 or any(run[0] == m for run in found)]
    bars = [
        # an edge, so that an interval of zero width is visible
        Shape(rectangle((low, at - 0.3), (high, at + 0.3)), colour_of(m), colour_of(m), STRONG, 1.5)
        for at, m in enumerate(rows)
        for number, low, high in found
        if number == m
    ]
    return {"shapes": tuple(bars), "rows": tuple(wrapped(["infeasible" if m < 0 else one.names[m] for m in rows], 28))}


def _runs(places: Floats, labels: Ints, gap: float, half: float) -> list[tuple[int, float, float]]:
    """Label, first and last of consecutive sorted values (n,) with one label and no larger gap; -2 is no label."""
    cuts = np.flatnonzero((np.diff(labels) != 0) | (np.diff(places) > gap)) + 1
    runs = [run for run in np.split(np.arange(len(places)), cuts) if len(run) and labels[run[0]] != -2]
    return [(int(labels[run[0]]), places[run[0]] - half, places[run[-1]] + half) for run in runs]


def limits(one: Extract, axes: Sequence[int], square: bool = True) -> tuple[Floats, Floats]:
    """Corners (a,) around the region, particles and marks, with a margin; with `square`, of equal sides."""
    marks = [place for place in (one.start, one.outcome) if place is not None]
    shown = np.vstack([one.Y, one.particles, *marks])[:, list(axes)]
    low, high = shown.min(axis=0), shown.max(axis=0)
    half = 0.58 * (high - low)
    if one.spacing is not None:
        half = np.maximum(half, 6 * one.spacing[list(axes)])
    half = np.maximum(np.full(len(axes), half.max()) if square else half, 1e-9 + 1e-6 * np.abs(high))
    return (low + high) / 2 - half, (low + high) / 2 + half


def comparable(one: Extract, axes: Sequence[int]) -> bool:
    """Whether two axes presumably have the same unit: both are angles, or neither is."""
    return len(set(axes) & set(one.angles)) in (0, len(axes))


def region_key(one: Extract, counted: bool = True, strata: bool = True) -> list[Any]:
    """Legend entries of a region: its strata, with their numbers of cells where `counted`, and its marks."""
    found: list[Any] = []
    for m in (-1, *range(len(one.names))) if strata else ():
        if count := int((one.labels == m).sum()):
            cells = f" ({count:,} cells)" if one.spacing is not None and counted else ""
            found.append((("infeasible" if m < 0 else one.names[m]) + cells, colour_of(m)))
    start = [ACTION, START] if one.start is not None else []
    return [*found, PARTICLES, *start, *([] if one.outcome is None else [outcome_look(one.inside)])]


# -- figures ------------------------------------------------------------------------------------------------------------


def plot_region(one: Extract, ax: Axes | None, axes: Sequence[int] | None, names: Sequence[str] | None) -> Axes:
    """Plot a region into `ax`, or into new axes with labels and a legend; see `Region.plot`."""
    dims = one.particles.shape[1]
    axes = tuple(range(min(dims, 3 if hasattr(ax, "zaxis") else 2))) if axes is None else tuple(axes)
    check_axes(axes, dims, len(axes) if len(axes) in (1, 3) else 2)
    own, ends = ax is None, {}
    if ax is None:
        names = names or [f"axis {axis}" for axis in range(dims)]
        if len(axes) == 3:
            ax = pyplot().figure(figsize=(5.2, 5.0), layout="constrained").add_subplot(projection="3d")
            ax.locator_params(nbins=5)
        else:
            size = (4.6, 4.6) if len(axes) == 2 else (5.2, 1.2 + 0.45 * len(one.names))
            ax = pyplot().subplots(figsize=size, layout="constrained")[1]
        if len(axes) == 2:
            ends = dict(zip(("low", "high"), limits(one, axes, comparable(one, axes) and one.spacing is not None)))
    draw(ax, region_panel(one, axes, labels(names or ()), **ends))
    key = region_key(one, strata=len(axes) > 1)
    name_things(ax, key)
    if own:
        add_legend(ax.figure, key, 2 if len(axes) > 1 else 3, 8)
    return ax


def plot_pairs(one: Extract, names: Sequence[str] | None = None, axes: Sequence[int] | None = None) -> Any:
    """A figure of the region's projections onto every pair of `axes`, by default all; see `Region.plot_matrix`."""
    axes = range(one.particles.shape[1]) if axes is None else axes
    if len(axes) == 1:
        return plot_region(one, None, (0,), names).figure
    names, sides = names or [f"axis {axis}" for axis in axes], len(axes) - 1
    size = min(1.75 * sides + 1.6, 14.0)
    figure, panels = pyplot().subplots(sides, sides, figsize=(size, size), squeeze=False, sharex="col", sharey="row")
    # fixed margins: computing the layout of so many panels takes seconds
    bottom = 0.6 if sides > 1 else 1.2
    figure.subplots_adjust(0.85 / size, bottom / size, 1 - 0.15 / size, 1 - 0.4 / size, wspace=0.08, hspace=0.08)
    for row, column in product(range(sides), range(sides)):
        if column > row:
            panels[row, column].axis("off")
            continue
        pair = axes[column], axes[row + 1]
        low, high = limits(one, pair, square=False)
        draw(panels[row, column], region_panel(one, pair, low=low, high=high))
        across, up = labels(names[axis] for axis in pair)
        panels[row, column].set(aspect="auto", xlabel=across * (row == sides - 1), ylabel=up * (column == 0))
    place: dict[str, Any] = {"loc": "upper right"} if sides > 1 else {"loc": "lower center", "ncols": 2}
    (panels[0, -1] if sides > 1 else figure).legend(handles=handles(region_key(one)), fontsize=8, frameon=False, **place)
    return figure


# -- a report -----------------------------------------------------------------------------------------------------------


def regions_figure(extracts: Sequence[Extract], titles: Sequence[str], names: Sequence[str]) -> Any:
    """Regions of configurations of one, two or three numbers, the last as three projections each, with one legend."""
    dims, names = extracts[0].particles.shape[1], labels(names)
    pairs: list[Any] = [(0,)] if dims == 1 else list(combinations(range(dims), 2))
    panels = [
        _projection(one, axes, names if dims > 1 or one is extracts[-1] else (), title if axes == pairs[0] else "")
        for one, title in zip(extracts, titles)
        for axes in pairs
    ]
    wide, height = {1: (1, 0.7 + 0.3 * len(extracts[0].names)), 2: (3, PANEL + 0.7), 3: (3, 2.7)}[dims]
    rows = [panels[first : first + wide] for first in range(0, len(panels), wide)]
    every: dict[Any, None] = dict.fromkeys(entry for one in extracts for entry in region_key(one, counted=False))
    strata = [(f"region: {entry[0]}", entry[1]) for entry in every if len(entry) == 2]
    key = [*strata, *(entry for entry in every if len(entry) > 2)]
    size = 8.0 if dims == 1 else 3 * PANEL, height * len(rows) + 0.5
    figure = figure_of(rows, size, key=key, columns=3, sharex=dims == 1)
    for axis in figure.axes if dims > 1 else ():
        axis.locator_params(nbins=5)
    return figure


def _projection(one: Extract, axes: Sequence[int], names: Sequence[str], title: str) -> Panel:
    """A region on one axis or two, over its strata where it has no other axis."""
    if len(axes) == 1:
        return region_panel(one, axes, names, title=title)
    square = comparable(one, axes)
    low, high = limits(one, axes, square)
    shown = region_panel(one, axes, names, low=low, high=high, title=title)
    ground: tuple[Image, ...] = ()
    if len(one.names) > 1 and one.particles.shape[1] == 2:
        canvas = Canvas(FunctionStrata(one.index, one.names), low, high, MAP, square=False)
        ground = (Image(canvas.ground(np.zeros(2))[1], low, high),)
    return replace(shown, images=(*ground, *shown.images), equal=square)


def wrapped(names: Sequence[str], wide: int = 40) -> list[str]:
    """Names, which may have several lines, in lines of a picture."""
    lines = [name.split("\n") for name in labels(names)]
    return ["\n".join(fill(line, wide, break_long_words=True) for line in some) for some in lines]
