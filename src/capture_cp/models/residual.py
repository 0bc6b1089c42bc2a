"""A model with its bias corrected by a regressor: the same guarantee, usually with smaller regions.

It keeps a record of its training transitions, to prevent calibration on them by mistake.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy

from capture_cp.base.arrays import digest
from capture_cp.base.checks import Bools, CaptureError, Floats, finite_array, same_length, some_rows, whole_number
from capture_cp.base.params import Params
from capture_cp.base.streams import stream
from capture_cp.conformal.episodes import episode_numbers
from capture_cp.conformal.scores import Model
from capture_cp.spaces.metrics import wrap_angle

#: Maps configurations (n * L, dc) back into feasible space, row by row.
Project = Callable[[Floats], Floats]
#: Numbers are equal within this fraction of their column's spread, and of its largest number: a copy in float32 or in
#: a CSV file with six decimals is still the same transition.
OF_SPREAD, OF_SIZE = 1e-4, 1e-7
MOST_ASKED = 2_000  # rows that are tested for continuing a training run


class Residual(Params):
    """A model corrected by a regressor of its error: `residual(model, LinearRegression()).fit(X_train, Y_train)`.

    `fit(X, Y)` trains the regressor on Y minus the mean of the model's particles at X. Afterwards the model's particles are
    shifted by the regressor's prediction. The training transitions are stored, and `fit` of a calibration raises an error
    for them, including copies in float32 or with six decimals: residuals are smaller on transitions that the regressor has
    seen.

    Args:
        model: the model to correct, `model(X, n_particles, rng) -> (n, L, dc)`.
        regressor: any scikit-learn regressor; it learns the error of the model's mean from X.
        project: maps shifted particles (n * L, dc) back into feasible space; by default they are not moved.
        angles: axes of the configuration that are angles, whose differences are wrapped to [-π, π].
        n_particles: number of particles for each training mean.
        seed: fixes those particles.

    Attributes:
        regressor_: the trained regressor, a clone of `regressor`.
    """

    regressor_: Any

    def __init__(
        self,
        model: Model,
        regressor: Any,
        project: Project | None = None,
        angles: Sequence[int] = (),
        n_particles: int = 64,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.regressor = regressor
        self.project = project
        self.angles = angles
        self.n_particles = n_particles
        self.seed = seed

    def fit(self, X: Any, Y: Any, episodes: Any = None) -> Self:
        """Train on transitions X (n, dx), Y (n, dc) that will not be used to calibrate or to test.

        `episodes` (n,) names the run of each row. Steps of one run resemble each other, so no step of these runs may be used
        to calibrate either; fitting a calibration with `episodes` raises an error if it shares a run with these.
        """
        from sklearn.base import clone

        X = some_rows("X", finite_array("X", X, (None, None), "(n, dx): state and action of one transition per row"))
        Y = finite_array("Y", Y, (None, None), "(n, dc): the next configuration of one transition per row")
        same_length("X", X, "Y", Y)
        if any(axis not in range(Y.shape[1]) for axis in self.angles):
            raise CaptureError(f"angles are {tuple(self.angles)}; the configuration has axes 0 to {Y.shape[1] - 1}.")
        has_methods = (callable(getattr(self.regressor, name, None)) for name in ("fit", "predict", "get_params"))
        if isinstance(self.regressor, type) or not all(has_methods):
            raise CaptureError(
                f"the regressor is {self.regressor!r}; expected a scikit-learn regressor, such as LinearRegression()."
            )
        if episodes is not None:
            episode_numbers(episodes, len(X))
        misses = self._wrapped(Y - self._mean(X, Y.shape[1]))
        try:
            # a single target as (n,): every regressor accepts it, some reject or flatten (n, 1)
            regressor = clone(self.regressor).fit(X, misses[:, 0] if Y.shape[1] == 1 else misses)
        except ValueError as error:
            raise CaptureError(
                f"the regressor {self.regressor!r} cannot be trained on {Y.shape[1]} numbers per row ({error}); wrap a "
                "regressor that predicts a single number in sklearn.multioutput.MultiOutputRegressor."
            ) from None
        _shift(regressor, X[:1], Y.shape[1])
        self.regressor_, self.n_inputs_, self.n_outputs_ = regressor, X.shape[1], Y.shape[1]
        self._low, self._high = X.min(axis=0), X.max(axis=0)
        self._training = TrainingRows(X, Y, episodes)
        return self

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """The model's particles at X (n, dx), corrected: (n, L, dc)."""
        self._check_trained()
        shift = _shift(self.regressor_, X, self.n_outputs_)
        particles = _particles(self.model, X, n_particles, rng, self.n_outputs_) + shift[:, None]
        particles[..., list(self.angles)] = wrap_angle(particles[..., list(self.angles)])
        if self.project is None:
            return particles
        rows = particles.reshape(-1, self.n_outputs_)
        projected = finite_array(
            "what project returned", self.project(rows), rows.shape, "(n * L, dc): the shape of its argument"
        )
        return projected.reshape(particles.shape)

    @property
    def gaussian(self) -> Callable[[Floats], tuple[Floats, Floats]]:
        """The model's `gaussian(X)` with corrected means, if the model has one; `project` is not applied."""
        inner = getattr(self.model, "gaussian", None)
        if inner is None:
            raise AttributeError("gaussian")  # so that the missing method is reported as for the model itself

        def corrected(X: Floats) -> tuple[Floats, Floats]:
            self._check_trained()
            mean, covariance = inner(X)
            return np.asarray(mean) + _shift(self.regressor_, X, self.n_outputs_), covariance

        return corrected

    def trained_on(self, X: Floats, Y: Floats, episodes: Any = None) -> Bools:
        """Whether each transition X[i] (dx,), Y[i] (dc,) was trained on, up to rounding, or is from a training run: (n,)."""
        self._check_trained()
        return self._training.seen(X, Y, episodes)

    def share_continued(self, X: Floats, episodes: Any = None) -> float:
        """Fraction of transitions X (n, dx) that begin where a training transition ended, beyond chance."""
        self._check_trained()
        return self._training.share_continued(X, episodes)

    def linear_correction(self) -> tuple[Floats, Floats]:
        """Coefficients (dc, dx) and offset (dc,) of the shift = coefficients @ x + offset, for a compiled planner."""
        self._check_trained()
        coefficients, offset = (getattr(self.regressor_, name, ()) for name in ("coef_", "intercept_"))
        shape = self.n_outputs_, self.n_inputs_
        probes = np.random.default_rng(0).uniform(self._low, self._high, size=(64, self.n_inputs_))
        if np.size(coefficients) == shape[0] * shape[1] and np.size(offset) in (1, self.n_outputs_):
            A = np.asarray(coefficients, dtype=np.float64).reshape(shape)
            b = np.array(np.broadcast_to(np.asarray(offset, dtype=np.float64), (self.n_outputs_,)))
            if np.allclose(probes @ A.T + b, _shift(self.regressor_, probes, self.n_outputs_)):
                return A, b
        raise CaptureError(
            f"the regressor {self.regressor!r} is not linear in X with a coef_ and an intercept_, which a compiled planner "
            "needs; use a linear one, such as LinearRegression() or Ridge()."
        )

    def identity(self) -> str:
        """Digest of the model's own identity, the settings, and the training transitions."""
        self._check_trained()
        params = sorted(self.regressor.get_params(deep=True).items())
        settings = [_name(self.regressor), *((name, _name(value)) for name, value in params)]
        found = hashlib.sha256(repr(settings).encode())  # the same in every process
        inner = getattr(self.model, "identity", None)
        own = (inner() if callable(inner) else None, tuple(self.angles), self.n_particles, self.seed)
        found.update(repr((own, _name(self.project), self._training.digest())).encode())
        return found.hexdigest()

    def _mean(self, X: Floats, dims: int) -> Floats:
        """Mean of the model's particles at X (n, dx), angles around the first particle: (n, dc)."""
        L = whole_number("n_particles", self.n_particles, 1)
        particles = _particles(self.model, X, L, stream(whole_number("seed", self.seed, 0), "residual"), dims)
        first = particles[:, :1]
        return np.asarray(first[:, 0] + self._wrapped(particles - first).mean(axis=1))

    def _wrapped(self, differences: Floats) -> Floats:
        angles = list(self.angles)
        differences[..., angles] = wrap_angle(differences[..., angles])
        return differences

    def _check_trained(self) -> None:
        if not hasattr(self, "regressor_"):
            raise CaptureError(
                "this residual model is not trained yet; call fit(X, Y) with transitions that are not used for calibration."
            )


