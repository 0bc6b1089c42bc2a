"""Three robots in contact whose spaces are not flat: an arm, a body in space, an arm on wheels; each with a wrong model.

Each has a function of a generator and a number of rows that gives inputs X (n, dx), outcomes Y (n, dc) and what the wrong
model predicts, particles (n, L, dc). Rows are independent, so calibrations drawn from them are too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from capture_cp import FunctionStrata, Metric, Product, Torus
from capture_cp.spaces.metrics import wrap_angle
from capture_cp.spaces.poses import SE2, SE3

PARTICLES = 8
TOUCH = 1e-3  # what is this near to a surface touches it


@dataclass(frozen=True)
class Robot:
    """Draws of transitions, the strata that they end in, and the distance between configurations."""

    draw: Any
    strata: FunctionStrata
    metric: Metric


LINKS = (0.3, 0.4, 0.35, 0.25)


def height(q):
    """How high above the table the hand of an arm with joints q (..., 6) is: yaw, pitch, pitch, roll, pitch, roll."""
    c2, c23, s23 = np.cos(q[..., 1]), np.cos(q[..., 1] + q[..., 2]), np.sin(q[..., 1] + q[..., 2])
    hand = c23 * np.cos(q[..., 4]) - s23 * np.sin(q[..., 4]) * np.cos(q[..., 3])
    return LINKS[0] + LINKS[1] * c2 + LINKS[2] * c23 + LINKS[3] * hand


def arm_draw(rng, n):
    """The table stops the arm; joints are written within -pi and pi; the model knows no table and moves too little."""
    q = rng.uniform(-np.pi, np.pi, (12 * n + 200, 6))
    q = q[(height(q) > 0.01) & (height(q) < 0.2)][:n]
    assert len(q) == n
    a = rng.uniform(-0.3, 0.3, (n, 6))
    move = 1.2 * a + rng.normal(0, 0.02 + 0.1 * np.abs(a))
    low, high = np.zeros((n, 1)), np.ones((n, 1))
    for _ in range(30):  # the share of the way that is above the table
        middle = (low + high) / 2
        above = height(q + middle * move)[:, None] >= 0
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    share = np.where(height(q + move)[:, None] >= 0, 1.0, low)
    particles = q[:, None] + a[:, None] + rng.normal(0, 0.05, (n, PARTICLES, 6))
    return np.hstack([q, a]), wrap_angle(q + share * move), wrap_angle(particles)


ARM = Robot(
    arm_draw,
    FunctionStrata(lambda Y: (height(Y) < TOUCH).astype(int), ["free", "touching"]),
    Torus((1.0, 1.0, 0.8, 0.5, 0.5, 0.2)),
)


def turned(axis, angle):
    """Quaternions (n, 4) of turns by angles (n,) about axes (n, 3) of any length."""
    axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
    return np.concatenate([np.cos(angle / 2)[..., None], np.sin(angle / 2)[..., None] * axis], axis=-1)


def composed(a, b):
    """Quaternions (..., 4): first `b`, then `a`."""
    w = a[..., 0] * b[..., 0] - (a[..., 1:] * b[..., 1:]).sum(axis=-1)
    v = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + np.cross(a[..., 1:], b[..., 1:])
    return np.concatenate([w[..., None], v], axis=-1)


def body_draw(rng, n):
    """Turns near half a turn, some bodies tip over, the floor stops them, and the sign of a quaternion means nothing."""
    place = np.hstack([rng.uniform(-1, 1, (n, 2)), rng.exponential(0.1, (n, 1))])
    pose = turned(rng.standard_normal((n, 3)), rng.normal(np.pi, 0.1, n))  # half a turn and a little more or less
    push = rng.uniform(-0.2, 0.2, (n, 3))
    after = place + 1.2 * push + rng.normal(0, 0.02, (n, 3))
    after[:, 2] = np.maximum(after[:, 2], 0.0)
    tips = rng.random(n) < np.where(after[:, 2] == 0, 0.2, 0.02)
    angle = np.where(tips, rng.normal(np.pi, 0.05, n), rng.normal(0, 0.1, n))
    now = composed(turned(rng.standard_normal((n, 3)), angle), pose)
    particles = (place + push)[:, None] + rng.normal(0, 0.03, (n, PARTICLES, 3))
    spin = turned(rng.standard_normal((n, PARTICLES, 3)), rng.normal(0, 0.05, (n, PARTICLES)))
    spun = composed(spin, np.repeat(pose[:, None], PARTICLES, axis=1))

    def signed(quaternions):
        return quaternions * rng.choice([-1.0, 1.0], (*quaternions.shape[:-1], 1))

    X = np.hstack([place, signed(pose), push])
    return X, np.hstack([after, signed(now)]), np.concatenate([particles, signed(spun)], axis=2)


BODY = Robot(body_draw, FunctionStrata(lambda Y: (Y[:, 2] < TOUCH).astype(int), ["in the air", "on the floor"]), SE3(0.15))


STOP = 0.95 * np.pi


def wheels_draw(rng, n):
    """A wall at x = 0 stops the base, a stop the first joint, which rarely gets there; the model knows neither."""
    base = np.hstack([rng.exponential(0.3, (n, 1)), rng.uniform(-1, 1, (n, 1)), rng.uniform(-np.pi, np.pi, (n, 1))])
    joints = np.hstack([STOP * rng.beta(2, 2, (n, 1)), rng.uniform(-np.pi, np.pi, (n, 2))])
    state, a = np.hstack([base, joints]), rng.uniform(-0.3, 0.3, (n, 6))
    wanted = state + 1.15 * a + rng.normal(0, 0.02 + 0.1 * np.abs(a))
    wanted[:, 0], wanted[:, 3] = np.maximum(wanted[:, 0], 0.0), np.minimum(wanted[:, 3], STOP)
    wanted[:, [2, 4, 5]] = wrap_angle(wanted[:, [2, 4, 5]])
    particles = (state + a)[:, None] + rng.normal(0, 0.05, (n, PARTICLES, 6))
    particles[..., [2, 4, 5]] = wrap_angle(particles[..., [2, 4, 5]])
    return np.hstack([state, a]), wanted, particles


def wheels_contact(Y):
    return (Y[:, 0] < TOUCH) + 2 * (Y[:, 3] > STOP - TOUCH).astype(int)


WHEELS = Robot(
    wheels_draw,
    FunctionStrata(wheels_contact, ["free", "wall", "stop", "wall and stop"]),
    Product((SE2(0.4), Torus()), (3, 3), (1.0, 0.6)),
)
