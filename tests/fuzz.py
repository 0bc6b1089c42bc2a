"""Feeds mutated files to every reader: `python tests/fuzz.py --files 100000`.

Each file is opened in a worker process with a limit on its address space and a watch on its time. A reader may load the
file, and what was loaded must then answer questions, or refuse it with a `CaptureError`. Anything else is a failure: another
exception (a `MemoryError` too), a crash, a hang, or something run, written or connected to. File number i of a seed is the
same every time; `--only i` opens it alone, in this process.
"""

from __future__ import annotations

import argparse
import collections
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

SECONDS = 20  # for one file, on a busy machine
ROOM = 768 << 20  # bytes of address space above what the process has before it opens a file
#: What no reader has any business doing.
FORBIDDEN = (
    "exec", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "os.remove", "os.rename", "os.mkdir",
    "pickle.find_class", "marshal.loads", "shutil.", "socket.", "subprocess.", "ctypes.",
)  # fmt: skip


def run(files: int, seed: int, workers: int = 1) -> dict[str, Any]:
    """How many files of each kind ended how, and the failures as {number: what happened}."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    failures: dict[int, str] = {}
    running = [_Worker(seed, part, files, workers) for part in range(workers)]
    while running:
        ready, _, _ = select.select([worker.stream for worker in running], [], [], 1.0)
        for worker in list(running):
            for number, kind, outcome in worker.outcomes(worker.stream in ready):
                counts[kind, outcome.partition(":")[0]] += 1
                if outcome not in ("loaded", "refused"):
                    failures[number] = f"{kind} {outcome}"
            if worker.finished:
                running.remove(worker)
    return {"counts": dict(sorted(counts.items())), "failures": failures}


class _Worker:
    """A process that opens every `step`-th file from `first`, started again behind any file that ends it."""

    def __init__(self, seed: int, first: int, files: int, step: int) -> None:
        self.seed, self.next, self.files, self.step = seed, first, files, step
        self.finished = False
        self._start()

    def _start(self) -> None:
        job = [sys.executable, __file__, "--work", f"{self.seed} {self.next} {self.files} {self.step}"]
        quiet = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
        self.process = subprocess.Popen(job, stdout=subprocess.PIPE, env=os.environ | quiet)
        self.stream, self.rest, self.since, self.ready = self.process.stdout, b"", time.monotonic(), False

    def outcomes(self, readable: bool) -> Iterator[tuple[int, str, str]]:
        text = os.read(self.stream.fileno(), 1 << 16) if readable else b""
        *lines, self.rest = (self.rest + text).split(b"\n")
        for line in lines:
            self.since = time.monotonic()
            if line == b"ready":
                self.ready = True
                continue
            number, kind, outcome = line.decode().split(" ", 2)
            self.next = int(number) + self.step
            yield int(number), kind, outcome
        stuck = time.monotonic() - self.since > (SECONDS if self.ready else 300)
        if (readable and not text) or stuck:
            self.process.kill()
            code = self.process.wait()
            self.stream.close()
            if code == 0 and not stuck:
                self.finished = True
                return
            if not self.ready:
                raise RuntimeError(f"the worker did not start: exit status {code}")
            yield self.next, kinds()[self.next % len(kinds())], "hung" if stuck else f"crashed: exit status {code}"
            self.next += self.step
            self._start()


def kinds() -> list[str]:
    from mutations import KINDS

    return list(KINDS)


class Bench:
    """Valid files of every kind, and what opens them."""

    def __init__(self, folder: Path) -> None:
        import numpy as np
        from sklearn.base import clone

        from capture_cp import HorizonCapture, Rollouts, Transitions, Tree, method, write_transitions
        from capture_cp.commands.batch import History, check_batch
        from capture_cp.planning import Episode
        from capture_lab.tasks.box import Box

        self.folder, rng = folder, np.random.default_rng(0)
        self.box = Box(spacing=0.05)
        log = self.box.transitions(60, rng)
        self.X, self.Y = log.X[:12], log.Y[:12]
        cap = method("capture", self.box, self.box.strata, n_particles=4, tree=Tree(min_leaf=5))
        cap.fit(log.X, log.Y).save(folder / "seed.calibration")
        clone(cap).fit(log.X, log.Y, episodes=np.arange(60) // 3).save(folder / "seed.episodes")
        history = History.begun_or_continued(folder / "none", cap, 0.01, 0)
        check_batch(cap, self.X, self.Y, history=history)
        history.save(folder / "seed.history")
        self.rollouts = Rollouts.from_arrays(log.state[:40], rng.uniform(-0.2, 0.2, (40, 3, 2)), np.full((40, 3, 2), 0.4))
        horizon = HorizonCapture(self.box.model_step, self.box.strata, (0, 1), groups=Tree(min_leaf=5), n_particles=4)
        horizon.fit(self.rollouts).save(folder / "seed.horizon")
        runs = np.array([f"run {i // 10}" for i in range(30)])
        names = log.state_names, log.action_names, log.next_names
        short = Transitions.from_arrays(
            log.state[:30], log.action[:30], log.next[:30], *names, episode=runs, time=np.arange(30.0)
        )
        for ending in ("csv", "npz", "parquet"):
            write_transitions(folder / f"seed.{ending}", short)
        self._recordings(log.state[:20], log.action[:20])
        steps = log.state[:6], log.action[:5], np.zeros((5, 2, 2)), np.zeros(5), np.ones(5)
        Episode("goal", *steps, info={"map": "box"}).with_regions(cap, (0, 1)).save(folder / "seed.episode")
        self.columns = dict(zip(("state", "action", "next"), names))
        self.seeds = {kind: (folder / f"seed.{kind}").read_bytes() for kind in kinds()}
        self.opens: dict[str, Callable[[Path], None]] = {
            "calibration": self.calibration, "episodes": self.calibration, "horizon": self.horizon, "episode": self.episode,
            "mcap": self.bag, "db3": self.bag, "hdf5": self.demonstrations,
            "history": self.history, "csv": self.transitions, "npz": self.transitions, "parquet": self.transitions,
        }  # fmt: skip

    def _recordings(self, state: Any, action: Any) -> None:
        """A bag of each kind, and a robomimic file."""
        from rosbags.typesys import Stores, get_typestore

        from logs.recordings import Runs, bag

        get_typestore(Stores.ROS2_HUMBLE)  # imports it: a bag may lack definitions
        for storage, ending in (("MCAP", "mcap"), ("SQLITE3", "db3")):
            made = bag(self.folder / ending, state, action, storage)
            next(made.glob(f"*.{ending}")).rename(self.folder / f"seed.{ending}")
        runs = Runs.made(runs=2, steps=10)
        import h5py

        with h5py.File(self.folder / "seed.hdf5", "w") as file:
            for run, q, u in runs.each():
                file[f"data/demo_{run}/obs/q"], file[f"data/demo_{run}/actions"] = q, u

    def warm_up(self) -> None:
        """Import and compile whatever a file may call for, so that only what a file does itself is seen later."""
        from sklearn.base import clone

        from capture_cp import Capture, Mahalanobis, NearestParticles
        from capture_cp.conformal.scores import ParticleBox

        path = self.folder / "warm"
        for kind, data in self.seeds.items():
            path.with_suffix(f".{kind}").write_bytes(data)
            self.opens[kind](path.with_suffix(f".{kind}"))
        cap = Capture.load(self.folder / "seed.calibration", self.box, self.box.strata)
        for score in (Mahalanobis(), ParticleBox(), NearestParticles(2)):
            clone(cap).set_params(score=score).fit(self.X, self.Y).save(path)
            self.calibration(path)

    def calibration(self, path: Path) -> None:
        from capture_cp import Capture, Mahalanobis

        cap = Capture.load(path, self.box, self.box.strata)
        cap.thresholds(self.X, 0.3)
        cap.contains(self.X, self.Y, 0.3)
        str(cap.coverage(self.X, self.Y, 0.3))
        if not isinstance(cap.score, Mahalanobis):
            cap.compile(0.3)

    def horizon(self, path: Path) -> None:
        from capture_cp import HorizonCapture

        cap = HorizonCapture.load(path, self.box.model_step, self.box.strata)
        str(cap.coverage(self.rollouts, 0.3))

    def history(self, path: Path) -> None:
        from capture_cp import Capture
        from capture_cp.commands.batch import History, check_batch

        cap = Capture.load(self.folder / "seed.calibration", self.box, self.box.strata)
        history = History.begun_or_continued(path, cap, 0.01, 0)
        check_batch(cap, self.X[1:], self.Y[1:], history=history)
        assert history.monitor.capital >= 0

    def transitions(self, path: Path) -> None:
        import numpy as np

        from capture_cp import read_transitions
        from capture_cp.data.recognise import match, recognise
        from capture_cp.data.source import open_log

        match(recognise(open_log(path)), None)
        log = read_transitions(path, **self.columns, episode="episode", time="time")
        assert np.isfinite(log.X).all()
        assert np.isfinite(log.Y).all()
        assert log.X.dtype == log.Y.dtype == np.float64
        assert len(log.X) == len(log.Y) == len(log.episode) > 0

    def bag(self, path: Path) -> None:
        joints = "/joint_states.position"
        self.followed(path, state=joints, action="/cmd.data", following=joints, time="time")

    def demonstrations(self, path: Path) -> None:
        self.followed(path, state="obs/q", action="actions", following="obs/q", episode="demo")

    def followed(self, path: Path, **columns: str) -> None:
        import numpy as np

        from capture_cp.data.logged import LoggedTransitions
        from capture_cp.data.source import open_log

        open_log(path).columns()
        log = LoggedTransitions(path, **columns)
        whole = log.read()
        assert np.isfinite(whole.X).all()
        assert np.isfinite(whole.Y).all()
        assert len(whole) == len(log) == sum(map(len, log.pieces()))

    def episode(self, path: Path) -> None:
        from capture_cp.planning import Episode

        found = Episode.load(path)
        assert isinstance(found.outcome, str)
        assert found.inputs.shape[0] == found.steps
        assert (found.plans + 0.0).ndim == 3

    def open(self, number: int, seed: int) -> tuple[str, str]:
        """What comes of file `number`: its kind, and the outcome in words."""
        import numpy as np

        from capture_cp import CaptureError
        from mutations import mutated

        kind = kinds()[number % len(kinds())]
        path = self.folder / f"case.{kind}"
        path.write_bytes(mutated(kind, self.seeds[kind], np.random.default_rng([seed, number])))
        try:
            with watched() as seen:
                self.opens[kind](path)
            outcome = "loaded"
        except CaptureError as error:
            outcome = "refused"
            # rosbags asks for as much memory as a file states
            greedy = kind not in ("mcap", "db3") and isinstance(error.__context__, MemoryError)
            if len(str(error)) > 2000 or greedy:
                outcome = f"escaped: {error.__context__!r:.100} behind a sentence of {len(str(error))} characters"
        except BaseException as error:
            outcome = f"escaped: {type(error).__name__}: {str(error)[:200]!r}"
        return kind, f"misbehaved: {seen[:3]}" if seen else outcome


_seen: list[str] | None = None


@contextmanager
def watched() -> Iterator[list[str]]:
    """Little room to allocate in, and a list of whatever is done that no reader may do."""
    global _seen
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    seen: list[str] = []
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))
    _seen = seen
    try:
        yield seen
    finally:
        _seen = None
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event == "exec" and _by_rosbags(sys._getframe(1)):
        return
    writes = event == "open" and isinstance(arguments[1], str) and any(letter in arguments[1] for letter in "wax+")
    if writes or event.startswith(FORBIDDEN):
        _seen.append(f"{event} {arguments!r:.80}")


def _by_rosbags(frame: FrameType | None) -> bool:
    """Whether it is done for rosbags, which makes readers of messages from their definitions, whose names it has checked."""
    while frame is not None and not frame.f_globals["__name__"].startswith("rosbags."):
        frame = frame.f_back
    return frame is not None


def work(seed: int, first: int, files: int, step: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        bench.warm_up()
        sys.addaudithook(_audit)
        print("ready", flush=True)
        for number in range(first, files, step):
            print(number, *bench.open(number, seed), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="open this file alone and tell")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(*(int(number) for number in given.work.split()))
        return 0
    if given.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(*Bench(Path(folder)).open(given.only, given.seed))
        return 0
    began = time.monotonic()
    found = run(given.files, given.seed, given.workers)
    for (kind, outcome), count in found["counts"].items():
        print(f"{kind:12} {outcome:10} {count:8,}")
    for number, what in sorted(found["failures"].items())[:50]:
        print(f"file {number}: {what}")
    print(f"{given.files:,} files, {len(found['failures'])} failures, {time.monotonic() - began:.0f} s")
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
