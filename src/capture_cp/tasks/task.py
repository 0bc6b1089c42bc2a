"""What every study, film and page asks of a robot: one class to derive from, with a default for all that can have one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, partial
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from capture_cp.base.checks import Bools, CaptureError, Floats, Ints, known_name, whole_number
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.fitted import Fitted
from capture_cp.capture.methods import METHODS, method
from capture_cp.capture.region_draws import has_grid
from capture_cp.conformal.groups import Tree
from capture_cp.cuda.device import Device
from capture_cp.data.rollouts import Rollouts
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import Episode, System
from capture_cp.planning.mppi import MPPI
from capture_cp.planning.rollout import PythonRollout, Stage
from capture_cp.planning.settings import PlannerSettings
from capture_cp.spaces.metrics import Euclidean, Metric, wrap_angle
from capture_cp.spaces.strata import Strata, grid_of
from capture_cp.tasks.extent import Extent, nowhere
from capture_cp.tasks.rows import Row, Setting, Worth, method_rows, own_rows, practice_rows

if TYPE_CHECKING:
    from capture_cp.planning.batch import Systems
    from capture_cp.tasks.drawing import Drawing
    from capture_cp.tasks.scene import Scene

#: What must be avoided: cells of a grid, bool (cells,), or a function of configurations (n, dc), see `PythonRollout`.
Hazard = Bools | Callable[[Floats], Any]
#: Called with the number of transitions done, while many are simulated.
Advance = Callable[[int], object]

CALIBRATION, TEST, SINGLE = "calibration", "test", "single"
STARTS = 1000  # that random starts are drawn from

#: Of a task without settings of its own; rolled out in Python, so few samples. The temperature is in the unit of its cost.
PLANNER = PlannerSettings(horizon=4, samples=64, temperature=0.02)
#: What can be varied of any task.
VARIED = {
    "k": Setting("k", "neighbour k, of 16 particles", (1, 2, 4, 8, 12), 8),
    "particles": Setting("particles", "particles L, with k = L/2", (4, 8, 16, 32), 16),
    "leaves": Setting("max_leaves", "most leaves per tree", (5, 20, 80, None), 20),
    "calibration": Setting("calibration", "share of the calibration data", (1 / 64, 1 / 16, 1 / 4, 1), 1),
    "alpha": Setting("alpha", "alpha", (0.02, 0.1, 0.3, 0.5), 0.1),
    "temperature": Setting("temperature", "times the row's own temperature", (0.25, 1, 4), 1, relative=True),
}


class TaskOptions:
    """What studies and the command line ask of a task before it is in a place; a dataclass whose fields are its options.

    Class attributes:
        name: under which the task is registered.
        defaults: what a study's options are for this task, by study and option.
        paper: file with what the paper printed about this task, see `capture_cp.studies.paper`.
        everywhere: name of the rows that add up all places.
        weights: class of the weights of the planner's objective, a dataclass; its fields become options.
        varied: what the sensitivity study varies, by name.
        worth: what the study of when regions help varies; None where there is nothing for it.
        ladder: settings of the planner to certify, by name, from the safest on; see `capture_cp.tasks.candidates`.
    """

    name: ClassVar[str]
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    paper: ClassVar[Path | None] = None
    everywhere: ClassVar[str] = "all places"
    weights: ClassVar[type[Any] | None] = None
    varied: ClassVar[Mapping[str, Setting]] = VARIED
    worth: ClassVar[Worth | None] = None
    ladder: ClassVar[Mapping[str, Mapping[str, Any]]] = {name: {"method": name} for name in ("capture", "particles")}

    def places(self) -> Mapping[str, Task]:
        """The tasks that a study runs over, by the names that these options give them."""
        raise NotImplementedError

    @property
    def place_names(self) -> tuple[str, ...]:
        """The names that these options give to places."""
        return tuple(self.places())

    def at(self, place: str) -> Task:
        """One of these tasks, as planning has it; nothing that only its true system needs is checked."""
        places = self.places()
        return places[known_name("place", place, places)]

    @property
    def in_paper(self) -> bool:
        """Whether these are the places of the paper, so that its figures may stand beside ours."""
        return True


class Task(TaskOptions):
    """A robot in one place: its strata, its model, its true system, its data and its planner.

    States are (ds,), actions (da,), configurations (dc,): the entries `axes` of a state. An input x (ds + da,) is a state
    and an action. Derive from this class, give it what raises here, and every study, film and page works with it. As a
    dataclass its fields become options of the command line.

    Class attributes, beside those of `TaskOptions`:
        axes: which entries of the state are the configuration.
        states, actions: names of the entries of a state and of an action.
        rate: control steps per second, for films.
        max_steps: steps after which an episode has timed out.
        particles: particles L of a prediction, by default.
        test_part: test inputs whose particles are drawn together, None for all of them.
        draws: most outcomes of a test input that there are, None for any number.
        calibration_rollouts: rollouts that calibrate the regions of a horizon.
        region_steps: steps of a plan that have regions of their own in such rows, None for all of them.
        adapts_at_once: whether rows that adapt raise tiny thresholds to `cell` from the first plan on, or from the first
            executed step on.
    """

    #: LUCCa's ellipsoids have no rollout in Python, which is what `planner` plans with unless a task has its own.
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "plan": {"methods": tuple(name for name in METHODS if name != "lucca")},
        "promises": {"samples": PLANNER.samples},
    }
    axes: ClassVar[Sequence[int]]
    states: ClassVar[tuple[str, ...]]
    actions: ClassVar[tuple[str, ...]]
    rate: ClassVar[float] = 10.0
    max_steps: ClassVar[int] = 100
    particles: ClassVar[int] = 16
    test_part: ClassVar[int | None] = 4096
    draws: ClassVar[int | None] = None
    calibration_rollouts: ClassVar[int] = 20_000
    region_steps: ClassVar[int | None] = None
    adapts_at_once: ClassVar[bool] = True

    # -- where it is --------------------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The map, hole or variant; episodes and data of two places share no random numbers."""
        return self.name

    def places(self) -> Mapping[str, Task]:
        """This task alone."""
        return {self.place: self}

    @property
    def identity(self) -> dict[str, Any]:
        """What distinguishes this task from others, for the names of files: fields that make it another task."""
        kept: tuple[Any, ...] = fields(self) if is_dataclass(self) else ()
        return {"task": self.name, "place": self.place} | {e.name: getattr(self, e.name) for e in kept if e.compare}

    def on(self, device: Device) -> Task:
        """The task with its strata and model on a device, where they can be computed there; the same task otherwise."""
        return self

    @property
    def slug(self) -> str:
        """The place as part of the name of a file."""
        return re.sub(r"\W+", "-", self.place.lower()).strip("-") or self.name

    @property
    def strata(self) -> Strata:
        """The stratified configuration space; with a grid, or without one for a space of many axes."""
        raise NotImplementedError

    @property
    def metric(self) -> Metric:
        """The distance of configurations."""
        return Euclidean()

    @property
    def regimes(self) -> tuple[str, ...]:
        """Groups of strata by which tables report."""
        return self.strata.names

    @property
    def stratum_regimes(self) -> Ints:
        """The number of the regime of every stratum, (M,)."""
        return np.arange(len(self.strata.names))

    @property
    def cell(self) -> float:
        """A small length of configurations: a cell of the grid along its first axis, or without a grid `extent.small`."""
        if not has_grid(self.strata):
            return self.extent.small
        return float(grid_of(self.strata).require_grid().spacing[0])

    @cached_property
    def extent(self) -> Extent:
        """Where random inputs' configurations lie: what stands for the bounds of a space without a grid."""
        return Extent.of(self.inputs, list(self.axes), self.metric)

    @property
    def reported(self) -> tuple[str, ...]:
        """The regimes that have rows of their own in tables; the others count in "all" only."""
        return self.regimes

    @property
    def bounds(self) -> Floats:
        """The largest action on every axis, (da,)."""
        raise NotImplementedError

    # -- the approximate model ----------------------------------------------------------------------------------------

    def model_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) by the approximate model, one particle each."""
        raise NotImplementedError

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """The approximate model: particles (n, L, dc) of the next configuration."""
        rows, ds = np.repeat(X, n_particles, axis=0), len(self.states)
        after = self.model_step(rows[:, :ds], rows[:, ds:], rng)[:, list(self.axes)]
        return np.ascontiguousarray(after.reshape(len(X), n_particles, len(self.axes)))  # as compiled answers take it

    def gaussian(self, X: Floats) -> tuple[Floats, Floats]:
        """The model as a Gaussian, for LUCCa: means (n, dc) and covariances (n, dc, dc), by default of some particles."""
        cloud = self(X, 64, stream(0, "gaussian"))
        for axis in self.metric.angles(cloud.shape[2]):  # particles on both sides of ±π have no mean between them
            cloud[..., axis] = cloud[:, :1, axis] + wrap_angle(cloud[..., axis] - cloud[:, :1, axis])
        away = cloud - cloud.mean(axis=1, keepdims=True)
        least = (0.1 * self.cell) ** 2 * np.eye(cloud.shape[2])  # where a wall stops all particles, they do not spread
        return cloud.mean(axis=1), np.einsum("nli,nlj->nij", away, away) / 63 + least

    def corrected(self, seed: int) -> Task:
        """The task with a model whose bias was learnt away from true transitions of its own."""
        raise CaptureError(f"{self.name} has no corrected model; leave out the rows whose names end in -residual.")

    def oracle(self) -> Task:
        """The task with its true system as the model."""
        raise CaptureError(f"{self.name} cannot plan with its true system; leave out the rows whose names end in -oracle.")

    def with_correction(self, correction: Any) -> Task:
        """The task with the correction of a recorded episode, read from JSON; None is the model as it is."""
        if correction is None:
            return self
        raise CaptureError(
            f"the episode has a corrected model, which {self.name} has not; it is damaged or of another task."
        )

    @property
    def correctable(self) -> bool:
        """Whether there is a `corrected` task."""
        return type(self).corrected is not Task.corrected

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

    # -- the true system and its data ---------------------------------------------------------------------------------

    def true_step(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) of the true system."""
        raise NotImplementedError

    def inputs(self, n: int, rng: np.random.Generator) -> Floats:
        """Random inputs (n, ds + da) that are feasible: where calibration and test transitions start."""
        raise NotImplementedError

    def seed_here(self, seed: int) -> int:
        """The seed of everything in this place: two places share no random numbers."""
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
        """What calibrations are tested on."""
        here = self.seed_here(seed)
        return TestSet(self.inputs(self._number(n, TEST), stream(here, TEST)), partial(self.outcomes, seed=here))

    def test_parts(self, n: int) -> list[slice]:
        """The rows of n test inputs in parts, whose particles are drawn together."""
        size = self.test_part or n
        return [slice(first, min(first + size, n)) for first in range(0, n, size)]

    def outcomes(self, X: Floats, draws: int, seed: int, first: int = 0, first_draw: int = 0) -> Floats:
        """`draws` next configurations of the true system for each input X (n, dx): (n, draws, dc).

        The inputs are numbered from `first`, the draws from `first_draw`: other numbers have other noise.
        """
        _, Y = self._landed(np.repeat(X, draws, axis=0), stream(seed, "outcomes", first, first_draw))
        return Y.reshape(len(X), draws, -1)

    def outcomes_on_cuda(self) -> OutcomesOnCuda | None:
        """`outcomes` that are drawn on a GPU and stay there; None if they cannot be."""
        return None

    def prediction_stream(self, seed: int, first: int) -> np.random.Generator:
        """The random numbers behind the particles of test inputs, numbered from `first`."""
        return stream(self.seed_here(seed), "predictions", first)

    def rollouts(
        self, seed: int, purpose: str, n: int, horizon: int, hold: int = 1, advance: Advance | None = None
    ) -> Rollouts:
        """n open-loop rollouts of the true system, actions uniform up to their bounds and held for `hold` steps each."""
        rng, n, H = stream(self.seed_here(seed), purpose), whole_number("n", n, 1), whole_number("horizon", horizon, 1)
        starts = self.inputs(n, rng)[:, : len(self.states)]
        high = self.bounds
        drawn = rng.uniform(-high, high, size=(n, ceil(H / whole_number("hold", hold, 1)), len(high)))
        return Rollouts.simulate(self.true_step, starts, np.repeat(drawn, hold, axis=1)[:, :H], list(self.axes), rng)

    def single_steps(self, seed: int, n: int, advance: Advance | None = None) -> tuple[Floats, Floats]:
        """n transitions X (n, dx), Y (n, dc) like the steps of rollouts, for a calibration of one step beside theirs."""
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

    # -- closed loop --------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Mapping[str, Row]:
        """How each row of the planning table plans, by name."""
        weights = None if self.weights is None else self.weights()
        return method_rows(PLANNER, weights) | practice_rows(PLANNER, weights) | own_rows(PLANNER, weights)

    @property
    def hazard(self) -> Hazard:
        """What must be avoided; nothing by default. Without a grid it is a function."""
        if not has_grid(self.strata):
            return nowhere
        return np.zeros(grid_of(self.strata).require_grid().size, dtype=bool)

    @property
    def farthest(self) -> float | None:
        """How far from its particles a region without end is looked through for a hazard that is a function."""
        return None if has_grid(self.strata) else self.extent.width

    def cost(self, stage: Stage, weights: Any) -> Floats:
        """Stage costs (N,) of a plan's step; `weights` are a row's."""
        raise NotImplementedError

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
        """A planner that uses the regions of `cap`: by default one that rolls `model_step` out in Python."""
        cost, high = partial(self.cost, weights=weights), self.bounds
        regions: dict[str, Any] = {"alpha": alpha, "simultaneous": simultaneous, "farthest": self.farthest}
        rollout = PythonRollout(cap, self.model_step, cost, self.hazard, self.axes, **regions)
        return MPPI(
            rollout,
            settings.horizon,
            settings.sampled,
            settings.temperature,
            noise=np.diag((high / 2) ** 2),
            low=-high,
            high=high,
            iterations=settings.iterations,
            elites=settings.elites,
            repeats=settings.repeats,
            seed=seed,
            device=device,
        )

    def starts(self, n: int) -> Floats:
        """States (n, ds) where the episodes of the planning study start."""
        raise NotImplementedError

    def random_starts(self, seeds: Sequence[int]) -> Floats:
        """A start drawn at random for every seed (n,), one of the first thousand of `starts`: (n, ds).

        Certificates are about episodes whose starts are independent, which a sequence that fills space evenly is not.
        """
        every = self.starts(STARTS)
        return every[[int(stream(seed, "starts").integers(len(every))) for seed in seeds]]

    @property
    def in_closed_loop(self) -> Task:
        """The task as planner and true system have it in closed loop, where calibration data differ from that."""
        return self

    def outcome(self, state: Floats) -> str | None:
        """How an episode has ended, once it has: "success", "fell", ..."""
        return None

    def closed_loop(self, start: Floats) -> System:
        """The true system, about to be stepped from a state (ds,)."""

        def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
            after = self.true_step(state[None], action[None], rng)[0]
            return after, self.outcome(after)

        return act

    def brake(self, states: Floats) -> Floats:
        """Actions (n, da) that stop the robot as quickly as it can from states (n, ds), for a `BrakingFilter`."""
        raise CaptureError(f"{self.name} has no brake; give the task a method `brake`, or play without a filter.")

    @property
    def has_brake(self) -> bool:
        """Whether there is a `brake`."""
        return type(self).brake is not Task.brake

    def practice_file(self, row: Row) -> Path | None:
        """A saved calibration on practice runs of a row with seed 0 and this task's own settings, where one is at hand."""
        return None

    def changed(self, gain: float, drag: float) -> Task:
        """The task once its true system has changed: moves are `gain` times as large, and `drag` of its speed is lost."""
        raise CaptureError(f"the true system of {self.name} cannot change; the online study needs a task with `changed`.")

    def closed_loops(self) -> Systems | None:
        """Many true systems at once, each with the noise of `closed_loop`; None if they cannot be batched."""
        return None

    def check_episode(self, episode: Episode) -> None:
        """Refuse a recorded episode that cannot be of this task."""
        ds, da = len(self.states), len(self.actions)
        shapes = episode.states.shape[1:], episode.actions.shape[1:], episode.plans.shape[2:]
        if not episode.steps or shapes != ((ds,), (da,), (da,)):
            raise CaptureError(
                f"the episode is not of the {self.name}: its states are {episode.states.shape} and its actions "
                f"{episode.actions.shape}; expected (T + 1, {ds}) and (T, {da}), as recorded by capture plan."
            )
        if not all(np.isfinite(part).all() for part in (episode.states, episode.actions, episode.plans, episode.particles)):
            raise CaptureError("the episode holds NaN or infinite states, actions or particles; record it again.")

    # -- pictures -----------------------------------------------------------------------------------------------------

    def drawing(self) -> Drawing:
        """What draws figures and films of this task; needs matplotlib."""
        from capture_cp.tasks.drawing import Drawing

        return Drawing(self)

    def scene(self) -> Scene:
        """What the live page shows of this task."""
        from capture_cp.tasks.scene import Scene

        return Scene(self)


class OutcomesOnCuda(Protocol):
    """Outcomes of a task's true system that are drawn on a GPU."""

    def draw(self, X: Any, draws: int, seed: int, first: int, first_draw: int, Y: Any, labels: Any) -> None:
        """As `Task.outcomes`, into arrays there: Y (n * draws, dc), and its strata, int8 (n * draws,)."""


@dataclass(frozen=True)
class TestSet:
    """What a calibration is tested on: inputs, and next configurations of the true system.

    Attributes:
        X: test inputs (n, dx).
        draw: outcomes of inputs, called as `Task.outcomes` is, without a seed; None for a log.
        Y: the one outcome of every input that was logged, (n, dc), where outcomes are not drawn.
        note: what a reader of its results should know.
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
