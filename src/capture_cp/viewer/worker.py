"""Work in the background, so that the page answers whatever else is going on."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """A thread that does `work` whenever it is woken, and again by itself after as many seconds as `work` returns.

    Wakes that arrive during the work count as one: what is drawn is always the latest. An error ends nothing: it is
    reported, and the thread waits for the next wake.

    Args:
        work: returns after how many seconds it wants to be called again, or None to wait until woken.
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
        """Have the work done soon."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after the work in hand."""
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
            except Exception as error:  # whatever it is, the page must live on and report it
                again = None
                self._failed(error)
            self._stop.wait(self._pause)
