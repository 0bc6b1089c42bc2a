"""Disks that are full or cannot be written: one sentence, the old file as it was, and nothing left behind."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attack.row import Row

#: Bytes of the disk, and how many of them are left.
DISK, LEFT = 1 << 20, 4096


def rows(seed: int) -> Iterator[Row]:
    for name, prepare in (("full disk", fill), ("read-only disk", lock)):
        row = Row(name)
        try:
            with disk() as folder:
                savers = all_savers()
                for file in savers:
                    (folder / file).write_text("what was there")
                prepare(folder)
                for file, save in savers.items():
                    with row.trying(file):
                        refused(folder / file, save)
        except PermissionError as error:
            row.note = f"left out: {error}"
        yield row


@contextmanager
def disk() -> Iterator[Path]:
    """A small disk of its own in memory; only the superuser can make one."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder]
        made = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise PermissionError("only the superuser can mount a disk to fill")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> None:
    try:
        with (folder / "ballast").open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
    except OSError:
        with (folder / "ballast").open("r+b") as file:
            file.truncate((folder / "ballast").stat().st_size - LEFT)


def lock(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def all_savers() -> dict[str, Callable[[Path], object]]:
    """Everything that writes a file, each with more than fits on the disk."""
    from capture_cp import Tree, method, write_transitions
    from capture_cp.base.files import write_json
    from capture_cp.planning import Episode
    from capture_lab.studies.part_store import PartStore
    from capture_lab.tasks.box import Box

    box, rng = Box(spacing=0.05), np.random.default_rng(0)
    log = box.transitions(20_000, rng)
    cap = method("capture", box, box.strata, n_particles=4, tree=Tree(min_leaf=500)).fit(log.X, log.Y)
    steps = rng.random((2001, 4)), rng.random((2000, 2)), rng.random((2000, 6, 2)), rng.random(2000), rng.random(2000)
    numbers = rng.random(20_000).tolist()

    def state(path: Path) -> None:
        store = PartStore(path.parent, "job", {})
        for part in range(100):
            store.add(part, numbers)

    return {
        "box.capture": cap.save,
        "rows.json": lambda path: write_json(path, numbers),
        "log.csv": lambda path: write_transitions(path, log),
        "log.npz": lambda path: write_transitions(path, log),
        "log.parquet": lambda path: write_transitions(path, log),
        "run.npz": lambda path: Episode("goal", *steps).save(path),
        "state": state,
    }


def refused(path: Path, save: Callable[[Path], Any]) -> None:
    from capture_cp import CaptureError

    others = names(path.parent)
    with pytest.raises(CaptureError, match="cannot write"):
        save(path)
    assert path.read_text() == "what was there"
    assert names(path.parent) == others


def names(folder: Path) -> set[str]:
    """Names in a folder; a state is written part by part, and may be there."""
    return {entry.name for entry in folder.iterdir() if entry.suffix != ".jsonl"}
