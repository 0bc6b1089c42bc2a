"""The marble's control step in NumPy, on whole arrays: the straightforward version to measure against."""

from __future__ import annotations

from typing import Any

import numpy as np

from capture_cp.base.checks import Floats
from capture_lab.tasks.marble import dynamics

FACES = np.array([[-1.0, 0.0], [0.0, -1.0], [1.0, 0.0], [0.0, 1.0]])


def numpy_marble_step(states: Floats, pushes: Floats, gain: float, geometry: Any) -> Floats:
    """Next states (n, 6) of states (n, 6) under noisy actions (n, 2); pits and the goal count as floor."""
    bounds = geometry.bounds
    x, v, tilt = states[:, [0, 2]].copy(), states[:, [1, 3]].copy(), states[:, 4:6].copy()
    u = np.clip(pushes, -dynamics.MAX_ACTION, dynamics.MAX_ACTION)
    for _ in range(dynamics.SUBSTEPS):
        x, v, tilt = (
            x + dynamics.DT * v,
            np.clip(v - dynamics.DT * gain * dynamics.ROLLING * tilt, -dynamics.MAX_SPEED, dynamics.MAX_SPEED),
            np.clip(tilt + dynamics.DT * u, -dynamics.MAX_TILT, dynamics.MAX_TILT),
        )
        for _ in range(3):  # leaving one wall may lead into another
            x = np.clip(x, bounds[[0, 2]], bounds[[1, 3]])
            gaps, normals = _numpy_gaps(x, geometry)
            deepest = np.minimum(gaps.min(axis=0), 0)[:, None]
            x = x - deepest * normals[gaps.argmin(axis=0), np.arange(len(x))]
        v = np.where(x < bounds[[0, 2]] + 1e-9, np.maximum(v, 0), v)
        v = np.where(x > bounds[[1, 3]] - 1e-9, np.minimum(v, 0), v)
        gaps, normals = _numpy_gaps(x, geometry)
        for gap, normal in zip(gaps, normals):
            inward = np.minimum((v * normal).sum(axis=1), 0)[:, None]
            v = np.where((gap < 1e-9)[:, None], v - inward * normal, v)
        v = v / np.maximum(np.abs(v).max(axis=1) / dynamics.MAX_SPEED, 1)[:, None]
    return np.stack([x[:, 0], v[:, 0], x[:, 1], v[:, 1], tilt[:, 0], tilt[:, 1]], axis=1)


def _numpy_gaps(x: Floats, geometry: Any) -> tuple[Floats, Floats]:
    """Gaps (w, n) to inflated walls, and normals (w, n, 2)."""
    low, high = geometry.walls[:, None, :2], geometry.walls[:, None, 2:]
    away = x - np.clip(x, low, high)
    distance = np.linalg.norm(away, axis=2)
    depths = np.concatenate([x - low, high - x], axis=2)
    core = distance == 0
    normals = np.where(core[..., None], FACES[depths.argmin(axis=2)], away / np.where(core, 1, distance)[..., None])
    return np.where(core, -depths.min(axis=2), distance) - geometry.radius, normals
