"""Where parts of a sweep run: processes of this machine, or the workers of a Dask or Ray cluster, all through joblib."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Literal

from capture_cp.base.checks import CaptureError

BackendName = Literal["loky", "dask", "ray"]
_PACKAGES = {"dask": "distributed", "ray": "ray"}


def check_backend(backend: BackendName) -> None:
    """Refuse a backend that is not installed."""
    package = _PACKAGES.get(backend)
    if package is not None and find_spec(package) is None:
        raise CaptureError(f'--backend {backend} needs {package}; install it with: pip install "capture-cp[{backend}]".')


@contextmanager
def workers(backend: BackendName, jobs: int) -> Iterator[None]:
    """While the block lasts, `run_parts` uses this backend.

    Dask and Ray join the cluster named by DASK_SCHEDULER_ADDRESS or RAY_ADDRESS; without one they start `jobs` workers here.
    """
    check_backend(backend)
    if backend == "loky":
        yield
        return
    from joblib import parallel_config

    with (_dask if backend == "dask" else _ray)(jobs), parallel_config(backend=backend, n_jobs=jobs):
        yield


@contextmanager
def killed_workers_explained() -> Iterator[None]:
    """A process of this machine that was killed, by the system or by a person, as one sentence."""
    try:
        yield
    except BrokenExecutor:
        raise CaptureError(
            "a worker process was killed before its work was done, as the system does when memory runs out; give the "
            "command again with fewer --jobs. With --state, or in capture reproduce, finished parts are kept."
        ) from None


@contextmanager
def _dask(jobs: int) -> Iterator[Any]:
    from distributed import Client

    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    # one thread a worker: compiled kernels must not be entered by two threads of one process
    local: dict[str, Any] = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(address) if address else Client(**local)
    except (OSError, TimeoutError, ValueError) as error:
        raise CaptureError(f"no Dask cluster answers at {address or 'this machine'}: {error}.") from None
    with client:
        yield client


@contextmanager
def _ray(jobs: int) -> Iterator[None]:
    import ray
    from ray.util.joblib import register_ray

    address = os.environ.get("RAY_ADDRESS")
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
