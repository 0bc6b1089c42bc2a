"""CaPTURe: calibrated prediction regions from a particle model, strata and logged transitions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from capture_cp.base.checks import (
    Bools,
    CaptureError,
    Floats,
    Ints,
    confidence_level,
    failure_rate,
    feasible,
    finite_array,
    known_name,
    same_length,
    some_rows,
)
from capture_cp.base.params import Params
from capture_cp.base.streams import Randomness, generator, stream
from capture_cp.capture.preflight import (
    check_model,
    check_parts,
    check_same_strata,
    check_unseen,
    checked_scores,
    warn_of_small_groups,
)
from capture_cp.capture.provenance import provenance
from capture_cp.capture.region import Region, finite_columns, with_whole_strata
from capture_cp.conformal.coverage import Coverage, coverage_of
from capture_cp.conformal.groups import Examples, Groups, Tree
from capture_cp.conformal.partition import Partition, ThresholdTable
from capture_cp.conformal.scores import Model, NearestParticles, Score
from capture_cp.conformal.thresholds import Thresholds
from capture_cp.conformal.units import unit_numbers
from capture_cp.cuda.device import Device, chosen_device, require_cuda
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata, Strata, checked_index, grid_of

if TYPE_CHECKING:
    from capture_cp.capture.compiled import Compiled
    from capture_cp.capture.compiled_cuda import CompiledCuda

MOST_ASKED = 64  # failure rates whose thresholds are kept at hand


class Capture(Params):
    """Prediction regions that contain the next configuration with probability at least 1 - alpha, in contact or out.

    Args:
        model: approximate model, `model(X, n_particles, rng) -> (n, L, dc)`; any callable, of any fidelity.
        strata: stratified configuration space with `names` and `index(Y)`.
        score: nonconformity score; `NearestParticles(k=n_particles // 2)` unless given.
        groups: grouping of (input, stratum) pairs; `Tree()` unless given.
        n_particles: L, particles drawn from the model for each input.
        seed: fixes what `fit` draws, its particles and its random split. Questions draw new particles each time, unless
            they are asked with `rng`, a generator or a seed: coverage is promised over the draw of the particles too,
            also for one input that is asked about again and again.
        deterministic_model: say True if the model is meant to ignore its random generator.
        device: where scores, thresholds, membership and cells are computed: "cpu", "cuda" (an NVIDIA GPU, extra `cuda`), or
            "auto" for a GPU where there is one and the score has a version for it. The answers are the same.

    Attributes:
        partition_: the fitted groups.
        calibration_: the sorted scores of each group, from which thresholds for any alpha are read.
    """

    partition_: Partition
    calibration_: Thresholds

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
    ) -> None:
        self.model = model
        self.strata = strata
        self.score = score
        self.groups = groups
        self.n_particles = n_particles
        self.seed = seed
        self.deterministic_model = deterministic_model
        self.device = device

    # -- offline ------------------------------------------------------------------------------------------------------

    def fit(self, X: Any, Y: Any, prediction: Any = None, groups: Any = None) -> Self:
        """Calibrate on transitions (Algorithm 1, lines 1 to 9).

        Args:
            X: inputs, state and action side by side, (n, dx).
            Y: next configurations of the real system, (n, dc).
            prediction: what the model predicted at X, if already at hand: particles (n, L, dc).
            groups: which episode (run, object, day) each row belongs to, (n,), if rows of one are not independent: units
                that must not be split, as in scikit-learn. Not to be confused with the constructor's `groups`, which says
                how inputs and strata share thresholds. Coverage then holds for a random step of a new episode, given its
                group, hence also by stratum where no group spans several, and overall.
        """
        X = some_rows("X", finite_array("X", X, (None, None), "(n, dx): state and action of one transition a row"))
        Y = finite_array("Y", Y, (None, None), "(n, dc): the next configuration of one transition a row")
        same_length("X", X, "Y", Y)
        units = None if groups is None else unit_numbers(groups, len(X))
        self._check_parts(Y.shape[1])
        m = self._index(Y)
        feasible("Y", m)
        check_unseen(self.model, X, Y, groups)
        if prediction is None:
            check_model(self.model, self.score_, X, self.n_particles, Y.shape[1], self.deterministic_model)
        prediction = self._predict(X, prediction, self._stream("particles"), Y.shape[1])
        R = self._checked_scores(self._computed.score(prediction, Y), len(X))
        examples = Examples(X, m, R, len(self.strata.names), getattr(self.strata, "features", None), units)
        partition, calibration = self._groups.calibrate(examples, self._stream("split"))
        facts = provenance(X, Y, units, self._stream("facts"))
        return self._restore(partition, calibration, X.shape[1], Y.shape[1], facts)

    # -- online -------------------------------------------------------------------------------------------------------

    def predict(self, X: Any, rng: Randomness = None) -> Any:
        """What the model predicts at inputs X (n, dx): for particle scores, particles (n, L, dc).

        They are new each time, unless `rng` is a seed, which gives the same particles again, or a generator to draw from.
        """
        return self._predict_at(self._inputs(X), None, rng)

    def thresholds(self, X: Any, alpha: float = 0.1, confidence: float | None = None) -> Floats:
        """Threshold of every input X (n, dx) in every stratum: (n, M)."""
        q, X = self._group_thresholds(alpha, confidence), self._inputs(X)
        if chosen_device(self.device) == "cpu":
            return q[self.partition_.groups_everywhere(X)]
        from capture_cp.conformal.on_cuda import thresholds_on_cuda

        return thresholds_on_cuda(ThresholdTable(self.partition_, q), X)

    def threshold_table(self, alpha: float = 0.1, confidence: float | None = None) -> ThresholdTable:
        """The thresholds at one alpha as `table(x, m)`, for a control loop: one input takes under a microsecond."""
        thresholds = self._group_thresholds(alpha, confidence)
        return ThresholdTable(self.partition_, thresholds)

    @overload
    def compile(self, alpha: float = 0.1, confidence: float | None = None, device: Literal["cpu"] = "cpu") -> Compiled: ...

    @overload
    def compile(self, alpha: float = 0.1, confidence: float | None = None, *, device: Literal["cuda"]) -> CompiledCuda: ...

    def compile(
        self, alpha: float = 0.1, confidence: float | None = None, device: Literal["cpu", "cuda"] = "cpu"
    ) -> Compiled | CompiledCuda:
        """This calibration at one alpha, for a control loop: the same answers, nothing allocated, safe in threads.

        With device "cuda": for arrays of PyTorch, JAX, CuPy or Numba on a GPU, which are taken without a copy.
        """
        if known_name("device of a compiled calibration", device, ("cpu", "cuda")) == "cuda":
            require_cuda()
            from capture_cp.capture.compiled_cuda import CompiledCuda

            return CompiledCuda(self, alpha, confidence)
        from capture_cp.capture.compiled import Compiled

        return Compiled(self, alpha, confidence)

    def region(
        self,
        x: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        rng: Randomness = None,
    ) -> Region:
        """Prediction region of one input x (dx,).

        `confidence` raises the thresholds so that coverage holds with that probability over the draw of the calibration
        set; `prediction` takes particles (L, dc) or (1, L, dc) that are already at hand, `rng` is as in `predict`.
        """
        self.check_fitted()
        X = finite_array("x", x, (self.n_inputs_,), "(dx,): state and action side by side")[None]
        if isinstance(prediction, np.ndarray | list) and np.ndim(prediction) == 2:
            prediction = np.asarray(prediction)[None]
        prediction = self._predict_at(X, prediction, rng)
        q = self.thresholds(X, alpha, confidence)[0]
        return Region(self.score_, prediction, q, self.strata, self.n_outputs_, float(alpha), self._ambient)

    def contains(
        self,
        X: Any,
        Y: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        labels: Any = None,
        rng: Randomness = None,
    ) -> Bools:
        """Whether each Y[i] (dc,) is in the region of X[i] (dx,): bool (n,). No region is built.

        Several outcomes an input may be asked about at once: Y (n, r, dc) gives bool (n, r). `prediction` and `labels`
        take particles (n, L, dc) and stratum numbers of Y that are already at hand; `rng` is as in `predict`.
        """
        X, Y = self._pairs(X, Y, several=np.ndim(Y) == 3)
        rows = Y.reshape(-1, self.n_outputs_)
        m = self._index(rows) if labels is None else self._checked_labels(np.ravel(labels), len(rows))
        inside = self._contains(X, rows, m, alpha, confidence, self._predict_at(X, prediction, rng))
        return inside.reshape(Y.shape[:-1])

    def count_cells(
        self,
        X: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        rng: Randomness = None,
    ) -> Ints:
        """Grid cells of the region of each X[i] (dx,), by stratum: (n, M + 1), infeasible cells (LUCCa) last."""
        X = self._inputs(X)
        strata = grid_of(self.strata)
        q = self._columns(X, alpha, confidence)
        counts = self._computed.count_cells(self._predict_at(X, prediction, rng), finite_columns(q), strata)
        return with_whole_strata(q, counts, strata)

    def coverage(
        self,
        X: Any,
        Y: Any,
        alpha: float = 0.1,
        confidence: float | None = None,
        prediction: Any = None,
        volumes: bool = True,
        groups: Any = None,
        rng: Randomness = None,
    ) -> Coverage:
        """Coverage on transitions that were not used to fit: overall, by stratum and by group, with exact intervals.

        `volumes=False` skips the mean region volumes, which need a grid and most of the time. `groups` (n,) says which
        episode each row belongs to, as in `fit`: coverage is then that of a random step of a random episode, and the
        intervals, wider ones, are valid for any number of independent episodes, however different they are.
        """
        X, Y = self._pairs(X, Y)
        some_rows("X", X)
        m = self._index(Y)
        feasible("Y", m)
        prediction = self._predict_at(X, prediction, rng)
        inside = self._contains(X, Y, m, alpha, confidence, prediction)
        cells = None
        if volumes and isinstance(self.strata, GriddedStrata) and self.strata.grid is not None:
            cells = self.count_cells(X, alpha, confidence, prediction)
        return coverage_of(
            float(alpha),
            inside,
            m,
            self.partition_.grown.groups(X, m),
            list(self.strata.names),
            [self.describe_group(j) for j in range(self.partition_.n_groups)],
            self.calibration_.sizes,
            None if cells is None else cells.mean(axis=0),
            None if groups is None else unit_numbers(groups, len(X)),
        )

    def describe_group(self, group: int, inputs: Sequence[str] | None = None) -> str:
        """A group in words, for example "edge and x2 <= 0.1"; `inputs` names the columns of X."""
        self.check_fitted()
        return self.partition_.describe(group, self.strata.names, inputs)

    # -- saved calibrations -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration (not the model or the strata) to one safetensors file, atomically."""
        from capture_cp.capture.artifact import save

        save(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model: Model,
        strata: Strata,
        score: Score | None = None,
        groups: Groups | None = None,
    ) -> Capture:
        """A saved calibration with the model and strata it was made for; `score`, `groups` only if they were your own."""
        from capture_cp.capture.artifact import load

        return load(path, model, strata, score, groups)

    def _restore(
        self, partition: Partition, calibration: Thresholds, n_inputs: int, n_outputs: int, data: dict[str, Any]
    ) -> Self:
        """Take over a finished calibration; `data` says which transitions it came from."""
        self.partition_, self.calibration_, self.data_ = partition, calibration, data
        self.n_inputs_, self.n_outputs_ = n_inputs, n_outputs
        self._asked: dict[tuple[float, float | None], Floats] = {}
        return self

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    def score_(self) -> Score:
        return self.score if self.score is not None else NearestParticles(k=max(1, self.n_particles // 2))

    @property
    def _computed(self) -> Score:
        """The score on its device."""
        return self.score_.on(self.device)

    @property
    def _groups(self) -> Groups:
        return self.groups if self.groups is not None else Tree()

    @property
    def _ambient(self) -> bool:
        return self.score_.ambient and not self.partition_.by_stratum

    def _stream(self, purpose: str) -> np.random.Generator:
        """The random numbers of `fit` for one purpose."""
        return stream(self.seed, "Capture.fit", purpose)

    def _predict(self, X: Floats, given: Any, rng: Randomness, dims: int) -> Any:
        prediction = self.score_.predict(self.model, X, self.n_particles, generator(rng)) if given is None else given
        return self.score_.checked(prediction, len(X), self.n_particles, dims)

    def _predict_at(self, X: Floats, given: Any, rng: Randomness) -> Any:
        return self._predict(X, given, rng, self.n_outputs_)

    def _contains(self, X: Floats, Y: Floats, m: Ints, alpha: float, confidence: float | None, prediction: Any) -> Bools:
        """Membership of rows Y (n * r, dc) with strata m, r of them for each row of X (n, dx)."""
        m_known = np.maximum(m, 0)
        if len(Y) == len(X):
            q = self._group_thresholds(alpha, confidence)[self.partition_.groups(X, m_known)]
        else:
            owner = np.repeat(np.arange(len(X)), len(Y) // max(1, len(X)))
            q = self.thresholds(X, alpha, confidence)[owner, m_known]
        inside = self._computed.within(prediction, Y, q)
        return inside if self._ambient else inside & (m != INFEASIBLE)

    def _columns(self, X: Floats, alpha: float, confidence: float | None) -> Floats:
        """Threshold in every stratum and, last, of what is infeasible: (n, M + 1), negative where nothing belongs."""
        q = self.thresholds(X, alpha, confidence)
        return np.hstack([q, q[:, :1] if self._ambient else np.full((len(X), 1), -1.0)])

    def _group_thresholds(self, alpha: float, confidence: float | None) -> Floats:
        self.check_fitted()
        key = failure_rate(alpha), confidence_level(confidence)
        if key not in self._asked:
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            self._asked[key] = self.calibration_.at(*key)
            own, sizes = self.partition_.in_use, self.calibration_.counted(key[1])
            told = {j: (self.describe_group(j), int(sizes[j])) for j in own[np.isinf(self._asked[key][own])].tolist()}
            rest = getattr(self.strata, "rest", None)  # a stratum for what nobody expects may well be empty
            expected = None if rest is None else (self.strata.names[rest], 0)
            told = {j: group for j, group in told.items() if group != expected}
            warn_of_small_groups(told, *key, leaves=any(map(self.partition_.has_splits, told)))
        return self._asked[key]

    def _index(self, Y: Floats) -> Ints:
        return checked_index(self.strata.index(Y), len(Y), len(self.strata.names), "strata.index")

    def _checked_labels(self, labels: Any, n: int) -> Ints:
        return checked_index(labels, n, len(self.strata.names), "the caller")

    def _inputs(self, X: Any) -> Floats:
        self.check_fitted()
        return finite_array("X", X, (None, self.n_inputs_), "(n, dx): as many columns as in fit")

    def _pairs(self, X: Any, Y: Any, several: bool = False) -> tuple[Floats, Floats]:
        X = self._inputs(X)
        shape, meaning = ((None, None), "(n, r, dc): r outcomes an input") if several else ((None,), "(n, dc): as in fit")
        Y = finite_array("Y", Y, (*shape, self.n_outputs_), meaning)
        same_length("X", X, "Y", Y)
        return X, Y

    def check_fitted(self) -> None:
        if not hasattr(self, "partition_"):
            raise CaptureError("this Capture is not calibrated yet; call fit(X, Y) or Capture.load(...) first.")
        check_same_strata(self.strata, len(self.partition_.roots))

    def _check_parts(self, dims: int) -> None:
        check_parts(self.model, self.strata, self.score_, self._groups, self.n_particles, self.seed, dims)
        self.score_.on(self.device)

    @staticmethod
    def _checked_scores(R: Any, n: int) -> Floats:
        return checked_scores(R, (n,), "(n,): one score per transition")
