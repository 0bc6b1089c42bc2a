"""Distances between configurations. A metric of your own is a subclass of `Metric` with one method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.params import Params
from capture_cp.kernels import distance as kernels
from capture_cp.spaces.grid import Grid


class Metric(Params, ABC):
    """A distance on configurations.

    Write `distance`; override `reach` too if cells of regions should be searched in a box instead of everywhere.
    """

    #: Set by metrics that have a compiled version: its code in `kernels.distance`, and the length it is given.
    compiled: tuple[int, float] | None = None

    @abstractmethod
    def distance(self, a: Any, b: Any) -> Floats:
        """Distance of configurations `a` (..., dc) and `b` (..., dc), broadcast over the leading axes."""

    def reach(self, q: Floats, dims: int) -> Floats:
        """How far along each axis a configuration can be when its distance is at most `q` (n,): (n, dc)."""
        return np.full((len(q), dims), np.inf)

    def box(self, lower: Floats, upper: Floats, q: Floats) -> tuple[Floats, Floats]:
        """The box `lower`, `upper` (n, dc) grown so that nothing within `q` (n,) of it is left out."""
        grow = self.reach(q, lower.shape[1])
        return lower - grow, upper + grow

    def check(self, dims: int, grid: Grid | None) -> None:
        """Refuse configurations of `dims` numbers, or a grid, that this metric cannot measure."""


class Euclidean(Metric):
    """Straight-line distance in R^d."""

    compiled = (kernels.EUCLIDEAN, 1.0)

    def distance(self, a: Any, b: Any) -> Floats:
        return np.asarray(np.linalg.norm(np.asarray(a, float) - np.asarray(b, float), axis=-1))

    def reach(self, q: Floats, dims: int) -> Floats:
        return np.repeat(q[:, None], dims, axis=1)


class SE2(Metric):
    """Logarithm-map distance of planar poses (x, z, θ): ‖(ρx, ρz, ℓω)‖ of log(T₁⁻¹T₂), θ in radians.

    `length` is the characteristic length ℓ that turns an angle into a distance, in the unit of x and z: for a rigid
    body, its largest radius.
    """

    def __init__(self, length: float) -> None:
        if not (isinstance(length, int | float | np.number) and 0 < float(length) < np.inf):
            raise CaptureError(
                f"SE2 length is {length!r}; expected a positive number: the body's radius in units of x and z."
            )
        self.length = length

    @property
    def compiled(self) -> tuple[int, float]:  # type: ignore[override]
        return kernels.SE2, float(self.length)

    def log(self, pose: Any) -> Floats:
        """Twist (ρx, ρz, ω) of poses (..., 3), with ω wrapped to [-π, π]."""
        x, z, theta = np.moveaxis(np.asarray(pose, float), -1, 0)
        omega = wrap_angle(theta)
        half = omega / 2
        small = np.abs(half) < 1e-4
        cotangent = np.where(small, 1 - half**2 / 3, half / np.tan(np.where(small, 1.0, half)))
        return np.stack([cotangent * x + half * z, -half * x + cotangent * z, omega], axis=-1)

    def relative(self, a: Any, b: Any) -> Floats:
        """Pose of `b` (..., 3) seen from `a` (..., 3): T_a⁻¹ T_b."""
        a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
        cos, sin = np.cos(a[..., 2]), np.sin(a[..., 2])
        dx, dz = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1]
        return np.stack([cos * dx + sin * dz, -sin * dx + cos * dz, b[..., 2] - a[..., 2]], axis=-1)

    def distance(self, a: Any, b: Any) -> Floats:
        return np.asarray(np.linalg.norm(self.log(self.relative(a, b)) * [1.0, 1.0, self.length], axis=-1))

    def reach(self, q: Floats, dims: int) -> Floats:
        return np.stack([q, q, q / self.length], axis=1)

    def box(self, lower: Floats, upper: Floats, q: Floats) -> tuple[Floats, Floats]:
        low, high = super().box(lower, upper, q)
        # an interval that passes ±π also reaches the angles at the other end of the circle: search them all
        wraps = (low[:, 2] < -np.pi) | (high[:, 2] > np.pi)
        low[wraps, 2], high[wraps, 2] = -np.inf, np.inf
        return low, high

    def check(self, dims: int, grid: Grid | None) -> None:
        if dims != 3:
            raise CaptureError(f"SE2 measures poses (x, z, theta), 3 numbers; the configurations here have {dims}.")
        if grid is None:
            return
        first = grid.origin[2]
        last = first + grid.spacing[2] * (grid.shape[2] - 1)
        if 2 in grid.periodic:
            if not np.isclose(grid.spacing[2] * grid.shape[2], 2 * np.pi):
                raise CaptureError("the grid's periodic theta axis must span 2*pi radians: spacing[2] * shape[2].")
        elif first < -np.pi - 1e-9 or last > np.pi + 1e-9:
            raise CaptureError(
                f"the grid's theta axis runs from {first:g} to {last:g} radians; keep it within -pi..pi, "
                "or declare it periodic with Grid(..., periodic=(2,))."
            )


def wrap_angle(angle: Floats) -> Floats:
    """Angles (...) as their equals in [-π, π]."""
    return np.asarray(angle - 2 * np.pi * np.rint(angle / (2 * np.pi)))
