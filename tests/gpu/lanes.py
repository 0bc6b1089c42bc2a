"""Blocks of numba's simulator whose threads take turns.

Numba's own starts a thread of Python for each thread of the block, and asks all of them, without rest, whether they wait at
a barrier: most of the time goes into asking. Here each is a greenlet, a stack that is left at a barrier and entered again
later: one thread of the block runs up to its next barrier or its end, and then the next one does. Their order is shuffled
at every barrier, so that a kernel which lacks one does not always find what it reads already written.
"""

from __future__ import annotations

import random
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from greenlet import greenlet
from numba.cuda.simulator import kernel, kernelapi

ORDER = random.Random(0)


class Lane:
    """A thread of a block."""

    def __init__(self, task: Any, block: Any, thread: Any) -> None:
        self.blockIdx, self.threadIdx = kernelapi.Dim3(*block), kernelapi.Dim3(*thread)
        self._stack = greenlet(task)

    def syncthreads(self) -> None:
        self._stack.parent.switch()

    def go_on(self) -> bool:
        """Run up to the next barrier or the end; whether it is a barrier."""
        Block.current = self
        self._stack.switch()
        return not self._stack.dead

    def end(self) -> None:
        """Leave the kernel, at the barrier where it waits."""
        self._stack.throw()


class Block:
    """Takes the place of numba's `BlockManager`."""

    current: Lane

    def __init__(self, function: Any, grid_dim: Any, block_dim: Any, debug: bool) -> None:
        self._function, self._block_dim = function, block_dim

    def run(self, grid_point: Any, *arguments: Any) -> None:
        task = partial(self._function, *arguments)
        lanes = coming = [Lane(task, grid_point, place) for place in np.ndindex(*self._block_dim)]
        try:
            while coming:
                ORDER.shuffle(coming)
                coming = [lane for lane in coming if lane.go_on()]
        finally:  # an error in one ends them all
            for lane in lanes:
                lane.end()


def take_turns() -> None:
    """Make the simulator use these blocks."""
    kernel.BlockManager = Block
    kernelapi.threading = SimpleNamespace(current_thread=lambda: Block.current)
