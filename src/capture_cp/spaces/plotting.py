"""Pictures of cells by stratum (needs matplotlib, extra `view`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, printable
from capture_cp.spaces.strata import GriddedStrata, grid_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Okabe and Ito's colours, which colour-blind readers can distinguish: strata in order, then infeasible cells of a region.
STRATA_COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
INFEASIBLE_COLOUR = "#555555"


def pyplot() -> Any:
    """matplotlib.pyplot, or a sentence on how to get it."""
    try:
        import matplotlib.pyplot
    except ImportError:
        raise CaptureError('plots need matplotlib; install it with: pip install "capture-cp[view]".') from None
    return matplotlib.pyplot


def label(name: str) -> str:
    """A name as a figure shows it: a dollar sign is one, and does not begin a formula."""
    return printable(name).replace("$", r"\$")


def plot_strata(
    strata: GriddedStrata, ax: Axes | None = None, axes: tuple[int, int] = (0, 1), opacity: float = 0.12
) -> Axes:
    """The strata as a map, pale by default, infeasible space in grey; of more than two axes, a middle slice."""
    gridded = grid_of(strata)
    grid = gridded.require_grid()
    _check_axes(axes, grid.dims)
    ax = ax if ax is not None else pyplot().subplots(figsize=(4, 4))[1]
    labels = gridded.labels.reshape(grid.shape)
    middle = tuple(slice(None) if axis in axes else grid.shape[axis] // 2 for axis in range(grid.dims))
    plane = labels[middle] if axes[0] < axes[1] else labels[middle].T
    picture = np.full((*plane.shape, 4), [0.8, 0.8, 0.8, 1.0])
    for m in range(len(gridded.names)):
        picture[plane == m] = (*_rgb(_colour(m)), opacity)
    _show(ax, picture, gridded, axes)
    return ax


def plot_cells(strata: GriddedStrata, cells: Ints, ax: Axes | None = None, axes: tuple[int, int] = (0, 1)) -> Axes:
    """Some cells (c,) of the grid, coloured by stratum and projected on two axes; their numbers go into the legend."""
    grid = strata.require_grid()
    _check_axes(axes, grid.dims)
    ax = ax if ax is not None else pyplot().subplots(figsize=(4, 4))[1]
    index = np.stack(np.unravel_index(cells, grid.shape), axis=-1)
    labels = strata.labels[cells]
    picture = np.zeros((grid.shape[axes[0]], grid.shape[axes[1]], 4))
    for m in [-1, *range(len(strata.names))]:
        colour = INFEASIBLE_COLOUR if m < 0 else _colour(m)
        here = index[labels == m]
        picture[here[:, axes[0]], here[:, axes[1]]] = (*_rgb(colour), 0.75)
        if len(here):
            name = "infeasible" if m < 0 else label(strata.names[m])
            ax.scatter([], [], marker="s", color=colour, alpha=0.75, label=f"{name} ({len(here):,} cells)")
    _show(ax, picture, strata, axes)
    return ax


def plot_points(
    names: Sequence[str], labels: Ints, Y: Floats, ax: Axes | None = None, axes: tuple[int, int] = (0, 1)
) -> Axes:
    """Configurations Y (n, dc), coloured by stratum and projected on two axes; of one axis, on a line."""
    dims = Y.shape[1]
    if dims > 1:
        _check_axes(axes, dims)
    ax = ax if ax is not None else pyplot().subplots(figsize=(4, 4 if dims > 1 else 1.6))[1]
    for m in [-1, *range(len(names))]:
        here = Y[labels == m]
        if len(here):
            x, y = (here[:, axes[0]], here[:, axes[1]]) if dims > 1 else (here[:, 0], np.zeros(len(here)))
            colour = INFEASIBLE_COLOUR if m < 0 else _colour(m)
            ax.plot(x, y, ".", color=colour, ms=3, alpha=0.5, lw=0, label="infeasible" if m < 0 else label(names[m]))
    if dims == 1:
        ax.set_yticks([])
    return ax


def _show(ax: Axes, picture: Any, strata: GriddedStrata, axes: tuple[int, int]) -> None:
    grid = strata.require_grid()
    low = grid.origin - grid.spacing / 2
    high = low + grid.spacing * np.array(grid.shape)
    extent = (low[axes[0]], high[axes[0]], low[axes[1]], high[axes[1]])
    ax.imshow(picture.swapaxes(0, 1), origin="lower", extent=extent, interpolation="nearest", aspect="equal")


def _check_axes(axes: tuple[int, int], dims: int) -> None:
    if len(set(axes)) != 2 or not all(0 <= axis < dims for axis in axes):
        raise CaptureError(f"axes are {axes}; expected two different axes of the {dims} of the configuration.")


def _colour(m: int) -> str:
    return STRATA_COLOURS[m % len(STRATA_COLOURS)]


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue
