"""The shelf task: an arm in front of one shelf with its strata, true system, approximate model and transitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_rows, positive_number
from capture_cp.base.streams import stream
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.groups import Tree
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import System
from capture_cp.planning.fused import FusedRollout
from capture_cp.planning.steps import StepModel
from capture_lab.tasks.corrected import shelf_correction
from capture_lab.tasks.rows import Row
from capture_lab.tasks.shelf.mjcf import Physics
from capture_lab.tasks.shelf.model import BELIEVED, RATE, ShelfParams, glass_clearances, jar_jacobians, jars, step
from capture_lab.tasks.shelf.motions import moving_inputs
from capture_lab.tasks.shelf.planner import ShelfWeights, shelf_rollout
from capture_lab.tasks.shelf.shelves import Shelf
from capture_lab.tasks.shelf.simulator import ShelfSystem
from capture_lab.tasks.shelf.strata import ShelfStrata
from capture_lab.tasks.task import Advance, Task

if TYPE_CHECKING:
    from capture_lab.tasks.shelf.drawing import ShelfDrawing

#: Transitions used to correct the model.
TRAINING = 4_000
#: Transitions per part of a simulation; progress is shown after each part.
PART = 1_000


@dataclass(frozen=True)
class ShelfTask(Task):
    """An arm with a jar in front of a shelf.

    Each row of inputs X (n, 21) is angles, velocities and an action; outputs Y (n, 7) are the next angles.

    Attributes:
        shelf: boards, walls, glasses, start and goal.
        physics: properties of the true arm that the model lacks.
        bound: largest action of a joint (rad).
        correction: learnt motion of each joint in a corrected model, (7, 6), see `ShelfParams.motion`.
        threads: threads of the simulator, by default all cores; they affect its speed only.
    """

    name = "shelf"
    axes = tuple(range(7))
    states = (*(f"q{i}" for i in range(1, 8)), *(f"v{i}" for i in range(1, 8)))
    actions = tuple(f"turn{i}" for i in range(1, 8))
    rate = RATE
    max_steps = 80
    particles = 8
    calibration_rollouts = 5_000
    correction_shape = (7, 6)

    shelf: Shelf
    physics: Physics = field(default_factory=Physics)
    bound: float = 0.12
    correction: tuple[tuple[float, ...], ...] | None = None
    threads: int | None = field(default=None, repr=False, compare=False, kw_only=True)
    _kept: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        positive_number("bound", self.bound)

    @property
    def place(self) -> str:
        return self.shelf.name

    @property
    def bounds(self) -> Floats:
        return np.full(7, self.bound)

    @cached_property
    def strata(self) -> ShelfStrata:
        """Which part of the arm touches a board or a wall."""
        return ShelfStrata(self.shelf, self.physics)

    @property
    def cell(self) -> float:
        """A small angle: a twentieth of the largest action."""
        return self.bound / 20

    @property
    def tree(self) -> Tree:
        """One tree per stratum; strata with too few transitions share the thresholds of others."""
        return Tree(min_leaf=300, max_leaves=20, min_stratum=100)

    @cached_property
    def system(self) -> ShelfSystem:
        """The true system in MuJoCo."""
        return ShelfSystem(self.shelf, self.physics, self.threads)

    # -- the approximate model ----------------------------------------------------------------------------------------

    def params_for(self, weights: ShelfWeights) -> ShelfParams:
        """Parameters of the compiled functions, with the weights of an objective."""
        motion = np.tile(BELIEVED, (7, 1)) if self.correction is None else np.array(self.correction)
        goal = np.array(self.shelf.goal)
        weighed = weights.away, weights.last, weights.lift, weights.upright, weights.effort, weights.glass, weights.margin
        return ShelfParams(*self.strata.solids, self.strata.limits, motion, self.physics.noise, goal, *map(float, weighed))

    @cached_property
    def params(self) -> ShelfParams:
        """The same with the default weights."""
        return self.params_for(ShelfWeights())

    @cached_property
    def model(self) -> StepModel:
        """The approximate model of the whole state."""
        return StepModel(step, 14, self.axes, noise_dims=7, params=self.params)

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, 7) of the next angles."""
        return self.model(X, n_particles, rng)

    def model_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        return self.model.next_states(states, actions, rng)

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The model as a Gaussian, for LUCCa: its step without disturbance, and the variance of the disturbance."""
        still = StepModel(step, 14, self.axes, noise_dims=7, params=self.params._replace(noise=0.0))
        means = still(X, 1, np.random.default_rng(0))[:, 0]
        return means, np.tile(self.physics.noise**2 * np.eye(7), (len(X), 1, 1))

    def corrected(self, seed: int) -> ShelfTask:
        rng = stream(self.seed_here(seed), "training")
        return replace(self, correction=shelf_correction(self, TRAINING, rng))

    def jars(self, Y: Floats) -> Floats:
        """The centre of the jar at configurations Y (n, 7), and how upright it is: (n, 4)."""
        return np.asarray(jars(_angles(Y), self.params))

    def jar_jacobians(self, Y: Floats) -> Floats:
        """Derivative of the jar's centre with respect to each angle at configurations Y (n, 7): (n, 3, 7)."""
        return np.asarray(jar_jacobians(_angles(Y), self.params))

    # -- the true system and its data ---------------------------------------------------------------------------------

    def true_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        return self.system.step(states, actions, rng)

    def inputs(self, n: int, rng: np.random.Generator) -> Floats:
        return moving_inputs(self, n, rng)

    def calibration(self, seed: int, n: int | None = None, advance: Advance | None = None) -> Transitions:
        """Simulated once and kept as long as the task exists."""
        n = self.calibration_size if n is None else n
        if (seed, n) not in self._kept:
            parts, rng = [], stream(self.seed_here(seed), "calibration")
            for first in range(0, n, PART):
                parts.append(self.transitions(min(PART, n - first), rng))
                if advance is not None:
                    advance(len(parts[-1]))
            X, Y = (np.concatenate([getattr(part, side) for part in parts]) for side in "XY")
            self._kept[seed, n] = self.as_transitions(X, Y)
        return self._kept[seed, n]  # type: ignore[no-any-return]

    # -- closed loop --------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Mapping[str, Row]:
        from capture_lab.tasks.shelf.options import ROWS

        return ROWS

    @property
    def hazard(self) -> Any:
        """Signed distance of configurations (n, 7) from touching a glass."""
        return self.glass_clearances

    def glass_clearances(self, Y: Floats) -> Floats:
        """Signed distance of configurations Y (n, 7) from touching a glass, exact up to a decimetre: (n,)."""
        return np.asarray(glass_clearances(_angles(Y), self.params))

    def rollout(
        self, cap: Fitted, horizon: int, weights: ShelfWeights | None, alpha: float, simultaneous: bool
    ) -> FusedRollout:
        return shelf_rollout(cap, self, horizon, weights or ShelfWeights(), alpha, simultaneous)

    def starts(self, n: int) -> Floats:
        """Arms at rest (n, 14) around the start of the shelf, without contact: the first of a Halton sequence."""
        from scipy.stats import qmc

        shelf, drawn = self.shelf, qmc.Halton(7, scramble=False).random(4 * n + 64)
        tried = np.array(shelf.start) + shelf.spread * (2 * drawn - 1)
        tried = np.clip(tried, *self.params.limits)
        clear = (self.strata.index(tried) == 0) & (self.glass_clearances(tried) > 0)
        if clear.sum() < n:
            raise CaptureError(
                f"only {int(clear.sum())} of {len(tried)} starts near {list(shelf.start)} touch nothing; move the start of "
                f"{shelf.name} away from its boards, walls and glasses."
            )
        return np.hstack([tried[clear][:n], np.zeros((n, 7))])

    def outcome(self, state: Floats) -> str | None:
        away = np.linalg.norm(self.jars(state[None, :7])[0, :3] - self.shelf.goal)
        return "success" if away < self.shelf.within else None

    def closed_loop(self, start: Floats) -> System:
        """The simulator; the episode ends when the jar is at its goal, or at the first touch of a glass."""

        def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
            after, seen = self.system.watched(state, action, rng)
            touched = bool((self.glass_clearances(seen) < 0).any())
            return after, "touched the glass" if touched else self.outcome(after)

        return act

    # -- pictures -----------------------------------------------------------------------------------------------------

    def drawing(self) -> ShelfDrawing:
        from capture_lab.tasks.shelf.drawing import ShelfDrawing

        return ShelfDrawing(self)


def _angles(Y: Floats) -> Floats:
    return finite_rows("Y", Y, 7, "(n, 7): angles")
