"""A calibration from the run of `measure_gap`: the regions of one simulator, one threshold per contact mode and step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from capture_cp.base.arrays import digest
from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name
from capture_cp.base.files import Pathlike
from capture_cp.capture.artifact import explained
from capture_cp.capture.capture import Capture
from capture_cp.conformal.groups import Examples, PerStratum
from capture_cp.conformal.partition import Partition, joined, leaves
from capture_cp.conformal.scores import NearestParticles
from capture_cp.data.recognise import StateColumns, recognise
from capture_cp.data.source import open_log
from capture_cp.data.states import StateLog, slots
from capture_cp.data.transitions import Transitions
from capture_cp.gap.measure import actuators_of, joints_of, points_of
from capture_cp.models.mujoco_rollouts import rolled_out
from capture_cp.models.simulators import ModelFile, commands_from
from capture_cp.report.scene import Body, Scene, mujoco_bodies
from capture_cp.report.space import Step
from capture_cp.report.style import outcome_look
from capture_cp.spaces.contact_strata import OTHER
from capture_cp.spaces.metrics import Euclidean, Metric, Product, Torus
from capture_cp.spaces.modes import ContactModes
from capture_cp.spaces.mujoco_model import mujoco_module, read_model
from capture_cp.spaces.poses import SE3
from capture_cp.spaces.strata import FunctionStrata

if TYPE_CHECKING:
    from capture_cp.gap.result import Gap

#: Fields of a model that decide how it moves and touches; others come and go with the version of MuJoCo.
_FIELDS = (
    *("qpos0", "body_parentid", "body_pos", "body_quat", "body_mass", "body_inertia", "body_ipos", "body_iquat"),
    *("jnt_type", "jnt_bodyid", "jnt_pos", "jnt_axis", "jnt_limited", "jnt_range", "jnt_stiffness"),
    *("dof_damping", "dof_armature", "dof_frictionloss", "eq_type", "eq_obj1id", "eq_obj2id", "eq_data"),
    *("geom_type", "geom_bodyid", "geom_pos", "geom_quat", "geom_size", "geom_contype", "geom_conaffinity", "geom_condim"),
    *("geom_friction", "geom_solref", "geom_solimp", "geom_margin", "geom_gap", "mesh_vert", "hfield_data"),
    *(
        "actuator_trnid",
        "actuator_gainprm",
        "actuator_biasprm",
        "actuator_gear",
        "actuator_ctrlrange",
        "actuator_forcerange",
    ),
)
#: Fraction by which the time between rows of a new log may differ.
SLACK = 0.01


# -- the parts of the calibration -----------------------------------------------------------------------------------------


class Ahead:
    """A MuJoCo model that predicts configurations a number of steps ahead, without noise.

    An input is qpos, qvel, the commands of `steps[-1]` steps one after another, and the number of steps; commands of later
    steps are ignored. Where the simulation diverges, the prediction is the start.

    Attributes:
        model: the compiled model.
        steps: the calibrated numbers of steps, rising.
        substeps: time steps of the model in one of these.
    """

    def __init__(self, model: Any, steps: Sequence[int], substeps: int) -> None:
        self.model, self.steps, self.substeps = model, tuple(steps), substeps

    def x(self, qpos: Any, qvel: Any, ctrl: Any = None, steps: int = 1) -> Floats:
        """The input (dx,) at one state under commands ctrl (steps, nu), one per step; none of a passive object."""
        sent, nu = np.zeros((self._known(steps) and self.steps[-1], self.model.nu)), self.model.nu
        sent[:steps] = finite_array("ctrl", ctrl, (steps, nu), "(steps, nu): one command per step") if nu else 0.0
        return np.concatenate([qpos, qvel, sent.ravel(), [steps]])

    def nearest(self, x: Floats) -> Floats:
        """An input (dx,) with the nearest calibrated number of steps."""
        return np.append(x[:-1], min(self.steps, key=lambda step: abs(step - x[-1])))

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Configurations (n, L, nq) after the steps of each input X (n, dx), all L of them equal."""
        nq, nv = self.model.nq, self.model.nv
        qpos, qvel, sent, steps = np.split(X, [nq, nq + nv, X.shape[1] - 1], axis=1)
        ctrl, ends = sent.reshape(len(X), self.steps[-1], self.model.nu), qpos.copy()
        for step in map(self._known, np.unique(steps).tolist()):
            here = np.flatnonzero(steps == step)
            commands, at = np.repeat(ctrl[here, :step], self.substeps, axis=1), np.array([step * self.substeps])
            found = rolled_out(self.model, qpos[here], qvel[here], commands, at)[0][:, 0]
            ends[here] = np.where(np.isnan(found), qpos[here], found)
        return np.repeat(ends[:, None], n_particles, axis=1)

    def scene(self, look: Step) -> Scene:
        """The bodies as predicted, in the middle; fainter at the start, and where they went."""
        data, found = mujoco_module().MjData(self.model), dict[str, Body]()
        ends = (look.cloud[0], "", 1.0), (look.start, "#999999", 0.3), (look.went, outcome_look(look.inside).colour, 0.5)
        for number, (qpos, colour, opacity) in enumerate(ends):
            if qpos is not None:
                data.qpos[:] = qpos
                mujoco_module().mj_kinematics(self.model, data)
                for name, body in mujoco_bodies(self.model, data).items():
                    known = found.get(f"{name}-0")
                    if known is None or (body.place != known.place).any() or (body.turn != known.turn).any():
                        found[f"{name}-{number}"] = replace(body, colour=colour or body.colour, opacity=opacity)
        middle = next((body.place for body in found.values() if body.kind != "plane"), np.zeros(3))
        bodies = {name: replace(body, place=body.place - middle) for name, body in found.items()}
        return Scene(bodies, scale=0.4 / (float(self.model.geom_rbound.sum()) or 1.0))

    def _known(self, steps: float) -> int:
        if steps not in self.steps:
            known = ", ".join(map(str, self.steps))
            raise CaptureError(f"a region {steps:g} steps ahead is asked for; the calibration has those of {known}.")
        return int(steps)


