"""Parts of the demo on little data in a second process, so that two processes compile its kernels side by side.

Numba compiles one kernel at a time per process, and all kernels of the demo take much longer than the demo itself. The
second process begins with the kernels that the first one needs last. Neither compiles what the other has begun, see
`capture_cp.kernels.compile_once`.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from capture_cp.base.files import LOCKS
from capture_cp.base.notices import also_when_compiling
from capture_cp.base.streams import stream
from capture_cp.conformal.groups import Tree
from capture_cp.planning.fused import FusedRollout
from capture_cp.tasks.rows import FittedRow

if TYPE_CHECKING:
    from capture_cp.studies.demo import Demo

#: Sizes of the small run: kernels are compiled for types of arrays, not for sizes.
INPUTS, TRANSITIONS, SAMPLES = 16, 2000, 16


@contextmanager
def rehearsed(demo: Demo) -> Iterator[None]:
    """From the first kernel that is not on disk until the block ends, let a second process compile as well.

    Where it cannot run, or fails, the demo compiles everything itself.
    """
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        with suppress(OSError, pickle.PicklingError, AttributeError, TypeError):
            started.append(_started(pickle.dumps(demo)))

    if LOCKS and _cores() > 1 and sys.executable:
        also_when_compiling(start)
    try:
        yield
    finally:
        for process in started:
            _end(process)


def _cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _started(demo: bytes) -> subprocess.Popen[bytes]:
    """The second process. It ends when its input does, so it never outlives this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "capture_cp.studies.rehearsal"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    process.stdin.write(demo)
    process.stdin.flush()
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    with suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()


def rehearse(demo: Demo) -> None:
    """Compile what the demo needs after calibration: outcomes of the true system, then a plan."""
    from capture_cp.studies.demo import OURS

    _, task = replace(demo, json=None).checked_place()
    task.outcomes(task.inputs(INPUTS, stream(0, "rehearsal")), 1, 0)
    log = task.transitions(TRANSITIONS, stream(0, "rehearsal"))
    cap = task.method(OURS, demo.particles, Tree(per_stratum=demo.per_stratum), demo.seed).fit(log.X, log.Y)
    study = replace(demo, samples=SAMPLES).study((OURS,))
    planner = FittedRow(study.planned_row(task, OURS), task, cap).planner(demo.alpha)
    if isinstance(planner.rollout, FusedRollout):
        planner.rollout.tried = True  # the trial has a kernel of its own, which is compiled meanwhile
    planner.plan(task.starts(1)[0])


def _end_with_input() -> None:
    sys.stdin.buffer.read(1)
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts all processes of a command; the first ends this one
    asked = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_input, daemon=True).start()
    rehearse(asked)
    os._exit(0)
