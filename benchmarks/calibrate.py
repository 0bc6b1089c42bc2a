"""Time and memory of `capture calibrate` on a log, compared with reading the file alone: `python -m benchmarks.calibrate`.

The log is that of `benchmarks.fleet`, as Parquet and as CSV. Each run is a separate process, from the start of Python to the
written report. The alternative only reads all columns into arrays, in a process of its own: pandas for CSV, pyarrow for
Parquet.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from benchmarks.comparison import Comparison
from benchmarks.fleet import calibrate, write_log
from capture_cp.base.checks import whole_number

#: Programs that read a whole file, by its ending; the file is their argument.
READERS = {
    ".parquet": ("pyarrow", "import pyarrow.parquet as p; t = p.read_table(f); a = [c.to_numpy() for c in t.columns]"),
    ".csv": ("pandas", "import pandas; a = pandas.read_csv(f).to_numpy()"),
}
_PROGRAM = "import sys, resource; f = sys.argv[1]; {}; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10)"


@dataclass(frozen=True)
class BenchCalibrate:
    """Calibrate on a log of pushes in two formats."""

    rows: Annotated[int, tyro.conf.arg(help="Rows of the log.")] = 300_000
    rounds: Annotated[int, tyro.conf.arg(help="How often each pair of jobs is timed, alternating.")] = 2
    json: Annotated[Path | None, tyro.conf.arg(help="Also write the rows to this file.")] = None

    def run(self, console: Console) -> None:
        """Time both jobs for either format, and print them."""
        whole_number("rows", self.rows, 1000)
        table = Table(title=f"{self.rows:,} rows, median of {self.rounds} interleaved rounds")
        for column in ("log", "calibrate, rows / s", "memory, MB", "reading alone", "rows / s", "memory, MB"):
            table.add_column(column, justify="left" if column in ("log", "reading alone") else "right")
        with tempfile.TemporaryDirectory() as folder:
            found = [self.measure(file) for file in logs(Path(folder), self.rows)]
        for row in found:
            ours, theirs = row["calibrate"], row["reading"]
            cells = [[f"{self.rows / job['seconds']:,.0f}", f"{job['peak'] / 1e6:.0f}"] for job in (ours, theirs)]
            table.add_row(row["log"], *cells[0], row["alternative"], *cells[1])
        console.print(table)
        if self.json is not None:
            self.json.write_text(json.dumps(found, indent=2))

    def measure(self, log: Path) -> dict[str, Any]:
        """Median seconds and peak memory in bytes of a calibration, and of reading alone."""
        alternative, program = READERS[log.suffix]
        out, page = log.with_suffix(".capture"), log.with_suffix(".html")
        jobs: dict[str, Callable[[], dict[str, Any]]] = {
            "calibrate": lambda: calibrate(log, out, "--report", str(page)),
            "reading": lambda: read_alone(log, program),
        }
        times: dict[str, list[dict[str, Any]]] = {name: [] for name in jobs}
        for _ in range(self.rounds):
            for name, job in jobs.items():
                times[name].append(job())
        medians = {
            name: {key: float(np.median([one[key] for one in found])) for key in ("seconds", "peak")}
            for name, found in times.items()
        }
        return {"log": log.suffix.lstrip("."), "rows": self.rows, "alternative": alternative, **medians}


def calibrate_comparisons(rows: int = 1_000_000) -> Iterator[Comparison]:
    """`capture calibrate` without a report on a log of so many rows, against reading the file alone."""
    folder = tempfile.TemporaryDirectory()  # removed with the jobs that use it

    def job(log: Path) -> Callable[[], Any]:
        return lambda: (folder, calibrate(log, log.with_suffix(".capture")))

    for log in logs(Path(folder.name), rows):
        name, program = READERS[log.suffix]
        yield Comparison(
            f"calibrate on {rows:,} rows, {log.suffix[1:]}", job(log),
            f"reading alone, {name}", partial(read_alone, log, program), 0.1, rounds=1,
        )  # fmt: skip


def logs(folder: Path, rows: int) -> list[Path]:
    """The same log in both formats."""
    import pyarrow.csv
    import pyarrow.parquet

    files = [folder / f"log{ending}" for ending in READERS]
    write_log(files[0], rows)
    pyarrow.csv.write_csv(pyarrow.parquet.read_table(files[0]), files[1])
    return files


def read_alone(log: Path, program: str) -> dict[str, Any]:
    """Read a file in a separate process: seconds, and peak memory in bytes."""
    begun = time.perf_counter()
    command = [sys.executable, "-c", _PROGRAM.format(program), str(log)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"seconds": time.perf_counter() - begun, "peak": int(done.stdout)}


def main() -> None:
    """Run it from the command line."""
    tyro.cli(BenchCalibrate, prog="python -m benchmarks.calibrate").run(Console())


if __name__ == "__main__":
    main()
