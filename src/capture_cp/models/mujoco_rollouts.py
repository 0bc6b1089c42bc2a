"""A MuJoCo simulation with uncertain parameters as a model (needs MuJoCo, extra `sim`)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from importlib import import_module
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, Ints, finite_array, known_name, whole_number
from capture_cp.models.predictors import Noise, checked_noise, predicted_rows, with_noise
from capture_cp.spaces.mujoco_model import Coordinates, mujoco_module, named, qpos_entries, read_model, reference_qpos

#: Model fields that one factor scales, throughout the model.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "friction": ("geom_friction",),
    "mass": ("body_mass", "body_inertia"),
    "damping": ("dof_damping",),
    "frictionloss": ("dof_frictionloss",),
    "armature": ("dof_armature",),
    "stiffness": ("jnt_stiffness",),
    "gear": ("actuator_gear",),
}
Randomise = Mapping[str, tuple[float, float]] | Callable[[Any, np.random.Generator], Any]

_HUGE = 1e10  # beyond this, MuJoCo aborts a simulation
_NUMBERS_AT_ONCE = 1 << 23  # states and controls of the rollouts in one batch: 64 MB


class MujocoRollout:
    """A model from a MuJoCo simulation with uncertain parameters, run with `mujoco.rollout` on all cores.

    A pool of copies with randomised parameters is created once. For each particle, a copy drawn from the pool starts at rest
    in the state of X and holds the control of X for `nstep` time steps; the particle is the final configuration. Results do
    not depend on the number of threads.

    Args:
        model: an MJCF file, MJCF text, or an `mujoco.MjModel`.
        nstep: number of time steps of one transition.
        state: joints or entries of qpos in the first columns of X, by default all of qpos, and of qvel where X has so many;
            or a function of X (n, dx) that returns qpos (n, nq), or qpos and qvel, as a pair or side by side.
        control: actuators in the last columns of X, by default all; or a function of X that returns controls
            (n, nu), or (n, nstep, nu).
        next: joints or entries of qpos that make up the next configuration, by default those of `state`; or a function of
            qpos (m, nq) and qvel (m, nv) that returns (m, dc).
        randomise: ranges of the factors that parameters are multiplied by, one factor per copy, drawn uniformly:
            `{"friction": (0.5, 1.5), "mass": (0.8, 1.2)}`; or a function `(model, rng)` that changes a copy in place.
        control_noise: standard deviation of Gaussian noise on the controls, a number or (nu,), drawn for each particle.
        reference: qpos (nq,) for the entries that `state` leaves out, or the name of a keyframe; by default the model's
            qpos0.
        pool: number of randomised copies.
        seed: fixes the copies.
        threads: number of threads, by default one per core.
        state_noise: standard deviation of Gaussian noise on the start, drawn for each particle: a number or (nv,), in the
            units of qvel without seconds; or (2 nv,), with those of qvel after it.

    Attributes:
        pool: the randomised copies.
    """

    def __init__(
        self,
        model: Any,
        nstep: int,
        state: Coordinates | Callable[[Floats], Any] | None = None,
        control: Sequence[str] | Callable[[Floats], Any] | None = None,
        next: Coordinates | Callable[[Floats, Floats], Any] | None = None,
        randomise: Randomise | None = None,
        control_noise: Noise = None,
        reference: Any = None,
        pool: int = 64,
        seed: int = 0,
        threads: int | None = None,
        state_noise: Noise = None,
    ) -> None:
        self.model = read_model(model)
        # a diverged simulation must not be reset silently
        self.model.opt.disableflags |= int(mujoco_module().mjtDisableBit.mjDSBL_AUTORESET)
        self.nstep = whole_number("nstep", nstep, 1)
        self._all = state is None
        self._state: Any = state if callable(state) else self._entries(state)
        self._control: Any = control if callable(control) else _actuators(self.model, control)
        self._next: Any = next if callable(next) else self._state if next is None else self._entries(next)
        if next is None and callable(state):
            raise CaptureError("state is a function, so next has no default; pass next=.")
        self.control_noise, self.state_noise = checked_noise(control_noise), checked_noise(state_noise)
        self._reference = reference_qpos(self.model, reference)
        self.seed = whole_number("seed", seed, 0)
        self.threads = (os.cpu_count() or 1) if threads is None else whole_number("threads", threads, 1)
        self.pool = randomised(self.model, randomise, whole_number("pool", pool, 1), self.seed)

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) at inputs X (n, dx), each from a copy of the model drawn from the pool."""
        if not callable(self._state) and not callable(self._control):
            wanted = len(self._state), len(self._control)
            if X.shape[1] != sum(wanted) and not self._has_rates(X):
                raise CaptureError(
                    f"X has {X.shape[1]} columns; expected {wanted[0]} of state and {wanted[1]} of control, side by side."
                )
        (qpos, qvel), control = self._start(X), self._controls(X)
        owner = np.repeat(np.arange(len(X)), n_particles)
        models = [self.pool[i] for i in rng.integers(len(self.pool), size=len(owner))]
        control = with_noise(control[owner], self.control_noise, rng)
        start = self._disturbed(qpos[owner], qvel[owner], rng)
        q, v = rolled_out(models, *start, control, np.array([self.nstep]), self.threads)
        lost = int(np.isnan(q).any(axis=(1, 2)).sum())
        if lost:
            raise CaptureError(
                f"{lost} of {len(owner)} simulations diverged; choose a smaller time step in the MJCF, or narrower ranges "
                "to randomise."
            )
        ends = q[:, 0][:, self._next] if not callable(self._next) else self._next(q[:, 0], v[:, 0])
        ends = predicted_rows("next(qpos, qvel)", ends, len(owner))
        return ends.reshape(len(X), n_particles, ends.shape[1])

    def identity(self) -> str:
        """Digest of every copy in the pool and of the settings."""
        mujoco = mujoco_module()
        places = [part.tolist() for part in (self._state, self._control, self._next) if not callable(part)]
        noise = () if self.state_noise is None else (self.state_noise.tolist(),)
        digest = hashlib.sha256(repr((self.nstep, places, self.control_noise, self._reference.tolist(), *noise)).encode())
        for model in self.pool:
            packed = np.zeros(mujoco.mj_sizeModel(model), dtype=np.uint8)
            mujoco.mj_saveModel(model, None, packed)
            digest.update(packed.tobytes())
        return digest.hexdigest()

    # -- from inputs to MuJoCo and back -------------------------------------------------------------------------------

    def _entries(self, coordinates: Any) -> Ints:
        return np.arange(self.model.nq) if coordinates is None else qpos_entries(self.model, coordinates)

    def _has_rates(self, X: Floats) -> bool:
        """Whether X holds all of qpos, qvel and the controls."""
        known = self._all and not callable(self._control)
        return known and X.shape[1] == self.model.nq + self.model.nv + len(self._control)

    def _disturbed(self, qpos: Floats, qvel: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """States (m, nq) and (m, nv) with noise on the start; qpos is changed."""
        if self.state_noise is None:
            return qpos, qvel
        nv, mujoco = self.model.nv, mujoco_module()
        both = len(self.state_noise) == 2 * nv
        moves = with_noise(np.zeros((len(qpos), 2 * nv if both else nv)), self.state_noise, rng)
        for row, move in zip(qpos, moves):
            mujoco.mj_integratePos(self.model, row, move[:nv], 1.0)
        return qpos, qvel + moves[:, nv:] if both else qvel

    def _start(self, X: Floats) -> tuple[Floats, Floats]:
        """qpos (n, nq) and qvel (n, nv) at the start; at rest unless a function returns velocities."""
        nq, rest = self.model.nq, np.zeros((len(X), self.model.nv))
        if not callable(self._state) and not self._has_rates(X):
            qpos = np.tile(self._reference, (len(X), 1))
            qpos[:, self._state] = X[:, : len(self._state)]
            return qpos, rest
        made: Any = self._state(X) if callable(self._state) else X[:, : nq + self.model.nv]
        if isinstance(made, np.ndarray) and made.shape == (len(X), nq + self.model.nv):
            made = made[:, :nq], made[:, nq:]
        qpos, qvel = made if isinstance(made, tuple) and len(made) == 2 else (made, rest)
        return (
            finite_array("qpos from state(X)", qpos, (len(X), nq), "(n, nq)"),
            finite_array("qvel from state(X)", qvel, (len(X), self.model.nv), "(n, nv)"),
        )

    def _controls(self, X: Floats) -> Floats:
        """Controls (n, 1 or nstep, nu)."""
        if callable(self._control):
            made = np.asarray(self._control(X))
            made = made[:, None] if made.ndim == 2 else made
            steps = self.nstep if made.ndim == 3 and made.shape[1] != 1 else 1
            return finite_array("control(X)", made, (len(X), steps, self.model.nu), "(n, nu) or (n, nstep, nu)")
        control = np.zeros((len(X), 1, self.model.nu))
        if len(self._control):
            control[:, 0, self._control] = X[:, X.shape[1] - len(self._control) :]
        return control


def rolled_out(
    models: Any, qpos: Floats, qvel: Floats, control: Floats, at: Ints, threads: int | None = None
) -> tuple[Floats, Floats]:
    """qpos (m, S, nq) and qvel (m, S, nv) after `at` (S,) time steps, rising, of m rollouts; NaN once one has diverged.

    `models` is one model for all, or one for each rollout; `control` is (m, 1 or nstep, nu). They are computed in batches,
    with results that do not depend on the number of threads.
    """
    mujoco, several = mujoco_module(), isinstance(models, list)
    model = models[0] if several else models
    nq, nv, nstep, m = model.nq, model.nv, int(at[-1]), len(qpos)
    blank = mujoco.MjData(model)
    first = np.empty(mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS))
    mujoco.mj_getState(model, blank, first, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    time = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_TIME)
    wanted = max(1, min(threads or os.cpu_count() or 1, m))
    data = [blank, *(copy(blank) for _ in range(wanted - 1))]
    batch = max(1, _NUMBERS_AT_ONCE // (nstep * (len(first) + model.nu)))
    found = np.empty((m, len(at), nq + nv))
    # what diverges is counted below; MuJoCo would log it to a file of its own
    mujoco.set_mju_user_warning(lambda text: None)
    with import_module("mujoco.rollout").Rollout(nthread=wanted if wanted > 1 else 0) as runner:
        for rows in (slice(i, min(i + batch, m)) for i in range(0, m, batch)):
            start = np.tile(first, (rows.stop - rows.start, 1))
            start[:, time : time + nq], start[:, time + nq : time + nq + nv] = qpos[rows], qvel[rows]
            states, _ = runner.rollout(models[rows] if several else model, data, start, control[rows], nstep=nstep)
            found[rows] = states[:, at - 1, time : time + nq + nv]
    mujoco.set_mju_user_warning(None)
    lost = ~(np.abs(found) < _HUGE).all(axis=2)
    found[np.logical_or.accumulate(lost, axis=1)] = np.nan
    return found[:, :, :nq], found[:, :, nq:]


def _actuators(model: Any, names: Any) -> Ints:
    if names is None:
        return np.arange(model.nu)
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise CaptureError(f"control is {names!r}; expected a list of actuator names, or a function of X.")
    return np.array(
        [model.actuator(known_name("actuator", name, named(model, "actuator"))).id for name in names], dtype=np.int64
    )


def randomised(model: Any, randomise: Any, pool: int, seed: int) -> list[Any]:
    """The pool; a single copy if nothing is randomised."""
    if randomise is None:
        return [model]
    ranges = {} if callable(randomise) else _ranges(randomise)
    mujoco, copies = mujoco_module(), []
    for rng in np.random.default_rng(seed).spawn(pool):
        varied = copy(model)
        if callable(randomise):
            randomise(varied, rng)
        for name, (low, high) in ranges.items():
            factor = rng.uniform(low, high)
            for array in PARAMETERS[name]:
                getattr(varied, array)[:] *= factor
        mujoco.mj_setConst(varied, mujoco.MjData(varied))  # updates what MuJoCo derives from masses and inertias
        copies.append(varied)
    return copies


def _ranges(randomise: Any) -> dict[str, tuple[float, float]]:
    if not isinstance(randomise, Mapping) or not randomise:
        raise CaptureError(f'randomise is {randomise!r}; expected ranges such as {{"friction": (0.5, 1.5)}}, or a function.')
    ranges = {}
    for name, given in randomise.items():
        known_name("parameter to randomise", name, PARAMETERS)
        low, high = finite_array(f"the range of {name}", given, (2,), "(2,): smallest and largest factor").tolist()
        if not 0 <= low <= high:
            raise CaptureError(
                f"the range of {name} is {low:g} to {high:g}; expected factors of at least 0, the smallest first."
            )
        ranges[name] = (low, high)
    return ranges
