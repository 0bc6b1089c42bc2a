"""Matrix products on one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_blas_thread(wanted: bool = True) -> Iterator[None]:
    """While the block lasts, NumPy's matrix products use one thread.

    For many small products. After each one, the other threads of OpenBLAS wait for the next in a busy loop, which takes time
    from compiled loops and costs more than they contribute. Products are the same, since threads share out rows.
    """
    try:
        from threadpoolctl import threadpool_limits  # comes with scikit-learn
    except ImportError:
        wanted = False
    if not wanted:
        yield
        return
    with threadpool_limits(1, user_api="blas"):
        yield
