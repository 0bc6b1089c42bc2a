"""Texts of a page: tables, coverage so far, legends. Names from files and logs are shown literally, never as markup."""

from __future__ import annotations

import html
import string
from collections.abc import Iterable, Mapping, Sequence

from capture_cp.base.checks import printable, shortened
from capture_cp.conformal.coverage import Count
from capture_cp.report.style import Mark, mark_signs

#: Colours and marks are made for a light ground, so legends have one on a dark page too.
CARD = "font-size:0.8em;line-height:1.8;padding:0.2em 0.8em;background:#ffffff;color:#1d2329;border-radius:4px"
SQUARE = "display:inline-block;width:0.8em;height:0.8em;margin:0 0.3em 0 0;border:1px solid #888"
#: The meaning of strong and pale colours.
REGION_KEY = "Strong colours: region. Pale: strata."
#: Letters of a name in a table.
LETTERS = 28


def as_text(name: str, letters: int = LETTERS) -> str:
    """A name in Markdown, with all punctuation escaped."""
    shown = shortened(printable(name), letters)
    return "".join(f"\\{letter}" if letter in string.punctuation else letter for letter in shown)


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """A table in Markdown under a title, with sentences below."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join([title, "", *(f"| {' | '.join(line)} |" for line in lines), *("\n" + note for note in notes)])


def coverage_table(counts: Mapping[str, Sequence[Count]], alpha: float, notes: Iterable[str] = ()) -> str:
    """Steps inside their region so far, over all and by stratum, with exact intervals: a column for each method."""
    title = f"**Coverage so far** (target {target(alpha)}; 95% intervals)"
    rows = [[as_text(parts[0].name), *map(_share, parts)] for parts in zip(*counts.values())]
    return table(title, ["ended in", *counts], rows, notes)


def target(alpha: float) -> str:
    """The share of steps that regions promise to contain."""
    return f"{100 * (1 - alpha):.3g}%"


def _share(count: Count) -> str:
    if not count.steps:
        return "none yet"
    low, high = count.interval
    return f"{count.held} / {count.steps} = {100 * count.held / count.steps:.0f}% ({100 * low:.0f} to {100 * high:.0f})"


def legend(parts: Iterable[tuple[str, str]], marks: Iterable[Mark], key: str = REGION_KEY) -> str:
    """Names next to squares of their colours, and marks, after a sentence `key`: HTML."""
    swatches = "".join(
        f'<span style="white-space:nowrap;margin-right:1em"><span style="{SQUARE};background:{colour}"></span>'
        f"{html.escape(shortened(printable(name), LETTERS))}</span> "
        for name, colour in parts
    )
    return f'<div style="{CARD}"><div>{key}</div><div>{swatches}</div>{mark_signs(marks)}</div>'
