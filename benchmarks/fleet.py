"""Time and memory of `capture calibrate` on 1 to 100 million rows of Parquet: `python -m benchmarks.fleet`.

Each run is a separate process, whose peak memory the system reports. Time should be proportional to the number of rows: the
slope of log time over log rows is printed, which is 1 for proportionality.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

GROUP = 1 << 20  # rows of a row group
COLUMNS = {"state": ["x", "y"], "action": ["push_x", "push_y"], "next": ["next_x", "next_y"]}


def write_log(file: Path, rows: int, seed: int = 0) -> None:
    """Pushes of a puck in a box, with walls and noise, as float64 columns."""
    import pyarrow
    import pyarrow.parquet

    names = [name for part in COLUMNS.values() for name in part]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
    with pyarrow.parquet.ParquetWriter(file, schema, use_dictionary=False, compression="zstd") as writer:
        for number, first in enumerate(range(0, rows, GROUP)):
            n, rng = min(GROUP, rows - first), np.random.default_rng([seed, number])
            state, push = rng.random((n, 2)), rng.uniform(-0.1, 0.1, (n, 2))
            after = np.clip(state + 0.8 * push + 0.01 * rng.standard_normal((n, 2)), 0.0, 1.0)
            arrays = [pyarrow.array(column) for column in np.hstack([state, push, after]).T]
            writer.write_table(pyarrow.table(arrays, schema=schema), row_group_size=GROUP)


def calibrate(log: Path, out: Path) -> dict[str, Any]:
    """One calibration in a separate process: seconds, and peak memory in bytes."""
    columns = [word for role, names in COLUMNS.items() for word in (f"--{role}", *names)]
    given = [str(log), *columns, "--out", str(out), "--report", os.devnull]
    command = [sys.executable, "-m", "benchmarks.fleet", "--one", *given]
    begun = time.perf_counter()
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path})
    if done.returncode:
        raise SystemExit(done.stderr)
    peak = json.loads(done.stdout.splitlines()[-1])["peak"]
    return {"seconds": time.perf_counter() - begun, "peak": peak}


def one(arguments: list[str]) -> None:
    """The work of the other process: calibrate, and report its peak memory and that of its workers."""
    from capture_cp.cli import main

    main(["calibrate", *arguments])
    mine, workers = (resource.getrusage(who).ru_maxrss << 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    print(json.dumps({"peak": mine, "workers": workers}))


def main() -> None:
    """Print a table, and the slope."""
    if sys.argv[1:2] == ["--one"]:
        return one(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 10, 100])
    parser.add_argument("--folder", type=Path, default=None, help="where logs are kept between runs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        found = []
        for millions in given.millions:
            rows, log = int(millions * 1e6), folder / f"pushes-{millions:g}.parquet"
            if not log.exists():
                write_log(log, rows)
            found.append(calibrate(log, folder / f"pushes-{millions:g}.capture"))
            seconds, peak = found[-1]["seconds"], found[-1]["peak"]
            print(
                f"{rows:12,} rows  {seconds:8.1f} s  {1e6 * seconds / rows:6.2f} s per million  {peak / 1e9:.2f} GB",
                flush=True,
            )
        if len(found) > 1:
            slope = np.polyfit(np.log(given.millions), np.log([one["seconds"] for one in found]), 1)[0]
            print(f"slope of log time over log rows: {slope:.2f}")


if __name__ == "__main__":
    main()