class Modes(FunctionStrata):
    """Contact modes as strata. Their names are fixed; modes that may still occur are "other contact"."""

    def __init__(self, contacts: ContactModes, names: Sequence[str], renamed: Mapping[str, str]) -> None:
        every = {renamed.get(name, name) for name in contacts.names}  # where these do not depend on what occurs
        complete = (contacts.by == "count" or not contacts.pairs) and every <= set(names)
        self.contacts, self.renamed, self.rest = contacts, dict(renamed), None if complete else len(names)
        super().__init__(self._numbers, [*names, *([] if complete else [OTHER])])

    def _numbers(self, Y: Floats) -> Ints:
        distinct, row = np.unique(Y, axis=0, return_inverse=True)  # outcomes of several steps are the same rows
        found, number = self.contacts.index(distinct), {name: i for i, name in enumerate(self.names)}
        each = [number.get(self.renamed.get(name, name), len(self.names) - 1) for name in self.contacts.names]
        return np.array(each, dtype=np.int64)[found][row.ravel()]


class PerStep(PerStratum):
    """One threshold per stratum and number of steps, the last number of an input, from all rows."""

    def __init__(self, steps: Sequence[int]) -> None:
        self.steps = steps

    def grow(self, growing: Examples, others: int, rng: np.random.Generator) -> Partition:
        """The same chain of nodes in every stratum: each sends its number of steps to a leaf, and larger ones on."""
        chain, dx, M = leaves(2 * len(self.steps) - 1), growing.X.shape[1], growing.n_strata
        for i, pair in enumerate(zip(self.steps, self.steps[1:])):
            chain[2 * i], chain["group"][2 * i + 1] = (sum(pair) / 2, dx - 1, 2 * i + 1, 2 * i + 2, -1), i
        chain["group"][-1] = len(self.steps) - 1
        return Partition(*joined([chain] * M), np.empty((M, 0)), dx)


