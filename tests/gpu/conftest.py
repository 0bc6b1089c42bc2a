"""Tests of the GPU's kernels: on a GPU with `make gpu`, and in `make test` on numba's simulator.

The simulator hands kernels arrays of its own, which compiled functions do not take. Here it hands them NumPy's, so that the
shared functions run compiled. Its threads take turns, see `gpu.lanes`.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from numba import config

from capture_cp import CaptureError
from capture_cp.cuda.device import chosen_device

SIMULATED = bool(config.ENABLE_CUDASIM)
collect_ignore_glob = ["test_*.py"] if chosen_device("auto") == "cpu" else []


def pytest_configure(config: pytest.Config) -> None:
    if config.option.markexpr == "cuda":
        try:
            chosen_device("cuda")
        except CaptureError as error:
            pytest.exit(str(error), returncode=2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/gpu/" in item.path.as_posix():
            item.add_marker(pytest.mark.cuda)


@pytest.fixture
def few() -> int:
    """How many rows or sequences a test may take: the simulator is slow."""
    return 24 if SIMULATED else 5000


if SIMULATED:
    from numba.cuda.simulator import kernel
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
    from numba.cuda.simulator.kernelapi import FakeCUDAShared

    from gpu.lanes import take_turns

    def _plain(argument: Any) -> Any:
        if isinstance(argument, FakeCUDAArray):
            return argument._ary
        if isinstance(argument, tuple) and hasattr(argument, "_fields"):
            return type(argument)(*map(_plain, argument))
        return argument

    def _call(self: Any, *arguments: Any) -> Any:
        if self._device:  # its arguments are a kernel's, and its module is mostly the kernel's
            swapped = self.fn.__globals__.get("cuda") is kernel._kernel_context
            return (self.fn if swapped else partial(_launch, self))(*arguments)
        return _launch(self, *(_plain(part) if isinstance(part, tuple) else part for part in arguments))

    _launch = kernel.FakeCUDAKernel.__call__
    kernel.FakeCUDAKernel.__call__ = _call
    kernel.FakeWithinKernelCUDAArray = _plain

    def _shared_array(self: Any, shape: Any, dtype: Any) -> Any:
        # as numba's own, by the line that asks, but without the whole stack; what nobody has written is no number
        asking = sys._getframe(1)
        key = asking.f_code, asking.f_lineno
        if key not in self._allocations:
            unwritten = np.nan if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max
            self._allocations[key] = np.full(shape, unwritten, dtype)
        return self._allocations[key]

    FakeCUDAShared.array = _shared_array

    take_turns()

    # few threads per block will do
    from capture_cp.planning.cuda import regions

    regions.THREADS = 8
    from capture_cp.planning.cuda import rollout

    rollout.AVERAGING = 8
