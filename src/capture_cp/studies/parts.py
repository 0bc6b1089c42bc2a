"""Long work in parts: run on any number of processes or on a cluster, saved to disk, continued after a stop."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

import numba

from capture_cp.base.checks import CaptureError, CaptureWarning
from capture_cp.base.files import written_whole
from capture_cp.report.output import output_folder

#: What a part is known by: its number, its rows.
Named = TypeVar("Named")
#: Processes of this machine, or the workers of a cluster, all through joblib.
BackendName = Literal["loky", "dask", "ray"]
_PACKAGES = {"dask": "distributed", "ray": "ray"}


class PartStore:
    """Finished parts of one job, a JSON line each, in a file named after a fingerprint of the job's settings.

    Every line has a checksum. A file with a line that does not agree with its own is set aside, and its parts are computed
    again; a last line cut short, as a killed run leaves it, is dropped.
    """

    def __init__(self, folder: Path | None, name: str, settings: Mapping[str, Any]) -> None:
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
        self.name = f"{name}-{digest}"
        self.file = None if folder is None else output_folder(folder) / f"{self.name}.jsonl"

    def load(self) -> dict[int, Any]:
        """Finished parts by number."""
        if self.file is None or not self.file.exists():
            return {}
        try:
            *lines, last = self.file.read_bytes().split(b"\n")
        except OSError as error:
            raise CaptureError(f"cannot read {self.file}: {error.strerror}; check its permissions.") from None
        found = [self._record(line) for line in lines]
        if None in found:
            self._set_aside(lines, found)
        return dict(record for record in (*found, self._record(last)) if record is not None)

    def add(self, part: int, result: Any) -> None:
        """Keep a finished part."""
        if self.file is None:
            return
        line = json.dumps({"part": part, "result": result, "sha256": self._checksum(part, result)})
        try:
            with self.file.open("a+b") as lines:
                self._end_last_line(lines)
                lines.write(line.encode() + b"\n")
        except OSError as error:
            raise CaptureError(f"cannot write {self.file}: {error.strerror}.") from None

    def _end_last_line(self, lines: BinaryIO) -> None:
        """Finish the last line of a file open for appending, or drop it if a killed run has left only its beginning."""
        lines.seek(max(0, lines.seek(0, os.SEEK_END) - 1))
        if lines.read() in (b"", b"\n"):
            return
        lines.seek(0)
        content = lines.read()
        start = content.rfind(b"\n") + 1
        if self._record(content[start:]) is None:
            lines.truncate(start)
        else:
            lines.write(b"\n")

    def _record(self, line: bytes) -> tuple[int, Any] | None:
        """Number and result of a part; None if the line is not one that `add` has written."""
        try:
            record = json.loads(line)
            part, result = int(record["part"]), record["result"]
            return (part, result) if record["sha256"] == self._checksum(part, result) else None
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None

    def _checksum(self, part: int, result: Any) -> str:
        """Of the part and the job it belongs to, so that a line of another job's file is noticed as well."""
        return hashlib.sha256(json.dumps([self.name, part, result]).encode()).hexdigest()

    def _set_aside(self, lines: list[bytes], found: list[Any]) -> None:
        """Keep the damaged file under another name, and go on with its sound lines."""
        assert self.file is not None
        damaged = self.file.with_name(f"{self.file.name}.damaged")
        try:
            self.file.replace(damaged)
        except OSError as error:
            raise CaptureError(f"cannot set the damaged {self.file} aside: {error.strerror}; delete it.") from None
        with written_whole(self.file) as temporary:
            temporary.write_bytes(b"".join(line + b"\n" for line, record in zip(lines, found) if record is not None))
        warnings.warn(
            f"{self.file} is damaged: {found.count(None)} of {len(lines)} finished parts do not match their checksums "
            f"and are computed again; the damaged file is kept as {damaged.name}.",
            CaptureWarning,
            stacklevel=3,
        )


