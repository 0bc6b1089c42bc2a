"""Launches recorded once and replayed as one: a few small kernels would otherwise wait longer to start than to run.

While a stream is recorded, CUDA refuses to free memory, and gives up what it has recorded. Arrays are freed by their
finalizers, which run whenever an object goes or the garbage collector comes by. So nothing is freed until the recording has
ended.
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
#: Graphs that nobody replays any more. A finalizer may run anywhere: they are destroyed before the next one is recorded.
_UNUSED: deque[Any] = deque()


class Recorded:
    """Work on a stream that is always the same: it runs once, is recorded, and is then replayed as a CUDA graph.

    `work(stream)` may launch kernels and copy between device and pinned memory. The arrays it uses must stay alive.
    """

    def __init__(self, work: Callable[[Any], None], stream: Any) -> None:
        self._work = work
        self._stream = stream
        self._replay: Callable[[], Any] | None = None

    def __call__(self) -> None:
        """Do the work, and wait for it."""
        if self._replay is not None:
            cuda.current_context()  # in a thread that has not used the GPU yet
            _checked(self._replay())
        else:
            self._work(self._stream)
            if not config.ENABLE_CUDASIM:
                self._stream.synchronize()
                self._record()
        self._stream.synchronize()

    def _record(self) -> None:
        from cuda.bindings import driver

        stream = driver.CUstream(int(getattr(self._stream.handle, "value", self._stream.handle) or 0))
        with nothing_freed():
            _destroy_unused()
            recorded = self._captured(stream)
            (graph,) = _checked(driver.cuGraphInstantiate(recorded, 0))
            _checked(driver.cuGraphDestroy(recorded))
        weakref.finalize(self, _UNUSED.append, graph).atexit = False
        self._replay = partial(driver.cuGraphLaunch, graph, stream)

    def _captured(self, stream: Any) -> Any:
        """The work as a graph; the stream is as before, whatever happens."""
        from cuda.bindings import driver

        _checked(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
        try:
            self._work(self._stream)
        except BaseException:
            driver.cuStreamEndCapture(stream)
            raise
        (recorded,) = _checked(driver.cuStreamEndCapture(stream))
        return recorded


@contextmanager
def nothing_freed() -> Iterator[None]:
    """No memory of a GPU is freed while the block lasts: what would be is freed later."""
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
