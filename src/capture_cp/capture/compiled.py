"""A calibration at one failure rate, compiled for a control loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints
from capture_cp.base.layouts import FUNCTION, PARTICLE_BOX
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.scores import NearestParticles, ParticleBox, Score
from capture_cp.conformal.threshold_table import ThresholdTable
from capture_cp.kernels import loop
from capture_cp.kernels.cells import room_for
from capture_cp.kernels.gaussian import squared_limits
from capture_cp.spaces.strata import NO_GRID, GriddedStrata, Strata, columns_of


class AtOneAlpha(ABC):
    """Base class of compiled calibrations, on the CPU or a GPU.

    Attributes:
        alpha: allowed failure rate.
        confidence: as passed to `compile`.
        simultaneous: whether the guarantee is for all steps of an episode at once, as passed to `compile`.
        names: the strata, in the order of columns.
        n_inputs: dx.
        n_particles: L.
        n_outputs: dc.
    """

    def __init__(self, cap: Fitted, alpha: float, confidence: float | None, simultaneous: bool) -> None:
        thresholds = cap.group_thresholds(alpha, simultaneous, confidence)
        table = ThresholdTable(cap.partition_, thresholds)
        self.alpha, self.confidence, self.simultaneous = float(alpha), confidence, simultaneous
        self.names, self.n_particles, self.n_outputs = tuple(cap.strata.names), cap.n_particles, cap.n_outputs_
        self.n_inputs = table.n_inputs
        self._compile(table, cap.score_, cap.strata)

    @abstractmethod
    def _compile(self, table: ThresholdTable, score: Score, strata: Strata) -> None:
        """Prepare thresholds, the score's rule and the grid for the kernels."""

    def __repr__(self) -> str:
        promise = f"alpha={self.alpha:g}" + ("" if self.confidence is None else f", confidence={self.confidence:g}")
        promise += ", simultaneous" if self.simultaneous else ""
        return f"{type(self).__name__}({promise}: {', '.join(self.names)})"


