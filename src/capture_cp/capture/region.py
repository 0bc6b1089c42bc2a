"""A prediction region: the union over strata of the configurations whose score passes the stratum's threshold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, finite_rows, whole_number
from capture_cp.base.streams import Randomness, generator
from capture_cp.capture.region_draws import DRAWS, Volume, acceptance, estimated_volume, has_grid, number_of, uniform_sample
from capture_cp.capture.region_search import (
    checked_direction,
    metric_of,
    nearest_distance,
    searched_distance,
    searched_support,
    unwrapped,
)
from capture_cp.conformal.scores import Score
from capture_cp.spaces.plotting import plot_cells, plot_points, pyplot
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata, Strata, checked_index, grid_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def finite_columns(q: Floats) -> Floats:
    """Thresholds (n, M + 1) by which to count cells: strata that belong as a whole need not be looked through."""
    return np.where(np.isinf(q), -1.0, q)


def with_whole_strata(q: Floats, counts: Ints, strata: GriddedStrata) -> Ints:
    """Counts of cells (n, M + 1), infeasible ones last, with every cell of the strata whose threshold is infinite."""
    sizes = np.append(strata.sizes, strata.require_grid().size - strata.sizes.sum())
    return np.where(np.isinf(q), sizes, counts)


class Region:
    """Where the next configuration will be, with probability at least 1 - alpha (Algorithm 2 of the paper).

    Attributes:
        alpha: allowed failure rate.
        thresholds: threshold of each stratum, (M,); +inf takes in the whole stratum.
        prediction: what the model predicted, one row: for particle scores (1, L, dc).
        strata: the stratified space.
        ambient: whether the region ignores feasibility, as LUCCa's ellipsoids do.
    """

    def __init__(
        self, score: Score, prediction: Any, thresholds: Floats, strata: Strata, dims: int, alpha: float, ambient: bool
    ) -> None:
        self.score = score
        self.prediction = prediction
        self.thresholds = thresholds
        self.strata = strata
        self.dims = dims
        self.alpha = alpha
        self.ambient = ambient

    def contains(self, Y: Any) -> Bools:
        """Whether each configuration Y (m, dc) is in the region: bool (m,). One configuration (dc,) counts as a row."""
        Y = finite_rows("Y", Y, self.dims, "(m, dc): one configuration per row")
        labels = checked_index(self.strata.index(Y), len(Y), len(self.strata.names), "strata.index")
        return self.within(Y, labels)

    def within(self, Y: Floats, labels: Ints) -> Bools:
        """Whether configurations Y (m, dc), finite and of known strata `labels` (m,), are in the region: bool (m,)."""
        limits = self.limits(labels)
        inside = np.isinf(limits)
        ask = (limits >= 0) & ~inside
        inside[ask] = self.score.within(self.prediction, Y[ask], limits[ask])
        return inside

    def __contains__(self, y: Any) -> bool:
        return bool(self.contains(finite_array("y", y, (self.dims,), "(dc,): one configuration"))[0])

    def cells(self, stratum: str | None = None) -> Ints:
        """Flat indices of the region's grid cells, of one stratum or of all; feasible unless the region is ambient."""
        if stratum is None:
            return self._cells
        return np.asarray(self._cells[self._labels == number_of(self.strata, stratum)])

    def volume(self, stratum: str | None = None, draws: int = DRAWS, rng: Randomness = None) -> Volume:
        """Volume of the region, of one stratum or of all, with its standard error.

        That of its cells where the strata have a grid, which has no error. Otherwise estimated from `draws` random
        configurations per stratum.
        """
        if has_grid(self.strata):
            return Volume(len(self.cells(stratum)) * grid_of(self.strata).require_grid().cell_volume)
        return estimated_volume(self, stratum, draws, generator(rng))

    def volumes(self) -> dict[str, float]:
        """Volume in each stratum by name, with "infeasible" last if the region is ambient."""
        volumes: dict[str, float] = {name: self.volume(name) for name in self.strata.names}
        if self.ambient:
            volumes["infeasible"] = self.volume() - sum(volumes.values())
        return volumes

    def sample(self, n: int, rng: Randomness = None, stratum: str | None = None) -> Floats:
        """Configurations (n, dc) spread uniformly over the region, or its part in one stratum, every one inside it.

        Over its cells where the strata have a grid; otherwise drawn about the particles, see `acceptance`.
        """
        n, rng = whole_number("n", n, 0), generator(rng)
        if not has_grid(self.strata):
            return uniform_sample(self, n, stratum, rng)
        return self._sample_cells(n, self.cells(stratum), rng)

    def acceptance(self, stratum: str | None = None, draws: int = DRAWS, rng: Randomness = None) -> float:
        """Share of random configurations about the particles that `sample` keeps, where the strata have no grid."""
        return acceptance(self, stratum, draws, generator(rng))

    def bounding_box(self, stratum: str | None = None) -> tuple[Floats, Floats]:
        """Corners (dc,) of a box that holds the region, or its part in one stratum; infinite where a threshold is."""
        chosen = self.thresholds if stratum is None else self.thresholds[[number_of(self.strata, stratum)]]
        low, high = self.score.box(self.prediction, np.array([chosen.max()]), self.dims)
        return low[0], high[0]

    def distance(self, Y: Any, n: int = 1000, rng: Randomness = None) -> Floats:
        """Distance of each configuration Y (m, dc) to the region, by the score's metric: (m,), 0 inside.

        Where the strata have a grid, to the centre of the nearest of the region's cells. Otherwise to the nearest member that
        a search finds, an upper bound: the nearest of n random members and of the particles, pulled toward the configuration
        as far as the way stays in the region; and the configuration moved onto each stratum, where strata have a `project`.
        The search is exact about a single particle without strata, and errs by the spacing of the sample elsewhere. Scores
        without a metric measure by the Euclidean one. Infinite if the region has no cells.
        """
        Y = finite_rows("Y", Y, self.dims, "(m, dc): one configuration per row")
        found, outside = np.zeros(len(Y)), np.flatnonzero(~self.contains(Y))
        if has_grid(self.strata):
            centres = grid_of(self.strata).require_grid().centre(self.cells())
            found[outside] = nearest_distance(metric_of(self), Y[outside], centres)
        elif len(outside):
            found[outside] = searched_distance(self, Y[outside], self.sample(whole_number("n", n, 1), rng))
        return found

    def support(self, direction: Any, n: int = 1000, rng: Randomness = None) -> float:
        """Largest value of direction · y over the region, for a direction (dc,): how far it reaches that way.

        Where the strata have a grid, over the centres of its cells. Otherwise of the members that a search finds, a lower
        bound: the best of n random members climb by random steps. It never exceeds what `bounding_box` allows. Angles are
        taken within half a turn of the particles' mean direction.
        """
        wanted = checked_direction(direction, self.dims)
        if not has_grid(self.strata):
            rng = generator(rng)
            return searched_support(self, wanted, self.sample(whole_number("n", n, 1), rng), rng)
        if len(self.cells()) == 0:
            raise CaptureError("the region has no cells, so it reaches nowhere: it is empty, or smaller than a cell.")
        return float((unwrapped(self, grid_of(self.strata).require_grid().centre(self.cells())) @ wanted).max())

    def _sample_cells(self, n: int, cells: Ints, rng: np.random.Generator) -> Floats:
        grid = grid_of(self.strata).require_grid()
        if len(cells) == 0 and n:
            raise CaptureError("the region has no cells to sample from: it is empty, or smaller than a cell of the grid.")
        Y = grid.centre(rng.choice(cells, size=n)) if n else np.empty((0, self.dims))
        moved = Y + rng.uniform(-0.5, 0.5, size=Y.shape) * grid.spacing
        inside = self.contains(moved)
        Y[inside] = moved[inside]  # elsewhere the cell's centre, which is in the region
        return Y

    def project(self, axes: Sequence[int], n: int = 2000, rng: Randomness = None) -> Floats:
        """The region's shadow on some axes: n of its configurations, uniform over it, with those axes only, (n, a)."""
        return self.sample(n, rng)[:, list(axes)]

    def plot(self, ax: Axes | None = None, axes: tuple[int, int] = (0, 1), n: int = 2000, rng: Randomness = None) -> Axes:
        """Draw the region by stratum, and its particles, projected on two axes of the configuration.

        Its cells where the strata have a grid, otherwise a sample of n configurations.
        """
        if has_grid(self.strata):
            ax = plot_cells(grid_of(self.strata), self.cells(), ax, axes)
        else:
            Y = self.sample(n, rng)
            ax = plot_points(self.strata.names, self.strata.index(Y), Y, ax, axes)
        particles = self.prediction if isinstance(self.prediction, np.ndarray) else self.prediction.mean[None]
        x = particles[0, :, axes[0]]
        y = particles[0, :, axes[1]] if self.dims > 1 else np.zeros(len(x))
        ax.scatter(x, y, s=9, color="black", zorder=3, label="prediction")
        return ax

    def plot_matrix(self, names: Sequence[str] | None = None, n: int = 2000, rng: Randomness = None) -> Any:
        """The region's shadows on every pair of axes, for configurations of more than two numbers."""
        labels, seed = names or [f"axis {axis}" for axis in range(self.dims)], generator(rng).integers(2**62)
        sides = max(self.dims - 1, 1)
        figure, panels = pyplot().subplots(
            sides, sides, figsize=(2.2 * sides, 2.2 * sides), squeeze=False, layout="constrained"
        )
        for row, column in product(range(sides), range(sides)):
            panel = panels[row, column]
            if column > row or self.dims < 2:
                panel.axis("off")
                continue
            self.plot(panel, (column, row + 1), n, int(seed))
            panel.set(xlabel=labels[column] if row == sides - 1 else "", ylabel=labels[row + 1] if column == 0 else "")
        figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="upper right", fontsize=8)
        return figure

    def __repr__(self) -> str:
        parts = [f"{name} {self._tell(m)}" for m, name in enumerate(self.strata.names)]
        return f"Region(alpha={self.alpha:g}: {'; '.join(parts)})"

    def _tell(self, m: int) -> str:
        q = self.thresholds[m]
        reach = "whole stratum" if np.isinf(q) else f"within {q:.4g}"
        if not has_grid(self.strata):
            return reach
        return f"{len(self.cells(self.strata.names[m])):,} cells, {reach}"

    def limits(self, labels: Ints) -> Floats:
        """Threshold of each label (n,), negative where nothing belongs to the region."""
        outside = self.thresholds[0] if self.ambient else -1.0
        return np.where(labels == INFEASIBLE, outside, self.thresholds[labels])

    @cached_property
    def _cells(self) -> Ints:
        strata = grid_of(self.strata)
        grid = strata.require_grid()
        whole = np.flatnonzero(np.isinf(self.limits(strata.labels.astype(np.int64))))
        finite = self.thresholds[np.isfinite(self.thresholds)]
        if len(finite) == 0 or finite.max() < 0:
            return whole
        first, extent = grid.box(*self.score.box(self.prediction, finite.max(keepdims=True), grid.dims))
        near = grid.cells_in_box(first[0], extent[0])
        limits = self.limits(strata.labels[near].astype(np.int64))
        near = near[(limits >= 0) & np.isfinite(limits)]
        near = near[self.within(grid.centre(near), strata.labels[near].astype(np.int64))]
        return np.sort(np.concatenate([whole, near])) if len(whole) else np.sort(near)

    @cached_property
    def _labels(self) -> Ints:
        return grid_of(self.strata).labels[self._cells].astype(np.int64)
