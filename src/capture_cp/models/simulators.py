"""What predicts a robot's next states from logged ones: model files, programs, recordings, and rules that cost nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints
from capture_cp.data.states import StateLog, changed, slots
from capture_cp.models.mujoco_rollouts import randomised, rolled_out
from capture_cp.spaces.mujoco_model import mujoco_module, read_model

JOINT_TRANSMISSION, AFFINE = 0, 1  # of MuJoCo: an actuator on a joint, a force affine in its position
#: Start noise by what it concerns: kinds of joints, whether of their rates, and which of their numbers.
NOISES: Mapping[str, tuple[tuple[str, ...], bool, slice]] = {
    "position": (("free",), False, slice(0, 3)),
    "rotation": (("free", "ball"), False, slice(-3, None)),
    "velocity": (("free",), True, slice(0, 3)),
    "turning": (("free", "ball"), True, slice(-3, None)),
    "angle": (("hinge",), False, slice(0, 1)),
    "angle_rate": (("hinge",), True, slice(0, 1)),
    "slide": (("slide",), False, slice(0, 1)),
    "slide_rate": (("slide",), True, slice(0, 1)),
}
#: What a program is called with, in its two forms.
PROGRAM = (
    "a callable model(qpos, qvel, ctrl, steps, seconds) -> (n, steps, nq) with an attribute velocities = True, or, for one "
    "step, model(X, n_particles, rng) -> (n, n_particles, nq)"
)


@dataclass(frozen=True)
class Start:
    """Where predictions begin: rows (m,) of a log, and the states there, perturbed or not; and the numbers of steps."""

    log: StateLog
    rows: Ints
    steps: tuple[int, ...]
    qpos: Floats
    qvel: Floats

    @classmethod
    def of(cls, log: StateLog, rows: Ints, steps: Sequence[int]) -> Start:
        """The logged states in some rows."""
        return cls(log, rows, tuple(steps), log.start[rows], log.qvel[rows])

    @property
    def furthest(self) -> int:
        """The number of steps to compute: no row needs more than its episode has."""
        return min(self.steps[-1], int(self.log.after[self.rows].max(initial=0)))

    def commands(self) -> Floats:
        """The commands from each start on, (m, furthest, nu); beyond the end of an episode the last one."""
        return commands_from(self.log, self.rows, self.furthest)

    def perturbed(self, noise: Mapping[str, float], copies: int, rng: np.random.Generator) -> Start:
        """Every start `copies` times, each with start noise of its own."""
        rows = np.repeat(self.rows, copies)
        joints = self.log.columns.joints
        moves, rates = np.zeros((2, len(rows), self.qvel.shape[1]))
        for name, deviation in noise.items():
            kinds, of_rates, part = NOISES[name]
            for slot in slots(joints):
                if slot.joint.kind in kinds:
                    drawn = (rates if of_rates else moves)[:, slot.v][:, part]
                    drawn += deviation * rng.standard_normal(drawn.shape)
        qpos, qvel = np.repeat(self.qpos, copies, axis=0), np.repeat(self.qvel, copies, axis=0)
        return replace(self, rows=rows, qpos=changed(joints, qpos, moves), qvel=qvel + rates)


def commands_from(log: StateLog, rows: Ints, count: int) -> Floats:
    """So many commands from each row on, (m, count, nu); beyond the end of an episode the last one."""
    return log.ctrl[rows[:, None] + np.minimum(np.arange(count), log.after[rows][:, None])]


@dataclass(frozen=True)
class Simulator:
    """What predicts configurations: (m, S, nq) at S numbers of steps; NaN where it diverged or has no prediction.

    Attributes:
        name: as tables show it.
        kind: "model file", "program", "recording" or "rule".
        note: what a reader must know of it, or nothing.
    """

    name: str
    kind: str
    note: str = field(default="", kw_only=True)

    #: Whether it predicts more than one step ahead.
    ahead: ClassVar[bool] = True

    def predict(self, start: Start, rng: np.random.Generator) -> Floats:
        """Configurations (m, S, nq) from the starts; a random one of each where parameters are uncertain."""
        raise NotImplementedError


@dataclass(frozen=True)
class ModelFile(Simulator):
    """An MJCF or URDF model, simulated by MuJoCo on all cores."""

    model: Any
    substeps: int
    randomise: Mapping[str, tuple[float, float]] | None = None
    pool: int = 64
    seed: int = 0
    threads: int | None = None

    @classmethod
    def of(cls, name: str, source: Any, log: StateLog, **settings: Any) -> ModelFile:
        """A model whose joints are those of the log's columns."""
        model = read_model(source)
        model.opt.disableflags |= int(mujoco_module().mjtDisableBit.mjDSBL_AUTORESET)  # a diverged simulation is counted
        ratio = log.period / model.opt.timestep
        substeps = max(1, round(ratio))
        note = f"MuJoCo {mujoco_module().__version__}, {substeps} time steps of {model.opt.timestep:.6g} s between rows"
        if abs(substeps / ratio - 1) > 0.01:
            note += (
                f", which are {log.period:.6g} s apart: {ratio:.2f} time steps, {100 * abs(substeps / ratio - 1):.0f}% off"
            )
        return cls(name, "model file", model, substeps, note=note, **settings)

    @cached_property
    def _copies(self) -> list[Any]:
        return randomised(self.model, self.randomise, self.pool, self.seed)

    def predict(self, start: Start, rng: np.random.Generator) -> Floats:
        copies = self._copies
        which = rng.integers(len(copies), size=len(start.rows)) if len(copies) > 1 else np.zeros(len(start.rows), dtype=int)
        found = np.full((len(start.rows), len(start.steps), self.model.nq), np.nan)
        length, every = np.minimum(start.log.after[start.rows], start.furthest), start.commands()
        for most in np.unique(length).tolist():  # no simulation goes beyond the end of its episode
            here = np.flatnonzero(length == most)
            steps = [step for step in start.steps if step <= most]
            if not steps:
                continue
            commands = np.repeat(every[here, : steps[-1]], self.substeps, axis=1)
            ends = np.array(steps) * self.substeps
            models = [copies[i] for i in which[here]] if len(copies) > 1 else copies[0]
            state = rolled_out(models, start.qpos[here], start.qvel[here], commands, ends, self.threads)
            found[here, : len(steps)] = state[0]
        return found


