"""Stratified configuration spaces: which stratum a configuration lies in, and the cells of each stratum."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name, row_numbers
from capture_cp.base.layouts import Columns
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.polygons import labelled_cells

INFEASIBLE = -1
NO_WEIGHTS = np.empty((0, 0), dtype=np.float32)

#: Names of the strata of a robot among polygons, by the number of polygons it touches.
CONTACTS = ("free", "edge", "corner")

NO_GRID = "cells of a region need strata with a grid; use GridStrata(grid, ...) or FunctionStrata(..., grid=grid)."


@runtime_checkable
class Strata(Protocol):
    """The minimal interface of a stratified space: the paper's indexer T.

    `features` (M, df), where present, describes each stratum by numbers that a tree can split on, such as contact bits.
    `rest`, where present, is the number of a catch-all stratum; it may have no data without a warning.
    """

    names: tuple[str, ...]

    def index(self, Y: Floats) -> npt.NDArray[Any]:
        """Stratum of each configuration Y (n, dc), -1 where infeasible: int (n,)."""


class GriddedStrata:
    """Base class of strata with an optional grid, on which regions have cells and volumes."""

    names: tuple[str, ...]
    grid: Grid | None
    features: Floats | None

    def __init__(self, names: Sequence[str], grid: Grid | None, features: Any) -> None:
        if isinstance(names, str) or not names or len(set(names)) != len(names):
            raise CaptureError(f"strata names are {names!r}; expected a list of different names, one per stratum.")
        self.names = tuple(str(name) for name in names)
        self.grid = grid
        self.features = None
        if features is not None:
            self.features = finite_array(
                "strata features", features, (len(self.names), None), "(M, df): one row per stratum"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.names)}; {self.grid or 'no grid'})"

    def index(self, Y: Floats) -> Ints:
        """Stratum of each configuration Y (n, dc), -1 where infeasible: (n,)."""
        raise NotImplementedError

    def require_grid(self) -> Grid:
        """The grid, or an error that explains how to get one."""
        if self.grid is None:
            raise CaptureError(NO_GRID)
        return self.grid

    def number(self, name: str) -> int:
        """Number of the stratum called `name`."""
        return self.names.index(known_name("stratum", name, self.names))

    @cached_property
    def labels(self) -> npt.NDArray[np.int32]:
        """Stratum of every cell of the grid, -1 where infeasible: (cells,)."""
        raise NotImplementedError

    @cached_property
    def _cells(self) -> list[Ints]:
        return [np.flatnonzero(self.labels == m).astype(np.int64) for m in range(len(self.names))]

    def cells(self, name: str) -> Ints:
        """Flat indices of the cells of one stratum."""
        return self._cells[self.number(name)]

    @cached_property
    def sizes(self) -> Ints:
        """Number of cells of each stratum: (M,)."""
        return np.array([len(cells) for cells in self._cells], dtype=np.int64)

    def volume(self, name: str) -> float:
        """Volume of one stratum's cells."""
        return len(self.cells(name)) * self.require_grid().cell_volume

    def digest(self) -> str:
        """Digest of the names and, where there is a grid, of its geometry and labels."""
        found = hashlib.sha256("\0".join(self.names).encode())
        if self.grid is not None:
            found.update(repr((self.grid.shape, self.grid.periodic)).encode())
            for part in (self.grid.origin, self.grid.spacing, self.labels):
                found.update(part.tobytes())
        return found.hexdigest()


class GridStrata(GriddedStrata):
    """Strata as a labelled grid: the stratum of a configuration is a look-up.

    Args:
        grid: the cells.
        labels: stratum number of every cell, -1 where infeasible; shaped like the grid or flat.
        names: one name per stratum; label 0 is names[0].
        features: optional numbers that describe each stratum, (M, df), for trees to split on.
    """

    def __init__(self, grid: Grid, labels: Any, names: Sequence[str], features: Any = None) -> None:
        super().__init__(names, grid, features)
        array = np.asarray(labels)
        if array.shape not in (grid.shape, (grid.size,)):
            raise CaptureError(f"labels have shape {array.shape}; expected the grid's shape {grid.shape}.")
        self.labels = checked_index(array.ravel(), grid.size, len(self.names), "labels").astype(np.int32)

    @classmethod
    def from_polygons(
        cls,
        obstacles: Any,
        bounds: Sequence[float],
        spacing: float,
        radius: float | None = None,
        footprint: Any = None,
        headings: int | None = None,
        tolerance: float | None = None,
        walls: bool = False,
    ) -> GridStrata:
        """Strata of a robot among obstacles in the plane: "free", "edge" (touches one obstacle), "corner" (two or more).

        The robot touches an obstacle where its gap to it, or its depth in it, is at most the tolerance. A configuration is
        infeasible where the robot is deeper: none of 64 trial displacements of up to the tolerance frees it from the
        obstacles. Both are decided at the centres of cells. Strata without cells are omitted.

        Args:
            obstacles: polygons, each a list of corners (v, 2) or a shapely polygon, which may have holes. To make the
                inner corner of a bent wall a corner, list its arms as two obstacles.
            bounds: smallest x, smallest y, largest x, largest y of the grid's cell centres.
            spacing: grid spacing in x and y.
            radius: radius of a round robot, or distance by which a footprint is grown.
            footprint: outline of the robot at heading 0 about its reference point; configurations are then (x, y, theta).
            headings: number of cells per full turn, 72 by default; configurations are then (x, y, theta) even without a
                footprint.
            tolerance: largest gap and depth of a contact. The default is also the minimum: half the diagonal of a cell,
                including its rotation.
            walls: whether the bounds are four walls, each an obstacle.
        """
        grid, counts = labelled_cells(obstacles, bounds, spacing, radius, footprint, headings, tolerance, walls)
        labels = np.minimum(counts, len(CONTACTS) - 1)
        present = np.unique(labels[labels >= 0])
        if len(present) == 0:
            raise CaptureError("no cell is feasible: the robot is larger than the space between the obstacles.")
        numbers = np.where(labels >= 0, np.searchsorted(present, labels), INFEASIBLE)
        return cls(grid, numbers, [CONTACTS[m] for m in present])

    def index(self, Y: Floats) -> Ints:
        cells = self.require_grid().cell(Y)
        return np.where(cells >= 0, self.labels[cells], INFEASIBLE).astype(np.int64)


