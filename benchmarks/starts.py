"""How long commands take to answer: imports, help, and the demo at its first and second use."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison, Job, limited, seconds


def start_comparisons() -> Iterator[Comparison]:
    """Starts of Python processes against those that only import a library."""
    numba = _process("-c", "import numba")
    yield Comparison("capture --help", _process("-m", "capture_cp.cli", "--help"), "import numba", numba, 1, rounds=3)
    yield Comparison(
        "from capture_cp import Capture", _process("-c", "from capture_cp import Capture"), "import sklearn.tree",
        _process("-c", "import sklearn.tree"), 1, rounds=3,
    )  # fmt: skip


def start_measures() -> list[dict[str, Any]]:
    """Seconds of `capture demo` for one map of the marble: the first use compiles, the second finds its code on disk."""
    with tempfile.TemporaryDirectory() as folder:
        cache = {"XDG_CACHE_HOME": folder, "NUMBA_CACHE_DIR": str(Path(folder) / "numba")}
        demo = _process("-m", "capture_cp.cli", "demo", "--out", str(Path(folder) / "demo"), **cache)
        return [
            limited("capture demo, first use (s)", seconds(demo), 60),
            limited("capture demo, second use (s)", seconds(demo), 8),
        ]


def _process(*arguments: str, **variables: str) -> Job:
    """A Python process with these arguments and environment variables, without its output."""
    return lambda: subprocess.run([sys.executable, *arguments], env=os.environ | variables, capture_output=True, check=True)
