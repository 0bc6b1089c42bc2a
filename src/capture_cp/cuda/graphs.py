"""Launches recorded once and replayed as one: a few small kernels would otherwise wait longer to start than to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import config


class Recorded:
    """Work on a stream that is always the same: it runs once, is recorded, and is then replayed as a CUDA graph.

    `work(stream)` may launch kernels and copy between device and pinned memory. The arrays it uses must stay alive.
    """

    def __init__(self, work: Callable[[Any], None], stream: Any) -> None:
        self._work = work
        self._stream = stream
        self._graph: Any = None

    def __call__(self) -> None:
        """Do the work, and wait for it."""
        if self._graph is not None:
            _checked(_driver().cuGraphLaunch(self._graph, self._handle))
        else:
            self._work(self._stream)
            if not config.ENABLE_CUDASIM:
                self._stream.synchronize()
                self._record()
        self._stream.synchronize()

    @property
    def _handle(self) -> Any:
        return _driver().CUstream(int(getattr(self._stream.handle, "value", self._stream.handle) or 0))

    def _record(self) -> None:
        driver = _driver()
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        _checked(driver.cuStreamBeginCapture(self._handle, mode))
        self._work(self._stream)
        (graph,) = _checked(driver.cuStreamEndCapture(self._handle))
        (self._graph,) = _checked(driver.cuGraphInstantiate(graph, 0))
        _checked(driver.cuGraphDestroy(graph))


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _checked(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    code, *rest = answer
    if int(code) != 0:
        raise RuntimeError(f"CUDA graph: {code}")
    return tuple(rest)
