"""One step function as a complete model: particles for calibration, steps for rollouts, and a planner's compiled step."""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, finite_array, whole_number
from capture_cp.capture.fitted import Fitted
from capture_cp.data.rollouts import advance, configuration_axes
from capture_cp.planning.kernel import step_each
from capture_cp.planning.plugin import Functions, called_by, check_function

CHUNK = 8192  # inputs whose particles are stepped at once


class StepModel:
    """A model of the whole state, written once.

    It is the model of a `Capture` (particles of the next configuration); `next_states` is the step of a `PythonRollout`, a
    `HorizonCapture` and of `Rollouts.simulate`; and if `step` is compiled, `FusedRollout.from_model` uses it directly, on
    the CPU and the GPU.

    Args:
        step: in Python, `step(states (n, ds), actions (n, da), rng)`, which returns next states (n, ds); or compiled with
            numba, `step(states (ds, L), action (da,), noise (dn, L), params)`, which changes them in place, see
            `capture_cp.planning.plugin`.
        state_dims: numbers ds of a state.
        axes: which of them are the configuration.
        noise_dims: standard normals dn that a compiled step uses.
        params: parameters of a compiled step, a flat NamedTuple of arrays and numbers; the cost of a planner gets them too.
    """

    def __init__(
        self, step: Any, state_dims: int, axes: Sequence[int], noise_dims: int | None = None, params: Any = None
    ) -> None:
        self.step, self.params = step, cast(Any, () if params is None else params)
        self.state_dims = whole_number("state_dims", state_dims, 1)
        self.axes = tuple(configuration_axes(axes, self.state_dims))
        self.compiled = hasattr(step, "py_func")
        if not self.compiled and (not callable(step) or noise_dims is not None or params is not None):
            raise CaptureError(
                f"step is {step!r}, with noise_dims and params for a compiled one; decorate it with numba.njit, or leave "
                "those two out for a Python function step(states, actions, rng)."
            )
        if self.compiled:
            check_function("step", step)
            if noise_dims is None:
                raise CaptureError("a compiled step needs noise_dims: how many standard normals it uses per particle, or 0.")
        self.noise_dims = 0 if noise_dims is None else whole_number("noise_dims", noise_dims, 0)

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) of the next configuration at inputs X (n, ds + da)."""
        parts = [self._particles(X[i : i + CHUNK], n_particles, rng) for i in range(0, len(X), CHUNK)]
        return np.concatenate(parts) if parts else np.empty((0, n_particles, len(self.axes)))

    def next_states(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """Next states (n, ds) of states (n, ds) under actions (n, da), one particle each."""
        if not self.compiled:
            return advance(self.step, states, actions, rng, 1)
        return self._stepped(np.array(states)[:, :, None], actions, rng)[:, :, 0]

    def identity(self) -> str:
        """Digest of the step's source and its parameters."""
        written = self.step.py_func if self.compiled else self.step
        try:
            source = inspect.getsource(written)
        except (OSError, TypeError):
            source = getattr(written, "__qualname__", type(written).__qualname__)
        numbers = self.state_dims, self.axes, self.noise_dims
        return hashlib.sha256(source.encode() + repr(numbers).encode() + pickle.dumps(tuple(self.params))).hexdigest()

    def _particles(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        states, actions = X[:, : self.state_dims], X[:, self.state_dims :]
        if not self.compiled:
            flat = self.next_states(np.repeat(states, n_particles, axis=0), np.repeat(actions, n_particles, axis=0), rng)
            return np.ascontiguousarray(flat.reshape(len(X), n_particles, -1)[:, :, list(self.axes)])
        after = self._stepped(np.repeat(states[:, :, None], n_particles, axis=2), actions, rng)
        return np.ascontiguousarray(after[:, list(self.axes)].swapaxes(1, 2))

    def _stepped(self, states: Floats, actions: Floats, rng: np.random.Generator) -> Floats:
        """States (n, ds, L) after a compiled step."""
        noise = rng.standard_normal((len(states), self.noise_dims, states.shape[2]))
        step_each(called_by(Functions(self.step, None)), states, np.ascontiguousarray(actions), noise, self.params)
        return finite_array("the next states of the step", states, states.shape, "(n, ds, L)")


def step_model_of(cap: Fitted, compiled: bool) -> StepModel:
    """The step model behind a calibration, or an error that names the alternative."""
    model = getattr(cap.model_, "__self__", cap.model_)
    if not isinstance(model, StepModel) or (compiled and not model.compiled):
        kind = "a StepModel whose step is compiled with numba.njit" if compiled else "a StepModel"
        raise CaptureError(
            f"the calibrated model is {type(model).__name__}; from_model needs {kind}. Calibrate with one, or pass the step "
            "to the rollout yourself."
        )
    return model
