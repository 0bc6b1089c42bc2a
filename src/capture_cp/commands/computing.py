"""Where the chunks of a log are computed: here, on other processes of this machine, or on the workers of a cluster."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.progress import Progress

from capture_cp.base.checks import CaptureError, whole_number
from capture_cp.base.progress import progress_bar
from capture_cp.commands.user_objects import importable
from capture_cp.data.parts import BackendName, run_parts, workers
from capture_cp.data.transitions import Runner

Running = Callable[[str], Runner[Any]]


@dataclass(frozen=True)
class Computing:
    """Where the work is done. The results do not depend on it."""

    backend: Annotated[
        BackendName, tyro.conf.arg(help="Processes on this machine (loky), or workers of a Dask or Ray cluster.")
    ] = "loky"
    cluster: Annotated[
        str | None,
        tyro.conf.arg(
            help="Address of the cluster's scheduler; its workers must be able to read the log under the same path."
        ),
    ] = None
    jobs: Annotated[int | None, tyro.conf.arg(help="Number of processes; by default 1, with dask or ray one per core.")] = (
        None
    )

    @property
    def here(self) -> bool:
        """Whether the work is done in this process."""
        return self.backend == "loky" and self.jobs in (None, 1)

    @contextmanager
    def running(self, folder: Path) -> Iterator[Running]:
        """While the block lasts, `running("reading")` gives a runner that does its work with a bar of that name.

        `folder` holds the user's own modules.
        """
        if self.jobs is not None:
            whole_number("jobs", self.jobs, 1)
        if self.cluster is not None and self.backend == "loky":
            raise CaptureError(
                f"--cluster {self.cluster} needs --backend dask or ray; this machine's processes have no address."
            )
        jobs = self.jobs or (1 if self.backend == "loky" else os.cpu_count() or 1)
        with workers(self.backend, jobs, self.cluster), progress_bar() as progress:
            yield partial(self._runner, progress, str(folder.resolve()), jobs)

    def _runner(self, progress: Progress, folder: str, jobs: int, description: str) -> Runner[Any]:
        def run(work: Callable[[Any], Any], spans: Sequence[Any]) -> Iterator[Any]:
            bar = progress.add_task(description, total=len(spans), visible=len(spans) > 1)
            sent = work if self.here else Shipped.of(work, folder)
            for _, result in run_parts(sent, spans, jobs):
                progress.advance(bar)
                yield result
            progress.remove_task(bar)

        return run


#: As part of a command.
ComputingOptions = Annotated[Computing, tyro.conf.arg(name="", help="Where the work is done.")]


@dataclass(frozen=True)
class Shipped:
    """Work for other processes, which find the user's own modules in `folder`."""

    pickled: bytes
    folder: str

    @classmethod
    def of(cls, work: Callable[[Any], Any], folder: str) -> Shipped:
        """Work that can be sent."""
        from joblib import wrap_non_picklable_objects

        try:
            return cls(pickle.dumps(wrap_non_picklable_objects(work, keep_wrapper=False)), folder)
        except Exception as error:  # what cannot be pickled says so in many ways
            trouble = " ".join(f"{type(error).__name__}: {error}".split())
            raise CaptureError(
                f"the model or strata cannot be sent to other processes ({trouble}); use --backend loky without --jobs."
            ) from None

    def __call__(self, span: Any) -> Any:
        with importable(Path(self.folder)):
            return _unpacked(self.pickled)(span)


@lru_cache(maxsize=2)
def _unpacked(pickled: bytes) -> Callable[[Any], Any]:
    work: Callable[[Any], Any] = pickle.loads(pickled)
    return work
