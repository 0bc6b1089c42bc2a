"""Long work in parts, on any number of processes of this machine, or on the workers of a Dask or Ray cluster, by joblib."""

from __future__ import annotations

import multiprocessing.resource_tracker
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any, Literal, TypeVar

from capture_cp.base.checks import CaptureError

#: What a part is known by: its number, its rows.
Named = TypeVar("Named")
#: Processes of this machine, or the workers of a cluster.
BackendName = Literal["loky", "dask", "ray"]
_PACKAGES = {"dask": "distributed", "ray": "ray"}
_chosen: ContextVar[BackendName] = ContextVar("_chosen", default="loky")


def run_parts(work: Callable[[Named], Any], parts: Sequence[Named], jobs: int) -> Iterator[tuple[Named, Any]]:
    """`work(part)` for every part, on `jobs` processes: pairs of part and result, in order.

    With one job the work stays in this process and its kernels use every core; with more, each process gets its share.
    Inside `workers` the processes are those of the cluster.
    """
    backend = _chosen.get()
    if jobs == 1 and backend == "loky":
        yield from ((part, work(part)) for part in parts)
        return
    from joblib import Parallel, delayed

    threads = max(1, (os.cpu_count() or 1) // jobs)
    # Ray cannot hand results over one by one: it gets a few parts at a time, so that they are kept as they come
    size, returned = (4 * jobs, "list") if backend == "ray" else (max(len(parts), 1), "generator")
    for first in range(0, len(parts), size):
        batch = parts[first : first + size]
        with killed_workers_explained(), Parallel(jobs, return_as=returned) as pool:
            with _interrupts_held() if backend == "loky" else nullcontext():
                results = pool(delayed(_with_threads)(work, part, threads) for part in batch)
            yield from zip(batch, results)


def _with_threads(work: Callable[[Any], Any], part: Any, threads: int) -> Any:
    import numba

    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        return work(part)
    finally:
        numba.set_num_threads(before)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl+C back while the block lasts; processes that are started in it never receive it.

    A terminal sends it to all processes of a command. This one stops the others, which would only print tracebacks. Trackers
    of shared resources unblock interrupts when they start: Python's starts here, joblib's with its pool.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    multiprocessing.resource_tracker.ensure_running()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # an interrupt that came meanwhile is raised here


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

    variable = {"dask": "DASK_SCHEDULER_ADDRESS", "ray": "RAY_ADDRESS"}[backend]
    address = cluster or os.environ.get(variable)
    with ExitStack() as started:
        try:
            (_dask if backend == "dask" else _ray)(started, jobs, address)
        except (OSError, TimeoutError, RuntimeError, ValueError) as error:
            where = address or "this machine"
            raise CaptureError(f"no {backend.capitalize()} cluster answers at {where}: {error}.") from None
        started.enter_context(parallel_config(backend=backend, n_jobs=jobs))
        token = _chosen.set(backend)
        try:
            yield
        finally:
            _chosen.reset(token)


def _dask(started: ExitStack, jobs: int, address: str | None) -> None:
    from distributed import Client

    # one thread per worker: compiled kernels must not be entered by two threads of one process
    local: dict[str, Any] = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
    started.enter_context(Client(address) if address else Client(**local))


def _ray(started: ExitStack, jobs: int, address: str | None) -> None:
    import ray
    from ray.util.joblib import register_ray

    local: dict[str, Any] = {"num_cpus": jobs, "include_dashboard": False}
    ray.init(**({"address": address} if address else local), log_to_driver=False, logging_level="ERROR")
    started.callback(ray.shutdown)
    register_ray()
