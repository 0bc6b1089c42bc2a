"""A process that draws figures: it imports matplotlib while this one computes, and draws while this one goes on."""

from __future__ import annotations

import gc
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from capture_cp.kernels.compiler import threads_have_started

#: Called in the process at once, with a function that returns whether it still has time.
Prepare = Callable[[Callable[[], bool]], object]


class DrawingProcess:
    """One call of a function in another process, which has the modules of this one and has prepared for it.

    Whatever fails there, such as an argument that cannot be sent, or the process being killed, the caller does the work
    itself.
    """

    def __init__(self, prepare: Prepare) -> None:
        import multiprocessing

        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._pipe, theirs, prepare), daemon=True)
        self._busy = False
        with _interrupts_blocked(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside the threads of BLAS, which allow it
            self._process.start()
        theirs.close()

    def begin(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Have the work done there. The result is that of `result`."""
        with suppress(Exception):  # what cannot be pickled says so in many ways
            self._pipe.send_bytes(pickle.dumps((work, arguments)))
            self._busy = True

    def result(self) -> Any:
        """The result of the work, with its warnings repeated here; None if it has not begun or has failed."""
        if not self._busy:
            return None
        try:
            result, heard = pickle.loads(self._pipe.recv_bytes())
        except Exception:
            return None
        for one in heard:
            warnings.warn_explicit(*one)
        return result

    def stop(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.kill()
        self._process.join()


@contextmanager
def drawing_process(prepare: Prepare | None) -> Iterator[DrawingProcess | None]:
    """A process that prepares at once, and that ends with the block; None where it cannot be had safely, or is not wanted.

    It is forked, because another Python would import everything again. A process with several threads must not be forked.
    """
    alone = threading.active_count() == 1 and not threads_have_started()
    try:
        found = DrawingProcess(prepare) if prepare is not None and alone and sys.platform == "linux" else None
    except OSError:
        found = None
    try:
        yield found
    finally:
        if found is not None:
            found.stop()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Hold Ctrl+C back while the block lasts: the new process, which inherits this, never receives it."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _serve(ours: Any, pipe: Any, prepare: Prepare) -> None:
    """The other process: wait for work, do it, send the result."""
    gc.disable()  # it would look through all objects of this process, and memory that is touched is copied
    ours.close()  # else it would not notice that this process has ended
    try:
        came = threading.Event()
        preparing = threading.Thread(target=prepare, args=(lambda: not came.is_set(),))
        preparing.start()  # on a thread, since work is received meanwhile, however large it is
        received = pipe.recv_bytes()
        came.set()
        preparing.join()
        work, arguments = pickle.loads(received)
        with warnings.catch_warnings(record=True) as caught:
            result = work(*arguments)
        heard = [(str(one.message), one.category, one.filename, one.lineno) for one in caught]
        pipe.send_bytes(pickle.dumps((result, heard)))
    except Exception:  # the caller does the work itself and reports what is wrong
        return
