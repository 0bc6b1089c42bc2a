"""Files that mean harm: valid ones with something changed, by accident (bytes) or by design (structure, new checksums)."""

from __future__ import annotations

from mutations.archives import NPZ, odd_episode_header
from mutations.calibrations import CALIBRATION, HISTORY
from mutations.columns import PARQUET
from mutations.raw import BYTES, Mutation, Rng, pick
from mutations.recordings import DATABASE, HDF5, MCAP
from mutations.text import CSV

KINDS: dict[str, list[Mutation]] = {
    "calibration": BYTES + 2 * CALIBRATION,
    "episodes": BYTES + 2 * CALIBRATION,
    "horizon": BYTES + 2 * CALIBRATION,
    "history": BYTES + 2 * HISTORY,
    "csv": BYTES + 2 * CSV,
    "npz": BYTES + 2 * NPZ,
    "parquet": BYTES + 2 * PARQUET,
    "mcap": BYTES + 2 * MCAP,
    "db3": BYTES + 2 * DATABASE,
    "hdf5": BYTES + 2 * HDF5,
    "episode": BYTES + NPZ + 3 * [odd_episode_header],
}


def mutated(kind: str, data: bytes, rng: Rng) -> bytes:
    """One file that is not quite `data`; a quarter of them are changed twice."""
    changed = pick(rng, KINDS[kind])(data, rng)
    if rng.random() < 0.25 and changed:
        changed = pick(rng, BYTES)(changed, rng)
    return changed or b"\0"
