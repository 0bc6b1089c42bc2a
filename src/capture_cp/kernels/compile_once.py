"""Each kernel is compiled by one process. Others that need it meanwhile wait for it and read it from disk."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from capture_cp.base import notices
from capture_cp.base.files import LOCKS, lock

#: Seconds between two looks at another process, and after which a kernel is compiled here as well.
PAUSE, LONGEST = 0.05, 300.0


class Turn:
    """The turn of this process to compile: the lock of a file beside the kernel's code on disk.

    The system releases it when the process ends, however it ends. Without locks, several processes may compile the same.
    """

    def __init__(self) -> None:
        self._held: tuple[int, Path] | None = None

    def take(self, file: Path) -> None:
        """Wait until no other process has the lock of a file, and take it."""
        self.give_back()
        if not LOCKS:
            return
        try:
            mark = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return
        notices.compilation_begins()
        try:
            _wait_for(mark)
            self._held = mark, file
        finally:
            notices.compilation_ends()
            if self._held is None:
                os.close(mark)

    def give_back(self) -> None:
        """Let another process compile."""
        if self._held is not None:
            mark, file = self._held
            self._held = None
            with suppress(OSError):
                file.unlink()
            os.close(mark)


def _wait_for(mark: int) -> None:
    late = time.monotonic() + LONGEST
    while time.monotonic() < late:
        try:
            lock(mark)
        except BlockingIOError:
            time.sleep(PAUSE)
        except OSError:  # a file system without locks
            return
        else:
            return
