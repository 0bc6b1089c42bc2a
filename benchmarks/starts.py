"""How long commands take to answer: imports, help, and the demo with compiled code on disk."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.comparison import Comparison, Job, limited


def start_comparisons() -> Iterator[Comparison]:
    """Starts of Python processes against those that only import a library."""
    numba = _process("-c", "import numba")
    yield Comparison("capture --help", _process("-m", "capture_cp.cli", "--help"), "import numba", numba, 1, rounds=3)
    yield Comparison(
        "from capture_cp import Capture", _process("-c", "from capture_cp import Capture"), "import sklearn.tree",
        _process("-c", "import sklearn.tree"), 1, rounds=3,
    )  # fmt: skip


def start_measures() -> list[dict[str, Any]]:
    """Seconds of `capture demo` with compiled code on disk, for one map of the marble."""
    with tempfile.TemporaryDirectory() as folder:
        demo = _process("-m", "capture_cp.cli", "demo", "--out", str(Path(folder) / "demo"))
        demo()  # compiles
        began = perf_counter()
        demo()
        return [limited("capture demo, second use (s)", perf_counter() - began, 8)]


def _process(*arguments: str) -> Job:
    """A Python process with these arguments, without its output."""
    return lambda: subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
