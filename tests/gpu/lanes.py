"""Blocks of numba's simulator whose threads take turns.

Numba's own starts a thread of Python for each thread of the block, and asks all of them, without rest, whether they wait at
a barrier: most of the time goes into asking. Here one thread of the block runs up to its next barrier or its end, and then
the next one does. Their order is shuffled at every barrier, so that a kernel which lacks one does not always find what it
reads already written. A thread of Python is needed only for one that waits.
"""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba.cuda.simulator import kernel, kernelapi

ORDER = random.Random(0)
STACKS = ThreadPoolExecutor(1024)


class Lane(kernel.BlockThread):
    """A thread of a block; numba's class also counts votes at barriers."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.turn = threading.Lock()
        self.turn.acquire()
        self.begun = False

    def syncthreads(self) -> None:
        self._manager.pass_on(self)
        if self._manager.error:
            raise RuntimeError("another thread of the block has failed")


class Block:
    """Takes the place of numba's `BlockManager`."""

    current: Lane

    def __init__(self, function: Any, grid_dim: Any, block_dim: Any, debug: bool) -> None:
        self._function, self._block_dim, self._debug = function, block_dim, debug
        self.block_state = np.zeros(block_dim, dtype=bool)
        self.error: Any = None

    def run(self, grid_point: Any, *arguments: Any) -> None:
        task = partial(self._function, *arguments)
        self._coming = [Lane(task, self, grid_point, place, self._debug) for place in np.ndindex(*self._block_dim)]
        self._waiting: list[Lane] = []
        self._over = threading.Lock()
        self._over.acquire()
        ORDER.shuffle(self._coming)
        self._go_on(self._next())
        self._over.acquire()
        if self.error:
            raise self.error[0].with_traceback(self.error[1])

    def pass_on(self, lane: Lane) -> None:
        """Let others run until all have come to the barrier."""
        self._waiting.append(lane)
        following = self._next()
        if following is not lane:
            if following.begun:
                self._resume(following)
            else:
                STACKS.submit(self._go_on, following)
            lane.turn.acquire()

    def _next(self) -> Lane | None:
        """Whose turn it is; after an error, of those that wait only, to end them."""
        if self.error:
            self._coming = [lane for lane in self._coming if lane.begun]
        if not self._coming:
            self._coming, self._waiting = self._waiting, []
            ORDER.shuffle(self._coming)
        return self._coming.pop() if self._coming else None

    def _resume(self, lane: Lane) -> None:
        Block.current = lane
        lane.turn.release()

    def _go_on(self, lane: Lane | None) -> None:
        """Run threads of the block in this thread of Python, until it is the turn of one that has its own."""
        while lane is not None:
            if lane.begun:
                self._resume(lane)
                return
            Block.current, lane.begun = lane, True
            lane.run()
            self.error = self.error or lane.exception
            lane = self._next()
        self._over.release()


def take_turns() -> None:
    """Make the simulator use these blocks."""
    kernel.BlockManager = Block
    kernelapi.threading = SimpleNamespace(current_thread=lambda: Block.current)