@dataclass(frozen=True)
class Program(Simulator):
    """Code for any other engine: one step, or, with an attribute `velocities`, all steps from positions and rates."""

    call: Callable[..., Any]

    @property
    def ahead(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.call, "velocities", False))

    def predict(self, start: Start, rng: np.random.Generator) -> Floats:
        m, nq, seconds = len(start.rows), start.qpos.shape[1], start.log.period
        found = np.full((m, len(start.steps), nq), np.nan)
        if self.ahead:
            made = np.asarray(self.call(start.qpos, start.qvel, start.commands(), start.furthest, seconds), dtype=float)
            self._check(made, (m, start.furthest, nq), "model(qpos, qvel, ctrl, steps, seconds) -> (n, steps, nq)")
            there = [i for i, step in enumerate(start.steps) if step <= start.furthest]
            found[:, there] = made[:, [start.steps[i] - 1 for i in there]]
        elif 1 in start.steps:
            X = np.hstack([start.qpos, start.qvel, start.log.ctrl[start.rows]])
            made = np.asarray(self.call(X, 1, rng), dtype=float)
            self._check(made, (m, 1, nq), "model(X, n_particles, rng) -> (n, n_particles, nq)")
            found[:, start.steps.index(1)] = made[:, 0]
        return found

    def _check(self, made: Floats, shape: tuple[int, ...], expected: str) -> None:
        if made.shape != shape:
            raise CaptureError(f"simulator {self.name} returned shape {made.shape}; expected {expected}, here {shape}.")


