"""Prediction regions for a whole horizon, calibrated on open-loop rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np

from capture_cp.base.arrays import digest
from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, known_name, whole_number
from capture_cp.base.streams import Randomness, generator
from capture_cp.capture.artifact import HORIZON_FORMAT
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.horizon_particles import Cloud, count_cells, propagate, within
from capture_cp.capture.horizon_scores import HorizonScores, checked_horizon_scores, groups_of_steps, roles, split_by_step
from capture_cp.capture.preflight import check_unseen, checked_scores
from capture_cp.capture.region import Region
from capture_cp.capture.saved_arrays import Arrays, checked_data, checked_partition, checked_size
from capture_cp.conformal.coverage import HorizonCoverage, horizon_coverage
from capture_cp.conformal.groups import Groups
from capture_cp.conformal.scores import Score
from capture_cp.conformal.thresholds import PER_EPISODE, PER_GROUP
from capture_cp.data.rollouts import BatchedStep, Rollouts, advance, configuration_axes
from capture_cp.spaces.strata import GriddedStrata, Strata, feasible


class HorizonCapture(Fitted):
    """Prediction regions C₁ to C_H for the configurations after each of H actions that are fixed in advance.

    There are two guarantees, chosen per query: each region contains its configuration with probability at least 1 - alpha,
    also given the stratum; or, with `simultaneous=True`, all regions contain theirs at once.

    Args:
        step: approximate model of the whole state, `step(states (n, ds), actions (n, da), rng) -> (n, ds)`.
        strata: stratified configuration space with `names` and `index(Y)`.
        axes: which entries of the state are the configuration.
        score: nonconformity score of particles; by default `NearestParticles(k=n_particles // 2)`.
        groups: grouping of (mean particle state and action, stratum) within a step; by default `Tree()`.
        n_particles: L, number of particles propagated from each start.
        seed: fixes the particles and the random split of `fit`. Queries draw new particles each time, unless you pass `rng`,
            a generator or a seed.

    Attributes:
        steps_: the calibrated steps, counted from 1: (S,).
        partition_: groups of all steps; the root of the s-th of them (from 0) and stratum m is `roots[s * M + m]`.
        calibration_: the scores, from which thresholds for any alpha are read.
    """

    calibration_: HorizonScores
    n_states_: int

    predicts_state = True
    _kind, _run, _fit_call, _format = "HorizonCapture", "rollout", "fit(rollouts)", HORIZON_FORMAT

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
        super().__init__(strata, score, groups, n_particles, seed)
        self.step = step
        self.axes = axes

    # -- offline ------------------------------------------------------------------------------------------------------

    def fit(self, rollouts: Rollouts, steps: Sequence[int] | None = None, prediction: Sequence[Cloud] | None = None) -> Self:
        """Calibrate on rollouts of the true system.

        Args:
            rollouts: open-loop rollouts that were not used to build the model.
            steps: calibrate only these steps, counted from 1; all by default.
            prediction: the model's prediction at those steps, if already computed, as from `predict`.
        """
        if not isinstance(rollouts, Rollouts):
            raise CaptureError(f"the rollouts are a {type(rollouts).__name__}; expected Rollouts, see Rollouts.from_arrays.")
        chosen = _chosen_steps(steps, rollouts.horizon)
        n_states, dims = rollouts.starts.shape[1], rollouts.configurations.shape[2]
        self.check_parts(dims)
        self._check_axes(n_states, dims)
        m = self.feasible_labels(rollouts, chosen)
        check_unseen(self.step, *_single_steps(rollouts))
        if prediction is None:
            prediction = self._clouds(rollouts.starts, rollouts.actions, chosen, self.fit_stream("particles"))
        clouds = self._checked_clouds(prediction, rollouts, chosen)
        x, R = np.stack([cloud.x for cloud in clouds], axis=1), self._scores(rollouts, chosen, clouds)
        features, random, episodes = (
            getattr(self.strata, "features", None),
            partial(self.fit_stream, "split"),
            rollouts.episodes,
        )
        partition, held_out = split_by_step(self.groups_, x, m, R, episodes, len(self.strata.names), features, random)
        groups = groups_of_steps(partition.grown, x, m, len(self.strata.names))
        role = roles(held_out, episodes, self.fit_stream("scales"))
        calibration = HorizonScores(R, groups, episodes, role, partition.n_groups)
        data = {"rollouts": len(rollouts), "sha256": digest(rollouts.starts, rollouts.actions, rollouts.configurations)}
        self.n_states_ = n_states
        return self.keep(partition, calibration, dims, data, chosen)

    # -- online -------------------------------------------------------------------------------------------------------

    def predict(self, starts: Any, actions: Any, rng: Randomness = None) -> list[Cloud]:
        """Particles (n, L, dc) and grouping inputs x (n, ds + da) of each calibrated step.

        The rollouts start at `starts` (n, ds) under actions (n, H, da), where H reaches the last calibrated step. Each call
        draws new particles, unless `rng` is a generator to draw from, or a seed, which gives the same particles again.
        """
        s, a = self._inputs(starts, actions)
        return self._clouds(s, a, self.steps_, generator(rng))

    def thresholds(
        self, clouds: Sequence[Cloud], alpha: float = 0.1, simultaneous: bool = False, confidence: float | None = None
    ) -> Floats:
        """Thresholds of n predictions at every calibrated step and in every stratum: (n, S, M)."""
        q = self.group_thresholds(alpha, simultaneous, confidence)
        groups = [self.partition_at(s).groups_everywhere(cloud.x) for s, cloud in enumerate(clouds)]
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
        s = finite_array("start", start, (self.n_states_,), "(ds,): the state that the rollout starts from")
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
        """Whether each configuration is in the region of its step: bool (n, S), one column per calibrated step.

        `prediction` is the result of `predict` for these rollouts, if already computed; `rng` is as in `predict`.
        """
        clouds = self._predict_at(rollouts, prediction, rng)
        q = self.thresholds(clouds, alpha, simultaneous, confidence)
        return within(self.score_, clouds, q, rollouts.configurations_at(self.steps_), self.labels(rollouts))

    def count_cells(
        self,
        rollouts: Rollouts,
        alpha: float = 0.1,
        simultaneous: bool = False,
        confidence: float | None = None,
        prediction: Sequence[Cloud] | None = None,
        rng: Randomness = None,
    ) -> Ints:
        """Grid cells of the region of each rollout and calibrated step, by stratum: (n, S, M)."""
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
        """Coverage on held-out rollouts: by step and stratum, and of all steps at once.

        `volumes=False` skips the mean region volumes, which need a grid and take most of the time.
        """
        clouds = self._predict_at(rollouts, prediction, rng)
        inside = self.contains(rollouts, alpha, simultaneous, confidence, clouds)
        labels = self.feasible_labels(rollouts)
        cells = None
        if volumes and isinstance(self.strata, GriddedStrata) and self.strata.grid is not None:
            cells = self.count_cells(rollouts, alpha, simultaneous, confidence, clouds).mean(axis=0)
        every = rollouts.episodes
        episodes = None if len(np.unique(every)) == len(rollouts) else every
        return horizon_coverage(
            float(alpha), simultaneous, self.steps_, inside, labels, list(self.strata.names), cells, episodes
        )

    def at_first(self) -> HorizonCapture:
        """The same calibration for its first calibrated step only."""
        self.check_fitted()
        view = copy(self)
        return view.keep(self.partition_at(0), self.calibration_, self.n_outputs_, self.data_, self.steps_[:1])

    # -- used by other modules ---------------------------------------------------------------------------------------

    @property
    def model_(self) -> BatchedStep:
        return self.step

    @property
    def n_actions_(self) -> int:
        """da."""
        return self.n_inputs_ - self.n_states_

    def labels(self, rollouts: Rollouts, steps: tuple[int, ...] | None = None) -> Ints:
        """Strata (n, S) of the configurations at the calibrated steps, or at other `steps`."""
        c = rollouts.configurations_at(self.steps_ if steps is None else steps)
        return self.index(c.reshape(-1, c.shape[2])).reshape(c.shape[:2])

    def feasible_labels(self, rollouts: Rollouts, steps: tuple[int, ...] | None = None) -> Ints:
        """Like `labels`, but infeasible configurations raise an error."""
        m = self.labels(rollouts, steps)
        for s, h in enumerate(self.steps_ if steps is None else steps):
            feasible(f"the configurations at step {h}", m[:, s])
        return m

    def first_prediction(self, states: Floats, actions: Floats, rng: Randomness = None) -> tuple[Floats, Any]:
        return self.at_first().predict(states, actions[:, None], rng)[0]

    def next_points(self, states: Floats, actions: Floats, draws: int, rng: np.random.Generator) -> Floats:
        starts, moves = np.repeat(states, draws, axis=0), np.repeat(actions, draws, axis=0)
        return advance(self.step, starts, moves, rng, 1).reshape(len(states), draws, -1)

    def _clouds(self, starts: Floats, actions: Floats, steps: tuple[int, ...], rng: np.random.Generator) -> list[Cloud]:
        """Particles of the chosen steps, from starts (n, ds) under actions (n, H, da)."""
        axes = configuration_axes(self.axes, starts.shape[1])
        clouds = propagate(self.step, starts, actions[:, : steps[-1]], axes, self.n_particles, rng)
        return [cloud for h, cloud in enumerate(clouds, start=1) if h in steps]

    def _checked_clouds(self, clouds: Sequence[Cloud], rollouts: Rollouts, steps: tuple[int, ...]) -> Sequence[Cloud]:
        """The prediction, checked to fit these rollouts and steps."""
        n, ds, da, dc = len(rollouts), rollouts.starts.shape[1], rollouts.actions.shape[2], rollouts.configurations.shape[2]
        wanted = [((n, ds + da), (n, self.n_particles, dc))] * len(steps)
        if [(cloud.x.shape, cloud.particles.shape) for cloud in clouds] != wanted:
            raise CaptureError(
                f"the prediction does not fit {n} rollouts at {len(steps)} steps; pass the result of predict for them."
            )
        return clouds

    def _scores(self, rollouts: Rollouts, steps: tuple[int, ...], clouds: Sequence[Cloud]) -> Floats:
        """Scores (n, S) of the chosen steps."""
        c = rollouts.configurations_at(steps)
        scores = [self.score_.score(cloud.particles, np.ascontiguousarray(c[:, s])) for s, cloud in enumerate(clouds)]
        return checked_scores(np.stack(scores, axis=1), c.shape[:2], "(n, S): one score per step")

    def _predict_at(self, rollouts: Rollouts, given: Sequence[Cloud] | None, rng: Randomness) -> Sequence[Cloud]:
        self.check_fitted()
        dims = rollouts.configurations.shape[2]
        if dims != self.n_outputs_:
            raise CaptureError(f"configurations have {dims} numbers, but those in fit had {self.n_outputs_}; pass the same.")
        clouds = self.predict(rollouts.starts, rollouts.actions, rng) if given is None else given
        return self._checked_clouds(clouds, rollouts, self.steps_)

    def _inputs(self, starts: Any, actions: Any) -> tuple[Floats, Floats]:
        self.check_fitted()
        s = finite_array("starts", starts, (None, self.n_states_), "(n, ds): as in fit")
        a = finite_array("actions", actions, (len(s), None, self.n_actions_), "(n, H, da): as in fit")
        if a.shape[1] < self.steps_[-1]:
            raise CaptureError(
                f"there are {a.shape[1]} actions, but regions up to step {self.steps_[-1]}; pass at least that many."
            )
        return s, a

    def _read_thresholds(self, alpha: float, simultaneous: bool, confidence: float | None) -> Floats:
        return (self.calibration_.together if simultaneous else self.calibration_.at)(alpha, confidence)

    def _root_names(self) -> Sequence[str]:
        return [f"{name} at step {h}" for h in self.steps_ for name in self.strata.names]

    def _check_axes(self, n_states: int, dims: int) -> None:
        if self.score_.ambient:
            raise CaptureError(f"{self.score_!r} has no particles to propagate; use NearestParticles or ParticleBox.")
        if len(configuration_axes(self.axes, n_states)) != dims:
            raise CaptureError(f"axes are {self.axes!r}, but a configuration has {dims} numbers; list one axis for each.")

    # -- saved calibrations -------------------------------------------------------------------------------------------

    def _header(self) -> dict[str, Any]:
        return {
            "axes": [int(axis) for axis in self.axes],
            "steps": list(self.steps_),
            "sizes": [self.n_states_, self.n_actions_, self.n_outputs_],
            "n_groups": self.calibration_.n_groups,
            "weighting": self.calibration_.weighting,
        }

    def _score_arrays(self) -> Arrays:
        kept = self.calibration_
        return {"scores": kept.scores, "groups": kept.groups, "units": kept.episodes, "role": kept.role}

    @classmethod
    def _loaded(cls, header: dict[str, Any], arrays: Arrays, model: Any, strata: Strata, parts: dict[str, Any]) -> Self:
        cap = cls(model, strata, header["axes"], **parts)
        sizes = zip(("n_inputs", "n_inputs", "n_outputs"), header["sizes"], strict=True)
        cap.n_states_, n_actions, n_outputs = (checked_size(name, size) for name, size in sizes)
        cap.check_parts(n_outputs)
        cap._check_axes(cap.n_states_, n_outputs)
        steps = tuple(whole_number("steps", step, 1) for step in header["steps"])
        n_groups = whole_number("n_groups", header["n_groups"], 1)
        partition = checked_partition(arrays, cap.n_states_ + n_actions, len(steps) * len(strata.names), n_groups)
        weighting = known_name("weighting", header.get("weighting", PER_EPISODE), (PER_GROUP, PER_EPISODE))
        scores = checked_horizon_scores(arrays, len(steps), n_groups, weighting)
        return cap.keep(partition, scores, n_outputs, checked_data(header["data"]), steps)


def _chosen_steps(steps: Sequence[int] | None, horizon: int) -> tuple[int, ...]:
    chosen = tuple(range(1, horizon + 1)) if steps is None else tuple(sorted(whole_number("a step", h, 1) for h in steps))
    if not chosen or len(set(chosen)) != len(chosen) or chosen[-1] > horizon:
        raise CaptureError(f"steps are {steps!r}; expected different whole numbers from 1 to the rollouts' {horizon}.")
    return chosen


def _single_steps(rollouts: Rollouts) -> tuple[Floats, Floats]:
    """Single steps as transitions (X, Y): all of them if whole states are known, else the first of each rollout."""
    if rollouts.states is not None:
        return rollouts.transitions()
    return np.hstack([rollouts.starts, rollouts.actions[:, 0]]), np.ascontiguousarray(rollouts.configurations[:, 0])
