"""A JAX function as a model; JAX is imported only when a model is created."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, whole_number
from capture_cp.models.particles import Noise, checked_noise, optional_module, predicted_rows, repeated, with_noise


class JaxModel:
    """Particles from a JAX function; made by `jax_function`."""

    def __init__(
        self, function: Callable[..., Any], noise: Noise, noise_inputs: int, key: bool, device: Any, jit: bool
    ) -> None:
        self._jax = jax = optional_module("jax", "jax_function")
        if not callable(function):
            raise CaptureError(f"jax_function needs a function of arrays; got a {type(function).__name__}.")
        self.function = function
        self.noise = checked_noise(noise)
        self.noise_inputs = whole_number("noise_inputs", noise_inputs, 0)
        self.key = bool(key)
        self._run = jax.jit(function) if jit else function
        self._device = jax.devices(device)[0] if isinstance(device, str) else device

    def predict(self, X: Floats) -> Any:
        """The function's prediction at X (n, dx) with its noise inputs at zero: an array (n, dc), or several."""
        parts = self._ask(X, np.zeros((len(X), self.noise_inputs)), seed=0)
        return parts[0] if len(parts) == 1 else parts

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) at inputs X (n, dx)."""
        rows = repeated(X, n_particles)
        parts = self._ask(rows, rng.standard_normal((len(rows), self.noise_inputs)), int(rng.integers(2**31)))
        if len(parts) > 1:
            raise CaptureError(
                f"the function returns {len(parts)} arrays; for means and variances use gaussian(jax_function(...).predict)."
            )
        particles = predicted_rows("the function's prediction", parts[0], len(rows))
        return with_noise(particles.reshape(len(X), n_particles, particles.shape[1]), self.noise, rng)

    def _ask(self, rows: Floats, noise: Floats, seed: int) -> tuple[Any, ...]:
        """The function's outputs at rows (m, dx)."""
        arguments = [self._sent(rows), *([self._sent(noise)] if self.noise_inputs else [])]
        if self.key:
            arguments.append(self._jax.random.key(seed))
        made = self._run(*arguments)
        made = made if isinstance(made, tuple | list) else (made,)
        return tuple(np.from_dlpack(self._jax.device_put(part, self._jax.devices("cpu")[0])) for part in made)

    def _sent(self, array: Floats) -> Any:
        """An array transferred to JAX, in JAX's precision, on the function's device."""
        kind = np.float64 if self._jax.config.jax_enable_x64 else np.float32
        # copied: the input may be read-only, which DLPack cannot express
        sent = self._jax.dlpack.from_dlpack(array.astype(kind, order="C"))
        return sent if self._device is None else self._jax.device_put(sent, self._device)


def jax_function(
    function: Callable[..., Any],
    noise: Noise = None,
    noise_inputs: int = 0,
    key: bool = False,
    device: Any = None,
    jit: bool = True,
) -> JaxModel:
    """A model from a JAX function that maps inputs (m, dx) to next configurations (m, dc).

    Particles come from one or more of the three sources of randomness; without any, pass
    `deterministic_model=True` to `Capture`. The result also has `predict(X)`: several can be combined with `ensemble`, and
    a function that predicts a mean and variances can be used as `gaussian(model.predict)`.

    Args:
        function: not trained on the calibration transitions; it holds its own parameters, for example in a closure.
        noise: standard deviation of Gaussian noise added to every particle, a number or (dc,).
        noise_inputs: width of a second argument of standard normal noise, `function(x, z)`, for generators.
        key: whether its last argument is a random key, for dropout and the like; one key is used for a whole call.
        device: where to run, for example "gpu"; by default JAX's default device.
        jit: whether to compile it, once for each number of rows.
    """
    return JaxModel(function, noise, noise_inputs, key, device, jit)
