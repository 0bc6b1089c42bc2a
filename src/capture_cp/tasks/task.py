"""What every study, film and page asks of a robot: one class to derive from, with a default for all that can have one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, whole_number
from capture_cp.base.streams import derived_seed, stream
from capture_cp.capture.capture import Capture
from capture_cp.capture.methods import method
from capture_cp.conformal.groups import Tree
from capture_cp.data.rollouts import Rollouts
from capture_cp.data.transitions import Transitions
from capture_cp.planning.episode import System
from capture_cp.spaces.metrics import Euclidean, Metric
from capture_cp.spaces.strata import GriddedStrata

if TYPE_CHECKING:
    from capture_cp.planning.batch import Systems

#: Called with the number of transitions done, while many are simulated.
Advance = Callable[[int], object]

CALIBRATION, TEST, SINGLE = "calibration", "test", "single"


class TaskOptions:
    """What studies and the command line ask of a task before it is in a place; a dataclass whose fields are its options.

    Class attributes:
        name: under which the task is registered.
        defaults: what a study's options are for this task, by study and option.
        studies: studies that only this task has, `module:class` by command.
        paper: file with what the paper printed about this task, see `capture_cp.studies.paper`.
        everywhere: name of the rows that add up all places.
    """

    name: ClassVar[str]
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    studies: ClassVar[Mapping[str, str]] = {}
    paper: ClassVar[Path | None] = None
    everywhere: ClassVar[str] = "all places"

    def places(self, planning: bool = False) -> Mapping[str, Task]:
        """The tasks that a study runs over, by the names that these options give them; `planning` ends episodes at goals."""
        raise NotImplementedError


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
    """

    axes: ClassVar[Sequence[int]]
    states: ClassVar[tuple[str, ...]]
    actions: ClassVar[tuple[str, ...]]
    rate: ClassVar[float] = 10.0
    max_steps: ClassVar[int] = 100
    particles: ClassVar[int] = 16
    test_part: ClassVar[int | None] = 4096

    # -- where it is --------------------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The map, hole or variant; episodes and data of two places share no random numbers."""
        return self.name

    def places(self, planning: bool = False) -> Mapping[str, Task]:
        """This task alone."""
        return {self.place: self}

    @property
    def strata(self) -> GriddedStrata:
        """The stratified configuration space, with its grid."""
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
        return after.reshape(len(X), n_particles, len(self.axes))

    def corrected(self, seed: int) -> Task:
        """The task with a model whose bias was learnt away from true transitions of its own."""
        raise CaptureError(f"{self.name} has no corrected model; leave out the rows whose names end in -residual.")

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

    def calibration(self, seed: int, n: int | None = None, advance: Advance | None = None) -> Transitions:
        """The transitions that methods are calibrated on, or n of them; the same for every method and study."""
        return self.transitions(self._number(n, CALIBRATION), stream(self.seed_here(seed), CALIBRATION))

    def test(self, seed: int, n: int | None = None, advance: Advance | None = None) -> TestSet:
        """What calibrations are tested on."""
        X = self.inputs(self._number(n, TEST), stream(self.seed_here(seed), TEST))
        return TestSet(X, lambda rows, draws, first: self.outcomes(X[rows], draws, self.seed_here(seed), rows.start, first))

    def outcomes(self, X: Floats, draws: int, seed: int, first: int = 0, first_draw: int = 0) -> Floats:
        """`draws` next configurations of the true system for each input X (n, dx): (n, draws, dc).

        The inputs are numbered from `first`, the draws from `first_draw`: other numbers have other noise.
        """
        _, Y = self._landed(np.repeat(X, draws, axis=0), stream(seed, "outcomes", first, first_draw))
        return Y.reshape(len(X), draws, -1)

    def prediction_stream(self, seed: int, first: int) -> np.random.Generator:
        """The random numbers behind the particles of test inputs, numbered from `first`."""
        return stream(self.seed_here(seed), "predictions", first)

    def rollouts(
        self, seed: int, purpose: str, n: int, horizon: int, hold: int = 1, advance: Advance | None = None
    ) -> Rollouts:
        """n open-loop roll-outs of the true system, actions uniform up to their bounds and held for `hold` steps each."""
        rng, n, H = stream(self.seed_here(seed), purpose), whole_number("n", n, 1), whole_number("horizon", horizon, 1)
        starts = self.inputs(n, rng)[:, : len(self.states)]
        high = self.bounds
        drawn = rng.uniform(-high, high, size=(n, ceil(H / whole_number("hold", hold, 1)), len(high)))
        return Rollouts.simulate(self.true_step, starts, np.repeat(drawn, hold, axis=1)[:, :H], list(self.axes), rng)

    def single_steps(self, seed: int, n: int, advance: Advance | None = None) -> tuple[Floats, Floats]:
        """n transitions X (n, dx), Y (n, dc) like the steps of roll-outs, for a calibration of one step beside theirs."""
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

    def starts(self, n: int) -> Floats:
        """States (n, ds) where the episodes of the planning study start."""
        raise NotImplementedError

    def outcome(self, state: Floats) -> str | None:
        """How an episode has ended, once it has: "success", "fell", ..."""
        return None

    def closed_loop(self, start: Floats) -> System:
        """The true system, about to be stepped from a state (ds,)."""

        def act(state: Floats, action: Floats, rng: np.random.Generator) -> tuple[Floats, str | None]:
            after = self.true_step(state[None], action[None], rng)[0]
            return after, self.outcome(after)

        return act

    def closed_loops(self) -> Systems | None:
        """Many true systems at once, each with the noise of `closed_loop`; None if they cannot be batched."""
        return None


@dataclass(frozen=True)
class TestSet:
    """What a calibration is tested on.

    Attributes:
        X: test inputs (n, dx).
        outcomes: next configurations (rows, draws, dc) of some rows of X, from a number of the draws on.
        draws: most outcomes of an input that there are, None for any number.
        note: what a reader of its results should know.
    """

    __test__ = False  # its name would make pytest collect it

    X: Floats
    outcomes: Callable[[slice, int, int], Floats]
    draws: int | None = None
    note: str = ""

    @classmethod
    def recorded(cls, log: Transitions, note: str = "") -> TestSet:
        """Transitions as they were logged: one outcome of each input."""
        return cls(log.X, lambda rows, draws, first: log.Y[rows, None], draws=1, note=note)
