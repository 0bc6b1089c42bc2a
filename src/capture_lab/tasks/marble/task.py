"""The marble task: one map with its strata, its true system, its approximate model and its transitions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, known_name, whole_number
from capture_cp.base.streams import stream
from capture_cp.capture.fitted import Fitted
from capture_cp.conformal.groups import Tree
from capture_cp.data.transitions import Transitions
from capture_cp.planning.batch import Systems
from capture_cp.planning.distance import traversable_distance
from capture_cp.planning.episode import Episode, System
from capture_cp.planning.settings import PlannerSettings
from capture_cp.spaces.strata import INFEASIBLE
from capture_lab.tasks.corrected import marble_correction
from capture_lab.tasks.marble import dynamics
from capture_lab.tasks.marble.contact import TOLERANCE
from capture_lab.tasks.marble.cspace import MarbleStrata
from capture_lab.tasks.marble.maps import MAP_NAMES, MILLIMETRE, Map, load_map
from capture_lab.tasks.rows import Row
from capture_lab.tasks.task import CALIBRATION, TEST, Advance, OutcomesOnCuda, Task, TestSet

if TYPE_CHECKING:
    from capture_cp.planning.fused import FusedRollout
    from capture_lab.tasks.marble.drawing import MarbleDrawing
    from capture_lab.tasks.marble.planner import MarbleWeights

Design = Literal["grid", "random"]

POSITION = [0, 2]  # the configuration within the state
OUTCOMES = {dynamics.AT_GOAL: "success", dynamics.FELL: "fell"}

GRID_POSITIONS = 8
#: Draws of the true system per input of the calibration design.
DRAWS = 2
#: Leaves of the tree for planning: the paper gives no number. This one reproduces its volume ratios and its planning table
#: best; five give the same, and from nine on the tree without strata fails on Bottom Left.
LEAVES = 7
#: Transitions used to correct the model.
TRAINING = 20_000
#: A grid position in collision is moved out if the distance is at most this (m), about half a wall and the marble's radius.
FARTHEST_MOVE = 11e-3


@dataclass(frozen=True)
class Marble(Task):
    """A marble on one map.

    Attributes:
        map: walls, pits, start and goal.
        absorb: whether pits and the goal stop the marble, as they do in closed loop, or count as floor, as in the paper's
            calibration data, whose grid of start positions includes the pits. A marble that never moves scores zero, so
            thresholds calibrated with absorbing pits are too small.
        model_gain: acceleration gain of the approximate model; the true system has twice the default.
        correction: acceleration that a corrected model adds, (4, 9): the mean over a step on both axes, then its growth
            per substep; coefficients of state and action, and an offset. See `corrected`.
        design: inputs of calibration transitions, the paper's grid or random ones.
        test_design: test inputs, by default the same as for calibration.
        true_gain: acceleration gain of the true system.
        noise: standard deviation of the noise on actions, in the true system and in the model.
        training: transitions that the corrected model learns from; 0 leaves the model uncorrected.
        training_drag: drag of the system that these transitions come from.
        drag: fraction of its speed that the true marble loses at the beginning of every control step.
    """

    name = "marble"
    axes = POSITION
    states = ("x", "vx", "y", "vy", "alpha", "beta")
    actions = ("omega1", "omega2")
    rate = 1.0 / (dynamics.SUBSTEPS * dynamics.DT)
    correction_shape = (4, 9)
    adapts_at_once = False

    map: Map
    absorb: bool = False
    model_gain: float = dynamics.MODEL_GAIN
    correction: tuple[tuple[float, ...], ...] | None = None
    design: Design = field(default="grid", repr=False, compare=False, kw_only=True)
    test_design: Design | None = field(default=None, repr=False, compare=False, kw_only=True)
    true_gain: float = field(default=dynamics.TRUE_GAIN, repr=False, kw_only=True)
    drag: float = field(default=0.0, repr=False, kw_only=True)
    noise: float = field(default=dynamics.NOISE, kw_only=True)
    training: int = field(default=TRAINING, repr=False, kw_only=True)
    training_drag: float = field(default=0.0, repr=False, kw_only=True)

    @property
    def place(self) -> str:
        return self.map.name

    @property
    def depends_on(self) -> dict[str, Any]:
        return super().depends_on | {"design": self.design, "test_design": self.test_design}

    @property
    def bounds(self) -> Floats:
        return np.full(2, dynamics.MAX_ACTION)

    @cached_property
    def strata(self) -> MarbleStrata:
        return MarbleStrata(self.map)

    # -- dynamics -----------------------------------------------------------------------------------------------------

    def step(
        self, states: Floats, actions: Floats, noise: Floats, gain: float, pull: Floats | None = None
    ) -> tuple[Floats, Ints]:
        """Next states (n, 6) and outcomes (n,) of a control step; `noise` (n, 2) is added to the actions (n, 2).

        `pull` (n, 4) is an acceleration in addition to that of the tilt, see `dynamics.step`.
        """
        n = len(states)
        state = finite_array("states", states, (n, 6), "(n, 6)")
        action, eps = (finite_array("actions and noise", part, (n, 2), "(n, 2)") for part in (actions, noise))
        pull = np.zeros((n, 4)) if pull is None else pull
        after, outcomes = dynamics.step_all(state, action, eps, pull, gain, self.absorb, self.map.geometry)
        return np.asarray(after), np.asarray(outcomes)

    def believed_step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
        """Next states (n, 6) by the approximate model under given noise (n, 2)."""
        pull = None
        if self.correction is not None:
            terms = np.array(self.correction)
            pull = np.ascontiguousarray(np.hstack([states, actions]) @ terms[:, :-1].T + terms[:, -1])
        return self.step(states, actions, noise, self.model_gain, pull)[0]

    def model_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, 6) by the approximate model, with its own noise."""
        return self.believed_step(states, actions, self.noise * rng.standard_normal((len(states), 2)))

    def true_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, 6) of the true system."""
        return self._true_step(states, actions, self.noise * rng.standard_normal((len(states), 2)))[0]

    def _true_step(self, states: Floats, actions: Floats, noise: Floats) -> tuple[Floats, Ints]:
        """Next states (n, 6) and outcomes (n,) of the true system under given noise (n, 2)."""
        return self.step(self._slowed(states), actions, noise, self.true_gain)

    def _slowed(self, states: Floats) -> Floats:
        """States (n, 6) once drag has acted on the speeds."""
        return states * [1.0, 1.0 - self.drag, 1.0, 1.0 - self.drag, 1.0, 1.0] if self.drag else states

    def outcomes(self, X: Floats, draws: int, seed: int, first: int = 0, first_draw: int = 0) -> Floats:
        """`draws` next positions of the true system for each input X (n, 8): (n, draws, 2).

        Row i draws its noise from stream `first + i` of the seed, from number `first_draw` on: outcomes depend neither on
        the number of threads nor on how rows and draws are batched.
        """
        states, actions = np.ascontiguousarray(self._slowed(X[:, :6])), np.ascontiguousarray(X[:, 6:])
        how = self.true_gain, self.noise, self.absorb, self.map.geometry
        return np.asarray(dynamics.sample_positions(states, actions, draws, seed, first, first_draw, *how))

    def outcomes_on_cuda(self) -> OutcomesOnCuda | None:
        if self.drag:
            return None
        from capture_lab.tasks.marble.cuda import OutcomesOnCuda

        return OutcomesOnCuda(self)

    @property
    def tree(self) -> Tree:
        """The paper's single tree."""
        return Tree(per_stratum=False, max_leaves=LEAVES)

    def corrected(self, seed: int) -> Marble:
        if not self.training:
            return self
        teacher, rng = replace(self, drag=self.training_drag), stream(self.seed_here(seed), "training")
        return replace(self, correction=marble_correction(teacher, self.training, rng))

    def oracle(self) -> Marble:
        if self.drag:
            raise CaptureError("the marble's model has no drag; there is no oracle of a true system with drag.")
        return replace(self, model_gain=self.true_gain, correction=None)

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The approximate model as a Gaussian: its noise-free step, walls included, and its linear covariance.

        Action noise reaches the position through tilt, speed and position: after n substeps with weight C(n, 3) Δt³.
        """
        after = self.believed_step(X[:, :6], X[:, 6:], np.zeros((len(X), 2)))
        return after[:, [0, 2]], np.tile(self.one_step_spread**2 * np.eye(2), (len(X), 1, 1))

    @property
    def one_step_spread(self) -> float:
        """Standard deviation (m) of the model's next position, by its linear dynamics, on each axis."""
        return comb(dynamics.SUBSTEPS, 3) * dynamics.DT**3 * self.model_gain * dynamics.ROLLING * self.noise

    def identity(self) -> str:
        """Digest of everything that the model depends on."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    # -- data ---------------------------------------------------------------------------------------------------------

    def design_transitions(self, design: Design, draws: int, rng: np.random.Generator) -> Transitions:
        """Transitions of the true system: `draws` for each input of a design."""
        X = np.repeat(self.design_inputs(design, rng), whole_number("draws", draws, 1), axis=0)
        return self.as_transitions(X, self.true_step(X[:, :6], X[:, 6:], rng)[:, POSITION])

    @property
    def calibration_size(self) -> int:
        return DRAWS * len(self._grid_inputs())

    def transitions(self, n: int, rng: np.random.Generator) -> Transitions:
        """n transitions from random inputs, drawn in batches of the size of the paper's grid."""
        logs: list[Transitions] = []
        while sum(map(len, logs)) < n:
            logs.append(self.design_transitions("random", 1, rng))
        X, Y = (np.concatenate([getattr(log, part) for log in logs])[:n] for part in ("X", "Y"))
        return self.as_transitions(X, Y)

    def calibration(self, seed: int, n: int | None = None, advance: Advance | None = None) -> Transitions:
        """Two transitions for each input of the design, or n of them at random, in order."""
        here = self.seed_here(seed)
        data = self.design_transitions(self.design, DRAWS, stream(here, CALIBRATION))
        return data if n is None else data.rows(np.sort(stream(here, "subsets").permutation(len(data))[:n]))

    def test(self, seed: int, n: int | None = None, advance: Advance | None = None) -> TestSet:
        here = self.seed_here(seed)
        X = self.design_inputs(self.test_design or self.design, stream(here, TEST))[:n]
        return TestSet(X, partial(self.outcomes, seed=here))

    def design_inputs(self, design: Design, rng: np.random.Generator) -> Floats:
        """State-action pairs (n, 8): the paper's Cartesian grid, or as many drawn uniformly over the feasible space."""
        known_name("design", design, get_args(Design))
        grid = self._grid_inputs()
        return grid if design == "grid" else self.inputs(len(grid), rng)

    def _grid_inputs(self) -> Floats:
        speed, tilt, action = dynamics.MAX_SPEED, dynamics.MAX_TILT, dynamics.MAX_ACTION
        speeds, tilts, actions = np.linspace(-speed, speed, 3), np.linspace(-tilt, tilt, 3), np.linspace(-action, action, 4)
        rest = np.array(list(product(speeds, speeds, tilts, tilts, actions, actions)))
        positions = self._grid_positions()
        X = np.empty((len(positions), len(rest), 8))
        X[:, :, 0], X[:, :, 2] = positions[:, None, 0], positions[:, None, 1]
        X[:, :, [1, 3, 4, 5, 6, 7]] = rest
        return X.reshape(-1, 8)

    def _grid_positions(self) -> Floats:
        width, height = (side * MILLIMETRE for side in self.map.size)
        wanted = np.array(list(product(np.linspace(0, width, GRID_POSITIONS), np.linspace(0, height, GRID_POSITIONS))))
        moved = self.strata.nearest_free(wanted)
        return np.asarray(moved[np.linalg.norm(moved - wanted, axis=1) <= FARTHEST_MOVE])

    def inputs(self, n: int, rng: np.random.Generator) -> Floats:
        """State-action pairs (n, 8) drawn uniformly over the feasible space."""
        positions = np.empty((0, 2))
        while len(positions) < n:
            tried = rng.random((n, 2)) * np.array(self.map.size) * MILLIMETRE
            positions = np.concatenate([positions, tried[self.map.clearance(tried) >= 0]])
        bounds = [dynamics.MAX_SPEED, dynamics.MAX_SPEED, dynamics.MAX_TILT, dynamics.MAX_TILT]
        rest = rng.uniform(-1, 1, size=(n, 6)) * [*bounds, dynamics.MAX_ACTION, dynamics.MAX_ACTION]
        X = np.empty((n, 8))
        X[:, [0, 2]] = positions[:n]
        X[:, [1, 3, 4, 5, 6, 7]] = rest
        return X

    # -- closed loop --------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Mapping[str, Row]:
        from capture_lab.tasks.marble.options import ROWS

        return ROWS

    def rollout(
        self, cap: Fitted, horizon: int, weights: MarbleWeights | None, alpha: float, simultaneous: bool
    ) -> FusedRollout:
        from capture_lab.tasks.marble.planner import marble_rollout

        return marble_rollout(cap, self, horizon, weights, alpha, simultaneous)

    def exploration(self, weights: Any) -> Floats:
        return np.array([[1.0, 0.1], [0.1, 1.0]])

    def temperature(self, settings: PlannerSettings, weights: MarbleWeights | None) -> Callable[[Floats], float]:
        from capture_lab.tasks.marble.planner import marble_temperature

        return marble_temperature(self, settings, weights)

    @cached_property
    def to_goal(self) -> Floats:
        """Distances (m) of cell centres from the goal along paths that avoid walls and pits, (nx, ny)."""
        grid, strata = self.strata.require_grid(), self.strata
        goal = np.unravel_index(strata.goal_cell(), grid.shape)
        passable = (strata.labels != INFEASIBLE) & ~strata.pit_cells
        return traversable_distance(passable.reshape(grid.shape), (int(goal[0]), int(goal[1])), float(grid.spacing[0]))

    @property
    def in_closed_loop(self) -> Marble:
        """The same task with pits and a goal that stop the marble."""
        return replace(self, absorb=True)

    @property
    def hazard(self) -> Bools:
        return self.strata.pit_cells

    def practice_file(self, row: Row) -> Path | None:
        file = Path(__file__).with_name("practice") / f"{self.slug}.capture"
        if replace(row, practice=0) != self.rows["capture"] or self.slug not in MAP_NAMES or not file.is_file():
            return None
        return file if self.design == "grid" and self == Marble(load_map(self.slug)) else None

    def starts(self, n: int) -> Floats:
        """The marble at rest at the start of its map, the board level: (n, 6)."""
        x, y = (value * MILLIMETRE for value in self.map.start)
        return np.tile([x, 0.0, y, 0.0, 0.0, 0.0], (n, 1))

    def closed_loop(self, start: Floats) -> System:
        """The true marble; pits and the goal end the episode within the substep."""
        together = self.closed_loops()

        def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
            after, outcomes = together(state[None], action[None], [rng])
            return after[0], outcomes[0]

        return act

    def closed_loops(self) -> Systems:
        real = self.in_closed_loop

        def act(states: Floats, actions: Floats, rngs: Sequence[np.random.Generator]) -> tuple[Floats, Sequence[str | None]]:
            noise = self.noise * np.concatenate([rng.standard_normal((1, 2)) for rng in rngs])
            after, outcomes = real._true_step(states, actions, noise)
            return after, [OUTCOMES.get(outcome) for outcome in outcomes.tolist()]

        return act

    def check_episode(self, episode: Episode) -> None:
        super().check_episode(episode)
        if (self.map.clearance(episode.states[:, POSITION]) < -TOLERANCE).any():
            raise CaptureError(f"the episode passes through walls of {self.map.name}; it was recorded on another map.")

    # -- pictures -----------------------------------------------------------------------------------------------------

    def drawing(self) -> MarbleDrawing:
        from capture_lab.tasks.marble.drawing import MarbleDrawing

        return MarbleDrawing(self)
