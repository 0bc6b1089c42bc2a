"""What commands show about long work: bars and spinners on a terminal, one line per stage elsewhere. Always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from capture_cp.base.notices import is_compiling
from capture_cp.base.terminal import Terminal


class Work(Progress):
    """Progress on stderr, which leaves nothing behind on a terminal. Elsewhere each new description is printed once."""

    def __init__(self, *columns: ProgressColumn) -> None:
        errors = Terminal(stderr=True)
        # output that is piped must not be drawn into the terminal with the bars
        apart = {"redirect_stdout": sys.stdout.isatty(), "disable": not errors.is_terminal}
        super().__init__(*columns, console=errors, transient=True, **apart)
        self._printed: set[str] = set()

    def add_task(self, *arguments: Any, **settings: Any) -> TaskID:
        """A bar, see `rich.progress.Progress`."""
        bar = super().add_task(*arguments, **settings)
        self._print(bar)
        return bar

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change a bar, see `rich.progress.Progress`."""
        super().update(task_id, **changes)
        self._print(task_id)

    def _print(self, bar: TaskID) -> None:
        if self.console.is_terminal:
            return
        description = next((task.description for task in self.tasks if task.id == bar and task.visible), None)
        if description is not None and description not in self._printed:
            self._printed.add(description)
            self.console.print(description, markup=False, highlight=False, soft_wrap=True)


class Description(TextColumn):
    """What is being done; also that kernels are being compiled, which takes a while at their first use."""

    def __init__(self) -> None:
        super().__init__("{task.description}")

    def render(self, task: Task) -> Text:
        """The description of a bar."""
        text = super().render(task)
        return Text.assemble(text, (" (compiling)", "dim")) if is_compiling() else text


def progress_bar() -> Work:
    """Bars with a description, how many of how many are done, and the remaining time."""
    return Work(Description(), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


@contextmanager
def stage(description: str, everywhere: bool = True) -> Iterator[None]:
    """Show what is being done while the block lasts, and for how long; for work whose length is not known.

    Without `everywhere`, nothing is printed where stderr is no terminal.
    """
    if not everywhere and not Terminal(stderr=True).is_terminal:
        yield
        return
    with Work(SpinnerColumn("line"), Description(), TimeElapsedColumn()) as work:
        work.add_task(description, total=None)
        yield


def advancing(progress: Progress, description: str, total: int | None) -> Callable[[int], object]:
    """Advances its own bar by what it is called with; the bar appears with the first call."""
    bar = progress.add_task(description, total=total, visible=False)
    return lambda done: progress.update(bar, advance=done, visible=True)
