"""The peg task: a peg and its hole with their strata, true system, approximate model and transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name, shortened, whole_number
from capture_cp.base.streams import stream
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.groups import Tree
from capture_cp.data.rollouts import Rollouts
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import System
from capture_cp.spaces.poses import SE2
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.corrected import peg_correction
from capture_lab.tasks.peg.cspace import REGIMES, PegStrata
from capture_lab.tasks.peg.model import NO_CORRECTION, Correction, PegModel, settle
from capture_lab.tasks.peg.settings import PegSettings
from capture_lab.tasks.peg.simulator import PegSystem, make_system
from capture_lab.tasks.rows import Row
from capture_lab.tasks.task import CALIBRATION, TEST, Advance, Task, TestSet

if TYPE_CHECKING:
    from capture_cp.planning.fused import FusedRollout
    from capture_lab.tasks.peg.drawing import PegDrawing
    from capture_lab.tasks.peg.planner import PegWeights

SystemName = Literal["planar", "arm"]

#: The paper's particles per prediction; k is half of them.
PARTICLES = 8
#: Fewest transitions in a leaf, chosen on separate seeds.
MIN_LEAF = 1000
#: Transitions in free space, and the same number in contact, that correct the model.
TRAINING = 4_000
#: Default number of transitions for each purpose; the paper's.
SIZES = {CALIBRATION: 70_000, TEST: 90_000}


@lru_cache(maxsize=2)  # the tasks of a study differ in other things, and planners keep the costs of these strata's cells
def _strata_of(settings: PegSettings, trim: float) -> PegStrata:
    return PegStrata(settings, trim)


@dataclass(frozen=True)
class Peg(Task):
    """A peg and a hole; callable as the approximate model of the library.

    Each row of inputs X (n, 6) is a pose (m, m, rad) and an action (mm, mm, degrees); outputs Y (n, 3) are next poses.

    Attributes:
        settings: sizes, disturbance and model error.
        system: the true system, "planar" (on rails) or "arm" (in the hand of a Panda); both need MuJoCo.
        trim: metres by which tubes are cut at their ends, see `PegStrata`; 0 is the paper's value.
        correction: of the model, see `corrected`.
        threads: threads of the simulator, by default all cores; they affect its speed only.
    """

    name = "peg"
    axes = (0, 1, 2)  # the pose is the whole state
    states = ("x", "z", "theta")
    actions = ("move_x", "move_z", "turn")
    rate = 15.0
    max_steps = 75
    particles = PARTICLES
    logged_test = True
    calibration_rollouts = SIZES[CALIBRATION]
    region_steps = 2  # later regions are large and slow to search

    settings: PegSettings = field(default_factory=PegSettings)
    system: SystemName = "planar"
    trim: float = 0.0
    correction: Correction = NO_CORRECTION
    threads: int | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        known_name("system", self.system, get_args(SystemName))

    @property
    def place(self) -> str:
        return f"peg {self.system}"

    @property
    def bounds(self) -> Floats:
        return np.full(3, self.settings.bound)

    @property
    def regimes(self) -> tuple[str, ...]:
        return REGIMES

    @property
    def reported(self) -> tuple[str, ...]:
        return REGIMES[:3]  # the paper's; landings with several contacts at once are in none of them

    @cached_property
    def stratum_regimes(self) -> Ints:
        return np.array([REGIMES.index(regime) for regime in self.strata.regimes])

    @cached_property
    def strata(self) -> PegStrata:
        return _strata_of(self.settings, self.trim)

    @cached_property
    def model(self) -> PegModel:
        return PegModel(self.settings, self.correction)

    @property
    def metric(self) -> SE2:
        """The paper's metric of poses, which weights a rotation by the peg's half diagonal."""
        return SE2(self.settings.radius)

    @property
    def tree(self) -> Tree:
        """One tree per stratum, because a single tree need not distinguish fingerprints."""
        return peg_tree()

    def true_system(self, threads: int | None = None) -> PegSystem:
        """The true system in MuJoCo, by default with the task's number of threads."""
        return make_system(self.system, self.settings, self.threads if threads is None else threads)

    # -- the approximate model ----------------------------------------------------------------------------------------

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, 3) of the next pose."""
        return self.model(X, n_particles, rng)

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The next pose as a Gaussian: means (n, 3) and covariances (n, 3, 3)."""
        return self.model.gaussian(X)

    def model_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        return self(np.hstack([states, actions]), 1, rng)[:, 0]

    def corrected(self, seed: int) -> Peg:
        return replace(self, correction=peg_correction(self, TRAINING, stream(seed, "peg", "training")))

    def with_correction(self, correction: Any) -> Peg:
        if correction is None:
            return self
        try:
            move, friction = correction
            rows = finite_array("the correction of the episode", move, (3, 4), "(3, 4)").tolist()
            return replace(self, correction=Correction(tuple(map(tuple, rows)), float(friction)))
        except (TypeError, ValueError):
            raise CaptureError(
                f"the correction of the episode is {shortened(str(correction), 80)}; expected moves (3, 4) and a friction."
            ) from None

    # -- data ---------------------------------------------------------------------------------------------------------

    def inputs(self, n: int, rng: np.random.Generator) -> Floats:
        """Inputs (n, 6) for calibration: starts uniform over strata, actions uniform up to the bound."""
        starts = self.strata.sample_starts(whole_number("n", n, 1), rng)
        return np.hstack([starts, rng.uniform(-self.settings.bound, self.settings.bound, size=(n, 3))])

    def landings(self, X: Floats, rng: np.random.Generator, system: PegSystem | None = None) -> tuple[Floats, int]:
        """Next poses (n, 3) of the true system at inputs X (n, 6), and how many were pushed out of an overlap.

        The simulator's contact is slightly soft. A landing that overlaps by more than the paper's 0.01 mm² would have no
        stratum, and dropping it would invalidate the guarantee: it is moved to the nearest feasible pose, micrometres away.
        """
        inputs = finite_array("X", X, (None, 6), "(n, 6): x, z, theta, then the action")
        self.check_poses(inputs[:, :3])
        system = system if system is not None else self.true_system()
        landed = system.transitions(inputs[:, :3], system.applied(inputs[:, 3:], rng))
        settled = settle(landed, self.settings)
        return settled, int((settled != landed).any(axis=1).sum())

    def transitions(self, n: int, rng: np.random.Generator) -> Transitions:
        X = self.inputs(n, rng)
        return self.as_transitions(X, self.landings(X, rng)[0])

    def seed_here(self, seed: int) -> int:
        return seed  # the streams of this task include its name, and its system where that matters

    @property
    def calibration_size(self) -> int:
        return SIZES[CALIBRATION]

    def calibration(self, seed: int, n: int | None = None, advance: Advance | None = None) -> Transitions:
        """The first n transitions of the seed, simulated once per process."""
        from capture_lab.tasks.peg.data import peg_data

        return peg_data(self, SIZES[CALIBRATION] if n is None else n, seed, CALIBRATION, advance)[0]

    def test(self, seed: int, n: int | None = None, advance: Advance | None = None) -> TestSet:
        from capture_lab.tasks.peg.data import peg_data

        found, moved = peg_data(self, SIZES[TEST] if n is None else n, seed, TEST, advance)
        note = f"{moved:,} of {len(found):,} test landings overlapped by more than 0.01 mm² and were pushed out."
        return TestSet(found.X, Y=found.Y, note=note)

    def prediction_stream(self, seed: int, first: int) -> np.random.Generator:
        return stream(seed, "peg", "predictions")

    def rollouts(
        self, seed: int, purpose: str, n: int, horizon: int, hold: int = 1, advance: Advance | None = None
    ) -> Rollouts:
        """The simulator keeps its velocities from step to step. Fewer rollouts of a purpose are the first of more."""
        from capture_lab.tasks.peg.data import peg_rollouts

        return peg_rollouts(self, seed, purpose, n, horizon, hold, advance)

    def single_steps(self, seed: int, n: int, advance: Advance | None = None) -> tuple[Floats, Floats]:
        data = self.calibration(seed, n, advance)
        return data.X, data.Y

    # -- closed loop --------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Mapping[str, Row]:
        from capture_lab.tasks.peg.options import ROWS

        return ROWS

    def rollout(
        self, cap: Fitted, horizon: int, weights: PegWeights | None, alpha: float, simultaneous: bool
    ) -> FusedRollout:
        from capture_lab.tasks.peg.planner import peg_rollout

        if simultaneous:
            raise CaptureError("the peg's planner has no simultaneous regions; leave simultaneous out.")
        return peg_rollout(cap, self, alpha, weights)

    def exploration(self, weights: PegWeights | None) -> Floats:
        from capture_lab.tasks.peg.planner import PegWeights

        return np.eye(3) * (weights or PegWeights()).spread ** 2

    def starts(self, n: int) -> Floats:
        """The first feasible poses of a Halton sequence, (n, 3)."""
        return self.strata.halton_starts(n)

    def closed_loop(self, start: Floats) -> System:
        """The simulator, placed at a feasible pose (3,); the episode ends when the peg is inserted.

        The simulator keeps its own state. The planner receives the measured pose, pushed out of the few micrometres by
        which contact may leave it too deep.
        """
        self.check_poses(np.asarray(start, dtype=np.float64)[None])
        system = self.true_system(threads=1)
        system.reset(start)

        def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
            measured = system.step(action, rng)[None]
            inserted = bool(self.strata.success(measured)[0])
            return settle(measured, self.settings)[0], "success" if inserted else None

        return act

    # -- pictures -----------------------------------------------------------------------------------------------------

    def drawing(self) -> PegDrawing:
        from capture_lab.tasks.peg.drawing import PegDrawing

        return PegDrawing(self)

    def check_poses(self, poses: Floats) -> None:
        """Reject poses (n, 3) outside the grid, in the receptacle or in the table."""
        given = finite_array("poses", poses, (None, 3), "(n, 3): x, z, theta in metres and radians")
        outside = self.strata.require_grid().cell(given) < 0
        for wrong, where in (
            (outside, "outside the grid (x within 3 cm, z from -1 to 5 cm, theta within 40 degrees)"),
            (self.strata.index(given) == INFEASIBLE, "in the receptacle or the table"),
        ):
            if wrong.any():
                row = int(np.argmax(wrong))
                raise CaptureError(
                    f"{int(wrong.sum())} of {len(given)} poses lie {where}, first in row {row}: {given[row].tolist()}; "
                    "expected feasible x, z, theta in metres and radians."
                )


def peg_tree() -> Tree:
    """The tree of this task's methods: one per stratum, because a single tree need not distinguish fingerprints."""
    return Tree(min_leaf=MIN_LEAF, max_leaves=None)
