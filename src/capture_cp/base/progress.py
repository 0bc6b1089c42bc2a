"""What commands print: text without side effects, and bars, spinners or plain lines about long work on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from rich.console import Console
from rich.errors import MarkupError
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from capture_cp.base.checks import printable


class Terminal(Console):
    """A console that prints text literally: control characters are escaped, and invalid markup is shown as text."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render one piece of text, such as a table cell."""
        try:
            return super().render_str(printable(text), **options)
        except MarkupError:
            return super().render_str(printable(text), **(options | {"markup": False}))


class Work(Progress):
    """Progress on stderr, which leaves nothing behind on a terminal. Elsewhere each new description is printed once."""

    shown: ClassVar[int] = 0  # how many are shown now; a terminal has room for one

    def __init__(self, *columns: ProgressColumn) -> None:
        errors = Terminal(stderr=True)
        together = sys.stdout.isatty()  # otherwise output that is piped would be drawn into the terminal with the bars
        plain = not errors.is_terminal
        super().__init__(*columns, console=errors, transient=True, redirect_stdout=together, disable=plain)
        self._printed: set[str] = set()

    def start(self) -> None:
        """Show the bars."""
        super().start()
        Work.shown += 1

    def stop(self) -> None:
        """Remove the bars."""
        super().stop()
        Work.shown -= 1

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


def progress_bar() -> Work:
    """Bars with a description, how many of how many are done, and the remaining time."""
    return Work(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())


@contextmanager
def stage(description: str, everywhere: bool = True) -> Iterator[None]:
    """Show what is being done while the block lasts, and for how long; for work whose length is not known.

    Without `everywhere`, nothing is printed where stderr is no terminal. On one, a stage within other work is not shown.
    """
    on_terminal = Terminal(stderr=True).is_terminal
    if Work.shown if on_terminal else not everywhere:
        yield
        return
    with Work(SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn()) as work:
        work.add_task(description, total=None)
        yield


def advancing(progress: Progress, description: str, total: int | None) -> Callable[[int], object]:
    """Advances its own bar by what it is called with; the bar appears with the first call."""
    bar = progress.add_task(description, total=total, visible=False)
    return lambda done: progress.update(bar, advance=done, visible=True)
