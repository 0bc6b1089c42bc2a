"""Forged files: calibrations, rollout calibrations, maps and states of studies, field by field; other files at random."""

from __future__ import annotations

import copy
import json
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fuzz
from attack.row import Row
from mutations.calibrations import opened, signed
from mutations.raw import ODD

FILES = 7_000  # of all kinds, changed at random
SECONDS = 20
#: What stands in for a field in turn: things of another type, numbers out of range, and lists that fill the memory.
VALUES = [*ODD, list(range(200_000)), [[0.0] * 1000] * 200, "x" * 1_000_000]


def rows(seed: int) -> Iterator[Row]:
    found = fuzz.run(FILES, seed)
    for kind in fuzz.kinds():
        tries = sum(count for (name, _), count in found["counts"].items() if name == kind)
        yield Row(f"{kind} file, at random", tries, [what for what in found["failures"].values() if what.split()[0] == kind])
    signal.signal(signal.SIGALRM, hung)
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with tempfile.TemporaryDirectory() as folder:
        bench = fuzz.Bench(Path(folder))
        bench.warm_up()
        sys.addaudithook(fuzz._audit)
        for kind in ("calibration", "horizon"):
            yield calibration(bench, kind)
        yield maps(Path(folder))
        yield states(Path(folder))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every field of JSON, of lists only the first two entries."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else ()
    for key, part in inner:
        yield from places(part, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy of JSON with one field changed."""
    changed = copy.deepcopy(value)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return changed


@contextmanager
def answered(row: Row, what: object) -> Iterator[None]:
    """A try that must end in time with an answer or a `CaptureError`, and do nothing else."""
    from capture_cp import CaptureError

    with row.trying(what):
        signal.alarm(SECONDS)
        try:
            with fuzz.watched() as seen:
                yield
        except CaptureError as error:
            if len(str(error)) > 2000:
                raise AssertionError("a sentence of over 2000 characters") from None
        finally:
            signal.alarm(0)
        assert not seen, seen[:3]


def hung(*_: object) -> None:
    raise TimeoutError(f"no answer in {SECONDS} s")


def calibration(bench: fuzz.Bench, kind: str) -> Row:
    """Every field of the header with every odd value, and a checksum that is right."""
    row = Row(f"{kind} file, field by field")
    header, arrays = opened(bench.seeds[kind])
    file = bench.folder / f"forged.{kind}"
    for path in places(header):
        for number, value in enumerate(VALUES):
            file.write_bytes(signed(bench.seeds[kind], replaced(header, path, value), arrays))
            with answered(row, f"{path} is value {number}"):
                bench.opens[kind](file)
    return row


def maps(folder: Path) -> Row:
    from capture_lab.tasks.marble.maps import load_map
    from marble.boards import OWN

    row, file = Row("map, field by field"), folder / "map.json"
    full = OWN | {"name": "map", "marble_radius": 6.4, "goal_radius": 6.4}
    file.write_text(json.dumps(full))
    load_map(file)  # compiles what is not yet compiled
    for path in places(full):
        for number, value in enumerate([*VALUES, 1999.0, 1e-300, -0.0, [[30, 58]] * 20_000, [[28, 0, 32, 20]] * 20_000]):
            file.write_text(json.dumps(replaced(full, path, value)))
            with answered(row, f"{path} is value {number}"):
                load_map(file)
    return row


def states(folder: Path) -> Row:
    """Every character of a state changed: no part may come back as anything but what was written."""
    from capture_lab.studies.part_store import PartStore

    row, store = Row("state of a study, byte by byte"), PartStore(folder / "state", "job", {})
    parts = {part: {"capture": {"inputs": 4096, "sums": [[1984.0, 3840.0 + part]], "cells": [5.0]}} for part in range(4)}
    for part, result in parts.items():
        store.add(part, result)
    whole = store.file.read_bytes()
    for place in range(len(whole)):
        for new in (b"", b"7", b"\n", b"\xff", whole[place : place + 1] * 2):
            store.file.write_bytes(whole[:place] + new + whole[place + 1 :])
            with row.trying(f"byte {place}"):
                found = store.load()
                assert found.items() <= parts.items(), "a part that nobody has written"
                assert store.load() == found, "another answer the second time"
    return row
