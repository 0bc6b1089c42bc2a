"""The peg insertion as the page sees it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.base.streams import stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.planning.episode import Episode, System
from capture_cp.planning.mppi import MPPI
from capture_cp.spaces.strata import INFEASIBLE
from capture_cp.tasks.peg.cspace import REGIMES, PegStrata
from capture_cp.tasks.peg.data import peg_data
from capture_cp.tasks.peg.model import settle
from capture_cp.tasks.peg.planner import MAX_STEPS, closed_loop, peg_planner
from capture_cp.tasks.peg.task import Peg, peg_tree
from capture_cp.viewer.settings import PegView
from capture_cp.viewer.world import Ahead

#: Starts that episodes go through in turn, as many as the study has.
STARTS = 50
#: A pose just above the rim, leaning, and a push down and across: the peg may land on either side.
FIRST_POSE, FIRST_ACTION = (3.0e-3, 27.0e-3, 0.06), (-2.0, -2.0, -1.0)
#: How a pose in collision is lifted out (m).
LIFT = 2.5e-4


class PegWorld:
    """A peg and its hole."""

    axes = (0, 1, 2)
    kinds = REGIMES
    max_steps = MAX_STEPS
    progress = ""

    def __init__(self, settings: PegView) -> None:
        self.task = Peg(system=settings.system)
        self.task.true_system(threads=1)  # a missing MuJoCo is told at once

    @property
    def where(self) -> str:
        return f"peg {self.task.system}"

    @property
    def strata(self) -> PegStrata:
        return self.task.strata

    @cached_property
    def stratum_kinds(self) -> Ints:
        return np.array([REGIMES.index(regime) for regime in self.strata.regimes])

    @cached_property
    def _starts(self) -> Floats:
        return self.strata.halton_starts(STARTS)

    def calibrated(self, method_name: str, settings: PegView) -> Capture:
        """The method, fitted to the first of the study's transitions; they are simulated once and kept on disk."""
        done = 0

        def advance(rows: int) -> None:
            nonlocal done
            done += rows
            self.progress = f", {done:,} of {settings.calibration:,} transitions"

        advance(0)
        data = peg_data(self.task, settings.calibration, settings.seed, advance=advance).transitions
        cap = method(
            method_name,
            self.task,
            self.strata,
            n_particles=settings.particles,
            k=settings.k,
            metric=self.task.metric,
            tree=peg_tree(),
            seed=settings.seed,
        )
        return cap.fit(data.X, data.Y)

    def planner(self, cap: Capture, settings: PegView, seed: int) -> MPPI:
        return peg_planner(cap, self.task, settings.planner, settings.alpha, seed, settings.weights)

    def system(self, start: Floats) -> System:
        return closed_loop(self.task, self.task.true_system(threads=1), start)

    def start(self, episode: int) -> Floats:
        return np.array(self._starts[episode % STARTS])

    def first_look(self) -> tuple[Floats, Floats]:
        return self.placed(np.array(FIRST_POSE)), np.array(FIRST_ACTION)

    def placed(self, state: Floats) -> Floats:
        """Within the grid, and lifted out of the receptacle."""
        grid = self.strata.require_grid()
        high = grid.origin + grid.spacing * (np.array(grid.shape) - 1)
        pose = np.clip(state, grid.origin, high)
        while self.strata.index(pose[None])[0] == INFEASIBLE and pose[1] < high[1]:
            pose[1] += LIFT
        return pose

    def ahead(self, cap: Capture, state: Floats, plan: Floats, settings: PegView, recorded: Floats | None) -> list[Ahead]:
        """The region of the first step, as the paper's objective has it, and the particles of all; same noise each call."""
        rng, poses, steps = stream(settings.seed, "picture"), np.tile(state, (cap.n_particles, 1)), []
        for h, action in enumerate(plan):
            X = np.hstack([poses, np.tile(action, (len(poses), 1))])
            poses = settle(np.asarray(self.task(X, 1, rng))[:, 0], self.task.settings)
            steps.append(self._first(cap, state, action, poses, settings) if h == 0 else Ahead(poses))
        return steps

    @staticmethod
    def _first(cap: Capture, pose: Floats, action: Floats, cloud: Floats, settings: PegView) -> Ahead:
        x = np.concatenate([pose, action])
        region = cap.region(x, settings.alpha, rng=settings.seed)
        return Ahead(cloud, region, cap.count_cells(x[None], settings.alpha, prediction=region.prediction)[0])

    def check_episode(self, episode: Episode) -> None:
        sound = all(part.shape[-1] == 3 for part in (episode.states, episode.actions, episode.plans))
        if not sound or not np.isfinite(episode.states).all() or not np.isfinite(episode.plans).all():
            raise CaptureError("the episode is not of a peg; expected one recorded by capture plan peg --record.")
