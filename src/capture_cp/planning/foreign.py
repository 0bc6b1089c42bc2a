"""Converts arrays of NumPy, PyTorch and JAX. The last two are imported only when one of their arrays is passed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from capture_cp.base.checks import CaptureError, Floats

#: A function of float64 NumPy arrays that returns one.
Plain = Callable[..., Floats]


def library_of(*arrays: Any) -> str:
    """The library of the arrays: "torch" or "jax" if any is, else "numpy"."""
    found = {type(array).__module__.split(".")[0].replace("jaxlib", "jax") for array in arrays} & {"torch", "jax"}
    if len(found) > 1:
        raise CaptureError("PyTorch and JAX arrays are mixed; give arrays of one library.")
    return found.pop() if found else "numpy"


def asked_in_kind(function: Plain, arrays: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """Apply a function of NumPy arrays to arrays of any library; the result has `shape` and is of their library.

    Its type and device are those of the last array. On the CPU, contiguous float64 is passed without a copy.
    """
    library = library_of(*arrays)
    if library == "torch":
        torch, like = import_module("torch"), next(array for array in reversed(arrays) if library_of(array) == "torch")
        answer = function(*map(as_numpy, arrays))
        kind = like.dtype if like.dtype.is_floating_point else torch.float64
        return torch.from_numpy(answer).to(dtype=kind, device=like.device)
    if library == "jax":
        return _asked_by_jax(function, arrays, shape)
    kinds = [array.dtype for array in arrays if isinstance(array, np.ndarray)]
    kind = kinds[-1] if kinds and kinds[-1].kind == "f" else np.dtype(np.float64)
    return function(*arrays).astype(kind, copy=False)


def as_numpy(array: Any) -> Any:
    """An array of any library as a NumPy array; CPU memory is not copied."""
    library = library_of(array)
    if library == "torch":
        tensor = array.detach().cpu()
        return (tensor if tensor.dtype.itemsize >= 4 else tensor.float()).numpy()  # NumPy has no bfloat16
    return np.asarray(array) if library == "jax" else array


def _asked_by_jax(function: Plain, arrays: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """The same for JAX: directly for concrete arrays, through a callback while a function is traced."""
    jax = import_module("jax")
    like = next(array for array in reversed(arrays) if library_of(array) == "jax")
    kind = like.dtype if jax.numpy.issubdtype(like.dtype, jax.numpy.floating) else jax.numpy.zeros(()).dtype

    def answered(*given: Any) -> Any:
        return function(*(np.asarray(part, dtype=np.float64) for part in given)).astype(kind, copy=False)

    if not any(isinstance(array, jax.core.Tracer) for array in arrays):
        return jax.device_put(answered(*arrays), like.sharding)
    wanted = jax.ShapeDtypeStruct(shape, kind)
    return jax.pure_callback(answered, wanted, *arrays, vmap_method="sequential")
