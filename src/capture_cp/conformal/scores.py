"""Nonconformity scores: how far an output lies from the model's prediction.

A score rates pairs, and decides which candidates pass a threshold. To add a score, subclass `Score` and implement `score`;
override the other methods for speed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, whole_number
from capture_cp.base.layouts import PARTICLE_BOX, Regions
from capture_cp.base.params import Params
from capture_cp.cuda.device import Device, chosen_device
from capture_cp.spaces.grid import Grid
from capture_cp.spaces.metrics import Euclidean, Metric
from capture_cp.spaces.strata import GriddedStrata, columns_of


class Model(Protocol):
    """An approximate model of the robot: any callable with this signature.

    If the model has a method `identity()` (text that changes with its settings), loading a calibration checks that it is
    the same model. If it has a method `trained_on(X, Y) -> bool (n,)`, it is never calibrated on its training transitions.
    """

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Sampled next configurations, (n, L, dc), of inputs X (n, dx), with all randomness drawn from `rng`."""


class Proposed(NamedTuple):
    """Weighted random configurations of a region: the mean of the weights over a set is its volume in the region."""

    Y: Floats  # (n, dc)
    weights: Floats  # (n,), 0 outside
    largest: float  # upper bound of the weights


class Score(Params, ABC):
    """Base class of nonconformity scores r(prediction, y): at least 0, larger for more unusual outcomes.

    A prediction is what `predict` returns for n inputs: an array or another object with `len` and slicing along its first
    axis. For particle scores it is the particle array (n, L, dc).
    """

    #: Whether regions are defined in ambient space, so that they may contain infeasible configurations.
    ambient = False

    def predict(self, model: Model, X: Floats, n_particles: int, rng: np.random.Generator) -> Any:
        """The model's prediction that this score needs at inputs X (n, dx)."""
        return model(X, n_particles, rng)

    def checked(self, prediction: Any, n: int, n_particles: int, dims: int) -> Any:
        """The prediction in the form that the other methods accept, or an error that explains what is wrong with it."""
        return finite_array(
            "the model's particles", prediction, (n, n_particles, dims), "(n, L, dc): L next configurations for each input"
        )

    def on(self, device: Device) -> Score:
        """This score computed on a device: itself on the CPU, and for "auto" if it has no GPU version."""
        if device == "cpu" or chosen_device(device) == "cpu":
            return self
        from capture_cp.conformal.on_cuda import on_cuda

        found = on_cuda(self)
        if found is None and device == "cuda":
            raise CaptureError(
                f"{self!r} has no GPU version; only ParticleBox, Mahalanobis, and NearestParticles with one of the "
                'library\'s metrics have one. Use device "cpu" or "auto".'
            )
        return self if found is None else found

    @abstractmethod
    def score(self, prediction: Any, Y: Floats) -> Floats:
        """Score of each pair prediction[i], Y[i] (dc,): (n,)."""

    def within(self, prediction: Any, Y: Floats, q: Floats) -> Bools:
        """Whether the score of Y[i] is at most q[i]: bool (n,). Each prediction is used for equally many rows of Y."""
        return np.asarray(self.score(_repeated(prediction, len(Y)), Y) <= q)

    def box(self, prediction: Any, q: Floats, dims: int) -> tuple[Floats, Floats]:
        """Lower and upper corners, (n, dc), of boxes outside which every score exceeds q (n,)."""
        everywhere = np.full((len(q), dims), np.inf)
        return -everywhere, everywhere

    def propose(self, prediction: Any, q: float, n: int, dims: int, rng: np.random.Generator) -> Proposed:
        """Weighted random configurations of the set where the score of one prediction is at most `q`.

        By default they are uniform over `box`.
        """
        low, high = (corner[0] for corner in self.box(prediction, np.array([q]), dims))
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise CaptureError(f"{self!r} has no finite box to draw from; add a method `box` or `propose`.")
        Y, volume = rng.uniform(low, high, (n, dims)), float(np.prod(high - low))
        return Proposed(Y, np.where(self.within(prediction, Y, np.full(n, q)), volume, 0.0), volume)

    def regions(self, prediction: Any) -> Regions | None:
        """The regions of n predictions in the form the kernels use; None for a score without a compiled version."""
        return None

    def count_cells(self, prediction: Any, q: Floats, strata: GriddedStrata) -> Ints:
        """Cells within q (n, M + 1), by stratum, infeasible ones last: (n, M + 1). Negative q admits nothing."""
        grid = strata.require_grid()
        # a subclass with its own score does not inherit the compiled regions of its base class
        own = next(kind for kind in type(self).__mro__ if "score" in vars(kind))
        regions = self.regions(prediction) if "regions" in vars(own) else None
        first, extent = grid.box(*self.box(prediction, q.max(axis=1), grid.dims))
        if regions is not None:
            from capture_cp.kernels.cells import count_cells

            return np.asarray(count_cells(regions, q, first, extent, columns_of(strata)))
        counts = np.zeros(q.shape, dtype=np.int64)
        for i in range(len(q)):
            cells = grid.cells_in_box(first[i], extent[i])
            limit = q[i, strata.labels[cells]]  # label -1 picks the last column
            cells = cells[limit >= 0]
            inside = cells[self.within(prediction[i : i + 1], grid.centre(cells), limit[limit >= 0])]
            np.add.at(counts[i], strata.labels[inside], 1)
        return counts

    def check(self, n_particles: int, dims: int, grid: Grid | None) -> None:
        """Raise an error if the settings do not fit the number of particles, the configurations or the grid."""


