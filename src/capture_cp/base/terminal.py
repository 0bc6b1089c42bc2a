"""Printing of arbitrary text: control characters and accidental markup have no effect."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.errors import MarkupError
from rich.text import Text

from capture_cp.base.errors import printable


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