class FunctionStrata(GriddedStrata):
    """Strata computed by a function, for example from signed distances or contact checks.

    Args:
        function: maps configurations (n, dc) to stratum numbers (n,), -1 where infeasible.
        names: one name per stratum.
        grid: needed only for cells of regions.
        features: optional numbers that describe each stratum, (M, df), for trees to split on.
    """

    def __init__(
        self,
        function: Callable[[Floats], npt.ArrayLike],
        names: Sequence[str],
        grid: Grid | None = None,
        features: Any = None,
    ) -> None:
        super().__init__(names, grid, features)
        self.function = function

    def index(self, Y: Floats) -> Ints:
        return checked_index(self.function(Y), len(Y), len(self.names), "the strata function")

    @cached_property
    def labels(self) -> npt.NDArray[np.int32]:
        grid = self.require_grid()
        parts = np.array_split(np.arange(grid.size), grid.size // 1_000_000 + 1)
        labels = [self.index(grid.centre(part)) for part in parts]
        return np.concatenate(labels).astype(np.int32)


def one_stratum(grid: Grid | None = None) -> FunctionStrata:
    """A single stratum, "all", that contains every configuration: for a robot without contact, or for a first test."""
    return FunctionStrata(_first, ["all"], grid=grid)


def _first(Y: Floats) -> Ints:
    return np.zeros(len(Y), dtype=np.int64)


def has_grid(strata: Strata) -> bool:
    """Whether regions have cells."""
    return isinstance(strata, GriddedStrata) and strata.grid is not None


def grid_of(strata: Strata) -> GriddedStrata:
    """`strata`, checked to have a grid; regions of strata without a grid have members but no cells."""
    if isinstance(strata, GriddedStrata) and strata.grid is not None:
        return strata
    raise CaptureError(NO_GRID)


def checked_index(labels: Any, n: int, n_strata: int, source: str) -> Ints:
    """Stratum numbers returned by user code, checked: int64 (n,), each from -1 to n_strata - 1."""
    array = np.asarray(labels)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise CaptureError(
            f"{source} returned {array.dtype} of shape {array.shape}; expected whole numbers of shape ({n},)."
        )
    if n and not (array.min() >= INFEASIBLE and array.max() < n_strata):
        raise CaptureError(
            f"{source} returned stratum numbers from {array.min()} to {array.max()}; "
            f"expected 0 to {n_strata - 1}, or -1 where infeasible."
        )
    return array.astype(np.int64)


def feasible(name: str, labels: Ints) -> None:
    """Raise an error if outputs are in infeasible space (label -1): dropping them would void the guarantee."""
    rows = np.flatnonzero(labels < 0)
    if len(rows):
        raise CaptureError(
            f"{len(rows)} of {len(labels)} rows of {name} lie in infeasible space (stratum -1), first in {row_numbers(rows)}"
            "; the guarantee needs every recorded transition, so widen the strata or their tolerance instead of dropping "
            "rows."
        )


#: The cells of strata as arrays for kernels, cached while the strata exist; outside them, so that files do not store them.
_COLUMNS: WeakKeyDictionary[GriddedStrata, Columns] = WeakKeyDictionary()


def columns_of(strata: GriddedStrata) -> Columns:
    """The cells of strata, column by column, as arrays for kernels."""
    if strata not in _COLUMNS:
        from capture_cp.kernels.cells import strata_of_columns

        grid = strata.require_grid()
        labels = strata.labels.reshape(-1, grid.shape[-1])
        present = strata_of_columns(labels, len(strata.names))
        periodic = np.isin(np.arange(grid.dims), grid.periodic)
        shape = np.array(grid.shape, dtype=np.int64)
        _COLUMNS[strata] = Columns(labels, NO_WEIGHTS, present, grid.origin, grid.spacing, shape, periodic)
    return _COLUMNS[strata]
