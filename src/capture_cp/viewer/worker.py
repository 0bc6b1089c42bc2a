"""Work in the background, so that the page always responds."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """A thread that does `work` when woken, and again after the number of seconds that `work` returns.

    Several wakes during the work count as one, so that the latest frame is drawn. After an error, which is reported, the
    thread waits for the next wake.

    Args:
        work: returns the seconds until its next call, or None to wait until woken.
        failed: called with an error in the work.
        pause: shortest time (s) between two calls.
    """

    def __init__(
        self, name: str, work: Callable[[], float | None], failed: Callable[[Exception], None], pause: float = 0.0
    ) -> None:
        self._work, self._failed, self._pause = work, failed, pause
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Request the work."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after the current work."""
        self._stop.set()
        self._wake.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        again: float | None = None
        while True:
            self._wake.wait(again)
            self._wake.clear()
            if self._stop.is_set():
                return
            try:
                again = self._work()
            except Exception as error:  # the page reports any error and continues
                again = None
                self._failed(error)
            self._stop.wait(self._pause)
