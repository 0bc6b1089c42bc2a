"""The base of every calibration, for one step or a horizon: a model, strata, and thresholds by group for any alpha."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from capture_cp.base.checks import (
    Bools,
    CaptureError,
    Floats,
    Ints,
    confidence_level,
    failure_rate,
    finite_array,
    whole_number,
)
from capture_cp.base.files import Pathlike
from capture_cp.base.params import Params
from capture_cp.base.streams import Randomness, stream
from capture_cp.capture.artifact import (
    build,
    check_made_for,
    checksum,
    describe,
    explained,
    made_for,
    read,
    write,
)
from capture_cp.capture.preflight import (
    warn_of_few_runs,
    warn_of_small_groups,
    warn_of_unseen_groups,
)
from capture_cp.capture.saved_arrays import Arrays, checked_size
from capture_cp.conformal.gaussian import Gaussians
from capture_cp.conformal.groups import Groups, Tree
from capture_cp.conformal.partition import Partition
from capture_cp.conformal.scores import NearestParticles, Score
from capture_cp.spaces.strata import INFEASIBLE, GriddedStrata, Strata, checked_index, feasible

MOST_ASKED = 64  # number of failure rates whose thresholds are cached


class ExecutedRegions(NamedTuple):
    """Regions of n executed steps, and whether they contained the outcomes."""

    particles: Floats  # (n, L, dc); for a Gaussian its mean, L = 1
    thresholds: Floats  # (n, M)
    inside: Bools  # (n,)


class Fitted(Params, ABC):
    """Base class of calibrations: `Capture`, for one step, and `HorizonCapture`, for several steps.

    Code that accepts a `Fitted`, such as a planner, works with either.

    Attributes:
        partition_: the fitted groups; the root of the s-th calibrated step (from 0) and stratum m is `roots[s * M + m]`.
        calibration_: the scores of each group, from which thresholds for any alpha are read.
        steps_: the calibrated steps, counted from 1: (S,).
        n_outputs_: dc.
        data_: facts about the calibration data, as JSON-compatible data.
    """

    partition_: Partition
    calibration_: Any
    steps_: tuple[int, ...]
    n_outputs_: int
    data_: dict[str, Any]

    #: Whether the model predicts the whole state; otherwise only the configuration.
    predicts_state: ClassVar[bool]
    _kind: ClassVar[str]
    _run: ClassVar[str]
    _fit_call: ClassVar[str]
    _format: ClassVar[str]

    def __init__(self, strata: Strata, score: Score | None, groups: Groups | None, n_particles: int, seed: int) -> None:
        self.strata = strata
        self.score = score
        self.groups = groups
        self.n_particles = n_particles
        self.seed = seed

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def model_(self) -> Any:
        """The calibrated model: `model` of a `Capture`, `step` of a `HorizonCapture`."""

    @property
    def score_(self) -> Score:
        """The score in use."""
        return self.score if self.score is not None else NearestParticles(k=max(1, self.n_particles // 2))

    @property
    def groups_(self) -> Groups:
        """The grouping in use."""
        return self.groups if self.groups is not None else Tree()

    @property
    def ambient_(self) -> bool:
        """Whether regions ignore feasibility, as LUCCa's ellipsoids do if groups do not depend on the stratum."""
        return self.score_.ambient and not self.partition_.by_stratum

    @property
    def n_inputs_(self) -> int:
        """dx: number of coordinates of state and action together."""
        return self.partition_.n_inputs

    @property
    def merged_(self) -> dict[str, tuple[str, ...]]:
        """Strata too rare for their own thresholds, and the strata each shares them with; see `Tree(min_stratum=)`.

        Coverage is guaranteed for them together, not for each.
        """
        self.check_fitted()
        return self.partition_.merged(self._root_names())

    @property
    def computed_score(self) -> Score:
        """The score on the device where it is computed."""
        return self.score_

    def check_fitted(self) -> None:
        """Raise an error before `fit` or `load`, and if the strata were replaced after fitting."""
        if not hasattr(self, "partition_"):
            raise CaptureError(
                f"this {self._kind} is not calibrated yet; call {self._fit_call} or {self._kind}.load(...) first."
            )
        names, fitted = self.strata.names, len(self.partition_.roots) // len(self.steps_)
        if len(names) != fitted:
            raise CaptureError(
                f"there are {len(names)} strata ({', '.join(map(str, names[:5]))}), but the calibration was fitted with "
                f"{fitted}; strata must not be replaced after fitting, so fit again."
            )

    def check_parts(self, dims: int) -> None:
        """Raise an error if model, strata, score or groups do not fit each other or configurations of `dims` numbers."""
        model, score, groups, strata = self.model_, self.score_, self.groups_, self.strata
        whole_number("n_particles", self.n_particles, 1)
        whole_number("seed", self.seed, 0)
        if not callable(model):
            raise CaptureError(f"the model is a {type(model).__name__}; expected a callable model(X, n_particles, rng).")
        if not isinstance(score, Score):
            raise CaptureError(f"the score is {score!r}; expected a Score such as NearestParticles(k=8).")
        if not isinstance(groups, Groups):
            raise CaptureError(f"the groups are {groups!r}; expected Groups such as Tree() or OneGroup().")
        if not isinstance(strata, Strata):
            raise CaptureError(f"the strata are a {type(strata).__name__}; expected an object with names and index(Y).")
        grid = strata.grid if isinstance(strata, GriddedStrata) else None
        if grid is not None and grid.dims != dims:
            raise CaptureError(f"Y has {dims} columns, but the grid of the strata has {grid.dims} axes; they must agree.")
        score.check(self.n_particles, dims, grid)

    def index(self, Y: Floats) -> Ints:
        """Stratum of each configuration Y (n, dc), -1 where infeasible: (n,)."""
        return checked_index(self.strata.index(Y), len(Y), len(self.strata.names), "strata.index")

    def feasible_index(self, Y: Floats, name: str = "Y") -> Ints:
        """Stratum of each configuration Y (n, dc), all of which must be feasible; `name` is used in errors: (n,)."""
        m = self.index(Y)
        feasible(name, m)
        return m

    # -- thresholds ---------------------------------------------------------------------------------------------------

    def group_thresholds(self, alpha: float = 0.1, simultaneous: bool = False, confidence: float | None = None) -> Floats:
        """Threshold of every group of `partition_`: (J,), +inf where there are too few calibration points.

        With `simultaneous` coverage holds for all steps of a horizon at once, or, for a `Capture` fitted with `episodes`,
        for all executed steps of an episode. `confidence` raises the thresholds so that coverage holds with that
        probability over the draw of the calibration set.
        """
        self.check_fitted()
        with suppress(KeyError, TypeError):
            return self._asked[alpha, simultaneous, confidence]  # only valid rates are kept
        key = failure_rate(alpha), bool(simultaneous), confidence_level(confidence)
        if len(self._asked) >= MOST_ASKED:
            self._asked.clear()
        self._asked[key] = self._read_thresholds(*key)
        self._warn_of_few(self._asked[key], *key)
        return self._asked[key]

    def partition_at(self, step: int) -> Partition:
        """The groups of one of the calibrated steps, counted from 0; beyond the last step, those of the last."""
        return self.partition_.at_step(min(step, len(self.steps_) - 1), len(self.strata.names))

    def step_thresholds(self, X: Floats, alpha: float = 0.1, step: int = 0, simultaneous: bool = False) -> Floats:
        """Thresholds (n, M) of inputs X (n, dx), state and action side by side, at one of the calibrated steps (from 0).

        `simultaneous` is as in `group_thresholds`.
        """
        return self.group_thresholds(alpha, simultaneous)[self.partition_at(step).groups_everywhere(X)]

    def plan_thresholds(self, alpha: float = 0.1, simultaneous: bool = False) -> Floats:
        """Threshold of every group in every stratum, for the steps of a plan: (M, J)."""
        self.check_fitted()
        if simultaneous and not self.predicts_state:
            raise CaptureError(
                "simultaneous regions of a plan need a HorizonCapture; those of a Capture are for executed steps, see "
                "executed_regions."
            )
        several, features = len(self.steps_) > 1, self.partition_.stratum_features.shape[1]
        if self.steps_ != tuple(range(1, len(self.steps_) + 1)) or (several and features):
            raise CaptureError(
                "a plan needs the regions of steps 1, 2, 3 and so on, with one tree per stratum; this calibration has "
                f"{self.steps_}."
            )
        return np.tile(self.group_thresholds(alpha, simultaneous), (len(self.strata.names), 1))

    def describe_group(self, group: int, inputs: Sequence[str] | None = None) -> str:
        """A group as text, for example "edge and x2 <= 0.1"; `inputs` names the columns of state and action."""
        self.check_fitted()
        return self.partition_.describe(group, self._root_names(), inputs)

    # -- executed steps -----------------------------------------------------------------------------------------------

    @abstractmethod
    def first_prediction(self, states: Floats, actions: Floats, rng: Randomness = None) -> tuple[Floats, Any]:
        """Grouping inputs (n, dx) and the model's prediction for one step from states (n, ds) under actions (n, da)."""

    @abstractmethod
    def next_points(self, states: Floats, actions: Floats, draws: int, rng: np.random.Generator) -> Floats:
        """At least `draws` random predictions D of the model from each state (n, ds) under its action (n, da).

        Whole states (n, D, ds) if it `predicts_state`, else configurations (n, D, dc).
        """

    def executed_regions(
        self,
        states: Floats,
        actions: Floats,
        after: Any,
        alpha: float = 0.1,
        rng: Randomness = None,
        simultaneous: bool = False,
    ) -> ExecutedRegions:
        """Regions of steps executed from states (n, ds) under actions (n, da), and whether they contained the outcomes.

        `after` (n, dc) are the configurations that followed. A calibration for a horizon uses its regions for the first
        step. `rng` is as in `Capture.predict`, `simultaneous` as in `group_thresholds`.
        """
        self.check_fitted()
        x, prediction = self.first_prediction(states, actions, rng)
        Y = finite_array("the configurations that followed", after, (len(x), self.n_outputs_), "(n, dc): as in fit")
        q, m = self.step_thresholds(x, alpha, simultaneous=simultaneous), self.index(Y)
        inside = self.computed_score.within(prediction, Y, q[np.arange(len(x)), np.maximum(m, 0)])
        particles = prediction.mean[:, None] if isinstance(prediction, Gaussians) else prediction
        return ExecutedRegions(particles, q, inside if self.ambient_ else inside & (m != INFEASIBLE))

    # -- saved calibrations -------------------------------------------------------------------------------------------

    def save(self, path: Pathlike) -> None:
        """Write the calibration (not the model or the strata) to one safetensors file, atomically."""
        self.check_fitted()
        arrays = self.partition_.arrays() | self._score_arrays()
        header = made_for(self.model_, self.strata) | {
            "score": describe(self.score_),
            "groups": describe(self.groups_),
            "n_particles": self.n_particles,
            "seed": self.seed,
            "data": self.data_,
        }
        write(path, header | self._header(), arrays, self._format)

    @classmethod
    def load(
        cls, path: Pathlike, model: Any, strata: Strata, score: Score | None = None, groups: Groups | None = None
    ) -> Self:
        """Load a saved calibration, with the model (or step) and strata it was fitted with.

        `score` and `groups` are needed only if they are user-defined classes.
        """
        header, arrays = read(path, cls._format)
        with explained(path):
            check_made_for(header, model, strata)
            parts = {
                "score": score if score is not None else build(header["score"]),
                "groups": groups if groups is not None else build(header["groups"]),
                "n_particles": checked_size("n_particles", header["n_particles"]),
                "seed": header["seed"],
            }
            return cls._loaded(header, arrays, model, strata, parts)

    def digest(self) -> str:
        """Digest of the calibration: its groups and their scores."""
        self.check_fitted()
        return checksum("", self.partition_.arrays() | self._score_arrays())

    # -- implemented by subclasses ------------------------------------------------------------------------------------

    @abstractmethod
    def _read_thresholds(self, alpha: float, simultaneous: bool, confidence: float | None) -> Floats:
        """Threshold of every group: (J,)."""

    @abstractmethod
    def _root_names(self) -> Sequence[str]:
        """Names of the strata of groups, one per root of the partition."""

    @abstractmethod
    def _header(self) -> dict[str, Any]:
        """Header entries specific to this kind of calibration."""

    @abstractmethod
    def _score_arrays(self) -> Arrays:
        """The scores as arrays for a file."""

    @classmethod
    @abstractmethod
    def _loaded(cls, header: dict[str, Any], arrays: Arrays, model: Any, strata: Strata, parts: dict[str, Any]) -> Self:
        """The calibration from a file's checked header and arrays; `parts` are constructor arguments."""

    def keep(
        self, partition: Partition, calibration: Any, n_outputs: int, data: dict[str, Any], steps: tuple[int, ...] = (1,)
    ) -> Self:
        """Store a finished calibration of configurations of `n_outputs` numbers; `data` describes the data it came from."""
        self.partition_, self.calibration_, self.data_ = partition, calibration, data
        self.steps_, self.n_outputs_ = steps, n_outputs
        self._asked: dict[tuple[float, bool, float | None], Floats] = {}
        return self

    def fit_stream(self, *purpose: str | int) -> np.random.Generator:
        """The random generator of `fit` for one purpose."""
        return stream(self.seed, f"{self._kind}.fit", *purpose)

    def _warn_of_few(self, q: Floats, alpha: float, simultaneous: bool, confidence: float | None) -> None:
        """Warn about groups that are too small for a finite threshold."""
        if simultaneous:
            return self._warn_of_few_runs(q, alpha, confidence)
        if not np.isinf(q).any():
            return
        own, sizes = self.partition_.in_use, self.calibration_.counted(confidence)
        small = {j: (self.describe_group(j), int(sizes[j])) for j in own[np.isinf(q[own])].tolist()}
        small = {j: group for j, group in small.items() if group != (self._expected_empty, 0)}
        self._warn_of_groups(small, alpha, confidence)

    def _warn_of_groups(self, small: Mapping[int, tuple[str, int]], alpha: float, confidence: float | None) -> None:
        """Warn about these groups, by description and size."""
        needed = self.calibration_.needed(alpha, confidence)
        warn_of_small_groups(small, alpha, needed, leaves=any(map(self.partition_.has_splits, small)))

    def _warn_of_few_runs(self, q: Floats, alpha: float, confidence: float | None) -> None:
        """Warn about infinite thresholds for all steps of a run at once: all of them, or those of unseen groups."""
        infinite, seen = [j for j in self.partition_.in_use if np.isinf(q[j])], self.calibration_.seen_together
        if seen[infinite].any():
            return warn_of_few_runs(self._run, self.calibration_.n_together, alpha, confidence)
        unseen = [name for name in map(self.describe_group, infinite) if name != self._expected_empty]
        if unseen:
            warn_of_unseen_groups(self._run, unseen)

    @property
    def _expected_empty(self) -> str | None:
        """The catch-all stratum, if there is one: it may well be empty."""
        rest = getattr(self.strata, "rest", None)
        return None if rest is None else self.strata.names[rest]
