"""Kernel launches recorded once and replayed as one graph: small kernels otherwise take longer to launch than to run.

While a stream is being recorded, freeing memory is an error in CUDA and discards the recording. Arrays are freed by their
finalizers, which run whenever an object is deleted or the garbage collector runs. So nothing is freed until the recording
has ended.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from numba import config, cuda

_RECORDING = threading.Lock()
_ENTERED = threading.local()
#: Unused graphs. A finalizer may run at any time, so they are destroyed only before the next one is recorded.
_UNUSED: deque[Any] = deque()


class Recorded:
    """Repeated work on a stream: it runs once, is recorded, and is then replayed as a CUDA graph.

    `work(stream)` may launch kernels and copy between device and pinned memory. The arrays it uses must stay alive.
    """

    def __init__(self, work: Callable[[Any], None], stream: Any) -> None:
        self._work = work
        self._stream = stream
        self._replay: Callable[[], Any] | None = None
        self._wait: Callable[[], Any]

    def __call__(self) -> None:
        """Do the work and wait until it is complete."""
        if self._replay is not None:
            _enter()
            _checked(self._replay())
            _checked(self._wait())
        else:
            self._work(self._stream)
            self._stream.synchronize()
            if not config.ENABLE_CUDASIM:
                self._record()

    def _record(self) -> None:
        from cuda.bindings import driver

        stream = driver.CUstream(int(getattr(self._stream.handle, "value", self._stream.handle) or 0))
        with nothing_freed():
            _destroy_unused()
            recorded = self._captured(stream)
            (graph,) = _checked(driver.cuGraphInstantiate(recorded, 0))
            _checked(driver.cuGraphDestroy(recorded))
        weakref.finalize(self, _UNUSED.append, graph).atexit = False
        self._replay, self._wait = partial(driver.cuGraphLaunch, graph, stream), partial(driver.cuStreamSynchronize, stream)

    def _captured(self, stream: Any) -> Any:
        """The work as a graph; the stream is restored even after an error."""
        from cuda.bindings import driver

        _checked(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        try:
            self._work(self._stream)
        except BaseException:
            driver.cuStreamEndCapture(stream)
            raise
        (recorded,) = _checked(driver.cuStreamEndCapture(stream))
        return recorded


def _enter() -> None:
    """Make the GPU usable in this thread; numba takes as long to look it up again as a graph takes to start."""
    if not hasattr(_ENTERED, "context"):
        _ENTERED.context = cuda.current_context()


@contextmanager
def nothing_freed() -> Iterator[None]:
    """Defer all freeing of GPU memory until the block ends."""
    with _RECORDING, cuda.defer_cleanup():
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collects:
                gc.enable()


def _destroy_unused() -> None:
    from cuda.bindings import driver

    while _UNUSED:
        _checked(driver.cuGraphExecDestroy(_UNUSED.popleft()))


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    code, *rest = answer
    if int(code) != 0:
        raise RuntimeError(f"CUDA graph: {code}")
    return tuple(rest)
