"""Long work in parts: done on any number of processes, kept on disk, continued where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba

from capture_cp.checks import CaptureError

Part = Mapping[str, Any]


class PartStore:
    """Finished parts of one job, a JSON line each, in a file named after a fingerprint of the job's settings."""

    def __init__(self, folder: Path | None, name: str, settings: Mapping[str, Any]) -> None:
        from capture_cp.experiments.output import output_folder  # needs rich, which `run_parts` does without

        digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:16]
        self.name = f"{name}-{digest}"
        self.file = None if folder is None else output_folder(folder) / f"{self.name}.jsonl"

    def load(self) -> dict[int, Any]:
        """Finished parts by number; a line cut short by a crash is left out."""
        found: dict[int, Any] = {}
        if self.file is None or not self.file.exists():
            return found
        for line in self.file.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
                found[int(record["part"])] = record["result"]
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def add(self, part: int, result: Any) -> None:
        if self.file is None:
            return
        try:
            with self.file.open("a+b") as lines:
                lines.seek(max(0, lines.tell() - 1))
                cut_short = lines.read() not in (b"", b"\n")  # by a crash: do not add to that line
                record = json.dumps({"part": part, "result": result})
                lines.write((b"\n" if cut_short else b"") + record.encode() + b"\n")
        except OSError as error:
            raise CaptureError(f"cannot write {self.file}: {error.strerror}.") from None


def run_parts(work: Callable[[int], Any], parts: Sequence[int], jobs: int) -> Iterator[tuple[int, Any]]:
    """`work(part)` for every part, on `jobs` processes: pairs of part and result, in order.

    With one job the work stays in this process and its kernels use every core; with more, each process gets its share.
    Inside `backends.workers` the processes are those of the cluster.
    """
    from joblib import Parallel, delayed
    from joblib.parallel import BACKENDS, DEFAULT_BACKEND, get_active_backend

    backend, _ = get_active_backend()
    if jobs == 1 and type(backend) is BACKENDS[DEFAULT_BACKEND]:
        for part in parts:
            yield part, work(part)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # a backend that cannot hand results over one by one gets a few parts at a time, so that they are kept as they come
    one_by_one = backend.supports_return_generator
    size = max(len(parts), 1) if one_by_one else 4 * jobs
    for first in range(0, len(parts), size):
        batch = parts[first : first + size]
        run = Parallel(n_jobs=jobs, return_as="generator" if one_by_one else "list")
        yield from zip(batch, run(delayed(_with_threads)(work, part, threads) for part in batch))


def _with_threads(work: Callable[[int], Any], part: int, threads: int) -> Any:
    with kernel_threads(threads):
        return work(part)


@contextmanager
def kernel_threads(threads: int | None) -> Iterator[None]:
    """Compiled loops on at most so many threads, while the block lasts."""
    before = numba.get_num_threads()
    numba.set_num_threads(before if threads is None else min(threads, before))
    try:
        yield
    finally:
        numba.set_num_threads(before)
