"""Kernels that round as the processor does.

A GPU's compiler makes one instruction of a product and the sum it goes into, which rounds once where the processor rounds
twice. A point that sets a threshold would then no longer be sure to pass it on another machine: see "Squares, exactly" in
docs/architecture.md. Kernels decorated with `exact_kernel` and started here are compiled without that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import config, cuda

from capture_cp.cuda.arrays import THREADS

_COMPILING = threading.RLock()
#: Nothing is left to the linker, which would make one instruction of two again.
_UNLINKED: dict[str, Any] = {"cache": True} if config.ENABLE_CUDASIM else {"cache": True, "lto": False}


def exact_kernel(function: Callable[..., None]) -> Any:
    """A kernel that rounds as the processor does, if it is compiled within `unfused`, as `launch` does."""
    return cuda.jit(function, **_UNLINKED)  # as a decorator with arguments, cuda.jit forgets some of them


@contextmanager
def unfused() -> Iterator[None]:
    """Kernels that are compiled while the block lasts keep products and sums apart; numba has no option for it."""
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
    """Start a kernel; nothing to do for no blocks, which CUDA would refuse."""
    if blocks:
        with unfused():
            kernel[blocks, threads](*arguments)
