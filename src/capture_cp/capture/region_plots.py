"""Plots of regions in one, two and three dimensions and by pairs of axes; angles unwrapped (needs matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from textwrap import fill
from typing import Any, NamedTuple, Protocol

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, whole_number
from capture_cp.base.streams import Randomness, generator
from capture_cp.capture.region_draws import Searchable
from capture_cp.capture.region_marks import Marks, draw_marks
from capture_cp.capture.region_search import middles, particles_of, unwrapped
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.plotting import check_axes, label, plot_cells, plot_intervals, plot_points, pyplot
from capture_cp.spaces.strata import grid_of, has_grid

#: Configurations at which the stratum is evaluated to find the ends of intervals.
STEPS = 2000
#: Size of a sample that is only plotted.
POINTS = 2000
#: A stratum's part is plotted with at least one in this many of the sample's configurations.
SEEN = 20


class Drawn(Searchable, Protocol):
    """The interface of a region that is used here."""

    def cells(self, stratum: str | None = None) -> Ints:
        """Flat indices of the region's grid cells."""

    def sample(self, n: int, rng: Randomness = None, stratum: str | None = None) -> Floats:
        """Configurations (n, dc) drawn uniformly from the region, or from its part in one stratum."""


class Members(NamedTuple):
    """Members of a region to plot: centres of its cells, or a sample."""

    Y: Floats  # (n, dc), angles unwrapped
    labels: Ints  # (n,)