@dataclass(frozen=True)
class Recording(Simulator):
    """A log of another engine, each episode replayed from its start; the rows of an episode correspond one to one."""

    recorded: StateLog

    @classmethod
    def of(cls, name: str, recorded: StateLog, log: StateLog, steps: int) -> Recording:
        """A recording with the episodes of a log, each at least so many steps long, or as long as in the log."""
        missing = sorted(set(np.array(log.names)[np.unique(log.episode)]) - set(recorded.names))
        if missing:
            raise CaptureError(
                f"recording {name} lacks {len(missing)} episodes of the log, such as {missing[0]!r}; it needs those names."
            )
        if abs(recorded.period / log.period - 1) > 0.01:
            raise CaptureError(
                f"recording {name} has {recorded.period:.6g} s between rows and the log {log.period:.6g}; record it at the "
                "times of the log."
            )
        known = dict(zip(recorded.names, np.bincount(recorded.episode, minlength=len(recorded.names))))
        for number, length in enumerate(np.bincount(log.episode, minlength=len(log.names))):
            if length and known[log.names[number]] < (wanted := min(length, steps + 2)):
                raise CaptureError(
                    f"recording {name} has {known[log.names[number]]} rows of episode {log.names[number]}; expected at "
                    f"least {wanted}, so that its last ones can be compared."
                )
        return cls(name, "recording", recorded)

    def predict(self, start: Start, rng: np.random.Generator) -> Floats:
        number = {name: i for i, name in enumerate(self.recorded.names)}
        begins = np.searchsorted(self.recorded.episode, np.arange(len(number) + 1))
        episode = np.array([number[start.log.names[i]] for i in start.log.episode[start.rows]], dtype=np.int64)
        first = np.searchsorted(start.log.episode, start.log.episode[start.rows])  # row in the log's own episode
        at = (begins[episode] + start.rows - first)[:, None] + np.array(start.steps)
        found = self.recorded.qpos[np.minimum(at, len(self.recorded) - 1)]
        return np.where((at < begins[episode + 1][:, None])[:, :, None], found, np.nan)


@dataclass(frozen=True)
class Rule(Simulator):
    """A prediction that needs no simulator: `rule(start, steps)` returns the configurations after so many steps, (m, nq)."""

    rule: Callable[[Start, int], Floats]

    def predict(self, start: Start, rng: np.random.Generator) -> Floats:
        return np.stack([self.rule(start, step) for step in start.steps], axis=1)


def rules(log: StateLog, model: Any | None) -> list[Rule]:
    """The predictions that cost nothing and fit the log: of a model, gravity and the joints with position servos."""
    found = [Rule("keeps its velocity", "rule", keeps_velocity)]
    if model is None:
        return found
    gravity = np.array(model.opt.gravity)
    falling = [slot for slot in slots(log.columns.joints) if slot.joint.kind == "free"]
    if falling and gravity.any():

        def ballistic(start: Start, step: int) -> Floats:
            t, qpos = step * start.log.period, keeps_velocity(start, step)
            for slot in falling:
                qpos[:, slot.q][:, :3] += gravity * t**2 / 2
            return qpos

        found.append(Rule("ballistic", "rule", ballistic))
    servos = _servos(model, log)
    if servos:
        entries, actuators = (np.array(part) for part in zip(*servos))

        def follows(start: Start, step: int) -> Floats:
            qpos = keeps_velocity(start, step)
            qpos[:, entries] = _command(start, step)[:, actuators]
            return qpos

        def moves(start: Start, step: int) -> Floats:
            qpos, before = keeps_velocity(start, step), start.log.ctrl[np.maximum(start.rows - 1, 0)]
            qpos[:, entries] = start.qpos[:, entries] + (_command(start, step) - before)[:, actuators]
            return qpos

        found += [Rule("follows its command", "rule", follows), Rule("moves with its command", "rule", moves)]
    return found


def keeps_velocity(start: Start, step: int) -> Floats:
    """Every number goes on at its rate; gravity is ignored."""
    return changed(start.log.columns.joints, start.qpos, start.qvel * (step * start.log.period))


def _command(start: Start, step: int) -> Floats:
    """The command sent one row before the outcome, (m, nu); at the end of an episode its last one."""
    return start.log.ctrl[start.rows + np.minimum(step - 1, start.log.after[start.rows])]


def _servos(model: Any, log: StateLog) -> list[tuple[int, int]]:
    """Entries of qpos that position servos hold, and the number of the command that each follows."""
    found = []
    for i, name in enumerate(log.columns.ctrl):
        holds = model.actuator_biastype[i] == AFFINE and model.actuator_trntype[i] == JOINT_TRANSMISSION
        if name and holds and np.isclose(model.actuator_biasprm[i, 1], -model.actuator_gainprm[i, 0]):
            found.append((int(model.jnt_qposadr[model.actuator_trnid[i, 0]]), i))
    return found


def program(name: str, call: Any) -> Program:
    """The user's own simulator as a `Program`, known to take our arguments."""
    if not callable(call):
        raise CaptureError(f"simulator {name} is a {type(call).__name__}; expected {PROGRAM}.")
    try:
        inspect.signature(call).bind(*[None] * (5 if getattr(call, "velocities", False) else 3))
    except TypeError as error:
        raise CaptureError(f"simulator {name} needs other arguments ({error}); expected {PROGRAM}.") from None
    except ValueError:
        pass  # a compiled callable without a signature
    return Program(name, "program", call)
