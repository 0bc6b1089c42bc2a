"""The approximate model of the peg: it moves as commanded, and contacts push it aside without friction.

The true system moves 1.5 times as far and has friction; the model has neither, unless a correction adds them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit, prange

from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.kernels.compiler import parallel_kernel
from capture_lab.tasks.peg.geometry import (
    MAX_OVERLAP,
    TOP,
    contact_point,
    depth_along,
    extent,
    is_feasible,
    overlaps,
    shape_of,
    way_out,
)
from capture_lab.tasks.peg.settings import ACTION_UNIT, PegSettings

_LENGTH, _ANGLE = float(ACTION_UNIT[0]), float(ACTION_UNIT[2])
_STRIDE = 1e-3  # m; largest motion of any point of the peg in a sub-move, about the paper's clearance
_PASSES = 12
_HALVINGS = 20


class ModelParams(NamedTuple):
    """Parameters of `peg_step`: the fields of a `Shape`, flat, and the action's. A longer tuple with these fields works."""

    half_width: float
    half_length: float
    hole: float
    block: float
    depth: float
    radius: float
    bound: float  # mm, mm, degrees
    noise: float  # mm, mm, degrees


class Correction(NamedTuple):
    """A learnt correction of the model; by default none.

    Attributes:
        move: rows of a (3, 4) matrix: the corrected move along x, z and theta, linear in the predicted one, offset last.
        friction: length by which a move along a wall is reduced for every length that it is pressed into the wall.
    """

    move: tuple[tuple[float, ...], ...] = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))
    friction: float = 0.0


NO_CORRECTION = Correction()


def model_params(settings: PegSettings) -> ModelParams:
    """The model of a peg."""
    return ModelParams(*shape_of(settings), bound=settings.bound, noise=settings.noise)


@njit(cache=True)
def _contact(number, x, z, c, s, x0, z0, c0, s0, g):
    """Contact of a pose with a column: depth (negative when apart), normal nx, nz, and the lever by which it turns the peg.

    The peg leaves the column on the side by which it came in from the feasible pose (x0, z0): the shortest way out may cut
    its corner.
    """
    if depth_along(TOP, number, x, z, c, s, g)[0] <= -_STRIDE:
        return -math.inf, 0.0, 1.0, 0.0
    way, depth = way_out(number, x, z, c, s, g)
    if depth > 0.0:
        entered = way_out(number, x0, z0, c0, s0, g)[0]
        # deeper than a sub-move, the peg has turned past the face by which it came in
        if depth_along(entered, number, x, z, c, s, g)[0] <= 2.0 * _STRIDE:
            way = entered
    depth, nx, nz = depth_along(way, number, x, z, c, s, g)
    px, pz = contact_point(way, number, x, z, c, s, g)
    return depth, nx, nz, (px - x) * nz - (pz - z) * nx


@njit(cache=True, error_model="numpy")
def _pushes(one, two, weight):
    """Distances to push along two contacts' normals so that the peg leaves the first and is not in the second.

    The smallest motion in the metric that weights a rotation by the peg's radius, weight = 1 / radius².
    """
    own, other = 1.0 + one[3] * one[3] * weight, 1.0 + two[3] * two[3] * weight
    mixed = one[1] * two[1] + one[2] * two[2] + one[3] * two[3] * weight
    det = own * other - mixed * mixed
    if two[0] * own <= one[0] * mixed or det < 1e-9:  # the first push resolves both, or they oppose each other
        return one[0] / own, 0.0
    first, second = (one[0] * other - two[0] * mixed) / det, (two[0] * own - one[0] * mixed) / det
    return (first, second) if first > 0.0 else (0.0, two[0] / other)


