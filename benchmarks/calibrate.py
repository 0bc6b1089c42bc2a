"""Time of `capture calibrate` on a log, compared with reading the file alone.

The log is that of `benchmarks.fleet`, as Parquet and as CSV. Each run is a separate process, from the start of Python to the
written calibration. The alternative only reads all columns into arrays, in a process of its own: pandas for CSV, pyarrow for
Parquet.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.comparison import Comparison
from benchmarks.fleet import calibrate, write_log

#: Programs that read a whole file, by its ending; the file is their argument.
READERS = {
    ".parquet": ("pyarrow", "import pyarrow.parquet as p; t = p.read_table(f); a = [c.to_numpy() for c in t.columns]"),
    ".csv": ("pandas", "import pandas; a = pandas.read_csv(f).to_numpy()"),
}


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


def read_alone(log: Path, program: str) -> None:
    """Read a file in a separate process."""
    subprocess.run([sys.executable, "-c", f"import sys; f = sys.argv[1]; {program}", str(log)], check=True)
