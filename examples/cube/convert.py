"""Write the published tosses of the cube as one Parquet file.

Run: python convert.py contact-nets/data/tosses_processed tosses.parquet [tosses.txt]

tosses.txt lists the tosses that our results are of; without it, all are written.

A published file is a tensor in torch's old format: five pickles, the number of doubles, the doubles. The pickles are only
skipped, never loaded, so that nothing in a file can run code and torch is not needed.
"""

from __future__ import annotations

import pickletools
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

UNIT = 0.0524  # m: lengths are published in half sides of the cube
RATE = 148  # rows per second, nominally
NAMES = ("px", "py", "pz", "qw", "qx", "qy", "qz", "vx", "vy", "vz", "wx", "wy", "wz")


def read(file: Path) -> np.ndarray:
    """The numbers of a published file, (n, 19)."""
    with file.open("rb") as source:
        try:
            heads = [[argument for _, argument, _ in pickletools.genops(source)] for _ in range(5)]
        except ValueError as error:
            raise SystemExit(f"{file} is no tensor in torch's old format: {error}") from None
        count = int.from_bytes(source.read(8), "little")
        numbers = source.read()
    if "torch DoubleStorage" not in heads[3] or len(numbers) != 8 * count or count % 19:
        raise SystemExit(f"{file} does not hold rows of 19 doubles.")
    return np.frombuffer(numbers, "<f8").reshape(-1, 19)


def states(rows: np.ndarray) -> np.ndarray:
    """Position (m), quaternion (w x y z), velocity (m/s), rates in the cube's frame (rad/s): (n, 13) from a file's rows."""
    position, quaternion, velocity, rates = np.split(rows[:, :13], [3, 7, 10], axis=1)
    quaternion = quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)
    flips = np.sum(quaternion[1:] * quaternion[:-1], axis=1) < 0
    signs = np.where(np.cumsum([0, *flips]) % 2, -1, 1)[:, None]  # continuous
    return np.hstack([UNIT * position, signs * quaternion, UNIT * velocity, rates])


def convert(folder: Path, target: Path, numbers: Path | None = None) -> None:
    """Write the files of a folder, `NUMBER.pt` each, in the order of their numbers: all, or those listed in a file."""
    listed = numbers.read_text().split() if numbers else [file.stem for file in folder.glob("*.pt")]
    if not listed:
        raise SystemExit(
            f"{folder} holds no .pt files; clone github.com/DAIRLab/contact-nets and pass its data/tosses_processed."
        )
    chosen = sorted(map(int, listed))
    tosses = [states(read(folder / f"{number}.pt")) for number in chosen]
    lengths = [len(toss) for toss in tosses]
    step = np.concatenate([np.arange(length, dtype=np.int32) for length in lengths])
    columns = {"toss": np.repeat(np.array(chosen, dtype=np.int32), lengths), "step": step}
    columns["time"] = (step / RATE).astype(np.float32)
    columns |= dict(zip(NAMES, np.concatenate(tosses).astype(np.float32).T))
    pq.write_table(pa.table(columns), target)
    print(f"{target}: {len(tosses)} tosses, {len(step)} rows")


if __name__ == "__main__":
    convert(*map(Path, sys.argv[1:]))
