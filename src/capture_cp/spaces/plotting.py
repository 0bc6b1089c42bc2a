"""Plots of cells by stratum (needs matplotlib, extra `view`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, printable
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.strata import GriddedStrata, grid_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's colour-blind-safe colours: strata in order, then infeasible cells of a region.
STRATA_COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
INFEASIBLE_COLOUR = "#555555"


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that explains how to install it."""
    try:
        import matplotlib.pyplot
    except ImportError:
        raise CaptureError('plots need matplotlib; install it with: pip install "capture-cp[view]".') from None
    return matplotlib.pyplot


def label(name: str) -> str:
    """A name escaped for matplotlib, so that a dollar sign does not start a formula."""
    return printable(name).replace("$", r"\$")


def plot_strata(
    strata: GriddedStrata,
    ax: Axes | None = None,
    axes: tuple[int, int] = (0, 1),
    opacity: float = 0.12,
    about: Mapping[int, float] | None = None,
) -> Axes:
    """Plot the strata as a map, pale by default, with infeasible space in grey; with more than two axes, a middle slice.

    `about` maps each wrapping angle axis to the angle shown at the centre of the plot.
    """
    gridded = grid_of(strata)
    grid = gridded.require_grid()
    _check_axes(axes, grid.dims)
    ax = ax if ax is not None else pyplot().subplots(figsize=(4, 4))[1]
    labels = gridded.labels.reshape(grid.shape)
    middle = tuple(slice(None) if axis in axes else grid.shape[axis] // 2 for axis in range(grid.dims))
    plane = labels[middle] if axes[0] < axes[1] else labels[middle].T
    picture = np.full((*plane.shape, 4), [0.8, 0.8, 0.8, 1.0])
    for m in range(len(gridded.names)):
        picture[plane == m] = (*_rgb(colour_of(m)), opacity)
    _show(ax, picture, grid, axes, about or {})
    return ax


def plot_cells(
    strata: GriddedStrata,
    cells: Ints,
    ax: Axes | None = None,
    axes: tuple[int, int] = (0, 1),
    about: Mapping[int, float] | None = None,
) -> Axes:
    """Plot cells (c,) of the grid, coloured by stratum and projected on two axes, with their counts in the legend.

    `about` as for `plot_strata`.
    """
    grid = strata.require_grid()
    _check_axes(axes, grid.dims)
    ax = ax if ax is not None else pyplot().subplots(figsize=(4, 4))[1]
    index = np.stack(np.unravel_index(cells, grid.shape), axis=-1)
    labels = strata.labels[cells]
    picture = np.zeros((grid.shape[axes[0]], grid.shape[axes[1]], 4))
    for m in [-1, *range(len(strata.names))]:
        here = index[labels == m]
        picture[here[:, axes[0]], here[:, axes[1]]] = (*_rgb(colour_of(m)), 0.75)
        if len(here):
            legend = f"{_name(strata.names, m)} ({len(here):,} cells)"
            ax.scatter([], [], marker="s", color=colour_of(m), alpha=0.75, label=legend)
    _show(ax, picture, grid, axes, about or {})
    return ax


def plot_points(names: Sequence[str], labels: Ints, Y: Floats, ax: Axes, axes: tuple[int, ...]) -> None:
    """Plot configurations Y (n, dc), coloured by stratum and projected on two axes, or on three if `ax` has three."""
    check_axes(axes, Y.shape[1], len(axes))
    for m in [-1, *range(len(names))]:
        here = Y[labels == m]
        if len(here):
            look = {"marker": ".", "s": 14, "color": colour_of(m), "alpha": 0.45, "linewidths": 0}
            look |= {"depthshade": False, "s": 24} if len(axes) == 3 else {}
            ax.scatter(*here[:, list(axes)].T, **look)  # type: ignore[arg-type]
            ax.scatter(*np.empty((len(axes), 0)), marker="s", color=colour_of(m), alpha=0.75, label=_name(names, m))


def plot_intervals(names: Sequence[str], intervals: Mapping[int, Floats], ax: Axes) -> None:
    """Plot intervals (n, 2) by stratum number, -1 for infeasible: one line of bars per stratum."""
    shown = [m for m in [-1, *range(len(names))] if m >= 0 or m in intervals]
    for height, m in enumerate(shown):
        found = intervals.get(m, np.empty((0, 2)))
        bars = [(low, high - low) for low, high in found]
        # an edge, so that an interval of zero width is visible
        ax.broken_barh(bars, (height - 0.3, 0.6), color=colour_of(m), alpha=0.75, edgecolor=colour_of(m), linewidth=1.5)
    ax.set(yticks=range(len(shown)), yticklabels=[_name(names, m) for m in shown], ylim=(-1.2, len(shown) - 0.4))


def _show(ax: Axes, picture: Any, grid: Grid, axes: tuple[int, int], about: Mapping[int, float]) -> None:
    extent = []
    for side, axis in enumerate(axes):
        low = grid.origin[axis] - grid.spacing[axis] / 2
        if axis in about:
            first = int(np.rint((about[axis] - np.pi - low) / grid.spacing[axis]))
            picture, low = np.roll(picture, -first, axis=side), low + first * grid.spacing[axis]
        extent += [low, low + grid.spacing[axis] * grid.shape[axis]]
    aspect: Literal["equal", "auto"] = "auto" if len(set(axes) & set(grid.periodic)) == 1 else "equal"
    ax.imshow(picture.swapaxes(0, 1), origin="lower", extent=tuple(extent), interpolation="nearest", aspect=aspect)


def check_axes(axes: Sequence[int], dims: int, wanted: int) -> None:
    """Raise an error unless `axes` are `wanted` different axes of the configuration."""
    if len(axes) != wanted or len(set(axes)) != wanted or not all(0 <= axis < dims for axis in axes):
        number = {1: "one axis", 2: "two different axes", 3: "three different axes"}[wanted]
        raise CaptureError(f"axes are {tuple(axes)}; expected {number} from 0 to {dims - 1}.")


def _check_axes(axes: Sequence[int], dims: int) -> None:
    check_axes(axes, dims, 2)


def _name(names: Sequence[str], m: int) -> str:
    return "infeasible" if m < 0 else label(names[m])


def colour_of(m: int) -> str:
    """Colour of stratum m; -1 is infeasible space."""
    return INFEASIBLE_COLOUR if m < 0 else STRATA_COLOURS[m % len(STRATA_COLOURS)]


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
