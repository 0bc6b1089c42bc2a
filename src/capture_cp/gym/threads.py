"""How many threads compiled loops get in an environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba

#: Rows that are worth waking a thread for.
ROWS = 256


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Compiled loops by no more threads than so many rows are worth: waking one takes longer than a step of one robot."""
    before = numba.get_num_threads()
    numba.set_num_threads(min(before, max(1, rows // ROWS)))
    try:
        yield
    finally:
        numba.set_num_threads(before)
