"""Choice of the device: the CPU, or a CUDA GPU through numba-cuda."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from capture_cp.base.checks import CaptureError, known_name

Device = Literal["cpu", "cuda", "auto"]
DEVICES = ("cpu", "cuda", "auto")


def chosen_device(device: str) -> Literal["cpu", "cuda"]:
    """The device to compute on: `auto` uses a GPU if there is one; `cuda` without one raises an error."""
    known_name("device", device, DEVICES)
    if device == "cpu":
        return "cpu"
    trouble = _trouble()
    if trouble is None:
        return "cuda"
    if device == "auto":
        return "cpu"
    raise CaptureError(f'device "cuda" cannot be used: {trouble}')


def require_cuda() -> Any:
    """The module `numba.cuda`, or an error that explains what is missing."""
    chosen_device("cuda")
    from numba import cuda

    return cuda


#: Whether this process was forked from one that had used the GPU, which CUDA does not support.
_lost = False


@cache
def _trouble() -> str | None:
    """Why no GPU can be used; None if one can."""
    from numba import config

    if config.ENABLE_CUDASIM:
        return None
    if _lost:
        return (
            "this process was forked from one that had used the GPU; start processes with "
            'multiprocessing.get_context("spawn"), or use device "cpu".'
        )
    if find_spec("numba_cuda") is None:
        return 'numba-cuda is not installed; install it with: pip install "capture-cp[cuda]", or use device "cpu".'
    if not hasattr(np, "row_stack"):  # NumPy 2.5 removed a name that numba-cuda still imports
        setattr(np, "row_stack", np.vstack)  # noqa: B010
    from numba import cuda

    config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # the last kernels of a plan are small on purpose
    if not cuda.is_available():
        return 'no NVIDIA GPU with a working driver was found; use device "cpu", or "auto" to use a GPU if there is one.'
    return None


def _after_fork() -> None:
    """Record in a child process whether the parent has used the GPU."""
    global _lost
    if _trouble.cache_info().currsize and _trouble() is None:
        _lost = True
        _trouble.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