class Compiled(AtOneAlpha):
    """A calibration at one alpha, for thousands of queries per second; made by `Capture.compile`.

    Results are written to `out`, and inputs are not converted: they must be C-contiguous float64 arrays (labels: int64);
    anything else raises an error. One object may be shared by threads; its kernels run on the caller's thread and release
    the GIL. Results are bit-identical to those of the `Capture`.
    """

    def _compile(self, table: ThresholdTable, score: Score, strata: Strata) -> None:
        self._shape = np.array([self.n_inputs, self.n_particles, self.n_outputs], dtype=np.int64)
        self._tree = table.arrays
        self._rule = (*limits_and_rule(score, table, self.n_outputs), self._shape)
        self._grid = grid_arrays(strata)
        self._table = isinstance(self._rule[2], np.ndarray)  # whether the scale of the metric is a table of its axes
        loop.prepare(self._table)

    def thresholds(self, X: Floats, out: Floats) -> Floats:
        """Threshold of every input X (n, dx) in every stratum: into out (n, M), which is returned."""
        try:
            good = loop.thresholds_into(*self._tree, self._shape, X, out)
        except TypeError:
            good = False
        if not good:
            raise self._argument_error(out=(out, np.float64, (len(self.names),)), X=self._inputs(X))
        return out

    def contains(self, X: Floats, Y: Floats, particles: Floats, labels: Ints, out: Bools) -> Bools:
        """Whether each Y[i] (dc,) is in the region of X[i] (dx,): into out (n,), which is returned.

        `particles` (n, L, dc) are the model's particles; `labels` (n,) are the strata of Y, -1 where infeasible.
        """
        try:
            good = loop.contains_into(*self._tree, *self._rule, X, Y, particles, labels, out)
        except TypeError:
            good = False
        if not good:
            Y_and_labels = {"Y": (Y, np.float64, (self.n_outputs,)), "labels": (labels, np.int64, ())}
            arguments = {"X": self._inputs(X), **Y_and_labels, "particles": self._cloud(particles)}
            raise self._argument_error(out=(out, np.bool_, ()), **arguments)
        return out

    def count_cells(self, X: Floats, particles: Floats, out: Ints) -> Ints:
        """Grid cells of the region of each X[i] (dx,), by stratum: into out (n, M + 1), which is returned.

        `particles` (n, L, dc) are the model's particles. The last column, infeasible cells, is 0: particle regions have
        none.
        """
        if self._grid is None:
            raise CaptureError(NO_GRID)
        if self._table:
            raise CaptureError(NO_CELLS)
        room = room_for(self.n_particles, self.n_outputs, self._grid[0].shape[1])
        work = *room, np.empty(len(self.names) + 1), np.empty(2 * self.n_outputs, dtype=np.int64)
        try:
            good = loop.count_cells_into(*self._tree, *self._rule, *self._grid, *work, X, particles, out)
        except TypeError:
            good = False
        if not good:
            shaped = (out, np.int64, (len(self.names) + 1,))
            raise self._argument_error(out=shaped, X=self._inputs(X), particles=self._cloud(particles))
        return out

    def _inputs(self, X: Any) -> _Argument:
        return X, np.float64, (self.n_inputs,)

    def _cloud(self, particles: Any) -> _Argument:
        return particles, np.float64, (self.n_particles, self.n_outputs)

    def _argument_error(self, out: _Argument, **arguments: _Argument) -> CaptureError:
        """The error that explains what is wrong with the arrays of a call."""
        rows = len(arguments["X"][0]) if isinstance(arguments["X"][0], np.ndarray) and arguments["X"][0].ndim else 0
        for name, (array, kind, row) in (arguments | {"out": out}).items():
            wanted = (rows, *row)
            fits = isinstance(array, np.ndarray) and array.dtype == kind and array.shape == wanted
            usable = fits and array.flags.c_contiguous and array.flags.aligned
            if not usable or (name == "out" and not array.flags.writeable):
                found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                laid_out = " in another memory layout or read-only" if fits else ""
                return CaptureError(
                    f"{name} is {found}{laid_out}; a compiled calibration does not convert arrays and needs a C-contiguous "
                    f"array of {np.dtype(kind).name} of shape {wanted}."
                )
            if name != "out" and not np.isfinite(array).all():
                return CaptureError(f"{name} has NaN or infinite values; expected finite numbers.")
        last = len(self.names) - 1
        return CaptureError(f"labels contain numbers outside -1 to {last}; pass the stratum of each Y, -1 where infeasible.")


#: An array argument, with the type and the row shape that it should have.
_Argument = tuple[Any, Any, tuple[int, ...]]


#: Error for a metric that is a table of axes.
NO_CELLS = "cells are counted only for SE2 and for Euclidean without weights; use contains, or the volume of a region."


def limits_and_rule(score: Score, table: ThresholdTable, dims: int) -> tuple[Floats, int, Any, int]:
    """The limit of every node, the score's rule, its length or table of axes, and how many particles must be near."""
    thresholds: Floats = np.ascontiguousarray(table.arrays[0]["threshold"])
    if type(score) is ParticleBox:
        return thresholds, PARTICLE_BOX, 1.0, 1
    kernel = score.metric_.kernel(dims) if type(score) is NearestParticles else None
    if kernel is not None and kernel[0] != FUNCTION:
        assert isinstance(score, NearestParticles)
        return np.asarray(squared_limits(thresholds)), *kernel, int(score.k)
    raise CaptureError(
        f"{score!r} cannot be compiled; compile supports ParticleBox, and NearestParticles with one of the library's "
        "metrics, so use region, contains or count_cells instead."
    )


def grid_arrays(strata: Strata) -> tuple[npt.NDArray[Any], ...] | None:
    """The cells of a grid, see `Columns`, and the sizes of the strata; None without a grid."""
    if not isinstance(strata, GriddedStrata) or strata.grid is None:
        return None
    return *columns_of(strata), strata.sizes
