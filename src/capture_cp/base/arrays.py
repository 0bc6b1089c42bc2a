"""A digest of arrays, and arrays out of .npz files that nobody vouches for: nothing runs, memory stays in proportion."""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from capture_cp.base.checks import CaptureError, Floats
from capture_cp.base.files import check_unpacked


def read_arrays(file: Path, kind: str) -> dict[str, npt.NDArray[Any]]:
    """Every array of an .npz file by name. Its sizes are checked against each other before any of them is believed."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            check_unpacked(file, kind, sum(entry.file_size for entry in entries))
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except (CaptureError, MemoryError):
        raise
    except Exception:  # zipfile, zlib, struct, tokenize, NumPy: a damaged archive fails in more ways than a list would hold
        raise CaptureError(f"{kind} {file} is not an npz file of plain arrays, or is damaged.") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> npt.NDArray[Any]:
    # bzip2 and lzma are never written by NumPy, and lzma may ask for gigabytes to unpack a byte
    if not entry.filename.endswith(".npy") or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("not an array")
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, _, dtype = read(stream)
        size = math.prod(shape) * dtype.itemsize
        # NumPy makes room for the shape that is claimed before it looks how much there is to read
        if dtype.itemsize == 0 or min(shape, default=0) < 0 or size != entry.file_size - stream.tell():
            raise ValueError("claims another size than it has")
    with archive.open(entry) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))


def digest(*arrays: Floats) -> str:
    """SHA-256 of shapes and numbers."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr(array.shape).encode())
        found.update(array.tobytes())
    return found.hexdigest()


def digest_of_chunks(digests: Sequence[str]) -> str:
    """The digest of arrays that were digested chunk by chunk; of a single chunk its own."""
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
