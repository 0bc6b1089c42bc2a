"""Several threads under each of numba's threading layers, and processes that are forked or spawned: the same answers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from attack.row import Row

SECONDS = 300
#: Ends with status 3 if an answer differs.
PROGRAM = """
import multiprocessing, sys, threading
import numpy as np
from capture_cp import Tree, method
from capture_lab.tasks.box import Box

def calibrated():
    box = Box(spacing=0.05)
    log = box.transitions(2000, np.random.default_rng(0))
    cap = method("capture", box, box.strata, n_particles=8, tree=Tree(min_leaf=50)).fit(log.X, log.Y)
    return cap, log.X[:200], log.Y[:200]

def answers(cap, X, Y):
    inside, cells = cap.contains(X, Y, 0.1, rng=1), cap.count_cells(X, 0.1, rng=1)
    return inside.tolist(), cells.tolist(), cap.thresholds(X, 0.1).tolist()

def child(wanted):
    sys.exit(0 if answers(*calibrated()) == wanted else 3)

if __name__ == "__main__":
    parts = calibrated()
    wanted = answers(*parts)
    if sys.argv[1] == "threads":
        found = []
        work = lambda: found.extend(answers(*parts) == wanted for _ in range(20))
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        sys.exit(0 if found == [True] * 160 else 3)
    process = multiprocessing.get_context(sys.argv[1]).Process(target=child, args=(wanted,))
    process.start()
    process.join()
    sys.exit(0 if process.exitcode == 0 else 3 if process.exitcode == 3 else 4)
"""


def rows(seed: int) -> Iterator[Row]:
    for layer in ("omp", "tbb", "workqueue"):
        for way in ("threads", "fork", "spawn"):
            yield attempt(layer, way)


def attempt(layer: str, way: str) -> Row:
    row = Row(f"{way}, {layer}")
    environment = os.environ | {"NUMBA_THREADING_LAYER": layer}
    with row.trying(way):
        done = run(way, environment)
        if "No threading layer could be loaded" in done.stderr:
            return Row(row.attack, note=f"left out: {layer} is not installed")
        assert done.returncode == 0, f"status {done.returncode}: {done.stderr[-300:]}"
    return row


def run(way: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    # a file, not -c: a spawned child imports it
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(PROGRAM)
        command = [sys.executable, file, way]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
