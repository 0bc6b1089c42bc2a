"""Distances between configurations. To add a metric, subclass `Metric` with one method, or use a compiled function."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import gamma
from typing import Any

import numpy as np

from capture_cp.base import layouts
from capture_cp.base.checks import Bools, CaptureError, Floats, positive_number, whole_number
from capture_cp.base.params import Params
from capture_cp.spaces.grid import Grid


class Metric(Params, ABC):
    """Base class of distances between configurations.

    Implement `distance`; also override `reach` if cells of regions should be searched in a box instead of everywhere.
    """

    #: Whether kernels can find the cells of a grid that are near a configuration.
    finds_cells: bool = False

    def __init_subclass__(cls, **settings: Any) -> None:
        """Drop the inherited compiled version in a subclass that defines its own distance."""
        super().__init_subclass__(**settings)
        own = vars(cls)
        if "distance" in own and not {"kernel", "axes"} & own.keys():
            cls.kernel, cls.moves, cls.around = Metric.kernel, Metric.moves, Metric.around  # type: ignore[method-assign]
            cls.finds_cells = False

    @property
    def dims(self) -> int | None:
        """Number of coordinates of a configuration, None if the metric works for any number."""
        return None

    @abstractmethod
    def distance(self, a: Any, b: Any) -> Floats:
        """Distance of configurations `a` (..., dc) and `b` (..., dc), broadcast over the leading axes."""

    def kernel(self, dims: int) -> tuple[int, Any] | None:
        """Code and scale of the compiled version for `dims` axes, see `kernels.distance`; None if there is none."""
        return None

    def reach(self, q: Floats, dims: int) -> Floats:
        """Largest offset along each axis of a configuration at distance at most `q` (n,): (n, dc)."""
        return np.full((len(q), dims), np.inf)

    def angles(self, dims: int) -> tuple[int, ...]:
        """Axes that are angles in radians and wrap."""
        return ()

    def box(self, lower: Floats, upper: Floats, q: Floats) -> tuple[Floats, Floats]:
        """The box `lower`, `upper` (n, dc) grown to include everything within `q` (n,) of it."""
        dims = lower.shape[1]
        grow = self.reach(q, dims)
        low, high = lower - grow, upper + grow
        for axis in self.angles(dims):
            # an interval that passes ±π wraps around: search all angles
            wraps = (low[:, axis] < -np.pi) | (high[:, axis] > np.pi)
            low[wraps, axis], high[wraps, axis] = -np.inf, np.inf
        return low, high

    def around(self, points: Floats, q: float, rng: np.random.Generator) -> tuple[Floats, Bools, float]:
        """A random configuration around each of `points` (n, dc), uniform over a set that contains all within `q` of it.

        Returns configurations (n, dc), whether each counts (n,), and the volume of that set; treat those that do not count
        as outside. By default the set is a box, of the size of `reach`.
        """
        half = self.reach(np.array([q]), points.shape[1])[0]
        for axis in self.angles(points.shape[1]):
            half[axis] = min(half[axis], np.pi)
        if not np.isfinite(half).all():
            raise CaptureError(
                f"{self!r} has no bound on how far a distance of {q:g} reaches along each axis; add a method `reach`."
            )
        drawn = points + rng.uniform(-1, 1, points.shape) * half
        return drawn, np.ones(len(points), dtype=bool), float(np.prod(2 * half))

    def moves(self, dims: int) -> Floats:
        """How configurations are moved, see `kernels.probes`: kind, weight and length of each axis, (dims, 3).

        By default every axis is moved independently, by up to `reach`; infinite where `reach` is.
        """
        table = np.ones((dims, 3))
        table[:, 0], table[:, 2] = layouts.INTERVAL, self.reach(np.ones(1), dims)[0]
        return table

    def check(self, dims: int, grid: Grid | None) -> None:
        """Raise an error if this metric cannot measure configurations of `dims` numbers, or does not fit the grid."""
        for axis in self.angles(dims):
            if grid is not None and axis < grid.dims:
                _check_angle(grid, axis)


class Blocks(Metric):
    """Base class of metrics that kernels evaluate as a product of spaces."""

    @abstractmethod
    def axes(self, dims: int) -> Floats:
        """Kind, weight and length of each axis, for `kernels.distance`: (dims, 3)."""

    def kernel(self, dims: int) -> tuple[int, Any] | None:
        return layouts.BLOCKS, np.ascontiguousarray(self.axes(dims))

    def moves(self, dims: int) -> Floats:
        return self.axes(dims)


class Weighted(Blocks):
    """Base class of metrics in which each axis is a line or a circle, optionally weighted by `weights` (d,)."""

    def __init__(self, weights: Sequence[float] | None = None) -> None:
        _check_weights(type(self).__name__, weights)
        self.weights = weights

    @property
    def dims(self) -> int | None:
        return None if self.weights is None else len(self.weights)

    def reach(self, q: Floats, dims: int) -> Floats:
        return np.asarray(q[:, None] / np.broadcast_to(self._weights(), (dims,)))

    def around(self, points: Floats, q: float, rng: np.random.Generator) -> tuple[Floats, Bools, float]:
        moves, volume = in_ball(len(points), points.shape[1], q, rng)
        scale = np.broadcast_to(1 / self._weights(), points.shape[1:])
        return points + scale * moves, np.ones(len(points), dtype=bool), volume * float(np.prod(scale))

    def check(self, dims: int, grid: Grid | None) -> None:
        if self.weights is not None and len(self.weights) != dims:
            raise CaptureError(
                f"{type(self).__name__} has {len(self.weights)} weights, but the configurations have {dims} numbers; pass "
                "one weight per number."
            )
        super().check(dims, grid)

    def _weights(self) -> Any:
        return 1.0 if self.weights is None else np.array(self.weights)


class Euclidean(Weighted):
    """Euclidean distance in R^d, with axes optionally weighted by `weights` (d,): √Σ (wᵢ (aᵢ - bᵢ))².

    Weights make numbers in different units comparable: use 1 / (a large distance along that axis).
    """

    @property
    def finds_cells(self) -> bool:  # type: ignore[override]
        return self.weights is None

    def distance(self, a: Any, b: Any) -> Floats:
        return np.asarray(np.linalg.norm(self._weights() * (np.asarray(a, float) - np.asarray(b, float)), axis=-1))

    def kernel(self, dims: int) -> tuple[int, Any] | None:
        return (layouts.EUCLIDEAN, 1.0) if self.weights is None else super().kernel(dims)

    def axes(self, dims: int) -> Floats:
        return axis_table(layouts.LINE, self._weights(), 0.0, dims)


class Torus(Weighted):
    """Distance of joint angles in radians, with wrapped differences: √Σ (wᵢ wrap(aᵢ - bᵢ))².

    `weights` (d,) make joints comparable, for example by how far each joint moves the hand; by default all are equal.
    """

    def distance(self, a: Any, b: Any) -> Floats:
        return np.asarray(np.linalg.norm(self._weights() * wrap_angle(np.asarray(a, float) - np.asarray(b, float)), axis=-1))

    def axes(self, dims: int) -> Floats:
        return axis_table(layouts.CIRCLE, self._weights(), math.tau, dims)

    def angles(self, dims: int) -> tuple[int, ...]:
        return tuple(range(dims))

    def around(self, points: Floats, q: float, rng: np.random.Generator) -> tuple[Floats, Bools, float]:
        drawn, _, volume = super().around(points, q, rng)
        # a move of more than half a turn leads to the same angle as a shorter one
        return wrap_angle(drawn), np.all(np.abs(drawn - points) <= np.pi, axis=1), volume


class Product(Blocks):
    """Distance on a product of spaces, such as a planar base and the joints of its arm: √Σ (wᵢ dᵢ)² over the blocks.

    Args:
        metrics: one metric per block of axes: Euclidean, Torus, SE2, SE3 or Product.
        sizes: number of axes of each block.
        weights: one weight per block, all equal by default.

    >>> from capture_cp import SE2, Product, Torus
    >>> arm_on_wheels = Product((SE2(0.4), Torus()), sizes=(3, 6))
    """

    def __init__(self, metrics: Sequence[Metric], sizes: Sequence[int], weights: Sequence[float] | None = None) -> None:
        _check_weights("Product", weights)
        self.metrics, self.sizes, self.weights = metrics, sizes, weights
        given = len(sizes) if weights is None else len(weights)
        if not len(metrics) == len(sizes) == given or not len(sizes):
            raise CaptureError(
                f"Product has {len(metrics)} metrics, {len(sizes)} sizes and {'no' if weights is None else given} weights; "
                "pass one metric and one size per block, and one weight per block or none."
            )
        for size in sizes:
            whole_number("a size of Product", size, 1)
        for metric in metrics:
            if not hasattr(metric, "axes"):
                raise CaptureError(f"{metric!r} cannot be a block of Product; use Euclidean, Torus, SE2, SE3 or Product.")

    def distance(self, a: Any, b: Any) -> Floats:
        ends = np.cumsum(self.sizes)[:-1]
        parts = zip(self.metrics, self._weights(), *(np.split(np.asarray(c, float), ends, axis=-1) for c in (a, b)))
        return np.asarray(np.sqrt(sum((weight * metric.distance(c, d)) ** 2 for metric, weight, c, d in parts)))

    def axes(self, dims: int) -> Floats:
        tables = [np.array(metric.axes(size)) for metric, size in zip(self.metrics, self.sizes)]  # type: ignore[attr-defined]
        for table, weight in zip(tables, self._weights()):
            table[:, 1] *= weight
        return np.concatenate(tables)

    def reach(self, q: Floats, dims: int) -> Floats:
        parts = zip(self.metrics, self.sizes, self._weights())
        return np.hstack([metric.reach(q / weight, size) for metric, size, weight in parts])

    def angles(self, dims: int) -> tuple[int, ...]:
        starts = np.cumsum((0, *self.sizes))
        parts = zip(self.metrics, self.sizes, starts.tolist())
        return tuple(start + axis for metric, size, start in parts for axis in metric.angles(size))

    def around(self, points: Floats, q: float, rng: np.random.Generator) -> tuple[Floats, Bools, float]:
        parts = zip(self.metrics, self._weights(), np.split(points, np.cumsum(self.sizes)[:-1], axis=1))
        found = [metric.around(part, q / weight, rng) for metric, weight, part in parts]
        drawn, counts, volumes = zip(*found)
        return np.hstack(drawn), np.all(counts, axis=0), float(np.prod(volumes))

    @property
    def dims(self) -> int | None:
        return sum(self.sizes)

    def check(self, dims: int, grid: Grid | None) -> None:
        if sum(self.sizes) != dims:
            raise CaptureError(
                f"the blocks of Product have {sum(self.sizes)} axes in total, but the configurations have {dims} numbers."
            )
        for metric, size in zip(self.metrics, self.sizes):
            metric.check(size, None)
        super().check(dims, grid)

    def _weights(self) -> tuple[float, ...]:
        return (1.0,) * len(self.sizes) if self.weights is None else tuple(self.weights)


class FunctionMetric(Metric):
    """A user-defined distance, as a function compiled by numba: `squared(a (dc,), b (dc,)) -> squared distance`.

    `axis_reach` (dc,) is the largest offset along each axis of a configuration at distance 1. Volumes, samples and plans
    need it; membership does not.
    """

    def __init__(self, squared: Any, axis_reach: Sequence[float] | None = None) -> None:
        if not hasattr(squared, "py_func"):
            raise CaptureError(f"FunctionMetric needs a function decorated with numba.njit; {squared!r} is not one.")
        for number in () if axis_reach is None else axis_reach:
            positive_number("axis_reach of FunctionMetric", number)
        self.squared, self.axis_reach = squared, axis_reach

    @property
    def dims(self) -> int | None:
        return None if self.axis_reach is None else len(self.axis_reach)

    def reach(self, q: Floats, dims: int) -> Floats:
        return super().reach(q, dims) if self.axis_reach is None else np.multiply.outer(q, np.array(self.axis_reach))

    def kernel(self, dims: int) -> tuple[int, Any] | None:
        return layouts.FUNCTION, self.squared

    def distance(self, a: Any, b: Any) -> Floats:
        pairs = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
        shape, dims = pairs[0].shape[:-1], pairs[0].shape[-1]
        rows = [np.ascontiguousarray(part).reshape(-1, dims) for part in pairs]
        return np.sqrt([self.squared(one, other) for one, other in zip(*rows)]).reshape(shape)


def is_compiled(metric: Metric) -> bool:
    """Whether kernels can evaluate a metric from numbers alone, on the CPU and on a GPU."""
    return isinstance(metric, Blocks) and type(metric).kernel is not Metric.kernel


def in_ball(n: int, dims: int, radius: float, rng: np.random.Generator) -> tuple[Floats, float]:
    """n points (n, dims), uniform in the ball about the origin, and its volume."""
    directions = rng.standard_normal((n, dims))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    volume = np.pi ** (dims / 2) / gamma(dims / 2 + 1) * radius**dims
    return radius * rng.random((n, 1)) ** (1 / dims) * directions, float(volume)


def wrap_angle(angle: Floats) -> Floats:
    """Angles (...) wrapped to [-π, π]."""
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))


def axis_table(kind: int, weights: Any, length: float, dims: int) -> Floats:
    """Kind, weight and length of each axis, for `kernels.distance`: (dims, 3). Only the first row of a pose is read."""
    table = np.zeros((dims, 3))
    table[:, 0], table[:, 1], table[:, 2] = kind, weights, length
    return table


def _check_weights(name: str, weights: Any) -> None:
    if weights is None:
        return
    if isinstance(weights, str) or not np.iterable(weights):
        raise CaptureError(f"weights of {name} are {weights!r}; expected one positive number per axis, such as (1.0, 0.5).")
    for weight in weights:
        positive_number(f"a weight of {name}", weight)


def _check_angle(grid: Grid, axis: int) -> None:
    """Raise an error if an axis of angles neither stays within -π..π nor is periodic."""
    first = grid.origin[axis]
    last = first + grid.spacing[axis] * (grid.shape[axis] - 1)
    if axis in grid.periodic:
        if not np.isclose(grid.spacing[axis] * grid.shape[axis], 2 * np.pi):
            raise CaptureError(
                f"axis {axis} of the grid is a periodic angle and must span 2*pi radians: spacing[{axis}] * shape[{axis}]."
            )
    elif first < -np.pi - 1e-9 or last > np.pi + 1e-9:
        raise CaptureError(
            f"axis {axis} of the grid is an angle and runs from {first:g} to {last:g} radians; keep it within -pi..pi, "
            f"or declare it periodic with Grid(..., periodic=({axis},))."
        )
