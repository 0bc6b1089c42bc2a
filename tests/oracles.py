"""Slow, plain versions of what the package computes fast: NumPy, SciPy, fractions and loops, written to be obvious."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
from scipy import linalg


def rank(n: int, alpha: Fraction) -> int:
    """The conformal rank in exact arithmetic; n + 1 stands for +inf."""
    return math.ceil((n + 1) * (1 - alpha))


def quantile(scores, alpha: Fraction) -> float:
    k = rank(len(scores), alpha)
    return float(np.sort(scores)[k - 1]) if k <= len(scores) else math.inf


def euclidean(a, b) -> float:
    """Axis by axis in order, as the compiled rule adds, so that not even the last bit differs."""
    total = 0.0
    for one, other in zip(a, b):
        total += (one - other) ** 2
    return math.sqrt(total)


def pose_matrix(pose):
    x, z, theta = pose
    cos, sin = math.cos(theta), math.sin(theta)
    return np.array([[cos, -sin, x], [sin, cos, z], [0.0, 0.0, 1.0]])


def twist_matrix(twist):
    rho_x, rho_z, omega = twist
    return np.array([[0.0, -omega, rho_x], [omega, 0.0, rho_z], [0.0, 0.0, 0.0]])


def pose_of_twist(twist):
    """The pose matrix that a twist generates, by scipy's matrix exponential: defined for every angle, also ±π."""
    return linalg.expm(twist_matrix(twist))


def twist_of_pose(matrix):
    """The principal logarithm by scipy, which exists for angles strictly inside ±π."""
    log = np.real(linalg.logm(matrix))
    return np.array([log[0, 2], log[1, 2], log[1, 0]])


def se2(a, b, length) -> float:
    relative = linalg.solve(pose_matrix(a), pose_matrix(b))
    rho_x, rho_z, omega = twist_of_pose(relative)
    return math.sqrt(rho_x**2 + rho_z**2 + (length * omega) ** 2)


def distances(Y, particles, distance):
    """(n, L) distances, one Python call each."""
    return np.array([[distance(y, p) for p in cloud] for y, cloud in zip(Y, particles)]).reshape(particles.shape[:2])


def kth_nearest(Y, particles, k, distance):
    return np.sort(distances(Y, particles, distance), axis=1)[:, k - 1]


def mahalanobis(y, mean, cov, angles=()) -> float:
    step = np.asarray(y, float) - mean
    for axis in angles:
        step[axis] = math.remainder(step[axis], 2 * math.pi)
    return math.sqrt(step @ linalg.solve(cov, step, assume_a="pos"))


def centres(origin, spacing, shape):
    """Every cell's configuration, in C order."""
    return np.array([[o + i * s for o, i, s in zip(origin, index, spacing)] for index in product(*map(range, shape))])


def count_cells(score, q, labels, origin, spacing, shape):
    """Cells whose score is at most their stratum's threshold, looking at every cell: (M + 1,), infeasible last."""
    counts = np.zeros(len(q), dtype=int)
    for centre, label in zip(centres(origin, spacing, shape), labels):
        counts[label] += score(centre) <= q[label]
    return counts


def walk(nodes, root, x, features) -> int:
    """Group at the end of one walk down a tree over the inputs and then the stratum's features."""
    values = np.concatenate([x, features]).astype(np.float32)
    node = nodes[root]
    while node["feature"] >= 0:
        node = nodes[node["left"] if values[node["feature"]] <= node["threshold"] else node["right"]]
    return int(node["group"])
