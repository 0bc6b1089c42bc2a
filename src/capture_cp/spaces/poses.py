"""Distances between poses of rigid bodies, in the plane and in space, by the logarithm map."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base import layouts
from capture_cp.base.checks import Bools, CaptureError, Floats, positive_number
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.metrics import Blocks, axis_table, in_ball, wrap_angle


class Poses(Blocks):
    """Base class of distances between poses, of which `numbers` describes the coordinates."""

    numbers: str

    def __init__(self, length: float) -> None:
        name = f"{type(self).__name__} length, the body's radius in the unit of its position,"
        positive_number(name, length)
        self.length = length

    def check(self, dims: int, grid: Grid | None) -> None:
        if dims != self.dims:
            raise CaptureError(
                f"{type(self).__name__} measures poses ({self.numbers}), {self.dims} numbers; the configurations here have "
                f"{dims}."
            )
        super().check(dims, grid)


class SE2(Poses):
    """Logarithm-map distance of planar poses (x, z, θ): ‖(ρx, ρz, ℓω)‖ of log(T₁⁻¹T₂), θ in radians.

    `length` is the characteristic length ℓ that turns an angle into a distance, in the unit of x and z: for a rigid
    body, its largest radius.
    """

    finds_cells, dims, numbers = True, 3, "x, z, theta"

    def kernel(self, dims: int) -> tuple[int, Any] | None:
        return layouts.SE2, float(self.length)

    def axes(self, dims: int) -> Floats:
        return axis_table(layouts.PLANAR, 1.0, self.length, 3)

    def log(self, pose: Any) -> Floats:
        """Twist (ρx, ρz, ω) of poses (..., 3), with ω wrapped to [-π, π]."""
        x, z, theta = np.moveaxis(np.asarray(pose, float), -1, 0)
        omega = wrap_angle(theta)
        half = omega / 2
        small = np.abs(half) < 1e-4
        cotangent = np.where(small, 1 - half**2 / 3, half / np.tan(np.where(small, 1.0, half)))
        return np.stack([cotangent * x + half * z, -half * x + cotangent * z, omega], axis=-1)

    def relative(self, a: Any, b: Any) -> Floats:
        """Pose of `b` (..., 3) relative to `a` (..., 3): T_a⁻¹ T_b."""
        a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
        cos, sin = np.cos(a[..., 2]), np.sin(a[..., 2])
        dx, dz = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1]
        return np.stack([cos * dx + sin * dz, -sin * dx + cos * dz, b[..., 2] - a[..., 2]], axis=-1)

    def distance(self, a: Any, b: Any) -> Floats:
        return np.asarray(np.linalg.norm(self.log(self.relative(a, b)) * [1.0, 1.0, self.length], axis=-1))

    def reach(self, q: Floats, dims: int) -> Floats:
        return np.stack([q, q, q / self.length], axis=1)

    def angles(self, dims: int) -> tuple[int, ...]:
        return (2,)

    def around(self, points: Floats, q: float, rng: np.random.Generator) -> tuple[Floats, Bools, float]:
        moves, area = in_ball(len(points), 2, q, rng)
        turn = min(q / self.length, np.pi)
        turns = rng.uniform(-turn, turn, (len(points), 1))
        drawn = np.hstack([points[:, :2] + moves, wrap_angle(points[:, 2:] + turns)])
        return drawn, np.ones(len(points), dtype=bool), area * 2 * turn


class SE3(Poses):
    """Logarithm-map distance of poses in space: ‖(ρ, ℓω)‖ of log(T₁⁻¹T₂), ω the rotation vector between the two.

    A pose has seven numbers: position x, y, z and quaternion w, x, y, z. The quaternion may have any length, and q and -q
    are the same rotation. `length` is the characteristic length ℓ that turns an angle into a distance, in the unit of
    the position: for a rigid body, its largest radius.
    """

    dims, numbers = 7, "x, y, z and a quaternion w, x, y, z"

    def axes(self, dims: int) -> Floats:
        return axis_table(layouts.SPATIAL, 1.0, self.length, 7)

    def distance(self, a: Any, b: Any) -> Floats:
        a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
        p, q = a[..., 3:], b[..., 3:]
        w = (p * q).sum(axis=-1)
        v = p[..., :1] * q[..., 1:] - q[..., :1] * p[..., 1:] - np.cross(q[..., 1:], p[..., 1:])
        sine = np.linalg.norm(v, axis=-1)
        half = np.arctan2(sine, np.abs(w))
        moved = b[..., :3] - a[..., :3]
        along = np.where(sine > 1e-12, (moved * v).sum(axis=-1) / np.maximum(sine, 1e-12), 0.0)
        across = np.maximum((moved**2).sum(axis=-1) - along**2, 0.0)
        small = half < 1e-4
        stretch = np.where(small, 1 + half**2 / 6, half / np.sin(np.where(small, 1.0, half)))
        return np.asarray(np.sqrt(along**2 + across * stretch**2 + (2 * self.length * half) ** 2))

    def reach(self, q: Floats, dims: int) -> Floats:
        return np.hstack([np.repeat(q[:, None], 3, axis=1), np.full((len(q), 4), np.inf)])

    def around(self, points: Floats, q: float, rng: np.random.Generator) -> tuple[Floats, Bools, float]:
        """As in `Metric`; rotations have the uniform (Haar) measure, scaled to match rotation vectors at small angles."""
        moves, volume = in_ball(len(points), 3, q, rng)
        most = min(q / self.length, np.pi)
        # angles with density 1 - cos: the fraction below an angle is (angle - sin) / (most - sin most)
        known = np.linspace(0.0, most, 4097)
        shares = known - np.sin(known)
        angles = np.interp(rng.random(len(points)) * shares[-1], shares, known)
        axes, _ = in_ball(len(points), 3, 1.0, rng)
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        turns = np.hstack([np.cos(angles / 2)[:, None], np.sin(angles / 2)[:, None] * axes])
        drawn = np.hstack([points[:, :3] + moves, _composed(turns, points[:, 3:])])
        return drawn, np.ones(len(points), dtype=bool), volume * 8 * np.pi * float(shares[-1])


def _composed(a: Floats, b: Floats) -> Floats:
    """Unit quaternions (n, 4) of rotating first by `b`, then by `a`."""
    b = b / np.linalg.norm(b, axis=1, keepdims=True)
    w = a[:, 0] * b[:, 0] - (a[:, 1:] * b[:, 1:]).sum(axis=1)
    v = a[:, :1] * b[:, 1:] + b[:, :1] * a[:, 1:] + np.cross(a[:, 1:], b[:, 1:])
    return np.hstack([w[:, None], v])
