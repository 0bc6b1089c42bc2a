"""The marble labyrinth as the page sees it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.conformal.gaussian import Mahalanobis
from capture_cp.conformal.groups import Tree
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import Episode, System
from capture_cp.planning.mppi import MPPI
from capture_cp.studies.planning_rows import MAX_STEPS
from capture_cp.tasks.marble import dynamics
from capture_cp.tasks.marble.contact import TOLERANCE
from capture_cp.tasks.marble.cspace import STRATA, MarbleStrata
from capture_cp.tasks.marble.maps import MILLIMETRE, load_map
from capture_cp.tasks.marble.planner import POSITION, marble_planner, position_spread, start_state, true_system
from capture_cp.tasks.marble.task import Marble
from capture_cp.viewer.settings import MarbleView
from capture_cp.viewer.world import Ahead

#: As in the planning study: leaves of the tree, and draws an input of the calibration grid.
MAX_LEAVES, DRAWS = 20, 2
#: Bounds of a state's velocities and tilts, and of an action.
STATE_BOUNDS: Floats = np.array([np.inf, dynamics.MAX_SPEED, np.inf, dynamics.MAX_SPEED, *2 * [dynamics.MAX_TILT]])


class MarbleWorld:
    """A marble on one map."""

    axes = POSITION
    kinds = STRATA
    max_steps = MAX_STEPS
    progress = ""

    def __init__(self, settings: MarbleView) -> None:
        self.task = Marble(load_map(settings.map), absorb=True)

    @property
    def where(self) -> str:
        return self.task.map.name

    @property
    def strata(self) -> MarbleStrata:
        return self.task.strata

    @property
    def stratum_kinds(self) -> Ints:
        return np.arange(len(STRATA))

    @cached_property
    def _transitions(self) -> dict[int, Transitions]:
        return {}

    def calibrated(self, method_name: str, settings: MarbleView) -> Capture:
        """The method, fitted to the paper's grid of transitions of this map."""
        seed = derived_seed(settings.seed, "marble", self.where)
        if seed not in self._transitions:
            self._transitions[seed] = self.task.design_transitions("grid", DRAWS, stream(seed, "calibration"))
        data, tree = self._transitions[seed], Tree(per_stratum=False, max_leaves=MAX_LEAVES)
        parts: dict[str, Any] = {"n_particles": settings.particles, "k": settings.k, "tree": tree, "seed": seed}
        return method(method_name, self.task, self.strata, **parts).fit(data.X, data.Y)

    def planner(self, cap: Capture, settings: MarbleView, seed: int) -> MPPI:
        return marble_planner(cap, self.task, settings.planner, settings.alpha, seed, settings.weights)

    def system(self, start: Floats) -> System:
        return true_system(self.task)

    def start(self, episode: int) -> Floats:
        return start_state(self.task)

    def first_look(self) -> tuple[Floats, Floats]:
        """The marble off its start, rolling towards the middle of a tilted board: a region that can be seen."""
        state = start_state(self.task)
        towards = np.array(self.task.map.size) * MILLIMETRE / 2 - state[POSITION]
        state[[1, 3]] = 0.2 * towards / max(float(np.linalg.norm(towards)), MILLIMETRE)
        state[[4, 5]] = -np.sign(towards) * 0.6 * dynamics.MAX_TILT
        return state, np.array([0.2, -0.2])

    def placed(self, state: Floats) -> Floats:
        """Within the bounds, and out of the walls."""
        bounded = np.clip(state, -STATE_BOUNDS, STATE_BOUNDS)
        bounded[POSITION] = np.clip(bounded[POSITION], 0.0, np.array(self.task.map.size) * MILLIMETRE)
        if self.task.map.clearance(bounded[POSITION][None])[0] < 0:
            bounded[POSITION] = self.strata.nearest_free(bounded[POSITION][None])[0]
        return bounded

    def ahead(self, cap: Capture, state: Floats, plan: Floats, settings: MarbleView, recorded: Floats | None) -> list[Ahead]:
        """Particles rolled through the model and a region at every step, as in the planner's roll-out.

        The noise is the same at every call, so that a picture changes only where its subject does.
        """
        gaussian, gain = isinstance(cap.score, Mahalanobis), self.task.model_gain
        count = 1 if gaussian else cap.n_particles
        spread = position_spread(len(plan), gain)
        rng, states, steps = stream(settings.seed, "picture"), np.tile(state, (count, 1)), []
        for h, action in enumerate(plan):
            x = np.concatenate([states.mean(axis=0), action])
            noise = dynamics.NOISE * rng.standard_normal((count, 2)) * (not gaussian)
            states, _ = self.task.step(states, np.tile(action, (count, 1)), noise, gain)
            cloud = np.ascontiguousarray(states[:, POSITION])
            if h == 0 and recorded is not None and recorded.shape == cloud.shape:
                cloud = recorded
            prediction: Any = (cloud, spread[h] ** 2 * np.eye(2)[None]) if gaussian else cloud
            region = cap.region(x, settings.alpha, prediction=prediction)
            cells = cap.count_cells(x[None], settings.alpha, prediction=region.prediction)[0] if h == 0 else None
            steps.append(Ahead(cloud, region, cells))
        return steps

    def check_episode(self, episode: Episode) -> None:
        sound = episode.states.shape[1:] == (6,) and episode.plans.shape[2:] == (2,) and episode.actions.shape[1:] == (2,)
        if not sound or not all(np.isfinite(part).all() for part in (episode.states, episode.plans, episode.particles)):
            raise CaptureError("the episode is not of a marble; expected one recorded by capture plan marble --record.")
        if episode.info.get("variant"):
            raise CaptureError("the episode was recorded on a variant of its map (--variant); capture video can show it.")
        if (self.task.map.clearance(episode.states[:, POSITION]) < -TOLERANCE).any():
            raise CaptureError(f"the episode leads through walls of {self.task.map.name}; it was recorded on another map.")
