"""A PyTorch module as a model; PyTorch is imported only when a model is created."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats, whole_number
from capture_cp.models.particles import Noise, checked_noise, optional_module, predicted_rows, repeated, with_noise

#: Layers of `torch.nn` that drop values during training only.
DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout")


class TorchModel:
    """Particles from a PyTorch module; made by `torch_module`."""

    def __init__(self, module: Any, noise: Noise, dropout: bool, noise_inputs: int, device: Any, batch: int) -> None:
        torch = self._torch
        if not isinstance(module, torch.nn.Module):
            raise CaptureError(f"torch_module needs a torch.nn.Module; got a {type(module).__name__}.")
        self.module = module if device is None else module.to(device)
        self.noise = checked_noise(noise)
        self.noise_inputs = whole_number("noise_inputs", noise_inputs, 0)
        self.batch = whole_number("batch", batch, 1)
        first = next(iter([*module.parameters(), *module.buffers()]), torch.zeros(0))
        self._place = {"device": torch.device(device) if device is not None else first.device, "dtype": first.dtype}
        kinds = tuple(getattr(torch.nn, name) for name in DROPOUTS)
        self._dropouts = [part for part in module.modules() if isinstance(part, kinds)]
        self.dropout = bool(dropout)
        if self.dropout and not self._dropouts:
            raise CaptureError("dropout=True, but the module has no dropout layers; add some, or use noise or noise_inputs.")

    @property
    def _torch(self) -> Any:
        return optional_module("torch", "torch_module")

    def predict(self, X: Floats) -> Any:
        """The module's prediction at X (n, dx) without noise or dropout: an array (n, dc), or several."""
        with self._evaluating(dropout=False):
            parts = self._run(X, np.zeros((len(X), self.noise_inputs)))
        return parts[0] if len(parts) == 1 else parts

    def __call__(self, X: Floats, n_particles: int, rng: np.random.Generator) -> Floats:
        """Particles (n, L, dc) at inputs X (n, dx)."""
        torch, rows = self._torch, repeated(X, n_particles)
        noise = rng.standard_normal((len(rows), self.noise_inputs))
        cuda = [self._place["device"]] if self._place["device"].type == "cuda" else []
        with self._evaluating(self.dropout), torch.random.fork_rng(devices=cuda):
            torch.manual_seed(int(rng.integers(2**63)))
            parts = self._run(rows, noise)
        if len(parts) > 1:
            raise CaptureError(
                f"the module returns {len(parts)} arrays; for means and variances use gaussian(torch_module(...).predict)."
            )
        particles = predicted_rows("the module's prediction", parts[0], len(rows))
        return with_noise(particles.reshape(len(X), n_particles, particles.shape[1]), self.noise, rng)

    def fingerprint(self) -> str:
        """Digest of the weights and the settings."""
        digest = hashlib.sha256(repr((self.noise, self.dropout, self.noise_inputs)).encode())
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            digest.update(np.from_dlpack(value.detach().cpu().contiguous()).tobytes())
        return digest.hexdigest()

    def _run(self, rows: Floats, noise: Floats) -> tuple[Any, ...]:
        """The module's outputs at rows (m, dx), in batches."""
        torch, outputs = self._torch, []
        for first in range(0, max(len(rows), 1), self.batch):
            # copied: the input may be read-only, which DLPack cannot express
            parts = [part[first : first + self.batch].copy() for part in ((rows, noise) if self.noise_inputs else (rows,))]
            with torch.no_grad():
                made = self.module(*(torch.from_dlpack(part).to(**self._place) for part in parts))
            outputs.append(made if isinstance(made, tuple | list) else (made,))
        return tuple(np.concatenate([_array(part) for part in parts]) for parts in zip(*outputs))

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


def torch_module(
    module: Any,
    noise: Noise = None,
    dropout: bool = False,
    noise_inputs: int = 0,
    device: Any = None,
    batch: int = 65_536,
) -> TorchModel:
    """A model from a PyTorch module that maps inputs (m, dx) to next configurations (m, dc).

    It runs in evaluation mode, without gradients, in the module's own precision. Particles come from one or more of the
    three sources of randomness; without any, pass `deterministic_model=True` to `Capture`. The result also has `predict(X)`:
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
    return TorchModel(module, noise, dropout, noise_inputs, device, batch)


def _array(tensor: Any) -> Floats:
    return np.asarray(np.from_dlpack(tensor.detach().cpu()))
