"""Large sets of peg transitions: simulated in parts, cached on disk, never simulated twice.

Part i of a data set depends only on the configuration, the seed and i, not on threads or on the number of parts: a smaller
set is always the beginning of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import resources
from importlib.metadata import version
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialise

from capture_cp.base.checks import CaptureError, Floats, whole_number
from capture_cp.base.files import Pathlike, cache_folder, written_whole
from capture_cp.base.streams import stream
from capture_cp.data.transitions import Transitions
from capture_lab.tasks.peg.simulator import PegSystem
from capture_lab.tasks.peg.task import Peg
from capture_lab.tasks.task import CALIBRATION

#: Transitions per part; it also determines which random numbers they get, so it is not a setting.
PART = 5000
#: Files that determine the numbers: the geometry of starts and landings, the scene and its controllers.
_SOURCES = (
    *("cspace.py", "data.py", "geometry.py", "model.py", "settings.py", "task.py"),
    *("arm.py", "mjcf.py", "panda.json", "planar.py", "simulator.py"),
)

Part = tuple[Floats, Floats, int]


@dataclass(frozen=True)
class PegData:
    """Transitions, and how many of their landings had to be pushed out of an overlap to be feasible."""

    transitions: Transitions
    pushed_out: int


def peg_data(
    task: Peg,
    n: int,
    seed: int = 0,
    purpose: str = CALIBRATION,
    threads: int | None = None,
    folder: Pathlike | None = None,
    advance: Callable[[int], object] | None = None,
) -> PegData:
    """n transitions of the task's true system, from disk if they were simulated before.

    Args:
        seed: same seed, same transitions.
        purpose: CALIBRATION or TEST, which use independent random numbers.
        threads: threads of the simulator, by default all cores; the transitions do not depend on them.
        folder: where to store them, by default the user's cache. After an interruption, the same call continues.
        advance: called with the number of finished transitions after each part.
    """
    n, seed = whole_number("n", n, 1), whole_number("seed", seed, 0)
    system = task.true_system(threads)
    fingerprint = _fingerprint(task, seed, purpose)
    kept = _made_folder(Path(folder) if folder is not None else cache_folder(), f"peg-{task.system}-{fingerprint[:16]}")
    parts = []
    for number, first in enumerate(range(0, n, PART)):
        rows = min(PART, n - first)
        file = kept / f"part-{number:04}-{rows}.safetensors"
        part = _read(file, fingerprint)
        if part is None:
            part = _simulate(task, system, rows, partial(stream, seed, f"peg {task.system}", purpose, number))
            _write(file, part, fingerprint)
        parts.append(part)
        if advance is not None:
            advance(rows)
    X, Y = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
    return PegData(task.as_transitions(X, Y), sum(part[2] for part in parts))


def _simulate(task: Peg, system: PegSystem, rows: int, random: Callable[[str], np.random.Generator]) -> Part:
    """The first rows of one part; starts and noise have separate streams, so that a shorter part is a beginning."""
    X = task.inputs(PART, random("starts"))[:rows]
    Y, pushed_out = task.landings(X, random("noise"), system)
    return X, Y, pushed_out


def _fingerprint(task: Peg, seed: int, purpose: str) -> str:
    """Digest of everything that the transitions depend on."""
    digest = hashlib.sha256(repr((task, seed, purpose, PART, version("mujoco"))).encode())
    for source in _SOURCES:
        digest.update(resources.files("capture_lab.tasks.peg").joinpath(source).read_bytes())
    return digest.hexdigest()


def _made_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureError(f"cannot store transitions in {parent}: {error.strerror}; choose a writable folder.") from None
    return folder


def _write(file: Path, part: Part, fingerprint: str) -> None:
    X, Y, pushed_out = part
    about = {"fingerprint": fingerprint, "sha256": _checksum(part), "pushed_out": str(pushed_out)}
    with written_whole(file) as temporary:
        temporary.write_bytes(serialise({"X": np.ascontiguousarray(X), "Y": Y}, about))


def _read(file: Path, fingerprint: str) -> Part | None:
    """A part from disk; None if it is missing or damaged and must be simulated again."""
    try:
        with safe_open(file, "numpy") as stored:
            about, X, Y = stored.metadata() or {}, stored.get_tensor("X"), stored.get_tensor("Y")
        part = X, Y, int(about["pushed_out"])
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    if about.get("sha256") != _checksum(part):
        return None
    if about.get("fingerprint") != fingerprint:
        raise CaptureError(
            f"{file} holds transitions of another configuration of the peg; delete it, or choose another folder."
        )
    return part


def _checksum(part: Part) -> str:
    X, Y, pushed_out = part
    shapes = repr((X.shape, X.dtype, Y.shape, Y.dtype, pushed_out))
    return hashlib.sha256(X.tobytes() + Y.tobytes() + shapes.encode()).hexdigest()
