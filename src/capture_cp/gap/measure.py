"""From simulators and a log to errors: the same rows, contact modes and numbers of steps for every simulator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, whole_number
from capture_cp.base.streams import stream
from capture_cp.data.recognise import Joint, StateColumns, match, recognise
from capture_cp.data.source import kind_of, known_column, open_log
from capture_cp.data.states import StateLog
from capture_cp.data.transitions import Runner
from capture_cp.gap.errors import Quantity, quantities
from capture_cp.gap.settings import ErrorSettings, LogSettings, ModeSettings
from capture_cp.models.simulators import ModelFile, Recording, Simulator, Start, program, rules
from capture_cp.spaces.modes import ContactModes, body_name, joint_name
from capture_cp.spaces.mujoco_model import named, read_model
from capture_cp.spaces.strata import checked_index

SPAN = 4096  # starts that are simulated at a time
KINDS = ("free", "ball", "slide", "hinge")  # of joints, by MuJoCo's number
ALONE = "noise of the start alone"
FARTHEST = "the joint farthest off"
FEW_SITES = 3  # up to so many sites of a model are measured by default


@dataclass(frozen=True)
class Errors:
    """Errors of every simulator at the same starts.

    Attributes:
        log: the log.
        starts: rows of the log, (m,).
        steps: numbers of steps, (S,).
        quantities: what is measured, Q of them.
        errors: by simulator (m, S, Q), infinite where it diverged, NaN where it predicts nothing.
        mode: contact mode of every row of the log, (n,), a number into `modes`.
        modes: names of the modes.
        simulators: what predicted.
        model: the model file that joints and pictures come from, if any.
        points: finds the touching points (c, 3) of one configuration.
        replayed: whether the starts are those of episodes only, as recordings need.
    """

    log: StateLog
    starts: Ints
    steps: tuple[int, ...]
    quantities: tuple[Quantity, ...]
    errors: Mapping[str, Floats]
    mode: Ints
    modes: tuple[str, ...]
    simulators: tuple[Simulator, ...]
    model: Any
    points: Callable[[Floats], Floats] | None
    replayed: bool = False

    def rows_in(self, step: int, at: str, mode: int) -> Ints:
        """The predictions so many steps ahead, by the mode at their "start" or "end": numbers into `starts`."""
        there = np.flatnonzero(self.log.after[self.starts] >= step)
        return np.asarray(there[self.mode[self.starts[there] + (step if at == "end" else 0)] == mode])

    @property
    def primary(self) -> str:
        """The quantity that comparisons and pictures are about: a site, a position, or else the joint farthest off."""
        names = [one.name for one in self.quantities]
        sites = [one.name for one in self.quantities if one.site]
        return next(iter([*sites, *(name for name in names if name.endswith(".position"))]), FARTHEST)

    def diverged(self) -> list[str]:
        """A sentence for each simulator that diverged: how often, and where first."""
        found = []
        for name, errors in self.errors.items():
            lost = np.asarray(np.isinf(errors).any(axis=2))
            if lost.any():
                row = self.starts[int(np.argmax(lost.any(axis=1)))]
                where = f"first from row {row + 1}, in episode {self.log.names[self.log.episode[row]]}"
                found.append(f"{name} diverged in {int(lost.sum()):,} predictions, {where}; their errors count as infinite.")
        return found

    def main(self, simulator: str) -> Floats:
        """Errors (m, S) of the primary quantity."""
        errors, names = self.errors[simulator], [one.name for one in self.quantities]
        return np.asarray(errors.max(axis=2) if self.primary == FARTHEST else errors[:, :, names.index(self.primary)])


def prepared(
    given: Sequence[tuple[str, Any]], log: Any, reading: LogSettings, modes: ModeSettings, settings: ErrorSettings
) -> Prepared:
    """Everything that can be wrong is found here; what is returned simulates, with a runner that shares out the work.

    `given` are simulators with their names: model files, programs and logs of other engines.
    """
    models = {name: read_model(one) for name, one in given if _is_model(one)}
    modes_model = None if modes.modes_from is None else read_model(modes.modes_from)
    model = next(iter(models.values()), modes_model)
    joints = None if model is None else joints_of(model)
    for name, other in {**models, "--modes-from": modes_model or model}.items():
        if other is not None and [joint.kind for joint in joints_of(other)] != [joint.kind for joint in joints or ()]:
            raise CaptureError(
                f"{name} has other joints than the first model: {_listed(other)} instead of {_listed(model)}."
            )
    states = read_states(log, joints, () if model is None else actuators_of(model), reading)
    simulators: list[Simulator] = []
    for name, one in given:
        if name in models:
            more: dict[str, Any] = {"randomise": settings.randomise, "seed": settings.seed}
            simulators.append(ModelFile.of(name, models[name], states, **more))
        elif callable(one):
            simulators.append(program(name, one))
        else:
            recorded = read_states(one, joints, (), replace(reading, without=(), columns={}))
            simulators.append(Recording.of(name, recorded, states, settings.steps[-1]))
    free = rules(states, model)
    found = tuple(quantities(states.columns.joints, model, points_of(model), sites_of(model, settings.sites)))
    label, names, points = _labels(states, modes, modes_model or model, log)
    starts = states.starts(whole_number("every", reading.every, 1))
    if any(rule.name == "moves with its command" for rule in free):
        starts = starts[states.before[starts] > 0]
    if not len(starts):
        raise CaptureError("no row of the log can be a start: each needs rates, and a row after it in its episode.")
    live = tuple(one for one in simulators if not isinstance(one, Recording))
    problem = Errors(states, starts, settings.steps, found, {}, label, names, (*live, *free), model, points)
    problems = [problem] if live else []
    if len(live) < len(simulators):  # a recording knows only what follows from the start of its episode
        first = np.unique(states.episode[starts], return_index=True)[1]
        problems.append(replace(problem, starts=starts[first], simulators=(*simulators, *free), replayed=True))
    return Prepared(problems, settings)


@dataclass(frozen=True)
class Prepared:
    """What is to be simulated: from every row, and, for recordings, from the start of every episode."""

    problems: list[Errors]
    settings: ErrorSettings

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        return self.problems[0].quantities

    def __call__(self, run: Runner[Any]) -> list[Errors]:
        return [_measured(one, self.settings, run) for one in self.problems]


def _measured(problem: Errors, settings: ErrorSettings, run: Runner[Any]) -> Errors:
    """The errors of every simulator of a problem."""
    spans = [(i, problem.starts[i : i + SPAN]) for i in range(0, len(problem.starts), SPAN)]
    simulators = [(one.name, one, False) for one in problem.simulators]
    if settings.noise and isinstance(problem.simulators[0], ModelFile):
        simulators.append((ALONE, problem.simulators[0], True))
    jobs = [(name, one, alone, span) for name, one, alone in simulators for span in spans]
    work = partial(_errors_of, problem.log, problem.steps, problem.quantities, settings)
    found: dict[str, list[Floats]] = {}
    for (name, *_), errors in zip(jobs, run(work, jobs)):
        found.setdefault(name, []).append(errors)
    return replace(problem, errors={name: np.concatenate(parts) for name, parts in found.items()})


def _errors_of(log: StateLog, steps: tuple[int, ...], of: Sequence[Quantity], settings: ErrorSettings, job: Any) -> Floats:
    """Errors (m, S, Q) of one simulator from the starts of one span; with particles, of the k-th nearest."""
    name, simulator, alone, (number, rows) = job
    rng = stream(settings.seed, "gap", name, number)
    random = isinstance(simulator, ModelFile) and bool(settings.noise or settings.randomise)
    copies = settings.particles if random else 1
    start = Start.of(log, rows, steps)
    moved = start.perturbed(settings.noise if random else {}, copies, rng) if random else start
    predicted = simulator.predict(moved, rng)
    truth = simulator.predict(start.perturbed(settings.noise, 1, rng), rng) if alone else None
    errors = np.full((len(rows), len(steps), len(of)), np.nan)
    for s, step in enumerate(steps):
        there = np.flatnonzero(log.after[rows] >= step)
        if not len(there) or (step > 1 and not simulator.ahead):
            continue
        measured = log.qpos[rows[there] + step] if truth is None else truth[there, s]
        ends = predicted[:, s].reshape(len(rows), copies, -1)[there]
        for q, quantity in enumerate(of):
            each = [quantity.of(ends[:, c], measured) for c in range(copies)]
            off = np.nan_to_num(np.stack(each, axis=1), nan=np.inf, posinf=np.inf)
            k = (settings.k or -(-copies // 2)) if random else 1
            errors[there, s, q] = np.partition(off, k - 1, axis=1)[:, k - 1]
    return errors


# -- the log, the model and the modes -------------------------------------------------------------------------------------


def read_states(
    log: Any, joints: Sequence[Joint] | None, actuators: Sequence[tuple[str, str]], reading: LogSettings
) -> StateLog:
    """The states in a log, whose columns are recognised where they are not named."""
    if isinstance(log, StateLog):
        return log
    source = open_log(log, reading.episode)
    found = recognise(source)
    if reading.mapping is not None:
        columns = StateColumns.from_toml(reading.mapping, found, joints, actuators)
    else:
        columns = match(found, joints, actuators, reading.joints, reading.columns, reading.quaternion)
    columns = replace(columns, episode=reading.episode or columns.episode, time=reading.time or columns.time)
    return StateLog.read(source, columns, reading.units, reading.fit_start, reading.without)


def joints_of(model: Any) -> list[Joint]:
    """The joints of a model, in the order of qpos."""
    return [Joint(joint_name(model, j), KINDS[int(model.jnt_type[j])]) for j in range(model.njnt)]


def actuators_of(model: Any) -> list[tuple[str, str]]:
    """The actuators of a model, each with the joint that it moves."""
    joints = [
        joint_name(model, int(j)) if kind == 0 else "" for kind, (j, _) in zip(model.actuator_trntype, model.actuator_trnid)
    ]
    return [(model.actuator(i).name or joint or f"actuator {i}", joint) for i, joint in enumerate(joints)]


def _is_model(given: Any) -> bool:
    return type(given).__name__ == "MjModel" or (isinstance(given, str | Path) and kind_of(given) == "model")


def _listed(model: Any) -> str:
    return ", ".join(f"{joint.name} ({joint.kind})" for joint in joints_of(model)) or "none"


def points_of(model: Any | None) -> dict[int, Floats]:
    """Points (p, 3) of the geoms of each body, in its frame, among which are those that rigid motions displace most."""
    if model is None:
        return {}
    from capture_cp.report.solids import body_shapes

    shapes = {shape["name"]: np.array(shape["vertices"]).reshape(-1, 3) for shape in body_shapes(model)}
    return {body: shapes[name] for body in range(model.nbody) if (name := body_name(model, body)) in shapes}


def sites_of(model: Any | None, given: Sequence[str] | None) -> Sequence[str]:
    """The sites that are measured."""
    if given is not None:
        return given
    every = [] if model is None else named(model, "site")
    return every if len(every) <= FEW_SITES else []


def _labels(
    log: StateLog, settings: ModeSettings, model: Any | None, path: Any
) -> tuple[Ints, tuple[str, ...], Callable[[Floats], Floats] | None]:
    """The mode of every row (n,), the names of the modes, and what finds touching points."""
    contacts = None if model is None else ContactModes(model, settings.touch, settings.modes_by)
    if settings.mode_column is not None:
        source = open_log(path, settings.mode_column)
        known_column(source.path, settings.mode_column, source.columns())
        given = np.concatenate([piece[settings.mode_column] for piece in source.pieces([settings.mode_column])])
        names, label = np.unique([str(value) for value in given], return_inverse=True)
        found, listed = label.astype(np.int64), tuple(names.tolist())
        if len(found) != len(log):
            raise CaptureError("--mode-column cannot be combined with episodes that are left out.")
    elif settings.mode_code is not None:
        found = checked_index(settings.mode_code.index(log.qpos), len(log), len(settings.mode_code.names), "--mode-code")
        listed = tuple(settings.mode_code.names)
    elif contacts is not None:
        found, listed = contacts.index(log.qpos), contacts.names
        listed = contacts.names
    else:
        found, listed = np.zeros(len(log), dtype=np.int64), ("free",)
    unknown = [name for name in settings.mode_names if name not in listed]
    if unknown:
        raise CaptureError(f"--mode-names renames {unknown[0]!r}, which does not occur; the modes are {', '.join(listed)}.")
    renamed = [settings.mode_names.get(name, name) for name in listed]
    distinct = tuple(dict.fromkeys(renamed))
    label = np.array([distinct.index(name) for name in renamed], dtype=np.int64)[found]
    return label, distinct, None if contacts is None else contacts.points