@njit(cache=True)
def _push_out(x, z, theta, x0, z0, theta0, g):
    """An infeasible pose, reached from a feasible one, moved out of its contacts: x, z, theta, and whether it is out.

    Each pass leaves the deepest contact together with the one that this would drive the peg into: between two walls,
    resolving one at a time would not terminate.
    """
    c0, s0, weight = math.cos(theta0), math.sin(theta0), 1.0 / (g.radius * g.radius)
    for _ in range(_PASSES):
        c, s = math.cos(theta), math.sin(theta)
        contacts = (
            _contact(0, x, z, c, s, x0, z0, c0, s0, g),
            _contact(1, x, z, c, s, x0, z0, c0, s0, g),
            _contact(2, x, z, c, s, x0, z0, c0, s0, g),
        )
        deepest = 0
        for number in range(1, 3):
            if contacts[number][0] > contacts[deepest][0]:
                deepest = number
        one = two = contacts[deepest]
        a, b = one[0] / (1.0 + one[3] * one[3] * weight), 0.0
        for number in range(3):
            if number != deepest:
                first, second = _pushes(one, contacts[number], weight)
                if second > b:
                    two, a, b = contacts[number], first, second
        x, z = x + a * one[1] + b * two[1], z + a * one[2] + b * two[2]
        theta += (a * one[3] + b * two[3]) * weight
        if is_feasible(x, z, math.cos(theta), math.sin(theta), g):
            return x, z, theta, True
    return x, z, theta, False


@njit(cache=True)
def _last_feasible(x, z, theta, dx, dz, turn, g):
    """The farthest pose found feasible on the way from a feasible pose, by bisection."""
    reached, blocked = 0.0, 1.0
    for _ in range(_HALVINGS):
        t = 0.5 * (reached + blocked)
        angle = theta + t * turn
        if is_feasible(x + t * dx, z + t * dz, math.cos(angle), math.sin(angle), g):
            reached = t
        else:
            blocked = t
    return x + reached * dx, z + reached * dz, theta + reached * turn


@njit(cache=True)
def walk(x, z, theta, dx, dz, turn, friction, g):
    """The end of a displacement of a feasible pose, with contacts: x, z, theta, always feasible.

    With friction, the push out of a wall reduces the motion along the wall (Coulomb friction).
    """
    farthest = math.hypot(dx, dz) + g.radius * abs(turn)
    if z - extent(math.cos(theta), math.sin(theta), g)[1] > farthest:
        return x + dx, z + dz, theta + turn  # out of reach of all obstacles
    moves = max(int(math.ceil(farthest / _STRIDE)), 1)
    dx, dz, turn = dx / moves, dz / moves, turn / moves
    for _ in range(moves):
        x1, z1, theta1 = x + dx, z + dz, theta + turn
        if not is_feasible(x1, z1, math.cos(theta1), math.sin(theta1), g):
            x2, z2, theta2, out = _push_out(x1, z1, theta1, x, z, theta, g)
            along = math.hypot(x2 - x, z2 - z) + g.radius * abs(theta2 - theta)
            pressed = math.hypot(x2 - x1, z2 - z1) + g.radius * abs(theta2 - theta1)
            if not out or along > 2.0 * _STRIDE:  # wedged: leaving one wall leads into the other, or far away
                x1, z1, theta1 = _last_feasible(x, z, theta, dx, dz, turn, g)
            elif friction == 0.0 or along == 0.0:
                x1, z1, theta1 = x2, z2, theta2
            else:
                share = max(1.0 - friction * pressed / along, 0.0)
                ax, az, turned = share * (x2 - x), share * (z2 - z), share * (theta2 - theta)
                x1, z1, theta1 = x + ax, z + az, theta + turned
                if not is_feasible(x1, z1, math.cos(theta1), math.sin(theta1), g):
                    x1, z1, theta1 = _last_feasible(x, z, theta, ax, az, turned, g)
        x, z, theta = x1, z1, theta1
    return x, z, theta


@njit(cache=True, inline="always")
def disturbed(action, noise, params):
    """One component of an action with its standard normal, scaled and clipped."""
    return min(max(action + params.noise * noise, -params.bound), params.bound)


@njit(cache=True)
def moved(pose, action, noise, move, friction, params):
    """A pose (3,) after an action (3,) under standard normals (3,): x, z, theta. `move` (3, 4) is that of a `Correction`."""
    a, b, c = (
        disturbed(action[0], noise[0], params),
        disturbed(action[1], noise[1], params),
        disturbed(action[2], noise[2], params),
    )
    dx = _LENGTH * (move[0, 0] * a + move[0, 1] * b + move[0, 2] * c + move[0, 3])
    dz = _LENGTH * (move[1, 0] * a + move[1, 1] * b + move[1, 2] * c + move[1, 3])
    turn = _ANGLE * (move[2, 0] * a + move[2, 1] * b + move[2, 2] * c + move[2, 3])
    return walk(pose[0], pose[1], pose[2], dx, dz, turn, friction, params)


