"""Prediction regions for a whole horizon, calibrated on open-loop roll-outs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

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
    whole_number,
)
from capture_cp.base.params import Params
from capture_cp.base.streams import Randomness, generator, stream
from capture_cp.capture.horizon.coverage import HorizonCoverage, horizon_coverage
from capture_cp.capture.horizon.groups import at_step, groups_of_steps, split_by_step
from capture_cp.capture.horizon.particles import Cloud, count_cells, propagate, within
from capture_cp.capture.horizon.thresholds import HorizonScores, roles
from capture_cp.capture.preflight import (
    check_parts,
    check_same_strata,
    check_unseen,
    checked_scores,
    warn_of_small_groups,
    warn_of_unseen_groups,
)
from capture_cp.capture.provenance import digest
from capture_cp.capture.region import Region
from capture_cp.conformal.groups import Groups, Tree
from capture_cp.conformal.partition import Partition
from capture_cp.conformal.scores import NearestParticles, Score
from capture_cp.data.rollouts import BatchedStep, Rollouts, configuration_axes
from capture_cp.spaces.strata import GriddedStrata, Strata, checked_index

MOST_ASKED = 64  # failure rates whose thresholds are kept at hand


class HorizonCapture(Params):
    """Regions C₁ to C_H for the configurations after each of H actions that are decided beforehand.

    Two promises, chosen when asking: each region holds its configuration with probability at least 1 - alpha, also given
    the stratum; or, with `simultaneous=True`, all of them do at once.

    Args:
        step: approximate model of the whole state, `step(states (n, ds), actions (n, da), rng) -> (n, ds)`.
        strata: stratified configuration space with `names` and `index(Y)`.
        axes: which entries of the state are the configuration.
        score: nonconformity score of particles; `NearestParticles(k=n_particles // 2)` unless given.
        groups: grouping of (mean particle state and action, stratum) within a step; `Tree()` unless given.
        n_particles: L, particles propagated from each start.
        seed: fixes what `fit` draws, its particles and its random split. Questions draw new particles each time, unless
            they are asked with `rng`, a generator or a seed.

    Attributes:
        steps_: the steps that were calibrated, counted from 1: (S,).
        partition_: groups of all steps; the root of the s-th of them (from 0) and stratum m is `roots[s * M + m]`.
        calibration_: the scores, from which thresholds for any alpha are read.
    """

    steps_: tuple[int, ...]
    partition_: Partition
    calibration_: HorizonScores

    def __init__(
        self,
        step: BatchedStep,
        strata: Strata,
        axes: Sequence[int],
        score: Score | None = None,
        groups: Groups | None = None,
        n_particles: int = 16,
        seed: int = 0,
    ) -> None:
        self.step = step
        self.strata = strata
        self.axes = axes
        self.score = score
        self.groups = groups
        self.n_particles = n_particles
        self.seed = seed

    # -- offline ------------------------------------------------------------------------------------------------------

    def fit(self, rollouts: Rollouts, steps: Sequence[int] | None = None, prediction: Sequence[Cloud] | None = None) -> Self:
        """Calibrate on roll-outs of the true system.

        Args:
            rollouts: open-loop roll-outs that the model was not made from.
            steps: calibrate only these steps, counted from 1; all unless given.
            prediction: what the model predicted at those steps, if already at hand, as from `predict`.
        """
        if not isinstance(rollouts, Rollouts):
            raise CaptureError(
                f"the roll-outs are a {type(rollouts).__name__}; expected Rollouts, see Rollouts.from_arrays."
            )
        chosen = _chosen_steps(steps, rollouts.horizon)
        self._check_parts(rollouts.starts.shape[1], rollouts.configurations.shape[2])
        m = self._feasible_labels(rollouts, chosen)
        check_unseen(self.step, *_single_steps(rollouts))
        if prediction is None:
            prediction = self._clouds(rollouts.starts, rollouts.actions, chosen, self._stream("particles"))
        clouds = self._checked_clouds(prediction, rollouts, chosen)
        x, R = np.stack([cloud.x for cloud in clouds], axis=1), self._scores(rollouts, chosen, clouds)
        features, random = getattr(self.strata, "features", None), partial(self._stream, "split")
        partition, held_out = split_by_step(self._groups, x, m, R, rollouts.units, self._n_strata, features, random)
        groups = groups_of_steps(partition.grown, x, m, self._n_strata)
        role = roles(held_out, rollouts.units, self._stream("scales"))
        calibration = HorizonScores(R, groups, rollouts.units, role, partition.n_groups)
        sizes = rollouts.starts.shape[1], rollouts.actions.shape[2], rollouts.configurations.shape[2]
        data = {"rollouts": len(rollouts), "sha256": digest(rollouts.starts, rollouts.actions, rollouts.configurations)}
        return self._restore(chosen, partition, calibration, sizes, data)

    # -- online -------------------------------------------------------------------------------------------------------

    def group_thresholds(self, alpha: float = 0.1, simultaneous: bool = False, confidence: float | None = None) -> Floats:
        """Threshold of every group of `partition_`: (J,), +inf where there are too few roll-outs.

        `confidence` raises them so that coverage holds with that probability over the draw of the calibration set.
        """
        self.check_fitted()
        key = failure_rate(alpha), bool(simultaneous), confidence_level(confidence)
        if key not in self._asked:
            if len(self._asked) >= MOST_ASKED:
                self._asked.clear()
            read = self.calibration_.together if simultaneous else self.calibration_.at
            self._asked[key] = read(key[0], key[2])
            self._warn_of_few(*key)
        return self._asked[key]

    def predict(self, starts: Any, actions: Any, rng: Randomness = None) -> list[Cloud]:
        """Particles (n, L, dc) and grouping inputs x (n, ds + da) of each calibrated step.

        From starts (n, ds) under actions (n, H, da), where H reaches the last calibrated step. The particles are new each
        time, unless `rng` is a seed, which gives the same particles again, or a generator to draw from.
        """
        s, a = self._inputs(starts, actions)
        return self._clouds(s, a, self.steps_, generator(rng))

    def thresholds(
        self, clouds: Sequence[Cloud], alpha: float = 0.1, simultaneous: bool = False, confidence: float | None = None
    ) -> Floats:
        """Thresholds of n predictions at every calibrated step and in every stratum: (n, S, M)."""
        q = self.group_thresholds(alpha, simultaneous, confidence)
        groups = [at_step(self.partition_, s, self._n_strata).groups_everywhere(cloud.x) for s, cloud in enumerate(clouds)]
        return q[np.stack(groups, axis=1)]

    def regions(
        self,
        start: Any,
        actions: Any,
        alpha: float = 0.1,
        simultaneous: bool = False,
        confidence: float | None = None,
        rng: Randomness = None,
    ) -> list[Region]:
        """A region for each calibrated step, from one start (ds,) under actions (H, da); `rng` is as in `predict`."""
        self.check_fitted()
        s = finite_array("start", start, (self.n_states_,), "(ds,): the state that the roll-out starts from")
        a = finite_array("actions", actions, (None, self.n_actions_), "(H, da): the actions to come")
        clouds = self.predict(s[None], a[None], rng)
        q = self.thresholds(clouds, alpha, simultaneous, confidence)[0]
        return [
            Region(self.score_, cloud.particles, limits, self.strata, self.n_outputs_, float(alpha), False)
            for cloud, limits in zip(clouds, q)
        ]

    def contains(
        self,
        rollouts: Rollouts,
        alpha: float = 0.1,
        simultaneous: bool = False,
        confidence: float | None = None,
        prediction: Sequence[Cloud] | None = None,
        rng: Randomness = None,
    ) -> Bools:
        """Whether each configuration is in the region of its step: bool (n, S), a column a calibrated step.

        `prediction` takes what `predict` gave for these roll-outs, if at hand; `rng` is as in `predict`.
        """
        clouds = self._predict_at(rollouts, prediction, rng)
        q = self.thresholds(clouds, alpha, simultaneous, confidence)
        return within(self.score_, clouds, q, rollouts.configurations_at(self.steps_), self._labels(rollouts, self.steps_))

    def count_cells(
        self,
        rollouts: Rollouts,
        alpha: float = 0.1,
        simultaneous: bool = False,
        confidence: float | None = None,
        prediction: Sequence[Cloud] | None = None,
        rng: Randomness = None,
    ) -> Ints:
        """Grid cells of the region of each roll-out and calibrated step, by stratum: (n, S, M)."""
        clouds = self._predict_at(rollouts, prediction, rng)
        return count_cells(self.score_, clouds, self.thresholds(clouds, alpha, simultaneous, confidence), self.strata)

    def coverage(
        self,
        rollouts: Rollouts,
        alpha: float = 0.1,
        simultaneous: bool = False,
        confidence: float | None = None,
        prediction: Sequence[Cloud] | None = None,
        volumes: bool = True,
        rng: Randomness = None,
    ) -> HorizonCoverage:
        """Coverage on roll-outs that were not used to fit: by step and stratum, and of all steps at once.

        `volumes=False` skips the mean region volumes, which need a grid and most of the time.
        """
        clouds = self._predict_at(rollouts, prediction, rng)
        inside = self.contains(rollouts, alpha, simultaneous, confidence, clouds)
        labels = self._feasible_labels(rollouts, self.steps_)
        cells = None
        if volumes and isinstance(self.strata, GriddedStrata) and self.strata.grid is not None:
            cells = self.count_cells(rollouts, alpha, simultaneous, confidence, clouds).mean(axis=0)
        units = None if len(np.unique(rollouts.units)) == len(rollouts) else rollouts.units
        return horizon_coverage(
            float(alpha), simultaneous, self.steps_, inside, labels, list(self.strata.names), cells, units
        )

    def at_first(self) -> HorizonCapture:
        """The same calibration for its first calibrated step only."""
        self.check_fitted()
        view: HorizonCapture = HorizonCapture(**self.get_params(deep=False))
        own = at_step(self.partition_, 0, self._n_strata)
        sizes = self.n_states_, self.n_actions_, self.n_outputs_
        return view._restore(self.steps_[:1], own, self.calibration_, sizes, self.data_)

    def describe_group(self, group: int, inputs: Sequence[str] | None = None) -> str:
        """A group in words, for example "edge at step 3 and x2 <= 0.1"; `inputs` names the columns of state and action."""
        self.check_fitted()
        names = [f"{name} at step {h}" for h in self.steps_ for name in self.strata.names]
        return self.partition_.describe(group, names, inputs)

    # -- saved calibrations -------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration (not the model or the strata) to one safetensors file, atomically."""
        from capture_cp.capture.horizon.artifact import save

        save(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        step: BatchedStep,
        strata: Strata,
        score: Score | None = None,
        groups: Groups | None = None,
    ) -> HorizonCapture:
        """A saved calibration with the model and strata it was made for; `score`, `groups` only if they were your own."""
        from capture_cp.capture.horizon.artifact import load

        return load(path, step, strata, score, groups)

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    def score_(self) -> Score:
        return self.score if self.score is not None else NearestParticles(k=max(1, self.n_particles // 2))

    @property
    def _groups(self) -> Groups:
        return self.groups if self.groups is not None else Tree()

    @property
    def _n_strata(self) -> int:
        return len(self.strata.names)

    def _restore(
        self,
        steps: tuple[int, ...],
        partition: Partition,
        calibration: HorizonScores,
        sizes: tuple[int, int, int],
        data: dict[str, Any],
    ) -> Self:
        """Take over a finished calibration; `data` says which roll-outs it came from."""
        self.steps_, self.partition_, self.calibration_, self.data_ = steps, partition, calibration, data
        self.n_states_, self.n_actions_, self.n_outputs_ = sizes
        self._asked: dict[tuple[float, bool, float | None], Floats] = {}
        return self

    def _clouds(self, starts: Floats, actions: Floats, steps: tuple[int, ...], rng: np.random.Generator) -> list[Cloud]:
        """Particles of the chosen steps, from starts (n, ds) under actions (n, H, da)."""
        axes = configuration_axes(self.axes, starts.shape[1])
        clouds = propagate(self.step, starts, actions[:, : steps[-1]], axes, self.n_particles, rng)
        return [cloud for h, cloud in enumerate(clouds, start=1) if h in steps]

    def _checked_clouds(self, clouds: Sequence[Cloud], rollouts: Rollouts, steps: tuple[int, ...]) -> Sequence[Cloud]:
        """Refuse a prediction that is not one of these roll-outs at these steps."""
        n, ds, da, dc = len(rollouts), rollouts.starts.shape[1], rollouts.actions.shape[2], rollouts.configurations.shape[2]
        wanted = [((n, ds + da), (n, self.n_particles, dc))] * len(steps)
        if [(cloud.x.shape, cloud.particles.shape) for cloud in clouds] != wanted:
            raise CaptureError(
                f"the prediction is not one of {n} roll-outs at {len(steps)} steps; give what predict returned for them."
            )
        return clouds

    def _scores(self, rollouts: Rollouts, steps: tuple[int, ...], clouds: Sequence[Cloud]) -> Floats:
        """Scores (n, S) of the chosen steps."""
        c = rollouts.configurations_at(steps)
        scores = [self.score_.score(cloud.particles, np.ascontiguousarray(c[:, s])) for s, cloud in enumerate(clouds)]
        return checked_scores(np.stack(scores, axis=1), c.shape[:2], "(n, S): one score per step")

    def _feasible_labels(self, rollouts: Rollouts, steps: tuple[int, ...]) -> Ints:
        """As `_labels`; infeasible configurations are refused."""
        m = self._labels(rollouts, steps)
        for s, h in enumerate(steps):
            feasible(f"the configurations at step {h}", m[:, s])
        return m

    def _labels(self, rollouts: Rollouts, steps: tuple[int, ...]) -> Ints:
        """Strata (n, S) of the configurations at these steps."""
        c = rollouts.configurations_at(steps)
        m = self.strata.index(c.reshape(-1, c.shape[2]))
        return checked_index(m, c.shape[0] * c.shape[1], self._n_strata, "strata.index").reshape(c.shape[:2])

    def _predict_at(self, rollouts: Rollouts, given: Sequence[Cloud] | None, rng: Randomness) -> Sequence[Cloud]:
        self.check_fitted()
        dims = rollouts.configurations.shape[2]
        if dims != self.n_outputs_:
            raise CaptureError(f"configurations have {dims} numbers, those of fit had {self.n_outputs_}; give the same.")
        clouds = self.predict(rollouts.starts, rollouts.actions, rng) if given is None else given
        return self._checked_clouds(clouds, rollouts, self.steps_)

    def _inputs(self, starts: Any, actions: Any) -> tuple[Floats, Floats]:
        self.check_fitted()
        s = finite_array("starts", starts, (None, self.n_states_), "(n, ds): as in fit")
        a = finite_array("actions", actions, (len(s), None, self.n_actions_), "(n, H, da): as in fit")
        if a.shape[1] < self.steps_[-1]:
            raise CaptureError(f"there are {a.shape[1]} actions, but regions up to step {self.steps_[-1]}; give as many.")
        return s, a

    def _stream(self, purpose: str) -> np.random.Generator:
        """The random numbers of `fit` for one purpose."""
        return stream(self.seed, "HorizonCapture.fit", purpose)

    def _warn_of_few(self, alpha: float, simultaneous: bool, confidence: float | None) -> None:
        own = self.partition_.in_use  # `at_first` has the groups of one step only
        small = own[np.isinf(self._asked[alpha, simultaneous, confidence][own])]
        sizes = {int(j): (self.describe_group(j), int(self.calibration_.counted(confidence)[j])) for j in small}
        if simultaneous and len(small):
            if self.calibration_.seen_together[small].any():
                sizes = {0: ("all steps at once", self.calibration_.n_together)}
            else:
                warn_of_unseen_groups([self.describe_group(j) for j in small])
                return
        leaves = not simultaneous and any(map(self.partition_.has_splits, sizes))
        warn_of_small_groups(sizes, alpha, confidence, leaves)

    def check_fitted(self) -> None:
        if not hasattr(self, "partition_"):
            raise CaptureError("this HorizonCapture is not calibrated yet; call fit(rollouts) or load(...) first.")
        check_same_strata(self.strata, len(self.partition_.roots) // len(self.steps_))

    def _check_parts(self, n_states: int, dims: int) -> None:
        check_parts(self.step, self.strata, self.score_, self._groups, self.n_particles, self.seed, dims)
        if self.score_.ambient:
            raise CaptureError(f"{self.score_!r} has no particles to propagate; use NearestParticles or ParticleBox.")
        if len(configuration_axes(self.axes, n_states)) != dims:
            raise CaptureError(f"axes are {self.axes!r}, but a configuration has {dims} numbers; name one entry for each.")


def _chosen_steps(steps: Sequence[int] | None, horizon: int) -> tuple[int, ...]:
    chosen = tuple(range(1, horizon + 1)) if steps is None else tuple(sorted(whole_number("a step", h, 1) for h in steps))
    if not chosen or len(set(chosen)) != len(chosen) or chosen[-1] > horizon:
        raise CaptureError(f"steps are {steps!r}; expected different whole numbers from 1 to the roll-outs' {horizon}.")
    return chosen


def _single_steps(rollouts: Rollouts) -> tuple[Floats, Floats]:
    """Single steps as transitions (X, Y): all of them where whole states are known, else the first of each roll-out."""
    if rollouts.states is not None:
        return rollouts.transitions()
    return np.hstack([rollouts.starts, rollouts.actions[:, 0]]), np.ascontiguousarray(rollouts.configurations[:, 0])