residual = Residual  # the name next to those of the other adapters


def _particles(model: Model, X: Floats, n_particles: int, rng: np.random.Generator, dims: int) -> Floats:
    meaning = "(n, L, dc): L next configurations for each input"
    return finite_array("the model's particles", model(X, n_particles, rng), (len(X), n_particles, dims), meaning)


def _shift(regressor: Any, X: Floats, dims: int) -> Floats:
    """The regressor's prediction at X (n, dx): (n, dc)."""
    shift = np.asarray(regressor.predict(X))
    shift = shift[:, None] if dims == 1 and shift.ndim == 1 else shift
    return finite_array("what the regressor predicts", shift, (len(X), dims), "(n, dc): one shift per row")


def _name(value: Any) -> str:
    """Text for a plain value, or the name of a function or object, without its address, which changes in every run."""
    if callable(value) or hasattr(value, "get_params"):
        return str(getattr(value, "__qualname__", type(value).__qualname__))
    return repr(value)


class TrainingRows:
    """Training transitions X (n, dx), Y (n, dc), and the names of their episodes (n,), if known."""

    def __init__(self, X: Floats, Y: Floats, episodes: Any = None) -> None:
        self.X, self.Y = X, Y
        self.episodes = None if episodes is None else frozenset(np.asarray(episodes).tolist())

    def seen(self, X: Floats, Y: Floats, episodes: Any = None) -> Bools:
        """Which transitions X (m, dx), Y (m, dc) are training transitions, or from one of their episodes: (m,)."""
        found = np.zeros(len(X), dtype=bool)
        if self.episodes is not None and episodes is not None:
            found |= np.array([name in self.episodes for name in np.asarray(episodes).tolist()], dtype=bool)
        if len(X) == 0 or X.shape[1] != self.X.shape[1] or Y.shape[1] != self.Y.shape[1]:
            return found  # rows of another shape cannot be compared
        return found | _near(self._trees[0], np.hstack([X, Y]) / self._tolerance)

    def share_continued(self, X: Floats, episodes: Any = None) -> float:
        """Fraction of transitions X (m, dx) that begin where a training transition ended, beyond chance.

        Which columns of X are the configuration is unknown, so every block of as many columns as Y has is tried. 0 if the
        names of episodes distinguish the runs.
        """
        if len(X) == 0 or X.shape[1] != self.X.shape[1] or (self.episodes is not None and episodes is not None):
            return 0.0
        dims, tolerance = self.Y.shape[1], self._tolerance[self.X.shape[1] :]
        rows = X[stream(0, "TrainingRows").permutation(len(X))[:MOST_ASKED]]
        shares = [0.0]
        for first in range(X.shape[1] - dims + 1):
            begins = rows[:, first : first + dims] / tolerance
            by_chance = _near(self._trees[1], begins + 10.0).mean()  # how often rows are this near to an unrelated point
            shares.append(float(_near(self._trees[1], begins).mean() - by_chance))
        return max(shares)

    def digest(self) -> str:
        """Digest of the transitions, independent of their order."""
        rows = np.hstack([self.X, self.Y]) + 0.0  # -0.0 is 0.0
        return digest(rows[np.lexsort(rows.T)])

    @cached_property
    def _trees(self) -> tuple[scipy.spatial.cKDTree, scipy.spatial.cKDTree]:
        """Trees of the transitions and of their ends; fast to build, even with many equal rows."""
        rows = np.hstack([self.X, self.Y]) / self._tolerance
        parts = rows, rows[:, self.X.shape[1] :]
        whole, ends = (scipy.spatial.cKDTree(part, balanced_tree=False, compact_nodes=False) for part in parts)
        return whole, ends

    @cached_property
    def _tolerance(self) -> Floats:
        rows = np.hstack([self.X, self.Y])
        tolerance = OF_SPREAD * rows.std(axis=0) + OF_SIZE * np.abs(rows).max(axis=0)
        return np.where(tolerance > 0, tolerance, 1e-12)


def _near(tree: scipy.spatial.cKDTree, rows: Floats) -> Bools:
    """Which rows (m, d) have a row of the tree within 1 in every column: (m,)."""
    distance, _ = tree.query(rows, p=np.inf, distance_upper_bound=1.0)
    return np.asarray(np.isfinite(distance))