@parallel_kernel(cache=True)
def _step_all(X, noise, move, friction, params):
    """Particles (n, L, 3) of inputs X (n, 6) under standard normals (n, L, 3)."""
    after = np.empty_like(noise)
    for i in prange(X.shape[0]):
        for l in range(noise.shape[1]):
            x, z, theta = moved(X[i, :3], X[i, 3:], noise[i, l], move, friction, params)
            after[i, l, 0], after[i, l, 1], after[i, l, 2] = x, z, theta
    return after


@parallel_kernel(cache=True)
def _settle_all(poses, g):
    settled, out = poses.copy(), np.ones(poses.shape[0], dtype=np.bool_)
    for i in prange(poses.shape[0]):
        x, z, theta = poses[i, 0], poses[i, 1], poses[i, 2]
        if not is_feasible(x, z, math.cos(theta), math.sin(theta), g):
            x1, z1, theta1, out[i] = _push_out(x, z, theta, x, z, theta, g)
            if out[i]:  # the way out of all contacts may be long where the peg is wedged: stop as soon as it is feasible
                x1, z1, theta1 = _last_feasible(x1, z1, theta1, x - x1, z - z1, theta - theta1, g)
            out[i] &= math.hypot(x1 - x, z1 - z) + g.radius * abs(theta1 - theta) <= _STRIDE
            settled[i, 0], settled[i, 1], settled[i, 2] = x1, z1, theta1
    return settled, out


def settle(poses: Floats, settings: PegSettings) -> Floats:
    """Poses (n, 3) with those that overlap the surroundings pushed out; feasible ones are unchanged.

    For measured poses, which contact may leave slightly too deep. A pose is pushed just until it is feasible.
    """
    given = finite_array("poses", poses, (None, 3), "(n, 3): x, z, theta in metres and radians")
    settled, out = _settle_all(given, shape_of(settings))
    if not out.all():
        row = int(np.argmin(out))
        raise CaptureError(
            f"{int((~out).sum())} of {len(given)} poses lie deep in the receptacle or the table, first in row {row}: "
            f"{given[row].tolist()}; expected poses (metres, radians) less than a millimetre from a feasible one."
        )
    return np.asarray(settled)


class PegModel:
    """The approximate model c' = c + clip(a + ε) with contacts, as a library model; corrected, c + C (clip(a + ε), 1).

    Each row of inputs X (n, 6) is a feasible pose (m, m, rad) and an action (mm, mm, degrees).
    """

    def __init__(self, settings: PegSettings | None = None, correction: Correction = NO_CORRECTION) -> None:
        self.settings, self.correction = settings or PegSettings(), correction
        self.params = model_params(self.settings)

    def __repr__(self) -> str:
        return f"PegModel({self.settings!r}, {self.correction!r})"

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, 3) of the next pose, independent of the number of threads."""
        inputs, particles = self._checked(X), whole_number("n_particles", n_particles, 1)
        return self.step(inputs, rng.standard_normal((len(inputs), particles, 3)))

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The next pose as a Gaussian: means (n, 3), the noise-free step with its contacts, and covariances (n, 3, 3).

        In plain (x, z, theta), for `Mahalanobis(angles=[2])`. The covariance is that of free motion: neither clipping nor
        contact reduces it.
        """
        inputs = self._checked(X)
        mean = self.step(inputs, np.zeros((len(inputs), 1, 3)))[:, 0]
        return mean, np.tile(np.diag((self.settings.noise * ACTION_UNIT) ** 2), (len(inputs), 1, 1))

    def step(self, X: Floats, noise: Floats) -> Floats:
        """Particles (n, L, 3) of feasible inputs X (n, 6) under standard normals (n, L, 3)."""
        move, friction = self.correction
        return np.asarray(_step_all(X, noise, np.array(move), friction, self.params))

    def _checked(self, X: Floats) -> Floats:
        inputs = finite_array("X", X, (None, 6), "(n, 6): x, z, theta, then the action")
        infeasible = np.flatnonzero(overlaps(inputs, self.params) > MAX_OVERLAP)
        if len(infeasible):
            row = int(infeasible[0])
            raise CaptureError(
                f"{len(infeasible)} of {len(inputs)} poses of X lie in the receptacle or the table, first in row {row}: "
                f"{inputs[row, :3].tolist()}; the model needs feasible poses (metres, radians)."
            )
        return inputs
