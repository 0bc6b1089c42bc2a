"""A prediction region: the union over strata of the configurations whose score passes the stratum's threshold."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, finite_rows, whole_number
from capture_cp.base.streams import Randomness, generator
from capture_cp.capture.region_draws import (
    DRAWS,
    Volume,
    acceptance,
    estimated_volume,
    metric_of,
    nearest,
    number_of,
    searched_distance,
    searched_support,
    uniform_sample,
    unwrapped,
)
from capture_cp.capture.region_members import POINTS, checked_marks, extract_of, finite_box
from capture_cp.conformal.scores import NearestParticles, Score
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata, Strata, checked_index, grid_of, has_grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def finite_columns(q: Floats) -> Floats:
    """Thresholds (n, M + 1) for counting cells, with whole strata removed: these need no search."""
    return np.where(np.isinf(q), -1.0, q)


def with_whole_strata(q: Floats, counts: Ints, strata: GriddedStrata) -> Ints:
    """Counts of cells (n, M + 1), infeasible cells last, plus all cells of the strata whose threshold is infinite."""
    sizes = np.append(strata.sizes, strata.require_grid().size - strata.sizes.sum())
    return np.where(np.isinf(q), sizes, counts)


def cells_of(score: Score, prediction: Any, thresholds: Floats, strata: Strata, ambient: bool) -> list[Ints]:
    """The grid cells of the regions of n predictions with `thresholds` (n, M), found together: flat indices, ascending."""
    gridded = grid_of(strata)
    grid, labels = gridded.require_grid(), gridded.labels
    q = np.hstack([thresholds, thresholds[:, :1] if ambient else np.full((len(thresholds), 1), -1.0)])
    searched = finite_columns(q)
    first, extent = grid.box(*score.box(prediction, searched.max(axis=1), grid.dims))
    largest = extent.max(axis=0)  # boxes of equal size, so that one call tests all of them
    wraps = np.isin(np.arange(grid.dims), grid.periodic)
    first = np.where(wraps, first, np.minimum(first, np.array(grid.shape) - largest))
    near = np.stack([grid.cells_in_box(corner, largest) for corner in first])
    limits = searched[np.arange(len(q))[:, None], labels[near]]  # label -1 picks the last
    asked = (limits >= 0).any(axis=0)  # the others are in no region, or in a stratum that is taken in as a whole
    near, limits = near[:, asked], limits[:, asked]
    inside = score.within(prediction, grid.centre(near.ravel()), limits.ravel()).reshape(near.shape) & (limits >= 0)
    whole = [np.flatnonzero(row[labels]) if row.any() else near[0, :0] for row in np.isinf(q)]
    return [np.sort(np.concatenate(parts)) for parts in zip(whole, map(np.extract, inside, near))]


class Region:
    """A set that contains the next configuration with probability at least 1 - alpha (Algorithm 2 of the paper).

    Attributes:
        alpha: allowed failure rate.
        thresholds: threshold of each stratum, (M,); +inf includes the whole stratum.
        prediction: the model's prediction, one row: for particle scores (1, L, dc).
        strata: the stratified space.
        ambient: whether the region ignores feasibility, as LUCCa's ellipsoids do.
    """

    def __init__(
        self,
        score: Score,
        prediction: Any,
        thresholds: Floats,
        strata: Strata,
        dims: int,
        alpha: float,
        ambient: bool,
        cells: Ints | None = None,
    ) -> None:
        self.score = score
        self.prediction = prediction
        self.thresholds = thresholds
        self.strata = strata
        self.dims = dims
        self.alpha = alpha
        self.ambient = ambient
        if cells is not None:
            self._cells = cells

    def contains(self, Y: Any) -> Bools:
        """Whether each configuration Y (m, dc) is in the region: bool (m,). A single configuration (dc,) is one row."""
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
        """Flat indices of the region's grid cells, in one stratum or in all; feasible unless the region is ambient."""
        if stratum is None:
            return self._cells
        return np.asarray(self._cells[self._labels == number_of(self.strata, stratum)])

    def volume(self, stratum: str | None = None, draws: int = DRAWS, rng: Randomness = None) -> Volume:
        """Volume of the region, in one stratum or in all, with its standard error.

        If the strata have a grid, it is the volume of the region's cells, without error. Otherwise it is an unbiased
        estimate from `draws` random configurations around the particles per stratum; a thin part, such as a contact, needs
        more of them, see `acceptance`. Where none is inside, the estimate is 0, and its standard error is what a single
        draw would have contributed at most.
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
        """Configurations (n, dc) drawn uniformly from the region, or from its part in one stratum; all are inside it.

        If the strata have a grid, they are drawn from the region's cells. Otherwise they are drawn around the particles
        with rejection, see `acceptance`; if a part is too small to be found that way, an error says so.
        """
        n, rng = whole_number("n", n, 0), generator(rng)
        if not has_grid(self.strata):
            return uniform_sample(self, n, stratum, rng)
        return self._sample_cells(n, self.cells(stratum), rng)

    def acceptance(self, stratum: str | None = None, draws: int = DRAWS, rng: Randomness = None) -> float:
        """Fraction of random configurations around the particles that a uniform sample keeps, without a grid.

        The relative standard error of `volume` is about 1 / sqrt(draws · acceptance).
        """
        return acceptance(self, stratum, draws, generator(rng))

    def bounding_box(self, stratum: str | None = None) -> tuple[Floats, Floats]:
        """Corners (dc,) of a box that contains the region, or its part in one stratum; infinite where a threshold is."""
        chosen = self.thresholds if stratum is None else self.thresholds[[number_of(self.strata, stratum)]]
        low, high = self.score.box(self.prediction, np.array([chosen.max()]), self.dims)
        return low[0], high[0]

    def finite_box(self) -> Floats:
        """Corners (2, dc) of a box around the parts in strata that the region does not contain entirely."""
        return finite_box(self)

    def distance(self, Y: Any, n: int = 1000, rng: Randomness = None) -> Floats:
        """Distance of each configuration Y (m, dc) to the region, by the score's metric: (m,), 0 inside.

        If the strata have a grid, it is the distance to the nearest cell centre of the region; infinite if it has no cells.
        Otherwise it is an upper bound: the nearest of n random members and the nearest particle that is a member are pulled
        towards the configuration as far as the path stays in the region. Without strata and with k = 1 it is exact for
        Euclidean distances. Scores without a metric use the Euclidean one.
        """
        Y = finite_rows("Y", Y, self.dims, "(m, dc): one configuration per row")
        found, outside = np.zeros(len(Y)), np.flatnonzero(~self.contains(Y))
        if has_grid(self.strata):
            centres = grid_of(self.strata).require_grid().centre(self.cells())
            found[outside] = nearest(metric_of(self), Y[outside], centres)[1]
        elif len(outside):
            found[outside] = searched_distance(self, Y[outside], self.sample(whole_number("n", n, 1), rng))
        return found

    def support(self, direction: Any, n: int = 1000, rng: Randomness = None) -> float:
        """Support function: the largest value of direction · y over the region, for a direction (dc,).

        If the strata have a grid, it is the maximum over the centres of the region's cells. Otherwise it is a lower bound:
        the best of n random members and the particles that are members are pulled in the direction as far as they stay in
        the region. Angles are unwrapped to within half a turn of the particles' mean direction.
        """
        wanted = finite_array("direction", direction, (self.dims,), "(dc,): one number per axis")
        if not wanted.any():
            raise CaptureError("direction is zero; expected a non-zero vector, such as (1, 0).")
        if not has_grid(self.strata):
            return searched_support(self, wanted, self.sample(whole_number("n", n, 1), rng))
        if len(self.cells()) == 0:
            raise CaptureError("the region has no cells, so it has no support: it is empty, or smaller than a cell.")
        return float((unwrapped(self, grid_of(self.strata).require_grid().centre(self.cells())) @ wanted).max())

    def _sample_cells(self, n: int, cells: Ints, rng: np.random.Generator) -> Floats:
        grid = grid_of(self.strata).require_grid()
        if len(cells) == 0 and n:
            raise CaptureError("the region has no cells to sample from: it is empty, or smaller than a cell of the grid.")
        Y = grid.centre(rng.choice(cells, size=n)) if n else np.empty((0, self.dims))
        moved = Y + rng.uniform(-0.5, 0.5, size=Y.shape) * grid.spacing
        inside = self.contains(moved)
        Y[inside] = moved[inside]  # otherwise the cell's centre, which is in the region
        return Y

    def project(self, axes: Sequence[int], n: int = 2000, rng: Randomness = None) -> Floats:
        """Projection of the region onto some axes: n uniform samples of it, restricted to those axes, (n, a)."""
        return self.sample(n, rng)[:, list(axes)]

    def plot(
        self,
        ax: Axes | None = None,
        axes: Sequence[int] | None = None,
        n: int = POINTS,
        rng: Randomness = None,
        names: Sequence[str] | None = None,
        start: Any = None,
        outcome: Any = None,
    ) -> Axes:
        """Plot the region by stratum, and its particles.

        Plots its cells if the strata have a grid, otherwise a sample of n configurations, plus some more of thin parts so
        that these are visible. Angles are unwrapped to within half a turn of the particles' mean direction, so a region
        across ±π is in one piece.

        Args:
            ax: axes to draw in, without labels and legend; by default a new figure with both.
            axes: which coordinates of the configuration to plot: two, (0, 1) by default; three for a 3-D plot; one for
                intervals, the default for configurations of one coordinate.
            n: size of the sample.
            rng: a generator or a seed that draws the sample.
            names: names of the coordinates of a configuration, for labels.
            start: configuration (dc,) before the step, to mark.
            outcome: configuration (dc,) after the step, to mark.
        """
        from capture_cp.report.regions import plot_region

        return plot_region(extract_of(self, n, rng, *checked_marks(self, start, outcome)), ax, axes, names)

    def plot_matrix(
        self,
        names: Sequence[str] | None = None,
        n: int = POINTS,
        rng: Randomness = None,
        start: Any = None,
        outcome: Any = None,
    ) -> Any:
        """A figure of the region's projections onto every pair of axes, for configurations of more than two coordinates.

        Arguments as for `plot`.
        """
        from capture_cp.report.regions import plot_pairs

        return plot_pairs(extract_of(self, n, rng, *checked_marks(self, start, outcome)), names)

    def __repr__(self) -> str:
        parts = [f"{name} {self._described(m)}" for m, name in enumerate(self.strata.names)]
        return f"Region(alpha={self.alpha:g}: {'; '.join(parts)})"

    def _described(self, m: int) -> str:
        q = self.thresholds[m]
        reach = "whole stratum" if np.isinf(q) else f"within {q:.4g}"
        if not has_grid(self.strata):
            return reach
        return f"{len(self.cells(self.strata.names[m])):,} cells, {reach}"

    def limits(self, labels: Ints) -> Floats:
        """Threshold of each label (n,), negative where the region is empty."""
        outside = self.thresholds[0] if self.ambient else -1.0
        return np.where(labels == INFEASIBLE, outside, self.thresholds[labels])

    @cached_property
    def _cells(self) -> Ints:
        return cells_of(self.score, self.prediction, self.thresholds[None], self.strata, self.ambient)[0]

    @cached_property
    def angles(self) -> tuple[int, ...]:
        """The axes of a configuration that are angles."""
        if isinstance(self.score, NearestParticles):
            return self.score.metric_.angles(self.dims)
        return tuple(getattr(self.score, "angles", ()))

    @cached_property
    def _labels(self) -> Ints:
        return grid_of(self.strata).labels[self._cells].astype(np.int64)
