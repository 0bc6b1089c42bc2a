"""CaPTURe: calibrated prediction regions from a particle model, strata and logged transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from capture_cp.base.arrays import digest
from capture_cp.base.checks import (
    Bools,
    CaptureError,
    Floats,
    Ints,
    finite_array,
    known_name,
    positive_number,
    same_length,
    some_rows,
)
from capture_cp.base.streams import Randomness, generator, rng_of_chunk
from capture_cp.capture.artifact import FORMAT
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.preflight import check_model, check_unseen, checked_scores, warn_of_light_groups
from capture_cp.capture.region import Region, cells_of, finite_columns, with_whole_strata
from capture_cp.capture.saved_arrays import UNSOUND, Arrays, checked_data, checked_group_scores, checked_size
from capture_cp.conformal.coverage import Coverage, Grouped, coverage_of
from capture_cp.conformal.episodes import episode_numbers
from capture_cp.conformal.groups import Examples, Groups
from capture_cp.conformal.partition import Partition
from capture_cp.conformal.scores import Model, Score
from capture_cp.conformal.shift import Shift, ShiftClaim, checked_shift
from capture_cp.conformal.thresholds import PER_EPISODE, PER_GROUP, EpisodeScores, SortedScores, Thresholds
from capture_cp.conformal.weighted import WeightedScores
from capture_cp.cuda.device import Device, require_cuda
from capture_cp.data.transitions import CHUNK, chunks_of, provenance, rows_to_remember
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata, Strata, checked_index, grid_of, has_grid

if TYPE_CHECKING:
    from capture_cp.conformal.threshold_table import ThresholdTable

#: What the coverage of a calibration by episodes with several groups says besides its numbers.
_EACH = "guaranteed in each group, at a random step there of an episode that visits it; other rows are measured"


class Capture(Fitted):
    """Prediction regions that contain the next configuration with probability at least 1 - alpha, in and out of contact.

    Args:
        model: approximate model, `model(X, n_particles, rng) -> (n, L, dc)`; any callable, of any fidelity.
        strata: stratified configuration space with `names` and `index(Y)`.
        score: nonconformity score; by default `NearestParticles(k=n_particles // 2)`.
        groups: grouping of (input, stratum) pairs; by default `Tree()`.
        n_particles: L, number of particles drawn from the model for each input.
        seed: fixes the particles and the random split of `fit`. Queries draw new particles each time, unless you pass `rng`,
            a generator or a seed: the coverage guarantee includes the random draw of the particles, also for repeated
            queries of one input.
        deterministic_model: True if the model intentionally ignores its random generator.
        device: where scores, thresholds, membership and cells are computed: "cpu", "cuda" (an NVIDIA GPU, extra `cuda`), or
            "auto" for a GPU if there is one and the score has a GPU version. The results are the same.
        farthest: the largest physically possible score, if you know one: the largest distance of the robot from the k-th
            nearest particle. It replaces the infinite threshold of groups with too few calibration points. The guarantee
            depends on it: `fit` raises an error if its transitions exceed the bound.

    Attributes:
        partition_: the fitted groups.
        calibration_: the sorted scores of each group, from which thresholds for any alpha are read.
        shift_: what the guarantee assumes if it was fitted with a shift, and who is responsible if the shift is a guess;
            else None.
    """

    calibration_: Thresholds
    shift_: ShiftClaim | None = None

    predicts_state = False
    _kind, _run, _fit_call, _format = "Capture", "episode", "fit(X, Y)", FORMAT

    def __init__(
        self,
        model: Model,
        strata: Strata,
        score: Score | None = None,
        groups: Groups | None = None,
        n_particles: int = 16,
        seed: int = 0,
        deterministic_model: bool = False,
        device: Device = "cpu",
        farthest: float | None = None,
    ) -> None:
        super().__init__(strata, score, groups, n_particles, seed)
        self.model = model
        self.deterministic_model = deterministic_model
        self.device = device
        self.farthest = farthest

    # -- offline ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, Y: Any, prediction: Any = None, episodes: Any = None, shift: Shift | None = None) -> Self:
        """Calibrate on transitions (Algorithm 1, lines 1 to 9).

        Args:
            X: inputs, state and action side by side, (n, dx).
            Y: next configurations of the real system, (n, dc).
            prediction: the model's prediction at X, if already computed: particles (n, L, dc).
            episodes: which episode (run, object, day) each row belongs to, (n,), if rows of one episode are not independent.
                Coverage then holds in each group for a new episode that visits it, at a random one of its steps there:
                by stratum with one group per stratum, and for a random step of the whole episode with a single group.
                Queries may then use `simultaneous=True`: all executed steps of a new episode are in their regions at once
                with probability at least 1 - alpha. Half of the episodes that did not make the groups set scales, the others
                are compared; `size_needed(alpha)` compared episodes are needed.
            shift: how the distribution of new inputs differs from the log's, if it does. Coverage then holds for new
                inputs, given their group. It cannot be combined with `episodes`.
        """
        X = some_rows("X", finite_array("X", X, (None, None), "(n, dx): state and action of one transition per row"))
        Y = finite_array("Y", Y, (None, None), "(n, dc): the next configuration of one transition per row")
        same_length("X", X, "Y", Y)
        numbers = None if episodes is None else episode_numbers(episodes, len(X))
        ratios = None if shift is None else checked_shift(shift, episodes).ratios(X)
        dims = Y.shape[1]
        self.check_parts(dims)
        m = self.feasible_index(Y)
        check_unseen(self.model, X, Y, episodes)
        if prediction is None:
            self.check_model(X, dims)
            R = np.concatenate([self.chunk_scores(X[rows], Y[rows], number) for number, rows in chunks_of(len(X))])
        else:
            R = self.scores(self.predicted(X, prediction, None, dims), Y)
        self.check_farthest(R)
        examples = Examples(X, m, R, len(self.strata.names), getattr(self.strata, "features", None), numbers, ratios)
        partition, calibration = self._calibrated(examples)
        sampled = X[rows_to_remember(len(X), numbers, self.fit_stream("facts"))]
        digests = [digest(X[rows], Y[rows]) for _, rows in chunks_of(len(X))]
        data = provenance(len(X), digests, sampled, numbers)
        self.shift_ = None if shift is None or ratios is None else replace(shift.claim, largest=ratios.largest)
        return self.keep(partition, calibration, dims, data)

    # -- online -------------------------------------------------------------------------------------------------------

    def predict(self, X: Any, rng: Randomness = None) -> Any:
        """The model's prediction at inputs X (n, dx): for particle scores, particles (n, L, dc).

        Each call draws new particles, unless `rng` is a generator to draw from, or a seed, which gives the same particles
        again.
        """
        return self.predicted(self.inputs(X), None, rng)

    def thresholds(self, X: Any, alpha: float = 0.1, confidence: float | None = None, simultaneous: bool = False) -> Floats:
        """Threshold of every input X (n, dx) in every stratum: (n, M)."""
        X = self.inputs(X)
        return self.group_thresholds(alpha, simultaneous, confidence)[self.partition_.groups_everywhere(X)]

    def threshold_table(
        self, alpha: float = 0.1, confidence: float | None = None, simultaneous: bool = False
    ) -> ThresholdTable:
        """The thresholds at one alpha as a fast look-up `table(x, m)`, for a control loop: under a microsecond per input."""
        from capture_cp.conformal.threshold_table import ThresholdTable

        thresholds = self.group_thresholds(alpha, simultaneous, confidence)
        return ThresholdTable(self.partition_, thresholds)

    def compile(
        self, alpha: float = 0.1, confidence: float | None = None, device: str = "cpu", simultaneous: bool = False
    ) -> Any:
        """This calibration at one alpha, for a control loop: a `Compiled` with the same results, which threads may share.

        With device "cuda" it is a `CompiledCuda`, which takes arrays of PyTorch, JAX, CuPy or Numba on a GPU as they are.
        """
        if known_name("device of a compiled calibration", device, ("cpu", "cuda")) == "cpu":
            from capture_cp.capture.compiled import Compiled

            return Compiled(self, alpha, confidence, simultaneous)
        require_cuda()
        from capture_cp.capture.compiled_cuda import CompiledCuda

        return CompiledCuda(self, alpha, confidence, simultaneous)

    def region(
        self,
        x: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        rng: Randomness = None,
        simultaneous: bool = False,
    ) -> Region:
        """Prediction region of one input x (dx,).

        `confidence` raises the thresholds so that coverage holds with that probability over the draw of the calibration
        set. `prediction` accepts particles (L, dc) or (1, L, dc) that are already computed; `rng` is as in `predict`. With
        `simultaneous` the guarantee is for all steps of an episode at once, see `fit`.
        """
        self.check_fitted()
        X = finite_array("x", x, (self.n_inputs_,), "(dx,): state and action side by side")[None]
        if isinstance(prediction, np.ndarray | list) and np.ndim(prediction) == 2:
            prediction = np.asarray(prediction)[None]
        prediction = self.predicted(X, prediction, rng)
        q = self.group_thresholds(alpha, simultaneous, confidence)[self.partition_.groups_everywhere(X)[0]]
        return Region(self.score_, prediction, q, self.strata, self.n_outputs_, float(alpha), self.ambient_)

    def regions(
        self, X: Any, alpha: float = 0.1, confidence: float | None = None, prediction: Any = None, rng: Randomness = None
    ) -> list[Region]:
        """Prediction regions of inputs X (n, dx), as from `region`; their cells, if there is a grid, are found together."""
        X = self.inputs(X)
        q = self.group_thresholds(alpha, False, confidence)[self.partition_.groups_everywhere(X)]
        prediction, score, ambient = self.predicted(X, prediction, rng), self.score_, self.ambient_
        cells = cells_of(score, prediction, q, self.strata, ambient) if has_grid(self.strata) else [None] * len(X)
        rest = self.strata, self.n_outputs_, float(alpha), ambient
        return [Region(score, prediction[i : i + 1], q[i], *rest, found) for i, found in enumerate(cells)]

    def contains(
        self,
        X: Any,
        Y: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        labels: Any = None,
        rng: Randomness = None,
        simultaneous: bool = False,
    ) -> Bools:
        """Whether each Y[i] (dc,) is in the region of X[i] (dx,): bool (n,). No region is built.

        Several outcomes per input can be tested at once: Y (n, r, dc) gives bool (n, r). `prediction` and `labels` accept
        particles (n, L, dc) and stratum numbers of Y that are already computed; `rng` is as in `predict`.
        """
        X, Y = self.pairs(X, Y, several=np.ndim(Y) == 3)
        rows = Y.reshape(-1, self.n_outputs_)
        known = None if labels is None else checked_index(np.ravel(labels), len(rows), len(self.strata.names), "the caller")
        m = self.index(rows) if known is None else known
        q = self.group_thresholds(alpha, simultaneous, confidence)
        return self._within(q, X, rows, m, self.predicted(X, prediction, rng)).reshape(Y.shape[:-1])

    def count_cells(
        self,
        X: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        rng: Randomness = None,
        simultaneous: bool = False,
    ) -> Ints:
        """Grid cells of the region of each X[i] (dx,), by stratum: (n, M + 1), infeasible cells (LUCCa) last."""
        X = self.inputs(X)
        q = self.group_thresholds(alpha, simultaneous, confidence)
        return self._counted(q, X, self.predicted(X, prediction, rng))

    def coverage(
        self,
        X: Any,
        Y: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        volumes: bool = True,
        episodes: Any = None,
        rng: Randomness = None,
        simultaneous: bool = False,
    ) -> Coverage:
        """Coverage on held-out transitions: overall, by stratum and by group, with exact confidence intervals.

        `volumes=False` skips the mean region volumes, which need a grid and take most of the time. `episodes` (n,) names the
        episode of each row, as in `fit`: coverage of a subset is then that of a random one of its steps in a random episode
        that has any, and the (wider) intervals are valid for any number of independent episodes, however different they are.
        The row `together` is then that of whole episodes, which `simultaneous` regions guarantee.
        """
        X, Y = self.pairs(X, Y)
        some_rows("X", X)
        m = self.feasible_index(Y)
        known = None if prediction is None else self.predicted(X, prediction, None)
        inside, cells = np.empty(len(X), dtype=bool), np.zeros(len(self.strata.names) + 1)
        counted = volumes and isinstance(self.strata, GriddedStrata) and self.strata.grid is not None
        q = self.group_thresholds(alpha, simultaneous, confidence)
        for number, rows in chunks_of(len(X)):
            part = self.predicted(X[rows], None, rng_of_chunk(rng, number)) if known is None else known[rows]
            inside[rows] = self._within(q, X[rows], Y[rows], m[rows], part)
            if counted:
                cells += self._counted(q, X[rows], part).sum(axis=0)
        groups, numbers = self.partition_.grown.groups(X, m), None if episodes is None else episode_numbers(episodes, len(X))
        volume = cells / len(X) if counted else None
        return self.tallied(inside, m, groups, float(alpha), volume, numbers, simultaneous)

    def tallied(
        self,
        inside: Bools,
        m: Any,
        groups: Any,
        alpha: float,
        volumes: Floats | None,
        episodes: Ints | None,
        simultaneous: bool = False,
    ) -> Coverage:
        """Coverage from membership, strata, grown groups and episodes, (n,) each, and mean cells (M + 1,)."""
        roots = self._root_names()
        described = [self.partition_.describe(j, roots) for j in range(self.partition_.n_groups)]
        grouped = Grouped(groups, described, self.calibration_.sizes)
        found = coverage_of(alpha, inside, m, list(self.strata.names), volumes, episodes, simultaneous, grouped)
        if self.shift_ is not None:
            return replace(found, note=f"guaranteed for {self.shift_}")
        return replace(found, note=_EACH) if self._by_group and not simultaneous else found

    @property
    def _by_group(self) -> bool:
        """Whether thresholds hold in each of several groups that an episode visits, and not for its steps together."""
        known = self.calibration_
        return isinstance(known, EpisodeScores) and known.weighting == PER_GROUP and self.partition_.n_groups > 1

    def effective_sizes(self) -> Floats:
        """Effective number of equally weighted calibration points of each group: (J,); plain sizes without a shift."""
        self.check_fitted()
        known = self.calibration_
        return known.effective_sizes if isinstance(known, WeightedScores) else known.sizes.astype(np.float64)

    def __repr__(self) -> str:
        return super().__repr__() + ("" if self.shift_ is None else f", fitted for {self.shift_}")

    # -- used by other modules ---------------------------------------------------------------------------------------

    @property
    def model_(self) -> Model:
        return self.model

    @property
    def computed_score(self) -> Score:
        return self.score_ if self.device == "cpu" else self.score_.on(self.device)

    def inputs(self, X: Any) -> Floats:
        """Inputs X, checked to be finite and of shape (n, dx)."""
        self.check_fitted()
        return finite_array("X", X, (None, self.n_inputs_), "(n, dx): as many columns as in fit")

    def pairs(self, X: Any, Y: Any, several: bool = False) -> tuple[Floats, Floats]:
        """Inputs X (n, dx) and outcomes Y (n, dc), or `several` (n, r, dc), checked to be finite and of equal length."""
        X = self.inputs(X)
        shape, meaning = ((None, None), "(n, r, dc): r outcomes per input") if several else ((None,), "(n, dc): as in fit")
        Y = finite_array("Y", Y, (*shape, self.n_outputs_), meaning)
        same_length("X", X, "Y", Y)
        return X, Y

    def predicted(self, X: Floats, prediction: Any, rng: Randomness, dims: int | None = None) -> Any:
        """The checked `prediction` at inputs X (n, dx), or a new one as from `predict` if it is None."""
        score = self.score_
        if prediction is None:
            prediction = score.predict(self.model, X, self.n_particles, generator(rng))
        return score.checked(prediction, len(X), self.n_particles, self.n_outputs_ if dims is None else dims)

    def check_model(self, X: Floats, dims: int) -> None:
        """Test the model at some of the inputs X (n, dx), see `preflight.check_model`."""
        check_model(self.model, self.score_, X[:CHUNK], self.n_particles, dims, self.deterministic_model)

    def chunk_scores(self, X: Floats, Y: Floats, number: int) -> Floats:
        """Scores (n,) of chunk `number` of the calibration transitions, X (n, dx), Y (n, dc).

        Each chunk has its own random numbers, so chunks can be computed by any worker in any order.
        """
        rng = self.fit_stream("particles", *([number] if number else []))
        return self.scores(self.predicted(X, None, rng, Y.shape[1]), Y)

    def scores(self, prediction: Any, Y: Floats) -> Floats:
        """Score of each Y[i] (dc,) under its prediction, checked to be finite and at least 0: (n,)."""
        return checked_scores(self.computed_score.score(prediction, Y), (len(Y),), "(n,): one score per transition")

    def cell_thresholds(self, q: Floats, X: Floats) -> Floats:
        """Thresholds for counting cells of inputs X (n, dx), from those of the groups q (J,).

        One per stratum, and last one for infeasible cells, (n, M + 1); negative where the region is empty.
        """
        known = q[self.partition_.groups_everywhere(X)]
        return np.hstack([known, known[:, :1] if self.ambient_ else np.full((len(X), 1), -1.0)])

    def first_prediction(self, states: Floats, actions: Floats, rng: Randomness = None) -> tuple[Floats, Any]:
        X = self.inputs(np.hstack([states, actions]))
        return X, self.predicted(X, None, rng)

    def next_points(self, states: Floats, actions: Floats, draws: int, rng: np.random.Generator) -> Floats:
        times = -(-draws // self.n_particles)
        particles: Floats = self.predict(np.repeat(np.hstack([states, actions]), times, axis=0), rng)
        return particles.reshape(len(states), times * self.n_particles, self.n_outputs_)

    def _calibrated(self, examples: Examples) -> tuple[Partition, Thresholds]:
        """Groups and thresholds from calibration examples, weighted if there is a shift."""
        partition, calibration = self.groups_.calibrate(examples, self.fit_stream("split"))
        if examples.ratios is not None and not isinstance(calibration, WeightedScores):
            raise CaptureError(
                f"{type(self.groups_).__name__} does not weight its scores, so it does not support a shift; use Tree, "
                "PerStratum or OneGroup, or weight the scores by examples.ratios."
            )
        return partition, calibration

    def check_parts(self, dims: int) -> None:
        super().check_parts(dims)
        _ = self.computed_score  # or an error for a score that the device lacks

    def _within(self, q: Floats, X: Floats, Y: Floats, m: Ints, prediction: Any) -> Bools:
        """Membership of rows Y (n * r, dc) with strata m, r of them for each row of X (n, dx), at thresholds q (J,)."""
        m_known = np.maximum(m, 0)
        if len(Y) == len(X):
            limits = q[self.partition_.groups(X, m_known)]
        else:
            owner = np.repeat(np.arange(len(X)), len(Y) // max(1, len(X)))
            limits = q[self.partition_.groups_everywhere(X)][owner, m_known]
        inside = self.computed_score.within(prediction, Y, limits)
        return inside if self.ambient_ else inside & (m != INFEASIBLE)

    def _counted(self, q: Floats, X: Floats, prediction: Any) -> Ints:
        """Grid cells of the regions of X (n, dx) with these predictions, by stratum, at thresholds q (J,): (n, M + 1)."""
        strata, limits = grid_of(self.strata), self.cell_thresholds(q, X)
        found = self.computed_score.count_cells(prediction, finite_columns(limits), strata)
        return with_whole_strata(limits, found, strata)

    def _read_thresholds(self, alpha: float, simultaneous: bool, confidence: float | None) -> Floats:
        if not simultaneous:
            q = self.calibration_.at(alpha, confidence)
        elif isinstance(self.calibration_, EpisodeScores):
            q = self.calibration_.together(alpha, confidence)
        else:
            raise CaptureError(
                "simultaneous regions are for all steps of an episode, but this Capture was fitted without episodes, or its "
                "method is not calibrated; call fit(X, Y, episodes=...)."
            )
        return q if self.farthest is None else np.minimum(q, self.farthest)

    def check_farthest(self, R: Floats) -> None:
        """Raise an error if scores R (n,) of the log exceed `farthest`."""
        if self.farthest is None:
            return
        beyond = np.flatnonzero(positive_number("farthest", self.farthest) < R)
        if len(beyond):
            raise CaptureError(
                f"farthest is {self.farthest:g}, but {len(beyond)} of {len(R)} transitions have larger scores, up to "
                f"{R.max():.4g}; pass a bound that no step can exceed, or none."
            )

    def _root_names(self) -> Sequence[str]:
        return self.strata.names

    def _warn_of_groups(self, small: Mapping[int, tuple[str, int]], alpha: float, confidence: float | None) -> None:
        known = self.calibration_
        if not isinstance(known, WeightedScores):
            return super()._warn_of_groups(small, alpha, confidence)
        size, times = known.effective_sizes, known.times_largest
        warn_of_light_groups({j: (name, size[j], times[j]) for j, (name, _) in small.items()}, alpha)

    # -- saved calibrations -------------------------------------------------------------------------------------------

    def _header(self) -> dict[str, Any]:
        return {
            "deterministic_model": self.deterministic_model,
            "farthest": self.farthest,
            "n_inputs": self.n_inputs_,
            "n_outputs": self.n_outputs_,
            "group_sizes": self.calibration_.sizes.tolist(),
            **({"weighting": self.calibration_.weighting} if isinstance(self.calibration_, EpisodeScores) else {}),
            **({} if self.shift_ is None else {"shift": self.shift_.facts()}),
        }

    def _score_arrays(self) -> Arrays:
        if not isinstance(self.calibration_, SortedScores):
            raise CaptureError("there is nothing to save: this method is not calibrated.")
        kept = {field.name: getattr(self.calibration_, field.name) for field in fields(self.calibration_)}
        return {name: np.atleast_1d(array) for name, array in kept.items() if array is not None}

    @classmethod
    def _loaded(cls, header: dict[str, Any], arrays: Arrays, model: Any, strata: Strata, parts: dict[str, Any]) -> Self:
        n_inputs, n_outputs = (checked_size(name, header[name]) for name in ("n_inputs", "n_outputs"))
        farthest = header.get("farthest")
        parts["farthest"] = None if farthest is None else positive_number("farthest", farthest)
        cap = cls(model, strata, deterministic_model=bool(header["deterministic_model"]), **parts)
        cap.check_parts(n_outputs)
        partition, scores = checked_group_scores(arrays, n_inputs, len(strata.names))
        cap.shift_ = ShiftClaim.from_facts(header["shift"]) if "shift" in header else None
        claimed = None if cap.shift_ is None else cap.shift_.largest
        weighting = scores.weighting if isinstance(scores, EpisodeScores) else None
        if claimed != (scores.largest if isinstance(scores, WeightedScores) else None) or (
            weighting is not None and header.get("weighting", PER_EPISODE) != weighting
        ):
            raise CaptureError(UNSOUND)
        return cap.keep(partition, scores, n_outputs, checked_data(header["data"]))
