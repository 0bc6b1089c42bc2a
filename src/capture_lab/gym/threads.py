"""Number of threads that compiled loops use in an environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba

#: Rows per thread that justify waking it.
ROWS = 256


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Limit compiled loops to the threads that so many rows justify: waking one takes longer than a step of one robot."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, max(1, rows // ROWS)))
    try:
        yield
    finally:
        numba.set_num_threads(before)
