"""PyTorch modules and JAX functions as models; the framework is imported only when a model is created."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, whole_number
from capture_cp.models.predictors import Noise, checked_noise, predicted_rows, with_noise

#: Layers of `torch.nn` that drop values during training only.
DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")


class ArrayModel(ABC):
    """Base class of models that compute with the arrays of another library."""

    #: The library, the name users make the model by, and what they pass to it.
    _library: ClassVar[str]
    _name: ClassVar[str]
    _kind: ClassVar[str]

    def __init__(self, noise: Noise, noise_inputs: int) -> None:
        self.noise = checked_noise(noise)
        self.noise_inputs = whole_number("noise_inputs", noise_inputs, 0)

    @classmethod
    def _import(cls) -> Any:
        try:
            return import_module(cls._library)
        except ImportError:
            name = cls._library
            raise CaptureError(
                f"{cls._name} needs {name}, which is not installed; install it with: pip install {name}."
            ) from None

    def predict(self, X: Floats) -> Any:
        """The prediction at X (n, dx) without noise or dropout, its noise inputs at zero: an array (n, dc), or several."""
        parts = self._outputs(X, np.zeros((len(X), self.noise_inputs)), None)
        return parts[0] if len(parts) == 1 else parts

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) at inputs X (n, dx)."""
        rows = np.repeat(X, n_particles, axis=0)
        parts = self._outputs(rows, rng.standard_normal((len(rows), self.noise_inputs)), rng)
        if len(parts) > 1:
            raise CaptureError(
                f"the {self._kind} returns {len(parts)} arrays; for means and variances use "
                f"gaussian({self._name}(...).predict)."
            )
        particles = predicted_rows(f"the {self._kind}'s prediction", parts[0], len(rows))
        return with_noise(particles.reshape(len(X), n_particles, particles.shape[1]), self.noise, rng)

    @abstractmethod
    def _outputs(self, rows: Floats, noise: Floats, rng: np.random.Generator | None) -> tuple[Any, ...]:
        """The outputs at rows (m, dx), with random parts only if there is an `rng`."""


class TorchModule(ArrayModel):
    """A model from a PyTorch module that maps inputs (m, dx) to next configurations (m, dc).

    It runs in evaluation mode, without gradients, in the module's own precision. Particles come from one or more of the
    three sources of randomness; without any, pass `deterministic_model=True` to `Capture`. The model also has `predict(X)`:
    several can be combined with `ensemble`, and a module that predicts a mean and variances can be used as
    `gaussian(model.predict)`.

    Args:
        module: a module that was not trained on the calibration transitions.
        noise: standard deviation of Gaussian noise added to every particle, a number or (dc,).
        dropout: whether dropout layers stay active, with a separate mask for each particle (Monte-Carlo dropout).
        noise_inputs: width of a second argument of standard normal noise, `module(x, z)`, for generators.
        device: where to run, for example "cuda"; by default the module's device.
        batch: largest number of rows per batch.
    """

    _library, _name, _kind = "torch", "torch_module", "module"

    def __init__(
        self,
        module: Any,
        noise: Noise = None,
        dropout: bool = False,
        noise_inputs: int = 0,
        device: Any = None,
        batch: int = 65_536,
    ) -> None:
        torch = self._import()
        if not isinstance(module, torch.nn.Module):
            raise CaptureError(f"torch_module needs a torch.nn.Module; got a {type(module).__name__}.")
        super().__init__(noise, noise_inputs)
        self.module = module if device is None else module.to(device)
        self.batch = whole_number("batch", batch, 1)
        first = next(iter([*module.parameters(), *module.buffers()]), torch.zeros(0))
        self._place = {"device": torch.device(device) if device is not None else first.device, "dtype": first.dtype}
        kinds = tuple(getattr(torch.nn, name) for name in DROPOUTS)
        self._dropouts = [part for part in module.modules() if isinstance(part, kinds)]
        self.dropout = bool(dropout)
        if self.dropout and not self._dropouts:
            raise CaptureError("dropout=True, but the module has no dropout layers; add some, or use noise or noise_inputs.")

    def identity(self) -> str:
        """Digest of the weights and the settings."""
        digest = hashlib.sha256(repr((self.noise, self.dropout, self.noise_inputs)).encode())
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            digest.update(np.from_dlpack(value.detach().cpu().contiguous()).tobytes())
        return digest.hexdigest()

    def _outputs(self, rows: Floats, noise: Floats, rng: np.random.Generator | None) -> tuple[Any, ...]:
        torch, outputs = self._import(), []
        cuda = [self._place["device"]] if self._place["device"].type == "cuda" else []
        with self._evaluating(self.dropout and rng is not None), torch.random.fork_rng(devices=cuda), torch.no_grad():
            if rng is not None:
                torch.manual_seed(int(rng.integers(2**63)))
            for first in range(0, max(len(rows), 1), self.batch):
                here = slice(first, first + self.batch)
                # copied: the input may be read-only, which DLPack cannot express
                parts = [part[here].copy() for part in ((rows, noise) if self.noise_inputs else (rows,))]
                made = self.module(*(torch.from_dlpack(part).to(**self._place) for part in parts))
                outputs.append(made if isinstance(made, tuple | list) else (made,))
        return tuple(np.concatenate([np.from_dlpack(part.detach().cpu()) for part in parts]) for parts in zip(*outputs))

    @contextmanager
    def _evaluating(self, dropout: bool) -> Iterator[None]:
        """Evaluation mode, with active dropout layers if `dropout`; every part's mode is restored afterwards."""
        before = {part: part.training for part in self.module.modules()}
        try:
            self.module.eval()
            for part in self._dropouts if dropout else ():
                part.train()
            yield
        finally:
            for part, training in before.items():
                part.training = training


class JaxFunction(ArrayModel):
    """A model from a JAX function that maps inputs (m, dx) to next configurations (m, dc).

    Particles come from one or more of the three sources of randomness, and `predict(X)` is used, as with `torch_module`.

    Args:
        function: not trained on the calibration transitions; it holds its own parameters, for example in a closure.
        noise: standard deviation of Gaussian noise added to every particle, a number or (dc,).
        noise_inputs: width of a second argument of standard normal noise, `function(x, z)`, for generators.
        key: whether its last argument is a random key, for dropout and the like; one key is used for a whole call.
        device: where to run, for example "gpu"; by default JAX's default device.
        jit: whether to compile it, once for each number of rows.
    """

    _library, _name, _kind = "jax", "jax_function", "function"

    def __init__(
        self,
        function: Callable[..., Any],
        noise: Noise = None,
        noise_inputs: int = 0,
        key: bool = False,
        device: Any = None,
        jit: bool = True,
    ) -> None:
        self._jax = jax = self._import()
        if not callable(function):
            raise CaptureError(f"jax_function needs a function of arrays; got a {type(function).__name__}.")
        super().__init__(noise, noise_inputs)
        self.function = function
        self.key = bool(key)
        self._run = jax.jit(function) if jit else function
        self._device = jax.devices(device)[0] if isinstance(device, str) else device

    def _outputs(self, rows: Floats, noise: Floats, rng: np.random.Generator | None) -> tuple[Any, ...]:
        seed = 0 if rng is None else int(rng.integers(2**31))
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
