"""A regular grid over configurations: conversion between cells and configurations, and boxes of cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, whole_number


class Grid:
    """A regular grid of cells centred at `origin + index * spacing`, numbered in C order.

    Args:
        origin: configuration at the centre of cell (0, 0, ...), (dc,).
        spacing: distance between neighbouring centres, a number or one per axis, (dc,).
        shape: number of cells along each axis.
        periodic: axes that wrap around, such as a full turn, with period `spacing * shape`.
    """

    def __init__(
        self, origin: Sequence[float], spacing: float | Sequence[float], shape: Sequence[int], periodic: Sequence[int] = ()
    ) -> None:
        self.origin = finite_array("grid origin", origin, (None,), "(dc,): one number per axis")
        dims = len(self.origin)
        steps = [spacing] * dims if np.isscalar(spacing) or np.shape(spacing) == () else spacing
        self.spacing = finite_array("grid spacing", steps, (dims,), "a number, or (dc,): one per axis")
        if len(shape) != dims or (self.spacing <= 0).any():
            raise CaptureError(
                f"a grid needs a positive spacing and a cell count for each of its {dims} axes; "
                f"got spacing {self.spacing.tolist()} and shape {tuple(shape)}."
            )
        self.shape = tuple(whole_number("grid shape", cells, 1) for cells in shape)
        self.periodic = tuple(sorted(whole_number("periodic axis", axis, 0) for axis in periodic))
        if any(axis >= dims for axis in self.periodic):
            raise CaptureError(f"periodic axes {self.periodic} do not exist; the grid has axes 0 to {dims - 1}.")

    @classmethod
    def between(cls, lower: Sequence[float], upper: Sequence[float], spacing: float | Sequence[float]) -> Grid:
        """A grid whose first centre is `lower` and whose last centre is at or just beyond `upper`, both (dc,)."""
        low, high = np.asarray(lower, float), np.asarray(upper, float)
        cells = np.rint((high - low) / np.asarray(spacing, float)).astype(int) + 1
        return cls(low.tolist(), spacing, cells.tolist())

    @property
    def dims(self) -> int:
        return len(self.origin)

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(np.prod(self.shape))

    @property
    def cell_volume(self) -> float:
        return float(np.prod(self.spacing))

    def __repr__(self) -> str:
        cells = " x ".join(str(count) for count in self.shape)
        spacing, origin = (", ".join(f"{value:g}" for value in part) for part in (self.spacing, self.origin))
        return f"Grid({cells} cells of ({spacing}) from ({origin}))"

    def cell(self, Y: Any) -> Ints:
        """Flat index of the cell that contains each configuration Y (n, dc); -1 outside the grid: (n,)."""
        Y = finite_array("Y", Y, (None, self.dims), "(n, dc): one configuration per row")
        index = np.floor((Y - self.origin) / self.spacing + 0.5)
        for axis in self.periodic:
            index[:, axis] %= self.shape[axis]
        inside = ((index >= 0) & (index < self.shape)).all(axis=1)
        cells = np.full(len(Y), -1, dtype=np.int64)
        cells[inside] = np.ravel_multi_index(tuple(index[inside].astype(np.int64).T), self.shape)
        return cells

    def centre(self, cells: Any) -> Floats:
        """Configuration at the centre of each cell (n,): (n, dc)."""
        cells = np.asarray(cells, dtype=np.int64)
        if cells.size and not (cells.min() >= 0 and cells.max() < self.size):
            raise CaptureError(f"cell numbers run from 0 to {self.size - 1}; got {cells.min()} to {cells.max()}.")
        index = np.stack(np.unravel_index(cells, self.shape), axis=-1)
        return self.origin + index * self.spacing

    def box(self, lower: Floats, upper: Floats) -> tuple[Ints, Ints]:
        """First index and extent, both (n, dc), of the cells whose centres lie between `lower` and `upper` (n, dc)."""
        shape = np.asarray(self.shape)
        # one extra cell on each side: rounding must never drop a cell whose centre is on the boundary
        first = np.floor((lower - self.origin) / self.spacing)
        last = np.ceil((upper - self.origin) / self.spacing)
        wraps = np.isin(np.arange(self.dims), self.periodic)
        covers = wraps & (last - first + 1 >= shape)
        first = np.where(covers | ~wraps, np.clip(np.where(covers, 0, first), 0, shape), first)
        last = np.where(covers | ~wraps, np.clip(np.where(covers, shape - 1, last), -1, shape - 1), last)
        extent = np.maximum(last - first + 1, 0)
        return np.where(wraps, first % shape, first).astype(np.int64), extent.astype(np.int64)

    def cells_in_box(self, first: Ints, extent: Ints) -> Ints:
        """Flat indices of the cells of one index box, `first` and `extent` (dc,)."""
        ranges = [(first[a] + np.arange(extent[a])) % self.shape[a] for a in range(self.dims)]
        return np.asarray(np.ravel_multi_index(np.meshgrid(*ranges, indexing="ij"), self.shape).ravel(), dtype=np.int64)
