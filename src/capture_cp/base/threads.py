"""Work on several threads, with results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int, begin: Callable[[], object] | None = None
) -> Iterator[Result]:
    """`work(item)` of every item, in order, on so many threads; each calls `begin` first. With one thread it is this one.

    An item is taken when a thread is about to need it, so that few are in memory.
    """
    if threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads, initializer=begin) as pool:
        todo: deque[Future[Result]] = deque()
        for item in items:
            todo.append(pool.submit(work, item))
            if len(todo) > threads:
                yield todo.popleft().result()
        while todo:
            yield todo.popleft().result()