def metric_of(model: Any) -> Metric:
    """Distance of configurations in m: an angle counts as the way of its body's farthest point."""
    points, parts = points_of(model), []
    for j, slot in enumerate(slots(joints_of(model))):
        if slot.joint.kind == "ball":
            raise CaptureError(f"no calibration can be saved for the ball joint {slot.joint.name}: it has no metric.")
        own = points.get(int(model.jnt_bodyid[j]), np.empty((0, 3)))
        radius = float(np.linalg.norm(own - model.jnt_pos[j], axis=1).max(initial=0.0)) or 1.0
        kinds: dict[str, tuple[Metric, int]] = {"free": (SE3(radius), 7), "slide": (Euclidean(), 1)}
        parts.append(kinds.get(slot.joint.kind, (Torus((radius,)), 1)))
    return Product(*zip(*parts))


@dataclass(frozen=True)
class StepTransitions(Transitions):
    """Transitions of a log of states, several numbers of steps ahead; `said` are notes about the log."""

    said: tuple[str, ...] = ()

    def notes(self) -> tuple[str, ...]:
        """What was done to the numbers, as of `LoggedTransitions`."""
        return self.said

    def read(self) -> StepTransitions:
        """Itself: all of it is in memory."""
        return self


def transitions(log: StateLog, starts: Ints, steps: Sequence[int]) -> StepTransitions:
    """Every start with every number of steps that its episode has after it."""
    start, step = (part.ravel() for part in np.meshgrid(starts, steps))
    start, step = start[log.after[start] >= step], step[log.after[start] >= step]
    order = np.lexsort((start, step, log.episode[start]))
    start, step, columns = start[order], step[order], log.columns
    sent = commands_from(log, start, steps[-1])
    sent = np.where(np.isnan(sent).any(axis=2, keepdims=True), 0.0, sent)  # as MuJoCo does
    rates = (name or f"rate {i}" for i, name in enumerate(columns.qvel))
    names = (f"{name} +{ahead}" for ahead in range(steps[-1]) for name in columns.actuators)
    return StepTransitions(
        np.hstack([log.start[start], log.qvel[start]]),
        np.hstack([sent.reshape(len(start), -1), step[:, None]]),
        log.qpos[start + step],
        (*columns.qpos, *rates),
        (*names, "steps"),
        tuple(f"next_{name}" for name in columns.qpos),
        np.array(log.names)[log.episode[start]],
        said=log.notes,
    )


# -- saving and loading ---------------------------------------------------------------------------------------------------


def chosen_simulator(files: Sequence[str], name: str | None, own_modes: bool) -> str:
    """The simulator whose calibration is saved, out of those that are model `files`."""
    if own_modes:
        raise CaptureError(
            "a calibration finds contact modes of new configurations from a model file; leave out --mode-column and "
            "--mode-code, or --out."
        )
    if not files:
        raise CaptureError("a calibration is saved of a simulator that is a model file, and none is; leave out --out.")
    return files[0] if name is None else known_name("model file to save", name, files)


