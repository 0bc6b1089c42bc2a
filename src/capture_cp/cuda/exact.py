"""Kernels that round exactly like the CPU.

A GPU compiler fuses a product and a sum into one instruction, which rounds once where the CPU rounds twice. A point that
sets a threshold might then fail to pass it on another machine: see "Squares, exactly" in docs/learn/architecture.md. Kernels
decorated with `exact_kernel` and launched here are compiled without fused operations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import config, cuda

from capture_cp.cuda.arrays import THREADS

_COMPILING = threading.RLock()
#: Nothing is left to the linker, which would fuse the operations again.
_UNLINKED: dict[str, Any] = {"cache": True} if config.ENABLE_CUDASIM else {"cache": True, "lto": False}


def exact_kernel(function: Callable[..., None]) -> Any:
    """A kernel that rounds like the CPU, if it is compiled within `unfused`, as `launch` does."""
    return cuda.jit(function, **_UNLINKED)  # used as a decorator with arguments, cuda.jit ignores some of them


@contextmanager
def unfused() -> Iterator[None]:
    """Disable fused multiply-add for kernels compiled during the block; numba has no option for it."""
    if config.ENABLE_CUDASIM:
        yield
        return
    from numba.cuda.cudadrv import nvvm

    with _COMPILING:
        compile_ir = nvvm.compile_ir

        def apart(irs: Any, **options: Any) -> Any:
            return compile_ir(irs, **options, fma=False)

        nvvm.compile_ir = apart
        try:
            yield
        finally:
            nvvm.compile_ir = compile_ir


def launch(kernel: Any, blocks: int, *arguments: Any, threads: int = THREADS) -> None:
    """Launch a kernel; does nothing for zero blocks, which CUDA would reject."""
    if blocks:
        with unfused():
            kernel[blocks, threads](*arguments)
