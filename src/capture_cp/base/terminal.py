"""What is printed: text as it is, whatever characters it holds."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.errors import MarkupError
from rich.text import Text

from capture_cp.base.checks import printable


class Terminal(Console):
    """A console that shows what it is given: control characters are not obeyed, and what is no markup is text."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """One piece of text, such as the cell of a table."""
        try:
            return super().render_str(printable(text), **options)
        except MarkupError:
            return super().render_str(printable(text), **(options | {"markup": False}))