def calibration_of(gap: Gap, name: str | None = None) -> Capture:
    """The calibration of the first simulator that is a model file, or of the one with that name."""
    part, modes, reading = gap.parts[0], gap.labelled, gap.reading
    files = {one.name: one for one in part.simulators if isinstance(one, ModelFile)}
    chosen = files[chosen_simulator(list(files), name, modes.mode_column is not None or modes.mode_code is not None)]
    model, modes_file, modes_model = chosen.model, next(iter(files)), part.model
    if modes.modes_from is not None:
        modes_file, modes_model = Path(modes.modes_from).name, read_model(modes.modes_from)
    contacts = ContactModes(modes_model, modes.touch, modes.modes_by)
    names = [part.modes[mode] for mode in np.unique(part.mode)]
    steps = [step for step in gap.stated.steps if (part.log.after[part.starts] >= step).any()]
    strata, score = Modes(contacts, names, modes.mode_names), NearestParticles(1, metric_of(model))
    ahead, log = Ahead(model, steps, chosen.substeps), transitions(part.log, part.starts, steps)
    cap = Capture(ahead, strata, score, PerStep(steps), n_particles=1, deterministic_model=True)
    cap.fit(log.X, log.Y, episodes=log.episode)
    simulated = {"model": _known_file(chosen.name, model), "steps": steps, "substeps": chosen.substeps}
    touched = {"modes": _known_file(modes_file, modes_model), "touch": modes.touch, "by": contacts.by}
    columns = {"mapping": part.log.columns.toml(), "world": list(part.log.columns.world), "period": part.log.period}
    read = {"units": dict(reading.units), "fit_start": reading.fit_start, "every": reading.every}
    later = {"later": bool((part.log.before[part.starts] > 0).all())}
    cap.data_["robot"] = {
        "alpha": gap.stated.alpha,
        "confidence": gap.stated.confidence,
        "columns": {"state": [*log.state_names], "action": [*log.action_names], "next": [*log.next_names]},
        "log_sha256": cap.data_["sha256"],
        "gap": simulated | touched | {"names": names, "renamed": strata.renamed} | columns | read | later,
    }
    return cap


def loaded(path: Pathlike, facts: Mapping[str, Any], model: Any = None, modes: Any = None) -> Capture:
    """A saved calibration with its model file, and that of its contact modes: given, or beside the calibration."""
    with explained(path):
        known = facts["gap"]
        simulated = _found(path, known["model"], model, "model")
        same = modes is None and known["modes"]["sha256"] == known["model"]["sha256"]
        touched = simulated if same else _found(path, known["modes"], modes, "strata")
        strata = Modes(ContactModes(touched, known["touch"], known["by"]), known["names"], known["renamed"])
        ahead, groups = Ahead(simulated, known["steps"], known["substeps"]), PerStep(known["steps"])
    return Capture.load(path, ahead, strata, groups=groups)


def new_transitions(cap: Capture, file: Pathlike, episode: str | None) -> StepTransitions:
    """The transitions of a new log, read as that of the calibration was."""
    known, model, source = cap.data_["robot"]["gap"], cap.model.model, open_log(file, episode)  # type: ignore[attr-defined]
    columns = StateColumns.from_toml(known["mapping"], recognise(source), joints_of(model), actuators_of(model))
    columns = replace(columns, episode=episode or columns.episode, world=tuple(known["world"]))
    log = StateLog.read(source, columns, known["units"], known["fit_start"])
    if abs(log.period / known["period"] - 1) > SLACK:
        raise CaptureError(
            f"{file} has {log.period:.6g} s between rows and the log of the calibration {known['period']:.6g}; record it at "
            "the same rate."
        )
    starts = log.starts(known["every"])
    starts = starts[(log.before[starts] > 0) | (not known["later"])]
    if not (log.after[starts] >= known["steps"][0]).any():
        raise CaptureError(f"no start in {file} has {known['steps'][0]} rows after it, so there is nothing to check.")
    return transitions(log, starts, known["steps"])


def _found(path: Pathlike, known: Mapping[str, str], given: Any, option: str) -> Any:
    """A model file of a calibration, known by its content."""
    name = Path(known["file"]).name
    file = Path(path).parent / name if given is None else given
    if given is None and not file.exists():
        raise CaptureError(f"it was made with {name}, which is not beside it; give --{option} FILE, or {option}=FILE.")
    found = read_model(file)
    if _known_file(name, found)["sha256"] != known["sha256"]:
        raise CaptureError(f"{file} is another model than {name}, with which it was made.")
    return found


def _known_file(name: str, model: Any) -> dict[str, str]:
    """Name and digest of a model: of what decides how it moves and touches, rounded as builds of MuJoCo differ."""
    parts = [np.asarray(getattr(model, field), dtype=np.float64) for field in _FIELDS]
    option = np.array([model.opt.timestep, *model.opt.gravity, model.opt.integrator, model.opt.cone])
    return {"file": name, "sha256": digest(*(np.round(part, 9) + 0.0 for part in (*parts, option)))}
