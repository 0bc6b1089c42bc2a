"""What a calibration remembers of the transitions it came from: their number, a digest, how their inputs were spread."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from capture_cp.base.checks import Floats, Ints
from capture_cp.conformal.drift import column_quantiles
from capture_cp.conformal.units import one_of_each


def provenance(X: Floats, Y: Floats, units: Ints | None, rng: np.random.Generator) -> dict[str, Any]:
    """Facts about transitions X (n, dx), Y (n, dc), of episodes `units` (n,) if any, that JSON can hold."""
    facts: dict[str, Any] = {"rows": len(X), "sha256": digest(X, Y)}
    if units is not None:
        facts["episodes"] = int(units.max()) + 1
    # of an episode one random step: its steps are not independent
    facts["inputs"] = column_quantiles(X if units is None else X[one_of_each(units, rng)])
    return facts


def digest(*arrays: Floats) -> str:
    """SHA-256 of shapes and numbers."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr(array.shape).encode())
        found.update(array.tobytes())
    return found.hexdigest()