def members_of(region: Drawn, n: int, rng: Randomness) -> Members:
    """The centres of the region's cells if the strata have a grid, otherwise n configurations of it.

    A part too thin to be visible among them gets more samples: a fraction of `1 / SEEN`.
    """
    n = whole_number("n", n, 1)
    if has_grid(region.strata):
        strata = grid_of(region.strata)
        cells = region.cells()
        return Members(unwrapped(region, strata.require_grid().centre(cells)), strata.labels[cells].astype(np.int64))
    rng = generator(rng)  # one generator for all strata, so that a seed does not draw the same numbers for each
    Y = region.sample(n, rng)
    labels = np.asarray(region.strata.index(Y))
    for m, name in enumerate(region.strata.names):
        here = int((labels == m).sum())
        # a thin part is searched only if it was hit, or if the strata have a `project`
        if here < n // SEEN and region.thresholds[m] >= 0 and (here or hasattr(region.strata, "project")):
            more = _more(region, n // SEEN - here, name, rng)
            Y, labels = np.concatenate([Y, more]), np.concatenate([labels, np.full(len(more), m)])
    return Members(unwrapped(region, Y), labels)


def _more(region: Drawn, n: int, stratum: str, rng: np.random.Generator) -> Floats:
    """n configurations (n, dc) of the part in one stratum, or none if it is empty."""
    try:
        return region.sample(n, rng, stratum)
    except CaptureError:
        return np.empty((0, region.dims))


def plot_region(
    region: Drawn,
    ax: Any,
    axes: Sequence[int] | None,
    members: Members,
    names: Sequence[str] | None,
    marks: Marks,
) -> Any:
    """Plot a region into `ax`, or into new axes with labels and a legend; see `Region.plot`."""
    axes = tuple(axes) if axes is not None else _first(region, ax)
    check_axes(axes, region.dims, len(axes) if len(axes) in (1, 3) else 2)
    own = ax is None
    ax = _new_axes(len(axes), len(region.strata.names)) if own else ax
    if len(axes) == 1:
        plot_intervals(region.strata.names, _intervals(region, members), ax)
    elif len(axes) == 2 and has_grid(region.strata):
        plot_cells(grid_of(region.strata), region.cells(), ax, (axes[0], axes[1]), turned(region, members))
    else:
        plot_points(region.strata.names, members.labels, members.Y, ax, axes)
    draw_marks(region, ax, axes, marks)
    if own or names is not None:
        _label(ax, axes, names or [f"axis {axis}" for axis in range(region.dims)])
    if own:
        if len(axes) == 2:
            zoom(ax, region, axes, members, marks, square=comparable(region, axes) and has_grid(region.strata))
        _legend(ax, len(axes))
    return ax


def plot_pairs(
    region: Drawn, members: Members, names: Sequence[str] | None, marks: Marks, axes: Sequence[int] | None = None
) -> Any:
    """A figure of the region's projections onto every pair of `axes`, by default all; see `Region.plot_matrix`."""
    axes = range(region.dims) if axes is None else axes
    if len(axes) == 1:
        return plot_region(region, None, (0,), members, names, marks).figure
    labels, sides = names or [f"axis {axis}" for axis in range(region.dims)], len(axes) - 1
    size = min(1.75 * sides + 1.6, 14.0)
    figure, panels = pyplot().subplots(sides, sides, figsize=(size, size), squeeze=False, sharex="col", sharey="row")
    # fixed margins: computing the layout of so many panels takes seconds
    bottom = 0.6 if sides > 1 else 1.2
    figure.subplots_adjust(0.85 / size, bottom / size, 1 - 0.15 / size, 1 - 0.4 / size, wspace=0.08, hspace=0.08)
    for row, column in product(range(sides), range(sides)):
        panel = panels[row, column]
        if column > row:
            panel.axis("off")
            continue
        pair = axes[column], axes[row + 1]
        plot_region(region, panel, pair, members, None, marks)
        panel.set_aspect("auto")
        zoom(panel, region, pair, members, marks, square=False)
        panel.set(
            xlabel=label(labels[pair[0]]) if row == sides - 1 else "", ylabel=label(labels[pair[1]]) if column == 0 else ""
        )
    handles, texts = panels[0, 0].get_legend_handles_labels()
    place: dict[str, Any] = {"loc": "upper right"} if sides > 1 else {"loc": "lower center", "ncols": 2}
    (panels[0, -1] if sides > 1 else figure).legend(handles, _wrapped(texts), fontsize=8, frameon=False, **place)
    return figure


def zoom(ax: Any, region: Drawn, axes: Sequence[int], members: Members, marks: Marks, square: bool = True) -> None:
    """Set the limits to show the region, particles and marks with a margin; with `square`, with equal scales."""
    particles = unwrapped(region, particles_of(region.prediction))
    shown = np.vstack([members.Y, particles, *marks.places])[:, list(axes)]
    low, high = shown.min(axis=0), shown.max(axis=0)
    half = 0.58 * (high - low)
    if has_grid(region.strata):
        half = np.maximum(half, 6 * grid_of(region.strata).require_grid().spacing[list(axes)])
    half = np.maximum(np.full(len(axes), half.max()) if square else half, 1e-9 + 1e-6 * np.abs(high))
    middle = (low + high) / 2
    for side, axis in enumerate("xyz"[: len(axes)]):
        ax.set(**{f"{axis}lim": (middle[side] - half[side], middle[side] + half[side])})


def turned(region: Drawn, members: Members) -> dict[int, float]:
    """The angle axes along which the region crosses ±π, each with the angle at the centre of its plot."""
    return {axis: turn for axis, turn in middles(region).items() if (np.abs(members.Y[:, axis]) > np.pi + 1e-9).any()}


def comparable(region: Drawn, axes: Sequence[int]) -> bool:
    """Whether two axes presumably have the same unit: both are angles, or neither is."""
    return len(set(axes) & set(region.angles)) in (0, len(axes))


def _first(region: Drawn, ax: Any) -> tuple[int, ...]:
    """The default axes to plot: as many as `ax` has, at most two unless it has three."""
    return tuple(range(min(region.dims, 3 if hasattr(ax, "zaxis") else 2)))


def _new_axes(count: int, strata: int) -> Any:
    if count == 3:
        ax = pyplot().figure(figsize=(5.2, 5.0), layout="constrained").add_subplot(projection="3d")
        ax.locator_params(nbins=5)
        return ax
    return pyplot().subplots(figsize=(4.6, 4.6) if count == 2 else (5.2, 1.2 + 0.45 * strata), layout="constrained")[1]


def _intervals(region: Drawn, members: Members) -> dict[int, Floats]:
    """The region's part in each stratum as intervals (n, 2), for configurations of one coordinate."""
    if has_grid(region.strata):
        half = grid_of(region.strata).require_grid().spacing[0] / 2
        order = np.argsort(members.Y[:, 0])
        return _runs(members.Y[order, 0], members.labels[order], 2.2 * half, half)
    low, high = members.Y.min(), members.Y.max()
    places = np.union1d(np.linspace(low - 0.02 * (high - low), high + 0.02 * (high - low), STEPS), members.Y[:, 0])
    Y = places[:, None].copy()
    if region.angles:
        Y = wrap_angle(Y)
    labels = np.where(region.contains(Y), np.asarray(region.strata.index(Y)), -2)
    return _runs(places, labels, np.inf, 0.0)


def _runs(places: Floats, labels: Ints, gap: float, half: float) -> dict[int, Floats]:
    """Intervals of consecutive sorted values (n,) with the same label and no larger gap; -2 is no label."""
    if not len(places):
        return {}
    cuts = np.flatnonzero((np.diff(labels) != 0) | (np.diff(places) > gap)) + 1
    runs = [
        (int(labels[run[0]]), places[run[0]] - half, places[run[-1]] + half)
        for run in np.split(np.arange(len(places)), cuts)
    ]
    return {m: np.array([run[1:] for run in runs if run[0] == m]) for m in {run[0] for run in runs} - {-2}}


def _label(ax: Any, axes: Sequence[int], names: Sequence[str]) -> None:
    if len(names) <= max(axes):
        raise CaptureError(f"got {len(names)} names; expected one for each coordinate of a configuration.")
    ax.set(**{f"{side}label": label(names[axis]) for side, axis in zip("xyz", axes)})


def _legend(ax: Any, count: int) -> None:
    """Place the legend below the plot, where it covers nothing."""
    handles, texts = ax.get_legend_handles_labels()
    columns = 2 if count > 1 else 3
    ax.figure.legend(handles, _wrapped(texts), loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def _wrapped(texts: Sequence[str]) -> list[str]:
    return [fill(text, 28, break_long_words=True) for text in texts]
