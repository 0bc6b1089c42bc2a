"""Arrays on the GPU: PyTorch, JAX, CuPy and Numba arrays are used without a copy; NumPy arrays are copied there."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numba import cuda

from capture_cp.base.checks import CaptureError

T = TypeVar("T", bound=tuple[Any, ...])

#: Default number of threads per block.
THREADS = 128


def is_on_device(array: Any) -> bool:
    """Whether an array is on the GPU, from any library."""
    return hasattr(array, "__cuda_array_interface__") or _is_numbas(array)


def _is_numbas(array: Any) -> bool:
    return hasattr(array, "copy_to_host")


def _as_numbas(array: Any) -> Any:
    return array if _is_numbas(array) else cuda.as_cuda_array(array)


def device_array(name: str, array: Any, dtype: Any, shape: tuple[int | None, ...]) -> Any:
    """The array on the GPU, C-contiguous, of this type and shape (None for any length).

    An array already there is used without a copy, so it must have the right type; a NumPy array is converted and copied.
    """
    kind = np.dtype(dtype)
    there = is_on_device(array)
    found: Any = _as_numbas(array) if there else _converted(name, array, kind)
    fits = len(found.shape) == len(shape) and all(w is None or w == n for n, w in zip(found.shape, shape))
    if not fits or found.dtype != kind:
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise CaptureError(f"{name} is {found.dtype} of shape {found.shape}; expected {kind} of shape ({wanted}).")
    if not there:
        return cuda.to_device(found)
    if not found.is_c_contiguous():
        raise CaptureError(f"{name} is not contiguous on the GPU; make it contiguous first, for example with .contiguous().")
    return found


def _converted(name: str, array: Any, kind: np.dtype[Any]) -> Any:
    """A NumPy array of this type; other numbers are not converted to integers."""
    try:
        given = np.asarray(array)
        if kind.kind in "iu" and given.dtype.kind not in "iub":
            raise TypeError
        return np.ascontiguousarray(given, dtype=kind)
    except (TypeError, ValueError):
        raise CaptureError(
            f"{name} is not an array of {kind}; pass numbers of that type, with rows of equal length."
        ) from None


def tuple_on_device(values: T) -> T:
    """A NamedTuple with its arrays copied to the GPU; numbers are unchanged."""
    parts = [cuda.to_device(np.ascontiguousarray(v)) if isinstance(v, np.ndarray) else v for v in values]
    return type(values)(*parts)


def blocks(n: int, threads: int = THREADS) -> int:
    """Number of blocks with one thread for each of n items; at least one, since an empty launch is an error."""
    return max(1, -(-n // threads))