#: The metric of scores without one of their own.
PLAIN = Euclidean()


class NearestParticles(Score):
    """Distance to the k-th nearest of the L particles (Equation 9 of the paper); PCP is k = 1.

    Args:
        k: which neighbour is used, from 1 to L.
        metric: distance between configurations, Euclidean by default.
    """

    def __init__(self, k: int = 1, metric: Metric | None = None) -> None:
        self.k = k
        self.metric = metric

    @property
    def metric_(self) -> Metric:
        return self.metric if self.metric is not None else PLAIN

    def score(self, prediction: Any, Y: Floats) -> Floats:
        kernel = self.metric_.kernel(Y.shape[1])
        if kernel is None:
            return np.asarray(np.partition(self._distances(prediction, Y), self.k - 1, axis=1)[:, self.k - 1])
        from capture_cp.kernels.nearest import kth_nearest

        return np.asarray(kth_nearest(*kernel, self.k, Y, prediction))

    def within(self, prediction: Any, Y: Floats, q: Floats) -> Bools:
        kernel = self.metric_.kernel(Y.shape[1])
        if kernel is None:
            distances = self._distances(_repeated(prediction, len(Y)), Y)
            return np.asarray((distances <= q[:, None]).sum(axis=1) >= self.k)
        from capture_cp.kernels.nearest import within_pairs

        return np.asarray(within_pairs(*kernel, self.k, Y, prediction, q))

    def _distances(self, particles: Floats, Y: Floats) -> Floats:
        return self.metric_.distance(Y[:, None], particles)

    def box(self, prediction: Any, q: Floats, dims: int) -> tuple[Floats, Floats]:
        return self.metric_.box(prediction.min(axis=1), prediction.max(axis=1), q)

    def propose(self, prediction: Any, q: float, n: int, dims: int, rng: np.random.Generator) -> Proposed:
        """Uniform around randomly chosen particles; a point near c particles is drawn c times as often."""
        cloud = prediction[0]
        centres = cloud[rng.integers(len(cloud), size=n)]
        Y, counts, volume = self.metric_.around(centres, q, rng)
        near = (self.metric_.distance(Y[:, None], cloud[None]) <= q).sum(axis=1)
        inside = counts & (self.metric_.distance(Y, centres) <= q) & (near >= self.k)
        total = volume * len(cloud)
        return Proposed(Y, np.where(inside, total / np.maximum(near, 1), 0.0), total / self.k)

    def regions(self, prediction: Any) -> Regions | None:
        kernel = self.metric_.kernel(prediction.shape[2])
        return of_particles(*kernel, self.k, prediction) if kernel is not None and self.metric_.finds_cells else None

    def check(self, n_particles: int, dims: int, grid: Grid | None) -> None:
        if not isinstance(self.metric_, Metric):
            raise CaptureError(f"the metric is {self.metric!r}; expected a Metric such as Euclidean() or SE2(length).")
        if whole_number("k", self.k, 1) > n_particles:
            raise CaptureError(
                f"k is {self.k}, but the model returns {n_particles} particles; choose k from 1 to {n_particles}."
            )
        self.metric_.check(dims, grid)


class ParticleBox(Score):
    """Distance outside the particles' axis-aligned bounding box, 0 inside; regions are boxes."""

    def score(self, prediction: Any, Y: Floats) -> Floats:
        below, above = prediction.min(axis=1) - Y, Y - prediction.max(axis=1)
        return np.asarray(np.maximum(np.maximum(below, above), 0.0).max(axis=1))

    def box(self, prediction: Any, q: Floats, dims: int) -> tuple[Floats, Floats]:
        return prediction.min(axis=1) - q[:, None], prediction.max(axis=1) + q[:, None]

    def regions(self, prediction: Any) -> Regions | None:
        return of_particles(PARTICLE_BOX, 1.0, 1, prediction)


def of_particles(rule: int, length: Any, k: int, particles: Any) -> Regions:
    """Regions of particles (n, L, dc); see `capture_cp.kernels.cells`."""
    dims = particles.shape[2]
    return Regions(rule, length, k, particles, np.zeros((1, dims, dims)), np.zeros(dims, dtype=bool))


def _repeated(prediction: Any, n: int) -> Any:
    """Each prediction repeated so that there is one for each of n rows."""
    return prediction if len(prediction) == n else prediction[np.repeat(np.arange(len(prediction)), n // len(prediction))]
