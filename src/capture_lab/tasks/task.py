"""The base class of all robots, used by every study, video and page, with defaults where they exist."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, finite_array, known_name, whole_number
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.methods import METHODS, method
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device
from capture_cp.data.rollouts import Rollouts
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import Episode, System
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.rollout import PythonRollout, Rollout, Stage
from capture_cp.planning.settings import PlannerSettings
from capture_cp.spaces.metrics import Euclidean, Metric, wrap_angle
from capture_cp.spaces.strata import Strata, grid_of, has_grid
from capture_lab.tasks.extent import Extent, nowhere
from capture_lab.tasks.rows import Row, planning_rows

if TYPE_CHECKING:
    from capture_cp.planning.batch import Systems
    from capture_lab.tasks.drawing import Drawing

#: What must be avoided: cells of a grid, bool (cells,), or a function of configurations (n, dc), see `PythonRollout`.
Hazard = Bools | Callable[[Floats], Any]
#: Called with the number of finished transitions while many are simulated.
Advance = Callable[[int], object]

CALIBRATION, TEST, SINGLE = "calibration", "test", "single"
STARTS = 1000  # size of the set that random starts are drawn from
TEST_PART = 4096  # test inputs whose particles are drawn together

#: For a task without its own settings; rolled out in Python, so few samples. The temperature is in the unit of its cost.
PLANNER = PlannerSettings(horizon=4, samples=64, temperature=0.02)


class TaskOptions:
    """Options of a task before its place is chosen; a dataclass whose fields are command-line options.

    Class attributes:
        name: name under which the task is registered.
        defaults: default options of a study for this task, by study and option.
        paper: file with the paper's figures for this task, see `capture_lab.studies.paper`.
        everywhere: name of the rows that add up all places.
        weights: class of the weights of the planner's objective, a dataclass; its fields become options.
        ladder: settings of the planner to certify, by name, from the safest; see `capture_lab.tasks.candidates`.
    """

    name: ClassVar[str]
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    paper: ClassVar[Path | None] = None
    everywhere: ClassVar[str] = "all places"
    weights: ClassVar[type[Any] | None] = None
    ladder: ClassVar[Mapping[str, Mapping[str, Any]]] = {name: {"method": name} for name in ("capture", "particles")}

    def places(self) -> Mapping[str, Task]:
        """The tasks that a study runs over, by name."""
        raise NotImplementedError

    @property
    def place_names(self) -> tuple[str, ...]:
        """The names of the places."""
        return tuple(self.places())

    def at(self, place: str) -> Task:
        """One of these tasks, as used in planning; requirements of its true system alone are not checked."""
        places = self.places()
        return places[known_name("place", place, places)]

    @property
    def in_paper(self) -> bool:
        """Whether these are the places of the paper, so that its figures can be compared with ours."""
        return True


class Task(TaskOptions):
    """A robot in one place: its strata, its model, its true system, its data and its planner.

    States are (ds,), actions (da,), configurations (dc,): the entries `axes` of a state. An input x (ds + da,) is a state
    and an action. Derive from this class and implement the methods that raise `NotImplementedError`; every study, video and
    page then works with it; without a cost it has no planner. If it is a dataclass, its fields become command-line options.

    Class attributes, in addition to those of `TaskOptions`:
        axes: which entries of the state are the configuration.
        states, actions: names of the entries of a state and of an action.
        rate: control steps per second, for videos.
        max_steps: steps after which an episode has timed out.
        particles: particles L of a prediction, by default.
        logged_test: whether test transitions are a log, with one outcome per input, instead of drawn for each input.
        calibration_rollouts: rollouts that calibrate the regions of a horizon.
        region_steps: number of a plan's steps with their own regions in such rows; None for all of them.
        correction_shape: of the numbers in the field `correction` of a corrected task; None if it has none.
        adapts_at_once: whether rows that adapt raise tiny thresholds to `cell` from the first plan on, or from the first
            executed step on.
    """

    #: LUCCa's ellipsoids have no Python rollout, which the default `planner` uses.
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "plan": {"methods": tuple(name for name in METHODS if name != "lucca")},
    }
    axes: ClassVar[Sequence[int]]
    states: ClassVar[tuple[str, ...]]
    actions: ClassVar[tuple[str, ...]]
    rate: ClassVar[float] = 10.0
    max_steps: ClassVar[int] = 100
    particles: ClassVar[int] = 16
    logged_test: ClassVar[bool] = False
    calibration_rollouts: ClassVar[int] = 20_000
    region_steps: ClassVar[int | None] = None
    correction_shape: ClassVar[tuple[int, int] | None] = None
    adapts_at_once: ClassVar[bool] = True

    # -- what every robot provides -------------------------------------------------------------------------------------

    @property
    def strata(self) -> Strata:
        """The stratified configuration space, with a grid or, for many axes, without."""
        raise NotImplementedError

    @property
    def bounds(self) -> Floats:
        """The largest action on every axis, (da,)."""
        raise NotImplementedError

    def model_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) by the approximate model, one particle each."""
        raise NotImplementedError

    def true_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) of the true system."""
        raise NotImplementedError

    def inputs(self, n: int, rng: np.random.Generator) -> Floats:
        """Random feasible inputs (n, ds + da): the starts of calibration and test transitions."""
        raise NotImplementedError

    # -- what a robot provides to be planned for -----------------------------------------------------------------------

    def starts(self, n: int) -> Floats:
        """States (n, ds) where the episodes of the planning study start."""
        raise NotImplementedError

    @property
    def hazard(self) -> Hazard:
        """What must be avoided; nothing by default. Without a grid it is a function."""
        if not has_grid(self.strata):
            return nowhere
        return np.zeros(grid_of(self.strata).require_grid().size, dtype=bool)

    def cost(self, stage: Stage, weights: Any) -> Floats:
        """Stage costs (N,) of a plan's step; `weights` are those of a row."""
        raise NotImplementedError

    def outcome(self, state: Floats) -> str | None:
        """How an episode has ended, or None: "success", "fell", ..."""
        return None

    # -- where it is ---------------------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The map, hole or variant; episodes and data of two places use independent random numbers."""
        return self.name

    def places(self) -> Mapping[str, Task]:
        """This task alone."""
        return {self.place: self}

    @property
    def depends_on(self) -> dict[str, Any]:
        """The fields that distinguish this task from others, for file names."""
        kept: tuple[Any, ...] = fields(self) if is_dataclass(self) else ()
        return {"task": self.name, "place": self.place} | {e.name: getattr(self, e.name) for e in kept if e.compare}

    @property
    def slug(self) -> str:
        """The place as part of a file name."""
        return re.sub(r"\W+", "-", self.place.lower()).strip("-") or self.name

    @property
    def metric(self) -> Metric:
        """The metric of configurations."""
        return Euclidean()

    @property
    def regimes(self) -> tuple[str, ...]:
        """Groups of strata that tables report."""
        return self.strata.names

    @property
    def stratum_regimes(self) -> Ints:
        """The number of the regime of every stratum, (M,)."""
        return np.arange(len(self.strata.names))

    @property
    def reported(self) -> tuple[str, ...]:
        """The regimes with their own rows in tables; the others count in "all" only."""
        return self.regimes

    @property
    def cell(self) -> float:
        """A small length of configurations: a cell of the grid along its first axis, or without a grid `extent.small`."""
        if not has_grid(self.strata):
            return self.extent.small
        return float(grid_of(self.strata).require_grid().spacing[0])

    @cached_property
    def extent(self) -> Extent:
        """The range of random inputs' configurations: the bounds of a space without a grid."""
        return Extent.of(self.inputs, list(self.axes), self.metric)

    # -- the approximate model -----------------------------------------------------------------------------------------

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """The approximate model: particles (n, L, dc) of the next configuration."""
        rows, ds = np.repeat(X, n_particles, axis=0), len(self.states)
        after = self.model_step(rows[:, :ds], rows[:, ds:], rng)[:, list(self.axes)]
        return np.ascontiguousarray(after.reshape(len(X), n_particles, len(self.axes)))  # as compiled code requires

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The model as a Gaussian, for LUCCa: means (n, dc) and covariances (n, dc, dc), by default from particles."""
        cloud = self(X, 64, stream(0, "gaussian"))
        for axis in self.metric.angles(cloud.shape[2]):  # unwrap: particles on both sides of ±π have no mean between them
            cloud[..., axis] = cloud[:, :1, axis] + wrap_angle(cloud[..., axis] - cloud[:, :1, axis])
        away = cloud - cloud.mean(axis=1, keepdims=True)
        least = (0.1 * self.cell) ** 2 * np.eye(cloud.shape[2])  # particles that are all stopped by a wall have no spread
        return cloud.mean(axis=1), np.einsum("nli,nlj->nij", away, away) / 63 + least

    def corrected(self, seed: int) -> Task:
        """The task with a model whose bias was corrected by separate true transitions."""
        raise CaptureError(f"{self.name} has no corrected model; leave out the rows whose names end in -residual.")

    def oracle(self) -> Task:
        """The task with its true system as the model."""
        raise CaptureError(f"{self.name} cannot plan with its true system; leave out the rows whose names end in -oracle.")

    def with_correction(self, correction: Any) -> Task:
        """The task with the correction of a recorded episode, read from JSON; None is the uncorrected model."""
        if correction is None:
            return self
        if self.correction_shape is None:
            raise CaptureError(f"the episode has a corrected model, but {self.name} has none; it is of another task.")
        terms = finite_array("the correction of the episode", correction, self.correction_shape, f"{self.correction_shape}")
        corrected: Any = replace(self, correction=tuple(map(tuple, terms.tolist())))  # type: ignore[type-var]
        return corrected  # type: ignore[no-any-return]

    def method(
        self, name: str, n_particles: int | None = None, tree: Tree | None = None, seed: int = 0, k: int | None = None
    ) -> Capture:
        """One of the six methods for this task, ready to `fit`."""
        parts: dict[str, Any] = {
            "n_particles": n_particles or self.particles,
            "tree": tree or self.tree,
            "metric": self.metric,
        }
        return method(name, self, self.strata, k=k, seed=seed, **parts)

    @property
    def tree(self) -> Tree:
        """The tree of this task's methods, by default."""
        return Tree()

    # -- data of the true system ---------------------------------------------------------------------------------------

    def seed_here(self, seed: int) -> int:
        """The seed for this place: two places use independent random numbers."""
        return derived_seed(seed, self.name, self.place)

    def transitions(self, n: int, rng: np.random.Generator) -> Transitions:
        """n transitions of the true system from random inputs."""
        return self.as_transitions(*self._landed(self.inputs(whole_number("n", n, 1), rng), rng))

    @property
    def calibration_size(self) -> int:
        """How many calibration transitions there are by default."""
        return self._number(None, CALIBRATION)

    def calibration(self, seed: int, n: int | None = None, advance: Advance | None = None) -> Transitions:
        """The transitions that methods are calibrated on, or n of them; the same for every method and study."""
        return self.transitions(self._number(n, CALIBRATION), stream(self.seed_here(seed), CALIBRATION))

    def test(self, seed: int, n: int | None = None, advance: Advance | None = None) -> TestSet:
        """The test set of calibrations."""
        here = self.seed_here(seed)
        return TestSet(self.inputs(self._number(n, TEST), stream(here, TEST)), partial(self.outcomes, seed=here))

    def test_parts(self, n: int) -> list[slice]:
        """The rows of n test inputs in parts; the particles of a part are drawn together."""
        size = n if self.logged_test else TEST_PART
        return [slice(first, min(first + size, n)) for first in range(0, n, size)]

    def outcomes(self, X: Floats, draws: int, seed: int, first: int = 0, first_draw: int = 0) -> Floats:
        """`draws` next configurations of the true system for each input X (n, dx): (n, draws, dc).

        The inputs are numbered from `first`, the draws from `first_draw`; the noise depends on these numbers.
        """
        _, Y = self._landed(np.repeat(X, draws, axis=0), stream(seed, "outcomes", first, first_draw))
        return Y.reshape(len(X), draws, -1)

    def outcomes_on_cuda(self) -> OutcomesOnCuda | None:
        """`outcomes` drawn on a GPU and kept there; None if not supported."""
        return None

    def prediction_stream(self, seed: int, first: int) -> np.random.Generator:
        """The random numbers behind the particles of test inputs, numbered from `first`."""
        return stream(self.seed_here(seed), "predictions", first)

    def rollouts(
        self, seed: int, purpose: str, n: int, horizon: int, hold: int = 1, advance: Advance | None = None
    ) -> Rollouts:
        """n open-loop rollouts of the true system, with uniform actions within their bounds, each held for `hold` steps."""
        rng, n, H = stream(self.seed_here(seed), purpose), whole_number("n", n, 1), whole_number("horizon", horizon, 1)
        starts = self.inputs(n, rng)[:, : len(self.states)]
        high = self.bounds
        drawn = rng.uniform(-high, high, size=(n, ceil(H / whole_number("hold", hold, 1)), len(high)))
        return Rollouts.simulate(self.true_step, starts, np.repeat(drawn, hold, axis=1)[:, :H], list(self.axes), rng)

    def single_steps(self, seed: int, n: int, advance: Advance | None = None) -> tuple[Floats, Floats]:
        """n transitions X (n, dx), Y (n, dc) like the steps of rollouts, for a one-step calibration to compare with."""
        return self.rollouts(seed, SINGLE, n, 1).transitions()

    def as_transitions(self, X: Floats, Y: Floats) -> Transitions:
        """Inputs X (n, ds + da) and next configurations Y (n, dc) with the names of their columns."""
        ds, after = len(self.states), tuple(f"next_{self.states[axis]}" for axis in self.axes)
        return Transitions.from_arrays(X[:, :ds], X[:, ds:], Y, self.states, self.actions, after)

    def _landed(self, X: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        ds = len(self.states)
        return X, self.true_step(X[:, :ds], X[:, ds:], rng)[:, list(self.axes)]

    def _number(self, n: int | None, purpose: str) -> int:
        return int(self.defaults.get("coverage", {}).get(purpose, 20_000)) if n is None else n

    # -- closed loop ---------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Mapping[str, Row]:
        """How each row of the planning table plans, by name."""
        return planning_rows((PLANNER, None if self.weights is None else self.weights()))

    def planner(
        self,
        cap: Fitted,
        settings: PlannerSettings,
        weights: Any = None,
        alpha: float = 0.1,
        seed: int = 0,
        device: Device = "cpu",
        simultaneous: bool = False,
    ) -> MPPI:
        """A planner that uses the regions of `cap`."""
        rollout, high = self.rollout(cap, settings.horizon, weights, alpha, simultaneous), self.bounds
        return MPPI(
            rollout,
            settings.horizon,
            settings.sampled,
            self.temperature(settings, weights),
            noise=self.exploration(weights),
            low=-high,
            high=high,
            iterations=settings.iterations,
            elites=settings.elites,
            repeats=settings.repeats,
            seed=seed,
            device=device,
        )

    def rollout(self, cap: Fitted, horizon: int, weights: Any, alpha: float, simultaneous: bool) -> Rollout:
        """The cost that `planner` plans with: by default, `model_step` and `cost` in Python."""
        cost, how = partial(self.cost, weights=weights), (self.hazard, self.axes, alpha)
        return PythonRollout(cap, self.model_step, cost, *how, simultaneous=simultaneous, farthest=self.farthest)

    def exploration(self, weights: Any) -> Floats:
        """The covariance (da, da) of sampled actions: by default, half of the bounds as standard deviations."""
        return np.diag((self.bounds / 2) ** 2)

    def temperature(self, settings: PlannerSettings, weights: Any) -> float | Callable[[Floats], float]:
        """The temperature of `planner`, or a function of the state (ds,)."""
        return settings.temperature

    @property
    def farthest(self) -> float | None:
        """Distance from its particles up to which an unbounded region is searched with a hazard function."""
        return None if has_grid(self.strata) else self.extent.width

    def random_starts(self, seeds: Sequence[int]) -> Floats:
        """A start drawn at random for every seed (n,), one of the first thousand of `starts`: (n, ds).

        Certificates require independent starts; those of a space-filling sequence are not.
        """
        every = self.starts(STARTS)
        return every[[int(stream(seed, "starts").integers(len(every))) for seed in seeds]]

    @property
    def in_closed_loop(self) -> Task:
        """The task of planner and true system in closed loop, if it differs from that of the calibration data."""
        return self

    def closed_loop(self, start: Floats) -> System:
        """The true system, ready to be stepped from a state (ds,)."""

        def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
            after = self.true_step(state[None], action[None], rng)[0]
            return after, self.outcome(after)

        return act

    def practice_file(self, row: Row) -> Path | None:
        """A saved calibration on practice runs of a row with seed 0 and this task's default settings, or None."""
        return None

    def closed_loops(self) -> Systems | None:
        """Many true systems at once, each with the noise of `closed_loop`; None if they cannot be batched."""
        return None

    def check_episode(self, episode: Episode) -> None:
        """Reject a recorded episode that cannot be of this task."""
        ds, da = len(self.states), len(self.actions)
        shapes = episode.states.shape[1:], episode.actions.shape[1:], episode.plans.shape[2:]
        if not episode.steps or shapes != ((ds,), (da,), (da,)):
            raise CaptureError(
                f"the episode is not of the {self.name}: its states are {episode.states.shape} and its actions "
                f"{episode.actions.shape}; expected (T + 1, {ds}) and (T, {da}), as recorded by capture plan."
            )
        if not all(np.isfinite(part).all() for part in (episode.states, episode.actions, episode.plans, episode.particles)):
            raise CaptureError("the episode holds NaN or infinite states, actions or particles; record it again.")

    # -- pictures ------------------------------------------------------------------------------------------------------

    def drawing(self) -> Drawing:
        """The object that draws figures, videos and the live page of this task; needs matplotlib."""
        from capture_lab.tasks.drawing import Drawing

        return Drawing(self)


class OutcomesOnCuda(Protocol):
    """Outcomes of a task's true system, drawn on a GPU."""

    def draw(self, X: Any, seed: int, first: int, first_draw: int, Y: Any, labels: Any, totals: Any) -> None:
        """Like `Task.outcomes`, into arrays on the GPU: Y (n * draws, dc), and its strata, int8 (n * draws,).

        Their number is added to totals (n, M), int64, by stratum.
        """


@dataclass(frozen=True)
class TestSet:
    """Test data of a calibration: inputs, and next configurations of the true system.

    Attributes:
        X: test inputs (n, dx).
        draw: outcomes of inputs, called like `Task.outcomes` without a seed; None for a log.
        Y: the single logged outcome of every input, (n, dc), if outcomes are not drawn.
        note: remark for the reader of its results.
    """

    __test__ = False  # its name would make pytest collect it

    X: Floats
    draw: Callable[..., Floats] | None = None
    Y: Floats | None = None
    note: str = ""

    def outcomes(self, rows: slice, draws: int, first_draw: int = 0) -> Floats:
        """`draws` outcomes of some rows, numbered from `first_draw` on: (rows, draws, dc)."""
        if self.draw is None:
            assert self.Y is not None  # one of the two is given
            return self.Y[rows, None]
        return self.draw(self.X[rows], draws, first=rows.start, first_draw=first_draw)

    def some(self, rows: Ints) -> TestSet:
        """The inputs of these rows (m,), in their order."""
        return replace(self, X=self.X[rows], Y=None if self.Y is None else self.Y[rows])
