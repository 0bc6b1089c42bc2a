"""Write the published tosses of the elbow as one Parquet file.

Run: python convert.py dair_pll/assets/contactnets_elbow tosses.parquet [tosses.txt]

tosses.txt lists the tosses that our results are of; without it, all are written.

A published file is a zip archive with a member that holds doubles; nothing else of it is read, and torch is not needed.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PERIOD = 0.0068  # s between rows
#: As published: the first link's quaternion, position, the hinge, the first link's rates and velocity, the hinge's rate.
PUBLISHED = ("qw", "qx", "qy", "qz", "px", "py", "pz", "hinge", "wx", "wy", "wz", "vx", "vy", "vz", "vhinge")
NAMES = ("px", "py", "pz", "qw", "qx", "qy", "qz", "hinge", "vx", "vy", "vz", "wx", "wy", "wz", "vhinge")
MEMBER = "archive/data/0"
LARGEST = 1 << 24  # bytes


def read(file: Path) -> np.ndarray:
    """The numbers of a published file, (n, 15)."""
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo(MEMBER).file_size > LARGEST:
                raise SystemExit(f"{file} holds more than {LARGEST} bytes; a toss has 15 KB.")
            numbers = archive.read(MEMBER)
    except (zipfile.BadZipFile, KeyError) as error:
        raise SystemExit(f"{file} is no tensor in torch's format: {error}") from None
    if not numbers or len(numbers) % (8 * len(PUBLISHED)):
        raise SystemExit(f"{file} does not hold rows of {len(PUBLISHED)} doubles.")
    return np.frombuffer(numbers, "<f8").reshape(-1, len(PUBLISHED))


def states(rows: np.ndarray) -> np.ndarray:
    """The rows of a file in the order of NAMES, quaternions unit and continuous in sign, (n, 15)."""
    rows = rows[:, [PUBLISHED.index(name) for name in NAMES]]
    quaternion = rows[:, 3:7] / np.linalg.norm(rows[:, 3:7], axis=1, keepdims=True)
    flips = np.sum(quaternion[1:] * quaternion[:-1], axis=1) < 0
    rows[:, 3:7] = quaternion * np.where(np.cumsum([0, *flips]) % 2, -1, 1)[:, None]
    return rows


def convert(folder: Path, target: Path, numbers: Path | None = None) -> None:
    """Write the files of a folder, `NUMBER.pt` each, in the order of their numbers: all, or those listed in a file."""
    listed = numbers.read_text().split() if numbers else [file.stem for file in folder.glob("*.pt")]
    if not listed:
        raise SystemExit(
            f"{folder} holds no .pt files; clone github.com/DAIRLab/dair_pll and pass its assets/contactnets_elbow."
        )
    chosen = sorted(map(int, listed))
    tosses = [states(read(folder / f"{number}.pt")) for number in chosen]
    lengths = [len(toss) for toss in tosses]
    step = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
    columns = {"toss": np.repeat(np.array(chosen, dtype=np.int32), lengths), "step": step}
    columns["time"] = (step * PERIOD).astype(np.float32)
    columns |= dict(zip(NAMES, np.concatenate(tosses).astype(np.float32).T))
    pq.write_table(pa.table(columns), target)
    print(f"{target}: {len(tosses)} tosses, {len(step)} rows")


if __name__ == "__main__":
    convert(*map(Path, sys.argv[1:]))
