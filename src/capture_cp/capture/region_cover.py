"""Ellipsoids that cover a thin part of a region, such as a contact, which random configurations rarely hit.

Walkers start on the part and spread over it by short random steps, and an ellipsoid is fitted around each of them and its
neighbours. Configurations drawn from the ellipsoids have weights, as those of `Score.propose`. The remainder outside the
ellipsoids is left to plain draws, so estimates are unbiased however well or badly they cover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from capture_cp.base.checks import Bools, Floats, Ints
from capture_cp.conformal.scores import Proposed
from capture_cp.spaces.metrics import in_ball, wrap_angle

#: Walkers that ellipsoids are fitted around, and others (checkers) that determine how large these must be.
BUILDERS, CHECKERS = 256, 128
ROUNDS = 10  # steps of a walker
#: How much larger the ellipsoids are than needed to contain every checker.
MARGIN = 1.4
#: Factor by which a walker's step grows where it stays in the part, and by which it shrinks where it does not.
GROW, SHRINK = 2.0, 3.0
#: How many ellipsoids should contain a walker.
LAYERS = 8
#: Smallest width of an ellipsoid, as a fraction of its largest.
LEAST_WIDTH = 1e-7
BLOCK = 2048  # configurations that are compared with all ellipsoids at once

Inside = Callable[[Floats], Bools]


class Ellipsoids(NamedTuple):
    """A union of K ellipsoids {y : ‖W (y - c)‖ <= 1}."""

    centres: Floats  # c: (K, dc)
    whiten: Floats  # W: (K, dc, dc)
    is_angle: Bools  # (dc,)

    @property
    def volumes(self) -> Floats:
        """Volume of each: (K,)."""
        ball = in_ball(0, self.centres.shape[1], 1.0, np.random.default_rng(0))[1]
        return np.asarray(ball / np.abs(np.linalg.det(self.whiten)))

    def squared_radii(self, Y: Floats) -> Floats:
        """‖W (y - c)‖² of each of Y (n, dc) in each ellipsoid, at most 1 inside: (n, K)."""
        steps = differences(Y[:, None], self.centres, self.is_angle).swapaxes(0, 1)  # (K, n, dc)
        return np.asarray(((steps @ self.whiten.swapaxes(1, 2)) ** 2).sum(axis=2).T)

    def layers(self, Y: Floats) -> Ints:
        """How many of the ellipsoids contain each of Y (n, dc): (n,)."""
        blocks = np.split(Y, range(BLOCK, len(Y), BLOCK))
        return np.concatenate([np.count_nonzero(self.squared_radii(block) <= 1, axis=1) for block in blocks])

    def propose(self, n: int, rng: np.random.Generator) -> Proposed:
        """n random configurations of the union; a point inside c of the ellipsoids is drawn c times as often."""
        volumes = self.volumes
        total, dims = float(volumes.sum()), self.centres.shape[1]
        chosen = rng.choice(len(volumes), size=n, p=volumes / total)
        z = in_ball(n, dims, 1.0, rng)[0]
        moves: Floats = np.linalg.solve(self.whiten[chosen], z[:, :, None])[:, :, 0].astype(np.float64)
        Y = moved(self.centres[chosen], moves, self.is_angle)
        # a move of more than half a turn leads to the same point as a shorter one, which is counted instead
        counts = np.all(np.abs(moves[:, self.is_angle]) <= np.pi, axis=1)
        return Proposed(Y, np.where(counts, total / np.maximum(self.layers(Y), 1), 0.0), total)


def moved(Y: Floats, moves: Floats, is_angle: Bools) -> Floats:
    """Configurations Y (n, dc) after `moves` (n, dc), angles in [-π, π]."""
    after = Y + moves
    after[:, is_angle] = wrap_angle(after[:, is_angle])
    return after


def differences(Y: Floats, origin: Floats, is_angle: Bools) -> Floats:
    """Y - origin, broadcast, (..., dc), with differences of angles wrapped."""
    found = Y - origin
    found[..., is_angle] = wrap_angle(found[..., is_angle])
    return found


def covering(seeds: Floats, inside: Inside, scale: Floats, is_angle: Bools, rng: np.random.Generator) -> Ellipsoids:
    """Ellipsoids that contain nearly all of a part of a region.

    Args:
        seeds: configurations of the part, (s, dc).
        inside: whether configurations (n, dc) are in the part.
        scale: extent of the region along each axis, (dc,).
        is_angle: which axes are angles, (dc,).
        rng: source of all random numbers.
    """
    walkers = _spread(seeds, inside, scale, is_angle, rng)
    fitted = _fitted(walkers[:BUILDERS], scale, is_angle)
    farthest = float(np.sqrt(fitted.squared_radii(walkers[BUILDERS:]).min(axis=1).max()))
    return _thinned(fitted._replace(whiten=fitted.whiten / (MARGIN * max(farthest, 1.0))), walkers)


def _thinned(ellipsoids: Ellipsoids, Y: Floats) -> Ellipsoids:
    """A small subset of the ellipsoids that contains each of Y (n, dc) `LAYERS` times, or as often as all do."""
    holds = ellipsoids.squared_radii(Y).T <= 1  # (K, n)
    left, keep = holds.sum(axis=0), np.ones(len(holds), dtype=bool)
    least = np.minimum(left, LAYERS)
    for j in np.argsort(-ellipsoids.volumes, kind="stable"):
        if (left - holds[j] >= least).all():
            left -= holds[j]
            keep[j] = False
    return ellipsoids._replace(centres=ellipsoids.centres[keep], whiten=ellipsoids.whiten[keep])


def _spread(seeds: Floats, inside: Inside, scale: Floats, is_angle: Bools, rng: np.random.Generator) -> Floats:
    """Walkers (BUILDERS + CHECKERS, dc) that start at seeds and take random steps of individually adapted length."""
    n, dims = BUILDERS + CHECKERS, seeds.shape[1]
    places = seeds[rng.permutation(len(seeds))[np.arange(n) % len(seeds)]]
    length = np.full(n, 0.1)
    for _ in range(ROUNDS):
        directions = rng.standard_normal((n, dims)) * scale / np.sqrt(dims)
        # lengths around the walker's own: a part may be thin in one direction and wide in another
        steps = length * 3.0 ** rng.uniform(-1, 1, n)
        tried = moved(places, steps[:, None] * directions, is_angle)
        stays = inside(tried)
        places[stays] = tried[stays]
        length = np.where(stays, np.minimum(GROW * steps, 1.0), steps / SHRINK)
    return places


def _fitted(Y: Floats, scale: Floats, is_angle: Bools) -> Ellipsoids:
    """An ellipsoid around each of Y (K, dc), of the covariance of its nearest neighbours."""
    dims = Y.shape[1]
    size = min(len(Y), 3 * (dims + 1))
    apart = differences(Y[None], Y[:, None], is_angle) / scale  # (K, K, dc)
    near = np.argpartition((apart**2).sum(axis=2), size - 1, axis=1)[:, :size]
    steps = np.take_along_axis(apart, near[:, :, None], axis=1)  # (K, size, dc)
    middle = steps.mean(axis=1)
    steps -= middle[:, None]
    values, vectors = np.linalg.eigh(np.einsum("kni,knj->kij", steps, steps) / size)
    widths = np.sqrt(np.maximum(values, 0.0))
    widths = np.maximum(widths, LEAST_WIDTH * widths[:, -1:] + 1e-300)
    whiten = vectors.swapaxes(1, 2) / widths[:, :, None] / scale
    return Ellipsoids(moved(Y, middle * scale, is_angle), whiten, is_angle)
