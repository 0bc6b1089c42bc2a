"""Quality of a simulated peg: hardness of contact, settling of the controller, repeatability, speed."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numba import njit

from capture_cp.base.checks import Floats, whole_number
from capture_lab.tasks.peg.geometry import MAX_OVERLAP, overlaps, shape_of, way_out
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings
from capture_lab.tasks.peg.simulator import PegSystem

#: Distance (m) that counts as touching; contact begins at 10 µm.
TOUCHING = 20e-6
#: Starts near contact are within this distance (m).
NEAR = 2e-3
MICROMETRE, MILLIMETRE, PERCENT = 1e-6, 1e-3, 1e-2


@dataclass(frozen=True)
class Measure:
    """One measurement of a system: what was measured, its value and unit."""

    system: str
    name: str
    value: float
    unit: str


@njit(cache=True)
def depths(poses, g):
    """How deep the peg is in receptacle or table at each pose (n, 3), in metres; negative when apart: (n,)."""
    deepest = np.empty(len(poses))
    for i in range(len(poses)):
        x, z, c, s = poses[i, 0], poses[i, 1], np.cos(poses[i, 2]), np.sin(poses[i, 2])
        deepest[i] = max(way_out(0, x, z, c, s, g)[1], way_out(1, x, z, c, s, g)[1], way_out(2, x, z, c, s, g)[1])
    return deepest


def contact_inputs(n: int, settings: PegSettings, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Poses (n, 3) outside the receptacle but within 2 mm of it, half of them about the hole; any displacements (n, 3)."""
    reach = settings.radius + NEAR
    near = np.empty((0, 3))
    while len(near) < n:
        tried = rng.uniform([-reach, -settings.hole_depth, -0.7], [reach, reach, 0.7], size=(4 * n, 3))
        tried[::2] *= [0.05, 1.0, 0.1]
        gap = -depths(tried, shape_of(settings))
        near = np.concatenate([near, tried[(gap > 0) & (gap < NEAR)]])
    return near[:n], _displacements(n, settings, rng)


def free_inputs(n: int, settings: PegSettings, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Poses (n, 3) high enough that displacements (n, 3) stay in free space."""
    move = _displacements(n, settings, rng)
    poses = rng.uniform([-0.03, 0.0, -0.7], [0.03, 0.005, 0.7], size=(n, 3))
    poses[:, 1] += settings.radius + np.abs(move[:, 1]) + MILLIMETRE
    return poses, move


def measure(system: PegSystem, n: int = 2000, seed: int = 0) -> list[Measure]:
    """Contact, settling, motion out of the plane, repeatability and speed of a system, each over n random transitions."""
    n, rng = whole_number("n", n, 2), np.random.default_rng(seed)
    rows = _settling(system, n, rng) + _contact(system, n, rng) + _repeatability(system, n, rng)
    return [Measure(system.name, *row) for row in rows]


def compare(first: PegSystem, second: PegSystem, n: int = 2000, seed: int = 0) -> list[Measure]:
    """Distance between the landings of two systems from the same inputs: ||(x, z, radius · theta)||, free and in contact."""
    n, rng = whole_number("n", n, 2), np.random.default_rng(seed)
    weights = np.array([1.0, 1.0, first.settings.radius])
    measures = []
    for where, inputs in (("free", free_inputs), ("near contact", contact_inputs)):
        poses, move = inputs(n, first.settings, rng)
        apart = np.linalg.norm((first.transitions(poses, move) - second.transitions(poses, move)) * weights, axis=1)
        measures += _spread(f"difference, {where}", apart, MILLIMETRE, "mm", (0.5, 0.99))
    return [Measure(f"{first.name} - {second.name}", *row) for row in measures]


Row = tuple[str, float, str]


def _settling(system: PegSystem, n: int, rng: np.random.Generator) -> list[Row]:
    poses, move = free_inputs(n, system.settings, rng)
    weights = np.array([1.0, 1.0, system.settings.radius])
    landing = system.land(poses, move)
    missing = np.linalg.norm((landing.poses - poses - move) * weights, axis=1) / np.linalg.norm(move * weights, axis=1)
    speed = np.linalg.norm(landing.velocities * weights, axis=1)
    return [
        *_spread("free move left undone", missing, PERCENT, "%", (0.5, 0.99, 1.0)),
        *_spread("speed after a free move", speed, MILLIMETRE, "mm/s", (0.5, 1.0)),
        *_spread("off the plane, free", landing.off_plane, MICROMETRE, "µm", (0.5, 1.0)),
    ]


def _contact(system: PegSystem, n: int, rng: np.random.Generator) -> list[Row]:
    poses, move = contact_inputs(n, system.settings, rng)
    began = time.perf_counter()
    landing = system.land(poses, move)
    seconds = (time.perf_counter() - began) / n
    shape = shape_of(system.settings)
    depth = depths(landing.poses, shape)
    touching = depth[depth > -TOUCHING]
    return [
        ("landings in contact", len(touching) / n / PERCENT, "%"),
        *_spread("penetration", np.maximum(touching, 0.0), MICROMETRE, "µm", (0.5, 0.99, 1.0)),
        ("infeasible landings", float(np.mean(overlaps(landing.poses, shape) > MAX_OVERLAP)) / PERCENT, "%"),
        *_spread("off the plane, near contact", landing.off_plane, MICROMETRE, "µm", (0.5, 0.99, 1.0)),
        (f"time a transition, threads: {system.threads}", seconds / MICROMETRE, "µs"),
    ]


def _repeatability(system: PegSystem, n: int, rng: np.random.Generator) -> list[Row]:
    """Rows whose bits change when they are run again: in one batch, one by one, and on one or two threads."""
    n = min(n, 200)
    poses, move = contact_inputs(n, system.settings, rng)
    once = system.transitions(poses, move)
    again = {
        "run again": system.transitions(poses, move),
        "run one by one": np.concatenate([system.transitions(poses[i], move[i]) for i in range(n)]),
        "run on one thread": type(system)(system.settings, 1).transitions(poses, move),
        "run on two threads": type(system)(system.settings, 2).transitions(poses, move),
    }
    return [(f"rows that differ, {how}", float((once != other).any(axis=1).sum()), "rows") for how, other in again.items()]


def _spread(name: str, values: Floats, scale: float, unit: str, levels: tuple[float, ...]) -> list[Row]:
    called = {0.5: "median", 0.99: "99th percentile", 1.0: "largest"}
    if not len(values):
        return [(f"{name}, {called[level]}", float("nan"), unit) for level in levels]
    return [(f"{name}, {called[level]}", float(np.quantile(values, level)) / scale, unit) for level in levels]


def _displacements(n: int, settings: PegSettings, rng: np.random.Generator) -> Floats:
    bound = settings.gain * settings.bound
    return np.asarray(rng.uniform(-bound, bound, size=(n, 3)) * ACTION_UNIT)