def run_parts(work: Callable[[Named], Any], parts: Sequence[Named], jobs: int) -> Iterator[tuple[Named, Any]]:
    """`work(part)` for every part, on `jobs` processes: pairs of part and result, in order.

    With one job the work stays in this process and its kernels use every core; with more, each process gets its share.
    Inside `workers` the processes are those of the cluster.
    """
    from joblib import Parallel, delayed
    from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend

    backend, _ = get_active_backend()
    if jobs == 1 and type(backend) is BACKENDS[DEFAULT_BACKEND]:
        yield from ((part, work(part)) for part in parts)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # a backend that cannot hand results over one by one gets a few parts at a time, so that they are kept as they come
    one_by_one = backend.supports_return_generator
    size = max(len(parts), 1) if one_by_one else 4 * jobs
    for first in range(0, len(parts), size):
        batch = parts[first : first + size]
        run = Parallel(n_jobs=jobs, return_as="generator" if one_by_one else "list")
        with killed_workers_explained():
            with _interrupts_held() if one_by_one else nullcontext():
                results = run(delayed(_with_threads)(work, part, threads) for part in batch)
            yield from zip(batch, results)


def _with_threads(work: Callable[[Any], Any], part: Any, threads: int) -> Any:
    with kernel_threads(threads):
        return work(part)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl+C back while the block lasts; processes that are started in it never receive it.

    A terminal sends it to all processes of a command. This one stops the others, which would only print tracebacks.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    import multiprocessing.resource_tracker

    import joblib.externals.loky.backend.resource_tracker as loky_tracker

    for tracker in (multiprocessing.resource_tracker, loky_tracker):
        tracker.ensure_running()  # its start unblocks interrupts
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # an interrupt that came meanwhile is raised here


@contextmanager
def kernel_threads(threads: int | None) -> Iterator[None]:
    """Compiled loops on at most so many threads, while the block lasts."""
    before = numba.get_num_threads()
    numba.set_num_threads(before if threads is None else min(threads, before))
    try:
        yield
    finally:
        numba.set_num_threads(before)


# -- where parts run ------------------------------------------------------------------------------------------------------


def check_backend(backend: BackendName) -> None:
    """Raise an error for a backend that is not installed."""
    package = _PACKAGES.get(backend)
    if package is not None and find_spec(package) is None:
        raise CaptureError(f'--backend {backend} needs {package}; install it with: pip install "capture-cp[{backend}]".')


@contextmanager
def workers(backend: BackendName, jobs: int, cluster: str | None = None) -> Iterator[None]:
    """While the block lasts, `run_parts` uses this backend.

    Dask and Ray join the `cluster` at that address, or the one named by DASK_SCHEDULER_ADDRESS or RAY_ADDRESS; without one
    they start `jobs` workers here.
    """
    check_backend(backend)
    if backend == "loky":
        yield
        return
    from joblib import parallel_config

    with (_dask if backend == "dask" else _ray)(jobs, cluster), parallel_config(backend=backend, n_jobs=jobs):
        yield


@contextmanager
def killed_workers_explained() -> Iterator[None]:
    """Reports a process of this machine that was killed, by the system or by a person, in one sentence."""
    try:
        yield
    except BrokenExecutor:
        raise CaptureError(
            "a worker process was killed before its work was done, as the system does when memory runs out; give the "
            "command again with fewer --jobs. With --state, or in capture reproduce, finished parts are kept."
        ) from None


@contextmanager
def _dask(jobs: int, cluster: str | None) -> Iterator[Any]:
    from distributed import Client

    address = cluster or os.environ.get("DASK_SCHEDULER_ADDRESS")
    # one thread per worker: compiled kernels must not be entered by two threads of one process
    local: dict[str, Any] = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(address) if address else Client(**local)
    except (OSError, TimeoutError, ValueError) as error:
        raise CaptureError(f"no Dask cluster answers at {address or 'this machine'}: {error}.") from None
    with client:
        yield client


@contextmanager
def _ray(jobs: int, cluster: str | None) -> Iterator[None]:
    import ray
    from ray.util.joblib import register_ray

    address = cluster or os.environ.get("RAY_ADDRESS")
    try:
        if address:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        else:
            ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise CaptureError(f"no Ray cluster answers at {address or 'this machine'}: {error}.") from None
    try:
        register_ray()
        yield
    finally:
        ray.shutdown()
