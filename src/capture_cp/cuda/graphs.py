"""Launches recorded once and replayed as one: a few small kernels would otherwise wait longer to start than to run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from numba import config


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
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _checked(driver.cuStreamBeginCapture(stream, mode))
        self._work(self._stream)
        (recorded,) = _checked(driver.cuStreamEndCapture(stream))
        (graph,) = _checked(driver.cuGraphInstantiate(recorded, 0))
        _checked(driver.cuGraphDestroy(recorded))
        self._replay = partial(driver.cuGraphLaunch, graph, stream)


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    code, *rest = answer
    if int(code) != 0:
        raise RuntimeError(f"CUDA graph: {code}")
    return tuple(rest)
